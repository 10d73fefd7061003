"""Choose from which probability on a row counts as positive, on validation rows.

The threshold is chosen on the probabilities of the model and saved with it. Rows that the model was
trained on would make it too high, and the test rows must stay untouched, so the node takes rows of
its own.

With a calibration, the threshold is chosen on calibrated probabilities: where these reach 0 or 1,
rows that the model can separate become equal. The calibration that is saved is fitted on all
validation rows. How well it works is measured by folds: each row is calibrated by a map that was
fitted on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import listed
from engine.values import Costs, Report, Table, ThresholdDecision
from nodes.data.columns import HOW_TO_TARGET, KIND_TITLES, require_column
from nodes.models.model import FittedModel, load_model

if TYPE_CHECKING:
    import numpy as np

    from nodes.models.decision import ThresholdCounts

FOLDS = 5
"""Parts of the validation rows by which a calibration is measured."""
MAX_COST = 1e12
"""Larger costs are mistakes, and their sums may be more than a number can hold."""
SHARES = {"1/100": 1 / 100, "1/1000": 1 / 1_000, "1/10000": 1 / 10_000}
BY_COSTS, BY_AMOUNTS = form_hint(when={"rule": "costs"}), form_hint(when={"rule": "amounts"})
QUANTITIES = {"f1": "f1", "rate": "recall", "precision": "precision", "recall": "recall"}
"""The figure that a report draws against the threshold, by the rule; of others, the money."""


class ChooseThresholdParams(NodeParams):
    """Choose the rule, its limits or costs, and the calibration."""

    rule: Literal["f1", "rate", "precision", "recall", "costs", "amounts"] = Field(
        "f1",
        title="Choose by",
        description="What the threshold is the best for on the validation rows.",
        json_schema_extra=form_hint(
            words={
                "f1": "F1",
                "rate": "interrupt rate",
                "precision": "precision floor",
                "recall": "recall floor",
                "costs": "costs",
                "amounts": "money in a column",
            }
        ),
    )
    rate: Literal["1/100", "1/1000", "1/10000", "other"] = Field(
        "1/1000",
        title="Interrupt rate",
        description="How many of all rows may count as positive, and so be interrupted or checked.",
        json_schema_extra=form_hint(
            when={"rule": "rate"},
            words={
                "1/100": "1 row in 100",
                "1/1000": "1 row in 1,000",
                "1/10000": "1 row in 10,000",
                "other": "another share",
            },
        ),
    )
    other_rate: float = Field(
        0.005,
        gt=0,
        lt=1,
        title="Share of the rows",
        description="The interrupt rate as a share of all rows: 0.005 is 1 row in 200.",
        json_schema_extra=form_hint(when={"rule": "rate", "rate": "other"}),
    )
    precision: float = Field(
        0.9,
        gt=0,
        le=1,
        title="Precision floor",
        description="At least this share of the interrupted rows must be positive; as many "
        "positive rows as possible are found.",
        json_schema_extra=form_hint(when={"rule": "precision"}),
    )
    recall: float = Field(
        0.8,
        gt=0,
        le=1,
        title="Recall floor",
        description="At least this share of the positive rows must be found, with the highest "
        "precision.",
        json_schema_extra=form_hint(when={"rule": "recall"}),
    )
    false_alarm_cost: float = Field(
        1.0,
        ge=0,
        le=MAX_COST,
        title="Cost per false alarm",
        description="What it costs to interrupt a row that is not positive.",
        json_schema_extra=BY_COSTS,
    )
    missed_cost: float = Field(
        10.0,
        ge=0,
        le=MAX_COST,
        title="Cost per missed positive",
        description="What it costs not to find a positive row.",
        json_schema_extra=BY_COSTS,
    )
    gain: float = Field(
        0.0,
        ge=0,
        le=MAX_COST,
        title="Gain per positive found",
        description="What it is worth to find a positive row, besides the cost that it saves.",
        json_schema_extra=BY_COSTS,
    )
    amounts: str | None = Field(
        None,
        title="Amounts",
        description="The column with the money at stake in each row. That of a positive row is "
        "saved when the row is found.",
        json_schema_extra=form_hint(choose="column", when={"rule": "amounts"}),
    )
    interruption_cost: float = Field(
        1.0,
        ge=0,
        le=MAX_COST,
        title="Cost per interruption",
        description="What it costs to interrupt or check a row, positive or not.",
        json_schema_extra=BY_AMOUNTS,
    )
    positive: str | None = Field(
        None,
        title="Positive class",
        description="The class to find, such as fraud. Empty: the last of the two classes.",
        json_schema_extra=form_hint(choose="class"),
    )
    calibration: Literal["none", "isotonic", "sigmoid"] = Field(
        "none",
        title="Calibration",
        description="Correct the probabilities so that of 100 rows with 30 %, about 30 are "
        "positive. Isotonic needs about 1,000 rows or more; a sigmoid has two numbers and needs "
        "few. The order of the rows stays.",
        json_schema_extra=form_hint(
            words={"none": "none", "isotonic": "isotonic", "sigmoid": "sigmoid (Platt)"}
        ),
    )

    @property
    def share(self) -> float:
        """Return the interrupt rate as a number."""
        return SHARES.get(self.rate, self.other_rate)

    @property
    def costs(self) -> Costs | None:
        """Return what decisions are worth; None if the rule does not say it."""
        if self.rule == "costs":
            return Costs(self.false_alarm_cost, self.missed_cost, self.gain)
        if self.rule == "amounts":
            # A right interruption costs as much as a wrong one.
            cost = self.interruption_cost
            return Costs(false_alarm=cost, gain=0.0 - cost, amounts=self.amounts)
        return None

    @property
    def words(self) -> str:
        """Return the rule in words."""
        match self.rule:
            case "f1":
                return "highest F1"
            case "rate":
                return f"highest recall with at most {_rate_words(self.share)} interrupted"
            case "precision":
                return f"highest recall with a precision of at least {100 * self.precision:g} %"
            case "recall":
                return f"highest precision with a recall of at least {100 * self.recall:g} %"
            case "amounts":
                return (
                    f"most money saved: {self.amounts} of the positives found, minus "
                    f"{self.interruption_cost:,g} for each interruption"
                )
        what = "lowest cost" if self.gain == 0 else "highest net gain"
        gain = f", gain {self.gain:,g} for a positive found" if self.gain else ""
        return (
            f"{what}: {self.false_alarm_cost:,g} for a false alarm, {self.missed_cost:,g} for a "
            f"missed positive{gain}"
        )


def _rate_words(share: float) -> str:
    """Return a share of the rows in words: ``1 row in 1,000``, or ``0.3 % of the rows``."""
    one_in = round(1 / share)
    if abs(share * one_in - 1) < 1e-9:
        return f"1 row in {one_in:,}"
    return f"{100 * share:g} % of the rows"


def run(ctx: NodeContext, inputs: dict[str, Any], params: ChooseThresholdParams) -> dict[str, Any]:
    """Return the model with its threshold and calibration, and a report about the choice.

    Raise ``BadInput`` if the model does not have two classes, if the rows cannot show which
    threshold is good, or if no threshold meets the rule.
    """
    from nodes.models.decision import ThresholdCounts, fit_calibration

    model = load_model(inputs["model"].path)
    name = _positive_class(model, params)
    if model.decision is not None or model.calibration is not None:
        ctx.log("The model has a threshold already; it is replaced.")
        model = replace(model, decision=None, calibration=None)
    table, positive, amounts = _validation_rows(inputs["table"], model, name, params)
    score = model.predict_proba(table, ctx.threads, ctx.progress)[:, model.classes.index(name)]
    if score.min() == score.max():
        raise BadInput(
            f"the model gives all {len(score):,} rows the same probability, so that no threshold "
            "separates them; train it with other columns or settings"
        )
    calibration, reliabilities = None, None
    if params.calibration != "none":
        calibration = fit_calibration(params.calibration, score, positive, name)
        reliabilities = _reliabilities(score, positive, params)
        score = calibration.apply(score)
    counts = ThresholdCounts.of(positive, score, amounts)
    at = chosen_position(counts, params)
    decision = ThresholdDecision(
        name, float(counts.threshold[at]), params.words, len(score), params.costs
    )
    ctx.log(f"{decision.text}.")
    report = _report(model.title, counts, at, decision, params, reliabilities)
    return {"model": replace(model, decision=decision, calibration=calibration), "report": report}


def _positive_class(model: FittedModel, params: ChooseThresholdParams) -> str:
    """Return the class to find; raise ``BadInput`` unless the model has two classes."""
    classes = model.classes
    if len(classes) != 2:
        has = f"{len(classes)} classes ({listed(classes)})" if classes else "no classes"
        raise BadInput(
            f"a threshold decides between two classes, and the model has {has}; train a model "
            "with a target of two classes"
        )
    if params.positive is not None and params.positive not in classes:
        raise BadInput(
            f"the class '{params.positive}' does not exist; the classes are {listed(classes)}",
            field="positive",
        )
    return classes[1] if params.positive is None else params.positive


def _validation_rows(
    table: Table, model: FittedModel, name: str, params: ChooseThresholdParams
) -> tuple[Table, np.ndarray, np.ndarray | None]:
    """Return the rows whose class is known, whether each is positive, and the amounts.

    Raise ``BadInput`` without such rows, or if all have one class, or if an amount is wrong.
    """
    import numpy as np
    import pyarrow as pa

    from nodes.models.decision import row_amounts
    from nodes.models.encoder import MISSING, class_codes

    if table.target is None:
        raise BadInput(f"the validation rows have no target; {HOW_TO_TARGET}")
    codes = class_codes(table.labels(), model.classes)
    known = codes != MISSING
    if not known.any():
        reason = "the target is missing in all of them"
        if not len(known):
            reason = "the table is empty; set a validation share in Split"
        raise BadInput(f"a threshold needs validation rows to choose it on: {reason}")
    table = table.with_data(table.data.filter(pa.array(known)))
    present = [model.classes[code] for code in np.unique(codes[known])]
    if len(present) == 1:
        raise BadInput(
            f"all {table.data.num_rows:,} validation rows have the class '{present[0]}'; a "
            "threshold needs rows of both classes, so hold out more rows"
        )
    amounts = None
    if params.rule == "amounts":
        column = _amounts_column(table.columns, params)
        amounts = row_amounts(table.data.column(column), column, field="amounts")
    return table, codes[known] == model.classes.index(name), amounts


def _amounts_column(known: Columns, params: ChooseThresholdParams) -> str:
    """Return the column of amounts; raise ``BadInput`` if it is not a column of numbers."""
    if params.amounts is None:
        raise BadInput("choose the column that holds the amounts", field="amounts")
    require_column(params.amounts, [column.name for column in known], field="amounts")
    kind = next(column.kind for column in known if column.name == params.amounts)
    if kind != "number":
        raise BadInput(
            f"the amounts must be numbers, and '{params.amounts}' is a column of type "
            f"{KIND_TITLES[kind]}; choose another column",
            field="amounts",
        )
    return params.amounts


# The rules


def chosen_position(counts: ThresholdCounts, params: ChooseThresholdParams) -> int:
    """Return the position of the threshold that the rule chooses.

    Of several that are equally good it is the highest. Raise ``BadInput`` if none meets the rule.
    """
    match params.rule:
        case "f1":
            return _best(counts.f1)
        case "rate":
            return _at_rate(counts, params.share)
        case "precision":
            return _at_precision(counts, params.precision)
        case "recall":
            # The lowest threshold finds all positive rows, so there is always one.
            return _best(counts.precision, where=counts.recall >= params.recall - 1e-12)
    assert params.costs is not None
    return _best_money(counts, params.costs)


def _best(values: np.ndarray, where: np.ndarray | None = None) -> int:
    """Return the position of the highest value, of those that are allowed."""
    import numpy as np

    # No row is positive at the first threshold, which no model can have.
    allowed = np.arange(len(values)) > 0
    if where is not None:
        allowed &= where
    return int(np.where(allowed & ~np.isnan(values), values, -np.inf).argmax())


def _at_rate(counts: ThresholdCounts, share: float) -> int:
    """Return the lowest threshold that interrupts at most a share of the rows."""
    allowed, words = share * counts.rows, _rate_words(share)
    if allowed < 1 - 1e-9:
        raise BadInput(
            f"an interrupt rate of {words} is less than one of the {counts.rows:,} validation "
            f"rows; use at least {round(1 / share):,} rows, or a higher rate",
            field="rate",
        )
    at = counts.at_rate(share)
    if at == 0:
        tied = int(counts.interrupted[1])
        raise BadInput(
            f"the {tied:,} rows with the highest probability have the same one, and at most "
            f"{int(allowed + 1e-9):,} may be interrupted; choose a higher rate, or a model or "
            "calibration with finer probabilities",
            field="rate",
        )
    return at


def _at_precision(counts: ThresholdCounts, floor: float) -> int:
    """Return the threshold with the highest recall of those that are precise enough."""
    import numpy as np

    precision = np.nan_to_num(counts.precision)
    enough = precision >= floor - 1e-12
    if not enough.any():
        best = int(precision.argmax())
        raise BadInput(
            f"no threshold has a precision of {100 * floor:g} % on the validation rows; the "
            f"highest is {100 * precision[best]:.1f} %, with a recall of "
            f"{100 * counts.recall[best]:.1f} %",
            field="precision",
        )
    return _best(counts.recall, where=enough)


def _best_money(counts: ThresholdCounts, costs: Costs) -> int:
    """Return the threshold with the most money; it must be better than to interrupt no row."""
    money = counts.money(costs)
    at = _best(money)
    if money[at] <= money[0]:
        raise BadInput(
            "with these costs it is best to interrupt no row: every threshold on the validation "
            "rows costs more than it saves; lower the costs of interruptions, or improve the model",
            field="interruption_cost" if costs.amounts is not None else "false_alarm_cost",
        )
    return at


# Calibration


def _reliabilities(
    score: np.ndarray, positive: np.ndarray, params: ChooseThresholdParams
) -> dict[str, Any]:
    """Return the reliability before, and after a calibration fitted on other rows, by folds."""
    import numpy as np
    from sklearn.model_selection import StratifiedKFold

    from nodes.models.decision import fit_calibration, reliability

    assert params.calibration != "none"
    fewest = int(min(positive.sum(), (~positive).sum()))
    if fewest < FOLDS:
        raise BadInput(
            f"a calibration needs at least {FOLDS} validation rows of each class, and one has "
            f"{fewest}; hold out more rows, or set Calibration to none",
            field="calibration",
        )
    after = np.empty(len(score))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for others, held_out in folds.split(score, positive):
        fitted = fit_calibration(params.calibration, score[others], positive[others], "")
        after[held_out] = fitted.apply(score[held_out])
    return {
        "method": params.calibration,
        "folds": FOLDS,
        "before": reliability(positive, score),
        "after": reliability(positive, after),
    }


# The report


def _report(
    title: str,
    counts: ThresholdCounts,
    at: int,
    decision: ThresholdDecision,
    params: ChooseThresholdParams,
    reliabilities: dict[str, Any] | None,
) -> Report:
    """Return the figures at the threshold and at others, and the curves for plots."""
    costs = decision.costs
    f1 = _best(counts.f1)
    # The most probable class: from half of the probability on.
    half = counts.at(0.5)
    rows = [
        {"name": "Chosen", **figures_at(counts, at, costs)},
        {"name": "Most probable class", **figures_at(counts, half, costs), "threshold": 0.5},
        {"name": "Highest F1", **figures_at(counts, f1, costs)},
    ]
    headline = {"positive": decision.positive, **figures_at(counts, at, costs)}
    headline["rows"] = counts.rows
    if reliabilities is not None:
        headline["brier_before"] = reliabilities["before"]["brier"]
        headline["brier_after"] = reliabilities["after"]["brier"]
    data = {
        "decision": decision.to_json(),
        "quantity": QUANTITIES.get(params.rule, "money"),
        "thresholds": counts.thinned(keep=(at, half, f1)).to_json(),
        "calibration": reliabilities,
    }
    return Report("threshold", title, headline, rows=rows, data=data)


def figures_at(
    counts: ThresholdCounts, at: int, costs: Costs | None
) -> dict[str, float | int | str | None]:
    """Return the figures of the decisions at a threshold; None where a figure has no value."""
    import math

    figures: dict[str, float | int | str | None] = {"threshold": float(counts.threshold[at])}
    if at == 0:
        figures["threshold"] = None
    figures["interrupted"] = int(counts.interrupted[at])
    figures["interrupt_rate"] = float(counts.interrupt_rate[at])
    for name in ("precision", "recall", "f1"):
        value = float(getattr(counts, name)[at])
        figures[name] = None if math.isnan(value) else value
    if costs is not None:
        figures[costs.name] = costs.shown(float(counts.money(costs)[at]))
    return figures


def columns(
    inputs: Mapping[str, Columns | None], params: ChooseThresholdParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the rows lack a target or the amounts."""
    table = inputs.get("table")
    if table is not None:
        if not any(column.role == "target" for column in table):
            raise BadInput(f"the validation rows have no target; {HOW_TO_TARGET}")
        if params.rule == "amounts":
            _amounts_column(table, params)
    return {}


def python(params: ChooseThresholdParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script that choose and print the result."""
    outputs = names.outputs["model"], names.outputs["report"]
    inputs = names.inputs["model"], names.inputs["table"]
    variables = ", ".join(map(str, outputs))
    return Snippet(
        [
            *statement(variables, "steps.choose_threshold", *inputs, **changed_params(params)),
            *statement("", "steps.tell", str(outputs[1]), outputs[1]),
        ],
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="choose-threshold",
    title="Choose threshold",
    category="Evaluate",
    summary="Chooses on validation rows from which probability on a row is positive: by F1, "
    "interrupt rate, precision, recall, costs or money. The threshold is saved with the model.",
    version=1,
    params=ChooseThresholdParams,
    run=run,
    python=python,
    inputs=(Port("model", "model", "Model"), Port("table", "table", "Validation rows")),
    outputs=(Port("model", "model", "Model"), Port("report", "report", "Threshold")),
    output_columns=columns,
    imports=("numpy", "nodes.models.encoder", "nodes.models.decision", "lightgbm"),
)
