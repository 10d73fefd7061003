"""Provide deep forests as scikit-learn estimators.

    from deepforest import CascadeForestClassifier
    model = CascadeForestClassifier(random_state=0).fit(X, y)

The estimators
- ``CascadeForestClassifier``, ``CascadeForestRegressor``  gcForest and the MART cascade
  (``cascade``)
- ``MarginForestClassifier``     mdDF, the margin distribution deep forest (``margin_forest``)
- ``ScreenedForestClassifier``   gcForest-CS, confidence screening (``screening``)
- ``CompositeForestClassifier``  Random Composite Forests: an SVM in every leaf (``composite``)
- ``HistForestClassifier``, ``HistForestRegressor``  one forest alone (``forest``)
- ``MultiGrainedScanner``        class vectors of windows of sequences and images (``scanning``)
- ``MartSelector``               feature selection by boosted trees (``selection``)
- ``preset``                     the params of each paper by name (``presets``)
- ``permutation_importance``     how much a column matters for test rows (``importance``)

Their parts
- ``_base``           the base of all cascades: reads X and y, fits, predicts, looks inside
- ``_grow``           ``grow_cascade``, the loop of the papers, layer after layer
- ``_strategy``       what gcForest, mdDF and screening do differently in it; ``_trial`` tries
  settings, ``_calibration`` makes probabilities right
- ``_resampling``     which rows each fit sees; ``early_stopping`` decides when to stop
- ``_layer``          one layer: fits of the ``learners`` on ``_features``, as ``_fit_jobs``
- ``_cascade``        fitted cascades, and rows on their way through them
- ``_saving``         saves a model in a folder, in the format of ``persistence``
- ``records``, ``inspection``  figures about the layers of a fitted cascade
- ``contributions``   how much each column adds to a prediction, from function to function
- ``margins``, ``metrics``, ``arithmetic``  the arithmetic; ``bootstrap`` says how certain it is

Names are imported when they are first used, because the compiler and the libraries load slowly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._fit_files import run_fit
    from ._fit_jobs import FitCancelled, FitEvent, FolderCheckpointer
    from .cascade import CascadeForestClassifier, CascadeForestRegressor
    from .composite import CompositeForestClassifier
    from .forest import HistForestClassifier, HistForestRegressor
    from .importance import PermutationImportance, permutation_importance
    from .margin_forest import MarginForestClassifier
    from .persistence import BrokenModel
    from .presets import preset
    from .records import LayerRecord
    from .scanning import MultiGrainedScanner
    from .screening import ScreenedForestClassifier
    from .selection import MartSelector

__all__ = [
    "BrokenModel",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "CompositeForestClassifier",
    "FitCancelled",
    "FitEvent",
    "FolderCheckpointer",
    "HistForestClassifier",
    "HistForestRegressor",
    "LayerRecord",
    "MarginForestClassifier",
    "MartSelector",
    "MultiGrainedScanner",
    "PermutationImportance",
    "ScreenedForestClassifier",
    "permutation_importance",
    "preset",
    "run_fit",
]

_HOME = {
    "BrokenModel": "persistence",
    "CascadeForestClassifier": "cascade",
    "CascadeForestRegressor": "cascade",
    "CompositeForestClassifier": "composite",
    "FitCancelled": "_fit_jobs",
    "FitEvent": "_fit_jobs",
    "FolderCheckpointer": "_fit_jobs",
    "HistForestClassifier": "forest",
    "HistForestRegressor": "forest",
    "LayerRecord": "records",
    "MarginForestClassifier": "margin_forest",
    "MartSelector": "selection",
    "MultiGrainedScanner": "scanning",
    "PermutationImportance": "importance",
    "ScreenedForestClassifier": "screening",
    "permutation_importance": "importance",
    "preset": "presets",
    "run_fit": "_fit_files",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
