"""The views of features on their way through the layers: numbers, bins, LightGBM's Dataset."""

from __future__ import annotations

import pickle
from typing import Any

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import make_classification

from deepforest._features import AUGMENT, Features
from deepforest._lightgbm import SETTINGS, new_dataset
from deepforest.forest.binning import Binner

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(400, 3)).round(1)
FIRST, SECOND = RNG.random((2, 400, 4)).astype(np.float32).round(2)
NUMERIC = np.zeros(3, bool)
ROWS = np.array([3, 5, 300])


def features(augment: str = "concat", **settings: Any) -> Features:
    return Features(VALUES, NUMERIC, augment=augment, **{"room": 4, "learning": True, **settings})


def seen(augment: str, vectors: np.ndarray) -> np.ndarray:
    """What a layer after the first should see."""
    return {"concat": np.hstack([VALUES, vectors]), "stack": vectors, "none": VALUES}[augment]


def check_views(there: Features, wanted: np.ndarray) -> None:
    """All views show ``wanted``; its columns have few enough values to be binned exactly."""
    n = wanted.shape[1]
    assert there.n_features == n
    np.testing.assert_array_equal(there.dense(), wanted)
    np.testing.assert_array_equal(there.dense(ROWS), wanted[ROWS])
    matrix = there.binned()
    assert matrix.n_features == n
    np.testing.assert_array_equal(matrix.rows[:, :n], Binner().fit(wanted).bin_rows(wanted))
    np.testing.assert_array_equal(matrix.columns[:n], matrix.rows[:, :n].T)
    assert (there.dataset().num_data(), there.dataset().num_feature()) == wanted.shape


@pytest.mark.parametrize("augment", AUGMENT)
def test_all_views_agree_in_every_layer(augment: str) -> None:
    there = features(augment)
    check_views(there, VALUES)
    for vectors in (FIRST, SECOND, FIRST):  # those of a later layer come in place of those before
        there.add(vectors)
        check_views(there, seen(augment, vectors))


@pytest.mark.parametrize("augment", AUGMENT)
def test_views_that_are_first_asked_for_in_a_later_layer(augment: str) -> None:
    there = features(augment)
    there.add(FIRST)
    there.add(SECOND)
    check_views(there, seen(augment, SECOND))


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("augment", AUGMENT)
def test_the_first_layer_of_another_cascade_sees_the_raw_features_only(
    augment: str, looks: bool
) -> None:
    """Whether the vectors were looked at or only added."""
    there = features(augment)
    there.forget_vectors()  # there are none
    check_views(there, VALUES)
    raw_binner, raw_matrix, raw_dataset = there.binner, there.binned(), there.dataset()
    for vectors in (FIRST, SECOND):
        there.add(vectors)
        if looks:
            check_views(there, seen(augment, vectors))
        there.forget_vectors()
        assert there.vectors is None
        assert there.vector_binner is None
        check_views(there, VALUES)
        assert there.binner is raw_binner
        assert there.dataset() is raw_dataset
        # With "stack" the vectors have taken the columns of the raw bins: these are made again.
        assert (there.binned() is raw_matrix) == (augment != "stack")
    there.add(SECOND)
    check_views(there, seen(augment, SECOND))


@pytest.mark.parametrize("augment", AUGMENT)
def test_vectors_that_are_forgotten_before_any_view_was_asked_for(augment: str) -> None:
    there = features(augment)
    there.add(FIRST)
    there.forget_vectors()
    check_views(there, VALUES)


