"""Pass a table through the layers of a deep forest once: sums over all rows, everything for a few.

Rows pass in blocks, several at a time. Only sums of them are stored, except for the sampled rows
and for a metric that needs all scores together (a ranking metric such as AUC).

- ``choose_rows``         the sample: some rows of every class, however rare
- ``compute_statistics``  the pass; returns a ``LayerStatistics``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from deepforest.inspection import USUAL, agreements
from deepforest.margins import margins
from deepforest.metrics import Metric
from deepforest.records import MARGIN_BINS, MarginRecord
from engine.node_types import NodeContext
from engine.text import counted
from engine.values import Table
from nodes.models.model import FittedModel, with_threads

ROWS_AT_ONCE = 16_384
CELLS_AT_ONCE = 16_000_000
BYTES_OF_SCORES = 512 * 2**20
"""Memory limit of the scores of all rows, for a metric that needs them together."""
FEW = 30
"""Rows of each class that a sample should have, if there are as many and the sample is large
enough."""


def choose_rows(truth: np.ndarray, requested: int, follow: Sequence[int], seed: int) -> np.ndarray:
    """Return the numbers of the sampled rows, ascending.

    These are the rows to follow, then up to ``FEW`` rows of every class, then others in proportion
    to the classes. ``truth`` holds a class number for each row. There are more than ``requested``
    rows only if more are to be followed. The same seed gives the same rows.
    """
    if requested >= len(truth):
        return np.arange(len(truth))
    order = np.random.default_rng(seed).permutation(len(truth))
    followed = np.unique(np.array(follow, np.int64))
    # The rows to follow come first, so that no limit removes them.
    order = np.concatenate([followed, order[~np.isin(order, followed)]])
    _, group = np.unique(truth[order], return_inverse=True)
    rank = _rank_in(group)
    # At most half of the sample is spent on equal numbers per class.
    few = min(FEW, requested // (2 * (group.max() + 1)))
    ahead = np.flatnonzero((rank < few) | (np.arange(len(order)) < len(followed)))
    others = np.setdiff1d(np.arange(len(order)), ahead, assume_unique=True)
    # Rank divided by class size: every prefix of this order has the classes in proportion.
    evenly = others[np.argsort(rank[others] / np.bincount(group)[group[others]], kind="stable")]
    chosen = np.concatenate([ahead, evenly])[: max(requested, len(followed))]
    return np.sort(order[chosen])


def _rank_in(group: np.ndarray) -> np.ndarray:
    """Return for each entry how many of its group come before it."""
    by_group = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))[:-1]])
    rank = np.empty(len(group), np.int64)
    rank[by_group] = np.arange(len(group)) - starts[group[by_group]]
    return rank


@dataclass
class MarginSummary:
    """Summarise margins: number, mean, sum of squared deviations and histogram.

    Two summaries can be added, so blocks of rows are summarised one by one.
    """

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    counts: np.ndarray | None = None

    @classmethod
    def of(cls, margin: np.ndarray) -> MarginSummary:
        """Return the summary of the margins of some rows."""
        if not len(margin):
            return cls()
        counts, _ = np.histogram(np.clip(margin, -1, 1), MARGIN_BINS)
        return cls(
            len(margin), float(margin.mean()), float(((margin - margin.mean()) ** 2).sum()), counts
        )

    def add(self, other: MarginSummary) -> None:
        """Add the summary of other rows.

        The mean and the squared deviations are updated as by Chan, Golub and LeVeque: unlike plain
        sums of squares, this does not lose digits if the mean is large.
        """
        if not other.n:
            return
        n, gap = self.n + other.n, other.mean - self.mean
        self.squares += other.squares + gap**2 * self.n * other.n / n
        self.mean += gap * other.n / n
        self.counts = other.counts if self.counts is None else self.counts + other.counts
        self.n = n

    def record(self) -> dict[str, Any] | None:
        """Return the summary as a layer's record has it; None if the class of no row is known."""
        if self.counts is None:
            return None
        # λ = std / mean, None for a mean that is not positive: as deepforest's ``margin_ratio``,
        # which needs all margins at once. Here only sums over blocks are left of them.
        std = (self.squares / self.n) ** 0.5
        ratio = std / self.mean if self.mean > 0 else None
        return asdict(
            MarginRecord(self.mean, std, ratio, MARGIN_BINS.tolist(), self.counts.tolist())
        )


