"""Contributions of columns add up to the prediction, and are those of the definition."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    HistForestClassifier,
    HistForestRegressor,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
    preset,
)
from deepforest.arithmetic import class_probabilities, temper
from deepforest.contributions import (
    INCOHERENT,
    passed_back,
    through_normalising,
    through_softmax,
    through_tempering,
)
from deepforest.forest import Binner, Forest, ForestSettings, grow_forest
from deepforest.persistence import Pack, read_model, write_model
from tests.deepforest import forest_reference as reference
from tests.deepforest.scripted_scores import keeps_every_layer
from tests.expect import refused

CONSTANT = 5
"""A column that no tree can cut."""


@cache
def data(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with missing values, a column of categories and a constant one."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(240, 6))
    values[:, 3] = rng.integers(0, 5, len(values))
    values[rng.random(values.shape) < 0.1] = np.nan
    values[:, CONSTANT] = 1.0
    signal = np.nan_to_num(values[:, 0] + values[:, 1] * values[:, 2]) + (values[:, 3] == 2)
    if n_classes == 0:
        return values, 100 * signal
    return values, np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))


# --- one forest ---


def shapley_values(forest: Forest, tree: int, row: np.ndarray) -> np.ndarray:
    """Return the Shapley values of a tree by their definition, features × outputs."""
    nodes = reference.tree_nodes(forest, tree)
    is_leaf = (forest.nodes >> np.uint64(41)) == reference.LEAF
    start = forest.roots[tree]
    counts = dict(
        zip(
            np.flatnonzero(is_leaf[start : forest.roots[tree + 1]]).tolist(),
            forest.leaf_rows[np.cumsum(is_leaf)[start] - is_leaf[start] :].tolist(),
            strict=False,
        )
    )

    def rows_at(at: int) -> int:
        node = nodes[at]
        return counts[at] if node.feature < 0 else rows_at(node.value) + rows_at(node.value + 1)

    def value(at: int, known: tuple[int, ...]) -> np.ndarray:
        node = nodes[at]
        if node.feature < 0:
            return reference.leaf_vector(forest, node)
        if node.feature in known:
            left = reference.goes_left(int(row[node.feature]), node)
            return value(node.value + (not left), known)
        both = [rows_at(child) * value(child, known) for child in (node.value, node.value + 1)]
        return (both[0] + both[1]) / rows_at(at)

    n = forest.n_features
    result = np.zeros((n, forest.n_outputs))
    for feature in range(n):
        others = [other for other in range(n) if other != feature]
        for size in range(n):
            weight = factorial(size) * factorial(n - 1 - size) / factorial(n)
            for known in combinations(others, size):
                result[feature] += weight * (value(0, (*known, feature)) - value(0, known))
    return result


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("splitter", ["best", "random", "completely_random"])
def test_a_forest_gives_the_shapley_values_of_its_trees(n_classes: int, splitter: str) -> None:
    values, target = data(n_classes)
    matrix = Binner().fit(values[:60, :4]).bin(values[:60, :4])
    settings = ForestSettings(n_trees=3, splitter=splitter, max_depth=6, max_features=None)
    forest = grow_forest(matrix, target[:60], settings, n_classes=n_classes).forest
    rows = matrix.rows[:5]
    found = forest.contributions(rows)
    for row, contributions in zip(rows, found, strict=True):
        by_tree = [shapley_values(forest, tree, row) for tree in range(forest.n_trees)]
        assert np.allclose(contributions[:-1], np.mean(by_tree, axis=0), rtol=0, atol=1e-9)
    assert np.allclose(found.sum(axis=1), forest.predict(rows), rtol=1e-12)


def test_the_base_value_of_a_forest_is_its_mean_prediction_for_the_training_rows() -> None:
    values, target = data(2)
    forest = HistForestClassifier(5, bootstrap=False, max_depth=4, random_state=0)
    forest.fit(values, target)
    base = forest.predict_contributions(values)[:, -1]
    assert np.allclose(base, forest.predict_proba(values).mean(axis=0))


@pytest.mark.parametrize(
    ("estimator", "n_classes"), [(HistForestClassifier, 3), (HistForestRegressor, 0)]
)
def test_contributions_of_one_forest(estimator: Any, n_classes: int, tmp_path: Path) -> None:
    values, target = data(n_classes)
    model = estimator(20, categorical_features=[3], random_state=0).fit(values, target)
    found = model.predict_contributions(values)
    predicted = model.predict_proba(values) if n_classes else model.predict(values)[:, None]
    assert np.allclose(found.sum(axis=1), predicted, rtol=1e-9, atol=1e-9)
    assert not found[:, CONSTANT].any()
    model.save(tmp_path / "forest")
    again = estimator.load(tmp_path / "forest").predict_contributions(values)
    assert np.array_equal(found, again)


def test_a_forest_without_counted_rows_gives_all_leaves_the_same_weight() -> None:
    # As those of earlier versions, which did not save how many rows a leaf has.
    values, target = data(3)
    matrix = Binner().fit(values).bin(values)
    forest = grow_forest(matrix, target, ForestSettings(n_trees=5), n_classes=3).forest
    uncounted = replace(forest, leaf_rows=forest.leaf_rows[:0])
    found = uncounted.contributions(matrix.rows)
    assert np.allclose(found.sum(axis=1), forest.predict(matrix.rows))
    assert not np.allclose(found[0, -1], forest.contributions(matrix.rows)[0, -1])


def test_a_saved_forest_without_counted_rows_is_loaded(tmp_path: Path) -> None:
    values, target = data(2)
    model = HistForestClassifier(3, random_state=0).fit(values, target)
    model.save(tmp_path / "new")
    description, packs = read_model(tmp_path / "new")
    kept = {name: array for name, array in packs["forest"].arrays.items() if name != "leaf_rows"}
    write_model(tmp_path / "old", description, {"forest": Pack(arrays=kept)})
    found = HistForestClassifier.load(tmp_path / "old").predict_contributions(values)
    assert np.allclose(found.sum(axis=1), model.predict_proba(values))


# --- cascades ---

LEARNERS = [
    {"kind": "random_forest", "n_estimators": 8},
    {"kind": "completely_random_forest", "n_estimators": 8},
    {"kind": "mart", "n_estimators": 8},
]
GROWTH = {"cv": 3, "max_layers": 3, "categorical_features": [3], "random_state": 0}
MDDF = {"depth_step": None, "patience": 3}
CASCADES: dict[str, Any] = {
    "gcforest": (CascadeForestClassifier, {}),
    "two mart": (CascadeForestClassifier, {"learners": [{**LEARNERS[2], "count": 2}]}),
    "pass on the output": (CascadeForestClassifier, {"pass_on": "output"}),
    "stack": (CascadeForestClassifier, {"augment": "stack"}),
    "out of bag": (CascadeForestClassifier, {"class_vectors": "oob"}),
    "selector": (CascadeForestClassifier, {"selector": MartSelector(3)}),
    "per layer": (CascadeForestClassifier, {"resampling": "per_layer"}),
    "class weights": (CascadeForestClassifier, {"class_weight": "balanced"}),
    "mddf": (MarginForestClassifier, MDDF),
    "mddf, one alpha at a time": (MarginForestClassifier, {**MDDF, "joint_alphas": False}),
    "mddf np": (MarginForestClassifier, {**MDDF, "augment": "none"}),
    "mddf st": (MarginForestClassifier, {**MDDF, "augment": "stack"}),
    "screened": (ScreenedForestClassifier, {"error_share": 0.9}),
    "regressor": (CascadeForestRegressor, {}),
    "regressor, weighted": (CascadeForestRegressor, {"combine": "weighted"}),
}


@cache
def cascade(name: str, n_classes: int) -> Any:
    """Return a fitted cascade of two or three layers."""
    kind, params = CASCADES[name]
    params = {"learners": LEARNERS, **GROWTH, "scoring": keeps_every_layer(), **params}
    values, target = data(n_classes)
    model = kind(**params).fit(values, target)
    assert model.n_layers_ > 1
    return model


CASES = [(name, 0) for name in CASCADES if name.startswith("regressor")]
CASES += [(name, n) for name in CASCADES if not name.startswith("regressor") for n in (2, 3)]


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_base_and_contributions_add_up_to_the_prediction(name: str, n_classes: int) -> None:
    model, (values, _) = cascade(name, n_classes), data(n_classes)
    found = model.predict_contributions(values)
    predicted = model.predict_proba(values) if n_classes else model.predict(values)[:, None]
    scale = np.abs(predicted).max()
    assert found.shape == (len(values), values.shape[1] + 1, predicted.shape[1])
    assert np.abs(found.sum(axis=1) - predicted).max() < 1e-6 * scale
    assert not found[:, CONSTANT].any()
    if n_classes:  # what is added to one class is taken from others
        assert np.abs(found[:, :-1].sum(axis=2)).max() < 1e-6


@pytest.mark.parametrize(("name", "n_classes"), CASES)
def test_contributions_after_each_layer_add_up_too(name: str, n_classes: int) -> None:
    model, (values, _) = cascade(name, n_classes), data(n_classes)
    outputs = list(model._staged_predict(values[:40]))
    stages = list(model.staged_contributions(values[:40]))
    assert len(stages) == len(outputs)
    for stage, output in zip(stages, outputs, strict=True):
        assert np.abs(stage.sum(axis=1) - output).max() < 1e-6 * np.abs(output).max()
    if len(stages) == model.n_layers_:  # else all rows left early, and the last layer calibrates
        assert np.allclose(stages[-1], model.predict_contributions(values[:40]))


@pytest.mark.parametrize("name", ["gcforest", "mddf", "screened", "selector"])
def test_a_row_has_the_same_contributions_alone_and_in_a_batch(name: str) -> None:
    model, (values, _) = cascade(name, 3), data(3)
    together = model.predict_contributions(values[:9])
    alone = [model.predict_contributions(row[None])[0] for row in values[:9]]
    assert np.allclose(together, alone, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["gcforest", "mddf", "screened", "selector"])
def test_a_loaded_cascade_explains_the_same(name: str, tmp_path: Path) -> None:
    model, (values, _) = cascade(name, 3), data(3)
    model = copy(model).set_params(scoring="log_loss")  # a function cannot be saved
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    found = model.predict_contributions(values[:9])
    assert np.array_equal(again.predict_contributions(values[:9]), found)


def test_rows_that_leave_early_keep_the_contributions_of_their_layer() -> None:
    model, (values, _) = cascade("screened", 2), data(2)
    left_at = model.trace(values).left_at
    assert len(set(left_at)) > 1
    stages = list(model.staged_contributions(values))
    early = left_at == 1
    # Each layer has its own calibration, so that only the columns can be compared.
    first, last = stages[0][early, :-1, 1], stages[-1][early, :-1, 1]
    assert np.array_equal(np.sign(first), np.sign(last))


def test_most_of_a_prediction_is_due_to_the_column_that_decides() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 4))
    target = (values[:, 2] > 0).astype(int)
    params = {**GROWTH, "categorical_features": None, "scoring": keeps_every_layer()}
    model = CascadeForestClassifier(LEARNERS, **params).fit(values, target)
    assert model.n_layers_ > 1
    found = model.predict_contributions(values)[:, :-1, 1]
    sizes = np.abs(found).mean(axis=0)
    assert sizes[2] > 5 * np.delete(sizes, 2).max()
    assert (np.sign(found[:, 2]) == np.where(target, 1, -1)).mean() > 0.98


def test_data_frames_with_categories_are_explained_by_column() -> None:
    values, target = data(2)
    frame = pd.DataFrame(values[:, :3], columns=["a", "b", "c"])
    frame["level"] = pd.Categorical(
        np.array(list("uvwxy"))[np.nan_to_num(values[:, 3]).astype(int)]
    )
    model = CascadeForestClassifier(LEARNERS, max_layers=2, cv=3, random_state=0).fit(frame, target)
    found = model.predict_contributions(frame.iloc[:10])
    assert found.shape == (10, 5, 2)
    assert np.allclose(found.sum(axis=1), model.predict_proba(frame.iloc[:10]), atol=1e-6)


def test_no_rows_give_no_contributions() -> None:
    model, (values, _) = cascade("gcforest", 2), data(2)
    with refused(ValueError, naming="0 sample"):
        model.predict_contributions(values[:0])


def test_a_scikit_learn_learner_is_refused_by_name() -> None:
    values, target = data(2)
    values = np.nan_to_num(values)
    model = CascadeForestClassifier([LogisticRegression()], max_layers=1, cv=2, random_state=0)
    model.fit(values, target)
    with refused(ValueError, naming=["LogisticRegression", "forests", "mart"]):
        model.predict_contributions(values[:3])


def test_rows_of_another_width_are_refused() -> None:
    with refused(ValueError, naming=["2 features", "6 features"]):
        cascade("gcforest", 2).predict_contributions(np.zeros((3, 2)))


def test_the_mart_cascade_of_the_paper_is_explained() -> None:
    values, target = data(2)
    model = CascadeForestClassifier(**{**preset("mart_cascade").get_params(), "max_layers": 2})
    model.set_params(random_state=0, cv=3).fit(values, target)
    found = model.predict_contributions(values[:5])
    assert np.abs(found.sum(axis=1) - model.predict_proba(values[:5])).max() < 1e-6


# --- the arithmetic ---

SCORES = st.floats(-40, 40, allow_nan=False)


def parts_of(n_outputs: int, elements: Any = SCORES) -> Any:
    return arrays(np.float64, (4, 4, n_outputs), elements=elements)


@given(st.sampled_from([1, 2, 3, 5]).flatmap(parts_of))
def test_contributions_stay_exact_through_a_softmax(parts: np.ndarray) -> None:
    result = through_softmax(parts)
    assert np.abs(result.sum(axis=1) - class_probabilities(parts.sum(axis=1))).max() < 1e-9
    assert np.allclose(result[:, -1], class_probabilities(parts[:, -1]), atol=1e-12)
    # No slope of a softmax is above 1 / 4, and each contribution is a sum over the scores.
    limit = np.abs(parts[:, :-1]).sum(axis=2, keepdims=True) / 2 + 1e-6
    assert (np.abs(result[:, :-1]) <= limit).all()


@given(
    st.integers(2, 4).flatmap(lambda n: parts_of(n, st.floats(0, 1))),
    st.floats(0.1, 20),
)
def test_contributions_stay_exact_through_a_calibration(
    parts: np.ndarray, temperature: float
) -> None:
    parts = parts + 1e-3
    parts /= parts.sum(axis=(1, 2), keepdims=True)
    after = temper(parts.sum(axis=1), temperature)
    assert np.abs(through_tempering(parts, temperature).sum(axis=1) - after).max() < 1e-9


@given(st.integers(2, 4).flatmap(lambda n: parts_of(n, st.floats(0, 1))))
def test_contributions_stay_exact_when_scores_are_divided_by_their_sum(parts: np.ndarray) -> None:
    parts = parts + 1e-3
    output = parts.sum(axis=1)
    after = output / output.sum(axis=1, keepdims=True)
    assert np.abs(through_normalising(parts).sum(axis=1) - after).max() < 1e-9


SMALL = st.floats(-1, 1).map(lambda x: 0.0 if abs(x) < 1e-12 else x)


@given(parts_of(2, SMALL), arrays(np.float64, (4, 2), elements=SMALL))
def test_what_is_passed_back_has_the_same_sum_and_is_bounded(
    parts: np.ndarray, total: np.ndarray
) -> None:
    result = passed_back(total, parts)
    assert np.abs(result.sum(axis=1) - total).max() < 1e-12
    limit = np.abs(total) * (1 + 1 / (2 * INCOHERENT)) + 1e-12
    assert (np.abs(result) <= limit[:, None]).all()


def test_contributions_that_cancel_out_are_divided_by_size() -> None:
    parts = np.array([[[0.3], [-0.3], [0.0], [0.5]]])
    assert np.allclose(passed_back(np.array([[0.2]]), parts)[0, :, 0], [0.1, 0.1, 0, 0])


def test_contributions_in_one_direction_are_rescaled() -> None:
    parts = np.array([[[0.3], [0.1], [0.0], [0.5]]])
    result = passed_back(np.array([[-0.2]]), parts)[0, :, 0]
    assert np.allclose(result, [-0.15, -0.05, 0, 0])


def test_what_no_column_contributes_to_goes_to_the_base_value() -> None:
    parts = np.array([[[0.0], [0.0], [0.5]]])
    assert np.allclose(passed_back(np.array([[0.2]]), parts)[0, :, 0], [0, 0, 0.2])
