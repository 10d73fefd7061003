"""Define mdDF, the margin distribution deep forest: layers that add up, with a target for margins.

- ``MarginForestClassifier``
- ``MarginStrategy``          weights layers and rows by the margins
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._base import BaseCascadeClassifier
from ._input import check_whole, keep_arguments
from ._layer import Layer
from ._renamed import CASCADE_NAMES, accept_old_names
from ._strategy import Combination, GrowingCascade, LayerStrategy, TrainingData
from ._trial import LayerTrial
from .arithmetic import weighted_sum
from .contributions import through_normalising
from .learners import Learner, RandomForest, Target
from .margins import best_alphas, margins, row_weights, stagewise_alphas

Array = npt.NDArray[Any]

# Section 4 and 5 of the paper: "in practice, we generally choose" γ and μ "from the finite sets".
GAMMAS = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
MUS = (0.01, 0.05, 0.1)
DEPTH_STEPS = (2, 4, 8, 16)
DIGITS = 6  # of the weights α
LEAST_WEIGHT = 1e-6
AUTO = "auto"
CHOSEN = ("gamma", "mu", "depth_step")
# What counts until "auto" is decided.
GAMMA = 0.8
MU = 0.05
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
    gamma : float or "auto"
        γ, the margin that all rows should have.
    mu : float or "auto"
        μ, the cost of margins beyond γ relative to those below it. "auto" chooses γ, then μ, from
        the paper's values before the second layer, whose row weights they decide: by trials of one
        learner in one cascade, scored on rows that the cascade is blind to. In the first layer
        they only scale α; until then they are 0.8 and 0.05.
    depth_step : int, "auto" or None
        The random forests of layer t are at most ``depth_step`` · (t + 1) deep; None sets no limit.
        "auto" chooses 16, 8, 4 or 2 before the first layer, by trials in one cascade: a smaller one
        as long as the log loss of the rows that the cascade is blind to falls.
    joint_alphas : bool
        Whether each layer computes the weights of all layers so far again, none negative. The last
        layer has then most of the weight, often all of it. Otherwise only its own, as in the
        paper's algorithm; the first layer's weight is then best for itself alone, little is left
        for the others, and depth hardly changes predictions.
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
    ``layer_records_[t].margins.ratio`` the margin ratio λ. ``gamma_``, ``mu_`` and ``depth_step_``
    are the values that were used.
    """

    gamma_: float
    mu_: float
    depth_step_: int | None

    def __init__(
        self,
        learners: Any = LEARNERS,
        *,
        gamma: float | str = GAMMA,
        mu: float | str = MU,
        depth_step: int | str | None = "auto",
        joint_alphas: bool = True,
        reweight: bool = True,
        resampling: str = "nested",
        class_vectors: str = "folds",
        cv: int = 5,
        scoring: str | Callable[[Array, Array], float] = "auto",
        patience: int = 1,
        tol: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        scan: Any = None,
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
        if self.gamma != AUTO and not (isinstance(self.gamma, Real) and 0 < float(self.gamma) < 1):
            raise ValueError(f"gamma is {self.gamma!r}; give a margin between 0 and 1, or 'auto'")
        if self.mu != AUTO and not (isinstance(self.mu, Real) and float(self.mu) > 0):
            raise ValueError(f"mu is {self.mu!r}; give a number above 0, or 'auto'")
        if self.depth_step is not None and self.depth_step != AUTO:
            check_whole("depth_step", self.depth_step, 1)

    def _strategy(self) -> LayerStrategy:
        return MarginStrategy(
            self.gamma, self.mu, self.depth_step, self.joint_alphas, self.reweight
        )

    def _keep_choices(self, strategy: LayerStrategy) -> None:
        for name, value in strategy.settings().items():
            setattr(self, f"{name}_", value)

    def _description(self) -> dict[str, Any]:
        chosen = {name: getattr(self, f"{name}_") for name in CHOSEN}
        return {**super()._description(), "chosen": chosen}

    def _restore(self, description: Mapping[str, Any]) -> None:
        super()._restore(description)
        # Models of earlier versions have what was given.
        given = {name: getattr(self, name) for name in CHOSEN}
        for name, value in {**given, **description.get("chosen", {})}.items():
            setattr(self, f"{name}_", value)

    def _papers_metric(self) -> str:
        return "log_loss" if self.resampling == "nested" else "accuracy"


class MarginStrategy(LayerStrategy):
    """Add layers up with the weights α that are best for the margins; weight rows by their cost."""

    passes_output = True

    def __init__(
        self,
        gamma: float | str,
        mu: float | str,
        depth_step: int | str | None,
        joint_alphas: bool,
        reweight: bool,
    ) -> None:
        # What "auto" still has to decide.
        self._open = {"gamma": gamma == AUTO, "mu": mu == AUTO, "depth_step": depth_step == AUTO}
        self.gamma = GAMMA if isinstance(gamma, str) else gamma
        self.mu = MU if isinstance(mu, str) else mu
        self.depth_step = None if isinstance(depth_step, str) else depth_step
        self.joint_alphas = joint_alphas
        self.reweight = reweight
        # Of all rows, from layers that are new to them: the margins γ_l in each layer, and F_t.
        self._margins: list[Array] = []
        self._cumulative = np.zeros(0)

    def tune(
        self,
        number: int,
        learners: tuple[Learner, ...],
        cascades: Sequence[GrowingCascade],
        data: TrainingData,
        trial: LayerTrial,
    ) -> None:
        """Choose the depth step before layer 1, and γ and μ before layer 2, as far as open."""
        if number == 1 and self._open["depth_step"]:
            self._choose_depth_step(learners, trial)
        if number == 2 and self.reweight and (self._open["gamma"] or self._open["mu"]):
            self._choose_target(self.learners(2, learners, 0.0), data, trial)
            for cascade in cascades:
                cascade.weights = self._next_weights(cascade, data)

    def _choose_depth_step(self, learners: tuple[Learner, ...], trial: LayerTrial) -> None:
        """Choose the depth step by the log loss of the first layer of one cascade."""
        self.depth_step = DEPTH_STEPS[-1]
        if not any(isinstance(each, RandomForest) for each in learners):
            return
        best = np.inf
        # Deep forests first, until a shallower one is worse. The other way round is misleading:
        # very shallow forests hardly disturb the other learners, those a little deeper do.
        for step in reversed(DEPTH_STEPS):
            limited = self._limited(learners, step * 2)
            loss = trial.loss("depth_step", step, limited, limited)
            if loss > best:
                break
            if loss < best:  # equal if no tree is so deep
                best, self.depth_step = loss, step

    def _choose_target(
        self, learners: tuple[Learner, ...], data: TrainingData, trial: LayerTrial
    ) -> None:
        """Choose γ, then μ, by the log loss of the second layer of one cascade.

        They decide how rows are weighted in it. One learner is enough to compare weights.
        """
        for name, values in (("gamma", GAMMAS), ("mu", MUS)):
            if not self._open[name]:
                continue
            losses = []
            for value in values:
                setattr(self, name, value)
                weights = self._next_weights(trial.cascade, data)
                losses.append(trial.loss(name, value, learners, learners[:1], weights))
            setattr(self, name, values[int(np.argmin(losses))])

    def settings(self) -> dict[str, Any]:
        """Return γ, μ and the depth step."""
        return {name: getattr(self, name) for name in CHOSEN}

    def learners(
        self, number: int, learners: tuple[Learner, ...], share_left: float
    ) -> tuple[Learner, ...]:
        """Return learners whose random forests may grow deeper in each layer.

        Completely-random trees need their full depth from the first layer on.
        """
        if self.depth_step is None:
            return learners
        # The paper's depths of layer t: 2t + 2, 4t + 4, 8t + 8 or 16t + 16.
        return self._limited(learners, self.depth_step * (number + 1))

    def _limited(self, learners: tuple[Learner, ...], depth: int) -> tuple[Learner, ...]:
        """Return learners whose random forests are at most this deep."""
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
        if self.joint_alphas:
            so_far = np.zeros(0)
            if before is not None and before.alphas is not None:
                so_far = before.alphas
            alphas = best_alphas(by_layer, self.gamma, self.mu, np.append(so_far, 0.0))
        else:
            alphas = stagewise_alphas(by_layer, self.gamma, self.mu)
        # The last digits depend on the processor. They must not reach the weights of the rows: a
        # tree may split otherwise by them, and then the whole forest differs.
        alphas = np.round(alphas, DIGITS)
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
        if self.reweight:
            cascade.weights = self._next_weights(cascade, data)

    def _next_weights(self, cascade: GrowingCascade, data: TrainingData) -> Array:
        """Return the weights of all rows in the next layer of a cascade: the cost of margins."""
        training = cascade.training
        target = data.target.values[training]
        by_layer = [margins(output[training], target) for output in cascade.layer_outputs]
        alphas = cascade.layers[-1].alphas
        assert alphas is not None
        # Equation 27; its weights sum to 1, those of the learners have an average of about 1.
        margin = weighted_sum(alphas, by_layer)
        costs = row_weights(margin, self.gamma, self.mu) * len(training)
        weights = np.zeros(len(data.values))
        # A row without any cost keeps a little weight: a fit must not see rows of weight 0 only.
        weights[training] = np.where(costs > 0, costs, LEAST_WEIGHT)
        if data.weights is not None:
            weights[training] *= data.weights[training]
        return weights

    def probed_output(
        self, cascade: GrowingCascade, vectors: Array, rows: Array, data: TrainingData
    ) -> Array:
        """Return the sum of the layers of a cascade and of one more."""
        # A copy: nothing that the strategy remembers may come from a layer that is refused.
        strategy = copy(self)
        strategy._margins = list(self._margins)
        strategy.observe(vectors, rows, data)
        alphas = strategy.combine(vectors, rows, data, cascade.layers[-1]).alphas
        assert alphas is not None
        outputs = [output[rows] for output in cascade.layer_outputs]
        return weighted_sum(alphas, [*outputs, vectors.mean(axis=0)])

    def _add_up(self, cascade: GrowingCascade, alphas: Array) -> None:
        """Compute F_t(i) = Σ α_l·γ_l(i) for the rows that are new to this cascade."""
        if len(self._cumulative) != len(cascade.output):
            self._cumulative = np.full(len(cascade.output), np.nan)
        rows = cascade.rows.scored
        by_layer = np.column_stack([margin[rows] for margin in self._margins[: len(alphas)]])
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

    def to_probability_parts(self, parts: Array) -> Array:
        """Return contributions to f_t as contributions to f_t divided by its sum."""
        return through_normalising(parts)

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
