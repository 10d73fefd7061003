"""Define gradient-boosted trees (MART) by LightGBM as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import large_arrays
from .._features import Features
from .._input import check_whole
from .._lightgbm import SETTINGS, lightgbm_threads, rows_of
from .._renamed import LEARNER_NAMES, accept_old_names
from ..arithmetic import class_probabilities
from ..contributions import score_contributions, through_softmax
from ..lightgbm_text import check_text, trees_only
from ..persistence import Pack
from .base import Fit, FitSlice, Fitted, Learner, RankOfFit, Target, check_share

Array = npt.NDArray[Any]

CONNECT_MINUTES = 1
"""How long LightGBM tries to reach the other processes of a fit; its own default is two hours."""


class FittedMart(Fitted):
    """Predict with boosted trees."""

    kind = "mart"

    def __init__(self, booster: Any, n_classes: int) -> None:
        self.booster = booster
        self.n_classes = n_classes

    def vectors(self, features: Features) -> Array:
        """Return class probabilities, or the predicted number."""
        return self.predict(features.dense())

    def predict(self, values: Array) -> Array:
        """Return class probabilities, or the predicted number, for a matrix of numbers."""
        # One thread: a caller with many rows runs several blocks of them in parallel.
        with lightgbm_threads(1):
            return self._predict(values, 1)

    def _predict(self, values: Array, n_jobs: int) -> Array:
        """Predict in ``n_jobs`` threads; call it in a block of ``lightgbm_threads``."""
        if not len(values):
            return np.empty((0, max(self.n_classes, 1)))
        values = np.ascontiguousarray(values)
        # LightGBM's own probabilities use the exponential of the C library, whose bits differ
        # between processors.
        raw = self.booster.predict(values, num_threads=n_jobs, raw_score=True)
        scores = np.asarray(raw).reshape(len(values), -1)
        return class_probabilities(scores) if self.n_classes else scores

    def contributions(self, features: Features) -> Array:
        """Return the Shapley values of the scores, carried over to the probabilities."""
        with lightgbm_threads(1):
            of_scores = score_contributions(self.booster, features.dense())
        return through_softmax(of_scores) if self.n_classes else of_scores

    def importances(self, n_features: int) -> Array:
        """Return the importances by the gain of the splits."""
        gains = self.gains()
        return gains / (gains.sum() or 1.0)

    def gains(self) -> Array:
        """Return how much the splits on each feature lowered the loss, over all trees."""
        return np.asarray(self.booster.feature_importance("gain"), np.float64)

    def pack(self) -> Pack:
        """Return LightGBM's own text format."""
        return Pack({"kind": self.kind}, text=trees_only(self.booster.model_to_string()))

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedMart:
        """Return the booster; raise ``ValueError`` unless the text describes valid trees."""
        import lightgbm

        check_text(pack.text, regression=n_classes == 0)
        try:
            booster = lightgbm.Booster(model_str=pack.text)
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot read the model: {error}") from None
        if booster.num_feature() != n_features or booster.num_model_per_iteration() != _per_round(
            n_classes
        ):
            raise ValueError("LightGBM's text is of other features or classes")
        return cls(booster, n_classes)


