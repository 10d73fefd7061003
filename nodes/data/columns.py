"""Check the columns that settings name: whether they exist, and whether they suit their role.

- ``proposed_target``         the column that is most likely the target
- ``require_column``          a setting names a column that exists
- ``check_learnable``         the ``output_columns`` rule of nodes that train: a target and features
- ``drop_missing_target``     the rows that have a class
- ``check_classes``           the target has classes to learn
- ``Task``, ``task_of``       whether the target is a class or a number
- ``proposed_task``           which of them the values of a column look like
- ``check_numbers``           the target has numbers to learn
- ``check_roles``             weights can weigh, times have an order, and a row has one group
- ``with_single_roles``       columns of several tables, with one target at most
- ``table_with_roles``        a table whose columns have these roles
- ``require_rows``            a node has not dropped every row
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from engine.errors import BadInput
from engine.node_types import Column, Columns, Kind, Role
from engine.scratch import IN_MEMORY, ScratchFolder
from engine.text import counted, listed, suggest
from engine.values import Table, kind_of

if TYPE_CHECKING:
    import pyarrow as pa

KIND_TITLES = {
    "number": "number",
    "category": "category",
    "bool": "yes or no",
    "time": "date or time",
    "text": "text",
}
"""How the types of columns are shown."""
Task = Literal["classification", "regression"]
"""Whether a class or a number is predicted. In a table, the kind of the target says which: a target
that is a number is predicted as a number."""
TASK_TITLES = {
    "classification": "a class: classification",
    "regression": "a number: regression",
}
HOW_TO_TARGET = "set Target in the Load data node, and keep that column"
MAX_CLASSES = 1_000
FEW_CLASSES = 10
"""Up to this many classes, a class may have a single row."""
MANY_NUMBERS = 20
"""From so many different numbers on, a column looks like a quantity."""
LARGEST = 1e30
"""Largest number that a regression can learn; its inverse is the smallest difference."""


TARGET_NAMES = ("target", "label", "class", "y")


def proposed_target(names: Iterable[str]) -> str | None:
    """Return the first column that is named like a target, in any case, or None."""
    return next((name for name in names if name.strip().lower() in TARGET_NAMES), None)


def require_column(name: str, names: Collection[str], *, field: str) -> None:
    """Raise ``BadInput`` unless ``name`` is one of ``names``.

    The message suggests the most similar name; ``field`` is the setting that holds the name.
    """
    if name not in names:
        nearest = suggest(name, names, f"the columns are {listed(names)}")
        raise BadInput(f"the column '{name}' does not exist; {nearest}", field=field)


def check_learnable(inputs: Mapping[str, Columns | None], params: Any) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the input table will have no target or no feature.

    All nodes that train use it as their ``output_columns`` rule. They have no table as output, so
    it returns no columns.
    """
    table = inputs.get("table")
    if table is not None:
        roles = {column.role for column in table}
        if "target" not in roles:
            raise BadInput(f"the input table has no target; {HOW_TO_TARGET}")
        if "feature" not in roles:
            raise BadInput(
                "the input table has no feature, only a target; load more columns, or give one of "
                "them the role feature in the Load data node"
            )
    return {}


def drop_missing_target(
    data: pa.Table, target: str, missing_target: str, scratch: ScratchFolder = IN_MEMORY
) -> pa.Table:
    """Return the rows that have a class.

    Raise ``BadInput`` if some rows have none, unless ``missing_target`` is ``drop``.
    """
    labels = data.column(target)
    if not labels.null_count:
        return data
    if missing_target == "drop":
        return scratch.filter(data, labels.is_valid().to_numpy())
    raise BadInput(
        f"the target '{target}' is missing in {labels.null_count:,} of {len(labels):,} rows; "
        "set 'Rows without a target' to drop, or choose another target",
        field="missing_target",
    )


def check_classes(labels: pa.ChunkedArray, target: str) -> None:
    """Raise ``BadInput`` unless the target has two classes or more, and looks like classes.

    A target with very many values, or with mostly different ones, is a measurement or an id.
    """
    rows, classes = len(labels), labels.combine_chunks().dictionary.to_pylist()
    if rows == 0:
        raise BadInput(
            f"the target '{target}' has no value in any row; choose another column", field="target"
        )
    if len(classes) == 1:
        raise BadInput(
            f"the target '{target}' has a single class, '{classes[0]}'; a classifier needs at "
            "least two. To use the file only for predictions, leave Target empty",
            field="target",
        )
    if len(classes) > MAX_CLASSES or (len(classes) > FEW_CLASSES and len(classes) > rows / 2):
        raise BadInput(
            f"the target '{target}' has {len(classes):,} different values in {rows:,} rows, which "
            f"looks like a measurement or an id; a column of classes has at most {MAX_CLASSES:,}, "
            "each in several rows. Set 'Predict the target as' to a number, or choose another "
            "column",
            field="target",
        )


