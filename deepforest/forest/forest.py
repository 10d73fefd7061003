"""Grow forests on a binned matrix, and predict with them.

- ``ForestSettings``  how a forest grows
- ``grow_forest``     grows one, and gathers the class vectors of rows its trees did not learn from
- ``Windows``         where the windows are that a forest learns from instead of rows
- ``Forest``          the grown trees as a few flat arrays: prediction, leaves, importances
- ``check_forest``    checks that arrays from a file are a forest

Every tree has its own stream of random numbers, and sums are taken in the order of the trees. So
the result is the same, bit for bit, for any number of threads.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import large_arrays
from . import kernels
from .binning import BinnedMatrix
from .contributions import ForestPaths, forest_contributions
from .prediction import add_block, leaves_of_block

Array = npt.NDArray[Any]

SPLITTERS = {
    "best": kernels.BEST,
    "random": kernels.RANDOM,
    "completely_random": kernels.COMPLETELY_RANDOM,
}
# Bytes of bins and sums of the rows that go down a tree together: they stay in the cache.
BLOCK_BYTES = 2**20
BY_ROW_SHARE = 32  # nodes with less than one row in so many read the matrix by row


@dataclass(frozen=True)
class ForestSettings:
    """How a forest grows.

    ``splitter``: "best" searches the best cut of each candidate feature (random forest), "random"
    draws one cut per candidate and keeps the best (extra-trees), "completely_random" draws one
    feature and one cut without a look at the target.
    ``measure``: whether completely random trees measure the decrease of impurity, which doubles
    their cost; without it their importances are zero.
    ``max_features``: candidates per node, as a number, a share, "sqrt", "log2" or None for all.
    """

    n_trees: int = 100
    splitter: str = "best"
    max_features: int | float | str | None = "sqrt"
    max_depth: int | None = None
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    bootstrap: bool = True
    measure: bool = False

    def limits(self, n_features: int, weight: float) -> kernels.Limits:
        """Return the settings in the form the kernel needs."""
        if self.splitter not in SPLITTERS:
            raise ValueError(
                f"splitter is {self.splitter!r}; give one of {', '.join(map(repr, SPLITTERS))}"
            )
        return kernels.Limits(
            splitter=SPLITTERS[self.splitter],
            n_candidates=1
            if self.splitter == "completely_random"
            else n_candidates(self.max_features, n_features),
            max_depth=2**31 - 1 if self.max_depth is None else self.max_depth,
            min_split=self.min_samples_split,
            min_leaf=self.min_samples_leaf,
            min_weight=self.min_weight_fraction_leaf * weight,
            measure=self.measure,
        )


def n_candidates(max_features: int | float | str | None, n_features: int) -> int:
    """Return how many features a node looks at."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, math.isqrt(n_features))
    if max_features == "log2":
        return max(1, int(math.log2(n_features)))
    if isinstance(max_features, str):
        raise ValueError(
            f"max_features is {max_features!r}; give a number, a share, 'sqrt', 'log2' or None"
        )
    if isinstance(max_features, int | np.integer):
        if max_features < 1:
            raise ValueError(
                f"max_features is {max_features}; give a number from 1, or a share such as 0.3"
            )
        return min(int(max_features), n_features)
    if not 0.0 < max_features <= 1.0:
        raise ValueError(f"max_features is {max_features}; a share has to be above 0 and at most 1")
    return max(1, int(max_features * n_features))


class Windows(NamedTuple):
    """Describe windows of rows, such as parts of images: all have the same form.

    ``corners`` say where each window of a row begins, ascending; ``offsets`` where each feature of
    a window is from there on.
    """

    corners: Array
    offsets: Array

    def addresses(self, rows: Array, row_bits: int) -> Array:
        """Return where all windows of these rows begin, row by row, if a row has 2^bits bytes."""
        starts = np.asarray(rows, np.uint32)[:, None] << np.uint32(row_bits)
        return np.ascontiguousarray((starts | self.corners.astype(np.uint32)).reshape(-1))


