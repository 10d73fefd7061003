"""Train a small neural network."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from engine.export_python import Code, Names, Raw, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.training import ClassWeights, Seed, fitting, train


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


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Fit the network to the table's target."""
    from nodes.models.learners import Mlp

    learner = Mlp(**params.model_dump(exclude={"class_weights"}))
    return {"model": train(ctx, inputs["table"], learner, params)}


def python(params: Params, names: Names) -> Code:
    """How the node reads in a script: epoch by epoch, until the loss has settled."""
    from nodes.models.learners.mlp import PATIENCE, TOLERANCE

    def lines(rows: Raw, network: Raw) -> list[str]:
        losses, chance = names.local("losses"), Raw(f"np.random.RandomState({params.seed})")
        shape = {"hidden_layer_sizes": tuple(params.layers), "alpha": params.alpha}
        classes, weights = Raw(f"range(len({rows}.classes))"), Raw(f"{rows}.weights")
        epoch = statement(
            "", f"{network}.partial_fit", Raw(f"{rows}.matrix"), Raw(f"{rows}.codes"), weights, classes=classes
        )
        return [
            *statement(network, "MLPClassifier", **shape, learning_rate_init=params.learning_rate, random_state=chance),
            f"{losses} = []",
            'with threadpool_limits(1, user_api="blas"):',
            f"    for _ in range({params.epochs}):",
            *(f"        {line}" for line in epoch),
            f"        {losses}.append({network}.loss_)",
            f"        if len({losses}) > {PATIENCE} and "
            f"min({losses}[-{PATIENCE}:]) > min({losses}[:-{PATIENCE}]) - {TOLERANCE}:",
            "            break",
        ]

    imports = [
        "import numpy as np",
        "from sklearn.neural_network import MLPClassifier",
        "from threadpoolctl import threadpool_limits",
    ]
    return fitting(params, names, "network", lines, imports, form="onehot", precision="float32")


NODE = NodeType(
    name="mlp",
    title="Neural network",
    category="Learn",
    summary="A multi-layer perceptron over standardised numbers and one-hot categories.",
    version=1,
    params=Params,
    run=run,
    python=python,
    inputs=(Port("table", "table", "Training rows"),),
    outputs=(Port("model", "model", "Model"),),
    columns=check_learnable,
    imports=("numpy", "pyarrow.compute", "sklearn.neural_network", "threadpoolctl"),
)
