"""Run each node as a task of a Dask cluster that exists already: ``sylva run --executor ADDRESS``.

- ``DaskExecutor``  in the supervisor: one Dask task per node, through a client of the scheduler
- ``run_node``      in a Dask worker: the function of such a task
- ``NodeHost``      in a Dask worker: its connection to the host, a process that runs the node
- ``serve``         in the host: what that process does

Only the description of a node travels: inputs and outputs are in the workspace, a path that every
machine sees. How a node ended is the return value of its Dask task, which Dask delivers reliably.
Progress comes as Dask events; one that is lost does no harm.

A node must not run inside a Dask worker: a crash would end the worker too, and a thread cannot be
stopped. So each thread of a Dask worker has a host, which runs nodes through a ``LocalExecutor``,
with its preloaded libraries, limits and process groups. The kernel tells the host when its Dask
worker dies; the host then ends its node and everything the node has started.

Each worker is checked before it gets a node: ``engine.executors.admission``.

Dask gives the task of a worker that died to another worker. Once a task is no longer wanted (the
run was cancelled, or its supervisor died), Dask's scheduler drops it; ``run_node`` notices this
and ends the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NoReturn
from uuid import uuid4

from engine.environment import environment, plugin_versions
from engine.errors import SylvaError
from engine.events import (
    Failure,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunEvent,
    WorkerUpdate,
    event_from_dict,
)
from engine.executors import ClusterOfRun, NodeTask
from engine.executors.admission import WorkerCheck, cache_folder, make_plugin, prepare_token
from engine.executors.local import GRACE_SECONDS, LocalExecutor
from engine.executors.storage_node import localised, publish_log
from engine.node_types import load_catalog
from engine.processes import die_with_parent, usable_memory, wait_passively
from engine.settings import remote_sources
from engine.shared_storage import SharedStorage, StorageFailed
from engine.workspace import Workspace

CONNECT_SECONDS = 3.0
"""With the start of a command, a wrong address is reported within five seconds."""
JOIN_SECONDS = 1.0
"""The same for a scheduler that was lost: it is tried again and again."""
STOP_SECONDS = 2.0
CHECK_SECONDS = 0.2
"""How often a Dask task checks whether it is still wanted."""
COUNT_SECONDS = 1.0
"""How often the Dask scheduler is asked which workers it has."""
CHECKED_SECONDS = 10.0
"""How long the check of a worker may take; after that the worker is refused."""
STORAGE_SECONDS = 20.0
"""How much longer, if the worker has to read a storage."""
HOST_WAIT_SECONDS = 1.0
PATIENCE = "SYLVA_CLUSTER_PATIENCE"
PATIENCE_SECONDS = 60.0
"""How long a run may be without admitted workers before its nodes fail; ``PATIENCE`` overrides
it."""
VISIBLE_SECONDS = 90.0
"""How long a result may take to appear: a network file system caches that it was not there."""

GONE = ("CancelledError", "FutureCancelledError", "ClosedClientError")
"""The errors of tasks that Dask dropped because its scheduler went away.

