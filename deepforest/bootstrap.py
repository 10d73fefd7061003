"""Estimate how much metrics vary with the rows, by the bootstrap.

A replicate is the value of a metric on rows drawn with replacement, as many as there are. The rows
that a replicate draws depend on the number of rows alone. So two outputs for the same rows are
measured on the same replicates, and the difference of their values, replicate by replicate, shows
how much the difference of two models varies.

- ``resampled``     a metric of resampled rows: ``Replicates``, with its 95 % ``interval``
- ``difference``    how much better one output is than another: ``Difference``

Rows are sorted once. A replicate counts how often each row was drawn and adds up these counts by
threshold, so the memory does not grow with the number of replicates. The tests simulate how often
the intervals hold the true value; `docs/compare.md` has the figures. Where too few rows decide, an
interval would hold it less often, so it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from .metrics import (
    Array,
    Codes,
    Floats,
    Metric,
    _Sweep,
    confusion_matrix,
    lower_is_better,
    recall_share,
)

Z95 = 1.96
"""Standard errors to each side of a 95 % interval."""
SEED = 14
WORK = 400_000_000
"""Rows × rankings × replicates that take a few seconds."""
LEAST_WORK = 8_000
"""Rows that a ranking of fewer rows takes as long as."""
FEWEST, MOST = 100, 1_000
"""Replicates: enough for a standard error, and no more than a report should hold."""
ENOUGH = 400
"""Replicates from which on their outermost 2.5 % are known well."""
BINS = 8_000
"""Thresholds of a replicate, for each of three ways to choose them."""
FEW = 5
"""Rows found or missed below which the interval of a recall is counted, not resampled."""
DECISIVE = 3
"""Rows that must decide a difference of counted shares; with fewer its interval is left out."""
SMALLEST = 10
"""Rows of the rarest class that an interval needs, or of all if classes do not matter."""
MONEY = ("money_saved", "net_gain", "cost")
"""Sums of an amount of each row. Few rows with large amounts may decide about them."""
SMALLEST_OF = {"ks": 20, **dict.fromkeys(MONEY, 8)}
"""The same for metrics that need more, and for money, whose rows ``_units`` counts otherwise."""
FARTHEST = 20.0
"""How many times closer to 0 or 1 than its value a share may be in a replicate."""
EXCESS = {"ks": 2.0}
"""How much a figure at its best threshold is too high, as a multiple of the same in replicates.

