"""A small neural network (multi-layer perceptron), trained by scikit-learn epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nodes.models.encoder import Form, Precision
from nodes.models.learners.base import Problem, load_array, one_blas_thread, save_array

if TYPE_CHECKING:
    import numpy as np

PATIENCE = 10
"""Epochs without a gain in training loss after which training ends, and how small a gain is none."""
TOLERANCE = 1e-4


@dataclass
class Mlp:
    """Layers of rectified units and one output a class (a single one for two classes)."""

    kind: ClassVar[str] = "mlp"
    title: ClassVar[str] = "Neural network"
    form: ClassVar[Form] = "onehot"
    precision: ClassVar[Precision] = "float32"
    order: ClassVar[Literal["C", "F"]] = "C"

    layers: list[int] = field(default_factory=lambda: [100])
    alpha: float = 1e-4
    learning_rate: float = 1e-3
    epochs: int = 200
    seed: int = 0
    weights: list[np.ndarray] = field(default_factory=list, repr=False)
    intercepts: list[np.ndarray] = field(default_factory=list, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns and classes."""
        return len(self.weights[0]), max(len(self.intercepts[-1]), 2)

    def fit(self, problem: Problem) -> None:
        """One pass over the rows an epoch, until the training loss settles or ``epochs`` are over."""
        import numpy as np

        network, losses = self._unfitted(), []
        classes = np.arange(problem.classes)
        with one_blas_thread():
            for epoch in range(self.epochs):
                problem.progress(epoch / self.epochs, f"epoch {epoch + 1} of {self.epochs}")
                network.partial_fit(problem.matrix, problem.codes, problem.weights, classes=classes)
                losses.append(float(network.loss_))
                if _has_settled(losses):
                    break
        problem.progress(1.0, f"{len(losses)} epochs")
        problem.log(f"{len(losses)} epochs, training loss {losses[-1]:.6g}.")
        self.weights, self.intercepts = list(network.coefs_), list(network.intercepts_)

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities."""
        import numpy as np

        from deepforest.arithmetic import class_probabilities, row_products

        last = len(self.weights) - 1
        for layer, (weights, intercepts) in enumerate(zip(self.weights, self.intercepts, strict=True)):
            # beyond the range: at its end
            matrix = np.nan_to_num(row_products(matrix, weights, intercepts), copy=False)
            if layer < last:
                np.maximum(matrix, 0, out=matrix)
        return class_probabilities(matrix)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write two arrays a layer."""
        for layer, (weights, intercepts) in enumerate(zip(self.weights, self.intercepts, strict=True)):
            save_array(folder, f"layer{layer}-weights", weights)
            save_array(folder, f"layer{layer}-intercepts", intercepts)
        return {"layers": len(self.weights)}

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Mlp:
        """Read the arrays back."""
        layers = range(about["layers"])
        weights = [load_array(folder, f"layer{layer}-weights", "f", 2) for layer in layers]
        intercepts = [load_array(folder, f"layer{layer}-intercepts", "f") for layer in layers]
        sizes = [len(step) for step in weights] + [len(intercepts[-1])]
        if any(w.shape[1] != len(b) or len(b) != n for w, b, n in zip(weights, intercepts, sizes[1:], strict=True)):
            raise ValueError("the layers of the network do not fit each other")
        return cls(weights=weights, intercepts=intercepts)

    def _unfitted(self) -> Any:
        import numpy as np
        from sklearn.neural_network import MLPClassifier

        return MLPClassifier(
            hidden_layer_sizes=tuple(self.layers),
            alpha=self.alpha,
            learning_rate_init=self.learning_rate,
            # one generator for all epochs: a number would shuffle every epoch the same way
            random_state=np.random.RandomState(self.seed),
        )


def _has_settled(losses: list[float]) -> bool:
    """No epoch of the last ``PATIENCE`` beat the best before them by more than ``TOLERANCE``."""
    if len(losses) <= PATIENCE:
        return False
    return min(losses[-PATIENCE:]) > min(losses[:-PATIENCE]) - TOLERANCE
