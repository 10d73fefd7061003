"""Train a random forest: Sylva's own, which bins the values of each column (``deepforest.forest``).

All of it but ``KIND`` and ``NODE`` also serves the node extra-trees.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from copy import copy
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from nodes.models.kinds import Encoding, ModelKind, load_array, save_array
from nodes.models.training import (
    FEATURES_PER_SPLIT,
    ClassWeights,
    MinRows,
    Seed,
    TrainingRows,
    compile_kernels,
    fit_statement,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from nodes.models.estimators import StoredForest


class ForestParams(NodeParams):
    """Choose size and shape of a forest."""

    trees: int = Field(100, ge=1, le=10_000, title="Trees", description="Number of trees.")
    max_depth: int | None = Field(
        None,
        ge=1,
        title="Depth",
        description="Maximum number of splits from the root to a leaf; empty: until leaves are "
        "pure.",
    )
    min_leaf: MinRows = Field(1, json_schema_extra=form_hint(folded=True))
    max_features: Literal["sqrt", "log2", "all"] | Annotated[float, Field(gt=0, le=1)] = Field(
        "sqrt",
        title="Features per split",
        description="How many features, drawn at random, each split chooses from.",
        json_schema_extra=form_hint(folded=True, words=FEATURES_PER_SPLIT),
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def build(params: ForestParams, **settings: Any) -> BaseEstimator:
    """Return an unfitted forest; ``settings`` say how it differs from a random forest."""
    from deepforest import HistForestClassifier

    return HistForestClassifier(**_arguments(params), **settings)


def build_regressor(params: ForestParams, **settings: Any) -> BaseEstimator:
    """Return an unfitted forest that predicts numbers, with the same parameters."""
    from deepforest import HistForestRegressor

    return HistForestRegressor(**_arguments(params), **settings)


def _arguments(params: ForestParams) -> dict[str, Any]:
    """Return the parameters with the names of the library."""
    return {
        "n_estimators": params.trees,
        "max_depth": params.max_depth,
        "min_samples_leaf": params.min_leaf,
        "max_features": None if params.max_features == "all" else params.max_features,
        "random_state": params.seed,
    }


def fit(ctx: NodeContext, rows: TrainingRows, forest: Any) -> None:
    """Grow the trees and report each of them; a cancel takes effect before the next tree.

    The kernels are compiled first, if this machine has not compiled them yet.
    """
    # Counting rows is faster than adding weights, so there are two compiled versions.
    is_weighted = rows.weights is not None
    compile_kernels(ctx, counts=not is_weighted, weights=is_weighted)
    numbers, lock = count(), threading.Lock()

    def report_tree() -> None:
        """Report that a tree is started; raise ``Cancelled`` if the run is cancelled."""
        # Several threads grow trees, and progress must not go backwards.
        with lock:
            started = next(numbers)
            ctx.progress(started / forest.n_estimators, f"{started} of {forest.n_estimators} trees")

    forest.set_params(categorical_features=rows.categorical, n_jobs=ctx.threads)
    forest.fit(rows.matrix, rows.y, sample_weight=rows.weights, interrupt=report_tree)
    ctx.progress(1.0, f"{forest.n_estimators} trees")


def python(params: ForestParams, names: Variables, **settings: Any) -> Snippet:
    """Return the node as lines of a Python script.

    ``settings`` are the arguments of the forest by which it differs from a random forest.
    """

    def lines(rows: Expression, forest: Expression) -> list[str]:
        """Return the lines that create and fit the forest."""
        arguments = {
            **settings,
            "max_depth": params.max_depth,
            "min_samples_leaf": params.min_leaf,
            # The library says None for all columns, as scikit-learn does.
            "max_features": None if params.max_features == "all" else params.max_features,
            "categorical_features": Expression(f"{rows}.categorical"),
            "random_state": params.seed,
            "n_jobs": -1,
        }
        kind = names.local("Forest")
        return [
            f"{kind} = HistForestClassifier if {rows}.classes else HistForestRegressor",
            *statement(forest, str(kind), params.trees, **arguments),
            *fit_statement(forest, rows),
        ]

    imports = ["from deepforest import HistForestClassifier, HistForestRegressor"]
    return training_script(params, names, "forest", lines, imports)


def save(forest: Any, folder: Path) -> dict[str, Any]:
    """Write the forest; one that version 1 saved keeps its form."""
    if hasattr(forest, "arrays"):
        for name, array in forest.arrays.items():
            save_array(folder, f"forest-{name}", array)
        return {"columns": forest.n_features, "classes": forest.n_classes}
    # The number of threads is not part of a model: the same training gives the same bytes.
    copy(forest).set_params(n_jobs=None).save(folder)
    return {} if hasattr(forest, "classes_") else {"task": "regression"}


def load(folder: Path, data: Mapping[str, Any]) -> BaseEstimator:
    """Read a forest of either version."""
    # Only version 1 saved the number of columns.
    if "columns" in data:
        return _load_stored_forest(folder, data)
    from deepforest import HistForestClassifier, HistForestRegressor

    if data.get("task") == "regression":
        return HistForestRegressor.load(folder)
    return HistForestClassifier.load(folder)


def _load_stored_forest(folder: Path, data: Mapping[str, Any]) -> StoredForest:
    """Read a forest that version 1 of the node saved."""
    import numpy as np

    from nodes.models.estimators import StoredForest

    arrays = {}
    for name, dtype in StoredForest.DTYPES.items():
        array = load_array(folder, f"forest-{name}", np.dtype(dtype).kind)
        arrays[name] = array.astype(dtype, copy=False)
    return StoredForest(arrays, data["columns"], data["classes"]).prepare()


KIND = ModelKind(
    name="random-forest",
    title="Random forest",
    encoding=Encoding("codes", "float64"),
    build=build,
    save=save,
    load=load,
    estimators=("HistForestClassifier", "HistForestRegressor"),
    estimator_params={"splitter": "best"},
    build_regressor=build_regressor,
)
NODE = training_node(
    KIND,
    summary="Sylva's own histogram forest: many trees, each on its own random draw of the rows, "
    "with a random draw of columns at every split.",
    version=2,
    params=ForestParams,
    fit=fit,
    python=python,
    imports=("deepforest.forest.estimators",),
)
