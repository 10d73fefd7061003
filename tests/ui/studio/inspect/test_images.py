"""Rows whose columns are the pixels of an image."""

from __future__ import annotations

import base64
import io

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import BadInput
from ui.studio.inspect.images import RowImages, find_shape, may_be_images, parse_shape


def table(names: list[str], rows: int = 3, high: float = 16) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({name: rng.integers(0, high, rows) for name in names})


def grid_names(height: int, width: int, form: str = "pixel_{}_{}") -> list[str]:
    return [form.format(row, column) for row in range(height) for column in range(width)]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (grid_names(8, 8), "8 × 8"),
        (grid_names(4, 6, "{}x{}"), "4 × 6"),
        ([f"pixel{at}" for at in range(1, 26)], "5 × 5"),
    ],
)
def test_names_of_pixels_give_the_shape(names: list[str], text: str):
    shape = find_shape(names, table(names))
    assert shape is not None and shape.text == text


@pytest.mark.parametrize(
    "names",
    [
        ["age", "income"],
        [f"v{at}" for at in range(28)],  # such as the columns of payments
        grid_names(8, 8)[:-1],
        [f"pixel{at}" for at in range(24)],
        ["pixel_1_1", "pixel_01_1", *grid_names(4, 4)[:14]],
        [f"pixel{'9' * 5000}{at}" for at in range(16)],
    ],
)
def test_other_names_give_none(names: list[str]):
    assert find_shape(names, table(names)) is None


def test_columns_in_another_order_are_put_in_place():
    names = grid_names(4, 4)
    shape = find_shape(names[::-1], table(names))
    assert shape is not None and list(shape.columns) == names


@pytest.mark.parametrize("values", [[-1.0, 0.0, 1.0], [None, 1.0, 2.0], ["a", "b", "c"]])
def test_values_that_cannot_be_pixels_give_none(values: list):
    names = grid_names(4, 4)
    rows = table(names).set_column(0, names[0], pa.array(values))
    assert find_shape(names, rows) is None


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("big", "is not the shape of an image"),
        ("5x5", "25 values"),
        ("4x4x2", "3 colours"),
        ("0x16", "at least 1 pixel"),
        ("16x0x3", "at least 1 pixel"),
        ("999999x999999", "999,998,000,001 values"),
        (f"{'9' * 5000}x4", "is not the shape of an image"),
    ],
)
def test_a_shape_that_does_not_fit_is_reported(typed: str, told: str):
    names = [f"c{at}" for at in range(16)]
    with pytest.raises(BadInput, match=told):
        parse_shape(typed, names, table(names))


def test_a_table_without_rows_has_no_images():
    names = grid_names(4, 4)
    assert find_shape(names, table(names, 0)) is None
    assert not may_be_images(names, table(names, 0))
    with pytest.raises(BadInput, match="no inspected rows"):
        parse_shape("4x4", names, table(names, 0))


@pytest.mark.parametrize(
    ("count", "expected"), [(16, True), (48, True), (64, True), (9, False), (30, False)]
)
def test_columns_may_be_pixels_if_there_are_as_many_as_in_a_square(count: int, expected: bool):
    names = [f"c{at}" for at in range(count)]
    assert may_be_images(names, table(names)) is expected


def test_columns_of_a_named_grid_may_be_pixels():
    names = grid_names(4, 6)
    assert may_be_images(names, table(names))


@pytest.mark.parametrize(
    "values", [[-1.0, 0.0, 1.0], [None, 1.0, 2.0], ["a", "b", "c"], [0.0, 900.0, 5000.0]]
)
def test_columns_of_other_values_or_scales_are_not_pixels(values: list):
    names = [f"c{at}" for at in range(16)]
    rows = table(names).set_column(0, names[0], pa.array(values))
    assert not may_be_images(names, rows)


def test_a_typed_shape_takes_the_columns_of_numbers_in_their_order():
    names = [f"c{at}" for at in range(16)]
    rows = table(names).append_column("note", pa.array(["x"] * 3))
    shape = parse_shape(" 2 x 8 ", [*names, "note"], rows)
    assert shape is not None and shape.text == "2 × 8" and list(shape.columns) == names
    assert parse_shape(" ", names, rows) is None


def test_colours_may_come_last_or_first():
    names = [f"c{at}" for at in range(12)]
    last, first = (parse_shape(typed, names, table(names)) for typed in ("2x2x3", "3x2x2"))
    assert last is not None and list(last.columns) == names
    assert first is not None and list(first.columns[:3]) == ["c0", "c4", "c8"]


def test_the_sheet_has_each_row_at_its_place():
    from PIL import Image

    names = grid_names(4, 4)
    shape = find_shape(names, table(names, 5))
    assert shape is not None
    images = RowImages(shape, table(names, 5))
    sheet = images.sheet
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet["src"].split(",")[1]))))
    for at in range(5):
        top, left = at // sheet["across"] * 4, at % sheet["across"] * 4
        assert (picture[top : top + 4, left : left + 4] == images.pixels[at, :, :, 0]).all()
