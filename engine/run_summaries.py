"""What became of many runs, without reading the events of each.

The summary of a run is its state, its times and the headline of its report, saved with the number
of the last event that it is made of. It counts as long as that is the last event; otherwise it is
made again from the events. Whether a supervisor still lives is not saved but looked up each time.

- ``RunSummary``, ``summaries``  a run in a list of runs; the list
- ``save_summary``               save the summary of one run, which its supervisor does in the end
- ``RunPipelines``               the pipelines of runs as they were planned, each read once
- ``result_state``, ``final_reports``, ``main_report``  what a run found
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import SylvaError
from engine.events import EventLog, RunRow, SummaryRow
from engine.node_types import NodeCatalog, load_catalog
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.result_names import named_report, result_names
from engine.run_state import LIVE, RunState, apply_events, mark_interrupted_if_dead
from engine.store import Artifact, Store
from engine.sweeps import ExpandedPipeline, expand_past
from engine.text import cell
from engine.values import Report

PROGRESS_KINDS = ("progress", "jobs", "part")
"""Events that say nothing about results."""
MAIN_KINDS = ("comparison", "evaluation")
"""Kinds of reports that can be the headline of a run, the most important first."""
UNREADABLE = (SylvaError, OSError, ValueError, TypeError, KeyError)
"""What opening an output raises if it was removed or is damaged."""
SAVED_FACTS = ("state", "supervisor", "started", "finished", "attempt")
SAVED_AT_ONCE = 100
MAX_REMEMBERED = 256


@dataclass(frozen=True)
class RunSummary:
    """A run in a list of runs."""

    id: str
    name: str
    created: float
    state: str
    started: float | None
    finished: float | None
    last_event: int
    overrides: tuple[str, ...] = ()
    """The texts of ``--set`` and ``--sweep``."""
    report: Report | None = None
    """The headline of its main report, without rows and data; None while the run is live."""

    @property
    def live(self) -> bool:
        """Whether a supervisor works on it."""
        return self.state in LIVE

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took; None while the run is live."""
        return self.finished - self.started if self.finished and self.started else None

    @property
    def headline(self) -> str:
        """The main report in a few words; empty for a run without reports."""
        figures = self.report.headline if self.report else {}
        texts = {name: cell(value) for name, value in figures.items()}
        if "best" in texts:
            first = f"best {texts['best']}"
            if isinstance(tied := figures.get("tied"), int) and tied:
                first = f"tie of {1 + tied}, first {texts['best']}"
            return f"{first}, {texts['metric']} {texts['value']}"
        return next((f"{name} {text}" for name, text in texts.items()), "")


class RunPipelines:
    """The pipelines of runs. Each is read once, also if several runs have the same."""

    def __init__(self, catalog: NodeCatalog | None = None) -> None:
        self._catalog = catalog
        self._written: dict[str, Pipeline | None] = {}
        self._planned: dict[str, ExpandedPipeline | None] = {}
        self._names: dict[str, Mapping[str, str]] = {}

    def add(self, text: str, pipeline: Pipeline, planned: ExpandedPipeline | None = None) -> None:
        """Remember a pipeline that is parsed already, and perhaps planned."""
        # This is rare, so all are forgotten instead of those that were not used for long.
        if len(self._written) >= MAX_REMEMBERED:
            self._written, self._planned, self._names = {}, {}, {}
        self._written[text] = pipeline
        if planned:
            self._planned[text] = planned

    def written(self, row: RunRow) -> Pipeline | None:
        """Return the pipeline of a run as it was written; None if this version cannot read it."""
        try:
            if row.document not in self._written:
                self.add(row.document, parse(row.document))
        except SylvaError:
            self._written[row.document] = None
        return self._written.get(row.document)

    def planned(self, row: RunRow) -> ExpandedPipeline | None:
        """Return the same with its sweeps expanded: a node for each that the run has."""
        if row.document not in self._planned:
            pipeline = self.written(row)
            planned = expand_past(pipeline, self._types) if pipeline else None
            self._planned[row.document] = planned
        return self._planned.get(row.document)

    def names(self, row: RunRow) -> Mapping[str, str]:
        """Return the names of the run's results by node, as ``result_names`` does."""
        if row.document not in self._names:
            written, planned = self.written(row), self.planned(row)
            known = result_names(written, planned, self._types) if written and planned else {}
            self._names[row.document] = known
        return self._names[row.document]

    @property
    def _types(self) -> NodeCatalog:
        """The node types that pipelines may use."""
        return load_catalog() if self._catalog is None else self._catalog


def save_summary(log: EventLog, pipelines: RunPipelines, run_id: str) -> RunSummary | None:
    """Return the summary of a run and save it; None if the run does not exist."""
    # Read to the end, which is when summaries are saved.
    found = list(summaries(log, pipelines, log.summary_rows(run=run_id)))
    return found[0] if found else None


