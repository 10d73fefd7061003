"""The state of a run and of its nodes, derived from the events in the log and from nothing else.

A run whose supervisor is gone without a last event is ``interrupted``; it is resumed like a failed
one. Events that cannot be read are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from engine.events import (
    EventLog,
    LogEntry,
    NodeCached,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeReopened,
    NodeRetrying,
    NodeSkipped,
    NodeStarted,
    NodeStopped,
    PartialResult,
    RunEvent,
    RunFinished,
    RunRow,
    RunStarted,
    SubtaskReport,
    SubtaskUpdate,
    WorkerUpdate,
)
from engine.processes import ProcessId, is_alive

STARTING_SECONDS = 20.0
"""How long a run may take from its creation to the first event of its supervisor."""

LIVE = ("starting", "running")
FINISHED_SUBTASK = ("done", "reused")
OLD_SUBTASK_STATES = {"kept": "reused"}
"""States in older logs, and what they are called now."""

SubtaskPath = tuple[str, ...]


@dataclass(frozen=True)
class Subtask:
    """One subtask inside a node, such as a fit of a deep forest."""

    state: str
    """A ``node_types.SubtaskState``."""
    seconds: float | None = None
    execution: int = 1
    """Which execution of the node, counted from 1, reported this last."""
    worker: str = ""
    """The worker of a cluster that carries it out, if it is known."""


@dataclass(frozen=True)
class NodeState:
    """One node of a run."""

    state: str = "queued"
    try_number: int = 0
    """Which try of this attempt of the run it is; 0 before the first."""
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
    """How often its process was started, over all attempts of the run."""
    subtasks: dict[SubtaskPath, Subtask] = field(default_factory=dict)
    """The subtasks inside it, by path: layer, learner, fold."""
    partial_results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it published of its result. A restart gives the same, so it removes nothing."""


@dataclass(frozen=True)
class WorkerState:
    """One worker of the cluster that a run uses."""

    state: str
    """``admitted``, ``refused`` or ``lost``."""
    threads: int
    machine: str
    why: str = ""
    memory: int = 0
    """Megabytes that nodes may use on its machine, 0 if not known."""


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
    """How often a supervisor has started or resumed it."""
    last_event: int = 0
    workers: dict[str, WorkerState] = field(default_factory=dict)
    """The workers of its cluster by address, in the order in which they came."""

    @property
    def live(self) -> bool:
        """Whether the run is starting or running."""
        return self.state in LIVE

    def nodes_in(self, *states: str) -> list[str]:
        """Return the ids of the nodes in one of ``states``."""
        return [name for name, node in self.nodes.items() if node.state in states]


def run_state(log: EventLog, row: RunRow) -> RunState:
    """Return the present state of a run."""
    state = RunState(row.id, row.name, row.created)
    return mark_interrupted_if_dead(apply_events(state, log.events(row.id)))


def apply_events(state: RunState, entries: Iterable[LogEntry]) -> RunState:
    """Return the state after the events that were added since."""
    nodes, last_event = dict(state.nodes), state.last_event
    for entry in entries:
        event, last_event = entry.event, entry.seq
        match event:
            case RunStarted():
                nodes |= {name: _queued(nodes.get(name)) for name in event.todo}
                state = replace(
                    state,
                    state="running",
                    supervisor=_process(event.supervisor),
                    attempt=state.attempt + 1,
                    started=entry.time,
                    finished=None,
                    workers={},
                )
            case RunFinished():
                state = replace(state, state=event.state, finished=entry.time)
                nodes = _ended(nodes, event.state)
            case WorkerUpdate():
                worker = WorkerState(
                    event.state, event.threads, event.machine, event.why, event.memory
                )
                state = replace(state, workers=state.workers | {event.address: worker})
            case _ if event.node is not None:
                node = nodes.get(event.node, NodeState())
                nodes[event.node] = _apply_to_node(node, event, entry.time)
    return replace(state, nodes=nodes, last_event=last_event)


def mark_interrupted_if_dead(state: RunState) -> RunState:
    """Return a live run without a living supervisor as interrupted, any other run as it is."""
    # Its supervisor has not reported yet. The age is negative if the clock was set back.
    if state.state == "starting" and 0 <= time.time() - state.created < STARTING_SECONDS:
        return state
    if not state.live or (state.supervisor and is_alive(ProcessId(**state.supervisor))):
        return state
    return replace(state, state="interrupted", nodes=_ended(state.nodes, "interrupted"))


