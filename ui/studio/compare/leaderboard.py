"""A leaderboard of evaluations, from any run.

- ``EvaluationFigures``  what a leaderboard needs of an evaluation, without its curves
- ``Line``               one result: an evaluation, and the runs that have it
- ``Evaluations``        the evaluations of many runs, each read once
- ``SameRows``, ``groups_of``  the lines with the same test rows: only those can be compared
- ``folded``             the lines without repeats of a cached result
- ``measures_of``, ``first_measure``, ``ranked``  what the lines can be ranked by, and in that order
- ``measure_title``      the name of a measure for these lines
- ``names_of``           a short, unique name for each line
- ``board_rows``         the lines as a table, on screen or in a file
- ``inspectable_node``   the node of a run that Inspect can show
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from deepforest.metrics import METRIC_INFO, lower_is_better, title_among
from engine.events import RunRow
from engine.graph import trained_model_behind
from engine.pipeline import Pipeline
from engine.pipeline_diff import settings_of
from engine.run_state import RunState
from engine.run_summaries import UNREADABLE
from engine.runs import Runs
from engine.store import Artifact
from engine.sweeps import param_title
from engine.text import clock, counted, readable
from engine.values import Report
from nodes.data.row_identity import same_rows
from nodes.models.ranking import RowParts, rows_text
from ui.studio.inspect.forest_source import FOREST, INSPECTION
from ui.studio.plots.style import number
from ui.studio.screen_text import time_of_day

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
    test_rows: Mapping[str, Any] | None = None
    """What identifies the rows; older evaluations do not have it."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """95 % intervals of the measures; older evaluations do not have them."""
    threshold_rule: str = ""
    """Set if the evaluated rows chose the threshold: then F1 is optimistic."""

    @classmethod
    def of(cls, report: Report) -> EvaluationFigures:
        """Return the figures of a report of the kind ``evaluation``.

        Another version of the Evaluate node may have written it: missing parts are empty. Raise
        ``ValueError`` or ``TypeError`` if a part is of another type.
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
            tuple(str(each) for each in report.data.get("classes") or ()),
            None if positive is None else str(positive),
            tuple((str(row.get("class")), int(row.get("rows") or 0)) for row in report.rows),
            _checked_rows(report.data.get("test_rows")),
            _checked_intervals(report.data.get("intervals")),
            str(report.headline.get("threshold_rule") or ""),
        )

    def has_rows_of(self, other: EvaluationFigures) -> bool:
        """Return whether another evaluation has the same test rows and the same positive class.

        Where an evaluation does not identify its rows, the number of rows of each class counts.
        """
        own = self.rows, self.classes, self.positive, self.counts
        if own != (other.rows, other.classes, other.positive, other.counts):
            return False
        if self.test_rows is None or other.test_rows is None:
            return True
        return same_rows(self.test_rows, other.test_rows)

    def data_words(self, kind: str = "test rows") -> str:
        """Return the evaluated rows in words: ``594 test rows, 10 classes``."""
        rows = counted(self.rows, kind.removesuffix("s"))
        if self.positive is not None:
            return f"{rows}, positive class {self.positive}"
        if not self.classes:
            return f"{rows}, predicted numbers"
        return f"{rows}, {counted(len(self.classes), 'class', 'classes')}"


def _checked_rows(stored: Any) -> Mapping[str, Any] | None:
    """Return what identifies test rows, if a report has it in the form of this version."""
    match stored:
        case {"classes": str(), "columns": dict()}:
            return dict(stored)
    return None


def _checked_intervals(stored: Any) -> dict[str, tuple[float, float]]:
    """Return the intervals of a report that have the form of this version."""
    intervals = {}
    for name, limits in (stored if isinstance(stored, dict) else {}).items():
        match limits:
            case [float() | int(), float() | int()]:
                intervals[str(name)] = float(limits[0]), float(limits[1])
    return intervals