@dataclass
class LayerSums:
    """Hold sums over the rows of one layer; metrics and margins only of rows with a known class."""

    agreements: np.ndarray
    """Learners × learners: rows for which both predict the same class."""
    sums: np.ndarray
    """Sums of the usual metrics × (the cascade, each learner)."""
    n_scored: np.ndarray
    """The number of rows in those sums."""
    rows: int = 0
    margins: MarginSummary = field(default_factory=MarginSummary)

    def add(self, other: LayerSums) -> None:
        """Add the sums of other rows of the same layer."""
        self.agreements = self.agreements + other.agreements
        self.sums = self.sums + other.sums
        self.n_scored = self.n_scored + other.n_scored
        self.rows += other.rows
        self.margins.add(other.margins)


@dataclass
class LayerStatistics:
    """Hold the result of a pass through L layers with K learners and C classes.

    ``rows`` are the numbers of the n sampled rows, ascending.
    """

    rows: np.ndarray
    truth: np.ndarray
    """Of all rows."""
    layer_sums: list[LayerSums]
    left_at: np.ndarray
    """Of all rows: the last layer they went through."""
    wrong: np.ndarray
    """Of all rows: whether the final prediction is wrong; without meaning where the class is
    unknown."""
    vectors: np.ndarray
    """Of the sample, L × K × n × C; NaN after the layer at which a row left."""
    outputs: np.ndarray
    """Of the sample, L × n × C; NaN likewise."""
    own_scores: np.ndarray | None
    """Of all rows, L × all × C: probabilities of the cascade, if a metric needs them."""
    learner_scores: np.ndarray | None
    """Of all rows, L × K × all × C, if a metric needs them and memory allows."""


def compute_statistics(
    ctx: NodeContext,
    model: FittedModel,
    table: Table,
    truth: np.ndarray,
    rows: np.ndarray,
    metric: Metric | None,
    share: float,
) -> LayerStatistics:
    """Pass the table through the layers: return sums over all rows, all values of the sample.

    ``truth`` holds the class number of each row, ``rows`` are the sampled ones. ``metric`` is
    scored besides the usual ones if it ranks rows and memory allows; a log line says if it does
    not. ``share`` is the part of the node's progress that the pass takes.
    """
    work = _Pass(model, table, truth, rows, metric)
    result = work.result
    scores_of = {"the cascade": result.own_scores, "each learner": result.learner_scores}
    for owner, scores in scores_of.items():
        if work.ranking is not None and scores is None:
            ctx.log(
                f"{work.ranking.title} of {owner} is left out: the scores of so many rows need too "
                "much memory."
            )
    way = f"{counted(len(truth), 'row')} through {counted(work.depth, 'layer')}"
    ctx.progress(0.0, way)
    # Sums are added in the order of the blocks: in another order they would round differently.
    blocks = ctx.executor.map(work.process_block, work.starts)
    for start, block_sums in zip(work.starts, blocks, strict=True):
        done = min(start + work.step, len(truth))
        ctx.progress(share * done / len(truth), f"{done:,} of {way}")
        for total, sums in zip(result.layer_sums, block_sums, strict=True):
            total.add(sums)
    return result


