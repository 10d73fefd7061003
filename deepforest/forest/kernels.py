"""The compiled heart of the forests: growing one tree on binned features.

A tree grows depth first on lists of row numbers. Each node owns a slice of the in-bag rows and a slice of the
*passengers*: rows that the tree does not learn from (out of the bag, or of a held-out fold) but whose leaf is wanted.
Both are partitioned in place at every split, so that a passenger's leaf is known without walking the tree again.

How a node looks for its split depends on what is in it:

- two classes, or a regression target: what a row adds is a *pair* (weight, weight × target), and a histogram of pairs
  over the bins says all. A pair is one number: two 32-bit counts in an integer when the weights are counts, the parts of
  a complex number when they are not.
- more classes in a large node: a dense histogram bins × classes.
- more classes in a small node: the rows are chained by bin, and one walk along the chains keeps the sum of squares
  up to date, touching one class a row.
- few rows: the bins are sorted with what the rows add, and scanned.

All of them find the same split: the one with the largest decrease of impurity (Gini or variance).

- ``grow_tree``      one tree: nodes, leaves, importances and the leaf of each passenger
- ``draw_bag``       how often each row is in the bag of one tree
- ``seed_of_tree``   an independent stream of random numbers for each tree

Names used throughout: ``rows`` are row numbers of the node, ``matrix`` the binned features, flat, where the bin of row r in
feature f is at ``f * feature_stride + r * row_stride``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import overload

from ._compile import inlined, kernel

Array = npt.NDArray[Any]

MISSING = 255
BEST, RANDOM, COMPLETELY_RANDOM = 0, 1, 2

LEAF = (1 << 23) - 1  # in the place of a node's feature
SHARED = 1 << 31  # set in a leaf's value when it is the number of a distribution, not a class

FEW_ROWS = 10  # up to here sorting beats any histogram
DENSE_CLASSES = 256  # more classes than that in a node are not counted in a dense histogram …
DENSE_CELLS = 24  # … nor more cells, bins × classes, than that many a row
NOTED_ROWS = 256  # up to here it pays to note which bins hold rows
BY_ROW_SHARE = 32  # nodes with fewer than 1/32 of the rows read the matrix by row


class Tree(NamedTuple):
    """What ``grow_tree`` returns. Passengers are in the order of the leaves that hold them."""

    nodes: Array  # uint64, see pack_node
    leaf_start: Array  # distribution i is at leaf_start[i]:leaf_start[i + 1] of the next two
    leaf_class: Array
    leaf_share: Array
    leaf_value: Array  # regression: one number a leaf
    importances: Array  # decrease of impurity by feature, not normalised
    passenger_leaf: Array  # leaf nodes that hold passengers …
    passenger_end: Array  # … and where their passengers end


class Data(NamedTuple):
    """What all trees of a forest share. ``by_row`` may be empty: then the matrix is read by column only."""

    by_column: Array  # flat uint8, n_rows a feature
    by_row: Array  # flat uint8, row_stride bytes a row
    n_rows: int
    row_stride: int
    n_bins: Array  # int32 a feature, the missing bin not counted
    classes: Array  # int32 a row; of no use in regression
    target: Array  # float64 a row; of no use in classification
    n_classes: int  # 0: regression


class Limits(NamedTuple):
    """How a tree grows."""

    splitter: int
    n_candidates: int
    max_depth: int
    min_split: int
    min_leaf: int


class Scratch(NamedTuple):
    """Room to work in, made by ``make_scratch``; its types decide between counts and weights with a fraction."""

    # one entry a row of the node
    pairs: Array  # what the row adds: its weight and its weight × target
    labels: Array  # its class, numbered within the node
    node_weights: Array
    bins: Array  # its bin in the feature looked at
    keys: Array  # bin and position, to be sorted
    spill: Array  # rows on their way to the right child
    # one entry a bin
    pair_sums: Array  # 0 between uses
    row_counts: Array  # 0 between uses
    noted: Array  # a bit a bin: whether it holds rows; 0 between uses
    place: Array
    dense: Array  # bin × class of the node; 0 between uses
    # one entry a bin that holds rows, ascending; also a cut, after that bin
    order: Array
    sums: Array
    rows_upto: Array
    left_square: Array
    left_cross: Array
    left_weight: Array
    above: Array
    over: Array
    score: Array
    score_bits: Array  # the same memory as score
    # one entry a class
    totals: Array
    left: Array
    class_of: Array  # a class of the node: the class itself
    local: Array  # a class: its number within the node; -1 between uses


def make_scratch(n_rows: int, n_classes: int, fractions: bool) -> Scratch:
    """Room for trees whose lists of rows are at most ``n_rows`` long; ``fractions``: the weights are no counts."""
    pair, number = (np.complex128, np.float64) if fractions else (np.int64, np.int32)
    n_classes = (max(n_classes, 2) + 3) & ~3
    score = np.empty(257)
    return Scratch(
        pairs=np.empty(n_rows, pair),
        labels=np.empty(n_rows, np.int32),
        node_weights=np.empty(n_rows, number),
        bins=np.empty(n_rows, np.uint8),
        keys=np.empty(n_rows + 1, np.int64),
        spill=np.empty(n_rows + 1, np.uint32),
        pair_sums=np.zeros(256, pair),
        row_counts=np.zeros(256, np.int32),
        noted=np.zeros(4, np.uint64),
        place=np.empty(256, np.int32),
        dense=np.zeros(256 * min(n_classes, DENSE_CLASSES), number),
        order=np.empty(257, np.uint8),
        sums=np.empty(257, pair),
        rows_upto=np.empty(257, np.int32),
        left_square=np.empty(257),
        left_cross=np.empty(257),
        left_weight=np.empty(257),
        above=np.empty(257),
        over=np.empty(257),
        score=score,
        score_bits=score.view(np.int64),
        totals=np.zeros(n_classes),
        left=np.empty(n_classes),
        class_of=np.empty(n_classes, np.int32),
        local=np.full(n_classes, -1, np.int32),
    )


# --- random numbers ---------------------------------------------------------------------------------------------------


@inlined
def _mix(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def _random_below(state: Array, n: int) -> int:
    """A whole number in [0, n), n < 2³²; ``state`` moves on (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((_mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel
def seed_of_tree(seed: int, tree: int) -> int:
    """The start of the stream of tree number ``tree`` of a forest with ``seed``."""
    start = _mix(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    return np.int64(_mix(start + np.uint64(tree) * np.uint64(0xD1B54A32D192ED03)) >> np.uint64(1))


@kernel
def draw_bag(rows: Array, n_rows: int, n_draws: int, seed: int) -> Array:
    """Draw ``n_draws`` of ``rows`` with repetition; how often each of all ``n_rows`` rows was drawn.

    A count stops at 255, which no bag of more than a few hundred rows ever sees.
    """
    state = np.array([seed], np.uint64)
    counts = np.zeros(n_rows, np.uint8)
    n = rows.shape[0]
    for _ in range(n_draws):
        row = rows[_random_below(state, n)]
        if counts[row] < 255:
            counts[row] += np.uint8(1)
    return counts


# --- nodes and pairs --------------------------------------------------------------------------------------------------


@inlined
def pack_node(feature: int, threshold: int, shift: int, value: int) -> Any:
    """One node in 64 bits. Rows with ``(bin + shift) mod 256 <= threshold`` go left; ``value`` is the left child.

    The shift turns the missing bin 255 into 0, so that missing values go left without a test of their own.
    The right child follows the left. A leaf has the feature LEAF and ``value`` is its class or distribution.
    """
    return (
        np.uint64(value)
        | (np.uint64(threshold) << np.uint64(32))
        | (np.uint64(shift) << np.uint64(40))
        | (np.uint64(feature) << np.uint64(41))
    )


def _make_pair(weight: Any, total: Any) -> Any: ...


def _pair_weight(pair: Any) -> Any: ...


def _pair_total(pair: Any) -> Any: ...


@overload(_make_pair, inline="always", strict=False)
def _make_pair_typed(weight: Any, total: Any) -> Any:
    if isinstance(weight, types.Float):
        return lambda weight, total: complex(weight, total)
    return lambda weight, total: np.int64(weight) + (np.int64(total) << 32)


@overload(_pair_weight, inline="always", strict=False)
def _pair_weight_typed(pair: Any) -> Any:
    if isinstance(pair, types.Complex):
        return lambda pair: pair.real
    return lambda pair: np.float64(pair & 0xFFFFFFFF)


@overload(_pair_total, inline="always", strict=False)
def _pair_total_typed(pair: Any) -> Any:
    if isinstance(pair, types.Complex):
        return lambda pair: pair.imag
    return lambda pair: np.float64(pair >> 32)


# --- what is in a node ------------------------------------------------------------------------------------------------


@inlined
def _one_class(rows: Array, classes: Array) -> bool:
    first = classes[rows[0]]
    for i in range(1, rows.shape[0]):
        if classes[rows[i]] != first:
            return False
    return True


@inlined
def _one_value(rows: Array, target: Array) -> bool:
    first = target[rows[0]]
    for i in range(1, rows.shape[0]):
        if target[rows[i]] != first:
            return False
    return True


@inlined
def _count_classes(rows: Array, classes: Array, weights: Array, s: Scratch) -> int:
    """Number the classes of the node, total them, and note each row's share; how many classes there are."""
    n_local = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        c = classes[row]
        label = s.local[c]
        if label < 0:
            label = np.int32(n_local)
            s.local[c] = label
            s.class_of[n_local] = c
            s.totals[n_local] = 0
            n_local += 1
        w = weights[row]
        s.labels[i] = label
        s.node_weights[i] = w
        s.totals[label] += w
    for label in range(n_local):
        s.local[s.class_of[label]] = -1
    return n_local


@inlined
def _pairs_of_two(n: int, s: Scratch) -> Any:
    total = s.pair_sums[0] - s.pair_sums[0]
    for i in range(n):
        w = s.node_weights[i]
        pair = _make_pair(w, w if s.labels[i] else w - w)
        s.pairs[i] = pair
        total += pair
    return total


@inlined
def _keep_two(total: Any, s: Scratch) -> int:
    """Write the sum of the pairs of a problem of two classes as totals by class; how many classes there are."""
    weight, second = _pair_weight(total), _pair_total(total)
    s.class_of[0] = 1 if second == weight else 0
    s.class_of[1] = 1
    s.totals[0] = weight - second
    s.totals[1] = second
    return 2 if 0 < second < weight else 1


@inlined
def _largest_gain(total: Any) -> float:
    """The gain of a cut that leaves two pure children, less what rounding may cost."""
    weight, second = _pair_weight(total), _pair_total(total)
    return (second - second * second / weight) * (1.0 - 1e-9)


@inlined
def _count_two_classes(rows: Array, classes: Array, weights: Array, s: Scratch) -> Any:
    """The same for a problem of two classes: the sum of the pairs, whose target is the second class."""
    total = s.pair_sums[0] - s.pair_sums[0]
    for i in range(rows.shape[0]):
        row = rows[i]
        w = weights[row]
        pair = _make_pair(w, w if classes[row] else w - w)
        s.pairs[i] = pair
        total += pair
    return total


@inlined
def _sum_targets(rows: Array, target: Array, weights: Array, s: Scratch) -> Any:
    total = s.pair_sums[0] * 0
    for i in range(rows.shape[0]):
        w = weights[rows[i]]
        pair = _make_pair(w, w * target[rows[i]])
        s.pairs[i] = pair
        total += pair
    return total


# --- the best cut of one feature --------------------------------------------------------------------------------------
# A search lists the bins that hold rows of the node, then writes for each cut between two of them the score of the cut
# as a fraction (above / over), then takes the largest: three plain loops without a branch that could be mispredicted.
#
# Missing values are tried on both sides. Each search returns (gain, last bin on the left, shift): shift 1 puts the missing
# values on the left, 0 on the right, -1 says that the node has none. The gain is CONSTANT when all rows share a bin, and
# NO_CUT when every cut would leave too few rows on one side.

CONSTANT, NO_CUT = -2.0, -1.0


@inlined
def _largest_score(s: Scratch, first: int, last: int) -> tuple[float, int]:
    """The largest score among the cuts in [first, last), and which.

    Positive floats sort like their bits read as whole numbers, so the number of the cut rides along in the lowest bits.
    """
    for q in range(first, last):
        s.score[q] = s.above[q] / s.over[q] if s.over[q] > 0.0 else -1.0
    best = np.int64(-1)
    for q in range(first, last):
        best = max(best, (s.score_bits[q] & ~np.int64(255)) | q)
    if best < 0:
        return NO_CUT, -1
    return s.score[best & 255], best & 255


@inlined
def _allowed_cuts(s: Scratch, n_cuts: int, n_rows: int, rows_before: int, min_leaf: int) -> tuple[int, int]:
    """The range of the cuts that leave at least ``min_leaf`` rows on both sides."""
    first, last = 0, n_cuts
    if min_leaf > 1:
        while first < last and rows_before + s.rows_upto[first] < min_leaf:
            first += 1
        while last > first and n_rows - rows_before - s.rows_upto[last - 1] < min_leaf:
            last -= 1
    return first, last


@inlined
def _better(gain: float, q: int, shift: int, best: tuple[float, int, int], s: Scratch) -> tuple[float, int, int]:
    if gain > best[0]:
        return gain, np.int64(s.order[q]), shift
    return best


# Two classes, or a regression target.


@inlined
def _note_bin(noted: Array, b: Any) -> None:
    noted[b >> np.uint8(6)] |= np.uint64(1) << np.uint64(b & np.uint8(63))


@inlined
def _list_noted_bins(s: Scratch) -> int:
    """List the noted bins in ascending order and forget them; how many there are."""
    n = np.uint64(0)
    for i in range(4):
        word = s.noted[i]
        s.noted[i] = np.uint64(0)
        while word != 0:
            s.order[n] = np.uint64(i << 6) + trailing_zeros(word)
            n += np.uint64(1)
            word &= word - np.uint64(1)
    return np.int64(n)


@inlined
def _list_filled_bins(s: Scratch, n_bins: int, nothing: Any) -> int:
    """The same without notes, by looking at the sum of every bin."""
    n = np.uint64(0)
    for b in range(n_bins):
        s.order[n] = b
        n += np.uint64(s.pair_sums[b] != nothing)
    s.order[n] = MISSING
    n += np.uint64(s.pair_sums[MISSING] != nothing)
    return np.int64(n)


@inlined
def _sum_rows_upto(matrix: Array, offset: Any, stride: Any, rows: Array, s: Scratch, n: int) -> None:
    """How many rows are in each listed bin and those before."""
    for i in range(rows.shape[0]):
        s.row_counts[matrix[offset + np.uint64(rows[i]) * stride]] += 1
    upto = 0
    for q in range(n):
        upto += s.row_counts[s.order[q]]
        s.row_counts[s.order[q]] = 0
        s.rows_upto[q] = upto


@inlined
def _score_pair_sums(s: Scratch, n: int, left: Any, total: Any) -> None:
    """Score the cuts after each of ``n`` sums; ``left`` is what is on the left from the start."""
    weight, target = _pair_weight(total), _pair_total(total)
    for q in range(n):
        left += s.sums[q]
        left_weight = _pair_weight(left)
        apart = _pair_total(left) * weight - target * left_weight
        s.above[q] = apart * apart
        s.over[q] = left_weight * (weight - left_weight) * weight


@inlined
def _best_of_sums(s: Scratch, n: int, n_rows: int, total: Any, min_leaf: int) -> tuple[float, int, int]:
    nothing = total - total
    if n < 2:
        return CONSTANT, -1, -1
    if s.order[n - 1] != MISSING:
        _score_pair_sums(s, n - 1, nothing, total)
        first, last = _allowed_cuts(s, n - 1, n_rows, 0, min_leaf)
        gain, q = _largest_score(s, first, last)
        return _better(gain, q, -1, (NO_CUT, -1, -1), s)
    best = (NO_CUT, -1, 0)
    for shift in range(2):
        n_cuts = n - 1 - shift
        _score_pair_sums(s, n_cuts, s.sums[n - 1] if shift else nothing, total)
        before = n_rows - s.rows_upto[n - 2] if shift else 0
        first, last = _allowed_cuts(s, n_cuts, n_rows, before, min_leaf)
        gain, q = _largest_score(s, first, last)
        best = _better(gain, q, shift, best, s)
    return best


@inlined
def _cut_by_pair_sums(
    matrix: Array, offset: Any, stride: Any, rows: Array, n_bins: int, total: Any, min_leaf: int, s: Scratch
) -> tuple[float, int, int]:
    if rows.shape[0] <= NOTED_ROWS:
        for i in range(rows.shape[0]):
            b = matrix[offset + np.uint64(rows[i]) * stride]
            s.pair_sums[b] += s.pairs[i]
            _note_bin(s.noted, b)
        n = _list_noted_bins(s)
    else:
        for i in range(rows.shape[0]):
            s.pair_sums[matrix[offset + np.uint64(rows[i]) * stride]] += s.pairs[i]
        n = _list_filled_bins(s, n_bins, total - total)
    for q in range(n):
        s.sums[q] = s.pair_sums[s.order[q]]
        s.pair_sums[s.order[q]] = total - total
    if min_leaf > 1:
        _sum_rows_upto(matrix, offset, stride, rows, s, n)
    return _best_of_sums(s, n, rows.shape[0], total, min_leaf)


# Several classes.


@inlined
def _score_squares(s: Scratch, n_cuts: int, square: Any, weight: Any) -> None:
    """Score cuts by the sum over the children of (sum of squared class weights / weight)."""
    for q in range(n_cuts):
        lw = np.float64(s.left_weight[q])
        rw = np.float64(weight) - lw
        left_square = np.float64(s.left_square[q])
        right_square = np.float64(square - 2 * s.left_cross[q] + s.left_square[q])
        s.above[q] = left_square * rw + right_square * lw
        s.over[q] = lw * rw


@inlined
def _best_of_squares(
    s: Scratch, n_cuts: int, n_rows: int, rows_before: int, square: Any, weight: Any, min_leaf: int
) -> tuple[float, int]:
    _score_squares(s, n_cuts, square, weight)
    first, last = _allowed_cuts(s, n_cuts, n_rows, rows_before, min_leaf)
    score, q = _largest_score(s, first, last)
    return score - np.float64(square) / np.float64(weight) if q >= 0 else NO_CUT, q


@inlined
def _sort_few(matrix: Array, offset: Any, stride: Any, rows: Array, keys: Array) -> None:
    """Sort the rows by bin: keys are bin × 2³² + position of the row in the node."""
    for i in range(rows.shape[0]):
        key = (np.int64(matrix[offset + np.uint64(rows[i]) * stride]) << 32) | i
        q = i
        while q > 0 and keys[q - 1] > key:
            keys[q] = keys[q - 1]
            q -= 1
        keys[q] = key


@inlined
def _sort_by_counting(matrix: Array, offset: Any, stride: Any, rows: Array, n_bins: int, s: Scratch) -> None:
    for i in range(rows.shape[0]):
        b = matrix[offset + np.uint64(rows[i]) * stride]
        s.bins[i] = b
        s.row_counts[b] += 1
    place = 0
    for b in range(n_bins):
        s.place[b] = place
        place += s.row_counts[b]
        s.row_counts[b] = 0
    s.place[MISSING] = place
    s.row_counts[MISSING] = 0
    for i in range(rows.shape[0]):
        b = s.bins[i]
        s.keys[s.place[b]] = (np.int64(b) << 32) | i
        s.place[b] += 1


@inlined
def _squares_of_sorted(s: Scratch, n_valid: int, n_rows: int, missing_left: bool, n_local: int, nothing: Any) -> int:
    """Note squares and weights to the left of each cut between the sorted rows; how many bins there are."""
    for c in range(n_local):
        s.left[c] = 0
    square = cross = weight = nothing
    q = np.uint64(0)
    if missing_left:
        for p in range(n_valid, n_rows):
            i = s.keys[p] & 0xFFFFFFFF
            c = s.labels[i]
            w = s.node_weights[i]
            square += w * (2 * s.left[c] + w)
            cross += w * s.totals[c]
            s.left[c] += w
            weight += w
    s.keys[n_rows] = -1
    key = s.keys[0]
    for p in range(n_valid):
        i = key & 0xFFFFFFFF
        c = s.labels[i]
        w = s.node_weights[i]
        square += w * (2 * s.left[c] + w)
        cross += w * s.totals[c]
        s.left[c] += w
        weight += w
        s.left_square[q] = square
        s.left_cross[q] = cross
        s.left_weight[q] = weight
        s.rows_upto[q] = p + 1
        s.order[q] = key >> 32
        next_key = s.keys[p + 1]
        q += np.uint64((key >> 32) != (next_key >> 32))
        key = next_key
    return np.int64(q)


@inlined
def _best_of_sorted(
    s: Scratch, n_rows: int, n_local: int, square: Any, weight: Any, min_leaf: int
) -> tuple[float, int, int]:
    nothing = square - square
    if s.keys[0] >> 32 == s.keys[n_rows - 1] >> 32:
        return CONSTANT, -1, -1
    n_valid = n_rows
    while s.keys[n_valid - 1] >> 32 == MISSING:
        n_valid -= 1
    missing = n_valid < n_rows
    best = (NO_CUT, -1, 0 if missing else -1)
    for shift in range(2 if missing else 1):
        n = _squares_of_sorted(s, n_valid, n_rows, shift == 1, n_local, nothing)
        n_cuts = n if missing and shift == 0 else n - 1
        before = n_rows - n_valid if shift else 0
        gain, q = _best_of_squares(s, n_cuts, n_rows, before, square, weight, min_leaf)
        best = _better(gain, q, shift if missing else -1, best, s)
    return best


@inlined
def _cut_by_sorting(
    matrix: Array,
    offset: Any,
    stride: Any,
    rows: Array,
    n_bins: int,
    n_local: int,
    square: Any,
    weight: Any,
    min_leaf: int,
    s: Scratch,
) -> tuple[float, int, int]:
    if rows.shape[0] <= FEW_ROWS:
        _sort_few(matrix, offset, stride, rows, s.keys)
    else:
        _sort_by_counting(matrix, offset, stride, rows, n_bins, s)
    return _best_of_sorted(s, rows.shape[0], n_local, square, weight, min_leaf)


@inlined
def _squares_of_dense(s: Scratch, n: int, n_bins_before: int, lanes: Any) -> None:
    """Note squares and weights to the left of the cut after each listed bin.

    Four classes at a time, each with sums of its own, so that the compiler makes vector instructions of it.
    ``n_bins_before`` 1: the last listed bin, that of the missing values, is on the left from the start.
    """
    for c in range(lanes):
        s.left[c] = 0.0
    sq0 = sq1 = sq2 = sq3 = cr0 = cr1 = cr2 = cr3 = wt0 = wt1 = wt2 = wt3 = 0.0
    for q in range(-n_bins_before, n):
        row = np.uint64(s.order[q if q >= 0 else n]) * lanes
        for c in range(np.uint64(0), lanes, np.uint64(4)):
            c1, c2, c3 = c + np.uint64(1), c + np.uint64(2), c + np.uint64(3)
            w0 = np.float64(s.dense[row + c])
            w1 = np.float64(s.dense[row + c1])
            w2 = np.float64(s.dense[row + c2])
            w3 = np.float64(s.dense[row + c3])
            l0, l1, l2, l3 = s.left[c], s.left[c1], s.left[c2], s.left[c3]
            sq0 += w0 * (l0 + l0 + w0)
            sq1 += w1 * (l1 + l1 + w1)
            sq2 += w2 * (l2 + l2 + w2)
            sq3 += w3 * (l3 + l3 + w3)
            cr0 += w0 * s.totals[c]
            cr1 += w1 * s.totals[c1]
            cr2 += w2 * s.totals[c2]
            cr3 += w3 * s.totals[c3]
            wt0 += w0
            wt1 += w1
            wt2 += w2
            wt3 += w3
            s.left[c] = l0 + w0
            s.left[c1] = l1 + w1
            s.left[c2] = l2 + w2
            s.left[c3] = l3 + w3
        if q >= 0:
            s.left_square[q] = (sq0 + sq1) + (sq2 + sq3)
            s.left_cross[q] = (cr0 + cr1) + (cr2 + cr3)
            s.left_weight[q] = (wt0 + wt1) + (wt2 + wt3)


@inlined
def _cut_by_dense(
    matrix: Array,
    offset: Any,
    stride: Any,
    rows: Array,
    n_bins: int,
    n_local: int,
    square: Any,
    weight: Any,
    min_leaf: int,
    s: Scratch,
) -> tuple[float, int, int]:
    n_rows = rows.shape[0]
    lanes = np.uint64((n_local + 3) & ~3)
    for c in range(n_local, lanes):
        s.totals[c] = 0.0
    for i in range(n_rows):
        b = matrix[offset + np.uint64(rows[i]) * stride]
        s.dense[np.uint64(b) * lanes + np.uint64(s.labels[i])] += s.node_weights[i]
        _note_bin(s.noted, b)
    n = _list_noted_bins(s)
    if n < 2:
        best = (CONSTANT, -1, -1)
    else:
        if min_leaf > 1:
            _sum_rows_upto(matrix, offset, stride, rows, s, n)
        missing = s.order[n - 1] == MISSING
        best = (NO_CUT, -1, 0 if missing else -1)
        for shift in range(2 if missing else 1):
            n_cuts = n - 1 - shift
            _squares_of_dense(s, n - 1, shift, lanes)
            before = n_rows - s.rows_upto[n - 2] if shift else 0
            gain, q = _best_of_squares(s, n_cuts, n_rows, before, square, weight, min_leaf)
            best = _better(gain, q, shift if missing else -1, best, s)
    for q in range(n):
        row = np.uint64(s.order[q]) * lanes
        for c in range(lanes):
            s.dense[row + c] = 0
    return best


# --- a random cut of one feature --------------------------------------------------------------------------------------


@inlined
def _random_cut(
    matrix: Array, offset: Any, stride: Any, rows: Array, state: Array, s: Scratch
) -> tuple[float, int, int]:
    """A cut drawn evenly between the lowest and the highest bin; one more sets the missing values apart."""
    low, high, missing = MISSING, -1, False
    for i in range(rows.shape[0]):
        b = np.int64(matrix[offset + np.uint64(rows[i]) * stride])
        s.bins[i] = b
        if b == MISSING:
            missing = True
        else:
            low = min(low, b)
            high = max(high, b)
    if not missing:
        if low == high:
            return CONSTANT, -1, -1
        return 0.0, low + _random_below(state, high - low), -1
    if high < 0:
        return CONSTANT, -1, -1
    cut = low + _random_below(state, high - low + 1)
    return 0.0, cut, 0 if cut == high else _random_below(state, 2)


@inlined
def _gain_of_cut(
    cut: int, shift: int, n: int, total: Any, n_local: int, square: Any, weight: Any, min_leaf: int, s: Scratch
) -> float:
    """The gain of a cut of the rows whose bins are in ``s.bins``."""
    shift8 = np.uint8(max(shift, 0))
    threshold = np.uint8(cut + max(shift, 0))
    rows_left = 0
    if n_local <= 2:
        left = total - total
        for i in range(n):
            if np.uint8(s.bins[i] + shift8) <= threshold:
                left += s.pairs[i]
                rows_left += 1
        pair_weight = _pair_weight(total)
        left_pair_weight = _pair_weight(left)
        apart = _pair_total(left) * pair_weight - _pair_total(total) * left_pair_weight
        gain = apart * apart / (left_pair_weight * (pair_weight - left_pair_weight) * pair_weight)
    else:
        for c in range(n_local):
            s.left[c] = 0
        for i in range(n):
            if np.uint8(s.bins[i] + shift8) <= threshold:
                s.left[s.labels[i]] += s.node_weights[i]
                rows_left += 1
        left_square = cross = left_weight = square - square
        for c in range(n_local):
            left_square += s.left[c] * s.left[c]
            cross += s.left[c] * s.totals[c]
            left_weight += s.left[c]
        lw, rw = np.float64(left_weight), np.float64(weight - left_weight)
        gain = left_square / lw + (square - 2 * cross + left_square) / rw - square / np.float64(weight)
    return gain if rows_left >= min_leaf and n - rows_left >= min_leaf else NO_CUT


# --- growing ----------------------------------------------------------------------------------------------------------


@inlined
def _partition(
    matrix: Array, offset: Any, stride: Any, rows: Array, threshold: int, shift: int, spill: Array
) -> int:
    """Bring the rows that go left to the front, each side in its old order; how many go left."""
    top, add = np.uint8(threshold), np.uint8(shift)
    n_left = n_right = np.uint64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        goes_left = np.uint64(np.uint8(matrix[offset + np.uint64(row) * stride] + add) <= top)
        rows[n_left] = row
        spill[n_right] = row
        n_left += goes_left
        n_right += np.uint64(1) - goes_left
    for i in range(n_right):
        rows[n_left + i] = spill[i]
    return np.int64(n_left)


@kernel
def grow_tree(
    data: Data, limits: Limits, weights: Array, bag: Array, passengers: Array, seed: int, s: Scratch
) -> Tree:
    """Grow one tree on the rows ``bag``; both lists of rows are reordered by leaf."""
    n_features = data.n_bins.shape[0]
    n_bag = bag.shape[0]
    state = np.array([seed], np.uint64)
    nodes = np.empty(2 * n_bag, np.uint64)
    leaf_start = np.empty(n_bag + 1, np.int32)
    leaf_start[0] = 0
    leaf_class = np.empty(n_bag if data.n_classes > 0 else 0, np.int32)
    leaf_share = np.empty(n_bag if data.n_classes > 0 else 0, np.float32)
    leaf_value = np.empty(n_bag if data.n_classes == 0 else 0, np.float64)
    importances = np.zeros(n_features)
    passenger_leaf = np.empty(n_bag, np.int32)
    passenger_end = np.empty(n_bag, np.int32)
    features = np.arange(n_features).astype(np.int32)
    constants = np.empty(n_features, np.int32)
    stack = np.empty((n_bag + 1, 7), np.int32)
    n_nodes, n_stack, n_shared, n_entries, n_held = 1, 1, 0, 0, 0
    stack[0, 0] = 0
    stack[0, 1] = 0
    stack[0, 2] = n_bag
    stack[0, 3] = 0
    stack[0, 4] = passengers.shape[0]
    stack[0, 5] = 0
    stack[0, 6] = 0

    while n_stack > 0:
        n_stack -= 1
        node, start, end, p_start, p_end, depth, n_known = stack[n_stack]
        rows = bag[start:end]
        riders = passengers[p_start:p_end]
        n = end - start
        n_local = 0
        total = s.pair_sums[0]
        square = weight = s.totals[0] - s.totals[0]
        feature = -1
        best, cut, shift = NO_CUT, 0, -1
        by_row = data.by_row.shape[0] > 0 and n * BY_ROW_SHARE < data.n_rows
        matrix = data.by_row if by_row else data.by_column
        stride = np.uint64(data.row_stride) if by_row else np.uint64(1)
        feature_stride = 1 if by_row else data.n_rows

        grows = depth < limits.max_depth and n >= limits.min_split and n >= 2 * limits.min_leaf
        blind = limits.splitter == COMPLETELY_RANDOM
        if data.n_classes == 0:
            pure = _one_value(rows, data.target)
            total = _sum_targets(rows, data.target, weights, s)
        elif blind and grows and not _one_class(rows, data.classes):
            pure = False
        elif data.n_classes == 2:
            total = _count_two_classes(rows, data.classes, weights, s)
            n_local = _keep_two(total, s)
        else:
            n_local = _count_classes(rows, data.classes, weights, s)
            for c in range(n_local):
                weight += s.totals[c]
                square += s.totals[c] * s.totals[c]
            if n_local == 2:
                total = _pairs_of_two(n, s)
        if n_local > 0:
            pure = n_local == 1
        perfect = _largest_gain(total) if n_local == 2 else np.inf

        if grows and not pure:
            n_drawn, n_found, visited, high, n_constant = 0, 0, 0, n_features, n_known
            while high > n_constant and (visited < limits.n_candidates or visited <= n_found + n_drawn):
                visited += 1
                if blind:
                    j = n_constant + _random_below(state, high - n_constant)
                else:
                    j = n_drawn + _random_below(state, high - n_found - n_drawn)
                    if j < n_known:
                        features[n_drawn], features[j] = features[j], features[n_drawn]
                        n_drawn += 1
                        continue
                    j += n_found
                f = features[j]
                offset = np.uint64(f) * np.uint64(feature_stride)
                n_bins = np.int64(data.n_bins[f])
                if limits.splitter != BEST:
                    gain, b, side = _random_cut(matrix, offset, stride, rows, state, s)
                    if gain == 0.0 and not blind:
                        gain = _gain_of_cut(b, side, n, total, n_local, square, weight, limits.min_leaf, s)
                elif n_local <= 2:
                    gain, b, side = _cut_by_pair_sums(
                        matrix, offset, stride, rows, n_bins, total, limits.min_leaf, s
                    )
                elif n_local <= DENSE_CLASSES and min(n_bins, n) * n_local <= DENSE_CELLS * n:
                    gain, b, side = _cut_by_dense(
                        matrix, offset, stride, rows, n_bins, n_local, square, weight, limits.min_leaf, s
                    )
                else:
                    gain, b, side = _cut_by_sorting(
                        matrix, offset, stride, rows, n_bins, n_local, square, weight, limits.min_leaf, s
                    )
                if gain == CONSTANT:
                    features[j], features[n_constant] = features[n_constant], features[j]
                    n_found += 1
                    n_constant += 1
                    continue
                high -= 1
                features[high], features[j] = features[j], features[high]
                if gain > best:
                    best, feature, cut, shift = gain, f, b, side
                    if gain >= perfect:
                        break
            features[:n_known] = constants[:n_known]
            constants[n_known:n_constant] = features[n_known:n_constant]
            n_known = n_constant

        if feature < 0:
            if data.n_classes == 0:
                value = n_shared | SHARED
                leaf_value[n_shared] = _pair_total(total) / _pair_weight(total)
                n_shared += 1
            elif n_local == 1:
                value = np.int64(s.class_of[0])
            else:
                value = n_shared | SHARED
                leaf_weight = 0.0
                for c in range(n_local):
                    leaf_weight += s.totals[c]
                for c in range(n_local):
                    leaf_class[n_entries] = s.class_of[c]
                    leaf_share[n_entries] = s.totals[c] / leaf_weight
                    n_entries += 1
                n_shared += 1
                leaf_start[n_shared] = n_entries
            nodes[node] = pack_node(LEAF, 0, 0, value)
            if p_end > p_start:
                passenger_leaf[n_held] = node
                passenger_end[n_held] = p_end
                n_held += 1
            continue

        offset = np.uint64(feature) * np.uint64(feature_stride)
        n_left = _partition(matrix, offset, stride, rows, cut + max(shift, 0), max(shift, 0), s.spill)
        if shift < 0:
            shift = 1 if n_left * 2 > n else 0  # missing values turn up later: they follow the larger part
        p_left = _partition(matrix, offset, stride, riders, cut + shift, shift, s.spill)
        nodes[node] = pack_node(feature, (cut + shift) & 255, shift, n_nodes)
        importances[feature] += 2.0 * best if n_local == 2 else best
        for right in range(1, -1, -1):
            stack[n_stack, 0] = n_nodes + right
            stack[n_stack, 1] = start + n_left if right else start
            stack[n_stack, 2] = end if right else start + n_left
            stack[n_stack, 3] = p_start + p_left if right else p_start
            stack[n_stack, 4] = p_end if right else p_start + p_left
            stack[n_stack, 5] = depth + 1
            stack[n_stack, 6] = n_known
            n_stack += 1
        n_nodes += 2
    return Tree(
        nodes[:n_nodes].copy(),
        leaf_start[: n_shared + 1].copy(),
        leaf_class[:n_entries].copy(),
        leaf_share[:n_entries].copy(),
        leaf_value[: n_shared if data.n_classes == 0 else 0].copy(),
        importances,
        passenger_leaf[:n_held].copy(),
        passenger_end[:n_held].copy(),
    )
