"""Talking about columns: finding the one a setting names, and the words for it when it is not there.

- ``require_column``   the column that a setting names
- ``check_learnable``  whether a node that learns can do with the columns that will arrive: its ``columns`` rule
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from engine.errors import BadInput
from engine.node_types import Columns
from engine.text import listed, suggest

HOW_TO_TARGET = "set Target in the Load data node, and keep that column"


def require_column(name: str, names: Collection[str], *, field: str) -> None:
    """Raise ``BadInput``, with the nearest name there is, unless ``name`` is one of ``names``."""
    if name not in names:
        nearest = suggest(name, names, f"the columns are {listed(names)}")
        raise BadInput(f"there is no column '{name}'; {nearest}", field=field)


def check_learnable(inputs: Mapping[str, Columns | None], params: Any) -> dict[str, Columns | None]:
    """Raise ``BadInput`` if it is known that the table will have no target, or nothing to tell it by."""
    table = inputs.get("table")
    if table is not None:
        roles = {column.role for column in table}
        if "target" not in roles:
            raise BadInput(f"the table that arrives has no target to learn; {HOW_TO_TARGET}")
        if "feature" not in roles:
            raise BadInput(
                "the table that arrives has no column to learn from besides its target; "
                "load more columns, or give one of them the role feature in the Load data node"
            )
    return {}
