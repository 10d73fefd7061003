"""Pass rows down the trees of a grown forest, one block of rows at a time.

The rows of a block go down a tree together: each node divides its rows among its children, as it
did when the tree grew. So a node is read once for all its rows instead of once per row. If only a
few rows are left at a node, they walk the rest of the way one by one.

- ``add_block``        adds the predictions of the trees for a block of binned rows
- ``leaves_of_block``  the leaf of each row in each tree
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._compile import inlined, kernel
from .kernels import LEAF, SHARED

Array = npt.NDArray[Any]

FEW_ROWS = 3  # up to this number, rows walk one by one


@inlined
def _is_leaf(node: Any) -> Any:
    return (node >> np.uint64(41)) == np.uint64(LEAF)


@inlined
def _goes_right(node: Any, row_start: Any, rows: Array) -> Any:
    """Return 1 if the row whose bins begin at ``row_start`` goes right at ``node``, else 0."""
    shifted = np.uint8(
        rows[row_start + (node >> np.uint64(41))] + np.uint8((node >> np.uint64(40)) & np.uint64(1))
    )
    return np.uint64(shifted > np.uint8((node >> np.uint64(32)) & np.uint64(255)))


@inlined
def _walk(rows: Array, row_start: Any, nodes: Array, root: Any, at: Any) -> Any:
    """Return the leaf that a row reaches from node ``at``."""
    node = nodes[root + at]
    while not _is_leaf(node):
        # The right child follows the left one, so the comparison is added instead of branched on.
        at = (node & np.uint64(0xFFFFFFFF)) + _goes_right(node, row_start, rows)
        node = nodes[root + at]
    return at


@inlined
def _divide(rows: Array, row_stride: Any, node: Any, part: Array, spill: Array) -> Any:
    """Move the rows of ``part`` that go left at ``node`` to the front; return how many they are."""
    feature = node >> np.uint64(41)
    shift = np.uint8((node >> np.uint64(40)) & np.uint64(1))
    threshold = np.uint8((node >> np.uint64(32)) & np.uint64(255))
    n_left = n_right = np.uint64(0)
    for i in range(part.shape[0]):
        row = part[i]
        # Each row is written to both lists and only one of them grows: no branch to mispredict.
        left = np.uint64(np.uint8(rows[np.uint64(row) * row_stride + feature] + shift) <= threshold)
        part[n_left] = row
        spill[n_right] = row
        n_left += left
        n_right += np.uint64(1) - left
    for i in range(n_right):
        part[n_left + i] = spill[i]
    return n_left


@inlined
def _find_leaves(
    rows: Array,
    row_stride: Any,
    nodes: Array,
    root: Any,
    order: Array,
    spill: Array,
    stack: Array,
    leaves: Array,
) -> None:
    """Write the leaf of each row to ``leaves``, counted from the root."""
    for i in range(order.shape[0]):
        order[i] = i
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, order.shape[0]
    n_stack = 1
    while n_stack > 0:
        n_stack -= 1
        at, start, end = np.uint64(stack[n_stack, 0]), stack[n_stack, 1], stack[n_stack, 2]
        part = order[start:end]
        node = nodes[root + at]
        if _is_leaf(node):
            for i in range(part.shape[0]):
                leaves[part[i]] = at
        elif part.shape[0] <= FEW_ROWS:
            for i in range(part.shape[0]):
                leaves[part[i]] = _walk(rows, np.uint64(part[i]) * row_stride, nodes, root, at)
        else:
            middle = start + np.int64(_divide(rows, row_stride, node, part, spill))
            child = np.int64(node & np.uint64(0xFFFFFFFF))
            if middle < end:
                stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] = child + 1, middle, end
                n_stack += 1
            if middle > start:
                stack[n_stack, 0], stack[n_stack, 1], stack[n_stack, 2] = child, start, middle
                n_stack += 1


@kernel
def add_block(
    rows: Array,
    row_stride: Any,
    nodes: Array,
    roots: Array,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    order: Array,
    spill: Array,
    stack: Array,
    leaves: Array,
    out: Array,
) -> None:
    """Add the class distributions (or values) of the rows' leaves to ``out`` (rows × classes)."""
    regression = leaf_value.shape[0] > 0
    for tree in range(roots.shape[0] - 1):
        root = np.uint64(roots[tree])
        _find_leaves(rows, np.uint64(row_stride), nodes, root, order, spill, stack, leaves)
        for i in range(order.shape[0]):
            value = np.int64(nodes[root + np.uint64(leaves[i])] & np.uint64(0xFFFFFFFF))
            if value < SHARED:
                out[i, value] += 1.0
            elif regression:
                out[i, 0] += leaf_value[value - SHARED]
            else:
                for entry in range(leaf_start[value - SHARED], leaf_start[value - SHARED + 1]):
                    out[i, leaf_class[entry]] += leaf_share[entry]


@kernel
def leaves_of_block(
    rows: Array,
    row_stride: Any,
    nodes: Array,
    roots: Array,
    order: Array,
    spill: Array,
    stack: Array,
    leaves: Array,
    out: Array,
) -> None:
    """Write the leaf of each row in each tree to ``out`` (rows × trees), numbered in its tree."""
    for tree in range(roots.shape[0] - 1):
        root = np.uint64(roots[tree])
        _find_leaves(rows, np.uint64(row_stride), nodes, root, order, spill, stack, leaves)
        for i in range(order.shape[0]):
            out[i, tree] = leaves[i]
