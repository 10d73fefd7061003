"""Grow the trees of a composite forest: shallow, by information gain among random columns.

- ``QuestionTree``       the questions of a tree, and which leaf a row reaches
- ``grow_tree``  a tree on all training rows (RNO of the paper: no bag is drawn)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.tree import DecisionTreeClassifier

Array = npt.NDArray[Any]

LEAF = -1
PARTS = ("feature", "threshold", "left", "right")


@dataclass(frozen=True)
class QuestionTree:
    """Hold the questions of a tree: a row goes left if its value is at most the threshold.

    ``left`` and ``right`` are the nodes below each node, ``LEAF`` for a leaf. A child comes after
    its parent.
    """

    feature: Array
    threshold: Array
    left: Array
    right: Array

    def check(self, n_features: int) -> None:
        """Raise ``ValueError`` unless each walk from the root ends in a leaf."""
        n_nodes, inner = len(self.left), np.flatnonzero(self.left != LEAF)
        if not n_nodes or any(getattr(self, part).shape != (n_nodes,) for part in PARTS):
            raise ValueError("nodes of a tree are missing")
        if any(getattr(self, part).dtype.kind != "i" for part in ("feature", "left", "right")):
            raise ValueError("the nodes of a tree are not whole numbers")
        if self.threshold.dtype != np.float64 or np.isnan(self.threshold).any():
            raise ValueError("a threshold is not a number")
        children = np.concatenate([self.left[inner], self.right[inner]])
        # Every node but the root has one parent, and comes after it: no walk can go in a circle.
        if not np.array_equal(np.sort(children), np.arange(1, n_nodes)):
            raise ValueError("the nodes of a tree do not lead to its leaves")
        if not (children > np.concatenate([inner, inner])).all():
            raise ValueError("the nodes of a tree do not lead to its leaves")
        asked = self.feature[inner]
        if not ((asked >= 0) & (asked < n_features)).all():
            raise ValueError("a tree splits a column that does not exist")

    @cached_property
    def leaf_numbers(self) -> Array:
        """The number of each node among the leaves; not meaningful for other nodes."""
        return np.asarray(np.cumsum(self.left == LEAF) - 1)

    @cached_property
    def n_leaves(self) -> int:
        """How many leaves the tree has."""
        return int((self.left == LEAF).sum())

    @cached_property
    def leaf_depths(self) -> Array:
        """The number of questions on the way to each leaf."""
        depths = np.zeros(len(self.left), np.int64)
        for node in np.flatnonzero(self.left != LEAF):
            depths[[self.left[node], self.right[node]]] = depths[node] + 1
        return np.asarray(depths[self.left == LEAF])

    def apply(self, values: Array) -> Array:
        """Return the number of the leaf that each row reaches; ``values`` are scaled columns."""
        node = np.zeros(len(values), np.int64)
        # All rows go down one level at a time, until each is at a leaf.
        rows = np.arange(len(values))
        while len(rows := rows[self.left[node[rows]] != LEAF]):
            at = node[rows]
            # scikit-learn has compared 32-bit floats.
            asked = values[rows, self.feature[at]].astype(np.float32)
            is_left = asked <= self.threshold[at]
            node[rows] = np.where(is_left, self.left[at], self.right[at])
        return np.asarray(self.leaf_numbers[node])


def grow_tree(
    values: Array,
    codes: Array,
    weights: Array | None,
    *,
    n_candidates: int,
    max_depth: int,
    seed: int,
) -> QuestionTree:
    """Return a tree that splits at the largest information gain among ``n_candidates`` columns."""
    grown = DecisionTreeClassifier(
        criterion="entropy", max_features=n_candidates, max_depth=max_depth, random_state=seed
    ).fit(values, codes, weights)
    nodes = grown.tree_
    left = nodes.children_left.astype(np.int32)
    # scikit-learn marks the leaves with other numbers in these two.
    feature = np.where(left == LEAF, 0, nodes.feature).astype(np.int32)
    threshold = np.where(left == LEAF, 0.0, nodes.threshold)
    return QuestionTree(feature, threshold, left, nodes.children_right.astype(np.int32))
