"""Compute the weight of each learner in the output of a layer.

- ``mixture_weights``  for class probabilities: the mixture that makes the true classes most likely
- ``blend_weights``    for numbers: the blend with the least squared error
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

Array = npt.NDArray[Any]

ROUNDS = 200
SMALLEST = 1e-6  # one row that a learner is sure and wrong about must not take all its weight


def mixture_weights(probabilities: Array, row_weight: Array | None = None) -> Array:
    """Return weights w that sum to 1 and raise the likelihood Σ_i log Σ_j w_j p_j(i).

    ``probabilities`` are p_j(i), rows × learners: what learner j gives to the true class of row i.
    The likelihood is concave in the weights, and each round of expectation-maximisation raises it.
    It starts from equal weights and stops when a round changes little, before the very maximum:
    learners that are about equally good have about the same weight.
    """
    likelihood = np.maximum(probabilities, SMALLEST)
    n_rows, n_learners = likelihood.shape
    share = np.full(n_rows, 1 / n_rows) if row_weight is None else row_weight / row_weight.sum()
    weights = np.full(n_learners, 1 / n_learners)
    for _ in range(ROUNDS):
        before = weights
        # w_j ← Σ_i s_i · w_j·p_j(i) / Σ_l w_l·p_l(i): the mean share of learner j in the mixture.
        weights = weights * (share / (likelihood @ weights) @ likelihood)
        if np.abs(weights - before).max() < 1e-5:
            break
    return np.asarray(weights / weights.sum())


def blend_weights(predicted: Array, truth: Array, row_weight: Array | None = None) -> Array:
    """Return weights ≥ 0 that sum to 1, of the blend nearest to ``truth``.

    ``predicted`` are rows × learners. One more row of the least-squares problem asks for a sum of
    1; the sum it ends with may differ, but the shares are the best.
    """
    # If the weights sum to 1, Σ_j w_j·p_j − y = Σ_j w_j·(p_j − y): the errors can be blended.
    errors = predicted - truth[:, None]
    if row_weight is not None:
        errors = errors * np.sqrt(row_weight)[:, None]
    n = predicted.shape[1]
    target = np.append(np.zeros(len(errors)), 1.0)
    # The errors are scaled so that they and the row of the sum are of the same size.
    weights, _ = nnls(np.vstack([errors / (np.linalg.norm(errors) or 1.0), np.ones(n)]), target)
    return np.asarray(weights / weights.sum())
