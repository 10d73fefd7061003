"""Measure how far scored rows differ from the rows that a model was trained on.

A model is saved with a summary of its training rows: for each column the counts of some bins, never
rows. While a file is scored, its rows are counted in the same bins. For each column the report has

- ``psi``     the population stability index over about ten bins and one for missing values:
  Σ (scored − training) · ln(scored / training), with the shares of the bins
- ``ks``      the Kolmogorov–Smirnov statistic: the largest distance between the two cumulative
  distributions, at the edges of the bins; only for numbers and times
- ``unseen``  the share of rows with a category that training did not have

- ``TrainingSummary``  the summary; ``summarise`` makes it, ``read_summary`` reads it from a folder
- ``DriftCounter``     counts scored rows block by block, and returns the ``DriftReport``
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from engine.text import counted, listed
from nodes.models.encoder import CategoryColumn, EncodedColumn, TableEncoder, category_counts

SUMMARY = "training.json"
"""The file of a saved model that holds the summary."""
FORMAT, VERSION = "sylva-training-summary", 1
SAMPLE_ROWS, SAMPLE_CELLS = 50_000, 5_000_000
"""Rows and values that are counted: enough for shares within a percent or two of all rows."""
FINE_BINS, COARSE_BINS = 50, 10
MANY_COLUMNS = 300
"""Tables with more columns get ``COARSE_BINS``, so that the summary stays small."""
MAX_CATEGORIES = 100
"""The most frequent categories have a bin each; the others share one."""
RARE = 0.01
"""Categories below this share of the training rows share a bin in the PSI."""
SMALLEST_SHARE = 1e-4
"""An empty bin counts as this share: the logarithm needs a number above zero."""
SOME, LARGE = 0.1, 0.25
"""PSI from which drift is called some or large: the limits that banks have used for decades."""
CHANCE = 0.999
"""Drift is reported only if so many files without drift would differ less."""

Level = Literal["none", "some", "large"]


@dataclass(frozen=True)
class ColumnSummary:
    """Count the training values of one column.

    Bin ``i`` holds the values above ``edges[i - 1]`` up to ``edges[i]``; the last one holds all
    above the last edge. The values of a category are their numbers in the encoder.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    missing: int


@dataclass(frozen=True)
class TrainingSummary:
    """Count the training rows of a model by column."""

    rows: int
    """Rows that were counted."""
    columns: Mapping[str, ColumnSummary]

    def save(self, folder: Path) -> None:
        """Write the summary into the folder of a model; the same summary gives the same bytes."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "rows": self.rows,
            "columns": {name: asdict(column) for name, column in self.columns.items()},
        }
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8", newline="\n")


# Training


def sampled(data: pa.Table) -> pa.Table:
    """Return at most ``SAMPLE_ROWS`` rows, fewer of a wide table, evenly over the table."""
    rows = max(min(SAMPLE_ROWS, SAMPLE_CELLS // data.num_columns), 1_000)
    if data.num_rows <= rows:
        return data
    return data.take(pa.array(np.linspace(0, data.num_rows - 1, rows).astype(np.int64)))


def summarise(data: pa.Table, encoder: TableEncoder) -> TrainingSummary:
    """Count the rows of a table by the columns of an encoder."""
    bins = FINE_BINS if len(encoder.columns) <= MANY_COLUMNS else COARSE_BINS
    columns = {}
    for column in encoder.columns:
        values = column.read_column(data.column(column.name))
        present = values[~np.isnan(values)]
        edges = _edges(column, present, bins)
        counts = tuple(_counts(edges, present).tolist())
        columns[column.name] = ColumnSummary(edges, counts, len(values) - len(present))
    return TrainingSummary(data.num_rows, columns)


def _edges(column: EncodedColumn, values: np.ndarray, bins: int) -> tuple[float, ...]:
    """Return the edges of the bins: one for each frequent category, or quantiles of numbers."""
    if isinstance(column, CategoryColumn):
        return tuple(float(code) for code in range(min(len(column.categories), MAX_CATEGORIES)))
    if not len(values):
        return ()
    shares = np.linspace(0, 1, bins + 1)[1:]
    quantiles = np.unique(np.quantile(values, shares, method="inverted_cdf"))
    # Smaller values than in training get a bin of their own.
    below = np.nextafter(values.min(), -np.inf)
    edges = [below, *quantiles.tolist()] if isfinite(below) else quantiles.tolist()
    return tuple(map(float, edges))


def _counts(edges: tuple[float, ...], values: np.ndarray) -> np.ndarray:
    """Return how many values are in each bin."""
    bins = np.searchsorted(np.asarray(edges, np.float64), values, side="left")
    return np.bincount(bins, minlength=len(edges) + 1)


def read_summary(folder: Path, encoder: TableEncoder) -> TrainingSummary | None:
    """Return the summary of a saved model; None if the model has none.

    The folder may come from anyone: raise ``ValueError``, ``KeyError`` or ``TypeError`` if the
    summary cannot be that of the encoder's columns.
    """
    path = folder / SUMMARY
    if not path.is_file():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["format"] != FORMAT or data["version"] != VERSION:
        raise ValueError(f"{SUMMARY} is not a summary of training rows")
    if list(data["columns"]) != encoder.names:
        raise ValueError(f"{SUMMARY} has other columns than the model")
    columns = {name: _column_from_json(each) for name, each in data["columns"].items()}
    return TrainingSummary(_count(data["rows"]), columns)


def _column_from_json(data: Mapping[str, Any]) -> ColumnSummary:
    """Return the summary of a column; raise ``ValueError`` if it cannot be right."""
    edges = tuple(float(edge) for edge in data["edges"])
    counts = tuple(_count(count) for count in data["counts"])
    is_rising = all(low < high for low, high in pairwise(edges))
    if not is_rising or not all(map(isfinite, edges)) or len(counts) != len(edges) + 1:
        raise ValueError(f"{SUMMARY} has bins that do not fit together")
    return ColumnSummary(edges, counts, _count(data["missing"]))


def _count(value: object) -> int:
    """Return a number of rows; raise ``ValueError`` if it is not one."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"{SUMMARY} has a count that is not a number of rows")
    return value


