"""Save and load fitted cascades as folders of arrays, JSON and LightGBM's text, without pickle.

- ``save_cascade``, ``load_cascade``  a fitted estimator to a folder, and back
- ``describe_cascade``                everything but arrays and models as JSON
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ._cascade import FittedCascade
from ._input import TableReader, json_param, read_params
from ._layer import Layer, LayerReader, pack_layers
from ._renamed import CASCADE_NAMES, with_new_names
from .forest.binning import Binner
from .learners import make_learners
from .persistence import BrokenModel, Pack, read_model, write_model
from .records import LayerRecord
from .scanning import check_shape, make_scanner, scanner_params
from .scanning.growing import RecentScans
from .scanning.scan import Scan

if TYPE_CHECKING:
    from ._base import BaseCascade

Array = npt.NDArray[Any]
Model = TypeVar("Model", bound="BaseCascade")


def save_cascade(model: BaseCascade, folder: str | Path) -> None:
    """Write a fitted model into a folder.

    Raise ``TypeError`` if a learner is a scikit-learn estimator, which only pickle can save.
    """
    packs = pack_layers([cascade.layers for cascade in model.cascades_])
    for number, cascade in enumerate(model.cascades_, 1):
        for layer_number, layer in enumerate(cascade.layers, 1):
            if layer.scan is not None:
                packs.update(layer.scan.pack(_scan_name(number, layer_number)))
        # Cascades that did not select columns have those of the first one.
        if number == 1 or cascade.selected is not None:
            packs[_input_name(number)] = _pack_input(cascade)
    write_model(folder, model._description(), packs)


def _scan_name(cascade: int, layer: int) -> str:
    return f"cascade-{cascade}-layer-{layer}-scan"


def _input_name(cascade: int) -> str:
    return "input" if cascade == 1 else f"cascade-{cascade}-input"


def _pack_input(cascade: FittedCascade) -> Pack:
    """Return how a cascade reads its columns."""
    arrays = {"categorical": cascade.categorical}
    if cascade.binner is not None:
        arrays.update(cascade.binner.arrays())
    if cascade.selected is not None:
        arrays["selected"] = cascade.selected
    return Pack({"binned": cascade.binner is not None}, arrays)


def describe_cascade(model: BaseCascade) -> dict[str, Any]:
    """Return everything but arrays and models as JSON."""
    names = getattr(model, "feature_names_in_", None)
    table = None
    if model.table_ is not None:
        table = {"names": model.table_.names, "levels": model.table_.levels}
    params = model.get_params(deep=False)
    return {
        "class": type(model).__name__,
        "params": {name: _saved_param(model, name, value) for name, value in params.items()},
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else [str(name) for name in names],
        "table": table,
        "n_learners": model.n_learners_,
        "n_outputs": model.n_outputs_,
        "passes_output": model.passes_output_,
        "n_cascades": len(model.cascades_),
        "n_layers": model.n_layers_,
        "layers": [record.as_dict() for record in model.layer_records_],
    }


def _saved_param(model: BaseCascade, name: str, value: Any) -> Any:
    """Return a parameter as JSON; code (a metric function, a selector) becomes the default.

    A prediction needs none of these.
    """
    if name == "learners" and not (value is None or isinstance(value, str)):
        return [learner.about() for learner in make_learners(value)]
    if name == "scan" and value is not None:
        return scanner_params(make_scanner(value))
    # ``n_jobs`` belongs to the machine of the fit, not to the model.
    if name in ("selector", "n_jobs") or (name == "scoring" and not isinstance(value, str)):
        return type(model)().get_params()[name]
    return json_param(name, value)


def load_cascade(kind: type[Model], folder: str | Path) -> Model:
    """Return the model that ``save_cascade`` wrote.

    Raise ``BrokenModel`` if a file is missing or damaged, or if the parts do not fit together.
    """
    description, packs = read_model(folder)
    if description.get("class") != kind.__name__:
        held = description.get("class")
        raise BrokenModel(
            f"{folder} holds a {held}, not a {kind.__name__}; load it with {held}.load"
        )
    try:
        params = with_new_names(read_params(description["params"]), CASCADE_NAMES)
        # Until there was a choice, all cascades were grown in the papers' way.
        params.setdefault("resampling", "per_layer")
        model = kind(**params)
        model._restore(description)
        _restore(model, description, packs)
        _check_restored(model)
    except Exception as error:  # only the content of the folder can be the cause
        raise BrokenModel(f"{folder} does not hold a whole {kind.__name__}: {error}") from error
    return model


def _restore(model: BaseCascade, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
    """Set the fitted attributes from what was written."""
    model.n_features_in_ = int(description["n_features"])
    if description["feature_names"] is not None:
        model.feature_names_in_ = np.array(description["feature_names"], dtype=object)
    table = description["table"]
    model.table_ = None if table is None else TableReader(table["names"], table["levels"])
    model.n_learners_ = int(description["n_learners"])
    model.n_outputs_ = int(description["n_outputs"])
    model.passes_output_ = bool(description.get("passes_output", False))
    model.layer_records_ = [LayerRecord.from_dict(record) for record in description["layers"]]
    reader = LayerReader(packs, model.n_outputs_ if model._classifies else 0)
    model.cascades_ = []
    for cascade in range(1, int(description.get("n_cascades", 1)) + 1):
        layers = [
            reader.read(cascade, number) for number in range(1, int(description["n_layers"]) + 1)
        ]
        for number, layer in enumerate(layers, 1):
            if _scan_name(cascade, number) in packs:
                layer.scan = Scan.unpack(packs, _scan_name(cascade, number), model.n_outputs_)
        name = _input_name(cascade)
        model.cascades_.append(_read_input(packs[name if name in packs else "input"], layers))


def _read_input(pack: Pack, layers: list[Layer]) -> FittedCascade:
    binner = Binner.from_arrays(pack.arrays) if pack.about["binned"] else None
    return FittedCascade(layers, binner, pack.arrays["categorical"], pack.arrays.get("selected"))


def _check_restored(model: BaseCascade) -> None:
    """Raise ``ValueError`` unless the parts fit together.

    The kernels do not check their arrays: with wrong sizes they would read other memory.
    """
    if model.table_ is not None:
        _require(
            len(model.table_.names) == len(model.table_.levels) == model.n_features_in_,
            "the columns",
        )
    _require(model.n_outputs_ == getattr(model, "n_classes_", 1), "the number of outputs")
    _require(len(model.cascades_) > 0, "the number of cascades")
    for cascade in model.cascades_:
        _check_cascade(model, cascade)


def _check_cascade(model: BaseCascade, cascade: FittedCascade) -> None:
    """Raise ``ValueError`` unless columns, bins and layers of a cascade fit together."""
    n_raw, selected = model.n_features_in_, cascade.selected
    if selected is not None:
        _require(selected.ndim == 1 and selected.dtype.kind in "iu", "what was selected")
        _require(((selected >= 0) & (selected < n_raw)).all(), "what was selected")
        n_raw = len(selected)
    _require(
        cascade.categorical.shape == (n_raw,) and cascade.categorical.dtype == bool,
        "which columns are categories",
    )
    _require(cascade.binner is None or cascade.binner.n_features == n_raw, "the bins")
    _require(len(cascade.layers) > 0, "the number of layers")
    # The first layer sees the columns, or their scan; each later one what ``augment`` says.
    n_added = model._strategy().n_next_features(model.n_learners_, model.n_outputs_)
    recent = RecentScans()
    for number, layer in enumerate(cascade.layers, 1):
        if layer.scan is not None:
            check_shape(layer.scan.shape, model.n_features_in_)
            recent.add(layer.scan, np.zeros(0))
            n_raw = recent.width
        _require(recent.scans or model.scan is None, "the scan")
        width, seen = n_raw, 0
        if number > 1:
            width = {"concat": n_raw + n_added, "stack": n_added, "none": n_raw}[model.augment]
            seen = 0 if model.augment == "none" else n_added
        _require(layer.n_features == width, f"the number of features of layer {number}")
        _check_layer(layer, number, model.n_learners_, seen)


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
        isinstance(layer.temperature, float) and 0 < layer.temperature < math.inf,
        f"the temperature of layer {number}",
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
