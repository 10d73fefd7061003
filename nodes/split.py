"""Split a table into training, validation and test rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import Field

from engine.errors import BadInput
from engine.export_python import Snippet, Variables, changed_params, statement
from engine.node_types import Columns, NodeContext, NodeParams, NodeType, Port, form_hint
from engine.scratch import IN_MEMORY, ScratchFolder
from engine.text import counted
from engine.values import Table, kind_of
from nodes.data.columns import require_column, task_of
from nodes.data.row_groups import group_codes
from nodes.sample import class_codes, pick

if TYPE_CHECKING:
    import numpy as np


MOST_DRAWS = 20
MOST_GROUPS = 100_000
"""Groups that all draws together look at."""


class SplitParams(NodeParams):
    """Choose how many rows are held out for validation and for the test, and which."""

    test_share: float = Field(
        0.3,
        title="Share of test rows",
        description="Share of the rows that are held out as test rows.",
        gt=0,
        lt=1,
        json_schema_extra=form_hint(when={"test_rows": ""}),
    )
    validation_share: float = Field(
        0.0,
        title="Share of validation rows",
        description="Share of the rows that are held out to choose between models or settings, so "
        "that the test rows are used once, for the chosen one. 0: none.",
        ge=0,
        lt=1,
        json_schema_extra=form_hint(when={"validation_rows": ""}),
    )
    test_rows: int | None = Field(
        None,
        title="Number of test rows",
        description="A number of rows to hold out, instead of a share.",
        ge=1,
        json_schema_extra=form_hint(folded=True),
    )
    validation_rows: int | None = Field(
        None,
        title="Validation rows",
        description="A number of validation rows, instead of a share.",
        ge=0,
        json_schema_extra=form_hint(folded=True),
    )
    stratified: bool = Field(
        True,
        title="Stratified",
        description="Every class has the same share in each part; the only row of a class is a "
        "training row. Has no effect on a table without a target.",
        json_schema_extra=form_hint(when={"time_column": ""}),
    )
    time_column: str | None = Field(
        None,
        title="Time column",
        description="Hold out the latest rows by this column, such as the one with the role time, "
        "instead of random rows; Stratified and Seed then have no effect.",
        min_length=1,
        json_schema_extra=form_hint(choose="column", when={"group_column": ""}),
    )
    group_column: str | None = Field(
        None,
        title="Group column",
        description="Rows with the same value here, such as those of one customer, stay together "
        "in one part. Empty: the column with the role group, if there is one.",
        min_length=1,
        json_schema_extra=form_hint(choose="column", when={"time_column": ""}),
    )
    seed: int = Field(
        0,
        title="Seed",
        description="Another seed draws other rows.",
        ge=0,
        le=2**32 - 1,
        json_schema_extra=form_hint(when={"time_column": ""}),
    )

    @property
    def makes_validation(self) -> bool:
        """Whether there are validation rows."""
        if self.validation_rows is None:
            return self.validation_share > 0
        return self.validation_rows > 0


def run(ctx: NodeContext, inputs: dict[str, Any], params: SplitParams) -> dict[str, Any]:
    """Split the table; rows keep their order in each part."""
    import numpy as np

    table: Table = inputs["table"]
    _check_columns(table.data.column_names, table.target, params)
    counts = _counts(table.data.num_rows, params)
    group = params.group_column or next(
        (name for name, role in table.roles.items() if role == "group"), None
    )
    if params.time_column is not None:
        held_out = _latest(table, params.time_column, counts)
    elif group is not None:
        ctx.log(f"The rows of each group in '{group}' stay together.")
        held_out = _groups(table, group, counts, params)
    else:
        held_out = _random_rows(table, counts, params)
    is_test, is_validation = held_out
    parts = {
        "train": ~(is_test | is_validation),
        "validation": is_validation,
        "test": is_test,
    }
    sizes = {name: int(np.count_nonzero(mask)) for name, mask in parts.items()}
    words = {"train": "training", "validation": "validation", "test": "test"}
    shown = [name for name in parts if sizes[name] or name != "validation"]
    ctx.log(", ".join(f"{sizes[name]:,} {words[name]} rows" for name in shown))
    return {name: _part(table, mask, ctx.scratch) for name, mask in parts.items()}


def _check_columns(names: list[str], target: str | None, params: SplitParams) -> None:
    """Raise ``BadInput`` if the rows cannot be split by these columns."""
    if params.time_column is not None and params.group_column is not None:
        raise BadInput(
            "rows can be held out by time or by group, not by both; clear Time column or Group "
            "column",
            field="group_column",
        )
    for field in ("time_column", "group_column"):
        column = getattr(params, field)
        if column is not None:
            require_column(column, names, field=field)
    if params.group_column is not None and params.group_column == target:
        raise BadInput(
            f"'{target}' is the target, so that all rows of a class would be in one part; choose "
            "another Group column",
            field="group_column",
        )


def _counts(rows: int, params: SplitParams) -> tuple[int, int]:
    """Return the numbers of test and validation rows; raise ``BadInput`` if a part is empty."""
    parts = 3 if params.makes_validation else 2
    if rows < parts:
        raise BadInput(
            f"a split into {parts} parts needs at least {parts} rows, and the table has {rows}; "
            "use a larger table"
        )
    # No part may be empty, however small the share.
    test = params.test_rows
    if test is None:
        test = min(max(round(rows * params.test_share), 1), rows - parts + 1)
    if test > rows - parts + 1:
        raise BadInput(
            f"{test:,} test rows are too many: the table has {rows:,} rows; give a number up to "
            f"{rows - parts + 1:,}",
            field="test_rows",
        )
    if not params.makes_validation:
        return test, 0
    validation, field = params.validation_rows, "validation_rows"
    if validation is None:
        validation, field = max(round(rows * params.validation_share), 1), "validation_share"
    if validation > rows - test - 1:
        raise BadInput(
            f"{test:,} test rows and {validation:,} validation rows leave no training row: the "
            f"table has {rows:,} rows; hold out fewer",
            field=field,
        )
    return test, validation


def _random_rows(
    table: Table, counts: tuple[int, int], params: SplitParams
) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of test and of validation rows, drawn at random.

    The validation rows are drawn from the rest, so the test rows do not depend on their number.
    """
    import numpy as np

    n_test, n_validation = counts
    draw = partial(pick, stratified=params.stratified, spare=1)
    field = "test_share" if params.test_rows is None else "test_rows"
    is_test = draw(table, n_test, params.seed, field=field)
    is_validation = np.zeros_like(is_test)
    if n_validation:
        field = "validation_share" if params.validation_rows is None else "validation_rows"
        # Only the classes of the rest are needed.
        names = [table.target or table.data.column_names[0]]
        rest = _part(table.with_data(table.data.select(names)), ~is_test)
        is_validation[~is_test] = draw(rest, n_validation, params.seed, field=field)
    return is_test, is_validation


