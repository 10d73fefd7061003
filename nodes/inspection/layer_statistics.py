"""A table's way through the layers of a deep forest, once: what can be added up of all rows, everything of a few.

Rows go through in blocks, several at once; what is kept of them is sums, except for the sampled rows and for a measure
that needs all scores together (a rank, such as AUC).

- ``cascade_of``   what a model of the right kind is made of
- ``choose_rows``  the sample: some rows of every class, however rare
- ``survey``       the pass itself; gives a ``LayerStatistics``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from engine.node_types import NodeContext
from engine.values import Table
from nodes.models.model import FittedModel

if TYPE_CHECKING:
    import numpy as np

    from deepforest.metrics import Metric

ROWS_AT_ONCE = 16_384
CELLS_AT_ONCE = 16_000_000
BYTES_OF_SCORES = 512 * 2**20
"""Most that scores of all rows may take, for a measure that needs them together."""
FEW = 30
"""Rows of a class that a sample should have, if there are as many and it has room."""


def cascade_of(model: FittedModel) -> Any:
    """The cascade of a model that is a deep forest."""
    assert model.kind.name == "deep-forest"
    return model.estimator


def choose_rows(truth: np.ndarray, wanted: int, follow: Sequence[int], seed: int) -> np.ndarray:
    """Numbers of the sampled rows, ascending: those to follow, a few of every class, the others in proportion."""
    import numpy as np

    if wanted >= len(truth):
        return np.arange(len(truth))
    order = np.random.default_rng(seed).permutation(len(truth))
    followed = np.unique(np.array(follow, np.int64))
    order = np.concatenate([followed, order[~np.isin(order, followed)]])
    _, group = np.unique(truth[order], return_inverse=True)
    rank = _rank_in(group)
    few = min(FEW, wanted // (2 * (group.max() + 1)))
    ahead = np.flatnonzero((rank < few) | (np.arange(len(order)) < len(followed)))
    others = np.setdiff1d(np.arange(len(order)), ahead, assume_unique=True)
    evenly = others[np.argsort(rank[others] / np.bincount(group)[group[others]], kind="stable")]
    chosen = np.concatenate([ahead, evenly])[: max(wanted, len(followed))]
    return np.sort(order[chosen])


def _rank_in(group: np.ndarray) -> np.ndarray:
    """How many of its group come before each."""
    import numpy as np

    by_group = np.argsort(group, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(group))[:-1]])
    rank = np.empty(len(group), np.int64)
    rank[by_group] = np.arange(len(group)) - starts[group[by_group]]
    return rank


@dataclass
class MarginSummary:
    """Number, mean, squared distance to it and histogram of margins; two of them make one."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    counts: np.ndarray | None = None

    @classmethod
    def of(cls, margin: np.ndarray) -> MarginSummary:
        """Of the margins of some rows."""
        import numpy as np

        from deepforest.record import MARGIN_BINS

        if not len(margin):
            return cls()
        counts, _ = np.histogram(np.clip(margin, -1, 1), MARGIN_BINS)
        return cls(len(margin), float(margin.mean()), float(((margin - margin.mean()) ** 2).sum()), counts)

    def add(self, other: MarginSummary) -> None:
        """Take in other rows."""
        if not other.n:
            return
        n, gap = self.n + other.n, other.mean - self.mean
        self.squares += other.squares + gap**2 * self.n * other.n / n
        self.mean += gap * other.n / n
        self.counts = other.counts if self.counts is None else self.counts + other.counts
        self.n = n

    def record(self) -> dict[str, Any] | None:
        """As a layer's record has it; none if no row's class is known."""
        from deepforest.record import MARGIN_BINS, MarginRecord

        if self.counts is None:
            return None
        std = (self.squares / self.n) ** 0.5
        ratio = std / self.mean if self.mean > 0 else None
        return asdict(MarginRecord(self.mean, std, ratio, MARGIN_BINS.tolist(), self.counts.tolist()))


@dataclass
class LayerSums:
    """What can be added up of one layer: sums over rows, whose class is known where that matters."""

    agreements: np.ndarray
    """Learners × learners: rows of the layer on which both name the same class."""
    sums: np.ndarray
    """The usual measures × (the cascade, each learner)."""
    judged: np.ndarray
    """Over how many rows those sums are."""
    rows: int = 0
    margins: MarginSummary = field(default_factory=MarginSummary)

    def add(self, other: LayerSums) -> None:
        """Take in other rows."""
        self.agreements = self.agreements + other.agreements
        self.sums = self.sums + other.sums
        self.judged = self.judged + other.judged
        self.rows += other.rows
        self.margins.add(other.margins)


@dataclass
class LayerStatistics:
    """What a pass of a table through L layers with K learners and C classes gave; n rows are the sample."""

    rows: np.ndarray
    truth: np.ndarray
    """Of all rows."""
    tallies: list[LayerSums]
    left_at: np.ndarray
    """Of all rows: the last layer they went through."""
    wrong: np.ndarray
    """Of all rows: whether the last word about them is not their class; meaningless where that is unknown."""
    vectors: np.ndarray
    """Of the sample, L × K × n × C; NaN after the layer at which a row left."""
    outputs: np.ndarray
    """Of the sample, L × n × C; NaN likewise."""
    own_scores: np.ndarray | None
    """Of all rows, L × all × C: what the cascade said by then, if a measure needs it."""
    learner_scores: np.ndarray | None
    """Of all rows, L × K × all × C, if a measure needs it and there is room."""


