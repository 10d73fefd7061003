"""Evaluate predictions against the known classes, the truth.

With two classes, or if ``positive`` names one of several, the ranking metrics are of that class
against the rest. With several classes and no ``positive`` they are means over the classes.

The predicted class of a row is the one of the predictions themselves: by the threshold that *Choose
threshold* saved with the model, else the most probable class. Accuracy, balanced accuracy, the
table of classes and the confusion matrix use it. A ``threshold`` that is set here replaces it.

Without any threshold, F1 alone is reported where it is highest on the evaluated rows, together with
that threshold. Such a figure is optimistic, and the report marks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import listed
from engine.values import Costs, Predictions, Report, ThresholdDecision
from nodes.data.columns import HOW_TO_TARGET, task_of
from nodes.data.row_identity import row_digests
from nodes.models import regression
from nodes.models.uncertainty import evaluated_groups, intervals_of

if TYPE_CHECKING:
    import numpy as np

    from deepforest.metrics import Curve, Metric
    from nodes.models.decision import ThresholdCounts

RATES = {
    "recall_at_1_in_10000": 1 / 10_000,
    "recall_at_1_in_1000": 1 / 1_000,
    "recall_at_1_in_100": 1 / 100,
}
MAX_CURVES = 12
OPTIMISTIC = "best F1 (optimistic)"
"""Stands beside a threshold that was chosen on the evaluated rows themselves."""


class EvaluateParams(NodeParams):
    """Choose the name of the evaluation, the positive class and the threshold."""

    name: str = Field(
        "",
        max_length=200,
        title="Name",
        description="Name of these predictions in a comparison; empty: the model's title.",
    )
    positive: str | None = Field(
        None,
        title="Positive class",
        description="The class to find, such as fraud. Empty: the one of the threshold that Choose "
        "threshold saved with the model, else the last one of two classes; with more classes, "
        "metrics are means over all of them.",
        json_schema_extra=form_hint(choose="class"),
    )
    threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        title="Threshold",
        description="Probability from which a row counts as positive. Empty: the threshold that "
        "Choose threshold saved with the model. A model without one predicts the most probable "
        "class; F1 is then reported at the threshold where it is highest on these rows, which is "
        "optimistic.",
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: EvaluateParams) -> dict[str, Any]:
    """Evaluate the rows whose class is known; raise ``BadInput`` without such rows."""
    predictions: Predictions = inputs["predictions"]
    if not predictions.classes:
        return {"report": _of_numbers(ctx, predictions, params)}
    truth, probabilities = rows_with_truth(predictions)
    name = ctx.branch.title(params.name) if ctx.branch else params.name or predictions.model
    amounts = _amounts(predictions, ctx)
    report = evaluation(
        name,
        truth,
        probabilities,
        predictions.classes,
        params,
        decision=predictions.decision,
        amounts=amounts,
    )
    test_rows = row_digests(truth, predictions.classes, predictions.columns)
    positive, ranked = report.data["positive"], None
    if positive is not None:
        ranked = one_against_rest(truth, probabilities, predictions.classes.index(positive))
    groups = evaluated_groups(predictions)
    known = intervals_of(
        report.headline,
        truth,
        probabilities,
        ranked=ranked,
        groups=groups,
        money=_money_metric(report, amounts),
    )
    return {"report": replace(report, data={**report.data, "test_rows": test_rows, **known})}


def _money_metric(report: Report, amounts: np.ndarray | None) -> Metric | None:
    """Return the money of the predicted classes as a metric; None if it is not known."""
    from nodes.models.decision import money_metric

    costs, thresholds = report.data.get("costs"), report.data.get("thresholds")
    if costs is None or thresholds is None:
        return None
    return money_metric(Costs(**costs), thresholds["threshold"][thresholds["at"]], amounts)


def _of_numbers(ctx: NodeContext, predictions: Predictions, params: EvaluateParams) -> Report:
    """Return the evaluation of predicted numbers."""
    regression.check_settings(params)
    truth, predicted = regression.rows_with_truth(predictions)
    name = ctx.branch.title(params.name) if ctx.branch else params.name or predictions.model
    report = regression.evaluation(name, truth, predicted)
    test_rows = row_digests(truth, [], predictions.columns)
    groups = evaluated_groups(predictions)
    known = intervals_of(report.headline, truth, predicted, groups=groups)
    return replace(report, data={**report.data, "test_rows": test_rows, **known})


def evaluation(
    name: str,
    truth: np.ndarray,
    probabilities: np.ndarray,
    classes: list[str],
    params: EvaluateParams,
    *,
    decision: ThresholdDecision | None = None,
    amounts: np.ndarray | None = None,
) -> Report:
    """Return every metric, the curves and the confusion matrix of rows whose classes are known.

    ``decision`` is that of the model, and ``amounts`` the money at stake in each row, if known.
    Raise ``BadInput`` if the positive class does not exist, or if a threshold has none.
    """
    if params.positive is not None and params.positive not in classes:
        raise BadInput(
            f"the class '{params.positive}' does not exist; the classes are {listed(classes)}",
            field="positive",
        )
    if len(classes) == 2 or params.positive is not None:
        return _of_one_class(name, truth, probabilities, classes, params, decision, amounts)
    if params.threshold is not None:
        raise BadInput(
            "a threshold needs a positive class when there are more than two classes; "
            "set Positive class, or leave Threshold empty",
            field="threshold",
        )
    return _of_many_classes(name, truth, probabilities, classes)


def columns(
    inputs: Mapping[str, Columns | None], params: EvaluateParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the scored rows will have no target."""
    scored = inputs.get("predictions")
    if scored is not None and not any(column.role == "target" for column in scored):
        raise BadInput(
            f"the scored table has no target to compare the predictions with; {HOW_TO_TARGET}"
        )
    if scored is not None and task_of(scored) == "regression":
        regression.check_settings(params)
    return {}


