"""Grow one tree on binned features, in compiled code.

A tree grows depth first on lists of row numbers. Each node owns a slice of the in-bag rows and a
slice of the *passengers*: rows that the tree does not learn from (out of the bag, or of a held-out
fold) but whose leaf is needed. Both are partitioned in place at every split, so that a passenger's
leaf is known without walking the tree again.

How a node searches its split depends on its content:

- two classes, or a regression target: a row adds a *pair* (weight, weight × target), and a
  histogram of pairs over the bins is enough. A pair is one number: two 32-bit counts in an integer
  if the weights are counts, the parts of a complex number if they are not.
- more classes in a large node: a dense histogram, bins × classes.
- more classes in a small node: the rows are sorted by bin (by counting), and one walk along them
  keeps the sum of squares up to date, with one class changed per row.

All of them find the same split: the one with the largest decrease of impurity (Gini or variance).

In a large node, where sums are made by bin, features are summed in groups: rows are read once for
the whole group, and an addition that has to wait for the last one to the same bin does not delay
those of the other features.

Random cuts are scored in groups too, in one pass over the rows. If the weights are counts, the
children inherit the class weights of their side of the cut.

- ``grow_tree``      one tree: nodes, leaves, importances and the leaf of each passenger
- ``draw_bag``       how often each row is in the bag of one tree
- ``seed_of_tree``   an independent stream of random numbers for each tree
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

from ._compile import inlined, inlined_sums, kernel, part, stay_apart

Array = npt.NDArray[Any]
Int = Any  # a whole number of a width that the compiler infers

MISSING = 255  # the bin of missing values
BEST, RANDOM, COMPLETELY_RANDOM = 0, 1, 2

LEAF = (1 << 23) - 1  # takes the place of a node's feature
SHARED = 1 << 31  # set in a leaf's value if it is the number of a distribution, not a class

# Which search is fastest in a node: measured limits, without effect on the split that is found.
DENSE_CLASSES = 256  # with more classes in a node there is no dense histogram …
DENSE_CELLS = 8  # … nor with more cells, bins × classes, per row
NOTED_ROWS = 256  # up to so many rows it is faster to note which bins hold rows
GROUP = 4  # features that are summed by bin together
GROUP_CLASSES = 64  # with more classes in a node, the sums of a group would not fit the cache
LISTED_BINS = 2.2  # with more bins per row, only bins that hold rows are looked at
LANES = 2 * GROUP  # columns of bins in memory: a group of random cuts, and the best one before
WIDTH = 16  # bins of a node are stored in a multiple of so many bytes: no loop has a remainder


class Output(NamedTuple):
    """The arrays that ``grow_tree`` writes a tree to, as long as the largest tree needs them."""

    nodes: Array  # uint64, see pack_node
    node_rows: Array  # how many rows of the bag each node holds; a row counts once
    leaf_start: Array  # distribution i is at leaf_start[i]:leaf_start[i + 1] of the next two
    leaf_class: Array
    leaf_share: Array
    leaf_value: Array  # regression: one number per leaf
    importances: Array  # decrease of impurity by feature, not normalised
    passenger_leaf: Array  # leaf nodes with passengers, in the order of the passengers …
    passenger_end: Array  # … and where in the list of passengers theirs end
    made: Array  # how much of the above is used, by the numbers below


NODES_MADE, SHARED_MADE, ENTRIES_MADE, HELD_MADE = 0, 1, 2, 3


def make_output(n_rows: int, n_features: int, n_classes: int) -> Output:
    """Return arrays for a tree on ``n_rows`` rows; only pages that are written take memory."""
    by_class = n_rows if n_classes else 0
    return Output(
        nodes=np.empty(2 * n_rows, np.uint64),
        node_rows=np.empty(2 * n_rows, np.uint32),
        leaf_start=np.empty(n_rows + 1, np.int32),
        leaf_class=np.empty(by_class, np.int32),
        leaf_share=np.empty(by_class, np.float32),
        leaf_value=np.empty(n_rows - by_class, np.float64),
        importances=np.empty(n_features),
        passenger_leaf=np.empty(n_rows, np.int32),
        passenger_end=np.empty(n_rows, np.int32),
        made=np.zeros(4, np.int64),
    )


class Data(NamedTuple):
    """The data that all trees of a forest share.

    The matrix is there twice: small nodes touch less memory if they read it by row, large nodes if
    they read it by column.

    A forest on windows learns from *addresses* instead of row numbers: where a window begins in the
    flat image bytes, of which each row has ``1 << row_bits``. The offset of a feature is then where
    a pixel is in the window, the same in all windows. So windows are never copied. With 0 bits an
    address is a row number.
    """

    by_column: Array  # flat uint8; of a forest on windows, the images
    by_row: Array  # flat uint8, row_stride bytes per row
    column_offsets: Array  # uint64 per feature: where it begins in by_column …
    row_offsets: Array  # … and in a row of by_row
    row_stride: int
    row_bits: int
    by_row_below: int  # number of rows of a node
    n_bins: Array  # int32 per feature, without the missing bin
    classes: Array  # int32 per row; not used in regression
    target: Array  # float64 per row; not used in classification
    n_classes: int  # 0: regression


class Column(NamedTuple):
    """One binned feature: the bin of address r is at ``offset + r * stride`` of the matrix."""

    matrix: Array
    offset: Any
    stride: Any


class Limits(NamedTuple):
    """How a tree grows."""

    splitter: int
    n_candidates: int
    max_depth: int
    min_split: int
    min_leaf: int
    min_weight: float  # of a leaf
    measure: bool  # whether the gain of completely random cuts is computed, for the importances


class Scratch(NamedTuple):
    """Working memory, made by ``make_scratch``; its types select counts or fractional weights."""

    state: Array  # of the random numbers
    desk: Array  # one record, see _desk_dtype
    features: Array  # all of them, in changing order
    constants: Array  # those known to be constant in the nodes on the way down
    stack: Array  # nodes still to be looked at
    # one entry per row of the node
    pairs: Array  # what the row adds: its weight and its weight × target
    codes: Array  # its class, numbered within the node, × 256; plus the weight if it is a count
    node_weights: Array  # its weight; not used if weights are counts
    row_bins: Array  # its bin in the current feature, or in several: see _Lanes
    sorted_rows: Array  # codes by bin; if weights are not counts, positions in the node by bin
    progress: Array  # three numbers per sorted row, up to and with it: see _squares_of_sorted
    spill: Array  # rows on their way to the right child
    # one entry per class
    totals: Array
    left: Array
    class_of: Array  # a class of the node: the class itself
    local: Array  # a class: its number within the node; -1 between uses
    dense: Array  # sums by feature of a group × bin × class, or class × lane; 0 between uses
    spread: Array  # for each set of lanes, as the bits of a number: 1 in those lanes, 0 elsewhere
    waiting: Array  # classes and totals of the right children on the stack, if weights are counts


def _desk_dtype(pair: Any) -> np.dtype[Any]:
    """Return the type of what the search for a split works on.

    Its size is fixed, so that the compiler sees one pointer instead of fifteen arrays.
    """
    return np.dtype(
        [
            # the node
            ("n_rows", np.int64),
            ("n_local", np.int64),  # classes; 0 in regression
            ("total", pair),  # sum of the pairs
            ("square", np.float64),  # sum of the squared class weights
            ("weight", np.float64),
            ("min_leaf", np.int64),
            ("min_weight", np.float64),
            # one entry per bin, 0 between uses
            ("pair_sums", pair, GROUP * 256),  # of a group of features; the rest: of one feature
            ("row_counts", np.uint32, 256),
            ("noted", np.uint64, 4),  # one bit per bin: whether it holds rows
            # one entry per bin that holds rows, ascending; also a cut, after that bin
            ("sums", pair, 258),
            ("score", np.float64, 258),
            ("rows_upto", np.uint32, 258),
            ("place", np.uint32, 256),
            # one entry per random cut of a group
            ("lane_feature", np.int64, GROUP),
            ("lane_cut", np.int64, GROUP),
            ("lane_shift", np.int64, GROUP),
            ("lane_gain", np.float64, GROUP),
            ("order", np.uint8, 264),
        ],
        align=True,
    )


def make_scratch(n_rows: int, n_features: int, n_classes: int, fractions: bool) -> Scratch:
    """Return working memory for trees whose lists of rows are at most ``n_rows`` long.

    ``fractions`` says that the weights are not counts.
    """
    pair, number = (np.complex128, np.float64) if fractions else (np.int64, np.int32)
    n_classes = max(n_classes, 2)
    several = n_rows if n_classes > 2 else 0
    return Scratch(
        state=np.zeros(1, np.uint64),
        desk=np.zeros(1, _desk_dtype(pair)),
        features=np.empty(n_features, np.int32),
        constants=np.empty(n_features, np.int32),
        stack=np.empty((n_rows + 1, 8), np.int32),
        pairs=np.empty(n_rows, pair),
        codes=np.empty(several, np.uint32),
        node_weights=np.empty(several if fractions else 0, number),
        row_bins=np.empty((LANES + 1) * (n_rows + WIDTH), np.uint8),
        sorted_rows=np.empty(several, np.uint32),
        progress=np.empty(3 * several),
        spill=np.empty(n_rows + 1, np.uint32),
        totals=np.zeros(n_classes),
        left=np.empty(n_classes),
        class_of=np.empty(n_classes, np.int32),
        local=np.full(n_classes, -1, np.int32),
        dense=np.zeros(GROUP * max(256 * min(n_classes, DENSE_CLASSES), n_classes), number),
        spread=(np.arange(1 << GROUP)[:, None] >> np.arange(GROUP) & 1).astype(number).reshape(-1),
        waiting=np.empty((0 if fractions else n_rows, 2), np.int32),
    )


# --- rows and addresses ---


@inlined
def _row_of(address: Any, bits: Any) -> Any:
    """Return the row of an address; labels, weights and bags belong to rows, not to windows."""
    return np.uint64(address) >> bits


# --- random numbers ---


@inlined
def _mix(x: Any) -> Any:
    # The output function of splitmix64: every bit of x changes about half of the result's bits.
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@inlined
def _random_below(state: Array, n: Int) -> Int:
    """Return a whole number in [0, n), n < 2³²; ``state`` moves on (splitmix64)."""
    # The product with n instead of a remainder: no division, and a bias below n / 2³².
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(((_mix(state[0]) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel
def seed_of_tree(seed: Int, tree: Int) -> Int:
    """Return the start of the random stream of tree number ``tree`` of a forest with ``seed``."""
    start = _mix(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    return np.int64(_mix(start + np.uint64(tree) * np.uint64(0xD1B54A32D192ED03)) >> np.uint64(1))


@kernel
def draw_bag(rows: Array, n_draws: int, seed: int, state: Array, counts: Array) -> None:
    """Draw ``n_draws`` of ``rows`` with repetition and count in ``counts`` how often each is drawn.

    A count stops at 255, which is never reached in practice: counts are about Poisson(1).
    """
    state[0] = seed
    n = rows.shape[0]
    for _ in range(n_draws):
        row = rows[_random_below(state, n)]
        if counts[row] < 255:
            counts[row] += np.uint8(1)


@kernel
def split_bag(
    rows: Array, weights: Array, row_bits: Int, bag: Array, others: Array
) -> tuple[Int, Int]:
    """Divide addresses into those of rows with a positive weight and the others.

    Return both numbers. All windows of a row are on the same side.
    """
    bits = np.uint64(row_bits)
    n_bag = n_others = np.uint64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        # Written to both lists, of which only one grows: no branch that could be mispredicted.
        weighs = np.uint64(weights[_row_of(row, bits)] > 0)
        bag[n_bag] = row
        others[n_others] = row
        n_bag += weighs
        n_others += np.uint64(1) - weighs
    return np.int64(n_bag), np.int64(n_others)


def _lowest_bit_typed(context: Any, word: Any) -> Any:
    """Return the number of the lowest bit that is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return word(word), generate


