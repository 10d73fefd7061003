"""Predict single rows fast, for a service.

A cascade calls dozens of boosters for each row, and LightGBM's Python interface takes longer to
prepare one call than its trees to answer it. ``with_fast_predict`` replaces each booster of a model
that was loaded for this purpose by a ``FastBooster``, which prepares the call once. A
``FastCascade`` skips the checks of a matrix that the encoder has just made. The trees are the same
and are summed in the same order, so the predictions have the same bits.

Only this module uses the private interface of LightGBM.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from nodes.models.model import FittedModel, with_threads

FEW = 24
"""Up to this many rows, single calls are faster; measured for 100 trees."""
FLOAT64 = 1
RAW_SCORE = 1
"""LightGBM's codes for 64-bit floats, and for predictions that are sums over the trees."""


def with_fast_predict(model: FittedModel) -> FittedModel:
    """Return the model with fast predictions for single rows; unchanged where that is not possible.

    The boosters of ``model`` itself are replaced, so it must not be shared or saved afterwards.
    """
    if model.kind.name == "mart":
        model.estimator.booster_ = FastBooster.over(model.estimator.booster_)
    if model.kind.name == "deep-forest":
        # Cascades share learners: each is replaced once.
        for learner in {id(each): each for each in _boosted_learners(model.estimator)}.values():
            learner.booster = FastBooster.over(learner.booster)
        return replace(model, estimator=FastCascade(model.estimator))
    return model


def _boosted_learners(cascade: Any) -> Iterator[Any]:
    """Yield every fitted learner of a cascade that has a booster."""
    for each in cascade.cascades_:
        for layer in each.layers:
            for folds in layer.models:
                yield from (fitted for fitted in folds if hasattr(fitted, "booster"))


class FastCascade:
    """Predict a few rows straight through the layers; many rows as the cascade does."""

    def __init__(self, cascade: Any) -> None:
        self.cascade = cascade
        self.n_jobs = 1

    def predict_proba(self, matrix: np.ndarray) -> np.ndarray:
        """Return class probabilities, rows × classes."""
        cascade = self.cascade
        if len(matrix) > FEW:
            return np.asarray(with_threads(cascade, self.n_jobs).predict_proba(matrix))
        # The same steps as predict_proba, without its checks.
        return np.asarray(cascade._predict_block(matrix))

    def predict(self, matrix: np.ndarray) -> np.ndarray:
        """Return the predicted number of each row, if the cascade predicts numbers."""
        cascade = self.cascade
        if len(matrix) > FEW:
            return np.asarray(with_threads(cascade, self.n_jobs).predict(matrix))
        return np.asarray(cascade._predict_block(matrix))[:, 0]

    @property
    def scans_(self) -> list[Any]:
        """The scans of the cascade."""
        return list(self.cascade.scans_)

    def predict_contributions(self, matrix: np.ndarray) -> np.ndarray:
        """Return how much each column adds to the probabilities, as the cascade does."""
        return np.asarray(with_threads(self.cascade, self.n_jobs).predict_contributions(matrix))


class FastBooster:
    """Wrap a LightGBM booster with a prepared call for one row.

    It can replace the booster: other attributes are those of the booster. Threads may share it.
    """

    def __init__(self, booster: Any, library: Any) -> None:
        """Prepare the call; raise ``OSError`` if LightGBM refuses it."""
        self._booster, self._library = booster, library
        self._lock = threading.Lock()
        # LightGBM reads the row from this array and writes the result into the next one.
        self._row = np.zeros(booster.num_feature())
        self._result = np.zeros(booster.num_model_per_iteration())
        self._length = ctypes.c_int64(0)
        self._config = ctypes.c_void_p()
        # All trees: from the first one (0) to the last one (-1).
        settings = (RAW_SCORE, 0, -1, FLOAT64)
        failed = library.LGBM_BoosterPredictForMatSingleRowFastInit(
            booster._handle,
            *map(ctypes.c_int, settings),
            ctypes.c_int32(len(self._row)),
            b"num_threads=1",
            ctypes.byref(self._config),
        )
        if failed:
            raise OSError("LightGBM cannot prepare a call")
        self._arguments = (
            self._config,
            self._row.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(self._length),
            self._result.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        )

    @classmethod
    def over(cls, booster: Any) -> Any:
        """Return a fast version of ``booster``, or itself if LightGBM has no such call."""
        try:
            import lightgbm.basic

            # A later version may lack these private names: then the plain booster answers.
            return cls(booster, vars(lightgbm.basic)["_LIB"])
        except (ImportError, AttributeError, KeyError, OSError):
            return booster

    def predict(
        self,
        data: np.ndarray,
        num_threads: int = 1,
        raw_score: bool = False,
        pred_contrib: bool = False,
    ) -> np.ndarray:
        """Predict like LightGBM's ``predict``; only raw scores of a few rows are faster."""
        # Many rows are faster in one call that uses several threads.
        if not (raw_score and 0 < len(data) <= FEW and data.shape[1] == len(self._row)):
            return np.asarray(
                self._booster.predict(
                    data,
                    num_threads=num_threads,
                    raw_score=raw_score,
                    pred_contrib=pred_contrib,
                )
            )
        # All calls share the prepared buffers.
        with self._lock:
            return np.array([self._call(row) for row in data])

    def _call(self, row: np.ndarray) -> Any:
        """Return the scores of one row; the caller holds the lock."""
        self._row[:] = row
        if self._library.LGBM_BoosterPredictForMatSingleRowFast(*self._arguments):
            raise RuntimeError("LightGBM could not predict a row")
        return self._result[0] if len(self._result) == 1 else self._result.copy()

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the booster."""
        return getattr(self._booster, name)

    def __del__(self) -> None:
        """Free the prepared call, which LightGBM has allocated."""
        if getattr(self, "_config", None):
            self._library.LGBM_FastConfigFree(self._config)
