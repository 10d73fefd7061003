"""Embed rows in the plane with t-SNE; the same seed gives the same points.

- ``embed``  one panel, started from another so that the two can be compared
- ``fitting_perplexity``  the requested perplexity, or the largest that the number of rows allows
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from openTSNE import TSNE  # type: ignore[import-untyped]

from nodes.models.training import one_blas_thread

FEWEST_ROWS = 5
INTERPOLATE_FROM = 10_000
"""With this many rows or more, forces are interpolated on a grid; with fewer, a tree of the points
is faster."""
THREADS_FROM = 1_000
"""With fewer rows, threads wait for one another for longer than they work."""
EARLY, LATE = 250, 500
"""Iterations with exaggerated forces, which find the clusters, and iterations that arrange each of
them."""
REPORT_EVERY = 10
SMALL = 1e-4
"""Spread of the points at the start."""


def fitting_perplexity(requested: float, rows: int) -> float:
    """Return the requested perplexity, at most a third of the other rows.

    t-SNE looks at three times as many neighbours as the perplexity, and there must be as many rows.
    """
    return min(requested, (rows - 1) / 3)


def embed(
    points: np.ndarray,
    start: np.ndarray | None,
    perplexity: float,
    seed: int,
    threads: int = 1,
    progress: Callable[[float], None] = lambda fraction: None,
) -> np.ndarray:
    """Return the points in the plane, rows × 2.

    ``start`` is the panel to begin with, None for the first one. The result is the same for any
    number of threads. ``progress`` gets the share done, and may raise to stop. Fewer than
    ``FEWEST_ROWS`` rows are all at the origin.
    """
    # So few rows do not have enough neighbours for t-SNE.
    if len(points) < FEWEST_ROWS:
        return np.zeros((len(points), 2), np.float32)
    points = np.ascontiguousarray(points, np.float64)
    done = 0

    def report(iteration: int, error: float, embedding: np.ndarray) -> None:
        """Count iterations over both phases: openTSNE counts them from zero in each phase."""
        nonlocal done
        done += REPORT_EVERY
        progress(min(done / (EARLY + LATE), 1.0))

    with one_blas_thread():
        plane = TSNE(
            perplexity=fitting_perplexity(perplexity, len(points)),
            initialization=_start_points(points, start, seed),
            early_exaggeration_iter=EARLY,
            n_iter=LATE,
            # Approximate neighbours may differ from machine to machine.
            neighbors="exact",
            negative_gradient_method="fft" if len(points) >= INTERPOLATE_FROM else "bh",
            callbacks=[report],
            callbacks_every_iters=REPORT_EVERY,
            n_jobs=threads if len(points) >= THREADS_FROM else 1,
            random_state=seed,
        ).fit(points)
    return np.asarray(plane, np.float32)


def _start_points(points: np.ndarray, start: np.ndarray | None, seed: int) -> np.ndarray:
    """Return where the points start: at another panel, or at their two principal components.

    A little jitter keeps equal rows apart, which t-SNE could not separate otherwise.
    """
    if start is None:
        # Principal components start the same way each time, unlike random points.
        along, widths, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
        start = np.zeros((len(points), 2))
        start[:, : len(widths)] = (along * widths)[:, :2]
    start = start.astype(np.float64)
    width = start[:, 0].std()
    # Scaled down, because t-SNE needs small distances at the start.
    jitter: np.ndarray = SMALL * np.random.default_rng(seed).normal(size=start.shape)
    return SMALL * start / width + 0.01 * jitter if width > 0 else jitter
