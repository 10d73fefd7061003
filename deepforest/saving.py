"""Save and load fitted cascades as folders of arrays, JSON and LightGBM's text, without pickle.

- ``SavedCascade``  the base of all cascades: the attributes of a fitted one, ``save`` and ``load``
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ._files import BrokenModel, Pack, read_model, write_model
from ._input import TableReader, TabularEstimator, json_param, read_params
from ._layer import Layer, pack_layer, unpack_layer
from .forest.binning import Binner
from .learners import make_learners
from .records import LayerRecord

Array = npt.NDArray[Any]


class SavedCascade(TabularEstimator):
    """Declare the attributes of a fitted cascade, save and load them.

    ``estimators_`` are the layers of the model, ``layers_`` the records of all layers that were
    grown.
    """

    augment: str

    estimators_: list[Layer]
    layers_: list[LayerRecord]
    n_learners_: int
    n_outputs_: int
    categorical_: Array
    selected_: Array | None
    binner_: Binner | None
    table_: TableReader | None

    @property
    def _classifies(self) -> bool:
        return isinstance(self, ClassifierMixin)

    def _n_added(self) -> int:
        """Return how many columns a layer adds for the next one."""
        return self.n_learners_ * self.n_outputs_

    def save(self, folder: str | Path) -> None:
        """Write the fitted cascade into a folder.

        Raise ``TypeError`` if a learner is a scikit-learn estimator, which only pickle can save.
        """
        check_is_fitted(self, "estimators_")
        packs: dict[str, Pack] = {}
        for number, layer in enumerate(self.estimators_, 1):
            packs.update(pack_layer(layer, number))
        arrays = {"categorical": self.categorical_}
        if self.binner_ is not None:
            arrays.update(self.binner_.arrays())
        if self.selected_ is not None:
            arrays["selected"] = self.selected_
        packs["input"] = Pack({"binned": self.binner_ is not None}, arrays)
        write_model(folder, self._description(), packs)

    def _description(self) -> dict[str, Any]:
        """Return everything but arrays and models as JSON."""
        names = getattr(self, "feature_names_in_", None)
        return {
            "class": type(self).__name__,
            "params": {
                name: self._saved_param(name, value)
                for name, value in self.get_params(deep=False).items()
            },
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
            "table": None
            if self.table_ is None
            else {"names": self.table_.names, "levels": self.table_.levels},
            "n_learners": self.n_learners_,
            "n_outputs": self.n_outputs_,
            "n_layers": len(self.estimators_),
            "layers": [record.as_dict() for record in self.layers_],
        }

    def _saved_param(self, name: str, value: Any) -> Any:
        """Return a parameter as JSON; code (a metric function, a selector) becomes the default.

        A prediction needs none of these.
        """
        if name == "learners" and not (value is None or isinstance(value, str)):
            return [learner.about() for learner in make_learners(value)]
        # ``n_jobs`` belongs to the machine of the fit, not to the model.
        if name in ("selector", "n_jobs") or (name == "metric" and not isinstance(value, str)):
            return type(self)().get_params()[name]
        return json_param(name, value)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the cascade that ``save`` wrote.

        Raise ``BrokenModel`` if a file is missing or damaged, or if the parts do not fit together.
        """
        description, packs = read_model(folder)
        if description.get("class") != cls.__name__:
            held = description.get("class")
            raise BrokenModel(
                f"{folder} holds a {held}, not a {cls.__name__}; load it with {held}.load"
            )
        try:
            model = cls(**read_params(description["params"]))
            model._restore(description, packs)
            model._check_restored()
        except Exception as error:  # only the content of the folder can be the cause
            raise BrokenModel(f"{folder} does not hold a whole {cls.__name__}: {error}") from error
        return model

    def _restore(self, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
        """Set the fitted attributes from what ``save`` wrote."""
        self.n_features_in_ = int(description["n_features"])
        if description["feature_names"] is not None:
            self.feature_names_in_ = np.array(description["feature_names"], dtype=object)
        table = description["table"]
        self.table_ = None if table is None else TableReader(table["names"], table["levels"])
        self.n_learners_ = int(description["n_learners"])
        self.n_outputs_ = int(description["n_outputs"])
        self.layers_ = [LayerRecord.from_dict(record) for record in description["layers"]]
        arrays = packs["input"].arrays
        self.categorical_, self.selected_ = arrays["categorical"], arrays.get("selected")
        self.binner_ = Binner.from_arrays(arrays) if packs["input"].about["binned"] else None
        n_classes = self.n_outputs_ if self._classifies else 0
        numbers = range(1, description["n_layers"] + 1)
        self.estimators_ = [unpack_layer(packs, number, n_classes) for number in numbers]

    def _check_restored(self) -> None:
        """Raise ``ValueError`` unless the parts fit together.

        The kernels do not check their arrays: with wrong sizes they would read other memory.
        """
        n_raw = self.n_features_in_
        if self.selected_ is not None:
            _require(
                self.selected_.ndim == 1 and self.selected_.dtype.kind in "iu", "what was selected"
            )
            _require(((self.selected_ >= 0) & (self.selected_ < n_raw)).all(), "what was selected")
            n_raw = len(self.selected_)
        _require(
            self.categorical_.shape == (n_raw,) and self.categorical_.dtype == bool,
            "which columns are categories",
        )
        _require(self.binner_ is None or self.binner_.n_features == n_raw, "the bins")
        if self.table_ is not None:
            _require(
                len(self.table_.names) == len(self.table_.levels) == self.n_features_in_,
                "the columns",
            )
        _require(self.n_outputs_ == getattr(self, "n_classes_", 1), "the number of outputs")
        _require(len(self.estimators_) > 0, "the number of layers")
        # The first layer sees the raw features, each later one what ``augment`` says.
        width, n_added = n_raw, self._n_added()
        for number, layer in enumerate(self.estimators_, 1):
            _require(layer.n_features == width, f"the number of features of layer {number}")
            _check_layer(
                layer,
                number,
                self.n_learners_,
                0 if number == 1 or self.augment == "none" else n_added,
            )
            # What the next layer must have seen.
            width = {"concat": n_raw + n_added, "stack": n_added, "none": n_raw}[self.augment]


def _check_layer(layer: Layer, number: int, n_learners: int, n_added: int) -> None:
    """Raise ``ValueError`` unless a layer has the right number of models, weights and bins."""
    _require(
        len(layer.models) == n_learners and all(layer.models), f"the learners of layer {number}"
    )
    _require(_are_weights(layer.coefficients, n_learners), f"the coefficients of layer {number}")
    _require(
        layer.alphas is None or _are_weights(layer.alphas, number), f"the alphas of layer {number}"
    )
    _require(
        layer.threshold is None or isinstance(layer.threshold, float),
        f"the threshold of layer {number}",
    )
    _require(
        layer.binner is None or layer.binner.n_features == n_added, f"the bins of layer {number}"
    )


def _are_weights(values: Array, n: int) -> bool:
    """Return whether ``values`` are ``n`` finite numbers."""
    return values.shape == (n,) and values.dtype == np.float64 and bool(np.isfinite(values).all())


def _require(holds: Any, part: str) -> None:
    """Raise ``ValueError`` that names the part, unless the condition holds."""
    if not holds:
        raise ValueError(f"{part} cannot be right")