class Tree(NamedTuple):
    """One grown tree, and the passengers with the leaf nodes they ended in."""

    nodes: Array
    leaf_rows: Array
    leaf_start: Array
    leaf_class: Array
    leaf_share: Array
    leaf_value: Array
    importances: Array
    passengers: Array
    passenger_leaf: Array
    passenger_end: Array


@dataclass(frozen=True)
class Forest:
    """Grown trees as flat arrays.

    Nodes of tree t are at ``roots[t]:roots[t + 1]``, with children numbered from the root of their
    tree; see ``kernels.pack_node``. A pure leaf holds its class. Any other leaf holds the number i
    of a distribution, whose classes and shares are at ``leaf_start[i]:leaf_start[i + 1]``; in
    regression it holds the number of a value. ``leaf_rows`` says for each leaf, in the order of the
    nodes, how many rows its tree learned it from; forests of earlier versions do not know it, and
    have an empty array.
    """

    ARRAYS: ClassVar = (
        "nodes",
        "roots",
        "leaf_start",
        "leaf_class",
        "leaf_share",
        "leaf_value",
        "importances",
    )

    n_features: int
    n_classes: int  # 0: regression
    nodes: Array
    roots: Array
    leaf_start: Array
    leaf_class: Array
    leaf_share: Array
    leaf_value: Array
    importances: Array
    leaf_rows: Array = field(default_factory=lambda: np.zeros(0, np.uint32))

    @property
    def n_trees(self) -> int:
        """Return the number of trees."""
        return len(self.roots) - 1

    @property
    def n_outputs(self) -> int:
        """Return how many numbers a row gets: one per class, or one in regression."""
        return max(self.n_classes, 1)

    def predict(self, rows: Array, out: Array | None = None) -> Array:
        """Return the mean over the trees for binned ``rows`` (rows × features, C order)."""
        result = np.empty((len(rows), self.n_outputs)) if out is None else out
        size = min(max(BLOCK_BYTES // (8 * self.n_outputs + rows.shape[1]), 256), max(len(rows), 1))
        room = _walking_room(size), np.empty((size, self.n_outputs))
        for first in range(0, len(rows), size):
            block = rows[first : first + size]
            sums = self._add_block(block.reshape(-1), rows.shape[1], len(block), self.nodes, room)
            out_block = result[first : first + len(block)]
            np.divide(sums, self.n_trees, out=out_block, casting="same_kind")
        return result

    def predict_windows(self, images: Array, windows: Windows) -> Array:
        """Return the mean over the trees for each window of binned ``images``, as float32.

        ``images`` are rows × values in C order, the result rows × windows × outputs.
        """
        n, width = images.shape
        result = np.empty((n, len(windows.corners), self.n_outputs), np.float32)
        nodes = self._nodes_of_windows(windows.offsets)
        size = min(max(BLOCK_BYTES // (8 * self.n_outputs + width), 64), max(n, 1))
        room = _walking_room(size), np.empty((size, self.n_outputs))
        for first in range(0, n, size):
            block = images[first : first + size]
            flat = block.reshape(-1)
            for number, corner in enumerate(windows.corners):
                # A window is the rest of the row from its corner on: nothing is copied.
                sums = self._add_block(flat[corner:], width, len(block), nodes, room)
                result[first : first + len(block), number] = sums / self.n_trees
        return result

    def _nodes_of_windows(self, offsets: Array) -> Array:
        """Return the nodes with places in the row in place of numbers of features."""
        features = self.nodes >> np.uint64(41)
        inner = features != kernels.LEAF
        places = np.asarray(offsets, np.uint64)[features[inner].astype(np.int64)]
        nodes = self.nodes.copy()
        nodes[inner] &= np.uint64((1 << 41) - 1)
        nodes[inner] |= places << np.uint64(41)
        return nodes

    def _add_block(
        self,
        flat: Array,
        row_stride: int,
        n: int,
        nodes: Array,
        room: tuple[tuple[Array, Array, Array, Array], Array],
    ) -> Array:
        """Return the sums over the trees for ``n`` rows; ``room`` is memory for them."""
        walking, sums = room
        sums[:n] = 0.0
        order, spill, stack, leaves = (array[:n] for array in walking)
        add_block(
            flat,
            row_stride,
            nodes,
            self.roots,
            self.leaf_start,
            self.leaf_class,
            self.leaf_share,
            self.leaf_value,
            order,
            spill,
            stack,
            leaves,
            sums[:n],
        )
        return sums[:n]

    def leaves(self, rows: Array) -> Array:
        """Return the leaf of each binned row in each tree, as the node's number in its tree."""
        result = np.empty((len(rows), self.n_trees), np.int32)
        room = _walking_room(len(rows))
        leaves_of_block(rows.reshape(-1), rows.shape[1], self.nodes, self.roots, *room, result)
        return result

    def feature_importances(self) -> Array:
        """Return the mean share of each feature in the decrease of impurity; 0 without splits."""
        total = self.importances.sum()
        return self.importances / total if total > 0 else self.importances.copy()

    def contributions(self, rows: Array) -> Array:
        """Return how much each feature adds to the prediction of binned ``rows``.

        The shape is rows × (features + 1) × outputs. The last entry is the base value, the mean
        prediction for the rows that the trees learned from; the sum is the prediction.
        """
        return forest_contributions(self, rows, self._paths)

    @cached_property
    def _paths(self) -> ForestPaths:
        return ForestPaths.of(self)

    def arrays(self) -> dict[str, Array]:
        """Return all arrays by name, to be stored."""
        return {name: getattr(self, name) for name in (*self.ARRAYS, "leaf_rows")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_features: int, n_classes: int) -> Forest:
        """Return the forest of stored arrays.

        Raise ``ValueError`` if one is missing or they do not describe trees.
        """
        missing = [name for name in cls.ARRAYS if name not in arrays]
        _require(not missing, f"the array {''.join(missing[:1])!r} is missing")
        stored = {name: arrays[name] for name in cls.ARRAYS}
        if "leaf_rows" in arrays:
            stored["leaf_rows"] = arrays["leaf_rows"]
        forest = cls(n_features=n_features, n_classes=n_classes, **stored)
        check_forest(forest)
        return forest


def check_forest(forest: Forest) -> None:
    """Raise ``ValueError`` unless the arrays are trees that rows can be passed down.

    The kernels do not check any index: an error that is not found here may read foreign memory.
    """
    _check_types(forest)
    _check_distributions(forest)
    _require(
        _covers(forest.roots, len(forest.nodes))
        and bool((np.diff(forest.roots) > 0).all())
        and forest.n_trees > 0,
        "the roots do not divide the nodes into trees",
    )
    features = forest.nodes >> np.uint64(41)
    values = (forest.nodes & np.uint64(0xFFFFFFFF)).astype(np.int64)
    is_leaf = features == kernels.LEAF
    _require(
        ((features < forest.n_features) | is_leaf).all(), "a node cuts a feature that is not there"
    )
    inner = np.flatnonzero(~is_leaf)
    _check_children(forest, inner, values[inner])
    _check_leaves(forest, values[np.flatnonzero(is_leaf)])


def _require(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(f"this is not a forest: {otherwise}")


def _covers(starts: Array, length: int) -> bool:
    """Return whether ``starts`` ascend from 0 to ``length``."""
    return bool(
        len(starts) > 0
        and starts[0] == 0
        and starts[-1] == length
        and (starts[1:] >= starts[:-1]).all()
    )


def _check_types(forest: Forest) -> None:
    wanted = {
        "nodes": np.uint64,
        "roots": np.int64,
        "leaf_start": np.int64,
        "leaf_class": _class_dtype(forest.n_classes),
        "leaf_share": np.float32,
        "leaf_value": np.float64,
        "leaf_rows": np.uint32,
        "importances": np.float64,
    }
    for name, array in forest.arrays().items():
        _require(
            array.dtype == wanted[name] and array.ndim == 1,
            f"{name} is not a list of {wanted[name].__name__}",
        )
    _require(0 <= forest.n_features < kernels.LEAF, f"{forest.n_features} features")
    _require(0 <= forest.n_classes < kernels.SHARED, f"{forest.n_classes} classes")
    _require(len(forest.importances) == forest.n_features, "importances do not match the features")
    _require(
        _all_within(forest.importances, 0.0, np.inf), "importances are not finite numbers from 0"
    )


def _all_within(values: Array, low: float, high: float) -> bool:
    return bool((np.isfinite(values) & (values >= low) & (values <= high)).all())


def _check_distributions(forest: Forest) -> None:
    n = len(forest.leaf_class)
    _require(len(forest.leaf_share) == n, "leaf_class and leaf_share differ in length")
    _require(
        _covers(forest.leaf_start, n), "leaf_start does not divide leaf_class into distributions"
    )
    _require(
        ((forest.leaf_class >= 0) & (forest.leaf_class < forest.n_classes)).all(),
        "a leaf has an unknown class",
    )
    _require(_all_within(forest.leaf_share, 0.0, 1.0), "the share of a class is not in [0, 1]")
    _require(np.isfinite(forest.leaf_value).all(), "the value of a leaf is not finite")
    _require(
        bool(len(forest.leaf_value)) == (forest.n_classes == 0),
        "leaves have values in regression and nowhere else",
    )


def _check_children(forest: Forest, inner: Array, values: Array) -> None:
    """Check that each node except the root has one parent, which is in its tree and before it."""
    n_nodes = len(forest.nodes)
    n_inner = np.diff(np.searchsorted(inner, forest.roots))
    left = values + np.repeat(forest.roots[:-1], n_inner)
    _require((left > inner).all(), "a child comes before its parent")
    _require(
        (left + 1 < np.repeat(forest.roots[1:], n_inner)).all(), "a child is outside of its tree"
    )
    # Node i is the left child of left_of[i] nodes, and the right child of left_of[i - 1] nodes.
    # A root counts as its own parent, so that every node must have one.
    left_of = np.bincount(left, minlength=n_nodes)
    n_parents = left_of + np.concatenate([[0], left_of[:-1]])
    n_parents[forest.roots[:-1]] += 1
    _require((n_parents == 1).all(), "a node has no parent, or two")


def _check_leaves(forest: Forest, values: Array) -> None:
    _require(
        len(forest.leaf_rows) in (0, len(values)) and (forest.leaf_rows > 0).all(),
        "leaf_rows does not give each leaf its number of rows",
    )
    is_class = values < kernels.SHARED
    if forest.n_classes == 0:
        _require(
            not is_class.any() and (values < kernels.SHARED + len(forest.leaf_value)).all(),
            "a leaf has no value",
        )
        return
    _require(((values < forest.n_classes) | ~is_class).all(), "a leaf has an unknown class")
    n_shared = len(forest.leaf_start) - 1
    _require((values < kernels.SHARED + n_shared).all(), "a leaf has no distribution")


def _class_dtype(n_classes: int) -> type[np.uint16 | np.int32]:
    """Return the type in which the classes of the leaves are stored."""
    return np.uint16 if n_classes <= 65536 else np.int32


def _walking_room(n_rows: int) -> tuple[Array, Array, Array, Array]:
    """Return the memory that a block of rows needs to go down a tree.

    It holds their order, rows set aside, parts still to be divided, and leaves.
    """
    order, spill, leaves = (np.empty(n_rows, np.uint32) for _ in range(3))
    return order, spill, np.empty((n_rows, 3), np.int32), leaves


@dataclass(frozen=True)
class GrownForest:
    """A forest with the predictions of its trees for rows they did not learn from.

    ``vectors[i]`` is the mean over the ``votes[i]`` trees that had row ``predict_rows[i]`` of the
    matrix as a passenger; all zero if there are none. A forest on windows has one vector for each
    window, row by row.
    """

    forest: Forest
    predict_rows: Array
    vectors: Array
    votes: Array


def grow_forest(
    matrix: BinnedMatrix,
    target: Array,
    settings: ForestSettings,
    *,
    n_classes: int = 0,
    rows: Array | None = None,
    held_out: Array | None = None,
    out_of_bag: bool = False,
    sample_weight: Array | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    executor: Executor | None = None,
    interrupt: Callable[[], None] | None = None,
    windows: Windows | None = None,
) -> GrownForest:
    """Grow a forest on the features of ``matrix``.

    ``target``: a class number below ``n_classes`` for each row of the matrix, or any number if
    ``n_classes`` is 0.
    ``rows``: the rows to learn from, ascending (all). With bootstrap each tree draws its bag among
    them.
    ``held_out``: rows that no tree learns from, but whose vectors are needed.
    ``out_of_bag``: whether the vectors of ``rows`` are needed too, each from the trees whose bag it
    was outside of.
    ``executor`` runs the trees; its workers must be threads. By default ``n_jobs`` threads are
    started.
    ``interrupt`` is called before each tree, by the thread that grows it; an exception that it
    raises ends the growth.
    ``windows``: the trees learn from these windows of each row; every window has the target, the
    weight and the bag of its row. The matrix has a capacity of 2^k, and bins by row.
    """
    plan = _Plan.make(
        matrix,
        target,
        settings,
        n_classes,
        rows,
        held_out,
        out_of_bag,
        sample_weight,
        seed,
        windows,
    )
    wanted, n_windows = plan.predict_rows, plan.n_windows
    n_vectors = len(wanted) * n_windows
    vectors = large_arrays.zeros(
        (n_vectors, max(n_classes, 1)), np.float32 if n_classes else np.float64
    )
    votes = np.zeros(n_vectors, np.int32)
    # Where the vectors of a row of the matrix are, and where among them that of a window is.
    place = np.zeros(matrix.n_rows if len(wanted) else 0, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32) * n_windows
    position = np.zeros(1 << plan.data.row_bits, np.uint32)
    if windows is not None:
        position[windows.corners] = np.arange(n_windows)
    trees = []
    for tree in _grow_all(plan, settings.n_trees, n_jobs, executor, interrupt):
        if len(wanted):
            kernels.add_passengers(
                tree.nodes,
                tree.leaf_start,
                tree.leaf_class,
                tree.leaf_share,
                tree.leaf_value,
                tree.passengers,
                tree.passenger_leaf,
                tree.passenger_end,
                place,
                plan.data.row_bits,
                position,
                vectors,
                votes,
            )
        # The passengers are in the vectors now: drop them, as all trees are held until the end.
        trees.append(tree._replace(passengers=_NONE, passenger_leaf=_NONE, passenger_end=_NONE))
    np.divide(vectors, np.maximum(votes, 1)[:, None], out=vectors, casting="same_kind")
    forest = _join(trees, len(plan.data.n_bins), n_classes)
    if n_classes == 0:  # the trees grew on the target less its mean, see _Plan.make
        forest.leaf_value[:] += plan.center
        vectors[votes > 0] += plan.center
    return GrownForest(forest, wanted, vectors, votes)


_NONE = np.zeros(0, np.int32)


@dataclass(frozen=True)
class _Plan:
    """What all trees of one forest share."""

    data: kernels.Data
    limits: kernels.Limits
    rows: Array  # bags are drawn among them
    addresses: Array  # those of the rows, or of all their windows
    held_out: Array  # addresses too
    n_windows: int  # of a row; 1 if the rows themselves are learned
    out_of_bag: bool
    bootstrap: bool
    sample_weight: Array | None
    seed: int
    center: float
    predict_rows: Array  # whose predictions are needed, ascending

    @classmethod
    def make(
        cls,
        matrix: BinnedMatrix,
        target: Array,
        settings: ForestSettings,
        n_classes: int,
        rows: Array | None,
        held_out: Array | None,
        out_of_bag: bool,
        sample_weight: Array | None,
        seed: int,
        windows: Windows | None,
    ) -> _Plan:
        n = matrix.n_rows
        if len(target) != n:
            raise ValueError(f"the target has {len(target)} entries for {n} rows")
        all_rows = np.arange(n, dtype=np.uint32) if rows is None else _own(rows, np.uint32)
        if len(all_rows) == 0:
            raise ValueError("there are no rows to learn from")
        center = 0.0
        if n_classes == 0:
            # Around their mean, numbers keep more digits in the sums that a split is chosen by.
            if sample_weight is None:
                sample_weight = np.ones(n)
            center = float(np.average(target[all_rows], weights=sample_weight[all_rows]))
        weight = (
            float(len(all_rows)) if sample_weight is None else float(sample_weight[all_rows].sum())
        )
        held = np.zeros(0, np.uint32) if held_out is None else _own(held_out, np.uint32)
        predict_rows = np.sort(np.concatenate([held, all_rows])) if out_of_bag else np.sort(held)
        layout = _layout(matrix) if windows is None else _layout_of_windows(matrix, windows)
        addresses, n_windows = all_rows, 1
        if windows is not None:
            addresses = windows.addresses(all_rows, layout["row_bits"])
            held = windows.addresses(held, layout["row_bits"])
            n_windows = len(windows.corners)
        data = kernels.Data(
            **layout,
            classes=_own(target, np.int32) if n_classes else np.zeros(0, np.int32),
            target=np.asarray(target, np.float64) - center if n_classes == 0 else np.zeros(0),
            n_classes=n_classes,
        )
        return cls(
            data=data,
            limits=settings.limits(len(data.n_bins), weight * n_windows),
            rows=all_rows,
            addresses=addresses,
            held_out=held,
            n_windows=n_windows,
            out_of_bag=out_of_bag,
            bootstrap=settings.bootstrap,
            sample_weight=None if sample_weight is None else np.asarray(sample_weight, np.float64),
            seed=seed,
            center=center,
            predict_rows=predict_rows,
        )


def _layout(matrix: BinnedMatrix) -> dict[str, Any]:
    """Return how the kernel finds the bins of a row."""
    n, by_row = matrix.n_rows, matrix.rows.reshape(-1)
    numbers = np.arange(matrix.n_features, dtype=np.uint64)
    return {
        "by_column": matrix.columns.reshape(-1),
        "by_row": by_row,
        "column_offsets": numbers * np.uint64(n),
        "row_offsets": numbers,
        "row_stride": matrix.capacity,
        "row_bits": 0,
        "by_row_below": int(n // BY_ROW_SHARE) if len(by_row) else 0,
        "n_bins": matrix.n_bins[: matrix.n_features],
    }


def _layout_of_windows(matrix: BinnedMatrix, windows: Windows) -> dict[str, Any]:
    """Return how the kernel finds the bins of a window; raise ``ValueError`` if it cannot."""
    row_bits = int(matrix.capacity).bit_length() - 1
    if matrix.capacity != 1 << row_bits:
        raise ValueError(f"windows need a capacity of 2^k values per row, not {matrix.capacity}")
    if matrix.n_rows << row_bits > 2**32:
        raise ValueError(
            f"{matrix.n_rows:,} rows of {matrix.n_features:,} values are too many to scan; give at "
            f"most {2**32 >> row_bits:,} rows"
        )
    if int(windows.corners.max()) + int(windows.offsets.max()) >= matrix.n_features:
        raise ValueError("a window ends outside of its row")
    places = windows.offsets[:, None] + windows.corners
    return {
        "by_column": matrix.rows.reshape(-1),
        "by_row": np.zeros(0, np.uint8),
        "column_offsets": _own(windows.offsets, np.uint64),
        "row_offsets": np.zeros(0, np.uint64),
        "row_stride": 1,
        "row_bits": row_bits,
        "by_row_below": 0,
        "n_bins": matrix.n_bins[places].max(axis=1),
    }


class _Workspace:
    """The memory that one thread needs to grow trees, used again for each of them."""

    def __init__(self, plan: _Plan) -> None:
        n, n_rows = max(len(plan.data.classes), len(plan.data.target)), len(plan.addresses)
        n_features, n_classes = len(plan.data.n_bins), plan.data.n_classes
        self.counts = np.empty(n, np.uint8)
        self.weights = np.empty(n if plan.sample_weight is not None else 0)
        self.bag = np.empty(n_rows, np.uint32)
        self.passengers = np.empty(n_rows + len(plan.held_out), np.uint32)
        room = max(n_rows, len(self.passengers))
        self.scratch = kernels.make_scratch(
            room, n_features, n_classes, plan.sample_weight is not None
        )
        self.output = kernels.make_output(n_rows, n_features, n_classes)

    def grow(self, plan: _Plan, number: int) -> Tree:
        """Grow tree ``number`` of the forest."""
        seed = kernels.seed_of_tree(plan.seed, number)
        weights = self._draw(plan, seed)
        n_bag, n_out = self._split(plan, weights)
        if n_bag == 0:  # every row drawn has weight 0: learn from all rows that have a weight
            weights = self._weigh(plan, plain=True)
            n_bag, n_out = self._split(plan, weights)
        n_out = n_out if plan.out_of_bag else 0
        n_passengers = n_out + len(plan.held_out)
        self.passengers[n_out:n_passengers] = plan.held_out
        passengers = self.passengers[:n_passengers]
        kernels.grow_tree(
            plan.data,
            plan.limits,
            weights,
            self.bag[:n_bag],
            passengers,
            seed,
            self.scratch,
            self.output,
        )
        return self._tree(passengers)

    def _split(self, plan: _Plan, weights: Array) -> tuple[int, int]:
        """Divide the rows, or their windows, into those in the bag and the others."""
        return kernels.split_bag(
            plan.addresses, weights, plan.data.row_bits, self.bag, self.passengers
        )

    def _draw(self, plan: _Plan, seed: int) -> Array:
        if plan.bootstrap:
            self.counts.fill(0)
            # Another stream than that of the splits, so that the two are independent.
            kernels.draw_bag(
                plan.rows, len(plan.rows), seed ^ 0x5DEECE66D, self.scratch.state, self.counts
            )
        return self._weigh(plan, plain=not plan.bootstrap)

    def _weigh(self, plan: _Plan, plain: bool) -> Array:
        if plain:
            self.counts.fill(1)
        if plan.sample_weight is None:
            return self.counts
        return np.multiply(self.counts, plan.sample_weight, out=self.weights)

    def _tree(self, passengers: Array) -> Tree:
        out = self.output
        n_nodes, n_shared, n_entries, n_held = (int(n) for n in out.made)
        nodes = out.nodes[:n_nodes].copy()
        return Tree(
            nodes=nodes,
            leaf_rows=out.node_rows[:n_nodes][nodes >> np.uint64(41) == kernels.LEAF],
            # In regression the shared leaves are values, and there are no distributions.
            leaf_start=out.leaf_start[: n_shared + 1 if len(out.leaf_class) else 1].copy(),
            leaf_class=out.leaf_class[:n_entries].copy(),
            leaf_share=out.leaf_share[:n_entries].copy(),
            leaf_value=out.leaf_value[:n_shared].copy(),
            importances=out.importances.copy(),
            passengers=passengers.copy(),
            passenger_leaf=out.passenger_leaf[:n_held].copy(),
            passenger_end=out.passenger_end[:n_held].copy(),
        )


def _grow_all(
    plan: _Plan,
    n_trees: int,
    n_jobs: int,
    executor: Executor | None,
    interrupt: Callable[[], None] | None,
) -> Iterator[Tree]:
    """Yield the trees in order, grown by as many threads as there are jobs."""
    free: queue.SimpleQueue[_Workspace] = queue.SimpleQueue()

    def grow(number: int) -> Tree:
        if interrupt is not None:
            interrupt()
        try:
            workspace = free.get_nowait()
        except queue.Empty:
            workspace = _Workspace(plan)
        try:
            return workspace.grow(plan, number)
        finally:
            free.put(workspace)

    n_jobs = max(1, min(n_jobs, n_trees))
    if executor is not None:
        yield from _in_order(executor, grow, n_trees)
    elif n_jobs == 1:
        yield from map(grow, range(n_trees))
    else:
        with ThreadPoolExecutor(n_jobs) as threads:
            yield from _in_order(threads, grow, n_trees)


def _in_order(executor: Executor, grow: Callable[[int], Tree], n_trees: int) -> Iterator[Tree]:
    """Yield the trees in order as they are ready.

    If one fails, those after it are cancelled, and no tree is growing any more on return.
    """
    failed: list[int] = []

    def grow_unless_failed(number: int) -> Tree:
        # Trees before the failed one continue: the first error in their order is the one reported,
        # and it must not be a cancellation.
        if failed and number > min(failed):
            raise CancelledError
        try:
            return grow(number)
        except BaseException:
            failed.append(number)
            raise

    futures = [executor.submit(grow_unless_failed, number) for number in range(n_trees)]
    # The next one is popped from the end, so that a tree is not held here after it was yielded.
    futures.reverse()
    try:
        while futures:
            yield futures.pop().result()
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


def _join(trees: list[Tree], n_features: int, n_classes: int) -> Forest:
    """Return one forest of the trees, with their leaves numbered consecutively."""
    regression = n_classes == 0
    n_shared = [len(t.leaf_value) if regression else len(t.leaf_start) - 1 for t in trees]
    roots = _starts(len(t.nodes) for t in trees)
    nodes = np.concatenate([t.nodes for t in trees])
    for t, first in enumerate(_starts(n_shared)[:-1]):
        if first:
            kernels.renumber_leaves(nodes[roots[t] : roots[t + 1]], int(first))
    entries = _starts(len(t.leaf_class) for t in trees)
    starts = [t.leaf_start[:-1].astype(np.int64) + entries[i] for i, t in enumerate(trees)]
    # Shares within a tree first, as in scikit-learn: each tree counts the same.
    gains = np.zeros(n_features)
    for tree in trees:
        total = tree.importances.sum()
        if total > 0:
            gains += tree.importances / total
    return Forest(
        n_features=n_features,
        n_classes=n_classes,
        nodes=nodes,
        roots=roots,
        leaf_start=np.concatenate([*starts, entries[-1:]]),
        leaf_class=np.concatenate([t.leaf_class for t in trees]).astype(_class_dtype(n_classes)),
        leaf_share=np.concatenate([t.leaf_share for t in trees]),
        leaf_value=np.concatenate([t.leaf_value for t in trees]),
        importances=gains / len(trees),
        leaf_rows=np.concatenate([t.leaf_rows for t in trees]),
    )


def _own(values: Array, dtype: Any) -> Array:
    """Return ``values`` as the kernels are compiled for: one type, contiguous, not read-only."""
    return np.require(values, dtype, ["C", "W"])


def _starts(lengths: Iterable[int]) -> Array:
    return np.cumsum([0, *lengths]).astype(np.int64)
