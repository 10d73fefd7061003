"""What happens inside the process of one node: read the inputs, run, keep the outputs, say so.

Whoever calls ``execute`` gives it a way to tell (``tell(kind, **facts)``); it never raises.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from engine.atomic import lock
from engine.crash_points import crash_point
from engine.errors import BadInput, Cancelled, CorruptObject, SylvaError
from engine.executors import Failure, NodeTask
from engine.node_types import NodeContext, NodeType, load_catalog
from engine.store import CacheEntry, Store
from engine.text import readable
from engine.workspace import Files, Workspace

Tell = Callable[..., None]

PROGRESS_SECONDS = 1.0
LOCK = ".lock"
NUMPY_DISK_FULL = re.compile(r"Not enough free space to write|\d+ requested and \d+ written")
"""NumPy says it in words only, without an error number."""
MESSAGE_CHARACTERS = 4_000
TRACEBACK_CHARACTERS = 16_000
PART_CHARACTERS = 64_000
"""Most that a part of a result may have as JSON: it is told in one message, and kept in the run's log."""


def execute(job: NodeTask, tell: Tell) -> None:
    """Run one node to its end and tell how it went."""
    store = Store(Workspace(Path(job.workspace)), job.run)
    try:
        with _work_folder(store.workspace.checkpoints / job.key, tell) as folder:
            if not _already_done(job, store):
                store.record(_run(job, store, folder, tell))
            shutil.rmtree(folder, ignore_errors=True)
    except BaseException as error:
        tell("failed", failure=asdict(describe(error, job)))
    else:
        tell("finished")


def _run(job: NodeTask, store: Store, folder: Path, tell: Tell) -> CacheEntry:
    node_type = load_catalog()[job.type]
    began = time.monotonic()
    crash_point("before-run", job.node)
    inputs = {port: [store.open(output) for output in outputs] for port, outputs in job.inputs.items()}
    given = {port.name: _given(inputs.get(port.name, []), port.many) for port in node_type.inputs}
    params = node_type.params.model_validate_json(json.dumps(job.params))
    values = node_type.run(_context(job, store, folder, tell), given, params)
    _check_ports(node_type, values)
    outputs = {
        port.name: store.put(port.type, values[port.name], node=job.node, bytes_left=job.bytes_left)
        for port in node_type.outputs
    }
    return CacheEntry(job.key, job.run, job.node, time.monotonic() - began, time.time(), outputs)


def _given(values: list[Any], many: bool) -> Any:
    if many:
        return values
    return values[0] if values else None


def _check_ports(node_type: NodeType, values: dict[str, Any]) -> None:
    promised = {port.name for port in node_type.outputs}
    if set(values) != promised:
        raise SylvaError(
            f"Node type '{node_type.name}' gave outputs {sorted(values)}, but promises {sorted(promised)}."
        )
    for name, value in values.items():
        if not hasattr(value, "save"):
            raise SylvaError(
                f"Node type '{node_type.name}' gave a {type(value).__name__} for '{name}'; "
                "give one of the values in engine.values."
            )


def _already_done(job: NodeTask, store: Store) -> bool:
    """Whether another run, or this one just before it was killed, finished the same work meanwhile."""
    result = store.find(job.key)
    return result is not None and (not job.force or result.run == job.run)


@contextmanager
def _work_folder(folder: Path, tell: Tell) -> Iterator[Path]:
    """Yield the folder for half-done work on a key; one process at a time, so that no two runs do the same work."""

    def waiting() -> None:
        tell("progress", fraction=0.0, text="waiting: another run is doing the same work")

    # The folder may disappear: the process that finishes the work removes it.
    with lock(folder / LOCK, on_wait=waiting, create_folder=True):
        yield folder


