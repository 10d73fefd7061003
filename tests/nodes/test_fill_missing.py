"""Filling missing values: what is learned comes from the training rows alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.node_types import Column
from engine.testing import check_node
from engine.values import Table
from nodes.fill_missing import NODE, FillMissingParams
from tests.expect import refused


def table_of(**changes: Any) -> Table:
    columns = {
        "id": [1, 2, 3, None],
        "size": [1.0, None, 3.0, 8.0],
        "items": pa.array([1, 2, None, 4], pa.int32()),
        "city": pa.array(["Rome", None, "Oslo", "Oslo"]).dictionary_encode(),
        "note": ["x", "y", None, "y"],
        "ok": [True, None, True, False],
        "when": pa.array([None, 1, 2, 3], pa.timestamp("us")),
        "y": pa.array(["no", "yes", None, "no"]).dictionary_encode(),
    }
    return Table(pa.table({**columns, **changes}), "y", {"id": "id"})


@pytest.fixture
def train() -> Table:
    return table_of()


@pytest.fixture
def test() -> Table:
    """Rows with other values than the training rows, and gaps in other places."""
    return table_of(
        size=[None, 100.0, 100.0, 100.0],
        items=pa.array([None, 100, 100, 100], pa.int32()),
        city=pa.array(["Bonn", "Bonn", "Bonn", None]).dictionary_encode(),
        note=["z", "z", "z", None],
        ok=[None, False, False, False],
    )


def filled(ctx: Any, train: Table, test: Table | None = None, **params: Any) -> tuple[Table, Table]:
    inputs = {"train": train, "validation": None, "test": test}
    outputs = NODE.run(ctx, inputs, FillMissingParams(**params))
    assert outputs["validation"].data.num_rows == 0
    return outputs["train"], outputs["test"]


def column(table: Table, name: str) -> list[Any]:
    values: list[Any] = table.data.column(name).to_pylist()
    return values


def test_all_parts_are_filled_with_values_of_the_training_rows(ctx, train, test):
    filled_train, filled_test = filled(ctx, train, test)
    assert column(filled_train, "size") == [1.0, 3.0, 3.0, 8.0]
    assert column(filled_test, "size") == [3.0, 100.0, 100.0, 100.0]
    assert column(filled_test, "items") == [2, 100, 100, 100]
    assert column(filled_test, "city") == ["Bonn", "Bonn", "Bonn", "Oslo"]
    assert column(filled_test, "note") == ["z", "z", "z", "y"]
    assert column(filled_test, "ok") == [True, False, False, False]


def test_what_the_test_rows_hold_changes_nothing(ctx, train, test):
    alone, _ = filled(ctx, train)
    beside, _ = filled(ctx, train, test)
    assert alone.data.equals(beside.data)


def test_target_ids_and_times_keep_their_gaps(ctx, train):
    result, _ = filled(ctx, train)
    for name in ("id", "when", "y"):
        assert column(result, name) == column(train, name)
    assert result.columns == train.columns
    chosen, _ = filled(ctx, train, columns=["id"])
    assert column(chosen, "id") == [1, 2, 3, 2]
    assert column(chosen, "size") == column(train, "size")


@pytest.mark.parametrize(
    ("params", "name", "value"),
    [
        ({"numbers": "mean"}, "size", 4.0),
        ({"numbers": "mean"}, "items", 7 / 3),
        ({"numbers": "value", "number": -1.5}, "size", -1.5),
        ({"numbers": "value", "number": -1.5}, "items", -1.5),
        ({"numbers": "value", "number": 7.0}, "items", 7),
        ({"numbers": "leave"}, "size", None),
        ({"categories": "value", "text": "none"}, "city", "none"),
        ({"categories": "value", "text": "none"}, "note", "none"),
        ({"categories": "value", "text": "none"}, "ok", True),
        ({"categories": "leave"}, "city", None),
        ({"categories": "leave"}, "ok", None),
    ],
)
def test_the_value_is_the_one_that_was_chosen(ctx, train, test, params, name, value, tmp_path):
    result, _ = filled(ctx, train, test, **params)
    gap = column(train, name).index(None)
    assert column(result, name)[gap] == value
    inputs = {"train": train, "test": test}
    check_node(NODE, tmp_path, inputs, FillMissingParams(**params))


def test_filled_values_are_marked(ctx, train, test, tmp_path):
    params: dict[str, Any] = {"columns": ["size", "city"], "mark": True}
    result, filled_test = filled(ctx, train, test, **params)
    marks = Column("size is missing", "bool"), Column("city is missing", "bool")
    assert result.columns == (*train.columns, *marks) == filled_test.columns
    assert column(filled_test, "size is missing") == [True, False, False, False]
    check_node(NODE, tmp_path, {"train": train, "test": test}, FillMissingParams(**params))
    with refused(field="mark", naming="'size is missing'"):
        filled(ctx, result, **params)


@pytest.mark.parametrize("numbers", ["mean", "median"])
@pytest.mark.parametrize(
    ("size", "value"),
    [
        ([3.0, None, float("inf"), 5.0], 4.0),
        ([3.0, float("-inf"), float("inf"), None], 3.0),
        ([float("nan"), None, 3.0, 3.0], 3.0),
        ([1e308, None, 1e308, 1e308], 1e308),
    ],
)
def test_values_are_learned_from_finite_numbers(ctx, numbers, size, value):
    found, _ = filled(ctx, table_of(size=size), numbers=numbers, columns=["size"])
    assert column(found, "size")[size.index(None)] == pytest.approx(value)


def test_a_column_of_infinity_needs_a_fixed_value(ctx):
    with refused(field="columns", naming="size"):
        filled(ctx, table_of(size=[None, float("inf"), None, None]))


def test_a_column_without_training_values_needs_a_fixed_value(ctx, test):
    empty = table_of(size=pa.array([None] * 4, pa.float64()))
    with refused(field="columns", naming="'size'"):
        filled(ctx, empty, test)
    result, filled_test = filled(ctx, empty, test, numbers="value", number=5.0)
    assert column(result, "size") == [5.0] * 4
    assert column(filled_test, "size")[0] == 5.0
    with refused(field="columns"):
        filled(ctx, empty.with_data(empty.data.slice(0, 0)))


@pytest.mark.parametrize(
    ("columns", "naming"), [(["town"], "'town'"), (["y"], "'y'"), (["when"], "'when'")]
)
def test_columns_that_cannot_be_filled_are_refused(ctx, train, columns, naming):
    assert NODE.output_columns is not None
    with refused(field="columns", naming=naming):
        filled(ctx, train, columns=columns)
    with refused(field="columns", naming=naming):
        NODE.output_columns({"train": train.columns}, FillMissingParams(columns=columns))


def test_parts_that_do_not_fit_together_are_refused(ctx, train, test):
    lacking = test.with_data(test.data.drop_columns(["city"]))
    with refused(naming=["'city'", "test rows"]):
        filled(ctx, train, lacking)
    other = table_of(size=["a", "b", "c", None])
    assert NODE.output_columns is not None
    with refused(naming=["'size'", "number", "text"]):
        known = {"train": train.columns, "test": other.columns}
        NODE.output_columns(known, FillMissingParams())


@pytest.mark.parametrize("params", [{"numbers": "mode"}, {"number": float("nan")}, {"text": ""}])
def test_settings_out_of_range_are_refused(params):
    with pytest.raises(ValidationError):
        FillMissingParams(**params)


def test_columns_not_yet_known_stay_unknown(train):
    assert NODE.output_columns is not None
    nothing = NODE.output_columns({"train": None}, FillMissingParams())
    assert nothing == {"train": None, "validation": None, "test": None}