def task_of(columns: Columns) -> Task | None:
    """Return what a model of these columns predicts; None if they have no target."""
    target = next((column for column in columns if column.role == "target"), None)
    if target is None:
        return None
    return "regression" if target.kind == "number" else "classification"


def kind_of_target(column: Column, task: Task) -> Kind:
    """Return the kind that a column gets as the target of a task.

    Raise ``BadInput`` if it does not hold numbers, and a number is to be predicted.
    """
    if task == "classification":
        return "category"
    if column.kind != "number":
        raise BadInput(
            f"'{column.name}' is a {column.kind} and cannot be predicted as a number; choose "
            "another target, or set 'Predict the target as' to a class",
            field="task",
        )
    return "number"


def proposed_task(values: pa.ChunkedArray) -> Task:
    """Return the task that the values of a target look like.

    Numbers with a fraction, or many different whole numbers, look like a quantity. Texts and few
    whole numbers look like classes.
    """
    import pyarrow.compute as pc

    if kind_of(values.type) != "number":
        return "classification"
    different = pc.count_distinct(values, mode="only_valid").as_py()
    if different > MANY_NUMBERS:
        return "regression"
    # 0.5 and 1.5 may be sizes of shoes or other classes, if there are few of them.
    known = values.drop_null()
    is_whole = pc.all(pc.equal(pc.floor(known), known)).as_py()
    return "regression" if different > 2 and not is_whole else "classification"


def check_numbers(values: pa.ChunkedArray, target: str, *, field: str | None = "target") -> None:
    """Raise ``BadInput`` unless the target has finite numbers that are not all the same."""
    import pyarrow.compute as pc

    known = values.drop_null().cast("float64", safe=False)
    known = known.filter(pc.invert(pc.is_nan(known)))
    if not len(known):
        raise BadInput(
            f"the target '{target}' has no value in any row; choose another column", field=field
        )
    infinite = pc.sum(pc.is_inf(known)).as_py()
    if infinite:
        raise BadInput(
            f"the target '{target}' is infinite in {counted(infinite, 'row')}; leave them out, or "
            "correct their values",
            field=field,
        )
    least, greatest = pc.min_max(known).as_py().values()
    if least == greatest:
        raise BadInput(
            f"the target '{target}' is {least:g} in all rows; a regression needs different numbers",
            field=field,
        )
    # Learners compute with squares, and some with 32-bit floats.
    if max(-least, greatest) > LARGEST or greatest - least < 1 / LARGEST:
        raise BadInput(
            f"the target '{target}' lies between {least:g} and {greatest:g}; a regression needs "
            f"numbers up to {LARGEST:g} that differ by at least {1 / LARGEST:g}, so choose another "
            "unit",
            field=field,
        )


def check_roles(data: pa.Table, roles: Mapping[str, Role]) -> None:
    """Raise ``BadInput`` if a column cannot have its role.

    A table has at most one weight and one group.
    """
    import pyarrow.compute as pc

    for single in ("weight", "group"):
        names = [name for name, role in roles.items() if role == single]
        if len(names) > 1:
            raise BadInput(
                f"there are several {single} columns: {listed(names)}; give only one the role "
                f"{single}",
                field="roles",
            )
    for name, role in roles.items():
        column = data.column(name)
        kind = kind_of(column.type)
        if role == "time" and kind not in ("time", "number"):
            raise BadInput(
                f"'{name}' has the role time but is a {kind}; set its type to time or number",
                field="roles",
            )
        if role == "weight" and kind != "number":
            raise BadInput(
                f"'{name}' has the role weight but is a {kind}; set its type to number",
                field="roles",
            )
        if role == "weight" and (column.null_count or pc.min(column).as_py() < 0):
            raise BadInput(
                f"some weights in '{name}' are missing or below zero; correct them in the file",
                field="roles",
            )


# Columns of several tables


SINGLE_ROLES = ("target", "weight", "group")
"""Roles that only one column of a table can have."""


def with_single_roles(columns: Iterable[Column]) -> Columns:
    """Return columns of which one at most is the target, the weight or the group.

    The first keeps its role. Another one is ignored: as a feature, a second target could give the
    first one away.
    """
    taken: set[Role] = set()
    kept = []
    for column in columns:
        if column.role in taken:
            column = replace(column, role="ignore")
        if column.role in SINGLE_ROLES:
            taken.add(column.role)
        kept.append(column)
    return tuple(kept)


def table_with_roles(data: pa.Table, columns: Columns) -> Table:
    """Return a table whose columns have these roles."""
    target = next((column.name for column in columns if column.role == "target"), None)
    others = [column for column in columns if column.role not in ("target", "feature")]
    return Table(data, target, {column.name: column.role for column in others})


def require_rows(data: pa.Table, problem: str, *, field: str | None = None) -> None:
    """Raise ``BadInput`` with the problem if a table has no rows."""
    if data.num_rows == 0:
        raise BadInput(problem, field=field)
