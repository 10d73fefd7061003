"""Turn the columns of a table into what a polynomial kernel needs: complete, scaled numbers.

- ``ScaledColumns``  learned from the training rows, and saved with the model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_LEVELS = 100
"""Categories of a column that get a column of their own: the most frequent ones."""
NUMBERS = ("median", "mean", "scale", "low", "high")


@dataclass(frozen=True)
class ScaledColumns:
    """Convert rows of numbers and category codes.

    A number becomes its distance from the mean in standard deviations; a missing one counts as the
    median, one beyond the range of the training rows as its end: a polynomial of degree 9 is
    meaningless there. A category becomes a column of 0 and 1 for each of its frequent levels;
    a missing, rare or unknown one has only zeros.
    """

    numbers: dict[str, Array]
    """Median, mean, scale, low and high end of each column of numbers."""
    is_category: Array
    levels: Array
    """The levels of all columns of categories, one column after the other."""
    n_levels: Array
    """How many of them each column of categories has."""

    @classmethod
    def learn(cls, values: Array, is_category: Array) -> Self:
        """Return the conversion for training rows; NaN is a missing value."""
        columns = [_number_column(values[:, j]) for j in np.flatnonzero(~is_category)]
        numbers = np.array(columns, float).reshape(-1, len(NUMBERS))
        levels = [_frequent_levels(values[:, j]) for j in np.flatnonzero(is_category)]
        return cls(
            {name: numbers[:, index].copy() for index, name in enumerate(NUMBERS)},
            is_category,
            np.concatenate([np.zeros(0), *levels]),
            np.array([len(column) for column in levels], np.int64),
        )

    @property
    def width(self) -> int:
        """The number of columns that come out."""
        return int((~self.is_category).sum() + self.n_levels.sum())

    def scale(self, values: Array) -> Array:
        """Return rows as complete, scaled numbers: the numbers first, then the categories."""
        out = np.zeros((len(values), self.width))
        of_numbers = {name: column[None] for name, column in self.numbers.items()}
        given = values[:, ~self.is_category].astype(np.float64)
        given = np.where(np.isnan(given), of_numbers["median"], given)
        given = np.clip(given, of_numbers["low"], of_numbers["high"])
        # Halves: the difference of two of the largest floats would be infinite.
        halved = given / 2 - of_numbers["mean"] / 2
        out[:, : given.shape[1]] = halved / of_numbers["scale"]
        first, place = 0, given.shape[1]
        for column, n_levels in zip(np.flatnonzero(self.is_category), self.n_levels, strict=True):
            levels = self.levels[first : first + n_levels]
            out[:, place : place + n_levels] = values[:, [column]] == levels
            first, place = first + n_levels, place + n_levels
        return out

    def arrays(self) -> dict[str, Array]:
        """Return everything as plain arrays."""
        return {
            **{f"column_{name}": column for name, column in self.numbers.items()},
            "is_category": self.is_category,
            "levels": self.levels,
            "n_levels": self.n_levels,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], n_features: int) -> Self:
        """Return the conversion; raise ``ValueError`` unless the arrays go together."""
        numbers = {name: arrays[f"column_{name}"] for name in NUMBERS}
        restored = cls(numbers, arrays["is_category"], arrays["levels"], arrays["n_levels"])
        flags, n_levels = restored.is_category, restored.n_levels
        sound = (
            flags.shape == (n_features,)
            and flags.dtype == bool
            and n_levels.shape == (int(flags.sum()),)
            and n_levels.dtype.kind == "i"
            and (n_levels >= 0).all()
            and restored.levels.shape == (n_levels.sum(),)
            and all(_are_finite(column, (~flags).sum()) for column in numbers.values())
        )
        if not sound or not (numbers["scale"] > 0).all():
            raise ValueError("the scales of the columns do not go together")
        return restored


def _number_column(values: Array) -> tuple[float, ...]:
    """Return median, mean, scale, low and high end of a column; a constant one has scale 1.

    The scale is half of the standard deviation, because ``scale`` divides halves.
    """
    known = values[~np.isnan(values)].astype(np.float64)
    if not len(known):
        return 0.0, 0.0, 1.0, 0.0, 0.0
    low, high = float(known.min()), float(known.max())
    # Divided by a power of two, which is exact: squares of very large or small numbers are not
    # floats any more.
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])
    small = np.ldexp(known, -exponent)
    mean, deviation = float(small.mean()), float(small.std())
    median = float(np.ldexp(np.median(small), exponent))
    scale = float(np.ldexp(deviation, exponent - 1))
    if low == high or scale == 0.0:
        return low, low, 1.0, low, low
    return median, float(np.ldexp(mean, exponent)), scale, low, high


def _are_finite(column: Array, n: int) -> bool:
    """Return whether an array holds ``n`` finite numbers."""
    return column.shape == (n,) and column.dtype == np.float64 and bool(np.isfinite(column).all())


def _frequent_levels(values: Array) -> Array:
    """Return the most frequent codes of a column, in ascending order."""
    levels, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    # Stable: of equally frequent ones, the smaller code stays.
    frequent = np.argsort(-counts, kind="stable")[:MAX_LEVELS]
    return np.sort(levels[frequent]).astype(np.float64)
