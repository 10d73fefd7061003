"""Margins and their loss, against hand-made cases and a numerical minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import minimize, minimize_scalar

from deepforest.margins import (
    best_alpha,
    best_alphas,
    effective_size,
    margin_loss,
    margin_ratio,
    margins,
    row_weights,
)


def test_the_margin_is_the_lead_over_the_best_other_class() -> None:
    scores = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    np.testing.assert_allclose(margins(scores, np.array([0, 1, 2])), [0.2, -0.2, 0.4])


@pytest.mark.parametrize(
    ("margin", "cost"),
    [(0.8, 0.0), (0.0, 1.0), (0.4, 0.25), (-0.8, 4.0), (1.0, 0.05), (0.9, 0.0125)],
)
def test_the_loss_is_the_papers(margin: float, cost: float) -> None:
    assert margin_loss(np.array([margin]), gamma=0.8, mu=0.05)[0] == pytest.approx(cost)


def test_equal_margins_are_brought_to_the_target_exactly() -> None:
    assert best_alpha(np.zeros(5), np.full(5, 0.4), gamma=0.8, mu=0.1) == pytest.approx(2.0)


def test_margins_of_zero_leave_nothing_to_choose() -> None:
    assert best_alpha(np.array([0.1, 0.2]), np.zeros(2), gamma=0.8, mu=0.1) == 0.0


numbers = st.floats(-1, 1).map(lambda value: round(value, 6))


@settings(deadline=None)
@given(
    before=arrays.arrays(float, st.shared(st.integers(1, 40), key="rows"), elements=numbers),
    margin=arrays.arrays(float, st.shared(st.integers(1, 40), key="rows"), elements=numbers),
    gamma=st.sampled_from([0.5, 0.7, 0.8, 0.95]),
    mu=st.sampled_from([0.01, 0.05, 0.1, 1.0]),
)
def test_no_other_alpha_is_better(
    before: np.ndarray, margin: np.ndarray, gamma: float, mu: float
) -> None:
    def cost(alpha: float) -> float:
        return float(margin_loss(before + alpha * margin, gamma, mu).mean())

    ours = best_alpha(before, margin, gamma, mu)
    bound = abs(ours) * 2 + 10
    found = minimize_scalar(cost, bounds=(-bound, bound), method="bounded", options={"xatol": 1e-9})
    assert cost(ours) <= found.fun * (1 + 1e-9) + 1e-12


def test_rows_that_cost_more_weigh_more() -> None:
    weights = row_weights(np.array([-0.5, 0.0, 0.8]), gamma=0.8, mu=0.1)
    assert weights.sum() == pytest.approx(1)
    assert weights[0] > weights[1] > weights[2] == 0


def test_rows_that_all_cost_nothing_weigh_the_same() -> None:
    np.testing.assert_allclose(row_weights(np.full(4, 0.8), gamma=0.8, mu=0.1), 0.25)


def test_the_ratio_is_spread_over_mean_and_says_nothing_below_zero() -> None:
    assert margin_ratio(np.array([0.2, 0.6])) == pytest.approx(0.5)
    assert margin_ratio(np.array([-0.2, 0.1])) is None


def test_equal_weights_count_every_row() -> None:
    assert effective_size(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_size(np.array([1.0, 0.0, 0.0])) == pytest.approx(1)


def random_margins(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n_rows, n_layers = int(rng.integers(20, 200)), int(rng.integers(1, 6))
    common = rng.normal(0.3, 0.4, (n_rows, 1))  # layers of a cascade err on the same rows
    return np.clip(common + rng.normal(0, 0.2, (n_rows, n_layers)), -1, 1)


@pytest.mark.parametrize("seed", range(30))
def test_no_other_alphas_are_better(seed: int) -> None:
    by_layer = random_margins(seed)
    gamma, mu = [(0.8, 0.05), (0.95, 0.01), (0.5, 1.0)][seed % 3]

    def cost(alphas: np.ndarray) -> float:
        return float(margin_loss(by_layer @ alphas, gamma, mu).mean())

    ours = best_alphas(by_layer, gamma, mu)
    assert (ours >= 0).all()
    n_layers = by_layer.shape[1]
    for start in (np.zeros(n_layers), np.full(n_layers, 1 / n_layers), ours):
        found = minimize(
            cost, start, bounds=[(0, None)] * n_layers, method="L-BFGS-B", options={"ftol": 1e-14}
        )
        assert cost(ours) <= found.fun * (1 + 1e-8) + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_alphas_do_not_depend_on_where_the_search_starts(seed: int) -> None:
    by_layer = random_margins(seed)
    start = np.random.default_rng(seed).random(by_layer.shape[1])
    np.testing.assert_allclose(
        best_alphas(by_layer, 0.8, 0.1, start), best_alphas(by_layer, 0.8, 0.1), atol=1e-6
    )


@pytest.mark.parametrize("seed", range(10))
def test_one_layer_alone_has_the_alpha_that_is_best_for_it(seed: int) -> None:
    margin = random_margins(seed)[:, 0]
    wanted = max(best_alpha(np.zeros(len(margin)), margin, 0.8, 0.05), 0.0)
    assert best_alphas(margin[:, None], 0.8, 0.05)[0] == pytest.approx(wanted, rel=1e-7)


@pytest.mark.parametrize("seed", range(20))
def test_all_alphas_together_are_never_worse_than_one_after_the_other(seed: int) -> None:
    by_layer = random_margins(seed)
    stagewise: list[float] = []
    for layer in range(by_layer.shape[1]):
        before = by_layer[:, :layer] @ np.array(stagewise)
        stagewise.append(max(best_alpha(before, by_layer[:, layer], 0.8, 0.05), 0.0))
    together = best_alphas(by_layer, 0.8, 0.05, np.append(stagewise[:-1], 0.0))
    cost_together, cost_stagewise = (
        margin_loss(by_layer @ np.asarray(alphas), 0.8, 0.05).mean()
        for alphas in (together, stagewise)
    )
    assert cost_together <= cost_stagewise + 1e-12


@pytest.mark.parametrize(
    "by_layer",
    [
        np.zeros((5, 3)),
        np.full((5, 2), -0.4),
        np.full((1, 4), 0.3),
        np.column_stack([np.linspace(-1, 1, 9)] * 2),
    ],
    ids=["no margins", "only wrong rows", "one row", "the same layer twice"],
)
def test_odd_margins_have_alphas(by_layer: np.ndarray) -> None:
    alphas = best_alphas(by_layer, 0.8, 0.05)
    assert np.isfinite(alphas).all()
    assert (alphas >= 0).all()
