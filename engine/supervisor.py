"""The process that owns a run, from its plan to its last word.

It is started by the command line or the app and lives on without them. It is given the run's locks;
the kernel gives them back the moment it dies, so a run can be resumed at once and never has two supervisors.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from engine.catalogue import load_catalog
from engine.crash_points import SUPERVISOR, crash_point
from engine.errors import SylvaError
from engine.events import EventLog, LogEntry, RunFinished, RunRow, RunStarted, SubtaskUpdate
from engine.executors import Executor
from engine.executors.local import LocalExecutor
from engine.handover import Order, receive_order
from engine.pipeline_file import parse
from engine.plan import Plan, RunOptions, make_plan
from engine.processes import ProcessId, end_leftover, identify, usable_memory, wait_passively
from engine.run_state import RunState, apply_events, last_subtasks, updates_left_behind
from engine.scheduler import Scheduler
from engine.store import Artifact, Store
from engine.summaries import summarise
from engine.workspace import Workspace

UNBOUNDED_MEMORY = 1_000_000_000
"""Megabytes."""


def supervise(workspace: Workspace, run: str, locks: Sequence[int]) -> str:
    """Carry a run as far as it goes; how it ended. ``locks`` are given back then."""
    # Node code must not find this process's threads multiplied by every library's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    wait_passively()
    os.environ[SUPERVISOR] = str(os.getpid())
    with EventLog(workspace) as log:
        row = log.run(run)
    request = RunOptions.from_dict(row.request)
    plan = make_plan(parse(row.document), load_catalog(), request)
    # Forked before anything is opened that a child should not share.
    executor = _executor(workspace, request)
    try:
        with EventLog(workspace) as log:
            return _carry_out(log, row, plan, request, executor, Store(workspace, run))
    finally:
        for lock in locks:
            os.close(lock)
        executor.close()


def _executor(workspace: Workspace, request: RunOptions) -> Executor:
    if request.executor is None:
        return LocalExecutor(workspace, request.workers or len(os.sched_getaffinity(0)))
    from engine.executors.dask import DaskExecutor

    return DaskExecutor(request.executor, request.workers)


def _carry_out(log: EventLog, row: RunRow, plan: Plan, request: RunOptions, executor: Executor, store: Store) -> str:
    events = log.events(row.id)
    before = apply_events(RunState(row.id, row.name, row.created), events)
    _end_leftovers(before)
    store.clear_scratch()
    finished = _finished(before, plan)
    todo = plan.unfinished(finished, lambda node: all(map(store.intact, finished[node].values())))
    outputs = {node: ports for node, ports in finished.items() if node not in todo}
    with log.together():
        _condense(log, row.id, events)
        log.append(row.id, RunStarted(supervisor=identify(), todo=tuple(node for node in plan.steps if node in todo)))
    # On a cluster only the worker that gets a node knows how much memory there is.
    memory = usable_memory() if request.executor is None else UNBOUNDED_MEMORY
    scheduler = Scheduler(plan, request, row.id, store, log, executor, outputs, memory)
    _obey_signals(scheduler, executor)
    state = scheduler.run()
    store.clear_scratch()
    log.append(row.id, RunFinished(state=state))
    with contextlib.suppress(SylvaError):  # who lists the runs summarises it then
        summarise(log, row.id)
    return state


def _condense(log: EventLog, run: str, events: Sequence[LogEntry]) -> None:
    """Replace the updates that a killed supervisor left of a node by one event of the same moment."""
    for node, updates in updates_left_behind(events).items():
        subtasks = last_subtasks(updates)
        if subtasks and len(updates) > 1:
            event = SubtaskUpdate(node=node, subtasks=subtasks)
            log.append(run, event, replaces=updates, moment=updates[-1].time)


def _end_leftovers(before: RunState) -> None:
    """Workers die with their supervisor, but what they started might not have; nothing may run twice."""
    for node in before.nodes.values():
        if node.state == "running" and node.process:
            end_leftover(ProcessId(**node.process))


def _finished(before: RunState, plan: Plan) -> dict[str, dict[str, Artifact]]:
    return {
        name: {port: Artifact.from_dict(output) for port, output in node.outputs.items()}
        for name, node in before.nodes.items()
        if node.state in ("done", "cached") and name in plan.steps
    }


def _obey_signals(scheduler: Scheduler, executor: Executor) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: scheduler.cancel())
    # The end of the fork server must be noticed while waiting.
    signal.signal(signal.SIGCHLD, lambda *_: executor.wake())


def obey(order: Order) -> int:
    """Supervise a run; an exit code. What goes wrong outside the nodes is in its log."""
    _speak_to(order.workspace.supervisor_log(order.run))
    crash_point("run-received", "run")
    try:
        return 0 if supervise(order.workspace, order.run, order.locks) == "done" else 1
    except SylvaError as error:
        print(error, file=sys.stderr, flush=True)
    except Exception:
        traceback.print_exc()
    return 1


def _speak_to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    handles = (os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    for stream, handle in enumerate((handles[0], handles[1], handles[1])):
        os.dup2(handle, stream)
    for handle in handles:
        os.close(handle)


if __name__ == "__main__":
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as line:
        received = receive_order(line)
    if received:
        sys.exit(obey(received))
