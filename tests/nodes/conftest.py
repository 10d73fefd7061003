"""What the tests of every node use: a context, two of the built-in tables, and small models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.node_types import NodeContext, NodeType
from engine.values import Table
from engine.workspace import Files
from nodes import (
    composite_forest,
    deep_forest,
    extra_trees,
    logistic_regression,
    mart,
    mlp,
    random_forest,
)

LAYERS = {
    "learners": [
        {"kind": "random_forest", "trees": 5, "min_rows": 5},
        {"kind": "completely_random_forest", "trees": 4},
        {"kind": "mart", "trees": 5, "min_rows": 2},
    ],
    "folds": 2,
    "max_layers": 2,
    "patience": 2,
}
MODELS: dict[str, tuple[NodeType, dict[str, Any]]] = {
    "deep-forest": (deep_forest.NODE, LAYERS),
    "mart": (mart.NODE, {"trees": 8, "min_rows": 2, "row_share": 0.8, "column_share": 0.8}),
    "random-forest": (random_forest.NODE, {"trees": 7}),
    "extra-trees": (extra_trees.NODE, {"trees": 7}),
    "composite-forest": (
        composite_forest.NODE,
        {"trees": 7, "max_depth": 2, "degrees": [1, 2, 5], "gamma": 1e-3, "penalty": 1.0},
    ),
    "logistic-regression": (logistic_regression.NODE, {"max_iter": 200}),
    "mlp": (mlp.NODE, {"layers": [11, 7], "epochs": 25, "learning_rate": 0.02}),
}
"""Every node that trains a model, with parameters for a small one. All tests of models use it."""
IN_ONE_STEP = ("logistic-regression",)
"""Models whose fit is a single call of a library, so that a cancel has to wait for its end."""


def make_context(workspace: Path, **settings: Any) -> NodeContext:
    """A context whose files live in ``workspace``; its ``data`` and checkpoint folders exist."""
    (workspace / "data").mkdir(exist_ok=True)
    (workspace / "ck").mkdir(exist_ok=True)
    return NodeContext(
        node="n", key="0" * 64, files=Files(workspace), checkpoint=workspace / "ck", **settings
    )


def load_sample(context: NodeContext, name: str, **params: Any) -> Table:
    """A built-in sample as the ``load-data`` node gives it."""
    from nodes.load_data import NODE

    table = NODE.run(context, {}, NODE.params(source=f"sample:{name}", **params))["table"]
    assert isinstance(table, Table)
    return table


@pytest.fixture
def ctx(tmp_path: Path) -> NodeContext:
    return make_context(tmp_path)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """1,797 rows, 64 number columns, ten classes."""
    return load_sample(make_context(tmp_path_factory.mktemp("digits")), "digits")


@pytest.fixture(scope="session")
def fraud(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """4,000 rows of every kind of column, with missing values; 2 % of them positive."""
    return load_sample(
        make_context(tmp_path_factory.mktemp("fraud")), "fraud", rows=4_000, fraud_share=0.02
    )
