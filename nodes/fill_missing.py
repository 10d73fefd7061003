"""Fill missing values of features with values that are learned from the training rows.

Validation rows and test rows are filled with the values of the training rows. So nothing about them
is learned before a model is evaluated on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Column, Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.text import lacking
from engine.values import Table
from nodes.data.columns import KIND_TITLES, require_column

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

PARTS = {"train": "training rows", "validation": "validation rows", "test": "test rows"}
"""The ports, and what they are called in messages."""
OF_VALUE = "value"
MARK = " is missing"
"""The end of the name of a column that marks filled values."""


class FillMissingParams(NodeParams):
    """Choose the columns to fill, and with which values."""

    columns: list[str] = Field(
        default_factory=list,
        title="Columns",
        description="Columns to fill; empty: all features. Dates and times are never filled.",
        max_length=10_000,
        json_schema_extra=form_hint(choose="columns"),
    )
    numbers: Literal["median", "mean", "value", "leave"] = Field(
        "median",
        title="Numbers",
        description="What missing numbers are filled with.",
        json_schema_extra=form_hint(
            words={
                "median": "median of the training rows",
                "mean": "mean of the training rows",
                "value": "a fixed number",
                "leave": "nothing",
            }
        ),
    )
    number: float = Field(
        0.0,
        title="Fixed number",
        description="The number that stands for a missing one.",
        json_schema_extra=form_hint(when={"numbers": OF_VALUE}),
    )
    categories: Literal["most_frequent", "value", "leave"] = Field(
        "most_frequent",
        title="Categories and texts",
        description="What missing categories and texts are filled with. Missing yes or no values "
        "are filled with the most frequent one, unless nothing is chosen here.",
        json_schema_extra=form_hint(
            words={
                "most_frequent": "most frequent value of the training rows",
                "value": "a fixed text",
                "leave": "nothing",
            }
        ),
    )
    text: str = Field(
        "missing",
        title="Fixed text",
        description="The text that stands for a missing one.",
        min_length=1,
        max_length=1_000,
        json_schema_extra=form_hint(when={"categories": OF_VALUE}),
    )
    mark: bool = Field(
        False,
        title="Mark filled values",
        description="Add a column of yes and no for each column that is filled: whether its value "
        "was missing.",
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: FillMissingParams) -> dict[str, Any]:
    """Learn a value for each column from the training rows, and fill all parts with them."""
    train: Table = inputs["train"]
    to_fill = filled_columns(train.columns, params)
    fills = {}
    for column in to_fill:
        fills[column.name] = _learned(train.data.column(column.name), column, params)
    learned = [f"{name}: {fill!r}" for name, fill in fills.items()]
    ctx.log(f"Missing values are filled with {', '.join(learned[:20])}")
    outputs = {}
    for name in PARTS:
        # An output whose input is not connected has no rows.
        part: Table = inputs.get(name) or train.with_data(train.data.slice(0, 0))
        _check_part(part.columns, to_fill, params, name)
        outputs[name] = _filled(part, fills, mark=params.mark)
    return outputs


def filled_columns(columns: Columns, params: FillMissingParams) -> list[Column]:
    """Return the columns to fill.

    Raise ``BadInput`` if a chosen one does not exist or cannot be filled.
    """
    by_name = {column.name: column for column in columns}
    for name in params.columns:
        require_column(name, by_name, field="columns")
        column = by_name[name]
        if column.role == "target":
            raise BadInput(
                f"'{name}' is the target, which is never filled; remove it from the columns",
                field="columns",
            )
        if column.kind == "time":
            raise BadInput(
                f"'{name}' is a {KIND_TITLES['time']}, which is never filled; remove it from the "
                "columns",
                field="columns",
            )
    chosen = params.columns or [column.name for column in columns if column.role == "feature"]
    return [by_name[name] for name in dict.fromkeys(chosen) if _is_filled(by_name[name], params)]


def _is_filled(column: Column, params: FillMissingParams) -> bool:
    """Return whether columns of this kind are filled."""
    if column.kind == "number":
        return params.numbers != "leave"
    return column.kind != "time" and params.categories != "leave"


def _check_part(
    columns: Columns, to_fill: Iterable[Column], params: FillMissingParams, part: str
) -> None:
    """Raise ``BadInput`` if a part lacks a column to fill, or has it in another type."""
    title = PARTS[part]
    kinds = {column.name: column.kind for column in columns}
    missing = [column.name for column in to_fill if column.name not in kinds]
    if missing:
        raise BadInput(
            f"the {title} lack the columns {lacking(missing, kinds)}; connect tables of one split"
        )
    for column in to_fill:
        if kinds[column.name] != column.kind:
            raise BadInput(
                f"'{column.name}' is a {KIND_TITLES[column.kind]} in the training rows and a "
                f"{KIND_TITLES[kinds[column.name]]} in the {title}; connect tables of one split"
            )
        if params.mark and column.name + MARK in kinds:
            raise BadInput(
                f"the column '{column.name}{MARK}' exists already; turn off Mark filled values, "
                "or drop that column before",
                field="mark",
            )


# What is learned


def _learned(values: pa.ChunkedArray, column: Column, params: FillMissingParams) -> Any:
    """Return the value to fill a column with.

    Raise ``BadInput`` if it has to be learned and the training rows have no value.
    """
    if column.kind == "number" and params.numbers == OF_VALUE:
        return params.number
    if column.kind in ("category", "text") and params.categories == OF_VALUE:
        return params.text
    import pyarrow.compute as pc

    present = values.drop_null()
    if column.kind == "number":
        # Learners take infinity and NaN for missing values, too.
        present = present.filter(pc.is_finite(present))
    if not len(present):
        raise BadInput(
            f"'{column.name}' has no value in the training rows, so that nothing can be learned "
            "from it; fill it with a fixed value, or drop it with a Select columns node",
            field="columns",
        )
    if column.kind != "number":
        return _most_frequent(present)
    import numpy as np

    numbers = present.to_numpy().astype(float)
    if params.numbers == "mean":
        return _mean(numbers)
    return float(np.median(numbers))


def _mean(numbers: np.ndarray) -> float:
    """Return the mean; the exact sum does not depend on the order in which numbers are added."""
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return math.fsum(numbers / len(numbers))


def _most_frequent(present: pa.ChunkedArray) -> Any:
    """Return the value that occurs most often; of several, the first in order."""
    counts = {each["values"]: each["counts"] for each in present.value_counts().to_pylist()}
    return min(counts, key=lambda value: (-counts[value], value))


# Filling


def _filled(table: Table, fills: Mapping[str, Any], *, mark: bool) -> Table:
    """Return the table with values instead of gaps; with ``mark``, also with columns of gaps."""
    data = table.data
    for name, fill in fills.items():
        values = data.column(name)
        data = data.set_column(data.column_names.index(name), name, _without_gaps(values, fill))
        if mark:
            data = data.append_column(name + MARK, values.is_null())
    return table.with_data(data)


def _without_gaps(values: pa.ChunkedArray, fill: Any) -> pa.ChunkedArray:
    """Return the values, and ``fill`` where they are missing."""
    import pyarrow as pa

    if not values.null_count:
        return values
    if pa.types.is_dictionary(values.type):
        return _with_category(values.combine_chunks(), fill)
    if pa.types.is_integer(values.type):
        whole = _whole(fill, values.type)
        if whole is None:
            return values.cast(pa.float64()).fill_null(fill)
        return values.fill_null(whole)
    return values.fill_null(pa.scalar(fill, values.type))


def _whole(fill: float, kind: pa.DataType) -> pa.Scalar | None:
    """Return a fill as an integer of a type; None if it is not one."""
    import pyarrow as pa

    try:
        return pa.scalar(fill).cast(kind)
    except pa.ArrowInvalid:
        return None


def _with_category(values: pa.DictionaryArray, fill: str) -> pa.ChunkedArray:
    """Return categories with ``fill`` where they are missing; it is added if it is a new one."""
    import pyarrow as pa

    levels = values.dictionary.to_pylist()
    if fill not in levels:
        levels.append(fill)
    codes = values.indices.fill_null(levels.index(fill))
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, pa.array(levels, pa.string()))])


def columns(
    inputs: Mapping[str, Columns | None], params: FillMissingParams
) -> Mapping[str, Columns | None]:
    """Return the columns of each part; None for a part whose columns are not known."""
    train = inputs.get("train")
    if train is None:
        return dict.fromkeys(PARTS)
    to_fill = filled_columns(train, params)
    marks = tuple(Column(column.name + MARK, "bool") for column in to_fill if params.mark)
    outputs: dict[str, Columns | None] = {}
    for name in PARTS:
        known = inputs.get(name)
        outputs[name] = None
        if known is not None:
            _check_part(known, to_fill, params, name)
            outputs[name] = (*known, *marks)
    return outputs


def python(params: FillMissingParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script."""
    outputs = ", ".join(names.outputs[part] for part in PARTS)
    given = {part: names.inputs[part] for part in PARTS if part in names.inputs}
    lines = statement(outputs, "steps.fill_missing", **given, **changed_params(params))
    return Snippet(lines, ["from nodes import steps"])


NODE = NodeType(
    name="fill-missing",
    title="Fill missing values",
    category="Prepare",
    summary="Fills missing values with what the training rows have, the same in all parts.",
    version=1,
    params=FillMissingParams,
    run=run,
    python=python,
    inputs=(
        Port("train", "table", "Training rows"),
        Port("validation", "table", "Validation rows", required=False),
        Port("test", "table", "Test rows", required=False),
    ),
    outputs=(
        Port("train", "table", "Training rows"),
        Port("validation", "table", "Validation rows"),
        Port("test", "table", "Test rows"),
    ),
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
