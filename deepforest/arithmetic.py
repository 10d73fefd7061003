"""Compute sums and products of rows whose bits depend on the row alone.

A matrix product of BLAS rounds a row differently if other rows are beside it, and differently
again on another processor; so do the exponentials of NumPy and of the C library. Here every row is
computed by the same additions and multiplications in the same order, on every processor and in
every batch.

- ``weighted_sum``  arrays times one number each, added up
- ``row_products``  each row times a matrix of weights, plus an intercept for each output
- ``class_probabilities``  scores of the classes as probabilities
- ``temper``        probabilities made sharper or flatter, in proportion to p ** (1 / temperature)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import large_arrays
from .forest._compile import inlined, kernel

Array = npt.NDArray[Any]

LARGEST = 1e300  # the difference of two such scores is still a number
LOG2_E = 1.4426950408889634
# ln 2 in two parts (Cody and Waite): the first has few binary digits, so that its product with a
# small whole number is exact; the second is the rest.
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
SQRT_HALF = 0.7071067811865476
BLOCK_NUMBERS = 16_384
LEAST_PROBABILITY = 1e-7  # what a class without any vote counts as, since 0 has no logarithm
SMALLEST = -746.0  # e to this power is 0 as a 64-bit float
TAYLOR = tuple(1 / math.factorial(n) for n in range(12, -1, -1))  # of e**x, the highest power first


def weighted_sum(weights: Array, arrays: Sequence[Array] | Array) -> Array:
    """Return Σ wᵢ·aᵢ; the weights are 64-bit floats, and so is the sum."""
    total: Array = weights[0] * arrays[0]
    for weight, array in zip(weights[1:], arrays[1:], strict=True):
        total += weight * array
    return total


def row_products(matrix: Array, weights: Array, intercepts: Array) -> Array:
    """Return ``matrix @ weights + intercepts``, rows × outputs, summed in feature order.

    The type is that of BLAS: 32-bit floats if all three have them, else 64-bit floats.
    """
    dtype = np.result_type(matrix, weights, intercepts)
    out = np.empty((len(matrix), weights.shape[1]), dtype)
    out[:] = intercepts
    add = _add_products_of_one if weights.shape[1] == 1 else _add_products
    add(np.ascontiguousarray(matrix, dtype), np.ascontiguousarray(weights, dtype), out)
    return out


def class_probabilities(scores: Array) -> Array:
    """Return the softmax of each row: e**score of each class, divided by the sum over the classes.

    A single score is the logit of the second of two classes. Probabilities add up to 1 even where
    scores are not finite: NaN counts as 0, and what is beyond ``LARGEST`` as that.
    """
    n_rows, n_scores = scores.shape
    out = np.empty((n_rows, max(n_scores, 2)))
    _softmax(np.ascontiguousarray(scores, np.float64), out)
    return out


def temper(probabilities: Array, temperature: float) -> Array:
    """Return probabilities in proportion to p ** (1 / temperature): below 1 makes them sharper."""
    if temperature == 1.0:
        return probabilities
    out = large_arrays.empty(probabilities.shape, np.float64)
    # By blocks of rows: what is computed in between then stays in the cache of the processor.
    size = max(1, BLOCK_NUMBERS // probabilities.shape[1])
    for first in range(0, len(probabilities), size):
        block = probabilities[first : first + size].astype(np.float64)
        logs = logarithms(np.maximum(block, LEAST_PROBABILITY))
        out[first : first + size] = class_probabilities(logs / temperature)
    return out


def logarithms(values: Array) -> Array:
    """Return the natural logarithm of numbers above 0."""
    # x = m · 2**n with m from 1/√2 to √2, and log m = 2·artanh((m − 1) / (m + 1)) as a series.
    mantissa, exponent = np.frexp(values)
    small = mantissa < SQRT_HALF
    mantissa = np.where(small, 2 * mantissa, mantissa)
    exponent = exponent - small
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    total = np.zeros_like(ratio)
    for power in range(21, 0, -2):
        total *= square  # in place: large temporary arrays would take most of the time
        total += 1 / power
    # The low part of ln 2 first: the sum of the small numbers loses no digit.
    return np.asarray(exponent * LN2_HIGH + (exponent * LN2_LOW + 2 * ratio * total))


@kernel
def _add_products(matrix: Array, weights: Array, out: Array) -> None:
    """Add to ``out``, several outputs at a time; four features per step save loads and stores."""
    n_features, n_outputs = weights.shape
    in_fours = n_features - n_features % 4
    for i in range(matrix.shape[0]):
        row, sums = matrix[i], out[i]
        for k in range(0, in_fours, 4):
            a, b, c, d = row[k], row[k + 1], row[k + 2], row[k + 3]
            of_a, of_b, of_c, of_d = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            for j in range(n_outputs):
                # The brackets fix the order of the additions, and with it every bit.
                sums[j] = (((sums[j] + a * of_a[j]) + b * of_b[j]) + c * of_c[j]) + d * of_d[j]
        for k in range(in_fours, n_features):
            a, of_a = row[k], weights[k]
            for j in range(n_outputs):
                sums[j] += a * of_a[j]


@kernel
def _add_products_of_one(matrix: Array, weights: Array, out: Array) -> None:
    """Add to ``out`` of a single output, eight rows at a time: each waits for its own sum only."""
    n_rows, n_features = matrix.shape
    in_eights = n_rows - n_rows % 8
    for i in range(0, in_eights, 8):
        rows, sums = matrix[i : i + 8], out[i : i + 8, 0]
        a, b, c, d = sums[0], sums[1], sums[2], sums[3]
        e, f, g, h = sums[4], sums[5], sums[6], sums[7]
        for k in range(n_features):
            weight = weights[k, 0]
            a += rows[0, k] * weight
            b += rows[1, k] * weight
            c += rows[2, k] * weight
            d += rows[3, k] * weight
            e += rows[4, k] * weight
            f += rows[5, k] * weight
            g += rows[6, k] * weight
            h += rows[7, k] * weight
        sums[0], sums[1], sums[2], sums[3] = a, b, c, d
        sums[4], sums[5], sums[6], sums[7] = e, f, g, h
    for i in range(in_eights, n_rows):
        a = out[i, 0]
        for k in range(n_features):
            a += matrix[i, k] * weights[k, 0]
        out[i, 0] = a


@inlined
def _power_of_e(x: Any) -> Any:
    """Return e**x for x up to 0, as 2**n · e**rest with the rest from -ln(2) / 2 to ln(2) / 2."""
    if x < SMALLEST:
        return 0.0
    n = np.rint(x * LOG2_E)
    rest = (x - n * LN2_HIGH) - n * LN2_LOW
    power = 0.0
    for factor in TAYLOR:
        power = power * rest + factor
    return math.ldexp(power, int(n))


@inlined
def _bounded(score: Any) -> Any:
    if math.isnan(score):
        return 0.0
    return min(max(score, -LARGEST), LARGEST)


@kernel
def _softmax(scores: Array, out: Array) -> None:
    n_rows, n_classes = out.shape
    n_scores = scores.shape[1]
    without_score = n_classes - n_scores
    for i in range(n_rows):
        out[i, 0] = 0.0
        for j in range(n_scores):
            out[i, without_score + j] = _bounded(scores[i, j])
        # e**(s − max) / Σ e**(s − max) is the same softmax, and no power can overflow.
        largest = out[i, 0]
        for j in range(1, n_classes):
            largest = max(largest, out[i, j])
        total = 0.0
        for j in range(n_classes):
            out[i, j] = _power_of_e(out[i, j] - largest)
            total += out[i, j]
        for j in range(n_classes):
            out[i, j] /= total
