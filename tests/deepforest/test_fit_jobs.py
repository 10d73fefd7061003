"""Jobs of a layer: workers, events, failures, cancellation, executors."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.neighbors import KNeighborsClassifier

from deepforest import CascadeForestClassifier
from deepforest._fit_jobs import (
    FitCancelled,
    FitEvent,
    FitJob,
    FolderCheckpointer,
    Interrupt,
    JobRunner,
)
from deepforest.persistence import Pack

PATIENCE = 20.0  # seconds after which a test that hangs is taken for failed


class Memory:
    """A checkpointer that says what it was asked."""

    def __init__(self, **kept: int) -> None:
        self.kept = {key: packed(value) for key, value in kept.items()}

    def load(self, key: str) -> Pack | None:
        return self.kept.get(key)

    def save(self, key: str, pack: Pack) -> None:
        self.kept[key] = pack


def packed(value: int) -> Pack:
    return Pack({"value": value})


def unpacked(pack: Pack) -> int:
    return int(pack.about["value"])


def job(key: str, work: Callable[..., Any]) -> FitJob:
    return FitJob(key, work, packed, unpacked)


def run(jobs: list[FitJob], n_jobs: int = 1, **settings: Any) -> dict[str, Any]:
    with JobRunner(n_jobs, **settings) as runner:
        return runner.run(jobs)


def wait_for(event: threading.Event) -> None:
    assert event.wait(PATIENCE), "what this job waits for never happened"


def fail(message: str = "broken") -> None:
    raise RuntimeError(message)


# --- workers ---


def test_results_come_by_key() -> None:
    jobs = [job(str(number), partial(int, str(number))) for number in range(5)]
    assert run(jobs, 2) == {str(number): number for number in range(5)}


def test_no_jobs_give_no_results() -> None:
    assert run([]) == {}


def test_all_workers_are_busy_and_no_more_than_those() -> None:
    together = threading.Barrier(3, timeout=PATIENCE)
    under_way = most = 0

    def listen(event: FitEvent) -> None:
        nonlocal under_way, most
        under_way += {"waiting": 0, "started": 1}.get(event.state, -1)
        most = max(most, under_way)

    with ThreadPoolExecutor(8) as wide:  # the executor has more workers than are asked for
        run([job(str(n), together.wait) for n in range(12)], 3, executor=wide, listener=listen)
    assert most == 3


# --- events ---


def test_events_are_told_in_order_on_the_thread_that_runs_the_jobs() -> None:
    told: list[tuple[str, str]] = []
    threads: set[threading.Thread] = set()

    def listen(event: FitEvent) -> None:
        told.append((event.key, event.state))
        threads.add(threading.current_thread())

    jobs = [job("a", lambda: 1), job("b", lambda: 2), job("c", fail)]
    with pytest.raises(RuntimeError, match="broken"):
        run(jobs, 1, listener=listen, checkpointer=Memory(a=1))
    assert told == [
        ("a", "waiting"),
        ("b", "waiting"),
        ("c", "waiting"),
        ("a", "kept"),
        ("b", "started"),
        ("b", "finished"),
        ("c", "started"),
        ("c", "failed"),
    ]
    assert threads == {threading.current_thread()}


def test_a_finished_or_kept_event_brings_the_result() -> None:
    results = {}
    run(
        [job("a", lambda: 1), job("b", lambda: 2)],
        listener=lambda event: results.update({(event.key, event.state): event.result}),
        checkpointer=Memory(a=7),
    )
    assert results == {
        ("a", "waiting"): None,
        ("b", "waiting"): None,
        ("a", "kept"): 7,
        ("b", "started"): None,
        ("b", "finished"): 2,
    }


def test_a_finished_job_is_kept_before_it_is_told() -> None:
    memory = Memory()
    kept = []
    run(
        [job("a", lambda: 1)],
        checkpointer=memory,
        listener=lambda event: kept.append("a" in memory.kept),
    )
    assert kept == [False, False, True]  # waiting, started, finished


# --- what was kept ---


def test_results_that_were_kept_are_not_worked_out_again() -> None:
    jobs = [job(str(number), fail) for number in range(30)]
    kept = {str(number): number for number in range(30)}
    assert run([*jobs, job("last", lambda: 30)], checkpointer=Memory(**kept)) == {
        **kept,
        "last": 30,
    }


def test_what_cannot_be_unpacked_is_worked_out_again() -> None:
    memory = Memory()
    memory.kept["a"] = Pack({"value": "seven"})
    memory.kept["b"] = Pack({"other": 7})
    assert run([job("a", lambda: 1), job("b", lambda: 2)], checkpointer=memory) == {"a": 1, "b": 2}
    assert unpacked(memory.kept["a"]) == 1


def test_jobs_without_pack_are_worked_out_every_time(tmp_path: Path) -> None:
    runs: list[int] = []
    for _ in range(2):
        run([FitJob("a", lambda: runs.append(1))], checkpointer=FolderCheckpointer(tmp_path))
    assert len(runs) == 2
    assert not list(tmp_path.iterdir())


# --- failures ---


def test_the_first_failure_is_raised_and_names_its_job() -> None:
    failed = threading.Event()
    jobs = [
        job("second", lambda: wait_for(failed) or fail("too late")),
        job("first", lambda: fail("the cause")),
    ]
    with pytest.raises(RuntimeError, match="the cause") as caught:
        run(jobs, 2, listener=lambda event: failed.set() if event.state == "failed" else None)
    [note] = caught.value.__notes__
    assert note.endswith(" first")


def test_after_a_failure_what_runs_is_finished_and_kept_and_nothing_new_starts() -> None:
    failed = threading.Event()
    memory, started = Memory(), []

    def listen(event: FitEvent) -> None:
        if event.state == "started":
            started.append(event.key)
        if event.state == "failed":
            failed.set()

    jobs = [
        job("beside", lambda: wait_for(failed) or 5),
        job("bad", fail),
        job("ready", lambda: 6),
    ]
    with pytest.raises(RuntimeError, match="broken"):
        run(jobs, 2, checkpointer=memory, listener=listen)
    assert started == ["beside", "bad"]
    assert list(memory.kept) == ["beside"]
    assert run([jobs[0], jobs[2]], checkpointer=memory) == {"beside": 5, "ready": 6}


def test_a_learner_that_fails_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    learners = [{"kind": "random_forest", "n_estimators": 3}, KNeighborsClassifier(1000)]
    with pytest.raises(ValueError, match="n_neighbors") as caught:
        CascadeForestClassifier(learners, cv=3, random_state=0).fit(x, y, checkpoint=tmp_path)
    [note] = caught.value.__notes__
    assert note.endswith(" layer-1-learner-2-fold-1-2")  # without the folds 1 and 2
    assert len(list(tmp_path.rglob("forest.json"))) == 2  # the forests that came before


# --- cancellation ---


def test_cancelled_between_jobs_nothing_more_is_started() -> None:
    stop, started = threading.Event(), []
    jobs = [job("a", lambda: stop.set() or 1), job("b", lambda: 2)]
    with pytest.raises(FitCancelled):
        run(
            jobs,
            cancelled=stop.is_set,
            listener=lambda e: started.append(e.key) if e.state == "started" else None,
        )
    assert started == ["a"]


def test_cancelled_before_the_start_nothing_is_started() -> None:
    with pytest.raises(FitCancelled):
        run([job("a", fail)], cancelled=lambda: True)


def test_long_work_ends_when_it_is_interrupted() -> None:
    stop, inside = threading.Event(), threading.Event()
    with JobRunner(2, cancelled=stop.is_set) as runner:

        def endless() -> None:
            while True:
                inside.set()
                runner.interrupt()

        with pytest.raises(FitCancelled):
            runner.run(
                [job("endless", endless), job("stop", lambda: wait_for(inside) or stop.set())]
            )


def test_ctrl_c_does_not_wait_for_long_work() -> None:
    inside, deadline = threading.Event(), time.monotonic() + PATIENCE

    def listen(event: FitEvent) -> None:
        if event.state == "finished":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), JobRunner(2, listener=listen) as runner:

        def endless() -> None:
            while time.monotonic() < deadline:
                inside.set()
                runner.interrupt()

        runner.run([job("endless", endless), FitJob("quick", lambda: wait_for(inside))])
    assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "kind", ["random_forest", "extra_trees", "completely_random_forest", "mart"]
)
def test_a_fit_that_would_take_minutes_is_cancelled_in_the_middle_of_a_job(kind: str) -> None:
    x, y = load_digits(return_X_y=True)
    asked = iter(range(20))  # a few looks into the first fit
    model = CascadeForestClassifier([{"kind": kind, "n_estimators": 100_000}], random_state=0)
    finished: list[str] = []
    with pytest.raises(FitCancelled):
        model.fit(
            x,
            y,
            cancelled=lambda: next(asked, None) is None,
            listener=lambda event: (
                finished.append(event.key) if event.state == "finished" else None
            ),
        )
    assert finished == []


def test_an_interrupt_in_another_process_never_raises() -> None:
    build, arguments = Interrupt(lambda: True).__reduce__()
    build(*arguments)()


# --- executors ---


class Counting(Executor):
    """Runs everything at once, and remembers how it was used."""

    def __init__(self) -> None:
        self.submitted, self.closed = 0, False

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future: Future[Any] = Future()
        future.set_result(work(*args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.closed = True


def test_a_given_executor_is_used_and_left_open() -> None:
    executor = Counting()
    assert run([job("a", lambda: 1), job("b", lambda: 2)], executor=executor)["b"] == 2
    assert (executor.submitted, executor.closed) == (2, False)


def test_threads_of_its_own_are_gone_afterwards() -> None:
    before = threading.active_count()
    run([job(str(n), lambda: 1) for n in range(4)], 3)
    assert threading.active_count() == before


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def cascade(**settings: Any) -> CascadeForestClassifier:
    learners = [
        {"kind": "random_forest", "n_estimators": 6},
        {"kind": "completely_random_forest", "n_estimators": 6},
        {"kind": "mart", "n_estimators": 3, "num_leaves": 4},
        KNeighborsClassifier(3),
    ]
    settings = {
        "cv": 3,
        "max_layers": 2,
        "patience": 2,
        "scoring": "log_loss",
        "random_state": 5,
        **settings,
    }
    return CascadeForestClassifier(learners, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("class_vectors", ["folds", "oob"])
def test_processes_fit_the_same_cascade_as_threads(
    processes: ProcessPoolExecutor, class_vectors: str
) -> None:
    x, y = load_digits(return_X_y=True)
    x, y = x[:300], y[:300]
    there = cascade(class_vectors=class_vectors).fit(x, y, executor=processes)
    here = cascade(class_vectors=class_vectors, n_jobs=2).fit(x, y)
    np.testing.assert_array_equal(there.predict_proba(x), here.predict_proba(x))
    np.testing.assert_array_equal(there.oof_output_, here.oof_output_)
    assert [layer.score for layer in there.layer_records_] == [
        layer.score for layer in here.layer_records_
    ]
    assert processes.submit(partial(int, "7")).result() == 7  # still open


@pytest.mark.slow
def test_a_fit_in_processes_that_is_cancelled_ends_after_the_running_jobs(
    processes: ProcessPoolExecutor,
) -> None:
    x, y = load_iris(return_X_y=True)
    finished: list[str] = []
    with pytest.raises(FitCancelled):
        cascade().fit(
            x,
            y,
            executor=processes,
            cancelled=lambda: "layer-1-learner-1-fold-1-2" in finished,
            listener=lambda event: (
                finished.append(event.key) if event.state == "finished" else None
            ),
        )
    assert "layer-1-learner-4-fold-2-3" not in finished
