"""List the fits of a run, by the library's own rules.

- ``layers_of``  the fits of each layer, in the order in which a cascade is grown
- ``LayerWork``  one set of them: no fit of the next set starts before all of these have ended
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np

from deepforest import _layer, _resampling
from deepforest._fit import PlannedFit
from deepforest.learners import Learner, Target, make_learners

from .runs import Run

STAND_IN_ROWS = 50_000
"""Which fits there are does not depend on the number of rows beyond this: shares of it do."""
SEED = 0


@dataclass(frozen=True)
class LayerWork:
    """The fits of one layer of one cascade, or of several that share fits."""

    layer: int
    title: str
    width: int
    trees: int
    """Of one fit."""
    fits: tuple[tuple[int, float, float], ...]
    """How many, the rows that they learn from, and the rows that they predict."""
    scores: bool
    """Whether the layer is scored after these fits."""
    makes_files: bool
    """Whether the features of the layer are new, so that files have to be written."""
    keys: tuple[str, ...]
    """Of the fits, in the order in which they start."""
    parts: tuple[tuple[float, float], ...]
    """Rows learned from and predicted by each of ``keys``."""


@cache
def layers_of(run: Run) -> tuple[LayerWork, ...]:
    """Return the sets of fits of a cascade that keeps all its layers."""
    n_rows = min(run.rows, STAND_IN_ROWS)
    target = Target((np.arange(n_rows) % run.classes).astype(np.int32), run.classes)
    (learner,) = make_learners([{"kind": run.kind, "n_estimators": run.trees}])
    resampling = _resampling.nested(np.arange(n_rows), target, run.folds, SEED, None)
    found = []
    # The order of ``grow_cascade``: the blind cascades layer after layer, then the model.
    for number in range(1, run.layers + 1):
        plans = [_plan(run, number, learner, rows) for rows in resampling.scored]
        sets = [_fits(plan) for plan in plans]
        if plans[0].shared:
            shared = {fit.key: fit for fits in sets for fit in fits}
            sets = [list(shared.values())]
        for position, fits in enumerate(sets):
            scores = position == len(sets) - 1
            found.append(_work(run, number, fits, n_rows, "blind", scores))
    assert resampling.final is not None
    for number in range(1, run.layers + 1):
        fits = _fits(_plan(run, number, learner, resampling.final))
        found.append(_work(run, number, fits, n_rows, "model", scores=False))
    return tuple(found)


def _plan(
    run: Run, number: int, learner: Learner, rows: _resampling.CascadeRows
) -> _layer.LayerPlan:
    return _layer.LayerPlan(number, (learner,) * run.learners, rows, None, False, SEED)


def _fits(plan: _layer.LayerPlan) -> list[PlannedFit]:
    return [fit for by_fold in _layer.plan_fits(plan) for fit in by_fold]


def _work(
    run: Run, number: int, fits: list[PlannedFit], n_rows: int, title: str, scores: bool
) -> LayerWork:
    """Return the fits with their rows in proportion to those of the run."""
    scale = run.rows / n_rows
    parts = [(len(fit.training) * scale, len(fit.predict_rows) * scale) for fit in fits]
    alike = Counter((round(a, -2), round(b, -2)) for a, b in parts)
    added = 0 if number == 1 else run.learners * run.classes
    learner = fits[0].learner
    trees = getattr(learner, "n_estimators", run.trees)
    if run.kind == "mart" and run.classes > 2:
        trees *= run.classes
    return LayerWork(
        number,
        f"{title}, layer {number}",
        run.columns + added,
        trees,
        tuple((count, a, b) for (a, b), count in alike.items()),
        scores,
        makes_files=number > 1 or title == "blind",
        keys=tuple(fit.key for fit in fits),
        parts=tuple(parts),
    )
