"""Talking about columns: finding the one a setting names, and the words for it when it is not there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from engine.errors import BadInput


def require_column(name: str, names: Collection[str], *, field: str) -> None:
    """Raise ``BadInput``, with the nearest name there is, unless ``name`` is one of ``names``."""
    if name not in names:
        raise BadInput(f"there is no column '{name}'; {_did_you_mean(name, names)}", field=field)


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
