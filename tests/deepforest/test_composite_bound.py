"""The bound by which composite trees choose degrees, against values computed by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from deepforest.composite.bound import (
    best_degrees,
    best_sequence,
    bound,
    complexity,
    leaf_costs,
    log_growth,
    vc_dimension,
)

DEGREES = np.arange(1, 10)


def random_leaves(seed: int, n_leaves: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Rows, rows classified right, and A_k of leaves for degrees 1 to 9, and all rows."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(20, 60, n_leaves)
    right = rng.integers(0, rows[:, None] + 1, (n_leaves, 9))
    n_rows = int(rows.sum())
    complexities = [
        [complexity(2, vc_dimension(degree, 6), n_rows, 6, 2) for degree in DEGREES]
    ] * n_leaves
    return rows, right, np.array(complexities), n_rows


def test_a_tree_of_two_leaves_by_hand() -> None:
    # m = 100 rows, F = 4 columns, r = 2 candidates, c = 3 classes, γ = 0.001; both leaves at
    # depth 1 and linear, so v = C(5, 1) = 5.
    of_questions = math.sqrt(2 * 1 * (2 * math.log(math.e * 4 / 2) + math.log(2 * 100 * 2)) / 100)
    of_classifier = math.sqrt(2 * 5 * math.log(math.e * 100 / 5) / 100)
    a = complexity(1, vc_dimension(1, 4), 100, 4, 2)
    assert a == pytest.approx(of_questions + of_classifier)
    assert a == pytest.approx(0.433076 + 0.632118, abs=1e-5)
    # The first leaf has 60 rows, 50 of them right; the second 40, and only one right: saturated.
    costs = leaf_costs([60, 40], [50, 1], [a, a], gamma=0.001, n_classes=3, n_rows=100)
    np.testing.assert_allclose(costs, [10 + 8 * 3 * 0.001 * a * 100, 40])
    assert bound(costs, 100) == pytest.approx(0.1 + 0.024 * a + 0.4)


def test_two_classes_count_as_two() -> None:
    cost = leaf_costs(10, 10, 0.5, gamma=0.01, n_classes=2, n_rows=100)
    assert cost == pytest.approx(16 * 0.01 * 0.5 * 100)


@pytest.mark.parametrize("gamma", [1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_degree_of_each_leaf_is_the_minimum_over_all_sequences(
    gamma: float, seed: int
) -> None:
    rows, right, complexities, n_rows = random_leaves(seed)
    costs = leaf_costs(rows[:, None], right, complexities, gamma, 3, n_rows)
    columns = best_degrees(costs, np.tile(DEGREES, (2, 1)))
    least = min(
        bound(costs[[0, 1], list(sequence)], n_rows)
        for sequence in itertools.product(range(9), repeat=2)
    )
    assert bound(costs[[0, 1], columns], n_rows) == pytest.approx(least, abs=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_ten_sequences_never_have_a_smaller_bound_than_all(seed: int) -> None:
    rows, right, complexities, n_rows = random_leaves(seed, n_leaves=5)
    degrees = np.tile(DEGREES, (5, 1))
    sequences = np.random.default_rng(seed).integers(9, size=(10, 5))
    leaves = np.arange(5)
    for gamma in (1e-6, 1e-4, 1e-2, 1.0):
        costs = leaf_costs(rows[:, None], right, complexities, gamma, 4, n_rows)
        exact = bound(costs[leaves, best_degrees(costs, degrees)], n_rows)
        of_ten = bound(costs[leaves, best_sequence(costs, degrees, sequences)], n_rows)
        assert exact <= of_ten
        assert of_ten == min(bound(costs[leaves, each], n_rows) for each in sequences)


def test_where_the_bound_is_saturated_the_smallest_degrees_win() -> None:
    rows, right, complexities, n_rows = random_leaves(0, n_leaves=7)
    costs = leaf_costs(rows[:, None], right, complexities, 1.0, 3, n_rows)
    degrees = np.tile(DEGREES, (7, 1))
    # Exactly 1, for every sequence: rounding must not decide.
    assert (costs.sum(axis=0) == n_rows).all()
    assert best_degrees(costs, degrees).tolist() == [0] * 7
    sequences = np.random.default_rng(1).integers(9, size=(10, 7))
    chosen = best_sequence(costs, degrees, sequences)
    assert chosen.sum() == sequences.sum(axis=1).min()


def test_without_a_penalty_the_least_training_error_wins() -> None:
    rows, right, complexities, n_rows = random_leaves(3)
    costs = leaf_costs(rows[:, None], right, complexities, 1e-12, 3, n_rows)
    columns = best_degrees(costs, np.tile(DEGREES, (2, 1)))
    assert right[[0, 1], columns].tolist() == right.max(axis=1).tolist()


def test_growth_is_finite_and_rises_with_the_dimension_beyond_the_rows() -> None:
    dimensions = [0, 1, 10, 99, 100, 101, 10**6, vc_dimension(9, 256)]
    growth = [log_growth(dimension, 100) for dimension in dimensions]
    assert growth[0] == 0
    assert growth == sorted(growth)
    # No more than the 2^100 labellings of 100 rows.
    assert growth[-3:] == [pytest.approx(100 * math.log(2))] * 3


def test_dimensions_are_whole_numbers_of_any_size() -> None:
    assert [vc_dimension(degree, 16) for degree in (0, 1, 2, 3)] == [0, 17, 153, 969]
    assert vc_dimension(3, 180) == 1_004_731
    assert vc_dimension(2, 16, n_classes=10, vc="pairs") == 9 * 153
    assert vc_dimension(9, 1000) == math.comb(1009, 9)
