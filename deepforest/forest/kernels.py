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

    pairs: Array  # a row of the node: what it adds
    labels: Array  # a row of the node: its class, numbered within the node
    node_weights: Array  # a row of the node: its weight
    bins: Array  # a row of the node: its bin in the feature looked at
    chain: Array  # a row of the node: the next row in the same bin
    head: Array  # a bin: its first row; -1 between uses
    pair_sums: Array  # a bin; 0 between uses
    row_counts: Array  # a bin; 0 between uses
    seen: Array  # a bit a bin: whether a row is in it; 0 between uses
    order: Array  # the bins that hold rows, ascending
    dense: Array  # bin × class of the node; 0 between uses
    totals: Array  # a class of the node
    left: Array  # a class of the node
    class_of: Array  # a class of the node: the class itself
    local: Array  # a class: its number within the node; -1 between uses
    spill: Array  # rows on their way to the right child


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
# Each returns (gain, bin of the last row on the left, shift): shift 1 puts the missing values on the left, 0 on the right,
# -1 says that the node has none. The gain is CONSTANT when all rows have the same bin, NO_CUT when the leaves would be too
# small.

CONSTANT, NO_CUT = -2.0, -1.0


@inlined
def _note_bin(seen: Array, b: int) -> None:
    seen[b >> np.uint8(6)] |= np.uint64(1) << np.uint64(b & np.uint8(63))


@inlined
def _noted_bins(s: Scratch) -> int:
    """List the noted bins in ascending order and forget them; how many there are."""
    n = 0
    for i in range(4):
        word = s.seen[i]
        s.seen[i] = np.uint64(0)
        while word != 0:
            s.order[n] = (i << 6) + np.int64(trailing_zeros(word))
            n += 1
            word &= word - np.uint64(1)
    return n


@inlined
def _filled_bins(filled: Array, empty: Any, n_bins: int, order: Array) -> int:
    """List the bins whose entry is not ``empty`` in ascending order; how many there are."""
    n = 0
    for b in range(n_bins):
        order[n] = b
        n += filled[b] != empty
    if filled[MISSING] != empty:
        order[n] = MISSING
        n += 1
    return n


@inlined
def _missing_first(order: Array, n: int) -> None:
    last = order[n - 1]
    for i in range(n - 1, 0, -1):
        order[i] = order[i - 1]
    order[0] = last


@inlined
def _scan_pair_sums(s: Scratch, n: int, total: Any, n_rows: int, min_leaf: int) -> tuple[float, int]:
    """The best of the cuts between neighbours of ``order``."""
    weight = _pair_weight(total)
    target = _pair_total(total)
    left = total - total
    rows_left = 0
    best, best_over, cut = -1.0, 1.0, -1
    for q in range(n - 1):
        b = s.order[q]
        left += s.pair_sums[b]
        if min_leaf > 1:
            rows_left += s.row_counts[b]
            if rows_left < min_leaf or n_rows - rows_left < min_leaf:
                continue
        left_weight = _pair_weight(left)
        apart = _pair_total(left) * weight - target * left_weight
        over = left_weight * (weight - left_weight)
        if over > 0.0 and apart * apart * best_over > best * over:
            best, best_over, cut = apart * apart, over, b
    return best / (best_over * weight) if cut >= 0 else NO_CUT, cut


@inlined
def _cut_by_pair_sums(
    matrix: Array, offset: Any, stride: Any, rows: Array, n_bins: int, total: Any, min_leaf: int, s: Scratch
) -> tuple[float, int, int]:
    if rows.shape[0] <= NOTED_ROWS:
        for i in range(rows.shape[0]):
            b = matrix[offset + np.uint64(rows[i]) * stride]
            s.pair_sums[b] += s.pairs[i]
            _note_bin(s.seen, b)
        n = _noted_bins(s)
    else:
        for i in range(rows.shape[0]):
            s.pair_sums[matrix[offset + np.uint64(rows[i]) * stride]] += s.pairs[i]
        n = _filled_bins(s.pair_sums, total - total, n_bins, s.order)
    if min_leaf > 1:
        for i in range(rows.shape[0]):
            s.row_counts[matrix[offset + np.uint64(rows[i]) * stride]] += 1
    gain, cut, shift = CONSTANT, -1, -1
    if n > 1:
        gain, cut = _scan_pair_sums(s, n, total, rows.shape[0], min_leaf)
        if s.order[n - 1] == MISSING:
            shift = 0
            _missing_first(s.order, n)
            other_gain, other_cut = _scan_pair_sums(s, n, total, rows.shape[0], min_leaf)
            if other_gain > gain:
                gain, cut, shift = other_gain, other_cut, 1
    for q in range(n):
        s.pair_sums[s.order[q]] = total - total
        s.row_counts[s.order[q]] = 0
    return gain, cut, shift


