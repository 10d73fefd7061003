"""Define the learners of a layer, one file per family.

A new kind is a subclass of ``Learner`` that is listed in ``LEARNERS``.

- ``base``     the interface of a learner
- ``forests``  random, completely random, extra-trees
- ``mart``     boosted trees by LightGBM
- ``xgboost``  boosted trees by XGBoost, which is optional
- ``composite``  composite forests, with an SVM in every leaf
- ``scikit``   any scikit-learn estimator
- ``make_learners``, ``make_learner``  learners from kinds, params as a mapping, ``Learner``
  objects or scikit-learn estimators
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from .base import Fit, FitSlice, Fitted, Learner, OpenPort, RankOfFit, Target
from .composite import CompositeForest, FittedComposite
from .forests import (
    FORESTS,
    CompletelyRandomForest,
    ExtraTrees,
    FittedForest,
    ForestLearner,
    RandomForest,
)
from .mart import FittedMart, Mart
from .sklearn_estimator import FittedScikit, Scikit
from .xgboost import FittedXgboost, Xgboost

LEARNERS: dict[str, type[Learner]] = {
    learner.kind: learner for learner in (*FORESTS, Mart, Xgboost, CompositeForest, Scikit)
}
FITTED: dict[str, type[Fitted]] = {
    fitted.kind: fitted
    for fitted in (
        FittedForest,
        FittedMart,
        FittedXgboost,
        FittedComposite,
        FittedScikit,
    )
}

__all__ = [
    "FITTED",
    "LEARNERS",
    "CompletelyRandomForest",
    "CompositeForest",
    "ExtraTrees",
    "Fit",
    "FitSlice",
    "Fitted",
    "ForestLearner",
    "Learner",
    "Mart",
    "OpenPort",
    "RandomForest",
    "RankOfFit",
    "Scikit",
    "Target",
    "Xgboost",
    "make_learner",
    "make_learners",
]


def make_learners(specifications: Iterable[Any]) -> tuple[Learner, ...]:
    """Return the learners of a layer; one with a ``count`` of three comes three times.

    A single specification also works. Raise ``ValueError`` for one that cannot be used, or for an
    empty list.
    """
    is_single = isinstance(specifications, str | Mapping) or hasattr(specifications, "fit")
    if is_single or not isinstance(specifications, Iterable):
        specifications = [specifications]
    learners = [make_learner(each) for each in specifications]
    if not learners:
        raise ValueError("a layer has no learner; give at least one")
    return tuple(replace(learner, count=1) for learner in learners for _ in range(learner.count))


def make_learner(specification: Any) -> Learner:
    """Return a learner from a kind, a mapping of ``kind`` and params, or an estimator.

    A ``Learner`` is returned unchanged. Raise ``ValueError`` for an unknown kind or param.

    >>> make_learner({"kind": "mart", "n_estimators": 50}).n_estimators
    50
    """
    if isinstance(specification, Learner):
        return specification
    if isinstance(specification, str):
        return _of_kind(specification)()
    if isinstance(specification, Mapping):
        params = dict(specification)
        if "kind" not in params:
            raise ValueError(f"a learner given as a mapping needs a 'kind'; {params} has none")
        kind = _of_kind(params.pop("kind", None))
        allowed = [field.name for field in fields(kind)]
        unknown = [name for name in params if name not in (*allowed, *kind.old_names)]
        if unknown:
            raise ValueError(
                f"a {kind.kind} has no setting {unknown[0]!r}; it has {', '.join(allowed)}"
            )
        return kind(**params)
    if isinstance(specification, type):
        name = specification.__name__
        raise ValueError(f"{name} is a class; give an instance of it, such as {name}()")
    return Scikit(estimator=specification)


def _of_kind(kind: Any) -> type[Learner]:
    """Return the class of a kind of learner."""
    if not isinstance(kind, str) or kind not in LEARNERS:
        raise ValueError(f"unknown kind of learner {kind!r}; use one of {', '.join(LEARNERS)}")
    return LEARNERS[kind]
