"""Whether columns can be what the settings say they are: classes to learn, weights, times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine.errors import BadInput
from engine.node_types import Role
from engine.text import listed
from engine.values import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CLASSES = 1_000
FEW_CLASSES = 10
"""Up to this many classes, there may be as few rows of each as there are."""


def without_missing_target(data: pa.Table, target: str, missing_target: str) -> pa.Table:
    """The rows that have a label: all of them, or what is left when the others are to be dropped."""
    labels = data.column(target)
    if not labels.null_count or missing_target == "drop":
        return data.filter(labels.is_valid()) if labels.null_count else data
    raise BadInput(
        f"the target '{target}' is missing in {labels.null_count:,} of {len(labels):,} rows; "
        "set 'Rows without a target' to drop, or choose another target",
        field="missing_target",
    )


def check_classes(labels: pa.ChunkedArray, target: str) -> None:
    """Two classes or more, and not so many that the column must be something else."""
    rows, classes = len(labels), labels.combine_chunks().dictionary.to_pylist()
    if rows == 0:
        raise BadInput(f"the target '{target}' has no value in any row; choose another column", field="target")
    if len(classes) == 1:
        raise BadInput(
            f"the target '{target}' has only one class, '{classes[0]}'; there is nothing to tell apart. "
            "To score such a file, leave the target empty",
            field="target",
        )
    if len(classes) > MOST_CLASSES or (len(classes) > FEW_CLASSES and len(classes) > rows / 2):
        raise BadInput(
            f"the target '{target}' has {len(classes):,} different values in {rows:,} rows, "
            "which looks like a measurement or an id; "
            f"choose a column with classes (at most {MOST_CLASSES:,}, each in several rows)",
            field="target",
        )


def check_roles(data: pa.Table, roles: Mapping[str, Role]) -> None:
    """At most one weight, and it can weigh; times have an order."""
    import pyarrow.compute as pc

    weights = [name for name, role in roles.items() if role == "weight"]
    if len(weights) > 1:
        raise BadInput(f"there are several weight columns: {listed(weights)}; choose one", field="roles")
    for name, role in roles.items():
        column = data.column(name)
        kind = kind_of(column.type)
        if role == "time" and kind not in ("time", "number"):
            raise BadInput(f"'{name}' has the role time but is a {kind}; set its type to time or number", field="roles")
        if role == "weight" and kind != "number":
            raise BadInput(f"'{name}' has the role weight but is a {kind}; a weight is a number", field="roles")
        if role == "weight" and (column.null_count or pc.min(column).as_py() < 0):
            raise BadInput(f"weights in '{name}' are missing or below zero; correct them", field="roles")
