"""Estimate how much metrics vary with the rows, by the bootstrap.

A replicate is the value of a metric on rows drawn with replacement, as many as there are. The rows
that a replicate draws depend on the number of rows alone. So two outputs for the same rows are
measured on the same replicates, and the difference of their values, replicate by replicate, shows
how much the difference of two models varies.

- ``replicates``    the values of metrics on resampled rows
- ``interval``      the 95 % interval of a metric from its replicates
- ``Difference``, ``difference``  how much better one output is than another, and how certain that is

Rows are sorted once. A replicate counts how often each row was drawn and adds up these counts by
threshold; a row by replicate matrix is never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .metrics import Array, Codes, Floats, Metric, _Sweep

SEED = 20_261_118
WORK = 400_000_000
"""Rows × rankings × replicates that take a few seconds."""
FEWEST, MOST = 100, 1_000
"""Replicates: enough for a standard error, and no more than a report should hold."""
BINS = 8_000
"""Thresholds of a replicate, for each of three ways to choose them."""


def replicates(
    metrics: Sequence[Metric],
    truth: Array,
    output: Floats,
    *,
    groups: Array | None = None,
    count: int | None = None,
) -> dict[str, Floats]:
    """Return the values of each metric on resampled rows, by its name; NaN where it has none.

    With ``groups`` (one label per row) whole groups are drawn: rows of a group are alike.
    """
    truth, output = np.asarray(truth), np.asarray(output)
    if count is None:
        count = replicate_count(*output.shape)
    tallies: list[_Tally] = []
    ranked = [metric for metric in metrics if metric.ranks(output)]
    if ranked:
        tallies.append(_Ranked(ranked, truth, output))
    for metric in metrics:
        if metric.per_row is not None:
            tallies.append(_MeanOfRows(metric, truth, output))
        elif metric.per_matrix is not None and not metric.ranks(output):
            tallies.append(_Decided(metric, truth, output))
        elif not metric.ranks(output):
            tallies.append(_Any(metric, truth, output))
    values = {metric.name: np.full(count, np.nan) for metric in metrics}
    for number, weight in enumerate(_draws(len(truth), groups, count)):
        for tally in tallies:
            for name, value in tally.values(weight).items():
                values[name][number] = np.nan if value is None else value
    return values


def replicate_count(rows: int, classes: int) -> int:
    """Return how many replicates a table of this size gets: fewer if it is large."""
    rankings = 1 if classes == 2 else classes
    return int(np.clip(WORK // (max(rows, 1) * (1 + rankings)), FEWEST, MOST))


def _draws(rows: int, groups: Array | None, count: int) -> Iterator[Floats]:
    """Yield how often each row is drawn, for one replicate after another."""
    unit, units = None, rows
    if groups is not None:
        unit = np.unique(np.asarray(groups), return_inverse=True)[1]
        units = int(unit.max()) + 1
    random = np.random.default_rng([SEED, units])
    for _ in range(count):
        drawn = random.integers(0, units, units, dtype=np.uint32)
        times = np.bincount(drawn, minlength=units).astype(np.float64)
        yield times if unit is None else times[unit]


# --- metrics of weighted rows, where all that does not depend on the weights is computed once ---


class _MeanOfRows:
    """The mean of a value of each row."""

    def __init__(self, metric: Metric, truth: Array, output: Floats) -> None:
        assert metric.per_row is not None
        self.name, self.per_row = metric.name, metric.per_row(truth, output)

    def values(self, weight: Floats) -> Mapping[str, float | None]:
        return {self.name: float(weight @ self.per_row / weight.sum())}


class _Decided:
    """A figure of the confusion matrix."""

    def __init__(self, metric: Metric, truth: Codes, output: Floats) -> None:
        self.metric, self.classes = metric, output.shape[1]
        if metric.threshold is None:
            predicted = output.argmax(axis=1)
        else:
            predicted = (output[:, 1] >= metric.threshold).astype(np.intp)
        self.cell = truth * self.classes + predicted

    def values(self, weight: Floats) -> Mapping[str, float | None]:
        assert self.metric.per_matrix is not None
        shape = self.classes, self.classes
        cells = np.bincount(self.cell, weights=weight, minlength=self.classes**2)
        return {self.metric.name: self.metric.per_matrix(cells.reshape(shape))}


class _Any:
    """A metric of which nothing is known: computed anew."""

    def __init__(self, metric: Metric, truth: Array, output: Floats) -> None:
        self.metric, self.truth, self.output = metric, truth, output

    def values(self, weight: Floats) -> Mapping[str, float | None]:
        return {self.metric.name: self.metric(self.truth, self.output, weight)}


class _Ranked:
    """Metrics of the order of the rows, each the mean over classes against the rest."""

    def __init__(self, metrics: Sequence[Metric], truth: Codes, output: Floats) -> None:
        self.metrics, self.rows = metrics, len(truth)
        classes = [1] if output.shape[1] == 2 else range(output.shape[1])
        self.rankings = []
        for code in classes:
            positive = truth == code
            if positive.any():
                self.rankings.append(_cells(positive, output[:, code]))
        # Thresholds may be thinned out, which shifts a value a little. The shift is taken back.
        self.shift = dict.fromkeys((metric.name for metric in metrics), 0.0)
        thinned = self.values(np.ones(self.rows))
        for metric in metrics:
            exact, value = metric(truth, output, None), thinned[metric.name]
            if exact is not None and value is not None:
                self.shift[metric.name] = exact - value

    def values(self, weight: Floats) -> Mapping[str, float | None]:
        sweeps = [self._sweep(cell, bins, weight) for cell, bins in self.rankings]
        means: dict[str, float | None] = {}
        for metric in self.metrics:
            assert metric.per_class is not None
            known = [value for sweep in sweeps if (value := metric.per_class(sweep)) is not None]
            means[metric.name] = None
            if known:
                means[metric.name] = float(np.mean(known)) + self.shift[metric.name]
        return means

    def _sweep(self, cell: Codes, bins: int, weight: Floats) -> _Sweep:
        """Return true and false positives at falling thresholds, as the weights count them."""
        counts = np.bincount(cell, weights=weight, minlength=2 * bins).reshape(2, bins)
        fp, tp = np.zeros((2, bins + 1))
        np.cumsum(counts[0], out=fp[1:])
        np.cumsum(counts[1], out=tp[1:])
        return _Sweep(tp, fp, np.zeros(0), self.rows)


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


_Tally = _MeanOfRows | _Decided | _Any | _Ranked
