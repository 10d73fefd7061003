"""Points in the plane that lie near each other where what they stand for does: t-SNE, the same for the same seed.

- ``lay_out``  a panel, begun where another ended so that the two can be compared
- ``fitting_perplexity``  the perplexity wanted, or the most that so few rows allow
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nodes.models.training import one_blas_thread

if TYPE_CHECKING:
    import numpy as np

FEWEST_ROWS = 5
INTERPOLATE_FROM = 10_000
"""From so many rows on, forces are interpolated on a grid; below, a tree of the points is quicker."""
EARLY, LATE = 250, 500
"""Rounds with exaggerated forces, which find the islands, and rounds that lay each of them out."""
LOOK_EVERY = 10
SMALL = 1e-4
"""How wide the points lie when they start."""


def fitting_perplexity(wanted: float, rows: int) -> float:
    """At most a third of the other rows: so many neighbours are looked at."""
    return min(wanted, (rows - 1) / 3)


def lay_out(
    points: np.ndarray,
    start: np.ndarray | None,
    perplexity: float,
    seed: int,
    threads: int = 1,
    progress: Callable[[float], None] = lambda fraction: None,
) -> np.ndarray:
    """Rows × 2, the same whatever ``threads``; ``progress`` is told how far it is and may raise to stop."""
    import numpy as np
    from openTSNE import TSNE  # type: ignore[import-untyped]

    if len(points) < FEWEST_ROWS:
        return np.zeros((len(points), 2), np.float32)
    points = np.ascontiguousarray(points, np.float64)
    done = 0

    def look(iteration: int, error: float, embedding: np.ndarray) -> None:
        nonlocal done
        done += LOOK_EVERY
        progress(min(done / (EARLY + LATE), 1.0))

    with one_blas_thread():
        plane = TSNE(
            perplexity=fitting_perplexity(perplexity, len(points)),
            initialization=_beginning(points, start, seed),
            early_exaggeration_iter=EARLY,
            n_iter=LATE,
            neighbors="exact",
            negative_gradient_method="fft" if len(points) >= INTERPOLATE_FROM else "bh",
            callbacks=[look],
            callbacks_every_iters=LOOK_EVERY,
            n_jobs=threads,
            random_state=seed,
        ).fit(points)
    return np.asarray(plane, np.float32)


def _beginning(points: np.ndarray, start: np.ndarray | None, seed: int) -> np.ndarray:
    """Where the points start from: another panel, or their two widest directions; never all in one place."""
    import numpy as np

    if start is None:
        along, widths, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
        start = np.zeros((len(points), 2))
        start[:, : len(widths)] = (along * widths)[:, :2]
    start = start.astype(np.float64)
    width = start[:, 0].std()
    jitter: np.ndarray = SMALL * np.random.default_rng(seed).normal(size=start.shape)
    return SMALL * start / width + 0.01 * jitter if width > 0 else jitter