@dataclass(frozen=True)
class Line:
    """One result: a line of the leaderboard. The run is the newest that has it."""

    run: str
    pipeline: str
    started: float
    node: str
    name: str
    """The label of the evaluation, or of its model."""
    model: str
    """The title of the model's node type, and its preset."""
    evaluation: EvaluationFigures
    output: Artifact
    inspect: str | None = None
    """The node of the run that Inspect can show."""
    predictions: Artifact | None = None
    """What was evaluated, if it is still stored."""
    repeats: tuple[Line, ...] = ()
    """The same result in other runs that did not fail."""
    failed: bool = False
    """Whether its run failed after it."""
    rows: str = "test rows"
    """The evaluated rows in words; the test rows, unless the pipeline says another part."""

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
    figures = [line.evaluation for line in lines]
    return title_among(
        ({**each.measures, "threshold_rule": each.threshold_rule} for each in figures), measure
    )


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


class SameRows(NamedTuple):
    """The lines that were evaluated on the same rows."""

    letter: str
    lines: list[Line]

    @property
    def title(self) -> str:
        """Return the rows in words: ``A: 594 test rows, 10 classes``."""
        kinds = {line.rows for line in self.lines}
        kind = kinds.pop() if len(kinds) == 1 else "rows"
        return f"{self.letter}: {self.lines[0].evaluation.data_words(kind)}"


def groups_of(lines: Iterable[Line]) -> list[SameRows]:
    """Return the lines by their test rows, in the order of the lines.

    Letters go by age: those of older runs stay when newer runs are added.
    """
    groups: list[SameRows] = []
    lines = list(lines)
    for line in sorted(lines, key=lambda each: each.started):
        found = next(
            (each for each in groups if each.lines[0].evaluation.has_rows_of(line.evaluation)), None
        )
        if found is None:
            found = SameRows(_letter(len(groups)), [])
            groups.append(found)
        found.lines.append(line)
    place = {line.key: number for number, line in enumerate(lines)}
    for group in groups:
        group.lines.sort(key=lambda each: place[each.key])
    return groups


def _letter(number: int) -> str:
    """Return A to Z, then AA to ZZ, and so on."""
    # As columns of a spreadsheet are named: 0 has no letter.
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def folded(lines: Iterable[Line]) -> list[Line]:
    """Return one line for each result: those of a cached result, or of the same predictions.

    The newest run stands for all, one that failed only if all did; it is not a repeat either. The
    names must agree: a label tells results apart.
    """
    newest: dict[tuple[object, ...], Line] = {}
    for line in sorted(lines, key=lambda each: (each.failed, -each.started)):
        result = line.predictions.digest if line.predictions else line.output.digest
        # The same predictions may have been evaluated at another threshold.
        key = line.name, result, tuple(line.evaluation.measures.items())
        kept = newest.setdefault(key, line)
        if kept is not line and not line.failed:
            newest[key] = replace(kept, repeats=(*kept.repeats, line))
    return list(newest.values())


def names_of(lines: Sequence[Line], changed: Mapping[str, str] | None = None) -> list[str]:
    """Return a name for each line that is unique among them, and as short as possible.

    It is the label. Where labels are equal, the pipeline is added, then what was changed in the
    run, then the time, then a number. ``changed`` has what was changed by run.
    """
    names = [line.name for line in lines]
    changes = [(changed or {}).get(line.run) or "" for line in lines]
    times = [time_of_day(line.started) for line in lines]
    for more in ([line.pipeline for line in lines], changes, times):
        names = _with_differing_words(names, more)
    # A label may itself end in a number: numbers that are taken are passed over.
    taken = set(names)
    seen = Counter[str]()
    for index, name in enumerate(names):
        seen[name] += 1
        if seen[name] == 1:
            continue
        while f"{name} ({seen[name]})" in taken:
            seen[name] += 1
        names[index] = f"{name} ({seen[name]})"
        taken.add(names[index])
    return names


def _with_differing_words(names: list[str], more: list[str]) -> list[str]:
    """Return the names; those that are equal get more words, if these differ among them."""
    words: dict[str, set[str]] = {}
    for name, word in zip(names, more, strict=True):
        words.setdefault(name, set()).add(word)
    longer = []
    for name, word in zip(names, more, strict=True):
        longer.append(f"{name} · {word}" if word and len(words[name]) > 1 else name)
    return longer


