"""Nested folds: cascades that are blind to rows, honest scores, groups, times, shared fits.

Cascades that are blind to rows decide; the model is one cascade that learned all rows.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
    _resampling,
    preset,
)
from deepforest._calibration import CALIBRATION_ROWS, best_temperature
from deepforest._cascade import FittedCascade
from deepforest._grow import Grown
from deepforest._layer import Layer
from deepforest.arithmetic import temper
from deepforest.cascade import mixture_weights
from deepforest.learners import Target
from deepforest.metrics import METRICS, REGRESSION_METRICS
from tests.deepforest.scripted_scores import keeps_every_layer
from tests.expect import assert_same_bits, refused

FOREST = {"kind": "random_forest", "n_estimators": 6}
RANDOM = {"kind": "completely_random_forest", "n_estimators": 6}
MART = {"kind": "mart", "n_estimators": 4, "min_samples_leaf": 5}
THREE_LAYERS: dict[str, Any] = {"cv": 3, "max_layers": 3, "patience": 3, "random_state": 0}
X, Y = load_iris(return_X_y=True)


@pytest.fixture
def every_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row i is in fold i % 3, whatever its class."""

    def fixed(rows: np.ndarray, *_: Any) -> list[np.ndarray]:
        return [rows[rows % 3 == fold] for fold in range(3)]

    monkeypatch.setattr(_resampling, "draw_folds", fixed)


# --- no fit of a cascade learns anything of the rows it is blind to ---

GCFOREST = {"combine": "mean", "pass_on": "vectors"}
# How many layers depend on nothing but the cascade's own rows. The others see a few numbers that
# all rows have part in: the weights α of mdDF, the threshold of screening. So is the depth step of
# mdDF if it is chosen: one of four numbers, by the rows that one cascade is blind to.
BLIND: dict[str, tuple[Any, int]] = {
    "gcForest": (CascadeForestClassifier([FOREST, RANDOM], **GCFOREST), 3),
    "out of bag": (CascadeForestClassifier([FOREST], class_vectors="oob", **GCFOREST), 3),
    "mart": (CascadeForestClassifier([MART, FOREST], **GCFOREST), 3),
    "scikit": (CascadeForestClassifier([GaussianNB(), FOREST], **GCFOREST), 3),
    "selector": (
        CascadeForestClassifier([FOREST], selector=MartSelector(2, n_estimators=3), **GCFOREST),
        3,
    ),
    "weighted learners": (CascadeForestClassifier([FOREST, RANDOM], pass_on="vectors"), 3),
    "class weights": (
        CascadeForestClassifier([FOREST], class_weight={0: 1, 1: 2, 2: 3}, **GCFOREST),
        3,
    ),
    "numbers": (CascadeForestRegressor([FOREST, MART], pass_on="vectors"), 3),
    "mdDF": (MarginForestClassifier([FOREST, RANDOM], depth_step=16), 1),
    "mdDF without weights of layers": (
        MarginForestClassifier([FOREST, RANDOM], depth_step=16, augment="none", reweight=False),
        2,
    ),
    "screening": (ScreenedForestClassifier([FOREST, RANDOM]), 1),
}


@pytest.mark.parametrize("name", BLIND)
def test_rows_of_a_fold_change_nothing_in_the_cascade_that_is_blind_to_it(
    name: str, every_third: None, growths: list[Grown]
) -> None:
    """Other labels and other features of these rows: the same trees, to the last bit."""
    model, n_layers = BLIND[name]
    blind, rng = 1, np.random.default_rng(0)
    rows = np.arange(blind, len(X), 3)
    x, y = X.copy(), Y.copy()
    y[rows] = (y[rows] + 1) % 3
    # The same values, so that the bins are the same. LightGBM bins the vectors of all rows.
    for column in range(x.shape[1] if "mart" not in str(model.learners) else 0):
        x[rows, column] = rng.permutation(x[rows, column])
    for data in ((X, Y), (x, y)):
        copy.deepcopy(model).set_params(scoring=keeps_every_layer(), **THREE_LAYERS).fit(*data)
    first, second = growths
    assert len(first.scored) == len(second.scored) == 3
    one, other = first.scored[blind], second.scored[blind]
    np.testing.assert_array_equal(one.selected, other.selected)
    assert min(len(one.layers), len(other.layers)) >= n_layers
    for number in range(n_layers):
        same = fingerprint(one.layers[number]) == fingerprint(other.layers[number])
        assert same, f"layer {number + 1}"
    # The other cascades have learned from these rows, and the final one has.
    learned = [(first.scored[number], second.scored[number]) for number in (0, 2)]
    for one, other in (*learned, (first.cascades[0], second.cascades[0])):
        assert fingerprint(one.layers[0]) != fingerprint(other.layers[0])


