"""Fits that another machine carries out from files: the same model, and nothing is done twice."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepforest import (
    CascadeForestRegressor,
    FitEvent,
    FolderCheckpointer,
    preset,
    run_fit,
)
from deepforest.presets import regression_preset
from tests.expect import refused

FORESTS = [
    {"kind": "random_forest", "n_estimators": 4},
    {"kind": "completely_random_forest", "n_estimators": 4},
]
MARTS = [{"kind": "mart", "n_estimators": 3}]
COMPOSITE = [{"kind": "composite_forest", "n_estimators": 2, "max_depth": 1, "degrees": [1]}]
PER_LAYER = {"resampling": "per_layer", "max_layers": 2}
CASCADES: list[tuple[str, list[dict[str, Any]], int, dict[str, Any]]] = [
    # Blind cascades, and one that learns all rows.
    ("gcforest", [*FORESTS[:1], *MARTS], 2, {}),
    ("gcforest", COMPOSITE, 2, PER_LAYER),
    ("mart_cascade", MARTS, 3, PER_LAYER),
    ("mddf", FORESTS, 3, PER_LAYER | {"gamma": 0.5, "mu": 0.5, "depth_step": 1}),
    ("gcforest_cs", FORESTS, 2, PER_LAYER),
]
ONE_LAYER: dict[str, Any] = {
    "learners": FORESTS,
    "random_state": 0,
    "max_layers": 1,
    "cv": 3,
    "n_jobs": 1,
}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What survives a power failure is tested elsewhere."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


class OtherMachine:
    """Carries out fits from files alone: a request crosses as JSON text."""

    n_jobs = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys: list[str] = []

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        self.keys.append(key)
        done: Future[str] = Future()
        try:
            run_fit(self.folder, key, json.loads(json.dumps(request)))
            done.set_result("other")
        except Exception as error:
            done.set_exception(error)
        return done

    def worker_of(self, key: str) -> str:
        return ""


def table(n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers, a category and missing values; weights that differ."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 5))
    x[:, 3] = rng.integers(0, 4, 200)
    score = x[:, 0] + x[:, 1] * x[:, 2] + 0.3 * rng.standard_normal(200)
    x[rng.random(x.shape) < 0.02] = np.nan
    y = score if n_classes == 0 else np.digitize(score, np.linspace(-1, 1, n_classes + 1)[1:-1])
    return x, y, rng.random(200) + 0.5


@pytest.mark.parametrize(("name", "learners", "n_classes", "changes"), CASCADES)
def test_the_model_is_the_same_bit_for_bit(
    name: str,
    learners: list[dict[str, Any]],
    n_classes: int,
    changes: dict[str, Any],
    tmp_path: Path,
) -> None:
    x, y, weights = table(n_classes)
    settings = ONE_LAYER | {"learners": learners, "categorical_features": [3]} | changes
    here = preset(name, **settings).fit(x, y, sample_weight=weights)
    other = OtherMachine(tmp_path)
    there = preset(name, **settings)
    there.fit(x, y, sample_weight=weights, checkpoint=tmp_path, executor=other)
    assert other.keys
    np.testing.assert_array_equal(here.predict_proba(x), there.predict_proba(x))
    np.testing.assert_array_equal(here.oof_output_, there.oof_output_)


def test_numbers_are_predicted_the_same(tmp_path: Path) -> None:
    x, y, _ = table(0)
    settings = ONE_LAYER | {"learners": MARTS}
    here = regression_preset("mart_cascade", **settings).fit(x, y)
    there: CascadeForestRegressor = regression_preset("mart_cascade", **settings)
    there.fit(x, y, checkpoint=tmp_path, executor=OtherMachine(tmp_path))
    np.testing.assert_array_equal(here.predict(x), there.predict(x))


def test_a_table_with_many_columns_can_be_fitted_elsewhere(tmp_path: Path) -> None:
    # The bins of more than 250 columns are learned from fewer rows than LightGBM's default.
    x = np.random.default_rng(0).standard_normal((60, 251), dtype=np.float32)
    settings: dict[str, Any] = {"random_state": 0, "max_layers": 2, "patience": 3, "cv": 2}
    settings |= {"learners": MARTS, "n_jobs": 1}
    here = preset("mart_cascade", **settings).fit(x, x[:, 0] > 0)
    there = preset("mart_cascade", **settings)
    there.fit(x, x[:, 0] > 0, checkpoint=tmp_path, executor=OtherMachine(tmp_path))
    np.testing.assert_array_equal(here.predict_proba(x), there.predict_proba(x))


def test_a_result_that_is_there_is_used_whoever_made_it(tmp_path: Path) -> None:
    x, y, _ = table(2)
    preset("gcforest", **ONE_LAYER).fit(x, y, checkpoint=tmp_path)
    other = OtherMachine(tmp_path)
    events: list[FitEvent] = []
    again = preset("gcforest", **ONE_LAYER)
    again.fit(x, y, checkpoint=tmp_path, executor=other, listener=events.append)
    assert other.keys == []
    assert {event.state for event in events if event.place} == {"waiting", "kept"}


def test_a_fit_that_was_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, _ = table(2)
    requests: dict[str, dict[str, Any]] = {}

    class Recording(OtherMachine):
        def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
            requests[key] = request
            return super().submit_job(key, request)

    cascade = preset("gcforest", **ONE_LAYER)
    cascade.fit(x, y, checkpoint=tmp_path, executor=Recording(tmp_path))
    monkeypatch.setattr("deepforest._fit_files.carry_out", None)  # a fit would raise TypeError
    for key, request in requests.items():
        run_fit(tmp_path, key, request)


def test_the_worker_of_a_fit_is_reported(tmp_path: Path) -> None:
    x, y, _ = table(2)
    events: list[FitEvent] = []
    cascade = preset("gcforest", **ONE_LAYER)
    other = OtherMachine(tmp_path)
    cascade.fit(x, y, checkpoint=tmp_path, executor=other, listener=events.append)
    finished = [event for event in events if event.state == "finished" and event.place]
    assert {event.worker for event in finished} == {"other"}


def test_a_result_that_did_not_arrive_fails_the_fit(tmp_path: Path) -> None:
    x, y, _ = table(2)

    class Lossy(OtherMachine):
        def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
            done: Future[str] = Future()
            done.set_result("other")
            return done

    cascade = preset("gcforest", **ONE_LAYER)
    with refused(OSError, naming=["layer-1", str(tmp_path)]):
        cascade.fit(x, y, checkpoint=tmp_path, executor=Lossy(tmp_path))


def test_other_machines_need_a_folder(tmp_path: Path) -> None:
    x, y, _ = table(2)
    cascade = preset("gcforest", random_state=0)
    with refused(ValueError, naming=["checkpoint"]):
        cascade.fit(x, y, executor=OtherMachine(tmp_path))


def test_a_checkpointer_of_a_folder_will_do(tmp_path: Path) -> None:
    x, y, _ = table(2)
    other = OtherMachine(tmp_path)
    cascade = preset("gcforest", **ONE_LAYER)
    cascade.fit(x, y, checkpoint=FolderCheckpointer(tmp_path), executor=other)
    assert other.keys
