"""What state a run and its nodes are in: a fold over the event log, nothing else.

A run whose supervisor is gone without a last word is ``interrupted``; it resumes like a failed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from engine.events import Event, EventLog, RunRow
from engine.processes import ProcessId, is_alive

STARTING_SECONDS = 20.0
"""How long a run may take from being noted down to its supervisor's first word."""

LIVE = ("starting", "running")


@dataclass(frozen=True)
class JobState:
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
    jobs: dict[tuple[str, ...], JobState] = field(default_factory=dict)
    """The jobs inside it, by their place: layer, learner, fold."""


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

    def names(self, *states: str) -> list[str]:
        """Ids of the nodes in one of ``states``."""
        return [name for name, node in self.nodes.items() if node.state in states]


def run_state(log: EventLog, row: RunRow) -> RunState:
    """The present state of a run."""
    return judge_life(fold(RunState(row.id, row.name, row.created), log.events(row.id)))


def fold(state: RunState, events: Iterable[Event]) -> RunState:
    """Carry ``state`` over the events that came since."""
    nodes = dict(state.nodes)
    for event in events:
        state = replace(state, last_event=event.seq)
        if event.node is not None:
            before = nodes.get(event.node, NodeState())
            change = _NODE_EVENTS.get(event.kind)  # a newer version may know more kinds
            nodes[event.node] = change(before, event) if change else before
        elif event.kind == "run-started":
            nodes |= {name: _queued(nodes.get(name)) for name in event.data["todo"]}
            state = replace(
                state, state="running", supervisor=event.data["supervisor"], attempt=state.attempt + 1,
                started=event.time, finished=None,
            )  # fmt: skip
        elif event.kind == "run-finished":
            state = replace(state, state=event.data["state"], finished=event.time)
            nodes = _ended(nodes, state.state)
    return replace(state, nodes=nodes)


def judge_life(state: RunState) -> RunState:
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
    return NodeState(executions=before.executions, jobs=_left_behind(before.jobs)) if before else NodeState()


def _left_behind(jobs: dict[tuple[str, ...], JobState]) -> dict[tuple[str, ...], JobState]:
    """The jobs that an attempt finished; what was under way when it ended is not."""
    return {place: job for place, job in jobs.items() if job.state in ("done", "kept")}


def _started(node: NodeState, event: Event) -> NodeState:
    return NodeState(
        "running", event.data["attempt"], started=event.time, key=event.data["key"],
        process=event.data["process"], executions=node.executions + 1, jobs=_left_behind(node.jobs),
    )  # fmt: skip


def _progress(node: NodeState, event: Event) -> NodeState:
    return replace(node, fraction=event.data["fraction"], text=event.data["text"])


def _jobs(node: NodeState, event: Event) -> NodeState:
    heard = {tuple(place): JobState(state, seconds, node.executions) for place, state, seconds in event.data["jobs"]}
    return replace(node, jobs={**node.jobs, **heard})


def _retrying(node: NodeState, event: Event) -> NodeState:
    return replace(node, state="queued", text=event.data["why"], error=event.data["error"])


def _finished(node: NodeState, event: Event) -> NodeState:
    return replace(
        node, state="done", fraction=1.0, text="", seconds=event.data["seconds"], key=event.data["key"],
        outputs=event.data["outputs"], error=None,
    )  # fmt: skip


def _cached(node: NodeState, event: Event) -> NodeState:
    return replace(_finished(node, event), state="cached", text=event.data["why"])


def _failed(node: NodeState, event: Event) -> NodeState:
    seconds = event.time - node.started if node.started else None
    return replace(node, state="failed", seconds=seconds, error=event.data["error"], text="")


def _skipped(node: NodeState, event: Event) -> NodeState:
    return replace(node, state="skipped", text=event.data["why"])


def _stopped(node: NodeState, event: Event) -> NodeState:
    return replace(node, state="cancelled", text="stopped by a cancel")


def _reopened(node: NodeState, event: Event) -> NodeState:
    return replace(_queued(node), text=event.data["why"])


_NODE_EVENTS = {
    "started": _started,
    "progress": _progress,
    "jobs": _jobs,
    "retrying": _retrying,
    "finished": _finished,
    "cached": _cached,
    "failed": _failed,
    "skipped": _skipped,
    "stopped": _stopped,
    "reopened": _reopened,
}