In simulations it is about 2.2 for KS. For F1, 1 gives better intervals.
"""
UNLIMITED = ("log_loss", "rmse", "mae")
"""Metrics from 0 to infinity."""

Limits = tuple[float, float]


@dataclass(frozen=True)
class Replicates:
    """Hold the values of a metric on resampled rows; NaN where it has none."""

    metric: Metric
    value: float
    values: Floats
    at_threshold: Floats | None = None
    """Of a metric that is highest at some threshold: its values at the threshold of all rows."""
    errors: Floats | None = None
    """Of a mean over rows: its standard error in each replicate."""
    error: float = 0.0
    """The same for all rows."""
    units: float = 0.0
    """Independent rows or groups that decide about the value: ``_units``."""
    exact: Limits | None = None
    """The interval of a share that can be counted, where that is better than the bootstrap."""

    def interval(self) -> Limits | None:
        """Return the 95 % interval; None if too few rows decide or too few replicates have a value.

        With fewer rows, it would hold the true value less often than 95 times in 100.
        """
        if self.units < SMALLEST_OF.get(self.metric.name, SMALLEST):
            return None
        limits = self._limits()
        if limits is None:
            return None
        low, high = limits
        # A corrected interval of few rows may leave out the value itself, which is hard to read.
        return min(low, self.value), max(high, self.value)

    def _limits(self) -> Limits | None:
        varying = self.values if self.at_threshold is None else self.at_threshold
        known = varying[np.isfinite(varying)]
        if len(known) < FEWEST // 2:
            return None
        error = float(known.std(ddof=1))
        if self.metric.name == "r2":
            # 1 − R² is a ratio of errors, which is above 0 as they are.
            low, high = _of_positive(1 - self.value, error)
            return 1 - high, 1 - low
        if self.errors is not None and len(known) >= ENOUGH:
            return self._studentised()
        if self.metric.name in MONEY:
            margin = _margin(self.metric.name, error, self.units)
            return self.value - margin, self.value + margin
        if self.metric.name in UNLIMITED:
            return _of_positive(self.value, error)
        if self.exact is not None:
            return self.exact
        if self.at_threshold is not None:
            return self._of_best_threshold(error)
        if error == 0 or not 0 < self.value < 1:
            return wilson(self.value * self.units, self.units)
        # The error on the scale of log-odds.
        error /= self.value * (1 - self.value)
        if not is_counted(self.metric.name):
            # There, values of 0 and 1 are infinitely far away.
            lowest, highest = self.value / FARTHEST, 1 - (1 - self.value) / FARTHEST
            error = float(_log_odds(np.clip(known, lowest, highest)).std(ddof=1))
        return _of_share(self.value, _margin(self.metric.name, error, self.units))

    def _studentised(self) -> Limits:
        """Return the interval of a mean by the bootstrap of t = (mean − value) / error.

        Losses of few rows are skewed: a large one widens the interval upwards.
        """
        assert self.errors is not None
        usable = self.errors > 0
        t = (self.values[usable] - self.value) / self.errors[usable]
        lowest, highest = np.quantile(t, [0.025, 0.975]) if len(t) else (0.0, 0.0)
        low, high = self.value - highest * self.error, self.value - lowest * self.error
        if self.metric.name in UNLIMITED:
            low = max(low, 0.0)
        return float(low), float(high)

    def _of_best_threshold(self, error: float) -> Limits:
        """Return the interval of a figure at the threshold where it is highest.

        The best threshold of few rows suits these rows too well. The same happens once more in each
        replicate, so the replicates show by how much.
        """
        excess = max(float(np.nanmean(self.values)) - self.value, 0.0)
        excess *= EXCESS.get(self.metric.name, 1.0)
        centre = self.value - excess
        margin = _margin(self.metric.name, float(np.hypot(error, excess)), self.units)
        if margin == 0 or centre >= 1:
            return wilson(self.value * self.units, self.units)
        if centre < margin:
            return max(centre - margin, 0.0), min(centre + margin, 1.0)
        return _of_share(centre, margin / (centre * (1 - centre)))


def _margin(name: str, error: float, units: float) -> float:
    """Return half of a 95 % interval, from a standard error of the bootstrap.

    That error is too small for few rows, and not known exactly: its variance is that of n − 1 of n
    rows, and the quantile is that of Student's t. Shares that are counted do not need this.
    """
    if is_counted(name):
        return Z95 * error
    degrees = max(units - 1, 1.0)
    return float(stdtrit(degrees, 0.975)) * error * float(np.sqrt(units / degrees))


def is_counted(name: str) -> bool:
    """Return whether a metric is a share of rows, or a mean of such shares."""
    return name in ("accuracy", "balanced_accuracy", "f1") or recall_share(name) is not None


def _log_odds(share: Floats | float) -> Any:
    return np.log(share / (1 - share))


def _of_share(centre: float, margin: float) -> Limits:
    """Return the interval of a share from its margin on the scale of log-odds.

    There it stays between 0 and 1, and is longer to the side that has more room.
    """
    odds = _log_odds(centre)
    return 1 / (1 + float(np.exp(margin - odds))), 1 / (1 + float(np.exp(-margin - odds)))


class Difference(NamedTuple):
    """How much better predictions are than others; ``margin`` is half of the 95 % interval.

    The margin is None if too few rows decide about the difference.
    """

    gain: float
    margin: float | None

    @property
    def is_tie(self) -> bool:
        """Return whether the interval contains 0; False if it is not known."""
        return self.margin is not None and abs(self.gain) <= self.margin

    def rows_to_decide(self, rows: int) -> int | None:
        """Return with how many rows a difference of this size would be certain.

        The margin falls with the root of the number of rows. Return None without a difference, or
        if the margin is not known.
        """
        if self.gain == 0 or self.margin is None:
            return None
        return int(np.ceil(rows * (self.margin / self.gain) ** 2))


def difference(name: str, own: Floats, best: Floats, gap: float, units: float) -> Difference | None:
    """Return the difference of two outputs, from their replicates of the same rows.

    ``gap`` is the difference on all rows, and ``units`` those of ``Replicates``. Return None if too
    few replicates have a value for both.
    """
    count = min(len(own), len(best))
    differences = np.asarray(own[:count], np.float64) - np.asarray(best[:count], np.float64)
    known = differences[np.isfinite(differences)]
    if len(known) < FEWEST // 2:
        return None
    gain = -gap if lower_is_better(name) else gap
    error = float(known.std(ddof=1))
    # Each row that one output finds and the other does not adds (1 / units)² to the variance.
    if is_counted(name) and (error * units) ** 2 < DECISIVE:
        return Difference(gain, None)
    return Difference(gain, _margin(name, error, units))


def wilson(found: float, of: float) -> Limits:
    """Return Wilson's 95 % interval of a share; (0, 1) of nothing."""
    if of <= 0:
        return 0.0, 1.0
    share, square = found / of, Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    width = Z95 / (1 + square) * np.sqrt(share * (1 - share) / of + square / 4 / of)
    return max(float(centre - width), 0.0), min(float(centre + width), 1.0)


