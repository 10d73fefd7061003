"""What state a run and its nodes are in: a fold over the event log, nothing else.

A run whose supervisor is gone without a last word is ``interrupted``; it resumes like a failed one. An event may lack
facts, where the log was damaged or a newer version wrote it: those count as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from engine.events import IN_PASSING, EventLog, LogEntry, NewEntry, RunRow
from engine.processes import ProcessId, is_alive

STARTING_SECONDS = 20.0
"""How long a run may take from being noted down to its supervisor's first word."""

LIVE = ("starting", "running")

Kind = TypeVar("Kind")
Otherwise = TypeVar("Otherwise")


@dataclass(frozen=True)
class Subtask:
    """One job inside a node, such as a fit of a deep forest."""

    state: str
    """``waiting``, ``running``, ``done``, ``kept`` (finished before a kill, and not repeated) or ``failed``."""
    seconds: float | None = None
    attempt: int = 1
    """Which start of the node this was last heard of in."""


@dataclass(frozen=True)
class NodeState:
    """One node of a run."""

    state: str = "queued"
    attempt: int = 0
    fraction: float = 0.0
    text: str = ""
    """What it does now, why it was cached, or why it waits."""
    started: float | None = None
    seconds: float | None = None
    key: str | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    process: dict[str, Any] | None = None
    executions: int = 0
    """How often its code was started over all attempts of the run."""
    subtasks: dict[tuple[str, ...], Subtask] = field(default_factory=dict)
    """The jobs inside it, by their place: layer, learner, fold."""
    partial_results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it told of its result while it was at work; the same work tells the same, so an end takes nothing back."""


@dataclass(frozen=True)
class RunState:
    """A run, derived from its events."""

    id: str
    name: str
    created: float
    state: str = "starting"
    nodes: dict[str, NodeState] = field(default_factory=dict)
    supervisor: dict[str, Any] | None = None
    started: float | None = None
    finished: float | None = None
    attempt: int = 0
    last_event: int = 0

    @property
    def live(self) -> bool:
        """Whether someone is at work on it."""
        return self.state in LIVE

    def nodes_in(self, *states: str) -> list[str]:
        """Ids of the nodes in one of ``states``."""
        return [name for name, node in self.nodes.items() if node.state in states]


def run_state(log: EventLog, row: RunRow) -> RunState:
    """The present state of a run."""
    return mark_interrupted_if_dead(apply_events(RunState(row.id, row.name, row.created), log.events(row.id)))


def apply_events(state: RunState, events: Iterable[LogEntry]) -> RunState:
    """Carry ``state`` over the events that came since."""
    nodes = dict(state.nodes)
    for event in events:
        state = replace(state, last_event=event.seq)
        if event.node is not None:
            before = nodes.get(event.node, NodeState())
            change = _NODE_EVENTS.get(event.kind)  # a newer version may know more kinds
            nodes[event.node] = change(before, event) if change else before
        elif event.kind == "run-started":
            nodes |= {name: _queued(nodes.get(name)) for name in _todo(event)}
            state = replace(
                state, state="running", supervisor=_process(event, "supervisor"), attempt=state.attempt + 1,
                started=event.time, finished=None,
            )  # fmt: skip
        elif event.kind == "run-finished":
            state = replace(state, state=_fact(event, "state", str, "interrupted"), finished=event.time)
            nodes = _ended(nodes, state.state)
    return replace(state, nodes=nodes)


def mark_interrupted_if_dead(state: RunState) -> RunState:
    """A run that says it is at work but has no living supervisor was interrupted."""
    if state.state == "starting" and 0 <= time.time() - state.created < STARTING_SECONDS:
        return state
    if not state.live or (state.supervisor and is_alive(ProcessId(**state.supervisor))):
        return state
    return replace(state, state="interrupted", nodes=_ended(state.nodes, "interrupted"))


def _ended(nodes: dict[str, NodeState], state: str) -> dict[str, NodeState]:
    """Nodes that a run left behind when it ended share its state."""
    return {
        name: replace(node, state=state) if node.state in ("running", "queued") else node
        for name, node in nodes.items()
    }


def _queued(before: NodeState | None) -> NodeState:
    if before is None:
        return NodeState()
    return NodeState(
        executions=before.executions, subtasks=_left_behind(before.subtasks), partial_results=before.partial_results
    )


def _left_behind(jobs: dict[tuple[str, ...], Subtask]) -> dict[tuple[str, ...], Subtask]:
    """The jobs that an attempt finished; what was under way when it ended is not."""
    return {place: job for place, job in jobs.items() if job.state in ("done", "kept")}


# What single events tell


def _fact(event: LogEntry, name: str, kind: type[Kind], otherwise: Otherwise) -> Kind | Otherwise:
    """A fact of an event, if it is there and of that kind."""
    found = event.data.get(name)
    return found if isinstance(found, kind) else otherwise


def _number(event: LogEntry, name: str) -> float | None:
    found = event.data.get(name)
    return found if isinstance(found, int | float) else None


def _text(event: LogEntry, name: str) -> str:
    return _fact(event, name, str, "")


def _todo(event: LogEntry) -> list[str]:
    return [name for name in _fact(event, "todo", list, []) if isinstance(name, str)]


def _process(event: LogEntry, name: str) -> dict[str, Any] | None:
    """A process, if it is told well enough to be found."""
    match event.data.get(name):
        case {"pid": int() as pid, "began": int() as began, "boot": str() as boot}:
            return {"pid": pid, "began": began, "boot": boot}
    return None


def _error(event: LogEntry) -> dict[str, Any]:
    return {"kind": "error", "message": "It is not known why.", "field": None} | _fact(event, "error", dict, {})


def _outputs(event: LogEntry) -> dict[str, Any] | None:
    """What a node gave, by port; nothing if any of it cannot be told."""
    outputs = event.data.get("outputs")
    return outputs if isinstance(outputs, dict) and all(map(_is_output, outputs.values())) else None


def _is_output(value: object) -> bool:
    match value:
        case {"type": str(), "digest": str(), "files": dict()}:
            return True
    return False


def _started(node: NodeState, event: LogEntry) -> NodeState:
    return NodeState(
        "running", _fact(event, "attempt", int, 1), started=event.time, key=_fact(event, "key", str, None),
        process=_process(event, "process"), executions=node.executions + 1, subtasks=_left_behind(node.subtasks),
        partial_results=node.partial_results,
    )  # fmt: skip


def _progress(node: NodeState, event: LogEntry) -> NodeState:
    return replace(node, fraction=_number(event, "fraction") or 0.0, text=_text(event, "text"))


def _jobs(node: NodeState, event: LogEntry) -> NodeState:
    heard = {
        place: Subtask(state, seconds, node.executions) for place, (state, seconds) in _told_jobs(event.data).items()
    }
    return replace(node, subtasks={**node.subtasks, **heard})


def _told_jobs(data: dict[str, Any]) -> dict[tuple[str, ...], tuple[str, float | None]]:
    """State and seconds of the jobs that one event reports, by place."""
    told: dict[tuple[str, ...], tuple[str, float | None]] = {}
    jobs = data.get("jobs")
    for job in jobs if isinstance(jobs, list) else []:
        match job:
            case [list() | tuple() as place, str() as state, int() | float() | None as seconds]:
                told[tuple(map(str, place))] = state, seconds
    return told


# What is reported on the way, once it no longer matters


def last_jobs(passing: Iterable[LogEntry | NewEntry]) -> list[Any]:
    """Return the last state of every job that these events report, as one event reports it.

    Folded after the events themselves it changes nothing, so a reader may have seen any of them.
    """
    told: dict[tuple[str, ...], tuple[str, float | None]] = {}
    for event in passing:
        if event.kind == "jobs":
            told |= _told_jobs(event.data)
    return [[list(place), state, seconds] for place, (state, seconds) in told.items()]


def left_in_passing(events: Iterable[LogEntry]) -> dict[str, list[LogEntry]]:
    """Return what nodes reported on the way that never ended, since their supervisor was killed."""
    left: dict[str, list[LogEntry]] = {}
    for event in events:
        if event.node is not None and event.kind in IN_PASSING:
            left.setdefault(event.node, []).append(event)
        elif event.node is not None and event.kind != "part":
            left.pop(event.node, None)
    return left


def _part(node: NodeState, event: LogEntry) -> NodeState:
    match event.data:
        case {"part": str() as part, "data": dict() as data}:
            return replace(node, partial_results={**node.partial_results, part: data})
    return node


def _retrying(node: NodeState, event: LogEntry) -> NodeState:
    return replace(node, state="queued", fraction=0.0, text=_text(event, "why"), error=_error(event))


def _finished(node: NodeState, event: LogEntry) -> NodeState:
    outputs = _outputs(event)
    if outputs is None:  # whoever resumes the run must not build on it
        return replace(node, state="interrupted", text="its result is not in the log")
    return replace(
        node, state="done", fraction=1.0, text="", seconds=_number(event, "seconds"),
        key=_fact(event, "key", str, None), outputs=outputs, error=None,
    )  # fmt: skip


def _cached(node: NodeState, event: LogEntry) -> NodeState:
    after = _finished(node, event)
    return replace(after, state="cached", text=_text(event, "why")) if after.state == "done" else after


def _failed(node: NodeState, event: LogEntry) -> NodeState:
    seconds = event.time - node.started if node.started else None
    return replace(node, state="failed", fraction=0.0, seconds=seconds, error=_error(event), text="")


def _skipped(node: NodeState, event: LogEntry) -> NodeState:
    return replace(node, state="skipped", text=_text(event, "why"))


def _stopped(node: NodeState, event: LogEntry) -> NodeState:
    return replace(node, state="cancelled", fraction=0.0, text="stopped by a cancel")


def _reopened(node: NodeState, event: LogEntry) -> NodeState:
    return replace(_queued(node), text=_text(event, "why"))


_NODE_EVENTS = {
    "started": _started,
    "progress": _progress,
    "jobs": _jobs,
    "part": _part,
    "retrying": _retrying,
    "finished": _finished,
    "cached": _cached,
    "failed": _failed,
    "skipped": _skipped,
    "stopped": _stopped,
    "reopened": _reopened,
}