def _ended(nodes: dict[str, NodeState], state: str) -> dict[str, NodeState]:
    """Give the nodes that a run did not finish the state in which the run ended."""
    ended = {}
    for name, node in nodes.items():
        unfinished = node.state in ("running", "queued")
        ended[name] = replace(node, state=state) if unfinished else node
    return ended


def _queued(before: NodeState | None) -> NodeState:
    """Return a node that has to run (again), with what earlier attempts left."""
    if before is None:
        return NodeState()
    return NodeState(
        executions=before.executions,
        subtasks=_finished_subtasks(before),
        partial_results=before.partial_results,
    )


def _finished_subtasks(node: NodeState) -> dict[SubtaskPath, Subtask]:
    """Return the subtasks that are finished; the others start again with the node."""
    subtasks = node.subtasks.items()
    return {path: subtask for path, subtask in subtasks if subtask.state in FINISHED_SUBTASK}


def _process(process: ProcessId | None) -> dict[str, Any] | None:
    return process.to_dict() if process else None


def _apply_to_node(node: NodeState, event: RunEvent, moment: float) -> NodeState:
    """Return the state of a node after one event; an unknown event changes nothing."""
    match event:
        case NodeStarted():
            # All else of an earlier try is forgotten, such as its error and its progress.
            return NodeState(
                "running",
                event.try_number,
                started=moment,
                key=event.key,
                process=_process(event.process),
                executions=node.executions + 1,
                subtasks=_finished_subtasks(node),
                partial_results=node.partial_results,
            )
        case NodeProgress():
            return replace(node, fraction=event.fraction, text=event.text)
        case SubtaskUpdate():
            return replace(node, subtasks=node.subtasks | _reported(event, node.executions))
        case PartialResult():
            results = node.partial_results | {event.name: event.data}
            return replace(node, partial_results=results)
        case NodeFinished():
            return _with_result(node, event)
        case NodeCached():
            cached = _with_result(node, event)
            if cached.state != "done":
                return cached  # interrupted
            return replace(cached, state="cached", text=event.why)
        case NodeFailed():
            seconds = moment - node.started if node.started else None
            error = event.error.to_dict()
            return replace(
                node, state="failed", fraction=0.0, seconds=seconds, error=error, text=""
            )
        case NodeRetrying():
            error = event.error.to_dict()
            return replace(node, state="queued", fraction=0.0, text=event.why, error=error)
        case NodeSkipped():
            return replace(node, state="skipped", text=event.why)
        case NodeStopped():
            return replace(node, state="cancelled", fraction=0.0, text="stopped by a cancel")
        case NodeReopened():
            return replace(_queued(node), text=event.why)
    return node


def _with_result(node: NodeState, event: NodeFinished | NodeCached) -> NodeState:
    """Return a node with its outputs, or interrupted if the log has lost them."""
    if event.outputs is None:  # a resumed run must not build on it
        return replace(node, state="interrupted", text="its result is not in the log")
    return replace(
        node,
        state="done",
        fraction=1.0,
        text="",
        seconds=event.seconds,
        key=event.key,
        outputs=event.outputs,
        error=None,
    )


def _reported(event: SubtaskUpdate, execution: int) -> dict[SubtaskPath, Subtask]:
    """Return the subtasks that an event reports, in the words of this version."""
    return {
        path: Subtask(OLD_SUBTASK_STATES.get(state, state), seconds, execution, worker)
        for path, state, seconds, worker in event.subtasks
    }


# Updates (progress and subtasks) count only until their node ends.


def last_subtasks(updates: Iterable[LogEntry]) -> tuple[SubtaskReport, ...]:
    """Return the last state of every subtask that these events report.

    Applied after the events themselves it changes nothing, so a reader may have seen any of them.
    """
    last: dict[SubtaskPath, SubtaskReport] = {}
    for entry in updates:
        if isinstance(entry.event, SubtaskUpdate):
            last |= {report[0]: report for report in entry.event.subtasks}
    return tuple(last.values())


def updates_left_behind(entries: Iterable[LogEntry]) -> dict[str, list[LogEntry]]:
    """Return the updates of nodes that never ended because their supervisor was killed."""
    left: dict[str, list[LogEntry]] = {}
    for entry in entries:
        match entry.event:
            case NodeProgress() | SubtaskUpdate() as update:
                left.setdefault(update.node, []).append(entry)
            case PartialResult():
                pass
            case event if event.node is not None:
                left.pop(event.node, None)
    return left