@accept_old_names(LEARNER_NAMES)
@dataclass(frozen=True)
class Mart(Learner):
    """Boost trees: each one corrects the errors of those before it.

    There are ``n_estimators`` rounds of one tree per class (one for two classes), with at most
    ``num_leaves`` leaves of at least ``min_samples_leaf`` rows. Each tree sees the share
    ``subsample`` of the rows and ``colsample_bytree`` of the columns; this makes several learners
    of a layer different. With ``ranks``, so many processes carry out each fit together.
    """

    kind = "mart"
    view = "dataset"

    n_estimators: int = 50
    learning_rate: float = 0.1
    num_leaves: int = 31
    max_depth: int | None = None
    min_samples_leaf: int = 20
    subsample: float = 0.8
    colsample_bytree: float = 0.8
    ranks: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("n_estimators of mart", self.n_estimators, 1)
        check_whole("num_leaves of mart", self.num_leaves, 2)
        check_whole("min_samples_leaf of mart", self.min_samples_leaf, 1)
        check_whole("ranks of mart", self.ranks, 1)
        if self.max_depth is not None:
            check_whole("max_depth of mart", self.max_depth, 1)
        for name in ("learning_rate", "subsample", "colsample_bytree"):
            check_share(f"{name} of mart", getattr(self, name))

    @property
    def n_ranks(self) -> int:
        """How many processes carry out a fit together."""
        return self.ranks

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Fit on the rows of ``part``, which share the bins of all rows."""
        settings = self._settings(target.n_classes, part, len(part.rows))
        return self._fit(features, target, part, part.rows, settings)

    def fit_rank(self, features: Features, target: Target, part: FitSlice, rank: RankOfFit) -> Fit:
        """Fit as one of several processes: each adds up its own rows, all find the same trees."""
        rank.open_port.close()  # LightGBM opens it itself
        settings = self._settings(target.n_classes, part, rank.fewest) | {
            "tree_learner": "data",
            "pre_partition": True,
            "machines": rank.machines,
            "num_machines": self.ranks,
            "local_listen_port": rank.open_port.port,
            "time_out": CONNECT_MINUTES,
        }
        return self._fit(features, target, part, rank.positions, settings)

    def _fit(
        self,
        features: Features,
        target: Target,
        part: FitSlice,
        positions: Array,
        settings: dict[str, Any],
    ) -> Fit:
        """Fit on the rows of ``part``, which have these positions in the Dataset."""
        data = features.dataset()
        with lightgbm_threads(part.n_jobs, part.interrupt):
            booster = self._boost(data, target, part, positions, settings)
            model = FittedMart(booster, target.n_classes)
            rows = part.predict_rows
            vectors = large_arrays.empty((len(rows), target.n_outputs), np.float32)
            for block in large_arrays.blocks(len(rows), 8 * features.n_features):
                part.interrupt()
                vectors[block] = model._predict(features.dense(rows[block]), part.n_jobs)
        return Fit(model, vectors)

    def _boost(
        self,
        features: Any,
        target: Target,
        part: FitSlice,
        positions: Array,
        settings: dict[str, Any],
    ) -> Any:
        """Return a fitted Booster without what only training needs."""
        import lightgbm

        # It shares the bins of the whole Dataset, so that binning is not repeated per fold.
        data = rows_of(features, positions, part.n_jobs)
        data.set_label(target.values[part.rows])
        if part.weights is not None:
            data.set_weight(part.weights[part.rows])
        booster = lightgbm.Booster(settings, data)
        for _ in range(self.n_estimators):
            part.interrupt()
            if booster.update():  # no tree can split any more
                break
        # A Booster holds the histograms of its training, hundreds of megabytes for wide tables. One
        # that is read from the text predicts the same, bit for bit.
        return lightgbm.Booster(model_str=trees_only(booster.model_to_string()))

    def _settings(self, n_classes: int, part: FitSlice, n_rows: int) -> dict[str, Any]:
        """Return the parameters of LightGBM for a process with ``n_rows`` training rows."""
        objective = {0: "regression", 2: "binary"}.get(n_classes, "multiclass")
        # A bag must not be empty: with very few rows, each tree sees all of them.
        draws_rows = 1 <= self.subsample * n_rows < n_rows
        return {
            **SETTINGS,
            "num_threads": part.n_jobs,
            "objective": objective,
            "num_class": _per_round(n_classes),
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "max_depth": -1 if self.max_depth is None else self.max_depth,
            "min_data_in_leaf": self.min_samples_leaf,
            "feature_fraction": self.colsample_bytree,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1 if draws_rows else 0,
            "seed": part.seed % 2**31,
            # The same trees for any number of threads; for that, LightGBM needs a fixed layout.
            "deterministic": True,
            "force_col_wise": True,
        }


def _per_round(n_classes: int) -> int:
    """Return the number of trees in a round."""
    return n_classes if n_classes > 2 else 1
