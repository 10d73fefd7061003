"""Compute how much each feature adds to the prediction of a forest: Shapley values of its trees.

The game of TreeSHAP (Lundberg et al., 2020): features outside of a coalition S are averaged out, a
row goes to both children of their nodes in proportion to the training rows there. A leaf of value
V then counts V · Π_j (o_j if j is in S, else z_j), where o_j is 1 if the row meets all conditions
on feature j on the way to the leaf, else 0, and z_j is the share of training rows that meet them.

If each other feature is in S with probability t, the mean gain by feature i is V · (o_i − z_i) ·
Π_{j≠i} (t·o_j + (1 − t)·z_j), and its integral over t from 0 to 1 is the Shapley value (Owen,
1972). The integrand is a polynomial, so that Gauss's quadrature with half as many points as there
are features on the path is exact. All factors are between 0 and 1: nothing cancels. One walk over a
tree, with the products at all points, serves all leaves and all features.

- ``ForestPaths``           what all rows share: shares of training rows, points, base values
- ``forest_contributions``  contributions of binned rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._compile import inlined, kernel
from .kernels import LEAF, SHARED

if TYPE_CHECKING:
    from .forest import Forest

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ForestPaths:
    """Hold what the contributions of all rows need of a forest.

    ``share[i]`` is the share of the rows of its parent that node ``i`` has. Tree ``t`` is
    integrated with ``n_points[t]`` points; those of all numbers are one after the other in
    ``points`` and ``weights``, from ``first_point[n]`` on. ``depth`` is that of the deepest leaf.
    """

    share: Array
    n_points: Array
    first_point: Array
    points: Array
    weights: Array
    depth: int
    base: Array

    @classmethod
    def of(cls, forest: Forest) -> ForestPaths:
        """Return the paths; where rows were not counted, all leaves have as many."""
        n_nodes = len(forest.nodes)
        is_leaf = (forest.nodes >> np.uint64(41)) == LEAF
        rows = np.zeros(n_nodes)
        rows[is_leaf] = forest.leaf_rows if len(forest.leaf_rows) else 1.0
        share, parent = np.ones(n_nodes), np.zeros(n_nodes, np.int32)
        deepest = np.zeros((forest.n_trees, 2), np.int64)
        base = np.zeros(forest.n_outputs)
        _measure_paths(
            forest.nodes,
            forest.roots,
            forest.leaf_start,
            forest.leaf_class,
            forest.leaf_share,
            forest.leaf_value,
            rows,
            share,
            parent,
            np.zeros((n_nodes, 2), np.int32),
            deepest,
            base,
        )
        # Exact for polynomials of degree 2n − 1; here it is the number of features less one.
        n_points = np.maximum((deepest[:, 1] + 1) // 2, 1)
        most = int(n_points.max())
        numbers = np.arange(most + 1)
        first = numbers * (numbers - 1) // 2  # after the rules of 1, 2, … n − 1 points
        rules = [np.polynomial.legendre.leggauss(n) for n in range(1, most + 1)]
        # Gauss's rules are for the interval from −1 to 1.
        points = np.concatenate([(rule[0] + 1) / 2 for rule in rules])
        weights = np.concatenate([rule[1] / 2 for rule in rules])
        depth = int(deepest[:, 0].max())
        return cls(share, n_points, first, points, weights, depth, base / forest.n_trees)


def forest_contributions(forest: Forest, rows: Array, paths: ForestPaths) -> Array:
    """Return the contributions, rows × (features + 1) × outputs; the last ones are the base."""
    result = np.zeros((len(rows), forest.n_features + 1, forest.n_outputs))
    levels, most = paths.depth + 1, int(paths.n_points.max())
    _add_contributions(
        np.ascontiguousarray(rows).reshape(-1),
        rows.shape[1],
        forest.nodes,
        forest.roots,
        forest.leaf_start,
        forest.leaf_class,
        forest.leaf_share,
        forest.leaf_value,
        paths.share,
        paths.n_points,
        paths.first_point,
        paths.points,
        paths.weights,
        np.full(forest.n_features, -1, np.int32),
        np.empty((levels, 4), np.int64),
        np.empty((levels, 2)),
        np.empty((levels, 3, most)),
        np.empty((levels, forest.n_outputs, most)),
        result,
    )
    result /= forest.n_trees
    result[:, -1] = paths.base
    return result


@inlined
def _is_leaf(node: Any) -> Any:
    return (node >> np.uint64(41)) == np.uint64(LEAF)


@inlined
def _left_child(node: Any) -> Any:
    return np.int64(node & np.uint64(0xFFFFFFFF))


@kernel
def _measure_paths(
    nodes: Array,
    roots: Array,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    rows: Array,
    share: Array,
    parent: Array,
    path: Array,
    deepest: Array,
    base: Array,
) -> None:
    """Write the shares of the nodes, the depth and number of features of each tree, and the base.

    ``rows`` has those of the leaves, and gets those of the other nodes. ``path`` gets of each node
    its depth and how many different features are cut above it.
    """
    for tree in range(roots.shape[0] - 1):
        root, end = roots[tree], roots[tree + 1]
        # A child comes after its parent.
        for at in range(end - 1, root - 1, -1):
            if not _is_leaf(nodes[at]):
                left = root + _left_child(nodes[at])
                rows[at] = rows[left] + rows[left + 1]
                parent[left] = parent[left + 1] = at
                share[left] = rows[left] / rows[at]
                share[left + 1] = rows[left + 1] / rows[at]
        for at in range(root, end):
            node = nodes[at]
            deepest[tree, 0] = max(deepest[tree, 0], np.int64(path[at, 0]))
            deepest[tree, 1] = max(deepest[tree, 1], np.int64(path[at, 1]))
            if _is_leaf(node):
                _add_leaf(
                    node,
                    leaf_start,
                    leaf_class,
                    leaf_share,
                    leaf_value,
                    rows[at] / rows[root],
                    base,
                )
                continue
            left = root + _left_child(node)
            above, is_new = np.int64(at), 1
            while above != root:
                above = np.int64(parent[above])
                if (nodes[above] >> np.uint64(41)) == (node >> np.uint64(41)):
                    is_new = 0
                    break
            for child in (left, left + 1):
                path[child, 0] = path[at, 0] + 1
                path[child, 1] = path[at, 1] + is_new


@inlined
def _add_leaf(
    node: Any,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    factor: Any,
    out: Array,
) -> None:
    """Add ``factor`` times the class distribution (or value) of a leaf to ``out``."""
    value = np.int64(node & np.uint64(0xFFFFFFFF))
    if value < SHARED:
        out[value] += factor
    elif leaf_value.shape[0] > 0:
        out[0] += factor * leaf_value[value - SHARED]
    else:
        for entry in range(leaf_start[value - SHARED], leaf_start[value - SHARED + 1]):
            out[leaf_class[entry]] += factor * leaf_share[entry]


@inlined
def _enter(
    level: Any, meets: Any, share: Any, before: Any, points: Array, met: Array, products: Array
) -> None:
    """Write the state of a node that is entered: o and z of its feature, and the products.

    ``before`` is the level at which the feature was cut last, -1 if it was not. ``products`` has
    of each level, for each point: the product of all factors t·o + (1 − t)·z, the one of the
    feature of the cut above, and the gain (o − z) / factor, which a leaf below is multiplied by.
    """
    o, z = meets, share
    if before >= 0:
        o *= met[before, 0]
        z *= met[before, 1]
    met[level, 0] = o
    met[level, 1] = z
    for q in range(points.shape[0]):
        factor = points[q] * o + (1.0 - points[q]) * z
        product = products[level - 1, 0, q] * factor
        if before >= 0:
            product /= products[before, 1, q]
        products[level, 0, q] = product
        products[level, 1, q] = factor
        products[level, 2, q] = (o - z) / factor


@inlined
def _gain(level: Any, before: Any, weights: Array, sums: Array, products: Array) -> Any:
    """Return what the cut above a level adds to its feature, for leaves with these ``sums``.

    Leaves below a cut count with its factor, and no longer with that of the cut before of the same
    feature.
    """
    total = 0.0
    for q in range(weights.shape[0]):
        gain = products[level, 2, q]
        if before >= 0:
            gain -= products[before, 2, q]
        total += weights[q] * sums[q] * gain
    return total


@inlined
def _leave_leaf(
    level: Any,
    feature: Any,
    before: Any,
    node: Any,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    weights: Array,
    products: Array,
    sums: Array,
    out: Array,
) -> None:
    """Add a leaf to the contributions of the feature above it, and to the sums of its parent."""
    gain = _gain(level, before, weights, products[level, 0], products)
    _add_leaf(node, leaf_start, leaf_class, leaf_share, leaf_value, gain, out[feature])
    for q in range(weights.shape[0]):
        product = products[level, 0, q]
        _add_leaf(
            node, leaf_start, leaf_class, leaf_share, leaf_value, product, sums[level - 1, :, q]
        )


@kernel
def _add_contributions(
    rows: Array,
    row_stride: Any,
    nodes: Array,
    roots: Array,
    leaf_start: Array,
    leaf_class: Array,
    leaf_share: Array,
    leaf_value: Array,
    share: Array,
    n_points: Array,
    first_point: Array,
    all_points: Array,
    all_weights: Array,
    last_cut: Array,
    path: Array,
    met: Array,
    products: Array,
    sums: Array,
    out: Array,
) -> None:
    """Add the contributions of all trees to ``out``, rows × features × outputs.

    Level ``d`` of the working arrays is the node at depth ``d`` of the present path. ``path`` has
    its number, how many of its children are done, the feature of the cut above it, and the level
    of the cut before of that feature. ``last_cut`` has the level of the last cut of each feature.
    ``sums`` has the leaves below the node that are done, times their products.
    """
    n_outputs = out.shape[2]
    for tree in range(roots.shape[0] - 1):
        root, n = roots[tree], n_points[tree]
        points = all_points[first_point[n] : first_point[n] + n]
        weights = all_weights[first_point[n] : first_point[n] + n]
        if _is_leaf(nodes[root]):
            continue
        for row in range(out.shape[0]):
            start = row * row_stride
            level = 0
            path[0, 0], path[0, 1] = 0, 0
            for q in range(n):
                products[0, 0, q] = 1.0
                for c in range(n_outputs):
                    sums[0, c, q] = 0.0
            while level >= 0:
                node = nodes[root + path[level, 0]]
                if path[level, 1] < 2:
                    side = path[level, 1]
                    path[level, 1] += 1
                    feature = np.int64(node >> np.uint64(41))
                    shift = np.uint8((node >> np.uint64(40)) & np.uint64(1))
                    threshold = np.uint8((node >> np.uint64(32)) & np.uint64(255))
                    goes = np.int64(np.uint8(rows[start + feature] + shift) > threshold)
                    child = _left_child(node) + side
                    before = np.int64(last_cut[feature])
                    level += 1
                    meets = 1.0 if goes == side else 0.0
                    _enter(level, meets, share[root + child], before, points, met, products)
                    below = nodes[root + child]
                    if _is_leaf(below):
                        _leave_leaf(
                            level,
                            feature,
                            before,
                            below,
                            leaf_start,
                            leaf_class,
                            leaf_share,
                            leaf_value,
                            weights,
                            products,
                            sums,
                            out[row],
                        )
                        level -= 1
                        continue
                    path[level, 0], path[level, 1] = child, 0
                    path[level, 2], path[level, 3] = feature, before
                    last_cut[feature] = level
                    for c in range(n_outputs):
                        for q in range(n):
                            sums[level, c, q] = 0.0
                    continue
                # Both children are done.
                if level > 0:
                    feature, before = path[level, 2], path[level, 3]
                    last_cut[feature] = before
                    for c in range(n_outputs):
                        out[row, feature, c] += _gain(
                            level, before, weights, sums[level, c], products
                        )
                        for q in range(n):
                            sums[level - 1, c, q] += sums[level, c, q]
                level -= 1
