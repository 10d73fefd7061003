"""Define multi-grained scanning as a scikit-learn transformer.

- ``MultiGrainedScanner``
- ``make_scanner``, ``scanner_params``  the scanner that a parameter of a cascade describes, and its
  params as JSON
- ``plan_scan``  what its next scan is fitted with
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._fit_jobs import Checkpointer, FitEvent, make_runner
from .._input import (
    TableReader,
    TabularEstimator,
    as_json,
    check_whole,
    checked_weights,
    describe_classes,
    fill_by_block,
    json_param,
    keep_arguments,
    read_classes,
    read_params,
)
from .._layer import seed_of
from ..learners import ForestLearner, Target, make_learners
from ..persistence import BrokenModel, read_model, write_model
from .scan import Images, Scan, ScanPlan, ScanRows, fit_scan
from .windows import check_order, check_shape, make_grains, make_pooling, n_sampled, window_sizes

Array = npt.NDArray[Any]

LEARNERS = (
    {
        "kind": "random_forest",
        "n_estimators": 30,
        "max_depth": 10,
        "min_samples_leaf": 10,
    },
    {
        "kind": "completely_random_forest",
        "n_estimators": 30,
        "max_depth": 10,
        "min_samples_leaf": 10,
    },
)
CLASS_VECTORS = ("oob", "folds")


class MultiGrainedScanner(TransformerMixin, TabularEstimator):  # type: ignore[misc]
    """Turn sequences or images into class vectors of their windows (gcForest, gcForest-CS).

    A window of each size slides over the row. Forests learn the class of the row from its windows;
    the vectors of all windows are the new columns. ``fit_transform`` returns HELD-OUT vectors of
    the training rows, from trees that did not learn the row. ``fit(X, y).transform(X)`` returns
    vectors of trees that did, which a next model must not learn from.

    In a pipeline, a cascade after the scanner scores itself on vectors that contain labels of the
    rows it holds out. Its own score is then too good; use the parameter ``scan`` of the cascade,
    which scans inside of its folds, or score with other rows.

    Parameters
    ----------
    shape : (length,), (height, width) or (height, width, channels)
        What a row of X is; its columns are in reading order, with the channels of a pixel side by
        side.
    windows : "auto", "fine" or list
        Window sizes: lengths, or (height, width), or a number for a square. "auto" is 1/16, 1/8 and
        1/4 of the values of a row, as in gcForest; "fine" only 1/16, as in gcForest-CS. A window
        spans all channels.
    stride : int
        Steps from one position of a window to the next.
    sample : int, float or None
        How many positions of each size are used, as a number or a share; None: all. They are drawn
        at random, the same for all rows. Positions where all rows are equal are drawn last.
    learners : list
        Forests, as in a cascade: each learns the windows of each size.
    class_vectors : "oob" or "folds"
        Where the vectors of training rows come from: from trees that have no window of the row in
        their bag, or from forests of other folds.
    cv : int
        Number of folds. With ``groups``, folds are used in any case.
    pooling : ("mean" or "max", size) or None
        Merge the vectors of size × size neighbouring positions; only if all positions are used.
    n_jobs : int or None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random draws.

    Attributes
    ----------
    scan_ : the fitted scan, with ``grains`` and ``recalls`` (how many rows of each class a position
        predicts right, held out)
    classes_, n_features_in_, feature_names_in_
    """

    categorical_features = None

    def __init__(
        self,
        shape: Any,
        *,
        windows: Any = "auto",
        stride: int = 1,
        sample: int | float | None = None,
        learners: Any = LEARNERS,
        class_vectors: str = "oob",
        cv: int = 3,
        pooling: tuple[str, int] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        keep_arguments(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Self:  # noqa: N803
        """Fit the forests; ``options`` are those of ``fit_transform``."""
        self.fit_transform(X, y, sample_weight, **options)
        return self

    def fit_transform(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        checkpoint: str | Path | Checkpointer | None = None,
        executor: Executor | None = None,
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Array:
        """Fit the forests and return the held-out class vectors of the rows, as float32.

        The options are those of ``fit`` of a cascade. Raise ``ValueError`` if X, y or a parameter
        cannot be used.
        """
        values, y = self._read_fit(X, y)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y has only one class, {classes.tolist()[0]!r}; give at least two")
        target = Target(codes.astype(np.int32), len(classes))
        names = getattr(self, "feature_names_in_", None)
        check_columns(self, values.shape[1], None if names is None else list(map(str, names)))
        if self.table_ is not None and any(self.table_.categorical):
            raise ValueError(
                f"column {self.table_.names[int(np.argmax(self.table_.categorical))]!r} does not "
                "hold numbers; scanning needs columns of numbers"
            )
        weights = None if sample_weight is None else checked_weights(sample_weight, values)
        training = np.arange(len(values)) if weights is None else np.flatnonzero(weights)
        if len(training) < 2:
            raise ValueError(f"there are {len(training)} rows with a weight; give at least 2")
        if groups is not None:
            groups = np.unique(column_or_1d(groups), return_inverse=True)[1]
        blind = np.setdiff1d(np.arange(len(values)), training, assume_unique=True)
        images = Images(values, check_shape(self.shape))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        plan = plan_scan(self, images, seed)
        with make_runner(self.n_jobs, checkpoint, executor, listener, cancelled) as runner:
            rows = ScanRows(training, blind, weights, groups)
            self.scan_, vectors = fit_scan(plan, images, target, rows, runner)
        self.classes_ = classes
        return vectors

    def transform(self, X: Any) -> Array:  # noqa: N803
        """Return the class vectors of rows, float32: the mean over fold models or all trees."""
        check_is_fitted(self, "scan_")
        values = self._read(X)
        out = np.empty((len(values), self.scan_.width), np.float32)
        return fill_by_block(out, lambda block: self.scan_.vectors(values[block]), self.n_jobs)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, such as "7x7@(3,4) random_forest class 2"."""
        check_is_fitted(self, "scan_")
        return np.array(self.scan_.names(self.classes_.tolist()), dtype=object)

    # --- saving ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted scanner into a folder as arrays and JSON, without pickle."""
        check_is_fitted(self, "scan_")
        names = getattr(self, "feature_names_in_", None)
        table = None
        if self.table_ is not None:
            table = {"names": self.table_.names, "levels": self.table_.levels}
        description = {
            "class": type(self).__name__,
            "params": scanner_params(self),
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
            "table": table,
            "classes": describe_classes(self.classes_),
        }
        write_model(folder, description, self.scan_.pack("scan"))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the scanner that ``save`` wrote.

        Raise ``BrokenModel`` if the folder holds another class, or a file is missing or damaged.
        """
        description, packs = read_model(folder)
        held = description.get("class")
        if held != cls.__name__:
            raise BrokenModel(f"{folder} holds a {held}, not a {cls.__name__}")
        try:
            model = cls(**read_params(description["params"]))
            model.n_features_in_ = int(description["n_features"])
            if description["feature_names"] is not None:
                model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
            table = description["table"]
            model.table_ = None if table is None else TableReader(table["names"], table["levels"])
            model.classes_ = read_classes(description["classes"])
            model.scan_ = Scan.unpack(packs, "scan", len(model.classes_))
            check_shape(model.scan_.shape, model.n_features_in_)
        except Exception as error:  # whatever it is, the folder is to blame
            raise BrokenModel(f"{folder} does not hold a whole {cls.__name__}: {error}") from error
        return model


def make_scanner(scan: Any) -> MultiGrainedScanner:
    """Return a copy of a scanner, or the scanner of a mapping of its params.

    Raise ``ValueError`` for anything else, and for a parameter that cannot be used.
    """
    if isinstance(scan, MultiGrainedScanner):
        scanner: MultiGrainedScanner = clone(scan)
    elif isinstance(scan, Mapping):
        try:
            scanner = MultiGrainedScanner(**scan)
        except TypeError as error:
            raise ValueError(f"scan is {dict(scan)!r}: {error}") from error
    else:
        raise ValueError(
            f"scan is {scan!r}; give a MultiGrainedScanner, its params as a mapping, or None"
        )
    check_columns(scanner)
    return scanner


def scanner_params(scanner: MultiGrainedScanner) -> dict[str, Any]:
    """Return the params of a scanner as JSON; ``n_jobs`` belongs to the machine of the fit."""
    params = {}
    for name, value in scanner.get_params(deep=False).items():
        if name == "learners":
            params[name] = [learner.about() for learner in make_learners(value)]
        elif name != "n_jobs":
            params[name] = json_param(name, as_json(value))
    return params


def check_columns(
    scanner: MultiGrainedScanner, n_columns: int | None = None, names: list[str] | None = None
) -> None:
    """Raise ``ValueError`` for params that cannot be used, or that do not match the columns."""
    shape = check_shape(scanner.shape, n_columns)
    if names is not None:
        check_order(names, shape)
    check_whole("stride", scanner.stride, 1)
    check_whole("cv", scanner.cv, 2)
    if scanner.class_vectors not in CLASS_VECTORS:
        raise ValueError(f"class_vectors is {scanner.class_vectors!r}; give 'oob' or 'folds'")
    make_pooling(scanner.pooling, scanner.sample)
    for size in window_sizes(shape, scanner.windows):
        if scanner.sample is not None:
            n = 1
            for length, side in zip(shape, size, strict=False):
                n *= (length - side) // scanner.stride + 1
            n_sampled(scanner.sample, n, " × ".join(map(str, size)))
    _forests(scanner)


def _forests(scanner: MultiGrainedScanner) -> tuple[ForestLearner, ...]:
    """Return the learners; raise ``ValueError`` for one that is not a forest."""
    forests = []
    for learner in make_learners(scanner.learners):
        if not isinstance(learner, ForestLearner):
            raise ValueError(
                f"a {learner.title} learner cannot learn from windows; scanning takes "
                "random_forest, completely_random_forest and extra_trees"
            )
        forests.append(learner)
    return tuple(forests)


def plan_scan(scanner: MultiGrainedScanner, images: Images, seed: int) -> ScanPlan:
    """Return what a scan of these rows is fitted with; another seed draws other positions."""
    shape = check_shape(scanner.shape)
    grains = make_grains(
        shape, scanner.windows, scanner.stride, scanner.sample, images.varies, seed_of(seed, 0)
    )
    return ScanPlan(
        shape,
        grains,
        _forests(scanner),
        scanner.class_vectors == "oob",
        scanner.cv,
        make_pooling(scanner.pooling, scanner.sample),
        seed_of(seed, 1),
    )