_lowest_bit: Any = intrinsic(_lowest_bit_typed)


# --- nodes and pairs ---


@inlined
def pack_node(feature: Int, threshold: Int, shift: Int, value: Int) -> Any:
    """Return one node in 64 bits: feature (23), shift (1), threshold (8), value (32).

    Rows with ``(bin + shift) mod 256 <= threshold`` go left; ``value`` is the left child, and the
    right child follows it. A shift of 1 turns the missing bin 255 into 0, so that missing values go
    left without a test of their own. A leaf has the feature LEAF, and ``value`` is its class or
    distribution.
    """
    return (
        np.uint64(value)
        | (np.uint64(threshold) << np.uint64(32))
        | (np.uint64(shift) << np.uint64(40))
        | (np.uint64(feature) << np.uint64(41))
    )


# Which body a function below gets depends on the types: weights are counts or fractions. Numba
# chooses it at compile time by ``overload``; the empty functions are only the names to call.


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
    return lambda pair: np.float64(np.int32(pair & 0xFFFFFFFF))


@overload(_pair_total, inline="always", strict=False)
def _pair_total_typed(pair: Any) -> Any:
    if isinstance(pair, types.Complex):
        return lambda pair: pair.imag
    return lambda pair: np.float64(np.int32(pair >> 32))


def _pair_if(pair: Any, flag: Any) -> Any: ...


@overload(_pair_if, inline="always", strict=False)
def _pair_if_typed(pair: Any, flag: Any) -> Any:
    # A product instead of a choice: no branch that could be mispredicted.
    if isinstance(pair, types.Complex):
        return lambda pair, flag: complex(
            pair.real * np.float64(flag), pair.imag * np.float64(flag)
        )
    return lambda pair, flag: pair * np.int64(flag)


def _are_counts(weights: Any) -> Any: ...


@overload(_are_counts, inline="always", strict=False)
def _are_counts_typed(weights: Any) -> Any:
    if isinstance(weights.dtype, types.Float):
        return lambda weights: False
    return lambda weights: True


def _number(weight: Any) -> Any: ...


@overload(_number, inline="always", strict=False)
def _number_typed(weight: Any) -> Any:
    if isinstance(weight, types.Float):
        return lambda weight: weight
    return lambda weight: np.int32(weight)


def _make_code(label: Any, weight: Any, node_weights: Any, i: Any) -> Any: ...


def _code_weight(code: Any, node_weights: Any, i: Any) -> Any: ...


def _code_to_sort(i: Any, codes: Any, node_weights: Any) -> Any: ...


def _sorted_code(entry: Any, codes: Any, node_weights: Any) -> Any: ...


@overload(_make_code, inline="always", strict=False)
def _make_code_typed(label: Any, weight: Any, node_weights: Any, i: Any) -> Any:
    if isinstance(weight, types.Float):

        def fraction(label: Any, weight: Any, node_weights: Any, i: Any) -> Any:
            node_weights[i] = weight
            return label << np.uint32(8)

        return fraction
    return lambda label, weight, node_weights, i: (label << np.uint32(8)) | np.uint32(weight)


@overload(_code_weight, inline="always", strict=False)
def _code_weight_typed(code: Any, node_weights: Any, i: Any) -> Any:
    if isinstance(node_weights.dtype, types.Float):
        return lambda code, node_weights, i: node_weights[i]
    return lambda code, node_weights, i: np.int32(code & np.uint32(255))


@overload(_code_to_sort, inline="always", strict=False)
def _code_to_sort_typed(i: Any, codes: Any, node_weights: Any) -> Any:
    if isinstance(node_weights.dtype, types.Float):
        return lambda i, codes, node_weights: np.uint32(i)
    return lambda i, codes, node_weights: codes[i]


@overload(_sorted_code, inline="always", strict=False)
def _sorted_code_typed(entry: Any, codes: Any, node_weights: Any) -> Any:
    if isinstance(node_weights.dtype, types.Float):
        return lambda entry, codes, node_weights: (codes[entry], node_weights[entry])
    return lambda entry, codes, node_weights: (entry, np.float64(np.int32(entry & np.uint32(255))))


# --- what is in a node ---


@inlined
def _all_equal(rows: Array, bits: Any, values: Array) -> bool:
    first = values[_row_of(rows[0], bits)]
    for i in range(1, rows.shape[0]):  # noqa: SIM110 - the compiler knows no all()
        if values[_row_of(rows[i], bits)] != first:
            return False
    return True


@part
def _count_classes(
    rows: Array,
    bits: Any,
    classes: Array,
    weights: Array,
    codes: Array,
    node_weights: Array,
    totals: Array,
    class_of: Array,
    local: Array,
    sums: Array,
    desk: Any,
) -> None:
    """Number the classes of the node, total them, and note each row's class and weight."""
    stay_apart()
    n_local = 0
    for i in range(rows.shape[0]):
        row = _row_of(rows[i], bits)
        c = classes[row]
        label = local[c]
        if label < 0:
            label = np.int32(n_local)
            local[c] = label
            class_of[n_local] = c
            n_local += 1
        w = weights[row]
        codes[i] = _make_code(np.uint32(label), w, node_weights, i)
        sums[np.uint32(label)] += w
    square = weight = 0.0
    for label in range(n_local):
        local[class_of[label]] = -1
        total = np.float64(sums[label])
        sums[label] = 0
        totals[label] = total
        weight += total
        square += total * total
    desk.n_local, desk.square, desk.weight = n_local, square, weight


@inlined
def _pair_two_labels(codes: Array, node_weights: Array, pairs: Array, desk: Any) -> None:
    """Turn the rows of a node of two classes into pairs; the target is the second class."""
    total = desk.total - desk.total  # zero of the type of a pair
    for i in range(desk.n_rows):
        w = _code_weight(codes[i], node_weights, i)
        pair = _make_pair(w, w if codes[i] >> np.uint32(8) else w - w)
        pairs[i] = pair
        total += pair
    desk.total = total


@inlined
def _pair_two_classes(
    rows: Array, bits: Any, classes: Array, weights: Array, pairs: Array, desk: Any
) -> None:
    """Turn the rows of a node into pairs directly from the classes, if the data has only two."""
    total = desk.total - desk.total
    for i in range(rows.shape[0]):
        row = _row_of(rows[i], bits)
        w = weights[row]
        pair = _make_pair(w, w if classes[row] else w - w)
        pairs[i] = pair
        total += pair
    desk.total = total


