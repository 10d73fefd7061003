"""Runs each node as a task of a Dask cluster that is already there; ``sylva run --executor ADDRESS``.

- ``DaskExecutor``  the supervisor's side: one task per job, through a client of the cluster's scheduler
- ``run_job``       the cluster's side: what a task does on a Dask worker

Nothing but a job's description travels: inputs and outputs lie in the workspace, a path that every machine sees. How a
node ended is the return value of its task, which Dask keeps and passes on reliably. Progress comes as events along the
way; one that is lost does no harm.

A task whose worker dies is given to another worker by Dask. A task nobody wants any longer (its run was cancelled,
its supervisor was killed or cut off) is dropped by Dask's scheduler; ``run_job`` notices and ends the node.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from uuid import uuid4

from engine.errors import SylvaError
from engine.executors import (
    Failure,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    NodeTask,
    RunEvent,
    event_from_dict,
    event_to_dict,
)
from engine.executors.local import GRACE_SECONDS, LocalExecutor
from engine.node_types import load_catalog
from engine.processes import die_with_parent, usable_memory, wait_passively
from engine.workspace import Workspace

CONNECT_SECONDS = 5.0
STOP_SECONDS = 2.0
LOOK_SECONDS = 0.2
"""How often a task looks whether it is still wanted."""
HOST_LOOK_SECONDS = 1.0
COUNT_SECONDS = 1.0
"""How often the workers are counted."""
PATIENCE = "SYLVA_CLUSTER_PATIENCE"
PATIENCE_SECONDS = 60.0
"""How long a cluster may be without any worker before its nodes fail, unless the environment says otherwise."""
VISIBLE_SECONDS = 90.0
"""How long a result may take to show up here: a network file system may remember for a while that it was not there."""

Message = dict[str, Any]


# The supervisor's side.


@dataclass
class _Task:
    job: NodeTask
    future: Any
    started: bool = False


class DaskExecutor:
    """One task per job, as many at once as the cluster has threads, or ``most`` of them."""

    def __init__(self, address: str, most: int | None = None) -> None:
        self.address = address
        self.most = most
        self.tasks: dict[str, _Task] = {}
        self.patience = float(os.environ.get(PATIENCE, PATIENCE_SECONDS))
        self._inbox: SimpleQueue[Message] = SimpleQueue()
        self._client = _connect(address)
        # Dask's scheduler forgets the events of a topic named after a client together with the client.
        self._client.subscribe_topic(self._client.id, lambda event: self._inbox.put(event[1]))
        self._had_workers = time.monotonic()
        self._count_threads()

    @property
    def free(self) -> int:
        """One job per thread; one without any thread too, or else nobody would find out that there is none."""
        threads: int = max(1, self._threads)
        return min(threads, self.most or threads) - len(self.tasks)

    def submit(self, job: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Hand a job to the cluster."""
        key = f"sylva-{job.run}-{job.node}-{job.attempt}-{uuid4().hex[:8]}"
        try:
            future = self._client.submit(
                run_job, job.to_dict(), list(upcoming), self._client.id, key=key, pure=False, retries=0
            )
        except Exception as error:  # the client gave up on a scheduler that went away
            self.tasks[key] = _Task(job, None)
            self._inbox.put({"key": key, **event_to_dict(NodeFailed(job.node, self._explain(error)))})
        else:
            self.tasks[key] = _Task(job, future)
            future.add_done_callback(self._take_outcome)

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """What tasks told and how they ended; also whether there is still a cluster."""
        limit = COUNT_SECONDS if timeout is None else min(timeout, COUNT_SECONDS)
        reports = [report for message in self._messages(limit) for report in self._understand(message)]
        if time.monotonic() - self._counted >= COUNT_SECONDS:
            self._count_threads()
        return reports + self._give_up_without_workers()

    def wake(self) -> None:
        """Make ``wait`` return."""
        self._inbox.put({})

    def stop(self) -> list[str]:
        """Cancel all tasks and wait until their nodes are gone."""
        stopped = [task.job.node for task in self.tasks.values()]
        ending = {key for key, task in self.tasks.items() if task.started}
        self._cancel_all()
        deadline = time.monotonic() + STOP_SECONDS
        while ending and (left := deadline - time.monotonic()) > 0:
            ending -= {message["key"] for message in self._messages(left) if message.get("kind") == "stopped"}
        return stopped

    def close(self) -> None:
        """Leave the cluster; it drops whatever was left."""
        with contextlib.suppress(Exception):  # it may be gone, in any state
            self._client.unsubscribe_topic(self._client.id)
            self._client.close(timeout=STOP_SECONDS)

    def _messages(self, timeout: float) -> list[Message]:
        messages = []
        with contextlib.suppress(Empty):
            messages.append(self._inbox.get(timeout=timeout))
            while True:
                messages.append(self._inbox.get_nowait())
        return messages

    def _understand(self, message: Message) -> list[RunEvent]:
        key = message.get("key")
        task = self.tasks.get(key) if key else None
        if task is None or message["kind"] == "stopped":
            return []
        report = event_from_dict(message)
        match report:
            case NodeStarted():
                task.started = True
            case NodeFinished() | NodeFailed():
                del self.tasks[message["key"]]
        return [report]

    def _take_outcome(self, future: Any) -> None:
        """Called in a thread of Dask's client when a task is over; there it may wait."""
        task = self.tasks.get(future.key)
        if task is None:
            return
        try:
            outcome = future.result()
        except (Exception, CancelledError) as error:
            outcome = event_to_dict(NodeFailed(task.job.node, self._explain(error)))
        if outcome["kind"] == "finished":
            self._wait_until_visible(future.key, task.job)
        self._inbox.put({"key": future.key, **outcome})

    def _wait_until_visible(self, key: str, job: NodeTask) -> None:
        record = Workspace(Path(job.workspace)).results / f"{job.key}.json"
        deadline = time.monotonic() + VISIBLE_SECONDS
        while key in self.tasks and not record.exists() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)

    def _explain(self, error: BaseException) -> Failure:
        match type(error).__name__:
            case "KilledWorker":
                return Failure("lost", f"was lost with its Dask worker time and again. {error}")
            case "CancelledError" | "FutureCancelledError" | "ClosedClientError":
                return Failure("lost", f"was lost: the Dask scheduler at {self.address} dropped it or went away")
        what = f"{type(error).__name__}: {error}"
        return Failure("error", f"no Dask worker could run it ({what}); each needs the same packages as this machine")

    def _count_threads(self) -> None:
        self._counted = time.monotonic()
        try:
            self._threads = sum(self._client.nthreads(callback_timeout=STOP_SECONDS).values())
        except (OSError, AttributeError):  # out of reach, or the client has given up
            self._threads = 0
        if self._threads:
            self._had_workers = self._counted

    def _give_up_without_workers(self) -> list[RunEvent]:
        if self._threads or not self.tasks or time.monotonic() - self._had_workers < self.patience:
            return []
        lost = [task.job.node for task in self.tasks.values()]
        self._cancel_all()
        why = f"was lost: the Dask scheduler at {self.address} has had no worker for {self.patience:g} s; start some"
        return [NodeFailed(node, Failure("lost", why)) for node in lost]

    def _cancel_all(self) -> None:
        futures = [task.future for task in self.tasks.values() if task.future]
        self.tasks.clear()
        with contextlib.suppress(Exception):  # without a scheduler there is nothing to cancel
            self._client.cancel(futures)