def _of_positive(value: float, error: float) -> Limits:
    """Return the interval of a number above 0, on the scale of logarithms."""
    if value <= 0:
        return value, value
    factor = float(np.exp(Z95 * error / value))
    return value / factor, value * factor


# --- replicates ---


def resampled(
    metrics: Sequence[Metric],
    truth: Array,
    output: Floats,
    *,
    groups: Array | None = None,
    count: int | None = None,
) -> dict[str, Replicates]:
    """Return the replicates of each metric that has a value, by its name.

    With ``groups`` (one label per row) whole groups are drawn: rows of a group are alike. ``count``
    is the number of replicates, by default as many as take a few seconds.
    """
    truth, output = np.asarray(truth), np.asarray(output)
    if not len(truth):
        return {}
    count = replicate_count(*output.shape) if count is None else count
    units = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    tallies = list(_tallies(metrics, truth, output))
    weights = _draws(len(truth), units, count)
    everything = _gathered(tallies, [np.ones(len(truth))], 1)
    replicated = _gathered(tallies, weights, count)
    found = {}
    for metric in metrics:
        value = metric(truth, output, None)
        if value is None:
            continue
        # Some thresholds may be left out, which shifts a value a little. The shift is taken back.
        shift = value - everything["value", metric.name][0]
        at_threshold = replicated.get(("at threshold", metric.name))
        found[metric.name] = Replicates(
            metric,
            value,
            replicated["value", metric.name] + shift,
            None if at_threshold is None else at_threshold + shift,
            replicated.get(("error", metric.name)),
            float(everything.get(("error", metric.name), np.zeros(1))[0]),
            _units(metric, truth, output, units),
            _counted(metric, value, truth, output, units),
        )
    return found


