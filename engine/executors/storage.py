"""Run a pipeline on a cluster whose workers do not see the workspace, but a storage.

Nodes that read or write files of the workspace run on this machine. All others run on the cluster:
their inputs go into the storage before, and their results come into the store of the workspace
after that. So the store is complete, as if everything had run here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from secrets import token_hex

from engine.errors import SylvaError
from engine.events import Failure, NodeFailed, NodeFinished, RunEvent, WorkerUpdate
from engine.executors import NodeTask
from engine.executors.dask import DaskExecutor, check_workers, wait_for_checks
from engine.executors.local import LocalExecutor
from engine.executors.storage_node import log_name
from engine.node_types import load_catalog
from engine.processes import usable_memory
from engine.settings import check_storage_address, require_storage
from engine.shared_storage import SharedStorage, check_storage
from engine.store import Store
from engine.workspace import Workspace

MOVES = 4
"""For how many nodes data are moved at the same time."""
LOOK_SECONDS = 0.05
"""How often the nodes of this machine are looked at: ``wait`` can only wait for the cluster."""


@dataclass
class _Move:
    """Data of a node on their way, and what to do when they have arrived."""

    done: Future[None]
    then: Callable[[], list[RunEvent]]
    before: bool
    """Whether the node has still to start."""


class StorageExecutor:
    """Runs nodes on a cluster, and those that need files of the workspace on this machine."""

    def __init__(
        self, store: Store, storage: SharedStorage, home: LocalExecutor, cluster: DaskExecutor
    ) -> None:
        self._store, self._storage = store, storage
        self._home, self._cluster = home, cluster
        self._tasks: dict[str, NodeTask] = {}
        """Tasks that were submitted and have not ended, by node."""
        self._moves: dict[str, _Move] = {}
        self._home_queue: deque[tuple[NodeTask, Mapping[str, None]]] = deque()
        self._pool = ThreadPoolExecutor(MOVES, thread_name_prefix="sylva-storage")
        self._closed = False

    @property
    def free(self) -> int:
        """How many tasks may be submitted now, as far as the cluster says."""
        return self._cluster.free - sum(move.before for move in self._moves.values())

    def submit(self, task: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Start a task here, or on the cluster once the storage has its inputs."""
        self._tasks[task.node] = task
        if _needs_files(task):
            limit = min(task.memory_limit, usable_memory())
            self._home_queue.append((replace(task, memory_limit=limit), upcoming))
            self._start_home()
            return
        remote = replace(task, storage=self._storage.address)

        def submit_to_cluster() -> list[RunEvent]:
            self._cluster.submit(remote, upcoming)
            return []

        self._move(task.node, lambda: self._publish_inputs(task), submit_to_cluster, before=True)

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """Return new events of both places."""
        events: list[RunEvent] = []
        if self._home.running:
            timeout = LOOK_SECONDS
            events += self._home.wait(0)
            self._start_home()
        for event in self._cluster.wait(0 if events else timeout):
            events += self._handle(event)
        events += self._arrived()
        for event in events:
            if isinstance(event, NodeFinished | NodeFailed):
                self._tasks.pop(event.node, None)
        return events

    def wake(self) -> None:
        """Make ``wait`` return."""
        self._home.wake()
        self._cluster.wake()

    def stop(self) -> list[str]:
        """End all tasks and return their nodes."""
        self._home.stop()
        self._cluster.stop()
        self._home_queue.clear()
        self._moves.clear()
        stopped = list(self._tasks)
        self._tasks.clear()
        return stopped

    def close(self) -> None:
        """End the processes here and leave the cluster."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._home.close()
        self._cluster.close()
        with contextlib.suppress(SylvaError):  # of no use any more
            replace(self._storage, pauses=()).remove_run(self._store.scratch)

    def _start_home(self) -> None:
        """Start as many of the waiting tasks as this machine takes."""
        while self._home_queue and self._home.free > 0:
            self._home.submit(*self._home_queue.popleft())

    def _handle(self, event: RunEvent) -> list[RunEvent]:
        """Return an event of the cluster, or keep it until the data of its node have arrived."""
        if not isinstance(event, NodeFinished | NodeFailed):
            return [event]
        if isinstance(event, NodeFailed) and event.error.kind == "corrupt":
            self._storage.forget()  # an input was damaged there: write it again

        task = self._tasks[event.node]
        self._move(event.node, lambda: self._fetch(task, event), lambda: [event], before=False)
        return []

    def _move(
        self,
        node: str,
        work: Callable[[], None],
        then: Callable[[], list[RunEvent]],
        *,
        before: bool,
    ) -> None:
        """Move data in a thread, and call ``then`` in that of ``wait``."""
        done = self._pool.submit(work)
        self._moves[node] = _Move(done, then, before)
        done.add_done_callback(lambda _: None if self._closed else self._cluster.wake())

    def _arrived(self) -> list[RunEvent]:
        """Continue with the nodes whose data have arrived; fail those whose data have not."""
        events: list[RunEvent] = []
        for node in [name for name, move in self._moves.items() if move.done.done()]:
            move = self._moves.pop(node)
            error = move.done.exception()
            if error is None:
                events += move.then()
            else:
                events.append(NodeFailed(node=node, error=Failure("error", str(error))))
        return events

    def _publish_inputs(self, task: NodeTask) -> None:
        """Write the inputs of a node into the storage."""
        for artifacts in task.inputs.values():
            for artifact in artifacts:
                self._storage.publish_artifact(self._store, artifact)

    def _fetch(self, task: NodeTask, event: NodeFinished | NodeFailed) -> None:
        """Bring the log of a node, and its result into the store."""
        log = self._store.workspace.node_log(task.run, task.node)
        with contextlib.suppress(SylvaError):  # the result counts
            self._storage.append_file(log_name(task), log)
        if isinstance(event, NodeFinished):
            self._storage.fetch_result(self._store, task.key)


def storage_executor(
    workspace: Workspace, run: str, cluster: str, address: str, limit: int | None
) -> StorageExecutor:
    """Return the executor of a run whose data are at an address.

    Raise ``SylvaError`` if the settings do not allow the address, if it cannot be written or read,
    or if no scheduler answers.
    """
    require_storage(workspace.settings, address)
    # Forked before anything is opened that a child should not share.
    home = LocalExecutor(slots=len(os.sched_getaffinity(0)))
    try:
        storage = SharedStorage(address, workspace.temporary / run)
        check_storage(replace(storage, pauses=()))
        dask = DaskExecutor(cluster, workspace.run_folder(run), limit, storage)
    except BaseException:
        home.close()
        raise
    return StorageExecutor(Store(workspace, run), storage, home, dask)


def check_cluster(
    cluster: str, workspace: Workspace, address: str | None = None
) -> list[WorkerUpdate]:
    """Return the workers of a cluster, each admitted or refused, as a run would find them.

    With the address of a storage, it is written and read from here first. Raise ``SylvaError`` if
    that is not possible, or if no scheduler answers.
    """
    if address is None:
        return check_workers(cluster, workspace)
    address = check_storage_address(address, "Storage")
    require_storage(workspace.settings, address)
    folder = workspace.temporary / f"check-{token_hex(4)}"
    storage = SharedStorage(address, folder, pauses=())
    try:
        check_storage(storage)
        try:
            return wait_for_checks(DaskExecutor(cluster, folder, storage=storage))
        finally:
            storage.remove_run(folder.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _needs_files(task: NodeTask) -> bool:
    """Return whether a node reads or writes files of the workspace."""
    node_type = load_catalog()[task.type]
    return node_type.needs_files(node_type.params.model_validate(task.params))
