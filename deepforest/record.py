"""What is known about each layer of a fitted cascade: everything a plot of it needs, as plain data.

- ``LayerRecord``     scores, margins, rows, times and the decision about one layer
- ``LearnerRecord``   settings, scores and time of one learner in it
- ``MarginRecord``    mean, spread, ratio and histogram of the margins after a layer
- ``Trace``           chosen rows on their way through layers × learners
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .margins import margin_ratio

Array = npt.NDArray[Any]

MARGIN_BINS = np.linspace(-1.0, 1.0, 41)


@dataclass(frozen=True)
class LearnerRecord:
    """One learner of a layer; ``scores`` are of its vectors of rows it did not see."""

    name: str
    settings: dict[str, Any]
    scores: dict[str, float | None]
    fits: int
    seconds: float


@dataclass(frozen=True)
class MarginRecord:
    """The margins after a layer, scaled so that a sure and right answer is 1.

    ``ratio`` is the standard deviation over the mean (none where the mean is not positive); ``counts`` are the rows
    between neighbouring ``edges``.
    """

    mean: float
    std: float
    ratio: float | None
    edges: list[float] = field(repr=False)
    counts: list[int] = field(repr=False)

    @classmethod
    def of(cls, margin: Array) -> Self:
        """The record of the margins of rows."""
        counts, _ = np.histogram(np.clip(margin, -1, 1), MARGIN_BINS)
        return cls(
            float(margin.mean()), float(margin.std()), margin_ratio(margin), MARGIN_BINS.tolist(), counts.tolist()
        )


@dataclass(frozen=True)
class LayerRecord:
    """One layer.

    ``score`` is the value of the measure that steers the growth; ``scores`` are those of some others, of what the
    cascade says after this layer about rows it did not learn from; ``validation`` those of rows given for it.
    ``coefficients`` weigh the learners' vectors, ``alphas`` (mdDF) the layers up to this one; its sample weights are
    worth as much as ``effective_size`` equally weighted rows. ``rows_in`` came into the layer, ``rows_out`` left for
    good with a confidence above ``threshold`` (confidence screening), a share ``error_out`` of them wrongly.
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

    @property
    def alpha(self) -> float | None:
        """The weight of this layer in what the cascade says after it (mdDF)."""
        return None if self.alphas is None else self.alphas[-1]

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def without_times(self) -> Self:
        """The record as it is on any machine."""
        return replace(self, seconds=0.0, learners=[replace(learner, seconds=0.0) for learner in self.learners])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The record that ``as_dict`` gave."""
        content = dict(data)
        content["learners"] = [LearnerRecord(**learner) for learner in content["learners"]]
        if content["margins"] is not None:
            content["margins"] = MarginRecord(**content["margins"])
        return cls(**content)


class Trace(NamedTuple):
    """Rows on their way: NaN after the layer at which a row left.

    ``vectors`` (layers × learners × rows × outputs), ``outputs`` (layers × rows × outputs) what the cascade said after
    each layer, ``left_at`` the number of the last layer each row went through, from 1.
    """

    vectors: Array
    outputs: Array
    left_at: Array