@inlined
def _sort_few(matrix: Array, offset: Any, stride: Any, rows: Array, order: Array) -> None:
    """Put bin × 256 + position of each row into ``order``, ascending."""
    for i in range(rows.shape[0]):
        key = (np.int32(matrix[offset + np.uint64(rows[i]) * stride]) << 8) | np.int32(i)
        q = i
        while q > 0 and order[q - 1] > key:
            order[q] = order[q - 1]
            q -= 1
        order[q] = key


@inlined
def _scan_few_pairs(s: Scratch, n: int, total: Any, min_leaf: int) -> tuple[float, int]:
    weight = _pair_weight(total)
    target = _pair_total(total)
    left = total - total
    best, best_over, cut = -1.0, 1.0, -1
    for q in range(n - 1):
        key = s.order[q]
        left += s.pairs[key & 255]
        if key >> 8 == s.order[q + 1] >> 8 or q + 1 < min_leaf or n - q - 1 < min_leaf:
            continue
        left_weight = _pair_weight(left)
        apart = _pair_total(left) * weight - target * left_weight
        over = left_weight * (weight - left_weight)
        if over > 0.0 and apart * apart * best_over > best * over:
            best, best_over, cut = apart * apart, over, key >> 8
    return best / (best_over * weight) if cut >= 0 else NO_CUT, cut


@inlined
def _scan_few_classes(s: Scratch, n: int, n_local: int, square: Any, weight: Any, min_leaf: int) -> tuple[float, int]:
    for c in range(n_local):
        s.left[c] = 0
    left_square = cross = left_weight = square - square
    best, best_over, cut = -1.0, 1.0, -1
    for q in range(n - 1):
        key = s.order[q]
        i = key & 255
        c = s.labels[i]
        w = s.node_weights[i]
        left_square += w * (2 * s.left[c] + w)
        cross += w * s.totals[c]
        s.left[c] += w
        left_weight += w
        if key >> 8 == s.order[q + 1] >> 8 or q + 1 < min_leaf or n - q - 1 < min_leaf:
            continue
        gain, over = _score(left_square, square - 2 * cross + left_square, left_weight, weight - left_weight)
        if over > 0.0 and gain * best_over > best * over:
            best, best_over, cut = gain, over, key >> 8
    return best / best_over - square / weight if cut >= 0 else NO_CUT, cut


@inlined
def _score(left_square: Any, right_square: Any, left_weight: Any, right_weight: Any) -> tuple[float, float]:
    """Sum of the children's (sum of squares / weight), as a fraction: dividing is left to the winner."""
    lw, rw = np.float64(left_weight), np.float64(right_weight)
    return np.float64(left_square) * rw + np.float64(right_square) * lw, lw * rw


@inlined
def _cut_few(
    matrix: Array,
    offset: Any,
    stride: Any,
    rows: Array,
    total: Any,
    n_local: int,
    square: Any,
    weight: Any,
    min_leaf: int,
    s: Scratch,
) -> tuple[float, int, int]:
    n = rows.shape[0]
    _sort_few(matrix, offset, stride, rows, s.order)
    if s.order[0] >> 8 == s.order[n - 1] >> 8:
        return CONSTANT, -1, -1
    two_ways = s.order[n - 1] >> 8 == MISSING
    if n_local <= 2:
        gain, cut = _scan_few_pairs(s, n, total, min_leaf)
    else:
        gain, cut = _scan_few_classes(s, n, n_local, square, weight, min_leaf)
    shift = -1
    if two_ways:
        shift = 0
        while s.order[n - 1] >> 8 == MISSING:
            _missing_first(s.order, n)
        if n_local <= 2:
            other_gain, other_cut = _scan_few_pairs(s, n, total, min_leaf)
        else:
            other_gain, other_cut = _scan_few_classes(s, n, n_local, square, weight, min_leaf)
        if other_gain > gain:
            gain, cut, shift = other_gain, other_cut, 1
    return gain, cut, shift


