"""Forget old runs and remove what no other run refers to: ``sylva gc``.

The workspace is locked meanwhile. A run that is starting or running holds the same lock, shared, so
nothing of it can be removed, and a run that is to start waits for the end of the cleaning. Only the
run log is made smaller after that: SQLite itself looks after those who read and write meanwhile.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from engine.errors import SylvaError
from engine.events import EventLog
from engine.run_state import run_state
from engine.store import Store
from engine.workspace import Workspace


@dataclass(frozen=True)
class Cleaned:
    """What a cleaning did. ``notice`` says why the run log could not be made smaller, if it could not."""

    freed: int
    forgotten: int
    kept: int
    notice: str | None


def clean(workspace: Workspace, keep: int) -> Cleaned:
    """Keep the newest ``keep`` runs and what they refer to; raise ``Busy`` while a run is alive."""
    with workspace.idle():
        store = Store(workspace.create())
        # First of all: on a full disk this gives the log room to work.
        freed = store.clear_temporary()
        with EventLog(workspace) as log:
            rows = log.runs()
            kept, dropped = rows[:keep], rows[keep:]
            states = [run_state(log, row) for row in kept]
            keys = {node.key for state in states for node in state.nodes.values() if node.key}
            freed += store.collect(keys)
            log.remove_runs([row.id for row in dropped])
        for row in dropped:
            shutil.rmtree(workspace.run_folder(row.id), ignore_errors=True)
    freed_log, notice = _shrink_log(workspace)
    return Cleaned(freed + freed_log, len(dropped), len(kept), notice)


def _shrink_log(workspace: Workspace) -> tuple[int, str | None]:
    """Make the run log as small as what it holds; the bytes that gave, and why it gave none."""
    with EventLog(workspace) as log:
        before = log.size()
        try:
            log.shrink()
        except SylvaError as error:
            return 0, str(error)
        return max(0, before - log.size()), None
