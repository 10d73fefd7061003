"""Joining: rows find their match by any kind of key, and keep their order and roles."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.testing import check_node
from engine.values import Table
from nodes import join
from nodes.join import NODE, JoinParams
from tests.expect import refused


@pytest.fixture
def left() -> Table:
    data = pa.table(
        {
            "row": pa.array([0, 1, 2, 3], pa.int32()),
            "city": pa.array(["Rome", "Oslo", None, "Bonn"]).dictionary_encode(),
            "code": pa.array([1.0, 2.0, 3.0, None]),
            "when": pa.array([0, 1, 2, 3], pa.timestamp("us")),
            "y": pa.array(["no", "yes", "no", "no"]).dictionary_encode(),
        }
    )
    return Table(data, "y", {"when": "time"})


@pytest.fixture
def right() -> Table:
    data = pa.table(
        {
            "name": ["Oslo", "Rome", None, "Paris"],
            "code": pa.array([2, 1, 9, 7], pa.int32()),
            "when": pa.array([1, 0, 9, 7], pa.timestamp("us")),
            "size": [20.0, 10.0, 90.0, 70.0],
            "weight": [1.0, 2.0, 3.0, 4.0],
            "y": pa.array(["a", "b", "a", "a"]).dictionary_encode(),
        }
    )
    return Table(data, "y", {"weight": "weight"})


def joined(ctx: Any, left: Table, right: Table, **params: Any) -> Table:
    settings = JoinParams(**params)
    result = NODE.run(ctx, {"left": left, "right": right}, settings)["table"]
    assert isinstance(result, Table)
    assert NODE.output_columns is not None
    known = NODE.output_columns({"left": left.columns, "right": right.columns}, settings)
    assert known == {"table": result.columns}
    return result


def column(table: Table, name: str) -> list[Any]:
    values: list[Any] = table.data.column(name).to_pylist()
    return values


@pytest.mark.parametrize(
    "params",
    [
        {"on": ["city"], "right_on": ["name"]},
        {"on": ["code"]},
        {"on": ["when"]},
        {"on": ["city", "code"], "right_on": ["name", "code"]},
    ],
)
def test_rows_find_their_match_by_keys_of_any_kind(ctx, left, right, params, tmp_path):
    result = joined(ctx, left, right, **params)
    assert column(result, "row") == [0, 1, 2, 3]
    assert column(result, "size") == [10.0, 20.0, None, None]
    assert column(joined(ctx, left, right, **params, unmatched="drop"), "row") == [0, 1]
    check_node(NODE, tmp_path, {"left": left, "right": right}, JoinParams(**params))


def test_the_left_table_keeps_its_roles_and_a_second_target_is_ignored(ctx, left, right):
    result = joined(ctx, left, right, on=["code"])
    assert (result.target, result.role("y (right)")) == ("y", "ignore")
    assert result.roles == {"when": "time", "weight": "weight", "y (right)": "ignore"}
    assert result.data.column_names == [
        *left.data.column_names, "name", "when (right)", "size", "weight", "y (right)"
    ]  # fmt: skip
    plain = Table(left.data.drop_columns(["y"]))
    assert joined(ctx, plain, right, on=["code"]).target == "y"


def test_several_matches_are_an_error_the_first_or_all(ctx, left, right):
    double = right.with_data(pa.concat_tables([right.data, right.data.slice(1, 1)]))
    double = double.with_data(double.data.set_column(3, "size", pa.array([20.0, 10, 90, 70, 11])))
    with refused(field="several", naming=["code", "1"]):
        joined(ctx, left, double, on=["code"])
    first = joined(ctx, left, double, on=["code"], several="first")
    assert column(first, "size") == [10.0, 20.0, None, None]
    every = joined(ctx, left, double, on=["code"], several="all")
    assert column(every, "row") == [0, 0, 1, 2, 3]
    assert column(every, "size") == [10.0, 11.0, 20.0, None, None]


def test_a_join_with_very_many_rows_is_refused(ctx, left, right, monkeypatch):
    monkeypatch.setattr(join, "MAX_ROWS", 5)
    many = right.with_data(pa.concat_tables([right.data] * 3))
    with refused(field="on", naming="6"):
        joined(ctx, left, many, on=["code"], several="all")


@pytest.mark.parametrize(
    ("params", "field", "naming"),
    [
        ({}, "on", []),
        ({"on": ["town"]}, "on", ["'town'"]),
        ({"on": ["city"]}, "on", ["'city'"]),
        ({"on": ["city"], "right_on": ["nam"]}, "right_on", ["'nam'", "'name'"]),
        ({"on": ["city"], "right_on": ["name", "code"]}, "right_on", ["1", "2"]),
        ({"on": ["city"], "right_on": ["code"]}, "right_on", ["category", "number"]),
        ({"on": ["when"], "right_on": ["code"]}, "right_on", ["'when'", "'code'"]),
    ],
)
def test_keys_that_cannot_be_compared_are_refused(ctx, left, right, params, field, naming):
    assert NODE.output_columns is not None
    settings = JoinParams(**params)
    with refused(field=field, naming=naming):
        NODE.output_columns({"left": left.columns, "right": right.columns}, settings)
    with refused(field=field, naming=naming):
        NODE.run(ctx, {"left": left, "right": right}, settings)


def test_two_columns_never_get_the_same_name(ctx, left, right):
    taken = left.with_data(left.data.append_column("when (right)", pa.array([1, 2, 3, 4])))
    with refused(field="suffix", naming="'when (right)'"):
        joined(ctx, taken, right, on=["code"])
    assert "when_2" in joined(ctx, taken, right, on=["code"], suffix="_2").data.column_names


def test_a_join_without_any_row_is_refused(ctx, left, right):
    empty = right.with_data(right.data.slice(0, 0))
    with refused(field="on"):
        joined(ctx, left, empty, on=["code"], unmatched="drop")
    assert column(joined(ctx, left, empty, on=["code"]), "size") == [None] * 4
    with refused(field="on"):
        joined(ctx, left.with_data(left.data.slice(0, 0)), right, on=["code"])


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValidationError):
        JoinParams(suffix="")


def test_columns_not_yet_known_stay_unknown(left):
    assert NODE.output_columns is not None
    inputs = {"left": left.columns, "right": None}
    assert NODE.output_columns(inputs, JoinParams(on=["code"])) == {"table": None}
