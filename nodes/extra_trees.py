"""Train extremely randomised trees: a forest whose trees split at random thresholds.

Parameters and training are those of the random forest. Only the splitter differs, and that every
tree sees all rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from nodes import random_forest
from nodes.models.training import training_node

DIFFERENT: dict[str, Any] = {"splitter": "random", "bootstrap": False}
"""The arguments of the forest that a random forest does not have."""

KIND = replace(
    random_forest.KIND,
    name="extra-trees",
    title="Extra trees",
    build=partial(random_forest.build, **DIFFERENT),
    build_regressor=partial(random_forest.build_regressor, **DIFFERENT),
    estimator_params={"splitter": "random"},
)
NODE = training_node(
    KIND,
    summary="A forest whose trees split at random thresholds: faster than a random forest, and "
    "different from it.",
    version=2,
    params=random_forest.ForestParams,
    fit=random_forest.fit,
    python=partial(random_forest.python, **DIFFERENT),
    imports=("deepforest.forest.estimators",),
)
