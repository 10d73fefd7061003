"""Draw rows as images where their columns are the pixels of one.

- ``ImageShape``   height, width and colours of an image, and which column is which pixel
- ``find_shape``   the shape that names and values of the columns suggest; None if they suggest none
- ``may_be_images``  whether the columns can be pixels, so that a user may type their shape
- ``parse_shape``  the shape that a user has typed
- ``RowImages``    the images of the inspected rows: one by one, or all on one sheet
"""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from engine.errors import BadInput
from engine.text import counted

SMALLEST_SIDE = 4
LARGEST_SIDE = 1_024
PIXEL_WORDS = ("pixel", "pix", "px", "p", "")
"""What a column is called before its number if it is a pixel for sure."""
GRID_NAME = re.compile(r"(?P<word>\D*?)(?P<row>\d{1,6})(?P<between>[_x,.: -])(?P<column>\d{1,6})")
RUNNING_NAME = re.compile(r"(?P<word>\D*?)[_. -]?(?P<number>\d{1,6})")
TYPED = re.compile(r"\s*(\d{1,6})\s*[x×*,]\s*(\d{1,6})\s*(?:[x×*,]\s*(\d{1,6})\s*)?")
COMMON_SCALE = 0.1
"""A typical pixel reaches at least this share of the brightest one."""
EMPTY = 0.1
"""If half of all pixels are below this share of the brightest one, they are empty paper."""
SHEET_PIXELS = 4_000_000
"""Most pixels on the sheet that the browser gets; larger images are made smaller."""


