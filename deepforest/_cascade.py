"""Hold fitted cascades, and pass rows through their layers.

- ``FittedCascade``  the layers of one cascade, and how it reads its columns
- ``CascadePass``    rows on their way through one or several cascades, layer by layer
- ``ContributionPass``  the same, with how much each column contributes to the outputs
- ``LayerOutput``    the rows, vectors and outputs after one layer
- ``raw_importances``  the share of each column in what a cascade learned
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._features import Features
from ._layer import Layer, mean
from .arithmetic import temper, weighted_sum
from .contributions import passed_back, through_tempering
from .forest.binning import Binner
from .scanning.growing import RecentScans
from .scanning.scan import Scan

if TYPE_CHECKING:
    from ._strategy import LayerStrategy

Array = npt.NDArray[Any]


@dataclass
class FittedCascade:
    """Hold the layers of one cascade, the bins of its columns, and which columns it selected.

    ``categorical`` says which of the selected columns hold categories.
    """

    layers: list[Layer]
    binner: Binner | None
    categorical: Array
    selected: Array | None = None

    def needed_layers(self, augment: str) -> list[bool]:
        """Return of each layer whether the output after the last one depends on it.

        In mdDF that output is the sum f_T = Σ α_l h_l with the weights of the last layer, T. A
        layer in it sees the sum before it (unless ``augment`` is "none"), with the weights of the
        layer before: what has a weight there is needed too, even if its own weight in f_T is 0.
        """
        needed = [layer.alphas is None for layer in self.layers]
        waiting = [len(self.layers) - 1]  # the layers after which the sum is needed
        while waiting:
            alphas = self.layers[waiting.pop()].alphas
            if alphas is None:
                continue
            for layer in np.flatnonzero(alphas):
                if not needed[layer]:
                    needed[layer] = True
                    if layer and augment != "none":
                        waiting.append(int(layer) - 1)
        return needed


class LayerOutput(NamedTuple):
    """Hold the rows that went through a layer, their vectors, and the output for EVERY row so far.

    ``vectors`` are learners × rows × outputs; a row that left earlier has in ``output`` its last
    one. With several cascades both are their means.
    """

    rows: Array
    vectors: Array
    output: Array


class CascadePass:
    """Pass rows through cascades; confident rows leave all of them where a layer has a threshold.

    ``augment`` is what a layer sees, ``room`` how many columns it adds at most.
    """

    def __init__(
        self,
        cascades: Sequence[FittedCascade],
        values: Array,
        strategy: LayerStrategy,
        n_outputs: int,
        augment: str,
        room: int,
    ) -> None:
        self.cascades = cascades
        self.strategy = strategy
        self.augment = augment
        self.rows = np.arange(len(values))
        self.output = np.zeros((len(values), n_outputs))
        # Cascades that use all columns share one view of them.
        shared: Features | None = None
        self.features: list[Features] = []
        for cascade in cascades:
            if cascade.selected is not None or shared is None:
                own = values if cascade.selected is None else values[:, cascade.selected]
                shared = Features(
                    own, cascade.categorical, augment=augment, room=room, binner=cascade.binner
                )
            self.features.append(shared)
        self._last: list[tuple[Array, Array]] | None = None
        self._threshold: float | None = None
        self._temperature = 1.0
        self._layer_outputs: list[list[Array]] = [[] for _ in cascades]
        # Rows are scanned only for the layers that they reach.
        self._values, self._room = values, room
        self._scans = [RecentScans() for _ in cascades]

    def through_all(self) -> Iterator[LayerOutput]:
        """Yield the output after each layer, until no row remains."""
        for layers in zip(*(cascade.layers for cascade in self.cascades), strict=True):
            output = self.apply(layers)
            if output is None:
                return
            yield output

    def to_the_end(self) -> None:
        """Pass the rows through the layers that the output after the last one depends on."""
        needed = [cascade.needed_layers(self.augment) for cascade in self.cascades]
        layers = [cascade.layers for cascade in self.cascades]
        for number in range(len(layers[0])):
            applies = [each[number] for each in needed]
            if self.apply([each[number] for each in layers], applies) is None:
                break
        # Also if all rows left before it: the last layer's temperature is that of all rows.
        self._temperature = layers[0][-1].temperature

    def apply(
        self, layers: Sequence[Layer], needed: Sequence[bool] | None = None
    ) -> LayerOutput | None:
        """Pass the remaining rows through the next layer of each cascade; None if none remains.

        ``needed`` says in which cascades; vectors of the others are zeros.
        """
        # What a layer adds is prepared for the next one only when there is a next one.
        self._let_confident_rows_leave()
        if not len(self.rows):
            return None
        known: dict[int, Array] | None = {} if self._last is None else None
        passed = []
        for number, layer in enumerate(layers):
            if layer.scan is not None:
                self._scan(number, layer.scan)
            if needed is not None and not needed[number]:
                shape = (len(layer.models), len(self.rows), self.output.shape[1])
                vectors = np.zeros(shape, np.float32)
            else:
                vectors = self._vectors(number, layer, known)
            passed.append((vectors, self._output(number, layer, vectors)))
        self.output[self.rows] = mean([output for _, output in passed])
        self._last, self._threshold = passed, layers[0].threshold
        self._temperature = layers[0].temperature
        return LayerOutput(self.rows, mean([vectors for vectors, _ in passed]), self.output)

    def _vectors(self, number: int, layer: Layer, known: dict[int, Array] | None) -> Array:
        """Return the vectors of the remaining rows in a layer of one cascade."""
        features = self.features[number]
        if self._last is not None:
            features.add(self.strategy.next_features(*self._last[number]), layer.binner)
        return layer.vectors(features, known)

    def _scan(self, number: int, scan: Scan) -> None:
        """Scan the remaining rows for the next layer of one cascade."""
        recent = self._scans[number]
        recent.add(scan, scan.vectors(self._values[self.rows]))
        self.features[number] = recent.features(self.augment, self._room)

    def probabilities(self) -> Array:
        """Return the output for every row so far as calibrated probabilities (or numbers)."""
        return temper(self.strategy.to_probabilities(self.output), self._temperature)

    def _output(self, number: int, layer: Layer, vectors: Array) -> Array:
        """Return the output of one cascade after a layer."""
        output = layer.combine(vectors)
        if layer.alphas is None:
            return output
        # mdDF, equation 6: f_t = Σ α_l h_l over all layers so far
        self._layer_outputs[number].append(output)
        return weighted_sum(layer.alphas, self._layer_outputs[number])

    def _let_confident_rows_leave(self) -> None:
        """Leave out the rows that the layer before is confident about."""
        if self._last is None or self._threshold is None:
            return
        self._keep(np.flatnonzero(self.output[self.rows].max(axis=1) <= self._threshold))

    def _keep(self, stay: Array) -> None:
        """Continue with some of the remaining rows."""
        assert self._last is not None
        self.rows = self.rows[stay]
        self._last = [(vectors[:, stay], output[stay]) for vectors, output in self._last]
        taken = {id(features): features.take(stay) for features in self.features}
        self.features = [taken[id(features)] for features in self.features]
        for recent in self._scans:
            recent.keep(stay)


class ContributionPass(CascadePass):
    """Pass rows through cascades, and compute how much each raw column contributes to the outputs.

    A layer sees raw columns and vectors of the layer before. What a vector contributes is passed
    back to the columns that it was made from. So base value and contributions add up to the output
    after every layer.
    """

    def __init__(
        self,
        cascades: Sequence[FittedCascade],
        values: Array,
        strategy: LayerStrategy,
        n_outputs: int,
        augment: str,
        room: int,
    ) -> None:
        super().__init__(cascades, values, strategy, n_outputs, augment, room)
        self.parts = np.zeros((len(values), values.shape[1] + 1, n_outputs))
        # By cascade, contributions to each learner's vectors in the present layer, to the vectors
        # that the next layer sees, and to the output of each layer (mdDF).
        self._learner_parts: list[list[Array]] = [[] for _ in cascades]
        self._vector_parts: list[list[Array]] = [[] for _ in cascades]
        self._layer_parts: list[list[Array]] = [[] for _ in cascades]

    def apply(
        self, layers: Sequence[Layer], needed: Sequence[bool] | None = None
    ) -> LayerOutput | None:
        """Pass the remaining rows through the next layer of each cascade; None if none remains."""
        result = super().apply(layers, needed)
        if result is None:
            return None
        total = np.zeros((len(self.rows), *self.parts.shape[1:]))
        for number, (cascade, layer) in enumerate(zip(self.cascades, layers, strict=True)):
            own = self._combine_parts(number, layer)
            if cascade.selected is None:
                total += own
            else:
                total[:, cascade.selected] += own[:, :-1]
                total[:, -1] += own[:, -1]
        self.parts[self.rows] = total / len(layers)
        return result

    def contributions(self) -> Array:
        """Return the contributions to ``probabilities()``, rows × (columns + 1) × outputs."""
        parts = self.strategy.to_probability_parts(self.parts)
        return through_tempering(parts, self._temperature)

    def _vectors(self, number: int, layer: Layer, known: dict[int, Array] | None) -> Array:
        vectors = super()._vectors(number, layer, known)
        features, by_learner = self.features[number], []
        for own in layer.contributions(features):
            raw = own if features.vectors is None else self._to_raw(own, number)
            by_learner.append(raw)
        self._learner_parts[number] = by_learner
        return vectors

    def _to_raw(self, own: Array, number: int) -> Array:
        """Return contributions of the raw columns from those of all that the layer sees."""
        n_raw, n_outputs = self.features[number].n_raw, own.shape[2]
        before = self._vector_parts[number]
        result = np.zeros_like(before[0])
        result[:, :n_raw] = own[:, :n_raw]
        result[:, -1] = own[:, -1]
        for place, parts in enumerate(before):
            first = n_raw + place * n_outputs
            result += passed_back(own[:, first : first + n_outputs].sum(axis=1), parts)
        if n_outputs > 1:
            # What a column adds to one class it takes from others. The sums over the columns stay,
            # because they add up to 0 over the classes too.
            result[:, :-1] -= result[:, :-1].mean(axis=2, keepdims=True)
        return result

    def _combine_parts(self, number: int, layer: Layer) -> Array:
        """Return the contributions to the output of one cascade, and prepare the next layer."""
        by_learner, self._learner_parts[number] = self._learner_parts[number], []
        if not by_learner:  # the layer was not needed
            n_columns = len(self.cascades[number].categorical) + 1
            shape = (len(self.rows), n_columns, self.output.shape[1])
            by_learner = [np.zeros(shape)] * len(layer.models)
        output = weighted_sum(layer.coefficients, by_learner)
        if layer.alphas is not None:
            self._layer_parts[number].append(output)
            output = weighted_sum(layer.alphas, self._layer_parts[number])
        self._vector_parts[number] = [output] if self.strategy.passes_output else by_learner
        return output

    def _keep(self, stay: Array) -> None:
        super()._keep(stay)
        for by_learner in self._vector_parts:
            by_learner[:] = [parts[stay] for parts in by_learner]


def raw_importances(cascade: FittedCascade, strategy: LayerStrategy, augment: str) -> Array:
    """Return the share of each selected column in what a cascade learned.

    The importance of a vector of the layer before is passed on to the columns from which THAT layer
    computed it. Learners that do not measure importances are left out.
    """
    n_raw = len(cascade.categorical)
    below: list[Array] = []  # for each layer, learners × columns
    recent = RecentScans()
    for number, layer in enumerate(cascade.layers):
        own = layer.importances()
        if layer.scan is not None:
            recent.add(layer.scan, np.zeros(0))
        n_columns = recent.width or n_raw
        seen = 0 if below and augment == "stack" else n_columns
        raw = np.zeros((len(own), n_raw))
        if recent.scans and seen:
            raw = recent.raw_importances(own[:, :seen])
        else:
            raw[:, :seen] = own[:, :seen]
        # Columns after the raw ones are vectors of the layer before.
        of_vectors = own[:, seen:]
        if of_vectors.shape[1] and strategy.passes_output:
            before = strategy.output_importances(cascade.layers[:number], below)
            raw += np.outer(of_vectors.sum(axis=1), before)
        elif of_vectors.shape[1]:
            # All columns of a learner's vector are credited to the columns which it used.
            by_learner = of_vectors.reshape(len(own), len(below[-1]), -1).sum(axis=2)
            raw += by_learner @ below[-1]
        below.append(raw)
    total = strategy.output_importances(cascade.layers, below)
    return np.asarray(total / (total.sum() or 1.0))
