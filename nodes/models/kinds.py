"""Define what a kind of model is, and find the kinds.

A node that trains has all of its kind in its own file: parameters, ``build``, ``fit``, ``save``,
``load``, and ``KIND``, which names them. The estimator is a class of ``deepforest`` or of
``nodes.models.estimators``. Saved models are arrays, JSON and LightGBM's text, never pickle.

- ``ModelKind``, ``Encoding``  what a node that trains defines
- ``kind_named``               the kind of a saved model
- ``kind_of_estimator``        the kind of a fitted estimator, for scripts
- ``save_array``, ``load_array``  a file of a saved model
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import nodes
from engine.errors import BadInput
from nodes.data.columns import Task

if TYPE_CHECKING:
    import numpy as np
    from sklearn.base import BaseEstimator

Form = Literal["codes", "onehot"]
Precision = Literal["float32", "float64"]


@dataclass(frozen=True)
class Encoding:
    """Describe the matrix that a kind of model needs; ``nodes.models.encoder`` explains the forms.

    ``order`` is how numpy stores the training matrix: ``C`` by rows, ``F`` by columns.
    """

    form: Form
    precision: Precision
    order: Literal["C", "F"] = "C"


@dataclass(frozen=True)
class ModelKind:
    """Describe a kind of model: how it is built from a node's parameters, saved and loaded.

    The estimator must keep three rules, which ``tests/nodes`` checks for every kind:

    - A row gets the same bits alone, in any batch, on any number of threads and processors.
    - It is saved without pickle, because a pickle can run code when it is loaded.
    - Its fit uses ``rows.weights``: a weight column fills them even without class weights. A fit
      that also computes scores uses ``rows.row_weights`` and ``rows.class_weight`` instead.
    """

    name: str
    """Name of the node, which is the name of its file with hyphens."""
    title: str
    encoding: Encoding
    build: Callable[[Any], BaseEstimator]
    """Returns an unfitted estimator for the node's parameters."""
    save: Callable[[Any, Path], dict[str, Any]]
    """Writes a fitted estimator into a folder and returns what else is needed as plain JSON."""
    load: Callable[[Path, Mapping[str, Any]], BaseEstimator]
    """Reads both back; raises ``ValueError`` if they cannot be right. A loaded estimator has
    ``n_features_in_`` and, unless it predicts numbers, ``classes_``, the class numbers 0, 1, …"""
    estimators: tuple[str, ...]
    """Names of the classes that ``save`` accepts."""
    estimator_params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that tell such an estimator from one of another kind with the same class."""
    build_regressor: Callable[[Any], BaseEstimator] | None = None
    """Returns an unfitted estimator that predicts numbers; None if the kind has only classes."""
    classifies: bool = True
    """Whether ``build`` returns a classifier; False for a kind that predicts only numbers."""
    rounds_target: bool = False
    """Whether the numbers to predict are rounded to 32-bit floats."""

    def check_task(self, task: Task) -> None:
        """Raise ``BadInput`` if this kind of model cannot learn such a target."""
        if task == "regression" and self.build_regressor is None:
            raise BadInput(
                f"the target is a number, and {self.title} predicts classes; use Linear "
                "regression, MART, a forest or a deep forest, or set 'Predict the target as' to a "
                "class in the Load data node"
            )
        if task == "classification" and not self.classifies:
            raise BadInput(
                f"the target is a class, and {self.title} predicts numbers; use Logistic "
                "regression, or set 'Predict the target as' to a number in the Load data node"
            )

    def estimator(self, params: Any, task: Task) -> BaseEstimator:
        """Return an unfitted estimator for a task; raise ``BadInput`` if the kind has none."""
        self.check_task(task)
        if task == "regression" and self.build_regressor is not None:
            return self.build_regressor(params)
        return self.build(params)


def kind_named(name: str) -> ModelKind:
    """Return a kind of model by its name; raise ``ValueError`` if it does not exist."""
    module = name.replace("-", "_")
    # The name may come from a file of another person: only modules of nodes are imported.
    if module in nodes.module_names():
        kind: ModelKind | None = getattr(import_module(f"nodes.{module}"), "KIND", None)
        if kind is not None and kind.name == name:
            return kind
    raise ValueError(f"the kind of model '{name}' is unknown")


def all_kinds() -> list[ModelKind]:
    """Return the kinds of models of all nodes."""
    modules = [import_module(f"nodes.{module}") for module in nodes.module_names()]
    return [module.KIND for module in modules if hasattr(module, "KIND")]


def kind_of_estimator(estimator: Any) -> ModelKind:
    """Return the kind of a fitted estimator; raise ``TypeError`` if no kind can save it."""
    kinds = all_kinds()
    # Base classes too: a subclass of a known estimator is saved like its base.
    for base in type(estimator).__mro__:
        for kind in kinds:
            if base.__name__ in kind.estimators and _has_params(estimator, kind.estimator_params):
                return kind
    known = dict.fromkeys(chain.from_iterable(kind.estimators for kind in kinds))
    raise TypeError(
        f"a {type(estimator).__name__} cannot be saved as a model; use one of {', '.join(known)}"
    )


def _has_params(estimator: Any, params: Mapping[str, Any]) -> bool:
    """Return whether an estimator has these values of its parameters."""
    return all(getattr(estimator, name) == value for name, value in params.items())


def save_array(folder: Path, name: str, array: np.ndarray) -> None:
    """Write ``name.npy`` into a folder."""
    import numpy as np

    np.save(folder / f"{name}.npy", array, allow_pickle=False)


def load_array(folder: Path, name: str, kind: str, ndim: int = 1) -> np.ndarray:
    """Read ``name.npy`` from a folder.

    ``kind`` is numpy's letter for the type, such as ``f``. Raise ``ValueError`` for objects,
    another type, NaN or another number of axes.
    """
    import numpy as np

    # Without pickle, so that a model from elsewhere cannot run code.
    array: np.ndarray = np.load(folder / f"{name}.npy", allow_pickle=False)
    if array.dtype.kind != kind or array.ndim != ndim:
        raise ValueError(f"{name}.npy holds {array.dtype} with {array.ndim} axes")
    if kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name}.npy holds values that are not numbers")
    return array
