"""Fit one cascade of each kind in the papers' way, and store what it predicts.

    python -m tests.deepforest.stored_predictions

writes ``stored_predictions.npz``, which ``test_stored_predictions`` compares with the present code.
Run it only when predictions are meant to change.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.naive_bayes import GaussianNB

from deepforest import CascadeForestClassifier, CascadeForestRegressor, MartSelector, preset

STORED = Path(__file__).with_name("stored_predictions.npz")
FORESTS = [
    {"kind": "random_forest", "n_estimators": 12},
    {"kind": "extra_trees", "n_estimators": 12},
    {"kind": "completely_random_forest", "n_estimators": 12},
]
WITH_MART = [*FORESTS, {"kind": "mart", "n_estimators": 12}]
COMMON: dict[str, Any] = {
    "resampling": "per_layer",
    "cv": 3,
    "max_layers": 4,
    "n_jobs": 2,
    "random_state": 3,
}
# What mdDF had by default when its predictions were stored.
MARGINS: dict[str, Any] = {
    "gamma": 0.8,
    "mu": 0.05,
    "depth_step": 16,
    "patience": 2,
    **COMMON,
}
WEIGHTED: dict[str, Any] = {"combine": "weighted", **COMMON}


def cascades() -> dict[str, tuple[Any, str, dict[str, Any]]]:
    """Return the cascades by name, each with its data and the arguments of ``fit``."""
    two, ten = "cancer", "digits"
    return {
        "weighted": (CascadeForestClassifier(WITH_MART, **WEIGHTED), two, {}),
        "mean": (CascadeForestClassifier(FORESTS, combine="mean", **COMMON), ten, {}),
        "out of bag": (
            CascadeForestClassifier(WITH_MART, class_vectors="oob", **WEIGHTED),
            ten,
            {},
        ),
        "stack": (CascadeForestClassifier(FORESTS, augment="stack", **WEIGHTED), ten, {}),
        "log loss": (CascadeForestClassifier(FORESTS, scoring="log_loss", **WEIGHTED), ten, {}),
        "patient": (CascadeForestClassifier(WITH_MART, patience=2, **WEIGHTED), two, {}),
        "row weights": (CascadeForestClassifier(WITH_MART, **WEIGHTED), two, {"weights": True}),
        "balanced": (
            CascadeForestClassifier(WITH_MART, class_weight="balanced", **WEIGHTED),
            two,
            {"weights": True},
        ),
        "selector": (
            CascadeForestClassifier(
                FORESTS, selector=MartSelector(10, n_estimators=20), **WEIGHTED
            ),
            two,
            {},
        ),
        "validation": (CascadeForestClassifier(FORESTS, **WEIGHTED), ten, {"validation": True}),
        "scikit": (CascadeForestClassifier([GaussianNB()], **WEIGHTED), two, {}),
        "mddf": (preset("mddf", learners=FORESTS, **MARGINS), ten, {}),
        "mddf, one alpha": (
            preset("mddf", learners=FORESTS, joint_alphas=False, **MARGINS),
            two,
            {"weights": True},
        ),
        "mddf_st": (preset("mddf_st", learners=FORESTS, **MARGINS), ten, {}),
        "mddf_np": (preset("mddf_np", learners=FORESTS, **MARGINS), ten, {}),
        # With this limit layer 2 has the 31 trees that it had when the predictions were stored.
        "screening": (
            preset("gcforest_cs", learners=FORESTS, tree_growth=31 / 12 - 1, **COMMON),
            ten,
            {},
        ),
        "numbers": (CascadeForestRegressor(WITH_MART, **COMMON), "diabetes", {}),
        "blended numbers": (
            CascadeForestRegressor(WITH_MART, combine="weighted", **COMMON),
            "diabetes",
            {"weights": True},
        ),
    }


def predictions(name: str) -> dict[str, np.ndarray]:
    """Fit a cascade; return its predictions, out-of-fold outputs and scores."""
    cascade, data, options = cascades()[name]
    load = {"cancer": load_breast_cancer, "digits": load_digits, "diabetes": load_diabetes}[data]
    x, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order].astype(float), y[order]
    train, test = slice(0, 300), slice(300, 340)
    arguments: dict[str, Any] = {}
    if options.get("weights"):
        arguments["sample_weight"] = np.random.default_rng(1).integers(0, 4, 300).astype(float)
    if options.get("validation"):
        arguments["validation"] = (x[340:440], y[340:440])
    cascade.fit(x[train], y[train], **arguments)
    classifies = hasattr(cascade, "predict_proba")
    output = cascade.predict_proba(x[test]) if classifies else cascade.predict(x[test])
    records = cascade.layer_records_
    return {
        "output": output,
        "vectors": cascade.transform(x[test]),
        "importances": cascade.feature_importances_,
        "out_of_fold": cascade.oof_output_[:40],
        "scores": np.array([record.score for record in records]),
        "kept": np.array([record.kept for record in records]),
    }


if __name__ == "__main__":
    arrays = {}
    for each in cascades():
        for key, array in predictions(each).items():
            arrays[f"{each}: {key}"] = array
    np.savez_compressed(STORED, **arrays)
    print(f"{STORED.name}: {STORED.stat().st_size:,} bytes")
