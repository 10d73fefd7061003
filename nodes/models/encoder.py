"""From a table's columns to the matrix a learner wants, the same way in training and ever after.

Two forms:

- ``codes``   one matrix column a table column: numbers as they are, categories as the number of their level. A missing
  value is NaN, and so is a level never seen; only where training knew no missing number it takes the median, since no
  tree has then learned where a missing value goes. For trees.
- ``onehot``  numbers standardised, missing ones at their median beside a column that says so, categories as one column
  for each of their most frequent levels. For logistic regression and neural networks.

Bools count as 0 and 1, times as seconds since 1970, infinite numbers as missing. Texts are categories if they repeat
enough, and are otherwise left out, as is a column without any value.

``TableEncoder`` holds one ``NumberColumn`` or ``LevelColumn`` for each column that is used; both know how wide they
are and write themselves into their part of the matrix. All of it is plain JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import BadInput
from engine.node_types import Kind
from engine.values import Table, kind_of
from nodes.data.columns import listed
from nodes.models.categories import level_codes, level_counts

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

Form = Literal["codes", "onehot"]
Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class Encoding:
    """How a kind of model wants its matrix; ``order`` is that of the training matrix in memory."""

    form: Form
    precision: Precision
    order: Literal["C", "F"] = "C"


VERSION = 1
ONEHOT_LEVELS = 100
TEXT_LEVELS = 1_000
FAMILIES: Mapping[Kind, str] = {
    "number": "number",
    "bool": "number",
    "time": "time",
    "category": "level",
    "text": "level",
}
"""Kinds that can stand for one another: a file read anew may call a category a text, or a bool a number."""


@dataclass(frozen=True)
class NumberColumn:
    """A number, bool or time, and what is needed to fill and scale it."""

    name: str
    kind: Kind
    median: float
    mean: float
    scale: float
    has_missing: bool
    fits_float32: bool
    """Whether every training value is exactly a 32-bit float."""

    def width(self, form: Form) -> int:
        """How many matrix columns it takes."""
        return 2 if form == "onehot" and self.has_missing else 1

    def write(self, column: pa.ChunkedArray, out: np.ndarray, form: Form) -> None:
        """Fill ``out``, rows × width."""
        import numpy as np

        values = numbers(column)
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


@dataclass(frozen=True)
class LevelColumn:
    """A category and the levels it had in training, the most frequent first."""

    name: str
    kind: Kind
    levels: tuple[str, ...]

    def width(self, form: Form) -> int:
        """How many matrix columns it takes."""
        return 1 if form == "codes" else min(len(self.levels), ONEHOT_LEVELS)

    def write(self, column: pa.ChunkedArray, out: np.ndarray, form: Form) -> None:
        """Fill ``out``, rows × width."""
        import numpy as np

        codes = level_codes(column, self.levels)
        if form == "codes":
            out[:, 0] = codes
            out[codes < 0, 0] = np.nan
            return
        out[:] = 0
        rows = np.flatnonzero((codes >= 0) & (codes < out.shape[1]))
        out[rows, codes[rows]] = 1


@dataclass(frozen=True)
class TableEncoder:
    """Turns tables with the columns of the training table into a matrix."""

    form: Form
    columns: tuple[NumberColumn | LevelColumn, ...]

    @classmethod
    def fit(cls, table: Table, form: Form, log: Callable[[str], None] = lambda text: None) -> TableEncoder:
        """Learn levels, medians and scales from the feature columns; say in the log what is left out and why."""
        columns = []
        for name in table.features:
            column = _learn_column(name, table.data.column(name))
            if isinstance(column, str):
                log(f"Column '{name}' is left out: {column}.")
            else:
                columns.append(column)
        if not columns:
            raise BadInput("the table has no column to learn from; give it at least one feature that has values")
        return cls(form, tuple(columns))

    @property
    def width(self) -> int:
        """Number of matrix columns."""
        return sum(column.width(self.form) for column in self.columns)

    @property
    def names(self) -> list[str]:
        """The table columns that are used."""
        return [column.name for column in self.columns]

    @property
    def categorical(self) -> list[int]:
        """Matrix columns that hold level numbers."""
        if self.form == "onehot":
            return []
        return [index for index, column in enumerate(self.columns) if isinstance(column, LevelColumn)]

    @property
    def fits_float32(self) -> bool:
        """Whether the training matrix in ``codes`` form loses nothing as 32-bit floats."""
        return all(column.fits_float32 for column in self.columns if isinstance(column, NumberColumn))

    def transform(self, data: pa.Table, precision: Precision = "float64", order: Literal["C", "F"] = "C") -> np.ndarray:
        """The matrix of a table; ``BadInput`` if its columns do not fit. Other columns do no harm."""
        import numpy as np

        self.check(data)
        matrix = np.empty((data.num_rows, self.width), precision, order=order)
        start = 0
        for column in self.columns:
            stop = start + column.width(self.form)
            column.write(data.column(column.name), matrix[:, start:stop], self.form)
            start = stop
        return matrix

    def check(self, data: pa.Table) -> None:
        """Raise ``BadInput`` that names every column that is not there or is of another kind."""
        missing = set(self.names) - set(data.column_names)
        if missing:
            raise BadInput(
                f"the table lacks {listed(name for name in self.names if name in missing)}, "
                "which the model was trained with"
            )
        wrong = [text for column in self.columns if (text := _mismatch(column, data.schema.field(column.name).type))]
        if wrong:
            raise BadInput(f"columns are of another kind than in training: {'; '.join(wrong[:5])}")

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON."""
        return {"version": VERSION, "form": self.form, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_json(cls, about: Mapping[str, Any]) -> TableEncoder:
        """What ``to_json`` gave; ``ValueError``, ``KeyError`` or ``TypeError`` if it is not that."""
        if about["version"] != VERSION or about["form"] not in ("codes", "onehot"):
            raise ValueError(f"encoder of version {about['version']}, form {about['form']}")
        return cls(about["form"], tuple(_column_from_json(column) for column in about["columns"]))


def numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Numbers, bools and times as 64-bit floats; missing and infinite values are NaN."""
    import numpy as np

    values, start = np.empty(len(column), np.float64), 0
    for chunk in column.chunks:
        values[start : start + len(chunk)] = _chunk_numbers(chunk)
        start += len(chunk)
    values[np.isinf(values)] = np.nan
    return values


def _chunk_numbers(chunk: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    per_unit = 1.0
    if types.is_temporal(chunk.type):
        per_unit = _seconds(chunk.type)
        chunk = chunk.cast(pa.int32() if chunk.type.bit_width == 32 else pa.int64())
    values = chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values if per_unit == 1.0 else values * per_unit


def _seconds(kind: pa.DataType) -> float:
    import pyarrow.types as types

    if types.is_date32(kind):
        return 86_400.0
    unit = "ms" if types.is_date64(kind) else kind.unit
    return {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def _learn_column(name: str, column: pa.ChunkedArray) -> NumberColumn | LevelColumn | str:
    """The column's encoding, or why it cannot have one."""
    import pyarrow.types as types

    kind = kind_of(column.type)
    if column.null_count == len(column):
        return "it has no values"
    if types.is_interval(column.type) or types.is_nested(column.type):
        return f"it holds {column.type}, not plain values"
    if FAMILIES[kind] != "level":
        return _learn_numbers(name, kind, numbers(column))
    return _learn_levels(name, kind, column)


def _learn_numbers(name: str, kind: Kind, values: np.ndarray) -> NumberColumn | str:
    import numpy as np

    missing = np.isnan(values)
    if missing.all():
        return "it has no values"
    with np.errstate(over="ignore"):
        fits = bool(np.array_equal(values.astype(np.float32), values, equal_nan=True))
        median = float(np.nan_to_num(np.median(values[~missing])))
    filled = np.where(missing, median, values)
    largest = float(np.abs(filled).max()) or 1.0
    mean, spread = float((filled / largest).mean()) * largest, float((filled / largest).std()) * largest
    # a spread that is only the rounding of a constant would blow up whatever differs from it
    scale = spread if spread > 1e-12 * largest else largest
    return NumberColumn(name, kind, median, mean, scale, bool(missing.any()), fits)


def _learn_levels(name: str, kind: Kind, column: pa.ChunkedArray) -> LevelColumn | str:
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "text":
        try:
            column = column.cast(pa.string())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return f"it holds {column.type}, which is no text"
        different, values = pc.count_distinct(column).as_py(), len(column) - column.null_count
        if different > TEXT_LEVELS or 2 * different > values:
            return f"its {different:,} different texts in {values:,} rows are too many to learn from"
    counts = level_counts(column)
    if not counts:
        return "it has no values"
    return LevelColumn(name, kind, tuple(sorted(counts, key=lambda level: (-counts[level], level))))


def _mismatch(column: NumberColumn | LevelColumn, given: pa.DataType) -> str | None:
    import pyarrow.types as types

    kind = kind_of(given)
    if types.is_null(given) or (FAMILIES[kind] == FAMILIES[column.kind] and not types.is_interval(given)):
        return None
    return f"'{column.name}' is a {kind} and was a {column.kind}"


def _column_from_json(about: Mapping[str, Any]) -> NumberColumn | LevelColumn:
    if about["kind"] not in FAMILIES:
        raise ValueError(f"a column of kind {about['kind']}")
    if "levels" in about:
        levels = tuple(about["levels"])
        if not all(isinstance(text, str) for text in (about["name"], *levels)):
            raise ValueError("a level that is no text")
        return LevelColumn(about["name"], about["kind"], levels)
    column = NumberColumn(**about)
    if not all(isfinite(number) for number in (column.median, column.mean, column.scale)) or column.scale <= 0:
        raise ValueError(f"column '{column.name}' cannot be scaled")
    return column
