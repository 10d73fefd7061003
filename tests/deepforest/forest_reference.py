"""A plain, slow forest to hold the kernels against: dictionaries, loops and real traversals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deepforest.forest.forest import Forest
from deepforest.forest.prediction import LEAF, SHARED

Array = npt.NDArray[Any]
MISSING = 255


class Node(NamedTuple):
    """A node of a packed tree, spelled out."""

    feature: int  # -1: a leaf
    threshold: int
    shift: int
    value: int  # the left child, or a leaf's class, or SHARED + the number of its distribution


def unpack(word: int) -> Node:
    feature = word >> 41
    return Node(
        -1 if feature == LEAF else feature, (word >> 32) & 255, (word >> 40) & 1, word & 0xFFFFFFFF
    )


def tree_nodes(forest: Forest, tree: int) -> list[Node]:
    return [unpack(int(word)) for word in forest.nodes[forest.roots[tree] : forest.roots[tree + 1]]]


def goes_left(bin_number: int, node: Node) -> bool:
    return (bin_number + node.shift) % 256 <= node.threshold


def leaf_of(nodes: list[Node], row: Array) -> int:
    at = 0
    while nodes[at].feature >= 0:
        at = nodes[at].value + (not goes_left(int(row[nodes[at].feature]), nodes[at]))
    return at


def leaf_vector(forest: Forest, node: Node) -> Array:
    """What a leaf says: class shares, or one number."""
    vector = np.zeros(forest.n_outputs)
    if node.value < SHARED:
        vector[node.value] = 1.0
    elif forest.n_classes == 0:
        vector[0] = forest.leaf_value[node.value - SHARED]
    else:
        entries = slice(*forest.leaf_start[node.value - SHARED : node.value - SHARED + 2])
        vector[forest.leaf_class[entries]] = forest.leaf_share[entries]
    return vector


def traverse(forest: Forest, tree: int, rows: Array) -> Array:
    nodes = tree_nodes(forest, tree)
    return np.array([leaf_vector(forest, nodes[leaf_of(nodes, row)]) for row in rows]).reshape(
        len(rows), forest.n_outputs
    )


def rows_by_node(forest: Forest, tree: int, rows: Array, numbers: Array) -> dict[int, Array]:
    """Which of the rows ``numbers`` reach each node."""
    nodes = tree_nodes(forest, tree)
    reached: dict[int, Array] = {0: numbers}
    for at, node in enumerate(nodes):
        if node.feature >= 0:
            here = reached[at]
            left = np.array([goes_left(int(rows[i, node.feature]), node) for i in here], bool)
            reached[node.value], reached[node.value + 1] = here[left], here[~left]
    return reached


def impurity(target: Array, weights: Array, n_classes: int) -> float:
    """Weight × Gini, or the sum of squared deviations."""
    total = float(weights.sum())
    if total == 0:
        return 0.0
    if n_classes:
        shares = np.bincount(target, weights, n_classes)
        return total - float((shares**2).sum()) / total
    mean = float((weights * target).sum()) / total
    return float((weights * (target - mean) ** 2).sum())


def gain(target: Array, weights: Array, left: Array, n_classes: int) -> float:
    parent = impurity(target, weights, n_classes)
    children = (impurity(target[side], weights[side], n_classes) for side in (left, ~left))
    return parent - sum(children)


def best_gain(
    bins: Array, target: Array, weights: Array, n_classes: int, min_leaf: int = 1
) -> float | None:
    """The largest gain over all features, cuts and sides of missing values, None without a cut."""
    best = None
    for column in bins.T:
        missing = column == MISSING
        for cut in np.unique(column[~missing]):
            for left in (column <= cut, (column <= cut) | missing):
                if min(left.sum(), (~left).sum()) >= min_leaf:
                    value = gain(target, weights, left, n_classes)
                    best = value if best is None else max(best, value)
    return best
