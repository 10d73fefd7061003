"""Keep or drop the rows that meet conditions on their values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import step_call
from engine.node_types import Columns, Kind, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.values import Table
from nodes.data.columns import KIND_TITLES, require_column, require_rows

if TYPE_CHECKING:
    import pyarrow as pa

ORDERED = ("number", "time")
"""Kinds whose values can be compared by size."""
TEXTS = ("category", "text")
COMPARISONS = {
    "equal": "equal",
    "not_equal": "not_equal",
    "less": "less",
    "at_most": "less_equal",
    "greater": "greater",
    "at_least": "greater_equal",
}
"""The functions of Arrow that compare, by the names of conditions."""


class _Condition(NodeParams):
    """What all conditions have."""

    column: str = Field(
        title="Column",
        description="The column whose values are compared.",
        min_length=1,
        json_schema_extra=form_hint(choose="column"),
    )


class CompareCondition(_Condition):
    """Compare the values of a column with one value."""

    test: Literal["equal", "not_equal", "less", "at_most", "greater", "at_least", "contains"] = (
        Field(
            title="Condition",
            description="How values are compared. A missing value never meets the condition.",
            json_schema_extra=form_hint(
                words={
                    "equal": "is equal to",
                    "not_equal": "is not equal to",
                    "less": "is less than",
                    "at_most": "is at most",
                    "greater": "is greater than",
                    "at_least": "is at least",
                    "contains": "contains the text",
                }
            ),
        )
    )
    value: str = Field(
        title="Value",
        description="The value to compare with: 2.5, yes, 2024-01-31 12:30 or a text, as suits "
        "the column.",
        max_length=1_000,
    )


class ListCondition(_Condition):
    """Look for the values of a column in a list."""

    test: Literal["one_of", "not_one_of"] = Field(
        title="Condition",
        description="Whether values are in the list. A missing value never meets the condition.",
        json_schema_extra=form_hint(words={"one_of": "is one of", "not_one_of": "is not one of"}),
    )
    values: list[str] = Field(
        title="Values",
        description="The values to look for.",
        min_length=1,
        max_length=10_000,
    )


class MissingCondition(_Condition):
    """Ask whether the values of a column are missing."""

    test: Literal["missing", "present"] = Field(
        title="Condition",
        description="Whether the value of the row is missing.",
        json_schema_extra=form_hint(words={"missing": "is missing", "present": "is not missing"}),
    )


Condition = Annotated[
    CompareCondition | ListCondition | MissingCondition, Field(discriminator="test")
]


class FilterRowsParams(NodeParams):
    """Choose the conditions, and what happens to the rows that meet them."""

    mode: Literal["keep", "drop"] = Field(
        "keep",
        title="Keep or drop",
        description="Keep only the rows that meet the conditions, or drop them.",
        json_schema_extra=form_hint(words={"keep": "keep", "drop": "drop"}),
    )
    match: Literal["all", "any"] = Field(
        "all",
        title="Conditions to meet",
        description="Whether a row must meet all conditions, or any of them.",
        json_schema_extra=form_hint(words={"all": "all", "any": "any of them"}),
    )
    conditions: list[Condition] = Field(
        default_factory=list,
        title="Conditions",
        description="Conditions on the values of columns. Without any, all rows are kept.",
        max_length=100,
    )


def run(ctx: NodeContext, inputs: dict[str, Any], params: FilterRowsParams) -> dict[str, Any]:
    """Return the rows that are kept, in their order."""
    import pyarrow.compute as pc

    table: Table = inputs["table"]
    if not params.conditions:
        return {"table": table}
    check_conditions(table.columns, params)
    kinds = {column.name: column.kind for column in table.columns}
    met = []
    for index, condition in enumerate(params.conditions):
        values = table.data.column(condition.column)
        met.append(_met(values, kinds[condition.column], condition, f"conditions.{index}"))
    mask = reduce(pc.and_ if params.match == "all" else pc.or_, met)
    if params.mode == "drop":
        mask = pc.invert(mask)
    data = ctx.scratch.filter(table.data, mask.to_numpy())
    ctx.log(f"{data.num_rows:,} of {table.data.num_rows:,} rows kept")
    require_rows(
        data,
        f"none of the {table.data.num_rows:,} rows is kept; change the conditions",
        field="conditions",
    )
    return {"table": table.with_data(data)}


def check_conditions(columns: Columns, params: FilterRowsParams) -> None:
    """Raise ``BadInput`` if a condition does not suit the columns."""
    kinds = {column.name: column.kind for column in columns}
    for index, condition in enumerate(params.conditions):
        field = f"conditions.{index}"
        require_column(condition.column, kinds, field=f"{field}.column")
        _check_condition(condition, kinds[condition.column], field)


def _check_condition(condition: Any, kind: Kind, field: str) -> None:
    """Raise ``BadInput`` if a column of this kind cannot be compared in this way."""
    needed: tuple[str, ...] = ()
    if condition.test in ("less", "at_most", "greater", "at_least"):
        needed = ORDERED
    elif condition.test == "contains":
        needed = TEXTS
    if needed and kind not in needed:
        words = " or ".join(KIND_TITLES[each] for each in needed)
        raise BadInput(
            f"'{condition.column}' is a column of type {KIND_TITLES[kind]}, and this condition "
            f"needs {words}; choose another condition",
            field=f"{field}.test",
        )
    if isinstance(condition, CompareCondition):
        _parsed([condition.value], kind, condition.column, f"{field}.value")
    elif isinstance(condition, ListCondition):
        _parsed(condition.values, kind, condition.column, f"{field}.values")


def _parsed(texts: list[str], kind: Kind, column: str, field: str) -> pa.ChunkedArray:
    """Return texts as values of a column's kind; raise ``BadInput`` that names the wrong one."""
    import pyarrow as pa

    from nodes.data.column_types import EXAMPLES, first_unparsed, parse_texts

    if kind in TEXTS:
        return pa.chunked_array([texts], pa.string())
    typed = pa.chunked_array([[text.strip() for text in texts]], pa.string())
    try:
        return parse_texts(typed, kind)
    except pa.ArrowInvalid:
        position = first_unparsed(typed, lambda some: parse_texts(some, kind))
        assert position is not None
        raise BadInput(
            f"'{column}' is a column of type {KIND_TITLES[kind]}, and '{texts[position]}' is not "
            f"such a value; give one such as {EXAMPLES[kind]}",
            field=field,
        ) from None


