"""The setting of the cluster on the Runs page: the storage is chosen, saved and tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

pytest.importorskip(
    "distributed", reason="needs the package distributed: install sylva-studio[cluster]"
)

from engine.node_types import NodeCatalog
from engine.settings import cluster_address, cluster_storage
from engine.workspace import Workspace
from tests.ui.studio.runs.lab import press, words
from ui.studio.runs import cluster
from ui.studio.session import Studio

ADDRESS = "tcp://127.0.0.1:9"


def _page() -> None:
    from ui.studio.runs.cluster import draw_cluster

    draw_cluster()


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    made = Workspace(tmp_path / "workspace").create()
    monkeypatch.setattr(cluster, "studio", lambda: Studio(made, NodeCatalog()))
    return made


def page() -> AppTest:
    return AppTest.from_function(_page, default_timeout=30).run()


def test_without_an_allowed_storage_there_is_nothing_to_choose(workspace: Workspace) -> None:
    drawn = page()
    assert not drawn.selectbox
    drawn.text_input[0].set_value(ADDRESS).run()
    press(drawn, "Save")
    assert cluster_address(workspace.settings) == ADDRESS
    assert cluster_storage(workspace.settings) is None


def test_an_allowed_storage_is_chosen_tested_and_saved(
    workspace: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    storage = f"file://{tmp_path}/file/runs"
    workspace.settings.write_text(json.dumps({"storages": [storage]}))
    drawn = page()
    drawn.text_input[0].set_value(ADDRESS)
    drawn.selectbox[0].set_value(storage).run()
    press(drawn, "Test")
    assert "cannot be written: Not a directory" in words(drawn)
    press(drawn, "Save")
    assert cluster_storage(workspace.settings) == storage
    assert page().selectbox[0].value == storage
