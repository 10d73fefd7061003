"""Run one node in its own process: load the inputs, run, store the outputs, send events.

- ``execute``        runs a task; it never raises, its last event says how the node ended
- ``describe``       turns an exception into a failure with a message for users
- ``out_of_memory``  the message for a node that exceeds its memory limit
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.atomic import lock
from engine.crash_points import crash_point
from engine.errors import BadInput, Cancelled, CorruptObject, SubtaskFailed, SylvaError
from engine.events import (
    Failure,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    PartialResult,
    RunEvent,
    SubtaskUpdate,
)
from engine.executors import NodeTask, SubtaskRequest
from engine.executors.storage_node import sharing, sharing_subtask
from engine.node_types import NodeContext, NodeParams, NodeType, load_catalog
from engine.store import CacheEntry, Store
from engine.text import readable
from engine.workspace import Files, Workspace

Send = Callable[[RunEvent], None]
OnReading = Callable[[str, str | None], None]
"""Called with the file from outside that the node reads now, and the parameter that names it."""

LARGE_SHARE = 1 / 64
"""Data that take this share of the memory limit go into files."""
PROGRESS_SECONDS = 1.0
"""Progress is sent at most this often: each message is one entry of the run log."""
LOCK = ".lock"
NUMPY_DISK_FULL = re.compile(r"Not enough free space to write|\d+ requested and \d+ written")
"""NumPy reports a full disk in words only, without an error number."""
MESSAGE_CHARACTERS = 4_000
PROGRESS_CHARACTERS = 200
TRACEBACK_CHARACTERS = 16_000
PARTIAL_RESULT_CHARACTERS = 64_000
"""Limit for a partial result as JSON: it travels in one message and is stored in the run log."""


def execute(task: NodeTask, send: Send, on_reading: OnReading) -> None:
    """Run one node to its end and send its events.

    The last event is ``NodeFinished`` or ``NodeFailed``. A node whose result another run has
    stored meanwhile does not run again.
    """
    store = Store(Workspace(Path(task.workspace)), task.run)
    if task.subtask is not None:
        _execute_subtask(task, task.subtask, store, send)
        return
    try:
        with _work_folder(store.workspace.checkpoints / task.key, task.node, send) as folder:
            with sharing(task, store, folder):
                if not _already_done(task, store):
                    store.record(_run(task, store, folder, send, on_reading))
            # Checkpoints are for a retry; with a stored result they only take space.
            shutil.rmtree(folder, ignore_errors=True)
    # Also SystemExit and KeyboardInterrupt: the scheduler must always learn how the node ended.
    except BaseException as error:
        send(NodeFailed(node=task.node, error=describe(error, task)))
    else:
        send(NodeFinished(node=task.node, key=task.key))


def _execute_subtask(task: NodeTask, subtask: SubtaskRequest, store: Store, send: Send) -> None:
    """Carry out one subtask of a node whose own process runs elsewhere, and send its events.

    That process holds the lock of the checkpoint folder.
    """
    cancelled = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: cancelled.set())

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise Cancelled(f"A subtask of node '{task.node}' was cancelled.")

    try:
        carry_out = load_catalog()[task.type].run_subtask
        if carry_out is None:
            raise SylvaError(f"Node type '{task.type}' has no subtasks.")
        folder = store.workspace.checkpoints / task.key
        with sharing_subtask(task, subtask, folder) as needed:
            if needed:
                carry_out(folder, subtask.key, subtask.request, check_cancelled)
    except BaseException as error:
        send(NodeFailed(node=task.node, error=describe(error, task)))
    else:
        send(NodeFinished(node=task.node, key=task.key))


def _run(
    task: NodeTask, store: Store, folder: Path, send: Send, on_reading: OnReading
) -> CacheEntry:
    """Load the inputs, run the node, store its outputs and return the result to record.

    Raise whatever the node raises, or ``SylvaError`` if its outputs are not those it declares.
    """
    node_type = load_catalog()[task.type]
    began = time.monotonic()
    crash_point("before-run", task.node)
    inputs = {}
    for port in node_type.inputs:
        values = [store.open(artifact) for artifact in task.inputs.get(port.name, [])]
        inputs[port.name] = values if port.many else next(iter(values), None)
    # Validated once more: a worker gets plain JSON, perhaps on another machine.
    params = node_type.params.model_validate_json(json.dumps(task.params))
    context = _context(task, store, folder, send, on_reading)
    with _remote(task) as remote:
        results = node_type.run(replace(context, remote=remote), inputs, params)
    _check_ports(node_type, results)
    _check_source(node_type, params, context.files, task.fingerprint)
    outputs = {}
    for port in node_type.outputs:
        value = results[port.name]
        outputs[port.name] = store.put(port.type, value, node=task.node, bytes_left=task.bytes_left)
    seconds = time.monotonic() - began
    return CacheEntry(task.key, task.run, task.node, seconds, time.time(), outputs)


@contextmanager
def _remote(task: NodeTask) -> Iterator[Any]:
    """Yield what carries out subtasks of the node on a cluster, None if nothing does."""
    if task.cluster is None or not task.delegates:
        yield None
        return
    # Needs the package for clusters, which is not always installed.
    jobs: Any
    if task.storage is None:
        from engine.executors.cluster_jobs import ClusterJobs

        jobs = ClusterJobs(task, log=_print)
    else:
        from engine.executors.storage_jobs import StorageJobs

        jobs = StorageJobs(task, log=_print)
    try:
        yield jobs
    finally:
        jobs.close()


def _check_ports(node_type: NodeType, values: dict[str, Any]) -> None:
    """Raise ``SylvaError`` unless the outputs are those that the node type declares."""
    promised = {port.name for port in node_type.outputs}
    if set(values) != promised:
        raise SylvaError(
            f"Node type '{node_type.name}' returned the outputs {sorted(values)}, "
            f"but declares {sorted(promised)}."
        )
    for name, value in values.items():
        if not hasattr(value, "save"):
            raise SylvaError(
                f"Node type '{node_type.name}' returned a {type(value).__name__} for '{name}'; "
                "return one of the values in engine.values."
            )


def _check_source(node_type: NodeType, params: NodeParams, files: Files, fingerprint: str) -> None:
    """Raise ``BadInput`` if a file that the node has read is not the one of its cache key.

    A file may be replaced, or a link turned, after the key was computed. The result would be
    stored as that of the file before.
    """
    if node_type.fingerprint and node_type.fingerprint(params, files) != fingerprint:
        raise BadInput("a file that it reads was changed during the run; run the pipeline again")


def _already_done(task: NodeTask, store: Store) -> bool:
    """Return whether another run, or this one before it was killed, finished the same work."""
    result = store.find(task.key)
    return result is not None and (not task.force or result.run == task.run)


@contextmanager
def _work_folder(folder: Path, node: str, send: Send) -> Iterator[Path]:
    """Lock the checkpoint folder of a key, so that no two runs do the same work at once.

    A run that has to wait sends a progress message that says so.
    """

    def send_waiting() -> None:
        text = "waiting: another run is doing the same work"
        send(NodeProgress(node=node, fraction=0.0, text=text))

    # The folder may disappear: the process that finishes the work removes it.
    with lock(folder / LOCK, on_wait=send_waiting, create_folder=True):
        yield folder


def _context(
    task: NodeTask, store: Store, folder: Path, send: Send, on_reading: OnReading
) -> NodeContext:
    """Return the context for the node's ``run``; from now on SIGTERM asks the node to stop.

    Text of the node's log goes to standard output, which is the log file of the node.
    """
    node = task.node
    cancelled = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: cancelled.set())

    def send_progress(fraction: float, text: str) -> None:
        send(NodeProgress(node=node, fraction=fraction, text=text[:PROGRESS_CHARACTERS]))

    def send_subtask(path: tuple[str, ...], state: str, seconds: float | None, worker: str) -> None:
        send(SubtaskUpdate(node=node, subtasks=((path, state, seconds, worker),)))

    def send_part(name: str, data: dict[str, Any]) -> None:
        _publish(PartialResult(node=node, name=name, data=data), send)

    return NodeContext(
        node=node,
        key=task.key,
        files=Files(store.workspace.root, task.allow_absolute),
        checkpoint=folder,
        large=task.memory_limit * 1e6 * LARGE_SHARE,
        threads=task.threads,
        sources=task.sources,
        branch=task.branch,
        branches=task.branches,
        on_progress=_Throttle(send_progress, PROGRESS_SECONDS),
        on_log=_print,
        on_subtask=send_subtask,
        on_publish=send_part,
        on_reading=on_reading,
        cancelled=cancelled,
        run_id=task.run,
    )


def _print(text: str) -> None:
    """Add a line to the log of the node."""
    print(time.strftime("%H:%M:%S"), text, flush=True)


def _publish(result: PartialResult, send: Send) -> None:
    """Send a partial result; one that is too large is only seen once the node has finished."""
    length = len(json.dumps([result.name, result.data], allow_nan=False))
    if length <= PARTIAL_RESULT_CHARACTERS:
        send(result)
    else:
        print(
            f"Partial result '{result.name[:100]}' is too large to be shown before the node "
            "has finished.",
            flush=True,
        )


class _Throttle:
    """Call a function at most once in so many seconds.

    The first call of a burst is made at once, the last one when its time has come; those between
    are dropped.
    """

    def __init__(self, function: Callable[..., None], seconds: float) -> None:
        self._function, self._seconds = function, seconds
        self._lock = threading.Lock()
        self._last_call = 0.0
        self._held: tuple[Any, ...] | None = None

    def __call__(self, *arguments: Any) -> None:
        """Call the function now, or later with the newest arguments."""
        with self._lock:
            wait = self._last_call + self._seconds - time.monotonic()
            if wait <= 0:
                self._call(arguments)
                return
            timer_runs = self._held is not None
            self._held = arguments
            if not timer_runs:
                timer = threading.Timer(wait, self._call_held)
                # It must not keep the process alive when the node has ended.
                timer.daemon = True
                timer.start()

    def _call_held(self) -> None:
        """Make the call that was postponed, in the thread of the timer."""
        with self._lock:
            if self._held is not None:
                self._call(self._held)

    def _call(self, arguments: tuple[Any, ...]) -> None:
        """Call the function; the caller holds the lock."""
        self._held, self._last_call = None, time.monotonic()
        self._function(*arguments)


def describe(error: BaseException, task: NodeTask) -> Failure:
    """Return an exception as a failure whose message a user can act on.

    Message and traceback are shortened, and control characters are removed from them.
    """
    failure = _explain(error, task)
    trace = failure.traceback and readable(failure.traceback, TRACEBACK_CHARACTERS)
    message = readable(failure.message, MESSAGE_CHARACTERS)
    return replace(failure, message=message, traceback=trace)


def _explain(error: BaseException, task: NodeTask) -> Failure:
    """Return the kind of a failure and its message, by the class of the exception."""
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
    match error:
        case BadInput():
            return Failure("bad-input", error.message, error.field)
        case Cancelled():
            return Failure("cancelled", str(error))
        case CorruptObject():
            return Failure("corrupt", str(error), digest=error.digest)
        case SubtaskFailed():
            return Failure(error.kind, str(error))
        case SylvaError():
            return Failure("error", str(error))
        case MemoryError():
            return Failure("memory", out_of_memory(task), traceback=trace)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failure("disk", _disk_full(task), traceback=trace)
        case OSError(errno=None) if NUMPY_DISK_FULL.match(str(error)):
            return Failure("disk", _disk_full(task), traceback=trace)
        # C++ libraries such as LightGBM raise their own classes when they get no memory.
        case _ if "bad allocation" in str(error) or "bad_alloc" in str(error):
            return Failure("memory", out_of_memory(task), traceback=trace)
    return Failure("error", f"{type(error).__name__}: {error}", traceback=trace)


def out_of_memory(task: NodeTask) -> str:
    """Return the message for a node that needed more memory than its limit, with what to do."""
    return (
        f"ran out of memory, limit {task.memory_limit:,} MB; give it less data, "
        "or raise its memory_limit setting or --memory-limit"
    )


def _disk_full(task: NodeTask) -> str:
    """Return the message for a node that could not write, with the space that is left."""
    free = shutil.disk_usage(task.workspace).free / 1e6
    return (
        f"the disk is full ({free:,.0f} MB free at {task.workspace}); "
        "free some space, for example with `sylva gc`, and retry the run"
    )
