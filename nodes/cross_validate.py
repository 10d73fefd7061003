"""Cross-validate: train with a model's settings on parts of a table, evaluate on the rest.

The rows are divided into folds. For each fold a model of the same kind and settings is trained on
the other rows and evaluated on the fold. The figures are means over the folds; the curves and the
confusion matrix are of the predictions for all folds together. Folds run in parallel. One that was
finished before a crash is read from the checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import listed
from engine.values import Report, Table
from nodes.data.columns import check_learnable, task_of
from nodes.data.row_identity import column_digests, parts_digest, row_digests
from nodes.evaluate import EvaluateParams, evaluation
from nodes.models import regression
from nodes.models.model import FittedModel, load_model
from nodes.models.training import FoldsBy, fold_column, groups_and_times, labelled
from nodes.models.uncertainty import margin_of_folds, within_limits

if TYPE_CHECKING:
    import numpy as np

NOT_FIGURES = ("rows", "threshold")
"""Numbers in the headline of an evaluation that are not averaged."""


class CrossValidateParams(NodeParams):
    """Choose the number of folds and what a fold holds out."""

    folds: int = Field(
        5,
        ge=2,
        le=50,
        title="Folds",
        description="Parts of the rows; each is evaluated once by a model trained on the others.",
    )
    repeats: int = Field(
        1,
        ge=1,
        le=20,
        title="Repeats",
        description="Divide the rows this many times: more models, and a more certain mean. "
        "Folds of later rows are always made once.",
        json_schema_extra=form_hint(folded=True),
    )
    folds_by: FoldsBy = "auto"
    positive: str | None = Field(
        None,
        title="Positive class",
        description="The class to find, such as fraud. Empty: the last one of two classes; "
        "with more classes, metrics are means over all of them.",
        json_schema_extra=form_hint(choose="class"),
    )
    name: str = Field(
        "",
        max_length=200,
        title="Name",
        description="Name of the result in a comparison; empty: the model's title.",
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed makes other folds.",
        ge=0,
        le=2**31 - 1,
        json_schema_extra=form_hint(folded=True),
    )


@dataclass(frozen=True)
class Fold:
    """The rows that one model is trained on, and those it is evaluated on."""

    repeat: int
    number: int
    train: np.ndarray
    held_out: np.ndarray

    @property
    def path(self) -> tuple[str, ...]:
        """The name of the fold among the subtasks of the node."""
        return f"repeat {self.repeat}", f"fold {self.number}"


def run(ctx: NodeContext, inputs: dict[str, Any], params: CrossValidateParams) -> dict[str, Any]:
    """Train and evaluate a model for each fold; return the figures of all and their means.

    Raise ``BadInput`` if the rows cannot be divided, or if a model cannot be trained on them.
    """
    model = load_model(inputs["model"].path)
    table, y, classes = labelled(inputs["table"], ctx.log)
    folds = _folds(table, y, params, ctx)
    settings = EvaluateParams(name="", positive=params.positive, threshold=None)
    if classes:
        _check_classes(folds, y, classes)
    else:
        regression.check_settings(settings)
    probabilities = _out_of_fold(ctx, model, table, folds, classes)
    rows, reports = [], []
    for fold in folds:
        truth = y[fold.held_out]
        report = _evaluated("", truth, probabilities[fold.path], classes, settings)
        reports.append(report)
        figures = {name: report.headline[name] for name in _figures([report])}
        rows.append({"repeat": fold.repeat, "fold": fold.number, "rows": len(truth)} | figures)
    name = ctx.branch.title(params.name) if ctx.branch else params.name or model.title
    # Each row once: the folds of the first repeat.
    first = [fold for fold in folds if fold.repeat == 1]
    together = _evaluated(
        name,
        _joined([y[fold.held_out] for fold in first]),
        _joined([probabilities[fold.path] for fold in first]),
        classes,
        settings,
    )
    means, intervals = _means(reports, folds)
    digests = row_digests(y, classes, column_digests(table.data))
    data = {
        **together.data,
        "folds": rows,
        "held_out": parts_digest(fold.held_out for fold in folds),
        "test_to_train": test_to_train(folds),
        "intervals": intervals,
        "test_rows": digests,
    }
    headline = {**together.headline, **means}
    return {"report": replace(together, headline=headline, data=data)}


def _evaluated(
    name: str, truth: np.ndarray, output: np.ndarray, classes: list[str], params: EvaluateParams
) -> Report:
    """Return the evaluation of class probabilities, or of predicted numbers."""
    if not classes:
        return regression.evaluation(name, truth, output[:, 0])
    return evaluation(name, truth, output, classes, params)


def _folds(
    table: Table, y: np.ndarray, params: CrossValidateParams, ctx: NodeContext
) -> list[Fold]:
    """Divide the rows; raise ``BadInput`` if there are too few rows, groups or times."""
    import numpy as np
    from sklearn.model_selection import (
        GroupKFold,
        KFold,
        StratifiedGroupKFold,
        StratifiedKFold,
        TimeSeriesSplit,
    )

    groups, times = groups_and_times(table, params.folds_by, ctx.log)
    units, what = len(y), "rows"
    if groups is not None:
        units, what = len(np.unique(groups)), "groups"
    is_class = y.dtype.kind != "f"
    if is_class:
        # Rows are held out in proportion to the classes, so a class needs as many rows as folds.
        units = min(units, int(np.bincount(y).max()))
        what = "rows of a class" if groups is None else "groups, and rows of a class"
    if times is not None:
        units, what = len(y), "rows"
    needed = params.folds + (1 if times is not None else 0)
    if units < needed:
        raise BadInput(
            f"{params.folds} folds need at least {needed} {what}, and there are only {units}; "
            "choose fewer folds",
            field="folds",
        )
    if times is not None:
        order = np.argsort(times, kind="stable")
        parts = list(TimeSeriesSplit(params.folds).split(order))
        return [
            Fold(1, number, np.sort(order[train]), np.sort(order[held_out]))
            for number, (train, held_out) in enumerate(parts, start=1)
        ]
    kind: Any = StratifiedKFold if groups is None else StratifiedGroupKFold
    if not is_class:
        kind = KFold if groups is None else GroupKFold
    folds: list[Fold] = []
    for repeat in range(1, params.repeats + 1):
        divide = kind(params.folds, shuffle=True, random_state=params.seed + repeat - 1)
        with warnings.catch_warnings():
            # scikit-learn warns of rare classes. Where they matter, `_check_classes` raises.
            warnings.simplefilter("ignore")
            parts = list(divide.split(np.zeros(len(y)), y, groups))
        folds += (
            Fold(repeat, number, train, held_out)
            for number, (train, held_out) in enumerate(parts, start=1)
        )
    return folds


def _check_classes(folds: list[Fold], y: np.ndarray, classes: list[str]) -> None:
    """Raise ``BadInput`` if a model would be evaluated on a class that it has not learned."""
    import numpy as np

    for fold in folds:
        learned, asked = np.unique(y[fold.train]), np.unique(y[fold.held_out])
        unknown = [classes[code] for code in np.setdiff1d(asked, learned)]
        if unknown or len(learned) < 2:
            words = f"no row of {listed(unknown)}" if unknown else "a single class"
            raise BadInput(
                f"in fold {fold.number}, the rows to train on have {words}; choose fewer folds, or "
                "leave out classes with few rows",
                field="folds",
            )


def _out_of_fold(
    ctx: NodeContext, model: FittedModel, table: Table, folds: list[Fold], classes: list[str]
) -> dict[tuple[str, ...], np.ndarray]:
    """Return the class probabilities of the rows that each fold holds out."""
    done = 0

    def finished() -> None:
        nonlocal done
        done += 1
        ctx.progress(done / len(folds), f"{done} of {len(folds)} folds")

    # Folds in parallel, each with one thread: the models are the same for any number of threads.
    quiet = replace(
        ctx,
        threads=1,
        on_progress=lambda fraction, text: None,
        on_subtask=lambda path, state, seconds, worker: None,
        on_publish=lambda name, data: None,
        on_log=lambda text: None,
    )
    jobs = {
        fold.path: ctx.executor.submit(_probabilities, ctx, quiet, model, table, fold, classes)
        for fold in folds
    }
    try:
        found = {}
        for path, job in jobs.items():
            found[path] = job.result()
            finished()
        return found
    finally:
        for job in jobs.values():
            job.cancel()
        wait(jobs.values())  # a fold that is nearly finished is stored


def _probabilities(
    ctx: NodeContext,
    quiet: NodeContext,
    model: FittedModel,
    table: Table,
    fold: Fold,
    classes: list[str],
) -> np.ndarray:
    """Train the model of a fold and return its probabilities, or read them if they are stored."""
    import time

    import numpy as np

    stored = ctx.checkpoint / f"{fold.repeat}-{fold.number}.npy"
    if stored.is_file():
        ctx.subtask(fold.path, "reused")
        found: np.ndarray = np.load(stored, allow_pickle=False)
        return found
    ctx.check_cancelled()
    ctx.subtask(fold.path, "running")
    began = time.perf_counter()
    folder = ctx.checkpoint / f"{fold.repeat}-{fold.number}"
    folder.mkdir(exist_ok=True)
    trained = _trained(replace(quiet, checkpoint=folder), model, _rows(table, fold.train))
    block = trained.predict_proba(_rows(table, fold.held_out))
    probabilities = block
    if classes:
        probabilities = np.zeros((len(block), len(classes)))
        probabilities[:, [classes.index(name) for name in trained.classes]] = block
    _write(stored, probabilities)
    ctx.subtask(fold.path, "done", time.perf_counter() - began)
    return probabilities


def _trained(ctx: NodeContext, model: FittedModel, table: Table) -> FittedModel:
    """Train another model of the same kind and settings, as its node does."""
    if not model.params:
        raise BadInput(
            f"the settings of the model '{model.title}' are not known; connect the node that "
            "trains it",
            field="model",
        )
    node: NodeType = import_module(f"nodes.{model.kind.name.replace('-', '_')}").NODE
    params = node.params.model_validate(dict(model.params))
    trained: FittedModel = node.run(ctx, {"table": table}, params)["model"]
    return trained


def _write(path: Path, array: np.ndarray) -> None:
    """Write an array such that the file is whole or missing, also after a crash."""
    import numpy as np

    unfinished = path.with_suffix(".unfinished.npy")
    np.save(unfinished, array, allow_pickle=False)
    unfinished.replace(path)


def _rows(table: Table, rows: np.ndarray) -> Table:
    """Return some rows of a table."""
    import pyarrow as pa

    return table.with_data(table.data.take(pa.array(rows)))


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    import numpy as np

    return np.concatenate(arrays)


def _figures(reports: list[Report]) -> Iterator[str]:
    """Yield the figures of evaluations that a mean can be taken of."""
    for name, value in reports[0].headline.items():
        if name not in NOT_FIGURES and not isinstance(value, str):
            yield name


def test_to_train(folds: list[Fold]) -> float:
    """Return how many rows are held out for each row that a model is trained on."""
    return sum(len(fold.held_out) / len(fold.train) for fold in folds) / len(folds)


def _means(
    reports: list[Report], folds: list[Fold]
) -> tuple[dict[str, float | None], dict[str, list[float]]]:
    """Return the mean of each figure over the folds, and its 95 % interval."""
    means: dict[str, float | None] = {}
    intervals: dict[str, list[float]] = {}
    shared = test_to_train(folds)
    for name in _figures(reports):
        values = [report.headline[name] for report in reports]
        known = [float(value) for value in values if value is not None]
        means[name] = mean = sum(known) / len(known) if known else None
        half = margin_of_folds(known, shared)
        if mean is not None and half is not None:
            intervals[name] = list(within_limits(name, mean - half, mean + half))
    return means, intervals


def columns(
    inputs: Mapping[str, Columns | None], params: CrossValidateParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the rows cannot be learned or divided."""
    table = inputs.get("table")
    if table is not None:
        fold_column(table, params.folds_by)
        if task_of(table) == "regression":
            regression.check_settings(params)
    return check_learnable(inputs, params)


def python(params: CrossValidateParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script.

    An estimator of a script does not say which settings of a node it has, so they are written out.
    """
    report = names.outputs["report"]
    arguments = changed_params(params)
    if names.branch:
        arguments["name"] = names.branch.title(params.name)
    maker, settings = names.makers["model"]
    if maker.category == "Train":
        arguments["settings"] = changed_params(settings)
    inputs = names.inputs["model"], names.inputs["table"]
    return Snippet(
        [
            *statement(report, "steps.cross_validate", *inputs, **arguments),
            *statement("", "steps.tell", str(report), report),
        ],
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="cross-validate",
    title="Cross-validate",
    category="Evaluate",
    summary="Trains models with the settings of a model on parts of a table and evaluates each on "
    "the rows it has not seen: figures per fold, mean and interval.",
    version=1,
    params=CrossValidateParams,
    run=run,
    python=python,
    inputs=(Port("model", "model", "Model"), Port("table", "table", "Rows")),
    outputs=(Port("report", "report", "Evaluation", role="evaluation"),),
    output_columns=columns,
    imports=("numpy", "sklearn.model_selection", "nodes.models.encoder", "lightgbm"),
)