@dataclass(frozen=True)
class ImageShape:
    """The shape of images: height × width pixels of one or three colours.

    ``columns`` are the columns of the table in the order of the pixels: row by row, and the colours
    of a pixel together.
    """

    height: int
    width: int
    colours: int
    columns: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the shape as text: ``8 × 8``."""
        sides = [self.height, self.width] + ([3] if self.colours == 3 else [])
        return " × ".join(map(str, sides))


# Which columns are pixels


def find_shape(features: Sequence[str], rows: pa.Table) -> ImageShape | None:
    """Return the shape of the images that the feature columns hold; None if they do not.

    Names must say that a column is a pixel: a row and a column that fill a rectangle
    (``pixel_0_0``, ``px3_4``, ``1x1``), or a running number that fills a square (``pixel0`` …
    ``pixel783``). Values must be numbers of 0 and more, none missing, on one scale.
    """
    shape = _grid_shape(features) or _square_shape(features)
    if shape is None or not _are_numbers(shape.columns, rows):
        return None
    return shape if _look_like_pixels(_pixels(shape.columns, rows)) else None


def may_be_images(features: Sequence[str], rows: pa.Table) -> bool:
    """Return whether all feature columns can be the pixels of an image, whatever their names.

    There must be as many as a square has pixels, of one or three colours, or their names must give
    the shape. Values must be numbers of 0 and more, none missing, on one scale.
    """
    # The names and the count first: reading all values takes longer.
    if not (_grid_shape(features) or _is_square(len(features))):
        return False
    return _are_numbers(features, rows) and _look_like_pixels(_pixels(features, rows))


def _is_square(count: int) -> bool:
    """Return whether this many values fill a square of one or three colours."""
    sides = [math.isqrt(count)]
    sides += [math.isqrt(count // 3)] if count % 3 == 0 else []
    return any(side >= SMALLEST_SIDE and count in (side**2, 3 * side**2) for side in sides)


def _grid_shape(names: Sequence[str]) -> ImageShape | None:
    """Return the shape if each name has the row and the column of a pixel."""
    matches = [GRID_NAME.fullmatch(name) for name in names]
    found = [match for match in matches if match]
    if len(found) < len(names) or len({(each["word"], each["between"]) for each in found}) != 1:
        return None
    rows = sorted({int(match["row"]) for match in found})
    columns = sorted({int(match["column"]) for match in found})
    height, width = len(rows), len(columns)
    is_running = _is_running(rows) and _is_running(columns)
    if not is_running or min(height, width) < SMALLEST_SIDE or height * width != len(names):
        return None
    place = {(int(match["row"]), int(match["column"])): match.string for match in found}
    # Two columns of one place, such as ``1_1`` and ``01_1``, leave another place empty.
    if len(place) < len(names):
        return None
    return ImageShape(height, width, 1, tuple(place[at] for at in sorted(place)))


def _square_shape(names: Sequence[str]) -> ImageShape | None:
    """Return the shape if the names are numbered and there are as many as a square has pixels."""
    matches = [RUNNING_NAME.fullmatch(name) for name in names]
    found = [match for match in matches if match]
    words = {match["word"].lower().strip("_. -") for match in found}
    side = math.isqrt(len(names))
    is_pixels = len(found) == len(names) and len(words) == 1 and words <= set(PIXEL_WORDS)
    if not is_pixels or side * side != len(names) or side < SMALLEST_SIDE:
        return None
    by_number = {int(match["number"]): match.string for match in found}
    if len(by_number) < len(names) or not _is_running(sorted(by_number)):
        return None
    return ImageShape(side, side, 1, tuple(by_number[number] for number in sorted(by_number)))


def _is_running(numbers: Sequence[int]) -> bool:
    """Return whether sorted numbers have no gap."""
    return numbers[-1] - numbers[0] + 1 == len(numbers)


def _are_numbers(names: Sequence[str], rows: pa.Table) -> bool:
    """Return whether the table has the columns, and they hold numbers without gaps."""
    if not set(names) <= set(rows.column_names):
        return False
    columns = [rows.column(name) for name in names]
    return all(_is_number(column.type) and not column.null_count for column in columns)


def _is_number(kind: pa.DataType) -> bool:
    """Return whether a column of this type can be a pixel."""
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _look_like_pixels(values: np.ndarray) -> bool:
    """Return whether there are values (rows × pixels), at least 0 and on one scale."""
    if not values.size or not np.isfinite(values).all() or values.min() < 0:
        return False
    brightest = values.max(axis=0)
    # Pixels at the border may always be dark.
    used = brightest[brightest > 0]
    return bool(len(used)) and float(np.median(used)) >= COMMON_SCALE * float(used.max())


# What a user types


def parse_shape(text: str, features: Sequence[str], rows: pa.Table) -> ImageShape | None:
    """Return the shape of a text such as ``28 × 28``, ``32x32x3`` or ``3x32x32``; None if empty.

    With three numbers the last or the first is 3, for the colours: last if the colours of a pixel
    are together, first if all of one colour come before the next. Raise ``BadInput`` if the columns
    do not fill such an image, or if there are no rows.
    """
    if not text.strip():
        return None
    match = TYPED.fullmatch(text.lower())
    if match is None:
        raise BadInput(
            f"'{text.strip()}' is not the shape of an image; type height × width, such as 28 × 28"
        )
    sides = [int(side) for side in match.groups() if side]
    if min(sides) < 1:
        raise BadInput("each side of an image has at least 1 pixel; type a shape such as 28 × 28")
    if not rows.num_rows:
        raise BadInput("there are no inspected rows to draw as images")
    planes_first = len(sides) == 3 and sides[0] == 3 and sides[2] != 3
    if len(sides) == 3 and 3 not in (sides[0], sides[2]):
        raise BadInput("an image has 3 colours; type height × width × 3, such as 32 × 32 × 3")
    colours = 3 if len(sides) == 3 else 1
    height, width = sides[1:] if planes_first else sides[:2]
    names = [name for name in features if _are_numbers([name], rows)]
    needed = height * width * colours
    if needed != len(names) or max(height, width) > LARGEST_SIDE:
        typed = " × ".join(map(str, sides))
        raise BadInput(
            f"an image of {typed} has {needed:,} values, and the forest reads "
            f"{counted(len(names), 'column')} of numbers without gaps; type a shape that fits"
        )
    if planes_first:
        order = np.arange(needed).reshape(3, height * width).T.ravel()
        names = [names[at] for at in order]
    return ImageShape(height, width, colours, tuple(names))


# Images


def _pixels(columns: Sequence[str], rows: pa.Table) -> np.ndarray:
    """Return the values of the columns, rows × pixels."""
    return np.stack([rows.column(name).to_numpy() for name in columns], axis=1)


class RowImages:
    """The images of the inspected rows.

    A high value is bright. Where most pixels are empty it is dark instead, as ink on paper.
    """

    def __init__(self, shape: ImageShape, rows: pa.Table) -> None:
        """Scale the values of all rows together to 0 … 255."""
        values = _pixels(shape.columns, rows).astype(np.float32)
        known = values[np.isfinite(values)]
        low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
        filled = np.nan_to_num(values, nan=low, posinf=high, neginf=low)
        # All values may be equal: do not divide by zero.
        scaled = (filled - low) / ((high - low) or 1.0)
        if shape.colours == 1 and float(np.median(scaled)) < EMPTY:
            scaled = 1 - scaled
        size = (len(values), shape.height, shape.width, shape.colours)
        self.shape = shape
        self.pixels = np.round(scaled * 255).astype(np.uint8).reshape(size)

    def address(self, at: int) -> str:
        """Return the image of the row at this position of the sample, as a data address."""
        return _as_address(self.pixels[at])

    @cached_property
    def sheet(self) -> dict[str, Any]:
        """Return all images on one sheet for the browser, with what is needed to find one.

        It has the data address of the sheet, how many images a line has, and their size.
        """
        small = self.pixels
        while small.size > SHEET_PIXELS and min(small.shape[1:3]) >= 2 * SMALLEST_SIDE:
            small = small[:, ::2, ::2]
        count, height, width, colours = small.shape
        across = math.ceil(math.sqrt(count * height / width))
        down = math.ceil(count / across)
        sheet = np.full((down * across, height, width, colours), 255, np.uint8)
        sheet[:count] = small
        lines = sheet.reshape(down, across, height, width, colours).swapaxes(1, 2)
        picture = lines.reshape(down * height, across * width, colours)
        return {"src": _as_address(picture), "across": across, "height": height, "width": width}


def _as_address(pixels: np.ndarray) -> str:
    """Return pixels (height × width × colours) as the data address of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
