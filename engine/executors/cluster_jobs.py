"""Let the workers of a Dask cluster carry out the subtasks of a running node.

A node such as a deep forest consists of many fits. On a cluster its process coordinates: it opens
a client of its own and makes each fit a Dask task, ``run_node`` with a subtask. If the process
dies, its client goes and Dask drops the tasks; what they have finished is in the checkpoints.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import SubtaskFailed
from engine.executors import NodeTask, SubtaskRequest
from engine.executors.dask import connect, run_node

PRIORITY = 10
"""Of subtasks, above that of nodes: a forest that has begun is finished before another begins."""
MOST_TRIES = 3
"""How often a subtask that loses its process is tried."""
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
    future: Any = None
    """Of Dask, which drops a task that no future stands for."""


class ClusterJobs:
    """Carry out subtasks of one node on the admitted workers of its run.

    A simulation gives a ``client`` and a ``clock`` of its own.
    """

    def __init__(
        self, task: NodeTask, client: Any = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        assert task.cluster is not None
        self._task, self._cluster, self._clock = task, task.cluster, clock
        self._client = client or connect(task.cluster.address, "sylva-subtasks")
        self._client.subscribe_topic(self._client.id, lambda event: self._started(event[1]))
        self._submitted: dict[str, Submitted] = {}
        self._of_task: dict[str, Submitted] = {}
        """The same by the names of their Dask tasks."""
        self._looked = -LOOK_SECONDS
        self._threads = 1

    @property
    def n_jobs(self) -> int:
        """How many subtasks may run at the same time: one per thread of an admitted worker."""
        if self._clock() - self._looked >= LOOK_SECONDS:
            self._looked = self._clock()
            with contextlib.suppress(Exception):  # the scheduler is out of reach for a moment
                self._threads = self._count_threads()
        return self._threads

    def _count_threads(self) -> int:
        """Ask the Dask scheduler for the threads of the admitted workers."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        admitted = [each for each in workers if self._cluster.resource in each["resources"]]
        threads: int = sum(each["nthreads"] for each in admitted)
        return max(1, threads)

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        """Let a worker carry out a subtask; the future has the address of the worker.

        It fails with ``SubtaskFailed`` if no worker could.
        """
        # A subtask is not a coordinator itself, and its own time is not limited.
        subtask = SubtaskRequest(key, request)
        task = replace(self._task, subtask=subtask, delegates=False, timeout=None)
        submitted = Submitted(key, task)
        self._submitted[key] = submitted
        self.begin(submitted)
        return submitted.outcome

    def begin(self, submitted: Submitted) -> None:
        """Submit a subtask for the first time."""
        self._submit(submitted)

    def succeed(self, submitted: Submitted, worker: str) -> None:
        """Set the outcome of a subtask that a worker has carried out."""
        submitted.outcome.set_result(worker)

    def worker_of(self, key: str) -> str:
        """Return the address of the worker that carries out a subtask, empty if none does yet."""
        submitted = self._submitted.get(key)
        return submitted.worker if submitted else ""

    def _submit(self, submitted: Submitted) -> None:
        """Make a Dask task of a subtask, for its next try."""
        submitted.tries += 1
        name = submitted.key.replace("/", "-")
        name = f"sylva-{submitted.task.key[:16]}-{name}-{submitted.tries}"
        self._of_task[name] = submitted
        submitted.future = self._client.submit(
            run_node,
            submitted.task.to_dict(),
            [],
            self._client.id,
            self._cluster.machines,
            key=name,
            pure=False,
            retries=0,
            priority=PRIORITY,
            resources={self._cluster.resource: 1},
        )
        submitted.future.add_done_callback(lambda done: self._ended(submitted, done))

    def _started(self, message: dict[str, Any]) -> None:
        """Note which worker carries out a subtask. Dask adds the address to its message."""
        submitted = self._of_task.get(message.get("key", ""))
        if submitted is not None:
            submitted.worker = message.get("worker", "")

    def _ended(self, submitted: Submitted, done: Any) -> None:
        """Set the outcome of a subtask, or try it again; called in a thread of Dask's client."""
        self._of_task.pop(done.key, None)
        try:
            event = done.result()
        except (Exception, CancelledError) as error:
            event = {"kind": "failed", "error": {"kind": "lost", "message": str(error)}}
        if event["kind"] == "finished":
            self._submitted.pop(submitted.key, None)
            self.succeed(submitted, event.get("worker", ""))
            return
        failure = event["error"]
        if failure["kind"] in ("crashed", "lost") and submitted.tries < MOST_TRIES:
            self._submit(submitted)
            return
        self._submitted.pop(submitted.key, None)
        submitted.outcome.set_exception(SubtaskFailed(failure["kind"], failure["message"]))

    def close(self) -> None:
        """Leave the cluster, which drops the subtasks that are left."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=LOOK_SECONDS)
