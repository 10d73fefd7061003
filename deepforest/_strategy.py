"""Define what the kinds of cascades share while they grow, and what each does differently.

- ``LayerStrategy``   what gcForest, mdDF and confidence screening do differently
- ``TrainingData``    the rows of a fit, as numbers
- ``GrowingCascade``  one cascade between two layers; nested resampling grows several at once
- ``GrowthPlan``      what all layers are fitted with
- ``Combination``     how a layer combines the vectors of its learners
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import large_arrays
from ._cascade import FittedCascade
from ._features import Features
from ._layer import Layer, LayerPlan, seed_of
from ._resampling import CascadeRows, common_rows, draw_folds
from .arithmetic import weighted_sum
from .learners import Learner, Target
from .margins import margins
from .scanning.growing import CascadeScans, RecentScans
from .scanning.scan import Scan

if TYPE_CHECKING:
    from ._trial import LayerTrial

Array = npt.NDArray[Any]


class TrainingData(NamedTuple):
    """Hold the rows, target and weights of a fit, checked and converted to numbers."""

    values: Array
    target: Target
    weights: Array | None = None
    """Weights of the rows for the learners, with the class weights."""
    score_weight: Array | None = None
    """Weights of the rows in the scores, without the class weights."""
    groups: Array | None = None
    times: Array | None = None

    def weighted_rows(self) -> Array:
        """Return the rows of positive weight; others must not change anything, not even bins."""
        if self.weights is None:
            return np.arange(len(self.values))
        return np.flatnonzero(self.weights)

    def only(self, rows: Array) -> TrainingData:
        """Return the data of some of the rows, in their order."""
        if np.array_equal(rows, np.arange(len(self.values))):
            return self
        target = Target(self.target.values[rows], self.target.n_classes)
        others = [None if part is None else part[rows] for part in self[2:]]
        return TrainingData(large_arrays.take(self.values, rows), target, *others)


class Combination(NamedTuple):
    """Hold how a layer combines its vectors: few numbers, from rows new to the layer."""

    coefficients: Array
    alphas: Array | None = None
    threshold: float | None = None


class LayerStrategy:
    """Decide what is special to a kind of cascade; ``cascade`` has the strategy of gcForest.

    One object serves one fit: it may remember what it computed for earlier layers.
    """

    def tune(
        self,
        number: int,
        learners: tuple[Learner, ...],
        cascades: Sequence[GrowingCascade],
        data: TrainingData,
        trial: LayerTrial,
    ) -> None:
        """Choose settings that are open before layer ``number`` is fitted, by trials of it."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the newest layer that were chosen or given, for its record."""
        return {}

    def learners(
        self, number: int, learners: tuple[Learner, ...], share_left: float
    ) -> tuple[Learner, ...]:
        """Return the learners of layer ``number``, which counts from 1.

        ``share_left`` is the share of the rows that have left the cascade.
        """
        return learners

    def observe(self, vectors: Array, rows: Array, data: TrainingData) -> None:
        """Take the vectors of a new layer, learners × rows × outputs, of rows new to it."""

    def combine(
        self, vectors: Array, rows: Array, data: TrainingData, before: Layer | None
    ) -> Combination:
        """Return how such vectors are combined; ``before`` is the layer before of the cascade."""
        raise NotImplementedError

    def advance(self, cascade: GrowingCascade, vectors: Array, data: TrainingData) -> None:
        """Move a cascade past its newest layer: its output, and what the next layer learns from.

        ``vectors`` are those of all rows. Only what this cascade itself learned may count here, or
        it would no longer be blind to its rows.
        """
        rows = cascade.remaining
        cascade.output[rows] = cascade.layers[-1].combine(vectors[:, rows])

    def probed_output(
        self, cascade: GrowingCascade, vectors: Array, rows: Array, data: TrainingData
    ) -> Array:
        """Return the output of some rows if these were a cascade's vectors of its next layer."""
        before = cascade.layers[-1] if cascade.layers else None
        # A copy: nothing that the strategy remembers may come from a layer that is refused.
        combination = copy(self).combine(vectors, rows, data, before)
        return weighted_sum(combination.coefficients, vectors)

    def next_features(self, vectors: Array, output: Array) -> Array:
        """Return what the next layer sees of this one: the learners' vectors side by side."""
        return large_arrays.beside(list(vectors))

    def n_next_features(self, n_learners: int, n_outputs: int) -> int:
        """Return how many columns ``next_features`` has."""
        return n_learners * n_outputs

    @property
    def passes_output(self) -> bool:
        """Whether ``next_features`` is the output of the cascade, not each learner's vectors."""
        return False

    def output_importances(self, layers: Sequence[Layer], of_layers: list[Array]) -> Array:
        """Return the importances of the columns for the output after the last of these layers.

        ``of_layers`` are those for each layer, learners × columns.
        """
        return np.asarray(layers[-1].coefficients @ of_layers[-1])

    def next_feature_names(self, number: int, learners: Sequence[str], n_outputs: int) -> list[str]:
        """Return the names of what layer ``number`` adds; those of a learner are all the same."""
        if self.passes_output:
            return [f"class vectors of layer {number}"] * n_outputs
        return [
            f"class vectors of layer {number}: {name}"
            for name in learners
            for _ in range(n_outputs)
        ]

    def to_probabilities(self, output: Array) -> Array:
        """Return the output of the cascade as probabilities (or numbers)."""
        return output

    def to_probability_parts(self, parts: Array) -> Array:
        """Return contributions to the output as contributions to the probabilities."""
        return parts

    def margins(self, probabilities: Array, target: Target, rows: Array) -> Array | None:
        """Return the margin of each of the rows for the record; None for numbers."""
        return margins(probabilities[rows], target.values[rows]) if target.n_classes else None


