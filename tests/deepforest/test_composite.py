"""Composite forests: votes of the leaves, fallbacks, choices, bad input, files."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepforest import BrokenModel, CompositeForestClassifier
from deepforest.composite import leaves
from tests.expect import refused

FAST: dict[str, Any] = {"gamma": 1e-3, "C": 1.0, "random_state": 0}


@parametrize_with_checks(
    [CompositeForestClassifier(3, max_depth=2, degrees=(1, 3), sequences=2, C=1.0)]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def wine() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_wine(return_X_y=True)
    return x, y


def noisy(n_classes: int = 3, rows: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which no tree and no SVM gets all right."""
    x, y = make_classification(
        rows, 6, n_informative=4, n_classes=n_classes, flip_y=0.2, random_state=seed
    )
    return x, y


# --- the leaves ---


@pytest.mark.parametrize("n_classes", [2, 5])
def test_a_tree_votes_as_the_svms_of_its_leaves(n_classes: int) -> None:
    x, y = noisy(n_classes, 240)
    penalties = dict.fromkeys(range(1, 10), 3.0)
    model = CompositeForestClassifier(1, max_depth=2, gamma=1e-4, C=penalties, random_state=4)
    model.fit(x[:200], y[:200])
    scaled, new = model.columns_.scale(x[:200]), model.columns_.scale(x[200:])
    leaf_of_row, leaf_of_new = model.trees_[0].apply(scaled), model.trees_[0].apply(new)
    expected = np.empty(40, int)
    svms = 0
    for record in model.leaves_:
        rows, asked = leaf_of_row == record.leaf - 1, leaf_of_new == record.leaf - 1
        assert record.rows == rows.sum()
        if record.fallback in ("pure", "few rows"):
            expected[asked] = np.bincount(y[:200][rows]).argmax()
            continue
        svms += 1
        np.testing.assert_allclose(record.C, 3 * np.sqrt(rows.sum() / 200))
        svc = SVC(
            C=record.C, kernel="poly", degree=record.degree, gamma=model.kernel_.scale, coef0=1
        ).fit(scaled[rows], y[:200][rows])
        assert record.right == (svc.predict(scaled[rows]) == y[:200][rows]).sum()
        if asked.any():
            expected[asked] = svc.predict(new[asked])
    assert svms >= 2
    np.testing.assert_array_equal(model.predict(x[200:]), expected)


def test_facts_about_the_leaves_add_up_to_the_bound() -> None:
    x, y = noisy()
    model = CompositeForestClassifier(5, **FAST).fit(x, y)
    assert model.bound_ is not None
    for number, of_tree in enumerate(model.bound_, 1):
        records = [leaf for leaf in model.leaves_ if leaf.tree == number]
        assert sum(leaf.rows for leaf in records) == len(x)
        assert sum(leaf.cost or 0 for leaf in records) == pytest.approx(of_tree)
        for leaf in records:
            assert leaf.complexity_term == pytest.approx(8 * 3 * 1e-3 * leaf.complexity)
            assert leaf.right_term == leaf.right / len(x)
            assert leaf.saturated == (leaf.complexity_term >= leaf.right_term)
            wrong = (leaf.rows - leaf.right) / len(x)
            assert leaf.cost == pytest.approx(wrong + min(leaf.complexity_term, leaf.right_term))
    assert {leaf.saturated for leaf in model.leaves_} == {True, False}


@pytest.mark.parametrize("gamma", [1e-5, 1e-3])
def test_the_exact_minimum_is_that_of_all_sequences(gamma: float) -> None:
    x, y = noisy(rows=120)
    settings = FAST | {"gamma": gamma, "max_depth": 1, "n_estimators": 4}
    exact = CompositeForestClassifier(sequences="all", **settings).fit(x, y)
    of_ten = CompositeForestClassifier(sequences=10, **settings).fit(x, y)
    assert exact.bound_ is not None and of_ten.bound_ is not None
    assert (exact.bound_ <= of_ten.bound_).all()
    assert (exact.bound_ < of_ten.bound_).any()
    # All 9² sequences of the first tree, each fitted by itself.
    bounds = []
    for degrees in itertools.product(range(1, 10), repeat=2):
        cost = 0.0
        for leaf, degree in enumerate(degrees):
            single = CompositeForestClassifier(
                **settings | {"n_estimators": 1, "degrees": (degree,)}
            )
            cost += _cost_of(single, x, y, leaf)
        bounds.append(cost)
    assert exact.bound_[0] == pytest.approx(min(bounds))


_costs: dict[Any, list[float]] = {}


