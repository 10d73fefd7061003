"""What became of many runs, without reading the events of each.

A summary is the fold over the events of a run, saved with the number of the last one. It counts as long as
that is the last: it can be lost or outdated, and is then made again, but never shown instead of what the events say.
Whether a supervisor still lives is not saved; that is looked up each time.

- ``RunSummary``, ``summaries``   a run in a list of runs; the list
- ``summarise``                save the summary of one run, which its supervisor does in the end
- ``final_reports``, ``most_telling``  what a run found
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from engine.catalogue import load_catalog
from engine.errors import SylvaError
from engine.events import EventLog, Noted, RunRow
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.problems import InvalidPipeline
from engine.run_state import LIVE, RunState, apply_events, mark_interrupted_if_dead
from engine.store import Artifact, Store
from engine.sweeps import expand_past, has_sweep
from engine.values import Report

ON_THE_WAY = ("progress", "jobs", "part")
"""Events that say nothing of results."""
TELLING = ("comparison", "evaluation")
"""Kinds of reports, the most telling first."""
SAVED_AT_ONCE = 100
DOCUMENTS_REMEMBERED = 64


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
    settings: tuple[str, ...] = ()
    """What was changed for this run on the command line."""
    report: Report | None = None
    """The headline of what it found, without rows and data; only where reports were asked for."""

    @property
    def live(self) -> bool:
        """Whether a supervisor is at work on it."""
        return self.state in LIVE

    @property
    def seconds(self) -> float | None:
        """How long its last attempt took; nothing while it is at work."""
        return self.finished - self.started if self.finished and self.started else None


def summaries(
    log: EventLog,
    limit: int | None = None,
    *,
    wanted: Callable[[Noted], bool] = lambda noted: True,
    reports: bool = False,
) -> Iterator[RunSummary]:
    """Yield the runs that are wanted, newest first; look at ``limit`` runs at most."""
    yield from _summaries(log, filter(wanted, log.noted(limit)), reports)


def summarise(log: EventLog, run: str) -> RunSummary | None:
    """Return the summary of a run and save it, with its report; None if there is no such run."""
    return next(iter(list(_summaries(log, log.noted(run=run), reports=True))), None)


def _summaries(log: EventLog, runs: Iterable[Noted], reports: bool) -> Iterator[RunSummary]:
    unsaved: list[tuple[str, int, dict[str, Any]]] = []
    try:
        for noted in runs:
            summary, facts = _summary(log, noted, reports)
            yield summary
            if facts != noted.facts and not summary.live:
                unsaved.append((noted.id, noted.last_event, facts))
            if len(unsaved) == SAVED_AT_ONCE:
                _save(log, unsaved)
    finally:
        _save(log, unsaved)


def _save(log: EventLog, unsaved: list[tuple[str, int, dict[str, Any]]]) -> None:
    """Save what was found out. On a full or read-only disk it has to be found out again the next time."""
    with contextlib.suppress(SylvaError):
        log.save_summaries(unsaved)
    unsaved.clear()


def _summary(log: EventLog, noted: Noted, reports: bool) -> tuple[RunSummary, dict[str, Any]]:
    """Return what became of a run, and the same as it is saved."""
    told, facts = _told(log, noted)
    if reports and "report" not in facts:
        facts = facts | _report_facts(log, noted.id)
    now = mark_interrupted_if_dead(told)
    settings = tuple(str(each) for each in noted.request.get("settings") or ())
    summary = RunSummary(
        noted.id, noted.name, noted.created, now.state, now.started, now.finished, noted.last_event, settings,
        _report(facts),
    )  # fmt: skip
    return summary, facts


def _told(log: EventLog, noted: Noted) -> tuple[RunState, dict[str, Any]]:
    """Return what the events say: the saved fold, carried on by the events that came since."""
    saved = _from_facts(noted)
    if saved and noted.summarised == noted.last_event:
        return saved, noted.facts
    if saved is None or noted.summarised > noted.last_event:
        saved = RunState(noted.id, noted.name, noted.created)
    state = apply_events(saved, log.events(noted.id, saved.last_event, nodes=False))
    told = replace(state, nodes={})
    return told, {
        "state": told.state,
        "supervisor": told.supervisor,
        "started": told.started,
        "finished": told.finished,
        "attempt": told.attempt,
    }


def _from_facts(noted: Noted) -> RunState | None:
    match noted.facts:
        case {
            "state": str() as state,
            "supervisor": dict() | None as supervisor,
            "started": float() | None as started,
            "finished": float() | None as finished,
            "attempt": int() as attempt,
        }:
            return RunState(
                noted.id, noted.name, noted.created, state, {}, supervisor, started, finished, attempt, noted.summarised
            )
    return None


# What a run found


def result_state(log: EventLog, row: RunRow) -> RunState:
    """Return what the events of a run say of its results; what nodes reported on the way is left out."""
    return apply_events(RunState(row.id, row.name, row.created), log.events(row.id, without=ON_THE_WAY))


def final_reports(row: RunRow, state: RunState) -> dict[str, Artifact]:
    """Return the reports of a run that no other node gathers into its own, by node."""
    found = {}
    for name, node in state.nodes.items():
        for about in node.outputs.values():
            if about["type"] == "report":
                found[name] = Artifact.from_dict(about)
    document = written_out(row.document) if found else None
    edges = document.edges if document else ()
    gathered = {edge.source.node for edge in edges if edge.target.node in state.nodes}
    return {name: output for name, output in found.items() if name not in gathered}


@lru_cache(DOCUMENTS_REMEMBERED)
def written_out(text: str) -> Pipeline | None:
    """Return the pipeline of a run with its branches written out; None if this version cannot read it."""
    try:
        document = parse(text)
    except InvalidPipeline:
        return None
    return expand_past(document, load_catalog()).pipeline if has_sweep(document) else document


def most_telling(reports: Iterable[Report]) -> Report | None:
    """Return a comparison before an evaluation before anything else."""
    ranked = sorted(reports, key=lambda each: TELLING.index(each.kind) if each.kind in TELLING else len(TELLING))
    return next(iter(ranked), None)


def _report_facts(log: EventLog, run: str) -> dict[str, Any]:
    """Return the headline of a run's report as it is saved; nothing if a report cannot be read now."""
    try:
        row = log.run(run)
        outputs = final_reports(row, result_state(log, row))
        store = Store(log.workspace)
        report = most_telling([store.open(output) for output in outputs.values()])
    except (SylvaError, OSError, ValueError, TypeError, KeyError):
        return {}
    if report is None:
        return {"report": None}
    return {"report": {"kind": report.kind, "title": report.title, "headline": dict(report.headline)}}


def _report(facts: dict[str, Any]) -> Report | None:
    match facts.get("report"):
        case {"kind": str() as kind, "title": str() as title, "headline": dict() as headline}:
            return Report(kind, title, headline)
    return None
