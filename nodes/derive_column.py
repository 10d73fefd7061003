"""Add a column that an expression computes from the other columns of the row.

An expression is one expression of SQL: ``nodes.data.queries`` parses it and refuses everything that
is not computed from the values of a single row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import Column, Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.columns import TASK_TITLES, Task, kind_of_target, table_with_roles
from nodes.data.queries import IMPORTS, MAX_QUERY, converted, expression_kind, run_expression

COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


class DeriveColumnParams(NodeParams):
    """Name the column, and write how it is computed."""

    name: str = Field(
        title="Name",
        description="The name of the column to add.",
        min_length=1,
        max_length=200,
        pattern=r"\S",
    )
    expression: str = Field(
        title="Expression",
        description="How a row's value is computed, as in SQL: amount / items, log(amount + 1), "
        "hour(time), case when age < 30 then 'young' else 'old' end. Put odd names of columns in "
        "double quotes, texts in single quotes.",
        min_length=1,
        max_length=MAX_QUERY,
        json_schema_extra=form_hint(choose="columns", lines=True),
    )
    role: Literal["feature", "target"] = Field(
        "feature",
        title="Used as",
        description="A new target replaces the one that the table has, which is then ignored.",
        json_schema_extra=form_hint(words={"feature": "feature", "target": "target"}),
    )
    task: Task = Field(
        "classification",
        title="Predict the target as",
        description="Whether the new target is a class or a number.",
        json_schema_extra=form_hint(words=TASK_TITLES, when={"role": "target"}),
    )
    replaces: bool = Field(
        False,
        title="Replace a column",
        description="Whether the new column replaces one of the same name.",
        json_schema_extra=form_hint(folded=True),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: DeriveColumnParams) -> dict[str, Any]:
    """Compute the column; the other columns are not copied."""
    table: Table = inputs["table"]
    columns = with_derived(table.columns, params, running=True)
    kind = next(column.kind for column in columns if column.name == params.name)
    found = run_expression(params.expression, table.data, field="expression")
    values = converted(found, kind, None)
    data = table.data
    if params.name in data.column_names:
        data = data.set_column(data.column_names.index(params.name), params.name, values)
    else:
        data = data.append_column(params.name, values)
    ctx.log(f"'{params.name}' is missing in {values.null_count:,} of {len(values):,} rows")
    return {"table": table_with_roles(data, columns)}


def with_derived(columns: Columns, params: DeriveColumnParams, *, running: bool) -> Columns:
    """Return the columns with the new one.

    Raise ``BadInput`` if its name is taken, or if the expression does not suit the columns.
    """
    taken = next((column for column in columns if column.name == params.name), None)
    if taken is not None and not params.replaces:
        raise BadInput(
            f"the column '{params.name}' exists already; choose another name, or turn on Replace "
            "a column",
            field="name",
        )
    if not COMMENT.sub("", params.expression).strip():
        raise BadInput(
            "the expression computes nothing: it is empty or only a comment; write how a value is "
            "computed, such as amount / items",
            field="expression",
        )
    kind = expression_kind(params.expression, columns, field="expression", running=running)
    derived = Column(params.name, kind, params.role)
    if params.role == "target":
        # As a feature, the former target could give the new one away.
        derived = replace(derived, kind=kind_of_target(derived, params.task))
        columns = tuple(_without_target(column) for column in columns)
    if taken is None:
        return (*columns, derived)
    return tuple(derived if column.name == params.name else column for column in columns)


def _without_target(column: Column) -> Column:
    """Return a column that is ignored if it was the target."""
    return replace(column, role="ignore") if column.role == "target" else column


def columns(
    inputs: Mapping[str, Columns | None], params: DeriveColumnParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the table and the new one; None if they are not known."""
    known = inputs.get("table")
    return {"table": None if known is None else with_derived(known, params, running=False)}


NODE = NodeType(
    name="derive-column",
    title="Derive column",
    category="Prepare",
    summary="Adds a column that an expression computes from the other columns of each row.",
    version=1,
    params=DeriveColumnParams,
    run=run,
    python=step_call("nodes.steps.derive_column", positional=["name", "expression"]),
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=IMPORTS,
)
