"""A workspace with a model: trained on every kind of column, and saved as the save node does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.node_types import NodeContext
from engine.workspace import Files, Workspace
from nodes.load_data import NODE as LOAD
from nodes.random_forest import NODE as FOREST
from nodes.save_model import NODE as SAVE

MODEL = "people"
ROWS = "age,job,since,member,pay\n" + "".join(
    f"{20 + i % 50},{['cook', 'nurse', 'it is'][i % 3]},2020-01-{1 + i % 28:02d},"
    f"{'true' if i % 2 else 'false'},"
    f"{'high' if i % 50 > 20 else 'low'}\n"
    for i in range(120)
)


class Saved:
    """What a save node is given: a model that lies in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path


def run_node(node: Any, workspace: Path, inputs: dict[str, Any], **params: Any) -> dict[str, Any]:
    (workspace / "ck").mkdir(parents=True, exist_ok=True)
    context = NodeContext(
        node="n", key="0" * 64, files=Files(workspace), checkpoint=workspace / "ck"
    )
    found: dict[str, Any] = node.run(context, inputs, node.params(**params))
    return found


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace's root with the table and the model."""
    workspace = Workspace(tmp_path_factory.mktemp("trained")).create()
    (workspace.data / "people.csv").write_text(ROWS)
    table = run_node(LOAD, workspace.root, {}, source="people.csv", target="pay")["table"]
    model = run_node(FOREST, workspace.root, {"table": table}, trees=5)["model"]
    folder = workspace.root / "made"
    folder.mkdir()
    model.save(folder)
    run_node(SAVE, workspace.root, {"model": Saved(folder)}, name=MODEL)
    return workspace.root


@pytest.fixture
def workspace(trained: Path, tmp_path: Path) -> Workspace:
    shutil.copytree(trained, tmp_path / "ws")
    return Workspace(tmp_path / "ws").create()
