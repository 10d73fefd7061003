"""The evaluations of many runs, quickly.

Following a run's events, reading its pipeline and opening its reports is what takes time: a run is looked at again
only if it has new events, what was said on the way is left out, and a pipeline or report that runs share is read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from engine.catalogue import NodeCatalog
from engine.errors import SylvaError
from engine.events import EventLog, RunRow
from engine.graph import model_behind
from engine.pipeline import Node, Pipeline
from engine.run_state import RunState
from engine.store import Artifact, Store
from engine.summaries import result_state
from engine.text import readable
from engine.values import Report
from ui.studio.compare.leaderboard import EvaluationSummary, Line
from ui.studio.runs.history import written_out

UNKNOWN = "unknown"
FOREST, INSPECTED = "deep-forest", "inspect-layers"


@dataclass
class Boards:
    """What is known of the evaluations of one workspace."""

    store: Store
    catalogue: NodeCatalog
    _judged: dict[str, EvaluationSummary | None] = field(default_factory=dict)
    _documents: dict[str, Pipeline | None] = field(default_factory=dict)
    _lines: dict[str, tuple[int, tuple[Line, ...]]] = field(default_factory=dict)

    def lines(self, log: EventLog, rows: Iterable[RunRow]) -> list[Line]:
        """Every evaluation of these runs, also of runs that are still at work."""
        return [line for row in rows for line in self._of_run(log, row)]

    def _of_run(self, log: EventLog, row: RunRow) -> tuple[Line, ...]:
        newest = log.last_event(row.id)
        known = self._lines.get(row.id)
        if known is None or known[0] != newest:
            known = self._lines[row.id] = newest, self._read(row, result_state(log, row))
        return known[1]

    def _read(self, row: RunRow, state: RunState) -> tuple[Line, ...]:
        found = []
        document = self._document(row)
        for name, node in state.nodes.items():
            for about in node.outputs.values():
                output = Artifact.from_dict(about) if about["type"] == "report" else None
                judged = self._judgement(output) if output else None
                if output and judged:
                    found.append(self._line(row, state, document, name, output, judged))
        return tuple(found)

    def _document(self, row: RunRow) -> Pipeline | None:
        text = sha256(row.document.encode()).hexdigest()
        if text not in self._documents:
            self._documents[text] = written_out(row)
        return self._documents[text]

    def _line(
        self,
        row: RunRow,
        state: RunState,
        document: Pipeline | None,
        node: str,
        output: Artifact,
        judged: EvaluationSummary,
    ) -> Line:
        model = model_behind(document, self.catalogue, node) if document else None
        title = self._title(document.nodes[model]) if document and model else UNKNOWN
        inspect = inspected(document, state, model) if document else None
        started = state.started or row.created
        return Line(row.id, readable(row.name), started, node, title, judged, output, inspect)

    def _title(self, node: Node) -> str:
        """``Deep forest, mddf``: runs of one pipeline often differ in the preset only."""
        title = self.catalogue[node.type].title if node.type in self.catalogue else UNKNOWN
        preset = node.params.get("preset")
        return readable(f"{title}, {preset}") if preset and preset != "default" else title

    def _judgement(self, output: Artifact) -> EvaluationSummary | None:
        if output.digest not in self._judged:
            report = opened_report(self.store, output)
            self._judged[output.digest] = (
                EvaluationSummary.of(report) if report and report.kind == "evaluation" else None
            )
        return self._judged[output.digest]


def opened_report(store: Store, output: Artifact) -> Report | None:
    """A report; nothing if it was cleaned away or is damaged."""
    try:
        report = store.open(output)
    except (SylvaError, OSError, ValueError, TypeError, KeyError):
        return None
    return report if isinstance(report, Report) else None


def inspected(document: Pipeline, state: RunState, model: str | None) -> str | None:
    """The node of a run that Inspect can show: of the model itself if that is a deep forest, else of any there is."""
    ready = {name for name, node in state.nodes.items() if node.outputs and name in document.nodes}
    looks = [name for name in document.nodes if name in ready and document.nodes[name].type == INSPECTED]
    forests = [name for name in document.nodes if name in ready and document.nodes[name].type == FOREST]
    if model in forests:
        own = [edge.target.node for edge in document.edges if edge.source.node == model and edge.target.node in looks]
        return next(iter(own), model)
    return next(iter([*looks, *forests]), None)
