"""Figures about the inside of a cascade, from plain arrays: what its layers and learners said about rows.

- ``scatter_ratio``     S_A/S_E: how far apart rows of one class are, against how far apart the classes are
- ``agreement``         how often two learners name the same class
- ``learner_scores``    each learner's own scores
- ``screening_flow``    what confidence screening would let go after each layer; ``Flow``
- ``name_importances``  what a layer's learners went by, with names; ``Importance``
- ``steering_measure``  which measure the growth was steered by
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .metrics import METRICS, Metric
from .screening import confidence_threshold

Array = npt.NDArray[Any]

USUAL = (METRICS["accuracy"], METRICS["log_loss"])


def scatter_ratio(points: Array, codes: Array) -> float | None:
    """S_A/S_E: variance within the classes over variance between them; the smaller, the better they are told apart.

    Of all the squared distance to the centre, S_A is the part to the centres of the classes, S_E the rest. Rows with a
    negative code do not count. None where there are not two classes apart from each other.
    """
    known = codes >= 0
    points, codes = np.asarray(points, np.float64)[known], codes[known]
    classes, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        return None
    centres = np.stack([np.bincount(codes, column) for column in points.T], axis=1) / counts[:, None]
    within = float(((points - centres[codes]) ** 2).sum())
    between = float((counts[:, None] * (centres - points.mean(axis=0)) ** 2).sum())
    return within / between if between > 1e-12 * within and between > 0 else None


def agreement(vectors: Array) -> Array:
    """For each two learners, the share of rows on which they name the same class; ``vectors`` are K × n × C."""
    return np.asarray(agreements(vectors) / max(vectors.shape[1], 1))


def agreements(vectors: Array) -> Array:
    """The same as numbers of rows, which can be added up."""
    named = vectors.argmax(axis=2)
    return np.array([[int((one == other).sum()) for other in named] for one in named])


def learner_scores(vectors: Array, truth: Array, measures: Sequence[Metric] = USUAL) -> list[dict[str, float | None]]:
    """Scores of each learner's vectors (K × n × C); rows with a negative class do not count."""
    known = truth >= 0
    return [{each.name: each(truth[known], said[known]) for each in measures} for said in vectors]


class Flow(NamedTuple):
    """Rows that come into a layer and those that leave there for good, each with the share that is wrong."""

    layer: int
    rows_in: int
    rows_out: int
    error_in: float | None
    error_out: float | None
    threshold: float | None
    """The confidence above which rows leave; none at the last layer, which lets all go."""


def screening_flow(outputs: Array, truth: Array, share: float) -> list[Flow]:
    """What confidence screening with the error share a = ``share`` would let go after each layer.

    ``outputs`` are what was said after each layer (L × n × C); a row that has NaN keeps what was said of it before.
    Rows with a negative class do not count.
    """
    known = np.flatnonzero(truth >= 0)
    rows, flows = np.arange(len(known)), []
    for layer, said in enumerate(_carried_on(outputs[:, known]), 1):
        confidence = said.max(axis=1)[rows]
        right = said.argmax(axis=1)[rows] == truth[known][rows]
        last = layer == len(outputs)
        threshold = None if last or not len(rows) else confidence_threshold(confidence, right, share)
        leaves = np.full(len(rows), last) if threshold is None else confidence > threshold
        flows.append(Flow(layer, len(rows), int(leaves.sum()), _error(right), _error(right[leaves]), threshold))
        rows = rows[~leaves]
    return flows


def _carried_on(outputs: Array) -> Array:
    """What was last said of each row by the end of each layer."""
    result = outputs.copy()
    for layer in range(1, len(result)):
        gone = np.isnan(result[layer, :, 0])
        result[layer, gone] = result[layer - 1, gone]
    return result


def _error(right: Array) -> float | None:
    return float(1 - right.mean()) if len(right) else None


class Importance(NamedTuple):
    """A feature's share in what a layer learned, all in all and for each learner."""

    feature: str
    importance: float
    learners: list[float]


def name_importances(importances: Array, coefficients: Array, names: Sequence[str], most: int) -> list[Importance]:
    """The features a layer went by, the most important first, at most so many.

    ``importances`` are learners × columns; columns of the same name count as one feature. Learners weigh what they
    weigh in the layer. Empty where no learner measures importances.
    """
    features, place = np.unique(np.asarray(names, dtype=object), return_inverse=True)
    by_learner = np.stack([np.bincount(place, row, len(features)) for row in importances])
    total = np.abs(coefficients) @ by_learner
    if not total.sum() > 0:
        return []
    total = total / total.sum()
    order = np.argsort(-total, kind="stable")[:most]
    return [Importance(str(features[i]), float(total[i]), by_learner[:, i].tolist()) for i in order]


def steering_measure(records: Sequence[Mapping[str, Any]], wanted: Any) -> str:
    """The measure that the layers' scores are of: the one asked for, else the one with the same values."""
    measured = records[0]["scores"] if records else {}
    if isinstance(wanted, str) and wanted in measured:
        return wanted
    same = [name for name in measured if all(record["scores"].get(name) == record["score"] for record in records)]
    return same[0] if same else "score"
