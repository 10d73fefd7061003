"""Compute statistics and histograms of the columns of a table, quickly and from mapped Arrow data.

Missing means null or NaN. What one pass over a column gives (missing, minimum, maximum, mean,
standard deviation, categories) is exact. What needs all values sorted or hashed (quartiles, bars,
distinct texts) comes from rows evenly spread over the table if it has more than ``SAMPLE_ROWS``;
the result says so.

- ``column_statistics``, ``table_statistics``  the statistics of one column, of all
- ``Bars``            counts to draw: of equal intervals, or of single values
- ``column_bars``     the bars of one column
- ``bars_by_class``   the same, split by the classes of another column
- ``spread_rows``     a sample of rows, evenly spread
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from engine.node_types import Kind, Role
from engine.values import Table, kind_of
from nodes.data.column_types import as_seconds

SAMPLE_ROWS = 50_000
PLOTTED_ROWS = 2_000_000
"""Rows up to which the bars of a single column are counted exactly; texts take longer and are
sampled sooner."""
MOST_BARS = 30
MOST_FREQUENT = 5
MOST_CLASSES = 6
"""Classes shown in a split; the rarer ones are one class together."""
LONGEST_VALUE = 200
THREADS = 4
"""Columns computed at the same time; Arrow releases the interpreter lock."""

Scale = Literal["number", "time", "values"]


@dataclass(frozen=True)
class Bars:
    """Hold the counts of a bar chart.

    ``edges`` bound the intervals of numbers or times, one more than there are bars; ``labels`` name
    single values instead. ``sampled`` says that the counts are of a sample of the rows.
    """

    scale: Scale
    counts: list[int]
    edges: list[float] = field(default_factory=list)
    """Times are seconds since 1970."""
    labels: list[str] = field(default_factory=list)
    others: int = 0
    """Rows with values beyond those that have a bar."""
    sampled: bool = False


@dataclass(frozen=True)
class ColumnStatistics:
    """Hold the statistics of one column. What does not apply to its kind, or is not known, is None.

    ``missing`` and ``infinite`` are numbers of rows. Times are seconds since 1970.
    """

    name: str
    kind: Kind
    role: Role
    rows: int
    missing: int
    infinite: int = 0
    distinct: int | None = None
    minimum: float | None = None
    lower_quartile: float | None = None
    median: float | None = None
    upper_quartile: float | None = None
    maximum: float | None = None
    mean: float | None = None
    std: float | None = None
    frequent: list[tuple[str, int]] = field(default_factory=list)
    """The most frequent values with their rows, of ``counted`` rows that have a value."""
    counted: int = 0
    bars: Bars | None = None
    sampled: bool = False
    """Whether quartiles, bars or distinct values come from a sample."""

    @property
    def missing_share(self) -> float:
        """Return the share of missing values, 0 for an empty table."""
        return self.missing / self.rows if self.rows else 0.0


def table_statistics(table: Table) -> list[ColumnStatistics]:
    """Return the statistics of every column, in the order of the table."""
    names = [column.name for column in table.columns]
    roles = [column.role for column in table.columns]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(column_statistics, names, table.data.columns, roles))


def column_statistics(
    name: str, column: pa.ChunkedArray, role: Role = "feature"
) -> ColumnStatistics:
    """Return the statistics of one column; of lists, only the missing values are counted."""
    kind = kind_of(column.type)
    try:
        if kind in ("number", "time"):
            return _of_numbers(name, kind, role, column)
        return _of_values(name, kind, role, column)
    # Arrow cannot count the values of lists and similar types.
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return ColumnStatistics(name, kind, role, len(column), column.null_count)


def column_bars(column: pa.ChunkedArray) -> Bars:
    """Return the bars of one column, exact up to ``PLOTTED_ROWS`` rows.

    Numbers and times have equal intervals, other values a bar each for the most frequent ones. A
    column that cannot be counted has no bars.
    """
    rows, sampled = spread_rows(column, _most_plotted(column))
    try:
        if kind_of(column.type) in ("number", "time"):
            return _bars_of_numbers(_finite(_as_numbers(rows)), _scale(column.type), sampled)
        return _bars_of_values(_count_values(rows), sampled)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return Bars("values", [])


def bars_by_class(
    column: pa.ChunkedArray, classes: pa.ChunkedArray
) -> tuple[Bars, dict[str, list[int]]]:
    """Return the bars of a column, and their counts for each class of another column.

    The classes come in order of frequency; the rarer ones are one entry together, the last. Rows
    without a value in either column are not counted.
    """
    bars = column_bars(column)
    rows, _ = spread_rows(column, _most_plotted(column))
    labels, _ = spread_rows(classes, _most_plotted(column))
    bar = _bar_of_rows(rows, bars)
    code, names = _class_codes(labels)
    drawn, width = (bar >= 0) & (code >= 0), len(bars.counts)
    # One number for each pair of class and bar, so that a single pass counts all of them.
    counts = np.bincount(code[drawn] * width + bar[drawn], minlength=len(names) * width)
    by_class = counts.reshape(len(names), width)
    return bars, {name: of_class.tolist() for name, of_class in zip(names, by_class, strict=True)}


def spread_rows(column: pa.ChunkedArray, most: int) -> tuple[pa.ChunkedArray, bool]:
    """Return at most ``most`` rows, evenly spread, and whether some are left out.

    The rows are the same for all columns of a table.
    """
    if len(column) <= most:
        return column, False
    return column.take(pa.array(np.linspace(0, len(column) - 1, most).astype(np.int64))), True


def moment(seconds: float, *, with_clock: bool = True) -> str:
    """Return a time in seconds since 1970 as text; seconds if no calendar has such a date."""
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.6g} s"
    return when.strftime("%Y-%m-%d %H:%M:%S" if with_clock else "%Y-%m-%d")


def _most_plotted(column: pa.ChunkedArray) -> int:
    """Return how many rows the bars of a column count; texts take longer, so there are fewer."""
    return SAMPLE_ROWS if kind_of(column.type) == "text" else PLOTTED_ROWS


def _of_numbers(name: str, kind: Kind, role: Role, column: pa.ChunkedArray) -> ColumnStatistics:
    """Return the statistics of a column of numbers or times; infinite values only count as such."""
    values = _as_numbers(column)
    finite = _finite(values)
    infinite = 0
    # Most columns have no infinite value, and then this pass is saved.
    if len(finite) < len(values):
        infinite = pc.sum(pc.is_inf(values)).as_py() or 0
    missing = len(values) - len(finite) - infinite
    if not len(finite):
        return ColumnStatistics(name, kind, role, len(column), missing, infinite)
    sample, sampled = spread_rows(finite, SAMPLE_ROWS)
    ends = pc.min_max(finite)
    minimum, maximum = ends["min"].as_py(), ends["max"].as_py()
    lower, median, upper = pc.quantile(sample, [0.25, 0.5, 0.75]).to_pylist()
    return ColumnStatistics(
        name,
        kind,
        role,
        len(column),
        missing,
        infinite,
        minimum=minimum,
        lower_quartile=lower,
        median=median,
        upper_quartile=upper,
        maximum=maximum,
        mean=pc.mean(finite).as_py(),
        std=pc.stddev(finite).as_py(),
        counted=len(finite),
        bars=_bars_of_numbers(sample, _scale(column.type), sampled, (minimum, maximum)),
        sampled=sampled,
    )


def _of_values(name: str, kind: Kind, role: Role, column: pa.ChunkedArray) -> ColumnStatistics:
    """Return the statistics of categories, bools or texts: the frequent values and their counts."""
    rows, sampled = spread_rows(column, SAMPLE_ROWS) if kind == "text" else (column, False)
    counted = _count_values(rows)
    return ColumnStatistics(
        name,
        kind,
        role,
        len(column),
        column.null_count if sampled else len(column) - counted.rows,
        distinct=counted.distinct,
        frequent=counted.frequent[:MOST_FREQUENT],
        counted=counted.rows,
        bars=_bars_of_values(counted, sampled),
        sampled=sampled,
    )


def _scale(arrow_type: pa.DataType) -> Scale:
    """Return the scale of the bars; durations and times of day are seconds like any number."""
    return "time" if types.is_timestamp(arrow_type) or types.is_date(arrow_type) else "number"


def _as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return integers as they are, other numbers as 64-bit floats, times in seconds."""
    kind = column.type
    if types.is_integer(kind) or types.is_float64(kind):
        return column
    if types.is_temporal(kind):
        return as_seconds(column)
    return column.cast(pa.float64(), safe=False)


