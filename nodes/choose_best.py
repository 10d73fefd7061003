"""Choose the best of several models: by their figures on validation rows, or by cross-validation.

The models may be the branches of a sweep, or drawn by hand. The test rows stay untouched, so the
winner can be evaluated on them once. The leaderboard is made by the node *Compare*, the figures by
*Evaluate* and *Cross-validate*.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import (
    Columns,
    NodeContext,
    NodeParams,
    NodeType,
    Port,
    SubtaskState,
    form_hint,
)
from engine.text import listed
from engine.values import Folder, Report, Table
from nodes import compare, cross_validate, evaluate
from nodes.compare import CompareParams, MetricName
from nodes.cross_validate import CrossValidateParams
from nodes.data.columns import HOW_TO_TARGET
from nodes.evaluate import EvaluateParams
from nodes.models.metric_titles import metric_titles
from nodes.models.model import describe_model, load_model
from nodes.models.training import FOLDS_BY_WORDS, FoldsBy, fold_column
from nodes.predict import scored

if TYPE_CHECKING:
    from concurrent.futures import Future

ROWS, FOLDS = "validation rows", "cross-validation"
ONLY_FOLDS = {"how": FOLDS}
NO_ROWS = "the table of rows to choose on is empty; set Share of validation rows in Split"


class ChooseBestParams(NodeParams):
    """Choose the metric that decides, and the rows it is computed on."""

    how: Literal["validation rows", "cross-validation"] = Field(
        "validation rows",
        title="Chosen by",
        description="Validation rows: the models predict these rows. Cross-validation: models with "
        "the same settings are trained on parts of these rows and predict the others.",
        json_schema_extra=form_hint(words={ROWS: ROWS, FOLDS: FOLDS}),
    )
    metric: MetricName = Field(
        "auc",
        title="Metric",
        description="The model with the best value of this metric is chosen.",
        json_schema_extra=form_hint(words=metric_titles(MetricName)),
    )
    positive: str | None = Field(
        None,
        title="Positive class",
        description="The class to find, such as fraud. Empty: the last one of two classes; "
        "with more classes, metrics are means over all of them.",
        json_schema_extra=form_hint(choose="class"),
    )
    folds: int = Field(
        5,
        ge=2,
        le=50,
        title="Folds",
        description="Parts of the rows; each is evaluated once by a model trained on the others.",
        json_schema_extra=form_hint(when=ONLY_FOLDS),
    )
    folds_by: FoldsBy = Field(
        "auto", json_schema_extra=form_hint(when=ONLY_FOLDS, words=FOLDS_BY_WORDS)
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed makes other folds.",
        ge=0,
        le=2**31 - 1,
        json_schema_extra=form_hint(folded=True, when=ONLY_FOLDS),
    )


@dataclass(frozen=True)
class Candidate:
    """One of the models to choose from."""

    number: int
    folder: Folder
    title: str
    """Name in the leaderboard."""
    ctx: NodeContext
    """The context in which it is evaluated: it names the branch of a sweep."""


def run(ctx: NodeContext, inputs: dict[str, Any], params: ChooseBestParams) -> dict[str, Any]:
    """Return the best model as it is, and the leaderboard of all.

    Raise ``BadInput`` if the models cannot be compared on these rows.
    """
    models: list[Folder] = inputs["models"]
    table: Table = inputs["table"]
    candidates = _candidates(ctx, models)
    _check_rows(table, describe_model(models[0].path)["classes"])
    if params.how == ROWS:
        reports = _on_rows(ctx, candidates, table, params)
    else:
        reports = _by_folds(ctx, candidates, table, params)
    report, order = _leaderboard(ctx, reports, params)
    best = candidates[order[0]]
    rows = int(reports[0].headline["rows"] or 0)
    how = f"{params.folds}-fold cross-validation of" if params.how == FOLDS else "their figures on"
    ctx.log(f"{best.title} is chosen from {len(models)} models by {how} {rows:,} rows.")
    folds = params.folds if params.how == FOLDS else None
    data = {**report.data, "chosen_on": {"how": params.how, "rows": rows, "folds": folds}}
    headline = {**report.headline, "rows": rows}
    return {
        "model": best.folder,
        "report": replace(report, title="Choice", headline=headline, data=data),
    }


def _candidates(ctx: NodeContext, models: list[Folder]) -> list[Candidate]:
    """Return the models with their names; raise ``BadInput`` if they cannot be compared."""
    if not models:
        raise BadInput("no model is connected; connect at least one")
    # Outside of a run, branches may be missing.
    branches = ctx.branches.get("models") or [None] * len(models)
    described = [describe_model(model.path) for model in models]
    candidates = []
    for number, (model, about, branch) in enumerate(zip(models, described, branches, strict=True)):
        title = branch.title() if branch else about["title"]
        inner = replace(ctx, branch=branch, on_progress=lambda fraction, text: None)
        candidates.append(Candidate(number, model, title, inner))
        if set(about["classes"]) != set(described[0]["classes"]):
            raise BadInput(
                "the models have different classes: "
                f"{candidates[0].title} has {listed(described[0]['classes']) or 'none'}, "
                f"{title} has {listed(about['classes']) or 'none'}; connect models that were "
                "trained on rows of the same classes"
            )
    return candidates


def _check_rows(table: Table, classes: list[str]) -> None:
    """Raise ``BadInput`` unless the rows have a target, and at least two classes if it has some."""
    from nodes.models.encoder import MISSING, class_codes

    if table.target is None:
        raise BadInput(f"the rows to choose on have no target; {HOW_TO_TARGET}")
    if not table.data.num_rows:
        raise BadInput(NO_ROWS)
    if not classes:
        return
    codes = class_codes(table.labels(), classes)
    present = [name for code, name in enumerate(classes) if (codes == code).any()]
    if len(present) < 2:
        held = f"only the class {listed(present)}" if (codes != MISSING).any() else "no class"
        raise BadInput(
            f"the rows to choose on have {held}, and models can be compared only where at least "
            "two classes occur; use more validation rows, or a stratified Split"
        )


def _on_rows(
    ctx: NodeContext, candidates: list[Candidate], table: Table, params: ChooseBestParams
) -> list[Report]:
    """Return the evaluation of each model on the rows; models are evaluated in parallel."""
    classes = describe_model(candidates[0].folder.path)["classes"]
    positive = params.positive
    if positive is None and len(classes) == 2:
        # The same for all: each model may have a threshold for another class.
        positive = classes[-1]
    settings = EvaluateParams(name="", positive=positive, threshold=None)
    threads = max(1, ctx.threads // len(candidates))

    def evaluated(candidate: Candidate) -> Report:
        ctx.check_cancelled()
        with _naming(candidate):
            predictions = scored(load_model(candidate.folder.path), table, threads)
        inputs = {"predictions": predictions}
        report: Report = evaluate.run(candidate.ctx, inputs, settings)["report"]
        return report

    jobs: list[Future[Report]] = [ctx.executor.submit(evaluated, each) for each in candidates]
    try:
        reports = []
        for job in jobs:
            reports.append(job.result())
            ctx.progress(len(reports) / len(jobs), f"{len(reports)} of {len(jobs)} models")
        return reports
    finally:
        for job in jobs:
            job.cancel()
        wait(jobs)


def _by_folds(
    ctx: NodeContext, candidates: list[Candidate], table: Table, params: ChooseBestParams
) -> list[Report]:
    """Return the cross-validation of each model's settings; the folds of a model are parallel.

    A model whose folds were finished before a crash is not trained again.
    """
    settings = CrossValidateParams(
        folds=params.folds,
        repeats=1,
        folds_by=params.folds_by,
        positive=params.positive,
        name="",
        seed=params.seed,
    )
    reports = []
    for candidate in candidates:
        checkpoint = ctx.checkpoint / str(candidate.number)
        checkpoint.mkdir(exist_ok=True)
        inner = replace(
            candidate.ctx,
            checkpoint=checkpoint,
            on_progress=_part_of_progress(ctx, candidate, len(candidates)),
            on_subtask=_subtasks_of(ctx, candidate),
        )
        with _naming(candidate):
            inputs = {"model": candidate.folder, "table": table}
            reports.append(cross_validate.run(inner, inputs, settings)["report"])
    return reports


def _part_of_progress(
    ctx: NodeContext, candidate: Candidate, count: int
) -> Callable[[float, str], None]:
    """Return a function that reports the progress of one model as a part of the whole."""

    def report(fraction: float, text: str) -> None:
        words = f"model {candidate.number + 1} of {count}: {text}"
        ctx.progress((candidate.number + fraction) / count, words)

    return report


def _subtasks_of(
    ctx: NodeContext, candidate: Candidate
) -> Callable[[tuple[str, ...], SubtaskState, float | None, str], None]:
    """Return a function that reports the subtasks of one model below its name."""

    def report(
        path: tuple[str, ...], state: SubtaskState, seconds: float | None, worker: str
    ) -> None:
        ctx.subtask((f"{candidate.number + 1}. {candidate.title}", *path), state, seconds, worker)

    return report


@contextmanager
def _naming(candidate: Candidate) -> Iterator[None]:
    """Raise each ``BadInput`` of the block with the name of the model."""
    try:
        yield
    except BadInput as problem:
        message = f"{candidate.title}: {problem.message}"
        raise BadInput(message, field=_own_field(problem.field)) from problem


def _own_field(field: str | None) -> str | None:
    """Return the field if this node has it: it has other fields than those that evaluate."""
    return field if field in ChooseBestParams.model_fields else None


def _leaderboard(
    ctx: NodeContext, reports: list[Report], params: ChooseBestParams
) -> tuple[Report, list[int]]:
    """Return the comparison of the evaluations, and the numbers of the models, the best first."""
    sources = ctx.sources.get("models", [])
    inner = replace(
        ctx,
        # By their numbers: one node may have several models.
        sources={"reports": [str(number) for number in range(len(reports))]},
        branches={"reports": ctx.branches.get("models", [])},
    )
    settings = CompareParams(metric=params.metric, details=[])
    report: Report = compare.run(inner, {"reports": reports}, settings)["report"]
    data = dict(report.data)
    order = [int(number) for number in data.pop("nodes")]
    if len(sources) == len(reports):
        data["nodes"] = [sources[number] for number in order]
    return replace(report, data=data), order


def columns(
    inputs: Mapping[str, Columns | None], params: ChooseBestParams
) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that models cannot be compared on the rows."""
    table = inputs.get("table")
    if table is not None:
        if not any(column.role == "target" for column in table):
            raise BadInput(f"the rows to choose on have no target; {HOW_TO_TARGET}")
        if params.how == FOLDS:
            fold_column(table, params.folds_by)
    return {}


