"""Run one SQL query on up to four tables, which it names ``a``, ``b``, ``c`` and ``d``.

``nodes.data.queries`` says what a query may do: read these tables, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Column, Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import kind_of
from nodes.data.columns import (
    TASK_TITLES,
    Task,
    kind_of_target,
    require_column,
    require_rows,
    table_with_roles,
    with_single_roles,
)
from nodes.data.queries import (
    IMPORTS,
    MAX_QUERY,
    UnknownTable,
    converted,
    open_query,
    query_columns,
)

if TYPE_CHECKING:
    import pyarrow as pa


class SqlParams(NodeParams):
    """Write the query, and choose the target of its result."""

    query: str = Field(
        "SELECT * FROM a",
        title="Query",
        description="One SELECT in the SQL of DuckDB. The tables are a, b, c and d, as the inputs "
        "are named. Put odd names of columns in double quotes, texts in single quotes.",
        min_length=1,
        max_length=MAX_QUERY,
        json_schema_extra=form_hint(choose="columns", lines=True),
    )
    target: str | None = Field(
        None,
        title="Target",
        description="The column of the result to predict. Empty: a column that has the name of a "
        "target at an input stays the target.",
        min_length=1,
    )
    task: Task = Field(
        "classification",
        title="Predict the target as",
        description="Whether the Target set here is a class or a number.",
        json_schema_extra=form_hint(words=TASK_TITLES, when={"target": "!"}),
    )
    max_seconds: float = Field(
        600.0,
        title="Time limit",
        description="Seconds after which the query is stopped.",
        gt=0,
        le=1_000_000,
        json_schema_extra=form_hint(folded=True),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SqlParams) -> dict[str, Any]:
    """Run the query and bring its columns into the types of their kinds."""
    import pyarrow as pa

    tables = {port: table for port, table in inputs.items() if table is not None}
    known = {port: table.columns for port, table in tables.items()}
    rows = {port: table.data for port, table in tables.items()}
    with open_query(params.query, known, seconds=params.max_seconds, field="query") as query:
        columns = result_columns(known, query.columns, params)
        ctx.progress(0.0, "running the query")
        result = query.run(rows)
    require_rows(result, "the query returns no rows; change its conditions", field="query")
    ctx.progress(0.9, "converting the result")
    levels = [_levels(rows, column.name) for column in columns]
    kinds = [column.kind for column in columns]
    data = list(ctx.executor.map(converted, result.columns, kinds, levels))
    ctx.log(f"{result.num_rows:,} rows, {result.num_columns:,} columns")
    names = [column.name for column in columns]
    return {"table": table_with_roles(pa.table(data, names=names), columns)}


def _levels(tables: Mapping[str, pa.Table], name: str) -> pa.Array | None:
    """Return the categories of the first column of that name; None if it is not a category."""
    for data in tables.values():
        if name in data.column_names and kind_of(data.schema.field(name).type) == "category":
            return data.column(name).combine_chunks().dictionary
    return None


def result_columns(known: Mapping[str, Columns], bound: Columns, params: SqlParams) -> Columns:
    """Return the columns of the result with their roles.

    A column has the role of the first input column of its name and kind. Raise ``BadInput`` if the
    target is not a column of the result.
    """
    roles: dict[tuple[str, str], Column] = {}
    for columns in known.values():
        for column in columns:
            roles.setdefault((column.name, column.kind), column)
    found = [roles.get((column.name, column.kind), column) for column in bound]
    if params.target is None:
        return with_single_roles(found)
    require_column(params.target, [column.name for column in found], field="target")
    return with_single_roles([_as_chosen(column, params) for column in found])


def _as_chosen(column: Column, params: SqlParams) -> Column:
    """Return the column with its role when a target is chosen, which is a class or a number."""
    if column.name == params.target:
        return Column(column.name, kind_of_target(column, params.task), "target")
    # Another target would tell about this one.
    return replace(column, role="ignore") if column.role == "target" else column


def columns(
    inputs: Mapping[str, Columns | None], params: SqlParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the result; None while those of a table in it are not known."""
    known = {port: each for port, each in inputs.items() if each is not None}
    if not known:
        return {"table": None}
    try:
        bound = query_columns(params.query, known, field="query")
    except UnknownTable as problem:
        if problem.table.lower() in inputs:
            return {"table": None}
        raise
    return {"table": result_columns(known, bound, params)}


def python(params: SqlParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script."""
    shown: dict[str, Any] = {"query": params.query, **changed_params(params)}
    tables = {port: names.inputs[port] for port in names.inputs}
    lines = statement(names.outputs["table"], "steps.sql", **shown, **tables)
    return Snippet(lines, ["from nodes import steps"])


NODE = NodeType(
    name="sql",
    title="SQL",
    category="Prepare",
    summary="Filters, joins, groups and derives columns with one SQL query on up to four tables.",
    version=1,
    params=SqlParams,
    run=run,
    python=python,
    inputs=(
        Port("a", "table", "Table a"),
        Port("b", "table", "Table b", required=False),
        Port("c", "table", "Table c", required=False),
        Port("d", "table", "Table d", required=False),
    ),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=IMPORTS,
)
