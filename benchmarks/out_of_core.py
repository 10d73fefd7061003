"""Measure a table that is larger than the memory limit: ``python -m benchmarks.out_of_core``.

A folder of Parquet files with 5 million rows and 50 columns of 64-bit numbers is written by blocks;
it takes 2 GB as a table. ``sylva run`` loads and splits it, trains a MART cascade and a forest,
predicts the test rows and evaluates them: once with a memory limit, once with one so high that
everything stays in memory. For each node it prints the CPU seconds of its process and the most
memory that counts for the limit (anonymous memory; files mapped into memory do not count), and
whether the models of both runs have the same bytes.

The workspace is a temporary folder, or ``--folder``; it needs about 25 GB for 5 million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.runs import Runs
from engine.workspace import Workspace

from ._figures import ROOT, Figure

MOST_CPU = 1.6
IN_MEMORY = 1_000_000
"""A limit in MB that no node reaches, so that nothing goes to files."""
FILE_ROWS = 250_000
EVERY = 0.02  # seconds between two looks at the process of a node
LOOKS = 10
"""Looks at the process for each look at the run log."""
TICK = os.sysconf("SC_CLK_TCK")
MART = {"kind": "mart", "count": 2, "trees": 8}
MODELS: dict[str, dict[str, Any]] = {
    "cascade": {
        "type": "deep-forest",
        "params": {
            "preset": "mart_cascade",
            "learners": [MART],
            "folds": 3,
            "max_layers": 2,
            "patience": 2,
        },
    },
    "forest": {"type": "random-forest", "params": {"trees": 5, "min_leaf": 50}},
}


@dataclass
class Node:
    """Hold what was measured of the process of one node."""

    limit: int
    """The memory limit in MB."""
    used: float = 0.0
    """The most MB that counted for the limit."""
    cpu: float = 0.0

    def look(self, pid: int) -> None:
        """Read what the kernel says of the process, if it still runs."""
        try:
            limits = Path(f"/proc/{pid}/limits").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return
        bound = re.search(r"Max data size +(\d+)", limits)
        size = re.search(r"VmData:\s+(\d+) kB", status)
        if bound and size:
            # What the process began with does not count: the limit was set above it.
            free = int(bound[1]) - int(size[1]) * 1024
            self.used = max(self.used, self.limit - free / 1e6)
        self.cpu = (int(stat[11]) + int(stat[12])) / TICK


@dataclass
class Measured:
    """Hold what was measured of one run, by node."""

    state: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    """Digests of the outputs of the nodes."""
    errors: dict[str, str] = field(default_factory=dict)


def write_table(folder: Path, rows: int, columns: int) -> None:
    """Write the Parquet files, block by block, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(0).normal(size=columns) / np.arange(1, columns + 1)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        file = folder / f"part-{number:05}.parquet"
        if file.exists():
            continue
        count = min(FILE_ROWS, rows - start)
        rng = np.random.default_rng(number + 1)
        values = rng.normal(size=(count, columns))
        # Curves and a product, so that trees have something to find.
        score = values @ weights + np.abs(values[:, 0]) * values[:, 1]
        label = score + rng.normal(size=count) > 1
        data = {f"x{index}": values[:, index] for index in range(columns)}
        data["label"] = np.where(label, "yes", "no")
        pq.write_table(pa.table(data), file)


def pipeline(source: str, models: list[str]) -> dict[str, Any]:
    """Return the pipeline as its document."""
    nodes: dict[str, Any] = {
        "load": {"type": "load-data", "params": {"source": source, "target": "label"}},
        "split": {"type": "split", "params": {"test_share": 0.2}},
    }
    edges = [("load.table", "split.table")]
    for name in models:
        nodes[name] = MODELS[name]
        nodes[f"predict_{name}"] = {"type": "predict"}
        nodes[f"evaluate_{name}"] = {"type": "evaluate"}
        edges += [
            ("split.train", f"{name}.table"),
            (f"{name}.model", f"predict_{name}.model"),
            ("split.test", f"predict_{name}.table"),
            (f"predict_{name}.predictions", f"evaluate_{name}.predictions"),
        ]
    lines = [{"from": start, "to": end} for start, end in edges]
    return {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "Out of core",
        "nodes": nodes,
        "edges": lines,
    }


def measure(workspace: Path, document: Path, limit: int, threads: int) -> Measured:
    """Run the pipeline from its beginning, and watch the processes of its nodes."""
    command = [sys.executable, "-m", "ui.cli", "run", str(document), "--json", "--detach"]
    command += ["--workspace", str(workspace), "--memory-limit", str(limit), "--workers", "1"]
    # With ``--from`` nothing is taken from the run before.
    command += ["--from", "load"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(ROOT)}
    started = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if started.returncode:
        raise RuntimeError(started.stdout + started.stderr)
    watcher = Runs(Workspace(workspace)).watch(json.loads(started.stdout)["run"])
    found = Measured()
    while True:
        state = watcher.refresh()
        # The log is looked at less often than the processes.
        for _ in range(LOOKS):
            for name, node in state.nodes.items():
                if node.state == "running" and node.process is not None:
                    found.nodes.setdefault(name, Node(limit)).look(node.process["pid"])
            time.sleep(EVERY)
        if not state.live:
            break
    found.state = state.state
    for name, node in state.nodes.items():
        found.outputs[name] = {port: each["digest"] for port, each in node.outputs.items()}
        if node.error is not None:
            found.errors[name] = node.error["message"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--limit", type=int, default=1_500, help="memory limit in MB")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--folder", type=Path, help="a workspace that stays")
    parser.add_argument("--only", choices=["limit", "memory"], help="measure one of the two runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        workspace = (options.folder or Path(temporary)).absolute()
        source = f"rows-{options.rows}-{options.columns}"
        write_table(workspace / "data" / source, options.rows, options.columns)
        document = workspace / "out_of_core.json"
        document.write_text(json.dumps(pipeline(source, options.models)))
        runs = {}
        for name, limit in (("memory", IN_MEMORY), ("limit", options.limit)):
            if options.only in (None, name):
                runs[name] = measure(workspace, document, limit, options.threads)
                report(name, runs[name])
        if len(runs) == 2:
            compare(runs["memory"], runs["limit"], options)


def report(name: str, run: Measured) -> None:
    """Print what was measured of the nodes of a run."""
    print(f"\n{name}: {run.state}")
    for node, measured in run.nodes.items():
        print(f"  {node:<20} {measured.cpu:>8.1f} CPU-s {measured.used:>8.0f} MB", flush=True)
    for node, message in run.errors.items():
        print(f"  {node}: {message}")


def compare(memory: Measured, limit: Measured, options: argparse.Namespace) -> None:
    """Print the figures."""
    size = f"{options.rows:,} × {options.columns}"
    for node in memory.nodes:
        own = limit.nodes.get(node, Node(0))
        ratio = own.cpu / max(memory.nodes[node].cpu, 1 / TICK)
        target = MOST_CPU if node in options.models else None
        print(Figure(f"{size}, {node}: CPU against in memory", ratio, "×", target).line())
        print(Figure("  memory that counts", own.used, "MB", options.limit).line())
        same = "equal" if own.used and memory.outputs[node] == limit.outputs[node] else "DIFFERENT"
        print(f"  outputs {same}")


if __name__ == "__main__":
    main()
