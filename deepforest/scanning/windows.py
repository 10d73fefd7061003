"""Lay windows over sequences and images: their sizes, their positions, and the columns of a row.

A row is a sequence of ``length`` values, or an image of ``height × width`` pixels with perhaps
several channels. Its columns are in reading order: row by row of the image, and the channels of a
pixel side by side.

- ``Grain``          one window size with its positions
- ``make_grains``    the grains that ``windows``, ``stride`` and ``sample`` describe
- ``Pooling``        how the vectors of neighbouring positions are merged
- ``check_shape``    checks a shape, and that columns match it
- ``check_order``    checks that columns whose names say where they are come in reading order
- ``guess_shape``    the shape that names and number of columns suggest
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from .._input import check_whole
from ..forest.forest import Windows

Array = npt.NDArray[Any]

SHARES = {"auto": (16, 8, 4), "fine": (16,)}
"""Window sizes of the papers as parts of the d values of a row: gcForest's, and gcForest-CS's."""
POOLING = ("mean", "max")
MOST_VALUES = 2**22
PIXEL = re.compile(r"(\D*)(\d+)(\D+)(\d+)")
NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class Grain:
    """Hold one window size, and where its windows begin.

    ``size`` is (length,) or (height, width); ``positions`` are the first corners, one line each.
    ``grid`` says how many positions there are in each direction before a sample was drawn.
    """

    shape: tuple[int, ...]
    size: tuple[int, ...]
    positions: Array
    grid: tuple[int, ...]

    @property
    def title(self) -> str:
        """The size in words, such as 7x7."""
        return "x".join(map(str, self.size))

    @property
    def windows(self) -> Windows:
        """Where the windows are in the flat row, as the forests read them."""
        return Windows(_places(self.positions, self.shape), _box(self.shape, self.size))

    def position_name(self, number: int) -> str:
        """Return a position in words, such as (3,4)."""
        return f"({','.join(map(str, self.positions[number]))})"


@dataclass(frozen=True)
class Pooling:
    """Merge the vectors of blocks of neighbouring positions, by ``kind`` "mean" or "max"."""

    kind: str
    size: int

    def blocks(self, grid: tuple[int, ...]) -> list[Array]:
        """Return the positions of each block; blocks at the end may be smaller."""
        numbers = np.arange(math.prod(grid)).reshape(grid)
        by_axis = [range(0, length, self.size) for length in grid]
        corners = np.stack(np.meshgrid(*by_axis, indexing="ij"), axis=-1).reshape(-1, len(grid))
        blocks = []
        for corner in corners:
            block = tuple(slice(start, start + self.size) for start in corner)
            blocks.append(numbers[block].reshape(-1))
        return blocks

    def merge(self, vectors: Array, grid: tuple[int, ...]) -> Array:
        """Return the merged vectors, rows × blocks × classes."""
        merge = np.mean if self.kind == "mean" else np.max
        merged = [merge(vectors[:, block], axis=1) for block in self.blocks(grid)]
        return np.stack(merged, axis=1)


def make_pooling(pooling: Any, sample: Any) -> Pooling | None:
    """Return the pooling that a parameter describes; raise ``ValueError`` for another form."""
    if pooling is None:
        return None
    if not isinstance(pooling, list | tuple) or len(pooling) != 2 or pooling[0] not in POOLING:
        raise ValueError(f"pooling is {pooling!r}; give ('mean', size), ('max', size) or None")
    check_whole("the size of pooling", pooling[1], 1)
    if sample is not None:
        raise ValueError(
            "pooling merges neighbouring positions, and a sample leaves some out; set sample or "
            "pooling to None"
        )
    return Pooling(str(pooling[0]), int(pooling[1]))


def make_grains(
    shape: tuple[int, ...], windows: Any, stride: Any, sample: Any, varies: Array, seed: int
) -> list[Grain]:
    """Return the grains in order of ``windows``, with the positions that are used.

    ``varies`` says which columns are not constant: positions without any such column are drawn
    into a sample only if there are not enough others. Raise ``ValueError`` for a window that does
    not fit, and for a sample of none or of more than all positions.
    """
    check_whole("stride", stride, 1)
    grains = []
    for number, size in enumerate(window_sizes(shape, windows)):
        starts = [
            np.arange(0, length - side + 1, stride)
            for length, side in zip(shape[:2], size, strict=False)
        ]
        grid = tuple(len(each) for each in starts)
        every = np.stack(np.meshgrid(*starts, indexing="ij"), axis=-1).reshape(-1, len(size))
        positions = every[_sampled(every, shape, size, sample, varies, (seed, number))]
        grains.append(Grain(shape, size, positions, grid))
    return grains


def window_sizes(shape: tuple[int, ...], windows: Any) -> list[tuple[int, ...]]:
    """Return the window sizes; raise ``ValueError`` for one that does not fit into the shape."""
    is_image = len(shape) > 1
    if isinstance(windows, str):
        if windows not in SHARES:
            raise ValueError(f"windows is {windows!r}; give 'auto', 'fine' or a list of sizes")
        return _sizes_of_shares(shape, SHARES[windows])
    if not isinstance(windows, list | tuple | np.ndarray) or not len(windows):
        raise ValueError(f"windows is {windows!r}; give 'auto' or a list of sizes such as [7, 10]")
    sizes = []
    for given in windows:
        size = _as_size(given, is_image)
        if any(side > length for side, length in zip(size, shape, strict=False)):
            raise ValueError(
                f"a window of {_by(size)} does not fit into {_what(shape)}; give at most "
                f"{_by(shape[: len(size)])}"
            )
        if size not in sizes:
            sizes.append(size)
    return sizes


def _sizes_of_shares(shape: tuple[int, ...], shares: tuple[int, ...]) -> list[tuple[int, ...]]:
    # d is the number of features, not the side of an image: a window of d/16 features of a
    # 28 × 28 image is 7 × 7. A window spans all channels, so they do not change its share.
    sizes: list[tuple[int, ...]] = []
    for share in shares:
        size: tuple[int, ...] = (max(1, shape[0] // share),)
        if len(shape) > 1:
            side = max(1, round(math.sqrt(shape[0] * shape[1] / share)))
            size = (min(side, shape[0]), min(side, shape[1]))
        if size not in sizes:
            sizes.append(size)
    return sizes


def _as_size(given: Any, is_image: bool) -> tuple[int, ...]:
    """Return a window size as (length,) or (height, width); a number means a square."""
    parts = (given,) * (2 if is_image else 1) if isinstance(given, Integral) else given
    if not isinstance(parts, list | tuple | np.ndarray) or len(parts) != (2 if is_image else 1):
        expected = "(height, width)" if is_image else "a length"
        raise ValueError(f"windows holds {given!r}; give each size as {expected}")
    for part in parts:
        check_whole("the side of a window", part, 1)
    return tuple(int(part) for part in parts)


def _sampled(
    every: Array,
    shape: tuple[int, ...],
    size: tuple[int, ...],
    sample: Any,
    varies: Array,
    seed: tuple[int, int],
) -> Array:
    """Return the numbers of the positions that are used, ascending."""
    n = len(every)
    if sample is None:
        return np.arange(n)
    wanted = n_sampled(sample, n, _by(size))
    rng = np.random.default_rng(seed)
    # Windows of the background have the same values in all rows, and say nothing about classes.
    columns = _places(every, shape)[:, None] + _box(shape, size)
    informative = varies[columns].any(axis=1)
    order = rng.permutation(n)
    order = order[np.argsort(~informative[order], kind="stable")]
    return np.sort(order[:wanted])


def n_sampled(sample: Any, n: int, window: str) -> int:
    """Return how many of ``n`` positions a sample has; raise ``ValueError`` for none or too many.

    ``sample`` is a number of positions, or a share of them below 1. ``window`` names the size.
    """
    if isinstance(sample, int | np.integer) and not isinstance(sample, bool):
        if 1 <= sample <= n:
            return int(sample)
        raise ValueError(
            f"sample is {sample}, and a window of {window} has {n:,} positions; give a number from "
            f"1 to {n:,}, a share such as 0.1, or None for all"
        )
    if isinstance(sample, bool) or not isinstance(sample, Real) or not 0 < float(sample) <= 1:
        raise ValueError(
            f"sample is {sample!r}; give a number of positions, a share above 0 and at most 1, or "
            "None for all"
        )
    return max(1, round(float(sample) * n))


def _places(positions: Array, shape: tuple[int, ...]) -> Array:
    """Return where positions are in the flat row."""
    if len(shape) == 1:
        return np.asarray(positions[:, 0], np.int64)
    n_channels = channels(shape)
    return np.asarray((positions[:, 0] * shape[1] + positions[:, 1]) * n_channels, np.int64)


def _box(shape: tuple[int, ...], size: tuple[int, ...]) -> Array:
    """Return where the values of a window are in the flat row, from its corner on."""
    if len(shape) == 1:
        return np.arange(size[0])
    n_channels = channels(shape)
    pixels = np.arange(size[0])[:, None] * shape[1] + np.arange(size[1])
    return (pixels.reshape(-1, 1) * n_channels + np.arange(n_channels)).reshape(-1)


def channels(shape: tuple[int, ...]) -> int:
    """Return how many values a place of the sequence or image has."""
    return shape[2] if len(shape) == 3 else 1


# --- shapes and columns ---


def check_shape(shape: Any, n_columns: int | None = None) -> tuple[int, ...]:
    """Return the shape as a tuple; raise ``ValueError`` if the columns do not match it."""
    if isinstance(shape, Integral):
        shape = (shape,)
    if not isinstance(shape, list | tuple | np.ndarray) or len(shape) not in (1, 2, 3):
        raise ValueError(
            f"shape is {shape!r}; give (length,), (height, width) or (height, width, channels)"
        )
    for part in shape:
        check_whole("a part of shape", part, 1)
    checked = tuple(int(part) for part in shape)
    n_values = math.prod(checked)
    if n_values > MOST_VALUES:
        raise ValueError(f"shape is {checked}: {n_values:,} values are more than {MOST_VALUES:,}")
    if n_columns is not None and n_columns != n_values:
        raise ValueError(
            f"shape is {_by(checked)}, which is {n_values:,} columns, and there are "
            f"{n_columns:,}; leave out columns that are not part of {_what(checked, 'the ')}, or "
            "change the shape"
        )
    return checked


def check_order(names: Sequence[str], shape: tuple[int, ...]) -> None:
    """Raise ``ValueError`` if the names of columns show that they are not in reading order.

    Names such as px3_4 say the row and the column, names such as pixel17 the number. Names that
    say neither are not checked.
    """
    places = _numbers_in(names, PIXEL)
    if places is None:
        places = _numbers_in(names, NUMBERED)
    # The values before a moment may well be numbered backwards.
    if places is None or places == sorted(places, reverse=True):
        return
    wanted = sorted(range(len(names)), key=lambda column: places[column])
    for column, other in enumerate(wanted):
        if column != other:
            raise ValueError(
                f"the columns are not in reading order: column {column + 1} is '{names[column]}', "
                f"and {_what(shape)} needs '{names[other]}' there; restore the order of the columns"
            )


def guess_shape(names: Sequence[str]) -> tuple[int, ...] | None:
    """Return the shape that columns suggest, None if they suggest none.

    Names such as px3_4 in reading order say it; else a square number of columns is an image.

    >>> guess_shape([f"px{row}_{column}" for row in range(3) for column in range(5)])
    (3, 5)
    """
    places = _numbers_in(names, PIXEL)
    if places is not None and len(places) > 1:
        low, high = np.min(places, axis=0), np.max(places, axis=0)
        height, width = (int(length) for length in high - low + 1)
        return (height, width) if height * width == len(places) else None
    side = math.isqrt(len(names))
    return (side, side) if side >= 4 and side * side == len(names) else None


def _numbers_in(names: Sequence[str], pattern: re.Pattern[str]) -> list[tuple[int, ...]] | None:
    """Return the numbers in the names, None unless all names differ in them alone."""
    numbers, texts = [], set()
    for name in names:
        match = pattern.fullmatch(name)
        if match is None:
            return None
        groups = match.groups()
        numbers.append(tuple(int(each) for each in groups[1::2]))
        texts.add(groups[::2])
    return numbers if len(texts) == 1 and len(set(numbers)) == len(numbers) else None


def _by(parts: Sequence[int]) -> str:
    return " × ".join(map(str, parts))


def _what(shape: tuple[int, ...], article: str = "") -> str:
    """Return a shape in words."""
    if len(shape) == 1:
        return f"{article or 'a '}sequence of {shape[0]}"
    return f"{article or 'an '}image of {_by(shape)}"
