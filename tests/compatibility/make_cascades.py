"""Save one small cascade of each kind, and what it predicts, as commit 3044d69 did.

    git worktree add /tmp/old 3044d69
    cp tests/compatibility/make_cascades.py /tmp/old/
    cd /tmp/old && python make_cascades.py cascades-3044d69.tar.xz

writes the archive beside this file, which ``test_old_cascades`` reads. The names of params in this
script are those of that commit.
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

FOREST = {"kind": "random_forest", "trees": 3, "min_rows": 2}
MART = {"kind": "mart", "trees": 2, "leaves": 4, "min_rows": 5, "row_share": 0.8}
WAY: dict[str, Any] = {"folds": 2, "max_layers": 2, "patience": 2, "random_state": 0}


def cascades() -> dict[str, Any]:
    """Return the cascades by name, not yet fitted."""
    return {
        "cascade": CascadeForestClassifier([FOREST, MART], metric="log_loss", **WAY),
        "out-of-bag": CascadeForestClassifier(
            [FOREST, MART], class_vectors="oob", tolerance=0.001, class_weight="balanced", **WAY
        ),
        "stack": CascadeForestClassifier([FOREST, FOREST], augment="stack", combine="mean", **WAY),
        "selector": CascadeForestClassifier([FOREST], selector=MartSelector(2), **WAY),
        "numbers": CascadeForestRegressor([FOREST, MART], metric="mae", **WAY),
        "mddf": MarginForestClassifier([FOREST, FOREST], **WAY),
        "screening": ScreenedForestClassifier([FOREST], error_share=0.5, **WAY),
    }


def save_all(folder: Path) -> None:
    """Fit and save each cascade; its predictions go into one file."""
    x, y = load_iris(return_X_y=True)
    expected = {}
    for name, model in cascades().items():
        model.fit(x[::2], y[::2])
        model.save(folder / name)
        classifies = hasattr(model, "predict_proba")
        expected[name] = model.predict_proba(x) if classifies else model.predict(x)
        expected[f"{name}: vectors"] = model.transform(x)
        expected[f"{name}: importances"] = model.feature_importances_
        expected[f"{name}: scores"] = np.array([record.score for record in model.layers_])
    np.savez(folder / "expected.npz", **expected)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        save_all(Path(scratch))
        with tarfile.open(sys.argv[1], "w:xz") as archive:
            for path in sorted(Path(scratch).iterdir()):
                archive.add(path, path.name)
    print(f"{sys.argv[1]}: {Path(sys.argv[1]).stat().st_size:,} bytes")
