"""Fits that several processes carry out together: one model, and an end whatever happens."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepforest import CascadeForestClassifier, FitCancelled, FitEvent, preset
from deepforest._features import Features
from deepforest._fit import FitResult, PlannedFit, carry_out
from deepforest._fit_files import FitFiles
from deepforest.gang import places, supervisor
from deepforest.gang.meeting import Meeting
from deepforest.gang.places import GangFailed, LocalPlaces, RemotePlaces, TooFewWorkers
from deepforest.gang.rank import without_output
from deepforest.gang.supervisor import GangFit
from deepforest.learners import Mart, Target
from deepforest.metrics import METRICS
from tests.expect import refused

RANKS = 2


@dataclass
class Trial:
    """A fit of 2,000 rows that two processes carry out."""

    folder: Path
    rounds: int = 10
    reports: list[str] = field(default_factory=list)
    interrupted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.standard_normal((2000, 5))
        x[:, 3] = rng.integers(0, 4, 2000)
        score = x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * rng.standard_normal(2000)
        x[rng.random(x.shape) < 0.02] = np.nan
        self.features = Features(x, np.arange(5) == 3, learning=True)
        self.target = Target((score > 0).astype(np.int32), 2)
        held_out = np.arange(0, 2000, 3)
        training = np.setdiff1d(np.arange(2000), held_out)
        learner = Mart(n_estimators=self.rounds, ranks=RANKS)
        self.fit = PlannedFit("fit", ("Layer 1",), learner, training, held_out, False, 7)
        self.files = FitFiles(self.folder, self.features, self.target, None)

    def gang(self, where: places.Places | None = None, threads: int = 1) -> FitResult:
        requests = [
            self.files.request_of_rank(self.fit, threads, rank, RANKS) for rank in range(RANKS)
        ]

        def interrupt() -> None:
            if self.interrupted.is_set():
                raise FitCancelled

        return GangFit(
            self.fit,
            requests,
            self.folder,
            where or LocalPlaces(self.folder, RANKS),
            self.features.n_features,
            self.target,
            interrupt,
            lambda workers, text: self.reports.append(text),
        ).run()

    def alone(self) -> FitResult:
        return carry_out(self.fit, self.features, self.target, None, 1, lambda: None)

    def loss(self, result: FitResult) -> float:
        truth = self.target.values[self.fit.predict_rows]
        loss = METRICS["log_loss"](truth, result.vectors, None)
        assert loss is not None
        return float(loss)


def test_two_processes_find_a_model_as_good_as_one_does(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    together, alone = trial.gang(), trial.alone()
    assert trial.loss(together) == pytest.approx(trial.loss(alone), rel=0.1)
    expected = together.model.vectors(trial.features)[trial.fit.predict_rows]
    np.testing.assert_array_equal(together.vectors, expected.astype(np.float32))
    assert together.model.pack().text != alone.model.pack().text  # so it was not one process
    assert list((tmp_path / "gangs").iterdir()) == []


@pytest.mark.slow
def test_the_model_is_the_same_each_time_and_with_more_threads(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    first, second = trial.gang(), trial.gang(threads=2)
    assert first.model.pack().text == second.model.pack().text
    np.testing.assert_array_equal(first.vectors, second.vectors)


@pytest.mark.slow
@pytest.mark.parametrize("lost", range(RANKS))
def test_when_a_process_is_killed_all_start_again_and_find_the_same_model(
    tmp_path: Path, lost: int
) -> None:
    trial = Trial(tmp_path, rounds=60)
    undisturbed = trial.gang()
    local = LocalPlaces(tmp_path, RANKS)

    class Killing(threading.Thread):
        def run(self) -> None:
            """Kill one process as soon as it trains."""
            while True:
                for folder in (tmp_path / "gangs").iterdir():
                    sign = Meeting(tmp_path, folder.name).sign(lost) or {}
                    if sign.get("state") == "training":
                        list(local.processes.values())[lost].kill()
                        return

    Killing(daemon=True).start()
    disturbed = trial.gang(local)
    assert disturbed.model.pack().text == undisturbed.model.pack().text
    np.testing.assert_array_equal(disturbed.vectors, undisturbed.vectors)
    assert trial.reports[:2] == ["", ""]
    (why,) = trial.reports[2:]
    assert "2 of 3" in why and f"(process {lost + 1})" in why and "signal 9" in why
    assert local.processes == {}


def test_a_process_that_gives_no_sign_ends_the_fit_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.2)
    monkeypatch.setattr(places, "COMMAND", (sys.executable, "-c", "input()"))
    local = LocalPlaces(tmp_path, RANKS)
    trial = Trial(tmp_path)
    with refused(GangFailed, naming=["3 times", "(process 1)", "0.2 s"]):
        trial.gang(local)
    assert len(trial.reports) == 3
    assert local.processes == {}
    assert list((tmp_path / "gangs").iterdir()) == []


def test_processes_that_make_no_progress_end_the_fit_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They give one sign and then do nothing more, as when LightGBM waits for a peer for ever.
    stuck = (
        "import json, sys, time; from deepforest.gang.meeting import Meeting; from pathlib "
        "import Path; r = json.loads(sys.argv[2])['gang']; "
        "Meeting(Path(sys.argv[1]), r['meeting']).report(r['rank'], state='loading'); "
        "time.sleep(600)"
    )
    monkeypatch.setattr(supervisor, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(supervisor, "TRIES", 1)
    monkeypatch.setattr(places, "COMMAND", (sys.executable, "-c", stuck))
    local = LocalPlaces(tmp_path, RANKS)
    with refused(GangFailed, naming="no worker has made progress"):
        Trial(tmp_path).gang(local)
    assert local.processes == {}


def test_a_cancelled_fit_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    local = LocalPlaces(tmp_path, RANKS)
    trial = Trial(tmp_path)
    threading.Timer(0.3, trial.interrupted.set).start()
    with pytest.raises(FitCancelled):
        trial.gang(local)
    assert local.processes == {}


@dataclass
class FewWorkers:
    """A cluster of which workers come and go; it runs nothing."""

    addresses: list[str]
    dropped: list[str] = field(default_factory=list)

    def workers(self) -> list[str]:
        return self.addresses

    def submit_rank(self, key: str, request: dict[str, Any], worker: str) -> Future[str]:
        return Future()

    def worker_of(self, key: str) -> str:
        return ""

    def drop(self, key: str) -> None:
        self.dropped.append(key)


def test_a_fit_without_enough_workers_says_how_many_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.2)
    with refused(TooFewWorkers, naming=["2 workers", "1 can be used"]):
        Trial(tmp_path).gang(RemotePlaces(FewWorkers(["tcp://10.0.0.1:4711"])))


def test_a_worker_that_leaves_is_noticed_though_dask_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PATIENCE_SECONDS", 0.2)
    cluster = FewWorkers(["tcp://10.0.0.1:4711", "tcp://10.0.0.2:4711"])
    threading.Timer(0.3, lambda: cluster.addresses.pop(0)).start()
    trial = Trial(tmp_path)
    with pytest.raises(TooFewWorkers):
        trial.gang(RemotePlaces(cluster))
    assert len(cluster.dropped) == 1  # the second was not submitted before the first ran


def test_places_know_the_host_of_a_worker() -> None:
    assert RemotePlaces(FewWorkers([])).host("tls://10.0.0.1:4711") == "10.0.0.1"


def test_a_cascade_reports_its_gangs_and_predicts(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    events: list[FitEvent] = []
    learners = [{"kind": "mart", "n_estimators": 5, "ranks": 2}]
    settings: dict[str, Any] = {"cv": 2, "max_layers": 1, "resampling": "per_layer", "n_jobs": 1}
    cascade = CascadeForestClassifier(learners, random_state=0, **settings)
    cascade.fit(trial.features.values, trial.target.values, listener=events.append)
    workers = {event.worker for event in events if event.state == "finished" and event.place}
    assert workers == {"process 1, process 2"}
    assert (cascade.predict(trial.features.values) == trial.target.values).mean() > 0.8


def test_what_a_library_prints_in_a_rank_is_not_in_the_log(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with without_output():
        os.write(1, b"[LightGBM] [Info] Listening...\n")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


def test_settings_that_cannot_work_are_refused(tmp_path: Path) -> None:
    with refused(ValueError, naming=["ranks of mart", 0]):
        Mart(ranks=0)
    x, y = np.arange(12.0).reshape(6, 2), np.array([0, 1] * 3)
    learners = [{"kind": "mart", "ranks": 4}]
    cascade = preset("mart_cascade", learners=learners, cv=2, resampling="per_layer")
    with refused(GangFailed, naming=["3 training rows", "4 workers"]):
        cascade.fit(x, y)