def _latest(table: Table, column: str, counts: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of the latest rows, for the test, and of those before them, for validation.

    Of equal times, those further down the table are later. Raise ``BadInput`` if the column has no
    order, has missing values, or is constant.
    """
    import numpy as np

    times = table.data.column(column)
    kind = kind_of(times.type)
    if kind not in ("time", "number"):
        raise BadInput(
            f"'{column}' is a {kind} column; choose one with times or numbers", field="time_column"
        )
    if times.null_count:
        raise BadInput(
            f"'{column}' is missing in {counted(times.null_count, 'row')}, so the rows cannot be "
            "ordered by it; choose another column",
            field="time_column",
        )
    values = times.to_numpy()
    if (values == values[0]).all():
        raise BadInput(
            f"all rows have the same value in '{column}', so that none of them is later; choose "
            "another Time column",
            field="time_column",
        )
    n_test, n_validation = counts
    # A stable sort keeps equal times in the order of the table.
    latest = np.argsort(values, kind="stable")[::-1]
    rows = np.arange(len(times))
    is_test = np.isin(rows, latest[:n_test])
    return is_test, np.isin(rows, latest[n_test : n_test + n_validation])


def _groups(
    table: Table, column: str, counts: tuple[int, int], params: SplitParams
) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of test and of validation rows that hold whole groups, drawn at random.

    The numbers of rows are met as closely as the groups allow. Raise ``BadInput`` if there are
    fewer groups than parts.
    """
    import numpy as np

    values = table.data.column(column)
    if values.null_count == len(values):
        raise BadInput(
            f"'{column}' is missing in all rows, so that no rows belong together; choose another "
            "Group column",
            field="group_column",
        )
    codes = np.unique(group_codes(values), return_inverse=True)[1]
    n_groups, parts = int(codes.max()) + 1, 3 if params.makes_validation else 2
    if n_groups < parts:
        raise BadInput(
            f"'{column}' has only {counted(n_groups, 'different value')}, but {parts} parts are "
            "asked for, and the rows of a group stay together; choose another Group column",
            field="group_column",
        )
    classes = np.zeros_like(codes)
    if params.stratified and task_of(table.columns) == "classification":
        classes = class_codes(table)
    sizes = np.zeros((n_groups, int(classes.max()) + 1))
    np.add.at(sizes, (codes, classes), 1)
    rng = np.random.default_rng(params.seed)
    left = np.arange(n_groups)
    masks = []
    for spare, count in zip((parts - 1, 1), counts, strict=True):
        chosen = _draw_groups(sizes[left], count, spare, rng) if count else left[:0]
        masks.append(np.isin(codes, left[chosen]))
        left = np.delete(left, chosen)
    return masks[0], masks[1]


def _draw_groups(sizes: np.ndarray, count: int, spare: int, rng: np.random.Generator) -> np.ndarray:
    """Draw groups that have about ``count`` rows, and of each class its share.

    ``sizes`` has the rows of each class in each group, and at least ``spare`` groups are not drawn.
    Of several draws, the one is kept that comes closest; many groups need a single one.
    """
    import numpy as np

    total = sizes.sum(axis=0)
    # In these units, a rare class counts as much as a frequent one.
    scaled = sizes / np.sqrt(np.maximum(total, 1))
    wanted = scaled.sum(axis=0) * count / total.sum()
    best, closest = np.array([sizes.sum(axis=1).argmin()]), np.inf
    for _ in range(max(1, min(MOST_DRAWS, MOST_GROUPS // len(sizes)))):
        order = rng.permutation(len(sizes))
        chosen, missing = _fill(scaled[order], wanted, len(sizes) - spare)
        distance = float(missing @ missing)
        if chosen and distance < closest:
            best, closest = order[chosen], distance
    return best


def _fill(groups: np.ndarray, wanted: np.ndarray, most: int) -> tuple[list[int], np.ndarray]:
    """Take each group that brings the sum closer to what is wanted; return them and what misses."""
    chosen: list[int] = []
    missing = wanted
    for position, group in enumerate(groups):
        if len(chosen) == most:
            break
        if group @ group < 2 * (group @ missing):
            chosen.append(position)
            missing = missing - group
    return chosen, missing


def _part(table: Table, mask: np.ndarray, scratch: ScratchFolder = IN_MEMORY) -> Table:
    """Return the rows that the mask selects."""
    return table.with_data(scratch.filter(table.data, mask))


def columns(
    inputs: Mapping[str, Columns | None], params: SplitParams
) -> Mapping[str, Columns | None]:
    """Return the columns of the parts, which are those of the table.

    Raise ``BadInput`` if the time or group column is not one of them.
    """
    known = inputs.get("table")
    if known is not None:
        target = next((column.name for column in known if column.role == "target"), None)
        _check_columns([column.name for column in known], target, params)
    return {"train": known, "validation": known, "test": known}


def python(params: SplitParams, names: Variables) -> Snippet:
    """Return the node as one statement of a Python script.

    Share and seed are written out even if they have their default values, because readers look for
    them.
    """
    parts = ("train", "validation", "test") if params.makes_validation else ("train", "test")
    shown = {"test_share": params.test_share, "seed": params.seed} | changed_params(params)
    if params.test_rows is not None:
        shown.pop("test_share", None)
    if params.time_column is not None:
        shown.pop("seed", None)
    variables = ", ".join(str(names.outputs[part]) for part in parts)
    return Snippet(
        statement(variables, "steps.split", names.inputs["table"], **shown),
        ["from nodes import steps"],
    )


NODE = NodeType(
    name="split",
    title="Split",
    category="Prepare",
    summary="Holds out validation and test rows: at random, in proportion to the classes, by "
    "group, or the latest rows.",
    version=2,
    params=SplitParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Table"),),
    outputs=(
        Port("train", "table", "Training rows"),
        Port("validation", "table", "Validation rows"),
        Port("test", "table", "Test rows"),
    ),
    output_columns=columns,
    imports=("numpy", "pyarrow"),
)
