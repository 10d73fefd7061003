"""Convert features to bins: one byte per value, shared by all trees, folds, forests and layers.

- ``Binner``        learns the bins of the columns of a matrix and bins rows, also new ones
- ``BinnedMatrix``  the binned features, to which a cascade appends the class vectors of a layer

The rules:

- A numeric column with at most ``max_bins`` (254) distinct values is binned exactly: one bin per
  value, edges midway. Any other gets bins of about equal numbers of rows; a value that is more
  frequent than that has its own bin. The quantiles come from at most 200,000 rows.
- A categorical column has one bin per level, in ascending order of the levels. With more than
  ``max_bins`` levels the most frequent ones have their own bin; all others, and levels never seen,
  share the last bin.
- Missing values (NaN) are in bin 255, and so are levels never seen if no bin is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import large_arrays
from ._compile import kernel
from .kernels import MISSING

Array = npt.NDArray[Any]

MAX_BINS = 254
SAMPLE_ROWS = 200_000
BLOCK_ROWS = 512  # rows that are binned at a time: their values stay in the cache


@kernel
def _quantile_edges(values: Array, max_bins: int, edges: Array) -> int:
    """Write edges between bins of about equal size over sorted ``values``; return their number."""
    n = values.shape[0]
    n_edges, in_bin, position = 0, 0, 0
    while position < n:
        end = position + 1
        while end < n and values[end] == values[position]:
            end += 1
        same = end - position
        # The rows that are left, shared evenly among the bins that are left: a frequent value that
        # took more than its share makes the bins after it smaller.
        wanted = (n - position + in_bin) / (max_bins - n_edges)
        # A new bin starts if this value would miss the wanted size by more than it is missed now.
        if (
            in_bin > 0
            and n_edges < max_bins - 1
            and (in_bin >= wanted or in_bin + same - wanted > wanted - in_bin)
        ):
            low, high = values[position - 1], values[position]
            middle = low + (high - low) / 2
            # Between two neighbouring floats there is no middle: it rounds to one of them.
            edges[n_edges] = middle if low <= middle < high else low
            n_edges += 1
            in_bin = 0
        in_bin += same
        position = end
    return n_edges


@kernel
def _bin_block(
    values: Array,
    row_stride: int,
    column_stride: int,
    first: int,
    last: int,
    table: Array,
    n_edges: Array,
    other_bin: Array,
    by_column: Array,
    n_rows: int,
    by_row: Array,
    by_row_stride: int,
    at: int,
) -> None:
    """Bin rows [first, last) of all columns.

    ``other_bin`` is -1 for numbers, else the bin of unknown levels. ``table`` has 256 edges per
    column, filled up with infinity, so that each search takes eight steps without a branch.
    """
    for column in range(n_edges.shape[0]):
        edges = table[column * 256 : (column + 1) * 256]
        other = other_bin[column]
        for row in range(first, last):
            value = np.float64(values[row * row_stride + column * column_stride])
            b = np.uint64(0)  # the number of edges below the value
            for step in (128, 64, 32, 16, 8, 4, 2, 1):
                b += np.uint64(step) if edges[b + np.uint64(step - 1)] < value else np.uint64(0)
            if other >= 0 and (b >= n_edges[column] or edges[b] != value):
                b = np.uint64(other)
            if value != value:  # only NaN differs from itself
                b = np.uint64(MISSING)
            if by_column.shape[0] > 0:
                by_column[(at + column) * n_rows + row] = b
            if by_row.shape[0] > 0:
                by_row[row * by_row_stride + at + column] = b


class BinnedMatrix:
    """Binned features of ``n_rows`` rows, by column and by row, for up to ``capacity`` features.

    ``append`` adds features, ``truncate`` drops the last ones again: the first ones never change.
    """

    def __init__(
        self, n_rows: int, capacity: int, *, by_column: bool = True, by_row: bool = True
    ) -> None:
        self.n_rows = n_rows
        self.capacity = capacity
        self.n_features = 0
        self.n_bins = np.zeros(capacity, np.int32)
        self.columns = large_arrays.empty((capacity, n_rows) if by_column else (0, 0), np.uint8)
        self.rows = large_arrays.empty((n_rows, capacity) if by_row else (0, 0), np.uint8)

    @classmethod
    def of(cls, columns: Array, rows: Array, n_bins: Sequence[int]) -> BinnedMatrix:
        """Return the matrix of bins that were made before, by column and by row."""
        matrix = cls(len(rows), len(n_bins), by_column=False, by_row=False)
        matrix.columns, matrix.rows = columns, rows
        matrix.n_features, matrix.n_bins = len(n_bins), np.array(n_bins, np.int32)
        return matrix

    def append(self, binner: Binner, values: Array, n_jobs: int = 1) -> BinnedMatrix:
        """Add the columns of ``values``, binned by ``binner``."""
        if self.n_features + binner.n_features > self.capacity:
            raise ValueError(
                f"there is room for {self.capacity} features, {self.n_features} are taken and "
                f"{binner.n_features} come; make the matrix with more room"
            )
        binner.write(values, self, n_jobs)
        self.n_bins[self.n_features : self.n_features + binner.n_features] = binner.n_bins
        self.n_features += binner.n_features
        return self

    def truncate(self, n_features: int) -> BinnedMatrix:
        """Keep the first ``n_features`` features only."""
        self.n_features = min(self.n_features, n_features)
        return self

    def take(self, rows: Array) -> BinnedMatrix:
        """Return a copy of some of the rows, by row only, as prediction needs them."""
        part = BinnedMatrix(0, self.capacity, by_column=False)
        part.n_rows, part.rows = len(rows), large_arrays.take(self.rows, rows)
        part.n_features, part.n_bins = self.n_features, self.n_bins.copy()
        return part


class Binner:
    """The bins of the columns of a matrix.

    ``edges[j]`` are the upper edges of the bins of column j in its own units (value <= edge: this
    bin or one before), or the levels of a categorical column; ``n_bins[j]`` is the number of bins,
    without the bin of the missing values.
    """

    def __init__(self, max_bins: int = MAX_BINS) -> None:
        if not 2 <= max_bins <= MAX_BINS:
            raise ValueError(f"max_bins is {max_bins}; give a number from 2 to {MAX_BINS}")
        self.max_bins = max_bins

    def fit(
        self, values: Array, categorical: Sequence[bool] | Array | None = None, n_jobs: int = 1
    ) -> Binner:
        """Learn the bins of each column of ``values`` (rows × columns, float32 or float64)."""
        n_features = values.shape[1]
        flags = np.zeros(n_features, bool) if categorical is None else np.asarray(categorical, bool)
        sample = _sample_rows(values.shape[0])

        def learn(column: int) -> tuple[Array, int]:
            if flags[column]:
                return _levels(values[:, column], self.max_bins)
            return _edges(values[:, column], sample, self.max_bins), -1

        learned = _in_threads(learn, range(n_features), n_jobs)
        return self.restore([edges for edges, _ in learned], [other for _, other in learned])

    def restore(self, edges: list[Array], other_bin: Sequence[int] | Array) -> Binner:
        """Set bins that were learned before, and return the binner."""
        self.edges = edges
        self.other_bin = np.array(other_bin, np.int64)
        self.n_edges = lengths = np.array([len(e) for e in edges], np.int64)
        self._table = np.full((len(edges), 256), np.inf)
        for row, column_edges in zip(self._table, edges, strict=True):
            row[: len(column_edges)] = column_edges
        shared = (self.other_bin >= 0) & (self.other_bin < MISSING)
        self.n_bins = np.where(
            self.other_bin < 0, lengths + 1, np.maximum(lengths + shared, 1)
        ).astype(np.int32)
        self.n_features = len(edges)
        return self

    def arrays(self) -> dict[str, Array]:
        """Return the bins as arrays, to be stored."""
        return {
            "edges": np.concatenate([*self.edges, np.zeros(0)]),
            "n_edges": self.n_edges,
            "other_bin": self.other_bin,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Binner:
        """Return the binner of stored arrays; raise ``ValueError`` if they are not valid."""
        edges, n_edges, other = arrays["edges"], arrays["n_edges"], arrays["other_bin"]
        if [array.dtype for array in (edges, n_edges, other)] != [np.float64, np.int64, np.int64]:
            raise ValueError("the stored bins are not of the types that bins have")
        if (
            edges.ndim != 1
            or n_edges.ndim != 1
            or other.ndim != 1
            or len(other) != len(n_edges)
            or n_edges.min(initial=0) < 0
            or n_edges.max(initial=0) > MAX_BINS
            or n_edges.sum() != len(edges)
            or other.min(initial=0) < -1
            or other.max(initial=0) > MISSING
        ):
            raise ValueError("the stored bins contradict themselves")
        return cls().restore(
            np.split(edges, np.cumsum(n_edges)[:-1]) if len(n_edges) else [], other
        )

    @property
    def categorical(self) -> Array:
        """Which columns are categorical."""
        return self.other_bin >= 0

    def threshold(self, feature: int, bin_number: int) -> float:
        """Return the largest value that goes left at a cut after ``bin_number``.

        In a categorical column this is the last level.
        """
        edges = self.edges[feature]
        return float(edges[bin_number]) if bin_number < len(edges) else float("inf")

    def bin(self, values: Array, *, room: int = 0, n_jobs: int = 1) -> BinnedMatrix:
        """Return the binned matrix of ``values``, with room for ``room`` further features."""
        matrix = BinnedMatrix(values.shape[0], self.n_features + room)
        return matrix.append(self, values, n_jobs)

    def bin_rows(self, values: Array) -> Array:
        """Return the bins by row (rows × columns), as prediction needs them."""
        matrix = BinnedMatrix(values.shape[0], self.n_features, by_column=False)
        self.write(values, matrix, 1)
        return matrix.rows

    def write(self, values: Array, matrix: BinnedMatrix, n_jobs: int) -> None:
        """Bin ``values`` into the next columns of ``matrix``; the caller counts them."""
        flat, row_stride, column_stride = _flat(values)
        by_column, by_row = matrix.columns.reshape(-1), matrix.rows.reshape(-1)

        def write_block(first: int) -> None:
            _bin_block(
                flat,
                row_stride,
                column_stride,
                first,
                min(first + BLOCK_ROWS, len(values)),
                self._table.reshape(-1),
                self.n_edges,
                self.other_bin,
                by_column,
                matrix.n_rows,
                by_row,
                matrix.capacity,
                matrix.n_features,
            )

        _in_threads(write_block, range(0, len(values), BLOCK_ROWS), n_jobs)


def _flat(values: Array) -> tuple[Array, int, int]:
    """Return ``values`` as a flat array, and the steps from row to row and column to column."""
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    # Tables come in column order: read that way, no copy is made.
    if values.flags.f_contiguous:
        flat, row_stride, column_stride = values.T.reshape(-1), 1, values.shape[0]
    else:
        flat = np.ascontiguousarray(values).reshape(-1)
        row_stride, column_stride = values.shape[1], 1
    flat = flat.view()
    # Always read-only: numba would compile the kernel a second time for arrays that can be written.
    flat.flags.writeable = False
    return flat, row_stride, column_stride


def _sample_rows(n_rows: int) -> Array | slice:
    if n_rows <= SAMPLE_ROWS:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n_rows, SAMPLE_ROWS, replace=False))


def _edges(column: Array, sample: Array | slice, max_bins: int) -> Array:
    distinct, values = _distinct(column[sample])
    if len(distinct) <= max_bins and not isinstance(sample, slice):
        distinct, values = _distinct(column)  # rare values may have been missed
    if len(distinct) <= max_bins:
        low, high = distinct[:-1], distinct[1:]
        middle = low + (high - low) / 2
        return np.where((low <= middle) & (middle < high), middle, low)
    edges = np.empty(max_bins)
    return edges[: _quantile_edges(values, max_bins, edges)].copy()


def _distinct(column: Array) -> tuple[Array, Array]:
    """Return the distinct values and all values, sorted, without the missing ones."""
    values = np.sort(column)  # NaN last
    n_missing = int(np.isnan(values).sum())
    values = values[: len(values) - n_missing].astype(np.float64)
    first = np.ones(len(values), bool)
    first[1:] = values[1:] != values[:-1]
    return values[first], values


def _levels(column: Array, max_bins: int) -> tuple[Array, int]:
    """Return the levels that have their own bin, and the bin of all others.

    That is the bin of missing values if no bin is shared.
    """
    levels, counts = np.unique(column[~np.isnan(column)].astype(np.float64), return_counts=True)
    if len(levels) <= max_bins:
        return levels, MISSING
    # A stable sort, so that equally frequent levels are chosen the same way on every machine.
    frequent = np.argsort(-counts, kind="stable")[: max_bins - 1]
    return np.sort(levels[frequent]), max_bins - 1


def _in_threads(function: Any, items: Any, n_jobs: int) -> list[Any]:
    if n_jobs == 1 or len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(n_jobs, len(items))) as threads:
        return list(threads.map(function, items))
