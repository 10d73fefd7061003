"""Selecting columns by name, pattern and kind; target and roles stay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.values import Table
from nodes.select_columns import NODE, SelectColumnsParams
from tests.expect import refused


@pytest.fixture
def table() -> Table:
    data = pa.table(
        {
            "id": ["r1", "r2"],
            "size_1": [1, 2],
            "size_2": [3, 4],
            "city (old)": pa.array(["x", "y"]).dictionary_encode(),
            "ok": [True, False],
            "y": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    return Table(data, "y", {"id": "id"})


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, ["id", "size_1", "size_2", "city (old)", "ok", "y"]),
        ({"columns": ["size_1"]}, ["id", "size_2", "city (old)", "ok", "y"]),
        ({"columns": ["size_*"]}, ["id", "city (old)", "ok", "y"]),
        ({"columns": ["* (old)"]}, ["id", "size_1", "size_2", "ok", "y"]),
        ({"columns": ["id"]}, ["size_1", "size_2", "city (old)", "ok", "y"]),
        ({"columns": ["y"]}, ["id", "size_1", "size_2", "city (old)", "ok"]),
        ({"kinds": ["category", "bool"]}, ["id", "size_1", "size_2", "y"]),
        ({"kinds": ["text"]}, ["id", "size_1", "size_2", "city (old)", "ok", "y"]),
        ({"mode": "keep", "columns": ["ok", "size_2"]}, ["id", "size_2", "ok", "y"]),
        ({"mode": "keep", "kinds": ["number"]}, ["id", "size_1", "size_2", "y"]),
        (
            {"mode": "keep", "columns": ["ok"], "kinds": ["category"]},
            ["id", "city (old)", "ok", "y"],
        ),
    ],
)
def test_columns_are_kept_or_dropped_as_was_known_before(ctx, table, params, expected):
    chosen = SelectColumnsParams(**params)
    result: Table = NODE.run(ctx, {"table": table}, chosen)["table"]
    assert result.data.column_names == expected
    assert NODE.output_columns is not None
    assert NODE.output_columns({"table": table.columns}, chosen) == {"table": result.columns}


def test_a_dropped_target_is_no_longer_the_target(ctx, table):
    result: Table = NODE.run(ctx, {"table": table}, SelectColumnsParams(columns=["y", "id"]))[
        "table"
    ]
    assert result.target is None
    assert result.roles == {}


def test_nothing_is_copied(ctx, table):
    result: Table = NODE.run(ctx, {"table": table}, SelectColumnsParams(columns=["ok"]))["table"]

    def address(of: Table) -> Any:
        return of.data.column("size_1").chunk(0).buffers()[1].address

    assert address(result) == address(table)


@pytest.mark.parametrize(
    ("params", "naming"),
    [
        ({"columns": ["size"]}, ["'size'", "'size_"]),
        ({"columns": ["z*"]}, ["'z*'"]),
        ({"columns": ["size_*", "city*", "ok"]}, ["drop all"]),
        ({"mode": "keep"}, ["keep none"]),
        ({"mode": "keep", "columns": ["id"]}, ["keep none"]),
    ],
)
def test_settings_that_do_not_suit_the_table_are_refused(ctx, table, params, naming):
    with refused(field="columns", naming=naming):
        NODE.run(ctx, {"table": table}, SelectColumnsParams(**params))


def test_columns_not_yet_known_stay_unknown():
    assert NODE.output_columns is not None
    assert NODE.output_columns({"table": None}, SelectColumnsParams()) == {"table": None}