@inlined
def _total_two_classes(totals: Array, class_of: Array, desk: Any) -> None:
    weight, second = _pair_weight(desk.total), _pair_total(desk.total)
    desk.n_local = 2 if 0.0 < second < weight else 1
    class_of[0] = 1 if second == weight else 0
    class_of[1] = 1
    totals[0] = weight - second
    totals[1] = second


@inlined
def _pair_targets(
    rows: Array, bits: Any, target: Array, weights: Array, pairs: Array, desk: Any
) -> None:
    total = desk.total - desk.total
    for i in range(rows.shape[0]):
        row = _row_of(rows[i], bits)
        w = weights[row]
        pair = _make_pair(w, w * target[row])
        pairs[i] = pair
        total += pair
    desk.total = total


@inlined
def _largest_gain(desk: Any) -> float:
    """Return the gain of a cut with two pure children, reduced by the possible rounding error."""
    # In _score_pair_sums all of the target on one side: t·(W − t) / W = t − t² / W.
    weight, second = _pair_weight(desk.total), _pair_total(desk.total)
    return (second - second * second / weight) * (1.0 - 1e-9) if desk.n_local == 2 else np.inf


# --- the best cut of one feature ---
# A search sums by bin, scores the cut after each bin, and takes the largest score: plain loops
# without a branch that could be mispredicted.
#
# Missing values are tried on both sides. Each search returns (gain, last bin on the left, shift):
# shift 1 puts the missing values on the left, 0 on the right, -1 means that the node has none. The
# gain is CONSTANT if all rows are in one bin, and NO_CUT if every cut leaves too little on a side.
#
# The gain is the decrease of weight × impurity. Of Gini this is W·(1 − Σ_c (w_c / W)²), which is
# W − Σ_c w_c² / W, so the gain is Σ_c l_c² / L + Σ_c r_c² / R − Σ_c w_c² / W with the weights l of
# the classes on the left and r on the right.

CONSTANT, NO_CUT = -2.0, -1.0


@inlined
def _largest_score(desk: Any, first: Int, last: Int) -> tuple[float, Int]:
    """Return the largest score of the cuts in [first, last) and its cut; NO_CUT if all are below 0.

    Positive floats sort like their bits read as whole numbers, so the number of the cut is stored
    in the lowest bits.
    """
    bits = desk.score.view(np.int64)
    best = np.int64(-1)
    # Without a sign, the compiler needs no test for an index that counts from the end.
    for q in range(np.uint64(first), np.uint64(last)):
        best = max(best, (bits[q] & ~np.int64(255)) | np.int64(q))
    if best < 0:
        return NO_CUT, -1
    return desk.score[best & 255], best & 255


@inlined
def _allowed_cuts(desk: Any, n_cuts: Int, rows_before: Int) -> tuple[Int, Int]:
    """Return the range of the cuts that leave enough rows on both sides."""
    first, last = 0, n_cuts
    if desk.min_leaf > 1:
        while first < last and rows_before + np.int64(desk.rows_upto[first]) < desk.min_leaf:
            first += 1
        while (
            last > first
            and desk.n_rows - rows_before - np.int64(desk.rows_upto[last - 1]) < desk.min_leaf
        ):
            last -= 1
    return first, last


@inlined
def _midway(desk: Any, q: Int, n: Int) -> Int:
    """Return the bin midway between listed bin ``q`` and the next of ``n``."""
    # No row of the node is in between; new rows there go to the nearer side.
    b = np.int64(desk.order[q])
    return b if q + 1 >= n else (b + np.int64(desk.order[q + 1])) >> 1


@inlined
def _note_bin(noted: Array, b: Any) -> None:
    noted[b >> np.uint8(6)] |= np.uint64(1) << np.uint64(b & np.uint8(63))


@inlined
def _list_noted_bins(desk: Any) -> Int:
    """List the noted bins in ascending order and clear the notes; return their number."""
    n = np.uint64(0)
    for i in range(4):
        word = desk.noted[i]
        desk.noted[i] = np.uint64(0)
        while word != 0:
            desk.order[n] = np.uint64(i << 6) + _lowest_bit(word)
            n += np.uint64(1)
            word &= word - np.uint64(1)  # clears the lowest bit
    return np.int64(n)


@inlined
def _list_filled_bins(content: Array, nothing: Any, n_bins: Int, order: Array) -> Int:
    """List the bins that hold rows, by a look at every bin; return their number."""
    n = np.uint64(0)
    for b in range(n_bins):
        order[n] = b  # overwritten by the next bin if this one is empty
        n += np.uint64(content[b] != nothing)
    order[n] = MISSING
    n += np.uint64(content[MISSING] != nothing)
    return np.int64(n)


@inlined
def _count_rows_upto(column: Column, rows: Array, desk: Any, n: Int) -> None:
    """Count the rows in each listed bin and those before it."""
    for i in range(rows.shape[0]):
        desk.row_counts[column.matrix[column.offset + np.uint64(rows[i]) * column.stride]] += (
            np.uint32(1)
        )
    upto = np.uint32(0)
    for q in range(n):
        b = desk.order[q]
        upto += desk.row_counts[b]
        desk.row_counts[b] = np.uint32(0)
        desk.rows_upto[q] = upto


# Two classes, or a regression target.


@inlined
def _score_pair_sums(desk: Any, n: Int, total: Any, more: Any) -> None:
    """Score the cuts after each of the first ``n`` running sums plus ``more``."""
    least = desk.min_weight
    weight, target = _pair_weight(total), _pair_total(total)
    for q in range(n):
        left = desk.sums[q] + more
        left_weight = _pair_weight(left)
        right_weight = weight - left_weight
        # With target sums l + r = t and weights L + R = W, the decrease of the squared error,
        # l² / L + r² / R − t² / W, is (l·W − t·L)² / (L·R·W): one division instead of three.
        apart = _pair_total(left) * weight - target * left_weight
        over = left_weight * right_weight * weight
        enough = (over > 0.0) & (min(left_weight, right_weight) >= least)
        desk.score[q] = apart * apart / over if enough else -1.0


@inlined
def _best_of_sums(desk: Any, n: Int, missing: Any) -> tuple[float, Int, Int]:
    """Return the best cut after one of ``n`` running sums, with missing values on either side."""
    nothing = missing - missing
    some_missing = missing != nothing
    # Rounded like the sums: a cut without rows on its right leaves exactly 0 there.
    total = desk.sums[n - 1] + missing
    best = (NO_CUT, -1, 0 if some_missing else -1)
    for shift in range(2 if some_missing else 1):
        # After the last bin there is a cut only if missing values are on its right.
        n_cuts = n if some_missing and shift == 0 else n - 1
        _score_pair_sums(desk, n_cuts, total, missing if shift else nothing)
        before = desk.n_rows - np.int64(desk.rows_upto[n - 1]) if shift else 0
        first, last = _allowed_cuts(desk, n_cuts, before)
        gain, q = _largest_score(desk, first, last)
        if gain > best[0]:
            best = (gain, q, shift if some_missing else -1)
    return best


@inlined
def _list_running_sums(desk: Any, nothing: Any) -> Int:
    """List the noted bins in ascending order with the sums up to each; return their number.

    The notes and the sums by bin are cleared.
    """
    n = np.uint64(0)
    left = nothing
    for i in range(4):
        word = desk.noted[i]
        desk.noted[i] = np.uint64(0)
        while word != 0:
            b = np.uint64(i << 6) + _lowest_bit(word)
            word &= word - np.uint64(1)
            left += desk.pair_sums[b]
            desk.pair_sums[b] = nothing
            desk.sums[n] = left
            desk.order[n] = b
            n += np.uint64(1)
    return np.int64(n)


@inlined
def _cut_by_listed_sums(
    column: Column, rows: Array, pairs: Array, desk: Any
) -> tuple[float, Int, Int]:
    """Return the best cut if rows are few: only bins that hold rows are looked at."""
    nothing = desk.total - desk.total
    sums = desk.pair_sums
    for i in range(rows.shape[0]):
        b = column.matrix[column.offset + np.uint64(rows[i]) * column.stride]
        sums[b] += pairs[i]
        _note_bin(desk.noted, b)
    n = _list_running_sums(desk, nothing)
    if n < 2:
        return CONSTANT, -1, -1
    left = desk.sums[n - 1]
    missing = nothing
    if desk.min_leaf > 1:
        _count_rows_upto(column, rows, desk, n)
    if desk.order[n - 1] == MISSING:
        n -= 1
        missing = left - desk.sums[n - 1]
    gain, q, shift = _best_of_sums(desk, n, missing)
    if q < 0:
        return gain, -1, shift
    return gain, _midway(desk, q, n), shift


@part
def _sum_pairs_of_group(
    matrix: Array,
    offsets: Any,
    stride: Any,
    rows: Array,
    pairs: Array,
    sums: Array,
    nothing: Any,
    n_group: Int,
) -> None:
    """Sum the pairs by bin of ``n_group`` features, all features of the group row by row.

    An addition waits for the last one to the same place; the others continue meanwhile.
    """
    stay_apart()
    first, second, third, fourth = offsets
    if n_group < GROUP - 1:
        for k in range(n_group):
            offset = first if k == 0 else second
            for i in range(rows.shape[0]):
                b = np.uint64(matrix[offset + np.uint64(rows[i]) * stride])
                sums[b + np.uint64(k << 8)] += pairs[i]
        return
    for i in range(rows.shape[0]):
        at = np.uint64(rows[i]) * stride
        pair = pairs[i]
        sums[matrix[first + at]] += pair
        sums[np.uint64(matrix[second + at]) + np.uint64(256)] += pair
        sums[np.uint64(matrix[third + at]) + np.uint64(512)] += pair
        sums[np.uint64(matrix[fourth + at]) + np.uint64(768)] += pair
    # A group of three was summed as four, with the last feature twice: clear the extra sums.
    for lacking in range(n_group << 8, GROUP << 8):
        sums[lacking] = nothing


