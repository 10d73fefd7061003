"""Draw some rows of a table, to try a pipeline quickly.

``pick`` chooses the rows, by ``class_codes``; the node split uses both as well. The same seed gives
the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.columns import task_of

if TYPE_CHECKING:
    import numpy as np


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
    table: Table = inputs["table"]
    count = _count(table.data.num_rows, params)
    mask = pick(table, count, params.seed, stratified=params.stratified, spare=0, field="rows")
    ctx.log(f"{count:,} of {len(mask):,} rows drawn")
    return {"table": table.with_data(ctx.scratch.filter(table.data, mask))}


def _count(rows: int, params: SampleParams) -> int:
    """Return how many rows to draw: at least one; raise ``BadInput`` if there are not as many."""
    if params.rows is None:
        return min(max(round(rows * params.share), 1), rows)
    if params.rows > rows:
        raise BadInput(
            f"rows is {params.rows:,}, but the table has {rows:,} rows; give a number up to "
            f"{rows:,}",
            field="rows",
        )
    return params.rows


def pick(
    table: Table, count: int, seed: int, *, stratified: bool, spare: int, field: str
) -> np.ndarray:
    """Return a mask of exactly ``count`` rows, chosen at random.

    If stratified, each class gives its share of them and keeps at least ``spare`` rows that are not
    chosen. A table without classes is never stratified. Raise ``BadInput`` if the classes do not
    have enough rows; ``field`` names the setting to change then.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    mask = np.zeros(table.data.num_rows, bool)
    if not stratified or task_of(table.columns) != "classification":
        mask[rng.permutation(len(mask))[:count]] = True
        return mask
    codes = class_codes(table)
    sizes = np.bincount(codes)
    for code, rows in enumerate(_rows_per_class(sizes, count, spare, field)):
        mask[rng.permutation(np.flatnonzero(codes == code))[:rows]] = True
    return mask


def class_codes(table: Table) -> np.ndarray:
    """Return the class of each row as a number; rows without a label are a class of their own."""
    import numpy as np

    labels = table.labels().combine_chunks().dictionary_encode().indices
    # Numbers without gaps, because bincount needs them.
    codes: np.ndarray = np.unique(
        labels.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True
    )[1]
    return codes


def _rows_per_class(sizes: np.ndarray, count: int, spare: int, field: str) -> np.ndarray:
    """Return how many rows each class gives: its share, rounded, and ``count`` in total.

    A class gives at least one row if ``count`` allows, and never its spare ones. Raise ``BadInput``
    if that is not possible.
    """
    import numpy as np

    most = np.maximum(sizes - spare, 0)
    if count and not most.any():
        raise BadInput(
            "the table has too few rows to split: every class has only one row; add rows, or turn "
            "off Stratified",
            field=field,
        )
    if count > most.sum():
        raise BadInput(
            f"{count:,} of {sizes.sum():,} rows are too many: some of the {len(sizes):,} classes "
            f"would not keep a row; choose at most {most.sum():,} rows, or turn off Stratified",
            field=field,
        )
    least = np.minimum(most, 1)
    # There are more classes than rows to draw, so some classes get none.
    if least.sum() > count:
        least = np.zeros_like(most)
    exact = sizes * count / sizes.sum()
    rows: np.ndarray = np.clip(np.floor(exact).astype(int), least, most)
    # Rounding leaves a few rows over or under: the classes furthest from their exact share adjust.
    while rows.sum() < count:
        rows[np.argmax(np.where(rows < most, exact - rows, -np.inf))] += 1
    while rows.sum() > count:
        rows[np.argmax(np.where(rows > least, rows - exact, -np.inf))] -= 1
    return rows


def columns(
    inputs: Mapping[str, Columns | None], params: SampleParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the table."""
    return {"table": inputs.get("table")}


def python(params: SampleParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script."""
    shown: dict[str, Any] = {} if params.rows else {"share": params.share}
    shown |= {"seed": params.seed} | changed_params(params)
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
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