def summaries(
    log: EventLog, pipelines: RunPipelines, runs: Iterable[SummaryRow], states: Sequence[str] = ()
) -> Iterator[RunSummary]:
    """Yield the summaries of the runs in one of the states, by default in any; save new ones."""
    unsaved: list[tuple[str, int, dict[str, Any]]] = []
    try:
        for row in runs:
            reported, facts = _reported_state(log, row)
            state = mark_interrupted_if_dead(reported)
            listed = not states or state.state in states
            if listed and not state.live and "report" not in facts:
                facts = facts | _report_facts(log, pipelines, row.id)
            # The next event of a live run would make a saved summary invalid.
            if facts != row.facts and not state.live:
                unsaved.append((row.id, row.last_event, facts))
            if listed:
                yield _summary(row, state, facts)
            if len(unsaved) >= SAVED_AT_ONCE:
                _save(log, unsaved)
    finally:
        _save(log, unsaved)


def _save(log: EventLog, unsaved: list[tuple[str, int, dict[str, Any]]]) -> None:
    """Save new summaries. If the disk is full or read-only, they are made again next time."""
    with contextlib.suppress(SylvaError):
        log.save_summaries(unsaved)
    unsaved.clear()


def _summary(row: SummaryRow, state: RunState, facts: dict[str, Any]) -> RunSummary:
    """Return a run as a list shows it."""
    return RunSummary(
        row.id,
        row.name,
        row.created,
        state.state,
        state.started,
        state.finished,
        row.last_event,
        overrides=tuple(str(text) for text in row.options.get("settings") or ()),
        report=_report(facts),
    )


def _reported_state(log: EventLog, row: SummaryRow) -> tuple[RunState, dict[str, Any]]:
    """Return what the events say, and the same as it is saved.

    This is the saved summary, carried on by the events that came since.
    """
    created = RunState(row.id, row.name, row.created)
    saved = _with_facts(created, row)
    if saved and row.summarised == row.last_event:
        return saved, row.facts
    # A summary of events that are gone: the log was replaced by an older copy.
    if saved is None or row.summarised > row.last_event:
        saved = created
    state = apply_events(saved, log.events(row.id, saved.last_event, nodes=False))
    facts = {name: getattr(state, name) for name in SAVED_FACTS}
    return replace(state, nodes={}), facts


def _with_facts(state: RunState, row: SummaryRow) -> RunState | None:
    """Return a state with what was saved; None if nothing was, or it is damaged."""
    match row.facts:
        case {
            "state": str(),
            "supervisor": dict() | None,
            "started": float() | None,
            "finished": float() | None,
            "attempt": int(),
        }:
            facts = {name: row.facts[name] for name in SAVED_FACTS}
            return replace(state, **facts, last_event=row.summarised)
    return None


# What a run found


def result_state(log: EventLog, row: RunRow) -> RunState:
    """Return what the events of a run say about its results; reports of progress are left out."""
    events = log.events(row.id, without=PROGRESS_KINDS)
    return apply_events(RunState(row.id, row.name, row.created), events)


def final_reports(pipelines: RunPipelines, row: RunRow, state: RunState) -> dict[str, Artifact]:
    """Return the reports of a run that no other node reads, by node."""
    reports = {}
    for name, node in state.nodes.items():
        for output in node.outputs.values():
            if output["type"] == "report":
                reports[name] = Artifact.from_dict(output)
    planned = pipelines.planned(row) if reports else None
    edges = planned.pipeline.edges if planned else ()
    read = {edge.source.node for edge in edges if edge.target.node in state.nodes}
    return {name: report for name, report in reports.items() if name not in read}


def main_report(reports: Iterable[Report]) -> Report | None:
    """Return a comparison if there is one, else an evaluation, else any report."""
    ranks = {kind: rank for rank, kind in enumerate(MAIN_KINDS)}
    return min(reports, key=lambda report: ranks.get(report.kind, len(ranks)), default=None)


def _report_facts(log: EventLog, pipelines: RunPipelines, run_id: str) -> dict[str, Any]:
    """Return the headline of a run as it is saved; nothing if a report cannot be read now."""
    try:
        row = log.run(run_id)
        artifacts = final_reports(pipelines, row, result_state(log, row))
        store = Store(log.workspace)
        names = pipelines.names(row)
        report = main_report(
            [named_report(store.open(each), node, names) for node, each in artifacts.items()]
        )
    except UNREADABLE:
        return {}
    if report is None:
        return {"report": None}
    headline = dict(report.headline)
    return {"report": {"kind": report.kind, "title": report.title, "headline": headline}}


def _report(facts: dict[str, Any]) -> Report | None:
    """Return the headline that was saved; None if it is missing or damaged."""
    match facts.get("report"):
        case {"kind": str() as kind, "title": str() as title, "headline": dict() as headline}:
            return Report(kind, title, headline)
    return None
