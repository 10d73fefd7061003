"""Estimate how much metrics vary with the rows, by the bootstrap.

A replicate is the value of a metric on rows drawn with replacement, as many as there are. The rows
that a replicate draws depend on the number of rows alone. So two outputs for the same rows are
measured on the same replicates, and the difference of their values, replicate by replicate, shows
how much the difference of two models varies.

- ``resampled``     a metric of resampled rows: ``Replicates``, with its 95 % ``interval``
- ``difference``    how much better one output is than another: ``Difference``

Rows are sorted once. A replicate counts how often each row was drawn and adds up these counts by
threshold, so the memory does not grow with the number of replicates. The tests simulate how often
the intervals hold the true value; `docs/compare.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .metrics import Array, Codes, Floats, Metric, _Sweep, recall_share

Z95 = 1.96
"""Standard errors to each side of a 95 % interval."""
SEED = 14
WORK = 400_000_000
"""Rows × rankings × replicates that take a few seconds."""
FEWEST, MOST = 100, 1_000
"""Replicates: enough for a standard error, and no more than a report should hold."""
ENOUGH = 500
"""Replicates from which on their outermost 2.5 % are known well."""
BINS = 8_000
"""Thresholds of a replicate, for each of three ways to choose them."""
FEW = 5
"""Rows found or missed below which an exact interval is taken into account."""


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
    trials: float = 0.0
    """Independent units that a share can be counted in: rows of the rarest class, or all rows."""
    highest: float = 1.0
    """The greatest value that is possible; below 1 if fewer rows are checked than are positive."""
    is_count: bool = False
    """Whether the value is a share of ``trials`` that were counted one by one."""

    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval; None if too few replicates have a value."""
        limits = self._limits()
        if limits is None:
            return None
        low, high = limits
        # A corrected interval of few rows may leave out the value itself, which is hard to read.
        return min(low, self.value), max(high, self.value)

    def _limits(self) -> tuple[float, float] | None:
        varying = self.values if self.at_threshold is None else self.at_threshold
        known = varying[np.isfinite(varying)]
        if len(known) < FEWEST // 2:
            return None
        error = float(known.std(ddof=1))
        if self.metric.name == "r2":
            # 1 − R² is a ratio of errors, which is above 0 as they are.
            low, high = _of_positive(1 - self.value, error)
            return 1 - high, 1 - low
        if self.metric.name in UNLIMITED:
            if self.errors is not None and len(known) >= ENOUGH:
                return self._studentised()
            return _of_positive(self.value, error)
        if self.is_count:
            return wilson(self.value * self.trials, self.trials)
        centre = self.value
        if self.at_threshold is not None:
            # The best threshold of few rows suits these rows too well. The same happens once more
            # in each replicate, so the replicates show by how much.
            excess = max(float(np.nanmean(self.values)) - self.value, 0.0)
            excess *= EXCESS.get(self.metric.name, 1.0)
            centre, error = self.value - excess, float(np.hypot(error, excess))
            if centre < 2 * error:
                return max(centre - Z95 * error, 0.0), min(centre + Z95 * error, 1.0)
        return self._of_share(centre, error)

    def _studentised(self) -> tuple[float, float]:
        """Return the interval of a mean by the bootstrap of t = (mean − value) / error.

        Losses of few rows are skewed: a large one widens the interval upwards.
        """
        assert self.errors is not None
        usable = self.errors > 0
        t = (self.values[usable] - self.value) / self.errors[usable]
        lowest, highest = np.quantile(t, [0.025, 0.975]) if len(t) else (0.0, 0.0)
        low, high = self.value - highest * self.error, self.value - lowest * self.error
        return max(float(low), 0.0), float(high)

    def _of_share(self, centre: float, error: float) -> tuple[float, float]:
        """Return the interval of a metric from 0 to 1, on the scale of log-odds.

        There it stays between 0 and 1, and is longer to the side that has more room.
        """
        found = min(self.value / self.highest, 1.0) * self.trials
        exact = tuple(self.highest * limit for limit in wilson(found, self.trials))
        if error == 0 or not 0 < centre < 1:
            return exact[0], exact[1]
        odds, width = np.log(centre / (1 - centre)), Z95 * error / (centre * (1 - centre))
        low, high = 1 / (1 + np.exp(-(odds - width))), 1 / (1 + np.exp(-(odds + width)))
        if recall_share(self.metric.name) and min(found, self.trials - found) < FEW:
            low, high = min(low, exact[0]), max(high, exact[1])
        return float(low), float(high)


