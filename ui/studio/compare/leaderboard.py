"""A leaderboard of evaluations, from any run.

- ``EvaluationFigures``  what a leaderboard needs of an evaluation, without its curves
- ``Line``               one evaluation of one run
- ``Evaluations``        the evaluations of many runs, each read once
- ``measures_of``, ``first_measure``, ``ranked``  what the lines can be ranked by, and in that order
- ``measure_title``      the name of a measure for these lines
- ``data_names``         which lines evaluated the same rows: only those can be compared
- ``names_of``           a short, unique name for each line
- ``board_rows``         the lines as a table, on screen or in a file
- ``inspectable_node``   the node of a run that Inspect can show
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepforest.metrics import METRIC_INFO, lower_is_better, title_among
from engine.events import RunRow
from engine.graph import model_behind
from engine.pipeline import Node, Pipeline
from engine.run_state import RunState
from engine.runs import Runs
from engine.store import Artifact
from engine.text import clock, counted, readable
from engine.values import Report
from ui.studio.inspect.forest_source import FOREST, INSPECTION
from ui.studio.plots.style import number

LONGEST_NAME = 60
UNKNOWN = "unknown"


@dataclass(frozen=True)
class EvaluationFigures:
    """An evaluation without its curves: the measures, and which rows were evaluated."""

    title: str
    measures: Mapping[str, float]
    rows: int
    classes: tuple[str, ...]
    positive: str | None
    counts: tuple[tuple[str, int], ...]
    """How many rows each class has."""

    @classmethod
    def of(cls, report: Report) -> EvaluationFigures:
        """Return the figures of a report of the kind ``evaluation``.

        Another version of the Evaluate node may have written it: missing parts are empty.
        """
        positive = report.data.get("positive")
        return cls(
            readable(report.title, LONGEST_NAME),
            {
                name: value
                for name in METRIC_INFO
                if (value := number(report.headline.get(name))) is not None
            },
            int(report.headline.get("rows") or 0),
            tuple(map(str, report.data.get("classes") or ())),
            None if positive is None else str(positive),
            tuple((str(row.get("class")), int(row.get("rows") or 0)) for row in report.rows),
        )

    @property
    def data(self) -> tuple[Any, ...]:
        """Return what identifies the evaluated rows.

        It is equal if two evaluations have as many rows of each class and the same positive class.
        A report does not have the rows themselves.
        """
        return self.rows, self.classes, self.positive, self.counts

    @property
    def data_words(self) -> str:
        """Return the evaluated rows in words: ``594 rows, 10 classes``."""
        rows = counted(self.rows, "row")
        if self.positive is not None:
            return f"{rows}, positive class {self.positive}"
        return f"{rows}, {counted(len(self.classes), 'class', 'classes')}"


@dataclass(frozen=True)
class Line:
    """One evaluation of one run: a line of the leaderboard."""

    run: str
    pipeline: str
    started: float
    node: str
    model: str
    """The title of the model's node type, and its preset."""
    evaluation: EvaluationFigures
    output: Artifact
    inspect: str | None = None
    """The node of the run that Inspect can show."""

    @property
    def key(self) -> str:
        """Return what identifies the line."""
        return f"{self.run}/{self.node}"


def measures_of(lines: Iterable[Line]) -> list[str]:
    """Return the measures for which any line has a value, the most important first."""
    # A threshold is a setting, not a quality: lines cannot be ranked by it.
    known = {name for line in lines for name in line.evaluation.measures} - {"threshold"}
    return [name for name in METRIC_INFO if name in known]


def measure_title(lines: Iterable[Line], measure: str) -> str:
    """Return the name of a measure as the title of a column for all these lines."""
    return title_among((line.evaluation.measures for line in lines), measure)


def first_measure(lines: Sequence[Line]) -> str:
    """Return AUC if there is a positive class, else accuracy; another one if there is neither."""
    preferred = ["accuracy", "auc"]
    if any(line.evaluation.positive is not None for line in lines):
        preferred.reverse()
    measures = measures_of(lines)
    return next((name for name in (*preferred, *measures) if name in measures), "accuracy")


def ranked(lines: Iterable[Line], measure: str) -> list[Line]:
    """Return the lines, the best first.

    Lines without a value come last; lines with equal values keep their order.
    """
    sign = 1 if lower_is_better(measure) else -1

    def rank(line: Line) -> tuple[bool, float]:
        """Return what the line is sorted by."""
        value = line.evaluation.measures.get(measure)
        return value is None, sign * (value or 0.0)

    return sorted(lines, key=rank)


def data_names(lines: Iterable[Line]) -> dict[str, str]:
    """Return what each line evaluated, by the key of the line.

    Each set of rows gets a letter: ``A: 594 rows, 10 classes``.
    """
    letters: dict[tuple[Any, ...], str] = {}
    names = {}
    for line in lines:
        letter = letters.setdefault(line.evaluation.data, _letter(len(letters)))
        names[line.key] = f"{letter}: {line.evaluation.data_words}"
    return names


def _letter(number: int) -> str:
    """Return A to Z, then AA to ZZ, and so on."""
    # As columns of a spreadsheet are named: there is no letter for 0.
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def alike(lines: Sequence[Line], most: int) -> list[Line]:
    """Return at most ``most`` lines that evaluated the same rows as the first line.

    Lines of other rows cannot be compared with it, however good their figures are.
    """
    return [line for line in lines if line.evaluation.data == lines[0].evaluation.data][:most]


