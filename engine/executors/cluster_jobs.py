"""Let the workers of a Dask cluster carry out the subtasks of a running node.

A node such as a deep forest consists of many fits. On a cluster its process coordinates: it opens
a client of its own and makes each fit a Dask task, ``run_node`` with a subtask. If the process
dies, its client goes and Dask drops the tasks; what they have finished is in the checkpoints.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from engine.errors import SubtaskFailed
from engine.executors import NodeTask, SubtaskRequest
from engine.executors.admission import MEMORY, RANKS
from engine.executors.dask import connect, run_node

PRIORITY = 0
"""Of subtasks, the same as that of nodes: what was submitted first runs first, so that several
forests and other nodes take turns."""
ANSWER_SECONDS = 30.0
"""How long the scheduler, which has just submitted the node, may take to answer."""
MOST_TRIES = 3
"""How often a subtask that loses its process is tried."""
CLEARLY_MORE = 1.05
"""A worker with so many times the memory of another one may do what that one could not."""
LOOK_SECONDS = 2.0
"""How often the Dask scheduler is asked for its workers."""


@dataclass
class Submitted:
    """A subtask that was submitted and has not ended."""

    key: str
    task: NodeTask
    outcome: Future[str] = field(default_factory=Future)
    tries: int = 0
    worker: str = ""
    only: list[str] | None = None
    """The workers that may carry it out, None for all."""
    is_rank: bool = False
    """Whether it is one of several that need each other: it has one worker and one try."""
    future: Any = None
    """Of Dask, which drops a task that no future stands for."""


class ClusterJobs:
    """Carry out subtasks of one node on the admitted workers of its run.

    ``log`` gets a line for each subtask that has to be repeated. A simulation gives a ``client``
    and a ``clock`` of its own.

    Threads of the node submit and drop subtasks; a thread of Dask's client learns how they ended.
    """

    def __init__(
        self,
        task: NodeTask,
        client: Any = None,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = lambda text: None,
    ) -> None:
        assert task.cluster is not None
        self._task, self._cluster, self._log, self._clock = task, task.cluster, log, clock
        address = task.cluster.address
        self._client = client or connect(address, "sylva-subtasks", ANSWER_SECONDS)
        self._client.subscribe_topic(self._client.id, lambda event: self._started(event[1]))
        self._submitted: dict[str, Submitted] = {}
        self._of_task: dict[str, Submitted] = {}
        """The same by the names of their Dask tasks."""
        self._looked = -LOOK_SECONDS
        self._closed = False
        # Around each change of what stands for a subtask. It is held while Dask's client is given a
        # task, but never while the scheduler is asked: that may take long.
        self._lock = threading.RLock()
        self._threads: dict[str, int] = {}
        """The threads of the admitted workers, by address."""

    @property
    def n_jobs(self) -> int:
        """How many subtasks may run at the same time: one per thread of an admitted worker.

        A limit of the run counts, too.
        """
        threads = max(1, sum(self._look_at_workers().values()))
        return min(threads, self._cluster.limit or threads)

    def workers(self) -> list[str]:
        """Return the addresses of the admitted workers."""
        return list(self._look_at_workers())

    def _admitted(self) -> dict[str, dict[str, Any]]:
        """Return what the Dask scheduler knows of the admitted workers, by address."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        own = self._cluster.resource
        return {name: each for name, each in workers.items() if each["resources"].get(own)}

    def _look_at_workers(self) -> dict[str, int]:
        """Ask the Dask scheduler for the threads of its workers, now and then."""
        if self._clock() - self._looked < LOOK_SECONDS:
            return self._threads
        self._looked = self._clock()
        with contextlib.suppress(Exception):  # the scheduler is out of reach for a moment
            self._threads = {name: each["nthreads"] for name, each in self._admitted().items()}
            with self._lock:
                for submitted in list(self._submitted.values()):
                    self._release(submitted)
        return self._threads

    def _release(self, submitted: Submitted) -> None:
        """Let all workers carry out a subtask if those that alone may do it are gone."""
        # Dask would wait without end for them. A rank starts again together with the others, and
        # the outcome of a task that has ended is on its way.
        if not submitted.only or submitted.is_rank or submitted.future.done():
            return
        if not set(submitted.only) & set(self._threads):
            submitted.only, stranded = None, submitted.future
            self._submit(submitted)
            stranded.release()

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        """Let a worker carry out a subtask; the future has the address of the worker.

        It fails with ``SubtaskFailed`` if no worker could.
        """
        return self._submit_new(key, request)

    def submit_rank(self, key: str, request: dict[str, Any], worker: str) -> Future[str]:
        """Let one worker carry out a subtask, in one try; the worker has no other rank meanwhile.

        The future is as that of ``submit_job``; it may never end if the worker is lost.
        """
        return self._submit_new(key, request, [worker])

    def drop(self, key: str) -> None:
        """End a subtask wherever it runs; its future does not end any more."""
        with self._lock:
            submitted = self._submitted.pop(key, None)
            if submitted is not None and submitted.future is not None:
                # Without waiting: the scheduler may be out of reach. It drops what no client wants.
                submitted.future.release()

    def _submit_new(
        self, key: str, request: dict[str, Any], only: list[str] | None = None
    ) -> Future[str]:
        """Submit a subtask and return the future of its outcome."""
        # A subtask is not a coordinator itself, and its own time is not limited.
        subtask = SubtaskRequest(key, request)
        task = replace(self._task, subtask=subtask, delegates=False, timeout=None)
        submitted = Submitted(key, task, only=only, is_rank=only is not None)
        self._submitted[key] = submitted
        self.begin(submitted)
        return submitted.outcome

    def has(self, submitted: Submitted) -> bool:
        """Return whether a subtask has not ended and was not dropped."""
        return self._submitted.get(submitted.key) is submitted

    def begin(self, submitted: Submitted) -> None:
        """Submit a subtask for the first time."""
        self._submit(submitted)

    def succeed(self, submitted: Submitted, worker: str) -> None:
        """Set the outcome of a subtask that a worker has carried out."""
        if self._end(submitted):
            submitted.outcome.set_result(worker)

    def fail(self, submitted: Submitted, error: Exception) -> None:
        """Set the outcome of a subtask that could not be carried out."""
        if self._end(submitted):
            submitted.outcome.set_exception(error)

    def _end(self, submitted: Submitted) -> bool:
        """Forget a subtask and return true, unless it has ended or was dropped before."""
        with self._lock:
            is_here = self.has(submitted)
            if is_here:
                del self._submitted[submitted.key]
            return is_here

    def worker_of(self, key: str) -> str:
        """Return the address of the worker that carries out a subtask, empty if none does yet."""
        self._look_at_workers()
        submitted = self._submitted.get(key)
        return submitted.worker if submitted else ""

    def _submit(self, submitted: Submitted) -> None:
        """Make a Dask task of a subtask, for its next try, unless it was dropped."""
        with self._lock:
            if not self.has(submitted):
                return
            submitted.tries += 1
            future = self._submit_to_dask(submitted)
            submitted.future = future
        future.add_done_callback(lambda done: self._ended(submitted, done))

    def _submit_to_dask(self, submitted: Submitted) -> Any:
        """Return the Dask future of the next try of a subtask."""
        # Dask takes tasks of one name for the same one, also those of another run of the node.
        name = f"{submitted.key.replace('/', '-')}-{submitted.tries}-{uuid4().hex[:8]}"
        name = f"sylva-{submitted.task.key[:16]}-{name}"
        self._of_task[name] = submitted
        return self._client.submit(
            run_node,
            submitted.task.to_dict(),
            [],
            self._client.id,
            self._cluster.machines,
            key=name,
            pure=False,
            retries=0,
            priority=PRIORITY,
            resources=self._resources(submitted),
            workers=submitted.only,
        )

    def _resources(self, submitted: Submitted) -> dict[str, int]:
        """Return what a subtask takes of its worker."""
        own = {self._cluster.resource: 1}
        return own | {RANKS: 1} if submitted.is_rank else own

    def _started(self, message: dict[str, Any]) -> None:
        """Note which worker carries out a subtask. Dask adds the address to its message."""
        submitted = self._of_task.get(message.get("key", ""))
        if submitted is None or message.get("stopped"):
            return
        worker, before = message.get("worker", ""), submitted.worker
        if worker != before and before:
            self._log(f"{_name(submitted)} is repeated on {worker}: worker {before} was lost")
        submitted.worker = worker

    def _ended(self, submitted: Submitted, done: Any) -> None:
        """Set the outcome of a subtask, or try it again; called in a thread of Dask's client."""
        self._of_task.pop(done.key, None)
        if self._closed or not self._is_current(submitted, done):
            return
        try:
            event = done.result()
        except (Exception, CancelledError) as error:
            event = {"kind": "failed", "error": {"kind": "lost", "message": str(error)}}
        if event["kind"] == "finished":
            self.succeed(submitted, event.get("worker", ""))
            return
        failure = event["error"]
        try:
            if self._try_again(submitted, failure, event.get("worker", "")):
                return
        except Exception as error:  # the client has lost the scheduler
            failure = {"kind": "lost", "message": f"lost its cluster: {error}"}
        message = f"{_name(submitted)} {failure['message']}"
        self.fail(submitted, SubtaskFailed(failure["kind"], message))

    def _is_current(self, submitted: Submitted, done: Any) -> bool:
        """Return whether a Dask task that has ended is the last try of a subtask that is wanted."""
        with self._lock:
            return self.has(submitted) and done.key == submitted.future.key

    def _try_again(self, submitted: Submitted, failure: dict[str, Any], worker: str) -> bool:
        """Submit a subtask once more if that may help, and return whether it may."""
        if submitted.is_rank:
            return False
        if failure["kind"] == "memory":
            submitted.only = self._larger_than(worker)
            if not submitted.only:
                failure["message"] += (
                    "; no worker of the cluster has more. Start a worker on a machine with more "
                    "memory, or fewer workers on each machine"
                )
                return False
            self._log(f"{_name(submitted)} is repeated on a worker with more memory than {worker}")
        elif failure["kind"] not in ("crashed", "lost") or submitted.tries >= MOST_TRIES:
            return False
        else:
            self._log(f"{_name(submitted)} is repeated: {failure['message']}")
        # The next worker is not the one that takes over a task which Dask has moved.
        submitted.worker = ""
        self._submit(submitted)
        return True

    def _larger_than(self, address: str) -> list[str]:
        """Return the workers that give a subtask more memory than one did, none if it is gone."""
        admitted = self._admitted()
        machines = Counter(each["host"] for each in admitted.values())
        limits = {}
        for name, each in admitted.items():
            of_machine = each["resources"].get(self._cluster.resource + MEMORY, 0)
            limits[name] = min(of_machine / machines[each["host"]], self._task.memory_limit)
        least = limits.get(address, max(limits.values(), default=0))
        return [name for name, limit in limits.items() if limit > least * CLEARLY_MORE]

    def close(self) -> None:
        """Leave the cluster, which drops the subtasks that are left."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._client.close(timeout=LOOK_SECONDS)


def _name(submitted: Submitted) -> str:
    """Return a subtask in words, without the folder of its key: layer 1 learner 2 fold 3."""
    return submitted.key.rpartition("/")[2].replace("-", " ")