@part
def _cut_by_all_sums(
    column: Column, rows: Array, n_bins: Int, number: Int, desk: Any
) -> tuple[float, Int, Int]:
    """Return the best cut of feature ``number`` of its group if rows are many: look at every bin.

    A cut after an empty bin is a second one with the same rows on its left.
    """
    stay_apart()
    nothing = desk.total - desk.total
    sums = desk.pair_sums[number << 8 : (number + 1) << 8]
    missing = sums[MISSING]
    sums[MISSING] = nothing
    left = nothing
    for b in range(n_bins):
        left += sums[b]
        desk.sums[b] = left
        sums[b] = nothing
    if desk.min_leaf > 1:
        for b in range(n_bins):
            desk.order[b] = b
        desk.order[n_bins] = MISSING
        _count_rows_upto(column, rows, desk, n_bins + 1)
    gain, q, shift = _best_of_sums(desk, n_bins, missing)
    if q < 0:
        return NO_CUT if _some_cut(desk, n_bins, missing) else CONSTANT, -1, shift
    # Cuts after empty bins have the same sums: take the middle of the gap, as _midway does.
    low, high = q, q
    while low > 0 and desk.sums[low - 1] == desk.sums[q]:
        low -= 1
    while high < n_bins - 1 and desk.sums[high + 1] == desk.sums[q]:
        high += 1
    return gain, low if high == n_bins - 1 else (low + high + 1) >> 1, shift


@inlined
def _some_cut(desk: Any, n_bins: Int, missing: Any) -> bool:
    """Return whether the rows are in more than one bin."""
    nothing = missing - missing
    filled = np.int64(missing != nothing)
    before = nothing
    for b in range(n_bins):
        filled += desk.sums[b] != before
        before = desk.sums[b]
    return bool(filled > 1)


# Several classes.


@inlined
def _score_squares(desk: Any, q: Any, left_square: float, cross: float, left_weight: float) -> None:
    """Score a cut by the sum over the children of (sum of squared class weights / weight)."""
    # Σ_c r_c² = Σ_c (w_c − l_c)² = Σ w_c² − 2·Σ l_c·w_c + Σ l_c²: no sum over the right side.
    right_weight = desk.weight - left_weight
    right_square = desk.square - cross - cross + left_square
    above = left_square * right_weight + right_square * left_weight
    over = left_weight * right_weight
    enough = (over > 0.0) & (min(left_weight, right_weight) >= desk.min_weight)
    desk.score[q] = above / over if enough else -1.0


@inlined
def _best_of_squares(desk: Any, n_cuts: Int, rows_before: Int) -> tuple[float, Int]:
    first, last = _allowed_cuts(desk, n_cuts, rows_before)
    score, q = _largest_score(desk, first, last)
    return max(score - desk.square / desk.weight, 0.0) if q >= 0 else NO_CUT, q


@inlined
def _sort_by_counting(
    column: Column,
    rows: Array,
    n_bins: Int,
    codes: Array,
    node_weights: Array,
    row_bins: Array,
    sorted_rows: Array,
    desk: Any,
) -> Int:
    """Sort the rows of the node by bin and list the bins; return the number of bins."""
    if rows.shape[0] <= NOTED_ROWS:
        for i in range(rows.shape[0]):
            b = column.matrix[column.offset + np.uint64(rows[i]) * column.stride]
            row_bins[i] = b
            desk.row_counts[b] += np.uint32(1)
            _note_bin(desk.noted, b)
        n = _list_noted_bins(desk)
    else:
        for i in range(rows.shape[0]):
            b = column.matrix[column.offset + np.uint64(rows[i]) * column.stride]
            row_bins[i] = b
            desk.row_counts[b] += np.uint32(1)
        n = _list_filled_bins(desk.row_counts, np.uint32(0), n_bins, desk.order)
    upto = np.uint32(0)
    for q in range(n):
        b = desk.order[q]
        desk.place[b] = upto
        upto += desk.row_counts[b]
        desk.row_counts[b] = np.uint32(0)
        desk.rows_upto[q] = upto
    for i in range(rows.shape[0]):
        b = row_bins[i]
        place = desk.place[b]
        desk.place[b] = place + np.uint32(1)
        sorted_rows[place] = _code_to_sort(i, codes, node_weights)
    return n


@inlined
def _squares_of_sorted(
    codes: Array,
    node_weights: Array,
    sorted_rows: Array,
    totals: Array,
    left: Array,
    progress: Array,
    n_rows: Int,
    first: Int,
    n_local: Int,
) -> None:
    """Write the progress up to and with each of the sorted rows.

    Progress is Σ l_c², Σ l_c·w_c and Σ l_c over the classes. The walk begins at row ``first`` and
    continues at row 0 after the last: missing values are sorted last, and this way they come first.
    """
    for c in range(n_local):
        left[c] = 0.0
    square = cross = weight = 0.0
    for part_number in range(2):
        for p in range(first if part_number == 0 else 0, n_rows if part_number == 0 else first):
            code, w = _sorted_code(sorted_rows[p], codes, node_weights)
            c = code >> np.uint32(8)
            before = left[c]
            # (l + w)² − l² = w·(2·l + w)
            square += w * (before + before + w)
            cross += w * totals[c]
            weight += w
            left[c] = before + w
            progress[3 * p] = square
            progress[3 * p + 1] = cross
            progress[3 * p + 2] = weight


@part
def _cut_by_sorting(
    column: Column,
    rows: Array,
    n_bins: Int,
    codes: Array,
    node_weights: Array,
    totals: Array,
    left: Array,
    row_bins: Array,
    sorted_rows: Array,
    progress: Array,
    desk: Any,
) -> tuple[float, Int, Int]:
    stay_apart()
    n_rows = rows.shape[0]
    n = _sort_by_counting(column, rows, n_bins, codes, node_weights, row_bins, sorted_rows, desk)
    if n < 2:
        return CONSTANT, -1, -1
    missing = desk.order[n - 1] == MISSING
    n -= missing
    n_valid = np.int64(desk.rows_upto[n - 1])
    best = (NO_CUT, -1, 0 if missing else -1)
    for shift in range(2 if missing else 1):
        _squares_of_sorted(
            codes,
            node_weights,
            sorted_rows,
            totals,
            left,
            progress,
            n_rows,
            n_valid if shift else 0,
            desk.n_local,
        )
        n_cuts = n if missing and shift == 0 else n - 1
        for q in range(n_cuts):
            p = (desk.rows_upto[q] - np.uint32(1)) * np.uint32(3)
            _score_squares(
                desk, q, progress[p], progress[p + np.uint32(1)], progress[p + np.uint32(2)]
            )
        gain, q = _best_of_squares(desk, n_cuts, n_rows - n_valid if shift else 0)
        if gain > best[0]:
            best = (gain, _midway(desk, q, n), shift if missing else -1)
    return best


@part
def _sum_classes_of_group(
    matrix: Array,
    offsets: Any,
    stride: Any,
    rows: Array,
    codes: Array,
    node_weights: Array,
    dense: Array,
    n_local: Int,
    n_group: Int,
) -> None:
    """Sum the weights by bin and class of ``n_group`` features, row by row like pairs."""
    stay_apart()
    first, second, third, fourth = offsets
    lanes = np.uint64(n_local)
    size = lanes << np.uint64(8)
    if n_group < GROUP - 1:
        for k in range(n_group):
            offset = first if k == 0 else second
            for i in range(rows.shape[0]):
                code = codes[i]
                cell = np.uint64(k) * size + np.uint64(code >> np.uint32(8))
                cell += np.uint64(matrix[offset + np.uint64(rows[i]) * stride]) * lanes
                dense[cell] += _code_weight(code, node_weights, i)
        return
    for i in range(rows.shape[0]):
        at = np.uint64(rows[i]) * stride
        code = codes[i]
        cell, weight = np.uint64(code >> np.uint32(8)), _code_weight(code, node_weights, i)
        dense[cell + np.uint64(matrix[first + at]) * lanes] += weight
        cell += size
        dense[cell + np.uint64(matrix[second + at]) * lanes] += weight
        cell += size
        dense[cell + np.uint64(matrix[third + at]) * lanes] += weight
        cell += size
        dense[cell + np.uint64(matrix[fourth + at]) * lanes] += weight
    for lacking in range(np.uint64(n_group) * size, np.uint64(GROUP) * size):
        dense[lacking] = 0


