"""Fixtures of the tests of deep forests."""

from __future__ import annotations

from typing import Any

import pytest

from deepforest import _base
from deepforest._grow import Grown


@pytest.fixture
def growths(monkeypatch: pytest.MonkeyPatch) -> list[Grown]:
    """Return a list that gets what each fit has grown; a model keeps its final cascade only."""
    results: list[Grown] = []
    grow_cascade = _base.grow_cascade

    def remember(*args: Any) -> Grown:
        results.append(grow_cascade(*args))
        return results[-1]

    monkeypatch.setattr(_base, "grow_cascade", remember)
    return results