@pytest.mark.parametrize("augment", ["concat", "none"])
def test_views_of_the_raw_features_are_made_once(
    augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = features(augment)
    raw_matrix, raw_binner, raw_dataset = there.binned(), there.binner, there.dataset()
    raw_bins = raw_matrix.columns[:3].copy()
    made = []
    for module in ("_features", "_lightgbm"):
        monkeypatch.setattr(f"deepforest.{module}.new_dataset", _remember(made))
    for vectors in (FIRST, SECOND):
        there.add(vectors)
        assert there.binned() is raw_matrix
        assert there.binner is raw_binner
        assert there.dataset() is there.dataset()
        assert (there.dataset() is raw_dataset) == (augment == "none")
    np.testing.assert_array_equal(raw_matrix.columns[:3], raw_bins)
    assert made == ([(400, 4), (400, 4)] if augment == "concat" else [])
    assert raw_dataset.num_feature() == 3  # what was added was added to a copy


def _remember(made: list[tuple[int, ...]]) -> Any:
    def remember(values: np.ndarray, categorical: list[int], n_jobs: int) -> Any:
        made.append(values.shape)
        return new_dataset(values, categorical, n_jobs)

    return remember


@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_all_rows_are_stored_by_row_and_made_once_a_layer(order: Any) -> None:
    there = Features(VALUES.copy(order), NUMERIC, room=4)
    for vectors in (None, FIRST, SECOND):
        if vectors is not None:
            there.add(vectors)
        dense = there.dense()
        assert dense.flags.c_contiguous
        assert there.dense() is dense
        np.testing.assert_array_equal(dense[:, 3:], VALUES[:, 3:] if vectors is None else vectors)


def test_bins_of_vectors_are_learned_once_a_layer_from_the_rows_still_there() -> None:
    there = features()
    there.add(FIRST, rows=np.arange(10))
    there.binned()
    learned = there.vector_binner
    assert learned is not None
    assert learned.n_bins.max() <= 10
    there.binned()
    assert there.vector_binner is learned


def test_known_bins_are_used_as_they_are() -> None:
    raw, of_vectors = Binner(4).fit(VALUES), Binner(4).fit(FIRST)
    there = features(binner=raw)
    there.add(FIRST, of_vectors)
    np.testing.assert_array_equal(there.binned().rows[:, :3], raw.bin_rows(VALUES))
    np.testing.assert_array_equal(there.binned().rows[:, 3:], of_vectors.bin_rows(FIRST))
    assert (there.binner, there.vector_binner) == (raw, of_vectors)


@pytest.mark.parametrize("binned_before", [True, False])
@pytest.mark.parametrize("augment", AUGMENT)
def test_some_of_the_rows_look_as_they_did_among_all(augment: str, binned_before: bool) -> None:
    whole = Features(VALUES, NUMERIC, augment=augment, room=4, binner=Binner().fit(VALUES))
    known = Binner().fit(FIRST)
    whole.add(FIRST, known)
    if binned_before:
        whole.binned()
    part = whole.take(ROWS)
    n = part.n_features
    assert len(part) == 3
    np.testing.assert_array_equal(part.dense(), whole.dense()[ROWS])
    np.testing.assert_array_equal(part.binned().rows[:, :n], whole.binned().rows[ROWS, :n])
    part.add(SECOND[ROWS], known)
    whole.add(SECOND, known)
    np.testing.assert_array_equal(part.binned().rows[:, :n], whole.binned().rows[ROWS, :n])
    assert part.take(np.array([1])).dense().tolist() == whole.dense()[ROWS[1:2]].tolist()


def test_taken_rows_do_not_change_those_they_were_taken_from() -> None:
    whole = Features(VALUES, NUMERIC, room=4, binner=Binner().fit(VALUES))
    whole.add(FIRST, Binner().fit(FIRST))
    before = whole.binned().rows.copy()
    part = whole.take(ROWS)
    part.add(SECOND[ROWS], Binner().fit(SECOND))
    part.binned()
    np.testing.assert_array_equal(whole.binned().rows, before)


def test_a_copy_in_another_process_sees_the_same() -> None:
    there = features()
    there.add(FIRST)
    there.binned()
    there.dataset()
    check_views(pickle.loads(pickle.dumps(there)), seen("concat", FIRST))


# --- LightGBM ---


def boosted(data: lightgbm.Dataset, target: np.ndarray) -> lightgbm.Booster:
    data = data.subset(np.arange(len(target))).construct()
    data.set_label(target)
    booster = lightgbm.Booster(
        {**SETTINGS, "objective": "binary", "num_leaves": 8, "deterministic": True}, data
    )
    for _ in range(10):
        booster.update()
    return booster


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values, target = make_classification(500, 6, n_informative=5, n_redundant=1, random_state=0)
    return values[:, :3], values[:, 3:].astype(np.float32), target


def test_a_widened_dataset_trains_like_a_fresh_one() -> None:
    values, vectors, target = table()
    there = Features(values, NUMERIC, room=3, learning=True)
    there.dataset()
    there.add(vectors)
    stacked = np.hstack([values, vectors])
    fresh = lightgbm.Dataset(stacked, params=SETTINGS).construct()
    ours, theirs = (boosted(data, target).predict(stacked) for data in (there.dataset(), fresh))
    assert np.abs(ours - theirs).mean() < 0.01
    there.forget_vectors()
    of_raw = boosted(there.dataset(), target).predict(values)
    assert ((ours > 0.5) == target).mean() > ((of_raw > 0.5) == target).mean()


def test_a_dataset_of_vectors_alone_is_a_fresh_one() -> None:
    values, vectors, target = table()
    there = Features(values, NUMERIC, augment="stack", room=3, learning=True)
    there.add(vectors)
    fresh = lightgbm.Dataset(vectors, params=SETTINGS).construct()
    ours, theirs = (boosted(data, target).predict(vectors) for data in (there.dataset(), fresh))
    np.testing.assert_array_equal(ours, theirs)


def test_categorical_columns_stay_categorical_when_vectors_come_and_vectors_are_numbers() -> None:
    levels = RNG.integers(0, 20, 500).astype(float)
    values = np.column_stack([RNG.normal(size=500), levels])
    target = np.isin(levels, [0, 3, 4, 9, 12, 17, 18])
    there = Features(values, np.array([False, True]), room=2, learning=True)
    there.dataset()
    for vectors in RNG.random((2, 500, 2)).astype(np.float32):
        there.add(vectors)
        booster = boosted(there.dataset(), target.astype(int))
        root = booster.dump_model()["tree_info"][0]["tree_structure"]
        assert (root["split_feature"], root["decision_type"]) == (1, "==")
        assert ((booster.predict(there.dense()) > 0.5) == target).all()
        kinds = (
            booster.trees_to_dataframe()
            .dropna(subset=["split_feature"])
            .groupby("split_feature")["decision_type"]
        )
        assert {name: set(found) for name, found in kinds}.get("Column_1") == {"=="}
        assert all(set(found) == {"<="} for name, found in kinds if name != "Column_1")
