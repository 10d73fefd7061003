"""How a cascade is fitted: layer after layer, as long as the last one was worth it.

- ``GrowingCascade``  the loop that all cascades share, and the record it keeps; ``classifier`` adds what is of classes
- ``Given``           what a fit is given, as numbers
- ``Standing``        where a fit stands between two layers

A kind of cascade says in ``_learners_of``, ``_take_up`` and ``_added`` what is its own: which learners a layer has,
what it makes of their vectors, and what the next layer sees.
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

from ._input import check_whole
from .features import AUGMENT, Features
from .fitted import FittedCascade, Passage
from .growth import Growth
from .jobs import Checkpointer, Event, FolderCheckpointer, JobRunner
from .layer import Layer, LayerFit, LayerPlan, fit_layer, seed_of
from .learners import Learner, Task, make_learners
from .margins import effective_size, margins
from .metrics import METRICS, REGRESSION_METRICS, Metric
from .record import LayerRecord, LearnerRecord, MarginRecord

Array = npt.NDArray[Any]

CLASS_VECTORS = ("folds", "oob")


class Given(NamedTuple):
    """What a fit is given, checked and turned into numbers."""

    values: Array
    task: Task
    weights: Array | None
    """What the rows weigh for the learners."""
    judged: Array | None
    """What they weigh in the scores: class weights do not count there."""

    def of_weight(self) -> Array:
        """The rows that weigh something: others must not leave a trace, not even in the bins."""
        return np.arange(len(self.values)) if self.weights is None else np.flatnonzero(self.weights)

    def only(self, rows: Array) -> Given:
        """What is given about some of the rows."""
        if len(rows) == len(self.values):
            return self
        task = Task(self.task.target[rows], self.task.n_classes)
        weights = None if self.weights is None else self.weights[rows]
        judged = None if self.judged is None else self.judged[rows]
        return Given(self.values[rows], task, weights, judged)


@dataclass
class Standing:
    """Where a fit stands: the rows still in it, their weights, and what the cascade says about every row."""

    task: Task
    given: Array | None
    """Weights as they were given; ``weights`` are those of the next layer."""
    judged: Array | None
    rows: Array
    weights: Array | None
    output: Array
    margin: Array | None = None
    """After the last layer, where the cascade keeps margins of its own."""
    said: list[Array] = field(default_factory=list)
    """What each layer said about every row, where the cascade adds that up; and the margins of that."""
    margins: list[Array] = field(default_factory=list)

    @classmethod
    def start(cls, given: Given) -> Self:
        """Before the first layer."""
        n = len(given.values)
        output = np.zeros((n, given.task.n_outputs), np.float32)
        return cls(given.task, given.weights, given.judged, np.arange(n), given.weights, output)


class GrowingCascade(FittedCascade):
    """What the fits of all cascades share; see ``CascadeForestClassifier`` for the parameters."""

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

    def _wanted_learners(self, given: Given) -> Any:
        """The learners as they were asked for."""
        return self.learners

    def _learners_of(self, number: int, learners: tuple[Learner, ...], standing: Standing) -> tuple[Learner, ...]:
        """The learners of layer ``number``."""
        return learners

    def _take_up(self, fit: LayerFit, standing: Standing) -> None:
        """Say how the layer's vectors are combined, and move ``standing`` past the layer."""
        raise NotImplementedError

    # --- fitting ---

    def _fit(self, given: Given, measure: Metric, validation: Given | None, runner: JobRunner) -> Self:
        self._check_params()
        n_rows, rows = len(given.values), given.of_weight()
        if len(rows) < 2:
            raise ValueError(f"n_samples = {n_rows}, and rows that weigh something = {len(rows)}; give at least 2")
        try:
            with runner:
                self._fit_rows(given.only(rows), measure, validation, runner)
        except BaseException:  # half a cascade must not pass for a fitted one
            self.__dict__.pop("estimators_", None)
            raise
        if len(rows) < n_rows:
            said, self.oof_output_ = self.oof_output_, np.full((n_rows, self.n_outputs_), np.float32("nan"))
            self.oof_output_[rows] = said
        return self

    def _fit_rows(self, given: Given, measure: Metric, validation: Given | None, runner: JobRunner) -> None:
        learners = make_learners(self._wanted_learners(given))
        self.categorical_ = self._categorical(given.values.shape[1])
        self.selected_ = None
        if self.selector is not None:
            given = self._select(given)
            if validation is not None:
                validation = validation._replace(values=validation.values[:, self.selected_])
        self.n_learners_, self.n_outputs_ = len(learners), given.task.n_outputs
        features = self._features_to_learn(given.values, runner.n_jobs)
        seed = self._seed(features, runner)
        self._grow(features, learners, Standing.start(given), measure, validation, runner, seed)

    def _select(self, given: Given) -> Given:
        selector = self._settled(clone(self.selector), given.task)
        self.selector_ = selector.fit(given.values, given.task.target, sample_weight=given.weights)
        self.selected_ = self.selector_.get_support(indices=True)
        self.categorical_ = self.categorical_[self.selected_]
        return given._replace(values=given.values[:, self.selected_])

    def _settled(self, selector: Any, task: Task) -> Any:
        """The selector with what it leaves open and the cascade knows: it is given numbers only."""
        known = {
            "target": ("auto", "classes" if task.n_classes else "numbers"),
            "categorical_features": ("from_dtype", self.categorical_),
            "random_state": (None, 0 if self.random_state is None else self._draw_seed()),
        }
        params = selector.get_params(deep=False)
        for name, (left_open, value) in known.items():
            if name in params and isinstance(params[name], type(left_open)) and params[name] == left_open:
                selector.set_params(**{name: value})
        return selector

    def _grow(
        self,
        features: Features,
        learners: tuple[Learner, ...],
        standing: Standing,
        measure: Metric,
        validation: Given | None,
        runner: JobRunner,
        seed: int,
    ) -> None:
        """Layer after layer, until growth stops; kept are the layers up to the best one."""
        growth = Growth(measure, patience=self.patience, tolerance=self.tolerance, max_layers=self.max_layers)
        watched = None if validation is None else Watched(self, validation)
        self.estimators_, self.layers_ = [], []
        grows = True
        while grows:
            began = time.perf_counter()
            plan = self._plan(len(self.estimators_) + 1, learners, standing, seed)
            fit = fit_layer(plan, features, standing.task, runner)
            self._take_up(fit, standing)
            self.estimators_.append(fit.layer)
            self.binner_ = features.binner
            by, said = (standing, standing.output) if watched is None else (watched.given, watched.through(fit.layer))
            grows = growth.judge(measure(by.task.target, self._scaled(said), by.judged))
            if grows and len(standing.rows) < 2 * self.folds:
                growth.stop(f"{len(standing.rows)} rows are too few for another layer")
                grows = False
            if growth.best == plan.number:
                self.oof_output_ = self._scaled(standing.output.copy())
            validated = {} if watched is None else self._scores(watched.given, self._scaled(said), measure)
            self._keep_record(plan, fit, standing, growth, validated, time.perf_counter() - began)
            if self.verbose:
                print(f"Layer {plan.number}, {self.layers_[-1].seconds:.1f} s: {self.layers_[-1].reason}.", flush=True)
            runner.tell(Event(f"layer-{plan.number}", "finished", self.layers_[-1].seconds, self.layers_[-1]))
            if grows:
                features.add(self._added(fit.vectors, standing.output), rows=standing.rows)
        self.estimators_ = self.estimators_[: growth.best]

    def _plan(self, number: int, learners: tuple[Learner, ...], standing: Standing, seed: int) -> LayerPlan:
        return LayerPlan(
            number,
            self._learners_of(number, learners, standing),
            standing.rows,
            standing.weights,
            self.class_vectors == "oob",
            max(2, min(self.folds, len(standing.rows))),
            seed_of(seed, number),
        )

    def _features_to_learn(self, values: Array, n_jobs: int) -> Features:
        room = self._n_added()
        return Features(values, self.categorical_, augment=self.augment, room=room, learning=True, n_jobs=n_jobs)

    def _runner(
        self,
        checkpoint: str | Path | Checkpointer | None,
        executor: Executor | None,
        listener: Callable[[Event], None] | None,
        cancelled: Callable[[], bool] | None,
    ) -> JobRunner:
        if isinstance(checkpoint, str | Path):
            if Path(checkpoint).is_file():
                raise ValueError(f"checkpoint is {str(checkpoint)!r}, a file; give a folder")
            checkpoint = FolderCheckpointer(checkpoint)
        n_jobs = getattr(executor, "_max_workers", None) or effective_n_jobs(self.n_jobs)
        return JobRunner(n_jobs, executor=executor, checkpointer=checkpoint, listener=listener, cancelled=cancelled)

    def _seed(self, features: Features, runner: JobRunner) -> int:
        """The seed of the fit. Where any will do, a fit with checkpoints takes one that the same call finds again."""
        if self.random_state is None and runner.checkpointer is not None:
            return int(features.digest[:7], 16)
        return self._draw_seed()

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_params(self) -> None:
        check_whole("folds", self.folds, 2)
        check_whole("patience", self.patience, 1)
        check_whole("max_layers", self.max_layers, 1)
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance is {self.tolerance}; give a number from 0")
        if self.selector is not None and not hasattr(self.selector, "get_support"):
            raise ValueError(f"selector is {self.selector!r}; give a MartSelector or None")
        check_choice("class_vectors", self.class_vectors, CLASS_VECTORS)
        check_choice("augment", self.augment, AUGMENT)

    # --- scores and the record ---

    def _scores(
        self, on: Given | Standing, said: Array, measure: Metric, rows: Array | slice = slice(None)
    ) -> dict[str, float | None]:
        usual = [METRICS["accuracy"], METRICS["log_loss"]] if self._classifies else list(REGRESSION_METRICS.values())
        weights = None if on.judged is None else on.judged[rows]
        measures = {each.name: each for each in (measure, *usual)}
        return {name: each(on.task.target[rows], said[rows], weights) for name, each in measures.items()}

    def _keep_record(
        self,
        plan: LayerPlan,
        fit: LayerFit,
        standing: Standing,
        growth: Growth,
        validated: dict[str, float | None],
        seconds: float,
    ) -> None:
        """Add the record of a layer; what is decided about the layers before it may have changed."""
        decisions = growth.decisions()
        for number, record in enumerate(self.layers_):
            self.layers_[number] = replace(record, kept=decisions[number].kept, reason=decisions[number].reason)
        said = self._scaled(standing.output)
        gone = np.setdiff1d(plan.rows, standing.rows, assume_unique=True)
        margin = self._margins(standing, said)
        self.layers_.append(
            LayerRecord(
                number=plan.number,
                learners=self._learner_records(plan, fit, standing, growth.measure),
                score=decisions[-1].score,
                gain=decisions[-1].gain,
                scores=self._scores(standing, said, growth.measure),
                validation=validated,
                margins=None if margin is None else MarginRecord.of(margin),
                coefficients=fit.layer.coefficients.tolist(),
                alphas=None if fit.layer.alphas is None else fit.layer.alphas.tolist(),
                effective_size=_effective_size(plan),
                rows_in=len(plan.rows),
                rows_out=len(gone),
                error_out=_error(said[gone], standing.task.target[gone]),
                threshold=fit.layer.threshold,
                n_features=fit.layer.n_features,
                kept=decisions[-1].kept,
                reason=decisions[-1].reason,
                seconds=seconds,
            )
        )

    def _learner_records(
        self, plan: LayerPlan, fit: LayerFit, standing: Standing, measure: Metric
    ) -> list[LearnerRecord]:
        return [
            LearnerRecord(
                name=f"{learner.title} {number + 1}",
                settings=learner.about(),
                scores=self._scores(standing, self._scaled(fit.vectors[number]), measure, plan.rows),
                fits=plan.folds_of(learner),
                seconds=fit.seconds[number],
            )
            for number, learner in enumerate(plan.learners)
        ]

    def _margins(self, standing: Standing, said: Array) -> Array | None:
        return margins(said, standing.task.target) if self._classifies else None


class Watched:
    """Rows given for validation, taken along as the layers are grown."""

    def __init__(self, cascade: GrowingCascade, given: Given) -> None:
        self.cascade = cascade
        self.given = given
        self.passage: Passage | None = None

    def through(self, layer: Layer) -> Array:
        """What the cascade says about them after its newest layer."""
        if self.passage is None:  # the bins are known once there is a layer
            self.passage = Passage(self.cascade, self.cascade._features(self.given.values))
        self.passage.through(layer)
        return self.passage.output


def _effective_size(plan: LayerPlan) -> float:
    return float(len(plan.rows)) if plan.weights is None else effective_size(plan.weights[plan.rows])


def _error(said: Array, truth: Array) -> float | None:
    return float((said.argmax(axis=1) != truth).mean()) if len(truth) else None


def read_pair(cascade: GrowingCascade, validation: Any) -> tuple[Array, Array]:
    """X and y of the rows given for validation, X as numbers."""
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise ValueError("validation has to be a pair (X, y)")
    values, y = cascade._read(validation[0]), np.asarray(validation[1])
    if y.shape != (len(values),):
        raise ValueError(f"validation: X has {len(values)} rows and y has the shape {y.shape}")
    return values, y


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; give one of {', '.join(map(repr, choices))}")
