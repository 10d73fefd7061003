"""Compute figures about the inside of a cascade from plain arrays: vectors and outputs of layers.

- ``scatter_ratio``     S_A/S_E: variance within the classes over variance between them
- ``agreement``         how often two learners predict the same class
- ``learner_scores``    each learner's own scores
- ``screening_flow``    the rows that confidence screening would let leave; ``Flow``
- ``name_importances``  the most important features of a layer, by name; ``Importance``
- ``steering_measure``  the metric that decided about growth
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
    """Return S_A/S_E, the variance within the classes over the variance between them.

    The smaller it is, the better the classes are separated. Of the squared distance of all rows to
    their centre, S_A is the part to the centres of the classes and S_E the rest. Rows with a
    negative code do not count. Return None unless there are two classes with different centres.
    """
    # Figure 2b of the mdDF paper draws this ratio for each layer, in the plane of t-SNE.
    known = codes >= 0
    points, codes = np.asarray(points, np.float64)[known], codes[known]
    classes, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        return None
    sums = np.stack([np.bincount(codes, column) for column in points.T], axis=1)
    centres = sums / counts[:, None]
    # S_A and S_E as sums: the number of rows cancels in their ratio.
    within = float(((points - centres[codes]) ** 2).sum())
    between = float((counts[:, None] * (centres - points.mean(axis=0)) ** 2).sum())
    return within / between if between > 1e-12 * within and between > 0 else None


def agreement(vectors: Array) -> Array:
    """Return for each two learners the share of rows for which they predict the same class.

    ``vectors`` are learners × rows × classes.
    """
    return np.asarray(agreements(vectors) / max(vectors.shape[1], 1))


def agreements(vectors: Array) -> Array:
    """Return the same as numbers of rows, which can be added up over blocks of rows."""
    predicted = vectors.argmax(axis=2)
    counts = np.zeros((len(predicted), len(predicted)), int)
    for number, classes in enumerate(predicted):
        counts[number] = (predicted == classes).sum(axis=1)
    return counts


def learner_scores(
    vectors: Array, truth: Array, measures: Sequence[Metric] = USUAL
) -> list[dict[str, float | None]]:
    """Return the scores of each learner's vectors (learners × rows × classes).

    Rows with a negative class do not count.
    """
    known = truth >= 0
    scores = []
    for probabilities in vectors:
        scores.append({each.name: each(truth[known], probabilities[known]) for each in measures})
    return scores


class Flow(NamedTuple):
    """Hold how many rows enter a layer and how many leave after it, with the share of errors."""

    layer: int
    rows_in: int
    rows_out: int
    error_in: float | None
    error_out: float | None
    threshold: float | None
    """The confidence above which rows leave; None at the last layer, after which all rows leave."""


def screening_flow(outputs: Array, truth: Array, share: float) -> list[Flow]:
    """Return the rows that confidence screening with the error share a = ``share`` would let leave.

    ``outputs`` are those after each layer (layers × rows × classes); where a row has NaN, its last
    output counts. Rows with a negative class do not count.
    """
    known = np.flatnonzero(truth >= 0)
    rows, flows = np.arange(len(known)), []
    for layer, output in enumerate(_with_last_outputs(outputs[:, known]), 1):
        confidence = output.max(axis=1)[rows]
        right = output.argmax(axis=1)[rows] == truth[known][rows]
        last = layer == len(outputs)
        # After the last layer all rows leave, whatever their confidence.
        threshold = (
            None if last or not len(rows) else confidence_threshold(confidence, right, share)
        )
        leaves = np.full(len(rows), last) if threshold is None else confidence > threshold
        flows.append(
            Flow(
                layer, len(rows), int(leaves.sum()), _error(right), _error(right[leaves]), threshold
            )
        )
        rows = rows[~leaves]
    return flows


def _with_last_outputs(outputs: Array) -> Array:
    """Return the outputs with NaN replaced by the output of the layer before."""
    result = outputs.copy()
    for layer in range(1, len(result)):
        gone = np.isnan(result[layer, :, 0])
        result[layer, gone] = result[layer - 1, gone]
    return result


def _error(right: Array) -> float | None:
    """Return the share of wrong rows, None without rows."""
    return float(1 - right.mean()) if len(right) else None


class Importance(NamedTuple):
    """Hold the share of a feature in what a layer learned, in total and for each learner."""

    feature: str
    importance: float
    learners: list[float]


def name_importances(
    importances: Array, coefficients: Array, names: Sequence[str], most: int
) -> list[Importance]:
    """Return the ``most`` most important features of a layer, the most important first.

    ``importances`` are learners × columns; columns of the same name count as one feature. Learners
    are weighted by ``coefficients``, as in the layer. Return an empty list if no learner measures
    importances.
    """
    features, feature_of_column = np.unique(np.asarray(names, dtype=object), return_inverse=True)
    by_learner = np.stack(
        [np.bincount(feature_of_column, row, len(features)) for row in importances]
    )
    total = np.abs(coefficients) @ by_learner
    if not total.sum() > 0:
        return []
    total = total / total.sum()
    order = np.argsort(-total, kind="stable")[:most]
    return [Importance(str(features[i]), float(total[i]), by_learner[:, i].tolist()) for i in order]


def steering_measure(records: Sequence[Mapping[str, Any]], requested: Any) -> str:
    """Return the name of the metric that decided about growth, from the records of layers.

    It is the ``requested`` one if the records have it, else the one whose values are the scores;
    "score" if none of them is.
    """
    if records and records[0].get("metric"):
        return str(records[0]["metric"])
    # Records of earlier versions do not name it.
    measured = records[0]["scores"] if records else {}
    if isinstance(requested, str) and requested in measured:
        return requested
    for name in measured:
        if all(record["scores"].get(name) == record["score"] for record in records):
            return str(name)
    return "score"
