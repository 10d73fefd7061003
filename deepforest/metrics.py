"""Compute metrics of classifiers, by name, from true classes and predicted probabilities.

Every metric takes ``truth`` (class numbers, 0 to s - 1), ``probabilities`` (rows × s) and, if
given, one weight per row; it returns a float, or ``None`` if it has no value. With two classes the
second is the positive one. With more, ``auc``, ``ks``, ``average_precision`` and
``recall_at_rate`` are the plain mean of one class against the rest.

A metric has no value without rows. A ranking metric also has none for a class with no row, or
with every row, in the truth (a mean over classes leaves such a class out, and has no value only if
none remains). ``recall_at_rate`` also has none for a share of less than one row.

- ``METRICS``, ``metric``     metrics by name; ``decided_metric`` has a threshold
- ``resolve_metric``          a metric by our name, by scikit-learn's name, or from a function
- ``accuracy`` … ``recall_at_rate``  the metrics themselves
- ``standard_error``, ``gain_and_error``  how much a metric, or a gain, varies with the rows
- ``METRIC_INFO``, ``metric_title``, ``format_metric``, ``lower_is_better``, ``title_among``,
  ``headline_metric``         metrics as people read them
- ``best_f1``                 the threshold with the highest F1
- ``roc_curve``, ``precision_recall_curve``  points to draw, thinned without losing the shape
- ``confusion_matrix``        how often each class was predicted as each class
- ``REGRESSION_METRICS``      the same for numbers: R², RMSE and MAE, of predictions with one column

``sklearn.metrics`` is not used: for a million rows it takes 1.1 times (ROC curve) to 17 times (F1)
as long, and a standard error needs a metric 30 times. The tests compare with scikit-learn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.floating[Any]]
Codes = npt.NDArray[np.integer[Any]]
Measure = Callable[[Any, Floats, Floats | None], float | None]

CURVE_POINTS = 300  # more cannot be seen in a plot
CHECKED_ROWS = 100  # among the top-scored rows, for a recall that is more than chance
JACKKNIFE_PARTS = 30
MIN_PARTS = 5  # fewer values do not show how much a metric varies


class _Sweep(NamedTuple):
    """Hold the weight of true and false positives at falling thresholds.

    The first threshold is infinite: no row is positive there. At the last one all rows are.
    """

    tp: Floats
    fp: Floats
    threshold: Floats
    rows: int

    @property
    def positives(self) -> float:
        return float(self.tp[-1])

    @property
    def negatives(self) -> float:
        return float(self.fp[-1])


@dataclass(frozen=True)
class Metric:
    """Hold a metric with its name, its title and its direction.

    It is defined by ``per_row`` if it is the mean of a value of each row, by ``per_class`` if it is
    the mean over classes of a value of one class against the rest, by ``per_matrix`` if it follows
    from the confusion matrix (at ``threshold``, if there is one), else by ``measure``. If it has
    ``per_class`` and ``per_matrix``, the first is for two classes and the second for more. All but
    ``measure`` make standard error and bootstrap cheap. ``at_thresholds`` gives the values of which
    ``per_class`` is the highest, if it is. ``rows_needed`` is not 0 if the value needs more rows
    than others.
    """

    name: str
    title: str
    greater_is_better: bool
    measure: Measure | None = None
    per_row: Callable[[Any, Floats], Floats] | None = None
    per_class: Callable[[_Sweep], float | None] | None = None
    per_matrix: Callable[[Floats], float | None] | None = None
    threshold: float | None = None
    at_thresholds: Callable[[_Sweep], Floats] | None = None
    rows_needed: float = 0

    def __call__(
        self, truth: Array, output: Floats, sample_weight: Floats | None = None
    ) -> float | None:
        """Return the value, or ``None`` if the metric has no value for these rows."""
        if self.measure is not None:
            return self.measure(truth, output, sample_weight)
        if self.per_row is not None:
            return _weighted_mean(self.per_row(truth, output), sample_weight)
        if self.ranks(output):
            assert self.per_class is not None
            return _mean_over_classes(self.per_class, truth, output, sample_weight)[-1]
        assert self.per_matrix is not None
        matrix = confusion_matrix(truth, output, sample_weight, threshold=self.threshold)
        return self.per_matrix(matrix)

    def ranks(self, output: Floats) -> bool:
        """Return whether the value follows from the order of the rows by their probabilities."""
        if self.per_class is None:
            return False
        return self.per_matrix is None or (np.ndim(output) == 2 and np.shape(output)[1] == 2)

    @property
    def sign(self) -> float:
        """Return the factor that makes a difference of values positive if it is a gain."""
        return 1.0 if self.greater_is_better else -1.0

    def improves(self, value: float, on: float, tolerance: float = 0.0) -> bool:
        """Return whether ``value`` is better than ``on`` by more than ``tolerance``."""
        return self.sign * (value - on) > tolerance


@dataclass(frozen=True)
class MetricInfo:
    """Hold the texts that people read about a metric, and its direction."""

    title: str
    explanation: str
    percent: bool = False
    greater_is_better: bool = True
    unit: bool = False
    """Whether it is an amount, such as money, which may be large."""


def _recall_info(share: float) -> MetricInfo:
    """Return the texts about the recall among the top-scored share of the rows."""
    one_in = round(1 / share)
    if abs(share * one_in - 1) < 1e-9:
        title, checked = f"Recall at 1/{one_in:,}", f"one row in {one_in:,} is"
    else:
        title, checked = f"Recall at {100 * share:g} %", f"{100 * share:g} % of the rows are"
    return MetricInfo(title, f"Share of the class found when {checked} checked.", percent=True)


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
        "It depends on the threshold: the one set in Evaluate, or saved with the model, or else "
        "the one with the highest F1 on these rows, which is optimistic. With several classes F1 "
        "is the mean over them.",
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
    "recall_at_1_in_10000": _recall_info(1 / 10_000),
    "recall_at_1_in_1000": _recall_info(1 / 1_000),
    "recall_at_1_in_100": _recall_info(1 / 100),
    "rmse": MetricInfo(
        "RMSE",
        "Root of the mean squared error, in the unit of the target; large errors count most. "
        "Lower is better, 0 is perfect.",
        greater_is_better=False,
    ),
    "mae": MetricInfo(
        "MAE",
        "Mean absolute error, in the unit of the target. Lower is better, 0 is perfect.",
        greater_is_better=False,
    ),
    "r2": MetricInfo(
        "R²",
        "Share of the target's variance that is predicted. 1 is perfect, 0 is as good as always "
        "predicting the mean of these rows.",
    ),
    "money_saved": MetricInfo(
        "Money saved", "Amounts of the positives found, minus the costs.", unit=True
    ),
    "net_gain": MetricInfo("Net gain", "Gains of the positives found, minus the costs.", unit=True),
    "cost": MetricInfo(
        "Cost",
        "Cost of the false alarms and of the positives that are missed. Lower is better.",
        greater_is_better=False,
        unit=True,
    ),
    "threshold": MetricInfo("Threshold", "Probability from which a row counts as positive for F1."),
}
"""The figures of an evaluation, the most important first."""


def _info(name: str) -> MetricInfo | None:
    """Return the texts about a metric, ``None`` if there are none."""
    share = recall_share(name)
    return METRIC_INFO.get(name) if share is None else _recall_info(share)


def recall_share(name: str) -> float | None:
    """Return the share in ``recall_at_rate(0.001)`` or ``recall_at_1_in_1000``, else None."""
    if name == "recall_at_rate":
        return 0.01
    one_in = re.fullmatch(r"recall_at_1_in_([1-9]\d*)", name)
    if one_in:
        return 1 / int(one_in[1])
    share = re.fullmatch(r"recall_at_rate\((\d*\.?\d+(?:e-?\d+)?)\)", name)
    return float(share[1]) if share and 0 < float(share[1]) <= 1 else None


def metric_title(name: str) -> str:
    """Return the title of a metric: ``Balanced accuracy`` for ``balanced_accuracy``."""
    info = _info(name)
    return info.title if info else name.replace("_", " ").capitalize()


def lower_is_better(name: str) -> bool:
    """Return whether a smaller value of the metric is better."""
    info = _info(name)
    return info is not None and not info.greater_is_better


def format_metric(name: str, value: Any) -> str:
    """Return a value as a person reads it: ``0.973``, ``97.2 %``, ``–`` for none."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    info = _info(name)
    if info and info.percent:
        return f"{value * 100:.1f} %"
    if isinstance(value, int):
        return f"{value:,}"
    if info and info.unit and abs(value) < 1_000:
        return f"{value:.2f}"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def title_among(evaluations: Iterable[Mapping[str, Any]], metric: str) -> str:
    """Return the title of a metric for these evaluations.

    F1 is at a threshold for two classes, and a mean over the classes for more. It is optimistic at
    a threshold that was chosen on the evaluated rows, which ``threshold_rule`` says.
    """
    if metric == "f1":
        with_f1 = [each for each in evaluations if each.get("f1") is not None]
        has_threshold = {each.get("threshold") is not None for each in with_f1}
        is_optimistic = {bool(each.get("threshold_rule")) for each in with_f1}
        if is_optimistic == {True}:
            return "Best F1 (optimistic)"
        if True in is_optimistic:
            return "F1 (partly optimistic)"
        if len(has_threshold) == 1:
            return "F1 at threshold" if has_threshold.pop() else "Mean F1"
    return metric_title(metric)


