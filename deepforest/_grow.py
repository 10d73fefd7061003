"""Grow cascades: layer after layer, until another layer is not worth it.

- ``grow_cascade``  the loop of the papers
- ``Grown``         its result
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import large_arrays
from ._calibration import best_temperature
from ._cascade import CascadePass, FittedCascade
from ._fit_jobs import FitEvent, JobRunner
from ._layer import LayerFit, LayerPlan, fit_layer
from ._resampling import common_rows
from ._strategy import Combination, GrowingCascade, GrowthPlan, LayerStrategy, TrainingData
from ._trial import LayerTrial
from .arithmetic import temper
from .early_stopping import EarlyStopping
from .margins import effective_size
from .metrics import METRICS, REGRESSION_METRICS, gain_and_error, standard_error
from .records import LayerRecord, LearnerRecord, MarginRecord

Array = npt.NDArray[Any]

PROBE_ROWS = 1_000


class Grown(NamedTuple):
    """Hold the result of ``grow_cascade``."""

    cascades: list[FittedCascade]
    records: list[LayerRecord]
    output: Array
    """The output of each row of the fit from models that had not seen it; NaN if there is none."""
    scored: list[FittedCascade]
    """The cascades that were scored, which are blind to some rows."""


def grow_cascade(
    data: TrainingData,
    cascades: list[GrowingCascade],
    final: GrowingCascade | None,
    strategy: LayerStrategy,
    stopping: EarlyStopping,
    plan: GrowthPlan,
    validation: TrainingData | None,
    runner: JobRunner,
    records: list[LayerRecord],
) -> Grown:
    """Add layers until one is not worth it, and drop those after the best one.

    The cascades are scored on rows they are blind to. ``final`` learns all rows, once the best
    depth is known; without it, the cascades themselves are the model. ``records`` gets the record
    of each layer as soon as it is grown.
    """
    # The loop of gcForest, and of Algorithm 2 of mdDF. Each layer sees the columns and the vectors
    # of the layer before.
    # Validation rows are scored by the model itself: it is grown beside the others.
    if final is not None and validation is not None:
        cascades = [*cascades, final]
    # The cascades have their columns. Scores need none, and a copy of some rows would be large.
    data = data._replace(values=data.values[:, :0])
    growth = _Growth(data, cascades, strategy, stopping, plan, validation, records)
    while not stopping.stopped:
        number, began = len(records) + 1, time.perf_counter()
        trial = LayerTrial(number, _best_informed(cascades), plan, data, runner)
        strategy.tune(number, plan.learners, cascades, data, trial)
        learners = strategy.learners(number, plan.learners, growth.share_left)
        plans = [each.plan(number, learners, plan, data) for each in cascades]
        # A probe: one cascade first. If the rows it is blind to gain nothing, the layer is refused
        # before it is paid for in the others.
        n_first = 1 if growth.should_probe else 0
        known = trial.known
        fits = fit_layer(plans[:n_first], cascades[:n_first], data.target, runner, known)
        if fits and growth.refuses(fits[0]):
            record = growth.record_probe(plans[:1], fits, time.perf_counter() - began)
        else:
            fits += fit_layer(plans[n_first:], cascades[n_first:], data.target, runner, known)
            growth.combine(fits)
            growth.score()
            record = growth.record(plans, fits, time.perf_counter() - began)
        record = growth.add_settings(strategy.settings(), trial.losses)
        if plan.verbose:
            print(f"Layer {number}, {record.seconds:.1f} s: {record.reason}.", flush=True)
        runner.notify(FitEvent(f"layer-{number}", "finished", record.seconds, record))
    if final is not None:
        began = time.perf_counter()
        growth.complete(final, runner)
        if plan.verbose:
            print(f"Model on all rows, {time.perf_counter() - began:.1f} s.", flush=True)
    scored = [each.fitted(stopping.n_kept) for each in cascades if each is not final]
    model = scored if final is None else [final.fitted(stopping.n_kept)]
    return Grown(model, records, growth.best_output, scored)


def _best_informed(cascades: list[GrowingCascade]) -> GrowingCascade:
    """Return the cascade with the most training rows among those with rows that count in scores."""
    scored = [each for each in cascades if len(each.scored)]
    return max(scored or cascades, key=lambda each: len(each.training))


class _CombinedLayer(NamedTuple):
    """Hold what the scored cascades have shown of a layer."""

    combination: Combination
    temperature: float
    share_left: float
    """The share of the rows that have left after it."""
    probabilities: Array
    """Of the rows that the cascades are blind to."""


class _Growth:
    """Hold what ``grow_cascade`` knows between two layers: outputs, scores and records."""

    def __init__(
        self,
        data: TrainingData,
        cascades: list[GrowingCascade],
        strategy: LayerStrategy,
        stopping: EarlyStopping,
        plan: GrowthPlan,
        validation: TrainingData | None,
        records: list[LayerRecord],
    ) -> None:
        self.data = data
        self.cascades = cascades
        self.strategy = strategy
        self.stopping = stopping
        self.plan = plan
        self.records = records
        self.scored = np.sort(np.concatenate([each.rows.scored for each in cascades]))
        self.is_blind = any(len(each.rows.blind) for each in cascades)
        # The output of each row from models that had not seen it.
        self.output = large_arrays.missing(cascades[0].output.shape, cascades[0].output.dtype)
        self.probabilities = self.output  # the same, calibrated
        self.best_output = self.output
        self.best_probabilities: Array | None = None  # of the rows that decide
        self.validation = validation
        self.validation_pass: CascadePass | None = None
        self.temperature = 1.0
        self.combined: list[_CombinedLayer] = []

    @property
    def share_left(self) -> float:
        """The share of the rows that have left the cascades."""
        return 1 - sum(len(each.scored) for each in self.cascades) / len(self.scored)

    # --- a probe: the layer of the first cascade only ---

    @property
    def should_probe(self) -> bool:
        """Whether the first cascade decides if the others get another layer.

        With few rows its score would be too noisy, and the others cost little.
        """
        return (
            self.stopping.is_last_chance
            and self.validation is None
            and all(len(each.rows.blind) for each in self.cascades)
            and len(self.scored) >= PROBE_ROWS
        )

    def refuses(self, fit: LayerFit) -> bool:
        """Return whether the rows that the first cascade is blind to gain nothing by its layer."""
        cascade = self.cascades[0]
        remaining, rows = cascade.scored, cascade.rows.scored
        vectors = fit.vectors[:, remaining]
        # Rows that left keep their output, and are calibrated and scored together with the others:
        # the layer itself would be. A temperature of the remaining rows alone gains by itself.
        output = cascade.output.astype(np.float64)
        output[remaining] = self.strategy.probed_output(cascade, vectors, remaining, self.data)
        data = self.data.only(rows)
        probabilities = self._calibrated(self.strategy.to_probabilities(output[rows]), data)
        self.probed = np.full_like(self.output, np.nan)
        self.probed[rows] = probabilities
        _, _, gain, gain_se = self._compare(data, probabilities, self.best_output[rows])
        return self.stopping.refuse(gain, gain_se)

    def _compare(
        self, data: TrainingData, probabilities: Array, best: Array | None
    ) -> tuple[float | None, float | None, float | None, float | None]:
        """Return score and gain over the best layer so far, each with its standard error."""
        measure, truth = self.stopping.measure, data.target.values
        weights, groups = data.score_weight, data.groups
        score = measure(truth, probabilities, weights)
        error = standard_error(measure, truth, probabilities, weights, groups)
        if best is None:
            return score, error, None, None
        return score, error, *gain_and_error(measure, truth, probabilities, best, weights, groups)

    # --- a layer of all cascades ---

    def combine(self, fits: list[LayerFit]) -> None:
        """Combine the vectors of the new layer, and move all cascades past it."""
        parts = [(each.scored, fit) for each, fit in zip(self.cascades, fits, strict=True)]
        rows = np.concatenate([scored for scored, _ in parts])
        vectors = np.concatenate([fit.vectors[:, scored] for scored, fit in parts], axis=1)
        self.strategy.observe(vectors, rows, self.data)
        of_all = self._combination(self.cascades[0], vectors, rows)
        for cascade, fit in zip(self.cascades, fits, strict=True):
            combination = of_all
            # Not by the rows the cascade is blind to: with few rows even the weights of the
            # learners would remember some of their labels. There may be no others: in the papers'
            # way, and after screening.
            others = np.isin(rows, cascade.rows.scored, invert=True)
            if others.any():
                combination = self._combination(cascade, vectors[:, others], rows[others])
            # One threshold for all: a row leaves all cascades at once.
            self._add_layer(cascade, fit, combination._replace(threshold=of_all.threshold))
            self.output[cascade.rows.scored] = cascade.output[cascade.rows.scored]
        self._calibrate()
        self.combined.append(
            _CombinedLayer(of_all, self.temperature, self.share_left, self.probabilities)
        )

    def complete(self, final: GrowingCascade, runner: JobRunner) -> None:
        """Grow the cascade of all rows to the best depth, with what the others have shown."""
        share_left = 0.0
        for number in range(len(final.layers) + 1, self.stopping.best + 1):
            # It may lose other rows by screening than the cascades that were scored.
            if number > 1 and not final.can_grow(self.plan.n_folds):
                self.stopping.deepest = number - 1
                self._renew_decisions()
                self.best_output = self.combined[number - 2].probabilities
                return
            learners = self.strategy.learners(number, self.plan.learners, share_left)
            plan = final.plan(number, learners, self.plan, self.data)
            (fit,) = fit_layer([plan], [final], self.data.target, runner)
            combination, fit.layer.temperature, share_left, _ = self.combined[number - 1]
            self._add_layer(final, fit, combination)

    def _add_layer(self, cascade: GrowingCascade, fit: LayerFit, combination: Combination) -> None:
        """Move a cascade past a new layer."""
        fit.layer.coefficients, fit.layer.alphas, fit.layer.threshold = combination
        cascade.add(fit.layer)
        self.strategy.advance(cascade, fit.vectors, self.data)
        cascade.next_vectors = self.strategy.next_features(fit.vectors, cascade.output)

    def _combination(self, cascade: GrowingCascade, vectors: Array, rows: Array) -> Combination:
        """Return how a cascade combines the vectors of the new layer, estimated from these rows."""
        before = cascade.layers[-1] if cascade.layers else None
        return self.strategy.combine(vectors, rows, self.data, before)

    def _calibrate(self) -> None:
        """Set the temperature at which the probabilities of new rows are right."""
        if self.plan.calibrates:
            data = self.data.only(self.scored)
            probabilities = self.strategy.to_probabilities(self.output[self.scored])
            self.temperature = best_temperature(probabilities, data.target.values, data.weights)
        for cascade in self.cascades:
            cascade.layers[-1].temperature = self.temperature
        self.probabilities = self._probabilities(self.output)

    def _calibrated(self, probabilities: Array, data: TrainingData) -> Array:
        """Return probabilities of rows new to a model, at the temperature that is best for them."""
        if not self.plan.calibrates:
            return probabilities
        temperature = best_temperature(probabilities, data.target.values, data.weights)
        return temper(probabilities, temperature)

    def _probabilities(self, output: Array) -> Array:
        """Return an output after the newest layer as calibrated probabilities (or numbers)."""
        probabilities = temper(self.strategy.to_probabilities(output), self.temperature)
        found = large_arrays.empty(output.shape, probabilities.dtype)
        # A row that no cascade is blind to has no output; its probabilities are not equal.
        for block in large_arrays.blocks(len(found), found.nbytes // max(1, len(found))):
            found[block] = np.where(np.isnan(output[block]), np.nan, probabilities[block])
        return found

    def score(self) -> None:
        """Score the output on rows that are new to the layers, and decide about growth."""
        data, probabilities = self.data.only(self.scored), self.probabilities[self.scored]
        if self.validation is not None:
            data, probabilities = self.validation, self._probabilities(self._pass_validation())
        self.stopping.add(*self._compare(data, probabilities, self.best_probabilities))
        # Layers after the best one are dropped, and their outputs with them.
        if self.stopping.best == len(self.records) + 1:
            self.best_probabilities = probabilities
            self.best_output = self.probabilities
        # Screening may leave too few rows for the folds of another layer, or for its score.
        fewest = min(len(each.training) for each in self.cascades)
        enough = all(each.can_grow(self.plan.n_folds) for each in self.cascades)
        if not enough or self.share_left == 1:
            self.stopping.stop(f"{fewest} rows are too few for another layer")

    def _pass_validation(self) -> Array:
        """Return the output of the validation rows after the newest layer."""
        assert self.validation is not None
        # The model: the cascade that learns all rows, or the only one.
        model = self.cascades[-1]
        # The bins are known only once there is a first layer.
        if self.validation_pass is None:
            self.validation_pass = CascadePass(
                [model.fitted(0)],
                self.validation.values,
                self.strategy,
                self.output.shape[1],
                self.plan.augment,
                model.features.room,
            )
        self.validation_pass.apply([model.layers[-1]])
        return self.validation_pass.output

    # --- records ---

    def record(self, plans: list[LayerPlan], fits: list[LayerFit], seconds: float) -> LayerRecord:
        """Add the record of the newest layer, and return it."""
        before = np.concatenate([_scored(plan) for plan in plans])
        after = np.concatenate([each.scored for each in self.cascades])
        gone = np.setdiff1d(before, after, assume_unique=True)  # empty without screening
        probabilities, layer = self.probabilities, fits[0].layer
        return self._add_record(
            plans,
            fits,
            seconds,
            scores=self._out_of_fold_scores(),
            blind=self._scores(probabilities, self.scored) if self.is_blind else {},
            validation=self._validation_scores(),
            margins=self._margins(probabilities, self.scored),
            coefficients=np.mean([fit.layer.coefficients for fit in fits], axis=0).tolist(),
            alphas=self._mean_alphas(fits),
            rows_out=len(gone),
            error_out=_error(probabilities[gone], self.data.target.values[gone]),
            threshold=layer.threshold,
        )

    def record_probe(
        self, plans: list[LayerPlan], fits: list[LayerFit], seconds: float
    ) -> LayerRecord:
        """Add the record of a layer that only the first cascade has, and return it."""
        rows = self.cascades[0].rows.scored
        return self._add_record(
            plans,
            fits,
            seconds,
            scores={},
            blind=self._scores(self.probed, rows),
            validation={},
            margins=self._margins(self.probed, rows),
            coefficients=[],
            alphas=None,
            rows_out=0,
            error_out=None,
            threshold=None,
            probe=True,
        )

    def add_settings(
        self, settings: dict[str, Any], trials: dict[str, dict[str, float]]
    ) -> LayerRecord:
        """Add what was chosen before the newest layer to its record, and return it."""
        self.records[-1] = replace(self.records[-1], settings=settings, trials=trials)
        return self.records[-1]

    def _add_record(
        self, plans: list[LayerPlan], fits: list[LayerFit], seconds: float, **figures: Any
    ) -> LayerRecord:
        """Add a record; update those before, since a later layer may change a decision."""
        decisions = self.stopping.decisions()
        self._renew_decisions()
        new = LayerRecord(
            number=plans[0].number,
            learners=self._learner_records(plans, fits),
            metric=self.stopping.measure.name,
            scored_on=self._scored_on(),
            effective_size=float(np.mean([_effective_size(plan) for plan in plans])),
            rows_in=sum(len(_scored(plan)) for plan in plans),
            n_features=fits[0].layer.n_features,
            seconds=seconds,
            **asdict(decisions[-1]),
            **figures,
        )
        self.records.append(new)
        return new

    def _renew_decisions(self) -> None:
        """Update what the records say of each layer."""
        for number, decision in enumerate(self.stopping.decisions()[: len(self.records)]):
            self.records[number] = replace(
                self.records[number], kept=decision.kept, reason=decision.reason
            )

    def _mean_alphas(self, fits: list[LayerFit]) -> list[float] | None:
        """Return the weights of the layers (mdDF), the mean over the cascades."""
        alphas = [fit.layer.alphas for fit in fits if fit.layer.alphas is not None]
        return np.mean(alphas, axis=0).tolist() if alphas else None

    def _margins(self, probabilities: Array, rows: Array) -> MarginRecord | None:
        margin = self.strategy.margins(probabilities, self.data.target, rows)
        return None if margin is None else MarginRecord.of(margin)

    def _scored_on(self) -> str:
        if self.validation is not None:
            return "validation"
        return "blind" if self.is_blind else "out_of_fold"

    def _scores(self, probabilities: Array, rows: Array) -> dict[str, float | None]:
        """Return the scores of an output for some of the training rows."""
        return self._scores_of(self.data.only(rows), probabilities[rows])

    def _scores_of(self, data: TrainingData, probabilities: Array) -> dict[str, float | None]:
        """Return the scores by name: the deciding metric and the usual ones."""
        usual = list(REGRESSION_METRICS.values())
        if data.target.n_classes:
            usual = [METRICS["accuracy"], METRICS["log_loss"]]
        # By name, so that the deciding metric is not computed twice if it is a usual one.
        measures = {each.name: each for each in (self.stopping.measure, *usual)}
        return {
            name: each(data.target.values, probabilities, data.score_weight)
            for name, each in measures.items()
        }

    def _out_of_fold_scores(self) -> dict[str, float | None]:
        """Return the scores of training rows from models that left them out, of each cascade's own.

        They are too good from the second layer on. With several cascades they are means.
        """
        scores = []
        for cascade in self.cascades:
            rows = cascade.rows.training
            probabilities = self._probabilities(cascade.output[rows])
            scores.append(self._scores_of(self.data.only(rows), probabilities))
        means = {}
        for name in scores[0]:
            means[name] = _mean_of([each[name] for each in scores])
        return means

    def _validation_scores(self) -> dict[str, float | None]:
        if self.validation is None or self.validation_pass is None:
            return {}
        return self._scores_of(self.validation, self.validation_pass.probabilities())

    def _learner_records(self, plans: list[LayerPlan], fits: list[LayerFit]) -> list[LearnerRecord]:
        """Return the record of each learner, with the scores of its vectors of rows new to it."""
        rows = np.concatenate([_scored(plan) for plan in plans])
        records = []
        models: set[tuple[int, int]] = set()
        for fit in fits:
            for number, of_learner in enumerate(fit.layer.models):
                models.update((number, id(model)) for model in of_learner)
        for number, learner in enumerate(plans[0].learners):
            vectors = np.concatenate(
                [fit.vectors[number, _scored(plan)] for plan, fit in zip(plans, fits, strict=True)]
            )
            data = self.data.only(rows)
            # Calibrated too: else the log loss of a learner cannot be compared with the layer's.
            probabilities = self._calibrated(self.strategy.to_probabilities(vectors), data)
            records.append(
                LearnerRecord(
                    name=f"{learner.title} {number + 1}",
                    settings=learner.about(),
                    scores=self._scores_of(data, probabilities),
                    fits=sum(1 for of, _ in models if of == number),
                    seconds=sum(fit.seconds[number] for fit in fits),
                )
            )
        return records


def _scored(plan: LayerPlan) -> Array:
    """Return the rows that count in the scores and entered a layer."""
    rows = plan.rows
    return common_rows(rows.scored, np.concatenate([rows.training, rows.blind]))


def _effective_size(plan: LayerPlan) -> float:
    """Return how many equally weighted rows are worth as much as those of a layer."""
    if plan.weights is None:
        return float(len(plan.rows.training))
    return effective_size(plan.weights[plan.rows.training])


def _error(output: Array, truth: Array) -> float | None:
    """Return the share of rows whose most probable class is wrong, None without rows."""
    return float((output.argmax(axis=1) != truth).mean()) if len(truth) else None


def _mean_of(values: list[float | None]) -> float | None:
    """Return the mean of the values that are known."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
