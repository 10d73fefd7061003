"""A file whose reader crashes: every command reports it and exits with 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import dumps
from tests.crashing_reader import CONTENT, NAME, environment


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / NAME).write_text(CONTENT)
    document = Pipeline(
        name="Bad file",
        nodes={
            "load": Node(type="load-data", params={"source": NAME}),
            "split": Node(type="split"),
        },
        edges=(Edge.between("load.table", "split.table"),),
    )
    (tmp_path / "pipeline.json").write_text(dumps(document))
    return tmp_path


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_pipeline_that_names_it_is_refused(workspace: Path, command: str):
    program = [sys.executable, "-P", "-c", "from ui.cli import main; main()"]
    done = subprocess.run(
        [*program, command, workspace / "pipeline.json", "--workspace", workspace, "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    [problem] = json.loads(done.stdout)["problems"]
    assert (problem["node"], problem["field"]) == ("load", "source")
    assert NAME in problem["message"] and "SIGABRT" in problem["message"]
