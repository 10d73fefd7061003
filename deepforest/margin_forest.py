"""Define mdDF, the margin distribution deep forest: layers that add up, with a target for margins.

- ``MarginForestClassifier``
- ``MarginStrategy``          weights layers and rows by the margins
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._base import BaseCascadeClassifier
from ._grow import Combination, GrowingCascade, LayerStrategy, TrainingData
from ._input import check_whole, keep_arguments
from ._layer import Layer
from ._renamed import CASCADE_NAMES, accept_old_names
from .arithmetic import weighted_sum
from .learners import Learner, RandomForest, Target
from .margins import best_alpha, best_alphas, margins, row_weights

Array = npt.NDArray[Any]

LEARNERS = ("random_forest", {"kind": "extra_trees", "count": 2}, "completely_random_forest")


@accept_old_names(CASCADE_NAMES)
class MarginForestClassifier(BaseCascadeClassifier):
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
    As of ``CascadeForestClassifier``; ``layer_records_[t].alpha`` is α, and
    ``layer_records_[t].margins.ratio`` the margin ratio λ.
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
        resampling: str = "nested",
        class_vectors: str = "folds",
        cv: int = 5,
        scoring: str | Callable[[Array, Array], float] = "auto",
        patience: int = 2,
        tol: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        calibrate: bool = True,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _check_params(self, data: TrainingData) -> None:
        super()._check_params(data)
        if not (isinstance(self.gamma, Real) and 0 < float(self.gamma) < 1):
            raise ValueError(f"gamma is {self.gamma!r}; give a margin between 0 and 1")
        if not (isinstance(self.mu, Real) and float(self.mu) > 0):
            raise ValueError(f"mu is {self.mu!r}; give a number above 0")
        if self.depth_step is not None:
            check_whole("depth_step", self.depth_step, 1)

    def _strategy(self) -> LayerStrategy:
        return MarginStrategy(
            self.gamma, self.mu, self.depth_step, self.joint_alphas, self.reweight
        )

    def _papers_metric(self) -> str:
        return "log_loss" if self.resampling == "nested" else "accuracy"


class MarginStrategy(LayerStrategy):
    """Add layers up with the weights α that are best for the margins; weight rows by their cost."""

    passes_output = True
    can_probe = False  # a layer is only a part of the sum

    def __init__(
        self, gamma: float, mu: float, depth_step: int | None, joint_alphas: bool, reweight: bool
    ) -> None:
        self.gamma = gamma
        self.mu = mu
        self.depth_step = depth_step
        self.joint_alphas = joint_alphas
        self.reweight = reweight
        # Of all rows, from layers that are new to them: the margins γ_l in each layer, and F_t.
        self._margins: list[Array] = []
        self._cumulative = np.zeros(0)

    def learners(
        self, number: int, learners: tuple[Learner, ...], share_left: float
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

    def observe(self, vectors: Array, rows: Array, data: TrainingData) -> None:
        """Remember the margins of the rows in the new layer."""
        # Algorithm 2 of the paper, lines 5 and 6.
        margin = np.full(len(data.values), np.nan, np.float32)
        margin[rows] = margins(vectors.mean(axis=0), data.target.values[rows])
        self._margins.append(margin)

    def combine(
        self, vectors: Array, rows: Array, data: TrainingData, before: Layer | None
    ) -> Combination:
        """Return the plain mean of the learners, and the best weights α of the layers."""
        # Line 7.
        by_layer = np.column_stack([margin[rows] for margin in self._margins])  # rows × layers
        so_far = np.zeros(0)
        if before is not None and before.alphas is not None:
            so_far = before.alphas
        if self.joint_alphas:
            alphas = best_alphas(by_layer, self.gamma, self.mu, np.append(so_far, 0.0))
        else:
            sums = by_layer[:, :-1] @ so_far
            alpha = best_alpha(sums, by_layer[:, -1], self.gamma, self.mu)
            alphas = np.append(so_far, max(alpha, 0.0))
        # If the margins are so bad that all weights are zero, the last layer gets 1: some layer
        # must decide.
        if not alphas.any():
            alphas[-1] = 1.0
        return Combination(np.full(len(vectors), 1 / len(vectors)), alphas)

    def advance(self, cascade: GrowingCascade, vectors: Array, data: TrainingData) -> None:
        """Add the layer to the output; weight the training rows by the cost of their margins."""
        cascade.layer_outputs.append(vectors.mean(axis=0))
        # Equation 6, f_t = α_t·h_t + f_{t−1}; summed anew, because with joint weights those of
        # earlier layers change too.
        alphas = cascade.layers[-1].alphas
        assert alphas is not None
        cascade.output = weighted_sum(alphas, cascade.layer_outputs).astype(np.float32)
        self._add_up(cascade, alphas)
        if not self.reweight:
            return
        training = cascade.training
        target = data.target.values[training]
        by_layer = [margins(output[training], target) for output in cascade.layer_outputs]
        # Equation 27; its weights sum to 1, those of the learners have an average of about 1.
        margin = np.column_stack(by_layer) @ alphas
        costs = row_weights(margin, self.gamma, self.mu) * len(training)
        cascade.weights = np.zeros(len(vectors[0]))
        cascade.weights[training] = costs
        if data.weights is not None:
            cascade.weights[training] *= data.weights[training]

    def _add_up(self, cascade: GrowingCascade, alphas: Array) -> None:
        """Compute F_t(i) = Σ α_l·γ_l(i) for the rows that are new to this cascade."""
        if len(self._cumulative) != len(cascade.output):
            self._cumulative = np.full(len(cascade.output), np.nan)
        rows = cascade.rows.scored
        by_layer = np.column_stack([margin[rows] for margin in self._margins])
        # Σ_j f_t^j is the same for all rows, the sum of the α: dividing by it gives margins in
        # [−1, 1], which can be compared between layers. λ does not change.
        self._cumulative[rows] = by_layer @ alphas / max(float(np.abs(alphas).sum()), 1e-12)

    def next_features(self, vectors: Array, output: Array) -> Array:
        """Return f_t, which equation 5 concatenates with x."""
        return output.astype(np.float32)

    def n_next_features(self, n_learners: int, n_outputs: int) -> int:
        """Return the number of classes."""
        return n_outputs

    def next_feature_names(self, number: int, learners: Sequence[str], n_outputs: int) -> list[str]:
        """Return names that say of which layers f_t is the sum."""
        layers = "layer 1" if number == 1 else f"layers 1 to {number}"
        return [f"class vectors of {layers}"] * n_outputs

    def to_probabilities(self, output: Array) -> Array:
        """Return the scores divided by their sum over the classes, which is the sum of the α."""
        positive = np.maximum(output, 0)
        total = positive.sum(axis=1, keepdims=True)
        # A row without any positive score is equally likely to be of each class.
        uniform = np.full_like(positive, 1 / output.shape[1])
        return np.asarray(np.divide(positive, total, out=uniform, where=total > 0))

    def margins(self, probabilities: Array, target: Target, rows: Array) -> Array | None:
        """Return F_t, scaled to the margins of probabilities."""
        return self._cumulative[rows]

    def output_importances(self, layers: Sequence[Layer], of_layers: list[Array]) -> Array:
        """Return the importances for f_t, a sum of layers: each counts with its share of the α."""
        alphas = layers[-1].alphas
        assert alphas is not None
        weights = np.abs(alphas) / (np.abs(alphas).sum() or 1.0)
        return np.asarray(
            sum(
                weight * layer.mean(axis=0)
                for weight, layer in zip(weights, of_layers, strict=True)
            )
        )
