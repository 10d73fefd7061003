"""The process that owns a run, from its plan to its last event.

``python -m engine.supervisor`` is not a supervisor but the waiting process from which supervisors
are forked; see ``engine.supervisor_starter`` for how it is asked. A supervisor lives on without the
process that asked for it. It holds the locks of its run: the kernel releases them the moment it
dies, so a run can be resumed at once and never has two supervisors.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from engine.crash_points import SUPERVISOR, crash_point
from engine.errors import SylvaError
from engine.events import EventLog, LogEntry, RunFinished, RunRow, RunStarted, SubtaskUpdate
from engine.executors import Executor
from engine.executors.fork_server import preload
from engine.executors.local import LocalExecutor
from engine.node_types import load_catalog
from engine.pipeline_file import parse
from engine.plan import Plan, RunOptions, make_plan
from engine.processes import (
    ProcessId,
    end_leftover,
    identify,
    name_process,
    usable_memory,
    wait_passively,
    write_output_to,
)
from engine.run_state import RunState, apply_events, last_subtasks, updates_left_behind
from engine.run_summaries import RunPipelines, save_summary
from engine.scheduler import Scheduler
from engine.store import Artifact, Store
from engine.supervisor_starter import PRELOAD, SupervisorRequest, receive_request
from engine.workspace import Workspace

PROCESS_NAME = "sylva-run"
UNBOUNDED_MEMORY = 1_000_000_000
"""Megabytes."""


def wait_and_fork_supervisors() -> None:
    """Be the waiting process: load the engine, then fork a supervisor for each request.

    Requests arrive on standard input; return when it is closed. This process supervises nothing
    itself.
    """
    # Libraries read these when they are loaded. Node code must not find this process's threads
    # multiplied by every library's own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    wait_passively()
    # Every supervisor needs these, so load them before the first request.
    node_types = load_catalog().values()
    preload(["networkx"])
    upcoming: list[str] = []
    if PRELOAD in sys.argv[1:]:
        upcoming = sorted({name for node_type in node_types for name in node_type.imports})
    # The kernel collects supervisors that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as requests:
        while True:
            if upcoming and not select.select([requests], [], [], 0)[0]:
                preload([upcoming.pop(0)])  # a request need not wait for all of them
                continue
            request = receive_request(requests)
            if request is None:
                return
            if not os.fork():
                requests.close()
                _become_supervisor(request)
            request.close()  # from here on the locks are the supervisor's alone


def _become_supervisor(request: SupervisorRequest) -> NoReturn:
    """Supervise a run in this forked process, then end it."""
    exit_code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        name_process(PROCESS_NAME)
        crash_point("supervisor-forked", "run")
        exit_code = supervise_from_request(request)
    finally:
        os._exit(exit_code)


def supervise_from_request(request: SupervisorRequest) -> int:
    """Supervise a run and return an exit code. Errors outside the nodes are written to its log."""
    request.report(process=identify().to_dict())
    try:
        log = request.workspace.supervisor_log(request.run_id)
        log.parent.mkdir(parents=True, exist_ok=True)
        write_output_to(log)
        crash_point("run-received", "run")
        return 0 if supervise(request.workspace, request.run_id, request.locks) == "done" else 1
    except SylvaError as error:
        print(error, file=sys.stderr, flush=True)
    except Exception:
        traceback.print_exc()
    request.report(failed=True)
    return 1


def supervise(workspace: Workspace, run_id: str, locks: Sequence[int]) -> str:
    """Take a run as far as it goes, release its locks, and return the state it ended in."""
    os.environ[SUPERVISOR] = str(os.getpid())
    with EventLog(workspace) as log:
        row = log.run(run_id)
    options = RunOptions.from_dict(row.options)
    pipeline, pipelines = parse(row.document), RunPipelines()
    plan = make_plan(pipeline, load_catalog(), options)
    pipelines.add(row.document, pipeline, plan.expanded)
    # Forked before anything is opened that a child should not share.
    executor = _executor(workspace, run_id, options)
    try:
        with EventLog(workspace) as log:
            state = run_plan(log, row, plan, options, executor)
            with contextlib.suppress(SylvaError):  # it is made when runs are listed
                save_summary(log, pipelines, row.id)
            return state
    finally:
        for lock in locks:
            os.close(lock)
        executor.close()


def _executor(workspace: Workspace, run_id: str, options: RunOptions) -> Executor:
    """Return the executor that the options ask for."""
    if options.executor is None:
        return LocalExecutor(options.workers or len(os.sched_getaffinity(0)))
    # Needs the package for clusters, which is not always installed.
    if options.storage is not None:
        from engine.executors.storage import storage_executor

        return storage_executor(
            workspace, run_id, options.executor, options.storage, options.workers
        )
    from engine.executors.dask import DaskExecutor

    return DaskExecutor(options.executor, workspace.run_folder(run_id), options.workers)


def run_plan(
    log: EventLog, row: RunRow, plan: Plan, options: RunOptions, executor: Executor
) -> str:
    """Run what earlier attempts have left of a plan; return the state it ended in."""
    store = Store(log.workspace, row.id)
    events = log.events(row.id)
    before = apply_events(RunState(row.id, row.name, row.created), events)
    _end_leftovers(before)
    store.clear_scratch()
    finished = _finished(before, plan)
    todo = plan.unfinished(finished, lambda node: all(map(store.intact, finished[node].values())))
    outputs = {node: ports for node, ports in finished.items() if node not in todo}
    with log.together():
        _condense(log, row.id, events)
        left = tuple(node for node in plan.steps if node in todo)
        log.append(row.id, RunStarted(supervisor=identify(), todo=left))
    # On a cluster only the worker that gets a node knows how much memory there is.
    memory = usable_memory() if options.executor is None else UNBOUNDED_MEMORY
    scheduler = Scheduler(plan, options, row.id, store, log, executor, outputs, memory)
    _handle_signals(scheduler, executor)
    state = scheduler.run()
    store.clear_scratch()
    log.append(row.id, RunFinished(state=state))
    return state


def _condense(log: EventLog, run: str, events: Sequence[LogEntry]) -> None:
    """Replace what a killed supervisor left of a node's updates by one event of the same moment."""
    for node, updates in updates_left_behind(events).items():
        subtasks = last_subtasks(updates)
        if subtasks and len(updates) > 1:
            event = SubtaskUpdate(node=node, subtasks=subtasks)
            log.append(run, event, replaces=updates, moment=updates[-1].time)


def _end_leftovers(before: RunState) -> None:
    """End processes that workers have started.

    The workers died with their supervisor, but their children may still run.
    """
    for node in before.nodes.values():
        if node.state == "running" and node.process:
            end_leftover(ProcessId(**node.process))


def _finished(before: RunState, plan: Plan) -> dict[str, dict[str, Artifact]]:
    """Return the outputs of the nodes that finished before the run was interrupted."""
    outputs = {}
    for name, node in before.nodes.items():
        if node.state in ("done", "cached") and name in plan.steps:
            ports = {port: Artifact.from_dict(output) for port, output in node.outputs.items()}
            outputs[name] = ports
    return outputs


def _handle_signals(scheduler: Scheduler, executor: Executor) -> None:
    """Let SIGTERM and SIGINT cancel the run."""
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: scheduler.cancel())
    # The end of the fork server must be noticed while waiting.
    signal.signal(signal.SIGCHLD, lambda *_: executor.wake())


if __name__ == "__main__":
    wait_and_fork_supervisors()
