"""Decide whether a cascade grows another layer, and which of its layers it keeps.

- ``EarlyStopping``  takes the score of each layer and decides
- ``Decision``       what was decided about a layer, with the reason in words
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .metrics import Metric

PROBE = "probe"


@dataclass(frozen=True)
class Decision:
    """Hold the decision about one layer.

    ``gain`` is against the best layer before, positive if it is better; the first layer has None.
    ``score_se`` and ``gain_se`` are standard errors: how much they would vary with other rows.
    """

    score: float
    score_se: float | None
    gain: float | None
    gain_se: float | None
    kept: bool
    reason: str


class EarlyStopping:
    """Stop growth after ``patience`` layers in a row whose gain is not proven.

    A gain is proven if it is above ``tol`` by more than ``errors`` standard errors; 0 takes every
    gain at its word, as the papers do. Growth also stops at ``max_layers``. The layers up to the
    best one are kept, unless the model cannot be grown so deep.
    """

    def __init__(
        self, measure: Metric, *, patience: int, tol: float, max_layers: int, errors: float = 1.0
    ) -> None:
        self.measure = measure
        self.patience = patience
        self.tol = tol
        self.max_layers = max_layers
        self.errors = errors
        self.best = 0  # number of the best layer, counted from 1; 0 before the first
        self.deepest = max_layers
        """The number of layers that the model can have, lower if too few rows are left in it."""
        self.stop_reason = ""
        self._layers: list[Decision] = []

    @property
    def n_kept(self) -> int:
        """The number of layers that are kept."""
        return min(self.best, self.deepest)

    @property
    def stopped(self) -> bool:
        """Whether no further layer should be grown."""
        return bool(self.stop_reason)

    def add(
        self,
        score: float | None,
        score_se: float | None = None,
        gain: float | None = None,
        gain_se: float | None = None,
    ) -> None:
        """Add the score of the next layer, and its gain over the best layer so far.

        Raise ``ValueError`` for a score that has no value: growth cannot be decided by it.
        """
        if score is None or not np.isfinite(score):
            raise ValueError(
                f"the metric {self.measure.name!r} that decides about growth is {score} here; "
                "choose another one, or give rows of every class"
            )
        # Against the best layer, not the last one: small losses and gains must not add up.
        if gain is None and self.best:
            sign = 1.0 if self.measure.greater_is_better else -1.0
            gain = sign * (score - self._layers[self.best - 1].score)
        number = len(self._layers) + 1
        self._layers.append(Decision(score, score_se, gain, gain_se, False, ""))
        if gain is None or self._is_proven(gain, gain_se):
            self.best = number
        if number - self.best >= self.patience:
            layers = "layer" if self.patience == 1 else f"{self.patience} layers in a row"
            self.stop(f"the last {layers} brought no {self._proven_words()} above {self.tol:g}")
        elif number == self.max_layers:
            layers = "1 layer is" if number == 1 else f"{number} layers are"
            self.stop(f"{layers} the most allowed")

    @property
    def is_last_chance(self) -> bool:
        """Whether growth stops if the next layer brings no proven gain."""
        return self.best > 0 and len(self._layers) + 1 - self.best >= self.patience

    def refuse(self, gain: float | None, gain_se: float | None) -> bool:
        """Take the gain of a probe; return whether the layer is refused, which stops growth."""
        if gain is None or gain > self.tol:
            return False
        # The score of a probe is of few rows, and cannot be compared with those before; its gain is
        # on the same rows.
        comparable = self._layers[self.best - 1].score + self.measure.sign * gain
        self._layers.append(Decision(comparable, gain_se, gain, gain_se, False, PROBE))
        self.stop("its first cascade gained nothing")
        return True

    def stop(self, reason: str) -> None:
        """Stop growth for this reason."""
        if not self.stop_reason:
            self.stop_reason = f"growth stopped: {reason}"

    def _is_proven(self, gain: float, gain_se: float | None) -> bool:
        if gain_se is None:
            # With so few rows that its error is unknown, a gain is not proven.
            return self.errors == 0 and gain > self.tol
        return gain > self.tol + self.errors * gain_se

    def _proven_words(self) -> str:
        return "proven gain" if self.errors else "gain"

    def decisions(self) -> list[Decision]:
        """Return the decision about each layer so far; a later layer may change an earlier one."""
        return [
            Decision(
                layer.score,
                layer.score_se,
                layer.gain,
                layer.gain_se,
                number <= self.n_kept,
                self._reason(number, layer),
            )
            for number, layer in enumerate(self._layers, 1)
        ]

    def _reason(self, number: int, layer: Decision) -> str:
        """Return why layer ``number`` is kept or dropped, and why growth stopped after it."""
        score = f"{self.measure.title} {layer.score:.4f}"
        if layer.gain is None:
            reason = f"{score} to start with"
        else:
            noise = "" if layer.gain_se is None else f" ± {layer.gain_se:.4f}"
            if layer.reason == PROBE:
                reason = f"gain {layer.gain:+.4f}{noise} in a probe with one cascade"
            elif self._is_proven(layer.gain, layer.gain_se):
                reason = f"{score} is better by {layer.gain:.4f}{noise}"
            elif layer.gain < -(layer.gain_se or 0.0):
                reason = f"{score} is worse by {-layer.gain:.4f}{noise}"
            elif self.errors:
                reason = f"{score}, gain {layer.gain:+.4f}{noise}: not proven"
            else:
                reason = f"{score}: no gain above {self.tol:g} ({layer.gain:+.4f})"
        if number > self.best and not self.stopped:
            reason += f"; dropped unless a later layer is better than layer {self.best}"
        elif number > self.best:
            reason += f"; dropped, the model ends with layer {self.best}"
        elif number > self.n_kept:
            reason += "; dropped, since too few rows are left for it when all rows are learned"
        elif layer.gain is not None and not self._is_proven(layer.gain, layer.gain_se):
            reason += "; kept, since a later layer is better"
        if number == len(self._layers) and self.stop_reason:
            reason += f"; {self.stop_reason}"
        return reason
