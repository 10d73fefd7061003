"""Deriving a column: expressions on one row, odd names, and no way to run code."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.node_types import Column
from engine.testing import check_node
from engine.values import Table
from nodes.derive_column import NODE, DeriveColumnParams
from tests.expect import refused


@pytest.fixture
def table() -> Table:
    data = pa.table(
        {
            "amount": [10.0, None, 30.5],
            "items": pa.array([2, 3, 0], pa.int32()),
            "odd, name": pa.array([1, 2, 3]),
            "city": pa.array(["Rome", "Oslo", None]).dictionary_encode(),
            "note": ["x", "y", "z"],
            "when": pa.array([0, 3_600 * 10**6, None], pa.timestamp("us")),
            "y": pa.array(["no", "yes", "no"]).dictionary_encode(),
        }
    )
    return Table(data, "y", {"when": "time"})


def derived(ctx: Any, table: Table, expression: str, **params: Any) -> Table:
    settings = DeriveColumnParams(**{"name": "new", "expression": expression, **params})
    result = NODE.run(ctx, {"table": table}, settings)["table"]
    assert isinstance(result, Table)
    assert NODE.output_columns is not None
    assert NODE.output_columns({"table": table.columns}, settings) == {"table": result.columns}
    return result


@pytest.mark.parametrize(
    ("expression", "values", "kind"),
    [
        ("amount * 2 + items", [22.0, None, 61.0], "number"),
        ("amount / items", [5.0, None, None], "number"),
        ('"odd, name" % 2 = 1', [True, False, True], "bool"),
        ("case when amount > 20 then 'large' else 'small' end", ["small", "small", "large"],
         "category"),
        ("coalesce(city, 'none')", ["Rome", "Oslo", "none"], "category"),
        ("upper(note) || items", ["X2", "Y3", "Z0"], "category"),
        ("note", ["x", "y", "z"], "text"),
        ("hour(\"when\")", [0, 1, None], "number"),
        ("city in ('Rome', 'Bonn') and not items < 1", [True, False, False], "bool"),
        ("amount is null", [False, True, False], "bool"),
        ("items between 1 and 2", [True, False, False], "bool"),
        ("round(ln(amount + 1), 2)", [2.4, None, 3.45], "number"),
        ("greatest(items, 1)::double", [2.0, 3.0, 1.0], "number"),
        ("items -- how many", [2, 3, 0], "number"),
        ("length(city) > 0", [True, True, None], "bool"),
    ],
)  # fmt: skip
def test_values_are_computed_row_by_row(ctx, table, expression, values, kind, tmp_path):
    result = derived(ctx, table, expression)
    assert result.data.column("new").to_pylist() == values
    assert result.columns == (*table.columns, Column("new", kind))
    settings = DeriveColumnParams(name="new", expression=expression)
    check_node(NODE, tmp_path, {"table": table}, settings)


def test_the_other_columns_are_not_copied(ctx, table):
    result = derived(ctx, table, "items + 1")

    def address(of: Table) -> Any:
        return of.data.column("amount").chunk(0).buffers()[1].address

    assert address(result) == address(table)
    assert (result.target, result.roles) == (table.target, table.roles)


def test_a_column_is_replaced_only_when_asked(ctx, table):
    with refused(field="name", naming="'amount'"):
        derived(ctx, table, "amount * 2", name="amount")
    result = derived(ctx, table, "amount * 2", name="amount", replaces=True)
    assert result.data.column_names == table.data.column_names
    assert result.data.column("amount").to_pylist() == [20.0, None, 61.0]


def test_a_new_target_replaces_the_old_one(ctx, table):
    result = derived(ctx, table, "items > 1", role="target")
    assert (result.target, result.role("y")) == ("new", "ignore")
    assert result.labels().to_pylist() == ["true", "true", "false"]


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('touch x')",
        "exec('1')",
        "open('/etc/passwd')",
        "lambda x: x",
        "list_transform([1], lambda x: x + 1)",
        "(SELECT 1)",
        "items IN (SELECT 1)",
        "1) FROM rows; COPY rows TO '/tmp/x'; SELECT (1",
        "1), (2",
        "1) AS a, (2",
        "1) FROM read_text('/etc/passwd'), (SELECT 1",
        "items FROM rows",
        "1 UNION SELECT 2",
        "*",
        "sum(items)",
        "count(*)",
        "row_number() OVER ()",
        "max(amount)",
        "random()",
        "now()",
        "current_date",
        "current_setting('threads')",
        "getenv('HOME')",
        "nextval('x')",
        "?",
        "$1",
        "#1",
    ],
)
def test_an_expression_with_more_than_values_of_the_row_is_refused(ctx, table, expression):
    assert NODE.output_columns is not None
    settings = DeriveColumnParams(name="new", expression=expression)
    with refused(field="expression"):
        NODE.output_columns({"table": table.columns}, settings)
    with refused(field="expression"):
        NODE.run(ctx, {"table": table}, settings)


@pytest.mark.parametrize(
    ("expression", "naming"),
    [
        ("amount +", []),
        ("price * 2", ["price"]),
        ('city = "Rome"', ["Rome"]),
        ("city + 1", []),
        ("nosuch(amount)", ["nosuch"]),
        ('"when" - "when"', ["interval", "date_diff"]),
        ("[items]", ["integer[]"]),
        ("null", ["NULL::DOUBLE"]),
        (" ", ["computes nothing"]),
        ("--", ["computes nothing"]),
        ("-- amount\n/* items */", ["computes nothing"]),
        (f"{'(' * 2_000}1{')' * 2_000}", ["nested"]),
    ],
)
def test_what_is_wrong_with_an_expression_is_named(ctx, table, expression, naming):
    with refused(field="expression", naming=naming):
        derived(ctx, table, expression)


def test_a_value_that_cannot_be_computed_is_named(ctx, table):
    with refused(field="expression", naming="x"):
        derived(ctx, table, "note::INTEGER")
    assert derived(ctx, table, "try_cast(note AS INTEGER)").data.column("new").null_count == 3


def test_a_table_without_rows_gets_the_column(ctx, table):
    empty = table.with_data(table.data.slice(0, 0))
    assert derived(ctx, empty, "coalesce(city, 'x')").data.num_rows == 0


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_names_that_are_not_names_are_refused(name):
    with pytest.raises(ValidationError):
        DeriveColumnParams(name=name, expression="1")


def test_columns_not_yet_known_stay_unknown():
    assert NODE.output_columns is not None
    settings = DeriveColumnParams(name="new", expression="1")
    assert NODE.output_columns({"table": None}, settings) == {"table": None}
