"""Accept settings under the names that they had in earlier versions.

- ``accept_old_names``  decorates a class: its ``__init__`` and ``set_params`` take old names too
- ``with_new_names``    translates settings that an earlier version saved, without a warning
- ``LEARNER_NAMES``     the settings of learners: old name → new name
- ``CASCADE_NAMES``     those of cascades
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

LEARNER_NAMES = {
    "trees": "n_estimators",
    "min_rows": "min_samples_leaf",
    "leaves": "num_leaves",
    "row_share": "subsample",
    "column_share": "colsample_bytree",
}
CASCADE_NAMES = {"folds": "cv", "metric": "scoring", "tolerance": "tol"}


def accept_old_names(names: Mapping[str, str]) -> Callable[[Class], Class]:
    """Return a decorator for a scikit-learn estimator or a dataclass with renamed settings.

    ``names`` maps old names to new ones; those that the class does not have are ignored. An old
    name works as the new one does and causes a ``FutureWarning``. ``get_params`` knows only the new
    names. ``old_names`` of the class holds the old names that it takes.

    >>> @accept_old_names({"folds": "cv"})
    ... class Cascade(BaseEstimator):
    ...     def __init__(self, cv=5):
    ...         self.cv = cv
    >>> Cascade(folds=3).set_params(folds=4).cv
    4
    """

    def decorate(cls: Class) -> Class:
        settings = inspect.signature(cls).parameters
        own = {old: new for old, new in names.items() if new in settings}
        for name in ("__init__", "set_params"):
            if hasattr(cls, name):
                setattr(cls, name, _translating(getattr(cls, name), own))
        cls.old_names = own  # type: ignore[attr-defined]
        return cls

    return decorate


def with_new_names(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return settings that may have been saved under old names with the names of today."""
    return {names.get(name, name): value for name, value in settings.items()}


def _translating(method: Callable[..., Any], names: Mapping[str, str]) -> Callable[..., Any]:
    """Return the method with a warning and a translation for keywords that are old names."""

    # scikit-learn reads the names of parameters from the signature, which ``wraps`` preserves.
    @wraps(method)
    def accepting(self: Any, *args: Any, **keywords: Any) -> Any:
        for old in names.keys() & keywords.keys():
            owner, new = type(self).__name__, names[old]
            if new in keywords:
                raise TypeError(f"{owner} got {old!r} and {new!r}, which are the same setting")
            warnings.warn(
                f"{old!r} of {owner} is now named {new!r}; the old name will be removed",
                FutureWarning,
                stacklevel=2,
            )
        return method(self, *args, **with_new_names(keywords, names))

    return accepting
