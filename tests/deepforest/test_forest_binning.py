"""Bins: exact where they can be, even where not, and the same for rows seen later."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deepforest.forest import BinnedMatrix, Binner
from deepforest.forest.binning import MISSING
from tests.expect import refused


def searched(binner: Binner, values: np.ndarray) -> np.ndarray:
    """The bins of numeric columns, by numpy."""
    columns = []
    for edges, column in zip(binner.edges, values.T, strict=True):
        columns.append(np.where(np.isnan(column), MISSING, np.searchsorted(edges, column)))
    return np.array(columns)


@settings(deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(1, 700),
    levels=st.sampled_from([1, 3, 200, 254, 255, 10**6]),
    dtype=st.sampled_from([np.float32, np.float64]),
    order=st.sampled_from(["C", "F"]),
)
def test_bins_equal_a_search_among_the_edges(
    seed: int, n_rows: int, levels: int, dtype: type, order: str
) -> None:
    rng = np.random.default_rng(seed)
    values = np.array(rng.integers(0, levels, (n_rows, 3)) / 7, dtype, order=order)
    values[rng.random(values.shape) < 0.1] = np.nan
    binner = Binner().fit(values)
    matrix = binner.bin(values, n_jobs=2)
    np.testing.assert_array_equal(matrix.columns, searched(binner, values))
    np.testing.assert_array_equal(matrix.rows, matrix.columns.T)
    np.testing.assert_array_equal(binner.bin_rows(values), matrix.rows)
    assert (matrix.columns[matrix.columns != MISSING] < 254).all()


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=300))
def test_few_distinct_values_keep_apart_in_their_order(numbers: list[float]) -> None:
    values = np.array(numbers)[:, None]
    distinct = np.unique(values)
    if len(distinct) > 254:
        return
    bins = Binner().fit(values).bin(values).columns[0]
    np.testing.assert_array_equal(bins, np.searchsorted(distinct, values[:, 0]))


def test_many_distinct_values_fill_the_bins_evenly() -> None:
    values = np.random.default_rng(0).normal(size=(50_000, 1))
    counts = np.bincount(Binner().fit(values).bin(values).columns[0], minlength=254)[:254]
    assert counts.min() > 0.9 * 50_000 / 254
    assert counts.max() < 1.1 * 50_000 / 254


def test_a_frequent_value_has_a_bin_of_its_own() -> None:
    rng = np.random.default_rng(0)
    values = np.where(rng.random(20_000) < 0.6, 0.0, rng.normal(size=20_000))[:, None]
    binner = Binner().fit(values)
    bins = binner.bin(values).columns[0]
    alone = bins[values[:, 0] == 0.0][0]
    assert (values[bins == alone] == 0.0).all()
    assert binner.n_bins[0] > 200


def test_levels_are_bins_and_rare_ones_share_one() -> None:
    levels = np.repeat(np.arange(400.0), np.where(np.arange(400) < 253, 3, 1))[:, None]
    binner = Binner().fit(levels, [True])
    bins = binner.bin(levels).columns[0]
    np.testing.assert_array_equal(bins, np.minimum(levels[:, 0], 253))
    assert binner.bin(np.array([[1e6], [np.nan], [5.0]])).columns[0].tolist() == [253, MISSING, 5]
    few = Binner().fit(np.array([[3.0], [1.0], [7.0]]), [True])
    assert few.bin(np.array([[1.0], [3.0], [7.0], [2.0], [np.nan]])).columns[0].tolist() == [
        0,
        1,
        2,
        MISSING,
        MISSING,
    ]


def test_appending_leaves_the_first_columns_alone() -> None:
    rng = np.random.default_rng(0)
    first, second, third = rng.random((50, 3)), rng.random((50, 2)), rng.random((50, 2))
    matrix = Binner().fit(first).bin(first, room=2)
    before = matrix.columns[:3].copy()
    for more in (second, third):
        extra = Binner().fit(more)
        matrix.truncate(3).append(extra, more)
        np.testing.assert_array_equal(matrix.columns[:3], before)
        np.testing.assert_array_equal(matrix.columns[3:], searched(extra, more))
        np.testing.assert_array_equal(matrix.rows.T, matrix.columns)
    with refused(ValueError, naming="5 features"):
        matrix.append(extra, third)


def test_thresholds_are_in_the_units_of_the_column() -> None:
    binner = Binner().fit(np.array([[1.0], [2.0], [4.0]]))
    assert [binner.threshold(0, b) for b in range(3)] == [1.5, 3.0, float("inf")]


def test_wrong_numbers_of_bins_are_refused() -> None:
    with refused(ValueError, naming=["max_bins", 300]):
        Binner(300)
    assert BinnedMatrix(3, 2).n_features == 0