class _Pass:
    """Process blocks of a table; each fills its own rows, so several can be processed at once."""

    def __init__(
        self,
        model: FittedModel,
        table: Table,
        truth: np.ndarray,
        rows: np.ndarray,
        metric: Metric | None,
    ) -> None:
        """Allocate the result and choose the size of a block so that memory stays bounded."""
        self.model, self.table, self.truth = model, table, truth
        # Blocks are processed in parallel already.
        self.cascade = with_threads(model.estimator, 1)
        self.depth = self.cascade.n_layers_
        learners, classes = self.cascade.n_learners_, len(model.classes)
        # A block holds its rows once as matrix and once as class vectors.
        widest = max(model.encoder.width, self.depth * learners * classes)
        self.step = max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // widest))
        self.starts = range(0, len(truth), self.step)
        # The usual metrics are means over rows, so sums of blocks are enough for them.
        self.ranking = None if metric in USUAL or not (truth >= 0).any() else metric
        # ``add`` makes new arrays, so all layers can start from the same ones.
        zeros = (
            np.zeros((learners, learners), int),
            np.zeros((len(USUAL), 1 + learners)),
            np.zeros(1 + learners),
        )
        n, all_rows = len(rows), len(truth)
        self.result = LayerStatistics(
            rows=rows,
            truth=truth,
            layer_sums=[LayerSums(*zeros) for _ in range(self.depth)],
            left_at=np.zeros(all_rows, np.int64),
            wrong=np.zeros(all_rows, bool),
            vectors=np.full((self.depth, learners, n, classes), np.nan, np.float32),
            outputs=np.full((self.depth, n, classes), np.nan, np.float32),
            own_scores=self._scores_array((self.depth, all_rows, classes), "float64"),
            learner_scores=self._scores_array((self.depth, learners, all_rows, classes), "float32"),
        )

    def _scores_array(self, shape: tuple[int, ...], kind: str) -> np.ndarray | None:
        """Return an array for scores of all rows; None if they are not needed or too large."""
        size = np.prod(shape, dtype=float) * np.dtype(kind).itemsize
        if self.ranking is None or size > BYTES_OF_SCORES:
            return None
        return np.full(shape, np.nan, kind)

    def process_block(self, start: int) -> list[LayerSums]:
        """Pass the block of rows from ``start`` on through all layers; return its sums by layer."""
        model, cascade = self.model, self.cascade
        block = model.encoder.transform(self.table.data.slice(start, self.step), model.precision)
        stages, here = cascade.stages(block), slice(start, start + len(block))
        sums, outputs = [], np.empty(0)
        for layer in range(self.depth):
            stage = next(stages, None)
            if stage is not None:
                rows, vectors, outputs = stage.rows, stage.vectors, stage.output
            else:
                # With screening, all rows of a block may leave before the last layer.
                rows = np.empty(0, int)
                vectors = np.empty((cascade.n_learners_, 0, len(model.classes)), np.float32)
            self._store_rows(layer, here, rows, vectors, outputs)
            sums.append(_sums_of_block(vectors, self.truth[here][rows], outputs, self.truth[here]))
        self.result.wrong[here] = outputs.argmax(axis=1) != self.truth[here]
        return sums

    def _store_rows(
        self, layer: int, here: slice, rows: np.ndarray, vectors: np.ndarray, outputs: np.ndarray
    ) -> None:
        """Store the predictions for single rows of a block.

        ``rows`` are those that reached the layer, counted from the start of the block ``here``.
        """
        result = self.result
        result.left_at[here.start + rows] = layer + 1
        if result.own_scores is not None:
            result.own_scores[layer, here] = outputs
        if result.learner_scores is not None:
            result.learner_scores[layer][:, here.start + rows] = vectors
        _, in_sample, in_block = np.intersect1d(
            result.rows, here.start + rows, assume_unique=True, return_indices=True
        )
        result.vectors[layer][:, in_sample] = vectors[:, in_block]
        result.outputs[layer][in_sample] = outputs[rows[in_block]]


def _sums_of_block(
    vectors: np.ndarray, truth_of_vectors: np.ndarray, outputs: np.ndarray, truth: np.ndarray
) -> LayerSums:
    """Return sums over a block: of the cascade over all rows, of learners over those they saw."""
    known, in_layer = truth >= 0, truth_of_vectors >= 0
    predictors = [(truth[known], outputs[known])]
    predictors += [(truth_of_vectors[in_layer], vector[in_layer]) for vector in vectors]
    scores = np.zeros((len(USUAL), len(predictors)))
    for row, metric in enumerate(USUAL):
        # A metric without rows is None. Its weight in the sum is zero anyway.
        scores[row] = [metric(*predictor) or 0.0 for predictor in predictors]
    n_scored = np.array([len(rows) for rows, _ in predictors])
    margin = MarginSummary()
    if known.any():
        margin = MarginSummary.of(margins(outputs[known], truth[known]))
    return LayerSums(agreements(vectors), scores * n_scored, n_scored, vectors.shape[1], margin)
