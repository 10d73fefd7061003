"""Evaluations know whether they have the same rows, whichever columns their models read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from nodes.data.row_identity import MAX_COLUMNS, column_digests, row_digests, same_rows

TRUTH, CLASSES = np.array([0, 0, 1, 1]), ["a", "b"]
DATA = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": [5, 6, 7, None], "text": ["p", "q", "r", "s"]})


def known(data: pa.Table, truth: np.ndarray = TRUTH) -> dict:
    return row_digests(truth, CLASSES, column_digests(data))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (DATA, True),
        (DATA.select(["y"]), True),  # another model reads fewer columns of the same rows
        (DATA.select(["text"]), True),
        (pa.concat_tables([DATA.slice(0, 1), DATA.slice(1)]), True),  # only stored in parts
        (DATA.take([1, 0, 2, 3]), False),  # sorted by class: the classes alone are the same
        (DATA.set_column(0, "x", pa.array([1.0, 2.0, 3.0, 4.5])), False),
    ],
)
def test_rows_are_the_same_if_classes_and_common_columns_are(other, same):
    assert same_rows(known(DATA), known(other)) is same


def test_other_classes_are_other_rows():
    assert not same_rows(known(DATA), known(DATA, TRUTH[::-1]))


def test_only_some_columns_of_a_wide_table_are_stored():
    wide = pa.table({f"c{index}": [index, 1] for index in range(100)})
    assert list(column_digests(wide)) == [f"c{index}" for index in range(MAX_COLUMNS)]


def test_a_table_without_rows_has_digests_too():
    assert set(column_digests(DATA.slice(0, 0))) == {"x", "y"}