@inlined_sums
def _squares_of_dense(
    dense: Array, totals: Array, left: Array, desk: Any, first_bin: Int, n_bins: Int
) -> Int:
    """List the bins that hold rows and score the cut after each; return their number.

    With ``first_bin`` -1 the missing values are on the left from the start.
    """
    lanes = np.uint64(desk.n_local)
    for c in range(lanes):
        left[c] = 0.0
    weight_before = 0.0
    q = np.uint64(0)
    for b in range(first_bin, n_bins):
        row = np.uint64(MISSING if b < 0 else b) * lanes
        square = cross = weight = 0.0
        for c in range(lanes):
            on_left = left[c] + np.float64(dense[row + c])
            left[c] = on_left
            square += on_left * on_left
            cross += on_left * totals[c]
            weight += on_left
        if b >= 0:
            desk.order[q] = b
            _score_squares(desk, q, square, cross, weight)
            q += np.uint64(weight > weight_before)
        weight_before = weight
    return np.int64(q)


@part
def _cut_by_dense(
    column: Column,
    rows: Array,
    n_bins: Int,
    number: Int,
    totals: Array,
    left: Array,
    all_dense: Array,
    desk: Any,
) -> tuple[float, Int, Int]:
    """Return the best cut of feature ``number`` of a group."""
    stay_apart()
    lanes = np.uint64(desk.n_local)
    dense = all_dense[np.uint64(number << 8) * lanes : np.uint64((number + 1) << 8) * lanes]
    missing_row = dense[np.uint64(MISSING) * lanes :]
    missing = False
    for c in range(lanes):
        missing |= missing_row[c] != 0
    best = (CONSTANT, -1, -1)
    for shift in range(2 if missing else 1):
        n = _squares_of_dense(dense, totals, left, desk, -shift, n_bins)
        if n + missing < 2:
            break
        if shift == 0:
            best = (NO_CUT, -1, 0 if missing else -1)
        desk.order[n] = MISSING
        before = 0
        if desk.min_leaf > 1:
            _count_rows_upto(column, rows, desk, n + missing)
            before = desk.n_rows - np.int64(desk.rows_upto[n - 1]) if shift else 0
        n_cuts = n if missing and shift == 0 else n - 1
        gain, q = _best_of_squares(desk, n_cuts, before)
        if gain > best[0]:
            best = (gain, _midway(desk, q, n), shift if missing else -1)
    for cell in range(np.uint64(n_bins) * lanes):
        dense[cell] = 0
    for c in range(lanes):
        missing_row[c] = 0
    return best


BY_ROW, BY_PAIRS, BY_CLASSES = 0, 1, 2


@inlined
def _way(n_rows: Int, n_bins: Int, desk: Any) -> Int:
    """Return the fastest search for features of up to ``n_bins`` bins: sums by bin, or by row."""
    if desk.n_local <= 2:
        return BY_PAIRS if n_bins <= LISTED_BINS * n_rows else BY_ROW
    if desk.n_local <= DENSE_CLASSES and n_bins * desk.n_local <= DENSE_CELLS * n_rows:
        return BY_CLASSES
    return BY_ROW


@inlined
def _sum_group(
    way: Int,
    matrix: Array,
    offsets: Array,
    stride: Any,
    rows: Array,
    first: Int,
    n_group: Int,
    s: Scratch,
    desk: Any,
) -> None:
    """Sum by bin the features from ``first`` on in the list; the last one fills up the group."""
    last = first + n_group - 1
    begin = (
        offsets[s.features[first]],
        offsets[s.features[min(first + 1, last)]],
        offsets[s.features[min(first + 2, last)]],
        offsets[s.features[min(first + 3, last)]],
    )
    if way == BY_PAIRS:
        nothing = desk.total - desk.total
        _sum_pairs_of_group(matrix, begin, stride, rows, s.pairs, desk.pair_sums, nothing, n_group)
    else:
        _sum_classes_of_group(
            matrix, begin, stride, rows, s.codes, s.node_weights, s.dense, desk.n_local, n_group
        )


@inlined
def _best_cut(
    way: Int, column: Column, rows: Array, n_bins: Int, number: Int, s: Scratch, desk: Any
) -> tuple[float, Int, Int]:
    """Return the best cut of one feature, ``number`` of its group."""
    if way == BY_PAIRS:
        return _cut_by_all_sums(column, rows, n_bins, number, desk)
    if way == BY_CLASSES:
        return _cut_by_dense(column, rows, n_bins, number, s.totals, s.left, s.dense, desk)
    if desk.n_local <= 2:
        return _cut_by_listed_sums(column, rows, s.pairs, desk)
    return _cut_by_sorting(
        column,
        rows,
        n_bins,
        s.codes,
        s.node_weights,
        s.totals,
        s.left,
        s.row_bins,
        s.sorted_rows,
        s.progress,
        desk,
    )


# --- random cuts ---
# A group of features is searched together. The bins of the rows are gathered feature by feature,
# each into its own *lane*, and a cut is drawn. Then one pass over the rows sums the left sides of
# all cuts of the group.


class _Lanes(NamedTuple):
    """The lanes of a group: the bins of the node's rows in lane k are at ``(first + k) * width``.

    After the last lane there is one byte per row for the cuts on whose left side the row is.
    """

    row_bins: Array
    first: Any
    width: Any


@inlined
def _padded(n_rows: Int) -> Any:
    return (np.uint64(n_rows) + np.uint64(WIDTH - 1)) & ~np.uint64(WIDTH - 1)


@inlined
def _random_cut(
    column: Column, rows: Array, row_bins: Array, first: Any, state: Array
) -> tuple[float, Int, Int]:
    """Return a cut drawn evenly between the lowest and the highest bin.

    If the node has missing values, one more cut separates them from the others. The bins are
    written to ``row_bins`` from ``first`` on.
    """
    n_rows = np.uint64(rows.shape[0])
    low, top, above = np.uint8(MISSING), np.uint8(0), np.uint8(0)
    if n_rows < np.uint64(WIDTH):
        for i in range(n_rows):
            b = column.matrix[column.offset + np.uint64(rows[i]) * column.stride]
            row_bins[first + i] = b
            low = min(low, b)
            top = max(top, b)
            above = max(above, np.uint8(b + np.uint8(1)))  # the missing bin counts as 0 here
    else:
        # Two loops: the less work per row, the more rows are read from memory at the same time.
        for i in range(n_rows):
            row_bins[first + i] = column.matrix[column.offset + np.uint64(rows[i]) * column.stride]
        for i in range(n_rows, _padded(n_rows)):
            row_bins[first + i] = row_bins[first]
        for i in range(_padded(n_rows)):
            b = row_bins[first + i]
            low = min(low, b)
            top = max(top, b)
            above = max(above, np.uint8(b + np.uint8(1)))
    missing = top == MISSING
    n_cuts = np.int64(above) - 1 - np.int64(low) + missing
    if n_cuts < 1:
        return CONSTANT, -1, -1
    cut = np.int64(low) + _random_below(state, n_cuts)
    if not missing:
        return 0.0, cut, -1
    return 0.0, cut, 0 if cut == np.int64(above) - 1 else _random_below(state, 2)


@inlined
def _gain_of_pairs(
    cut: Int, shift: Int, row_bins: Array, first: Any, pairs: Array, desk: Any
) -> tuple[float, Any]:
    """Return the gain of a cut for two classes or a regression target, and the sum on its left.

    ``row_bins`` holds the bins of the rows. The formula is that of ``_score_pair_sums``.
    """
    add, threshold = np.uint8(max(shift, 0)), np.uint8(cut + max(shift, 0))
    left = desk.total - desk.total
    for i in range(np.uint64(desk.n_rows)):
        left += _pair_if(pairs[i], np.uint8(row_bins[first + i] + add) <= threshold)
    rows_left = np.int64(1)
    if desk.min_leaf > 1:
        rows_left = np.int64(0)
        for i in range(np.uint64(desk.n_rows)):
            rows_left += np.uint8(row_bins[first + i] + add) <= threshold
    return _gain_of_left_pair(left, rows_left, desk), left


@inlined
def _gain_of_left_pair(left: Any, rows_left: Int, desk: Any) -> float:
    weight, left_weight = _pair_weight(desk.total), _pair_weight(left)
    apart = _pair_total(left) * weight - _pair_total(desk.total) * left_weight
    gain = apart * apart / (left_weight * (weight - left_weight) * weight)
    return gain if _is_allowed(rows_left, left_weight, weight, desk) else NO_CUT


@inlined
def _mark_left(lanes: _Lanes, n_lanes: Int, desk: Any) -> Any:
    """Note for each row on the left side of which cuts it is; return where the notes are."""
    row_bins, width = lanes.row_bins, lanes.width
    marks = np.uint64(LANES) * width
    last = n_lanes - 1
    # A group that is not full is filled up with its last cut.
    first = lanes.first * width
    second = (lanes.first + np.uint64(min(1, last))) * width
    third = (lanes.first + np.uint64(min(2, last))) * width
    fourth = (lanes.first + np.uint64(min(3, last))) * width
    add0, top0 = _shift_and_top(0, last, desk)
    add1, top1 = _shift_and_top(1, last, desk)
    add2, top2 = _shift_and_top(2, last, desk)
    add3, top3 = _shift_and_top(3, last, desk)
    for i in range(width):
        row_bins[marks + i] = (
            np.uint8(np.uint8(row_bins[first + i] + add0) <= top0)
            | (np.uint8(np.uint8(row_bins[second + i] + add1) <= top1) << np.uint8(1))
            | (np.uint8(np.uint8(row_bins[third + i] + add2) <= top2) << np.uint8(2))
            | (np.uint8(np.uint8(row_bins[fourth + i] + add3) <= top3) << np.uint8(3))
        )
    return marks


