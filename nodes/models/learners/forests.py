"""Random forests and extremely randomised trees, grown by scikit-learn and kept as plain arrays.

scikit-learn holds the class shares of every node as a dense row, which for many classes is most of a forest's memory.
Prediction needs only the leaves, and a leaf has few classes, so ``ForestArrays`` keeps for each leaf the classes that
occur in it, and takes every finished block of trees out of scikit-learn's hands. Rows find their leaves with
scikit-learn's own ``Tree``, rebuilt from the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from nodes.models.encoder import Form, Precision
from nodes.models.learners.base import Problem, load_array, save_array

if TYPE_CHECKING:
    import numpy as np

LEAF = -1
BLOCKS = 25
ROWS_AT_ONCE = 16_384
ROUNDING = 1e-6
"""How far the class shares of a leaf may be from adding up to 1."""


@dataclass(frozen=True)
class ForestArrays:
    """All trees one after the other: an entry a node, an entry a leaf, or an entry a class of a leaf."""

    nodes_per_tree: np.ndarray
    left: np.ndarray
    """Child for values up to the threshold, numbered within its tree; ``LEAF`` where there is none."""
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    classes_per_leaf: np.ndarray
    leaf_class: np.ndarray
    leaf_share: np.ndarray

    DTYPES: ClassVar[Mapping[str, str]] = {
        "nodes_per_tree": "int32",
        "left": "int32",
        "right": "int32",
        "feature": "int32",
        "threshold": "float64",
        "missing_left": "uint8",
        "classes_per_leaf": "int32",
        "leaf_class": "int32",
        "leaf_share": "float64",
    }

    @classmethod
    def of(cls, trees: list[Any]) -> ForestArrays:
        """From scikit-learn's ``Tree`` objects."""
        return cls.joined([_tree_arrays(tree) for tree in trees])

    @classmethod
    def joined(cls, parts: list[ForestArrays]) -> ForestArrays:
        """One forest after the other."""
        import numpy as np

        return cls(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in cls.DTYPES})

    def save(self, folder: Path) -> None:
        """Write one file a field."""
        for entry in fields(self):
            save_array(folder, f"forest-{entry.name}", getattr(self, entry.name))

    @classmethod
    def load(cls, folder: Path) -> ForestArrays:
        """Read the files back; ``ValueError`` if an array is of another type."""
        import numpy as np

        kinds = {name: np.dtype(dtype) for name, dtype in cls.DTYPES.items()}
        arrays = {name: load_array(folder, f"forest-{name}", kind.kind) for name, kind in kinds.items()}
        return cls(**{name: array.astype(kinds[name], copy=False) for name, array in arrays.items()})

    def check(self, columns: int, classes: int) -> None:
        """``ValueError`` unless every tree leads from its root to its leaves: compiled code follows these numbers."""
        import numpy as np

        if not len(self.nodes_per_tree) or self.nodes_per_tree.min() < 1:
            raise ValueError("a tree has no nodes")
        total, inner, leaf = self.nodes_per_tree.sum(), self.left != LEAF, self.left == LEAF
        position = np.concatenate([np.arange(count) for count in self.nodes_per_tree])
        size = np.repeat(self.nodes_per_tree, self.nodes_per_tree)
        node_arrays = (self.left, self.right, self.feature, self.threshold, self.missing_left)
        sound = (
            all(len(array) == total for array in node_arrays)
            and _between(self.left[inner], position[inner], size[inner])
            and _between(self.right[inner], position[inner], size[inner])
            and _between(self.feature[inner], -1, columns)
            and len(self.classes_per_leaf) == leaf.sum()
            and self.classes_per_leaf.min() >= 1
            and self.classes_per_leaf.sum() == len(self.leaf_class) == len(self.leaf_share)
            and _between(self.leaf_class, -1, classes)
            and _between(self.leaf_share, 0, 1 + ROUNDING)
            and _between(self._shares_per_leaf(), 1 - ROUNDING, 1 + ROUNDING)
        )
        if not sound:
            raise ValueError("the trees of the forest do not hang together")

    def _shares_per_leaf(self) -> np.ndarray:
        import numpy as np

        first = np.cumsum(self.classes_per_leaf) - self.classes_per_leaf
        sums: np.ndarray = np.add.reduceat(self.leaf_share, first)
        return sums

    def trees(self) -> Iterator[ForestArrays]:
        """Each tree by itself; its arrays are views."""
        import numpy as np

        nodes = np.concatenate(([0], np.cumsum(self.nodes_per_tree)))
        leaves = np.concatenate(([0], np.cumsum(self.left == LEAF)))[nodes]
        shares = np.concatenate(([0], np.cumsum(self.classes_per_leaf)))[leaves]
        for tree in range(len(self.nodes_per_tree)):
            node = slice(nodes[tree], nodes[tree + 1])
            share = slice(shares[tree], shares[tree + 1])
            yield ForestArrays(
                self.nodes_per_tree[tree : tree + 1],
                self.left[node],
                self.right[node],
                self.feature[node],
                self.threshold[node],
                self.missing_left[node],
                self.classes_per_leaf[leaves[tree] : leaves[tree + 1]],
                self.leaf_class[share],
                self.leaf_share[share],
            )


