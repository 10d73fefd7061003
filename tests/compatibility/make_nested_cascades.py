"""Save small models of several cascades, and what they predict, as commit 4d8fc0e did.

Until that commit the model of nested folds was the mean of the cascades that are blind to a fold.

    git worktree add /tmp/old 4d8fc0e
    cp tests/compatibility/make_nested_cascades.py /tmp/old/
    cd /tmp/old && python make_nested_cascades.py nested-4d8fc0e.tar.xz

writes the archive beside this file, which ``test_old_cascades`` reads.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
)
from deepforest.early_stopping import EarlyStopping

FOREST = {"kind": "random_forest", "n_estimators": 3, "min_samples_leaf": 2}
MART = {"kind": "mart", "n_estimators": 2, "num_leaves": 4, "min_samples_leaf": 5}
SETTINGS: dict[str, Any] = {"cv": 3, "max_layers": 2, "random_state": 0}


def cascades() -> dict[str, Any]:
    """Return the models by name, not yet fitted."""
    return {
        "cascade": CascadeForestClassifier([FOREST, MART], **SETTINGS),
        "stack": CascadeForestClassifier([FOREST, FOREST], augment="stack", **SETTINGS),
        "selector": CascadeForestClassifier([FOREST], selector=MartSelector(2), **SETTINGS),
        "numbers": CascadeForestRegressor([FOREST, MART], **SETTINGS),
        "mddf": MarginForestClassifier([FOREST, FOREST], depth_step=8, **SETTINGS),
        "screening": ScreenedForestClassifier([FOREST], error_share=0.5, **SETTINGS),
    }


def save_all(folder: Path) -> None:
    """Fit and save each model; the predictions of all go into one file."""
    EarlyStopping._is_proven = lambda *_: True  # type: ignore[method-assign]  # keeps all layers
    x, y = load_iris(return_X_y=True)
    expected = {}
    for name, model in cascades().items():
        model.fit(x, y)
        assert (len(model.cascades_), model.n_layers_) == (3, 2), name
        model.save(folder / name)
        classifies = hasattr(model, "predict_proba")
        expected[name] = model.predict_proba(x) if classifies else model.predict(x)
        expected[f"{name}: vectors"] = model.transform(x)
        expected[f"{name}: importances"] = model.feature_importances_
        expected[f"{name}: scores"] = np.array([record.score for record in model.layer_records_])
    np.savez(folder / "expected.npz", **expected)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        save_all(Path(scratch))
        with tarfile.open(sys.argv[1], "w:xz") as archive:
            for path in sorted(Path(scratch).iterdir()):
                archive.add(path, path.name)
    print(f"{sys.argv[1]}: {Path(sys.argv[1]).stat().st_size:,} bytes")
