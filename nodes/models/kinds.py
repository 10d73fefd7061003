"""List the six kinds of models: how each is built from its node's parameters, saved and loaded.

A trained model is a scikit-learn estimator. To add a kind, write its node and add a ``ModelKind``
to ``KINDS``. Saved models are arrays, JSON and LightGBM's text, never pickle.

- ``KINDS``           the table, by the name that nodes and saved models use
- ``find_kind``       the kind of a fitted estimator, for scripts
- ``cascade_params``  a deep-forest node's parameters as the library names them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    from sklearn.base import BaseEstimator

    from nodes.models.estimators import (
        BoostedTrees,
        RowwiseLogisticRegression,
        RowwiseMLPClassifier,
        StoredForest,
    )

TREES_FILE = "mart.txt"


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
    """Describe what the program knows about a kind of model.

    ``build`` makes an unfitted estimator from a node's parameters. ``save`` writes a fitted one
    into a folder and returns what else is needed as plain JSON; ``load`` reads both back and raises
    ``ValueError`` if they cannot be right. ``estimators`` names the classes that ``save`` accepts.
    """

    name: str
    title: str
    encoding: Encoding
    build: Callable[[Any], BaseEstimator]
    save: Callable[[Any, Path], dict[str, Any]]
    load: Callable[[Path, Mapping[str, Any]], BaseEstimator]
    estimators: tuple[str, ...]


def find_kind(estimator: Any) -> ModelKind:
    """Return the kind of a fitted estimator; raise ``TypeError`` if no kind can save it."""
    # Base classes too: a subclass of a known estimator is saved like its base.
    for base in type(estimator).__mro__:
        for kind in KINDS.values():
            if base.__name__ in kind.estimators and kind.name == _forest_kind(estimator, kind.name):
                return kind
    known = dict.fromkeys(chain.from_iterable(kind.estimators for kind in KINDS.values()))
    raise TypeError(
        f"a {type(estimator).__name__} cannot be saved as a model; use one of {', '.join(known)}"
    )


def _forest_kind(estimator: Any, name: str) -> str:
    """Return which of the two kinds of forest an estimator is, by its splitter."""
    if name not in ("random-forest", "extra-trees"):
        return name
    return "random-forest" if estimator.splitter == "best" else "extra-trees"


# Arrays


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


# Deep forests

CASCADE_PARAMS = (
    *("class_vectors", "folds", "metric", "patience", "tolerance", "max_layers", "augment"),
    *("gamma", "mu", "depth_step", "error_share", "tree_growth"),
)


def cascade_params(params: Any) -> dict[str, Any]:
    """Return the parameters that differ from the preset, with the library's names."""
    values = {name: getattr(params, name) for name in CASCADE_PARAMS}
    values = {name: value for name, value in values.items() if value is not None}
    if params.learners:
        values["learners"] = [_learner_params(learner) for learner in params.learners]
    return values


def _learner_params(learner: Any) -> dict[str, Any]:
    """Return the settings of one learner as the library expects them."""
    values: dict[str, Any] = {"kind": learner.kind} | learner.model_dump()
    if values.get("max_features") == "all":
        values["max_features"] = None
    # The library's default depends on the kind of learner; only a number replaces it.
    if values["max_depth"] is None:
        del values["max_depth"]
    return values


def _build_cascade(params: Any) -> BaseEstimator:
    """Return an unfitted cascade: the preset with the parameters that were changed."""
    from deepforest import MartSelector, preset

    values = cascade_params(params)
    if params.select_features is not None:
        values["selector"] = MartSelector(params.select_features)
    return preset(params.preset, **values, random_state=params.seed)


def _save_cascade(cascade: Any, folder: Path) -> dict[str, Any]:
    """Write the cascade and return the name of its class."""
    # Times differ from run to run; without them the same training gives the same bytes.
    cascade.layers_ = [record.without_times() for record in cascade.layers_]
    cascade.save(folder)
    return {"class": type(cascade).__name__}


