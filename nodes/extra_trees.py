"""Train extremely randomised trees."""

from __future__ import annotations

from typing import Any

from engine.export_python import Code, Names
from engine.node_types import NodeContext, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.forest_params import ForestParams, forest_python
from nodes.models.training import train


def run(ctx: NodeContext, inputs: dict[str, Any], params: ForestParams) -> dict[str, Any]:
    """Fit the forest to the table's target."""
    from nodes.models.learners import ExtraTrees

    learner = ExtraTrees(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


def python(params: ForestParams, names: Names) -> Code:
    """How the node reads in a script."""
    return forest_python(params, names, "ExtraTreesClassifier")


NODE = NodeType(
    name="extra-trees",
    title="Extra trees",
    category="Learn",
    summary="A forest whose trees split at random thresholds: quicker than a random forest, and different from it.",
    version=1,
    params=ForestParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "sklearn.ensemble"),
)
