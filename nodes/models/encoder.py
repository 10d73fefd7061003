"""Turn the columns of tables and JSON rows into the matrix that an estimator is given.

There are two forms:

- ``codes``   one matrix column for each table column: numbers as they are, categories as their
  number. A missing value is NaN, and so is a category never seen in training. Only where training
  had no missing numbers, a missing number counts as the median: no tree has learned where a missing
  value goes. For trees.
- ``onehot``  numbers standardised, missing ones at their median beside a column that marks them;
  categories as one column for each of the most frequent ones. For linear models and networks.

Bools count as 0 and 1, times as seconds since 1970, infinite numbers as missing. Texts are
categories if they repeat often enough, and are left out otherwise; so is a column without values.

A value goes the same way from an Arrow column and from a JSON row: a ``NumberColumn`` or
``CategoryColumn`` reads it as a 64-bit float (``read_column``, ``read_value``) and writes it into
its part of the matrix (``write``). Everything an encoder knows is plain JSON.

- ``TableEncoder``      the columns of a model
- ``category_counts``, ``category_codes``  values of a column and their numbers
- ``class_names``, ``class_codes``         the same for the target of a classifier
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite, nan
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from engine.errors import BadInput
from engine.node_types import Kind
from engine.text import lacking, listed
from engine.values import Table, kind_of
from nodes.data.column_types import NUMBER, as_seconds, natural_order, parse_texts, tidy_number
from nodes.models.kinds import Form, Precision

VERSION = 1
MISSING = -1
"""Number of a category or class that is missing or unknown."""
ONEHOT_CATEGORIES = 100
TEXT_CATEGORIES = 1_000
MAX_NUMERIC_CLASSES = 100
ROWS_AT_ONCE = 65_536
"""Rows that are encoded at a time."""
FAMILIES: Mapping[Kind, str] = {
    "number": "number",
    "bool": "number",
    "time": "time",
    "category": "category",
    "text": "category",
}
"""Kinds in a family can replace one another: a file may hold a category as text, or a bool as
number."""


@dataclass(frozen=True)
class NumberColumn:
    """Encode a number, bool or time, with what is needed to fill and scale it.

    ``median``, ``mean`` and ``scale`` are those of the training rows.
    """

    name: str
    kind: Kind
    median: float
    mean: float
    scale: float
    has_missing: bool
    fits_float32: bool
    """Whether every training value is exactly a 32-bit float."""

    def width(self, form: Form) -> int:
        """Return how many matrix columns it takes: one more for a mark if values were missing."""
        return 2 if form == "onehot" and self.has_missing else 1

    @property
    def fill_value(self) -> float:
        """Return what a missing value counts as in the form ``codes``."""
        return nan if self.has_missing else self.median

    def read_column(self, column: pa.ChunkedArray) -> np.ndarray:
        """Return the values of an Arrow column; NaN where they are missing."""
        return numbers(column)

    def read_value(self, value: Any) -> float:
        """Return a JSON value as a number, NaN if it is missing.

        Raise ``ValueError`` if it cannot be one; its text follows the value in a message.
        """
        if value is None:
            return nan
        if self.kind == "time":
            return _read_time(value)
        return _read_number(value)

    def write(self, values: np.ndarray, out: np.ndarray, form: Form) -> None:
        """Write values into ``out``, rows × width; what is too large becomes the largest number."""
        missing = np.isnan(values)
        if (form == "onehot" or not self.has_missing) and missing.any():
            values = np.where(missing, self.median, values)
        if form == "onehot":
            with np.errstate(over="ignore"):
                values = (values - self.mean) / self.scale
        if form == "codes" and out.dtype == values.dtype:
            out[:, 0] = values  # as they are, nothing can be too large
        else:
            limits = np.finfo(out.dtype)
            np.clip(values, limits.min, limits.max, out=out[:, 0], casting="same_kind")
        if self.width(form) == 2:
            out[:, 1] = missing

    @property
    def example(self) -> Any:
        """Return a JSON value that the column may hold: the median."""
        if self.kind == "bool":
            return self.median >= 0.5
        if self.kind == "time":
            try:
                moment = datetime.datetime.fromtimestamp(int(self.median), datetime.UTC)
            except (ValueError, OverflowError, OSError):
                return None
            return moment.strftime("%Y-%m-%d %H:%M:%S")
        rounded = float(f"{self.median:.6g}")
        return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded

    def describe(self) -> dict[str, Any]:
        """Return what a JSON row may hold in this column."""
        return {
            "name": self.name,
            "kind": self.kind,
            "missing_allowed": True,
            "missing_in_training": self.has_missing,
            "example": self.example,
        }


@dataclass(frozen=True)
class CategoryColumn:
    """Encode a category by the values it had in training, the most frequent first."""

    name: str
    kind: Kind
    categories: tuple[str, ...]

    fill_value = nan

    @cached_property
    def code_of(self) -> dict[str, int]:
        """Return the number of each category."""
        return {category: code for code, category in enumerate(self.categories)}

    @cached_property
    def are_numbers(self) -> bool:
        """Return whether all categories are numbers, so that a number can stand for one."""
        return all(NUMBER.fullmatch(category) for category in self.categories)

    def width(self, form: Form) -> int:
        """Return how many matrix columns it takes: one, or one for each frequent category."""
        return 1 if form == "codes" else min(len(self.categories), ONEHOT_CATEGORIES)

    def find(self, text: str | None) -> str | None:
        """Return the category that a text stands for; None if it is unknown.

        Space around the text is ignored, and ``1.0`` is ``1`` where that is a category.
        """
        if text is None or text in self.code_of:
            return text
        text = text.strip()
        if text not in self.code_of and NUMBER.fullmatch(text):
            text = tidy_number(text)
        return text if text in self.code_of else None

    def read_column(self, column: pa.ChunkedArray) -> np.ndarray:
        """Return the category numbers of an Arrow column; NaN where they are missing or unknown."""
        codes = category_codes(column, self.categories)
        return np.where(codes == MISSING, nan, codes)

    def read_value(self, value: Any) -> float:
        """Return the category number of a JSON value, NaN if it is missing or unknown.

        Raise ``ValueError`` if the value is of a type that no category has.
        """
        if value is None:
            return nan
        if isinstance(value, bool):
            # As Arrow writes bools as texts.
            value = "true" if value else "false"
        elif isinstance(value, int | float) and self.are_numbers:
            # Python refuses to write integers of thousands of digits; no category is so long.
            value = str(value) if isinstance(value, float) or abs(value) < 1e18 else ""
        if not isinstance(value, str):
            raise ValueError("but a category is expected, as text")
        category = self.find(value)
        return nan if category is None else float(self.code_of[category])

    def write(self, values: np.ndarray, out: np.ndarray, form: Form) -> None:
        """Write category numbers into ``out``; rare and unknown ones are zeros in ``onehot``."""
        if form == "codes":
            out[:, 0] = values
            return
        out[:] = 0
        # NaN is not below any number, so missing values stay zero.
        rows = np.flatnonzero(values < out.shape[1])
        out[rows, values[rows].astype(np.int64)] = 1

    @property
    def example(self) -> str:
        """Return a value of the column: the most frequent category."""
        return self.categories[0]

    def describe(self) -> dict[str, Any]:
        """Return what a JSON row may hold in this column."""
        return {
            "name": self.name,
            "kind": "category",
            "missing_allowed": True,
            "categories": list(self.categories),
            "example": self.example,
        }


EncodedColumn = NumberColumn | CategoryColumn


@dataclass(frozen=True)
class TableEncoder:
    """Turn tables with the columns of the training table into a matrix.

    ``columns`` are the features that are used, in the order of the matrix.
    """

    form: Form
    columns: tuple[EncodedColumn, ...]

    @classmethod
    def fit(
        cls, table: Table, form: Form, log: Callable[[str], None] = lambda text: None
    ) -> TableEncoder:
        """Learn categories, medians and scales of the feature columns.

        ``log`` gets a line for each column that is left out, with the reason. Raise ``BadInput`` if
        no column can be used.
        """
        columns = []
        for name in table.features:
            column = _learn_column(name, table.data.column(name))
            if isinstance(column, str):
                log(f"Column '{name}' is left out: {column}.")
            else:
                columns.append(column)
        if not columns:
            raise BadInput(
                "the table has no feature that can be used; add a column of numbers or categories"
            )
        return cls(form, tuple(columns))

    @property
    def width(self) -> int:
        """Return the number of matrix columns."""
        return sum(column.width(self.form) for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the table columns that are used."""
        return [column.name for column in self.columns]

    @property
    def categorical(self) -> list[int]:
        """Return the matrix columns that hold category numbers; none in the form ``onehot``."""
        if self.form == "onehot":
            return []
        return [
            index for index, column in enumerate(self.columns) if isinstance(column, CategoryColumn)
        ]

    @property
    def fits_float32(self) -> bool:
        """Return whether the training matrix of ``codes`` loses nothing as 32-bit floats."""
        return all(
            column.fits_float32 for column in self.columns if isinstance(column, NumberColumn)
        )

    def transform(
        self,
        data: pa.Table,
        precision: Precision = "float64",
        order: Literal["C", "F"] = "C",
        *,
        empty: Callable[..., np.ndarray] = np.empty,
    ) -> np.ndarray:
        """Return the matrix of a table, rows × width.

        ``order`` is how numpy stores it: ``C`` by rows, ``F`` by columns; ``empty`` makes it. Raise
        ``BadInput`` if a column is missing or of another kind than in training.
        """
        self.check(data)
        matrix = empty((data.num_rows, self.width), precision, order=order)
        # By blocks of rows: memory stays bounded, and so does what is written to at a time.
        for start in range(0, data.num_rows, ROWS_AT_ONCE):
            rows = data.slice(start, ROWS_AT_ONCE)
            for column, part in self.parts(matrix[start : start + ROWS_AT_ONCE]):
                column.write(column.read_column(rows.column(column.name)), part, self.form)
        return matrix

    def parts(self, matrix: np.ndarray) -> Iterator[tuple[EncodedColumn, np.ndarray]]:
        """Yield each column with its part of the matrix."""
        start = 0
        for column in self.columns:
            stop = start + column.width(self.form)
            yield column, matrix[:, start:stop]
            start = stop

    def check(self, data: pa.Table) -> None:
        """Raise ``BadInput`` that names every column that is missing or of another kind."""
        present = set(data.column_names)
        missing = [name for name in self.names if name not in present]
        if missing:
            raise BadInput(
                f"the table lacks {lacking(missing, data.column_names)}, which the model was "
                "trained with; add the missing columns"
            )
        kinds = (data.schema.field(column.name).type for column in self.columns)
        wrong = list(filter(None, map(_mismatch, self.columns, kinds)))
        if wrong:
            raise BadInput(
                f"some columns are of another kind than in training: {'; '.join(wrong[:5])}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "version": VERSION,
            "form": self.form,
            "columns": [_column_to_json(each) for each in self.columns],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder that ``to_json`` has written.

        Raise ``ValueError``, ``KeyError`` or ``TypeError`` if the data cannot be right.
        """
        if data["version"] != VERSION or data["form"] not in ("codes", "onehot"):
            raise ValueError(f"encoder of version {data['version']}, form {data['form']}")
        return cls(data["form"], tuple(_column_from_json(column) for column in data["columns"]))


# Saved models call the categories of a column its levels.


def _column_to_json(column: EncodedColumn) -> dict[str, Any]:
    """Return a column as plain JSON."""
    if isinstance(column, CategoryColumn):
        return {"name": column.name, "kind": column.kind, "levels": list(column.categories)}
    return asdict(column)


def _column_from_json(data: Mapping[str, Any]) -> EncodedColumn:
    """Return the column that was saved; raise ``ValueError`` if it could not encode a value."""
    if data["kind"] not in FAMILIES:
        raise ValueError(f"the kind of column '{data['kind']}' is unknown")
    if "levels" in data:
        categories = tuple(data["levels"])
        if not categories:
            raise ValueError(f"column '{data['name']}' has no levels")
        if not all(isinstance(text, str) for text in (data["name"], *categories)):
            raise ValueError("a level is not a text")
        return CategoryColumn(data["name"], data["kind"], categories)
    column = NumberColumn(**data)
    is_finite = all(isfinite(number) for number in (column.median, column.mean, column.scale))
    if not is_finite or column.scale <= 0:
        raise ValueError(f"column '{column.name}' cannot be scaled")
    return column


# Values


def _read_number(value: Any) -> float:
    """Return a JSON number or bool as a float; raise ``ValueError`` if it is not one."""
    if not isinstance(value, int | float):
        raise ValueError("but a number is expected")
    try:
        number = float(value)
    except OverflowError:
        # An integer may be larger than any float.
        number = float("inf")
    if not isfinite(number):
        raise ValueError("which is too large")
    return number


def _read_time(value: Any) -> float:
    """Return a time as seconds since 1970."""
    try:
        times = parse_texts(pa.chunked_array([[value.strip()]], pa.string()), "time")
    except (pa.ArrowException, UnicodeError, AttributeError):
        raise ValueError("but a time such as '2024-01-31 12:30:00' is expected") from None
    return float(times.cast(pa.int64())[0].as_py() * 1e-6)


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return numbers, bools and times as 64-bit floats; missing and infinite values are NaN."""
    if types.is_temporal(column.type):
        column = as_seconds(column)
    values, start = np.empty(len(column), np.float64), 0
    # Chunk by chunk, so that the column is not copied twice.
    for chunk in column.chunks:
        part = chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values[start : start + len(chunk)] = part
        start += len(chunk)
    # Neither trees nor linear models can compute with infinity.
    values[np.isinf(values)] = np.nan
    return values


# Learning


def _learn_column(name: str, column: pa.ChunkedArray) -> EncodedColumn | str:
    """Return the column's encoding, or the reason why it is left out."""
    kind = kind_of(column.type)
    if column.null_count == len(column):
        return "it has no values"
    if types.is_interval(column.type) or types.is_nested(column.type):
        return f"it holds values of type {column.type}, which cannot be used"
    if FAMILIES[kind] != "category":
        return _learn_numbers(name, kind, numbers(column))
    return _learn_categories(name, kind, column)


def _learn_numbers(name: str, kind: Kind, values: np.ndarray) -> NumberColumn | str:
    """Return median, mean and scale of a column of numbers, or why it is left out."""
    missing = np.isnan(values)
    if missing.all():
        return "it has no values"
    has_missing = bool(missing.any())
    with np.errstate(over="ignore"):
        fits = bool(np.array_equal(values.astype(np.float32), values, equal_nan=True))
        median = float(np.nan_to_num(np.median(values[~missing] if has_missing else values)))
    filled = np.where(missing, median, values) if has_missing else values
    # Divided by the largest value first: the squares of large numbers would overflow.
    largest = float(np.abs(filled).max()) or 1.0
    scaled = filled / largest
    mean = float(scaled.mean()) * largest
    spread = float(scaled.std()) * largest
    # A spread that is only the rounding of a constant would magnify every other value.
    scale = spread if spread > 1e-12 * largest else largest
    return NumberColumn(name, kind, median, mean, scale, has_missing, fits)


def _learn_categories(name: str, kind: Kind, column: pa.ChunkedArray) -> CategoryColumn | str:
    """Return the categories of a column by frequency, or why it is left out.

    Texts are categories only if they repeat often enough.
    """
    if kind == "text":
        try:
            column = column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return f"it holds {column.type}, which is not text"
        different, values = pc.count_distinct(column).as_py(), len(column) - column.null_count
        # Texts that hardly repeat are names or comments: a model would only memorise them.
        if different > TEXT_CATEGORIES or 2 * different > values:
            return (
                f"its {different:,} different texts in {values:,} rows are too many for categories"
            )
    counts = category_counts(column)
    if not counts:
        return "it has no values"
    # Frequent categories get small numbers, so that onehot keeps the frequent ones.
    by_frequency = sorted(counts, key=lambda category: (-counts[category], category))
    return CategoryColumn(name, kind, tuple(by_frequency))


def _mismatch(column: EncodedColumn, arrow_type: pa.DataType) -> str | None:
    """Return why a column of this type cannot be encoded; None if it can."""
    kind = kind_of(arrow_type)
    is_same_family = FAMILIES[kind] == FAMILIES[column.kind] and not types.is_interval(arrow_type)
    if types.is_null(arrow_type) or is_same_family:
        return None
    return f"'{column.name}' is a {kind} and was a {column.kind}"


# Categories and classes
#
# A value's name is its text: 1, 1.0 and "1" are one category. Dictionary columns are read through
# their dictionary, so that millions of rows are never turned into millions of texts.


def category_counts(column: pa.ChunkedArray) -> dict[str, int]:
    """Return how often each value occurs, by its name; missing values are not counted."""
    counts: Counter[str] = Counter()
    for chunk in column.chunks:
        is_dictionary = pa.types.is_dictionary(chunk.type)
        counted = (chunk.indices if is_dictionary else chunk).value_counts()
        values = counted.field("values")
        names = as_text(chunk.dictionary).take(values) if is_dictionary else as_text(values)
        for name, count in zip(names.to_pylist(), counted.field("counts").to_pylist(), strict=True):
            if name is not None:
                counts[name] += count
    return dict(counts)


def category_codes(column: pa.ChunkedArray, categories: Sequence[str]) -> np.ndarray:
    """Return each row's position in ``categories``; ``MISSING`` for a missing or unknown value."""
    codes, start, known = np.empty(len(column), np.int32), 0, pa.array(categories, pa.string())
    for chunk in column.chunks:
        codes[start : start + len(chunk)] = _chunk_codes(chunk, known)
        start += len(chunk)
    return codes


def _chunk_codes(chunk: pa.Array, known: pa.Array) -> Any:
    """Return the position of each value of one Arrow array in ``known``."""
    if pa.types.is_dictionary(chunk.type):
        of_entry = pc.index_in(as_text(chunk.dictionary), known, skip_nulls=True)
        codes = of_entry.take(chunk.indices)
    else:
        codes = pc.index_in(as_text(chunk), known, skip_nulls=True)
    return codes.fill_null(MISSING).to_numpy(zero_copy_only=False)


def as_text(values: pa.Array) -> pa.Array:
    """Return the names of plain values: whole numbers without a decimal point, NaN missing."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values.cast(pa.string())


def class_names(target: pa.ChunkedArray, name: str) -> list[str]:
    """Return the classes that occur in a target column, in natural order.

    Raise ``BadInput`` if the target is a time, or a quantity with very many values.
    """
    kind = kind_of(target.type)
    if kind == "time":
        raise BadInput(f"the target '{name}' is a time; choose a column with classes as the target")
    names = natural_order(category_counts(target))
    if (
        kind == "number"
        and len(names) > MAX_NUMERIC_CLASSES
        and not all(float(each).is_integer() for each in names)
    ):
        raise BadInput(
            f"the target '{name}' holds {len(names):,} different numbers, so it is a quantity and "
            "not a class; choose another target, or group its values into classes first"
        )
    return names


def class_codes(target: pa.ChunkedArray, classes: Sequence[str]) -> np.ndarray:
    """Return each row's class number, ``MISSING`` where it has none.

    Raise ``BadInput`` if the target holds a class that is not one of ``classes``.
    """
    unknown = category_counts(target).keys() - set(classes)
    if unknown:
        raise BadInput(
            "the target holds classes that the model does not have: "
            f"{listed(natural_order(unknown))}; its classes are {listed(classes)}"
        )
    return category_codes(target, classes)
