"""Decide whether a cascade grows another layer, and which of its layers it keeps.

- ``Growth``    takes the score of each layer and decides
- ``Decision``  what was decided about a layer, with the reason in words
- ``scorer``    a metric by name, or a callable, as a ``Metric`` (``metrics.resolve_metric``)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .metrics import Metric, resolve_metric

scorer = resolve_metric


@dataclass(frozen=True)
class Decision:
    """Hold the decision about one layer.

    ``gain`` is against the best layer before, positive if it is better; the first layer has None.
    """

    score: float
    gain: float | None
    kept: bool
    reason: str


class Growth:
    """Stop growth after ``patience`` layers in a row without a gain above ``tolerance``.

    It also stops at ``max_layers``. The layers up to the best one are kept.
    """

    def __init__(
        self, measure: Metric, *, patience: int, tolerance: float, max_layers: int
    ) -> None:
        self.measure = measure
        self.patience = patience
        self.tolerance = tolerance
        self.max_layers = max_layers
        self.scores: list[float] = []
        self.gains: list[float | None] = []
        self.best = 0  # number of the best layer, counted from 1; 0 before the first
        self.stop_reason = ""

    def add_score(self, score: float | None) -> bool:
        """Add the score of the next layer and return whether another layer should be grown.

        Raise ``ValueError`` for a score that has no value: growth cannot be decided by it.
        """
        if score is None or not np.isfinite(score):
            raise ValueError(
                f"the metric {self.measure.name!r} that decides about growth is {score} here; "
                "choose another one, or give rows of every class"
            )
        # Against the best layer, not the last one: small losses and gains must not add up.
        before = self.scores[self.best - 1] if self.best else None
        self.scores.append(score)
        sign = 1.0 if self.measure.greater_is_better else -1.0
        self.gains.append(None if before is None else sign * (score - before))
        number = len(self.scores)
        if before is None or self.measure.improves(score, before, self.tolerance):
            self.best = number
        # Out-of-fold scores are not honest from layer 2 on: the vectors of a row's neighbours
        # contain its label. They decide about growth, as in the papers, but are not an estimate of
        # the error on new rows.
        if number - self.best >= self.patience:
            layers = "layer" if self.patience == 1 else f"{self.patience} layers in a row"
            self.stop_reason = (
                f"growth stopped: the last {layers} brought no gain above {self.tolerance:g}"
            )
        elif number == self.max_layers:
            self.stop_reason = f"growth stopped: {number} layers are the most allowed"
        return not self.stop_reason

    def stop(self, reason: str) -> None:
        """Stop growth for another reason, such as too few rows."""
        self.stop_reason = f"growth stopped: {reason}"

    def decisions(self) -> list[Decision]:
        """Return the decision about each layer so far; a later layer may change an earlier one."""
        last = len(self.scores)
        return [
            Decision(score, self.gains[i], i < self.best, self._reason(i + 1, last))
            for i, score in enumerate(self.scores)
        ]

    def _reason(self, number: int, last: int) -> str:
        """Return why layer ``number`` is kept or dropped, and why growth stopped after it."""
        gain = self.gains[number - 1]
        name = self.measure.title
        if gain is None:
            reason = f"{name} {self.scores[0]:.4f} to start with"
        elif number <= self.best and gain > self.tolerance:
            reason = f"{name} {self.scores[number - 1]:.4f} is better by {gain:.4f}"
        else:
            score = f"{name} {self.scores[number - 1]:.4f}"
            reason = f"{score}: no gain above {self.tolerance:g} ({gain:+.4f})"
        if number > self.best:
            reason += f"; dropped, since layer {self.best} is the best"
        elif number < self.best and gain is not None and gain <= self.tolerance:
            reason += "; kept, since a later layer is better"
        if number == last and self.stop_reason:
            reason += f"; {self.stop_reason}"
        return reason