def python(params: ChooseBestParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script; the values of a sweep become arguments.

    An estimator of a script does not say which settings of a node it has. Where they are needed,
    they are written out.
    """
    model, report = names.outputs["model"], names.outputs["report"]
    models = names.gathered["models"]
    arguments: dict[str, Any] = {"metric": params.metric, **changed_params(params)}
    if params.how == FOLDS:
        makers = names.gathered_makers["models"]
        arguments["settings"] = {
            node: changed_params(settings)
            for node, (maker, settings) in makers.items()
            if maker.category == "Train"
        }
    branches = dict(zip(models, names.branches.get("models", []), strict=False))
    known = {node: branch for node, branch in branches.items() if branch}
    if known:
        titles = ChainMap(*(dict(branch.titles) for branch in known.values()))
        arguments |= {
            "labels": {node: branch.label for node, branch in known.items()},
            "values": {node: branch.values for node, branch in known.items()},
            "titles": dict(titles),
        }
    call = statement(
        f"{model}, {report}", "steps.choose_best", models, names.inputs["table"], **arguments
    )
    return Snippet(
        [*call, *statement("", "steps.tell", str(report), report)], ["from nodes import steps"]
    )


NODE = NodeType(
    name="choose-best",
    title="Choose best",
    category="Evaluate",
    summary="Chooses the best of several models, such as the branches of a sweep, on validation "
    "rows or by cross-validation; the test rows stay untouched.",
    version=1,
    params=ChooseBestParams,
    run=run,
    python=python,
    inputs=(
        Port("models", "model", "Models", many=True, role="evaluation"),
        Port("table", "table", "Rows to choose on"),
    ),
    outputs=(Port("model", "model", "Best model"), Port("report", "report", "Comparison")),
    output_columns=columns,
    imports=("numpy", "nodes.models.encoder", "deepforest.metrics", "lightgbm"),
)