def _connect(address: str) -> Any:
    try:
        return _distributed().Client(address, timeout=CONNECT_SECONDS, set_as_default=False, name="sylva")
    except (OSError, ValueError) as error:
        raise SylvaError(
            f"No Dask scheduler answers at {address}. Start one as docs/cluster.md says, or give another --executor."
        ) from error


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise SylvaError("Running on a cluster needs a package more: install sylva-studio[cluster].") from error


# The cluster's side.

_of_this_thread = threading.local()


def run_job(about: dict[str, Any], upcoming: list[str], topic: str) -> Message:
    """On a Dask worker: run one job in a host process, forward its reports to ``topic``; its last report."""
    worker = _distributed().get_worker()
    job, key = NodeTask.from_dict(about), worker.get_current_task()
    if not Workspace(Path(job.workspace)).run_folder(job.run).is_dir():
        return event_to_dict(NodeFailed(job.node, _unseen(job, worker.address)))
    host = _host(job.workspace)
    host.submit(about, upcoming)
    while _is_wanted(worker, key):
        try:
            report = host.receive(LOOK_SECONDS)
        except (EOFError, OSError):
            lost = Failure("crashed", f"lost its process: the host beside Dask worker {worker.address} was killed")
            return event_to_dict(NodeFailed(job.node, lost))
        if report and report["kind"] in ("finished", "failed"):
            return report
        if report:
            worker.log_event(topic, {"key": key, **report})
    host.terminate()
    worker.log_event(topic, {"key": key, "kind": "stopped"})
    # Should the worker be closing while the run goes on, Dask gives the job to another.
    raise _distributed().Reschedule