def headline_metric(figures: Mapping[str, Any]) -> str | None:
    """Return the name of an evaluation's most important metric."""
    # For two classes AUC, which does not depend on a threshold.
    order = ("auc", "accuracy") if figures.get("positive") is not None else ("accuracy", "auc")
    return next((name for name in (*order, "rmse") if figures.get(name) is not None), None)


class Curve(NamedTuple):
    """Hold the points of a curve in the order of falling thresholds.

    A row counts as positive if ``score >= threshold``.
    """

    x: Floats
    y: Floats
    threshold: Floats


# --- the value of a row ---


def _is_right(truth: Codes, probabilities: Floats) -> Floats:
    """Return 1 for a row whose most probable class is the true one, else 0."""
    truth, probabilities, _ = _checked(truth, probabilities, None)
    right: Floats = (probabilities.argmax(axis=1) == truth).astype(np.float64)
    return right


def _log_losses(truth: Codes, probabilities: Floats) -> Floats:
    """Return -log of the true class's probability.

    A probability counts as at least the smallest step above zero, so that the loss is finite.
    """
    truth, probabilities, _ = _checked(truth, probabilities, None)
    smallest = np.finfo(probabilities.dtype).eps
    of_true_class = np.clip(probabilities[np.arange(len(truth)), truth], smallest, 1 - smallest)
    # Sums of many losses need double precision; the probabilities may have single precision.
    losses: Floats = -np.log(of_true_class).astype(np.float64)
    return losses


