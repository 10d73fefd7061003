"""Train a small neural network: a multi-layer perceptron of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from engine.export_python import INDENT, Expression, Snippet, Variables, statement
from engine.node_types import NodeContext, NodeParams
from nodes.models.kinds import Encoding, ModelKind, load_array, save_array
from nodes.models.training import (
    ClassWeights,
    Seed,
    TrainingRows,
    one_blas_thread,
    training_node,
    training_script,
)

if TYPE_CHECKING:
    from nodes.models.estimators import RowwiseMLPClassifier

PATIENCE, TOLERANCE = 10, 1e-4
"""Training ends after this many epochs in which the loss fell by less than the tolerance."""


class MlpParams(NodeParams):
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
        "no longer decreases. With validation rows, it is the loss on these that counts, and the "
        "network of the best pass is kept.",
    )
    seed: Seed = 0
    class_weights: ClassWeights = "none"


def build(params: MlpParams) -> RowwiseMLPClassifier:
    """Return an unfitted network with the node's parameters."""
    import numpy as np

    from nodes.models.estimators import RowwiseMLPClassifier

    return RowwiseMLPClassifier(
        hidden_layer_sizes=tuple(params.layers),
        alpha=params.alpha,
        learning_rate_init=params.learning_rate,
        max_iter=params.epochs,
        # One generator for all epochs: an integer would shuffle every epoch the same way.
        random_state=np.random.RandomState(params.seed),
    )


def fit(ctx: NodeContext, rows: TrainingRows, network: Any) -> None:
    """Train the network epoch by epoch, until the loss has settled.

    ``max_iter`` of the network limits the epochs.
    """
    epochs = network.max_iter

    def report_epoch(epoch: int) -> None:
        ctx.progress(epoch / epochs, f"epoch {epoch + 1} of {epochs}")

    losses = fit_epochs(network, rows, epochs, report_epoch)
    ctx.progress(1.0, f"{len(losses)} epochs")
    if rows.validation is None:
        ctx.log(f"{len(losses)} epochs, training loss {losses[-1]:.6g}.")
    else:
        best = losses.index(min(losses)) + 1
        ctx.log(
            f"{len(losses)} epochs. The network of epoch {best} is kept: with it, the loss on the "
            f"validation rows is lowest, {min(losses):.6g}."
        )


def fit_epochs(
    network: Any,
    rows: TrainingRows,
    epochs: int,
    report: Callable[[int], None] = lambda epoch: None,
) -> list[float]:
    """Train epoch by epoch until the loss has settled; return the loss after each epoch.

    With validation rows, it is the loss on these, and the network of the best epoch is kept.
    ``partial_fit`` is used because ``fit`` can neither report progress nor be cancelled.
    """
    losses: list[float] = []
    best: tuple[list[Any], list[Any]] = [], []
    with one_blas_thread():
        for epoch in range(epochs):
            report(epoch)
            network.partial_fit(rows.matrix, rows.y, rows.weights, classes=range(len(rows.classes)))
            losses.append(_loss(network, rows))
            if rows.validation is not None and losses[-1] == min(losses):
                best = (
                    [array.copy() for array in network.coefs_],
                    [array.copy() for array in network.intercepts_],
                )
            if _has_settled(losses):
                break
    if rows.validation is not None:
        network.coefs_, network.intercepts_ = best
    return losses


def _loss(network: Any, rows: TrainingRows) -> float:
    """Return the log loss on the validation rows; without any, the loss of the last epoch."""
    from deepforest.metrics import log_loss

    if rows.validation is None:
        return float(network.loss_)
    matrix, y, *weights = rows.validation
    loss = log_loss(y, network.predict_proba(matrix), *weights)
    assert loss is not None
    return float(loss)


def _has_settled(losses: list[float]) -> bool:
    """Return whether the last ``PATIENCE`` epochs gained less than ``TOLERANCE`` together."""
    if len(losses) <= PATIENCE:
        return False
    return min(losses[-PATIENCE:]) > min(losses[:-PATIENCE]) - TOLERANCE


def python(params: MlpParams, names: Variables) -> Snippet:
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
        if "validation" in names.inputs:
            return [
                *statement(network, "RowwiseMLPClassifier", **settings),
                *statement("", "fit_epochs", network, rows, params.epochs),
            ]
        data = [Expression(f"{rows}.{name}") for name in ("matrix", "y", "weights")]
        classes = Expression(f"range(len({rows}.classes))")
        epoch = statement("", f"{INDENT * 2}{network}.partial_fit", *data, classes=classes)
        losses = names.local("losses")
        return [
            *statement(network, "MLPClassifier", **settings),
            f"{losses} = []",
            'with threadpool_limits(1, user_api="blas"):',
            f"    for _ in range({params.epochs}):",
            *epoch,
            f"        {losses}.append({network}.loss_)",
            f"        if len({losses}) > {PATIENCE} and min({losses}[-{PATIENCE}:]) > "
            f"min({losses}[:-{PATIENCE}]) - {TOLERANCE}:",
            "            break",
        ]

    imports = ["import numpy as np"]
    if "validation" in names.inputs:
        imports += [
            "from nodes.mlp import fit_epochs",
            "from nodes.models.estimators import RowwiseMLPClassifier",
        ]
    else:
        imports += [
            "from sklearn.neural_network import MLPClassifier",
            "from threadpoolctl import threadpool_limits",
        ]
    return training_script(
        params, names, "network", lines, imports, form="onehot", precision="float32"
    )


def save(network: Any, folder: Path) -> dict[str, Any]:
    """Write two arrays for each layer of the network, and return the number of layers."""
    for layer, (weights, intercepts) in enumerate(
        zip(network.coefs_, network.intercepts_, strict=True)
    ):
        save_array(folder, f"layer{layer}-weights", weights)
        save_array(folder, f"layer{layer}-intercepts", intercepts)
    return {"layers": len(network.coefs_)}


def load(folder: Path, data: Mapping[str, Any]) -> RowwiseMLPClassifier:
    """Read the layers of a network; raise ``ValueError`` if they do not fit together."""
    import numpy as np

    from nodes.models.estimators import RowwiseMLPClassifier

    layers = range(data["layers"])
    network = RowwiseMLPClassifier()
    network.coefs_ = [load_array(folder, f"layer{layer}-weights", "f", 2) for layer in layers]
    network.intercepts_ = [load_array(folder, f"layer{layer}-intercepts", "f") for layer in layers]
    outputs = len(network.intercepts_[-1])
    # The outputs of a layer are the inputs of the next one.
    next_sizes = [*(len(weights) for weights in network.coefs_[1:]), outputs]
    for weights, intercepts, size in zip(
        network.coefs_, network.intercepts_, next_sizes, strict=True
    ):
        if not weights.shape[1] == len(intercepts) == size:
            raise ValueError("the layers of the network do not fit each other")
    network.n_features_in_ = len(network.coefs_[0])
    # For two classes there is one output.
    network.classes_ = np.arange(max(outputs, 2))
    return network


KIND = ModelKind(
    name="mlp",
    title="Neural network",
    encoding=Encoding("onehot", "float32"),
    build=build,
    save=save,
    load=load,
    estimators=("MLPClassifier",),
)
NODE = training_node(
    KIND,
    summary="A multi-layer perceptron over standardised numbers and one-hot categories.",
    version=1,
    params=MlpParams,
    fit=fit,
    python=python,
    imports=("sklearn.neural_network", "threadpoolctl"),
)
