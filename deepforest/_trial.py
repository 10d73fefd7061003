"""Try candidates for a setting of a layer before the layer is grown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ._calibration import best_temperature
from ._features import Features
from ._fit import FitResult, PlannedFit
from ._fit_jobs import JobRunner
from ._layer import gather_vectors, plan_fits, run_fits
from ._strategy import GrowingCascade, GrowthPlan, TrainingData
from .arithmetic import temper
from .learners import Learner
from .metrics import METRICS

Array = npt.NDArray[Any]


class LayerTrial:
    """Fit candidates of a layer in one cascade; score them on rows that are new to it.

    ``losses`` are the log losses by setting and value, ``known`` the fits that were made with the
    weights of the cascade: the layer itself need not repeat them.
    """

    def __init__(
        self,
        number: int,
        cascade: GrowingCascade,
        plan: GrowthPlan,
        data: TrainingData,
        runner: JobRunner,
    ) -> None:
        self.number = number
        self.cascade = cascade
        self.plan = plan
        self.data = data
        self.runner = runner
        self.losses: dict[str, dict[str, float]] = {}
        self.known: dict[tuple[str, Learner], FitResult] = {}

    @cached_property
    def _features(self) -> Features:
        """What the layer sees; for all trials, since vectors are binned anew each time."""
        return self.cascade.see()

    def loss(
        self,
        setting: str,
        value: Any,
        learners: tuple[Learner, ...],
        tried: Sequence[Learner],
        weights: Array | None = None,
    ) -> float:
        """Return the log loss of the mean of the ``tried`` among the layer's learners.

        Equal learners are fitted once. ``weights`` are those of the rows, by default those of the
        cascade. The probabilities are calibrated: a flat forest may still be the better one.
        """
        cascade, target = self.cascade, self.data.target
        own = cascade if weights is None else replace(cascade, weights=weights)
        plan = own.plan(self.number, learners, self.plan, self.data)
        features, fits = self._features, plan_fits(plan)
        by_learner: dict[Learner, Array] = {}
        for learner in dict.fromkeys(tried):
            by_fold = fits[learners.index(learner)]
            titled = [_trial_fit(fit, setting, value) for fit in by_fold]
            done = run_fits(plan, titled, features, target, self.runner, self.known)
            if weights is None:
                self.known.update({(fit.key, fit.learner): done[fit.key] for fit in by_fold})
            results = [done[fit.key] for fit in by_fold]
            by_learner[learner] = gather_vectors(plan, by_fold, results, target)
        scored = self.data.only(cascade.scored)
        vectors = np.mean([by_learner[each][cascade.scored] for each in tried], axis=0)
        truth = scored.target.values
        temperature = best_temperature(vectors, truth, scored.score_weight)
        measure = METRICS["log_loss"]
        loss = measure(truth, temper(vectors, temperature), scored.score_weight)
        assert loss is not None
        self.losses.setdefault(setting, {})[str(value)] = float(loss)
        return float(loss)


def _trial_fit(fit: PlannedFit, setting: str, value: Any) -> PlannedFit:
    """Return the fit of a trial, which says so on screen."""
    return replace(fit, place=(*fit.place[:-1], f"{fit.place[-1]}, trial of {setting} {value}"))
