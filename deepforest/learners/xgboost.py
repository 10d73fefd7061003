"""Define gradient-boosted trees by XGBoost as a learner; the package is optional."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from .._features import Features
from .._input import check_whole
from ..arithmetic import class_probabilities
from ..contributions import through_softmax
from ..persistence import Pack
from ..xgboost_text import check_text, objective_of
from .base import Fit, FitSlice, Fitted, Learner, OpenPort, RankOfFit, Target, check_share

Array = npt.NDArray[Any]

MISSING = (
    "XGBoost is not installed; install it with pip install 'sylva-studio[cluster]', or use mart"
)
CLOSE_SECONDS = 60
SILENT_SECONDS = 120
"""How long a process waits for the sums of another one; a lost one is noticed much sooner."""
RETRIES = 2


def is_installed() -> bool:
    """Return whether XGBoost can be imported."""
    return find_spec("xgboost") is not None


def _xgboost() -> Any:
    """Import XGBoost; raise ``ValueError`` if it is not installed."""
    try:
        return importlib.import_module("xgboost")
    except ImportError:
        raise ValueError(MISSING) from None


class FittedXgboost(Fitted):
    """Predict with boosted trees of XGBoost."""

    kind = "xgboost"

    def __init__(self, booster: Any, n_classes: int) -> None:
        self.booster = booster
        self.n_classes = n_classes

    def vectors(self, features: Features) -> Array:
        """Return class probabilities, or the predicted number."""
        return self.predict(features.dense())

    def predict(self, values: Array) -> Array:
        """Return class probabilities, or the predicted number, for a matrix of numbers."""
        if not len(values):
            return np.empty((0, max(self.n_classes, 1)))
        # XGBoost's own probabilities use the exponential of the C library, whose bits differ
        # between processors.
        raw = self.booster.predict(self._matrix(values), output_margin=True)
        scores = np.asarray(raw, np.float64).reshape(len(values), -1)
        return class_probabilities(scores) if self.n_classes else scores

    def contributions(self, features: Features) -> Array:
        """Return the Shapley values of the scores, carried over to the probabilities."""
        values = features.dense()
        n_scores = self.n_classes if self.n_classes > 2 else 1
        if not len(values):
            return np.empty((0, features.n_features + 1, max(self.n_classes, 1)))
        raw = self.booster.predict(self._matrix(values), pred_contribs=True)
        by_score = np.asarray(raw, np.float64).reshape(len(values), n_scores, -1)
        of_scores = by_score.transpose(0, 2, 1)
        return through_softmax(of_scores) if self.n_classes else of_scores

    def importances(self, n_features: int) -> Array:
        """Return the importances by the gain of the splits."""
        gains = np.zeros(n_features)
        for name, gain in self.booster.get_score(importance_type="total_gain").items():
            gains[int(name.removeprefix("f"))] = gain
        return gains / (gains.sum() or 1.0)

    def pack(self) -> Pack:
        """Return XGBoost's own JSON."""
        return Pack({"kind": self.kind}, text=bytes(self.booster.save_raw("json")).decode())

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedXgboost:
        """Return the booster; raise ``ValueError`` unless the text describes valid trees."""
        check_text(pack.text, n_features, n_classes)
        xgboost = _xgboost()
        try:
            booster = xgboost.Booster({"nthread": 1}, model_file=bytearray(pack.text.encode()))
        except xgboost.core.XGBoostError as error:
            raise ValueError(f"XGBoost cannot read the model: {error}") from None
        return cls(booster, n_classes)

    def _matrix(self, values: Array) -> Any:
        """Return values in XGBoost's own form."""
        types = self.booster.feature_types
        is_category = np.array([each == "c" for each in types])
        return _xgboost().DMatrix(
            _known_categories(values, is_category),
            feature_types=types,
            enable_categorical=True,
            nthread=1,
        )