@inlined
def _scan_chains(
    s: Scratch, n: int, n_local: int, square: Any, weight: Any, n_rows: int, min_leaf: int
) -> tuple[float, int]:
    for c in range(n_local):
        s.left[c] = 0
    left_square = cross = left_weight = square - square
    rows_left = 0
    best, best_over, cut = -1.0, 1.0, -1
    for q in range(n - 1):
        b = s.order[q]
        i = s.head[b]
        while i >= 0:
            c = s.labels[i]
            w = s.node_weights[i]
            left_square += w * (2 * s.left[c] + w)
            cross += w * s.totals[c]
            s.left[c] += w
            left_weight += w
            rows_left += 1
            i = s.chain[i]
        if rows_left < min_leaf or n_rows - rows_left < min_leaf:
            continue
        gain, over = _score(left_square, square - 2 * cross + left_square, left_weight, weight - left_weight)
        if over > 0.0 and gain * best_over > best * over:
            best, best_over, cut = gain, over, b
    return best / best_over - square / weight if cut >= 0 else NO_CUT, cut


@inlined
def _cut_by_chains(
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
    if n_rows <= NOTED_ROWS:
        for i in range(n_rows):
            b = matrix[offset + np.uint64(rows[i]) * stride]
            s.chain[i] = s.head[b]
            s.head[b] = i
            _note_bin(s.seen, b)
        n = _noted_bins(s)
    else:
        for i in range(n_rows):
            b = matrix[offset + np.uint64(rows[i]) * stride]
            s.chain[i] = s.head[b]
            s.head[b] = i
        n = _filled_bins(s.head, -1, n_bins, s.order)
    gain, cut, shift = CONSTANT, -1, -1
    if n > 1:
        gain, cut = _scan_chains(s, n, n_local, square, weight, n_rows, min_leaf)
        if s.order[n - 1] == MISSING:
            shift = 0
            _missing_first(s.order, n)
            other_gain, other_cut = _scan_chains(s, n, n_local, square, weight, n_rows, min_leaf)
            if other_gain > gain:
                gain, cut, shift = other_gain, other_cut, 1
    for q in range(n):
        s.head[s.order[q]] = -1
    return gain, cut, shift


@inlined
def _scan_dense(
    s: Scratch, n: int, n_local: int, square: Any, weight: Any, n_rows: int, min_leaf: int
) -> tuple[float, int]:
    for c in range(n_local):
        s.left[c] = 0
    left_square = cross = left_weight = square - square
    rows_left = 0
    best, best_over, cut = -1.0, 1.0, -1
    for q in range(n - 1):
        b = s.order[q]
        for c in range(n_local):
            w = s.dense[b * n_local + c]
            left_square += w * (2 * s.left[c] + w)
            cross += w * s.totals[c]
            s.left[c] += w
            left_weight += w
        rows_left += s.row_counts[b]
        if rows_left < min_leaf or n_rows - rows_left < min_leaf:
            continue
        gain, over = _score(left_square, square - 2 * cross + left_square, left_weight, weight - left_weight)
        if over > 0.0 and gain * best_over > best * over:
            best, best_over, cut = gain, over, b
    return best / best_over - square / weight if cut >= 0 else NO_CUT, cut


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
    for i in range(n_rows):
        b = np.uint64(matrix[offset + np.uint64(rows[i]) * stride])
        if b == MISSING:
            b = np.uint64(n_bins)
        s.dense[b * np.uint64(n_local) + np.uint64(s.labels[i])] += s.node_weights[i]
        s.row_counts[b] += 1
    n = _filled_bins(s.row_counts, 0, n_bins + 1, s.order)
    gain, cut, shift = CONSTANT, -1, -1
    if n > 1:
        gain, cut = _scan_dense(s, n, n_local, square, weight, n_rows, min_leaf)
        if s.order[n - 1] == n_bins:
            shift = 0
            _missing_first(s.order, n)
            other_gain, other_cut = _scan_dense(s, n, n_local, square, weight, n_rows, min_leaf)
            if other_gain > gain:
                gain, cut, shift = other_gain, other_cut, 1
            if cut == n_bins:
                cut = MISSING
    for q in range(n):
        b = s.order[q]
        s.row_counts[b] = 0
        for c in range(n_local):
            s.dense[b * n_local + c] = 0
    return gain, cut, shift


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
        above, over = _score(left_square, square - 2 * cross + left_square, left_weight, weight - left_weight)
        gain = above / over - square / weight
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
                elif n <= FEW_ROWS:
                    gain, b, side = _cut_few(
                        matrix, offset, stride, rows, total, n_local, square, weight, limits.min_leaf, s
                    )
                elif n_local <= 2:
                    gain, b, side = _cut_by_pair_sums(
                        matrix, offset, stride, rows, n_bins, total, limits.min_leaf, s
                    )
                elif n_bins * n_local <= 2 * n:
                    gain, b, side = _cut_by_dense(
                        matrix, offset, stride, rows, n_bins, n_local, square, weight, limits.min_leaf, s
                    )
                else:
                    gain, b, side = _cut_by_chains(
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