def _host(workspace: str) -> NodeHost:
    """The host of this thread, started when it is first needed."""
    host: NodeHost | None = getattr(_of_this_thread, "host", None)
    if host and host.alive and host.workspace == workspace:
        return host
    if host:
        host.terminate()
    _of_this_thread.host = host = NodeHost(workspace)
    return host


def _is_wanted(worker: Any, key: str) -> bool:
    """Whether anyone still waits for this task; the worker is told when not, but cannot stop a thread by itself."""
    task = worker.state.tasks.get(key)
    return task is not None and task.state == "executing" and worker.status.name not in ("closing", "closed", "failed")


def _unseen(job: NodeTask, address: str) -> Failure:
    return Failure(
        "error",
        f"the Dask worker {address} does not see the workspace {job.workspace}; "
        "every worker must see it under that path, over NFS for instance",
    )


# The host: a process beside a Dask worker that runs one node at a time.


class NodeHost:
    """A host for jobs of one workspace, as the thread that started it sees it."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._line, end = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.executors.dask", workspace, str(os.getpid()), str(end.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[end.fileno()],
            start_new_session=True,
        )
        end.close()

    @property
    def alive(self) -> bool:
        """Whether it can take a job."""
        return self._process.poll() is None

    def submit(self, job: dict[str, Any], upcoming: Iterable[str]) -> None:
        """Hand over a job. A host that has just died is noticed in ``hear``."""
        with contextlib.suppress(OSError):
            self._line.send_bytes(json.dumps({"job": job, "upcoming": list(upcoming)}).encode())

    def receive(self, timeout: float) -> dict[str, Any] | None:
        """Its next report, if one comes in time; ``OSError`` or ``EOFError`` once the host is gone."""
        return json.loads(self._line.recv_bytes()) if self._line.poll(timeout) else None

    def terminate(self) -> None:
        """End it and the node it runs; returns when both are gone."""
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS + HOST_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line.close()


def serve(workspace: Path, dask_worker: int, line: Connection) -> None:
    """Run the jobs that come, one after the other, until the Dask worker is gone or says so."""
    die_with_parent(dask_worker, signal.SIGTERM)
    wait_passively()
    load_catalog()  # every node's process is a copy of this one and has it too
    executor = LocalExecutor(Workspace(workspace), slots=1)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGCHLD, lambda *_: executor.wake())
    try:
        while True:
            order = json.loads(line.recv_bytes())
            job = fit_to_this_machine(NodeTask.from_dict(order["job"]))
            for report in _run_one(executor, job, order["upcoming"]):
                line.send_bytes(json.dumps(event_to_dict(report)).encode())
    except (EOFError, OSError):
        pass  # nobody is left at the other end
    finally:
        executor.stop()
        executor.close()


def _leave(*_: object) -> None:
    # Asked twice, by the Dask worker and by its death, it must still finish ending its node.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _run_one(executor: LocalExecutor, job: NodeTask, upcoming: list[str]) -> Iterator[RunEvent]:
    executor.submit(job, dict.fromkeys(upcoming))
    while executor.running:
        yield from executor.wait(HOST_LOOK_SECONDS)


def fit_to_this_machine(job: NodeTask) -> NodeTask:
    """The job with the threads and the memory there are here, which the supervisor cannot know."""
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return replace(
        job,
        threads=max(1, int(threads)) if threads.isdigit() else 1,
        memory_limit=min(job.memory_limit, usable_memory()),
    )


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), Connection(int(sys.argv[3])))
