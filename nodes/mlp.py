"""Train a small neural network: a multi-layer perceptron of scikit-learn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams, NodeType, Port
from nodes.data.columns import check_learnable
from nodes.models.training import (
    ClassWeights,
    Seed,
    TrainingRows,
    one_blas_thread,
    train,
    training_script,
)

PATIENCE, TOLERANCE = 10, 1e-4
"""Training ends after this many epochs in which the loss fell by less than the tolerance."""


class Params(NodeParams):
    """Choose the shape of the network and how it is trained."""

    layers: list[Annotated[int, Field(ge=1, le=10_000)]] = Field(
        [100],
        min_length=1,
        max_length=10,
        title="Layers",
        description="Units of each hidden layer, from input to output.",
    )
    alpha: float = Field(
        1e-4, ge=0, title="Penalty", description="Strength of the penalty on large weights."
    )
    learning_rate: float = Field(
        1e-3, gt=0, le=1, title="Learning rate", description="Initial learning rate of Adam."
    )
    epochs: int = Field(
        50,
        ge=1,
        le=100_000,
        title="Epochs",
        description="Maximum number of passes over the rows; training stops earlier when the loss no longer decreases.",
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def run(ctx: NodeContext, inputs: dict[str, Any], params: Params) -> dict[str, Any]:
    """Fit the network to the table's target and return it as a model."""
    return {"model": train(ctx, inputs["table"], "mlp", params, fit)}


def fit(ctx: NodeContext, rows: TrainingRows, network: Any) -> None:
    """Train the network epoch by epoch, until the training loss has settled.

    ``max_iter`` of the network limits the epochs. ``partial_fit`` is used because ``fit`` can
    neither report progress nor be cancelled.
    """
    losses: list[float] = []
    with one_blas_thread():
        for epoch in range(network.max_iter):
            ctx.progress(epoch / network.max_iter, f"epoch {epoch + 1} of {network.max_iter}")
            network.partial_fit(
                rows.matrix, rows.codes, rows.weights, classes=range(len(rows.classes))
            )
            losses.append(float(network.loss_))
            if _has_settled(losses):
                break
    ctx.progress(1.0, f"{len(losses)} epochs")
    ctx.log(f"{len(losses)} epochs, training loss {losses[-1]:.6g}.")


def _has_settled(losses: list[float]) -> bool:
    """Return whether none of the last ``PATIENCE`` epochs beat the best one before by
    ``TOLERANCE``.
    """
    if len(losses) <= PATIENCE:
        return False
    return min(losses[-PATIENCE:]) > min(losses[:-PATIENCE]) - TOLERANCE


def python(params: Params, names: Variables) -> Snippet:
    """Return the node as lines of a Python script, with the same rule for the last epoch."""

    def lines(rows: Expression, network: Expression) -> list[str]:
        """Return the lines that create the network and train it epoch by epoch."""
        # One generator for all epochs: a number would shuffle every epoch the same way.
        losses, chance = names.local("losses"), Expression(f"np.random.RandomState({params.seed})")
        shape = {"hidden_layer_sizes": tuple(params.layers), "alpha": params.alpha}
        classes, weights = Expression(f"range(len({rows}.classes))"), Expression(f"{rows}.weights")
        epoch = statement(
            "",
            f"{network}.partial_fit",
            Expression(f"{rows}.matrix"),
            Expression(f"{rows}.codes"),
            weights,
            classes=classes,
        )
        return [
            *statement(
                network,
                "MLPClassifier",
                **shape,
                learning_rate_init=params.learning_rate,
                random_state=chance,
            ),
            f"{losses} = []",
            'with threadpool_limits(1, user_api="blas"):',
            f"    for _ in range({params.epochs}):",
            *(f"        {line}" for line in epoch),
            f"        {losses}.append({network}.loss_)",
            f"        if len({losses}) > {PATIENCE} and min({losses}[-{PATIENCE}:]) > "
            f"min({losses}[:-{PATIENCE}]) - {TOLERANCE}:",
            "            break",
        ]

    imports = [
        "import numpy as np",
        "from sklearn.neural_network import MLPClassifier",
        "from threadpoolctl import threadpool_limits",
    ]
    return training_script(
        params, names, "network", lines, imports, form="onehot", precision="float32"
    )


NODE = NodeType(
    name="mlp",
    title="Neural network",
    category="Train",
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
