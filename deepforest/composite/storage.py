"""Turn the parts of a fitted composite forest into arrays and JSON, and back.

- ``tree_arrays``, ``read_trees``          the questions of the trees
- ``leaf_arrays``, ``read_leaf_models``    the SVMs in the leaves
- ``describe_leaves``, ``read_leaves``     the facts about the leaves, as JSON
- ``describe_held_out``, ``read_held_out`` the errors on held-out rows, as JSON
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from .leaves import FALLBACKS, LeafModel, LeafRecord
from .training import HeldOutRecord
from .tree import PARTS, QuestionTree

Array = npt.NDArray[Any]

FACTS = tuple(field.name for field in fields(LeafRecord))
# The arrays of the leaves: their names, and the types of their numbers.
LEAF_TYPES = {
    "leaf_n_classes": np.int64,
    "leaf_degree": np.int64,
    "leaf_C": np.float64,
    "leaf_classes": np.int64,
    "leaf_support": np.int32,
    "leaf_n_support": np.int32,
    "leaf_coefficients": np.float64,
    "leaf_intercepts": np.float64,
}


def tree_arrays(trees: Sequence[QuestionTree]) -> dict[str, Array]:
    """Return the nodes of all trees, one tree after the other."""
    arrays = {"n_nodes": np.array([len(tree.left) for tree in trees], np.int64)}
    for part in PARTS:
        arrays[f"node_{part}"] = np.concatenate([getattr(tree, part) for tree in trees])
    return arrays


def read_trees(arrays: Mapping[str, Array], n_features: int) -> list[QuestionTree]:
    """Return the trees; raise ``ValueError`` unless each leads to its leaves."""
    sizes = arrays["n_nodes"]
    if sizes.ndim != 1 or sizes.dtype.kind != "i" or not len(sizes) or sizes.min() < 1:
        raise ValueError("the trees have no nodes")
    parts = {part: arrays[f"node_{part}"] for part in PARTS}
    if any(part.shape != (sizes.sum(),) for part in parts.values()):
        raise ValueError("nodes of a tree are missing")
    trees = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        tree = QuestionTree(**{name: part[end - size : end] for name, part in parts.items()})
        tree.check(n_features)
        trees.append(tree)
    return trees


def leaf_arrays(models: Sequence[Sequence[LeafModel]]) -> dict[str, Array]:
    """Return the models of all leaves of all trees, one after the other."""
    leaves = [model for of_tree in models for model in of_tree]
    values = {
        "leaf_n_classes": [len(leaf.classes) for leaf in leaves],
        "leaf_degree": [leaf.degree for leaf in leaves],
        "leaf_C": [leaf.C for leaf in leaves],
        "leaf_classes": np.concatenate([leaf.classes for leaf in leaves]),
        "leaf_support": np.concatenate([leaf.support for leaf in leaves]),
        "leaf_n_support": np.concatenate([leaf.n_support for leaf in leaves]),
        "leaf_coefficients": np.concatenate([leaf.coefficients.ravel() for leaf in leaves]),
        "leaf_intercepts": np.concatenate([leaf.intercepts for leaf in leaves]),
    }
    return {name: np.asarray(values[name], dtype) for name, dtype in LEAF_TYPES.items()}


def read_leaf_models(
    arrays: Mapping[str, Array], trees: Sequence[QuestionTree]
) -> list[list[LeafModel]]:
    """Return the models of the leaves of each tree; raise ``ValueError`` if numbers are missing."""
    for name, dtype in LEAF_TYPES.items():
        array = arrays[name]
        if array.ndim != 1 or array.dtype != dtype:
            raise ValueError(f"{name} has another type")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds values that are not numbers")
    n_leaves = sum(tree.n_leaves for tree in trees)
    if any(len(arrays[name]) != n_leaves for name in ("leaf_n_classes", "leaf_degree", "leaf_C")):
        raise ValueError("models of leaves are missing")
    reader = _Reader(arrays)
    models = []
    for tree in trees:
        models.append([_read_leaf(reader) for _ in range(tree.n_leaves)])
    if not reader.is_at_end:
        raise ValueError("there are numbers that belong to no leaf")
    return models


class _Reader:
    """Take the next numbers of each array."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = {name: arrays[name] for name in LEAF_TYPES}
        self._place = dict.fromkeys(LEAF_TYPES, 0)

    def take(self, name: str, n: int) -> Array:
        """Return the next ``n`` numbers; raise ``ValueError`` if there are fewer."""
        first = self._place[name]
        taken = self._arrays[name][first : first + n]
        if n < 0 or len(taken) != n:
            raise ValueError(f"numbers of {name} are missing")
        self._place[name] = first + n
        return taken

    @property
    def is_at_end(self) -> bool:
        """Whether all numbers are taken."""
        return all(len(array) == self._place[name] for name, array in self._arrays.items())


def _read_leaf(reader: _Reader) -> LeafModel:
    n_classes = int(reader.take("leaf_n_classes", 1)[0])
    n_support = reader.take("leaf_n_support", n_classes)
    n_vectors = int(n_support.sum())
    coefficients = reader.take("leaf_coefficients", n_vectors * (n_classes - 1))
    return LeafModel(
        classes=reader.take("leaf_classes", n_classes),
        degree=int(reader.take("leaf_degree", 1)[0]),
        C=float(reader.take("leaf_C", 1)[0]),
        support=reader.take("leaf_support", n_vectors),
        n_support=n_support,
        coefficients=coefficients.reshape(n_vectors, n_classes - 1),
        intercepts=reader.take("leaf_intercepts", n_classes * (n_classes - 1) // 2),
    )


def describe_leaves(leaves: Sequence[LeafRecord]) -> dict[str, list[Any]]:
    """Return the facts by name: a list for each, which is shorter than a mapping for each leaf."""
    described = {}
    for name in FACTS:
        described[name] = [getattr(leaf, name) for leaf in leaves]
    return described


def read_leaves(description: Mapping[str, Any]) -> list[LeafRecord]:
    """Return the facts; raise ``ValueError`` or ``KeyError`` if some are missing."""
    columns = [description[name] for name in FACTS]
    records = [LeafRecord(*facts) for facts in zip(*columns, strict=True)]
    if any(record.fallback not in ("", *FALLBACKS) for record in records):
        raise ValueError("a leaf has an unknown fallback")
    return records


def describe_held_out(record: HeldOutRecord | None) -> dict[str, Any] | None:
    """Return the record as JSON; the errors as pairs, because keys of JSON are texts."""
    if record is None:
        return None
    return {**asdict(record), "errors": [list(pair) for pair in record.errors.items()]}


def read_held_out(description: Mapping[str, Any] | None) -> HeldOutRecord | None:
    """Return the record that was described."""
    if description is None:
        return None
    return HeldOutRecord(**{**description, "errors": dict(description["errors"])})
