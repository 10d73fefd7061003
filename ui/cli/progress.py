"""Show the progress of a run.

That is a live table in a terminal, lines elsewhere, and nothing for a program.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from engine.errors import SylvaError
from engine.events import (
    LogEntry,
    NodeCached,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeReopened,
    NodeRetrying,
    NodeSkipped,
    NodeStarted,
    PartialResult,
    RunEvent,
    SubtaskUpdate,
    WorkerUpdate,
)
from engine.run_state import NodeState, RunState
from engine.runs import Runs, RunWatcher
from engine.supervisor_starter import SupervisorProcess
from engine.text import duration, failure_line, readable

if TYPE_CHECKING:
    from rich.table import Table

LOOK_SECONDS = 0.05
PROGRESS_SECONDS = 5.0
"""Time between two lines about the progress of a node."""
MARKS = {
    "queued": "·", "running": "▸", "done": "✓", "cached": "=", "failed": "✗",
    "skipped": "↷", "cancelled": "■", "interrupted": "!",
}  # fmt: skip

View = Callable[[RunState, Sequence[LogEntry]], None]
"""Shows a new state of a run, and the events that led to it."""


def follow(runs: Runs, watcher: RunWatcher, *, quiet: bool) -> RunState:
    """Follow a run that ``runs`` has just started to its end, and return its state.

    Events that ``watcher`` has read before are not shown. Ctrl-C cancels the run. With ``quiet``
    nothing is printed: a program reads the result.
    """
    if quiet:
        return _watch(runs, watcher, lambda state, events: None)
    if not sys.stderr.isatty():
        return _watch(runs, watcher, Lines().print_events)
    from rich.console import Console
    from rich.live import Live

    # Not our own stream: it would escape the control characters that draw the table.
    with Live(console=Console(file=sys.__stderr__), refresh_per_second=8) as live:
        return _watch(runs, watcher, lambda state, events: live.update(_table(state)))


def _watch(runs: Runs, watcher: RunWatcher, show: View) -> RunState:
    """Read the events of the run until it has ended, and show them.

    Raise ``SylvaError`` if the supervisor ends before it has begun.
    """
    supervisor, cancelled = runs.supervisor, False
    assert supervisor is not None
    while True:
        try:
            ended = supervisor.poll()
            state = watcher.refresh()
            show(state, watcher.new_events)
            if _belongs_to(state, supervisor):
                if not state.live:
                    # Its process ends shortly after its last event.
                    supervisor.wait()
                    return state
            elif ended:
                _raise_not_started(runs, state, supervisor, cancelled=cancelled)
            time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            # Not the end yet: the run is followed until the supervisor has stopped its nodes.
            supervisor.cancel()
            cancelled = True


def _belongs_to(state: RunState, supervisor: SupervisorProcess) -> bool:
    """Return whether this supervisor has begun; the state may still be from an earlier one."""
    identity = supervisor.identity
    return identity is not None and state.supervisor == identity.to_dict()


def _raise_not_started(
    runs: Runs, state: RunState, supervisor: SupervisorProcess, *, cancelled: bool
) -> NoReturn:
    """Raise why the supervisor ended before it began: it was killed, or had an error."""
    if state.state == "starting":
        runs.give_up(state.id)
    why = "it was cancelled." if cancelled else "its supervisor process was killed."
    if supervisor.failed:
        why = runs.workspace.supervisor_error(state.id) or why
    raise SylvaError(f"Run {state.id} did not continue: {why} To continue: sylva resume {state.id}")


class Lines:
    """Print one line for each event, and progress at most every few seconds."""

    def __init__(self) -> None:
        self._printed: dict[str, float] = {}

    def print_events(self, state: RunState, events: Sequence[LogEntry]) -> None:
        """Print what is new."""
        for entry in events:
            event = entry.event
            if isinstance(event, WorkerUpdate):
                self._print(entry.time, f"worker {event.address}", _words(event))
            if event.node is None or isinstance(event, SubtaskUpdate | PartialResult):
                continue
            if not isinstance(event, NodeProgress) or self._due(event.node, entry.time):
                self._print(entry.time, event.node, _words(event))

    def _print(self, moment: float, subject: str, text: str) -> None:
        """Print a line with the time of its event."""
        when = time.strftime("%H:%M:%S", time.localtime(moment))
        print(f"{when} {subject}: {text}", file=sys.stderr, flush=True)

    def _due(self, node: str, moment: float) -> bool:
        """Return whether the last line about the progress of this node is long enough ago."""
        # The first message only starts the clock: a short node needs no line about its progress.
        if moment - self._printed.setdefault(node, moment) < PROGRESS_SECONDS:
            return False
        self._printed[node] = moment
        return True


def _words(event: RunEvent) -> str:
    """Return an event in words."""
    match event:
        case NodeStarted():
            return "started" if event.try_number == 1 else f"started, try {event.try_number}"
        case NodeProgress():
            return f"{event.fraction:.0%} {event.text}"
        case NodeFinished():
            return f"done in {duration(event.seconds)}"
        case NodeCached():
            return f"cached, {event.why}"
        case NodeFailed():
            return f"failed: {event.error.message}"
        case NodeSkipped() | NodeRetrying() | NodeReopened():
            return f"{event.kind}: {event.why}"
        case WorkerUpdate():
            return f"{event.state}: {event.why}" if event.why else event.state
    return event.kind


def _table(state: RunState) -> Table:
    """Return the table of the nodes that fit the terminal."""
    from rich.table import Table
    from rich.text import Text

    styles = {
        "done": "green",
        "cached": "cyan",
        "failed": "bold red",
        "running": "bold",
        "skipped": "yellow",
    }
    table = Table.grid(padding=(0, 2))
    shown, folded = _fit(state, shutil.get_terminal_size().lines - 2)
    for name, node in shown.items():
        style = styles.get(node.state, "dim")
        parts = (MARKS[node.state], name, node.state, duration(_elapsed(node)))
        styled = [Text(part, style) for part in parts]
        table.add_row(*styled, Text(readable(_now(name, node))))
    if folded:
        table.add_row("", f"… {folded} more")
    return table


def _fit(state: RunState, lines: int) -> tuple[dict[str, NodeState], int]:
    """Return the nodes to show, and how many are left out.

    Running and failed nodes stay visible; the others keep their order.
    """
    if len(state.nodes) <= lines:
        return state.nodes, 0
    interest = ("running", "failed", "queued", "skipped", "done", "cached")
    # A state that is not in the list comes last.
    ranked = sorted(
        state.nodes,
        key=lambda name: (*interest, state.nodes[name].state).index(state.nodes[name].state),
    )
    chosen = set(ranked[: max(1, lines - 1)])
    shown = {name: node for name, node in state.nodes.items() if name in chosen}
    return shown, len(state.nodes) - len(shown)


def _now(name: str, node: NodeState) -> str:
    """Return what a node does: its progress as a bar, its error, or its last message."""
    if node.state == "running":
        filled = int(node.fraction * 20)
        return f"{'━' * filled}{'╌' * (20 - filled)} {node.fraction:4.0%} {node.text}"
    return failure_line(name, node.error) if node.state == "failed" and node.error else node.text


def _elapsed(node: NodeState) -> float | None:
    """Return the seconds that a node took, or has taken so far."""
    return time.time() - node.started if node.state == "running" and node.started else node.seconds