def _load_cascade(folder: Path, data: Mapping[str, Any]) -> BaseEstimator:
    """Read a cascade; raise ``ValueError`` if its class is not one of the presets' classes."""
    from deepforest.presets import PRESETS

    classes = {preset.kind.__name__: preset.kind for preset in PRESETS.values()}
    if data["class"] not in classes:
        raise ValueError(f"the cascade '{data['class']}' is unknown")
    cascade: BaseEstimator = classes[data["class"]].load(folder)
    return cascade


# MART


def _build_mart(params: Any) -> BoostedTrees:
    """Return unfitted boosted trees with the node's parameters."""
    from nodes.models.estimators import BoostedTrees

    return BoostedTrees(
        params.trees,
        learning_rate=params.learning_rate,
        num_leaves=params.leaves,
        min_child_samples=params.min_rows,
        colsample_bytree=params.column_share,
        subsample=params.row_share,
        random_state=params.seed,
    )


def _save_mart(estimator: Any, folder: Path) -> dict[str, Any]:
    """Write the trees as LightGBM's text."""
    from deepforest.lightgbm_text import trees_only

    # A script may give the booster that lightgbm.train returned.
    booster = getattr(estimator, "booster_", estimator)
    text = trees_only(booster.model_to_string())
    (folder / TREES_FILE).write_text(text, encoding="utf-8", newline="\n")
    return {}


def _load_mart(folder: Path, data: Mapping[str, Any]) -> BoostedTrees:
    """Read the trees; raise ``ValueError`` if their text is damaged."""
    from deepforest.lightgbm_text import check_text, trees_only
    from nodes.models.estimators import BoostedTrees

    text = trees_only((folder / TREES_FILE).read_text(encoding="utf-8"))
    # LightGBM trusts the text. A wrong number in it could crash the process.
    check_text(text)
    return BoostedTrees().read_text(text)


# Forests


def _build_forest(params: Any, **settings: Any) -> BaseEstimator:
    """Return an unfitted forest; ``settings`` say how it differs from a random forest."""
    from deepforest import HistForestClassifier

    return HistForestClassifier(
        params.trees,
        max_depth=params.max_depth,
        min_samples_leaf=params.min_leaf,
        max_features=None if params.max_features == "all" else params.max_features,
        random_state=params.seed,
        **settings,
    )


def _save_forest(forest: Any, folder: Path) -> dict[str, Any]:
    """Write the forest; one that version 1 saved keeps its form."""
    if hasattr(forest, "arrays"):
        for name, array in forest.arrays.items():
            save_array(folder, f"forest-{name}", array)
        return {"columns": forest.n_features, "classes": forest.n_classes}
    # The number of threads is not part of a model: the same training gives the same bytes.
    forest.set_params(n_jobs=None).save(folder)
    return {}


def _load_forest(folder: Path, data: Mapping[str, Any]) -> BaseEstimator:
    """Read a forest of either version."""
    # Only version 1 saved the number of columns.
    if "columns" in data:
        return _load_stored_forest(folder, data)
    from deepforest import HistForestClassifier

    return HistForestClassifier.load(folder)


def _load_stored_forest(folder: Path, data: Mapping[str, Any]) -> StoredForest:
    """Read a forest that version 1 of the node saved."""
    import numpy as np

    from nodes.models.estimators import StoredForest

    arrays = {}
    for name, dtype in StoredForest.DTYPES.items():
        array = load_array(folder, f"forest-{name}", np.dtype(dtype).kind)
        arrays[name] = array.astype(dtype, copy=False)
    return StoredForest(arrays, data["columns"], data["classes"]).prepare()


# Logistic regression


def _build_logistic_regression(params: Any) -> RowwiseLogisticRegression:
    """Return an unfitted logistic regression with the node's parameters."""
    from nodes.models.estimators import RowwiseLogisticRegression

    return RowwiseLogisticRegression(C=params.c, max_iter=params.max_iter)


def _save_logistic_regression(regression: Any, folder: Path) -> dict[str, Any]:
    """Write weights and intercepts as two arrays."""
    save_array(folder, "weights", regression.coef_)
    save_array(folder, "intercepts", regression.intercept_)
    return {}