def names_of(lines: Sequence[Line]) -> list[str]:
    """Return a name for each line that is unique among them, and as short as possible.

    It is the title of the evaluation. Where titles are equal, the run is added, and then the node.
    """
    plain = [line.evaluation.title for line in lines]
    # The id of a run begins with its date; the rest is unique for the day.
    with_run = [f"{line.evaluation.title} · {line.run[9:] or line.run}" for line in lines]
    whole = [f"{name} · {line.node}" for name, line in zip(with_run, lines, strict=True)]
    once, once_in_run = Counter(plain), Counter(with_run)
    names = []
    for short, longer, full in zip(plain, with_run, whole, strict=True):
        if once[short] == 1:
            names.append(short)
        elif once_in_run[longer] == 1:
            names.append(longer)
        else:
            names.append(full)
    return names


def board_rows(lines: Sequence[Line], data: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the lines as rows of plain values.

    Each row has every measure that any line has, so that all rows have the same columns.
    """
    shown = [*measures_of(lines), "threshold"]
    rows = []
    for rank, line in enumerate(lines, start=1):
        row: dict[str, Any] = {
            "rank": rank,
            "evaluation": line.evaluation.title,
            "started": clock(line.started),
            "model": line.model,
            "pipeline": line.pipeline,
            "data": data[line.key],
        }
        row |= {name: line.evaluation.measures.get(name) for name in shown}
        rows.append(row | {"run": line.run, "node": line.node})
    return rows


def inspectable_node(pipeline: Pipeline, state: RunState, model: str | None) -> str | None:
    """Return the node of a run that Inspect can show; None without a deep forest.

    It belongs to the model itself if that is a deep forest, else to any deep forest of the run. An
    inspection is preferred to the forest alone.
    """
    ready = [name for name in pipeline.nodes if name in state.nodes and state.nodes[name].outputs]
    inspections = [name for name in ready if pipeline.nodes[name].type == INSPECTION]
    forests = [name for name in ready if pipeline.nodes[name].type == FOREST]
    if model in forests:
        readers = [edge.target.node for edge in pipeline.edges if edge.source.node == model]
        return next((name for name in readers if name in inspections), model)
    return next(iter([*inspections, *forests]), None)


class Evaluations:
    """The evaluations of the runs of a workspace.

    Reading the events of a run and opening its reports takes time. A run is read again only if it
    has new events, and a report that runs share is opened once.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._summaries: dict[str, EvaluationFigures | None] = {}
        self._lines: dict[str, tuple[int, list[Line]]] = {}

    def lines(self, rows: Iterable[RunRow]) -> list[Line]:
        """Return every evaluation of these runs, also of runs that are still live."""
        rows = list(rows)
        with self._runs.log() as log:
            # One connection for all runs: opening the log takes longer than a question.
            newest = [log.last_event(row.id) for row in rows]
        return [
            line
            for row, last_event in zip(rows, newest, strict=True)
            for line in self._lines_of(row, last_event)
        ]

    def _lines_of(self, row: RunRow, last_event: int) -> list[Line]:
        """Return the lines of a run, read again only if it has new events."""
        known_event, lines = self._lines.get(row.id, (None, []))
        if known_event != last_event:
            lines = self._read(row)
            self._lines[row.id] = last_event, lines
        return lines

    def _read(self, row: RunRow) -> list[Line]:
        """Return the lines of a run from its reports."""
        state = self._runs.results(row)
        lines = []
        for name, node in state.nodes.items():
            for output in node.outputs.values():
                artifact = Artifact.from_dict(output)
                # Opening a report takes time: other outputs are not looked at.
                evaluation = self._evaluation(artifact) if artifact.type == "report" else None
                if evaluation:
                    lines.append(self._line(row, state, name, artifact, evaluation))
        return lines

    def _line(
        self,
        row: RunRow,
        state: RunState,
        node: str,
        artifact: Artifact,
        evaluation: EvaluationFigures,
    ) -> Line:
        """Return the line of one evaluation, with its model and what Inspect can show."""
        planned = self._runs.planned_pipeline(row)
        title, inspect = UNKNOWN, None
        if planned:
            pipeline = planned.pipeline
            model = model_behind(pipeline, self._runs.catalog, node)
            title = self._title(pipeline.nodes[model]) if model else UNKNOWN
            inspect = inspectable_node(pipeline, state, model)
        started = state.started or row.created
        return Line(row.id, readable(row.name), started, node, title, evaluation, artifact, inspect)

    def _title(self, node: Node) -> str:
        """Return ``Deep forest, mddf``: runs of one pipeline often differ in the preset only."""
        catalog = self._runs.catalog
        title = catalog[node.type].title if node.type in catalog else UNKNOWN
        preset = node.params.get("preset")
        return readable(f"{title}, {preset}") if preset and preset != "default" else title

    def _evaluation(self, artifact: Artifact) -> EvaluationFigures | None:
        """Return the figures of a report; None for other kinds, and for damaged ones."""
        if artifact.digest not in self._summaries:
            report = self._runs.open_report(artifact)
            summary = None
            if report is not None and report.kind == "evaluation":
                summary = EvaluationFigures.of(report)
            self._summaries[artifact.digest] = summary
        return self._summaries[artifact.digest]
