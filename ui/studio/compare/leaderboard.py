"""A leaderboard of evaluations, whatever run they come from.

- ``EvaluationSummary``   what a leaderboard needs of an evaluation; its curves stay in the store
- ``Line``     one evaluation of one run
- ``measures_of``, ``first_measure``, ``ranked``  what the lines can be ranked by, and in that order
- ``measure_title``  what a measure is called for these lines
- ``data_names``  which lines judged the same rows: only their measures can be compared
- ``names_of``    a short name for each line, none twice
- ``board_rows``  the lines as a table, on screen or in a file
- ``model_behind``  the node that made the model an evaluation judges
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepforest.metrics import METRIC_INFO, lower_is_better, title_among
from engine.catalogue import NodeCatalog
from engine.pipeline import Pipeline, PortRef
from engine.store import Artifact
from engine.text import clock
from engine.values import Report
from engine.wording import readable
from ui.studio.widgets import counted

LONGEST_NAME = 60


@dataclass(frozen=True)
class EvaluationSummary:
    """An evaluation without its curves: the measures, and the rows that were judged."""

    title: str
    measures: Mapping[str, float]
    rows: int
    classes: tuple[str, ...]
    positive: str | None
    counts: tuple[tuple[str, int], ...]
    """How many rows each class really has."""

    @classmethod
    def of(cls, report: Report) -> EvaluationSummary:
        """What a report of the kind ``evaluation`` tells."""
        positive = report.data.get("positive")
        return cls(
            readable(report.title, LONGEST_NAME),
            {name: value for name in METRIC_INFO if _is_number(value := report.headline.get(name))},  # type: ignore[misc]
            int(report.headline.get("rows") or 0),
            tuple(map(str, report.data.get("classes") or ())),
            None if positive is None else str(positive),
            tuple((str(row.get("class")), int(row.get("rows") or 0)) for row in report.rows),
        )

    @property
    def data(self) -> tuple[Any, ...]:
        """The same for two evaluations only if they judged as many rows of each class, by the same question."""
        return self.rows, self.classes, self.positive, self.counts

    @property
    def data_words(self) -> str:
        """``594 rows, 10 classes``."""
        sought = counted(len(self.classes), "class", "classes") if self.positive is None else f"to find {self.positive}"
        return f"{counted(self.rows, 'row')}, {sought}"


@dataclass(frozen=True)
class Line:
    """One evaluation of one run."""

    run: str
    pipeline: str
    started: float
    node: str
    model: str
    """The kind of model, as the palette calls it, and its preset."""
    judged: EvaluationSummary
    output: Artifact
    inspect: str | None = None
    """The node of the run that Inspect can show."""

    @property
    def key(self) -> str:
        """Tells it from every other."""
        return f"{self.run}/{self.node}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def measures_of(lines: Iterable[Line]) -> list[str]:
    """The measures for which any line has a value, the telling ones first."""
    there = {name for line in lines for name in line.judged.measures} - {"threshold"}
    return [name for name in METRIC_INFO if name in there]


def measure_title(lines: Iterable[Line], measure: str) -> str:
    """The name of a measure at the head of a column that holds it for all these lines."""
    return title_among((line.judged.measures for line in lines), measure)


def first_measure(lines: Sequence[Line]) -> str:
    """AUC where one class is to be found, else accuracy; what there is."""
    wanted = ("auc", "accuracy") if any(line.judged.positive is not None for line in lines) else ("accuracy", "auc")
    there = measures_of(lines)
    return next((name for name in (*wanted, *there) if name in there), "accuracy")


def ranked(lines: Iterable[Line], measure: str) -> list[Line]:
    """The best first, those without a value last; equals keep their order."""
    sign = 1 if lower_is_better(measure) else -1

    def rank(line: Line) -> tuple[bool, float]:
        value = line.judged.measures.get(measure)
        return value is None, sign * (value or 0.0)

    return sorted(lines, key=rank)


def data_names(lines: Iterable[Line]) -> dict[str, str]:
    """What each line judged, by its key: ``A: 594 rows, 10 classes``; the letter tells apart what reads alike."""
    letters: dict[tuple[Any, ...], str] = {}
    found = {}
    for line in lines:
        letter = letters.setdefault(line.judged.data, _letter(len(letters)))
        found[line.key] = f"{letter}: {line.judged.data_words}"
    return found


def _letter(number: int) -> str:
    """A to Z, then AA to ZZ, and on."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("A") + last)


def alike(lines: Sequence[Line], most: int) -> list[Line]:
    """The first lines that judged what the very first one judged."""
    return [line for line in lines if line.judged.data == lines[0].judged.data][:most]


def names_of(lines: Sequence[Line]) -> list[str]:
    """The evaluations' own names where they differ, else with the run, else with the node as well."""
    plain = [line.judged.title for line in lines]
    with_run = [f"{line.judged.title} · {line.run[9:] or line.run}" for line in lines]
    whole = [f"{name} · {line.node}" for name, line in zip(with_run, lines, strict=True)]
    once, once_in_run = Counter(plain), Counter(with_run)
    return [
        short if once[short] == 1 else longer if once_in_run[longer] == 1 else full
        for short, longer, full in zip(plain, with_run, whole, strict=True)
    ]


def board_rows(lines: Sequence[Line], data: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines as rows of plain values; each has every measure that any of them has."""
    shown = [*measures_of(lines), "threshold"]
    return [
        {"rank": rank, "evaluation": line.judged.title, "started": clock(line.started), "model": line.model}
        | {"pipeline": line.pipeline, "data": data[line.key]}
        | {name: line.judged.measures.get(name) for name in shown}
        | {"run": line.run, "node": line.node}
        for rank, line in enumerate(lines, start=1)
    ]


def model_behind(document: Pipeline, catalogue: NodeCatalog, node: str) -> str | None:
    """The node whose model made the predictions that ``node`` judges."""
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop(0)
        for edge in document.edges:
            if edge.target.node != current or edge.source.node in seen:
                continue
            kind = _type_of(document, catalogue, edge.source)
            if kind == "model":
                return edge.source.node
            if kind == "predictions":
                seen.add(edge.source.node)
                waiting.append(edge.source.node)
    return None


def _type_of(document: Pipeline, catalogue: NodeCatalog, end: PortRef) -> str | None:
    node = document.nodes.get(end.node)
    port = catalogue[node.type].output(end.port) if node and node.type in catalogue else None
    return port.type if port else None
