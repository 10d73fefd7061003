"""Walking rows down the trees of a grown forest, a block of rows at a time.

All rows of a block go down a tree together, one level a step: their steps do not wait for each other, and the tree is
read into the cache once a block.

- ``add_block``    adds what the trees say about a block of binned rows
- ``leaves_of_block``  the leaf of each row in each tree
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._compile import inlined, kernel

Array = npt.NDArray[Any]

LEAF = (1 << 23) - 1
SHARED = 1 << 31


@inlined
def _walk(rows: Array, row_stride: int, n: int, nodes: Array, root: int, place: Array, active: Array) -> None:
    """Leave the place of each row's leaf in ``place``, counted from the root."""
    n_active = np.uint64(n)
    first_is_leaf = (nodes[root] >> np.uint64(41)) == LEAF
    for i in range(n):
        place[i] = np.uint32(0)
        active[i] = i
    if first_is_leaf:
        return
    base, width = np.uint64(root), np.uint64(row_stride)
    while n_active > 0:
        n_left = np.uint64(0)
        for a in range(n_active):
            i = active[a]
            node = nodes[base + np.uint64(place[i])]
            b = np.uint8(
                rows[np.uint64(i) * width + (node >> np.uint64(41))] + np.uint8((node >> np.uint64(40)) & np.uint64(1))
            )
            right = np.uint64(b > np.uint8((node >> np.uint64(32)) & np.uint64(255)))
            following = (node & np.uint64(0xFFFFFFFF)) + right
            place[i] = np.uint32(following)
            active[n_left] = i
            n_left += np.uint64((nodes[base + following] >> np.uint64(41)) != LEAF)
        n_active = n_left


@kernel
def add_block(
    rows: Array,
    row_stride: int,
    n: int,
    nodes: Array,
    roots: Array,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    place: Array,
    active: Array,
    out: Array,
) -> None:
    """Add the class distributions (or values) of the leaves of ``n`` rows to ``out`` (n × classes)."""
    regression = leaf_value.shape[0] > 0
    for tree in range(roots.shape[0] - 1):
        root = roots[tree]
        _walk(rows, row_stride, n, nodes, root, place, active)
        for i in range(n):
            value = np.int64(nodes[root + np.int64(place[i])] & np.uint64(0xFFFFFFFF))
            if value < SHARED:
                out[i, value] += 1.0
            elif regression:
                out[i, 0] += leaf_value[value - SHARED]
            else:
                for entry in range(leaf_start[value - SHARED], leaf_start[value - SHARED + 1]):
                    out[i, leaf_class[entry]] += leaf_share[entry]


@kernel
def leaves_of_block(
    rows: Array, row_stride: int, n: int, nodes: Array, roots: Array, place: Array, active: Array, out: Array
) -> None:
    """The leaf of each of ``n`` rows in each tree (n × trees), as the node's number within its tree."""
    for tree in range(roots.shape[0] - 1):
        _walk(rows, row_stride, n, nodes, roots[tree], place, active)
        for i in range(n):
            out[i, tree] = place[i]