def rows_with_truth(predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """Return class numbers and probabilities of the rows whose class is known."""
    import pyarrow as pa

    from nodes.models.encoder import MISSING, class_codes

    if predictions.truth is None:
        raise BadInput(
            "the scored table has no target to compare the predictions with; set Target in its "
            "Load data node"
        )
    codes = class_codes(pa.chunked_array([predictions.truth]), predictions.classes)
    known = codes != MISSING
    if not known.any():
        raise BadInput(
            "the target is missing in all rows, so nothing can be evaluated; use rows with known "
            "classes"
        )
    return codes[known], predictions.probabilities[known]


def _amounts(predictions: Predictions, ctx: NodeContext) -> np.ndarray | None:
    """Return the amounts by which the model's threshold was chosen, of the rows with a truth.

    It is None without such amounts, or if one of them is wrong: the rest can be evaluated.
    """
    costs = predictions.decision.costs if predictions.decision else None
    carried = predictions.carried
    if costs is None or costs.amounts is None or carried is None or predictions.truth is None:
        return None
    if costs.amounts not in carried.column_names:
        return None
    from nodes.models.decision import row_amounts

    try:
        known = carried.column(costs.amounts).filter(predictions.truth.is_valid())
        return row_amounts(known, costs.amounts)
    except BadInput as problem:
        ctx.log(f"The money saved is not known: {problem.message}")
        return None


def _threshold_for(decision: ThresholdDecision, positive: str) -> float:
    """Return the threshold of the model for one of its two classes."""
    import numpy as np

    if decision.positive == positive:
        return decision.threshold
    # The other class is predicted below the threshold: from the next number above 1 − t on.
    return float(np.nextafter(1 - decision.threshold, 2))


def _of_one_class(
    name: str,
    truth: np.ndarray,
    probabilities: np.ndarray,
    classes: list[str],
    params: EvaluateParams,
    decision: ThresholdDecision | None,
    amounts: np.ndarray | None,
) -> Report:
    """Return the evaluation of one class against the rest, or of two classes."""
    from deepforest import metrics

    positive = len(classes) - 1
    if params.positive is not None:
        positive = classes.index(params.positive)
    elif decision is not None:
        positive = classes.index(decision.positive)
    against_rest = one_against_rest(truth, probabilities, positive)
    # The threshold of the predicted classes; None: the most probable class.
    decided, rule = params.threshold, "given"
    if decided is None and decision is not None:
        decided, rule = _threshold_for(decision, classes[positive]), "model"
    threshold = decided
    if threshold is None:
        best = metrics.best_f1(*against_rest)
        threshold, rule = best[1] if best else 0.5, "best F1"
    others = classes[1 - positive] if len(classes) == 2 else "all others"
    labels = [others, classes[positive]]
    matrix = metrics.confusion_matrix(*against_rest, threshold=decided)
    headline = _headline(truth, probabilities, against_rest, classes[positive])
    headline |= {"f1": metrics.f1(*against_rest, threshold=threshold), "threshold": threshold}
    if decided is None:
        headline["threshold_rule"] = OPTIMISTIC
    if decided is not None and len(classes) == 2:
        # With a threshold, the matrix holds other decisions than the most probable class.
        headline |= _accuracies(matrix)
    # Costs are those of one class: for the other one, a false alarm is something else.
    costs = None
    if decision is not None and decision.positive == classes[positive]:
        costs = decision.costs
    if costs is not None and costs.amounts is not None and amounts is None:
        costs = None
    thresholds, money = _thresholds(against_rest, decided, threshold, amounts, costs)
    return Report(
        "evaluation",
        name,
        headline | money,
        rows=per_class(matrix, labels),
        data={
            "classes": classes,
            "positive": classes[positive],
            "threshold_rule": rule,
            "decision": None if rule != "model" or decision is None else decision.to_json(),
            "costs": None if costs is None else asdict(costs),
            "curves": [_curves(classes[positive], *against_rest)],
            "thresholds": thresholds,
            "confusion": _confusion(matrix, labels, decided),
        },
    )


def _thresholds(
    against_rest: tuple[np.ndarray, np.ndarray],
    decided: float | None,
    best: float,
    amounts: np.ndarray | None,
    costs: Costs | None,
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the counts at some thresholds, for a slider, and the money of the decisions.

    ``at`` is the position of the predicted classes, ``best`` that of the highest F1.
    """
    import numpy as np

    from nodes.models.decision import ThresholdCounts

    truth, probabilities = against_rest
    counts = ThresholdCounts.of(truth == 1, probabilities[:, 1], amounts)
    if decided is None:
        # The class is the most probable one above a half. At exactly a half it is the other one.
        decided = float(np.nextafter(0.5, 1))
    counts = counts.with_threshold(decided)
    highest = _highest_f1(counts, best)
    counts = counts.thinned(keep=(counts.at(decided), highest))
    at = counts.at(decided)
    data = {**counts.to_json(), "at": at, "best": _highest_f1(counts, best)}
    if costs is None:
        return data, {}
    return data, {costs.name: costs.shown(float(counts.money(costs)[at]))}


def _highest_f1(counts: ThresholdCounts, best: float) -> int:
    """Return the position of the highest F1, that of ``best`` without positive rows."""
    if not counts.positives:
        return counts.at(best)
    return int(counts.f1.argmax())


def _of_many_classes(
    name: str, truth: np.ndarray, probabilities: np.ndarray, classes: list[str]
) -> Report:
    """Return the evaluation of more than two classes, each with its own curves.

    Only the ``MAX_CURVES`` most frequent classes have curves, in the order of the classes.
    """
    import numpy as np

    from deepforest import metrics

    matrix = metrics.confusion_matrix(truth, probabilities)
    frequent = np.argsort(-matrix.sum(axis=1), kind="stable")[:MAX_CURVES]
    drawn = [code for code in sorted(frequent.tolist()) if matrix[code].any()]
    curves = [
        _curves(classes[code], *one_against_rest(truth, probabilities, code)) for code in drawn
    ]
    return Report(
        "evaluation",
        name,
        _headline(truth, probabilities, (truth, probabilities)) | {"threshold": None},
        rows=per_class(matrix, classes),
        data={
            "classes": classes,
            "positive": None,
            "threshold_rule": "most probable class",
            "curves": curves,
            "confusion": _confusion(matrix, classes, None),
        },
    )


def _headline(
    truth: np.ndarray,
    probabilities: np.ndarray,
    ranked: tuple[np.ndarray, np.ndarray],
    positive: str | None = None,
) -> dict[str, float | int | str | None]:
    """Return the main figures of the report.

    Accuracy, balanced accuracy and log loss are of all classes (``truth``, ``probabilities``). The
    metrics that rank rows are of ``ranked``: the positive class against the rest, or all classes.
    """
    from deepforest import metrics

    return {
        "accuracy": metrics.accuracy(truth, probabilities),
        "balanced_accuracy": metrics.balanced_accuracy(truth, probabilities),
        "log_loss": metrics.log_loss(truth, probabilities),
        "positive": positive,
        "auc": metrics.auc(*ranked),
        "f1": metrics.f1(*ranked),
        "threshold": None,
        "ks": metrics.ks(*ranked),
        "average_precision": metrics.average_precision(*ranked),
        # Recall among the top-scored rows has a meaning only for one class that is to be found.
        **{
            name: metrics.recall_at_rate(*ranked, rate=rate) if positive else None
            for name, rate in RATES.items()
        },
        "rows": len(truth),
    }


def _accuracies(matrix: np.ndarray) -> dict[str, float | int | str | None]:
    """Return accuracy and balanced accuracy of the decisions in a confusion matrix."""
    right, actual = matrix.diagonal(), matrix.sum(axis=1)
    occurs = actual > 0
    return {
        "accuracy": float(right.sum() / actual.sum()),
        "balanced_accuracy": float((right[occurs] / actual[occurs]).mean()),
    }


def one_against_rest(
    truth: np.ndarray, probabilities: np.ndarray, positive: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same rows with two classes: 0 for the rest, 1 for the positive class."""
    import numpy as np

    score = probabilities[:, positive]
    return (truth == positive).astype(np.intp), np.column_stack([1 - score, score])


def _confusion(matrix: np.ndarray, labels: list[str], threshold: float | None) -> dict[str, Any]:
    """Return a confusion matrix as plain data: rows are true classes, columns predicted ones."""
    return {"labels": labels, "counts": matrix.astype(int).tolist(), "threshold": threshold}


def per_class(
    counts: np.ndarray | Sequence[Sequence[int]], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """Return precision, recall and F1 of each class; None where the divisor would be zero.

    ``counts`` is a confusion matrix.
    """
    import numpy as np

    matrix = np.asarray(counts)
    right, actual, predicted = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
    rows: list[dict[str, Any]] = []
    for code, label in enumerate(labels):
        row = {"class": label, "rows": int(actual[code]), "predicted": int(predicted[code])}
        row |= {"precision": None, "recall": None, "f1": None}
        if predicted[code]:
            row["precision"] = float(right[code] / predicted[code])
        if actual[code]:
            row["recall"] = float(right[code] / actual[code])
            row["f1"] = float(2 * right[code] / (actual[code] + predicted[code]))
        rows.append(row)
    return rows


def _curves(label: str, truth: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Return the ROC and the precision-recall curve of one class, and its share of the rows."""
    from deepforest import metrics

    positive, score = truth == 1, probabilities[:, 1]
    roc = metrics.roc_curve(positive, score)
    precision_recall = metrics.precision_recall_curve(positive, score)
    return {
        "class": label,
        "share": float(positive.mean()),
        "roc": _points(roc, "false_positive_rate", "true_positive_rate"),
        "precision_recall": _points(precision_recall, "recall", "precision"),
    }


def _points(curve: Curve | None, x: str, y: str) -> dict[str, list[float | None]] | None:
    """Return a curve as lists for JSON, where an infinite threshold is None."""
    import numpy as np

    if curve is None:
        return None
    thresholds = [float(value) if np.isfinite(value) else None for value in curve.threshold]
    return {x: curve.x.tolist(), y: curve.y.tolist(), "threshold": thresholds}


def python(params: EvaluateParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that evaluate and print the result."""
    report = names.outputs["report"]
    arguments = changed_params(params)
    if names.branch:
        arguments["name"] = names.branch.title(params.name)
    return Snippet(
        [
            *statement(report, "steps.evaluate", names.inputs["predictions"], **arguments),
            *statement("", "steps.tell", str(report), report),
        ],
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="evaluate",
    title="Evaluate",
    category="Evaluate",
    summary="Compares predictions with the known classes: accuracy, AUC, F1, KS, recall at "
    "interrupt rates, curves; predicted numbers with the known ones: RMSE, MAE, R².",
    version=5,
    params=EvaluateParams,
    run=run,
    python=python,
    inputs=(Port("predictions", "predictions", "Predictions"),),
    outputs=(Port("report", "report", "Evaluation", role="evaluation"),),
    output_columns=columns,
    imports=("numpy", "nodes.models.encoder", "nodes.models.decision", "deepforest.bootstrap"),
)
