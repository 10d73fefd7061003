"""Compare evaluations: a leaderboard, the best first.

The values of a sweep come with its branches and become columns of the leaderboard. Other columns
can be given by hand in ``details``.

Evaluations of the same rows are compared with the best one row by row: the leaderboard has the
difference with its 95 % interval. If the interval contains 0, the two are a tie.
"""

from __future__ import annotations

import json
from collections import ChainMap, Counter
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import counted
from engine.values import Report
from nodes.models.metric_titles import METRIC_TITLES, metric_titles
from nodes.models.uncertainty import difference, what_decides

if TYPE_CHECKING:
    from deepforest.bootstrap import Difference

MetricName = Literal[
    "auc",
    "accuracy",
    "balanced_accuracy",
    "f1",
    "ks",
    "average_precision",
    "log_loss",
    "recall_at_1_in_10000",
    "recall_at_1_in_1000",
    "recall_at_1_in_100",
    "rmse",
    "mae",
    "r2",
]
RankedBy = Literal[MetricName, "money_saved", "net_gain", "cost"]
"""Evaluations at a threshold that was chosen by costs also have the money of the decisions."""
Detail = Annotated[str, Field(pattern=r"^[^.=]+\.[^=]+=", max_length=1_000)]
TITLES = "*"
"""Stands for the node where a detail gives the title of a column."""
FALLBACKS = ("auc", "accuracy", "rmse")
"""Tried in turn if no evaluation has the requested measure; accuracy always has a value for
classes, and RMSE for numbers."""


DIVIDED_DIFFERENTLY = (
    "These evaluations hold out different rows, so their figures answer different questions: the "
    "first is not better than the others because its figure is."
)


class CompareParams(NodeParams):
    """Choose how to rank, and which columns to add."""

    metric: RankedBy = Field(
        "auc",
        title="Ranked by",
        description="The metric that decides the order; evaluations without a value for it come "
        "last.",
        json_schema_extra=form_hint(words=metric_titles(RankedBy)),
    )
    details: list[Detail] = Field(
        default_factory=list,
        max_length=20_000,
        title="Further columns",
        description="Columns to add by hand, as NODE.COLUMN=VALUE for the evaluation of that node; "
        "*.COLUMN=TITLE gives a column its title. The values of a sweep are added without this.",
        json_schema_extra=form_hint(folded=True),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: CompareParams) -> dict[str, Any]:
    """Return a leaderboard with every measure of every evaluation.

    If no evaluation has a value for the chosen metric, rank by the first of ``FALLBACKS`` that has
    one.
    """
    from deepforest.metrics import lower_is_better

    reports: list[Report] = inputs["reports"]
    _check_kinds(reports)
    metric = _usable_metric(reports, params.metric)
    if metric != params.metric:
        ctx.log(_other_metric(params.metric, metric))
    sources = ctx.sources.get("reports", [])
    names = _unique_names([report.title for report in reports])
    columns, titles = _further_columns(ctx, params.details, len(reports))
    order = sorted(range(len(reports)), key=lambda index: _rank(reports[index], metric))
    best = order[0]
    headline = {
        "best": names[best],
        "metric": metric,
        "value": reports[best].headline.get(metric),
        "models": len(reports),
    }
    gaps = [difference(metric, reports[index], reports[best]) for index in order[1:]]
    tied = [gap for gap in gaps if gap is not None and gap.is_tie]
    if any(gap is not None and gap.margin is not None for gap in gaps):
        headline["tied"] = len(tied)
    data = {
        "metric": metric,
        "greater_is_better": not lower_is_better(metric),
        "details": list(columns[best]),
    }
    # By these, names are shown as the labels of nodes are now: `engine.result_names`.
    if len(sources) == len(reports):
        data["nodes"] = [sources[index] for index in order]
    if titles:
        data["titles"] = titles
    if all(report.data.get("folds") for report in reports):
        data["cross_validated"] = True
    notes = [_other_metric(params.metric, metric)] if metric != params.metric else []
    if len({report.data.get("held_out") for report in reports}) > 1:
        notes.append(DIVIDED_DIFFERENTLY)
    if notes:
        data["note"] = " ".join(notes)
    if tied:
        # The first is the nearest, so it needs the most rows.
        data["decides"] = what_decides(tied[0], int(reports[best].headline.get("rows") or 0))
        ctx.log(f"{names[best]} and {counted(len(tied), 'other')} are a tie. {data['decides']}")
    data["curves"] = [
        {"name": names[index], "curves": reports[index].data.get("curves", [])} for index in order
    ]
    rows = _leaderboard([(names[index], columns[index], reports[index]) for index in order])
    if any(gaps):
        for row, gap in zip(rows, [None, *gaps], strict=True):
            row |= _difference_columns(gap)
    return {"report": Report("comparison", "Comparison", headline, rows=rows, data=data)}


def _check_kinds(reports: list[Report]) -> None:
    """Raise ``BadInput`` unless there is a report, and all reports are evaluations."""
    if not reports:
        raise BadInput("no evaluation is connected; connect at least one")
    for report in reports:
        if report.kind != "evaluation":
            raise BadInput(
                f"'{report.title}' is a {report.kind} report, and only evaluations can be "
                "compared; connect the output of an Evaluate node"
            )
    tasks = {report.data.get("task", "classification") for report in reports}
    if len(tasks) > 1:
        raise BadInput(
            "some evaluations are of predicted classes and others of predicted numbers, which "
            "have no metric in common; compare them in two Compare nodes"
        )


