"""Keep or drop columns by name, by pattern or by kind.

The same rule gives the columns of the result before a run (``output_columns``) and in it (``run``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

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
from engine.values import Table
from nodes.data.columns import KIND_TITLES, require_column


class SelectColumnsParams(NodeParams):
    """Choose columns, and whether to keep or drop them."""

    mode: Literal["keep", "drop"] = Field(
        "drop",
        title="Keep or drop",
        description="Keep only the features chosen below, or drop them. "
        "The target and columns with a role are kept, unless they are dropped by name.",
        json_schema_extra=form_hint(words={"keep": "keep", "drop": "drop"}),
    )
    columns: list[str] = Field(
        default_factory=list,
        title="Columns",
        description="Names of columns; a * stands for any text, as in pixel_0_*.",
        max_length=10_000,
        json_schema_extra=form_hint(choose="columns"),
    )
    kinds: list[Kind] = Field(
        default_factory=list,
        title="Types",
        description="Also choose all features of these types.",
        max_length=5,
        json_schema_extra=form_hint(words=KIND_TITLES),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SelectColumnsParams) -> dict[str, Any]:
    """Select the columns; no value is copied."""
    table: Table = inputs["table"]
    names = [column.name for column in selected(table.columns, params)]
    ctx.log(f"{len(names):,} of {table.data.num_columns:,} columns kept")
    return {"table": table.with_data(table.data.select(names))}


def selected(columns: Columns, params: SelectColumnsParams) -> Columns:
    """Return the columns that are kept, in their order.

    Raise ``BadInput`` if a name or pattern matches no column, or if no feature is kept.
    """
    named = _named(columns, params.columns)
    kept = [column for column in columns if _is_kept(column, named, params)]
    if not any(column.role == "feature" for column in kept):
        effect = "keep none" if params.mode == "keep" else "drop all"
        raise BadInput(
            f"these settings {effect} of the features; choose other columns", field="columns"
        )
    return tuple(kept)


def _is_kept(column: Column, named: set[str], params: SelectColumnsParams) -> bool:
    """Return whether a column is kept; ``named`` are the columns that are chosen by name.

    A column with a role can only be dropped by its name, and is always kept otherwise.
    """
    is_feature = column.role == "feature"
    is_chosen = column.name in named or (is_feature and column.kind in params.kinds)
    if params.mode == "drop":
        return not is_chosen
    return is_chosen or not is_feature


def _named(columns: Columns, patterns: list[str]) -> set[str]:
    """Return the columns that the names and patterns choose.

    A name that contains a ``*`` is a pattern, unless a column has exactly this name.
    """
    names = dict.fromkeys(column.name for column in columns)
    named: set[str] = set()
    for pattern in patterns:
        if pattern in names:
            named.add(pattern)
        elif "*" in pattern:
            named.update(_matching(pattern, list(names)))
        else:
            require_column(pattern, names, field="columns")
    return named


def _matching(pattern: str, names: list[str]) -> list[str]:
    """Return the names that a pattern matches; raise ``BadInput`` if it matches no name."""
    # Only * is special, so that names with brackets or dots need no escapes.
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    matching = [name for name in names if expression.fullmatch(name)]
    if not matching:
        raise BadInput(
            f"no column matches '{pattern}'; the first column is '{names[0]}'", field="columns"
        )
    return matching


def columns(
    inputs: Mapping[str, Columns | None], params: SelectColumnsParams
) -> Mapping[str, Columns | None]:
    """Return the columns that are kept; None if those of the table are not known."""
    known = inputs.get("table")
    return {"table": None if known is None else selected(known, params)}


NODE = NodeType(
    name="select-columns",
    title="Select columns",
    category="Prepare",
    summary="Keeps or drops columns by name, pattern or kind.",
    version=1,
    params=SelectColumnsParams,
    run=run,
    python=step_call("nodes.steps.select_columns", always=["mode"]),
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=("pyarrow",),
)