By name: the classes can only be imported where Dask is installed."""

Message = dict[str, Any]
"""From a Dask task: its ``key``, and an ``event`` or that it ``stopped``. From the client: that the
task of a ``key`` was ``dropped``. From the check of a worker: ``checked``, what it found. Empty: a
wake-up."""


# In the supervisor


@dataclass
class _Running:
    """A task that was submitted and has not ended."""

    task: NodeTask
    upcoming: list[str]
    future: Any = None
    """None while the run has no worker."""
    started: bool = False


class DaskExecutor:
    """Runs as many nodes at once as admitted workers have threads, or at most ``limit`` of them."""

    def __init__(
        self,
        address: str,
        run_folder: Path,
        limit: int | None = None,
        storage: SharedStorage | None = None,
    ) -> None:
        self.address = address
        self.limit = limit
        self.running: dict[str, _Running] = {}
        self.workers: dict[str, WorkerUpdate] = {}
        """The workers of the cluster that have been checked, by address."""
        self._present: dict[str, float] = {}
        """Since when each worker of the cluster is there, by address."""
        self.patience = float(os.environ.get(PATIENCE, PATIENCE_SECONDS))
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        expected = environment() | plugin_versions()
        token = prepare_token(run_folder)
        if storage is not None:
            # Workers may read the same addresses as this workspace.
            sources = remote_sources(Workspace(run_folder.parent.parent).settings)
            storage.write_token(run_folder.name, token, sources)
        shared = None if storage is None else storage.address
        self._check = WorkerCheck(str(run_folder), token, expected, shared)
        self.check_seconds = CHECKED_SECONDS + (STORAGE_SECONDS if storage else 0.0)
        self._plugin = f"sylva-{run_folder.name}"
        self._client: Any = None
        self._join(CONNECT_SECONDS)
        self._had_workers = self._looked = time.monotonic()

    def _join(self, timeout: float) -> None:
        """Connect to the scheduler and let it check the workers."""
        self._client = connect(self.address, timeout=timeout)
        # Dask's scheduler drops a topic named after a client together with the client.
        self._client.subscribe_topic(self._client.id, lambda event: self._inbox.put(event[1]))
        self._admit_workers()
        self._left = False

    def _join_again(self) -> None:
        """Connect to the scheduler that is at the address now; it knows nothing of this run."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=STOP_SECONDS)
        with contextlib.suppress(Exception):  # the next look tries again
            self._join(JOIN_SECONDS)

    @property
    def free(self) -> int:
        """How many tasks may be submitted now: one per thread.

        Nodes that leave their thread to their subtasks do not count, up to one more per thread.
        Without any thread it is one: a waiting task then fails when no worker comes in time.
        """
        threads = max(1, sum(worker.threads for worker in self._admitted()))
        others = sum(not running.task.delegates for running in self.running.values())
        most = min(2 * threads, self.limit or 2 * threads)
        return min(threads - others, most - len(self.running))

    @property
    def cluster(self) -> ClusterOfRun:
        """What a node must know to submit subtasks of its own."""
        machines = dict(Counter(worker.machine for worker in self._admitted()))
        return ClusterOfRun(
            self.address, self._check.resource, machines, self._client.id, self.limit
        )

    def n_workers(self) -> int:
        """Return how many workers the cluster has, whether they are admitted or not."""
        return len(self._client.nthreads())

    def _admitted(self) -> list[WorkerUpdate]:
        """Return the workers that may run nodes."""
        return [worker for worker in self.workers.values() if worker.state == "admitted"]

    def _admit_workers(self) -> None:
        """Let Dask check all workers, also those that join later."""
        cloudpickle = importlib.import_module("cloudpickle")
        modules = [sys.modules[each] for each in (WorkerCheck.__module__, environment.__module__)]
        # The check travels with its code: a worker without Sylva must be able to run it.
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            plugin = make_plugin(self._check, self._client.id, distributed())
            # A worker that cannot even read the plug-in makes this fail; the others are checked.
            with contextlib.suppress(Exception):
                self._client.register_plugin(plugin, name=self._plugin)
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)

    def submit(self, task: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Hand a node to the cluster, or keep it until the first worker is admitted."""
        key = f"sylva-{task.run}-{task.node}-{task.try_number}-{uuid4().hex[:8]}"
        self.running[key] = running = _Running(task, list(upcoming))
        if self._admitted():
            self._submit(key, running)

    def _submit(self, key: str, running: _Running) -> None:
        """Make a Dask task of a node."""
        cluster = self.cluster
        task = replace(running.task, cluster=cluster)
        arguments = task.to_dict(), running.upcoming, self._client.id, cluster.machines
        try:
            # The scheduler of the run decides about retries, and no result may be used twice.
            running.future = self._client.submit(
                run_node,
                *arguments,
                key=key,
                pure=False,
                retries=0,
                resources={self._check.resource: 1},
            )
        except Exception:  # the client gave up on a scheduler that went away
            self._inbox.put({"key": key, "dropped": True})
        else:
            running.future.add_done_callback(self._receive_outcome)

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """Return new events of nodes and workers; fail all nodes if no worker is left for them."""
        limit = COUNT_SECONDS if timeout is None else min(timeout, COUNT_SECONDS)
        events = [event for message in self._messages(limit) for event in self._handle(message)]
        if time.monotonic() - self._looked >= COUNT_SECONDS:
            if self._left or self._client.status != "running":
                self._left = True
                self._join_again()
            events += self._look_at_workers()
        return events + self._fail_without_workers()

    def wake(self) -> None:
        """Make ``wait`` return."""
        self._inbox.put({})

    def stop(self) -> list[str]:
        """Cancel all tasks, wait until their nodes are gone, and return these nodes."""
        stopped = [running.task.node for running in self.running.values()]
        # A task that has not started has no node that must end.
        ending = {key for key, running in self.running.items() if running.started}
        self._cancel_all()
        deadline = time.monotonic() + STOP_SECONDS
        while ending and (left := deadline - time.monotonic()) > 0:
            ending -= {message["key"] for message in self._messages(left) if "stopped" in message}
        return stopped

    def close(self) -> None:
        """Leave the cluster, which drops all tasks that are left."""
        with contextlib.suppress(Exception):  # it may be gone, in any state
            self._client.unregister_worker_plugin(self._plugin)
            self._client.unsubscribe_topic(self._client.id)
            self._client.close(timeout=STOP_SECONDS)

    def _messages(self, timeout: float) -> list[Message]:
        """Return the messages that have arrived; wait for the first of them."""
        messages = []
        with contextlib.suppress(Empty):
            messages.append(self._inbox.get(timeout=timeout))
            while True:
                messages.append(self._inbox.get_nowait())
        return messages

    def _handle(self, message: Message) -> list[RunEvent]:
        """Return the event of a message, if it has one and its task still counts."""
        if "checked" in message:
            return self._checked(message["checked"])
        running = self.running.get(message.get("key", ""))
        if running is not None and "dropped" in message:
            # It starts again if a scheduler and a worker come in time.
            running.future, running.started, self._left = None, False, True
        if running is None or "event" not in message:
            return []
        event = event_from_dict(message["event"])
        match event:
            case NodeStarted():
                running.started = True
            case NodeFinished() | NodeFailed():
                del self.running[message["key"]]
        return [event]

    def _receive_outcome(self, future: Any) -> None:
        """Read how a task ended; called in a thread of Dask's client, which may wait."""
        running = self.running.get(future.key)
        if running is None:
            return  # it was cancelled
        try:
            outcome = future.result()
        except (Exception, CancelledError) as error:
            if type(error).__name__ in GONE:
                self._inbox.put({"key": future.key, "dropped": True})
                return
            outcome = NodeFailed(node=running.task.node, error=self._explain(error)).to_dict()
        if outcome["kind"] == "finished" and running.task.storage is None:
            self._wait_until_visible(future.key, running.task)
        self._inbox.put({"key": future.key, "event": outcome})

    def _wait_until_visible(self, key: str, task: NodeTask) -> None:
        """Wait until this machine sees the record that another one wrote."""
        record = Workspace(Path(task.workspace)).results / f"{task.key}.json"
        deadline = time.monotonic() + VISIBLE_SECONDS
        while key in self.running and not record.exists() and time.monotonic() < deadline:
            time.sleep(CHECK_SECONDS)

    def _explain(self, error: BaseException) -> Failure:
        """Return why Dask did not run a task."""
        if type(error).__name__ == "KilledWorker":
            return Failure("lost", f"was lost several times with its Dask worker. {error}")
        why = (
            f"no Dask worker could run it ({type(error).__name__}: {error}); "
            "each needs the same packages as this machine"
        )
        return Failure("error", why)

    def _checked(self, report: Mapping[str, Any]) -> list[RunEvent]:
        """Note that a worker was admitted or refused."""
        why = "; ".join(report["refusals"])
        worker = WorkerUpdate(
            address=report["address"],
            state="refused" if why else "admitted",
            threads=report["threads"],
            machine=report["machine"],
            why=why,
            memory=report["memory"],
        )
        if self.workers.get(worker.address) == worker:
            return []  # its report was read twice
        self.workers[worker.address] = worker
        others = self._look_at_workers()
        if self._admitted() == [worker]:
            self._submit_again()
        return [*others, worker]

    def _submit_again(self) -> None:
        """Submit all nodes, now that there is a worker.

        When a worker joins, Dask looks for tasks that wait for one before the worker is admitted,
        and not again after that.
        """
        waiting = list(self.running.values())
        self._cancel_all()
        for running in waiting:
            self.submit(running.task, dict.fromkeys(running.upcoming))

    def _look_at_workers(self) -> list[RunEvent]:
        """Ask the Dask scheduler for its workers.

        Return and forget those that are gone; return those that did not report as refused.
        """
        self._looked = now = time.monotonic()
        try:
            present = {} if self._left else self._client.nthreads(callback_timeout=STOP_SECONDS)
        except (OSError, AttributeError):
            return []  # it is busy; ``wait`` notices when the connection is lost
        gone = [self.workers.pop(address) for address in set(self.workers) - set(present)]
        events: list[RunEvent] = [each.model_copy(update={"state": "lost"}) for each in gone]
        self._present = {each: self._present.get(each, now) for each in present}
        unknown = set(present) - set(self.workers)
        if unknown:
            self._read_missed_reports(unknown)
        for address in unknown:
            if now - self._present[address] >= self.check_seconds:
                why = (
                    "it has not answered the check of this run yet; it may be busy, or have "
                    "another version of Python"
                )
                refused = WorkerUpdate(address=address, state="refused", why=why)
                self.workers[address] = refused
                events.append(refused)
        if self._admitted():
            self._had_workers = now
        return events

    def _read_missed_reports(self, unknown: set[str]) -> None:
        """Read reports of workers again: one may have come before this client listened to them."""
        with contextlib.suppress(Exception):  # the scheduler is out of reach for a moment
            for _, message in self._client.get_events(self._client.id):
                if message.get("checked", {}).get("address") in unknown:
                    self._inbox.put(message)

    def _fail_without_workers(self) -> list[RunEvent]:
        """Fail all nodes if the run has been without admitted workers for too long."""
        waited = time.monotonic() - self._had_workers
        if self._admitted() or not self.running or waited < self.patience:
            return []
        lost = [running.task.node for running in self.running.values()]
        self._cancel_all()
        failure = Failure("lost", self._why_no_worker())
        return [NodeFailed(node=node, error=failure) for node in lost]

    def _why_no_worker(self) -> str:
        """Return why no worker may run a node, and what to do."""
        wait = f"for {self.patience:g} s"
        refused = [f"{worker.address}: {worker.why}" for worker in self.workers.values()]
        scheduler = f"the Dask scheduler at {self.address}"
        if self._left:
            return f"was lost: {scheduler} has not answered {wait}; start it and its workers"
        if not refused:
            return f"was lost: {scheduler} has had no worker {wait}; start some"
        return (
            f"was lost: no worker of the cluster at {self.address} could be used {wait}. "
            + ". ".join(refused)
            + ". Every worker needs the workspace under the same path and the same versions"
        )

    def _cancel_all(self) -> None:
        """Forget all tasks, and ask Dask to drop them."""
        futures = [running.future for running in self.running.values() if running.future]
        self.running.clear()
        with contextlib.suppress(Exception):  # without a scheduler there is nothing to cancel
            self._client.cancel(futures)


def check_workers(address: str, workspace: Workspace) -> list[WorkerUpdate]:
    """Return the workers of a cluster, each admitted or refused, as a run would find them.

    Raise ``SylvaError`` if no scheduler answers.
    """
    folder = workspace.temporary / f"check-{uuid4().hex[:8]}"
    try:
        return wait_for_checks(DaskExecutor(address, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_checks(executor: DaskExecutor) -> list[WorkerUpdate]:
    """Return the workers of the cluster once each was checked, and leave the cluster."""
    try:
        deadline = time.monotonic() + executor.check_seconds + COUNT_SECONDS
        while time.monotonic() < deadline and len(executor.workers) < executor.n_workers():
            executor.wait(CHECK_SECONDS)
        return list(executor.workers.values())
    finally:
        executor.close()


def connect(address: str, name: str = "sylva", timeout: float = CONNECT_SECONDS) -> Any:
    """Return a client of the cluster; raise ``SylvaError`` if no scheduler answers."""
    dask = distributed()
    try:
        # A client would wait without end for a server that accepts the connection and says nothing.
        asyncio.run(asyncio.wait_for(_ask_scheduler(address), timeout))
        return dask.Client(address, timeout=timeout, set_as_default=False, name=name)
    except TypeError as error:  # Dask has no settings for encrypted connections
        raise SylvaError(
            f"The cluster at {address} needs a certificate: set Dask's TLS settings on this "
            "machine as docs/cluster.md says."
        ) from error
    except Exception as error:  # of any kind: what answers may be anything
        if address.startswith("tls://"):
            raise SylvaError(
                f"No Dask scheduler answers at {address}, or it does not accept the certificate of "
                "this machine: both must come from the same authority, as docs/cluster.md says."
            ) from error
        raise SylvaError(
            f"No Dask scheduler answers at {address}. "
            "Start one as docs/cluster.md says, or give another address."
        ) from error


async def _ask_scheduler(address: str) -> None:
    """Ask what answers at an address for what only a Dask scheduler has."""
    dask = distributed()
    settings = dask.Security().get_connection_args("client")
    async with dask.rpc(address, connection_args=settings) as scheduler:
        await scheduler.identity()


def distributed() -> Any:
    """Import Dask, which is installed only where a cluster is used."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        message = "Running on a cluster needs one more package: install sylva-studio[cluster]."
        raise SylvaError(message) from error


# In a Dask worker

_idle_hosts: list[NodeHost] = []
_hosts_lock = threading.Lock()
# The kernel ends a host when the thread that started it ends, and Dask ends threads that secede.
_host_starter = ThreadPoolExecutor(1, thread_name_prefix="sylva-hosts")


def run_node(
    data: dict[str, Any], upcoming: list[str], topic: str, machines: dict[str, int]
) -> dict[str, Any]:
    """Run one node in a host process, forward its events to ``topic`` and return the last one.

    ``machines`` says how many workers of the run each machine has: they share its memory.
    """
    worker = distributed().get_worker()
    task, key = NodeTask.from_dict(data), worker.get_current_task()
    host_folder = task.workspace
    if task.storage is not None:
        folder = cache_folder(worker, task.run)
        host_folder = str(folder.parent)
        try:
            task = localised(task, folder)
        except StorageFailed as error:
            _resign(worker, task, str(error))
    elif not Workspace(Path(task.workspace)).run_folder(task.run).is_dir():
        _resign(worker, task, f"it does not see the workspace {task.workspace} any more")
    if task.delegates:
        # Its thread takes other tasks of Dask from now on, such as the subtasks of this node.
        distributed().secede()
    with _host(host_folder) as host:
        outcome = _run_in_host(host, worker, key, task, upcoming, topic, machines)
    if task.storage is not None:
        publish_log(task)
    return outcome


def _run_in_host(
    host: NodeHost,
    worker: Any,
    key: str,
    task: NodeTask,
    upcoming: list[str],
    topic: str,
    machines: dict[str, int],
) -> dict[str, Any]:
    """Run one node, or a subtask of it, and return its last event with the worker's address."""
    data = task.to_dict()
    host.submit(data, upcoming, machines.get(socket.gethostname(), 1))
    while _is_wanted(worker, key):
        try:
            event = host.receive(CHECK_SECONDS)
        except (EOFError, OSError):
            why = f"lost its process: the host beside Dask worker {worker.address} was killed"
            return _failed(task, "crashed", why)
        if event is None:
            continue
        if event["kind"] in ("finished", "failed"):
            return {**event, "worker": worker.address}
        worker.log_event(topic, {"key": key, "event": event})
    host.terminate()
    worker.log_event(topic, {"key": key, "stopped": True})
    # If only the worker is closing, not the run, Dask gives the task to another worker.
    raise distributed().Reschedule


def _resign(worker: Any, task: NodeTask, why: str) -> NoReturn:
    """Give back the right to run nodes of a run, and let Dask choose another worker.

    The worker was admitted, but has lost the data of the run since.
    """
    assert task.cluster is not None
    resources = {task.cluster.resource: 0}
    asyncio.run_coroutine_threadsafe(worker.set_resources(**resources), worker.loop.asyncio_loop)
    report = {
        "address": worker.address,
        "threads": worker.state.nthreads,
        "machine": socket.gethostname(),
        "memory": 0,
        "refusals": [why],
    }
    worker.log_event(task.cluster.topic, {"checked": report})
    raise distributed().Reschedule


def _failed(task: NodeTask, kind: str, why: str) -> dict[str, Any]:
    """Return the event of a node that failed, as plain JSON."""
    return NodeFailed(node=task.node, error=Failure(kind, why)).to_dict()


@contextmanager
def _host(workspace: str) -> Iterator[NodeHost]:
    """Yield a host that no other thread uses; start one if all are busy."""
    with _hosts_lock:
        for idle in [each for each in _idle_hosts if not each.serves(workspace)]:
            _idle_hosts.remove(idle)
            idle.terminate()
        host = _idle_hosts.pop() if _idle_hosts else None
    if host is None:
        host = _host_starter.submit(NodeHost, workspace).result()
    yield host
    if host.alive:
        with _hosts_lock:
            _idle_hosts.append(host)


def _is_wanted(worker: Any, key: str) -> bool:
    """Return whether a client still waits for this task.

    Dask tells its worker when none does, but a worker cannot stop a thread by itself.
    """
    if worker.status.name in ("closing", "closed", "failed"):
        return False
    task = worker.state.tasks.get(key)
    return task is not None and task.state in ("executing", "long-running")


class NodeHost:
    """A host for nodes of one workspace, as the thread that started it sees it."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._line, end = Pipe()
        command = [sys.executable, "-P", "-m", "engine.executors.dask"]
        command += [workspace, str(os.getpid()), str(end.fileno())]
        # A session of its own: Ctrl-C in the terminal of the Dask worker is not for the node.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[end.fileno()], start_new_session=True
        )
        end.close()

    @property
    def alive(self) -> bool:
        """Whether it can take a task."""
        return self._process.poll() is None

    def serves(self, workspace: str) -> bool:
        """Return whether it can take a task of a workspace."""
        return self.alive and self.workspace == workspace

    def submit(self, task: dict[str, Any], upcoming: Iterable[str], share: int) -> None:
        """Hand over a task, of a machine that ``share`` workers use.

        A host that has just died is noticed in ``receive``.
        """
        request = {"task": task, "upcoming": list(upcoming), "share": share}
        with contextlib.suppress(OSError):
            self._line.send_bytes(json.dumps(request).encode())

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """Return its next event as plain JSON, None if no event comes in time.

        Raise ``OSError`` or ``EOFError`` if the host is gone.
        """
        return json.loads(self._line.recv_bytes()) if self._line.poll(timeout) else None

    def terminate(self) -> None:
        """End it and the node it runs; return when both are gone."""
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS + HOST_WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line.close()


# In the host


def serve(workspace: Path, dask_worker: int, line: Connection) -> None:
    """Run the tasks that come, one after the other, until the Dask worker is gone."""
    die_with_parent(dask_worker, signal.SIGTERM)
    wait_passively()
    load_catalog()  # every node's process is a copy of this one and inherits it
    executor = LocalExecutor(slots=1)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGCHLD, lambda *_: executor.wake())
    try:
        while True:
            request = json.loads(line.recv_bytes())
            task = fit_to_this_machine(NodeTask.from_dict(request["task"]), request["share"])
            for event in _events_of(executor, task, request["upcoming"]):
                line.send_bytes(json.dumps(event.to_dict()).encode())
    except (EOFError, OSError):
        pass  # the Dask worker has closed its end
    finally:
        executor.stop()
        executor.close()


def _leave(*_: object) -> None:
    """End this process, and by ``serve`` its node."""
    # The signal may come twice, from the Dask worker and at its death; the node must be ended once.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _events_of(executor: LocalExecutor, task: NodeTask, upcoming: list[str]) -> Iterator[RunEvent]:
    """Run one task and yield its events."""
    executor.submit(task, dict.fromkeys(upcoming))
    while executor.running:
        yield from executor.wait(HOST_WAIT_SECONDS)


def fit_to_this_machine(task: NodeTask, share: int) -> NodeTask:
    """Return the task with the threads and memory of this machine, unknown to the supervisor.

    ``share`` workers use the machine, each of them the same part of its memory.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return replace(
        task,
        threads=max(1, int(threads)) if threads.isdigit() else 1,
        memory_limit=min(task.memory_limit, usable_memory(share)),
    )


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), Connection(int(sys.argv[3])))