def _usable_metric(reports: list[Report], requested: str) -> str:
    """Return the requested metric, or the first fallback that any evaluation has a value for."""
    for name in (requested, *FALLBACKS):
        if any(report.headline.get(name) is not None for report in reports):
            return name
    return requested


def _other_metric(requested: str, used: str) -> str:
    """Return that the models are not ranked by the requested metric, as a sentence."""
    return (
        f"No evaluation has a value for {METRIC_TITLES[requested]}, so that the models are ranked "
        f"by {METRIC_TITLES[used]}."
    )


def _rank(report: Report, metric: str) -> tuple[bool, float]:
    """Return a key that sorts the best first and reports without a value last.

    Equal values keep the order of their edges, because the sort is stable.
    """
    from deepforest.metrics import lower_is_better

    value = report.headline.get(metric)
    if not isinstance(value, int | float):
        return True, 0.0
    # Negated, so that the best is the smallest key.
    return False, value if lower_is_better(metric) else -value


def _unique_names(titles: list[str]) -> list[str]:
    """Return a different name for each evaluation.

    A title that occurs once stays as it is. Otherwise a number is added.
    """
    taken, names = Counter(titles), []
    for title in titles:
        name, number = title, 1
        while name in names or (number == 1 and taken[title] > 1):
            name, number = f"{title} {number}", number + 1
        names.append(name)
    return names


def _further_columns(
    ctx: NodeContext, details: list[str], count: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the values of further columns for each evaluation, and the titles of the columns.

    The values come from the branches of a sweep and from the details given by hand. All evaluations
    have the same columns; a value that one does not have is None.
    """
    by_hand = _parsed(details)
    titles: dict[str, str] = by_hand.pop(TITLES, {})
    sources = ctx.sources.get("reports", [])
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    # Outside of a run, sources and branches may be empty.
    for row, source in zip(rows, sources, strict=False):
        row |= by_hand.get(source, {})
    for row, branch in zip(rows, ctx.branches.get("reports", []), strict=False):
        if branch is not None:
            row |= branch.values
            titles = {**branch.titles, **titles}
    names = [
        name for name in dict.fromkeys(chain.from_iterable(rows)) if name not in ("rank", "name")
    ]
    aligned = []
    for row in rows:
        aligned.append({name: row.get(name) for name in names})
    return aligned, titles


def _parsed(details: list[str]) -> dict[str, dict[str, Any]]:
    """Return the details by node and column: ``["a.depth=3"]`` is ``{"a": {"depth": 3}}``."""
    parsed: dict[str, dict[str, Any]] = {}
    for path, _, text in (line.partition("=") for line in details):
        source, _, column = path.partition(".")
        parsed.setdefault(source, {})[column] = _value(text)
    return parsed


def _value(text: str) -> str | int | float | bool | None:
    """Return the value that a text stands for: a simple JSON value, or else the text itself."""
    try:
        # NaN and Infinity stay words: a report cannot hold them as numbers.
        value = json.loads(text, parse_constant=lambda word: word)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, str | int | float | bool | None) else text


def _leaderboard(ranked: list[tuple[str, dict[str, Any], Report]]) -> list[dict[str, Any]]:
    """Return one row for each report; all rows have the measures that any report has."""
    measures = dict.fromkeys(chain.from_iterable(report.headline for _, _, report in ranked))
    leaderboard = []
    for rank, (name, details, report) in enumerate(ranked, start=1):
        values = {measure: report.headline.get(measure) for measure in measures}
        leaderboard.append({"rank": rank, "name": name} | details | values)
    return leaderboard


def _difference_columns(gap: Difference | None) -> dict[str, Any]:
    """Return the difference to the best as columns.

    They are None if it is not known; only its interval is if too few rows decide.
    """
    if gap is None:
        return {"gain": None, "gain_low": None, "gain_high": None, "tie": None}
    if gap.margin is None:
        return {"gain": gap.gain, "gain_low": None, "gain_high": None, "tie": None}
    low, high = gap.gain - gap.margin, gap.gain + gap.margin
    return {"gain": gap.gain, "gain_low": low, "gain_high": high, "tie": gap.is_tie}


def python(params: CompareParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script; the values of a sweep become an argument."""
    report = names.outputs["report"]
    arguments: dict[str, Any] = {"metric": params.metric, **changed_params(params)}
    branches = dict(zip(names.gathered["reports"], names.branches.get("reports", []), strict=False))
    values = {node: branch.values for node, branch in branches.items() if branch}
    titles = ChainMap(*(dict(branch.titles) for branch in branches.values() if branch))
    if values:
        arguments |= {"values": values, "titles": dict(titles)}
    return Snippet(
        [
            *statement(report, "steps.compare", names.gathered["reports"], **arguments),
            *statement("", "steps.tell", str(report), report),
        ],
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="compare",
    title="Compare",
    category="Evaluate",
    summary="A leaderboard of any number of evaluations, ranked by the measure you choose.",
    version=6,
    params=CompareParams,
    run=run,
    python=python,
    inputs=(Port("reports", "report", "Evaluations", many=True, role="evaluation"),),
    outputs=(Port("report", "report", "Comparison"),),
    imports=("scipy.stats", "deepforest.bootstrap"),
)
