"""Add classes to the cascade: labels, class weights, probabilities.

- ``CascadeClassifier``  the base of all cascades that predict classes
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
from ._fit_jobs import Checkpointer, FitEvent
from ._grow import GrowingCascade, TrainingData, read_pair
from ._input import checked_weights, describe_classes, read_classes
from .early_stopping import scorer
from .learners import Target

Array = npt.NDArray[Any]


class CascadeClassifier(ClassifierMixin, GrowingCascade):  # type: ignore[misc]
    """Fit and predict classes; what is special to a kind of cascade is in its subclasses."""

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
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Self:
        """Grow the cascade on ``X`` (an array, or a data frame) and the classes ``y``.

        Parameters
        ----------
        validation : (X, y)
            Rows that steer the growth in place of the rows each fit held out.
        checkpoint : folder or Checkpointer
            Where finished fits are saved: the same call, after a kill, repeats none of them.
        executor : Executor
            Runs the fits; by default threads of its own, ``n_jobs`` of them.
        listener : callable
            Gets an ``FitEvent`` whenever a job starts or ends, and when a layer is finished (its
            ``result`` is then the layer's ``LayerRecord``).
        cancelled : callable
            Is called often; once it returns true, the fit raises ``FitCancelled``.

        Raises
        ------
        ValueError
            If X, y, the weights or a parameter cannot be used; the message says what to give.
        """
        values, y = self._read_fit(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            only = self.classes_.tolist()[0]
            # scikit-learn's checks look for "one class" in this message.
            raise ValueError(f"y has only one class, {only!r}; a classifier needs at least two")
        # Class weights cost errors in the learners (equation 4 of Zhang et al.). They never enter a
        # score: that would no longer be the metric of the data. Row weights do.
        score_weight = None if sample_weight is None else checked_weights(sample_weight, values)
        weights = score_weight if self.class_weight is None else self._weights(y, score_weight)
        task = Target(codes.astype(np.int32), self.n_classes_)
        data = TrainingData(values, task, weights, score_weight)
        measure = scorer(self._requested_metric(), self.classes_)
        runner = self._runner(checkpoint, executor, listener, cancelled)
        return self._fit(data, measure, self._read_validation(validation), runner)

    def _weights(self, y: Array, score_weight: Array | None) -> Array:
        """Return the product of class weight and row weight.

        Rows of weight zero do not count in how frequent a class is.
        """
        if isinstance(self.class_weight, Mapping):
            if not all(weight >= 0 for weight in self.class_weight.values()):
                raise ValueError(f"class_weight is {self.class_weight}; give weights from 0")
        elif self.class_weight != "balanced":
            raise ValueError(
                f"class_weight is {self.class_weight!r}; give 'balanced', a mapping or None"
            )
        if score_weight is None:
            return np.asarray(compute_sample_weight(self.class_weight, y))
        rows = np.flatnonzero(score_weight)
        weights = np.zeros(len(y))
        weights[rows] = score_weight[rows] * compute_sample_weight(self.class_weight, y[rows])
        return weights

    def _requested_metric(self) -> str | Callable[[Array, Array], float]:
        """Return the metric that decides about growth."""
        return self.metric

    def _read_validation(self, validation: tuple[Any, Any] | None) -> TrainingData | None:
        """Return the validation rows as numbers; raise ``ValueError`` for an unknown class."""
        if validation is None:
            return None
        values, y = read_pair(self, validation)
        # An unknown class gets the position of its neighbour, and is found by comparing.
        codes = np.searchsorted(self.classes_, y).clip(0, self.n_classes_ - 1)
        unknown = y[self.classes_[codes] != y]
        if len(unknown):
            name = unknown.tolist()[0]
            raise ValueError(f"validation: y holds {name!r}, a class without training rows")
        return TrainingData(values, Target(codes.astype(np.int32), self.n_classes_), None, None)

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

    def _restore(self, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
        self.classes_ = read_classes(description["classes"])
        self.n_classes_ = len(self.classes_)
        super()._restore(description, packs)
