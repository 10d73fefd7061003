"""Drawing rows: as many as asked for, in order, classes in proportion."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.values import Table
from nodes.sample import NODE, SampleParams
from tests.expect import refused


def draw(ctx: Any, table: Table, **params: Any) -> Table:
    result: Table = NODE.run(ctx, {"table": table}, SampleParams(**params))["table"]
    return result


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 180),
        ({"share": 0.5}, 898),
        ({"share": 1.0}, 1797),
        ({"share": 1e-9}, 1),
        ({"rows": 100}, 100),
        ({"rows": 100, "stratified": False}, 100),
        ({"rows": 1797}, 1797),
        ({"rows": 3}, 3),
    ],
)
def test_exactly_as_many_rows_are_drawn_as_asked_for(ctx, digits, params, expected):
    assert draw(ctx, digits, **params).data.num_rows == expected


def test_rows_keep_their_order_and_none_comes_twice(ctx):
    table = Table(pa.table({"row": range(100), "y": ["a", "b"] * 50}), "y")
    rows = draw(ctx, table, rows=40).data.column("row").to_pylist()
    assert rows == sorted(set(rows))


def test_no_class_is_lost_while_there_is_room(ctx):
    table = Table(pa.table({"y": ["a"] * 995 + ["rare"] * 5}), "y", {})
    assert Counter(draw(ctx, table, rows=20).labels().to_pylist()) == {"a": 19, "rare": 1}


def test_the_same_seed_draws_the_same_rows(ctx, digits):
    first, again, other = (draw(ctx, digits, seed=seed).data for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


def test_target_and_roles_stay(ctx, fraud):
    result = draw(ctx, fraud, rows=50)
    assert (result.target, result.roles) == (fraud.target, fraud.roles)
    assert NODE.output_columns is not None
    assert NODE.output_columns({"table": fraud.columns}, SampleParams()) == {
        "table": result.columns
    }


def test_more_rows_than_there_are_is_refused(ctx, digits):
    with refused(field="rows", naming=["2,000", "1,797"]):
        draw(ctx, digits, rows=2_000)


@pytest.mark.parametrize("params", [{"share": 0.0}, {"share": 1.1}, {"rows": 0}])
def test_settings_out_of_range_are_refused(params):
    with pytest.raises(ValidationError):
        SampleParams(**params)
