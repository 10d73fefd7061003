"""Use a fitted cascade: pass rows through its layers, and look inside.

- ``FittedCascade``  the base of all cascades; ``growing`` adds the fit
- ``Passage``        rows on their way through the layers
- ``Stage``          the rows, vectors and outputs after one layer
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ._features import Features
from ._input import fill_by_block
from ._layer import Layer
from .arithmetic import weighted_sum
from .records import Trace
from .saving import SavedCascade

Array = npt.NDArray[Any]


class Stage(NamedTuple):
    """Hold the rows that went through a layer, their vectors, and the output for EVERY row so far.

    ``vectors`` are learners × rows × outputs; a row that left earlier has in ``output`` its last
    one.
    """

    rows: Array
    vectors: Array
    output: Array


class Passage:
    """Pass rows through the layers; confident rows leave where a layer has a threshold."""

    def __init__(self, cascade: FittedCascade, features: Features) -> None:
        self.cascade = cascade
        self.features = features
        self.rows = np.arange(len(features))
        self.output = np.zeros((len(features), cascade.n_outputs_))
        self._last: tuple[Layer, Array] | None = None
        self._layer_outputs: list[Array] = []

    def through(self, layer: Layer) -> Stage | None:
        """Pass the remaining rows through the next layer; return None if no row remains."""
        # What a layer adds is prepared for the next one only when there is a next one.
        if self._last is not None:
            self._prepare_for(layer, *self._last)
        if not len(self.rows):
            return None
        vectors = layer.vectors(self.features)
        output = layer.combine(vectors)
        if layer.alphas is not None:  # mdDF, equation 6: f_t = Σ α_l h_l over all layers so far
            self._layer_outputs.append(output)
            output = weighted_sum(layer.alphas, self._layer_outputs)
        self.output[self.rows] = output
        self._last = layer, vectors
        return Stage(self.rows, vectors, self.output)

    def _prepare_for(self, layer: Layer, before: Layer, vectors: Array) -> None:
        """Let confident rows leave, and give the others the vectors of the layer before."""
        if before.threshold is not None:
            stay = np.flatnonzero(self.output[self.rows].max(axis=1) <= before.threshold)
            self.rows, vectors = self.rows[stay], vectors[:, stay]
            self.features = self.features.take(stay)
        self.features.add(self.cascade._added(vectors, self.output[self.rows]), layer.binner)


class FittedCascade(TransformerMixin, SavedCascade):  # type: ignore[misc]
    """Predict, transform and inspect with a fitted cascade."""

    n_jobs: int | None

    def _added(self, vectors: Array, output: Array) -> Array:
        """Return what the next layer sees of this one: the learners' vectors side by side."""
        return np.concatenate(vectors, axis=1)

    def _scaled(self, output: Array) -> Array:
        """Return the output of the cascade as probabilities (or numbers)."""
        return output

    # --- rows through the layers ---

    def _predict(self, x: Any) -> Array:
        """Return the output after the last layer."""

        def final(features: Features) -> Array:
            for stage in self._stages(features):
                last = stage
            return self._scaled(last.output)

        return self._by_block(self._read_rows(x), self.n_outputs_, final)

    def _staged_predict(self, x: Any) -> Iterator[Array]:
        """Yield the output after each layer."""
        for stage in self._stages(self._features(self._read_rows(x))):
            yield self._scaled(stage.output.copy())

    def _stages(self, features: Features) -> Iterator[Stage]:
        """Yield the stage after each layer, until no row remains."""
        passage = Passage(self, features)
        for layer in self.estimators_:
            stage = passage.through(layer)
            if stage is None:
                return
            yield stage

    def _read_rows(self, x: Any) -> Array:
        """Return the selected columns of X as numbers."""
        check_is_fitted(self, "estimators_")
        values = self._read(x)
        return values if self.selected_ is None else values[:, self.selected_]

    def _features(self, values: Array) -> Features:
        room = self._n_added()
        return Features(
            values, self.categorical_, augment=self.augment, room=room, binner=self.binner_
        )

    def _by_block(self, values: Array, width: int, compute: Callable[[Features], Array]) -> Array:
        """Return what ``compute`` returns for all rows, block by block."""
        out = np.empty((len(values), width))
        return fill_by_block(out, lambda block: compute(self._features(values[block])), self.n_jobs)

    # --- a look inside ---

    def stages(self, X: Any) -> Iterator[Stage]:  # noqa: N803
        """Yield rows, vectors and outputs after each layer; outputs are probabilities.

        All rows are in memory at once: pass many rows in blocks. There are fewer stages than
        layers if all rows leave early.
        """
        for stage in self._stages(self._features(self._read_rows(X))):
            yield stage._replace(output=self._scaled(stage.output.copy()))

    def transform(self, X: Any, layer: int | None = None) -> Array:  # noqa: N803
        """Return the vectors of all learners of a layer side by side, as a representation of rows.

        ``layer`` counts from 1; the default is the last one. A row that left earlier has the
        vectors of the layer it left at. Raise ``ValueError`` if there are not so many layers.
        """
        check_is_fitted(self, "estimators_")
        last = len(self.estimators_) if layer is None else layer
        if not 1 <= last <= len(self.estimators_):
            raise ValueError(
                f"layer is {layer}; the cascade has layers 1 to {len(self.estimators_)}"
            )
        width = self.n_learners_ * self.n_outputs_

        def represent(features: Features) -> Array:
            result = np.empty((len(features), width))
            for number, stage in enumerate(self._stages(features), 1):
                result[stage.rows] = np.concatenate(stage.vectors, axis=1)
                if number == last:
                    break
            return result

        return self._by_block(self._read_rows(X), width, represent)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of ``transform``."""
        check_is_fitted(self, "estimators_")
        outputs = [str(name) for name in self.classes_] if self._classifies else ["value"]
        learners = [record.name.replace(" ", "_").lower() for record in self.layers_[0].learners]
        return np.array(
            [f"{learner}_{output}" for learner in learners for output in outputs], dtype=object
        )

    def trace(self, X: Any) -> Trace:  # noqa: N803
        """Return for each row the vectors and outputs of all layers, and where it left."""
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
        """Return for each layer its learners' importances of the features (learners × features)."""
        check_is_fitted(self, "estimators_")
        return [layer.importances() for layer in self.estimators_]

    def layer_feature_names(self, names: Sequence[str]) -> list[list[str]]:
        """Return for each layer the names of the columns it saw; ``names`` are the raw features.

        All columns that a learner of the layer before added have the same name.
        """
        check_is_fitted(self, "estimators_")
        raw = list(names) if self.selected_ is None else [names[i] for i in self.selected_]
        seen = [raw]  # the first layer sees the raw features only
        for number in range(1, len(self.estimators_)):
            added = [] if self.augment == "none" else self._added_names(number)
            seen.append(added if self.augment == "stack" else raw + added)
        return seen

    def _added_names(self, number: int) -> list[str]:
        """Return the names of the columns that layer ``number`` adds for the next one."""
        learners = [record.name for record in self.layers_[number - 1].learners]
        return [
            f"class vectors of layer {number}: {name}"
            for name in learners
            for _ in range(self.n_outputs_)
        ]

    @property
    def feature_importances_(self) -> Array:
        """The share of each raw feature in what was learned.

        The importance of a vector of the layer before is passed on to the features from which THAT
        layer computed it. Learners that do not measure importances are left out.
        """
        check_is_fitted(self, "estimators_")
        n_raw = len(self.categorical_)
        below: list[Array] = []  # for each layer, learners × raw features
        for layer in self.estimators_:
            own = layer.importances()
            seen = 0 if below and self.augment == "stack" else n_raw
            raw = np.zeros((len(own), n_raw))
            raw[:, :seen] = own[:, :seen]
            # Columns after the raw ones are vectors of the layer before.
            if own.shape[1] > seen:
                raw += self._credit(own[:, seen:], below)
            below.append(raw)
        total = self._combined_importances(below)
        # Features that were not selected have no part in the model.
        result = np.zeros(self.n_features_in_)
        result[slice(None) if self.selected_ is None else self.selected_] = total / (
            total.sum() or 1.0
        )
        return result

    def _credit(self, of_vectors: Array, below: list[Array]) -> Array:
        """Return importances of columns of vectors, passed on to the raw features below them."""
        # All columns of a learner's vector are credited to the features which that learner used.
        by_learner: Array = of_vectors.reshape(len(of_vectors), len(below[-1]), -1).sum(axis=2)
        return by_learner @ below[-1]

    def _combined_importances(self, of_layers: list[Array]) -> Array:
        """Return the importances of the raw features for the output of the last of these layers."""
        layer = self.estimators_[len(of_layers) - 1]
        return np.asarray(layer.coefficients @ of_layers[-1])
