"""A model that answers for a few rows without delay.

A cascade asks dozens of boosters about each row, and LightGBM's Python interface takes longer to prepare one question
than its trees to answer it. ``with_fast_predict`` puts a ``FastBooster`` in the place of
each booster of a model that was
loaded for this purpose: it prepares the question once. A ``FastCascade`` leaves out the checks of a matrix that the
encoder has just made. The trees are the same and are added up in the same order, so the answers are the same, to the
last bit.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodes.models.learners import DeepForest
from nodes.models.model import FittedModel

if TYPE_CHECKING:
    import numpy as np

FEW = 24
"""Rows up to which asking one by one is quicker, as measured for 100 trees."""
FLOAT64 = 1
RAW_SCORE = 1
"""How LightGBM calls 64-bit floats, and predictions that are sums over the trees."""


def with_fast_predict(model: FittedModel) -> FittedModel:
    """The same model, quick for single rows; where that is not possible, as it was."""
    for owner in _owners_of_boosters(model.learner):
        owner.booster = FastBooster.over(owner.booster)
    if isinstance(model.learner, DeepForest):
        quick: Any = FastCascade(**vars(model.learner))
        return replace(model, learner=quick)
    return model


def _owners_of_boosters(learner: Any) -> Iterator[Any]:
    if hasattr(learner, "booster"):
        yield learner
    for layer in getattr(getattr(learner, "cascade", None), "estimators_", ()):
        for models in layer.models:
            yield from (model for model in models if hasattr(model, "booster"))


class FastCascade(DeepForest):
    """A deep forest that takes a few rows straight through its layers."""

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities."""
        import numpy as np

        if not 0 < len(matrix) <= FEW:
            return super().predict_proba(matrix, threads)
        values = matrix if self.cascade.selected_ is None else matrix[:, self.cascade.selected_]
        *_, last = self.cascade._stages(self.cascade._features(values))
        return np.asarray(self.cascade._scaled(last.output))


class FastBooster:
    """A LightGBM booster that keeps a question for one row ready."""

    def __init__(self, booster: Any, library: Any) -> None:
        import numpy as np

        self._booster, self._library = booster, library
        self._lock = threading.Lock()
        self._row = np.zeros(booster.num_feature())
        self._answer = np.zeros(booster.num_model_per_iteration())
        self._length = ctypes.c_int64(0)
        self._question = ctypes.c_void_p()
        arguments = (ctypes.c_int(RAW_SCORE), ctypes.c_int(0), ctypes.c_int(-1), ctypes.c_int(FLOAT64))
        failed = library.LGBM_BoosterPredictForMatSingleRowFastInit(
            booster._handle, *arguments, ctypes.c_int32(len(self._row)), b"num_threads=1", ctypes.byref(self._question)
        )
        if failed:
            raise OSError("LightGBM keeps no question ready")
        self._ask = (
            self._question,
            self._row.ctypes.data_as(ctypes.c_void_p),
            ctypes.byref(self._length),
            self._answer.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        )

    @classmethod
    def over(cls, booster: Any) -> Any:
        """A quick one over ``booster``, or itself if this LightGBM has no such thing."""
        try:
            import lightgbm.basic

            return cls(booster, vars(lightgbm.basic)["_LIB"])
        except (ImportError, AttributeError, KeyError, OSError):
            return booster

    def predict(self, data: np.ndarray, num_threads: int = 1, raw_score: bool = False) -> np.ndarray:
        """As LightGBM's own ``predict``; only scores are answered quickly."""
        import numpy as np

        if not (raw_score and 0 < len(data) <= FEW and data.shape[1] == len(self._row)):
            return np.asarray(self._booster.predict(data, num_threads=num_threads, raw_score=raw_score))
        with self._lock:
            return np.array([self._asked(row) for row in data])

    def _asked(self, row: np.ndarray) -> Any:
        self._row[:] = row
        if self._library.LGBM_BoosterPredictForMatSingleRowFast(*self._ask):
            raise RuntimeError("LightGBM could not predict a row")
        return self._answer[0] if len(self._answer) == 1 else self._answer.copy()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._booster, name)

    def __del__(self) -> None:
        if getattr(self, "_question", None):
            self._library.LGBM_FastConfigFree(self._question)
