"""Whether a cascade goes on growing, and which of its layers it keeps.

- ``Growth``     judges the layers one after the other
- ``Decision``   what was decided about a layer, with the reason in words
- ``scorer``     a measure by name, or a callable, as ``Growth`` asks for it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .metrics import REGRESSION_METRICS, Metric, metric

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Decision:
    """The judgement of one layer; ``gain`` is against the best layer before, positive where it is better."""

    score: float
    gain: float | None
    kept: bool
    reason: str


class Growth:
    """Growth stops after ``patience`` layers in a row without a gain above ``tolerance``, or at ``max_layers``.

    The layers up to the best one are kept.
    """

    def __init__(self, measure: Metric, *, patience: int, tolerance: float, max_layers: int) -> None:
        self.measure = measure
        self.patience = patience
        self.tolerance = tolerance
        self.max_layers = max_layers
        self.scores: list[float] = []
        self.gains: list[float | None] = []
        self.best = 0  # number of the best layer, from 1
        self.stop_reason = ""

    def judge(self, score: float | None) -> bool:
        """Take the score of the next layer; whether another layer should be grown."""
        if score is None or not np.isfinite(score):
            raise ValueError(
                f"the measure {self.measure.name!r} that steers the growth is {score} here; "
                "choose another one, or give rows of every class"
            )
        before = self.scores[self.best - 1] if self.best else None
        self.scores.append(score)
        up = 1.0 if self.measure.greater_is_better else -1.0
        self.gains.append(None if before is None else up * (score - before))
        number = len(self.scores)
        if before is None or self.measure.improves(score, before, self.tolerance):
            self.best = number
        if number - self.best >= self.patience:
            layers = "layer" if self.patience == 1 else f"{self.patience} layers in a row"
            self.stop_reason = f"growth stopped: the last {layers} brought no gain above {self.tolerance:g}"
        elif number == self.max_layers:
            self.stop_reason = f"growth stopped: {number} layers are the most allowed"
        return not self.stop_reason

    def stop(self, reason: str) -> None:
        """Stop for a reason that lies elsewhere."""
        self.stop_reason = f"growth stopped: {reason}"

    def decisions(self) -> list[Decision]:
        """What became of each layer so far."""
        last = len(self.scores)
        return [
            Decision(score, self.gains[i], i < self.best, self._reason(i + 1, last))
            for i, score in enumerate(self.scores)
        ]

    def _reason(self, number: int, last: int) -> str:
        gain = self.gains[number - 1]
        name = self.measure.title
        if gain is None:
            said = f"{name} {self.scores[0]:.4f} to start with"
        elif number <= self.best and gain > self.tolerance:
            said = f"{name} {self.scores[number - 1]:.4f} is better by {gain:.4f}"
        else:
            said = f"{name} {self.scores[number - 1]:.4f} is no gain above {self.tolerance:g} ({gain:+.4f})"
        if number > self.best:
            said += f"; dropped, since layer {self.best} is the best"
        elif number < self.best and gain is not None and gain <= self.tolerance:
            said += "; kept, since a later layer is better"
        return f"{said}; {self.stop_reason}" if number == last and self.stop_reason else said


def scorer(wanted: str | Callable[[Array, Array], float], classes: Array | None) -> Metric:
    """The measure called ``wanted``, or a callable ``(y, probabilities) -> float`` of which more is better."""
    if callable(wanted):
        name = getattr(wanted, "__name__", type(wanted).__name__)
        return Metric(name, name, True, _called(wanted, classes))
    if classes is not None:
        return metric(wanted)
    if wanted not in REGRESSION_METRICS:
        raise ValueError(f"there is no metric '{wanted}' of numbers; known are {', '.join(REGRESSION_METRICS)}")
    return REGRESSION_METRICS[wanted]


def _called(function: Callable[[Array, Array], float], classes: Array | None) -> Any:
    def measure(truth: Array, said: Array, sample_weight: Array | None = None) -> float:
        return float(function(truth, said[:, 0]) if classes is None else function(classes[truth], said))

    return measure
