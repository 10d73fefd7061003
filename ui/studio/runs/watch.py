"""One run as it is looked at: its state and its timeline, carried on by new events only.

- ``Span``      one time that a node was at work, or the moment its result was found
- ``Watch``     state and spans of a run
- ``spotlight`` the node worth looking at first
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from engine.events import EventLog, NodeCached, NodeStarted, RunEvent, RunFinished, RunRow, RunStarted
from engine.run_state import RunState, apply_events, mark_interrupted_if_dead

ENDINGS = {"finished": "done", "failed": "failed", "retrying": "failed", "stopped": "cancelled", "reopened": "failed"}


@dataclass(frozen=True)
class Span:
    """One time that a node was at work; a cached result has no length."""

    node: str
    start: float
    end: float | None
    state: str
    attempt: int
    """Which attempt of the run this was in."""


@dataclass
class Watch:
    """A run's state and timeline as of the last look."""

    row: RunRow
    told: RunState = field(init=False)
    """What the events say, whether or not the supervisor still lives."""
    spans: list[Span] = field(default_factory=list)
    heard: float = 0.0
    """When the last event was written."""

    def __post_init__(self) -> None:
        self.told = RunState(self.row.id, self.row.name, self.row.created)
        self.heard = self.row.created

    def look(self, log: EventLog) -> RunState:
        """Take in what is new; the present state."""
        events = log.events(self.row.id, self.told.last_event)
        attempt = self.told.attempt
        for entry in events:
            attempt += isinstance(entry.event, RunStarted)
            self._draw_on(entry.event, entry.time, attempt)
            # Subtasks of a killed attempt may be written again later.
            self.heard = max(self.heard, entry.time)
        self.told = apply_events(self.told, events)
        return mark_interrupted_if_dead(self.told)

    def _draw_on(self, event: RunEvent, moment: float, attempt: int) -> None:
        match event:
            case RunStarted():  # what ran before was interrupted
                self._end(self._open(), self.heard, "interrupted")
            case RunFinished():
                self._end(self._open(), moment, event.state)
            case NodeStarted():
                self.spans.append(Span(event.node, moment, None, "running", attempt))
            case NodeCached():
                self.spans.append(Span(event.node, moment, moment, "cached", attempt))
            case _ if event.kind in ENDINGS:
                open_spans = [at for at in self._open() if self.spans[at].node == event.node]
                self._end(open_spans, moment, ENDINGS[event.kind])

    def _open(self) -> list[int]:
        return [at for at, span in enumerate(self.spans) if span.end is None]

    def _end(self, places: Iterable[int], moment: float, state: str) -> None:
        for at in places:
            self.spans[at] = replace(self.spans[at], end=moment, state=state)

    def timeline(self, *, live: bool) -> list[Span]:
        """The spans; those still open end now, or when the run was last heard of if no one is at work on it."""
        if live:
            return [span if span.end else replace(span, end=time.time()) for span in self.spans]
        return [span if span.end else replace(span, end=self.heard, state="interrupted") for span in self.spans]


def spotlight(state: RunState) -> str | None:
    """The node worth looking at first: one that failed, else one at work, else one cut off, else the last."""
    begun = [name for name in state.nodes_in("cancelled", "interrupted") if state.nodes[name].started is not None]
    for names in (state.nodes_in("failed"), state.nodes_in("running"), begun):
        if names:
            return names[0]
    return list(state.nodes)[-1] if state.nodes else None
