"""A file that ends its reader's process: every command says so in words and exits with 2."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import dumps
from tests.fuzz.damage import killer

NAME = "bad.parquet"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / NAME).write_bytes(killer())
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


def sylva(workspace: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", "from ui.cli import main; main()", *map(str, arguments)]
    return subprocess.run(
        [*command, "--workspace", str(workspace), "--json"],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_file_ends_a_process_that_reads_it_by_itself(workspace: Path):
    """Otherwise the tests below would prove nothing: then find another file."""
    path = str(workspace / "data" / NAME)
    program = (
        f"import pyarrow.parquet as pq; pq.ParquetFile({path!r}).metadata.row_group(0).column(0)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True).returncode
        == -signal.SIGABRT
    )


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_pipeline_that_names_it_is_refused(workspace: Path, command: str):
    done = sylva(workspace, command, workspace / "pipeline.json")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    [problem] = json.loads(done.stdout)["problems"]
    assert (problem["node"], problem["field"]) == ("load", "source") and NAME in problem["message"]
