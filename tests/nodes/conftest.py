"""For the tests of all nodes: a context over an empty workspace and two of the built-in tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.node_types import NodeContext
from engine.values import Table
from engine.workspace import Files


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
