"""How sure a figure is, alone and against another on the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from deepforest import metrics
from engine.values import Predictions
from nodes.models.uncertainty import difference, interval

TRUTH = np.random.default_rng(0).random(500) < 0.3


def predictions(skill: float, seed: int = 1) -> Predictions:
    noise = np.random.default_rng(seed).random(500)
    score = TRUTH * skill + noise * (1 - skill)
    names = pa.array(np.where(TRUTH, "yes", "no"))
    return Predictions(np.column_stack([1 - score, score]), ["no", "yes"], "M", names)


@pytest.mark.parametrize("name", ["accuracy", "auc", "log_loss", "ks", "average_precision"])
def test_the_interval_contains_the_figure_and_narrows_with_more_rows(name: str) -> None:
    few = predictions(0.2)
    value = metrics.metric(name)(TRUTH.astype(int), few.probabilities, None)
    found = interval(few, name, "yes", value)
    assert found is not None
    low, high = found
    assert 0 <= low < value < high and (high <= 1 or name == "log_loss")
    more = Predictions(
        np.tile(few.probabilities, (9, 1)), few.classes, "M", pa.concat_arrays([few.truth] * 9)
    )
    narrow = interval(more, name, "yes", value)
    assert narrow is not None and narrow[1] - narrow[0] < (high - low) / 2


def test_a_figure_at_another_threshold_has_no_interval() -> None:
    assert interval(predictions(0.2), "accuracy", "yes", 0.123) is None


def test_a_clear_difference_is_not_a_tie_and_noise_is() -> None:
    best = predictions(0.4)
    worse = difference(predictions(0.1), best, "auc", "yes")
    assert worse is not None and worse.gain < 0 and not worse.is_tie
    alike = difference(predictions(0.4, seed=2), best, "auc", "yes")
    assert alike is not None and alike.is_tie


def test_other_rows_have_no_difference() -> None:
    other = predictions(0.2)
    shuffled = Predictions(
        other.probabilities, other.classes, "M", pa.array(np.where(TRUTH[::-1], "yes", "no"))
    )
    assert difference(shuffled, other, "auc", "yes") is None
