"""Scoring functions that decide about growth as a test wants.

A metric is computed of whole outputs, and of parts of their rows to find its error. These functions
return 0 for parts, so that the error is 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Scoring = Callable[[np.ndarray, np.ndarray], float]


def scripted(*scores: float) -> Scoring:
    """Return a scoring function that gives each new output the next score, and then the last one.

    With a single learner in a layer, its vectors are the output, and each layer has one score.
    """
    seen: list[bytes] = []
    n_rows: list[int] = []

    def scripted_score(truth: np.ndarray, output: np.ndarray) -> float:
        n_rows.append(len(truth))
        if len(truth) < n_rows[0]:
            return 0.0
        content = np.sort(np.asarray(output, np.float32), axis=0).tobytes()  # in whatever order
        if content not in seen:
            seen.append(content)
        return scores[min(seen.index(content), len(scores) - 1)]

    return scripted_score


def keeps_every_layer() -> Scoring:
    """Return a scoring function by which each new output is better than all before."""
    return scripted(*map(float, range(1, 1000)))
