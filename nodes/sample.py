"""Draw some rows of a table, to try a pipeline quickly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, settings, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.sampling import pick


class SampleParams(NodeParams):
    """Choose how many rows to draw, and how."""

    share: float = Field(
        0.1,
        title="Share of rows",
        description="Share of the rows to draw.",
        gt=0,
        le=1,
        json_schema_extra=form_hint(when={"rows": ""}),
    )
    rows: int | None = Field(
        None,
        title="Number of rows",
        description="A number of rows to draw, instead of a share.",
        ge=1,
        json_schema_extra=form_hint(folded=True),
    )
    stratified: bool = Field(
        True,
        title="Stratified",
        description="Every class keeps its share, and at least one row if there are enough rows. "
        "Has no effect on a table without a target.",
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed draws other rows.",
        ge=0,
        le=2**32 - 1,
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SampleParams) -> dict[str, Any]:
    """Draw the rows; they keep their order in the table."""
    import pyarrow as pa

    table: Table = inputs["table"]
    count = _count(table.data.num_rows, params)
    mask = pick(table, count, params.seed, stratified=params.stratified, spare=0, field="rows")
    ctx.log(f"{count:,} of {len(mask):,} rows drawn")
    return {"table": table.with_data(table.data.filter(pa.array(mask)))}


def _count(rows: int, params: SampleParams) -> int:
    """Return how many rows to draw: at least one; raise ``BadInput`` if there are not as many."""
    if params.rows is None:
        return min(max(round(rows * params.share), 1), rows)
    if params.rows > rows:
        raise BadInput(
            f"rows is {params.rows:,}, but the table has {rows:,} rows; give a number up to {rows:,}",
            field="rows",
        )
    return params.rows


def columns(
    inputs: Mapping[str, Columns | None], params: SampleParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the table."""
    return {"table": inputs.get("table")}


def python(params: SampleParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script."""
    shown: dict[str, Any] = {} if params.rows else {"share": params.share}
    shown |= {"seed": params.seed} | settings(params)
    lines = statement(names.outputs["table"], "steps.sample", names.inputs["table"], **shown)
    return Snippet(lines, ["from nodes import steps"])


NODE = NodeType(
    name="sample",
    title="Sample",
    category="Prepare",
    summary="Draws some of the rows, to try a pipeline quickly.",
    version=1,
    params=SampleParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("table", "table", "Table"),),
    columns=columns,
    imports=("numpy", "pyarrow"),
)