@dataclass
class Forest:
    """What the two kinds of forest share; a subclass names the scikit-learn class that grows it."""

    kind: ClassVar[str]
    title: ClassVar[str]
    form: ClassVar[Form] = "codes"
    precision: ClassVar[Precision] = "float32"
    order: ClassVar[Literal["C", "F"]] = "F"
    grower: ClassVar[str]

    trees: int = 100
    max_depth: int | None = None
    min_leaf: int = 1
    max_features: str | float = "sqrt"
    seed: int = 0
    columns: int = 0
    classes: int = 0
    arrays: ForestArrays | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns and classes."""
        return self.columns, self.classes

    def fit(self, problem: Problem) -> None:
        """Grow the trees in blocks; each tree's seed depends on its number alone, never on the blocks."""
        forest = self._unfitted(problem.threads)
        block = max(problem.threads, -(-self.trees // BLOCKS))
        parts = []
        for done in range(0, self.trees, block):
            problem.progress(done / self.trees, f"{done} of {self.trees} trees")
            forest.set_params(n_estimators=min(done + block, self.trees))
            forest.fit(problem.matrix, problem.codes, sample_weight=problem.weights)
            parts.append(ForestArrays.of([tree.tree_ for tree in forest.estimators_[done:]]))
            # a warm start asks only how many trees there are
            forest.estimators_ = [None] * len(forest.estimators_)
        problem.progress(1.0, f"{self.trees} trees")
        self.arrays = ForestArrays.joined(parts)
        self.columns, self.classes = problem.matrix.shape[1], problem.classes

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Mean over the trees of the class shares in the leaf a row comes to, always added up in the same order."""
        import numpy as np

        assert self.arrays is not None
        sums = np.zeros((len(matrix), self.classes))
        blocks = [slice(start, start + ROWS_AT_ONCE) for start in range(0, len(matrix), ROWS_AT_ONCE)]
        with ThreadPoolExecutor(threads) as pool:
            for tree in self.arrays.trees():
                shares_of = _share_finder(tree, self.columns, self.classes)
                for rows, shares in zip(
                    blocks, pool.map(lambda rows, of=shares_of: of(matrix[rows]), blocks), strict=True
                ):
                    sums[rows] += shares
        return sums / len(self.arrays.nodes_per_tree)

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the arrays."""
        assert self.arrays is not None
        self.arrays.save(folder)
        return {"columns": self.columns, "classes": self.classes}

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Self:
        """Read the arrays back."""
        arrays = ForestArrays.load(folder)
        arrays.check(about["columns"], about["classes"])
        return cls(columns=about["columns"], classes=about["classes"], arrays=arrays)

    def _unfitted(self, threads: int) -> Any:
        import sklearn.ensemble

        return getattr(sklearn.ensemble, self.grower)(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_leaf,
            max_features=None if self.max_features == "all" else self.max_features,
            random_state=self.seed,
            n_jobs=threads,
            warm_start=True,
        )


@dataclass
class RandomForest(Forest):
    """Trees on bootstrap samples of the rows; the best split among some columns drawn at random."""

    kind = "random-forest"
    title = "Random forest"
    grower = "RandomForestClassifier"


@dataclass
class ExtraTrees(Forest):
    """Trees on all rows; random thresholds, of which the best is taken."""

    kind = "extra-trees"
    title = "Extra trees"
    grower = "ExtraTreesClassifier"


def _tree_arrays(tree: Any) -> ForestArrays:
    import numpy as np

    nodes = tree.__getstate__()["nodes"]
    leaf = nodes["left_child"] == LEAF
    shares = tree.value[leaf, 0, :]
    row, column = np.nonzero(shares)
    values = {
        "nodes_per_tree": [len(nodes)],
        "left": nodes["left_child"],
        "right": nodes["right_child"],
        "feature": nodes["feature"],
        "threshold": nodes["threshold"],
        "missing_left": nodes["missing_go_to_left"],
        "classes_per_leaf": np.bincount(row, minlength=len(shares)),
        "leaf_class": column,
        "leaf_share": shares[row, column],
    }
    return ForestArrays(**{name: np.asarray(values[name], dtype) for name, dtype in ForestArrays.DTYPES.items()})


def _share_finder(tree: ForestArrays, columns: int, classes: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function that gives each row the class shares of the leaf it comes to."""
    import numpy as np

    walker, leaf_of_node = _walker(tree, columns), np.cumsum(tree.left == LEAF) - 1
    shares = np.zeros((len(tree.classes_per_leaf), classes))
    shares[np.repeat(np.arange(len(shares)), tree.classes_per_leaf), tree.leaf_class] = tree.leaf_share
    return lambda matrix: shares[leaf_of_node[walker.apply(matrix)]]


def _walker(tree: ForestArrays, columns: int) -> Any:
    """scikit-learn's ``Tree`` with the splits of one tree and no class shares."""
    import numpy as np
    from sklearn.tree._tree import NODE_DTYPE, Tree

    nodes = np.zeros(len(tree.left), NODE_DTYPE)
    nodes["left_child"], nodes["right_child"] = tree.left, tree.right
    nodes["feature"], nodes["threshold"] = tree.feature, tree.threshold
    nodes["missing_go_to_left"] = tree.missing_left
    walker = Tree(columns, np.ones(1, np.intp), 1)
    values = np.zeros((len(nodes), 1, 1))
    walker.__setstate__({"max_depth": 0, "node_count": len(nodes), "nodes": nodes, "values": values})
    return walker


def _between(values: np.ndarray, low: Any, high: Any) -> bool:
    return bool(((values > low) & (values < high)).all())
