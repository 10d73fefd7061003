"""Carry contributions of columns from one function to the next, so that their sum stays exact.

Contributions are arrays, rows × (columns + 1) × outputs. The last entry of a row is the base value;
base value and contributions add up to the output. Each function here takes the contributions to a
value and returns those to a function of it.

- ``score_contributions``  contributions to the raw scores of LightGBM's trees
- ``through_softmax``      scores of classes → probabilities
- ``through_tempering``    probabilities → sharper or flatter ones (``arithmetic.temper``)
- ``through_normalising``  numbers from 0 → the same divided by their sum
- ``passed_back``          contributions of a class vector → of the columns it was made from
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import LEAST_PROBABILITY, class_probabilities

Array = npt.NDArray[Any]

CLOSE = 1e-4
"""Between values that are closer the slope of a curve is taken in place of that of its secant."""
SOFTMAX_POINTS = 32
INCOHERENT = 0.15
"""Contributions whose sum is less than this share of the sum of their sizes largely cancel out."""


def score_contributions(booster: Any, values: Array, n_jobs: int = 1) -> Array:
    """Return how much each column adds to the raw scores, rows × (columns + 1) × scores.

    They are the Shapley values of LightGBM (TreeSHAP). Deep forests call it in a block of
    ``lightgbm_threads``.
    """
    n_columns, n_scores = booster.num_feature() + 1, booster.num_model_per_iteration()
    if not len(values):
        return np.empty((0, n_columns, n_scores))
    values = np.ascontiguousarray(values)
    flat = np.asarray(booster.predict(values, num_threads=n_jobs, pred_contrib=True))
    return flat.reshape(len(values), n_scores, n_columns).transpose(0, 2, 1)


def through_softmax(parts: Array) -> Array:
    """Return contributions to probabilities from those to the scores of the classes.

    A single score is the logit of the second of two classes. Each contribution is multiplied by the
    mean slope of the softmax on the straight way from the base scores to those of the row.
    """
    if parts.shape[2] == 2:
        parts = parts[:, :, 1:] - parts[:, :, :1]
    if parts.shape[2] == 1:
        return _through_sigmoid(parts[:, :, 0])
    base, change = parts[:, -1], parts[:, :-1].sum(axis=1)
    points, weights = np.polynomial.legendre.leggauss(SOFTMAX_POINTS)
    # slopes[row, d, c] is the mean of ∂p_c/∂s_d = p_c·([c = d] − p_d).
    n_rows, n_classes = base.shape
    slopes = np.zeros((n_rows, n_classes, n_classes))
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        p = class_probabilities(base + point * change)
        slopes -= weight * p[:, :, None] * p[:, None, :]
        slopes[:, range(n_classes), range(n_classes)] += weight * p
    result = np.empty_like(parts)
    np.matmul(parts[:, :-1], slopes, out=result[:, :-1])
    result[:, -1] = class_probabilities(base)
    return _closed(result, class_probabilities(base + change))


def _through_sigmoid(parts: Array) -> Array:
    """Return contributions to the probabilities of two classes from those to one logit."""
    base, change = parts[:, -1], parts[:, :-1].sum(axis=1)
    before, after = (
        class_probabilities(base[:, None]),
        class_probabilities((base + change)[:, None]),
    )
    middle = class_probabilities((base + change / 2)[:, None])
    slope = middle[:, 0] * middle[:, 1]
    far = np.abs(change) > CLOSE
    np.divide(after[:, 1] - before[:, 1], change, out=slope, where=far)
    result = np.empty((*parts.shape, 2))
    result[:, :-1, 1] = parts[:, :-1] * slope[:, None]
    result[:, :-1, 0] = -result[:, :-1, 1]
    result[:, -1] = before
    return result


def through_tempering(parts: Array, temperature: float) -> Array:
    """Return contributions to probabilities in proportion to p ** (1 / temperature)."""
    if temperature == 1.0:
        return parts
    base = parts[:, -1]
    after = base + parts[:, :-1].sum(axis=1)
    low = np.maximum(base, LEAST_PROBABILITY)
    high = np.maximum(after, LEAST_PROBABILITY)
    # The secant of the logarithm; ``temper`` does not go below LEAST_PROBABILITY.
    change = after - base
    slope = np.where((low > LEAST_PROBABILITY) | (high > LEAST_PROBABILITY), 2 / (low + high), 0.0)
    far = np.abs(change) > CLOSE * np.minimum(low, high)
    np.divide(np.log(high / low), change, out=slope, where=far)
    logs = np.empty_like(parts)
    logs[:, :-1] = parts[:, :-1] * slope[:, None] / temperature
    logs[:, -1] = np.log(low) / temperature
    return through_softmax(logs)


def through_normalising(parts: Array) -> Array:
    """Return contributions to u / Σu from those to u, numbers from 0 with a positive sum."""
    base = parts[:, -1]
    total = parts.sum(axis=(1, 2))
    shares = base / base.sum(axis=1, keepdims=True)
    # u_c / T − b_c / B = (Δu_c − (b_c / B)·ΔT) / T
    result = parts - shares[:, None] * parts.sum(axis=2, keepdims=True)
    result /= total[:, None, None]
    result[:, -1] = shares
    return np.asarray(result)


def passed_back(total: Array, parts: Array) -> Array:
    """Return the contributions of columns, by way of a class vector that was made from them.

    ``total`` is what the vector contributes to each output, rows × outputs; ``parts`` are the
    contributions of the columns to the vector. The total is divided among the columns in proportion
    to their contributions to the same output, with their signs (the rescale rule of DeepSHAP). The
    closer these come to cancelling out, the more it is divided by their sizes alone, since the
    shares with signs grow without limit. If no column contributes to the vector, the total goes to
    the base value.
    """
    own = parts[:, :-1]
    size = np.abs(own)
    sum_of_sizes = size.sum(axis=1)
    exists = sum_of_sizes > 0
    per_size = np.divide(total, sum_of_sizes, out=np.zeros_like(total), where=exists)
    coherence = own.sum(axis=1) / np.where(exists, sum_of_sizes, 1.0)  # from −1 to 1
    signed = coherence / (np.square(coherence) + INCOHERENT**2)
    plain = 1 - coherence * signed
    result = np.empty_like(parts)
    result[:, :-1] = own * (signed * per_size)[:, None] + size * (plain * per_size)[:, None]
    result[:, -1] = np.where(exists, 0.0, total)
    return result


def _closed(parts: Array, output: Array) -> Array:
    """Return the parts with what rounding has left of ``output`` divided among them by size."""
    sizes = np.abs(parts[:, :-1])
    total = sizes.sum(axis=1)
    missing = output - parts.sum(axis=1)
    share = np.divide(missing, total, out=np.zeros_like(total), where=total > 0)
    parts[:, :-1] += sizes * share[:, None]
    return parts