def _absolute_errors(truth: Floats, predicted: Floats) -> Floats:
    """Return the distance of each predicted number from the true one."""
    errors: Floats = np.abs(truth - predicted[:, 0])
    return errors


# --- the value of one class against the rest ---


def _auc(sweep: _Sweep) -> float | None:
    """Return the area under the ROC curve.

    This is the probability that a positive row scores above a negative one; a tie counts half.
    """
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    return float(np.trapezoid(sweep.tp, sweep.fp) / sweep.positives / sweep.negatives)


def _ks(sweep: _Sweep) -> float | None:
    """Return the Kolmogorov–Smirnov distance.

    This is the largest true-positive rate minus false-positive rate over all thresholds.
    """
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    return float(_ks_at_thresholds(sweep).max())


def _ks_at_thresholds(sweep: _Sweep) -> Floats:
    """Return true-positive rate minus false-positive rate at every threshold."""
    return sweep.tp / sweep.positives - sweep.fp / sweep.negatives


def _average_precision(sweep: _Sweep) -> float | None:
    """Return the area under the stepwise precision-recall curve."""
    if sweep.positives == 0:
        return None
    # Σ (R_n − R_{n−1})·P_n over the thresholds: steps, since a straight line between two points of
    # the curve would be too optimistic.
    return float((np.diff(sweep.tp) * _precision(sweep)).sum() / sweep.positives)


def _precision(sweep: _Sweep) -> Floats:
    """Return the precision at every threshold but the first, 0 where no row has weight."""
    tp, shown = sweep.tp[1:], (sweep.tp + sweep.fp)[1:]
    precision: Floats = np.divide(tp, shown, out=np.zeros_like(shown), where=shown > 0)
    return precision


