"""Train a small neural network."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from engine.contract import Context, NodeParams, NodeType, Port
from nodes._training import ClassWeights, Seed, train


class Params(NodeParams):
    """Shape and training of the network."""

    layers: list[Annotated[int, Field(ge=1, le=10_000)]] = Field(
        [100],
        min_length=1,
        max_length=10,
        title="Layers",
        description="Units of each hidden layer, from input to output.",
    )
    alpha: float = Field(1e-4, ge=0, title="Penalty", description="How strongly large weights are held back.")
    learning_rate: float = Field(1e-3, gt=0, le=1, title="Learning rate", description="First step size of Adam.")
    epochs: int = Field(
        50,
        ge=1,
        le=100_000,
        title="Epochs",
        description="Most passes over the rows; training ends earlier once its loss has settled.",
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def run(ctx: Context, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Fit the network to the table's target."""
    from nodes._learners import Mlp

    learner = Mlp(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


NODE = NodeType(
    name="mlp",
    title="Neural network",
    category="Learn",
    summary="A multi-layer perceptron over standardised numbers and one-hot categories.",
    version=1,
    params=Params,
    run=run,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    imports=("numpy", "pyarrow.compute", "sklearn.neural_network", "threadpoolctl"),
)