@inlined
def _shift_and_top(lane: Int, last: Int, desk: Any) -> tuple[Any, Any]:
    k = min(lane, last)
    shift = max(desk.lane_shift[k], 0)
    return np.uint8(shift), np.uint8(desk.lane_cut[k] + shift)


@inlined
def _rows_on_left(lanes: _Lanes, marks: Any, lane: Int, desk: Any) -> Int:
    """Return how many rows are left of a cut, or 1 if any number is enough."""
    if desk.min_leaf <= 1:
        return np.int64(1)
    n = np.uint32(0)
    for i in range(np.uint64(desk.n_rows)):
        n += np.uint32((lanes.row_bins[marks + i] >> np.uint8(lane)) & np.uint8(1))
    return np.int64(n)


@part
def _gains_of_pairs(lanes: _Lanes, n_lanes: Int, pairs: Array, desk: Any) -> None:
    """Compute the gains of a group of cuts for a regression target."""
    stay_apart()
    marks = _mark_left(lanes, n_lanes, desk)
    nothing = desk.total - desk.total
    left0 = left1 = left2 = left3 = nothing
    for i in range(np.uint64(desk.n_rows)):
        pair, mark = pairs[i], lanes.row_bins[marks + i]
        left0 += _pair_if(pair, mark & np.uint8(1))
        left1 += _pair_if(pair, (mark >> np.uint8(1)) & np.uint8(1))
        left2 += _pair_if(pair, (mark >> np.uint8(2)) & np.uint8(1))
        left3 += _pair_if(pair, mark >> np.uint8(3))
    for k in range(n_lanes):
        left = left0
        if k == 1:
            left = left1
        elif k == 2:
            left = left2
        elif k == 3:
            left = left3
        rows_left = _rows_on_left(lanes, marks, k, desk)
        desk.lane_gain[k] = _gain_of_left_pair(left, rows_left, desk)


@part
def _gains_of_classes(
    lanes: _Lanes,
    n_lanes: Int,
    rows: Array,
    bits: Any,
    classes: Array,
    weights: Array,
    spread: Array,
    class_of: Array,
    totals: Array,
    left: Array,
    sums: Array,
    best: float,
    desk: Any,
) -> None:
    """Compute the gains of a group of cuts for several classes, see ``_score_squares``.

    If one of them is above ``best``, the class weights on its left are written to ``left``.
    """
    stay_apart()
    marks = _mark_left(lanes, n_lanes, desk)
    group = np.uint64(GROUP)
    for i in range(np.uint64(desk.n_rows)):
        row = _row_of(rows[i], bits)
        weight = _number(weights[row])
        cell = np.uint64(np.uint32(classes[row])) * group
        at = np.uint64(lanes.row_bins[marks + i]) * group
        sum0 = sums[cell] + spread[at] * weight
        sum1 = sums[cell + np.uint64(1)] + spread[at + np.uint64(1)] * weight
        sum2 = sums[cell + np.uint64(2)] + spread[at + np.uint64(2)] * weight
        sum3 = sums[cell + np.uint64(3)] + spread[at + np.uint64(3)] * weight
        sums[cell] = sum0
        sums[cell + np.uint64(1)] = sum1
        sums[cell + np.uint64(2)] = sum2
        sums[cell + np.uint64(3)] = sum3
    n_local = np.uint64(desk.n_local)
    before = desk.square / desk.weight
    best_lane = -1
    for k in range(n_lanes):
        left_square = cross = left_weight = 0.0
        for c in range(n_local):
            on_left = np.float64(sums[np.uint64(np.uint32(class_of[c])) * group + np.uint64(k)])
            left_square += on_left * on_left
            cross += on_left * totals[c]
            left_weight += on_left
        right_square = desk.square - cross - cross + left_square
        gain = max(
            left_square / left_weight + right_square / (desk.weight - left_weight) - before, 0.0
        )
        rows_left = _rows_on_left(lanes, marks, k, desk)
        if not _is_allowed(rows_left, left_weight, desk.weight, desk):
            gain = NO_CUT
        desk.lane_gain[k] = gain
        if gain > best:
            best, best_lane = gain, k
    for c in range(n_local):
        cell = np.uint64(np.uint32(class_of[c])) * group
        if best_lane >= 0:
            left[c] = np.float64(sums[cell + np.uint64(best_lane)])
        for k in range(group):
            sums[cell + k] = 0


@inlined
def _is_allowed(rows_left: Int, left_weight: float, weight: float, desk: Any) -> bool:
    least = min(left_weight, weight - left_weight)
    return (
        min(rows_left, desk.n_rows - rows_left) >= desk.min_leaf
        and least > 0.0
        and least >= desk.min_weight
    )


# --- growing ---


@inlined
def _partition(column: Column, rows: Array, threshold: Int, shift: Int, spill: Array) -> Int:
    """Move the rows that go left to the front, each side in its old order; return their number."""
    top, add = np.uint8(threshold), np.uint8(shift)
    n_left = n_right = np.uint64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        b = column.matrix[column.offset + np.uint64(row) * column.stride]
        goes_left = np.uint64(np.uint8(b + add) <= top)
        rows[n_left] = row
        spill[n_right] = row
        n_left += goes_left
        n_right += np.uint64(1) - goes_left
    for i in range(n_right):
        rows[n_left + i] = spill[i]
    return np.int64(n_left)


@inlined
def _partition_by_bins(
    row_bins: Array, first: Any, rows: Array, threshold: Int, shift: Int, spill: Array
) -> Int:
    """Partition like ``_partition``, if the bins of the rows are in ``row_bins`` from ``first``."""
    top, add = np.uint8(threshold), np.uint8(shift)
    n_left = n_right = np.uint64(0)
    for i in range(rows.shape[0]):
        row = rows[i]
        goes_left = np.uint64(np.uint8(row_bins[first + np.uint64(i)] + add) <= top)
        rows[n_left] = row
        spill[n_right] = row
        n_left += goes_left
        n_right += np.uint64(1) - goes_left
    for i in range(n_right):
        rows[n_left + i] = spill[i]
    return np.int64(n_left)


@inlined
def _look_at_node(
    rows: Array, data: Data, weights: Array, blind: Any, s: Scratch, desk: Any
) -> bool:
    """Write the content of a node to the desk; return whether the node is pure.

    A blind search needs only the latter: then the number of classes is 0, unless the node is pure,
    and nothing is summed but the target of a leaf.
    """
    bits = np.uint64(data.row_bits)
    desk.n_rows = rows.shape[0]
    desk.n_local = 0
    if data.n_classes == 0:
        pure = _all_equal(rows, bits, data.target)
        if pure or not blind:
            _pair_targets(rows, bits, data.target, weights, s.pairs, desk)
        return pure
    if blind:
        pure = _all_equal(rows, bits, data.classes)
        if pure:
            desk.n_local = 1
            s.class_of[0] = data.classes[_row_of(rows[0], bits)]
        return pure
    if data.n_classes <= 2:
        _pair_two_classes(rows, bits, data.classes, weights, s.pairs, desk)
        _total_two_classes(s.totals, s.class_of, desk)
    else:
        _count_classes(
            rows,
            bits,
            data.classes,
            weights,
            s.codes,
            s.node_weights,
            s.totals,
            s.class_of,
            s.local,
            s.dense,
            desk,
        )
        if desk.n_local == 2:
            _pair_two_labels(s.codes, s.node_weights, s.pairs, desk)
    return bool(desk.n_local == 1)


@inlined
def _recall_node(
    rows: Array, data: Data, weights: Array, s: Scratch, n_local: Int, desk: Any
) -> None:
    """Write the content of a node to the desk if its classes and their totals are known."""
    bits = np.uint64(data.row_bits)
    desk.n_rows = rows.shape[0]
    desk.n_local = n_local
    if n_local == 2:
        second = s.class_of[1]
        for i in range(np.uint64(rows.shape[0])):
            row = _row_of(rows[i], bits)
            w = weights[row]
            s.pairs[i] = _make_pair(w, w if data.classes[row] == second else w - w)
        desk.total = _make_pair(np.int64(s.totals[0] + s.totals[1]), np.int64(s.totals[1]))
    square = weight = 0.0
    for c in range(n_local):
        weight += s.totals[c]
        square += s.totals[c] * s.totals[c]
    desk.square, desk.weight = square, weight


@inlined
def _divide_classes(s: Scratch, n_waiting: Int, desk: Any) -> tuple[Int, Int]:
    """Divide the classes of a node among its children by the weights in ``s.left``.

    Those of the left child stay, those of the right child are put on the list of the waiting.
    Return the number of classes on the left, and the length of that list.
    """
    n_left = np.int64(0)
    for c in range(desk.n_local):
        of_class, on_left = s.class_of[c], s.left[c]
        on_right = s.totals[c] - on_left
        if on_right > 0.0:
            s.waiting[n_waiting, 0] = of_class
            s.waiting[n_waiting, 1] = np.int32(on_right)
            n_waiting += 1
        if on_left > 0.0:
            s.class_of[n_left] = of_class
            s.totals[n_left] = on_left
            n_left += 1
    return n_left, n_waiting


