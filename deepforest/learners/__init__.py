"""The learners of a layer, one file a family: a new kind is a subclass of ``Learner`` in ``LEARNERS``.

- ``base``     what a cascade asks of a learner
- ``forests``  random, completely random, extra-trees
- ``mart``     boosted trees by LightGBM
- ``scikit``   any scikit-learn estimator
- ``make_learners``  learners from kinds, settings as a mapping, ``Learner`` objects or scikit-learn estimators
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from .base import Fit, Fitted, Learner, Part, Task
from .forests import FORESTS, CompletelyRandomForest, ExtraTrees, FittedForest, RandomForest
from .mart import FittedMart, Mart
from .scikit import FittedScikit, Scikit

LEARNERS: dict[str, type[Learner]] = {learner.kind: learner for learner in (*FORESTS, Mart, Scikit)}
FITTED: dict[str, type[Fitted]] = {fitted.kind: fitted for fitted in (FittedForest, FittedMart, FittedScikit)}

__all__ = [
    "FITTED",
    "LEARNERS",
    "CompletelyRandomForest",
    "ExtraTrees",
    "Fit",
    "Fitted",
    "Learner",
    "Mart",
    "Part",
    "RandomForest",
    "Scikit",
    "Task",
    "make_learner",
    "make_learners",
]


def make_learners(wanted: Iterable[Any]) -> tuple[Learner, ...]:
    """One learner for each place in a layer: what has a ``count`` of three comes three times."""
    if isinstance(wanted, str | Mapping) or hasattr(wanted, "fit") or not isinstance(wanted, Iterable):
        wanted = [wanted]
    learners = [make_learner(one) for one in wanted]
    if not learners:
        raise ValueError("a layer has no learner; give at least one")
    return tuple(replace(learner, count=1) for learner in learners for _ in range(learner.count))


def make_learner(wanted: Any) -> Learner:
    """A learner from its kind, from a mapping with ``kind`` and settings, or from a scikit-learn estimator."""
    if isinstance(wanted, Learner):
        return wanted
    if isinstance(wanted, str):
        return _of_kind(wanted)()
    if isinstance(wanted, Mapping):
        settings = dict(wanted)
        if "kind" not in settings:
            raise ValueError(f"a learner given as a mapping needs a 'kind'; {settings} has none")
        kind = _of_kind(settings.pop("kind", None))
        allowed = [field.name for field in fields(kind)]
        unknown = [name for name in settings if name not in allowed]
        if unknown:
            raise ValueError(f"a {kind.kind} has no setting {unknown[0]!r}; it has {', '.join(allowed)}")
        return kind(**settings)
    if isinstance(wanted, type):
        raise ValueError(f"{wanted.__name__} is a class; give an instance of it, such as {wanted.__name__}()")
    return Scikit(estimator=wanted)


def _of_kind(kind: Any) -> type[Learner]:
    if not isinstance(kind, str) or kind not in LEARNERS:
        raise ValueError(f"there is no learner of kind {kind!r}; known are {', '.join(LEARNERS)}")
    return LEARNERS[kind]
