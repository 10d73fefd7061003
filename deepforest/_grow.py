"""Fit a cascade: layer after layer, until the growth rule stops it.

- ``GrowingCascade``  the loop that all cascades share, and the records it writes; ``classifier``
  adds classes
- ``TrainingData``    the rows of a fit, as numbers
- ``GrowthState``     the state of a fit between two layers
- ``ValidationPass``  validation rows, passed through each new layer

A kind of cascade overrides ``_learners_of``, ``_combine_layer`` and ``_added``: which learners a
layer has, how their vectors are combined, and what the next layer sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import clone
from sklearn.utils import check_random_state

from ._cascade import FittedCascade, Passage
from ._features import AUGMENT, Features
from ._fit_jobs import Checkpointer, FitEvent, FolderCheckpointer, JobRunner
from ._input import check_whole
from ._layer import Layer, LayerFit, LayerPlan, fit_layer, seed_of
from .early_stopping import Growth
from .learners import Learner, Target, make_learners
from .margins import effective_size, margins
from .metrics import METRICS, REGRESSION_METRICS, Metric
from .records import LayerRecord, LearnerRecord, MarginRecord

Array = npt.NDArray[Any]

CLASS_VECTORS = ("folds", "oob")


class TrainingData(NamedTuple):
    """Hold the rows, target and weights of a fit, checked and converted to numbers."""

    values: Array
    task: Target
    weights: Array | None
    """Weights of the rows for the learners, with the class weights."""
    score_weight: Array | None
    """Weights of the rows in the scores, without the class weights."""

    def weighted_rows(self) -> Array:
        """Return the rows of positive weight; others must not change anything, not even bins."""
        if self.weights is None:
            return np.arange(len(self.values))
        return np.flatnonzero(self.weights)

    def only(self, rows: Array) -> TrainingData:
        """Return the data of some of the rows."""
        if len(rows) == len(self.values):
            return self
        task = Target(self.task.target[rows], self.task.n_classes)
        weights = None if self.weights is None else self.weights[rows]
        score_weight = None if self.score_weight is None else self.score_weight[rows]
        return TrainingData(self.values[rows], task, weights, score_weight)


@dataclass
class GrowthState:
    """Hold what a fit knows between two layers; ``_combine_layer`` moves it past a layer."""

    task: Target
    sample_weight: Array | None
    """Weights of the fit, of all rows; ``weights`` are those of the next layer."""
    score_weight: Array | None
    rows: Array
    """The rows that are still in the cascade."""
    weights: Array | None
    output: Array
    """The out-of-fold output of the cascade for every row."""
    margin: Array | None = None
    """The margins after the last layer, if the cascade computes its own (mdDF)."""
    layer_outputs: list[Array] = field(default_factory=list)
    """The output of each layer for every row, if the cascade adds them up (mdDF)."""
    margins: list[Array] = field(default_factory=list)
    """The margins of each of ``layer_outputs``."""

    @classmethod
    def start(cls, data: TrainingData) -> Self:
        """Return the state before the first layer."""
        n = len(data.values)
        output = np.zeros((n, data.task.n_outputs), np.float32)
        return cls(data.task, data.weights, data.score_weight, np.arange(n), data.weights, output)


class GrowingCascade(FittedCascade):
    """Fit a cascade; ``CascadeForestClassifier`` describes the parameters."""

    learners: Any
    class_vectors: str
    folds: int
    metric: str | Callable[[Array, Array], float]
    patience: int
    tolerance: float
    max_layers: int
    selector: Any
    random_state: Any
    verbose: bool

    oof_output_: Array

    # --- what a kind of cascade decides ---

    def _requested_learners(self, data: TrainingData) -> Any:
        """Return the learners as ``make_learners`` takes them."""
        return self.learners

    def _learners_of(
        self, number: int, learners: tuple[Learner, ...], state: GrowthState
    ) -> tuple[Learner, ...]:
        """Return the learners of layer ``number``, which counts from 1."""
        return learners

    def _combine_layer(self, fit: LayerFit, state: GrowthState) -> None:
        """Set how the layer combines its vectors, and move ``state`` past the layer."""
        raise NotImplementedError

    # --- fitting ---

    def _fit(
        self,
        data: TrainingData,
        measure: Metric,
        validation: TrainingData | None,
        runner: JobRunner,
    ) -> Self:
        """Fit on the rows of positive weight; raise ``ValueError`` for wrong parameters or rows."""
        self._check_params()
        n_rows, rows = len(data.values), data.weighted_rows()
        if len(rows) < 2:
            raise ValueError(
                f"n_samples = {n_rows}, with positive weight {len(rows)}; give at least 2"
            )
        try:
            with runner:
                self._fit_rows(data.only(rows), measure, validation, runner)
        except BaseException:
            # An unfinished cascade must not count as fitted: ``check_is_fitted`` looks for this.
            self.__dict__.pop("estimators_", None)
            raise
        if len(rows) < n_rows:
            output = self.oof_output_
            self.oof_output_ = np.full((n_rows, self.n_outputs_), np.float32("nan"))
            self.oof_output_[rows] = output
        return self

    def _fit_rows(
        self,
        data: TrainingData,
        measure: Metric,
        validation: TrainingData | None,
        runner: JobRunner,
    ) -> None:
        """Select features if asked to, then grow the layers."""
        learners = make_learners(self._requested_learners(data))
        self.categorical_ = self._categorical(data.values.shape[1])
        self.selected_ = None
        # The selector sees only rows of the fit: with features that were chosen by the validation
        # rows too, their score would be too good.
        if self.selector is not None:
            data = self._select(data)
            if validation is not None:
                validation = validation._replace(values=validation.values[:, self.selected_])
        self.n_learners_, self.n_outputs_ = len(learners), data.task.n_outputs
        features = self._features_to_learn(data.values, runner.n_jobs)
        seed = self._seed(features, runner)
        self._grow(features, learners, GrowthState.start(data), measure, validation, runner, seed)

    def _select(self, data: TrainingData) -> TrainingData:
        """Fit the selector and return the data with the selected columns."""
        selector = self._with_known_params(clone(self.selector), data.task)
        self.selector_ = selector.fit(data.values, data.task.target, sample_weight=data.weights)
        self.selected_ = self.selector_.get_support(indices=True)
        self.categorical_ = self.categorical_[self.selected_]
        return data._replace(values=data.values[:, self.selected_])

    def _with_known_params(self, selector: Any, task: Target) -> Any:
        """Set the parameters that the selector leaves open and the cascade knows.

        The selector gets a matrix of numbers, so it cannot find out about classes and categories.
        """
        known = {
            "target": ("auto", "classes" if task.n_classes else "numbers"),
            "categorical_features": ("from_dtype", self.categorical_),
            "random_state": (None, 0 if self.random_state is None else self._draw_seed()),
        }
        params = selector.get_params(deep=False)
        for name, (default, value) in known.items():
            # The types are compared first: an array does not compare to a string as one value.
            if (
                name in params
                and isinstance(params[name], type(default))
                and params[name] == default
            ):
                selector.set_params(**{name: value})
        return selector

    def _grow(
        self,
        features: Features,
        learners: tuple[Learner, ...],
        state: GrowthState,
        measure: Metric,
        validation: TrainingData | None,
        runner: JobRunner,
        seed: int,
    ) -> None:
        """Add layers until growth stops, then drop those after the best one."""
        growth = Growth(
            measure, patience=self.patience, tolerance=self.tolerance, max_layers=self.max_layers
        )
        validation_pass = None if validation is None else ValidationPass(self, validation)
        self.estimators_, self.layers_ = [], []
        # The loop of gcForest and of mdDF's Algorithm 2: fit a layer on [x, vectors before it],
        # combine its vectors, score, and let the next layer see them.
        grows = True
        while grows:
            began = time.perf_counter()
            plan = self._plan(len(self.estimators_) + 1, learners, state, seed)
            fit = fit_layer(plan, features, state.task, runner)
            self._combine_layer(fit, state)
            self.estimators_.append(fit.layer)
            self.binner_ = features.binner
            scored: TrainingData | GrowthState = state
            output = state.output
            if validation_pass is not None:
                scored = validation_pass.data
                output = validation_pass.through(fit.layer)
            grows = growth.add_score(
                measure(scored.task.target, self._scaled(output), scored.score_weight)
            )
            # Screening may leave too few rows for the folds of another layer.
            if grows and len(state.rows) < 2 * self.folds:
                growth.stop(f"{len(state.rows)} rows are too few for another layer")
                grows = False
            # Layers after the best one are dropped, and their outputs with them.
            if growth.best == plan.number:
                self.oof_output_ = self._scaled(state.output.copy())
            validation_scores = {}
            if validation_pass is not None:
                validation_scores = self._scores(scored, self._scaled(output), measure)
            self._add_record(
                plan, fit, state, growth, validation_scores, time.perf_counter() - began
            )
            record = self.layers_[-1]
            if self.verbose:
                print(f"Layer {plan.number}, {record.seconds:.1f} s: {record.reason}.", flush=True)
            runner.notify(FitEvent(f"layer-{plan.number}", "finished", record.seconds, record))
            if grows:
                features.add(self._added(fit.vectors, state.output), rows=state.rows)
        self.estimators_ = self.estimators_[: growth.best]

    def _plan(
        self, number: int, learners: tuple[Learner, ...], state: GrowthState, seed: int
    ) -> LayerPlan:
        """Return what layer ``number`` is fitted with."""
        return LayerPlan(
            number,
            self._learners_of(number, learners, state),
            state.rows,
            state.weights,
            self.class_vectors == "oob",
            # More folds than rows would leave some of them empty.
            max(2, min(self.folds, len(state.rows))),
            seed_of(seed, number),
        )

    def _features_to_learn(self, values: Array, n_jobs: int) -> Features:
        """Return the features of the training rows, with room for the vectors of a layer."""
        room = self._n_added()
        return Features(
            values, self.categorical_, augment=self.augment, room=room, learning=True, n_jobs=n_jobs
        )

    def _runner(
        self,
        checkpoint: str | Path | Checkpointer | None,
        executor: Executor | None,
        listener: Callable[[FitEvent], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> JobRunner:
        """Return the runner of this fit; raise ``ValueError`` if ``checkpoint`` is a file."""
        if isinstance(checkpoint, str | Path):
            if Path(checkpoint).is_file():
                raise ValueError(f"checkpoint is {str(checkpoint)!r}, a file; give a folder")
            checkpoint = FolderCheckpointer(checkpoint)
        # An executor has no public way to ask how many jobs it runs at the same time.
        n_jobs = getattr(executor, "_max_workers", None) or effective_n_jobs(self.n_jobs)
        return JobRunner(
            n_jobs,
            executor=executor,
            checkpointer=checkpoint,
            listener=listener,
            cancelled=cancelled,
        )

    def _seed(self, features: Features, runner: JobRunner) -> int:
        """Return the seed of the fit.

        Without a random state any seed will do; a fit with checkpoints then takes one from the
        data, so that the same call finds its checkpoints again.
        """
        if self.random_state is None and runner.checkpointer is not None:
            return int(features.digest[:7], 16)
        return self._draw_seed()

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_params(self) -> None:
        """Raise ``ValueError`` for a parameter that cannot be used."""
        check_whole("folds", self.folds, 2)
        check_whole("patience", self.patience, 1)
        check_whole("max_layers", self.max_layers, 1)
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance is {self.tolerance}; give a number from 0")
        if self.selector is not None and not hasattr(self.selector, "get_support"):
            raise ValueError(f"selector is {self.selector!r}; give a MartSelector or None")
        check_choice("class_vectors", self.class_vectors, CLASS_VECTORS)
        check_choice("augment", self.augment, AUGMENT)

    # --- scores and records ---

    def _scores(
        self,
        data: TrainingData | GrowthState,
        output: Array,
        measure: Metric,
        rows: Array | slice = slice(None),
    ) -> dict[str, float | None]:
        """Return the scores of an output by name: ``measure`` and the usual metrics."""
        usual = list(REGRESSION_METRICS.values())
        if self._classifies:
            usual = [METRICS["accuracy"], METRICS["log_loss"]]
        weights = None if data.score_weight is None else data.score_weight[rows]
        # By name, so that the deciding metric is not computed twice if it is a usual one.
        measures = {each.name: each for each in (measure, *usual)}
        return {
            name: each(data.task.target[rows], output[rows], weights)
            for name, each in measures.items()
        }

    def _add_record(
        self,
        plan: LayerPlan,
        fit: LayerFit,
        state: GrowthState,
        growth: Growth,
        validation_scores: dict[str, float | None],
        seconds: float,
    ) -> None:
        """Add the record of a layer, and update those before it: a decision may have changed."""
        decisions = growth.decisions()
        for number, record in enumerate(self.layers_):
            self.layers_[number] = replace(
                record, kept=decisions[number].kept, reason=decisions[number].reason
            )
        output = self._scaled(state.output)
        # Empty unless the cascade screens rows.
        gone = np.setdiff1d(plan.rows, state.rows, assume_unique=True)
        margin = self._margins(state, output)
        self.layers_.append(
            LayerRecord(
                number=plan.number,
                learners=self._learner_records(plan, fit, state, growth.measure),
                score=decisions[-1].score,
                gain=decisions[-1].gain,
                scores=self._scores(state, output, growth.measure),
                validation=validation_scores,
                margins=None if margin is None else MarginRecord.of(margin),
                coefficients=fit.layer.coefficients.tolist(),
                alphas=None if fit.layer.alphas is None else fit.layer.alphas.tolist(),
                effective_size=_effective_size(plan),
                rows_in=len(plan.rows),
                rows_out=len(gone),
                error_out=_error(output[gone], state.task.target[gone]),
                threshold=fit.layer.threshold,
                n_features=fit.layer.n_features,
                kept=decisions[-1].kept,
                reason=decisions[-1].reason,
                seconds=seconds,
            )
        )

    def _learner_records(
        self, plan: LayerPlan, fit: LayerFit, state: GrowthState, measure: Metric
    ) -> list[LearnerRecord]:
        """Return the record of each learner, with the scores of its out-of-fold vectors."""
        return [
            LearnerRecord(
                name=f"{learner.title} {number + 1}",
                settings=learner.about(),
                scores=self._scores(state, self._scaled(fit.vectors[number]), measure, plan.rows),
                fits=plan.folds_of(learner),
                seconds=fit.seconds[number],
            )
            for number, learner in enumerate(plan.learners)
        ]

    def _margins(self, state: GrowthState, output: Array) -> Array | None:
        """Return the margin of each row for the record; None for numbers, which have no margin."""
        return margins(output, state.task.target) if self._classifies else None


class ValidationPass:
    """Pass validation rows through each layer as soon as it is grown."""

    def __init__(self, cascade: GrowingCascade, data: TrainingData) -> None:
        self.cascade = cascade
        self.data = data
        self.passage: Passage | None = None

    def through(self, layer: Layer) -> Array:
        """Return the output of the cascade for these rows after its newest layer."""
        # The bins are known only once there is a first layer.
        if self.passage is None:
            self.passage = Passage(self.cascade, self.cascade._features(self.data.values))
        self.passage.through(layer)
        return self.passage.output


def _effective_size(plan: LayerPlan) -> float:
    """Return how many equally weighted rows are worth as much as those of a layer."""
    if plan.weights is None:
        return float(len(plan.rows))
    return effective_size(plan.weights[plan.rows])


def _error(output: Array, truth: Array) -> float | None:
    """Return the share of rows whose most probable class is wrong, None without rows."""
    return float((output.argmax(axis=1) != truth).mean()) if len(truth) else None


def read_pair(cascade: GrowingCascade, validation: Any) -> tuple[Array, Array]:
    """Return X, as numbers, and y of the validation rows; raise ``ValueError`` for another form."""
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise ValueError("validation is not a pair (X, y)")
    values, y = cascade._read(validation[0]), np.asarray(validation[1])
    if y.shape != (len(values),):
        raise ValueError(f"validation: X has {len(values)} rows and y has the shape {y.shape}")
    return values, y


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; give one of {', '.join(map(repr, choices))}")