def _cost_of(model: CompositeForestClassifier, x: np.ndarray, y: np.ndarray, leaf: int) -> float:
    """Return the cost of a leaf; a forest of one degree is fitted once."""
    key = model.degrees, model.gamma
    if key not in _costs:
        _costs[key] = [record.cost or 0.0 for record in model.fit(x, y).leaves_]
    return _costs[key][leaf]


def test_a_saturated_bound_takes_the_smallest_degree() -> None:
    x, y = noisy()
    model = CompositeForestClassifier(4, sequences="all", **FAST | {"gamma": 1.0}).fit(x, y)
    assert all(leaf.saturated for leaf in model.leaves_)
    assert {leaf.degree for leaf in model.leaves_} <= {0, 1}
    np.testing.assert_allclose(model.bound_, 1.0)


def test_without_a_penalty_each_leaf_has_the_least_training_error() -> None:
    x, y = noisy()
    free = CompositeForestClassifier(2, sequences="all", **FAST | {"gamma": 1e-12}).fit(x, y)
    for degree in (1, 4, 9):
        fixed = CompositeForestClassifier(2, degrees=[degree], **FAST).fit(x, y)
        for leaf, other in zip(free.leaves_, fixed.leaves_, strict=True):
            assert leaf.right >= other.right


def test_without_the_bound_gamma_has_no_effect_and_one_sequence_is_fitted() -> None:
    x, y = noisy()
    models = [
        CompositeForestClassifier(4, selection="none", **FAST | {"gamma": gamma}).fit(x, y)
        for gamma in (1e-5, 1.0, "auto")
    ]
    for model in models:
        assert model.gamma_ is None and model.bound_ is None and model.held_out_ is None
        assert model.leaves_ == models[0].leaves_
        np.testing.assert_array_equal(model.predict_proba(x), models[0].predict_proba(x))
    assert {leaf.cost for leaf in models[0].leaves_} == {None}
    assert len({leaf.degree for leaf in models[0].leaves_}) > 3


# --- fallbacks and bad input ---


def test_missing_values_count_as_the_median_and_are_part_of_the_model(tmp_path: Path) -> None:
    x, y = wine()
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    model = CompositeForestClassifier(5, **FAST).fit(gaps, y)
    filled = np.where(np.isnan(gaps), np.nanmedian(gaps, axis=0), gaps)
    np.testing.assert_array_equal(model.predict_proba(gaps), model.predict_proba(filled))
    assert model.score(gaps, y) > 0.8
    model.save(tmp_path)
    loaded = CompositeForestClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(gaps), model.predict_proba(filled))


def test_a_column_without_values_and_a_row_without_values() -> None:
    x, y = wine()
    x = np.column_stack([x, np.full(len(x), np.nan)])
    model = CompositeForestClassifier(3, **FAST).fit(x, y)
    empty = np.full((1, x.shape[1]), np.nan)
    assert model.predict_proba(empty).sum() == pytest.approx(1)


def test_a_class_with_one_row_in_a_leaf_is_learned() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.where(x[:, 0] + x[:, 1] > 0, "a", "b")
    x[0], y[0] = 4.0, "r"
    model = CompositeForestClassifier(8, max_depth=1, degrees=[3], **FAST | {"C": 100.0}).fit(x, y)
    assert model.predict(x[:1]) == "r"
    assert {leaf.fallback for leaf in model.leaves_} <= {"", "pure", "few rows"}


def test_a_leaf_with_one_row_per_class_has_the_smallest_degree() -> None:
    x = np.arange(6.0).reshape(-1, 1)
    y = np.arange(6)
    model = CompositeForestClassifier(2, max_depth=1, min_leaf=2, **FAST).fit(x, y)
    assert "one row per class" in {leaf.fallback for leaf in model.leaves_}
    for leaf in model.leaves_:
        assert leaf.degree == (leaf.fallback == "one row per class")
    assert set(model.predict(x)) <= set(y)


def test_pure_leaves_and_leaves_of_few_rows_are_constant() -> None:
    x, y = noisy()
    model = CompositeForestClassifier(6, max_depth=5, min_leaf=12, **FAST).fit(x, y)
    constant = [leaf for leaf in model.leaves_ if leaf.degree == 0]
    assert {leaf.fallback for leaf in constant} == {"pure", "few rows"}
    for leaf in model.leaves_:
        assert (leaf.rows < 12 or leaf.fallback == "pure") == (leaf.degree == 0)
        assert (leaf.right == leaf.rows) or leaf.fallback != "pure"


