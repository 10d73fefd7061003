"""Put the rows of up to four tables below one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import (
    Column,
    Columns,
    Kind,
    NodeContext,
    NodeParams,
    NodeType,
    Port,
    form_hint,
)
from engine.text import lacking
from engine.values import Table
from nodes.data.columns import KIND_TITLES, require_rows, table_with_roles, with_single_roles

if TYPE_CHECKING:
    import pyarrow as pa

ORDER = ("first", "second", "third", "fourth")


class ConcatenateParams(NodeParams):
    """Choose what happens to columns that some tables lack."""

    columns: Literal["same", "all", "shared"] = Field(
        "same",
        title="Columns",
        description="Which columns the result has. A value is missing in the rows of a table that "
        "lacks the column.",
        json_schema_extra=form_hint(
            words={
                "same": "all tables must have the same",
                "all": "those of any table",
                "shared": "those that all tables have",
            }
        ),
    )
    source_column: str | None = Field(
        None,
        title="Column of the source",
        description="Name of a column to add that says which table a row comes from: first, "
        "second, third or fourth.",
        min_length=1,
        max_length=200,
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: ConcatenateParams) -> dict[str, Any]:
    """Return the rows of all tables, in the order of the inputs."""
    import pyarrow as pa

    tables: dict[str, Table] = {}
    for port in ORDER:
        if inputs.get(port) is not None:
            tables[port] = inputs[port]
    columns = combined_columns({port: table.columns for port, table in tables.items()}, params)
    parts = [table.data for table in tables.values()]
    data = {}
    for column in columns:
        if column.name != params.source_column:
            data[column.name] = _stacked(parts, column)
    if params.source_column is not None:
        counts = [part.num_rows for part in parts]
        data[params.source_column] = _sources(list(tables), counts)
    result = pa.table(data)
    require_rows(result, "none of the tables has rows; connect tables with rows")
    ctx.log(f"{result.num_rows:,} rows of {len(parts)} tables")
    return {"table": table_with_roles(result, columns)}


def _stacked(parts: Sequence[pa.Table], column: Column) -> pa.ChunkedArray:
    """Return the values of all parts in one type, missing where a part lacks the column."""
    import pyarrow as pa

    found = [part.column(column.name) for part in parts if column.name in part.column_names]
    kind = _common_type([values.type for values in found], column.kind)
    chunks: list[pa.Array] = []
    for part in parts:
        if column.name in part.column_names:
            chunks += part.column(column.name).cast(kind).chunks
        else:
            chunks.append(pa.nulls(part.num_rows, kind))
    stacked = pa.chunked_array(chunks, kind)
    return _with_common_categories(stacked) if column.kind == "category" else stacked


def _common_type(types: Sequence[pa.DataType], kind: Kind) -> pa.DataType:
    """Return the type that holds the values of all these types."""
    import pyarrow as pa

    if kind == "text":
        return pa.string()
    schemas = [pa.schema([pa.field("x", each)]) for each in types]
    if kind == "category":
        return types[0]
    return pa.unify_schemas(schemas, promote_options="permissive").field("x").type


def _with_common_categories(stacked: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories of several tables as one list; it stays as it is if all have the same."""
    import pyarrow as pa

    from nodes.data.column_types import to_category

    levels = [chunk.dictionary for chunk in stacked.chunks if chunk.null_count < len(chunk)]
    if all(each.equals(levels[0]) for each in levels):
        return stacked.unify_dictionaries()
    return pa.chunked_array([to_category(stacked)])


def _sources(ports: Sequence[str], counts: Sequence[int]) -> pa.ChunkedArray:
    """Return for each row which table it comes from."""
    import numpy as np
    import pyarrow as pa

    codes = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(ports))])


def combined_columns(tables: Mapping[str, Columns], params: ConcatenateParams) -> Columns:
    """Return the columns of the result, in the order in which they occur.

    A column has the role that it has in the first table with it. Raise ``BadInput`` if the tables
    do not have the columns that they must have, or have them in different types.
    """
    combined: dict[str, Column] = {}
    for port, columns in tables.items():
        for column in columns:
            other = combined.setdefault(column.name, column)
            combined[column.name] = _of_common_kind(other, column, port)
    shared = set(combined)
    for columns in tables.values():
        shared &= {column.name for column in columns}
    if params.columns == "same":
        _check_same(tables, shared)
    kept = [
        column for name, column in combined.items() if params.columns != "shared" or name in shared
    ]
    if not kept:
        raise BadInput("the tables share no column; choose other columns", field="columns")
    if params.source_column is not None:
        if params.source_column in {column.name for column in kept}:
            raise BadInput(
                f"the column '{params.source_column}' exists already; choose another name",
                field="source_column",
            )
        kept.append(Column(params.source_column, "category"))
    return with_single_roles(kept)


def _of_common_kind(one: Column, other: Column, port: str) -> Column:
    """Return the column in a kind that suits both; raise ``BadInput`` without such a kind."""
    if one.kind == other.kind:
        return one
    if {one.kind, other.kind} == {"category", "text"}:
        return Column(one.name, "text", one.role)
    raise BadInput(
        f"'{one.name}' is a {KIND_TITLES[one.kind]} in the first table that has it, and a "
        f"{KIND_TITLES[other.kind]} in the {port} one; set its type where the tables are loaded"
    )


def _check_same(tables: Mapping[str, Columns], shared: set[str]) -> None:
    """Raise ``BadInput`` if a table has columns that another one lacks."""
    for port, columns in tables.items():
        further = [column.name for column in columns if column.name not in shared]
        for other, others in tables.items():
            present = {column.name for column in others}
            missing = [name for name in further if name not in present]
            if missing:
                raise BadInput(
                    f"the {other} table lacks columns that the {port} one has: "
                    f"{lacking(missing, present)}; choose in Columns which ones the result has",
                    field="columns",
                )


def columns(
    inputs: Mapping[str, Columns | None], params: ConcatenateParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the result; None while those of a table are not known."""
    known = {port: each for port in ORDER if (each := inputs.get(port)) is not None}
    if not known or len(known) < len(inputs):
        return {"table": None}
    return {"table": combined_columns(known, params)}


NODE = NodeType(
    name="concatenate",
    title="Concatenate",
    category="Prepare",
    summary="Puts the rows of up to four tables below one another.",
    version=1,
    params=ConcatenateParams,
    run=run,
    python=step_call("nodes.steps.concatenate"),
    inputs=(
        Port("first", "table", "First table"),
        Port("second", "table", "Second table"),
        Port("third", "table", "Third table", required=False),
        Port("fourth", "table", "Fourth table", required=False),
    ),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