@dataclass(frozen=True)
class Xgboost(Learner):
    """Boost trees by XGBoost; the settings mean the same as those of ``Mart``.

    ``min_child_weight`` is the smallest sum of second derivatives in a leaf. With ``ranks``, so
    many processes carry out each fit together.
    """

    kind = "xgboost"

    n_estimators: int = 50
    learning_rate: float = 0.1
    max_depth: int | None = 6
    min_child_weight: float = 1.0
    subsample: float = 0.8
    colsample_bytree: float = 0.8
    ranks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("n_estimators of xgboost", self.n_estimators, 1)
        check_whole("ranks of xgboost", self.ranks, 1)
        if self.max_depth is not None:
            check_whole("max_depth of xgboost", self.max_depth, 1)
        for name in ("learning_rate", "subsample", "colsample_bytree"):
            check_share(f"{name} of xgboost", getattr(self, name))
        weight = self.min_child_weight
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise ValueError(f"min_child_weight of xgboost is {weight!r}; give a number from 0 on")
        if not is_installed():
            raise ValueError(MISSING)

    @property
    def n_ranks(self) -> int:
        """How many processes carry out a fit together."""
        return self.ranks

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Fit on the rows of ``part``, with bins of their own."""
        return self._finish(self._boost(features, target, part), features, target, part)

    def fit_rank(self, features: Features, target: Target, part: FitSlice, rank: RankOfFit) -> Fit:
        """Fit as one of several processes: each adds up its own rows, all find the same trees."""
        with _connected(rank):
            booster = self._boost(features, target, part)
        rank.open_port.close()
        return self._finish(booster, features, target, part)

    def open_port(self, number: int, host: str) -> OpenPort:
        """Return a port; the first process brings the others together at its own."""
        return OpenPort() if number else _Tracker(self.ranks, host)

    def _finish(self, booster: Any, features: Features, target: Target, part: FitSlice) -> Fit:
        """Return the model and its vectors."""
        # One that is read from its JSON predicts the same, and does not hold its training rows.
        text = bytes(booster.save_raw("json")).decode()
        pack = Pack({"kind": self.kind}, text=text)
        model = FittedXgboost.unpack(pack, features.n_features, target.n_classes)
        vectors = model.predict(features.dense(part.predict_rows))
        return Fit(model, vectors.astype(np.float32))

    def _boost(self, features: Features, target: Target, part: FitSlice) -> Any:
        """Return a fitted Booster."""
        xgboost = _xgboost()
        n_raw = features.n_raw
        # The class vectors of the layer before follow the columns of the table.
        is_category = np.zeros(features.n_features, bool)
        is_category[:n_raw] = features.categorical[:n_raw]
        data = xgboost.QuantileDMatrix(
            _known_categories(features.dense(part.rows), is_category),
            target.values[part.rows],
            weight=None if part.weights is None else part.weights[part.rows],
            feature_types=np.where(is_category, "c", "q").tolist(),
            enable_categorical=True,
            nthread=1,
        )
        booster = xgboost.Booster(self._settings(target.n_classes, part), [data])
        for number in range(self.n_estimators):
            part.interrupt()
            booster.update(data, number)
        return booster

    def _settings(self, n_classes: int, part: FitSlice) -> dict[str, Any]:
        """Return the parameters of XGBoost."""
        settings = {
            "objective": objective_of(n_classes),
            "tree_method": "hist",
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth or 0,
            "min_child_weight": self.min_child_weight,
            "subsample": self.subsample,
            "colsample_bytree": self.colsample_bytree,
            "seed": part.seed % 2**31,
            "verbosity": 0,
            # With more threads sums are added up in another order.
            "nthread": 1,
        }
        return settings | ({"num_class": n_classes} if n_classes > 2 else {})


class _Tracker(OpenPort):
    """Introduce the processes of a fit to each other, at a port of the first of them."""

    def __init__(self, n_ranks: int, host: str) -> None:
        _xgboost()
        tracker = importlib.import_module("xgboost.tracker").RabitTracker
        # By number: else the order of sums would differ from fit to fit.
        self._tracker = tracker(n_workers=n_ranks, host_ip=host, sortby="task")
        self._tracker.start()
        self.port = int(self._tracker.worker_args()["dmlc_tracker_port"])

    def close(self) -> None:
        """End it; the processes have finished or failed."""
        self._tracker.wait_for(CLOSE_SECONDS)
        self._tracker.free()


def _connected(rank: RankOfFit) -> Any:
    """Return a context in which the processes of a fit are connected."""
    collective = importlib.import_module("xgboost.collective")
    host, _, port = rank.machines.partition(",")[0].rpartition(":")
    return collective.CommunicatorContext(
        dmlc_communicator="rabit",
        dmlc_tracker_uri=host,
        dmlc_tracker_port=int(port),
        dmlc_task_id=f"{rank.number:06}",
        dmlc_retry=RETRIES,
        dmlc_timeout=SILENT_SECONDS,
    )


def _known_categories(values: Array, is_category: Array) -> Array:
    """Return the values; negative codes of categories are missing, which XGBoost would refuse."""
    if is_category.any() and (values[:, is_category] < 0).any():
        values = np.array(values)
        values[(values < 0) & is_category] = np.nan
    return values
