"""Margins and their loss, against hand-made cases and a numerical minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import minimize_scalar

from deepforest.margins import best_alpha, effective_size, margin_loss, margin_ratio, margins, row_weights


def test_the_margin_is_the_lead_over_the_best_other_class() -> None:
    scores = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    np.testing.assert_allclose(margins(scores, np.array([0, 1, 2])), [0.2, -0.2, 0.4])


@pytest.mark.parametrize(
    ("margin", "cost"), [(0.8, 0.0), (0.0, 1.0), (0.4, 0.25), (-0.8, 4.0), (1.0, 0.05), (0.9, 0.0125)]
)
def test_the_loss_is_the_papers(margin: float, cost: float) -> None:
    assert margin_loss(np.array([margin]), gamma=0.8, mu=0.05)[0] == pytest.approx(cost)


def test_equal_margins_are_brought_to_the_target_exactly() -> None:
    assert best_alpha(np.zeros(5), np.full(5, 0.4), gamma=0.8, mu=0.1) == pytest.approx(2.0)


def test_margins_of_zero_leave_nothing_to_choose() -> None:
    assert best_alpha(np.array([0.1, 0.2]), np.zeros(2), gamma=0.8, mu=0.1) == 0.0


numbers = st.floats(-1, 1).map(lambda value: round(value, 6))


@settings(max_examples=300, deadline=None)
@given(
    before=arrays.arrays(float, st.shared(st.integers(1, 40), key="rows"), elements=numbers),
    margin=arrays.arrays(float, st.shared(st.integers(1, 40), key="rows"), elements=numbers),
    gamma=st.sampled_from([0.5, 0.7, 0.8, 0.95]),
    mu=st.sampled_from([0.01, 0.05, 0.1, 1.0]),
)
def test_no_other_alpha_is_better(before: np.ndarray, margin: np.ndarray, gamma: float, mu: float) -> None:
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
