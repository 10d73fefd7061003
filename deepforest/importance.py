"""Measure how much worse predictions of test rows become when a column is shuffled.

- ``permutation_importance``   of the columns of a fitted estimator
- ``shuffled_importance``      the same for any function that predicts rows of a matrix
- ``PermutationImportance``    the result: a drop of the score for each column and repeat
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit
from sklearn.utils.validation import check_consistent_length

from ._input import check_whole, checked_weights
from .metrics import Metric, resolve_metric

Array = npt.NDArray[Any]

VALUES_AT_ONCE = 8_000_000
LEVEL = 0.95


@dataclass(frozen=True)
class PermutationImportance:
    """Hold the score of all rows, and how much it drops when a column is shuffled.

    ``drops`` are columns × repeats, positive if predictions became worse.
    """

    metric: str
    score: float
    drops: Array

    @property
    def mean(self) -> Array:
        """The mean drop of each column."""
        return np.asarray(self.drops.mean(axis=1))

    def interval(self, level: float = LEVEL) -> Array:
        """Return the limits between which the mean drop of many shuffles lies, columns × 2.

        They say how much chance there is in the shuffling, not in the choice of the test rows.
        """
        n = self.drops.shape[1]
        error = self.drops.std(axis=1, ddof=1) / np.sqrt(n)
        reach = stdtrit(n - 1, (1 + level) / 2) * error  # a quantile of Student's t
        return np.column_stack([self.mean - reach, self.mean + reach])


def permutation_importance(
    model: Any,
    X: Any,  # noqa: N803
    y: Any,
    *,
    scoring: str | Callable[[Array, Array], float] = "auto",
    n_repeats: int = 5,
    sample_weight: Any = None,
    random_state: int = 0,
) -> PermutationImportance:
    """Return how much the score of test rows drops when each column of ``X`` is shuffled.

    ``model`` is a fitted cascade or forest, ``scoring`` as in ``CascadeForestClassifier``; "auto"
    is "log_loss", for numbers "rmse". Rows that the model was trained on would make columns look
    important that it has only memorised. Raise ``ValueError`` if y holds a class that the model
    does not know, or if the metric has no value for these rows.

    Examples
    --------
    >>> found = permutation_importance(model, X_test, y_test, n_repeats=10)
    >>> found.mean, found.interval()
    """
    values, truth = model._read(X), np.asarray(y)
    check_consistent_length(values, truth)
    classes = getattr(model, "classes_", None)
    if classes is not None:
        codes = np.searchsorted(classes, truth).clip(0, len(classes) - 1)
        unknown = truth[classes[codes] != truth]
        if len(unknown):
            raise ValueError(f"y holds {unknown.tolist()[0]!r}, a class that the model lacks")
        truth = codes
    if scoring == "auto":
        scoring = "rmse" if classes is None else "log_loss"
    return shuffled_importance(
        model._predict_values,
        values,
        truth,
        resolve_metric(scoring, classes),
        n_repeats=n_repeats,
        sample_weight=None if sample_weight is None else checked_weights(sample_weight, values),
        random_state=random_state,
    )


def shuffled_importance(
    predict: Callable[[Array], Array],
    matrix: Array,
    truth: Array,
    metric: Metric,
    *,
    groups: Sequence[Sequence[int]] | None = None,
    n_repeats: int = 5,
    sample_weight: Array | None = None,
    random_state: int = 0,
    progress: Callable[[int], None] = lambda columns: None,
) -> PermutationImportance:
    """Return how much the score drops when columns of a matrix are shuffled.

    ``predict`` returns outputs of rows, rows × outputs. ``groups`` are columns that are shuffled
    together, such as those of one category; by default each column alone. ``progress`` gets the
    number of finished groups before each of them. Raise ``ValueError`` if the metric has no value
    for these rows.
    """
    check_whole("n_repeats", n_repeats, 2)
    if groups is None:
        groups = [[column] for column in range(matrix.shape[1])]

    def score(output: Array) -> float:
        value = metric(truth, output, sample_weight)
        if value is None:
            raise ValueError(f"{metric.name} has no value for these rows; give rows of all classes")
        return float(value)

    rng = np.random.default_rng(random_state)
    # The same orders for all columns, so that they can be compared.
    orders = [rng.permutation(len(matrix)) for _ in range(n_repeats)]
    whole = score(predict(matrix))
    drops = np.empty((len(groups), n_repeats))
    # Several shuffles in one call: small tables would spend the time on starting a prediction.
    at_once = max(1, min(n_repeats, VALUES_AT_ONCE // max(matrix.size, 1)))
    for place, columns in enumerate(groups):
        progress(place)
        for first in range(0, n_repeats, at_once):
            some = orders[first : first + at_once]
            shuffled = np.tile(matrix, (len(some), 1))
            shuffled[:, columns] = matrix[np.concatenate(some)][:, columns]
            outputs = predict(shuffled).reshape(len(some), len(matrix), -1)
            scores = [score(output) for output in outputs]
            drops[place, first : first + len(some)] = metric.sign * (whole - np.array(scores))
    return PermutationImportance(metric.name, whole, drops)