def _load_logistic_regression(folder: Path, data: Mapping[str, Any]) -> RowwiseLogisticRegression:
    """Read weights and intercepts; raise ``ValueError`` if they do not fit together."""
    import numpy as np

    from nodes.models.estimators import RowwiseLogisticRegression

    regression = RowwiseLogisticRegression()
    regression.coef_ = load_array(folder, "weights", "f", 2)
    regression.intercept_ = load_array(folder, "intercepts", "f")
    if len(regression.coef_) != len(regression.intercept_):
        raise ValueError("weights and intercepts differ in length")
    regression.n_features_in_ = regression.coef_.shape[1]
    # For two classes there is one row of weights.
    regression.classes_ = np.arange(max(len(regression.coef_), 2))
    return regression


# Neural network


def _build_mlp(params: Any) -> RowwiseMLPClassifier:
    """Return an unfitted network with the node's parameters."""
    import numpy as np

    from nodes.models.estimators import RowwiseMLPClassifier

    return RowwiseMLPClassifier(
        hidden_layer_sizes=tuple(params.layers),
        alpha=params.alpha,
        learning_rate_init=params.learning_rate,
        max_iter=params.epochs,
        # One generator for all epochs: an integer would shuffle every epoch the same way.
        random_state=np.random.RandomState(params.seed),
    )


def _save_mlp(network: Any, folder: Path) -> dict[str, Any]:
    """Write two arrays for each layer of the network, and return the number of layers."""
    for layer, (weights, intercepts) in enumerate(
        zip(network.coefs_, network.intercepts_, strict=True)
    ):
        save_array(folder, f"layer{layer}-weights", weights)
        save_array(folder, f"layer{layer}-intercepts", intercepts)
    return {"layers": len(network.coefs_)}


def _load_mlp(folder: Path, data: Mapping[str, Any]) -> RowwiseMLPClassifier:
    """Read the layers of a network; raise ``ValueError`` if they do not fit together."""
    import numpy as np

    from nodes.models.estimators import RowwiseMLPClassifier

    layers = range(data["layers"])
    network = RowwiseMLPClassifier()
    network.coefs_ = [load_array(folder, f"layer{layer}-weights", "f", 2) for layer in layers]
    network.intercepts_ = [load_array(folder, f"layer{layer}-intercepts", "f") for layer in layers]
    outputs = len(network.intercepts_[-1])
    # The outputs of a layer are the inputs of the next one.
    next_sizes = [*(len(weights) for weights in network.coefs_[1:]), outputs]
    for weights, intercepts, size in zip(
        network.coefs_, network.intercepts_, next_sizes, strict=True
    ):
        if not weights.shape[1] == len(intercepts) == size:
            raise ValueError("the layers of the network do not fit each other")
    network.n_features_in_ = len(network.coefs_[0])
    # For two classes there is one output.
    network.classes_ = np.arange(max(outputs, 2))
    return network


# The table

CODES = Encoding("codes", "float64", "C")
ONEHOT = Encoding("onehot", "float64", "C")

KINDS: Mapping[str, ModelKind] = {
    kind.name: kind
    for kind in (
        ModelKind(
            "deep-forest", "Deep forest", CODES, _build_cascade, _save_cascade, _load_cascade,
            ("CascadeClassifier",),
        ),
        ModelKind(
            "mart", "MART", Encoding("codes", "float64", "F"), _build_mart, _save_mart, _load_mart,
            ("BoostedTrees", "LGBMClassifier", "Booster"),
        ),
        ModelKind(
            "random-forest", "Random forest", CODES, _build_forest, _save_forest, _load_forest,
            ("HistForestClassifier",),
        ),
        ModelKind(
            "extra-trees", "Extra trees", CODES,
            partial(_build_forest, splitter="random", bootstrap=False), _save_forest, _load_forest,
            ("HistForestClassifier",),
        ),
        ModelKind(
            "logistic-regression", "Logistic regression", ONEHOT, _build_logistic_regression,
            _save_logistic_regression, _load_logistic_regression, ("LogisticRegression",),
        ),
        ModelKind(
            "mlp", "Neural network", Encoding("onehot", "float32", "C"),
            _build_mlp, _save_mlp, _load_mlp, ("MLPClassifier",),
        ),
    )
}  # fmt: skip
