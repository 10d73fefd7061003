"""Check the JSON of an XGBoost model before XGBoost reads it.

XGBoost follows the numbers of a model without a check; damaged ones end the process or read beyond
its arrays.

- ``check_text``  raises ``ValueError`` unless the text describes valid trees
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

OBJECTIVES = {0: "reg:squarederror", 2: "binary:logistic"}
MULTICLASS = "multi:softprob"
NO_PARENT = 2**31 - 1
LARGEST_CATEGORY = 2**24
WHOLE = {
    *("left_children", "right_children", "parents", "split_indices", "split_type"),
    *("default_left", "categories", "categories_nodes", "categories_segments", "categories_sizes"),
}
"""The arrays of a tree that hold whole numbers."""
PER_NODE = {
    *("left_children", "right_children", "parents", "split_indices", "split_type", "default_left"),
    *("base_weights", "loss_changes", "split_conditions", "sum_hessian"),
}
TREE = {*WHOLE, *PER_NODE, "id", "tree_param"}


def objective_of(n_classes: int) -> str:
    """Return XGBoost's name of what is learned: classes, or numbers if there are none."""
    return OBJECTIVES.get(n_classes, MULTICLASS)


def check_text(text: str, n_features: int, n_classes: int) -> None:
    """Raise ``ValueError`` unless the text is a model of these features and classes."""
    try:
        _check(json.loads(text), n_features, n_classes)
    except (KeyError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"XGBoost's model lacks something: {error}") from None


def _check(model: dict[str, Any], n_features: int, n_classes: int) -> None:
    """Check header and trees."""
    _exactly(model, {"learner", "version"})
    learner = model["learner"]
    _exactly(
        learner,
        {
            *("attributes", "feature_names", "feature_types", "gradient_booster"),
            *("learner_model_param", "objective"),
        },
    )
    per_round = n_classes if n_classes > 2 else 1
    params = learner["learner_model_param"]
    types = learner["feature_types"]
    if (
        learner["objective"]["name"] != objective_of(n_classes)
        or params["num_feature"] != str(n_features)
        or params["num_class"] != str(n_classes if n_classes > 2 else 0)
        or params["num_target"] != "1"
        or learner["attributes"] != {}
        or learner["feature_names"] != []
        or len(types) != n_features
        or not set(types) <= {"q", "c"}
    ):
        raise ValueError("XGBoost's model is of other features or classes")
    base = np.array(json.loads(params["base_score"]), np.float64)
    if base.shape != (per_round,) or not np.isfinite(base).all():
        raise ValueError("the base score of XGBoost's model is not a number for each class")
    _check_trees(learner["gradient_booster"], n_features, per_round)


def _check_trees(booster: dict[str, Any], n_features: int, per_round: int) -> None:
    """Check that there are whole rounds of trees, and each of the trees."""
    _exactly(booster, {"model", "name"})
    model = booster["model"]
    _exactly(model, {"cats", "gbtree_model_param", "iteration_indptr", "tree_info", "trees"})
    trees = model["trees"]
    n_rounds = len(trees) // per_round
    if (
        booster["name"] != "gbtree"
        or n_rounds < 1
        or model["gbtree_model_param"]
        != {"num_parallel_tree": "1", "num_trees": str(n_rounds * per_round)}
        or len(trees) != n_rounds * per_round
        or model["tree_info"] != list(range(per_round)) * n_rounds
        or model["iteration_indptr"] != [n * per_round for n in range(n_rounds + 1)]
        or model["cats"] != {"enc": [], "feature_segments": [], "sorted_idx": []}
    ):
        raise ValueError("XGBoost's model does not have whole rounds of trees")
    for number, tree in enumerate(trees):
        _exactly(tree, TREE)
        if not _leads_to_leaves(tree, number, n_features):
            raise ValueError(f"the nodes of tree {number} do not form a tree")


def _leads_to_leaves(tree: dict[str, Any], number: int, n_features: int) -> bool:
    """Return whether all arrays of a tree have the right lengths and every path ends in a leaf."""
    arrays = {name: _numbers(tree[name], name in WHOLE) for name in WHOLE | PER_NODE}
    left, right = arrays["left_children"], arrays["right_children"]
    n_nodes = len(left)
    params = {
        "num_deleted": "0",
        "num_feature": str(n_features),
        "num_nodes": str(n_nodes),
        "size_leaf_vector": "1",
    }
    if (
        n_nodes < 1
        or tree["id"] != number
        or tree["tree_param"] != params
        or any(len(arrays[name]) != n_nodes for name in PER_NODE)
        or not _within(arrays["split_indices"], n_features)
        or not _within(arrays["split_type"], 2)
        or not _within(arrays["default_left"], 2)
    ):
        return False
    inner = left != -1
    node = np.arange(n_nodes)
    parents = np.full(n_nodes, -1)
    # A child comes after its parent and has no other one: then no path can be a circle.
    for child in (left[inner], right[inner]):
        if not ((child > node[inner]) & (child < n_nodes)).all():
            return False
        parents[child] = node[inner]
    children = np.concatenate([left[inner], right[inner]])
    return bool(
        (right[~inner] == -1).all()
        and np.array_equal(np.sort(children), node[1:])
        and arrays["parents"][0] == NO_PARENT
        and np.array_equal(arrays["parents"][1:], parents[1:])
        and _has_its_sets(arrays, inner)
    )


def _has_its_sets(arrays: dict[str, Array], inner: Array) -> bool:
    """Return whether each categorical node, and no other, has a set of categories."""
    nodes, sizes = arrays["categories_nodes"], arrays["categories_sizes"]
    ends = np.cumsum(sizes) if len(sizes) else np.zeros(0, np.int64)
    return bool(
        np.array_equal(nodes, np.flatnonzero(inner & (arrays["split_type"] == 1)))
        and (sizes >= 0).all()
        and np.array_equal(arrays["categories_segments"], ends - sizes)
        and len(arrays["categories"]) == (ends[-1] if len(ends) else 0)
        and _within(arrays["categories"], LARGEST_CATEGORY)
    )


def _exactly(values: dict[str, Any], names: set[str]) -> None:
    """Raise ``ValueError`` unless a JSON object has these names and no others."""
    if not isinstance(values, dict) or set(values) != names:
        raise ValueError("XGBoost's model has other fields than XGBoost writes")


def _numbers(values: list[Any], whole: bool) -> Array:
    """Return a list of finite numbers as an array; raise ``ValueError`` for anything else."""
    allowed = (int,) if whole else (int, float)
    if not isinstance(values, list) or any(type(value) not in allowed for value in values):
        raise ValueError("XGBoost's model has something else where numbers are expected")
    array = np.array(values, np.int64 if whole else np.float64)
    if not np.isfinite(array).all() or (np.abs(array) > np.finfo(np.float32).max).any():
        raise ValueError("XGBoost's model has a number that is too large")
    return array


def _within(numbers: Array, stop: int) -> bool:
    """Return whether all numbers are from 0 to below ``stop``."""
    return bool(((numbers >= 0) & (numbers < stop)).all())
