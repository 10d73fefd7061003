"""Rows of JSON become the matrix that a table of the same values becomes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.values import Table
from nodes.models.encoder import TableEncoder
from nodes.models.rows import MAX_PROBLEMS, RowReader, UnfitRows
from tests.nodes.models.conftest import DECIDING, make_table


def as_rows(table: Table) -> list[dict[str, Any]]:
    """Rows as a client would send them."""
    rows = table.data.select(DECIDING).to_pylist()
    return [json.loads(json.dumps(row, default=str)) for row in rows]


@pytest.mark.parametrize("form", ["codes", "onehot"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_matrix_is_that_of_the_table_to_the_last_bit(form, precision):
    encoder, other = TableEncoder.fit(make_table(), form), make_table(80, seed=4)
    reader = RowReader(encoder, precision)
    wanted = encoder.transform(other.data, precision)
    np.testing.assert_array_equal(reader.matrix(as_rows(other)), wanted)
    np.testing.assert_array_equal(
        np.vstack([reader.matrix([row]) for row in as_rows(other)]), wanted
    )


@pytest.mark.parametrize("form", ["codes", "onehot"])
@pytest.mark.parametrize("value", [1e300, -1e300, 10**30, 0, True, -0.0])
def test_extreme_numbers(form, value):
    encoder = TableEncoder.fit(make_table(), form)
    row = {**as_rows(make_table(1))[0], "steady": value}
    data = make_table(1).data.set_column(3, "steady", pa.array([float(value)]))
    np.testing.assert_array_equal(
        RowReader(encoder, "float32").matrix([row]), encoder.transform(data, "float32")
    )


@pytest.fixture(scope="module")
def reader() -> RowReader:
    return RowReader(TableEncoder.fit(make_table(), "codes"), "float64")


@pytest.fixture
def row() -> dict[str, Any]:
    return {**as_rows(make_table(1))[0], "amount": 3.5, "colour": "red", "grade": "10"}


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("grade", "10", 10),
        ("grade", "10", 10.0),
        ("grade", "10", " 10.0 "),
        ("colour", "red", " red"),
        ("colour", "mauve", None),
        ("count", 1, True),
        ("member", True, 1),
        ("when", "2024-01-31", "2024-01-31 00:00:00"),
        ("when", "2024-01-31T01:00:00+01:00", "2024-01-31T00:00:00Z"),
    ],
)
def test_ways_to_say_the_same(reader, row, column, one, other):
    first, second = (reader.matrix([{**row, column: value, "more": [1]}]) for value in (one, other))
    np.testing.assert_array_equal(first, second)


def problems(reader: RowReader, rows: list[Any]) -> list[tuple[int, str | None, str]]:
    with pytest.raises(UnfitRows) as caught:
        reader.matrix(rows)
    return [(problem.row, problem.column, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("column", "value", "naming"),
    [
        ("amount", "much", ["'much'", "a number"]),
        ("amount", "3.5", ["'3.5'", "a number"]),
        ("amount", [1], ["a list", "a number"]),
        ("amount", {"a": 1}, ["an object", "a number"]),
        ("amount", 10**400, ["too large"]),
        ("amount", float("inf"), ["too large"]),
        ("when", 1_700_000_000, ["1700000000", "a time"]),
        ("when", "soon", ["'soon'", "a time"]),
        ("when", "\ud800", ["a time"]),
        ("colour", 3, ["3", "a category"]),
        ("colour", ["red"], ["a list", "a category"]),
        ("steady", "x" * 1000, ["x…"]),
    ],
)
def test_a_value_of_the_wrong_type_is_named(reader, row, column, value, naming):
    ((number, name, message),) = problems(reader, [row, {**row, column: value}])
    assert (number, name) == (2, column) and len(message) < 200
    assert [each for each in (f"'{column}'", *naming) if each not in message] == [], message


def test_everything_that_is_wrong_is_told(reader, row):
    lacking = {name: value for name, value in row.items() if name not in ("amount", "grade")}
    found = problems(reader, [lacking, row, 7, {**row, "count": "a", "when": 3}])
    assert [(number, name) for number, name, _ in found] == [
        (1, "amount"),
        (1, "grade"),
        (3, None),
        (4, "count"),
        (4, "when"),
    ]
    assert "'amount'" in found[0][2] and "null" in found[0][2]


def test_not_more_is_told_than_anyone_reads(reader):
    assert len(problems(reader, [{}] * 1000)) == MAX_PROBLEMS


def test_the_columns_are_described(reader):
    about = {column["name"]: column for column in reader.describe()}
    assert list(about) == DECIDING
    assert about["colour"]["kind"] == "category" and set(about["colour"]["categories"]) == {
        "red",
        "green",
        "blue",
    }
    assert about["amount"]["missing_in_training"] and not about["steady"]["missing_in_training"]
    assert about["member"]["kind"] == "bool" and about["member"]["example"] is False
    assert about["when"]["example"].startswith("2024-01-") and all(
        column["missing_allowed"] for column in about.values()
    )
    reader.matrix(
        [{name: column["example"] for name, column in about.items()}]
    )  # an example is a row
