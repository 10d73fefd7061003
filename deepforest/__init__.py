"""Provide deep forests as scikit-learn estimators.

    from deepforest import CascadeForestClassifier
    model = CascadeForestClassifier(random_state=0).fit(X, y)

The estimators
- ``CascadeForestClassifier``, ``CascadeForestRegressor``  gcForest and the MART cascade
  (``cascade``)
- ``MarginForestClassifier``     mdDF, the margin distribution deep forest (``margin_forest``)
- ``ScreenedForestClassifier``   gcForest-CS, confidence screening (``screening``)
- ``HistForestClassifier``, ``HistForestRegressor``  one forest alone (``forest``)
- ``MartSelector``               feature selection by boosted trees (``selection``)
- ``preset``                     the params of each paper by name (``presets``)

Their parts
- ``growing``     the fit, layer after layer; ``growth`` decides when to stop, ``record`` holds the
  records of layers
- ``layer``       one layer as a graph of ``jobs``: fits of the ``learners`` on ``features``
- ``fitted``      prediction and inspection of a fitted cascade; ``saving`` saves it in a folder
- ``inspection``  figures about the inside of a fitted cascade
- ``margins``, ``mixture``, ``metrics``  the arithmetic

Names are imported when they are first used, because the compiler and the libraries load slowly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._files import BrokenModel
    from ._fit_jobs import FitCancelled, FolderCheckpointer
    from .cascade import CascadeForestClassifier, CascadeForestRegressor
    from .forest import HistForestClassifier, HistForestRegressor
    from .margin_forest import MarginForestClassifier
    from .presets import preset
    from .records import LayerRecord
    from .screening import ScreenedForestClassifier
    from .selection import MartSelector

__all__ = [
    "BrokenModel",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "FitCancelled",
    "FolderCheckpointer",
    "HistForestClassifier",
    "HistForestRegressor",
    "LayerRecord",
    "MarginForestClassifier",
    "MartSelector",
    "ScreenedForestClassifier",
    "preset",
]

_HOME = {
    "BrokenModel": "_files",
    "CascadeForestClassifier": "cascade",
    "CascadeForestRegressor": "cascade",
    "FitCancelled": "_fit_jobs",
    "FolderCheckpointer": "_fit_jobs",
    "HistForestClassifier": "forest",
    "HistForestRegressor": "forest",
    "LayerRecord": "records",
    "MarginForestClassifier": "margin_forest",
    "MartSelector": "selection",
    "ScreenedForestClassifier": "screening",
    "preset": "presets",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
