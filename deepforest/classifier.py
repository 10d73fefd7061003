"""What the cascades of classes share: labels, class weights, probabilities.

- ``CascadeClassifier``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from ._files import Pack
from ._input import checked_weights, describe_classes, read_classes
from .growing import Given, GrowingCascade, read_pair
from .growth import scorer
from .jobs import Checkpointer, Event
from .learners import Task

Array = npt.NDArray[Any]


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
            Is told an ``Event`` whenever a job starts or ends, and when a layer is finished (its ``result`` is then the
            layer's ``LayerRecord``).
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
        if isinstance(self.class_weight, Mapping):
            if not all(weight >= 0 for weight in self.class_weight.values()):
                raise ValueError(f"class_weight is {self.class_weight}; give weights from 0")
        elif self.class_weight != "balanced":
            raise ValueError(f"class_weight is {self.class_weight!r}; give 'balanced', a mapping or None")
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
        values, y = read_pair(self, validation)
        codes = np.searchsorted(self.classes_, y).clip(0, self.n_classes_ - 1)
        unknown = y[self.classes_[codes] != y]
        if len(unknown):
            raise ValueError(f"validation: y holds {unknown.tolist()[0]!r}, a class that the training rows do not have")
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
        return {**super()._description(), "classes": describe_classes(self.classes_)}

    def _restore(self, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
        self.classes_ = read_classes(description["classes"])
        self.n_classes_ = len(self.classes_)
        super()._restore(description, packs)
