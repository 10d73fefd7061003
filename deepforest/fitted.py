"""What a fitted cascade does: rows through its layers, a look inside, itself in a folder.

- ``FittedCascade``  the base of all cascades; ``growing`` adds how they are fitted
- ``Passage``        rows on their way through the layers, layer by layer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._files import BrokenModel, Pack, read_model, write_model
from ._input import TableReader, TabularEstimator, json_param, read_params
from .features import Features
from .forest.binning import Binner
from .layer import Layer, pack_layer, unpack_layer
from .learners import make_learners
from .record import LayerRecord, Trace

Array = npt.NDArray[Any]

PREDICT_ROWS = 16_384  # rows that go through the cascade at a time: memory stays bounded


class Stage(NamedTuple):
    """After a layer: the rows that went through it, their vectors and what is said of EVERY row by then.

    ``vectors`` are learners × rows × outputs.
    """

    rows: Array
    vectors: Array
    output: Array


class Passage:
    """Rows on their way through the layers; those that are sure leave where there is a threshold."""

    def __init__(self, cascade: FittedCascade, features: Features) -> None:
        self.cascade = cascade
        self.features = features
        self.rows = np.arange(len(features))
        self.output = np.zeros((len(features), cascade.n_outputs_))
        self._last: tuple[Layer, Array] | None = None
        self._said: list[Array] = []

    def through(self, layer: Layer) -> Stage | None:
        """Take the rows that are left through the next layer; None if there are none."""
        if self._last is not None:
            self._go_on(*self._last, layer)
        if not len(self.rows):
            return None
        vectors = layer.vectors(self.features)
        said = layer.combine(vectors)
        if layer.alphas is not None:
            self._said.append(said)
            said = np.tensordot(layer.alphas, np.stack(self._said), axes=1)
        self.output[self.rows] = said
        self._last = layer, vectors
        return Stage(self.rows, vectors, self.output)

    def _go_on(self, before: Layer, vectors: Array, layer: Layer) -> None:
        if before.threshold is not None:
            stay = np.flatnonzero(self.output[self.rows].max(axis=1) <= before.threshold)
            self.rows, vectors, self.features = self.rows[stay], vectors[:, stay], self.features.take(stay)
        self.features.add(self.cascade._added(vectors, self.output[self.rows]), layer.binner)


class FittedCascade(TransformerMixin, TabularEstimator):  # type: ignore[misc]
    """What all cascades do once they are fitted.

    ``estimators_`` are the kept layers, ``layers_`` the records of all layers that were grown.
    """

    augment: str
    n_jobs: int | None

    estimators_: list[Layer]
    layers_: list[LayerRecord]
    n_learners_: int
    n_outputs_: int
    categorical_: Array
    selected_: Array | None
    binner_: Binner | None
    table_: TableReader | None

    def _added(self, vectors: Array, output: Array) -> Array:
        """What the next layer sees of this one: the learners' vectors side by side."""
        return np.concatenate(vectors, axis=1)

    def _n_added(self) -> int:
        """How many columns that are."""
        return self.n_learners_ * self.n_outputs_

    def _scaled(self, output: Array) -> Array:
        """What the cascade says, as probabilities (or numbers)."""
        return output

    @property
    def _classifies(self) -> bool:
        return isinstance(self, ClassifierMixin)

    # --- rows through the layers ---

    def _predict(self, x: Any) -> Array:
        def final(features: Features) -> Array:
            for stage in self._stages(features):
                last = stage
            return self._scaled(last.output)

        return self._by_block(self._read_rows(x), self.n_outputs_, final)

    def _staged_predict(self, x: Any) -> Iterator[Array]:
        for stage in self._stages(self._features(self._read_rows(x))):
            yield self._scaled(stage.output.copy())

    def _stages(self, features: Features) -> Iterator[Stage]:
        passage = Passage(self, features)
        for layer in self.estimators_:
            stage = passage.through(layer)
            if stage is None:
                return
            yield stage

    def _read_rows(self, x: Any) -> Array:
        check_is_fitted(self, "estimators_")
        values = self._read(x)
        return values if self.selected_ is None else values[:, self.selected_]

    def _features(self, values: Array) -> Features:
        room = self._n_added()
        return Features(values, self.categorical_, augment=self.augment, room=room, binner=self.binner_)

    def _by_block(self, values: Array, width: int, compute: Callable[[Features], Array]) -> Array:
        """What ``compute`` gives of all rows, by blocks of them, as many at once as there are jobs."""
        out = np.empty((len(values), width))

        def fill(first: int) -> None:
            block = slice(first, first + PREDICT_ROWS)
            out[block] = compute(self._features(values[block]))

        starts = range(0, len(values), PREDICT_ROWS)
        n_jobs = min(effective_n_jobs(self.n_jobs), len(starts))
        if n_jobs <= 1:
            for first in starts:
                fill(first)
        else:
            with ThreadPoolExecutor(n_jobs) as threads:
                list(threads.map(fill, starts))
        return out

    # --- a look inside ---

    def transform(self, X: Any, layer: int | None = None) -> Array:  # noqa: N803
        """The representation of rows after a layer (from 1; by default the last): its learners' vectors side by side.

        A row that left before has the vectors of the layer it left at.
        """
        check_is_fitted(self, "estimators_")
        wanted = len(self.estimators_) if layer is None else layer
        if not 1 <= wanted <= len(self.estimators_):
            raise ValueError(f"layer is {layer}; the cascade has layers 1 to {len(self.estimators_)}")
        width = self.n_learners_ * self.n_outputs_

        def represent(features: Features) -> Array:
            result = np.empty((len(features), width))
            for number, stage in enumerate(self._stages(features), 1):
                result[stage.rows] = np.concatenate(stage.vectors, axis=1)
                if number == wanted:
                    break
            return result

        return self._by_block(self._read_rows(X), width, represent)

    def trace(self, X: Any) -> Trace:  # noqa: N803
        """The way of each row through layers × learners: what was said of it, and where it left."""
        values = self._read_rows(X)
        n, depth = len(values), len(self.estimators_)
        vectors = np.full((depth, self.n_learners_, n, self.n_outputs_), np.nan)
        outputs = np.full((depth, n, self.n_outputs_), np.nan)
        left_at = np.zeros(n, int)
        for number, stage in enumerate(self._stages(self._features(values))):
            vectors[number][:, stage.rows] = stage.vectors
            outputs[number][stage.rows] = self._scaled(stage.output)[stage.rows]
            left_at[stage.rows] = number + 1
        return Trace(vectors, outputs, left_at)

    def layer_importances(self) -> list[Array]:
        """For each layer, each learner's importances of the features it saw (learners × features)."""
        check_is_fitted(self, "estimators_")
        return [layer.importances() for layer in self.estimators_]

    @property
    def feature_importances_(self) -> Array:
        """Each raw feature's share in what was learned.

        What a layer took from the vectors of the layer before is credited to the features THAT layer took it from.
        Learners that do not measure importances are left out.
        """
        check_is_fitted(self, "estimators_")
        n_raw = len(self.categorical_)
        below: list[Array] = []  # for each layer, learners × raw features
        for layer in self.estimators_:
            own = layer.importances()
            seen = 0 if below and self.augment == "stack" else n_raw
            raw = np.zeros((len(own), n_raw))
            raw[:, :seen] = own[:, :seen]
            if own.shape[1] > seen:
                raw += self._credit(own[:, seen:], below)
            below.append(raw)
        total = self._combined_importances(below)
        result = np.zeros(self.n_features_in_)
        result[slice(None) if self.selected_ is None else self.selected_] = total / (total.sum() or 1.0)
        return result

    def _credit(self, of_vectors: Array, below: list[Array]) -> Array:
        """Importances of columns of vectors, handed on to what those vectors were made from."""
        by_learner: Array = of_vectors.reshape(len(of_vectors), len(below[-1]), -1).sum(axis=2)
        return by_learner @ below[-1]

    def _combined_importances(self, of_layers: list[Array]) -> Array:
        """Importances of the raw features for what the cascade says after the last of these layers."""
        layer = self.estimators_[len(of_layers) - 1]
        return np.asarray(layer.coefficients @ of_layers[-1])

    # --- persistence ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted cascade as arrays, JSON and LightGBM's text, without pickle."""
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
        names = getattr(self, "feature_names_in_", None)
        return {
            "class": type(self).__name__,
            "params": {name: self._saved_param(name, value) for name, value in self.get_params(deep=False).items()},
            "n_features": self.n_features_in_,
            "feature_names": None if names is None else [str(name) for name in names],
            "table": None if self.table_ is None else {"names": self.table_.names, "levels": self.table_.levels},
            "n_learners": self.n_learners_,
            "n_outputs": self.n_outputs_,
            "n_layers": len(self.estimators_),
            "layers": [record.as_dict() for record in self.layers_],
        }

    def _saved_param(self, name: str, value: Any) -> Any:
        """A parameter as JSON; of what is code (a measuring function, a selecting estimator) nothing is kept."""
        if name == "learners" and not (value is None or isinstance(value, str)):
            return [learner.about() for learner in make_learners(value)]
        if name == "selector" or (name == "metric" and not isinstance(value, str)):
            return type(self)().get_params()[name]
        return json_param(name, value)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a cascade that ``save`` wrote; a folder that cannot be right is a ``BrokenModel``."""
        description, packs = read_model(folder)
        if description.get("class") != cls.__name__:
            raise BrokenModel(f"{folder} holds a {description.get('class')}; load it with {cls.__name__}.load")
        try:
            model = cls(**read_params(description["params"]))
            model._restore(description, packs)
            model._check_restored()
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise BrokenModel(f"{folder} does not hold a whole {cls.__name__}: {error}") from error
        return model

    def _restore(self, description: Mapping[str, Any], packs: Mapping[str, Pack]) -> None:
        self.n_features_in_ = int(description["n_features"])
        if description["feature_names"] is not None:
            self.feature_names_in_ = np.array(description["feature_names"], dtype=object)
        table = description["table"]
        self.table_ = None if table is None else TableReader(table["names"], table["levels"])
        self.n_learners_, self.n_outputs_ = description["n_learners"], description["n_outputs"]
        self.layers_ = [LayerRecord.from_dict(record) for record in description["layers"]]
        arrays = packs["input"].arrays
        self.categorical_, self.selected_ = arrays["categorical"], arrays.get("selected")
        self.binner_ = Binner.from_arrays(arrays) if packs["input"].about["binned"] else None
        n_classes = self.n_outputs_ if self._classifies else 0
        numbers = range(1, description["n_layers"] + 1)
        self.estimators_ = [unpack_layer(packs, number, n_classes) for number in numbers]

    def _check_restored(self) -> None:
        """``ValueError`` unless the parts fit together: the kernels would read past the end of rows too short."""
        n_raw = self.n_features_in_
        if self.selected_ is not None:
            _require(self.selected_.ndim == 1 and self.selected_.dtype.kind in "iu", "what was selected")
            _require(((self.selected_ >= 0) & (self.selected_ < n_raw)).all(), "what was selected")
            n_raw = len(self.selected_)
        _require(
            self.categorical_.shape == (n_raw,) and self.categorical_.dtype == bool, "which columns are categories"
        )
        _require(self.binner_ is None or self.binner_.n_features == n_raw, "the bins")
        if self.table_ is not None:
            _require(len(self.table_.names) == len(self.table_.levels) == self.n_features_in_, "the columns")
        _require(self.n_outputs_ == getattr(self, "n_classes_", 1), "the number of outputs")
        _require(len(self.estimators_) > 0, "the number of layers")
        width, n_added = n_raw, self._n_added()
        for number, layer in enumerate(self.estimators_, 1):
            _require(layer.n_features == width, f"the number of features of layer {number}")
            _check_layer(layer, number, self.n_learners_, 0 if number == 1 or self.augment == "none" else n_added)
            width = {"concat": n_raw + n_added, "stack": n_added, "none": n_raw}[self.augment]


def _check_layer(layer: Layer, number: int, n_learners: int, n_added: int) -> None:
    _require(len(layer.models) == n_learners and all(layer.models), f"the learners of layer {number}")
    _require(layer.coefficients.shape == (n_learners,), f"the coefficients of layer {number}")
    _require(layer.alphas is None or layer.alphas.shape == (number,), f"the alphas of layer {number}")
    _require(layer.threshold is None or isinstance(layer.threshold, float), f"the threshold of layer {number}")
    _require(layer.binner is None or layer.binner.n_features == n_added, f"the bins of layer {number}")


def _require(holds: Any, part: str) -> None:
    if not holds:
        raise ValueError(f"{part} cannot be right")