def _context(job: NodeTask, store: Store, folder: Path, tell: Tell) -> NodeContext:
    cancelled = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: cancelled.set())
    calmly = _Throttle(lambda fraction, text: tell("progress", fraction=fraction, text=text[:200]), PROGRESS_SECONDS)
    return NodeContext(
        node=job.node,
        key=job.key,
        files=Files(store.workspace.root, job.allow_absolute),
        checkpoint=folder,
        threads=job.threads,
        sources=job.sources,
        branch=job.branch,
        branches=job.branches,
        on_progress=calmly,
        on_log=lambda text: print(time.strftime("%H:%M:%S"), text, flush=True),
        on_subtask=lambda place, state, seconds: tell("jobs", jobs=[[place, state, seconds]]),
        on_publish=lambda part, data: _tell_part(part, data, tell),
        on_reading=lambda subject, field: tell("reading", subject=subject, field=field),
        cancelled=cancelled,
        run=job.run,
    )


def _tell_part(part: str, data: dict[str, Any], tell: Tell) -> None:
    """Pass on a part of a result; one that is too large to be told is only seen once the node has finished."""
    length = len(json.dumps([part, data], allow_nan=False))
    if length > PART_CHARACTERS:
        print(f"Part '{part[:100]}' is too large to be told before the node has finished.", flush=True)
    else:
        tell("part", part=part, data=data)


class _Throttle:
    """Passes on at most one word in so many seconds: the first at once, and the last of many once its time has come."""

    def __init__(self, say: Callable[..., None], seconds: float) -> None:
        self._say, self._seconds = say, seconds
        self._lock = threading.Lock()
        self._last = 0.0
        self._held: tuple[Any, ...] | None = None

    def __call__(self, *words: Any) -> None:
        with self._lock:
            wait = self._last + self._seconds - time.monotonic()
            if wait <= 0:
                self._pass_on(words)
            elif self._held is not None:
                self._held = words
            else:
                self._held = words
                timer = threading.Timer(wait, self._pass_on_held)
                timer.daemon = True
                timer.start()

    def _pass_on_held(self) -> None:
        with self._lock:
            if self._held is not None:
                self._pass_on(self._held)

    def _pass_on(self, words: tuple[Any, ...]) -> None:
        self._held, self._last = None, time.monotonic()
        self._say(*words)


def describe(error: BaseException, job: NodeTask) -> Failure:
    """An exception in words a user can act on; the traceback goes along, folded."""
    failure = _explain(error, job)
    trace = failure.traceback and readable(failure.traceback, TRACEBACK_CHARACTERS)
    return replace(failure, message=readable(failure.message, MESSAGE_CHARACTERS), traceback=trace)


def _explain(error: BaseException, job: NodeTask) -> Failure:
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
    match error:
        case BadInput():
            return Failure("bad-input", error.message, error.field)
        case Cancelled():
            return Failure("cancelled", str(error))
        case CorruptObject():
            return Failure("corrupt", str(error), digest=error.digest)
        case SylvaError():
            return Failure("error", str(error))
        case MemoryError():
            return Failure("memory", out_of_memory(job), traceback=trace)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return Failure("disk", _disk_full(job), traceback=trace)
        case OSError(errno=None) if NUMPY_DISK_FULL.match(str(error)):
            return Failure("disk", _disk_full(job), traceback=trace)
        case _ if "bad allocation" in str(error) or "bad_alloc" in str(error):
            return Failure("memory", out_of_memory(job), traceback=trace)
    return Failure("error", f"{type(error).__name__}: {error}", traceback=trace)


def out_of_memory(job: NodeTask) -> str:
    """What to say of a node that wanted more than it may have."""
    return (
        f"ran out of memory, limit {job.memory_limit:,} MB; give it less data, "
        "or raise its memory_limit setting or --memory-limit"
    )


def _disk_full(job: NodeTask) -> str:
    free = shutil.disk_usage(job.workspace).free / 1e6
    return (
        f"the disk is full ({free:,.0f} MB free at {job.workspace}); "
        "free some space, for example with `sylva gc`, and retry the run"
    )