def test_an_svm_that_does_not_converge_falls_back_to_a_lower_degree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = noisy(2)
    monkeypatch.setattr(leaves, "MAX_ITER", 70)
    settings = FAST | {"C": dict.fromkeys((1, 9), 10.0) | {2: 1e-4}, "degrees": (1, 2, 9)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CompositeForestClassifier(6, selection="none", max_depth=1, **settings).fit(x, y)
    lowered = [leaf for leaf in model.leaves_ if leaf.fallback == "not converged"]
    assert {2} <= {leaf.degree for leaf in lowered} <= {1, 2}
    assert any(leaf.fallback == "" for leaf in model.leaves_)


def test_degree_9_on_columns_that_are_not_scaled() -> None:
    x, y = wine()
    factors = 10.0 ** np.linspace(-150, 150, x.shape[1])
    large = CompositeForestClassifier(4, degrees=[9], **FAST).fit(x * factors, y)
    usual = CompositeForestClassifier(4, degrees=[9], **FAST).fit(x, y)
    with np.errstate(all="raise", under="ignore"):
        probabilities = large.predict_proba(x * factors)
    assert np.mean(large.predict(x * factors) == usual.predict(x)) > 0.98
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    # Far beyond the training rows, a value counts as the end of their range.
    beyond = x.copy()
    beyond[:, 0] = 1e300
    ends = x.copy()
    ends[:, 0] = x[:, 0].max()
    np.testing.assert_array_equal(usual.predict_proba(beyond), usual.predict_proba(ends))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_estimators": 0}, ["n_estimators is 0"]),
        ({"max_depth": 0}, ["max_depth is 0"]),
        ({"min_leaf": 0}, ["min_leaf is 0"]),
        ({"degrees": []}, ["degrees is empty"]),
        ({"degrees": [0, 1]}, ["a degree is 0"]),
        ({"degrees": "all"}, ["degrees is 'all'"]),
        ({"sequences": 0}, ["sequences is 0"]),
        ({"sequences": "some"}, ["sequences is 'some'", "'all'"]),
        ({"selection": "smallest"}, ["selection is 'smallest'"]),
        ({"gamma": 0.0}, ["gamma is 0.0"]),
        ({"gamma": "best"}, ["gamma is 'best'"]),
        ({"C": {1: 1.0}}, ["no value for degree 2"]),
        ({"C": -1.0}, ["C is -1.0"]),
        ({"C": "best"}, ["C is 'best'"]),
        ({"vc": "all"}, ["vc is 'all'"]),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], words: list[str]) -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError) as raised:
        CompositeForestClassifier(**{"n_estimators": 1} | settings).fit(x, y)
    assert all(word in str(raised.value) for word in words)


@pytest.mark.parametrize(
    ("validation", "word"),
    [
        ((np.zeros((2, 13)), ["a", "b"]), "no training rows"),
        ((np.zeros((2, 13)), [0]), "2 rows of X and 1 of y"),
        ((np.zeros((0, 13)), []), "0 sample"),
        ((np.zeros((2, 3)), [0, 1]), "3 features"),
    ],
)
def test_validation_rows_that_cannot_be_used(validation: Any, word: str) -> None:
    x, y = wine()
    with pytest.raises(ValueError, match=word):
        CompositeForestClassifier(1, **FAST).fit(x, y.astype(str), validation=validation)


# --- choices ---


def test_penalties_and_gamma_are_chosen_on_training_rows() -> None:
    x, y = noisy()
    model = CompositeForestClassifier(6, degrees=(1, 2, 3), random_state=0).fit(x, y)
    assert set(model.C_) == {1, 2, 3}
    assert set(model.C_.values()) <= {1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0}
    record = model.held_out_
    assert record is not None and record.source == "training rows" and record.rows == 30
    assert list(record.errors) == [1e-5, 1e-4, 1e-3, 1e-2]
    best = min(record.errors.values())
    assert record.error == record.errors[model.gamma_] == best
    # Of several, the largest, which leads to smaller degrees.
    assert model.gamma_ == max(gamma for gamma, error in record.errors.items() if error == best)
    assert len(record.tree_bounds) == len(record.tree_errors) == 6


def test_validation_rows_choose_gamma_and_evaluate_each_tree() -> None:
    x, y = noisy(rows=300)
    model = CompositeForestClassifier(7, C=1.0, random_state=0)
    model.fit(x[:200], y[:200], validation=(x[200:], y[200:]))
    record = model.held_out_
    assert record is not None and record.source == "validation rows"
    assert record.error == pytest.approx(1 - model.score(x[200:], y[200:]))
    np.testing.assert_allclose(record.tree_bounds, model.bound_)
    fixed = clone(model).set_params(gamma=model.gamma_).fit(x[:200], y[:200])
    np.testing.assert_array_equal(fixed.predict_proba(x), model.predict_proba(x))


