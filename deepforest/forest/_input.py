"""Tables as matrices of numbers: what the forests accept as X.

An array is taken as it is. A data frame (pandas, or anything with ``columns``, ``dtypes`` and ``iloc``) may have
columns of categories, strings, booleans and missing values: such a column becomes the number of its level, and counts
as categorical.

- ``TableReader``  learns the levels of a table's columns and turns tables into matrices
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def is_table(data: Any) -> bool:
    """Whether ``data`` is a data frame rather than an array."""
    return hasattr(data, "columns") and hasattr(data, "dtypes") and hasattr(data, "iloc")


class TableReader:
    """The columns of a table: for each the levels (None: numbers), in the order of their codes."""

    def __init__(self, names: list[str], levels: list[list[Any] | None]) -> None:
        self.names = names
        self.levels = levels

    @classmethod
    def learn(cls, table: Any) -> TableReader:
        """Learn names and levels of the columns of ``table``."""
        columns = [table.iloc[:, j] for j in range(table.shape[1])]
        return cls([str(name) for name in table.columns], [_levels(column) for column in columns])

    @property
    def categorical(self) -> Array:
        """Which columns hold categories."""
        return np.array([levels is not None for levels in self.levels], bool)

    def read(self, table: Any) -> Array:
        """``table`` as numbers, by column: codes of levels, NaN where missing or never seen."""
        if table.shape[1] != len(self.levels):
            raise ValueError(f"the table has {table.shape[1]} columns; {len(self.levels)} were there when fitted")
        matrix = np.empty(table.shape, np.float64, order="F")
        for j, levels in enumerate(self.levels):
            column = table.iloc[:, j]
            matrix[:, j] = _numbers(column, self.names[j]) if levels is None else _codes(column, levels)
        return matrix


def _is_numeric(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "iuf"


def _levels(column: Any) -> list[Any] | None:
    if _is_numeric(column):
        return None
    present = {_plain(value) for value in column.dropna().unique()}
    return sorted(present, key=lambda value: (isinstance(value, str), value))


def _plain(value: Any) -> Any:
    """Levels are strings, numbers or booleans, so that they can be written as JSON."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, str | int | float | bool) else str(value)


def _codes(column: Any, levels: Sequence[Any]) -> Array:
    number = {level: code for code, level in enumerate(levels)}
    values = column.unique()
    known = {value: number.get(_plain(value), np.nan) for value in values if value == value and value is not None}
    return np.asarray(column.map(known), np.float64)


def _numbers(column: Any, name: str) -> Array:
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} held numbers when fitted and holds {column.dtype} now") from error
