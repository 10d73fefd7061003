"""Train a random forest."""

from __future__ import annotations

from typing import Any

from engine.export_python import Code, Names
from engine.node_types import NodeContext, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.forest_params import ForestParams, forest_python
from nodes.models.training import train


def run(ctx: NodeContext, inputs: dict[str, Any], params: ForestParams) -> dict[str, Any]:
    """Fit the forest to the table's target."""
    from nodes.models.learners import RandomForest

    learner = RandomForest(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


def python(params: ForestParams, names: Names) -> Code:
    """How the node reads in a script."""
    return forest_python(params, names, "RandomForestClassifier")


NODE = NodeType(
    name="random-forest",
    title="Random forest",
    category="Learn",
    summary="Many trees, each on its own draw of the rows, with a draw of the columns at every split; robust.",
    version=1,
    params=ForestParams,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "sklearn.ensemble"),
)
