from __future__ import annotations

from pathlib import Path

import pytest

from engine.node_types import load_catalog
from engine.workspace import Workspace
from ui.studio.session import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(Workspace(tmp_path).create(), load_catalog())
