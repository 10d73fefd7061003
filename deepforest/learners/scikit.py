"""Any scikit-learn estimator as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

from .._files import Pack
from ..features import Features
from .base import Fit, Fitted, Learner, Part, Task

Array = npt.NDArray[Any]


class FittedScikit(Fitted):
    """A fitted estimator."""

    kind = "scikit"

    def __init__(self, estimator: Any, n_classes: int) -> None:
        self.estimator = estimator
        self.n_classes = n_classes

    def vectors(self, features: Features) -> Array:
        """Class probabilities, or the number."""
        return self.predict(features.dense())

    def predict(self, values: Array) -> Array:
        """Class probabilities, those of classes it never saw being zero, or the number."""
        if self.n_classes == 0:
            return np.asarray(self.estimator.predict(values), float).reshape(len(values), 1)
        result = np.zeros((len(values), self.n_classes))
        result[:, self.estimator.classes_] = self.estimator.predict_proba(values)
        return result

    def importances(self, n_features: int) -> Array:
        """The estimator's own, if it has any, as shares."""
        own = np.abs(np.asarray(getattr(self.estimator, "feature_importances_", np.zeros(n_features)), float))
        return own / own.sum() if own.shape == (n_features,) and own.any() else np.zeros(n_features)

    def pack(self) -> Pack:
        """There is no plain form of any estimator there may be."""
        raise TypeError(
            f"a {type(self.estimator).__name__} has no form but a pickle, which save() and checkpoints do not use; "
            "keep the model with joblib.dump, or use the learner kinds random_forest, completely_random_forest, "
            "extra_trees and mart"
        )

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedScikit:
        """Never packed, so never unpacked."""
        raise ValueError("a scikit-learn estimator cannot be read from plain data")


@dataclass(frozen=True)
class Scikit(Learner):
    """An estimator with ``predict_proba`` (or, to learn numbers, ``predict``)."""

    kind = "scikit"

    estimator: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.estimator, "fit"):
            raise ValueError(f"{self.estimator!r} is no scikit-learn estimator")

    def prepare(self, features: Features) -> None:
        """Nothing to share: it sees the numbers."""

    def fit(self, features: Features, task: Task, part: Part) -> Fit:
        """Fit a fresh copy."""
        estimator = clone(self.estimator)
        self._check_suits(estimator, task)
        seeds = [name for name in estimator.get_params() if name.rpartition("__")[2] == "random_state"]
        estimator.set_params(**dict.fromkeys(seeds, part.seed % 2**31))
        weights = {}
        if part.weights is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{self.title} takes no sample weights, but there are some")
            weights["sample_weight"] = part.weights[part.rows]
        estimator.fit(features.dense(part.rows), task.target[part.rows], **weights)
        model = FittedScikit(estimator, task.n_classes)
        return Fit(model, model.predict(features.dense(part.told)).astype(np.float32))

    def _check_suits(self, estimator: Any, task: Task) -> None:
        if task.n_classes == 0:
            if is_classifier(estimator):
                raise ValueError(f"{self.title} tells classes, but the cascade learns numbers; give a regressor")
        elif is_regressor(estimator):
            raise ValueError(f"{self.title} learns numbers, but the cascade learns classes; give a classifier")
        elif not hasattr(estimator, "predict_proba"):
            raise ValueError(f"{self.title} has no predict_proba; wrap it in CalibratedClassifierCV")

    @property
    def title(self) -> str:
        """The name of the estimator's class."""
        return type(self.estimator).__name__

    def about(self) -> dict[str, Any]:
        """Its name and settings, the latter as text, all of it."""
        whole = {"N_CHAR_MAX": 10**6} if isinstance(self.estimator, BaseEstimator) else {}
        return {"kind": self.kind, "count": self.count, "estimator": self.estimator.__repr__(**whole)}