@inlined
def _swap(values: Array, i: Int, j: Int) -> None:
    values[i], values[j] = values[j], values[i]


@inlined
def _draw_feature(
    s: Scratch, n_known: Int, n_drawn: Int, n_found: Int, high: Int, blind: bool
) -> Int:
    """Return where in ``features`` the next candidate is.

    ``features`` holds the known constants first (below ``n_known``), then those found constant in
    this node, then the features not drawn yet, then, from ``high`` on, those drawn. A blind search
    skips all constants.
    """
    if blind:
        first = n_known + n_found
        return first + _random_below(s.state, high - first)
    j = n_drawn + _random_below(s.state, high - n_found - n_drawn)
    return j if j < n_known else j + n_found


@inlined
def _draw_group(
    s: Scratch, size: Int, n_known: Int, n_drawn: Int, n_found: Int, high: Int, blind: bool
) -> tuple[Int, Int, Int]:
    """Draw up to ``size`` candidates to ``features`` from ``high`` on: (draws, n_drawn, high)."""
    n_draws = 0
    while n_draws < size and high > n_known + n_found:
        n_draws += 1
        j = _draw_feature(s, n_known, n_drawn, n_found, high, blind)
        if j < n_known:
            _swap(s.features, n_drawn, j)
            n_drawn += 1
        else:
            high -= 1
            _swap(s.features, j, high)
    return n_draws, n_drawn, high


@inlined
def _choose_split(
    matrix: Array,
    offsets: Array,
    stride: Any,
    rows: Array,
    n_known: Int,
    n_bins: Array,
    most_bins: Int,
    limits: Limits,
    s: Scratch,
    desk: Any,
) -> tuple[Int, float, Int, Int, Int]:
    """Return the best cut of the candidate features.

    As (feature or -1, gain, last bin on the left, shift, known constants).
    """
    way = _way(rows.shape[0], most_bins, desk)
    size = GROUP if way == BY_PAIRS or (way == BY_CLASSES and desk.n_local <= GROUP_CLASSES) else 1
    perfect = _largest_gain(desk)
    feature: Int = -1
    best, cut, shift = NO_CUT, 0, -1
    n_drawn = n_found = n_visited = np.int64(0)
    high = n_bins.shape[0]
    done = False
    # As in scikit-learn, the search goes on beyond the candidates as long as all are constant.
    while (
        not done
        and high > n_known + n_found
        and (n_visited < limits.n_candidates or n_visited <= n_found + n_drawn)
    ):
        end = high
        wanted = min(size, max(limits.n_candidates - n_visited, 1))
        n_draws, n_drawn, high = _draw_group(s, wanted, n_known, n_drawn, n_found, high, False)
        n_visited += n_draws
        first = high
        if size > 1 and end > first:
            _sum_group(way, matrix, offsets, stride, rows, first, end - first, s, desk)
        for at in range(first, end):
            f = s.features[at]
            column = Column(matrix, offsets[f], stride)
            if size == 1:
                way = _way(rows.shape[0], np.int64(n_bins[f]), desk)
                if way != BY_ROW:
                    _sum_group(way, matrix, offsets, stride, rows, at, np.int64(1), s, desk)
            gain, b, side = _best_cut(way, column, rows, np.int64(n_bins[f]), at - first, s, desk)
            if gain == CONSTANT:  # moves to those not drawn, and from there to the constants
                _swap(s.features, at, high)
                _swap(s.features, high, n_known + n_found)
                high += 1
                n_found += 1
            elif gain > best:
                feature, best, cut, shift = f, gain, b, side
                done = gain >= perfect
    _put_constants_back(s, n_known, n_found)
    return feature, best, cut, shift, n_known + n_found


@inlined
def _put_constants_back(s: Scratch, n_known: Int, n_found: Int) -> None:
    # Drawing has reordered the known constants, but nodes higher up rely on the order of the first
    # ones: put them back, and add those found here.
    for i in range(n_known):
        s.features[i] = s.constants[i]
    for i in range(n_known, n_known + n_found):
        s.constants[i] = s.features[i]


@inlined
def _choose_random_split(
    matrix: Array,
    offsets: Array,
    stride: Any,
    rows: Array,
    bits: Any,
    n_known: Int,
    classes: Array,
    weights: Array,
    blind: Any,
    limits: Limits,
    s: Scratch,
    desk: Any,
) -> tuple[Int, float, Int, Int, Int, Int]:
    """Return the best of one random cut of each candidate feature.

    As (feature or -1, gain, last bin on the left, shift, known constants, lane of the bins). With
    several classes, or two, the class weights on its left are in ``s.left``.
    """
    by_chance = limits.splitter == COMPLETELY_RANDOM
    # With two classes one cut is drawn at a time: if both its children are pure, it is the last.
    size = 1 if by_chance or desk.n_local == 2 else GROUP
    perfect = _largest_gain(desk)
    width = _padded(rows.shape[0])
    feature: Int = -1
    best, cut, shift = NO_CUT, 0, -1
    best_lane: Int = -1
    n_drawn = n_found = n_visited = np.int64(0)
    high = s.features.shape[0]
    done = False
    while not done and _looks_further(n_visited, n_known, n_drawn, n_found, high, limits):
        first = GROUP if 0 <= best_lane < GROUP else 0  # the bins of the best cut stay in memory
        n_lanes = np.int64(0)
        while n_lanes < size and _looks_further(n_visited, n_known, n_drawn, n_found, high, limits):
            end = high
            n_draws, n_drawn, high = _draw_group(
                s, np.int64(1), n_known, n_drawn, n_found, high, by_chance
            )
            n_visited += n_draws
            if high == end:  # a known constant
                continue
            f = s.features[high]
            column = Column(matrix, offsets[f], stride)
            found, b, side = _random_cut(
                column, rows, s.row_bins, np.uint64(first + n_lanes) * width, s.state
            )
            if found == CONSTANT:  # moves to those not drawn, and from there to the constants
                _swap(s.features, high, n_known + n_found)
                high += 1
                n_found += 1
                continue
            desk.lane_feature[n_lanes] = f
            desk.lane_cut[n_lanes] = b
            desk.lane_shift[n_lanes] = side
            desk.lane_gain[n_lanes] = 0.0
            n_lanes += 1
        if n_lanes == 0:
            break
        if not blind:
            _score_lanes(first, n_lanes, width, rows, bits, classes, weights, best, s, desk)
        for k in range(n_lanes):
            gain = desk.lane_gain[k]
            if gain > best:
                feature, best, best_lane = desk.lane_feature[k], gain, first + k
                cut, shift = desk.lane_cut[k], desk.lane_shift[k]
                done = by_chance or gain >= perfect
    if not by_chance:  # which does not move the known constants
        _put_constants_back(s, n_known, n_found)
    return feature, best, cut, shift, n_known + n_found, best_lane


@inlined
def _looks_further(
    n_visited: Int, n_known: Int, n_drawn: Int, n_found: Int, high: Int, limits: Limits
) -> bool:
    # As in scikit-learn, the search goes on beyond the candidates as long as all are constant.
    return bool(
        high > n_known + n_found
        and (n_visited < limits.n_candidates or n_visited <= n_found + n_drawn)
    )


@inlined
def _score_lanes(
    first: Int,
    n_lanes: Int,
    width: Any,
    rows: Array,
    bits: Any,
    classes: Array,
    weights: Array,
    best: float,
    s: Scratch,
    desk: Any,
) -> None:
    """Compute the gains of the cuts in ``n_lanes`` lanes from ``first`` on."""
    lanes = _Lanes(s.row_bins, np.uint64(first), width)
    if desk.n_local > 2:
        _gains_of_classes(
            lanes,
            n_lanes,
            rows,
            bits,
            classes,
            weights,
            s.spread,
            s.class_of,
            s.totals,
            s.left,
            s.dense,
            best,
            desk,
        )
    elif n_lanes > 1:
        _gains_of_pairs(lanes, n_lanes, s.pairs, desk)
    else:
        gain, left = _gain_of_pairs(
            desk.lane_cut[0],
            desk.lane_shift[0],
            s.row_bins,
            np.uint64(first) * width,
            s.pairs,
            desk,
        )
        desk.lane_gain[0] = gain
        if gain > best:
            s.left[1] = _pair_total(left)
            s.left[0] = _pair_weight(left) - s.left[1]


@inlined
def _write_leaf(node: Int, n_classes: Int, s: Scratch, desk: Any, out: Output) -> None:
    n_shared = out.made[SHARED_MADE]
    value = n_shared | SHARED
    if n_classes == 0:
        out.leaf_value[n_shared] = _pair_total(desk.total) / _pair_weight(desk.total)
        out.made[SHARED_MADE] = n_shared + 1
    elif desk.n_local == 1:
        value = np.int64(s.class_of[0])
    else:
        n_entries = out.made[ENTRIES_MADE]
        weight = 0.0
        for c in range(desk.n_local):
            weight += s.totals[c]
        for c in range(desk.n_local):
            out.leaf_class[n_entries + c] = s.class_of[c]
            out.leaf_share[n_entries + c] = s.totals[c] / weight
        n_entries += desk.n_local
        out.made[ENTRIES_MADE] = n_entries
        out.made[SHARED_MADE] = n_shared + 1
        out.leaf_start[n_shared + 1] = n_entries
    out.nodes[node] = pack_node(LEAF, 0, 0, value)


