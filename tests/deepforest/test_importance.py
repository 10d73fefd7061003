"""Shuffling a column shows whether predictions need it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import permutation_importance as of_scikit_learn

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    HistForestClassifier,
    permutation_importance,
)
from deepforest.importance import shuffled_importance
from deepforest.metrics import METRICS
from tests.expect import refused


def data(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 4))
    return values, (values[:, 0] + 0.5 * values[:, 1] > 0).astype(int)


def test_columns_are_ranked_by_what_the_predictions_need() -> None:
    values, target = data()
    model = CascadeForestClassifier([{"kind": "mart", "n_estimators": 20}], cv=3, random_state=0)
    model.fit(values[:200], target[:200])
    found = permutation_importance(model, values[200:], target[200:], scoring="auc", n_repeats=8)
    assert found.metric == "auc" and found.score > 0.95
    assert found.drops.shape == (4, 8)
    low, high = found.interval().T
    assert found.mean[0] > found.mean[1] > 0.02
    assert low[1] > high[2] and low[1] > high[3]  # beyond chance
    assert (np.abs(found.mean[2:]) < 0.02).all()


def test_it_is_what_scikit_learn_measures() -> None:
    values, target = data()
    model = HistForestClassifier(30, random_state=0).fit(values[:200], target[:200])
    rest = values[200:], target[200:]
    ours = permutation_importance(model, *rest, scoring="accuracy", n_repeats=30)
    theirs = of_scikit_learn(model, *rest, scoring="accuracy", n_repeats=30, random_state=0)
    error = theirs.importances_std / np.sqrt(30)
    assert (np.abs(ours.mean - theirs.importances_mean) < 6 * error + 1e-9).all()


def test_numbers_and_data_frames() -> None:
    values, _ = data(200)
    frame = pd.DataFrame(values[:, :3], columns=["a", "b", "c"])
    frame["level"] = np.where(values[:, 3] > 0, "high", "low")
    target = 10 * values[:, 0] + 5 * (values[:, 3] > 0)
    model = CascadeForestRegressor(["random_forest"], max_layers=1, cv=3, random_state=0)
    model.fit(frame, target)
    found = permutation_importance(model, frame, target)
    assert found.metric == "rmse"
    assert found.mean[0] > found.mean[3] > found.mean[1:3].max()


def test_the_result_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    values, target = data(100)
    model = HistForestClassifier(10, random_state=0).fit(values, target)
    first = permutation_importance(model, values, target, random_state=3)
    monkeypatch.setattr("deepforest.importance.VALUES_AT_ONCE", 1)
    second = permutation_importance(model, values, target, random_state=3)
    assert np.array_equal(first.drops, second.drops)
    other = permutation_importance(model, values, target, random_state=4)
    assert not np.array_equal(first.drops, other.drops)


def test_columns_of_one_category_are_shuffled_together() -> None:
    codes = np.random.default_rng(0).integers(0, 2, 200)
    matrix = np.eye(2)[codes]
    seen = []

    def predict(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return rows

    found = shuffled_importance(predict, matrix, codes, METRICS["accuracy"], groups=[[0, 1]])
    assert (np.vstack(seen).sum(axis=1) == 1).all()
    assert found.mean == pytest.approx(0.5, abs=0.1)


def test_bad_input() -> None:
    values, target = data(60)
    model = HistForestClassifier(5, random_state=0).fit(values, target)
    with refused(ValueError, naming=["n_repeats", "from 2"]):
        permutation_importance(model, values, target, n_repeats=1)
    with refused(ValueError, naming=["7", "class"]):
        permutation_importance(model, values, np.where(target, 7, 0))
    with refused(ValueError, naming=["auc", "no value"]):
        permutation_importance(model, values, np.zeros(60, int), scoring="auc")
    with refused(ValueError, naming="inconsistent"):
        permutation_importance(model, values, target[:-1])
    with refused(ValueError, naming=["unknown", "nonsense"]):
        permutation_importance(model, values, target, scoring="nonsense")
