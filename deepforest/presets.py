"""Define the params of each paper, by name.

- ``PRESETS``  name → title, description, kind of cascade and its params
- ``preset``   a cascade with these params, not yet fitted
- ``regression_preset``  the same for numbers, where the paper's method has a meaning for them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._base import BaseCascadeClassifier
from .cascade import MART_CLASSES, CascadeForestClassifier, CascadeForestRegressor
from .margin_forest import MarginForestClassifier
from .screening import ScreenedForestClassifier


@dataclass(frozen=True)
class Preset:
    """Hold the title, description, params and paper of one preset."""

    title: str
    description: str
    kind: type[BaseCascadeClassifier]
    params: dict[str, Any]
    paper: str = ""


def _forests(n_estimators: int, count: int = 2) -> list[dict[str, Any]]:
    kinds = ("random_forest", "completely_random_forest")
    return [{"kind": kind, "count": count, "n_estimators": n_estimators} for kind in kinds]


# Section 2.2 of Zhang et al.: MARTs of a layer differ in rows, trees and depth. On adult, bank and
# mammography (4 to 14 seeds) these had an AUC that is higher by 0.0004 to 0.0009 than four equal
# ones with as many trees together.
_MART_KINDS = ((0.8, 4, 0.6), (0.9, 6, 0.7), (1.1, 8, 0.8), (1.2, None, 0.9))


def _marts(n_estimators: int) -> dict[str, Any]:
    """Return four MARTs that differ in the number of trees, their depth and the share of rows."""
    learners = []
    for share_of_trees, depth, subsample in _MART_KINDS:
        n_trees = round(n_estimators * share_of_trees)
        mart = {"kind": "mart", "n_estimators": n_trees, "max_depth": depth, "subsample": subsample}
        learners.append(mart)
    return {"learners": learners, "combine": "mean", "scoring": "auc"}


# The paper of mdDF chooses them for each data set.
_CHOSEN = {"gamma": "auto", "mu": "auto", "depth_step": "auto"}
_GCFOREST = "Zhou and Feng, Deep Forest: Towards an Alternative to Deep Neural Networks, IJCAI 2017"
_DISTRIBUTED = (
    "Zhang et al., Distributed Deep Forest and its Application to Automatic Detection of Cash-out "
    "Fraud, ACM TIST 2019"
)
_MARGIN = (
    "Lyu, Yang and Zhou, A Refined Margin Distribution Analysis for Forest Representation "
    "Learning, NeurIPS 2019"
)
_SCREENING = "Pang, Ting, Zhao and Zhou, Improving Deep Forest by Confidence Screening, ICDM 2018"
_BEST = "best average accuracy on our benchmarks"
PRESETS: dict[str, Preset] = {
    "default": Preset(
        "Best all-round choice",
        f"Three kinds of forests and MART up to {MART_CLASSES} classes, extra-trees with more: "
        f"{_BEST}.",
        CascadeForestClassifier,
        {},
    ),
    "gcforest": Preset(
        "gcForest (Zhou and Feng)",
        "The first deep forest: random and completely random forests of 500 trees, averaged.",
        CascadeForestClassifier,
        {"learners": _forests(500), "combine": "mean", "scoring": "accuracy"},
        _GCFOREST,
    ),
    "mart_cascade": Preset(
        "MART cascade, gcForest-d (Zhang et al.)",
        "Four different MARTs of 40 to 60 trees per layer; AUC decides when growth stops. Used at "
        "Ant Financial.",
        CascadeForestClassifier,
        _marts(50),
        _DISTRIBUTED,
    ),
    "mart_cascade_tuned": Preset(
        "MART cascade, gcForest-t (Zhang et al.)",
        "Four different MARTs of 160 to 240 trees per layer; AUC decides when growth stops.",
        CascadeForestClassifier,
        _marts(200),
        _DISTRIBUTED,
    ),
    "mddf": Preset(
        "mdDF (Lyu, Yang and Zhou)",
        "Layers are weighted and added up so that the margins of all rows approach a target γ.",
        MarginForestClassifier,
        {"learners": _forests(100), **_CHOSEN},
        _MARGIN,
    ),
    "mddf_sf": Preset(
        "mdDF, same forests",
        "mdDF with four random forests of the same kind.",
        MarginForestClassifier,
        {"learners": [{"kind": "random_forest", "count": 4}], **_CHOSEN},
        _MARGIN,
    ),
    "mddf_st": Preset(
        "mdDF, stacking",
        "mdDF in which a layer sees only the predictions of the layers before, not the columns.",
        MarginForestClassifier,
        {"learners": _forests(100), "augment": "stack", **_CHOSEN},
        _MARGIN,
    ),
    "mddf_np": Preset(
        "mdDF, no predictions",
        "mdDF in which a layer sees only the columns, not the predictions of the layers before.",
        MarginForestClassifier,
        {"learners": _forests(100), "augment": "none", **_CHOSEN},
        _MARGIN,
    ),
    "gcforest_cs": Preset(
        "gcForest-CS, confidence screening (Pang et al.)",
        "Rows predicted with confidence leave early: one random and one completely random forest, "
        "of 100 trees in the first layer and up to half as many more on the fewer rows that stay.",
        ScreenedForestClassifier,
        # Section V of the paper, without scanning: v = 1, three folds, w from 20, 50 and 100.
        {"learners": _forests(100, count=1), "cv": 3},
        _SCREENING,
    ),
    "gcforest_cs_scan": Preset(
        "gcForest-CS with scanning (Pang et al.)",
        "For sequences and images: every layer scans the rows that are left with new windows and "
        "sees the last three scans; four random and four completely random forests.",
        ScreenedForestClassifier,
        # Section V of the paper, with scanning: v = 4, three folds, w = 100; windows of d/16.
        {"learners": _forests(100, count=4), "cv": 3},
        _SCREENING,
    ),
}
SCANNING_PRESET = "gcforest_cs_scan"
_PAPERS_SCAN = {"windows": "fine", "sample": 0.1}
"""One window size, d/16, of which a tenth of the positions is drawn."""


def preset(name: str, **changes: Any) -> BaseCascadeClassifier:
    """Return the cascade of that name, with ``changes`` to its params.

    Names: default, gcforest, mart_cascade, mart_cascade_tuned, mddf, mddf_sf, mddf_st, mddf_np,
    gcforest_cs, gcforest_cs_scan. ``shape`` lets a preset scan rows of that shape; it is short for
    ``scan={"shape": shape}``, with the paper's windows in gcforest_cs_scan. What a paper leaves
    open has the estimator's default; in mdDF the weights α of all layers are computed together, and
    γ, μ and the depth step are chosen on blind rows. Raise ``ValueError`` for an unknown name, and
    for gcforest_cs_scan without a shape.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; use one of {', '.join(PRESETS)}")
    shape = changes.pop("shape", None)
    if shape is not None:
        scan = _PAPERS_SCAN if name == SCANNING_PRESET else {}
        changes.setdefault("scan", {"shape": shape, **scan})
    if name == SCANNING_PRESET and changes.get("scan") is None:
        raise ValueError(f"the preset {name!r} scans; give the shape of a row, such as (28, 28)")
    return PRESETS[name].kind(**{**PRESETS[name].params, **changes})


def regression_preset(name: str, **changes: Any) -> CascadeForestRegressor:
    """Return the cascade of that name for numbers, with ``changes`` to its params.

    RMSE decides when growth stops. Raise ``ValueError`` for an unknown name, and for mdDF and
    confidence screening: margins and confidence are defined for classes only.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; use one of {', '.join(PRESETS)}")
    chosen = PRESETS[name]
    if chosen.kind is not CascadeForestClassifier:
        known = [each for each in PRESETS if PRESETS[each].kind is CascadeForestClassifier]
        raise ValueError(f"the preset {name!r} is for classes; use one of {', '.join(known)}")
    params = {key: value for key, value in chosen.params.items() if key != "scoring"}
    return CascadeForestRegressor(**{**params, **changes})
