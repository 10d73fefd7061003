"""Train a random forest.

``ForestParams``, ``fit_forest`` and ``forest_script`` also serve the node extra-trees.
"""

from __future__ import annotations

import threading
from itertools import count
from typing import Annotated, Any, Literal

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams, form_hint
from nodes.models.training import (
    ClassWeights,
    MinRows,
    Seed,
    TrainingRows,
    compile_kernels,
    fit_statement,
    training_node,
    training_script,
)


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
        title="Columns per split",
        description="How many columns, drawn at random, each split chooses from: a rule, or a "
        "share of all columns.",
        json_schema_extra=form_hint(folded=True),
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def fit_forest(ctx: NodeContext, rows: TrainingRows, forest: Any) -> None:
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
    forest.fit(rows.matrix, rows.codes, sample_weight=rows.weights, interrupt=report_tree)
    ctx.progress(1.0, f"{forest.n_estimators} trees")


def forest_script(params: ForestParams, names: Variables, **settings: Any) -> Snippet:
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
        return [
            *statement(forest, "HistForestClassifier", params.trees, **arguments),
            *fit_statement(forest, rows),
        ]

    return training_script(
        params, names, "forest", lines, ["from deepforest import HistForestClassifier"]
    )


NODE = training_node(
    "random-forest",
    summary="Many trees, each on its own random draw of the rows, with a random draw of columns at "
    "every split.",
    version=2,
    params=ForestParams,
    fit=fit_forest,
    python=forest_script,
    imports=("deepforest.forest.estimators",),
)