def survey(
    ctx: NodeContext,
    model: FittedModel,
    table: Table,
    truth: np.ndarray,
    rows: np.ndarray,
    measure: Metric | None,
    share: float,
) -> LayerStatistics:
    """Take the table through the layers; ``share`` is the part of the node's progress that this is."""
    work = _Pass(model, table, truth, rows, measure)
    for who, kept in (("the cascade", work.seen.own_scores), ("each learner", work.seen.learner_scores)):
        if work.ranked is not None and kept is None:
            ctx.log(f"{work.ranked.title} of {who} is left out: there is no room for the scores of so many rows.")
    ctx.progress(0.0, f"{len(truth):,} rows through {work.depth} layers")
    for start, tallies in zip(work.starts, ctx.executor.map(work.take, work.starts), strict=True):
        done = min(start + work.step, len(truth))
        ctx.progress(share * done / len(truth), f"{done:,} of {len(truth):,} rows through {work.depth} layers")
        for total, tally in zip(work.seen.tallies, tallies, strict=True):
            total.add(tally)
    return work.seen


class _Pass:
    """Blocks of a table on their way; each fills its own rows, so that several may be under way."""

    def __init__(
        self, model: FittedModel, table: Table, truth: np.ndarray, rows: np.ndarray, measure: Metric | None
    ) -> None:
        import numpy as np

        from deepforest.inspection import USUAL

        self.model, self.table, self.truth = model, table, truth
        self.cascade = cascade_of(model)
        self.cascade.n_jobs = 1
        self.depth, learners, classes = len(self.cascade.estimators_), self.cascade.n_learners_, len(model.classes)
        widest = max(model.encoder.width, self.depth * learners * classes)
        self.step = max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // widest))
        self.starts = range(0, len(truth), self.step)
        self.ranked = None if measure in USUAL or not (truth >= 0).any() else measure
        empty = LayerSums(
            np.zeros((learners, learners), int), np.zeros((len(USUAL), 1 + learners)), np.zeros(1 + learners)
        )
        n, all_rows = len(rows), len(truth)
        self.seen = LayerStatistics(
            rows=rows,
            truth=truth,
            tallies=[LayerSums(empty.agreements, empty.sums, empty.judged) for _ in range(self.depth)],
            left_at=np.zeros(all_rows, np.int64),
            wrong=np.zeros(all_rows, bool),
            vectors=np.full((self.depth, learners, n, classes), np.nan, np.float32),
            outputs=np.full((self.depth, n, classes), np.nan, np.float32),
            own_scores=self._room((self.depth, all_rows, classes), "float64"),
            learner_scores=self._room((self.depth, learners, all_rows, classes), "float32"),
        )

    def _room(self, shape: tuple[int, ...], kind: str) -> np.ndarray | None:
        """Room for scores of all rows, if they are needed and not too many."""
        import numpy as np

        size = np.prod(shape, dtype=float) * np.dtype(kind).itemsize
        return np.full(shape, np.nan, kind) if self.ranked is not None and size <= BYTES_OF_SCORES else None

    def take(self, start: int) -> list[LayerSums]:
        """Take the rows from ``start`` on through all layers."""
        import numpy as np

        block = self.model.encoder.transform(self.table.data.slice(start, self.step), self.model.precision)
        stages, here = self.cascade.stages(block), slice(start, start + len(block))
        no_rows = np.empty(0, int), np.empty((self.cascade.n_learners_, 0, len(self.model.classes)), np.float32)
        tallies, said = [], np.empty(0)
        for layer in range(self.depth):
            stage = next(stages, None)
            rows, vectors = no_rows if stage is None else (stage.rows, stage.vectors)
            said = said if stage is None else stage.output
            self._note(layer, here, rows, vectors, said)
            tallies.append(_tally(vectors, self.truth[here][rows], said, self.truth[here]))
        self.seen.wrong[here] = said.argmax(axis=1) != self.truth[here]
        return tallies

    def _note(self, layer: int, here: slice, rows: np.ndarray, vectors: np.ndarray, said: np.ndarray) -> None:
        """Keep what is said of single rows of a block."""
        import numpy as np

        seen = self.seen
        seen.left_at[here.start + rows] = layer + 1
        if seen.own_scores is not None:
            seen.own_scores[layer, here] = said
        if seen.learner_scores is not None:
            seen.learner_scores[layer][:, here.start + rows] = vectors
        _, in_sample, in_block = np.intersect1d(seen.rows, here.start + rows, assume_unique=True, return_indices=True)
        seen.vectors[layer][:, in_sample] = vectors[:, in_block]
        seen.outputs[layer][in_sample] = said[rows[in_block]]


def _tally(vectors: np.ndarray, truth_of_vectors: np.ndarray, said: np.ndarray, truth: np.ndarray) -> LayerSums:
    """The sums over a block: of the cascade over all its rows, of the learners over those that came to the layer."""
    import numpy as np

    from deepforest.inspection import USUAL, agreements
    from deepforest.margins import margins

    known, heard = truth >= 0, truth_of_vectors >= 0
    judged = np.array([known.sum(), *[heard.sum()] * len(vectors)])
    speakers = [(truth[known], said[known]), *((truth_of_vectors[heard], each[heard]) for each in vectors)]
    sums = np.array([[each(*speaker) or 0.0 for speaker in speakers] for each in USUAL]) * judged
    margin = MarginSummary.of(margins(said[known], truth[known])) if known.any() else MarginSummary()
    return LayerSums(agreements(vectors), sums, judged, vectors.shape[1], margin)