def test_threads_do_not_change_the_result() -> None:
    x, y = noisy()
    models = [
        CompositeForestClassifier(5, degrees=(1, 2, 5), n_jobs=n_jobs, random_state=3).fit(x, y)
        for n_jobs in (1, 3)
    ]
    assert models[0].leaves_ == models[1].leaves_ and models[0].C_ == models[1].C_
    np.testing.assert_array_equal(models[0].predict_proba(x), models[1].predict_proba(x))


def test_a_report_that_raises_ends_the_fit() -> None:
    x, y = wine()
    seen: list[float] = []

    def report(share: float, text: str) -> None:
        seen.append(share)
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CompositeForestClassifier(30, degrees=(1, 2), n_jobs=2, random_state=0).fit(
            x, y, report=report
        )
    assert seen == sorted(seen) and seen[-1] < 0.6


def test_weights_shift_the_votes_and_rows_of_weight_0_have_no_effect() -> None:
    x, y = noisy(2)
    plain = CompositeForestClassifier(9, **FAST).fit(x, y)
    heavy = clone(plain).fit(x, y, sample_weight=np.where(y == 1, 20.0, 1.0))
    assert heavy.predict(x).sum() > plain.predict(x).sum() + 10
    weights = np.ones(len(y))
    weights[:20] = 0
    without = clone(plain).fit(x[20:], y[20:])
    zeros = clone(plain).fit(x, y, sample_weight=weights)
    assert zeros.leaves_ == without.leaves_


def test_categories_get_a_column_for_each_level() -> None:
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue"], 200)
    table = pd.DataFrame({"size": rng.normal(size=200), "colour": colour})
    y = (colour == "green") ^ (table["size"] > 0.5)
    table.loc[:9, "colour"] = None
    model = CompositeForestClassifier(8, max_features=None, **FAST).fit(table, y)
    assert model.columns_.width == 4
    assert model.score(table, y) > 0.9
    new = pd.DataFrame({"size": [0.0], "colour": ["violet"]})
    missing = pd.DataFrame({"size": [0.0], "colour": [None]}).astype({"colour": object})
    np.testing.assert_array_equal(model.predict_proba(new), model.predict_proba(missing))


def test_trees_is_another_name_of_n_estimators() -> None:
    with pytest.warns(FutureWarning, match="n_estimators"):
        assert CompositeForestClassifier(trees=7).n_estimators == 7


# --- files ---


@pytest.mark.parametrize("selection", ["bound", "none"])
def test_a_saved_forest_votes_the_same(selection: str, tmp_path: Path) -> None:
    x, y = wine()
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    settings = {"selection": selection, "C": dict.fromkeys(range(1, 10), 1.0), "n_jobs": 2}
    model = CompositeForestClassifier(6, random_state=1, **settings)
    model.fit(pd.DataFrame(x, columns=[f"c{j}" for j in range(13)]), names)
    model.save(tmp_path)
    loaded = CompositeForestClassifier.load(tmp_path)
    new = pd.DataFrame(x + 0.1, columns=[f"c{j}" for j in range(13)])
    np.testing.assert_array_equal(loaded.predict_proba(new), model.predict_proba(new))
    assert loaded.leaves_ == model.leaves_ and loaded.held_out_ == model.held_out_
    assert loaded.get_params() == model.get_params() | {"n_jobs": None}
    assert (loaded.gamma_, loaded.C_) == (model.gamma_, model.C_)
    np.testing.assert_array_equal(loaded.bound_, model.bound_)
    again = tmp_path / "again"
    loaded.save(again)
    assert (again / "forest.npz").read_bytes() == (tmp_path / "forest.npz").read_bytes()


def test_a_file_of_another_model_or_with_other_arrays_is_refused(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    model = CompositeForestClassifier(2, **FAST).fit(x, y)
    for name, wrong in (
        ("support_vectors", model.support_vectors_[:, :2]),
        ("support_vectors", model.support_vectors_[:-1]),
        ("support_vectors", np.where(model.support_vectors_ > 1, np.nan, model.support_vectors_)),
        ("leaf_support", np.zeros(3, np.int32)),
        ("leaf_classes", np.full(len(model.pack().arrays["leaf_classes"]), 3)),
        ("node_left", np.zeros(len(model.pack().arrays["node_left"]), np.int32)),
        ("column_scale", np.zeros(4)),
    ):
        pack = model.pack()
        altered = type(pack)(pack.about, {**pack.arrays, name: wrong})
        with pytest.raises(ValueError):
            CompositeForestClassifier.unpack(altered)
    model.save(tmp_path)
    manifest = json.loads((tmp_path / "forest.json").read_text())
    assert Counter(manifest["content"]["model"]["leaves"]["fallback"])
    (tmp_path / "forest.npz").write_bytes(b"")
    with refused(BrokenModel, naming=["forest.npz"]):
        CompositeForestClassifier.load(tmp_path)
