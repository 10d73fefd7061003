"""Compute metrics of classifiers, by name, from true classes and predicted probabilities.

Every metric takes ``truth`` (class numbers, 0 to s - 1), ``probabilities`` (rows × s) and, if
given, one weight per row; it returns a float, or ``None`` if it has no value. With two classes the
second is the positive one. With more, ``auc``, ``ks``, ``average_precision`` and
``recall_at_rate`` are the plain mean of one class against the rest.

A metric has no value without rows. A ranking metric also has none for a class with no row, or
with every row, in the truth (a mean over classes leaves such a class out, and has no value only if
none remains). ``recall_at_rate`` also has none for a share of less than one row.

- ``METRICS``, ``metric``     metrics by name
- ``accuracy`` … ``recall_at_rate``  the metrics themselves
- ``METRIC_INFO``, ``metric_title``, ``format_metric``, ``lower_is_better``, ``title_among``,
  ``headline_metric``         metrics as people read them
- ``best_f1``                 the threshold with the highest F1
- ``roc_curve``, ``precision_recall_curve``  points to draw, thinned without losing the shape
- ``confusion_matrix``        how often each class was predicted as each class
- ``REGRESSION_METRICS``      the same for numbers: R², RMSE and MAE, of predictions with one column
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Codes = npt.NDArray[np.integer[Any]]
Measure = Callable[[Any, Floats, Floats | None], float | None]

CURVE_POINTS = 300  # more cannot be seen in a plot


@dataclass(frozen=True)
class Metric:
    """Hold a metric with its name, its title and its direction."""

    name: str
    title: str
    greater_is_better: bool
    measure: Measure

    def __call__(
        self, truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
    ) -> float | None:
        """Return the value, or ``None`` if the metric has no value for these rows."""
        return self.measure(truth, probabilities, sample_weight)

    def improves(self, value: float, on: float, tolerance: float = 0.0) -> bool:
        """Return whether ``value`` is better than ``on`` by more than ``tolerance``."""
        gain = value - on if self.greater_is_better else on - value
        return gain > tolerance


@dataclass(frozen=True)
class MetricInfo:
    """Hold the texts that people read about a metric, and its direction."""

    title: str
    explanation: str
    percent: bool = False
    greater_is_better: bool = True


METRIC_INFO: Mapping[str, MetricInfo] = {
    "auc": MetricInfo(
        "AUC",
        "How often a row of the class gets a higher probability than a row of another. "
        "0.5 is guessing, 1 is perfect.",
    ),
    "accuracy": MetricInfo(
        "Accuracy", "Share of rows whose predicted class is right.", percent=True
    ),
    "balanced_accuracy": MetricInfo(
        "Balanced accuracy",
        "Mean of the recall of each class; rare classes count as much as others.",
        percent=True,
    ),
    "f1": MetricInfo(
        "F1",
        "Harmonic mean of precision and recall: high only if both are. 1 is perfect. "
        "It depends on the threshold: the one set in Evaluate, or else the one with the "
        "highest F1 on these rows. Predicted classes are the most probable ones, without a "
        "threshold. With several classes F1 is the mean over them.",
    ),
    "average_precision": MetricInfo(
        "Average precision",
        "Area under the precision-recall curve: useful when the class is rare. 1 is perfect.",
    ),
    "ks": MetricInfo(
        "KS",
        "Largest difference of true and false positive rate over all thresholds. 1 is perfect.",
    ),
    "log_loss": MetricInfo(
        "Log loss",
        "How far the probabilities are from the truth. Lower is better, 0 is perfect.",
        greater_is_better=False,
    ),
    "recall_at_1_in_10000": MetricInfo(
        "Recall at 1/10,000",
        "Share of the class found when one row in 10,000 is checked.",
        percent=True,
    ),
    "recall_at_1_in_1000": MetricInfo(
        "Recall at 1/1,000",
        "Share of the class found when one row in 1,000 is checked.",
        percent=True,
    ),
    "recall_at_1_in_100": MetricInfo(
        "Recall at 1/100",
        "Share of the class found when one row in 100 is checked.",
        percent=True,
    ),
    "threshold": MetricInfo("Threshold", "Probability from which a row counts as positive for F1."),
}
"""The figures of an evaluation, the most important first."""


def metric_title(name: str) -> str:
    """Return the title of a metric: ``Balanced accuracy`` for ``balanced_accuracy``."""
    return METRIC_INFO[name].title if name in METRIC_INFO else name.replace("_", " ").capitalize()


def lower_is_better(name: str) -> bool:
    """Return whether a smaller value of the metric is better."""
    return name in METRIC_INFO and not METRIC_INFO[name].greater_is_better


def format_metric(name: str, value: Any) -> str:
    """Return a value as a person reads it: ``0.973``, ``97.2 %``, ``–`` for none."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name in METRIC_INFO and METRIC_INFO[name].percent:
        return f"{value * 100:.1f} %"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def title_among(evaluations: Iterable[Mapping[str, Any]], metric: str) -> str:
    """Return the title of a metric for these evaluations.

    F1 is at a threshold for two classes, and a mean over the classes for more.
    """
    if metric == "f1":
        has_threshold = {
            each.get("threshold") is not None for each in evaluations if each.get("f1") is not None
        }
        if len(has_threshold) == 1:
            return "F1 at threshold" if has_threshold.pop() else "Mean F1"
    return metric_title(metric)


