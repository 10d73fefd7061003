"""Feature selection by boosted trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from deepforest import MartSelector
from deepforest.learners import Target
from tests.expect import refused

X, Y = make_classification(
    300, 20, n_informative=3, n_redundant=0, class_sep=1.5, shuffle=False, random_state=0
)


def test_the_features_that_matter_are_kept() -> None:
    selector = MartSelector(3, n_estimators=20, random_state=0).fit(X, Y)
    assert selector.get_support(indices=True).tolist() == [0, 1, 2]
    np.testing.assert_array_equal(selector.transform(X), X[:, :3])
    assert selector.importances_.shape == (20,)
    assert selector.inverse_transform(X[:, :3]).shape == X.shape


@pytest.mark.parametrize("n_features", [1, 5, 20, 99])
def test_as_many_features_are_kept_as_asked_for(n_features: int) -> None:
    assert MartSelector(n_features, n_estimators=5).fit(X, Y).get_support().sum() == min(
        n_features, 20
    )


def test_features_are_kept_up_to_a_share_of_all_importance() -> None:
    selector = MartSelector(share=0.8, n_estimators=20, random_state=0).fit(X, Y)
    kept = selector.get_support()
    gains = selector.importances_
    assert gains[kept].sum() >= 0.8 * gains.sum()
    assert gains[kept].sum() - gains[kept].min() < 0.8 * gains.sum()


@pytest.mark.parametrize(("n_features", "share", "n_kept"), [(1, 0.99, 1), (19, 0.3, None)])
def test_with_number_and_share_the_fewer_are_kept(
    n_features: int, share: float, n_kept: int | None
) -> None:
    kept = (
        MartSelector(n_features, share=share, n_estimators=20, random_state=0)
        .fit(X, Y)
        .get_support()
        .sum()
    )
    alone = MartSelector(share=share, n_estimators=20, random_state=0).fit(X, Y).get_support().sum()
    assert kept == (alone if n_kept is None else n_kept)
    assert kept < 19


def test_without_number_and_share_all_are_kept_that_any_tree_splits_on() -> None:
    constant = np.hstack([X, np.ones((300, 2))])
    selector = MartSelector(n_estimators=20, random_state=0).fit(constant, Y)
    np.testing.assert_array_equal(selector.get_support(), selector.importances_ > 0)
    assert not selector.get_support()[-2:].any()


def test_one_feature_is_kept_even_where_none_matters() -> None:
    assert (
        MartSelector(n_estimators=2).fit(np.ones((30, 3)), np.arange(30) % 2).get_support().sum()
        == 1
    )


def test_importance_is_the_mean_over_the_trees() -> None:
    one, ten = (
        MartSelector(n_estimators=trees, random_state=0).fit(X, Y).importances_.sum()
        for trees in (1, 10)
    )
    assert one / 10 < ten < one  # later trees gain less than the first


@pytest.mark.parametrize(
    ("target", "y"),
    [
        ("auto", make_regression(300, 20, random_state=0)[1]),
        ("numbers", np.arange(300)),
        ("classes", np.arange(300) % 4),
        ("auto", np.array(["a", "b", "c"])[np.arange(300) % 3]),
        ("auto", np.arange(300) % 2 > 0),
    ],
)
def test_targets_may_be_classes_or_numbers(target: str, y: np.ndarray) -> None:
    selector = MartSelector(4, target=target, n_estimators=3, random_state=0).fit(X, y)
    assert selector.transform(X).shape == (300, 4)


def test_missing_values_and_rows_of_weight_zero() -> None:
    x = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    weights = (np.arange(300) < 250).astype(float)
    selector = MartSelector(3, n_estimators=20, random_state=0).fit(x, Y, weights)
    assert selector.get_support(indices=True).tolist() == [0, 1, 2]


def test_all_rows_of_a_small_class_and_some_of_a_large_one_are_drawn() -> None:
    target = Target((np.arange(300) < 30).astype(np.int32), 2)
    weights = (np.arange(300) != 5).astype(float)
    selector = MartSelector(max_samples=90)
    rows = selector._draw(target, weights, 3)
    assert rows[:29].tolist() == [*range(5), *range(6, 30)]
    assert len(rows) == 29 + 90
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(selector._draw(target, weights, 3), rows)
    assert not np.array_equal(selector._draw(target, weights, 4), rows)


@pytest.mark.parametrize("target", ["classes", "numbers"])
def test_few_rows_are_enough_to_find_the_features_that_matter(target: str) -> None:
    x, y = make_classification(
        4000, 20, n_informative=3, n_redundant=0, class_sep=1.5, shuffle=False, random_state=0
    )
    order = np.random.default_rng(0).permutation(4000)
    selector = MartSelector(3, n_estimators=20, max_samples=400, target=target, random_state=0)
    selector.fit(x[order], y[order])
    assert selector.get_support(indices=True).tolist() == [0, 1, 2]


def test_without_a_class_that_is_too_large_all_rows_are_used() -> None:
    every, some = (
        MartSelector(n_estimators=5, max_samples=limit, random_state=0).fit(X, Y).importances_
        for limit in (None, 200)
    )
    np.testing.assert_array_equal(every, some)


def test_threads_do_not_change_the_importances() -> None:
    one, two = (
        MartSelector(n_estimators=5, n_jobs=n_jobs, random_state=0).fit(X, Y).importances_
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


def test_a_column_of_strings_may_be_the_one_that_matters() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    letters = rng.choice(list("abcdefghij"), 400)
    frame = pd.DataFrame({"noise": rng.random(400), "letter": letters})
    y = np.isin(letters, ["b", "d", "f", "h", "j"])
    selector = MartSelector(1, n_estimators=5, random_state=0).fit(frame, y)
    assert selector.get_feature_names_out().tolist() == ["letter"]


def test_the_random_state_makes_it_repeatable() -> None:
    first, second = (
        MartSelector(n_estimators=5, random_state=3).fit(X, Y).importances_ for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def test_it_is_a_step_of_a_pipeline() -> None:
    assert (
        make_pipeline(MartSelector(3, n_estimators=20), LogisticRegression()).fit(X, Y).score(X, Y)
        > 0.75
    )


@pytest.mark.parametrize(
    ("params", "y", "naming"),
    [
        ({"n_features_to_select": 0}, Y, ["n_features_to_select", "0", "from 1"]),
        ({"n_features_to_select": 2.5}, Y, ["n_features_to_select", "2.5"]),
        ({"share": 0.0}, Y, ["share", "0.0", "1"]),
        ({"max_samples": 0}, Y, ["max_samples", "0", "from 2"]),
        ({"target": "colours"}, Y, ["target", "'colours'", "'auto'", "'classes'", "'numbers'"]),
        ({"n_estimators": 0}, Y, ["n_estimators", "mart", "0"]),
        ({}, np.zeros(300), ["y", "one class"]),
        ({}, None, ["requires y"]),
    ],
)
def test_wrong_parameters_say_what_is_wrong(
    params: dict[str, Any], y: Any, naming: list[str]
) -> None:
    with refused(ValueError, naming=naming):
        MartSelector(**params).fit(X, y)


def test_parameters_are_accepted_under_their_old_names() -> None:
    with pytest.warns(FutureWarning, match="n_features_to_select"):
        selector = MartSelector(n_features=3)
    with pytest.warns(FutureWarning, match="n_estimators"):
        selector.set_params(trees=20)
    with pytest.warns(FutureWarning, match="num_leaves"):
        make_pipeline(selector).set_params(martselector__leaves=7)
    params = selector.get_params()
    assert (params["n_features_to_select"], params["n_estimators"], params["num_leaves"]) == (
        3,
        20,
        7,
    )
    assert not params.keys() & {"n_features", "trees", "leaves"}
    with refused(TypeError, naming=["trees", "n_estimators"]):
        MartSelector(trees=3, n_estimators=4)
