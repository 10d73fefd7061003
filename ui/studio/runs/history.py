"""What became of the runs of a workspace, quickly, however many there are.

- ``History``   the list of runs with its filters
- ``reports_of``, ``final_reports``, ``headline_of``  what a run found
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.catalogue import load_catalog
from engine.errors import SylvaError
from engine.events import EventLog, Noted, RunRow
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.run_state import RunState
from engine.store import Artifact, Store
from engine.summaries import RunSummary, most_telling, result_state, summaries
from engine.sweeps import ExpandedPipeline, expand_past
from engine.values import Report


@dataclass
class History:
    """The runs of one workspace and what is known of them already."""

    store: Store
    _headlines: dict[tuple[str, int], str] = field(default_factory=dict)

    def newest(
        self, log: EventLog, *, words: str = "", states: Sequence[str] = (), limit: int = 50
    ) -> tuple[list[RunSummary], bool]:
        """The newest runs that the words fit and that are in one of the states; whether there are more."""
        found: list[RunSummary] = []
        searched = None if words or states else limit + 1
        for run in summaries(log, searched, wanted=lambda noted: _fits(noted, words)):
            if not states or run.state in states:
                if len(found) == limit:
                    return found, True
                found.append(run)
        return found, False

    def headline(self, log: EventLog, run: RunSummary) -> str:
        """What a run found, in a few words; nothing while it is at work. Read once, since it takes opening a report."""
        if run.live:
            return ""
        known = self._headlines.get((run.id, run.last_event))
        if known is None:
            row = log.run(run.id)
            known = headline_of(final_reports(self.store, row, result_state(log, row)))
            self._headlines[run.id, run.last_event] = known
        return known


def _fits(row: Noted, words: str) -> bool:
    """Whether the name has all the words, or the id holds the text."""
    name = row.name.casefold()
    return all(word in name for word in words.casefold().split()) or words.strip() in row.id


def document_of(row: RunRow) -> Pipeline | None:
    """The pipeline of a run; nothing if this version of the program cannot read it."""
    try:
        return parse(row.document)
    except SylvaError:
        return None


def written_out(row: RunRow) -> Pipeline | None:
    """The pipeline of a run as it was planned: with a node for each branch of a sweep, as in the state of the run."""
    planned = planned_of(row)
    return planned.pipeline if planned else None


def planned_of(row: RunRow) -> ExpandedPipeline | None:
    """The same, with what became of each node of the pipeline as it was written."""
    document = document_of(row)
    return expand_past(document, load_catalog()) if document else None


def final_reports(store: Store, row: RunRow, state: RunState) -> dict[str, Report]:
    """What a run has to say in the end: the reports that no other node gathers into its own, by node."""
    found = reports_of(store, state)
    document = written_out(row) if found else None
    edges = document.edges if document else ()
    gathered = {edge.source.node for edge in edges if edge.target.node in state.nodes}
    return {name: report for name, report in found.items() if name not in gathered}


def reports_of(store: Store, state: RunState) -> dict[str, Report]:
    """All reports of a run by node; damaged ones are left out."""
    wanted = {
        name: about
        for name, node in state.nodes.items()
        for about in node.outputs.values()
        if about["type"] == "report"
    }
    found = {}
    for name, about in wanted.items():
        try:
            found[name] = store.open(Artifact.from_dict(about))
        except (SylvaError, OSError, ValueError, TypeError, KeyError):  # cleaned away or damaged: nothing to show
            continue
    return found


def headline_of(reports: Mapping[str, Report]) -> str:
    """The most telling report in a few words: a comparison before an evaluation before anything else."""
    from ui.studio.previews import headline

    report = most_telling(reports.values())
    return ": ".join(part for part in headline(report) if part) if report else ""
