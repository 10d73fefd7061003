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
from engine.executors.admission import RANKS
from engine.executors.dask import connect, run_node

PRIORITY = 10
"""Of subtasks, above that of nodes: a forest that has begun is finished before another begins."""
MOST_TRIES = 3
"""How often a subtask that loses its process is tried."""
LOOK_SECONDS = 2.0
"""How often the Dask scheduler is asked for its workers."""


@dataclass
class _Submitted:
    """A subtask that was submitted and has not ended."""

    key: str
    task: NodeTask
    outcome: Future[str] = field(default_factory=Future)
    tries: int = 0
    worker: str = ""
    future: Any = None
    """Of Dask, which drops a task that no future stands for."""
    pinned: str = ""
    """The only worker that may carry it out, in one try: a rank of several that need each other."""


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
        self._submitted: dict[str, _Submitted] = {}
        self._of_task: dict[str, _Submitted] = {}
        """The same by the names of their Dask tasks."""
        self._looked = -LOOK_SECONDS
        self._admitted: dict[str, int] = {}
        """The threads of the admitted workers, by address."""

    @property
    def n_jobs(self) -> int:
        """How many subtasks may run at the same time: one per thread of an admitted worker."""
        return max(1, sum(self._look().values()))

    def workers(self) -> list[str]:
        """Return the addresses of the admitted workers."""
        return list(self._look())

    def _look(self) -> dict[str, int]:
        """Ask the Dask scheduler for the threads of the admitted workers, now and then."""
        if self._clock() - self._looked >= LOOK_SECONDS:
            self._looked = self._clock()
            with contextlib.suppress(Exception):  # the scheduler is out of reach for a moment
                workers = self._client.scheduler_info(n_workers=-1)["workers"]
                self._admitted = {
                    address: each["nthreads"]
                    for address, each in workers.items()
                    if each["resources"].get(self._cluster.resource)
                }
        return self._admitted

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        """Let a worker carry out a subtask; the future has the address of the worker.

        It fails with ``SubtaskFailed`` if no worker could.
        """
        return self._submit_new(key, request)

    def submit_rank(self, key: str, request: dict[str, Any], worker: str) -> Future[str]:
        """Let one worker carry out a subtask, in one try; the worker has no other rank meanwhile.

        The future is as that of ``submit_job``; it may never end if the worker is lost.
        """
        return self._submit_new(key, request, worker)

    def drop(self, key: str) -> None:
        """End a subtask wherever it runs; its future does not end any more."""
        submitted = self._submitted.pop(key, None)
        if submitted is not None and submitted.future is not None:
            # Without waiting: the scheduler may be out of reach. It drops what no client wants.
            submitted.future.release()

    def _submit_new(self, key: str, request: dict[str, Any], pinned: str = "") -> Future[str]:
        """Submit a subtask and return the future of its outcome."""
        # A subtask is not a coordinator itself, and its own time is not limited.
        subtask = SubtaskRequest(key, request)
        task = replace(self._task, subtask=subtask, delegates=False, timeout=None)
        submitted = _Submitted(key, task, pinned=pinned)
        self._submitted[key] = submitted
        self._submit(submitted)
        return submitted.outcome

    def worker_of(self, key: str) -> str:
        """Return the address of the worker that carries out a subtask, empty if none does yet."""
        submitted = self._submitted.get(key)
        return submitted.worker if submitted else ""

    def _submit(self, submitted: _Submitted) -> None:
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
            **self._where(submitted),
        )
        submitted.future.add_done_callback(lambda done: self._ended(submitted, done))

    def _where(self, submitted: _Submitted) -> dict[str, Any]:
        """Return what Dask must know of the workers that may carry out a subtask."""
        resources = {self._cluster.resource: 1}
        if not submitted.pinned:
            return {"resources": resources}
        return {"resources": resources | {RANKS: 1}, "workers": [submitted.pinned]}

    def _started(self, message: dict[str, Any]) -> None:
        """Note which worker carries out a subtask. Dask adds the address to its message."""
        submitted = self._of_task.get(message.get("key", ""))
        if submitted is not None:
            submitted.worker = message.get("worker", "")

    def _ended(self, submitted: _Submitted, done: Any) -> None:
        """Set the outcome of a subtask, or try it again; called in a thread of Dask's client."""
        self._of_task.pop(done.key, None)
        if self._submitted.get(submitted.key) is not submitted:
            return  # it was dropped
        try:
            event = done.result()
        except (Exception, CancelledError) as error:
            event = {"kind": "failed", "error": {"kind": "lost", "message": str(error)}}
        if event["kind"] == "finished":
            self._submitted.pop(submitted.key, None)
            submitted.outcome.set_result(event.get("worker", ""))
            return
        failure = event["error"]
        is_lost = failure["kind"] in ("crashed", "lost")
        if is_lost and submitted.tries < MOST_TRIES and not submitted.pinned:
            self._submit(submitted)
            return
        self._submitted.pop(submitted.key, None)
        submitted.outcome.set_exception(SubtaskFailed(failure["kind"], failure["message"]))

    def close(self) -> None:
        """Leave the cluster, which drops the subtasks that are left."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=LOOK_SECONDS)
