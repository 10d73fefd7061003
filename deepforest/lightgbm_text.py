"""Check that the text of a LightGBM model describes valid trees.

LightGBM does not check it: a wrong number makes it read other memory, or ends the process.

The text is a header, the trees one after the other, and remarks. A header or a tree is lines of
``name=value``. Inner nodes are numbered from their root on, so that a child has a higher number
than its parent; leaf ``i`` is the child ``-1 - i``. A categorical node has in place of its
threshold the number of a set of levels.

- ``trees_only``  the text without the remarks, which no prediction needs
- ``check_text``  raises ``ValueError`` for a text that is not valid
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LINES = re.compile(r"(?:[a-z_]+=[^\n]*\n)+")
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
PER_NODE = ("split_gain", "threshold", "internal_value", "internal_weight", "internal_count")
CATEGORICAL = 1
"""The bit of ``decision_type`` that marks a categorical node."""
DECISIONS = 16
"""``decision_type`` has four bits: categorical, default side, and two for the missing values."""
END = "end of trees\n"
WHOLE = re.compile(r"-?\d{1,18}(?: -?\d{1,18})*")
FLOAT = r"(?:-?\d+(?:\.\d*)?(?:e[-+]?\d{1,3})?|-?inf|-?nan)"
FLOATS = re.compile(rf"{FLOAT}(?: {FLOAT})*")
# All names that LightGBM writes; any other line is refused, as it could not be checked.
HEADER = {
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "feature_names",
    "feature_infos",
    "tree_sizes",
}
TREE = {
    *PER_LEAF,
    *PER_NODE,
    "num_leaves",
    "num_cat",
    "split_feature",
    "decision_type",
    "left_child",
    "right_child",
    "is_linear",
    "shrinkage",
    "cat_boundaries",
    "cat_threshold",
}


def trees_only(text: str) -> str:
    """Return header and trees; the rest (parameters, importances) could not be checked."""
    return text[: text.find(END) + len(END)] if END in text else text


def check_text(text: str, *, regression: bool = False) -> None:
    """Raise ``ValueError`` unless header and trees agree and every path ends in a leaf."""
    try:
        _check(text, regression)
    except (KeyError, IndexError) as error:
        raise ValueError(f"LightGBM's text lacks something: {error}") from None


def _check(text: str, regression: bool) -> None:
    """Check the header, then each tree at the position that the header gives it."""
    # LightGBM reads the text as a C string and would stop at a zero byte.
    if not text.isascii() or "\0" in text:
        raise ValueError("LightGBM's text holds characters that it never writes")
    start = text.find("\n\n") + 2
    header = _lines(text[:start].removeprefix("tree\n").removesuffix("\n"), HEADER)
    sizes, columns = _whole(header["tree_sizes"]), len(header["feature_names"].split(" "))
    per_round = _trees_per_round(header, regression)
    if (
        _one(header["max_feature_idx"]) + 1 != columns
        or not len(sizes)
        or len(sizes) % per_round
        or sizes.min() < 1
    ):
        raise ValueError("the header of LightGBM's text contradicts itself")
    for number, size in enumerate(sizes.tolist()):
        head, stop = f"Tree={number}\n", start + size
        tree = text[start:stop]
        if not tree.startswith(head):
            raise ValueError(f"tree {number} is not where tree_sizes says")
        if not _leads_to_leaves(_lines(tree.removeprefix(head).rstrip("\n") + "\n", TREE), columns):
            raise ValueError(f"the nodes of tree {number} do not form a tree")
        start = stop
    if text[start:] != END:
        raise ValueError("the trees do not end where tree_sizes says")


def _trees_per_round(header: Mapping[str, str], regression: bool) -> int:
    """Return 1 for numbers and for two classes, else the number of classes.

    Raise ``ValueError`` for another objective: its scores would not be probabilities.
    """
    per_round = _one(header["num_tree_per_iteration"])
    single = "regression" if regression else "binary sigmoid:1"
    objective = single if per_round == 1 else f"multiclass num_class:{per_round}"
    if header["objective"] != objective or _one(header["num_class"]) != per_round or per_round < 1:
        raise ValueError(f"LightGBM's text is of another objective, {header['objective'][:40]!r}")
    return per_round


def _lines(text: str, names: set[str]) -> dict[str, str]:
    """Return the values by name; raise ``ValueError`` for an unknown or repeated name."""
    if not LINES.fullmatch(text):
        raise ValueError("LightGBM's text has lines that are not name=value")
    pairs = [line.split("=", 1) for line in text.splitlines()]
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("LightGBM's text gives a value twice")
    if unknown := sorted(values.keys() - names):
        raise ValueError(f"LightGBM's text gives {unknown[0][:40]!r}, which it never writes")
    return values


def _leads_to_leaves(tree: Mapping[str, str], columns: int) -> bool:
    """Return whether all arrays of a tree have the right lengths and every path ends in a leaf."""
    import numpy as np

    leaves = _one(tree["num_leaves"])
    values = _floats(tree["leaf_value"])
    if leaves < 1 or len(values) != leaves or not np.isfinite(values).all():
        return False
    if tree["is_linear"] != "0" or len(_floats(tree["shrinkage"])) != 1:
        return False
    # A tree without a split has no arrays of inner nodes.
    if leaves == 1:
        return True
    node = np.arange(leaves - 1)
    left, right = _whole(tree["left_child"]), _whole(tree["right_child"])
    feature, decision = _whole(tree["split_feature"]), _whole(tree["decision_type"])
    # LightGBM indexes with these numbers without a check: each must be inside of its array.
    return (
        all(len(array) == len(node) for array in (left, right, feature, decision))
        and all(len(_floats(tree[name])) == leaves for name in PER_LEAF)
        and all(len(_floats(tree[name])) == len(node) for name in PER_NODE)
        and all(_are_children(child, node, leaves) for child in (left, right))
        and _within(feature, columns)
        and _within(decision, DECISIONS)
        and _has_its_sets(tree, _floats(tree["threshold"]), decision & CATEGORICAL > 0)
    )


def _are_children(child: np.ndarray, node: np.ndarray, leaves: int) -> bool:
    """Return whether every child is a leaf or a later inner node: then no path can be a circle."""
    return bool(((child < leaves - 1) & (child >= -leaves) & ((child > node) | (child < 0))).all())


def _has_its_sets(
    tree: Mapping[str, str], threshold: np.ndarray, is_categorical: np.ndarray
) -> bool:
    """Return whether every categorical node points to a set of levels that the text contains."""
    import numpy as np

    sets = _one(tree["num_cat"])
    if np.isnan(threshold).any() or sets < 0:
        return False
    if not sets:
        return not is_categorical.any()
    bounds = _whole(tree["cat_boundaries"])
    return (
        _within(threshold[is_categorical], sets)
        and len(bounds) == sets + 1
        and bounds[0] == 0
        and bool((np.diff(bounds) > 0).all())
        and bounds[-1] == len(_whole(tree["cat_threshold"]))
    )


def _within(numbers: np.ndarray, stop: int) -> bool:
    """Return whether all numbers are from 0 to below ``stop``."""
    return bool(((numbers >= 0) & (numbers < stop)).all())


def _one(text: str) -> int:
    return int(_whole(text).item())


def _whole(text: str) -> np.ndarray:
    return _numbers(text, WHOLE, "int64")


def _floats(text: str) -> np.ndarray:
    return _numbers(text, FLOATS, "float64")


def _numbers(text: str, form: re.Pattern[str], dtype: str) -> np.ndarray:
    """Return the numbers of a line; raise ``ValueError`` for any other format.

    LightGBM ends the process when a number is not written as it expects.
    """
    import numpy as np

    if not form.fullmatch(text):
        raise ValueError("LightGBM's text has something else where numbers are expected")
    try:
        return np.array(text.split(" "), dtype)
    except (ValueError, OverflowError):
        raise ValueError("LightGBM's text has a number that is too large") from None