def _highest_f1(sweep: _Sweep) -> float | None:
    """Return F1 at the threshold that makes it highest."""
    return float(_f1_at_thresholds(sweep).max()) if sweep.positives > 0 else None


def _f1_at_thresholds(sweep: _Sweep) -> Floats:
    """Return F1 = 2·TP / (2·TP + FP + FN) at every threshold; TP + FN are all positives."""
    return 2 * sweep.tp / (sweep.tp + sweep.fp + sweep.positives)


def _recall_at_rate(sweep: _Sweep, rate: float) -> float | None:
    """Return the share of the positive rows among the top-scored fraction ``rate`` of all rows."""
    # The tolerance lets 0.01 of 100 rows count as one row in spite of rounding.
    if sweep.positives == 0 or rate * sweep.rows < 1 - 1e-9:
        return None
    shown = sweep.tp + sweep.fp
    # Between two thresholds the rows have equal scores, so they count in proportion.
    return float(np.interp(rate * shown[-1], shown, sweep.tp) / sweep.positives)


# --- metrics of all rows and classes together ---


def _share_right(matrix: Floats) -> float | None:
    """Return the share of the rows on the diagonal: those with the right class."""
    total = matrix.sum()
    return float(matrix.trace() / total) if total > 0 else None


def _mean_recall(matrix: Floats) -> float | None:
    """Return the mean recall over the classes that occur in the truth."""
    rows = matrix.sum(axis=1)
    present = rows > 0
    return float((matrix.diagonal()[present] / rows[present]).mean()) if present.any() else None


def _f1_of_second(matrix: Floats) -> float | None:
    """Return F1 of the second of two classes; None if the truth does not have it."""
    # F1 = 2·TP / (2·TP + FP + FN): the line and the column of a class hold its TP twice.
    total = matrix[1].sum() + matrix[:, 1].sum()
    return float(2 * matrix[1, 1] / total) if matrix[1].sum() > 0 else None


def _mean_f1(matrix: Floats) -> float | None:
    """Return the mean F1 over the classes that occur in the truth or among the predictions."""
    total = matrix.sum(axis=0) + matrix.sum(axis=1)
    occurs = total > 0
    return float((2 * matrix.diagonal()[occurs] / total[occurs]).mean()) if occurs.any() else None


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
    binary = np.ndim(probabilities) == 2 and np.shape(probabilities)[1] == 2
    if binary and threshold is None:
        return _mean_over_classes(_highest_f1, truth, probabilities, sample_weight)[-1]
    matrix = confusion_matrix(truth, probabilities, sample_weight, threshold=threshold)
    return _f1_of_second(matrix) if binary else _mean_f1(matrix)


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
    scores = _f1_at_thresholds(sweep)
    best = int(scores.argmax())
    return float(scores[best]), float(sweep.threshold[best])


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
    of_class = partial(_recall_at_rate, rate=rate)
    return _mean_over_classes(of_class, truth, probabilities, sample_weight)[-1]


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
    sweep = _sweep(positive, score, sample_weight)
    if sweep.positives == 0 or sweep.negatives == 0:
        return None
    x, y = sweep.fp / sweep.negatives, sweep.tp / sweep.positives
    # The point of KS, the largest distance from the diagonal, must not be thinned out.
    return _thinned(Curve(x, y, sweep.threshold), points, keep=int((y - x).argmax()))


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
    sweep = _sweep(positive, score, sample_weight)
    if sweep.positives == 0:
        return None
    curve = Curve(sweep.tp[1:] / sweep.positives, _precision(sweep), sweep.threshold[1:])
    # The point of the highest F1 must not be thinned out.
    return _thinned(curve, points, keep=int(_f1_at_thresholds(sweep)[1:].argmax()))


# --- metrics of numbers ---


