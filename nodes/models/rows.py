"""Turn JSON rows into a model's matrix.

``RowReader`` gives the matrix that ``TableEncoder`` gives for a table with the same values, without
building an Arrow table: a service is mostly asked for a single row, for which Arrow would take 90
times as long. It names everything that is wrong, row by row.

- ``RowReader``    reads rows, describes what they should look like
- ``RowProblem``   one thing that is wrong
- ``UnfitRows``    all of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.text import shown
from nodes.models.encoder import TableEncoder
from nodes.models.kinds import Precision

MAX_PROBLEMS = 100
"""Problems that are reported for one request."""


@dataclass(frozen=True)
class RowProblem:
    """Describe what is wrong with a value, or with a whole row (``column`` is None).

    Rows are counted from 1.
    """

    row: int
    column: str | None
    message: str


class UnfitRows(Exception):
    """Report rows that do not fit the model; ``problems`` lists everything that is wrong."""

    def __init__(self, problems: Sequence[RowProblem]) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = list(problems)


class RowReader:
    """Read rows for one model."""

    def __init__(self, encoder: TableEncoder, precision: Precision) -> None:
        """Prepare the reader of each column, so that a row needs no lookup."""
        self._encoder, self._precision = encoder, precision
        limits = np.finfo(precision)
        self._smallest, self._largest = limits.min, limits.max
        self._readers = [(column.name, column.read_value) for column in encoder.columns]
        # Computed once: a service reads one row at a time.
        self._fill_values = np.array([column.fill_value for column in encoder.columns])

    def matrix(self, rows: Sequence[Any]) -> np.ndarray:
        """Return the matrix of the rows; raise ``UnfitRows`` if any of them does not fit.

        A row is a mapping of column names to JSON values. Columns that the model does not have are
        ignored.
        """
        problems: list[RowProblem] = []
        values = [self._values(number, row, problems) for number, row in enumerate(rows, start=1)]
        if problems:
            raise UnfitRows(problems)
        return self._encoded(np.array(values, np.float64).reshape(len(rows), len(self._readers)))

    def _values(self, number: int, row: Any, problems: list[RowProblem]) -> list[float]:
        """Return the row's values as numbers; NaN where they are missing.

        Categories are their numbers. What is wrong is added to ``problems``.
        """
        if not isinstance(row, Mapping):
            message = f"a row must be an object of column names and values, not {shown(row)}"
            _add_problem(problems, number, None, message)
            return []
        values = []
        for name, read_value in self._readers:
            try:
                values.append(read_value(row[name]))
            # A missing key is an error, because a misspelled column would go unnoticed otherwise.
            except KeyError:
                message = f"the row lacks '{name}'; use null for a missing value"
                _add_problem(problems, number, name, message)
            except ValueError as error:
                _add_problem(problems, number, name, f"'{name}' is {shown(row[name])}, {error}")
        return values

    def _encoded(self, values: np.ndarray) -> np.ndarray:
        """Return values as the matrix of the encoder's form: filled, clipped or one-hot."""
        encoder = self._encoder
        matrix = np.empty((len(values), encoder.width), self._precision)
        if encoder.form == "codes":
            # All columns at once: one by one they would take ten times as long for a single row.
            filled = np.where(np.isnan(values), self._fill_values, values)
            np.clip(filled, self._smallest, self._largest, out=matrix)
            return matrix
        for index, (column, part) in enumerate(encoder.parts(matrix)):
            column.write(values[:, index], part, encoder.form)
        return matrix

    def describe(self) -> list[dict[str, Any]]:
        """Return for every column its kind, what it may hold, and an example."""
        return [column.describe() for column in self._encoder.columns]


def _add_problem(problems: list[RowProblem], row: int, column: str | None, message: str) -> None:
    """Add a problem, unless there are ``MAX_PROBLEMS`` already."""
    if len(problems) < MAX_PROBLEMS:
        problems.append(RowProblem(row, column, message))
