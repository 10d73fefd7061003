"""Define mdDF, the margin distribution deep forest: layers that add up, with a target for margins.

- ``MarginForestClassifier``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._base import CascadeClassifier
from ._grow import GrowthState
from ._input import check_whole, keep_arguments
from ._layer import LayerFit
from .arithmetic import weighted_sum
from .learners import Learner, RandomForest
from .margins import best_alpha, best_alphas, margins, row_weights

Array = npt.NDArray[Any]

LEARNERS = ("random_forest", {"kind": "extra_trees", "count": 2}, "completely_random_forest")


class MarginForestClassifier(CascadeClassifier):
    """Classify with mdDF (Lyu, Yang and Zhou): the output after layer t is f_t = Σ α_l h_l.

    Each layer's mean class vector h_t is added with the weight α_t that is best for the margins of
    the training rows. The next layer sees f_t, and rows whose margin is far from the target γ have
    more weight in it.

    Parameters
    ----------
    learners
        As for ``CascadeForestClassifier``. The paper has two random and two completely-random
        forests, and as its variant SF four times the same random forest; with extra-trees among
        them, as here, mdDF was better on our benchmarks.
    gamma : float
        γ, the margin that all rows should have.
    mu : float
        μ, the cost of margins beyond γ relative to those below it.
    depth_step : int or None
        The random forests of layer t are at most ``depth_step`` · (t + 1) deep; None sets no limit.
    joint_alphas : bool
        Whether each layer computes the weights of all layers so far again. Otherwise only its own,
        as in the paper's algorithm; the first layer's weight is then best for itself alone, and
        little is left for the others.
    reweight : bool
        Whether rows are weighted in the next layer by the cost of their margins.
    augment : "concat", "stack" or "none"
        What the next layer sees: the features and f_t, only f_t (the variant ST), or only the
        features (NP).
    others
        As for ``CascadeForestClassifier``.

    Attributes
    ----------
    As of ``CascadeForestClassifier``; ``layers_[t].alpha`` is α, ``layers_[t].margins.ratio`` the
    margin ratio λ.
    """

    def __init__(
        self,
        learners: Any = LEARNERS,
        *,
        gamma: float = 0.8,
        mu: float = 0.05,
        depth_step: int | None = 16,
        joint_alphas: bool = True,
        reweight: bool = True,
        class_vectors: str = "folds",
        folds: int = 5,
        metric: str | Callable[[Array, Array], float] = "accuracy",
        patience: int = 2,
        tolerance: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _check_params(self) -> None:
        super()._check_params()
        if not (isinstance(self.gamma, Real) and 0 < float(self.gamma) < 1):
            raise ValueError(f"gamma is {self.gamma!r}; give a margin between 0 and 1")
        if not (isinstance(self.mu, Real) and float(self.mu) > 0):
            raise ValueError(f"mu is {self.mu!r}; give a number above 0")
        if self.depth_step is not None:
            check_whole("depth_step", self.depth_step, 1)

    def _learners_of(
        self, number: int, learners: tuple[Learner, ...], state: GrowthState
    ) -> tuple[Learner, ...]:
        """Return learners whose random forests may grow deeper in each layer.

        Completely-random trees need their full depth from the first layer on.
        """
        if self.depth_step is None:
            return learners
        # The paper's depths of layer t: 2t + 2, 4t + 4, 8t + 8 or 16t + 16.
        depth = self.depth_step * (number + 1)
        return tuple(
            each.with_depth(depth) if isinstance(each, RandomForest) else each for each in learners
        )

    def _combine_layer(self, fit: LayerFit, state: GrowthState) -> None:
        """Add the layer with the best weights α; weight the rows by the cost of their margins."""
        # Algorithm 2 of the paper, lines 5 to 9.
        output = fit.vectors.mean(axis=0)  # h_t
        fit.layer.coefficients = np.full(len(fit.vectors), 1 / len(fit.vectors))
        state.layer_outputs.append(output)
        state.margins.append(margins(output, state.task.target))
        by_layer = np.column_stack(state.margins)  # γ_l(x_i), rows × layers
        fit.layer.alphas = self._alphas(by_layer)
        # F_t(i) = Σ α_l·γ_l(i) and, equation 6, f_t = α_t·h_t + f_{t−1}; summed anew, because with
        # joint weights those of earlier layers change too.
        state.margin = by_layer @ fit.layer.alphas
        state.output = weighted_sum(fit.layer.alphas, state.layer_outputs).astype(np.float32)
        if self.reweight:
            # Equation 27; its weights sum to 1, those of the learners have an average of about 1.
            costs = row_weights(state.margin, self.gamma, self.mu) * len(output)
            state.weights = costs if state.sample_weight is None else costs * state.sample_weight

    def _alphas(self, by_layer: Array) -> Array:
        """Return the weights of all layers; without ``joint_alphas`` only the last one is new.

        No weight is negative. If the margins are so bad that all weights are zero, the last layer
        gets 1: some layer must decide.
        """
        before = self.estimators_[-1].alphas if self.estimators_ else np.zeros(0)
        assert before is not None
        if self.joint_alphas:
            alphas = best_alphas(by_layer, self.gamma, self.mu, np.append(before, 0.0))
        else:
            alpha = best_alpha(by_layer[:, :-1] @ before, by_layer[:, -1], self.gamma, self.mu)
            alphas = np.append(before, max(alpha, 0.0))
        if not alphas.any():
            alphas[-1] = 1.0
        return alphas

    def _added(self, vectors: Array, output: Array) -> Array:
        """Return f_t, which equation 5 concatenates with x."""
        return output.astype(np.float32)

    def _n_added(self) -> int:
        return self.n_outputs_

    def _added_names(self, number: int) -> list[str]:
        layers = "layer 1" if number == 1 else f"layers 1 to {number}"
        return [f"class vectors of {layers}"] * self.n_outputs_

    def _scaled(self, output: Array) -> Array:
        """Return the scores divided by their sum over the classes, which is the sum of the α."""
        positive = np.maximum(output, 0)
        total = positive.sum(axis=1, keepdims=True)
        # A row without any positive score is equally likely to be of each class.
        uniform = np.full_like(positive, 1 / output.shape[1])
        return np.asarray(np.divide(positive, total, out=uniform, where=total > 0))

    def _margins(self, state: GrowthState, output: Array) -> Array | None:
        """Return F_t, scaled to the margins of probabilities."""
        assert state.margin is not None
        # Σ_j f_t^j is the same for all rows, the sum of the α: dividing by it gives margins in
        # [−1, 1], which can be compared between layers. λ does not change.
        return state.margin / max(float(np.abs(state.output.sum(axis=1)).mean()), 1e-12)

    def _credit(self, of_vectors: Array, below: list[Array]) -> Array:
        """Return the importances of columns of f_t, passed on to all layers that it is made of."""
        return np.outer(of_vectors.sum(axis=1), self._combined_importances(below))

    def _combined_importances(self, of_layers: list[Array]) -> Array:
        # f_t is a sum of layers, so each counts with its share of the α.
        alphas = self.estimators_[len(of_layers) - 1].alphas
        assert alphas is not None
        weights = np.abs(alphas) / (np.abs(alphas).sum() or 1.0)
        return np.asarray(
            sum(
                weight * layer.mean(axis=0)
                for weight, layer in zip(weights, of_layers, strict=True)
            )
        )