EXCESS = {"ks": 2.0}
"""How much a figure at its best threshold is too high, as a multiple of the same in replicates.

In simulations it is about 2.2 for KS. For F1, 1 gives better intervals.
"""
UNLIMITED = ("log_loss", "rmse", "mae")
"""Metrics from 0 to infinity."""


class Difference(NamedTuple):
    """How much better predictions are than others; ``margin`` is half of the 95 % interval."""

    gain: float
    margin: float

    @property
    def is_tie(self) -> bool:
        """Return whether the interval contains 0."""
        return abs(self.gain) <= self.margin

    def rows_to_decide(self, rows: int) -> int | None:
        """Return with how many rows a difference of this size would be certain.

        The margin falls with the root of the number of rows. Return None without a difference.
        """
        return None if self.gain == 0 else int(np.ceil(rows * (self.margin / self.gain) ** 2))


def difference(sign: float, own: Floats, best: Floats, gain: float) -> Difference | None:
    """Return the difference of two outputs, from their replicates of the same rows.

    ``sign`` is 1 if more is better, else -1; ``gain`` is the difference on all rows. Return None if
    too few replicates have a value for both.
    """
    count = min(len(own), len(best))
    differences = np.asarray(own[:count], np.float64) - np.asarray(best[:count], np.float64)
    known = differences[np.isfinite(differences)]
    if len(known) < FEWEST // 2:
        return None
    return Difference(sign * gain, Z95 * float(known.std(ddof=1)))


def wilson(found: float, of: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; (0, 1) of nothing."""
    if of <= 0:
        return 0.0, 1.0
    share, square = found / of, Z95**2 / of
    centre = (share + square / 2) / (1 + square)
    width = Z95 / (1 + square) * np.sqrt(share * (1 - share) / of + square / 4 / of)
    return max(float(centre - width), 0.0), min(float(centre + width), 1.0)


def _of_positive(value: float, error: float) -> tuple[float, float]:
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
            *_trials(metric, truth, output, units),
            # Rows of a group are not independent trials.
            is_count=metric.name == "accuracy" and units is None,
        )
    return found


def replicate_count(rows: int, classes: int) -> int:
    """Return how many replicates a table of this size gets: fewer if it is large."""
    rankings = 1 if classes == 2 else classes
    return int(np.clip(WORK // (max(rows, 1) * (1 + rankings)), FEWEST, MOST))


def _draws(rows: int, units: Codes | None, count: int) -> Iterator[Floats]:
    """Yield how often each row is drawn, for one replicate after another."""
    n_units = rows if units is None else int(units.max()) + 1
    # The same rows are drawn for every output, so that differences are of the same rows.
    random = np.random.default_rng([SEED, n_units])
    for _ in range(count):
        drawn = random.integers(0, n_units, n_units, dtype=np.uint32)
        times = np.bincount(drawn, minlength=n_units).astype(np.float64)
        yield times if units is None else times[units]


def _trials(
    metric: Metric, truth: Array, output: Floats, units: Codes | None
) -> tuple[float, float]:
    """Return how many independent units decide about a share, and its greatest possible value."""
    codes = truth if units is None else np.unique(np.column_stack((truth, units)), axis=0)[:, 0]
    if output.shape[1] < 2 or metric.name == "accuracy":
        return float(len(codes)), 1.0
    counts = np.bincount(codes.astype(np.intp))
    rarest = float(counts[counts > 0].min())
    checked = len(codes) * (recall_share(metric.name) or 1.0)
    return (checked, checked / rarest) if checked < rarest else (rarest, 1.0)


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
        self.square = self.deviation**2 if self.name in UNLIMITED else None

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
