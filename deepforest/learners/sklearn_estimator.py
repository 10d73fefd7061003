"""Use any scikit-learn estimator as a learner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

from .._features import Features
from ..persistence import Pack
from .base import Fit, FitSlice, Fitted, Learner, Target

Array = npt.NDArray[Any]


class FittedScikit(Fitted):
    """Predict with a fitted estimator."""

    kind = "scikit"

    def __init__(self, estimator: Any, n_classes: int) -> None:
        self.estimator = estimator
        self.n_classes = n_classes

    def vectors(self, features: Features) -> Array:
        """Return class probabilities, or the predicted number."""
        return self.predict(features.dense())

    def predict(self, values: Array) -> Array:
        """Return class probabilities, zero for classes without training rows, or the number."""
        if self.n_classes == 0:
            return np.asarray(self.estimator.predict(values), float).reshape(len(values), 1)
        result = np.zeros((len(values), self.n_classes))
        result[:, self.estimator.classes_] = self.estimator.predict_proba(values)
        return result

    @property
    def title(self) -> str:
        """The name of the estimator's class."""
        return type(self.estimator).__name__

    def importances(self, n_features: int) -> Array:
        """Return the estimator's own importances as shares; all zero if it has none."""
        own = getattr(self.estimator, "feature_importances_", np.zeros(n_features))
        sizes = np.abs(np.asarray(own, float))
        if sizes.shape != (n_features,) or not sizes.any():
            return np.zeros(n_features)
        return np.asarray(sizes / sizes.sum())

    def pack(self) -> Pack:
        """Raise ``TypeError``: an estimator of any class can only be pickled."""
        raise TypeError(
            f"a {type(self.estimator).__name__} can only be saved as a pickle, which save() and "
            "checkpoints do not use; save the model with joblib.dump, or use the learner kinds "
            "random_forest, completely_random_forest, extra_trees and mart"
        )

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedScikit:
        """Raise ``ValueError``: it is never packed."""
        raise ValueError("a scikit-learn estimator cannot be read from plain data")


@dataclass(frozen=True)
class Scikit(Learner):
    """Fit a copy of an estimator with ``predict_proba`` (for numbers, with ``predict``)."""

    kind = "scikit"

    estimator: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not hasattr(self.estimator, "fit"):
            raise ValueError(f"{self.estimator!r} is not a scikit-learn estimator")

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Fit a clone of the estimator, with the seed of ``part`` as its random state.

        Raise ``ValueError`` if it cannot learn this target or does not take sample weights.
        """
        estimator = clone(self.estimator)
        self._check_suits(estimator, target)
        # Also those of estimators inside, such as ``estimator__random_state``.
        seeds = [
            name for name in estimator.get_params() if name.rpartition("__")[2] == "random_state"
        ]
        estimator.set_params(**dict.fromkeys(seeds, part.seed % 2**31))
        weights = {}
        if part.weights is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{self.title} takes no sample weights, but there are some")
            weights["sample_weight"] = part.weights[part.rows]
        estimator.fit(features.dense(part.rows), target.values[part.rows], **weights)
        model = FittedScikit(estimator, target.n_classes)
        return Fit(model, model.predict(features.dense(part.predict_rows)).astype(np.float32))

    def _check_suits(self, estimator: Any, target: Target) -> None:
        """Raise ``ValueError`` unless the estimator predicts what the cascade learns."""
        if target.n_classes == 0:
            if is_classifier(estimator):
                raise ValueError(
                    f"{self.title} learns classes, but the cascade learns numbers; give a regressor"
                )
        elif is_regressor(estimator):
            raise ValueError(
                f"{self.title} learns numbers, but the cascade learns classes; give a classifier"
            )
        elif not hasattr(estimator, "predict_proba"):
            raise ValueError(
                f"{self.title} has no predict_proba; wrap it in CalibratedClassifierCV"
            )

    @property
    def title(self) -> str:
        """The name of the estimator's class."""
        return type(self.estimator).__name__

    def about(self) -> dict[str, Any]:
        """Return name and params, the latter as the complete text of the estimator.

        Checkpoints are named by it, so scikit-learn must not shorten the text.
        """
        whole = {"N_CHAR_MAX": 10**6} if isinstance(self.estimator, BaseEstimator) else {}
        return {
            "kind": self.kind,
            "count": self.count,
            "estimator": self.estimator.__repr__(**whole),
        }
