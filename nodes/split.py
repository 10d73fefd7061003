"""Split a table into training rows and test rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table, kind_of
from nodes.data.columns import require_column
from nodes.sample import pick

if TYPE_CHECKING:
    import numpy as np


class SplitParams(NodeParams):
    """Choose how many rows are held out for the test, and which."""

    test_share: float = Field(
        0.3,
        title="Share of test rows",
        description="Share of the rows that are held out as test rows.",
        gt=0,
        lt=1,
        json_schema_extra=form_hint(when={"test_rows": ""}),
    )
    test_rows: int | None = Field(
        None,
        title="Number of test rows",
        description="A number of rows to hold out, instead of a share.",
        ge=1,
        json_schema_extra=form_hint(folded=True),
    )
    stratified: bool = Field(
        True,
        title="Stratified",
        description="Every class has the same share in both parts; the only row of a class is a "
        "training row. Has no effect on a table without a target.",
        json_schema_extra=form_hint(when={"time_column": ""}),
    )
    time_column: str | None = Field(
        None,
        title="Time column",
        description="Hold out the latest rows by this column, such as the one with the role time, "
        "instead of random rows; Stratified and Seed then have no effect.",
        min_length=1,
        json_schema_extra=form_hint(choose="column"),
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed draws other rows.",
        ge=0,
        le=2**32 - 1,
        json_schema_extra=form_hint(when={"time_column": ""}),
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: SplitParams) -> dict[str, Any]:
    """Split the table; rows keep their order in both parts."""
    table: Table = inputs["table"]
    count = _test_rows(table.data.num_rows, params)
    if params.time_column is not None:
        is_test = _latest(table, params.time_column, count)
    else:
        field = "test_share" if params.test_rows is None else "test_rows"
        is_test = pick(
            table, count, params.seed, stratified=params.stratified, spare=1, field=field
        )
    ctx.log(f"{len(is_test) - count:,} training rows, {count:,} test rows")
    return {"train": _part(table, ~is_test), "test": _part(table, is_test)}


def _test_rows(rows: int, params: SplitParams) -> int:
    """Return the number of test rows; raise ``BadInput`` if a part would be empty."""
    if rows < 2:
        raise BadInput(
            f"a split needs at least two rows, and the table has {rows}; use a larger table"
        )
    if params.test_rows is None:
        # Neither part may be empty, however small the share.
        return min(max(round(rows * params.test_share), 1), rows - 1)
    if params.test_rows >= rows:
        raise BadInput(
            f"test_rows is {params.test_rows:,}, but the table has {rows:,} rows; give a number "
            f"below {rows:,}",
            field="test_rows",
        )
    return params.test_rows


def _latest(table: Table, column: str, count: int) -> np.ndarray:
    """Return a mask of the ``count`` latest rows; of equal times, those further down the table.

    Raise ``BadInput`` if the column has no order or has missing values.
    """
    import numpy as np

    require_column(column, table.data.column_names, field="time_column")
    times = table.data.column(column)
    kind = kind_of(times.type)
    if kind not in ("time", "number"):
        raise BadInput(
            f"'{column}' is a {kind} column; choose one with times or numbers", field="time_column"
        )
    if times.null_count:
        raise BadInput(
            f"'{column}' is missing in {times.null_count:,} rows, so the rows cannot be ordered by "
            "it; choose another column",
            field="time_column",
        )
    mask = np.zeros(len(times), bool)
    # A stable sort keeps equal times in the order of the table.
    mask[np.argsort(times.to_numpy(), kind="stable")[-count:]] = True
    return mask


def _part(table: Table, mask: np.ndarray) -> Table:
    """Return the rows that the mask selects."""
    import pyarrow as pa

    return table.with_data(table.data.filter(pa.array(mask)))


def columns(
    inputs: Mapping[str, Columns | None], params: SplitParams
) -> Mapping[str, Columns | None]:
    """Return the columns of both parts, which are those of the table.

    Raise ``BadInput`` if the time column is not one of them.
    """
    known = inputs.get("table")
    if known is not None and params.time_column is not None:
        require_column(params.time_column, [column.name for column in known], field="time_column")
    return {"train": known, "test": known}


def python(params: SplitParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script.

    Share and seed are written out even if they have their default values, because readers look for
    them.
    """
    both = f"{names.outputs['train']}, {names.outputs['test']}"
    shown = {"test_share": params.test_share, "seed": params.seed} | changed_params(params)
    if params.test_rows is not None:
        shown.pop("test_share", None)
    if params.time_column is not None:
        shown.pop("seed", None)
    return Snippet(
        statement(both, "steps.split", names.inputs["table"], **shown), ["from nodes import steps"]
    )


NODE = NodeType(
    name="split",
    title="Split",
    category="Prepare",
    summary="Holds out test rows: at random, in proportion to the classes, or the latest rows.",
    version=1,
    params=SplitParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("train", "table", "Training rows"), Port("test", "table", "Test rows")),
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
