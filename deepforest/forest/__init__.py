"""Grow forests on binned features, as learners of a cascade and as estimators.

- ``binning``     features as one byte per value, shared by all learners
- ``kernels``     growing one tree, compiled
- ``forest``      growing a forest on a binned matrix, with the class vectors of held-out rows
- ``prediction``  passing rows down the trees, compiled
- ``estimators``  ``HistForestClassifier`` and ``HistForestRegressor``

Names are imported when they are first used, because the compiler of the kernels loads slowly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .binning import BinnedMatrix, Binner
    from .estimators import HistForestClassifier, HistForestRegressor
    from .forest import Forest, ForestSettings, GrownForest, grow_forest

__all__ = [
    "BinnedMatrix",
    "Binner",
    "Forest",
    "ForestSettings",
    "GrownForest",
    "HistForestClassifier",
    "HistForestRegressor",
    "grow_forest",
]

_HOME = {
    "BinnedMatrix": "binning",
    "Binner": "binning",
    "Forest": "forest",
    "ForestSettings": "forest",
    "GrownForest": "forest",
    "HistForestClassifier": "estimators",
    "HistForestRegressor": "estimators",
    "grow_forest": "forest",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