def r2(truth: Floats, predicted: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the share of the variance of numbers that is explained; None if they do not vary."""
    mean = _weighted_mean(truth, sample_weight)
    spread = None if mean is None else _weighted_mean((truth - mean) ** 2, sample_weight)
    error = _weighted_mean((truth - predicted[:, 0]) ** 2, sample_weight)
    return 1 - error / spread if spread and error is not None else None


def rmse(truth: Floats, predicted: Floats, sample_weight: Floats | None = None) -> float | None:
    """Return the root of the mean squared error of numbers."""
    error = _weighted_mean((truth - predicted[:, 0]) ** 2, sample_weight)
    return None if error is None else float(np.sqrt(error))


# --- metrics by name ---


def _described(name: str, measure: Measure | None = None, **definition: Any) -> Metric:
    """Return a metric with the title and direction of ``METRIC_INFO``."""
    info = METRIC_INFO[name]
    return Metric(name, info.title, info.greater_is_better, measure, **definition)


def _recall_metric(name: str, share: float) -> Metric:
    """Return the recall among the top-scored share of the rows as a metric."""
    title, of_class = _recall_info(share).title, partial(_recall_at_rate, rate=share)
    return Metric(name, title, True, per_class=of_class, rows_needed=CHECKED_ROWS / share)


accuracy = _described("accuracy", per_row=_is_right)
balanced_accuracy = _described("balanced_accuracy", per_matrix=_mean_recall)
auc = _described("auc", per_class=_auc)
ks = _described("ks", per_class=_ks, at_thresholds=_ks_at_thresholds)
log_loss = _described("log_loss", per_row=_log_losses)
average_precision = _described("average_precision", per_class=_average_precision)
mae = Metric("mae", "MAE", False, per_row=_absolute_errors)

METRICS: dict[str, Metric] = {
    entry.name: entry
    for entry in (
        accuracy,
        balanced_accuracy,
        auc,
        _described(
            "f1",
            per_class=_highest_f1,
            per_matrix=_mean_f1,
            at_thresholds=_f1_at_thresholds,
        ),
        ks,
        log_loss,
        average_precision,
        _recall_metric("recall_at_rate", 0.01),
    )
}

DECIDED: Mapping[str, Callable[[Floats], float | None]] = {
    "accuracy": _share_right,
    "balanced_accuracy": _mean_recall,
    "f1": _f1_of_second,
}
"""The metrics that depend on the threshold of two classes, by the confusion matrix."""

REGRESSION_METRICS: dict[str, Metric] = {
    entry.name: entry
    for entry in (
        Metric("r2", "R²", True, r2),
        Metric("rmse", "RMSE", False, rmse),
        mae,
    )
}

SKLEARN_NAMES: Mapping[str, str] = {
    "neg_log_loss": "log_loss",
    "roc_auc": "auc",
    "roc_auc_ovr": "auc",
    "neg_root_mean_squared_error": "rmse",
    "neg_mean_absolute_error": "mae",
}
"""The metrics that scikit-learn calls by another name."""


def metric(name: str) -> Metric:
    """Return the metric of that name; ``recall_at_rate(0.001)`` contains its rate.

    Raise ``ValueError`` for an unknown name.
    """
    if name in METRICS:
        return METRICS[name]
    share = recall_share(name)
    if share is None:
        known = ", ".join(METRICS)
        raise ValueError(f"unknown metric {name!r}; use one of {known} or recall_at_rate(share)")
    return _recall_metric(name, share)


def decided_metric(name: str, threshold: float) -> Metric:
    """Return accuracy, balanced accuracy or F1 of two classes, decided at a threshold.

    Raise ``KeyError`` for another name.
    """
    return _described(name, per_matrix=DECIDED[name], threshold=threshold)


def resolve_metric(scoring: str | Callable[[Array, Array], float], classes: Array | None) -> Metric:
    """Return the metric of that name, or a callable as a metric of which more is better.

    A name may be ours or scikit-learn's (``neg_log_loss`` is ``log_loss``). The callable gets
    ``(y, probabilities)``, for numbers ``(y, predicted)``; ``classes`` is None for numbers. Raise
    ``ValueError`` for an unknown name.
    """
    if callable(scoring):
        name = getattr(scoring, "__name__", type(scoring).__name__)
        measure = _as_measure(scoring, classes)
        # Nothing is known about the callable, so no row may be left out.
        return Metric(name, name, True, measure, rows_needed=math.inf)
    known = REGRESSION_METRICS if classes is None else METRICS
    name = SKLEARN_NAMES.get(scoring, scoring)
    if name in known:
        return known[name]
    if classes is None:
        names = ", ".join(known)
        raise ValueError(f"unknown metric {scoring!r} for numbers; use one of {names}")
    return metric(scoring)


def _as_measure(function: Callable[[Array, Array], float], classes: Array | None) -> Measure:
    """Return the callable of a user as a measure: it gets class labels instead of class numbers."""

    def measure(truth: Array, output: Array, sample_weight: Array | None = None) -> float:
        if classes is None:
            return float(function(truth, output[:, 0]))
        return float(function(classes[truth], output))

    return measure


# --- how much a metric varies with the rows ---


def standard_error(
    metric: Metric,
    truth: Array,
    output: Floats,
    sample_weight: Floats | None = None,
    groups: Array | None = None,
) -> float | None:
    """Return the standard error of a metric: how much it varies from one set of rows to another.

    With ``groups`` (one label per row) whole groups vary, not rows: rows of a group are alike. The
    error of a mean over rows has a formula; that of another metric is estimated by a jackknife
    that leaves out one of 30 random parts of the rows at a time. Return None where the metric has
    too few values.
    """
    if metric.per_row is not None:
        return _mean_and_error(metric.per_row(truth, output), sample_weight, groups)[1]
    part = _random_parts(truth, output, groups)
    return _jackknife_error(_values_without_parts(metric, truth, output, sample_weight, part)[:-1])


def gain_and_error(
    metric: Metric,
    truth: Array,
    output: Floats,
    before: Floats,
    sample_weight: Floats | None = None,
    groups: Array | None = None,
) -> tuple[float | None, float | None]:
    """Return the gain of ``output`` over ``before``, and the standard error of the gain.

    The gain is positive if ``output`` is better. Both are compared on the same rows, so what makes
    rows hard for both does not count as noise. ``groups`` are as in ``standard_error``.
    """
    if metric.per_row is not None:
        gains = metric.sign * (metric.per_row(truth, output) - metric.per_row(truth, before))
        return _mean_and_error(gains, sample_weight, groups)
    part = _random_parts(truth, output, groups)
    new, old = (
        _values_without_parts(metric, truth, each, sample_weight, part) for each in (output, before)
    )
    gains = metric.sign * (new - old)
    if not np.isfinite(gains[-1]):
        return None, None
    return float(gains[-1]), _jackknife_error(gains[:-1])


def _mean_and_error(
    values: Floats, weight: Floats | None, groups: Array | None
) -> tuple[float | None, float | None]:
    """Return the weighted mean of the rows and its standard error, robust to alike rows in groups.

    Var(Σwv / Σw) ≈ G / (G − 1) · Σ_g (Σ_{i in g} w_i (v_i − mean) / Σw)² for G groups.
    """
    mean = _weighted_mean(values, weight)
    if mean is None:
        return None, None
    weight = np.ones(len(values)) if weight is None else np.asarray(weight, np.float64)
    unit = _units(groups, len(values))
    deviations = np.bincount(unit, weights=weight * (values - mean)) / weight.sum()
    units = np.count_nonzero(np.bincount(unit, weights=weight))
    if units < 2:
        return mean, None
    return mean, float(np.sqrt(units / (units - 1) * (deviations**2).sum()))


def _units(groups: Array | None, rows: int) -> Codes:
    """Return the number of the independent unit of each row: of its group, or of itself."""
    if groups is None:
        return np.arange(rows)
    return np.unique(np.asarray(groups), return_inverse=True)[1]


def _random_parts(truth: Array, output: Floats, groups: Array | None) -> Codes:
    """Return the part of each row, the same at every call; a group lies in one part.

    The units of each class are spread evenly, so that no part has all rows of a rare class: the
    share of each class counts as fixed. A group with rows of several classes counts to the rarest.
    """
    unit = _units(groups, len(truth))
    units = int(unit.max()) + 1 if len(unit) else 0
    rarity = np.zeros(units, np.int32)
    if output.shape[1] > 1:
        by_frequency = np.argsort(-np.bincount(truth, minlength=output.shape[1]), kind="stable")
        np.maximum.at(rarity, unit, np.argsort(by_frequency).astype(np.int32)[truth])
    shuffled = np.random.default_rng(0).permutation(units)
    dealt = shuffled[np.argsort(rarity[shuffled], kind="stable")]
    part = np.empty(units, np.int8)
    part[dealt] = np.arange(units) % JACKKNIFE_PARTS
    return part[unit]


def _values_without_parts(
    metric: Metric, truth: Array, output: Floats, weight: Floats | None, part: Codes
) -> Floats:
    """Return the value without each part of the rows, and at last the value of all rows.

    It is NaN where the metric has none.
    """
    parts = int(part.max()) + 1 if len(part) else 0
    if metric.ranks(output):
        assert metric.per_class is not None
        means = _mean_over_classes(metric.per_class, truth, output, weight, part, parts)
        return np.array(means, np.float64)
    values = np.empty(parts + 1)
    for number in range(parts + 1):
        rows = part != number  # all of them for the last number, which is not a part
        weight_of_rows = None if weight is None else weight[rows]
        values[number] = _value(metric, truth[rows], output[rows], weight_of_rows)
    return values


def _value(metric: Metric, truth: Array, output: Floats, weight: Floats | None) -> float:
    """Return the value of the metric, NaN if it has none."""
    try:
        value = metric(truth, output, weight)
    # A user's function may fail on some rows, such as those of one class: it has no value there.
    except Exception:
        return np.nan
    return np.nan if value is None else value


def _jackknife_error(values: Floats) -> float | None:
    """Return the standard error from the values without each part: √((G − 1) / G · Σ (v − v̄)²)."""
    defined = values[np.isfinite(values)]
    if len(defined) < MIN_PARTS:
        return None
    return float(np.sqrt((len(values) - 1) * defined.var()))


# --- arithmetic ---


def _weighted_mean(values: Floats, weight: Floats | None) -> float | None:
    """Return the mean, None without rows or without weight."""
    total = len(values) if weight is None else np.sum(weight)
    return float(np.average(values, weights=weight)) if total > 0 else None


def _sweeps(
    positive: npt.NDArray[np.bool_],
    score: Floats,
    weight: Floats | None,
    part: Codes | None = None,
    parts: int = 0,
) -> Iterator[_Sweep]:
    """Yield the sweep without each part of the rows, and at last the sweep of all rows.

    The rows are sorted once for all of them.
    """
    order = np.argsort(-score, kind="stable")
    score, positive = score[order], positive[order]
    weight = np.ones(len(score)) if weight is None else np.asarray(weight, np.float64)[order]
    # Rows of equal score cannot be separated: only the last of each group is a threshold.
    last = np.flatnonzero(np.diff(score, append=-np.inf))
    threshold = np.concatenate(([np.inf], score[last]))
    part = np.full(len(score), -1, np.int8) if part is None else part[order]
    of_positives, of_negatives = weight * positive, weight * ~positive
    for number in range(parts + 1):
        rows = part != number  # all of them for the last number, which is not a part
        tp, fp = np.zeros((2, len(threshold)))
        tp[1:] = np.cumsum(of_positives * rows)[last]
        fp[1:] = np.cumsum(of_negatives * rows)[last]
        yield _Sweep(tp, fp, threshold, int(np.count_nonzero(rows)))


def _sweep(positive: npt.NDArray[np.bool_], score: Floats, weight: Floats | None) -> _Sweep:
    """Return true and false positives for every threshold."""
    return next(_sweeps(np.asarray(positive, bool), np.asarray(score), weight))


def _mean_over_classes(
    of_class: Callable[[_Sweep], float | None],
    truth: Codes,
    probabilities: Floats,
    sample_weight: Floats | None,
    part: Codes | None = None,
    parts: int = 0,
) -> list[float | None]:
    """Return the value without each part of the rows, and at last the value of all rows.

    It is that of the second of two classes, else the mean over all classes that have a value.
    """
    truth, probabilities, weight = _checked(truth, probabilities, sample_weight)
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    by_class = []
    for code in classes:
        positive = truth == code
        # A class without rows is skipped before the sweep, which sorts all rows.
        if positive.any():
            sweeps = _sweeps(positive, probabilities[:, code], weight, part, parts)
            by_class.append([of_class(sweep) for sweep in sweeps])
    means: list[float | None] = [None] * (parts + 1)
    for number, values in enumerate(zip(*by_class, strict=True)):
        defined = [value for value in values if value is not None]
        means[number] = float(np.mean(defined)) if defined else None
    return means


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
