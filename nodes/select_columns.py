"""Keep or drop columns by name, by pattern or by kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Code, Names, settings, statement
from engine.node_types import Column, Columns, Kind, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.columns import require_column


class SelectColumnsParams(NodeParams):
    """Which columns, and whether they stay or go."""

    mode: Literal["keep", "drop"] = Field(
        "drop",
        title="Keep or drop",
        description="Keep only the features chosen below, or drop them. "
        "The target and columns with a role stay, unless they are dropped by name.",
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
        title="Kinds",
        description="All features of these kinds as well: number, category, bool, time or text.",
        max_length=5,
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SelectColumnsParams) -> dict[str, Any]:
    """The same columns in memory, fewer of them."""
    table: Table = inputs["table"]
    names = [column.name for column in chosen(table.columns, params)]
    ctx.log(f"{len(names):,} of {table.data.num_columns:,} columns kept")
    return {"table": table.with_data(table.data.select(names))}


def chosen(columns: Columns, params: SelectColumnsParams) -> Columns:
    """The columns that stay, in the order they had; ``BadInput`` if a name means none or no feature stays."""
    named = _named(columns, params.columns)
    if params.mode == "drop":
        kept = [column for column in columns if column.name not in named and not _of_kind(column, params.kinds)]
    else:
        kept = [c for c in columns if c.name in named or _of_kind(c, params.kinds) or c.role != "feature"]
    if not any(column.role == "feature" for column in kept):
        what = "keep none" if params.mode == "keep" else "drop all"
        raise BadInput(f"these settings {what} of the features; choose other columns", field="columns")
    return tuple(kept)


def _of_kind(column: Column, kinds: list[Kind]) -> bool:
    return column.role == "feature" and column.kind in kinds


def _named(columns: Columns, patterns: list[str]) -> set[str]:
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
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    found = [name for name in names if expression.fullmatch(name)]
    if not found:
        raise BadInput(f"no column matches '{pattern}'; the first is '{names[0]}'", field="columns")
    return found


def columns(inputs: Mapping[str, Columns | None], params: SelectColumnsParams) -> Mapping[str, Columns | None]:
    """The columns that stay, as soon as those of the table are known."""
    known = inputs.get("table")
    return {"table": None if known is None else chosen(known, params)}


def python(params: SelectColumnsParams, names: Names) -> Code:
    """How the node reads in a script."""
    shown = {"mode": params.mode} | settings(params)
    lines = statement(names.outputs["table"], "steps.select_columns", names.inputs["table"], **shown)
    return Code(lines, ["from nodes import steps"])


NODE = NodeType(
    name="select-columns",
    title="Select columns",
    category="Prepare",
    summary="Keeps or drops columns by name, pattern or kind.",
    version=1,
    params=SelectColumnsParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("table", "table", "Table"),),
    columns=columns,
    imports=("pyarrow",),
)