def _finite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values without null, NaN and infinity; nothing is copied if all are finite."""
    usable = pc.is_finite(values)
    return values if (pc.sum(usable).as_py() or 0) == len(values) else values.filter(usable)


@dataclass(frozen=True)
class _ValueCounts:
    """Hold the frequent values of a column, and how many values and rows there are."""

    frequent: list[tuple[str, int]]
    distinct: int
    rows: int


def _count_values(column: pa.ChunkedArray) -> _ValueCounts:
    """Return the most frequent values as texts; only those become Python objects."""
    if types.is_dictionary(column.type):
        # Chunks with different dictionaries would be counted apart.
        column = column.unify_dictionaries()
    counted = pc.value_counts(column.drop_null()) if len(column) else None
    if counted is None or not len(counted):
        return _ValueCounts([], 0, 0)
    values, counts = counted.field("values"), counted.field("counts")
    top = pc.sort_indices(pa.table({"rows": counts}), [("rows", "descending")])[:MOST_BARS]
    values = values.take(top)
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    frequent = zip(map(as_text, values.to_pylist()), counts.take(top).to_pylist(), strict=True)
    return _ValueCounts(list(frequent), len(counted), pc.sum(counts).as_py())


def as_text(value: object) -> str:
    """Return a value as bars and statistics show it; long values are shortened."""
    text = str(value)
    # As in JSON and in the files, not as Python writes them.
    if isinstance(value, bool):
        text = text.lower()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _bars_of_values(counted: _ValueCounts, sampled: bool) -> Bars:
    """Return a bar for each frequent value; the rows of all other values are ``others``."""
    counts = [count for _, count in counted.frequent]
    labels = [value for value, _ in counted.frequent]
    return Bars("values", counts, labels=labels, others=counted.rows - sum(counts), sampled=sampled)


def _bars_of_numbers(
    values: pa.ChunkedArray, scale: Scale, sampled: bool, ends: tuple[float, float] | None = None
) -> Bars:
    """Return a bar for each value if there are few whole numbers, or else equal intervals.

    ``ends`` are the exact minimum and maximum if ``values`` are a sample.
    """
    if not len(values):
        return Bars(scale, [], sampled=sampled)
    array = _to_numpy(values)
    if array.dtype.kind in "iu" and (few := _few_values(array)) is not None:
        labels = [str(value) for value in few[0].tolist()]
        return Bars("values", few[1].tolist(), labels=labels, sampled=sampled)
    low, high = (float(end) for end in (ends or (array.min(), array.max())))
    # The difference of the two ends overflows, so intervals are not possible.
    if not np.isfinite(high - low):
        return Bars(scale, [len(array)], [low, high], sampled=sampled)
    if not _divisible(low, high):
        counts, edges = _one_bar(array, low)
    elif array.dtype.kind in "iu":
        counts, edges = np.histogram(array, _whole_edges(int(low), int(high)))
    else:
        counts, edges = np.histogram(array, MOST_BARS, (low, high))
    return Bars(scale, counts.tolist(), edges.tolist(), sampled=sampled)


def _whole_edges(low: int, high: int) -> list[float]:
    """Return edges with as many whole numbers in each bar, so that an even column looks even."""
    step = (high - low) // MOST_BARS + 1
    return [float(low + step * index) for index in range((high - low) // step + 2)]


def _divisible(low: float, high: float) -> bool:
    """Return whether there are enough floating-point numbers between the ends for all bars."""
    return bool((np.diff(np.linspace(low, high, MOST_BARS + 1)) > 0).all())


def _one_bar(array: np.ndarray, value: float) -> tuple[Any, Any]:
    """Return one bar around a value, for a column that is constant or nearly so."""
    # An interval without width could not be drawn.
    reach = max(abs(value) * 0.01, 0.5)
    return np.array([len(array)]), np.array([value - reach, value + reach])


def _few_values(array: np.ndarray) -> tuple[Any, Any] | None:
    """Return the whole numbers that occur and how often; None if there are too many."""
    # The first rows show quickly that most columns have too many values.
    if len(np.unique(array[:1000])) > MOST_BARS:
        return None
    values, counts = np.unique(array, return_counts=True)
    return (values, counts) if len(values) <= MOST_BARS else None


def _to_numpy(values: pa.ChunkedArray) -> np.ndarray:
    """Return the values as an array, also if they have no chunk."""
    return values.to_numpy() if values.num_chunks else np.empty(0, values.type.to_pandas_dtype())


def _bar_of_rows(column: pa.ChunkedArray, bars: Bars) -> np.ndarray:
    """Return the number of the bar that each row is in; -1 if it is in none of them."""
    if bars.scale == "values":
        code, names = _codes(column)
        bar_of = {label: index for index, label in enumerate(bars.labels)}
        return _look_up([-1 if name is None else bar_of.get(name, -1) for name in names], code)
    floats = _as_numbers(column).cast(pa.float64(), safe=False)
    values = _to_numpy(pc.fill_null(floats, float("nan")))
    if not bars.edges:
        return np.full(len(values), -1)
    bar = np.searchsorted(bars.edges, values, side="right") - 1
    # The last interval includes its end.
    bar[values == bars.edges[-1]] = len(bars.counts) - 1
    bar[~np.isfinite(values) | (bar >= len(bars.counts))] = -1
    return bar


def _class_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Return the class number of each row and the names; the rarer classes are one, the last."""
    code, names = _codes(column)
    counted = _count_values(column)
    frequent = [name for name, _ in counted.frequent]
    if counted.distinct > MOST_CLASSES + 1:
        frequent = [*frequent[:MOST_CLASSES], f"{counted.distinct - MOST_CLASSES} others"]
    number = {name: index for index, name in enumerate(frequent)}
    last = len(frequent) - 1
    numbers = [-1 if name is None else number.get(name, last) for name in names]
    return _look_up(numbers, code), frequent


def _codes(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str | None]]:
    """Return a number for each row and the text of each number; -1 where the value is missing."""
    if not len(column):
        return np.empty(0, np.int64), []
    encoded = column if types.is_dictionary(column.type) else pc.dictionary_encode(column)
    encoded = encoded.unify_dictionaries()
    indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks]).cast(pa.int64())
    values = encoded.chunk(0).dictionary.to_pylist()
    names = [None if value is None else as_text(value) for value in values]
    return pc.fill_null(indices, -1).to_numpy(), names


def _look_up(table: Iterable[int], code: np.ndarray) -> np.ndarray:
    """Return ``table[code]``, and -1 where the code is -1."""
    return np.take(np.array([*table, -1], dtype=np.int64), code)
