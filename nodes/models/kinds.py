"""What an estimator has learned, in the form in which models are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodes.models.learners import DeepForest, ExtraTrees, Learner, LogisticRegression, Mart, Mlp, RandomForest
from nodes.models.learners.forests import ForestArrays
from nodes.models.learners.mart import from_text


def learner_of(estimator: Any) -> Learner:
    """The learner that predicts as the fitted estimator does; ``TypeError`` if there is none."""
    for base in type(estimator).__mro__:
        if base.__name__ in LEARNED:
            return LEARNED[base.__name__](estimator)
    raise TypeError(f"a {type(estimator).__name__} cannot be kept; give one of {', '.join(LEARNED)}")


def _forest(kind: type[RandomForest | ExtraTrees], forest: Any) -> Learner:
    arrays = ForestArrays.of([tree.tree_ for tree in forest.estimators_])
    return kind(columns=forest.n_features_in_, classes=forest.n_classes_, arrays=arrays)


LEARNED: Mapping[str, Callable[[Any], Learner]] = {
    "Booster": lambda booster: Mart(booster=from_text(booster.model_to_string())),
    "CascadeClassifier": lambda cascade: DeepForest(cascade=cascade),
    "RandomForestClassifier": lambda forest: _forest(RandomForest, forest),
    "ExtraTreesClassifier": lambda forest: _forest(ExtraTrees, forest),
    "LogisticRegression": lambda fitted: LogisticRegression(weights=fitted.coef_, intercepts=fitted.intercept_),
    "MLPClassifier": lambda network: Mlp(weights=list(network.coefs_), intercepts=list(network.intercepts_)),
}
"""By the name of the estimator's class."""
