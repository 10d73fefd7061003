"""Each paper's own setting, by name.

- ``PRESETS``  name → title, kind of cascade and its settings
- ``preset``   a cascade set up that way, to be fitted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .cascade import CascadeForestClassifier
from .classifier import CascadeClassifier
from .margin_forest import MarginForestClassifier
from .screening import ScreenedForestClassifier


@dataclass(frozen=True)
class Preset:
    """A named setting."""

    title: str
    kind: type[CascadeClassifier]
    settings: dict[str, Any]


def _forests(trees: int) -> list[dict[str, Any]]:
    kinds = ("random_forest", "completely_random_forest")
    return [{"kind": kind, "count": 2, "trees": trees} for kind in kinds]


def _marts(trees: int) -> dict[str, Any]:
    return {"learners": [{"kind": "mart", "count": 4, "trees": trees}], "combine": "mean", "metric": "auc"}


PRESETS: dict[str, Preset] = {
    "default": Preset("Best all-round choice", CascadeForestClassifier, {}),
    "gcforest": Preset(
        "gcForest (Zhou and Feng)",
        CascadeForestClassifier,
        {"learners": _forests(500), "combine": "mean", "metric": "accuracy"},
    ),
    "mart_cascade": Preset("MART cascade, gcForest-d (Zhang et al.)", CascadeForestClassifier, _marts(50)),
    "mart_cascade_tuned": Preset("MART cascade, gcForest-t (Zhang et al.)", CascadeForestClassifier, _marts(200)),
    "mddf": Preset("mdDF (Lyu, Yang and Zhou)", MarginForestClassifier, {"learners": _forests(100)}),
    "mddf_sf": Preset(
        "mdDF, same forests", MarginForestClassifier, {"learners": [{"kind": "random_forest", "count": 4}]}
    ),
    "mddf_st": Preset("mdDF, stacking", MarginForestClassifier, {"learners": _forests(100), "augment": "stack"}),
    "mddf_np": Preset("mdDF, no predictions", MarginForestClassifier, {"learners": _forests(100), "augment": "none"}),
    "gcforest_cs": Preset(
        "gcForest-CS, confidence screening (Pang et al.)", ScreenedForestClassifier, {"learners": _forests(100)}
    ),
}


def preset(name: str, **changes: Any) -> CascadeClassifier:
    """The cascade of that name, with ``changes`` to its settings.

    Names: default, gcforest, mart_cascade, mart_cascade_tuned, mddf, mddf_sf, mddf_st, mddf_np, gcforest_cs. What a
    paper leaves open is as the estimator has it; in mdDF the α of all layers are settled together.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; known are {', '.join(PRESETS)}")
    return PRESETS[name].kind(**{**PRESETS[name].settings, **changes})
