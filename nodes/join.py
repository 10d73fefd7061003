"""Join two tables: add to the rows of one the columns of the rows of another with equal keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import counted
from engine.values import Table
from nodes.data.columns import (
    KIND_TITLES,
    require_column,
    require_rows,
    table_with_roles,
    with_single_roles,
)
from nodes.data.queries import IMPORTS, errors_explained, locked_connection

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MAX_ROWS = 100_000_000
"""Rows of a result; more are almost always a mistake in the keys."""


class JoinParams(NodeParams):
    """Choose the columns whose values must be equal, and what happens to other rows."""

    on: list[str] = Field(
        default_factory=list,
        title="Key columns",
        description="Columns of the left table by which rows are found in the right table.",
        max_length=100,
        json_schema_extra=form_hint(choose="columns"),
    )
    right_on: list[str] = Field(
        default_factory=list,
        title="Keys of the right table",
        description="Their names in the right table, in the same order; empty: the same names.",
        max_length=100,
    )
    unmatched: Literal["keep", "drop"] = Field(
        "keep",
        title="Rows without a match",
        description="What happens to rows of the left table that have no row in the right table. "
        "The columns of the right table are missing in them.",
        json_schema_extra=form_hint(words={"keep": "keep", "drop": "drop"}),
    )
    several: Literal["error", "first", "all"] = Field(
        "error",
        title="Several matches",
        description="What happens if several rows of the right table have the same key.",
        json_schema_extra=form_hint(
            words={
                "error": "stop with an error",
                "first": "use the first of them",
                "all": "one row for each of them",
            }
        ),
    )
    suffix: str = Field(
        " (right)",
        title="Suffix",
        description="Added to the name of a right column if the left table has one of that name.",
        min_length=1,
        max_length=50,
        json_schema_extra=form_hint(folded=True),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: JoinParams) -> dict[str, Any]:
    """Find the rows that belong together, and take them from both tables."""
    import pyarrow as pa

    left: Table = inputs["left"]
    right: Table = inputs["right"]
    columns = joined_columns(left.columns, right.columns, params)
    ctx.progress(0.0, "comparing the keys")
    keys = {"l": left.data.select(params.on), "r": right.data.select(_right_on(params))}
    rows = {name: _numbered(data) for name, data in keys.items()}
    with locked_connection(rows) as connection, errors_explained("on"):
        _check_matches(connection, params)
        pairs = connection.sql(_pairs_query(params)).to_arrow_table()
    require_rows(
        pairs,
        "no row of the left table has the key of a row of the right table; choose other key "
        "columns",
        field="on",
    )
    ctx.progress(0.6, "taking the rows")
    added = right.data.drop_columns(_right_on(params)).take(pairs.column("right"))
    kept = left.data.take(pairs.column("left"))
    data = pa.table([*kept.columns, *added.columns], names=[column.name for column in columns])
    unmatched = pairs.column("right").null_count
    ctx.log(f"{counted(data.num_rows, 'row')}, {unmatched:,} of them without a match")
    return {"table": table_with_roles(data, columns)}


def _right_on(params: JoinParams) -> list[str]:
    """Return the key columns of the right table."""
    return params.right_on or params.on


def _numbered(keys: pa.Table) -> pa.Table:
    """Return key columns under plain names, and the position of each row."""
    import pyarrow as pa

    names = [f"k{index}" for index in range(keys.num_columns)]
    positions = pa.array(range(keys.num_rows), pa.int64())
    return keys.rename_columns(names).append_column("position", positions)


def _check_matches(connection: duckdb.DuckDBPyConnection, params: JoinParams) -> None:
    """Raise ``BadInput`` if keys occur several times and must not, or if there are too many rows.

    Missing keys are not compared: they match nothing.
    """
    keys = [f"k{index}" for index in range(len(params.on))]
    by_key = "SELECT {keys}, count(*) AS n FROM {table} GROUP BY ALL"
    left, right = (by_key.format(keys=", ".join(keys), table=table) for table in ("l", "r"))
    same = " AND ".join(f"l.{key} = r.{key}" for key in keys)
    matches = f"({left}) l JOIN ({right}) r ON {same}"
    if params.several == "error":
        shown = ", ".join(f"r.{key}::VARCHAR" for key in keys)
        found = connection.execute(
            f"SELECT {shown} FROM {matches} WHERE r.n > 1 ORDER BY ALL LIMIT 1"
        ).fetchall()
        if found:
            values = ", ".join(
                f"{name} = {value}" for name, value in zip(_right_on(params), found[0], strict=True)
            )
            raise BadInput(
                f"several rows of the right table have the same key, such as {values}; choose in "
                "Several matches what to do with them",
                field="several",
            )
    if params.several == "all":
        [(rows,)] = connection.execute(f"SELECT sum(l.n * r.n) FROM {matches}").fetchall()
        if rows is not None and rows > MAX_ROWS:
            raise BadInput(
                f"the join would have {int(rows):,} rows, because many rows have the same key; "
                "choose further key columns",
                field="on",
            )


def _pairs_query(params: JoinParams) -> str:
    """Return the query for the positions of rows that belong together, in the order of the left."""
    keys = [f"k{index}" for index in range(len(params.on))]
    same = " AND ".join(f"l.{key} = r.{key}" for key in keys)
    right = "r"
    if params.several == "first":
        right = f"(SELECT {', '.join(keys)}, min(position) AS position FROM r GROUP BY ALL) r"
    kind = "LEFT JOIN" if params.unmatched == "keep" else "JOIN"
    return (
        f'SELECT l.position AS "left", r.position AS "right" FROM l {kind} {right} ON {same} '
        "ORDER BY ALL"
    )


def joined_columns(left: Columns, right: Columns, params: JoinParams) -> Columns:
    """Return the columns of the result: those of the left table, then those of the right one.

    The keys of the right table are left out. Raise ``BadInput`` if keys do not exist or cannot be
    compared, or if two columns would have the same name.
    """
    _check_keys(left, right, params)
    names = {column.name for column in left}
    added = []
    for column in right:
        if column.name in _right_on(params):
            continue
        if column.name in names:
            column = replace(column, name=column.name + params.suffix)
        if column.name in names:
            raise BadInput(
                f"the result would have two columns named '{column.name}'; choose another suffix",
                field="suffix",
            )
        names.add(column.name)
        added.append(column)
    return with_single_roles([*left, *added])


def _check_keys(left: Columns, right: Columns, params: JoinParams) -> None:
    """Raise ``BadInput`` if the key columns do not exist or have different types."""
    if not params.on:
        raise BadInput("choose at least one column", field="on")
    if len(_right_on(params)) != len(params.on):
        raise BadInput(
            f"there are {len(params.on)} key columns and {len(params.right_on)} of the right "
            "table; name as many of both",
            field="right_on",
        )
    kinds = {column.name: column.kind for column in left}
    right_kinds = {column.name: column.kind for column in right}
    field = "right_on" if params.right_on else "on"
    for name, right_name in zip(params.on, _right_on(params), strict=True):
        require_column(name, kinds, field="on")
        require_column(right_name, right_kinds, field=field)
        if _family(kinds[name]) != _family(right_kinds[right_name]):
            raise BadInput(
                f"'{name}' is a {KIND_TITLES[kinds[name]]} in the left table, and '{right_name}' "
                f"a {KIND_TITLES[right_kinds[right_name]]} in the right one; choose columns of one "
                "type, or set it where a table is loaded",
                field=field,
            )


def _family(kind: str) -> str:
    """Return the kind; categories and texts can be compared."""
    return "text" if kind == "category" else kind


def columns(
    inputs: Mapping[str, Columns | None], params: JoinParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the result; None while those of a table are not known."""
    left, right = inputs.get("left"), inputs.get("right")
    if left is None or right is None:
        return {"table": None}
    return {"table": joined_columns(left, right, params)}


NODE = NodeType(
    name="join",
    title="Join",
    category="Prepare",
    summary="Adds to each row the columns of the row of another table that has the same key.",
    version=1,
    params=JoinParams,
    run=run,
    python=step_call("nodes.steps.join", always=["on"]),
    inputs=(Port("left", "table", "Left table"), Port("right", "table", "Right table")),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=IMPORTS,
)
