"""Measure the cost of the engine: ``python -m benchmarks.engine [--repeats N]``.

Every figure is a median; both sides of a ratio are measured in the same run, in turn. Peers:

- a bare forkserver loop that makes the same processes and the same durable writes, two at a time
- importing what a node needs in a fresh interpreter
- a plain loop that passes a table on by writing and reading zstd Parquet
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks._figures import ROOT, Figure, median_seconds, run_module, seconds

# The nodes that do nothing belong to the tests. They are found by their entry points, so their
# folder must be known before the engine looks for node types.
PLUGIN = ROOT / "tests" / "plugin"
sys.path.insert(0, str(PLUGIN))
os.environ["PYTHONPATH"] = str(PLUGIN)

from benchmarks._bare_loop import sync  # noqa: E402
from engine.edits import set_params  # noqa: E402
from engine.events import EventLog  # noqa: E402
from engine.node_types import load_catalog  # noqa: E402
from engine.pipeline import Edge, Node, Pipeline  # noqa: E402
from engine.pipeline_file import parse, write  # noqa: E402
from engine.plan import RunOptions  # noqa: E402
from engine.run_state import run_state  # noqa: E402
from engine.runs import Runs  # noqa: E402
from engine.supervisor_starter import SupervisorStarter  # noqa: E402
from engine.validation import find_problems  # noqa: E402
from engine.workspace import Workspace  # noqa: E402

WIDE, DEEP = 5, 10
ROWS, COLUMNS, STEPS = 200_000, 30, 6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        for figure in figures(Path(folder), repeats):
            print(figure.line(), flush=True)


def figures(folder: Path, repeats: int) -> Iterator[Figure]:
    yield from node_overhead(folder, repeats)
    yield from cold_start(folder, repeats)
    yield from warm_start(folder, repeats)
    yield from help_time(repeats)
    yield from validation(repeats)
    yield from table_through_nodes(folder, repeats)


# Fifty nodes that do nothing.


def grid(offset: int = 0) -> Pipeline:
    nodes = {
        f"n{depth}x{width}": Node(type="probe", params={"value": offset + depth * WIDE + width + 1})
        for depth in range(DEEP)
        for width in range(WIDE)
    }
    edges = tuple(
        Edge.between(f"n{depth}x{width}.report", f"n{depth + 1}x{width}.reports")
        for depth in range(DEEP - 1)
        for width in range(WIDE)
    )
    return Pipeline(name="grid", nodes=nodes, edges=edges)


def node_overhead(folder: Path, repeats: int) -> Iterator[Figure]:
    count = WIDE * DEEP
    ours, bare, again = [], [], []
    for repeat in range(repeats):
        ours.append(sylva_run(folder / "grid", grid(1000 * repeat))["seconds"] / count)
        # The same values again, so that all nodes are cached; the next repeat has other values.
        again.append(sylva_run(folder / "grid", grid(1000 * repeat)))
        bare.append(bare_loop(folder / f"bare{repeat}", count) / count)
    assert all(node["state"] == "cached" for node in again[-1]["nodes"].values())
    yield Figure(
        "50 no-op nodes, 5 × 10, own process, durable: per node", median_ms(ours), "ms", 30
    )
    yield Figure(
        "  bare forkserver loop with the same forks and writes: per node", median_ms(bare), "ms"
    )
    yield Figure(
        "  ratio to the bare loop", statistics.median(ours) / statistics.median(bare), "×", 1.5
    )
    yield Figure(
        "unchanged 50 nodes again, all cached",
        statistics.median(run["seconds"] for run in again),
        "s",
        1,
    )


def median_ms(times: list[float]) -> float:
    return statistics.median(times) * 1000


def sylva_run(workspace: Path, document: Pipeline, *arguments: str) -> dict[str, Any]:
    """Run by command line; ``seconds`` is from the run's first event to its last, without start."""
    file = workspace.parent / "document.json"
    write(file, document)
    options = ("--json", "--workspace", str(workspace), *arguments)
    outcome: dict[str, Any] = json.loads(run_module("benchmarks.sylva", "run", str(file), *options))
    return outcome | {"seconds": outcome["finished"] - outcome["started"]}


def bare_loop(folder: Path, count: int) -> float:
    return float(run_module("benchmarks._bare_loop", str(folder), str(count)))


# Starting.


