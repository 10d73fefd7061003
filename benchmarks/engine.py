"""What the engine costs: ``python -m benchmarks.engine [--repeats N]``.

Every figure is a median; every ratio has both sides measured in the same run, one after the other. Peers:

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

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "tests" / "plugin"
sys.path.insert(0, str(PLUGIN))
os.environ["PYTHONPATH"] = str(PLUGIN)

from benchmarks._bare_loop import sync  # noqa: E402
from benchmarks._figures import Figure, median_seconds, seconds  # noqa: E402
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
    """Run by command line; ``seconds`` is from the supervisor's first word to its last, start-up taken off."""
    file = workspace.parent / "document.json"
    write(file, document)
    command = [
        sys.executable,
        "-m",
        "benchmarks.sylva",
        "run",
        str(file),
        "--json",
        "--workspace",
        str(workspace),
    ]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, cwd=ROOT, check=True
    )
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome | {"seconds": outcome["finished"] - outcome["started"]}


def bare_loop(folder: Path, count: int) -> float:
    command = [sys.executable, "-m", "benchmarks._bare_loop", str(folder), str(count)]
    return float(
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    )


# Starting.


def cold_start(folder: Path, repeats: int) -> Iterator[Figure]:
    """One MART node of one tree with its inputs in the store, from a cold start, against importing what it needs."""
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
    """From a request to a process that is ready to the node's process being there."""
    workspace = Workspace(folder / "warm").create()
    starter = SupervisorStarter(preload=True)
    times = []
    with EventLog(workspace) as log:
        for repeat in range(repeats + 1):
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
    command = [sys.executable, "-m", "benchmarks.sylva", "--help"]
    run = lambda: subprocess.run(command, capture_output=True, check=True, cwd=ROOT)  # noqa: E731
    yield Figure("sylva --help", median_seconds(run, repeats), "s", 0.4)


def validation(repeats: int) -> Iterator[Figure]:
    nodes = {f"n{index}": Node(type="split", params={"seed": index}) for index in range(999)}
    nodes["load"] = Node(type="load-data")
    edges = [Edge.between(f"n{index}.train", f"n{index + 1}.table") for index in range(998)]
    document = Pipeline(
        name="long", nodes=nodes, edges=(Edge.between("load.table", "n0.table"), *edges)
    )
    catalogue = load_catalog()
    assert find_problems(document, catalogue) == []
    yield Figure(
        "1,000-node document: validate",
        median_seconds(lambda: find_problems(document, catalogue), repeats),
        "s",
        0.5,
    )


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
    """The same six steps in one process; each result is written, synced and read back."""
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
