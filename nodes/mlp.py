"""Train a small neural network: a multi-layer perceptron of scikit-learn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from engine.export_python import Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams
from nodes.models.training import (
    ClassWeights,
    Seed,
    TrainingRows,
    one_blas_thread,
    training_node,
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
        description="Maximum number of passes over the rows; training stops earlier when the loss "
        "no longer decreases.",
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


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
    """Return whether the last ``PATIENCE`` epochs gained less than ``TOLERANCE`` together."""
    if len(losses) <= PATIENCE:
        return False
    return min(losses[-PATIENCE:]) > min(losses[:-PATIENCE]) - TOLERANCE


def python(params: Params, names: Variables) -> Snippet:
    """Return the node as lines of a Python script, with the same rule for the last epoch."""

    def lines(rows: Expression, network: Expression) -> list[str]:
        """Return the lines that create the network and train it epoch by epoch."""
        # One generator for all epochs: a number would shuffle every epoch the same way.
        generator = Expression(f"np.random.RandomState({params.seed})")
        settings = {
            "hidden_layer_sizes": tuple(params.layers),
            "alpha": params.alpha,
            "learning_rate_init": params.learning_rate,
            "random_state": generator,
        }
        data = [Expression(f"{rows}.{name}") for name in ("matrix", "codes", "weights")]
        classes = Expression(f"range(len({rows}.classes))")
        epoch = statement("", f"{network}.partial_fit", *data, classes=classes)
        losses = names.local("losses")
        return [
            *statement(network, "MLPClassifier", **settings),
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


NODE = training_node(
    "mlp",
    summary="A multi-layer perceptron over standardised numbers and one-hot categories.",
    version=1,
    params=Params,
    fit=fit,
    python=python,
    imports=("sklearn.neural_network", "threadpoolctl"),
)
