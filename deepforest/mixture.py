"""How much each learner of a layer has to say.

- ``mixture_weights``  of class probabilities: towards the mixture under which the true classes are most likely
- ``blend_weights``    of numbers: the blend with the least squared error
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

Array = npt.NDArray[Any]

ROUNDS = 200
SMALLEST = 1e-6  # a learner that was sure and wrong must not be silenced by a single row


def mixture_weights(given: Array, row_weight: Array | None = None) -> Array:
    """Weights that sum to 1 and raise Σ log Σ_j w_j p_j(i), ``given`` being p_j(i), the true class's probability.

    The likelihood is concave in the weights; each round of expectation-maximisation raises it (``given``: rows ×
    learners). It starts from equal weights and stops when a round changes little, before the very maximum: learners
    that are about as good as each other keep about the same weight.
    """
    given = np.maximum(given, SMALLEST)
    share = np.full(len(given), 1 / len(given)) if row_weight is None else row_weight / row_weight.sum()
    weights = np.full(given.shape[1], 1 / given.shape[1])
    for _ in range(ROUNDS):
        before = weights
        weights = weights * (share / (given @ weights) @ given)
        if np.abs(weights - before).max() < 1e-5:
            break
    return np.asarray(weights / weights.sum())


def blend_weights(predicted: Array, truth: Array, row_weight: Array | None = None) -> Array:
    """Weights that sum to 1, none negative, of the blend nearest to ``truth`` (``predicted``: rows × learners).

    Least squares with one row more, which wants the sum to be 1: whatever sum that ends with, the shares are the best.
    """
    errors = predicted - truth[:, None]
    if row_weight is not None:
        errors = errors * np.sqrt(row_weight)[:, None]
    n = predicted.shape[1]
    wanted = np.append(np.zeros(len(errors)), 1.0)
    weights, _ = nnls(np.vstack([errors / (np.linalg.norm(errors) or 1.0), np.ones(n)]), wanted)
    return np.asarray(weights / weights.sum())