@dataclass
class GrowingCascade:
    """Hold one cascade between two layers.

    ``remaining`` are the rows still in it: training rows and those it is blind to. ``weights`` are
    those of the next layer. ``output`` has a line for every row of the fit: of a training row from
    models that left it out, of a blind row from all.
    """

    rows: CascadeRows
    features: Features
    selected: Array | None
    remaining: Array
    weights: Array | None
    output: Array
    layers: list[Layer] = field(default_factory=list)
    next_vectors: Array | None = None
    layer_outputs: list[Array] = field(default_factory=list)
    """The output of each layer for every row, if the cascade adds them up (mdDF)."""
    scans: CascadeScans | None = None
    """Fits the scans that the layers see in place of the columns, if the cascade scans."""
    recent: RecentScans = field(default_factory=RecentScans)
    new_scan: Scan | None = None
    """The scan that was made for the next layer."""

    @classmethod
    def start(
        cls, rows: CascadeRows, features: Features, selected: Array | None, data: TrainingData
    ) -> GrowingCascade:
        """Return a cascade before its first layer."""
        output = large_arrays.zeros((len(data.values), data.target.n_outputs), np.float32)
        remaining = np.sort(np.concatenate([rows.training, rows.blind]))
        return cls(rows, features, selected, remaining, data.weights, output)

    @property
    def training(self) -> Array:
        """The training rows that are still in the cascade."""
        return common_rows(self.rows.training, self.remaining)

    @property
    def scored(self) -> Array:
        """The rows that count in the scores and are still in the cascade."""
        return common_rows(self.rows.scored, self.remaining)

    def can_grow(self, n_folds: int) -> bool:
        """Return whether enough rows are left for the fits of another layer."""
        training = self.training
        if len(training) < 2 * n_folds:
            return False
        # The rows that are left may be in few of the folds, or all in one.
        for fold in self.rows.folds or []:
            if len(np.setdiff1d(training, fold, assume_unique=True)) < n_folds:
                return False
        return True

    def see(self) -> Features:
        """Return the features that the next layer sees; cascades share those of the raw data."""
        self._scan_rows()
        if self.next_vectors is None:
            self.features.forget_vectors()
        else:
            self.features.add(self.next_vectors, rows=self.training)
        return self.features

    def _scan_rows(self) -> None:
        """Make the scan of the next layer, if it has one: the rows still in the cascade learn it.

        The rows that the cascade is blind to are only predicted.
        """
        number = len(self.layers) + 1
        if self.scans is None or self.new_scan is not None or not self.scans.is_due(number):
            return
        training = self.training
        blind = np.setdiff1d(self.remaining, training, assume_unique=True)
        self.new_scan, vectors = self.scans.fit(number, self.rows, training, blind, self.weights)
        self.recent.add(self.new_scan, vectors)
        before = self.features
        self.features = self.recent.features(
            before.augment, before.room, learning=True, n_jobs=before.n_jobs
        )

    def add(self, layer: Layer) -> None:
        """Add a fitted layer, with the scan that was made for it."""
        layer.scan, self.new_scan = self.new_scan, None
        self.layers.append(layer)

    def plan(
        self, number: int, learners: tuple[Learner, ...], plan: GrowthPlan, data: TrainingData
    ) -> LayerPlan:
        """Return what the next layer of this cascade is fitted with."""
        training, seed = self.training, seed_of(plan.seed, number)
        blind = np.setdiff1d(self.remaining, training, assume_unique=True)
        if self.rows.folds is None:
            # More folds than rows would leave some of them empty.
            n_folds = max(2, min(plan.n_folds, len(training)))
            folds = draw_folds(training, data.target, n_folds, seed, data.groups)
        else:
            folds = [common_rows(fold, training) for fold in self.rows.folds]
        rows = replace(self.rows, training=training, blind=blind, folds=folds)
        return LayerPlan(number, learners, rows, self.weights, plan.out_of_bag, seed)

    def fitted(self, n_layers: int) -> FittedCascade:
        """Return the first layers as a fitted cascade."""
        if self.scans is not None:  # the scans have bins of their own
            n_columns = self.scans.images.matrix.n_features
            return FittedCascade(self.layers[:n_layers], None, np.zeros(n_columns, bool))
        return FittedCascade(
            self.layers[:n_layers], self.features.binner, self.features.categorical, self.selected
        )


class GrowthPlan(NamedTuple):
    """Hold what all layers are fitted with."""

    learners: tuple[Learner, ...]
    n_folds: int
    out_of_bag: bool
    augment: str
    calibrates: bool
    seed: int
    verbose: bool = False