def replicate_count(rows: int, classes: int) -> int:
    """Return how many replicates a table of this size gets: fewer if it is large."""
    rankings = 1 if classes == 2 else classes
    return int(np.clip(WORK // (max(rows, LEAST_WORK) * (1 + rankings)), FEWEST, MOST))


def _draws(rows: int, units: Codes | None, count: int) -> Iterator[Floats]:
    """Yield how often each row is drawn, for one replicate after another."""
    n_units = rows if units is None else int(units.max()) + 1
    # The same rows are drawn for every output, so that differences are of the same rows.
    random = np.random.default_rng([SEED, n_units])
    for _ in range(count):
        drawn = random.integers(0, n_units, n_units, dtype=np.uint32)
        times = np.bincount(drawn, minlength=n_units).astype(np.float64)
        yield times if units is None else times[units]


def _units(metric: Metric, truth: Array, output: Floats, groups: Codes | None) -> float:
    """Return how many independent rows decide about a metric: all, or those of a class.

    Groups are counted instead of rows if there are groups.
    """
    name, classes = metric.name, output.shape[1]
    if name in MONEY and metric.per_row is not None:
        return _deciding(metric.per_row(truth, output), groups)
    if classes < 2 or name in ("accuracy", "log_loss"):
        return float(len(truth) if groups is None else groups.max() + 1)
    counts = _class_counts(truth, groups)
    rarest = float(counts[counts > 0].min())
    if recall_share(name) is not None and classes == 2:
        return float(counts[1])
    # A row of the rarest class counts 1 / (classes × rows of this class) in a mean of recalls.
    return rarest * np.count_nonzero(counts) if name == "balanced_accuracy" else rarest


def _deciding(amounts: Floats, groups: Codes | None) -> float:
    """Return how many rows decide about a sum: (Σ a²)² / Σ a⁴, which is n for n equal amounts."""
    if groups is not None:
        amounts = np.bincount(groups, weights=amounts).astype(np.float64)
    squares = np.square(amounts / max(float(np.abs(amounts).max()), 1e-300))
    return float(squares.sum() ** 2 / max(float(np.square(squares).sum()), 1e-300))


def _class_counts(truth: Array, groups: Codes | None) -> Codes:
    """Return the number of rows of each class, or of groups that have such rows."""
    if groups is not None:
        truth = np.unique(np.column_stack((truth, groups)), axis=0)[:, 0]
    return np.bincount(truth.astype(np.intp), minlength=2)


def _counted(
    metric: Metric, value: float, truth: Array, output: Floats, groups: Codes | None
) -> Limits | None:
    """Return the interval of a share that is counted; None where the bootstrap is better."""
    share = recall_share(metric.name)
    if share is not None and output.shape[1] == 2:
        counts = _class_counts(truth, groups)
        return _of_recall(value, float(counts[1]), share * float(counts.sum()), counts.sum())
    # Rows of a group are not independent trials.
    if groups is not None:
        return None
    if metric.name == "accuracy":
        return wilson(value * len(truth), len(truth))
    if metric.name == "balanced_accuracy":
        return _of_mean_recall(confusion_matrix(truth, output, threshold=metric.threshold))
    return None


def _of_recall(value: float, positives: float, checked: float, rows: float) -> Limits | None:
    """Return the interval of the recall among the checked rows, if few are found or missed."""
    trials = min(checked, positives)
    found = min(value * positives, trials)
    if min(found, trials - found) >= FEW:
        return None
    if checked >= positives:
        return wilson(found, positives)
    # Recall = found / (found + missed): both vary, independently of each other. Their distances to
    # the limits are added as variances are (the MOVER method of Zou and Donner).
    missed = positives - found
    limits = [checked * limit for limit in wilson(found, checked)]
    low, high = (limit / (limit + missed) for limit in limits)
    share = missed / (rows - checked)
    varies = value * (1 - value) * Z95 * np.sqrt((1 - share) / missed)
    below, above = np.hypot(value - low, varies), np.hypot(high - value, varies)
    return max(float(value - below), 0.0), min(float(value + above), 1.0)


def _of_mean_recall(matrix: Floats) -> Limits:
    """Return the interval of the mean of the recalls of the classes, each with Wilson's.

    The distances to the limits are added as variances are (the MOVER method).
    """
    recalls, below, above = [], [], []
    for code, line in enumerate(matrix):
        if line.sum() > 0:
            low, high = wilson(line[code], line.sum())
            recalls.append(line[code] / line.sum())
            below.append(recalls[-1] - low)
            above.append(high - recalls[-1])
    mean, count = float(np.mean(recalls)), len(recalls)
    below_mean, above_mean = (float(np.linalg.norm(each)) / count for each in (below, above))
    return max(mean - below_mean, 0.0), min(mean + above_mean, 1.0)


Values = Mapping[tuple[str, str], float | None]
"""Values of weighted rows, by what they are and by metric."""


def _gathered(
    tallies: Sequence[_Tally], weights: Iterator[Floats] | Sequence[Floats], count: int
) -> dict[tuple[str, str], Floats]:
    """Return the values for all weights as arrays."""
    gathered: dict[tuple[str, str], Floats] = {}
    for number, weight in enumerate(weights):
        for tally in tallies:
            for key, value in tally.values(weight).items():
                column = gathered.setdefault(key, np.full(count, np.nan))
                column[number] = np.nan if value is None else value
    return gathered


# --- metrics of weighted rows, where all that does not depend on the weights is computed once ---


def _tallies(metrics: Sequence[Metric], truth: Array, output: Floats) -> Iterator[_Tally]:
    """Yield what computes the metrics of weighted rows."""
    ranked = [metric for metric in metrics if metric.ranks(output)]
    if ranked:
        yield _Ranked(ranked, truth, output)
    for metric in metrics:
        if metric.per_row is not None:
            yield _MeanOfRows(metric, truth, output)
        elif metric not in ranked:
            decided = metric.per_matrix is not None
            yield (_Decided if decided else _Any)(metric, truth, output)


class _MeanOfRows:
    """Compute the mean of a value of each row, and its standard error."""

    def __init__(self, metric: Metric, truth: Array, output: Floats) -> None:
        assert metric.per_row is not None
        self.name, self.per_row = metric.name, metric.per_row(truth, output)
        # Deviations from the mean of all rows lose no digits when they are squared.
        self.about = float(self.per_row.mean())
        self.deviation = self.per_row - self.about
        self.square = self.deviation**2 if self.name in (*UNLIMITED, *MONEY) else None

    def values(self, weight: Floats) -> Values:
        total = weight.sum()
        mean = float(weight @ self.deviation / total)
        values: dict[tuple[str, str], float | None] = {("value", self.name): self.about + mean}
        if self.square is not None:
            variance = max(float(weight @ self.square / total) - mean**2, 0.0)
            values["error", self.name] = float(np.sqrt(variance / total))
        return values


class _Decided:
    """Compute a figure of the confusion matrix."""

    def __init__(self, metric: Metric, truth: Codes, output: Floats) -> None:
        self.metric, self.classes = metric, output.shape[1]
        if metric.threshold is None:
            predicted = output.argmax(axis=1)
        else:
            predicted = (output[:, 1] >= metric.threshold).astype(np.intp)
        self.cell = truth * self.classes + predicted

    def values(self, weight: Floats) -> Values:
        assert self.metric.per_matrix is not None
        cells = np.bincount(self.cell, weights=weight, minlength=self.classes**2)
        matrix = cells.astype(np.float64).reshape(self.classes, self.classes)
        return {("value", self.metric.name): self.metric.per_matrix(matrix)}


class _Any:
    """Compute a metric of which nothing is known."""

    def __init__(self, metric: Metric, truth: Array, output: Floats) -> None:
        self.metric, self.truth, self.output = metric, truth, output

    def values(self, weight: Floats) -> Values:
        return {("value", self.metric.name): self.metric(self.truth, self.output, weight)}


class _Ranked:
    """Compute metrics of the order of the rows, each the mean over classes against the rest."""

    def __init__(self, metrics: Sequence[Metric], truth: Codes, output: Floats) -> None:
        self.metrics, self.rows = metrics, len(truth)
        classes = [1] if output.shape[1] == 2 else range(output.shape[1])
        self.rankings = []
        for code in classes:
            positive = truth == code
            if positive.any() and not positive.all():
                self.rankings.append(_cells(positive, output[:, code]))
        self.best: dict[str, list[int]] = {}
        sweeps = self._sweeps(np.ones(self.rows))
        for metric in metrics:
            if metric.at_thresholds is not None:
                curves = map(metric.at_thresholds, sweeps)
                self.best[metric.name] = [int(curve.argmax()) for curve in curves]

    def values(self, weight: Floats) -> Values:
        sweeps = self._sweeps(weight)
        means: dict[tuple[str, str], float | None] = {}
        for metric in self.metrics:
            assert metric.per_class is not None
            values = [metric.per_class(sweep) for sweep in sweeps]
            means["value", metric.name] = _mean(values)
            if metric.at_thresholds is not None:
                held = zip(self.best[metric.name], sweeps, values, strict=True)
                means["at threshold", metric.name] = _mean(
                    float(metric.at_thresholds(sweep)[at]) if value is not None else None
                    for at, sweep, value in held
                )
        return means

    def _sweeps(self, weight: Floats) -> list[_Sweep]:
        """Return true and false positives at falling thresholds, as the weights count them."""
        sweeps = []
        for cell, bins in self.rankings:
            counts = np.bincount(cell, weights=weight, minlength=2 * bins).reshape(2, bins)
            fp, tp = np.zeros((2, bins + 1))
            np.cumsum(counts[0], out=fp[1:])
            np.cumsum(counts[1], out=tp[1:])
            sweeps.append(_Sweep(tp, fp, np.zeros(0), self.rows))
        return sweeps


_Tally = _MeanOfRows | _Decided | _Any | _Ranked


def _mean(values: Iterator[float | None] | Sequence[float | None]) -> float | None:
    """Return the mean of the values that there are."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _cells(positive: npt.NDArray[np.bool_], score: Floats) -> tuple[Codes, int]:
    """Return a cell for each row, and the number of thresholds.

    The cell is the threshold from which on the row counts as positive, counted from the highest;
    cells of positive rows come after those of all others. Of many thresholds some are left out.
    """
    order = np.argsort(-score, kind="stable")
    # Rows of equal score cannot be separated: only the last of each group is a threshold.
    last = np.flatnonzero(np.diff(score[order], append=-np.inf))
    if len(last) > 3 * BINS:
        rows = len(score)
        at = np.flatnonzero(positive[order])
        some = at[np.linspace(0, len(at) - 1, min(BINS // 2, len(at))).astype(np.intp)]
        even = np.linspace(0, rows - 1, BINS).astype(np.intp)
        # Each threshold at the top, where few rows are checked, and beside the positive rows.
        wanted = np.concatenate((np.arange(BINS), even, np.maximum(some - 1, 0), some))
        last = last[np.unique(np.searchsorted(last, wanted))]
    bins = len(last)
    threshold = np.empty(len(score), np.int32)
    threshold[order] = np.searchsorted(last, np.arange(len(score)))
    return threshold + bins * positive.astype(np.int32), bins
