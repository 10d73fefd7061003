"""A table that is larger than the memory limit trains, under the real limit of the kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.faults.lab import Lab, Pipeline
from tests.waiting import until

ROWS, COLUMNS = 400_000, 20
LIMIT = "300"
"""MB: the table has 64, and would be copied several times if it were in memory."""
MART = {"kind": "mart", "count": 2, "trees": 5}
FOREST = {"kind": "random_forest", "trees": 4, "min_rows": 100}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of Parquet files."""
    folder = tmp_path_factory.mktemp("tables") / "large"
    folder.mkdir()
    for number in range(4):
        rng = np.random.default_rng(number)
        values = rng.normal(size=(ROWS // 4, COLUMNS))
        label = values[:, 0] + values[:, 1] ** 2 + rng.normal(size=len(values)) > 1
        columns: dict[str, Any] = {f"x{index}": values[:, index] for index in range(COLUMNS)}
        columns["label"] = np.where(label, "yes", "no")
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    return folder


def document(table: Path, *learners: dict[str, Any]) -> Pipeline:
    """Return load → split → cascade → predict → evaluate."""
    params = {"learners": list(learners), "folds": 2, "max_layers": 2, "patience": 2}
    nodes: dict[str, Any] = {
        "load": {"type": "load-data", "params": {"source": str(table), "target": "label"}},
        "split": {"type": "split"},
        "cascade": {"type": "deep-forest", "params": params},
        "predict": {"type": "predict"},
        "evaluate": {"type": "evaluate"},
    }
    edges = {
        "load.table": ["split.table"],
        "split.train": ["cascade.table"],
        "split.test": ["predict.table"],
        "cascade.model": ["predict.model"],
        "predict.predictions": ["evaluate.predictions"],
    }
    lines = [{"from": start, "to": end} for start, ends in edges.items() for end in ends]
    return {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "large",
        "nodes": nodes,
        "edges": lines,
    }


@pytest.mark.slow
def test_a_table_larger_than_the_limit_gives_the_same_results_also_after_a_kill(
    lab: Lab, table: Path, tmp_path: Path
) -> None:
    pipeline = document(table, MART, FOREST)
    command = lab.start_run(pipeline, "--memory-limit", LIMIT)
    until(lambda: len(fits(lab)) >= 2, what="two finished fits", seconds=300)
    lab.kill_everything()
    lab.answer(command)
    # What was mapped is gone; what was finished is there.
    large = [path for path in lab.workspace.rglob("*") if path.is_file() and is_large(path)]
    assert all(path.is_relative_to(lab.workspace / "objects") for path in large)
    assert fits(lab)
    limited = lab.resume()
    assert limited.code == 0, limited
    whole = Lab(tmp_path / "whole")
    in_memory = whole.run(pipeline, "--memory-limit", "100000")
    assert in_memory.code == 0, in_memory
    assert limited.outputs == in_memory.outputs


def fits(lab: Lab) -> list[Path]:
    """Return the manifests of the finished fits."""
    found = (lab.workspace / "checkpoints").glob("*/*/layer-*/forest.json")
    return [path for path in found if not path.parent.name.startswith(".")]


def is_large(path: Path) -> bool:
    return path.stat().st_size > ROWS * COLUMNS


def test_a_disk_without_room_for_the_table_is_said_and_the_run_goes_on_with_more(
    lab: Lab, table: Path
) -> None:
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    lab.workspace.mkdir()
    mount(lab.workspace, "size=40m")
    try:
        short = lab.run(document(table, MART), "--to", "load", "--memory-limit", LIMIT)
        assert short.code == 1
        assert "the disk is full" in short.nodes["load"]["error"]["message"]
        mount(lab.workspace, "remount,size=300m")
        assert lab.resume().code == 0
    finally:
        lab.kill_everything()
        lab.no_process_is_left()
        subprocess.run(["umount", str(lab.workspace)], check=True)


def mount(folder: Path, options: str) -> None:
    """Make or enlarge a small disk."""
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
