"""Talking about columns: finding the one a setting names, and the words for it when it is not there.

- ``require_column``   the column that a setting names
- ``check_learnable``  whether a node that learns can do with the columns that will arrive: its ``columns`` rule
- ``listed``           names in quotes
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from engine.errors import BadInput
from engine.node_types import Columns

HOW_TO_TARGET = "set Target in the Load data node, and keep that column"


def require_column(name: str, names: Collection[str], *, field: str) -> None:
    """Raise ``BadInput``, with the nearest name there is, unless ``name`` is one of ``names``."""
    if name not in names:
        raise BadInput(f"there is no column '{name}'; {_did_you_mean(name, names)}", field=field)


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


def listed(names: Iterable[object], most: int = 5) -> str:
    """Names in quotes, the first few of them: ``'a', 'b' and 7 more``."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) <= most:
        return ", ".join(quoted)
    return f"{', '.join(quoted[:most])} and {len(quoted) - most:,} more"


def _did_you_mean(name: str, names: Collection[str]) -> str:
    by_lower_case = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"did you mean '{by_lower_case[near[0]]}'?" if near else f"the columns are {listed(names)}"