def fingerprint(layer: Layer) -> list[bytes]:
    """Return the content of all models and bins of a layer."""
    content = []
    for models in layer.models:
        for model in models:
            if model.kind == "scikit":
                content.append(pickle.dumps(vars(model)))
                continue
            pack = model.pack()
            content.append(pack.text.encode())
            content += [array.tobytes() for _, array in sorted(pack.arrays.items())]
    if layer.binner is not None:
        content += [array.tobytes() for _, array in sorted(layer.binner.arrays().items())]
    return content


# --- labels that nothing can predict ---


def noise(seed: int, n: int = 400, n_columns: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers, so that rows have neighbours, and labels at random."""
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(size=(n, n_columns))), rng.permutation(np.arange(n) % 2)


def reported_auc(model: Any, seed: int, repeat: int = 1) -> float:
    """Fit on random labels; return the AUC of the kept layers on rows new to them."""
    x, y = noise(seed, n_columns=4 if model.selector is None else 200)
    groups = None
    if repeat > 1:
        x, y, groups = (np.repeat(each, repeat, axis=0) for each in (x, y, np.arange(len(y))))
    model.set_params(random_state=seed).fit(x, y, groups=groups)
    return float(roc_auc_score(y, model.oof_output_[:, 1]))


def few_trees(name: str, **params: Any) -> Any:
    """Return a preset with few trees and three folds."""
    model = preset(name, cv=3, max_layers=3, **params)
    learners = model.learners or ["random_forest", "extra_trees", "mart"]
    few = []
    for learner in learners:
        settings = {"kind": learner} if isinstance(learner, str) else learner
        few.append({**settings, "n_estimators": 12})
    return model.set_params(learners=few)


HONEST: dict[str, Callable[[], Any]] = {
    "default": lambda: few_trees("default"),
    "gcforest": lambda: few_trees("gcforest"),
    "mddf": lambda: few_trees("mddf"),
    "mddf, all chosen": lambda: few_trees("mddf", gamma="auto", mu="auto", depth_step="auto"),
    "gcforest_cs": lambda: few_trees("gcforest_cs"),
    "mart_cascade": lambda: few_trees("mart_cascade"),
    "out of bag": lambda: few_trees("default", class_vectors="oob"),
    "repeated rows": lambda: few_trees("default"),
    "selector": lambda: few_trees("default", selector=MartSelector(10, n_estimators=10)),
}


@pytest.mark.parametrize("name", HONEST)
def test_labels_at_random_are_not_predicted(name: str) -> None:
    repeat = 3 if name == "repeated rows" else 1
    scores = [reported_auc(HONEST[name](), seed, repeat) for seed in range(3)]
    assert abs(np.mean(scores) - 0.5) < 0.06, scores


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
def test_the_papers_way_reports_more_than_there_is(resampling: str) -> None:
    """Why nested folds are the default: neighbours' class vectors hold the label of a row."""
    scores = [deep_auc(resampling, seed) for seed in range(3)]
    if resampling == "nested":
        assert abs(np.mean(scores) - 0.5) < 0.06, scores
    else:
        assert np.mean(scores) > 0.58, scores


def deep_auc(resampling: str, seed: int) -> float:
    """Return the reported AUC of a cascade of three layers, whatever they bring."""
    learners = [{"kind": kind, "n_estimators": 30} for kind in ("random_forest", "extra_trees")]
    model = CascadeForestClassifier(
        learners,
        class_vectors="oob",
        resampling=resampling,
        scoring=keeps_every_layer(),
        **THREE_LAYERS,
    )
    auc = reported_auc(model, seed)
    assert model.n_layers_ == 3
    return auc


# --- groups and times ---


class Watcher(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts how frequent the classes are, and notes the rows; column 0 has their numbers."""

    learned: ClassVar[list[np.ndarray]] = []
    predicted: ClassVar[list[np.ndarray]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Watcher:  # noqa: N803
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / len(y)
        self.learned.append(X[:, 0].astype(int))
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        self.predicted.append(X[:, 0].astype(int))
        return np.tile(self.shares_, (len(X), 1))


@pytest.fixture
def watched() -> Iterator[Callable[..., tuple[Any, list[tuple[int, int, int]]]]]:
    """Return a function that fits and tells (layer, cascade, fold) of each fit of the watcher."""

    def fit(make: Any = CascadeForestClassifier, /, **options: Any) -> Any:
        Watcher.learned.clear()
        Watcher.predicted.clear()
        numbers: list[tuple[int, int, int]] = []

        def listen(event: Any) -> None:
            if event.state == "finished" and "-learner-1-" in event.key:
                words = event.key.split("-")
                numbers.append((int(words[1]), int(words[5]), int(words[6])))

        x = np.column_stack([np.arange(120), X[:120]])
        model = make([Watcher(), FOREST], scoring=keeps_every_layer(), **THREE_LAYERS)
        model.fit(x, np.arange(120) % 2, listener=listen, **options)
        assert len(Watcher.learned) == len(numbers)
        return model, numbers

    yield fit


GROUPS = {
    "numbers": np.arange(120) // 7,
    "words": np.array([f"customer {number % 17}" for number in range(120)]),
    "dates": np.datetime64("2026-01-01") + (np.arange(120) * 5 % 11).astype("timedelta64[D]"),
    "a column of pandas": pd.Series(np.arange(120) % 19).astype("string"),
    "few": np.arange(120) % 6,
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("make", [CascadeForestClassifier, MarginForestClassifier])
def test_no_group_is_in_two_folds_in_any_layer(make: Any, kind: str, watched: Any) -> None:
    groups = np.asarray(GROUPS[kind])
    model, numbers = watched(make, groups=GROUPS[kind])
    assert {layer for layer, _, _ in numbers} == {1, 2, 3}
    for learned in Watcher.learned:
        others = np.setdiff1d(np.arange(120), learned)
        assert not set(groups[learned]) & set(groups[others])
    blind = []
    for cascade in (1, 2, 3):
        own = [
            rows
            for rows, (layer, one, _) in zip(Watcher.learned, numbers, strict=True)
            if layer > 1 and one == cascade
        ]
        blind.append(np.setdiff1d(np.arange(120), np.concatenate(own)))
    # Each row is new to one cascade, through all its layers.
    np.testing.assert_array_equal(np.sort(np.concatenate(blind)), np.arange(120))
    assert np.isfinite(model.oof_output_).all()
    # One more has learned all of them, and has whole groups in its folds too.
    assert sorted({cascade for layer, cascade, _ in numbers if layer > 1}) == [1, 2, 3, 4]
    check_learned_all_rows(numbers, 4, folds=3)


def check_learned_all_rows(
    numbers: list[tuple[int, int, int]], cascade: int, *, folds: int
) -> None:
    """In each layer every row is left out by one of the fits of the final cascade."""
    for layer in (1, 2, 3):
        own = [
            rows
            for rows, (one, another, _) in zip(Watcher.learned, numbers, strict=True)
            if (one, another) == (layer, cascade)
        ]
        assert len(own) == folds
        times_learned = np.bincount(np.concatenate(own), minlength=120)
        np.testing.assert_array_equal(times_learned, folds - 1)


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_as_few_groups_as_folds_or_fewer(resampling: str, n_groups: int) -> None:
    groups = np.repeat(np.arange(n_groups), [3] * (n_groups - 1) + [150 - 3 * (n_groups - 1)])
    model = CascadeForestClassifier([FOREST], resampling=resampling, max_layers=2, random_state=0)
    assert model.fit(X, Y, groups=groups).predict_proba(X).shape == (150, 3)


TIMES = {
    "numbers": np.arange(120) * 7 % 120,
    "dates": np.datetime64("2026-01-01") + (np.arange(120) * 7 % 40).astype("timedelta64[D]"),
    "words": np.array([f"2026-{month:02}" for month in np.arange(120) * 5 % 12 + 1]),
    "a column of pandas": pd.Series(
        pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.arange(120) * 7 % 50, "D")
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_rows_are_scored_by_cascades_that_learned_earlier_rows_only(
    kind: str, watched: Any
) -> None:
    times = np.unique(np.asarray(TIMES[kind]), return_inverse=True)[1]
    model, numbers = watched(times=TIMES[kind])
    # Three blocks are scored; the final cascade learns all four, and is numbered after them.
    assert sorted({cascade for _, cascade, _ in numbers}) == [1, 2, 3, 5]
    check_learned_all_rows(numbers, 5, folds=4)
    scored: list[int] = []
    for cascade in (1, 2, 3):
        fits = [number for number, (_, one, _) in enumerate(numbers) if one == cascade]
        learned = np.unique(np.concatenate([Watcher.learned[fit] for fit in fits]))
        predicted = np.unique(np.concatenate([Watcher.predicted[fit] for fit in fits]))
        blind = np.setdiff1d(predicted, learned)
        assert times[blind].min() > times[learned].max()
        scored += blind.tolist()
    assert len(model.cascades_) == 1
    assert len(model.cascades_[0].layers) == model.n_layers_ == 3
    known = np.isfinite(model.oof_output_).all(axis=1)
    np.testing.assert_array_equal(np.isnan(model.oof_output_).all(axis=1), ~known)
    np.testing.assert_array_equal(np.flatnonzero(known), np.sort(scored))
    assert 20 < (~known).sum() < 45
    assert times[~known].max() < times[known].min()
    assert model.layer_records_[0].rows_in == known.sum()


@pytest.mark.parametrize("make", [MarginForestClassifier, ScreenedForestClassifier])
def test_all_kinds_of_cascades_know_times(make: Any) -> None:
    order = np.random.default_rng(0).permutation(150)
    model = make([FOREST, MART], **THREE_LAYERS).fit(X[order], Y[order], times=np.arange(150))
    assert model.score(X, Y) > 0.9
    assert (model.layer_records_[0].blind["accuracy"] or 0) > 0.8


@pytest.mark.parametrize(
    ("options", "naming"),
    [
        ({"groups": np.arange(150), "times": np.arange(150)}, ["groups", "times", "one of them"]),
        ({"groups": np.zeros(150)}, ["groups", "single value", "2"]),
        ({"times": np.arange(150) % 2}, ["times", "3 different"]),
        ({"groups": np.arange(149)}, ["149", "150"]),
        ({"times": np.where(np.arange(150) == 7, np.nan, 1.0)}, ["times", "missing"]),
        ({"groups": [None, *range(149)]}, ["groups", "missing"]),
        ({"groups": pd.array([pd.NA, *["a", "b"] * 74, "c"], "string")}, ["groups", "missing"]),
        ({"times": pd.Series([pd.NaT, *pd.date_range("2026", periods=149)])}, ["missing"]),
        ({"times": np.array(["a", 1] * 75, dtype=object)}, ["times", "compared"]),
    ],
)
def test_groups_and_times_that_cannot_be_used(options: Any, naming: list[str]) -> None:
    with refused(ValueError, naming=naming):
        CascadeForestClassifier([FOREST]).fit(X, Y, **options)


def test_times_need_nested_folds() -> None:
    with refused(ValueError, naming=["times", "nested"]):
        CascadeForestClassifier([FOREST], resampling="per_layer").fit(X, Y, times=np.arange(150))


# --- the rows that are scored, and the model that learns all of them ---


def alone(model: Any, cascade: FittedCascade, x: np.ndarray) -> np.ndarray:
    """Return what one of the cascades predicts."""
    single = copy.copy(model)
    single.cascades_ = [cascade]
    return single._predict(x)


def three_clouds() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(240) // 3 % 3
    return rng.normal(y[:, None] * 0.8, 1.0, (240, 4)), y


# Leaves of several rows: class vectors of many values, which do not meet the edges of bins.
LEAVES = [{**FOREST, "min_samples_leaf": 3}, {**RANDOM, "min_samples_leaf": 3}]
WITH_MART = [LEAVES[0], MART]
KINDS: dict[str, Any] = {
    "cascade": CascadeForestClassifier(WITH_MART),
    "out of bag": CascadeForestClassifier(LEAVES, class_vectors="oob"),
    "vectors": CascadeForestClassifier(LEAVES, pass_on="vectors", combine="mean"),
    "stack": CascadeForestClassifier(LEAVES, augment="stack"),
    "selector": CascadeForestClassifier(WITH_MART, selector=MartSelector(2, n_estimators=3)),
    "not calibrated": CascadeForestClassifier(WITH_MART, calibrate=False),
    "numbers": CascadeForestRegressor(WITH_MART),
    "mdDF": MarginForestClassifier(LEAVES),
    "screening": ScreenedForestClassifier(LEAVES, error_share=0.5),
}


@pytest.mark.parametrize(("n_layers", "n_equal"), [(1, 1.0), (3, 0.95)])
@pytest.mark.parametrize("name", KINDS)
def test_the_output_of_a_row_in_the_fit_is_that_of_the_cascade_that_is_blind_to_it(
    name: str, n_layers: int, n_equal: float, every_third: None, growths: list[Grown]
) -> None:
    """In deeper layers, a class vector at the very edge of a bin may be rounded to either side."""
    x, y = three_clouds()
    if name == "numbers":
        y = y + x[:, 0] ** 2
    settings = {**THREE_LAYERS, "max_layers": n_layers, "scoring": keeps_every_layer()}
    model = KINDS[name].set_params(**settings).fit(x, y)
    scored = growths[0].scored
    assert len(scored) == 3
    assert min(n_layers, 2) <= model.n_layers_ <= n_layers
    for fold, cascade in enumerate(scored):
        assert len(cascade.layers) == model.n_layers_
        own = slice(fold, None, 3)
        expected = alone(model, cascade, x)[own]
        equal = np.isclose(model.oof_output_[own], expected, rtol=1e-4, atol=1e-6).all(axis=1)
        assert equal.mean() >= n_equal


@pytest.mark.parametrize("name", KINDS)
def test_the_model_is_one_cascade_whether_it_is_grown_after_the_others_or_beside_them(
    name: str, growths: list[Grown]
) -> None:
    """With validation rows it grows beside them: the model itself is scored on these rows."""
    x, y = three_clouds()
    if name == "numbers":
        y = y + x[:, 0] ** 2
    finals = []
    for validation in (None, (x[::2] + 0.1, y[::2])):
        settings = {**THREE_LAYERS, "scoring": keeps_every_layer()}
        model = copy.deepcopy(KINDS[name]).set_params(**settings).fit(x, y, validation=validation)
        [final] = model.cascades_
        assert 2 <= len(final.layers) == model.n_layers_ <= 3
        assert sum(record.kept for record in model.layer_records_) == model.n_layers_
        assert final.layers[0].binner is None
        scored = growths[-1].scored
        assert len(scored) == 3
        for number, layer in enumerate(final.layers):
            # A fit without each fold; those of the others are blind to one fold more.
            assert {len(models) for models in layer.models} == {1 if name == "out of bag" else 3}
            of_scored = [each.layers[number] for each in scored]
            assert {each.n_features for each in of_scored} == {layer.n_features}
            assert {each.temperature for each in of_scored} == {layer.temperature}
            assert {each.threshold for each in of_scored} == {layer.threshold}
        finals.append(final)
    for after, beside in zip(finals[0].layers, finals[1].layers, strict=True):
        assert fingerprint(after) == fingerprint(beside)
        np.testing.assert_array_equal(after.coefficients, beside.coefficients)
        np.testing.assert_array_equal(after.alphas, beside.alphas)
        assert (after.threshold, after.temperature) == (beside.threshold, beside.temperature)


def test_a_whole_fit_is_what_one_computes_by_hand(every_third: None) -> None:
    learners = [GaussianNB(), GaussianNB(var_smoothing=0.3)]
    x, y = three_clouds()
    model = CascadeForestClassifier(
        learners, combine="weighted", pass_on="vectors", scoring=keeps_every_layer(), **THREE_LAYERS
    ).fit(x, y)
    assert model.n_layers_ == 3
    rows, fold = np.arange(240), np.arange(240) % 3
    # One cascade is blind to each fold, and the last one to none.
    training = [*(fold != blind for blind in range(3)), fold < 3]
    seen, new = [x] * 4, x + 0.1
    seen_of_new = new
    for layer in model.cascades_[0].layers:
        vectors = []
        for own, columns in zip(training, seen, strict=True):
            models = fitted_by_fold(learners, columns, y, own, fold)
            vectors.append(vectors_by_hand(models, columns, own, fold))
        # The last models are those of all rows; rows that are new to them get the mean.
        of_new = vectors_by_hand(models, seen_of_new, np.zeros(240, bool), fold)
        # Weights and temperature come from the rows that are new to a cascade.
        blind = np.stack([vectors[fold[row]][:, row] for row in rows], axis=1)
        of_true_class = blind[:, rows, y].T
        np.testing.assert_allclose(layer.coefficients, mixture_weights(of_true_class), atol=1e-5)
        output = np.zeros((240, 3))
        for number in range(3):
            weights = mixture_weights(of_true_class[fold != number])
            output[fold == number] = np.tensordot(weights, blind[:, fold == number], 1)
        temperature = best_temperature(output, y, None)
        assert layer.temperature == pytest.approx(temperature, abs=1e-3)
        seen = [np.hstack([x, *each]) for each in vectors]
        seen_of_new = np.hstack([new, *of_new])
    np.testing.assert_allclose(model.oof_output_, temper(output, temperature), atol=1e-3)
    of_model = np.tensordot(layer.coefficients, of_new, 1)
    np.testing.assert_allclose(model.predict_proba(new), temper(of_model, temperature), atol=1e-3)


def fitted_by_fold(
    learners: list[Any], columns: np.ndarray, y: np.ndarray, training: np.ndarray, fold: np.ndarray
) -> list[dict[int, Any]]:
    """Return for each learner its models by the fold that they left out of the training rows."""
    by_learner = []
    for learner in learners:
        models = {}
        for left_out in np.unique(fold[training]):
            rows = training & (fold != left_out)
            models[int(left_out)] = clone(learner).fit(columns[rows], y[rows])
        by_learner.append(models)
    return by_learner


def vectors_by_hand(
    by_learner: list[dict[int, Any]], columns: np.ndarray, training: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """Return vectors: of training rows from the model that left them out, of others the mean."""
    vectors = []
    for models in by_learner:
        own = np.mean([model.predict_proba(columns) for model in models.values()], axis=0)
        for left_out, model in models.items():
            rows = training & (fold == left_out)
            if rows.any():
                own[rows] = model.predict_proba(columns[rows])
        vectors.append(own)
    return np.stack(vectors).astype(np.float32)


def test_the_model_is_saved_and_loaded_as_one_cascade(tmp_path: Path) -> None:
    settings = {**THREE_LAYERS, "cv": 4, "max_layers": 2}
    model = CascadeForestClassifier([FOREST, MART], scoring=keeps_every_layer(), **settings)
    model.fit(X, Y).save(tmp_path)
    names = json.loads((tmp_path / "forest.json").read_text())["content"]["packs"]
    assert not [name for name in names if name.startswith("cascade-")]
    for layer in (1, 2):
        for learner in (1, 2):
            part = f"layer-{layer}-learner-{learner}-fold-"
            assert sum(part in name for name in names) == 4
    loaded = CascadeForestClassifier.load(tmp_path)
    assert_same_bits(loaded.predict_proba(X), model.predict_proba(X))
    assert_same_bits(loaded.transform(X, 1), model.transform(X, 1))


def test_a_saved_model_of_several_cascades_predicts_their_mean(
    growths: list[Grown], tmp_path: Path
) -> None:
    """Earlier versions deployed the cascades that are blind to a fold."""
    settings = {**THREE_LAYERS, "cv": 4, "max_layers": 2, "calibrate": False}
    model = CascadeForestClassifier([FOREST, MART], scoring=keeps_every_layer(), **settings)
    model.fit(X, Y)
    model.cascades_ = growths[0].scored
    model.save(tmp_path)
    names = json.loads((tmp_path / "forest.json").read_text())["content"]["packs"]
    # Models that cascades share are saved once, and loaded once.
    for layer, n_fits in ((1, 4 * 3 // 2), (2, 4 * 3)):
        for learner in (1, 2):
            part = f"layer-{layer}-learner-{learner}-fold-"
            assert sum(part in name for name in names) == n_fits
    loaded = CascadeForestClassifier.load(tmp_path)
    assert len(loaded.cascades_) == 4
    for layer, n_models in ((0, 6), (1, 12)):
        found = {id(each) for one in loaded.cascades_ for each in one.layers[layer].models[0]}
        assert len(found) == n_models
    of_cascades = [alone(model, cascade, X) for cascade in model.cascades_]
    np.testing.assert_allclose(loaded.predict_proba(X), np.mean(of_cascades, axis=0), atol=1e-6)
    assert_same_bits(loaded.predict_proba(X), model.predict_proba(X))
    assert_same_bits(loaded.transform(X, 1), model.transform(X, 1))
    assert not np.allclose(of_cascades[0], of_cascades[1])


def test_a_loaded_cascade_of_times_has_one_cascade(tmp_path: Path) -> None:
    model = CascadeForestClassifier([FOREST, MART], **THREE_LAYERS)
    model.fit(X, Y, times=np.arange(150) * 7 % 150).save(tmp_path)
    loaded = CascadeForestClassifier.load(tmp_path)
    assert len(loaded.cascades_) == 1
    assert_same_bits(loaded.predict_proba(X), model.predict_proba(X))


# --- with many rows fewer cascades are scored ---


@pytest.fixture
def enough(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Return a function that sets how many blind rows, and rows of rare classes, are enough."""

    def set_enough(rows: int, of_rare_classes: int) -> None:
        monkeypatch.setattr(_resampling, "ENOUGH_ROWS", rows)
        monkeypatch.setattr(_resampling, "ENOUGH_OF_RARE_CLASSES", of_rare_classes)

    return set_enough


# In each of five folds of 30 rows, 15 or 6 are outside of the most frequent class, or 20.
HALF, FEW = np.arange(150) % 2, (np.arange(150) % 5 == 0).astype(int)
THIRDS = np.arange(150) % 3


@pytest.mark.parametrize(
    ("rows", "rare", "classes", "n_scored"),
    [
        (30, 0, HALF, 1),
        (31, 0, HALF, 2),
        (60, 0, HALF, 2),
        (120, 0, HALF, 4),
        (121, 0, HALF, 5),
        (10**9, 0, HALF, 5),
        (1, 15, HALF, 1),
        (1, 16, HALF, 2),
        (1, 6, FEW, 1),
        (1, 15, FEW, 3),
        (61, 12, FEW, 3),
        (1, 25, FEW, 5),
        (1, 20, THIRDS, 1),
        (1, 21, THIRDS, 2),
        # Numbers have no classes.
        (31, 10**9, None, 2),
    ],
)
def test_as_many_cascades_are_scored_as_it_takes(
    rows: int, rare: int, classes: np.ndarray | None, n_scored: int, enough: Any
) -> None:
    enough(rows, rare)
    target = Target(np.linspace(0, 1, 150), 0)
    if classes is not None:
        target = Target(classes, int(classes.max()) + 1)
    scored, final = _resampling.nested(np.arange(150), target, 5, 0, None)
    assert len(scored) == n_scored
    assert final is not None
    assert final.is_final
    assert len(final.folds or []) == 5
    np.testing.assert_array_equal(final.training, np.arange(150))
    np.testing.assert_array_equal(np.sort(np.concatenate(final.folds or [])), np.arange(150))
    for cascade, fold in zip(scored, final.folds or [], strict=False):
        np.testing.assert_array_equal(cascade.blind, fold)
        np.testing.assert_array_equal(cascade.scored, fold)
        np.testing.assert_array_equal(cascade.training, np.setdiff1d(np.arange(150), fold))


def test_two_folds_are_both_scored(enough: Any) -> None:
    enough(1, 1)
    scored, _ = _resampling.nested(np.arange(150), Target(HALF, 2), 2, 0, None)
    np.testing.assert_array_equal(np.sort([*scored[0].blind, *scored[1].blind]), np.arange(150))


@pytest.mark.parametrize(("rows", "n_scored"), [(1, 1), (51, 2), (101, 3)])
@pytest.mark.parametrize("name", KINDS)
def test_rows_that_no_scored_cascade_is_blind_to_have_no_output(
    name: str, rows: int, n_scored: int, every_third: None, enough: Any, growths: list[Grown]
) -> None:
    enough(rows, 1)
    x, y = (each[:150] for each in three_clouds())
    measure = METRICS["log_loss"]
    if name == "numbers":
        y = y + x[:, 0] ** 2
        measure = REGRESSION_METRICS["rmse"]
    settings = {**THREE_LAYERS, "max_layers": 2, "scoring": measure.name}
    model = copy.deepcopy(KINDS[name]).set_params(**settings).fit(x, y)
    assert len(growths[0].scored) == n_scored
    known = np.arange(150) % 3 < n_scored
    np.testing.assert_array_equal(np.isnan(model.oof_output_).any(axis=1), ~known)
    np.testing.assert_array_equal(np.isnan(model.oof_output_).all(axis=1), ~known)
    # Scores are those of these rows.
    record = model.layer_records_[model.n_layers_ - 1]
    assert model.layer_records_[0].rows_in == known.sum()
    assert record.score == pytest.approx(measure(y[known], model.oof_output_[known], None))
    # The model has learned the others too. What one scored cascade has shown is all it needs.
    first, [final] = growths[0].scored[0], model.cascades_
    for own, other in zip(final.layers, first.layers, strict=True):
        assert fingerprint(own) != fingerprint(other)
        if n_scored == 1:
            np.testing.assert_array_equal(own.coefficients, other.coefficients)
            np.testing.assert_array_equal(own.alphas, other.alphas)


def test_rows_of_weight_zero_are_not_among_the_rows_that_are_enough(enough: Any) -> None:
    enough(26, 1)
    weights = np.where(np.arange(150) < 75, 0.0, 1.0)
    model = CascadeForestClassifier([FOREST], **THREE_LAYERS).fit(X, HALF, weights)
    known = np.isfinite(model.oof_output_).all(axis=1)
    # Of the three folds of 25 rows two are scored.
    assert known.sum() == model.layer_records_[0].rows_in == 50
    assert not known[:75].any()


# --- scores ---


def clouds(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds, one of them with a tenth of the rows."""
    rng = np.random.default_rng(0)
    y = (np.arange(n) % 10 == 0).astype(int)
    return rng.normal(y[:, None] * 1.5, 1.0, (n, 3)), y


SMOOTH = [{"kind": "random_forest", "n_estimators": 10, "min_samples_leaf": 5}]


def test_class_weights_do_not_enter_scores_and_row_weights_do() -> None:
    x, y = clouds()
    weights = np.where(np.arange(300) % 3 == 0, 5.0, 1.0)
    for sample_weight in (None, weights):
        model = CascadeForestClassifier(
            SMOOTH, class_weight="balanced", calibrate=False, cv=3, max_layers=1, random_state=0
        ).fit(x, y, sample_weight)
        [record] = model.layer_records_
        expected = METRICS["log_loss"](y, model.oof_output_, sample_weight)
        assert record.score == pytest.approx(expected)
        assert record.blind["log_loss"] == record.score
        right = model.oof_output_.argmax(axis=1) == y
        assert record.blind["accuracy"] == pytest.approx(np.average(right, weights=sample_weight))
        of_learner = record.learners[0].scores["log_loss"]
        assert of_learner == pytest.approx(expected)


def test_errors_of_scores_are_known() -> None:
    x, y = clouds()
    model = CascadeForestClassifier(
        SMOOTH, cv=3, max_layers=2, patience=2, scoring="log_loss", random_state=0
    ).fit(x, y)
    first, second = model.layer_records_
    own = -np.log(model.oof_output_[np.arange(300), y])
    best = model.layer_records_[model.n_layers_ - 1]
    assert best.score_se == pytest.approx(own.std() / np.sqrt(300), rel=0.02)
    assert (first.gain, first.gain_se) == (None, None)
    assert second.gain == pytest.approx(first.score - second.score)
    # Both layers are scored on the same rows: their difference varies less than each of them.
    assert 0 < second.gain_se < best.score_se


def test_errors_of_scores_know_that_rows_of_a_group_are_alike() -> None:
    x, y = clouds()
    x, y = np.repeat(x, 4, axis=0), np.repeat(y, 4)
    groups = np.arange(len(y)) // 4
    model = CascadeForestClassifier(SMOOTH, cv=3, max_layers=1, random_state=0)
    model.fit(x, y, groups=groups)
    [record] = model.layer_records_
    own = -np.log(model.oof_output_[np.arange(len(y)), y])
    assert record.score_se > 1.8 * own.std() / np.sqrt(len(y))


def test_validation_rows_may_have_weights() -> None:
    x, y = clouds()
    held, truth = x[::2], y[::2].copy()
    truth[:20] = 1 - truth[:20]
    weights = np.ones(len(truth))
    weights[:20] = 0.0
    records = []
    for validation in ((held, truth, weights), (held[20:], truth[20:]), (held, truth)):
        model = CascadeForestClassifier(SMOOTH, cv=3, max_layers=1, random_state=0)
        records.append(model.fit(x, y, validation=validation).layer_records_[0])
    weighted, without, wrong = records
    assert weighted.scored_on == "validation"
    assert weighted.score == weighted.validation["log_loss"]
    assert weighted.score == pytest.approx(without.score)
    assert wrong.score > without.score + 0.1
    assert weighted.blind == without.blind == wrong.blind


@pytest.mark.parametrize(
    ("validation", "naming"),
    [
        (lambda x, y: (x, y, np.ones(3)), ["sample_weight"]),
        (lambda x, y: (x, y, -np.ones(len(y))), ["negative"]),
        (lambda x, y: (x,), ["validation", "(X, y)", "sample_weight"]),
        (lambda x, y: (x, y, None, None), ["validation", "(X, y)", "sample_weight"]),
    ],
)
def test_weights_of_validation_rows_that_cannot_be_right(
    validation: Any, naming: list[str]
) -> None:
    with refused(ValueError, naming=naming):
        CascadeForestClassifier(SMOOTH).fit(X, Y, validation=validation(X, Y))


# --- few rows ---


@pytest.mark.parametrize("n_rows", [2, 3, 4, 5])
@pytest.mark.parametrize("cv", [2, 3, 9])
@pytest.mark.parametrize("option", ["nothing", "groups", "times", "weights"])
def test_as_few_rows_as_there_can_be(n_rows: int, cv: int, option: str) -> None:
    x, y = X[:n_rows], np.arange(n_rows) % 2
    options: dict[str, Any] = {}
    if option == "groups":
        options["groups"] = np.arange(n_rows)
    if option == "times":
        options["times"] = np.arange(n_rows)
    if option == "weights":
        options["sample_weight"] = np.arange(n_rows) + 1.0
    model = CascadeForestClassifier([FOREST, MART], cv=cv, max_layers=2, random_state=0)
    if option == "times" and n_rows < 3:
        with refused(ValueError, naming=["times", "3"]):
            model.fit(x, y, **options)
        return
    output = model.fit(x, y, **options).predict_proba(x)
    np.testing.assert_allclose(output.sum(axis=1), 1, atol=1e-6)


def test_a_selector_of_rows_of_one_class_selects_all_columns() -> None:
    y = (np.arange(150) > 60).astype(int)  # the first rows in time have one class
    model = CascadeForestClassifier(
        [FOREST], selector=MartSelector(2, n_estimators=3), cv=3, max_layers=2, random_state=0
    )
    model.fit(X, y, times=np.arange(150))
    assert len(model.cascades_[0].selected) == 2
    assert np.isfinite(model.oof_output_[80:]).all()


# --- few units, odd orders ---


def test_a_temperature_does_not_depend_on_the_order_of_the_rows() -> None:
    # Matched rows, one of class 1 before two of class 0: every third row has the same class.
    truth = np.tile([1, 0, 0], 2 * CALIBRATION_ROWS // 3)
    right = np.random.default_rng(0).random(len(truth)) < 0.8
    of_true_class = np.where(right, 0.6, 0.4)
    probabilities = np.column_stack([1 - of_true_class, of_true_class])
    probabilities[truth == 0] = probabilities[truth == 0, ::-1]
    order = np.random.default_rng(1).permutation(len(truth))
    matched = best_temperature(probabilities, truth, None)
    shuffled = best_temperature(probabilities[order], truth[order], None)
    assert matched == pytest.approx(shuffled, rel=0.1)


def test_few_groups_need_all_cascades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_resampling, "ENOUGH_ROWS", 20)
    monkeypatch.setattr(_resampling, "ENOUGH_OF_RARE_CLASSES", 5)
    rows, target = np.arange(200), Target(np.arange(200) % 2, 2)
    many, few = np.arange(200), np.arange(200) // 20
    assert len(_resampling.nested(rows, target, 5, 0, many).scored) == 1
    assert len(_resampling.nested(rows, target, 5, 0, few).scored) == 5


def test_the_first_cascade_of_times_learns_more_than_a_few_rows() -> None:
    times = np.repeat([0, 1, 2, 3], [4, 96, 100, 100])
    target = Target(np.arange(300) % 2, 2)
    found = _resampling.by_time(np.arange(300), times, 5, target, 0)
    assert min(len(each.training) for each in found.scored) == 100
