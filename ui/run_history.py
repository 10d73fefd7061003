"""What became of the runs of a workspace, quickly, however many there are.

A run's state is a fold over its events; a finished run is folded once and looked at again only when it has new ones.

- ``Summary``, ``History``   a run in a list; the list with its filters
- ``reports_of``, ``headline_of``  what a run found
- ``measure_rows``           headline measures of several runs side by side
- ``parameter_differences``  the settings in which several pipelines differ
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.cli.text import cell
from engine.document import Document, Node
from engine.errors import SylvaError
from engine.events import EventLog, RunRow
from engine.pipeline_file import parse
from engine.state import LIVE, RunState, fold, judge_life
from engine.store import Output, Store
from engine.values import Report

TELLING = ("comparison", "evaluation")
"""Kinds of reports, the most telling first."""

DEFAULT, ABSENT = "default", "no such node"


@dataclass(frozen=True)
class Summary:
    """A run in a list of runs."""

    id: str
    name: str
    created: float
    state: str
    started: float | None
    finished: float | None
    headline: str
    last_event: int

    @property
    def live(self) -> bool:
        """Whether someone is at work on it."""
        return self.state in LIVE

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took; nothing while it is at work."""
        return self.finished - self.started if self.finished and self.started else None


@dataclass
class History:
    """The runs of one workspace and what is known of them already."""

    store: Store
    _known: dict[str, Summary] = field(default_factory=dict)
    _at_work: dict[str, RunState] = field(default_factory=dict)

    def newest(
        self, log: EventLog, *, words: str = "", states: Sequence[str] = (), limit: int = 50
    ) -> tuple[list[Summary], bool]:
        """The newest runs that have the words in their name or id and are in one of the states; whether more exist."""
        rows = log.runs(None if words or states else limit + 1)
        found: list[Summary] = []
        for summary in self._fitting(log, rows, words.casefold().split(), states):
            if len(found) == limit:
                return found, True
            found.append(summary)
        return found, False

    def _fitting(
        self, log: EventLog, rows: Sequence[RunRow], words: Sequence[str], states: Sequence[str]
    ) -> Iterator[Summary]:
        for row in rows:
            text = f"{row.name} {row.id}".casefold()
            if all(word in text for word in words):
                summary = self.look(log, row)
                if not states or summary.state in states:
                    yield summary

    def look(self, log: EventLog, row: RunRow) -> Summary:
        """What became of a run."""
        known = self._known.get(row.id)
        if known and not known.live and not log.events(row.id, known.last_event):
            return known
        before = self._at_work.pop(row.id, None) or RunState(row.id, row.name, row.created)
        state = fold(before, log.events(row.id, before.last_event))
        judged = judge_life(state)
        if judged.live:
            self._at_work[row.id] = state
        self._known[row.id] = self._summary(row, judged)
        return self._known[row.id]

    def _summary(self, row: RunRow, state: RunState) -> Summary:
        reports = {} if state.live else reports_of(self.store, row, state)
        return Summary(
            row.id, row.name, row.created, state.state, state.started, state.finished,
            headline_of(reports), state.last_event,
        )  # fmt: skip


def document_of(row: RunRow) -> Document | None:
    """The pipeline of a run; nothing if this version of the program cannot read it."""
    try:
        return parse(row.document)
    except SylvaError:
        return None


def reports_of(store: Store, row: RunRow, state: RunState) -> dict[str, Report]:
    """What a run has to say: the reports that no other node gathers into its own, by node; damaged ones left out."""
    wanted = {
        name: Output.from_dict(about)
        for name, node in state.nodes.items()
        for about in node.outputs.values()
        if about["type"] == "report"
    }
    document = document_of(row) if wanted else None
    edges = document.edges if document else ()
    gathered = {edge.source.node for edge in edges if edge.target.node in state.nodes}
    found = {}
    for name, output in wanted.items():
        try:
            if name not in gathered:
                found[name] = store.open(output)
        except (SylvaError, OSError, ValueError, TypeError, KeyError):  # cleaned away or damaged: nothing to show
            continue
    return found


def headline_of(reports: Mapping[str, Report]) -> str:
    """The most telling report in a few words: a comparison before an evaluation before anything else."""
    ranked = sorted(
        reports.values(), key=lambda report: TELLING.index(report.kind) if report.kind in TELLING else len(TELLING)
    )
    words = {name: cell(value) for name, value in (ranked[0].headline if ranked else {}).items()}
    if {"best", "metric", "value"} <= words.keys():
        return f"best {words['best']}, {words['metric']} {words['value']}"
    return next((f"{name} {value}" for name, value in words.items()), "")


def measure_rows(reports: Mapping[str, Mapping[str, Report]]) -> list[dict[str, str]]:
    """One row for each headline measure of a node, one column for each run; the keys of ``reports`` are the runs."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for run, found in reports.items():
        for node, report in found.items():
            for name, value in report.headline.items():
                rows.setdefault((node, name), {})[run] = cell(value)
    return [
        {"Node": node, "Measure": name} | {run: values.get(run, "–") for run in reports}
        for (node, name), values in rows.items()
    ]


def parameter_differences(documents: Mapping[str, Document]) -> list[dict[str, str]]:
    """The settings that are not the same in all documents: one row each, one column for each key of ``documents``."""
    nodes = dict.fromkeys(name for document in documents.values() for name in document.nodes)
    rows = []
    for name in nodes:
        versions = {run: _settings_of(document.nodes.get(name)) for run, document in documents.items()}
        for setting in dict.fromkeys(each for values in versions.values() if values for each in values):
            shown = {
                run: ABSENT if values is None else values.get(setting, DEFAULT) for run, values in versions.items()
            }
            if len(set(shown.values())) > 1:
                rows.append({"Node": name, "Setting": setting, **shown})
    return rows


def _settings_of(node: Node | None) -> dict[str, str] | None:
    """Everything a node was told, flat; nested settings by a dotted name."""
    if node is None:
        return None
    engine = node.settings.model_dump(exclude_defaults=True)
    return {"type": node.type} | dict(_flat({**node.params, **engine}, ""))


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