def cold_start(folder: Path, repeats: int) -> Iterator[Figure]:
    """Measure one MART node from a cold start, against importing what it needs.

    It grows one tree, and its inputs are in the store: only the start is measured.
    """
    first = parse((ROOT / "sample_pipelines" / "first_pipeline.json").read_text())
    document = set_params(first, load_catalog(), "mart", {"trees": 1})
    workspace = folder / "cold"
    sylva_run(workspace, document)
    needs = ", ".join(load_catalog()["mart"].imports)
    imports = [sys.executable, "-c", f"import {needs}"]
    whole, importing = [], []
    for _ in range(repeats):
        importing.append(seconds(lambda: subprocess.run(imports, check=True)))
        whole.append(
            seconds(lambda: sylva_run(workspace, document, "--to", "mart", "--from", "mart"))
        )
    yield Figure("one MART node from a cold start, whole command", statistics.median(whole), "s")
    yield Figure("  importing what it needs", statistics.median(importing), "s")
    yield Figure("  ratio", statistics.median(whole) / statistics.median(importing), "×", 1.5)


def warm_start(folder: Path, repeats: int) -> Iterator[Figure]:
    """Measure from the request to a prestarted supervisor until the node's process runs."""
    workspace = Workspace(folder / "warm").create()
    starter = SupervisorStarter(preload=True)
    times = []
    with EventLog(workspace) as log:
        for repeat in range(repeats + 1):  # the first one is not warm yet
            document = Pipeline(
                name="one", nodes={"a": Node(type="probe", params={"value": repeat})}
            )
            run = Runs(workspace).create(document, RunOptions())
            asked = time.time()
            starter.start(workspace, run).close()
            while not (state := run_state(log, log.run(run))).finished:
                time.sleep(0.002)
            times.append((state.nodes["a"].started or 0) - asked)
    starter.close()
    yield Figure(
        "warm studio: from the request to the node's start",
        statistics.median(times[1:]) * 1000,
        "ms",
        100,
    )


def help_time(repeats: int) -> Iterator[Figure]:
    took = median_seconds(lambda: run_module("benchmarks.sylva", "--help"), repeats)
    yield Figure("sylva --help", took, "s", 0.4)


def validation(repeats: int) -> Iterator[Figure]:
    nodes = {f"n{index}": Node(type="split", params={"seed": index}) for index in range(999)}
    nodes["load"] = Node(type="load-data")
    edges = [Edge.between(f"n{index}.train", f"n{index + 1}.table") for index in range(998)]
    document = Pipeline(
        name="long", nodes=nodes, edges=(Edge.between("load.table", "n0.table"), *edges)
    )
    catalog = load_catalog()
    assert find_problems(document, catalog) == []
    took = median_seconds(lambda: find_problems(document, catalog), repeats)
    yield Figure("1,000-node document: validate", took, "s", 0.5)


# A table through six nodes.


def table_through_nodes(folder: Path, repeats: int) -> Iterator[Figure]:
    import numpy as np
    import pyarrow as pa

    generator = np.random.default_rng(0)
    data = pa.table({f"f{index}": generator.normal(size=ROWS) for index in range(COLUMNS)})
    ours, loop = [], []
    for _ in range(repeats):
        ours.append(table_by_sylva(folder / "table", data))
        loop.append(seconds(lambda: parquet_loop(folder / "loop", data)))
        shutil.rmtree(folder / "table")
    yield Figure(
        "200k × 30 floats through 6 nodes, durable after each", statistics.median(ours), "s"
    )
    yield Figure("  plain loop, zstd Parquet written and read", statistics.median(loop), "s")
    yield Figure("  ratio", statistics.median(ours) / statistics.median(loop), "×", 1 / 3)


def table_by_sylva(folder: Path, data: Any) -> float:
    import pyarrow as pa

    workspace = Workspace(folder).create()
    with (
        pa.OSFile(str(workspace.data / "table.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, data.schema) as writer,
    ):
        writer.write_table(data)
    names = ["load", *(f"s{index}" for index in range(STEPS))]
    nodes = {name: Node(type="scale", params={"factor": 1.5}) for name in names[1:]}
    nodes = {"load": Node(type="load-data", params={"source": "table.arrow"}), **nodes}
    edges = tuple(Edge.between(f"{a}.table", f"{b}.table") for a, b in pairwise(names))
    outcome = sylva_run(folder, Pipeline(name="table", nodes=nodes, edges=edges))
    return float(outcome["finished"] - outcome["nodes"]["s0"]["started"])


def parquet_loop(folder: Path, data: Any) -> None:
    """Do the same six steps in one process; each result is written, synced and read back."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    for step in range(STEPS):
        data = data.set_column(0, data.column_names[0], pc.multiply(data.column(0), 1.5))
        path = folder / f"{step}.parquet"
        pq.write_table(data, path, compression="zstd")
        sync(path)
        data = pq.read_table(path)


if __name__ == "__main__":
    main()
