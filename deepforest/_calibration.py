"""Calibrate probabilities by one number, the temperature; ``arithmetic.temper`` applies it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from .arithmetic import LEAST_PROBABILITY

Array = npt.NDArray[Any]

TEMPERATURES = (0.1, 100.0)
CALIBRATION_ROWS = 5_000


def best_temperature(probabilities: Array, truth: Array, weights: Array | None) -> float:
    """Return the temperature at which the true classes are most likely; see ``temper``."""
    # One number, so a sample of the rows is enough.
    rows = sample_rows(len(truth), CALIBRATION_ROWS)
    logs, truth = np.log(np.maximum(probabilities[rows], LEAST_PROBABILITY)), truth[rows]
    weights = None if weights is None else weights[rows]
    logs -= logs.max(axis=1, keepdims=True)
    of_true_class = logs[np.arange(len(truth)), truth]

    def loss(log_temperature: float) -> float:
        # −log softmax(logs / τ) of the true class.
        sharpness = np.exp(-log_temperature)
        total = np.log(np.exp(logs * sharpness).sum(axis=1))
        return float(np.average(total - of_true_class * sharpness, weights=weights))

    found = minimize_scalar(
        loss, bounds=np.log(TEMPERATURES), method="bounded", options={"xatol": 1e-3}
    )
    return float(np.exp(found.x))


def sample_rows(n_rows: int, n_most: int) -> Array | slice:
    """Return at most ``n_most`` of the rows, always the same ones.

    Not every n-th row: the order of a table may repeat itself, as in matched pairs.
    """
    if n_rows <= n_most:
        return slice(None)
    return np.random.default_rng(0).permutation(n_rows)[:n_most]
