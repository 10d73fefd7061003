"""Define the records of a fitted cascade: what plots need about each layer, as plain data.

- ``LayerRecord``     scores, margins, rows, times and the decision about one layer
- ``LearnerRecord``   params, scores and time of one learner in it
- ``MarginRecord``    mean, spread, ratio and histogram of the margins after a layer
- ``Trace``           chosen rows on their way through layers × learners
- ``depth_sentence``  whether depth paid, in one sentence
- ``SCORED_ON``       which rows a score is of, in words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import floor, inf, log10
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .margins import margin_ratio
from .metrics import metric_title

Array = npt.NDArray[Any]

SCORED_ON = {
    "blind": "rows that no layer has seen",
    "validation": "validation rows",
    "out_of_fold": "out-of-fold (as in the papers; too good from layer 2 on)",
}
"""Which rows a score is of, by ``LayerRecord.scored_on``."""

# Margins of probabilities are in [−1, 1]; 40 bins, with an edge at 0 between wrong and right.
MARGIN_BINS = np.linspace(-1.0, 1.0, 41)


@dataclass(frozen=True)
class LearnerRecord:
    """Hold params and scores of one learner; ``scores`` are of its out-of-fold vectors."""

    name: str
    settings: dict[str, Any]
    scores: dict[str, float | None]
    fits: int
    seconds: float


@dataclass(frozen=True)
class MarginRecord:
    """Summarise the margins after a layer, scaled so that a certain and right prediction has 1.

    ``ratio`` is the standard deviation over the mean (None if the mean is not positive); ``counts``
    are the rows between neighbouring ``edges``.
    """

    mean: float
    std: float
    ratio: float | None
    edges: list[float] = field(repr=False)
    counts: list[int] = field(repr=False)

    @classmethod
    def of(cls, margin: Array) -> Self:
        """Return the record of the margins of rows."""
        # Rounding may put a margin slightly outside of the bins.
        counts, _ = np.histogram(np.clip(margin, -1, 1), MARGIN_BINS)
        return cls(
            float(margin.mean()),
            float(margin.std()),
            margin_ratio(margin),
            MARGIN_BINS.tolist(),
            counts.tolist(),
        )


@dataclass(frozen=True)
class LayerRecord:
    """Hold scores, margins, rows, times and the decision about one layer.

    - ``score`` is the value of ``metric``, which decides about growth, ``gain`` its difference from
      the best layer before, each with its standard error (``_se``). ``scored_on`` says on which
      rows: "blind" rows, which no layer of their cascade has seen, "validation" rows, or
      "out_of_fold" rows, whose score is too good from the second layer on.
    - ``scores`` are metrics of the out-of-fold output after this layer, ``blind`` those of the
      blind rows, ``validation`` those of the validation rows.
    - ``coefficients`` are the weights of the learners' vectors, ``alphas`` (mdDF) those of the
      layers up to this one.
    - The sample weights are worth ``effective_size`` equally weighted rows.
    - ``rows_in`` came into the layer; ``rows_out`` left after it with a confidence above
      ``threshold`` (confidence screening), and the share ``error_out`` of these was wrong.
    - ``settings`` are those that may differ between layers or were chosen by trials (mdDF: γ, μ and
      the depth step); ``trials`` the log losses of the candidates, by setting and value.
    - ``probe`` says that only one of several cascades got this layer, since it gained nothing.
    - ``kept`` says whether the layer is part of the model, ``reason`` why, in words.
    """

    number: int
    learners: list[LearnerRecord]
    score: float
    gain: float | None
    scores: dict[str, float | None]
    validation: dict[str, float | None]
    margins: MarginRecord | None
    coefficients: list[float]
    alphas: list[float] | None
    effective_size: float
    rows_in: int
    rows_out: int
    error_out: float | None
    threshold: float | None
    n_features: int
    kept: bool
    reason: str
    seconds: float
    # Models that were saved by an earlier version do not have these.
    metric: str = ""
    scored_on: str = "out_of_fold"
    score_se: float | None = None
    gain_se: float | None = None
    blind: dict[str, float | None] = field(default_factory=dict)
    probe: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    trials: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def alpha(self) -> float | None:
        """The weight of this layer in the output after it (mdDF)."""
        return None if self.alphas is None else self.alphas[-1]

    def as_dict(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return asdict(self)

    def without_times(self) -> Self:
        """Return the record without times, which is the same on every machine."""
        return replace(
            self, seconds=0.0, learners=[replace(learner, seconds=0.0) for learner in self.learners]
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the record that ``as_dict`` wrote."""
        content = dict(data)
        content["learners"] = [LearnerRecord(**learner) for learner in content["learners"]]
        if content["margins"] is not None:
            content["margins"] = MarginRecord(**content["margins"])
        return cls(**content)


def depth_sentence(records: Sequence[LayerRecord]) -> str:
    """Return in one sentence, without its full stop, whether layers after the first one paid.

    For example: ``Depth paid: layer 2 gained 0.016 ± 0.004 log loss``, or ``One layer is enough
    here: layer 2 gained 0.001 ± 0.004 log loss``. It is empty for a cascade of a single layer.
    """
    later = records[1:]
    if not later:
        return ""
    unit, scored_on = _unit(records[0].metric), records[0].scored_on
    kept = [record for record in later if record.kept]
    is_honest = scored_on != "out_of_fold"
    if kept:
        gains = ", ".join(f"layer {each.number} {_gained(each)}" for each in kept)
        # Scores that are too good cannot tell whether depth pays.
        text = f"Depth paid: {gains}{unit}" if is_honest else f"{gains.capitalize()}{unit}"
    else:
        best = max(later, key=lambda record: -inf if record.gain is None else record.gain)
        layer = f"a probe of layer {best.number}" if best.probe else f"layer {best.number}"
        text = f"One layer is enough here: {layer} {_gained(best)}{unit}"
    if scored_on == "validation":
        return f"{text} on {SCORED_ON[scored_on]}"
    return text if is_honest else f"{text}, {SCORED_ON[scored_on]}"


def _unit(metric: str) -> str:
    """Return the name of a metric after a number; records of earlier versions do not have it."""
    if not metric:
        return ""
    title = metric_title(metric)
    is_acronym = title[:2].isupper()
    return f" {title if is_acronym else title[:1].lower() + title[1:]}"


def _gained(record: LayerRecord) -> str:
    """Return gain or loss with its standard error, rounded to the first digit of the error."""
    gain, error = record.gain or 0.0, record.gain_se
    verb = "was worse by" if gain < 0 else "gained"
    if not error:
        return f"{verb} {abs(gain):.4f}"
    digits = min(max(3, -floor(log10(error))), 6)
    return f"{verb} {abs(gain):.{digits}f} ± {error:.{digits}f}"


class Trace(NamedTuple):
    """Hold the way of rows through a cascade; NaN after the layer at which a row left.

    ``vectors`` are layers × learners × rows × outputs; ``outputs``, layers × rows × outputs, are
    those of the cascade after each layer; ``left_at`` is the number of the last layer that each row
    went through, from 1.
    """

    vectors: Array
    outputs: Array
    left_at: Array