def headline_metric(figures: Mapping[str, Any]) -> str | None:
    """Return the name of an evaluation's most important metric."""
    # For two classes AUC, which does not depend on a threshold.
    order = ("auc", "accuracy") if figures.get("positive") is not None else ("accuracy", "auc")
    return next((name for name in order if figures.get(name) is not None), None)


class Curve(NamedTuple):
    """Hold the points of a curve in the order of falling thresholds.

    A row counts as positive if ``score >= threshold``.
    """

    x: Floats
    y: Floats
    threshold: Floats


def accuracy(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
) -> float | None:
    """Return the share of rows whose most probable class is the true one."""
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    total = weight.sum()
    return float(weight[probabilities.argmax(axis=1) == truth].sum() / total) if total > 0 else None


def balanced_accuracy(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
) -> float | None:
    """Return the mean recall over the classes that occur in the truth."""
    matrix = confusion_matrix(truth, probabilities, sample_weight)
    rows = matrix.sum(axis=1)
    present = rows > 0
    return float((matrix.diagonal()[present] / rows[present]).mean()) if present.any() else None


def auc(truth: Codes, probabilities: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the area under the ROC curve.

    This is the probability that a positive row scores above a negative one; a tie counts half.
    """
    return _per_class(_auc, truth, probabilities, sample_weight)


def ks(truth: Codes, probabilities: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the Kolmogorov–Smirnov distance.

    This is the largest true-positive rate minus false-positive rate over all thresholds.
    """
    return _per_class(_ks, truth, probabilities, sample_weight)


def average_precision(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
) -> float | None:
    """Return the area under the stepwise precision-recall curve."""
    return _per_class(_average_precision, truth, probabilities, sample_weight)


def recall_at_rate(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None, *, rate: float = 0.01
) -> float | None:
    """Return the share of the positive rows among the top-scored fraction ``rate`` of ALL rows.

    Rows of equal score at the border count by expectation, as if drawn at random, so the order of
    the rows does not matter; a part of a row counts as that part. If ``rate`` times the number of
    rows is below one, the result is None. Raise ``ValueError`` for a rate outside of (0, 1].
    """
    if not 0 < rate <= 1:
        raise ValueError(f"rate is {rate}; give a share above 0 and at most 1")
    return _per_class(partial(_recall_at_rate, rate=rate), truth, probabilities, sample_weight)


def f1(
    truth: Codes,
    probabilities: Floats,
    sample_weight: Floats | None = None,
    *,
    threshold: float | None = None,
) -> float | None:
    """Return the harmonic mean of precision and recall.

    Two classes: of the positive class, at ``threshold``, or at the threshold that makes it highest.
    More: the mean over the classes that occur in the truth or among the predictions, each row
    predicted as its most probable class.
    """
    if np.ndim(probabilities) == 2 and np.shape(probabilities)[1] == 2:
        if threshold is None:
            best = best_f1(truth, probabilities, sample_weight)
            return None if best is None else best[0]
        matrix = confusion_matrix(truth, probabilities, sample_weight, threshold=threshold)
        return float(_f1_per_class(matrix)[1]) if matrix[1].sum() > 0 else None
    matrix = confusion_matrix(truth, probabilities, sample_weight)
    occurs = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0
    return float(_f1_per_class(matrix)[occurs].mean()) if occurs.any() else None


def best_f1(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
) -> tuple[float, float] | None:
    """Return the highest F1 of the second of two classes, and the threshold that gives it.

    Of several thresholds it is the highest. Return None without rows of that class.
    """
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    sweep = _sweep(truth == 1, probabilities[:, 1], weight)
    if sweep.positives == 0:
        return None
    # F1 = 2·TP / (2·TP + FP + FN), and TP + FN are all positives.
    scores = 2 * sweep.tp / (sweep.tp + sweep.fp + sweep.positives)
    best = int(scores.argmax())
    return float(scores[best]), float(sweep.threshold[best])


def log_loss(
    truth: Codes, probabilities: Floats, sample_weight: Floats | None = None
) -> float | None:
    """Return the mean of -log of the true class's probability.

    A probability counts as at least the smallest step above zero, so that the mean is finite.
    """
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    total = weight.sum()
    if total == 0:
        return None
    smallest = np.finfo(probabilities.dtype).eps
    of_true_class = np.clip(probabilities[np.arange(len(truth)), truth], smallest, 1 - smallest)
    return float(-(weight * np.log(of_true_class)).sum() / total)


def confusion_matrix(
    truth: Codes,
    probabilities: Floats,
    sample_weight: Floats | None = None,
    *,
    threshold: float | None = None,
) -> Floats:
    """Return the weight of the rows of each true class (line) by predicted class (column).

    The predicted class is the most probable one; with a ``threshold`` (two classes only) it is the
    second class from that probability on. Raise ``ValueError`` for a threshold with more classes.
    """
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    classes = probabilities.shape[1]
    if threshold is None:
        predicted = probabilities.argmax(axis=1)
    elif classes == 2:
        predicted = (probabilities[:, 1] >= threshold).astype(np.intp)
    else:
        raise ValueError("a threshold needs two classes")
    cells = np.bincount(truth * classes + predicted, weights=weight, minlength=classes * classes)
    matrix: Floats = cells.astype(np.float64).reshape(classes, classes)
    return matrix


def roc_curve(
    positive: npt.NDArray[np.bool_],
    score: Floats,
    sample_weight: Floats | None = None,
    *,
    points: int = CURVE_POINTS,
) -> Curve | None:
    """Return the false-positive rate (x) and true-positive rate (y), from (0, 0) to (1, 1).

    Return None without positive or without negative rows.
    """
    sweep = _sweep(np.asarray(positive, bool), np.asarray(score), sample_weight)
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    rates = (sweep.fp / sweep.negatives, sweep.tp / sweep.positives, sweep.threshold)
    x, y, threshold = (
        np.concatenate(([start], rate))
        for start, rate in zip((0.0, 0.0, np.inf), rates, strict=True)
    )
    # The point of KS, the largest distance from the diagonal, must not be thinned out.
    return _thinned(Curve(x, y, threshold), points, keep=int((y - x).argmax()))


def precision_recall_curve(
    positive: npt.NDArray[np.bool_],
    score: Floats,
    sample_weight: Floats | None = None,
    *,
    points: int = CURVE_POINTS,
) -> Curve | None:
    """Return recall (x) and precision (y), None without positive rows.

    The first point is that of the highest score; no point is invented at recall 0.
    """
    sweep = _sweep(np.asarray(positive, bool), np.asarray(score), sample_weight)
    if sweep.positives == 0:
        return None
    shown = sweep.tp + sweep.fp
    recall = sweep.tp / sweep.positives
    precision = np.divide(sweep.tp, shown, out=np.zeros_like(shown), where=shown > 0)
    # The point of the highest F1 must not be thinned out.
    best = int((sweep.tp / (shown + sweep.positives)).argmax())
    return _thinned(Curve(recall, precision, sweep.threshold), points, keep=best)


def metric(name: str) -> Metric:
    """Return the metric of that name; ``recall_at_rate(0.001)`` contains its rate.

    Raise ``ValueError`` for an unknown name.
    """
    if name in METRICS:
        return METRICS[name]
    rate = re.fullmatch(r"recall_at_rate\((\d*\.?\d+(?:e-?\d+)?)\)", name)
    if rate is None or not 0 < float(rate[1]) <= 1:
        known = ", ".join(METRICS)
        raise ValueError(f"unknown metric {name!r}; use one of {known} or recall_at_rate(share)")
    share = float(rate[1])
    return Metric(name, f"Recall at rate {share:g}", True, partial(recall_at_rate, rate=share))


def _described(name: str, measure: Measure) -> Metric:
    """Return a metric with the title and direction of ``METRIC_INFO``."""
    info = METRIC_INFO[name]
    return Metric(name, info.title, info.greater_is_better, measure)


METRICS: dict[str, Metric] = {
    entry.name: entry
    for entry in (
        _described("accuracy", accuracy),
        _described("balanced_accuracy", balanced_accuracy),
        _described("auc", auc),
        _described("f1", f1),
        _described("ks", ks),
        _described("log_loss", log_loss),
        _described("average_precision", average_precision),
        Metric("recall_at_rate", "Recall at rate 0.01", True, recall_at_rate),
    )
}


def r2(truth: Floats, predicted: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the share of the variance of numbers that is explained; None if they do not vary."""
    spread = float(
        np.average((truth - np.average(truth, weights=sample_weight)) ** 2, weights=sample_weight)
    )
    return 1 - _squared_error(truth, predicted, sample_weight) / spread if spread > 0 else None


def rmse(truth: Floats, predicted: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the root of the mean squared error of numbers."""
    return float(np.sqrt(_squared_error(truth, predicted, sample_weight)))


def mae(truth: Floats, predicted: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the mean absolute error of numbers."""
    return float(np.average(np.abs(truth - predicted[:, 0]), weights=sample_weight))


def _squared_error(truth: Floats, predicted: Floats, sample_weight: Floats | None) -> float:
    """Return the mean squared error."""
    return float(np.average((truth - predicted[:, 0]) ** 2, weights=sample_weight))


REGRESSION_METRICS: dict[str, Metric] = {
    entry.name: entry
    for entry in (
        Metric("r2", "R²", True, r2),
        Metric("rmse", "RMSE", False, rmse),
        Metric("mae", "MAE", False, mae),
    )
}


@dataclass(frozen=True)
class _Sweep:
    """Hold the weight of true and false positives at every score, from the highest down."""

    threshold: Floats
    tp: Floats
    fp: Floats
    rows: int

    @property
    def positives(self) -> float:
        return float(self.tp[-1]) if len(self.tp) else 0.0

    @property
    def negatives(self) -> float:
        return float(self.fp[-1]) if len(self.fp) else 0.0


def _sweep(positive: npt.NDArray[np.bool_], score: Floats, weight: Floats | None) -> _Sweep:
    """Return true and false positives for every threshold."""
    order = np.argsort(-score, kind="stable")
    score, positive = score[order], positive[order]
    weight = np.ones(len(score)) if weight is None else np.asarray(weight, np.float64)[order]
    # Rows of equal score cannot be separated: only the last of each group is a threshold.
    last = (
        np.append(np.flatnonzero(np.diff(score)), len(score) - 1)
        if len(score)
        else np.zeros(0, np.intp)
    )
    tp, fp = np.cumsum(weight * positive)[last], np.cumsum(weight * ~positive)[last]
    return _Sweep(score[last], tp, fp, len(score))


def _auc(sweep: _Sweep) -> float | None:
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    # Trapezoids: the sum of both sides, divided by two below.
    heights = sweep.tp + np.concatenate(([0.0], sweep.tp[:-1]))
    return float(
        (np.diff(sweep.fp, prepend=0.0) * heights).sum() / 2 / sweep.positives / sweep.negatives
    )


def _ks(sweep: _Sweep) -> float | None:
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    # KS = max over thresholds of TPR − FPR; 0 above the highest score, so it is never negative.
    return float(max((sweep.tp / sweep.positives - sweep.fp / sweep.negatives).max(), 0.0))


def _average_precision(sweep: _Sweep) -> float | None:
    if sweep.positives == 0:
        return None
    # Σ (R_n − R_{n−1})·P_n over the thresholds: steps, since a straight line between two points of
    # the curve would be too optimistic.
    shown = sweep.tp + sweep.fp
    precision = np.divide(sweep.tp, shown, out=np.zeros_like(shown), where=shown > 0)
    return float((np.diff(sweep.tp, prepend=0.0) * precision).sum() / sweep.positives)


def _recall_at_rate(sweep: _Sweep, rate: float) -> float | None:
    # The tolerance lets 0.01 of 100 rows count as one row in spite of rounding.
    if sweep.positives == 0 or rate * sweep.rows < 1 - 1e-9:
        return None
    shown = np.concatenate(([0.0], sweep.tp + sweep.fp))
    true_positives = np.concatenate(([0.0], sweep.tp))
    # Between two thresholds the rows have equal scores, so they count in proportion.
    return float(np.interp(rate * shown[-1], shown, true_positives) / sweep.positives)


def _per_class(
    of: Callable[[_Sweep], float | None],
    truth: Codes,
    probabilities: Floats,
    sample_weight: Floats | None,
) -> float | None:
    """Return the value of the second of two classes, else the mean over all that have a value."""
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    # A class without rows is skipped before the sweep, which sorts all rows.
    values = [
        of(_sweep(truth == code, probabilities[:, code], weight))
        for code in classes
        if (truth == code).any()
    ]
    defined = [value for value in values if value is not None]
    return float(np.mean(defined)) if defined else None


def _f1_per_class(matrix: Floats) -> Floats:
    """Return 2·TP / (2·TP + FP + FN) of each class, 0 for a class that does not occur."""
    total = matrix.sum(axis=0) + matrix.sum(axis=1)
    scores: Floats = np.divide(
        2 * matrix.diagonal(), total, out=np.zeros(len(matrix)), where=total > 0
    )
    return scores


def _checked(
    truth: Codes, probabilities: Floats, weight: Floats | None
) -> tuple[Codes, Floats, Floats]:
    """Return the arguments of a metric as arrays; raise ``ValueError`` if they do not fit."""
    truth, probabilities = np.asarray(truth), np.asarray(probabilities)
    weight = np.ones(len(truth)) if weight is None else np.asarray(weight, np.float64)
    if probabilities.ndim != 2 or probabilities.shape[1] < 2:
        raise ValueError(
            f"probabilities have shape {probabilities.shape}; give rows × two or more classes"
        )
    if truth.shape != probabilities.shape[:1] or weight.shape != truth.shape:
        raise ValueError(
            f"there are {len(truth)} true classes, {len(probabilities)} predictions and "
            f"{len(weight)} weights; give the same number of each"
        )
    if np.isnan(probabilities).any():
        raise ValueError("a probability is not a number")
    if len(truth) and not (truth.min() >= 0 and truth.max() < probabilities.shape[1]):
        raise ValueError("a true class has no column among the probabilities")
    return truth, probabilities, weight


def _thinned(curve: Curve, points: int, keep: int) -> Curve:
    """Return about ``points`` points, evenly spaced along the line so that its shape stays.

    The first and the last point and the one at ``keep`` are always among them.
    """
    if len(curve.x) <= points:
        return curve
    # Distances along the line, not along x: a steep part of the curve needs points too.
    steps = np.abs(np.diff(curve.x)) + np.abs(np.diff(curve.y))
    along = np.concatenate(([0.0], np.cumsum(steps)))
    even = np.searchsorted(along, np.linspace(0.0, along[-1], points - 2))
    chosen = np.unique(np.concatenate((even, [0, keep, len(along) - 1])))
    return Curve(curve.x[chosen], curve.y[chosen], curve.threshold[chosen])


def standard_error(metric, truth, output, sample_weight=None, groups=None):
    return None


def gain_and_error(metric, truth, output, before, sample_weight=None, groups=None):
    a, b = metric(truth, output, sample_weight), metric(truth, before, sample_weight)
    sign = 1.0 if metric.greater_is_better else -1.0
    if metric.name == "log_loss":
        import numpy as np

        r = np.arange(len(truth))
        d = np.log(np.maximum(output[r, truth], 1e-7)) - np.log(np.maximum(before[r, truth], 1e-7))
        return sign * (a - b), float(d.std() / np.sqrt(len(d)))
    return sign * (a - b), None


def resolve_metric(metric_or_name, classes):
    if callable(metric_or_name):
        name = getattr(metric_or_name, "__name__", type(metric_or_name).__name__)

        def measure(truth, output, sample_weight=None):
            if classes is None:
                return float(metric_or_name(truth, output[:, 0]))
            return float(metric_or_name(classes[truth], output))

        return Metric(name, name, True, measure)
    if classes is not None:
        return metric(metric_or_name)
    return REGRESSION_METRICS[metric_or_name]