def board_rows(lines: Sequence[Line], data: str) -> list[dict[str, Any]]:
    """Return the lines as rows of plain values; ``data`` are their test rows in words.

    Each row has every measure that any line has, so that all rows have the same columns.
    """
    shown = [*measures_of(lines), "threshold"]
    with_interval = {name for line in lines for name in line.evaluation.intervals}
    rows = []
    for rank, line in enumerate(lines, start=1):
        row: dict[str, Any] = {
            "rank": rank,
            "evaluation": line.name,
            "model": line.model,
            "pipeline": line.pipeline,
            "started": clock(line.started),
            "runs": 1 + len(line.repeats),
            "data": data,
        }
        for name in shown:
            row[name] = line.evaluation.measures.get(name)
            if name in with_interval:
                low, high = line.evaluation.intervals.get(name, (None, None))
                row |= {f"{name}_low": low, f"{name}_high": high}
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


def evaluated_output(pipeline: Pipeline, state: RunState, node: str) -> Artifact | None:
    """Return the predictions that a node of a run evaluated."""
    for edge in pipeline.edges:
        source = state.nodes.get(edge.source.node)
        if edge.target.node == node and source and edge.source.port in source.outputs:
            output = Artifact.from_dict(source.outputs[edge.source.port])
            if output.type == "predictions":
                return output
    return None


class Evaluations:
    """The evaluations of the runs of a workspace.

    Reading the events of a run and opening its reports takes time. A run is read again only if it
    has new events, and a report that runs share is opened once.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._summaries: dict[str, EvaluationFigures | None] = {}
        self._damaged: set[str] = set()
        self._lines: dict[str, tuple[int, list[Line]]] = {}
        self.damaged: set[str] = set()
        """The runs with an evaluation that cannot be read; it is left out."""

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
        state, planned = self._runs.results(row), self._runs.planned_pipeline(row)
        rows = RowParts(planned.pipeline, self._runs.catalog) if planned else None
        lines = []
        for name, node in state.nodes.items():
            for output in node.outputs.values():
                artifact = Artifact.from_dict(output)
                # Opening a report takes time: other outputs are not looked at.
                evaluation = self._evaluation(artifact) if artifact.type == "report" else None
                if artifact.digest in self._damaged:
                    self.damaged.add(row.id)
                if evaluation:
                    line = self._line(row, state, name, artifact, evaluation)
                    parts = rows.evaluated(name) if rows else ()
                    lines.append(replace(line, rows=rows_text(parts)) if parts else line)
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
        title, inspect, predictions = UNKNOWN, None, None
        if planned:
            pipeline = planned.pipeline
            model = trained_model_behind(pipeline, self._runs.catalog, node)
            title = self._title(pipeline, model) if model else UNKNOWN
            inspect = inspectable_node(pipeline, state, model)
            predictions = evaluated_output(pipeline, state, node)
        return Line(
            row.id,
            readable(row.name),
            state.started or row.created,
            node,
            readable(self._runs.names(row).get(node) or evaluation.title, LONGEST_NAME),
            title,
            evaluation,
            artifact,
            inspect,
            predictions,
            failed=state.state == "failed",
        )

    def _title(self, pipeline: Pipeline, name: str) -> str:
        """Return ``Deep forest, mdDF``: runs of one pipeline often differ in the preset only."""
        catalog, node = self._runs.catalog, pipeline.nodes[name]
        node_type = catalog.get(node.type)
        if node_type is None:
            return UNKNOWN
        if node.params.get("preset") in (None, "default"):
            return node_type.title
        preset = settings_of(name, pipeline, catalog).get(param_title("preset", node_type), "")
        return ", ".join(filter(None, (node_type.title, preset)))

    def _evaluation(self, artifact: Artifact) -> EvaluationFigures | None:
        """Return the figures of a report; None for other kinds, and for damaged ones."""
        if artifact.digest not in self._summaries:
            report = self._runs.open_report(artifact)
            summary = None
            if report is not None and report.kind == "evaluation":
                try:
                    summary = EvaluationFigures.of(report)
                except (*UNREADABLE, AttributeError, OverflowError):
                    self._damaged.add(artifact.digest)
            self._summaries[artifact.digest] = summary
        return self._summaries[artifact.digest]
