"""Define what all cascades share: the fit, predictions, and a look inside.

- ``BaseCascade``            reads X and y, grows cascades, passes rows through them
- ``BaseCascadeClassifier``  adds classes: labels, class weights, probabilities
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import ClassifierMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from . import large_arrays
from ._cascade import (
    CascadePass,
    ContributionPass,
    FittedCascade,
    LayerOutput,
    raw_importances,
)
from ._features import AUGMENT, Features
from ._fit_jobs import Checkpointer, FitEvent, JobRunner, RemoteJobs, make_runner
from ._grow import grow_cascade
from ._input import (
    TabularEstimator,
    check_whole,
    checked_weights,
    describe_classes,
    fill_by_block,
    read_classes,
)
from ._layer import seed_of
from ._resampling import RESAMPLING, CascadeRows, Resampling, by_time, nested, per_layer
from ._saving import describe_cascade, load_cascade, save_cascade
from ._strategy import GrowingCascade, GrowthPlan, LayerStrategy, TrainingData
from .early_stopping import EarlyStopping
from .learners import Target, make_learners
from .metrics import Metric, resolve_metric
from .records import LayerRecord, Trace
from .scanning.growing import CascadeScans, RecentScans
from .scanning.scan import Scan
from .scanning.scanner import check_columns, make_scanner

Array = npt.NDArray[Any]

Pass = TypeVar("Pass", bound=CascadePass)

CLASS_VECTORS = ("folds", "oob")
LARGEST_WEIGHT = 1e9
EXPLAINED_ROWS, EXPLAINED_VALUES = 256, 4_000_000


class BaseCascade(TransformerMixin, TabularEstimator):  # type: ignore[misc]
    """Fit cascades and predict with them; ``CascadeForestClassifier`` describes the parameters."""

    learners: Any
    resampling: str
    class_vectors: str
    cv: int
    scoring: str | Callable[[Array, Array], float]
    patience: int
    tol: float
    max_layers: int
    augment: str
    selector: Any
    n_jobs: int | None
    random_state: Any
    verbose: bool
    scan: Any = None

    cascades_: list[FittedCascade]
    layer_records_: list[LayerRecord]
    oof_output_: Array
    n_learners_: int
    n_outputs_: int
    passes_output_: bool

    # --- what a kind of cascade decides ---

    def _strategy(self) -> LayerStrategy:
        """Return what is special to this kind of cascade."""
        raise NotImplementedError

    def _requested_learners(self, target: Target) -> Any:
        """Return the learners as ``make_learners`` takes them."""
        return self.learners

    def _requested_metric(self) -> Metric:
        """Return the metric that decides about growth."""
        raise NotImplementedError

    def _read_target(self, y: Array) -> Target:
        """Return y as class numbers or numbers; raise ``ValueError`` if it cannot be learned."""
        raise NotImplementedError

    def _fit_weights(self, y: Array, row_weights: Array | None) -> Array | None:
        """Return the weights of the rows for the learners, from those for the scores."""
        return row_weights

    # --- fitting ---

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        times: Any = None,
        validation: tuple[Any, ...] | None = None,
        checkpoint: str | Path | Checkpointer | None = None,
        executor: Executor | RemoteJobs | None = None,
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Self:
        """Grow the cascades on ``X`` (an array, or a data frame) and ``y``.

        Parameters
        ----------
        sample_weight : array
            How much each row counts, for the learners and in the scores.
        groups : array
            Rows with the same value, for example of one customer, are always in the same fold.
        times : array
            When each row was observed, as numbers or dates: rows are scored by cascades that
            learned earlier rows only.
        validation : (X, y) or (X, y, sample_weight)
            Rows that decide about growth in place of training rows.
        checkpoint : folder or Checkpointer
            Where finished fits are saved: the same call, after a kill, repeats none of them.
        executor : Executor
            Runs the fits; by default threads of its own, ``n_jobs`` of them. A pool of processes
            must start them by "spawn": LightGBM hangs in a process that was forked.
        listener : callable
            Gets a ``FitEvent`` whenever a job starts or ends, and when a layer is finished (its
            ``result`` is then the layer's ``LayerRecord``).
        cancelled : callable
            Is called often; once it returns true, the fit raises ``FitCancelled``.

        Raises
        ------
        ValueError
            If X, y, the weights or a parameter cannot be used; the message says what to give.
        """
        values, y = self._read_fit(X, y)
        target = self._read_target(y)
        # Class weights cost errors in the learners (equation 4 of Zhang et al.). They never enter a
        # score: that would no longer be the metric of the data. Row weights do.
        row_weights = None if sample_weight is None else checked_weights(sample_weight, values)
        data = TrainingData(
            values,
            target,
            self._fit_weights(y, row_weights),
            row_weights,
            _codes("groups", groups, values),
            _codes("times", times, values),
        )
        self._check_params(data)
        measure, watched = self._requested_metric(), self._read_validation(validation)
        rows = data.weighted_rows()
        if len(rows) < 2:
            raise ValueError(
                f"n_samples = {len(values)}, with positive weight {len(rows)}; give at least 2"
            )
        # An unfinished cascade must not count as fitted: ``check_is_fitted`` looks for this.
        self.__dict__.pop("cascades_", None)
        with make_runner(self.n_jobs, checkpoint, executor, listener, cancelled) as runner:
            self._grow(data.only(rows), measure, watched, runner)
        if len(rows) < len(values):
            output = self.oof_output_
            self.oof_output_ = np.full((len(values), self.n_outputs_), np.nan, output.dtype)
            self.oof_output_[rows] = output
        return self

    def _grow(
        self,
        data: TrainingData,
        measure: Metric,
        validation: TrainingData | None,
        runner: JobRunner,
    ) -> None:
        """Grow the cascades on rows of positive weight."""
        learners = make_learners(self._requested_learners(data.target))
        self.n_learners_, self.n_outputs_ = len(learners), data.target.n_outputs
        self.categorical_ = self._categorical(data.values.shape[1])
        self.passes_output_ = self._decide_passing(data)
        strategy = self._strategy()
        room = strategy.n_next_features(self.n_learners_, self.n_outputs_)
        raw = Features(
            data.values,
            self.categorical_,
            augment=self.augment,
            room=room,
            learning=True,
            n_jobs=runner.n_jobs,
        )
        seed = self._seed(raw, runner)
        resampling = self._resampled(data, seed, measure)
        scans = self._cascade_scans(data, runner, seed)
        cascades = [self._start(rows, data, raw, scans) for rows in resampling.scored]
        final = None
        if resampling.final is not None:
            final = self._start(resampling.final, data, raw, scans)
        stopping = EarlyStopping(
            measure,
            patience=self.patience,
            tol=self.tol,
            max_layers=self.max_layers,
            errors=1.0 if self.resampling == "nested" else 0.0,
        )
        plan = GrowthPlan(
            learners,
            self.cv,
            self.class_vectors == "oob",
            self.augment,
            self._calibrates(),
            seed,
            self.verbose,
        )
        self.layer_records_ = []
        grown = grow_cascade(
            data, cascades, final, strategy, stopping, plan, validation, runner, self.layer_records_
        )
        self.cascades_, self.oof_output_ = grown.cascades, grown.output
        self._keep_choices(strategy)

    def _keep_choices(self, strategy: LayerStrategy) -> None:
        """Set the attributes that say what was chosen during the fit."""

    def _calibrates(self) -> bool:
        """Return whether probabilities are calibrated on rows new to the model."""
        return False

    def _decide_passing(self, data: TrainingData) -> bool:
        """Return whether a layer passes on its output instead of each learner's vectors."""
        return False

    def _cascade_scans(
        self, data: TrainingData, runner: JobRunner, seed: int
    ) -> CascadeScans | None:
        """Return what scans the rows of the cascades; None if their layers see the columns."""
        if self.scan is None:
            return None
        return CascadeScans(
            make_scanner(self.scan),
            data.values,
            data.target,
            data.groups,
            runner,
            seed,
            fresh=self._fresh_scans > 0,
            levels=max(1, self._fresh_scans),
        )

    @property
    def _fresh_scans(self) -> int:
        """How many scans a layer sees if each layer has its own; 0: only the first layer has."""
        return 0

    def _start(
        self, rows: CascadeRows, data: TrainingData, raw: Features, scans: CascadeScans | None
    ) -> GrowingCascade:
        """Return a cascade before its first layer, with the columns that it selects."""
        if scans is not None:
            # A scan that had learned the rows it is blind to would make their score too good.
            cascade = GrowingCascade.start(rows.without_sharing(), raw, None, data)
            cascade.scans = scans
            return cascade
        if self.selector is None:
            return GrowingCascade.start(rows, raw, None, data)
        # Columns that were chosen by rows it is blind to would make their score too good.
        selected = self._select(data.only(rows.training))
        own = Features(
            large_arrays.take(data.values, columns=selected),
            self.categorical_[selected],
            augment=self.augment,
            room=raw.room,
            learning=True,
            n_jobs=raw.n_jobs,
        )
        return GrowingCascade.start(rows.without_sharing(), own, selected, data)

    def _resampled(self, data: TrainingData, seed: int, measure: Metric) -> Resampling:
        """Return the rows of each cascade."""
        # 32 bits: there are many lists of rows, each with a number for most rows of the table.
        rows = np.arange(len(data.values), dtype=np.int32)
        n_folds = max(2, min(self.cv, len(rows)))
        if data.groups is not None and len(np.unique(data.groups)) < 2:
            raise ValueError("groups has a single value; give at least 2, or leave it out")
        if self.resampling == "per_layer":
            return per_layer(rows)
        if data.times is not None:
            return by_time(rows, data.times, n_folds, data.target, seed_of(seed, 0))
        resampling = nested(
            rows, data.target, n_folds, seed_of(seed, 0), data.groups, measure.rows_needed
        )
        # A cascade of a single row has no other one from which the row's class vector could come.
        if min(len(each.training) for each in resampling.scored) < 2:
            return per_layer(rows)
        return resampling

    def _select(self, data: TrainingData) -> Array:
        """Return the columns that a copy of the selector chooses from these rows."""
        if data.target.n_classes and len(np.unique(data.target.values)) < 2:
            return np.arange(data.values.shape[1])  # one class says nothing about columns
        selector = self._configured_selector(data.target)
        selector.fit(data.values, data.target.values, sample_weight=data.weights)
        return np.asarray(selector.get_support(indices=True))

    def _configured_selector(self, target: Target) -> Any:
        """Return a copy of the selector with the parameters that it leaves open and are known here.

        The selector gets a matrix of numbers, so it cannot find out about classes and categories.
        """
        selector = clone(self.selector)
        known = {
            "target": ("auto", "classes" if target.n_classes else "numbers"),
            "categorical_features": ("from_dtype", self.categorical_),
            "random_state": (None, 0 if self.random_state is None else self._draw_seed()),
            "n_jobs": (None, effective_n_jobs(self.n_jobs)),
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

    def _check_params(self, data: TrainingData) -> None:
        """Raise ``ValueError`` for a parameter that cannot be used."""
        check_whole("cv", self.cv, 2)
        check_whole("patience", self.patience, 1)
        check_whole("max_layers", self.max_layers, 1)
        if not self.tol >= 0:
            raise ValueError(f"tol is {self.tol}; give a number from 0")
        if self.selector is not None and not hasattr(self.selector, "get_support"):
            raise ValueError(f"selector is {self.selector!r}; give a MartSelector or None")
        if self.scan is not None:
            self._check_scan(data)
        check_choice("resampling", self.resampling, RESAMPLING)
        check_choice("class_vectors", self.class_vectors, CLASS_VECTORS)
        check_choice("augment", self.augment, AUGMENT)
        if data.times is not None and data.groups is not None:
            raise ValueError("groups and times are both given; give one of them")
        if data.times is not None and self.resampling != "nested":
            raise ValueError('times needs resampling="nested"')

    def _check_scan(self, data: TrainingData) -> None:
        """Raise ``ValueError`` if the rows cannot be scanned."""
        if self.selector is not None:
            raise ValueError(
                "scan and selector are both given; a window needs all columns, so give one of them"
            )
        names = getattr(self, "feature_names_in_", None)
        scanner = make_scanner(self.scan)
        n_columns = data.values.shape[1]
        check_columns(scanner, n_columns, None if names is None else list(map(str, names)))
        if self._categorical(n_columns).any():
            raise ValueError("a column holds categories; scanning needs columns of numbers")

    def _read_validation(self, validation: tuple[Any, ...] | None) -> TrainingData | None:
        """Return the validation rows as numbers; raise ``ValueError`` for another form."""
        if validation is None:
            return None
        if not isinstance(validation, tuple) or len(validation) not in (2, 3):
            raise ValueError("validation is not a pair (X, y), nor (X, y, sample_weight)")
        values, y = self._read(validation[0]), np.asarray(validation[1])
        if y.shape != (len(values),):
            raise ValueError(f"validation: X has {len(values)} rows and y has the shape {y.shape}")
        weights = None if len(validation) == 2 else checked_weights(validation[2], values)
        return TrainingData(values, self._read_validation_target(y), None, weights)

    def _read_validation_target(self, y: Array) -> Target:
        return Target(np.asarray(y, np.float64), 0)

    # --- rows through the layers ---

    @property
    def n_layers_(self) -> int:
        """The number of layers that were kept."""
        check_is_fitted(self, "cascades_")
        return len(self.cascades_[0].layers)

    def _pass(self, values: Array) -> CascadePass:
        """Return rows before the first layer."""
        return self._start_pass(CascadePass, values)

    def _start_pass(self, kind: type[Pass], values: Array) -> Pass:
        strategy = self._strategy()
        room = strategy.n_next_features(self.n_learners_, self.n_outputs_)
        return kind(self.cascades_, values, strategy, self.n_outputs_, self.augment, room)

    def _predict(self, x: Any) -> Array:
        """Return the output after the last layer."""
        return self._predict_values(self._read_rows(x))

    def _predict_values(self, values: Array) -> Array:
        """Return the output for rows of numbers."""
        return self._by_block(values, self.n_outputs_, self._predict_block)

    def _predict_block(self, values: Array) -> Array:
        """Return the output for a block of rows, without any check."""
        passing = self._pass(values)
        passing.to_the_end()
        return passing.probabilities().copy()

    def _staged_predict(self, x: Any) -> Iterator[Array]:
        """Yield the output after each layer."""
        for stage in self.stages(x):
            yield stage.output

    def _read_rows(self, x: Any) -> Array:
        """Return X as numbers."""
        check_is_fitted(self, "cascades_")
        return self._read(x)

    def _by_block(self, values: Array, width: int, compute: Callable[[Array], Array]) -> Array:
        """Return what ``compute`` returns for all rows, block by block."""
        out = np.empty((len(values), width))
        return fill_by_block(out, lambda block: compute(values[block]), self.n_jobs)

    # --- contributions of the columns ---

    def predict_contributions(self, X: Any) -> Array:  # noqa: N803
        """Return how much each column adds to the prediction, rows × (columns + 1) × outputs.

        The outputs are the class probabilities in the order of ``classes_``, or the one predicted
        number. The last entry is the base value, the mean prediction for training rows, as far as
        the trees know it; base value and contributions add up to the prediction. Raise
        ``ValueError`` if a learner is a scikit-learn estimator, for which they are not known.
        """
        self._require_columns_seen()
        values = self._read_rows(X)
        out = np.empty((len(values), values.shape[1] + 1, self.n_outputs_))

        def explain(block: slice) -> Array:
            passing = self._start_pass(ContributionPass, values[block])
            passing.to_the_end()
            return passing.contributions()

        return fill_by_block(out, explain, self.n_jobs, self._rows_to_explain(values.shape[1]))

    def staged_contributions(self, X: Any) -> Iterator[Array]:  # noqa: N803
        """Yield the contributions to the prediction after each layer, as the whole cascade's.

        All rows are in memory at once: pass many rows in blocks. A row that left keeps those of the
        layer it left at.
        """
        self._require_columns_seen()
        passing = self._start_pass(ContributionPass, self._read_rows(X))
        for _ in passing.through_all():
            yield passing.contributions().copy()

    def _require_columns_seen(self) -> None:
        """Raise ``ValueError`` if the layers see scans in place of the columns."""
        check_is_fitted(self, "cascades_")
        if self.scans_:
            raise ValueError(
                "the contributions of the columns are not known for a model that scans; its "
                "feature_importances_ are"
            )

    @property
    def scans_(self) -> list[Scan]:
        """The scans of the model, in the order of its layers; empty if it does not scan."""
        check_is_fitted(self, "cascades_")
        layers = self.cascades_[0].layers
        return [layer.scan for layer in layers if layer.scan is not None]

    def _rows_to_explain(self, n_columns: int) -> int:
        """Return how many rows are explained at once, so that memory stays bounded."""
        per_row = (n_columns + 1) * self.n_outputs_ * (self.n_learners_ + 1)
        return max(1, min(EXPLAINED_ROWS, EXPLAINED_VALUES // per_row))

    # --- a look inside ---

    def stages(self, X: Any) -> Iterator[LayerOutput]:  # noqa: N803
        """Yield rows, vectors and outputs after each layer; outputs are probabilities.

        All rows are in memory at once: pass many rows in blocks. There are fewer stages than
        layers if all rows leave early.
        """
        passing = self._pass(self._read_rows(X))
        for stage in passing.through_all():
            yield stage._replace(output=passing.probabilities().copy())

    def transform(self, X: Any, layer: int | None = None) -> Array:  # noqa: N803
        """Return the vectors of all learners of a layer side by side, as a representation of rows.

        ``layer`` counts from 1; the default is the last one. A row that left earlier has the
        vectors of the layer it left at. Raise ``ValueError`` if there are not so many layers.
        """
        last = self.n_layers_ if layer is None else layer
        if not 1 <= last <= self.n_layers_:
            raise ValueError(f"layer is {layer}; the cascade has layers 1 to {self.n_layers_}")
        width = self.n_learners_ * self.n_outputs_

        def represent(values: Array) -> Array:
            result = np.empty((len(values), width))
            for number, stage in enumerate(self._pass(values).through_all(), 1):
                result[stage.rows] = np.concatenate(stage.vectors, axis=1)
                if number == last:
                    break
            return result

        return self._by_block(self._read_rows(X), width, represent)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of ``transform``."""
        check_is_fitted(self, "cascades_")
        outputs = [str(name) for name in self.classes_] if self._classifies else ["value"]
        learners = [name.replace(" ", "_").lower() for name in self._learner_names(1)]
        return np.array(
            [f"{learner}_{output}" for learner in learners for output in outputs], dtype=object
        )

    def _learner_names(self, number: int) -> list[str]:
        """Return the names of the learners of a layer."""
        return [record.name for record in self.layer_records_[number - 1].learners]

    @property
    def _classifies(self) -> bool:
        return isinstance(self, ClassifierMixin)

    def trace(self, X: Any) -> Trace:  # noqa: N803
        """Return for each row the vectors and outputs of all layers, and where it left."""
        values = self._read_rows(X)
        n, depth = len(values), self.n_layers_
        vectors = np.full((depth, self.n_learners_, n, self.n_outputs_), np.nan)
        outputs = np.full((depth, n, self.n_outputs_), np.nan)
        left_at = np.zeros(n, int)
        passing = self._pass(values)
        for number, stage in enumerate(passing.through_all()):
            vectors[number][:, stage.rows] = stage.vectors
            outputs[number][stage.rows] = passing.probabilities()[stage.rows]
            left_at[stage.rows] = number + 1
        return Trace(vectors, outputs, left_at)

    def layer_importances(self) -> list[Array]:
        """Return for each layer its learners' importances, learners × columns.

        ``layer_feature_names`` names the columns. With several cascades they are means.
        """
        check_is_fitted(self, "cascades_")
        by_layer = []
        for number in range(self.n_layers_):
            parts = [self._layer_importances(each, number) for each in self.cascades_]
            by_layer.append(np.mean(parts, axis=0))
        return by_layer

    def _layer_importances(self, cascade: FittedCascade, number: int) -> Array:
        """Return the importances of one layer, with columns that were not selected as zero."""
        own = cascade.layers[number].importances()
        sees_raw = number == 0 or self.augment != "stack"
        if cascade.selected is None or not sees_raw:
            return own
        n_selected = len(cascade.selected)
        raw = np.zeros((len(own), self.n_features_in_))
        raw[:, cascade.selected] = own[:, :n_selected]
        return np.hstack([raw, own[:, n_selected:]])

    def layer_feature_names(self, names: Sequence[str]) -> list[list[str]]:
        """Return for each layer the names of the columns it saw; ``names`` are those of X.

        All columns that a learner of the layer before added have the same name.
        """
        raw, strategy, recent = list(names), self._strategy(), RecentScans()
        seen = []
        for number, layer in enumerate(self.cascades_[0].layers):
            if layer.scan is not None:
                recent.add(layer.scan, np.zeros(0))
                raw = recent.names(getattr(self, "classes_", np.zeros(0)).tolist())
            if number == 0:  # the first layer sees the columns only
                seen.append(raw)
                continue
            added = []
            if self.augment != "none":
                added = strategy.next_feature_names(
                    number, self._learner_names(number), self.n_outputs_
                )
            seen.append(added if self.augment == "stack" else raw + added)
        return seen

    @property
    def feature_importances_(self) -> Array:
        """The share of each column of X in what was learned; see ``raw_importances``."""
        check_is_fitted(self, "cascades_")
        strategy, total = self._strategy(), np.zeros(self.n_features_in_)
        for cascade in self.cascades_:
            own = raw_importances(cascade, strategy, self.augment)
            # Columns that were not selected have no part in the cascade.
            total[slice(None) if cascade.selected is None else cascade.selected] += own
        return np.asarray(total / (total.sum() or 1.0))

    # --- saving ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted model into a folder.

        Raise ``TypeError`` if a learner is a scikit-learn estimator, which only pickle can save.
        """
        check_is_fitted(self, "cascades_")
        save_cascade(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the model that ``save`` wrote.

        Raise ``BrokenModel`` if a file is missing or damaged, or if the parts do not fit together.
        """
        return load_cascade(cls, folder)

    def _description(self) -> dict[str, Any]:
        """Return everything but arrays and models as JSON."""
        return describe_cascade(self)

    def _restore(self, description: Mapping[str, Any]) -> None:
        """Set the attributes of a fitted model that only this kind of cascade has."""


class BaseCascadeClassifier(ClassifierMixin, BaseCascade):  # type: ignore[misc]
    """Fit and predict classes; what is special to a kind of cascade is in its subclasses."""

    class_weight: str | Mapping[Any, float] | None
    calibrate: bool

    def _read_target(self, y: Array) -> Target:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            only = self.classes_.tolist()[0]
            # scikit-learn's checks look for "one class" in this message.
            raise ValueError(f"y has only one class, {only!r}; a classifier needs at least two")
        return Target(codes.astype(np.int32), self.n_classes_)

    def _fit_weights(self, y: Array, row_weights: Array | None) -> Array | None:
        """Return the product of class weight and row weight.

        Rows of weight zero do not count in how frequent a class is.
        """
        if self.class_weight is None:
            return row_weights
        if isinstance(self.class_weight, Mapping):
            if not all(0 <= weight <= LARGEST_WEIGHT for weight in self.class_weight.values()):
                raise ValueError(
                    f"class_weight is {self.class_weight}; give weights from 0 to "
                    f"{LARGEST_WEIGHT:g}"
                )
        elif self.class_weight != "balanced":
            raise ValueError(
                f"class_weight is {self.class_weight!r}; give 'balanced', a mapping or None"
            )
        if row_weights is None:
            return np.asarray(compute_sample_weight(self.class_weight, y))
        rows = np.flatnonzero(row_weights)
        weights = np.zeros(len(y))
        weights[rows] = row_weights[rows] * compute_sample_weight(self.class_weight, y[rows])
        return weights

    def _calibrates(self) -> bool:
        # The out-of-fold outputs of the papers' way are not those of new rows.
        return self.calibrate and self.resampling == "nested"

    def _requested_metric(self) -> Metric:
        scoring = self._papers_metric() if self.scoring == "auto" else self.scoring
        return resolve_metric(scoring, self.classes_)

    def _papers_metric(self) -> str:
        """Return the metric that "auto" stands for."""
        # Log loss sees every change of a probability, so that few rows prove a gain. Accuracy and
        # AUC, by which the papers grow, are noisier guides.
        if self.resampling == "nested":
            return "log_loss"
        return "auc" if self.n_classes_ == 2 else "accuracy"

    def _read_validation_target(self, y: Array) -> Target:
        # An unknown class gets the position of its neighbour, and is found by comparing.
        codes = np.searchsorted(self.classes_, y).clip(0, self.n_classes_ - 1)
        unknown = y[self.classes_[codes] != y]
        if len(unknown):
            name = unknown.tolist()[0]
            raise ValueError(f"validation: y holds {name!r}, a class without training rows")
        return Target(codes.astype(np.int32), self.n_classes_)

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the class probabilities of each row, in the order of ``classes_``."""
        return self._predict(X)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the logarithms of the class probabilities."""
        with np.errstate(divide="ignore"):  # a probability of 0 has the logarithm −inf
            return np.asarray(np.log(self.predict_proba(X)))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:  # noqa: N803
        """Return an iterator over the class probabilities after each layer."""
        return self._staged_predict(X)

    def _description(self) -> dict[str, Any]:
        return {**super()._description(), "classes": describe_classes(self.classes_)}

    def _restore(self, description: Mapping[str, Any]) -> None:
        self.classes_ = read_classes(description["classes"])
        self.n_classes_ = len(self.classes_)


def _codes(name: str, values: Any, matrix: Array) -> Array | None:
    """Return groups or times as numbers that compare like them; None if they are not given."""
    if values is None:
        return None
    column = column_or_1d(values)
    check_consistent_length(matrix, column)
    if any(is_missing(value) for value in column):
        raise ValueError(f"{name} has missing values; leave those rows out")
    try:
        return np.asarray(np.unique(column, return_inverse=True)[1])
    except TypeError as error:  # for example words and numbers
        raise ValueError(f"{name} has values that cannot be compared: {error}") from error


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or pandas' NaT or NA."""
    # Only NaN and NaT differ from themselves; NA does not compare at all.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; give one of {', '.join(map(repr, choices))}")