# Scored rows


@dataclass(frozen=True)
class ColumnDrift:
    """Say how far one column differs; shares are from 0 to 1."""

    name: str
    kind: str
    level: Level
    psi: float
    ks: float | None
    """None for categories."""
    unseen: float | None
    """None for numbers and times."""
    missing: float
    missing_in_training: float


@dataclass(frozen=True)
class DriftReport:
    """Say how far scored rows differ from training rows, the column with the most drift first."""

    rows: int
    training_rows: int
    columns: tuple[ColumnDrift, ...]

    def at(self, level: Level) -> list[str]:
        """Return the columns with this level of drift."""
        return [column.name for column in self.columns if column.level == level]

    @property
    def words(self) -> str:
        """Return the report in one or two sentences."""
        large, some = self.at("large"), self.at("some")
        if not large and not some:
            number = counted(len(self.columns), "column")
            return f"No drift in {number}, as far as {counted(self.rows, 'row')} can show it."
        parts = []
        if large:
            parts.append(f"Large drift in {listed(large)}.")
        if some:
            parts.append(f"Some drift in {listed(some)}.")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON."""
        columns = [asdict(column) for column in self.columns]
        return {"rows": self.rows, "training_rows": self.training_rows, "columns": columns}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DriftReport:
        """Return the report that ``to_json`` has written."""
        columns = tuple(ColumnDrift(**column) for column in data["columns"])
        return cls(data["rows"], data["training_rows"], columns)


class DriftCounter:
    """Count scored rows in the bins of the training rows."""

    def __init__(
        self, encoder: TableEncoder, summary: TrainingSummary, missing: Collection[str]
    ) -> None:
        """Prepare empty bins; ``missing`` are the texts that mean a missing value."""
        self._encoder, self._summary, self._missing = encoder, summary, {"", *missing}
        self._rows = 0
        self._counts = {
            name: np.zeros(len(column.counts), np.int64) for name, column in summary.columns.items()
        }
        self._unseen = dict.fromkeys(summary.columns, 0)

    def add(self, written: pa.Table, data: pa.Table) -> None:
        """Count a block: the values as the file has them, and as the encoder takes them."""
        self._rows += data.num_rows
        for column in self._encoder.columns:
            values = column.read_column(data.column(column.name))
            edges = self._summary.columns[column.name].edges
            self._counts[column.name] += _counts(edges, values[~np.isnan(values)])
            if isinstance(column, CategoryColumn) and np.isnan(values).any():
                self._unseen[column.name] += self._unknown(column, written.column(column.name))

    def _unknown(self, column: CategoryColumn, values: pa.ChunkedArray) -> int:
        """Return how many values are neither missing nor a category of the training rows."""
        unknown = 0
        for text, count in category_counts(values).items():
            if column.find(text) is None and text.strip() not in self._missing:
                unknown += count
        return unknown

    def report(self) -> DriftReport:
        """Return the drift of all rows that were counted."""
        drifts = [self._drift(column) for column in self._encoder.columns]
        drifts.sort(key=lambda drift: (-drift.psi, drift.name))
        return DriftReport(self._rows, self._summary.rows, tuple(drifts))

    def _drift(self, column: EncodedColumn) -> ColumnDrift:
        """Return the drift of one column."""
        training = self._summary.columns[column.name]
        expected, actual = np.array(training.counts), self._counts[column.name]
        is_category = isinstance(column, CategoryColumn)
        unseen = self._unseen[column.name]
        missing = self._rows - int(actual.sum()) - unseen
        groups = _groups(expected, is_category=is_category)
        size = int(groups.max()) + 1
        before = np.append(np.bincount(groups, expected, size), training.missing)
        now = np.append(np.bincount(groups, actual, size), missing)
        # Categories that were never seen are in the bin of the rare ones, the last but one.
        now[-2] += unseen
        psi = _psi(before, now)
        return ColumnDrift(
            name=column.name,
            kind=column.kind,
            level=_level(psi, before, now),
            psi=psi,
            ks=None if is_category else _ks(expected, actual),
            unseen=_share(unseen, self._rows) if is_category else None,
            missing=_share(missing, self._rows),
            missing_in_training=_share(training.missing, self._summary.rows),
        )


def _groups(counts: np.ndarray, *, is_category: bool) -> np.ndarray:
    """Return for each fine bin the number of its bin in the PSI.

    Numbers get about ``COARSE_BINS`` bins with the same number of training rows. Frequent
    categories have one each; the last one is for all others.
    """
    total = max(int(counts.sum()), 1)
    if is_category:
        frequent = counts / total >= RARE
        # The last fine bin holds categories without a bin, and those that are new.
        frequent[-1] = False
        return np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())
    # The middle of each bin decides, so that a bin is never divided.
    middle = (np.cumsum(counts) - counts / 2) / total
    coarse = np.minimum(middle * COARSE_BINS, COARSE_BINS - 1).astype(np.int64)
    return np.unique(coarse, return_inverse=True)[1]


def _psi(before: np.ndarray, now: np.ndarray) -> float:
    """Return the population stability index of two sets of counts."""
    if not before.sum() or not now.sum():
        return 0.0
    expected = np.maximum(before / before.sum(), SMALLEST_SHARE)
    actual = np.maximum(now / now.sum(), SMALLEST_SHARE)
    return float(((actual - expected) * np.log(actual / expected)).sum())


def _level(psi: float, before: np.ndarray, now: np.ndarray) -> Level:
    """Return how large a PSI is; ``none`` if chance alone could explain it.

    Few rows leave bins empty, so their PSI is large without any drift. Pearson's χ² test of the
    same counts knows how many rows there are.
    """
    from scipy.stats import chi2

    if psi < SOME:
        return "none"
    both = before + now
    used = both > 0
    shares = both[used] / both.sum()
    difference = now[used] / now.sum() - before[used] / before.sum()
    rows = now.sum() * before.sum() / both.sum()
    statistic = float(rows * (difference**2 / shares).sum())
    if statistic < chi2.ppf(CHANCE, max(int(used.sum()) - 1, 1)):
        return "none"
    return "large" if psi >= LARGE else "some"


def _ks(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the largest distance of the cumulative shares; 0 if one side has no values."""
    if not expected.sum() or not actual.sum():
        return 0.0
    distance = np.cumsum(expected) / expected.sum() - np.cumsum(actual) / actual.sum()
    return float(np.abs(distance).max())


def _share(count: int, rows: int) -> float:
    """Return a share of rows; 0 without rows."""
    return count / rows if rows else 0.0
