"""Check the columns that settings name: whether they exist, and whether they suit their role.

- ``proposed_target``         the column that is most likely the target
- ``require_column``          a setting names a column that exists
- ``check_learnable``         the ``output_columns`` rule of nodes that train: a target and features
- ``drop_missing_target``     the rows that have a class
- ``check_classes``           the target has classes to learn
- ``check_roles``             weights can weigh, times have an order, and a row has one group
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.node_types import Columns, Role
from engine.text import listed, suggest
from engine.values import kind_of

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
HOW_TO_TARGET = "set Target in the Load data node, and keep that column"
MAX_CLASSES = 1_000
FEW_CLASSES = 10
"""Up to this many classes, a class may have a single row."""


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


def drop_missing_target(data: pa.Table, target: str, missing_target: str) -> pa.Table:
    """Return the rows that have a class.

    Raise ``BadInput`` if some rows have none, unless ``missing_target`` is ``drop``.
    """
    labels = data.column(target)
    if not labels.null_count:
        return data
    if missing_target == "drop":
        return data.filter(labels.is_valid())
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
            "looks like a measurement or an id; choose a column with classes (at most "
            f"{MAX_CLASSES:,}, each in several rows)",
            field="target",
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
