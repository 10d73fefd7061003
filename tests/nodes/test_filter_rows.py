"""Filtering rows: each condition on each kind of column, missing values, wrong settings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.testing import check_node
from engine.values import Table
from nodes.filter_rows import NODE, FilterRowsParams
from tests.expect import refused


@pytest.fixture
def table() -> Table:
    data = pa.table(
        {
            "row": pa.array([0, 1, 2, 3], pa.int32()),
            "size": [1.5, None, 3.0, 3.0],
            "big": pa.array([2**60, 5, None, 7]),
            "city": pa.array(["Rome", "Oslo", None, "Rome"]).dictionary_encode(),
            "note": ["a.b", "b", "aab", None],
            "ok": [True, False, None, True],
            "when": pa.array([0, 10**6, None, 86_400 * 10**6], pa.timestamp("us")),
        }
    )
    return Table(data, "city", {"row": "id", "when": "time"})


def condition(test: str, column: str, value: Any = None) -> dict[str, Any]:
    if isinstance(value, list):
        return {"test": test, "column": column, "values": value}
    return {"test": test, "column": column} | ({} if value is None else {"value": value})


def params(*conditions: dict[str, Any], **settings: Any) -> FilterRowsParams:
    return FilterRowsParams.model_validate({"conditions": list(conditions), **settings})


def kept(ctx: Any, table: Table, *conditions: dict[str, Any], **settings: Any) -> list[int]:
    result = NODE.run(ctx, {"table": table}, params(*conditions, **settings))["table"]
    rows: list[int] = result.data.column("row").to_pylist()
    return rows


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (condition("equal", "size", "3"), [2, 3]),
        (condition("not_equal", "size", "3"), [0]),
        (condition("less", "size", "2.5"), [0]),
        (condition("at_most", "row", "1"), [0, 1]),
        (condition("greater", "row", "1.5"), [2, 3]),
        (condition("at_least", "size", " 3.0 "), [2, 3]),
        (condition("equal", "big", str(2**60)), [0]),
        (condition("one_of", "big", [str(2**60 + 1), "5"]), [1]),
        (condition("one_of", "row", ["2.0", "0"]), [0, 2]),
        (condition("not_one_of", "row", ["2.5", "0"]), [1, 2, 3]),
        (condition("equal", "city", "Rome"), [0, 3]),
        (condition("not_one_of", "city", ["Rome"]), [1]),
        (condition("contains", "city", "R"), [0, 3]),
        (condition("contains", "note", "a.b"), [0]),
        (condition("equal", "ok", "yes"), [0, 3]),
        (condition("one_of", "ok", ["false"]), [1]),
        (condition("at_least", "when", "1970-01-01 00:00:01"), [1, 3]),
        (condition("less", "when", "1970-01-02"), [0, 1]),
        (condition("missing", "city"), [2]),
        (condition("present", "when"), [0, 1, 3]),
    ],
)
def test_the_rows_that_meet_a_condition_are_kept(ctx, table, given, expected, tmp_path):
    assert kept(ctx, table, given) == expected
    others = [row for row in range(4) if row not in expected]
    assert kept(ctx, table, given, mode="drop") == others
    check_node(NODE, tmp_path, {"table": table}, params(given))


def test_all_conditions_or_any_of_them(ctx, table):
    both = condition("at_least", "row", "1"), condition("equal", "city", "Rome")
    assert kept(ctx, table, *both) == [3]
    assert kept(ctx, table, *both, match="any") == [0, 1, 2, 3]
    assert kept(ctx, table) == [0, 1, 2, 3]


def test_roles_and_categories_stay(ctx, table):
    result = NODE.run(ctx, {"table": table}, params(condition("equal", "city", "Oslo")))["table"]
    assert result.columns == table.columns
    assert result.labels().combine_chunks().dictionary.to_pylist() == ["Rome", "Oslo"]


@pytest.mark.parametrize(
    ("given", "field", "naming"),
    [
        (condition("equal", "town", "x"), "column", ["'town'"]),
        (condition("less", "city", "x"), "test", ["'city'", "category"]),
        (condition("greater", "ok", "x"), "test", ["'ok'"]),
        (condition("contains", "size", "1"), "test", ["'size'", "number"]),
        (condition("equal", "size", "large"), "value", ["'large'", "2.5"]),
        (condition("equal", "ok", "maybe"), "value", ["'maybe'", "true"]),
        (condition("less", "when", "tomorrow"), "value", ["'tomorrow'", "2024"]),
        (condition("one_of", "size", ["1", "x"]), "values", ["'x'"]),
    ],
)
def test_conditions_that_do_not_suit_the_columns_are_refused(ctx, table, given, field, naming):
    assert NODE.output_columns is not None
    with refused(field=f"conditions.0.{field}", naming=naming):
        NODE.output_columns({"table": table.columns}, params(given))
    with refused(field=f"conditions.0.{field}", naming=naming):
        kept(ctx, table, given)


def test_a_filter_that_keeps_no_row_is_refused(ctx, table):
    with refused(field="conditions", naming="4"):
        kept(ctx, table, condition("equal", "city", "Bonn"))
    empty = table.with_data(table.data.slice(0, 0))
    with refused(field="conditions"):
        kept(ctx, empty, condition("missing", "city"))


@pytest.mark.parametrize(
    "given",
    [
        {"test": "equal", "column": "city"},
        {"test": "one_of", "column": "city", "values": []},
        {"test": "eval", "column": "city", "value": "1"},
        {"test": "missing", "column": ""},
    ],
)
def test_conditions_that_are_not_complete_are_refused(given):
    with pytest.raises(ValidationError):
        params(given)
