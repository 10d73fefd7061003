"""Train extremely randomised trees: a forest whose trees split at random thresholds.

Parameters and training are those of the random forest. Only the splitter differs, and that every
tree sees all rows.
"""

from __future__ import annotations

from typing import Any

from engine.export_python import Snippet, Variables
from engine.node_types import NodeContext, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.training import train
from nodes.random_forest import ForestParams, fit_forest, forest_script


def run(ctx: NodeContext, inputs: dict[str, Any], params: ForestParams) -> dict[str, Any]:
    """Fit the forest to the table's target and return it as a model."""
    return {"model": train(ctx, inputs["table"], "extra-trees", params, fit_forest)}


def python(params: ForestParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script."""
    return forest_script(params, names, splitter="random", bootstrap=False)


NODE = NodeType(
    name="extra-trees",
    title="Extra trees",
    category="Train",
    summary="A forest whose trees split at random thresholds: faster than a random forest, and different from it.",
    version=2,
    params=ForestParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "deepforest.forest.estimators"),
)
