"""Margins of a classifier, and the loss that mdDF shapes them with.

The margin of a row is the score of its own class less the best score of any other: positive when the row is
classified right, and the larger the safer. mdDF (Lyu, Yang and Zhou) gives each layer the weight α that minimises a
loss with a target margin γ: rows below it cost, rows beyond it cost a little (μ), so that all margins gather around it.

- ``margins``       of rows, from scores and true classes
- ``margin_loss``   ℓ(z) = (z−γ)²/γ² up to γ, μ(z−γ)²/(1−γ)² beyond
- ``best_alpha``    the exact minimiser of the mean loss of F + α·g over α
- ``best_alphas``   the minimiser of the mean loss of Σ α_l·g_l over all α_l, none negative
- ``row_weights``   D ∝ ℓ(F), the next layer's sample weights
- ``margin_ratio``  λ = std(F) / mean(F), which falls as layers are added
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

Array = npt.NDArray[Any]

NEWTON_ROUNDS = 50


def margins(scores: Array, truth: Array) -> Array:
    """Score of the true class less the best other score, for each row; ``truth`` are class numbers."""
    rows = np.arange(len(truth))
    own = scores[rows, truth]
    others = scores.copy()
    others[rows, truth] = -np.inf
    return np.asarray(own - others.max(axis=1))


def margin_loss(margin: Array, gamma: float, mu: float) -> Array:
    """What each margin costs."""
    scale = np.where(margin <= gamma, 1 / gamma**2, mu / (1 - gamma) ** 2)
    return np.asarray(scale * (margin - gamma) ** 2)


def best_alpha(before: Array, margin: Array, gamma: float, mu: float) -> float:
    """The α that minimises mean ℓ(before + α · margin).

    As a function of α the loss is convex and piecewise quadratic: row i changes from one parabola to the other where
    before + α · margin = γ. Between two such points the slope is A·α − B with sums A and B over the rows, so one
    pass over the sorted points finds the piece in which the slope passes zero.
    """
    moving = margin != 0
    before, margin = before[moving], margin[moving]
    if not len(margin):
        return 0.0
    turning = (gamma - before) / margin
    order = np.argsort(turning, kind="stable")
    turning, margin = turning[order], margin[order]
    inside, beyond = 1 / gamma**2, mu / (1 - gamma) ** 2
    # Far left, rows with a positive margin are below the target and rows with a negative one beyond it.
    curvature = np.where(margin > 0, inside, beyond) * margin**2
    change = (beyond - inside) * np.sign(margin) * margin**2
    a = curvature.sum() + np.concatenate(([0.0], np.cumsum(change)))
    b = (curvature * turning).sum() + np.concatenate(([0.0], np.cumsum(change * turning)))
    slope = a[:-1] * turning - b[:-1]  # at each turning point; never falls
    piece = int(np.searchsorted(slope, 0.0))
    if a[piece] <= 0:  # flat, as only μ = 0 can make it: any point of the piece will do
        return float(turning[min(piece, len(turning) - 1)])
    return float(b[piece] / a[piece])


def best_alphas(by_layer: Array, gamma: float, mu: float, start: Array | None = None) -> Array:
    """The α ≥ 0 that minimise mean ℓ(by_layer @ α); ``by_layer`` has the margins of rows × layers.

    Where it is known which rows are beyond the target, the loss is a least-squares problem; its solution is a direction
    to go, and ``best_alpha`` says exactly how far. The loss is convex, so this ends at its minimum, after a few rounds.
    """
    alphas = np.zeros(by_layer.shape[1]) if start is None else start.copy()
    for _ in range(NEWTON_ROUNDS):
        reached = by_layer @ alphas
        side = np.sqrt(np.where(reached <= gamma, 1 / gamma**2, mu / (1 - gamma) ** 2))
        square, rotated = _compact(by_layer * side[:, None], gamma * side)
        direction = nnls(square, rotated)[0] - alphas
        step = min(max(best_alpha(reached, by_layer @ direction, gamma, mu), 0.0), 1.0)
        alphas = alphas + step * direction
        if step * np.abs(direction).max() <= 1e-9 * max(1.0, float(np.abs(alphas).max())):
            break
    return np.maximum(alphas, 0.0)


def _compact(matrix: Array, target: Array) -> tuple[Array, Array]:
    """The same least-squares problem with as many rows as columns."""
    q, r = np.linalg.qr(matrix)
    return r, q.T @ target


def row_weights(margin: Array, gamma: float, mu: float) -> Array:
    """Weights that sum to 1, in proportion to what each margin costs; all the same if nothing costs anything."""
    loss = margin_loss(margin, gamma, mu)
    total = loss.sum()
    return loss / total if total > 0 else np.full(len(loss), 1 / max(len(loss), 1))


def margin_ratio(margin: Array) -> float | None:
    """Standard deviation over mean; none where the mean is not positive, since then it says nothing."""
    mean = float(margin.mean())
    return float(margin.std()) / mean if mean > 0 else None


def effective_size(weights: Array) -> float:
    """How many equally weighted rows are worth as much as these: (Σw)² / Σw²."""
    return float(weights.sum() ** 2 / (weights**2).sum())
