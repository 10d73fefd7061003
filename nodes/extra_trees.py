"""Train extremely randomised trees: a forest whose trees split at random thresholds.

Parameters and training are those of the random forest. Only the splitter differs, and that every
tree sees all rows.
"""

from __future__ import annotations

from engine.export_python import Snippet, Variables
from nodes.models.training import training_node
from nodes.random_forest import ForestParams, fit_forest, forest_script


def python(params: ForestParams, names: Variables) -> Snippet:
    """Return the node as lines of a Python script."""
    return forest_script(params, names, splitter="random", bootstrap=False)


NODE = training_node(
    "extra-trees",
    summary="A forest whose trees split at random thresholds: faster than a random forest, and "
    "different from it.",
    version=2,
    params=ForestParams,
    fit=fit_forest,
    python=python,
    imports=("deepforest.forest.estimators",),
)
