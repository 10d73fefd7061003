"""How much each learner has to say, against numerical optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from deepforest.cascade import blend_weights, mixture_weights


def likelihood(weights: np.ndarray, given: np.ndarray, row_weight: np.ndarray) -> float:
    return float(np.average(np.log(given @ weights), weights=row_weight))


def on_the_simplex(free: np.ndarray) -> np.ndarray:
    shares = np.exp(free - free.max())
    return shares / shares.sum()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("weighted", [False, True])
def test_no_other_mixture_is_more_likely(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    given = np.clip(rng.beta(2, 1, (200, 3)) * [1.0, 0.8, 0.6], 0.01, 1)
    row_weight = rng.random(200) if weighted else None
    counted = np.ones(200) if row_weight is None else row_weight
    ours = mixture_weights(given, row_weight)
    found = minimize(lambda free: -likelihood(on_the_simplex(free), given, counted), np.zeros(3))
    assert ours.sum() == pytest.approx(1)
    assert (ours >= 0).all()
    assert likelihood(ours, given, counted) >= -found.fun - 1e-3


def test_a_learner_that_is_always_surer_of_the_true_class_says_nearly_all() -> None:
    weights = mixture_weights(np.tile([0.9, 0.3], (50, 1)))
    assert weights[0] > 0.99


def test_learners_that_say_the_same_have_the_same_weight() -> None:
    np.testing.assert_allclose(mixture_weights(np.full((10, 4), 0.6)), 0.25)


def test_one_row_that_a_learner_was_sure_of_and_wrong_does_not_silence_it() -> None:
    given = np.tile([0.9, 0.5], (200, 1))
    given[0] = [0.0, 0.5]
    assert mixture_weights(given)[0] > 0.9


def test_rows_of_weight_zero_do_not_count_in_a_mixture() -> None:
    rng = np.random.default_rng(0)
    given = rng.random((60, 3))
    kept = np.arange(60) < 40
    np.testing.assert_allclose(
        mixture_weights(given, kept.astype(float)), mixture_weights(given[kept]), atol=1e-9
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_a_blend_is_at_least_as_near_as_the_best_single_learner(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(5, 2, 200)
    predicted = truth[:, None] + rng.normal(0, [0.5, 1.0, 2.0], (200, 3))
    row_weight = rng.random(200) if weighted else None
    weights = blend_weights(predicted, truth, row_weight)

    def error(by: np.ndarray) -> float:
        return float(np.average((predicted @ by - truth) ** 2, weights=row_weight))

    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    assert error(weights) <= min(error(single) for single in np.eye(3))
    assert weights[0] > weights[1] > weights[2]


@pytest.mark.parametrize("seed", range(5))
def test_no_other_blend_is_nearer_not_even_of_learners_that_are_too_cautious(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(5, 2, 200)
    predicted = (
        5
        + (truth[:, None] - 5) * rng.uniform(0.3, 1.1, 3)
        + rng.normal(0, [0.5, 1.0, 2.0], (200, 3))
    )

    def error(weights: np.ndarray) -> float:
        return float(((predicted @ weights - truth) ** 2).mean())

    found = minimize(lambda free: error(on_the_simplex(free)), np.zeros(3))
    assert error(blend_weights(predicted, truth)) <= found.fun + 1e-6


def test_a_learner_that_is_always_right_has_all_the_say() -> None:
    truth = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        blend_weights(np.column_stack([truth, truth[::-1]]), truth), [1, 0], atol=1e-9
    )


def test_a_blend_does_not_depend_on_where_zero_is() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 1, 100)
    predicted = truth[:, None] * [0.5, 0.9] + rng.normal(0, 0.3, (100, 2))
    np.testing.assert_allclose(
        blend_weights(predicted, truth), blend_weights(predicted + 1000, truth + 1000), atol=1e-6
    )


def test_rows_of_weight_zero_do_not_count_in_a_blend() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(3, 1, 100)
    predicted = truth[:, None] + rng.normal(0, [0.5, 0.7], (100, 2))
    kept = np.arange(100) < 60
    truth[~kept] = 1000.0
    weights = blend_weights(predicted, truth, kept.astype(float))
    np.testing.assert_allclose(weights, blend_weights(predicted[kept], truth[kept]), atol=1e-9)
