"""Concatenating: columns by name, one list of categories, types that hold all values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.node_types import Column
from engine.testing import check_node
from engine.values import Table
from nodes.concatenate import NODE, ConcatenateParams
from tests.expect import refused


def categories(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()


@pytest.fixture
def first() -> Table:
    data = pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "city": categories("b", "a"),
            "y": categories("n", "n"),
        }
    )
    return Table(data, "y", {"id": "id"})


@pytest.fixture
def second() -> Table:
    data = pa.table({"y": categories("y", None), "id": [2.5, None], "city": categories("c", "a")})
    return Table(data, "y")


def stacked(ctx: Any, *tables: Table | None, **params: Any) -> Table:
    inputs = dict(zip(("first", "second", "third", "fourth"), tables, strict=False))
    settings = ConcatenateParams(**params)
    result = NODE.run(ctx, inputs, settings)["table"]
    assert isinstance(result, Table)
    known = {port: table.columns for port, table in inputs.items() if table is not None}
    assert NODE.output_columns is not None
    assert NODE.output_columns(known, settings) == {"table": result.columns}
    return result


def test_rows_of_all_tables_stand_below_one_another(ctx, first, second, tmp_path):
    result = stacked(ctx, first, second)
    assert result.data.to_pydict() == {
        "id": [1.0, 2.0, 2.5, None],
        "city": ["b", "a", "c", "a"],
        "y": ["n", "n", "y", None],
    }
    assert result.data.column("city").combine_chunks().dictionary.to_pylist() == ["a", "b", "c"]
    assert (result.target, result.roles) == ("y", {"id": "id"})
    check_node(NODE, tmp_path, {"first": first, "second": second, "fourth": first})


def test_equal_categories_keep_their_order(ctx, first):
    result = stacked(ctx, first, None, first)
    assert result.data.column("city").combine_chunks().dictionary.to_pylist() == ["b", "a"]
    assert result.data.column("id").type == pa.int32()


def test_columns_that_some_tables_lack(ctx, first, second, tmp_path):
    more = second.with_data(second.data.append_column("size", pa.array([1.0, 2.0])))
    with refused(field="columns", naming=["'size'", "first", "second"]):
        stacked(ctx, first, more)
    every = stacked(ctx, first, more, columns="all")
    assert every.data.column("size").to_pylist() == [None, None, 1.0, 2.0]
    assert "size" not in stacked(ctx, first, more, columns="shared").data.column_names
    settings = ConcatenateParams(columns="all", source_column="part")
    check_node(NODE, tmp_path, {"first": first, "second": more}, settings)
    other = Table(pa.table({"z": categories("x")}))
    with refused(field="columns"):
        stacked(ctx, first, other, columns="shared")
    assert stacked(ctx, first, other, columns="all").data.column("z").null_count == 2


def test_the_source_of_each_row_is_added(ctx, first, second):
    result = stacked(ctx, first, None, second, source_column="from")
    assert result.columns[-1] == Column("from", "category")
    assert result.data.column("from").to_pylist() == ["first", "first", "third", "third"]
    with refused(field="source_column", naming="'city'"):
        stacked(ctx, first, second, source_column="city")


def test_kinds_that_do_not_fit_are_refused_and_texts_hold_categories(ctx, first, second):
    text = second.with_data(second.data.set_column(2, "city", pa.array(["x", None])))
    result = stacked(ctx, first, text)
    assert result.columns[1] == Column("city", "text")
    assert result.data.column("city").to_pylist() == ["b", "a", "x", None]
    wrong = second.with_data(second.data.set_column(2, "city", pa.array([1, 2])))
    with refused(naming=["'city'", "category", "number", "second"]):
        stacked(ctx, first, wrong)


def test_one_target_stays(ctx, first):
    other = Table(first.data.rename_columns(["id", "y", "city"]), "city", {"y": "weight"})
    result = stacked(ctx, first, other)
    assert (result.target, result.roles) == ("y", {"id": "id"})


def test_tables_without_rows(ctx, first):
    empty = first.with_data(first.data.slice(0, 0))
    assert stacked(ctx, empty, first).data.num_rows == 2
    with refused():
        stacked(ctx, empty, empty)


def test_the_columns_are_not_known_while_those_of_a_table_are_not(first):
    assert NODE.output_columns is not None
    known = {"first": first.columns, "second": first.columns}
    assert NODE.output_columns(known, ConcatenateParams()) == {"table": first.columns}
    assert NODE.output_columns({**known, "third": None}, ConcatenateParams()) == {"table": None}
