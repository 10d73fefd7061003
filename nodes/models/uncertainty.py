"""Compute how much a metric of predictions varies with the rows, alone and against others.

- ``interval``    the interval in which a metric lies
- ``difference``  how much better predictions are than others of the same rows
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import BadInput
from engine.values import Predictions
from nodes.evaluate import RATES, one_against_rest, rows_with_truth
from nodes.models import regression

if TYPE_CHECKING:
    import numpy as np

    from deepforest.metrics import Metric

Z95 = 1.96
"""Standard errors to each side of a 95 % interval."""
OF_ALL_CLASSES = ("accuracy", "balanced_accuracy", "log_loss")
"""Metrics that an evaluation computes from all classes, also if one of them is the positive one."""


class Difference(NamedTuple):
    """How much better predictions are than others; ``margin`` is half of the 95 % interval."""

    gain: float
    margin: float

    @property
    def is_tie(self) -> bool:
        """Return whether the interval contains 0."""
        return abs(self.gain) <= self.margin


def interval(
    predictions: Predictions, name: str, positive: str | None, value: float
) -> tuple[float, float] | None:
    """Return the 95 % interval of a metric that an evaluation reported as ``value``.

    It is None if the error of the metric is not known, or if the predictions give another value:
    an evaluation may have a threshold of its own.
    """
    from deepforest.metrics import standard_error

    metric, (truth, output) = _metric(name), _rows(predictions, name, positive)
    if not _has_value(metric, truth, output, value):
        return None
    error = standard_error(metric, truth, output)
    if error is None:
        return None
    low, high = value - Z95 * error, value + Z95 * error
    # R² has no lower limit; log loss, RMSE and MAE have no upper one.
    least = -inf if name == "r2" else 0.0
    most = inf if name in ("log_loss", "rmse", "mae") else 1.0
    return max(low, least), min(high, most)


def difference(
    predictions: Predictions, best: Predictions, name: str, positive: str | None
) -> Difference | None:
    """Return how much better predictions are than ``best``, on the same rows in the same order.

    It is None if that is not known.
    """
    from deepforest.metrics import gain_and_error

    truth, output = _rows(predictions, name, positive)
    best_truth, before = _rows(best, name, positive)
    if len(truth) != len(best_truth) or (truth != best_truth).any():
        return None
    gain, error = gain_and_error(_metric(name), truth, output, before)
    return None if gain is None or error is None else Difference(gain, Z95 * error)


def _metric(name: str) -> Metric:
    """Return the metric that an evaluation calls by this name."""
    from deepforest.metrics import REGRESSION_METRICS, metric

    if name in REGRESSION_METRICS:
        return REGRESSION_METRICS[name]
    return metric(f"recall_at_rate({RATES[name]})" if name in RATES else name)


def _rows(
    predictions: Predictions, name: str, positive: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return true classes and probabilities as an evaluation takes them for a metric.

    Raise ``BadInput`` if no class is known.
    """
    if not predictions.classes:
        numbers, predicted = regression.rows_with_truth(predictions)
        return numbers, predicted.reshape(-1, 1)
    truth, probabilities = rows_with_truth(predictions)
    if positive is None or name in OF_ALL_CLASSES:
        return truth, probabilities
    if positive not in predictions.classes:
        raise BadInput(f"the predictions do not have the class '{positive}'", field="positive")
    return one_against_rest(truth, probabilities, predictions.classes.index(positive))


def _has_value(metric: Metric, truth: np.ndarray, output: np.ndarray, value: float) -> bool:
    """Return whether the metric of the predictions is the value that was reported."""
    computed = metric(truth, output, None)
    return computed is not None and abs(computed - value) < 1e-9
