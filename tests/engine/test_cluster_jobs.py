"""Subtasks on a cluster end once, whatever comes between: dropped, repeated, released, not there.

Dask's client is simulated, since it decides when what happens; the storage is a folder.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from engine.errors import SubtaskFailed
from engine.executors import ClusterOfRun, NodeTask
from engine.executors import cluster_jobs as cluster_jobs_module
from engine.executors.admission import MEMORY
from engine.executors.cluster_jobs import LOOK_SECONDS, ClusterJobs
from engine.executors.storage_jobs import StorageJobs
from engine.shared_storage import Content, SharedStorage
from engine.workspace import Workspace
from tests.waiting import until

OURS = "SYLVA-token"
SMALL, LARGE = "tcp://small:1", "tcp://large:1"
WAIT_SECONDS = 60.0
FINISHED = {"kind": "finished", "worker": LARGE}
NO_MEMORY = {"kind": "failed", "worker": SMALL, "error": {"kind": "memory", "message": "ran out"}}


@dataclass
class DaskFuture:
    """A task as Dask's client shows it."""

    key: str
    workers: list[str] | None
    is_released: bool = False
    answer: Any = None
    tell: Callable[[Any], None] = lambda done: None

    def add_done_callback(self, tell: Callable[[Any], None]) -> None:
        self.tell = tell

    def done(self) -> bool:
        return self.answer is not None

    def result(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def end(self, answer: Any) -> None:
        self.answer = answer
        self.tell(self)

    def release(self) -> None:
        self.is_released = True
        self.end(CancelledError(self.key))


@dataclass
class DaskClient:
    """A client with a small and a large worker on two machines."""

    id: str = "client"
    memory: dict[str, int] = field(default_factory=lambda: {SMALL: 1000, LARGE: 4000})
    tasks: list[DaskFuture] = field(default_factory=list)

    def subscribe_topic(self, name: str, handler: Callable[[Any], None]) -> None:
        """No worker reports anything."""

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        about = {
            name: {"nthreads": 1, "host": name, "resources": {OURS: 1, OURS + MEMORY: memory}}
            for name, memory in self.memory.items()
        }
        return {"workers": about}

    def submit(self, *_: Any, key: str, workers: list[str] | None, **__: Any) -> DaskFuture:
        self.tasks.append(DaskFuture(key, workers))
        return self.tasks[-1]

    def close(self, timeout: float) -> None:
        """Nothing is open."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> DaskClient:
    made = DaskClient()
    monkeypatch.setattr(cluster_jobs_module, "connect", lambda *_: made)
    return made


@pytest.fixture
def task(tmp_path: Path) -> NodeTask:
    Workspace(tmp_path / "ws").create()
    return NodeTask(
        workspace=str(tmp_path / "ws"), run="run", node="node", try_number=1, type="probe",
        params={}, key="key", fingerprint="", inputs={}, sources={}, branch=None, branches={},
        force=False, allow_absolute=False, threads=1, timeout=None, memory_limit=10**9,
        bytes_left=None, imports=(), delegates=True,
        cluster=ClusterOfRun("tcp://scheduler:1", OURS, {}, "topic"),
        storage=f"file://{tmp_path}/shared",
    )  # fmt: skip


class Clock:
    """Time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def look_again(self) -> None:
        self.now += LOOK_SECONDS


def save_result(task: NodeTask, folder: Path, key: str) -> None:
    """Do what a worker does at the end of a subtask."""
    assert task.storage is not None
    (folder / key).mkdir(parents=True)
    (folder / key / "result").write_text("model")
    files = {f"{key}/result": Content.of(folder / key / "result")}
    SharedStorage(task.storage, folder).publish_part(task.key, key, folder, files)


def test_a_fit_goes_to_a_larger_worker_and_is_released_when_that_one_is_gone(
    client: DaskClient, task: NodeTask
) -> None:
    clock = Clock()
    jobs = ClusterJobs(task, client, clock)
    outcome = jobs.submit_job("fit", {})
    client.tasks[0].end(NO_MEMORY)
    assert client.tasks[1].workers == [LARGE]
    del client.memory[LARGE]
    clock.look_again()
    assert jobs.workers() == [SMALL]
    assert [each.workers for each in client.tasks] == [None, [LARGE], None]
    assert client.tasks[1].is_released and not outcome.done()
    clock.look_again()
    jobs.workers()
    assert len(client.tasks) == 3
    client.tasks[2].end({**FINISHED, "worker": SMALL})
    assert outcome.result() == SMALL


def test_a_fit_whose_outcome_is_on_its_way_is_not_released(
    client: DaskClient, task: NodeTask
) -> None:
    clock = Clock()
    jobs = ClusterJobs(task, client, clock)
    outcome = jobs.submit_job("fit", {})
    client.tasks[0].end(NO_MEMORY)
    del client.memory[LARGE]
    client.tasks[1].answer = FINISHED  # Dask's client has not told it yet
    clock.look_again()
    jobs.workers()
    assert len(client.tasks) == 2
    client.tasks[1].end(FINISHED)
    assert outcome.result() == LARGE


def test_without_a_larger_worker_the_message_says_what_to_start(
    client: DaskClient, task: NodeTask
) -> None:
    del client.memory[LARGE]
    outcome = ClusterJobs(task, client).submit_job("layer-1/layer-1-learner-2", {})
    client.tasks[0].end(NO_MEMORY)
    with pytest.raises(SubtaskFailed, match=r"no worker of the cluster has more\. Start") as caught:
        outcome.result(0)
    assert caught.value.kind == "memory"
    assert str(caught.value).startswith("layer 1 learner 2 ran out")
    assert len(client.tasks) == 1


def test_a_dropped_rank_does_not_end_and_is_not_repeated(
    client: DaskClient, task: NodeTask
) -> None:
    jobs = ClusterJobs(task, client)
    outcome = jobs.submit_rank("rank", {}, LARGE)
    jobs.drop("rank")
    assert client.tasks[0].is_released
    assert not outcome.done() and len(client.tasks) == 1


def test_two_runs_of_a_node_have_tasks_of_their_own(client: DaskClient, task: NodeTask) -> None:
    other = DaskClient("another")
    for run in (client, other):
        ClusterJobs(replace(task), run).submit_job("fit", {})
    assert client.tasks[0].key != other.tasks[0].key


def test_a_fit_whose_result_another_run_has_removed_is_carried_out_again(
    client: DaskClient, task: NodeTask, tmp_path: Path
) -> None:
    jobs = StorageJobs(task)
    outcome = jobs.submit_job("fit", {})
    until(lambda: client.tasks, WAIT_SECONDS, "the first try")
    client.tasks[0].end(FINISHED)  # but its result is not in the storage
    until(lambda: len(client.tasks) == 2, WAIT_SECONDS, "the second try")
    save_result(task, tmp_path / "worker", "fit")
    client.tasks[1].end(FINISHED)
    assert outcome.result(WAIT_SECONDS) == LARGE
    fetched = Workspace(Path(task.workspace)).checkpoints / task.key / "fit" / "result"
    assert fetched.read_text() == "model"
    jobs.close()


def test_a_fit_that_never_has_a_result_fails(client: DaskClient, task: NodeTask) -> None:
    jobs = StorageJobs(task)
    outcome = jobs.submit_job("fit", {})
    for number in range(3):
        until(lambda: len(client.tasks) > number, WAIT_SECONDS, "a try")  # noqa: B023
        client.tasks[number].end(FINISHED)
    with pytest.raises(SubtaskFailed, match="the result of fit is not in file://"):
        outcome.result(WAIT_SECONDS)
    jobs.close()


def test_a_subtask_that_is_dropped_during_its_upload_is_not_submitted(
    client: DaskClient, task: NodeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Workspace(Path(task.workspace)).checkpoints / task.key / "data"
    folder.mkdir(parents=True)
    (folder / "rows.npy").write_text("rows")
    begun, go_on = threading.Event(), threading.Event()
    publish = SharedStorage.publish_file

    def slow(self: SharedStorage, path: Path, content: Content) -> None:
        begun.set()
        assert go_on.wait(WAIT_SECONDS)
        publish(self, path, content)

    monkeypatch.setattr(SharedStorage, "publish_file", slow)
    jobs = StorageJobs(task)
    dropped: Future[str] = jobs.submit_job("first", {"rows": "rows.npy"})
    assert begun.wait(WAIT_SECONDS)
    jobs.drop("first")
    go_on.set()
    jobs.submit_job("second", {})
    until(lambda: client.tasks, WAIT_SECONDS, "the second subtask")
    assert len(client.tasks) == 1 and "second" in client.tasks[0].key
    assert not dropped.done()
    jobs.close()
