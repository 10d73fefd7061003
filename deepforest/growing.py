"""How a cascade is fitted: layer after layer, as long as the last one was worth it.

- ``GrowingCascade``     the loop that all cascades share, and the record it keeps
- ``CascadeClassifier``  the same for classes: labels, class weights, probabilities
- ``Standing``           where a fit stands between two layers

A kind of cascade says in ``_learners_of``, ``_take_up`` and ``_added`` what is its own: which learners a layer has,
what it makes of their vectors, and what the next layer sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from ._files import Pack
from ._input import check_whole, checked_weights
from .features import AUGMENT, Features
from .fitted import FittedCascade, Passage
from .growth import Growth, scorer
from .jobs import Checkpointer, Event, FolderCheckpointer, JobRunner
from .layer import LayerFit, LayerPlan, fit_layer, seed_of
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
    """What each layer said about every row, where the cascade adds that up."""
    layers: int = 0
    """How many layers are behind it."""

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
        given = given.only(rows)
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
        with runner:
            self._grow(features, learners, Standing.start(given), measure, validation, runner, seed)
        if len(rows) < n_rows:
            said, self.oof_output_ = self.oof_output_, np.full((n_rows, self.n_outputs_), np.float32("nan"))
            self.oof_output_[rows] = said
        return self

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
        watched: Passage | None = None
        self.estimators_, self.layers_ = [], []
        grows = True
        while grows:
            began = time.perf_counter()
            plan = self._plan(len(self.estimators_) + 1, learners, standing, seed)
            fit = fit_layer(plan, features, standing.task, runner)
            self._take_up(fit, standing)
            standing.layers += 1
            self.estimators_.append(fit.layer)
            self.binner_ = features.binner
            if validation is not None:
                watched = watched or Passage(self, self._features(validation.values))
                watched.through(fit.layer)
            grows = growth.judge(self._score(measure, standing, validation, watched))
            if grows and len(standing.rows) < 2 * self.folds:
                growth.stop(f"{len(standing.rows)} rows are left, too few to learn from")
                grows = False
            if growth.best == plan.number:
                self.oof_output_ = self._scaled(standing.output.copy())
            validated = self._validated(validation, watched, measure)
            self._keep_record(plan, fit, standing, growth, validated, time.perf_counter() - began)
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
        check_choice("class_vectors", self.class_vectors, CLASS_VECTORS)
        check_choice("augment", self.augment, AUGMENT)

    # --- scores and the record ---

    def _score(
        self, measure: Metric, standing: Standing, validation: Given | None, watched: Passage | None
    ) -> float | None:
        if validation is None or watched is None:
            return measure(standing.task.target, self._scaled(standing.output), standing.judged)
        return measure(validation.task.target, self._scaled(watched.output), validation.judged)

    def _scores(
        self, on: Given | Standing, said: Array, measure: Metric, rows: Array | slice = slice(None)
    ) -> dict[str, float | None]:
        usual = [METRICS["accuracy"], METRICS["log_loss"]] if self._classifies else list(REGRESSION_METRICS.values())
        weights = None if on.judged is None else on.judged[rows]
        measures = {each.name: each for each in (measure, *usual)}
        return {name: each(on.task.target[rows], said[rows], weights) for name, each in measures.items()}

    def _validated(self, validation: Given | None, watched: Passage | None, measure: Metric) -> dict[str, float | None]:
        if validation is None or watched is None:
            return {}
        return self._scores(validation, self._scaled(watched.output), measure)

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
                effective_size=float(len(plan.rows))
                if plan.weights is None
                else effective_size(plan.weights[plan.rows]),
                rows_in=len(plan.rows),
                rows_out=len(gone),
                error_out=float((said[gone].argmax(axis=1) != standing.task.target[gone]).mean())
                if len(gone)
                else None,
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
                name=f"{learner.kind.replace('_', ' ')} {number + 1}",
                settings=learner.about(),
                scores=self._scores(standing, self._scaled(fit.vectors[number]), measure, plan.rows),
                fits=plan.folds_of(learner),
                seconds=fit.seconds[number],
            )
            for number, learner in enumerate(plan.learners)
        ]

    def _margins(self, standing: Standing, said: Array) -> Array | None:
        return margins(said, standing.task.target) if self._classifies else None


class CascadeClassifier(ClassifierMixin, GrowingCascade):  # type: ignore[misc]
    """What the cascades of classes share."""

    class_weight: str | Mapping[Any, float] | None

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        checkpoint: str | Path | Checkpointer | None = None,
        executor: Executor | None = None,
        listener: Callable[[Event], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Self:
        """Grow the cascade on ``X`` (an array, or a data frame) and the classes ``y``.

        Parameters
        ----------
        validation : (X, y)
            Rows that steer the growth in place of the rows each fit held out.
        checkpoint : folder or Checkpointer
            Where finished fits are kept: the same call, after a kill, repeats none of them.
        executor : Executor
            Runs the fits; by default threads of its own, ``n_jobs`` of them.
        listener : callable
            Is told an ``Event`` whenever a job or a layer starts or ends.
        cancelled : callable
            Is asked often; once it returns true the fit ends with ``FitCancelled``.
        """
        values, y = self._read_fit(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            raise ValueError(f"y holds one class only, {self.classes_.tolist()[0]!r}; there is nothing to tell apart")
        judged = None if sample_weight is None else checked_weights(sample_weight, values)
        weights = judged if self.class_weight is None else self._weights(y, judged)
        given = Given(values, Task(codes.astype(np.int32), self.n_classes_), weights, judged)
        runner = self._runner(checkpoint, executor, listener, cancelled)
        return self._fit(given, scorer(self._wanted_metric(), self.classes_), self._read_validation(validation), runner)

    def _weights(self, y: Array, judged: Array | None) -> Array:
        """What class and row weigh together; rows of no weight do not count in how frequent a class is."""
        if judged is None:
            return np.asarray(compute_sample_weight(self.class_weight, y))
        rows = np.flatnonzero(judged)
        weights = np.zeros(len(y))
        weights[rows] = judged[rows] * compute_sample_weight(self.class_weight, y[rows])
        return weights

    def _wanted_metric(self) -> str | Callable[[Array, Array], float]:
        return self.metric

    def _read_validation(self, validation: tuple[Any, Any] | None) -> Given | None:
        if validation is None:
            return None
        values, y = self._read(validation[0]), np.asarray(validation[1])
        codes = np.searchsorted(self.classes_, y).clip(0, self.n_classes_ - 1)
        if len(y) != len(values) or not (self.classes_[codes] == y).all():
            raise ValueError("validation: y has another number of rows than X, or a class that training has not")
        return Given(values, Task(codes.astype(np.int32), self.n_classes_), None, None)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Class probabilities."""
        return self._predict(X)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """Logarithms of the class probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:  # noqa: N803
        """Class probabilities after each layer."""
        return self._staged_predict(X)

    def _description(self) -> dict[str, Any]:
        classes = {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()}
        return {**super()._description(), "classes": classes}

    def _restore(self, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
        classes = description["classes"]
        self.classes_ = np.array(classes["values"], dtype=object if classes["dtype"] == "|O" else classes["dtype"])
        self.n_classes_ = len(self.classes_)
        super()._restore(description, packs)


def _effective_size(plan: LayerPlan) -> float:
    return float(len(plan.rows)) if plan.weights is None else effective_size(plan.weights[plan.rows])


def _error(said: Array, truth: Array) -> float | None:
    return float((said.argmax(axis=1) != truth).mean()) if len(truth) else None


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; give one of {', '.join(map(repr, choices))}")
