"""Compute margins of a classifier, and minimise the loss by which mdDF shapes them.

The margin of a row is the score of its own class minus the best score of any other: positive when
the row is classified correctly, and the larger the safer. mdDF (Lyu, Yang and Zhou) gives each
layer the weight α that minimises a loss with a target margin γ: rows below it cost, rows beyond it
cost a little (μ), so that all margins gather around it.

- ``margins``       of rows, from scores and true classes
- ``margin_loss``   ℓ(z) = (z−γ)²/γ² up to γ, μ(z−γ)²/(1−γ)² beyond
- ``best_alpha``    the exact minimiser of the mean loss of F + α·g over α
- ``best_alphas``   the minimiser of the mean loss of Σ α_l·g_l over all α_l, none negative
- ``stagewise_alphas``  each α_l the best one after those before it, as in the paper
- ``row_weights``   D ∝ ℓ(F), the next layer's sample weights
- ``margin_ratio``  λ = std(F) / mean(F), which falls as layers are added

Equation numbers are those of the mdDF paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

Array = npt.NDArray[Any]

NEWTON_ROUNDS = 50


def margins(scores: Array, truth: Array) -> Array:
    """Return for each row the score of its true class minus the best other score.

    ``scores`` are rows × classes, ``truth`` are class numbers.
    """
    # γ(x) = h^y(x) − max_{j ≠ y} h^j(x), Algorithm 2, line 6.
    rows = np.arange(len(truth))
    own = scores[rows, truth]
    others = scores.copy()
    others[rows, truth] = -np.inf
    return np.asarray(own - others.max(axis=1))


def margin_loss(margin: Array, gamma: float, mu: float) -> Array:
    """Return the loss ℓ of each margin."""
    # Equation 28: (z − γ)² / γ² up to γ, μ·(z − γ)² / (1 − γ)² beyond. Both parts are 0 at γ, and
    # the first is 1 at z = 0.
    scale = np.where(margin <= gamma, 1 / gamma**2, mu / (1 - gamma) ** 2)
    return np.asarray(scale * (margin - gamma) ** 2)


def best_alpha(before: Array, margin: Array, gamma: float, mu: float) -> float:
    """Return the α that minimises mean ℓ(before + α · margin).

    As a function of α the loss is convex and piecewise quadratic: row i changes from one parabola
    to the other where before + α · margin = γ. Between two such points the slope is A·α − B with
    sums A and B over the rows, so one pass over the sorted points finds the piece in which the
    slope passes zero.
    """
    # Rows whose margin is 0 in this layer stay where they are for every α.
    moving = margin != 0
    before, margin = before[moving], margin[moving]
    if not len(margin):
        return 0.0
    # Equation 26, as a function of the last α only: Algorithm 2, line 7.
    turning = (gamma - before) / margin
    order = np.argsort(turning, kind="stable")
    turning, margin = turning[order], margin[order]
    inside, beyond = 1 / gamma**2, mu / (1 - gamma) ** 2
    # For α → −∞, rows with a positive margin are below the target, others beyond it.
    curvature = np.where(margin > 0, inside, beyond) * margin**2
    change = (beyond - inside) * np.sign(margin) * margin**2
    # The slope of row i is 2·c_i·(α − turning_i) with its present curvature c_i, and row i changes
    # its curvature at turning_i. So A = Σ c_i and B = Σ c_i·turning_i are running sums.
    a = curvature.sum() + np.concatenate(([0.0], np.cumsum(change)))
    b = (curvature * turning).sum() + np.concatenate(([0.0], np.cumsum(change * turning)))
    slope = a[:-1] * turning - b[:-1]  # at each turning point; never falls
    piece = int(np.searchsorted(slope, 0.0))
    if a[piece] <= 0:  # flat, as only μ = 0 can make it: any point of the piece will do
        return float(turning[min(piece, len(turning) - 1)])
    return float(b[piece] / a[piece])


def best_alphas(by_layer: Array, gamma: float, mu: float, start: Array | None = None) -> Array:
    """Return the α ≥ 0 that minimise mean ℓ(by_layer @ α); ``by_layer`` are margins, rows × layers.

    If it were known which rows are beyond the target, the loss would be a least-squares problem.
    Its solution gives the direction of a step, and ``best_alpha`` the exact length. The loss is
    convex, so this ends at its minimum after a few rounds.
    """
    alphas = np.zeros(by_layer.shape[1]) if start is None else start.copy()
    for _ in range(NEWTON_ROUNDS):
        reached = by_layer @ alphas
        # The square root of each row's factor in ℓ, by the side of the target that it is on now.
        side = np.sqrt(np.where(reached <= gamma, 1 / gamma**2, mu / (1 - gamma) ** 2))
        square, rotated = _compact(by_layer * side[:, None], gamma * side)
        direction = nnls(square, rotated)[0] - alphas
        # At most the whole way to the solution: beyond it an α could become negative.
        step = min(max(best_alpha(reached, by_layer @ direction, gamma, mu), 0.0), 1.0)
        alphas = alphas + step * direction
        if step * np.abs(direction).max() <= 1e-9 * max(1.0, float(np.abs(alphas).max())):
            break
    return np.maximum(alphas, 0.0)


def stagewise_alphas(by_layer: Array, gamma: float, mu: float) -> Array:
    """Return one α ≥ 0 per layer, each the best one while those of the layers before it stay."""
    alphas = np.zeros(0)
    for layer in range(by_layer.shape[1]):
        alpha = best_alpha(by_layer[:, :layer] @ alphas, by_layer[:, layer], gamma, mu)
        alphas = np.append(alphas, max(alpha, 0.0))
    return alphas


def _compact(matrix: Array, target: Array) -> tuple[Array, Array]:
    """Return the same least-squares problem with as many rows as columns, by a QR decomposition."""
    q, r = np.linalg.qr(matrix)
    return r, q.T @ target


def row_weights(margin: Array, gamma: float, mu: float) -> Array:
    """Return weights that sum to 1, in proportion to the loss of each margin.

    They are equal if no margin has a loss.
    """
    # Equation 27: D_{t+1}(i) = ℓ(F_t(i)) / Σ ℓ(F_t).
    loss = margin_loss(margin, gamma, mu)
    total = loss.sum()
    if total > 0:
        return np.asarray(loss / total)
    return np.full(len(loss), 1 / max(len(loss), 1))


def margin_ratio(margin: Array) -> float | None:
    """Return λ, the standard deviation over the mean; None if the mean is not positive."""
    # λ of equation 3, whose bound on the error falls with it. A mean below 0 has no ratio.
    mean = float(margin.mean())
    return float(margin.std()) / mean if mean > 0 else None


def effective_size(weights: Array) -> float:
    """Return how many equally weighted rows are worth as much as these: (Σw)² / Σw²."""
    return float(weights.sum() ** 2 / (weights**2).sum())