@inlined
def _write_pure_leaf(
    node: Int, of_class: Int, p_start: Int, p_end: Int, n_held: Int, out: Output
) -> Int:
    """Write a leaf of one class; return the number of leaves with passengers so far."""
    out.nodes[node] = pack_node(LEAF, 0, 0, of_class)
    if p_end > p_start:
        out.passenger_leaf[n_held] = node
        out.passenger_end[n_held] = p_end
        n_held += 1
    return n_held


@inlined
def _push(
    stack: Array,
    top: Int,
    node: Int,
    start: Int,
    end: Int,
    p_start: Int,
    p_end: Int,
    depth: Int,
    n_known: Int,
    n_classes: Int,
) -> None:
    stack[top, 0] = node
    stack[top, 1] = start
    stack[top, 2] = end
    stack[top, 3] = p_start
    stack[top, 4] = p_end
    stack[top, 5] = depth
    stack[top, 6] = n_known
    stack[top, 7] = n_classes


@kernel
def grow_tree(
    data: Data,
    limits: Limits,
    weights: Array,
    bag: Array,
    passengers: Array,
    seed: Int,
    s: Scratch,
    out: Output,
) -> None:
    """Grow one tree on the rows ``bag`` into ``out``; both lists of rows are reordered by leaf.

    Both are lists of addresses, see ``Data``; ``weights`` are those of rows.
    """
    # A completely random tree looks at the target only to see whether a node is pure: a node can be
    # split *blind*, without sums, unless the gain or the sizes of the children matter.
    desk = s.desk[0]
    desk.min_leaf, desk.min_weight = limits.min_leaf, limits.min_weight
    by_chance = limits.splitter == COMPLETELY_RANDOM
    never_weighs = by_chance and not limits.measure
    never_weighs = never_weighs and limits.min_leaf == 1 and limits.min_weight == 0.0
    s.state[0] = seed
    most_bins: Int = np.int64(0)
    for f in range(data.n_bins.shape[0]):
        most_bins = max(most_bins, np.int64(data.n_bins[f]))
        s.features[f] = f
        out.importances[f] = 0.0
    out.node_rows[0] = bag.shape[0]
    out.leaf_start[0] = 0
    out.made[SHARED_MADE] = 0
    out.made[ENTRIES_MADE] = 0
    # In a random search the class weights of the children are known from the cut: a node does not
    # count its classes again, and a pure one is not read at all. Not so with fractions, whose
    # differences are rounded.
    inherits = limits.splitter == RANDOM and data.n_classes > 0 and _are_counts(weights)
    n_listed = n_waiting = np.int64(0)
    n_nodes, n_held, n_stack, zero = np.int64(1), np.int64(0), np.int64(1), np.int64(0)
    _push(s.stack, zero, zero, zero, bag.shape[0], zero, passengers.shape[0], zero, zero, zero)
    while n_stack > 0:
        n_stack -= 1
        node = np.int64(s.stack[n_stack, 0])
        start, end = np.int64(s.stack[n_stack, 1]), np.int64(s.stack[n_stack, 2])
        p_start, p_end = np.int64(s.stack[n_stack, 3]), np.int64(s.stack[n_stack, 4])
        depth, n_known = np.int64(s.stack[n_stack, 5]), np.int64(s.stack[n_stack, 6])
        if s.stack[n_stack, 7] > 0:  # a right child, whose classes are the last on the list
            n_listed = np.int64(s.stack[n_stack, 7])
            n_waiting -= n_listed
            for c in range(n_listed):
                s.class_of[c] = s.waiting[n_waiting + c, 0]
                s.totals[c] = s.waiting[n_waiting + c, 1]
        rows = bag[start:end]
        n = rows.shape[0]
        by_row = n < data.by_row_below
        matrix = data.by_row if by_row else data.by_column
        stride = np.uint64(data.row_stride if by_row else 1)
        offsets = data.row_offsets if by_row else data.column_offsets

        grows = depth < limits.max_depth and n >= limits.min_split and n >= 2 * limits.min_leaf
        blind = grows and never_weighs
        recalled = n_listed > 0 and (grows or n_listed == 1)
        if recalled:
            _recall_node(rows, data, weights, s, n_listed, desk)
            pure = n_listed == 1
        else:
            pure = _look_at_node(rows, data, weights, blind, s, desk)
        feature, gain, cut, shift, lane = np.int64(-1), 0.0, 0, -1, np.int64(-1)
        if grows and not pure and limits.splitter != BEST:
            feature, gain, cut, shift, n_known, lane = _choose_random_split(
                matrix,
                offsets,
                stride,
                rows,
                np.uint64(data.row_bits),
                n_known,
                data.classes,
                weights,
                blind,
                limits,
                s,
                desk,
            )
        elif grows and not pure:
            feature, gain, cut, shift, n_known = _choose_split(
                matrix,
                offsets,
                stride,
                rows,
                n_known,
                data.n_bins,
                most_bins,
                limits,
                s,
                desk,
            )
        if feature < 0:
            if (blind or recalled) and not pure:  # all rows are alike, but of several classes
                _look_at_node(rows, data, weights, False, s, desk)
            _write_leaf(node, data.n_classes, s, desk, out)
            if p_end > p_start:
                out.passenger_leaf[n_held] = node
                out.passenger_end[n_held] = p_end
                n_held += 1
            continue

        column = Column(matrix, offsets[feature], stride)
        if lane >= 0:
            at = np.uint64(lane) * _padded(n)
            n_left = _partition_by_bins(
                s.row_bins, at, rows, cut + max(shift, 0), max(shift, 0), s.spill
            )
        else:
            n_left = _partition(column, rows, cut + max(shift, 0), max(shift, 0), s.spill)
        if shift < 0:  # a missing value that first occurs later goes to the larger child
            shift = 1 if n_left * 2 > n else 0
        p_left = _partition(column, passengers[p_start:p_end], cut + shift, shift, s.spill)
        out.nodes[node] = pack_node(feature, (cut + shift) & 255, shift, n_nodes)
        # For two classes with target 0 or 1 the squared error is half of the Gini impurity.
        out.importances[feature] += 2.0 * gain if desk.n_local == 2 else gain
        middle, p_middle = start + n_left, p_start + p_left
        left, right = n_nodes, n_nodes + 1
        out.node_rows[left], out.node_rows[right] = n_left, n - n_left
        n_nodes += 2
        n_before = n_waiting
        if inherits:
            n_listed, n_waiting = _divide_classes(s, n_waiting, desk)
        on_right = n_waiting - n_before
        # A pure child is written at once, unless its passengers have to wait for others before.
        left_grows = n_listed != 1
        right_grows = on_right != 1 or (left_grows and p_end > p_middle)
        if not left_grows:
            n_held = _write_pure_leaf(left, s.class_of[0], p_start, p_middle, n_held, out)
        if not right_grows:
            n_waiting -= 1
            of_class = s.waiting[n_waiting, 0]
            n_held = _write_pure_leaf(right, of_class, p_middle, p_end, n_held, out)
        if right_grows:
            _push(
                s.stack, n_stack, right, middle, end, p_middle, p_end, depth + 1, n_known, on_right
            )
            n_stack += 1
        if left_grows:
            _push(
                s.stack, n_stack, left, start, middle, p_start, p_middle, depth + 1, n_known, zero
            )
            n_stack += 1
    out.made[NODES_MADE] = n_nodes
    out.made[HELD_MADE] = n_held


# --- after growing ---


@kernel
def add_passengers(
    nodes: Array,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    passengers: Array,
    passenger_leaf: Array,
    passenger_end: Array,
    place: Array,
    row_bits: Int,
    position: Array,
    sums: Array,
    votes: Array,
) -> None:
    """Add the leaf of each passenger to its sums and count the vote.

    ``place`` says where in ``sums`` and ``votes`` a row begins, ``position`` how far from there a
    window is, by its address within the row. Passengers are sorted by leaf, so that each leaf is
    read once.
    """
    bits = np.uint64(row_bits)
    within = (np.uint64(1) << bits) - np.uint64(1)
    first = 0
    for k in range(passenger_leaf.shape[0]):
        value = np.int64(nodes[passenger_leaf[k]] & np.uint64(0xFFFFFFFF))
        for i in range(first, passenger_end[k]):
            address = np.uint64(passengers[i])
            at = place[_row_of(address, bits)] + position[address & within]
            votes[at] += 1
            if value < SHARED:
                sums[at, value] += 1
            elif leaf_value.shape[0] > 0:
                sums[at, 0] += leaf_value[value - SHARED]
            else:
                for entry in range(leaf_start[value - SHARED], leaf_start[value - SHARED + 1]):
                    sums[at, leaf_class[entry]] += leaf_share[entry]
        first = passenger_end[k]


@kernel
def renumber_leaves(nodes: Array, by: int) -> None:
    """Add ``by`` to the numbers of the shared leaves."""
    for i in range(nodes.shape[0]):
        node = nodes[i]
        if (node >> np.uint64(41)) == LEAF and (node & np.uint64(SHARED)) != 0:
            nodes[i] = node + np.uint64(by)