def _met(values: pa.ChunkedArray, kind: Kind, condition: Any, field: str) -> pa.ChunkedArray:
    """Return for each row whether it meets a condition; a row without a value does not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(condition, MissingCondition):
        return values.is_null() if condition.test == "missing" else values.is_valid()
    if kind in TEXTS:
        values = values.cast(pa.string())
    if isinstance(condition, ListCondition):
        given = _parsed(condition.values, kind, condition.column, f"{field}.values")
        found = pc.is_in(*_of_one_type(values, given))
        if condition.test == "not_one_of":
            found = pc.invert(found)
        return pc.and_(found, values.is_valid())
    if condition.test == "contains":
        met = pc.match_substring(values, condition.value)
    else:
        [value] = _parsed([condition.value], kind, condition.column, f"{field}.value")
        met = getattr(pc, COMPARISONS[condition.test])(values, value)
    return pc.fill_null(met, False)


def _of_one_type(
    values: pa.ChunkedArray, given: pa.ChunkedArray
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return both in one type: integers may have other widths, or be compared with decimals."""
    import pyarrow as pa

    if values.type == given.type:
        return values, given
    both_whole = pa.types.is_integer(values.type) and pa.types.is_integer(given.type)
    wide = pa.int64() if both_whole else pa.float64()
    return values.cast(wide), given.cast(wide)


def columns(
    inputs: Mapping[str, Columns | None], params: FilterRowsParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the table; raise ``BadInput`` if a condition does not suit them."""
    known = inputs.get("table")
    if known is not None:
        check_conditions(known, params)
    return {"table": known}


NODE = NodeType(
    name="filter-rows",
    title="Filter rows",
    category="Prepare",
    summary="Keeps or drops the rows that meet conditions on the values of columns.",
    version=1,
    params=FilterRowsParams,
    run=run,
    python=step_call("nodes.steps.filter_rows", always=["conditions"]),
    inputs=(Port("table", "table", "Table"),),
    outputs=(Port("table", "table", "Table"),),
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
