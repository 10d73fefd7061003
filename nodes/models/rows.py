"""Rows of JSON made into a model's matrix.

``RowReader`` gives the matrix that ``TableEncoder`` would give of a table with the same values, without making a table
of every row: a service is mostly asked about one. It names everything that is wrong, row by row.

- ``RowReader``    reads rows, says what they should look like
- ``RowProblem``   one thing that is wrong
- ``UnfitRows``    all of them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any

from nodes.models.encoder import LevelColumn, NumberColumn, Precision, TableEncoder
from nodes.models.new_data import ColumnMismatch, Levels, read_time

if TYPE_CHECKING:
    import numpy as np

MOST_PROBLEMS = 100
"""Problems that are told of one request."""
SHOWN = 60
"""Characters of a value that a problem shows."""

Convert = Callable[[Any], float]


@dataclass(frozen=True)
class RowProblem:
    """What is wrong with a value, or with a row; rows are counted from 1."""

    row: int
    column: str | None
    message: str


class UnfitRows(Exception):
    """Rows that do not fit the model, and everything that is wrong with them."""

    def __init__(self, problems: Sequence[RowProblem]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = list(problems)


class RowReader:
    """Reads rows for one model."""

    def __init__(self, encoder: TableEncoder, precision: Precision) -> None:
        self._encoder, self._precision = encoder, precision
        self._converts = [(column.name, _converter(column)) for column in encoder.columns]

    def matrix(self, rows: Sequence[Any]) -> np.ndarray:
        """One line a row; ``UnfitRows`` if any of them does not fit."""
        import numpy as np

        problems: list[RowProblem] = []
        values = [self._values(number, row, problems) for number, row in enumerate(rows, start=1)]
        if problems:
            raise UnfitRows(problems)
        return self._encoded(np.array(values, np.float64).reshape(len(rows), len(self._converts)))

    def _values(self, number: int, row: Any, problems: list[RowProblem]) -> list[float]:
        """The row's values as numbers, levels by their position; NaN where they are missing."""
        if not isinstance(row, Mapping):
            _note(problems, number, None, f"a row is an object of columns and values, not {shown(row)}")
            return []
        values = []
        for name, convert in self._converts:
            try:
                values.append(convert(row[name]))
            except KeyError:
                _note(problems, number, name, f"the row lacks '{name}'; give null for a value that is missing")
            except ValueError as error:
                _note(problems, number, name, f"'{name}' is {shown(row[name])} {error}")
        return values

    def _encoded(self, values: np.ndarray) -> np.ndarray:
        import numpy as np

        limits = np.finfo(self._precision)
        form = self._encoder.form
        matrix = np.empty((len(values), self._encoder.width), self._precision)
        if form == "codes":
            np.clip(np.where(np.isnan(values), self._filling, values), limits.min, limits.max, out=matrix)
            return matrix
        start = 0
        for place, column in enumerate(self._encoder.columns):
            stop = start + column.width(form)
            _write_onehot(column, values[:, place], matrix[:, start:stop], limits)
            start = stop
        return matrix

    @property
    def _filling(self) -> list[float]:
        """What a missing value counts as, column by column."""
        return [
            column.median if isinstance(column, NumberColumn) and not column.has_missing else nan
            for column in self._encoder.columns
        ]

    def describe(self) -> list[dict[str, Any]]:
        """Every column: its kind, what it may hold, and an example."""
        return [_description(column) for column in self._encoder.columns]


def shown(value: Any) -> str:
    """A value as a message shows it."""
    text = repr(value) if not isinstance(value, dict | list) else ("an object" if isinstance(value, dict) else "a list")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _note(problems: list[RowProblem], row: int, column: str | None, message: str) -> None:
    if len(problems) < MOST_PROBLEMS:
        problems.append(RowProblem(row, column, message))


def _converter(column: NumberColumn | LevelColumn) -> Convert:
    if isinstance(column, LevelColumn):
        return _level_converter(Levels.of(column))
    return _time if column.kind == "time" else _number


def _number(value: Any) -> float:
    if value is None:
        return nan
    if isinstance(value, int | float):
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if isfinite(number):
            return number
        raise ValueError("and too large for a number")
    raise ValueError("where a number is expected")


def _time(value: Any) -> float:
    if value is None:
        return nan
    if isinstance(value, str):
        try:
            return read_time(value)
        except ColumnMismatch:
            pass
    raise ValueError("where a time such as '2024-01-31 12:30:00' is expected")


def _level_converter(levels: Levels) -> Convert:
    known = levels.known

    def convert(value: Any) -> float:
        if value is None:
            return nan
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, int | float) and levels.are_numbers:
            value = str(value) if isinstance(value, float) or abs(value) < 1e18 else ""
        if not isinstance(value, str):
            raise ValueError("where a category is expected, as text")
        place = known.get(value)
        if place is None:
            meant = levels.meant(value)
            place = None if meant is None else known[meant]
        return nan if place is None else float(place)

    return convert


def _write_onehot(column: NumberColumn | LevelColumn, values: np.ndarray, out: np.ndarray, limits: Any) -> None:
    import numpy as np

    missing = np.isnan(values)
    if isinstance(column, LevelColumn):
        out[:] = 0
        rows = np.flatnonzero(~missing & (values < out.shape[1]))
        out[rows, values[rows].astype(np.int64)] = 1
        return
    with np.errstate(over="ignore"):
        scaled = (np.where(missing, column.median, values) - column.mean) / column.scale
    np.clip(scaled, limits.min, limits.max, out=out[:, 0], casting="same_kind")
    if out.shape[1] == 2:
        out[:, 1] = missing


def _description(column: NumberColumn | LevelColumn) -> dict[str, Any]:
    about: dict[str, Any] = {"name": column.name, "kind": column.kind, "missing_allowed": True}
    if isinstance(column, LevelColumn):
        return {**about, "kind": "category", "categories": list(column.levels), "example": column.levels[0]}
    if column.kind == "time":
        import datetime

        try:
            moment = datetime.datetime.fromtimestamp(int(column.median), datetime.UTC)
            example: Any = moment.strftime("%Y-%m-%d %H:%M:%S")
        except (ValueError, OverflowError, OSError):
            example = None
    elif column.kind == "bool":
        example = column.median >= 0.5
    else:
        rounded = float(f"{column.median:.6g}")
        example = int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
    return {**about, "missing_in_training": column.has_missing, "example": example}
