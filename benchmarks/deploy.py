"""Measure trained models in use: ``python -m benchmarks.deploy [--rows N] [--seconds N]``.

There are two models: a MART cascade of two layers with four learners of 50 trees, and a single MART
of 100 trees, for which reading and writing cost most. ``sylva predict`` scores a file in its own
processes, against the library's own prediction of the encoded matrix at once. A client in another
process asks ``sylva serve`` for one row at a time, over connections that stay open. Single rows are
explained in this process, many rows by ``sylva predict --explain``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._figures import ROOT, Figure, peak_megabytes, process_tree, run_module
from engine.node_types import NodeContext
from engine.values import Table
from engine.workspace import Files
from nodes import deep_forest, mart
from nodes.models.model import load_model

NUMBERS, CATEGORIES = 26, 4
LEVELS = [f"level{number}" for number in range(12)]
TRAINING_ROWS = 20_000
BLOCK = 100_000
REPEATS = {"cascade": 1, "mart": 5}
"""The models, and how often each scores the file; medians are printed."""
LOOK_SECONDS = 0.02
EXPLAINED_ROWS = 50


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--rows", type=int, default=1_000_000, help="Rows of the file that is scored."
    )
    options.add_argument(
        "--seconds", type=float, default=10.0, help="How long the service is asked."
    )
    options.add_argument(
        "--client", nargs=3, metavar=("PORT", "CONNECTIONS", "SECONDS"), help=argparse.SUPPRESS
    )
    given = options.parse_args()
    if given.client:
        port, connections, seconds = given.client
        asyncio.run(ask(int(port), int(connections), float(seconds)))
        return
    with tempfile.TemporaryDirectory(prefix="sylva-deploy-") as folder:
        place = Path(folder)
        make_models(place)
        make_file(place / "data.parquet", given.rows)
        make_file(place / "small.parquet", 1_000)
        for name in REPEATS:
            for figure in scoring(place, name, given.rows):
                print(figure.line(), flush=True)
        for figure in serving(place, given.seconds):
            print(figure.line(), flush=True)
        for figure in explaining(place):
            print(figure.line(), flush=True)


def make_table(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, NUMBERS))
    columns: dict[str, Any] = {f"x{place}": x[:, place] for place in range(NUMBERS)}
    for place in range(CATEGORIES):
        codes = pa.array(rng.integers(0, len(LEVELS), rows), pa.int32())
        columns[f"c{place}"] = pa.DictionaryArray.from_arrays(codes, LEVELS)
    score = x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] + x[:, 4] + np.sin(3 * x[:, 5])
    truth = score + 0.3 * rng.standard_normal(rows) > 1
    columns["truth"] = pa.array(np.where(truth, "yes", "no")).dictionary_encode()
    return Table(pa.table(columns), "truth")


def make_models(place: Path) -> None:
    context = NodeContext("learn", "0" * 64, Files(place), place, threads=cores())
    params = deep_forest.DeepForestParams(preset="mart_cascade", max_layers=2, patience=2)
    models = {"cascade": (deep_forest.NODE, params), "mart": (mart.NODE, mart.MartParams())}
    for name, (node_type, params) in models.items():
        folder = place / "models" / name
        folder.mkdir(parents=True)
        outputs = node_type.run(context, {"table": make_table(TRAINING_ROWS, 0)}, params)
        outputs["model"].save(folder)
    layers = load_model(place / "models" / "cascade").estimator.n_layers_
    print(
        f"{cores()} cores; the cascade kept {layers} layers of 4 learners × 5 folds × 50 trees",
        flush=True,
    )


def make_file(path: Path, rows: int) -> None:
    with pq.ParquetWriter(path, make_table(1, 0).data.schema) as writer:
        for start in range(0, rows, BLOCK):
            writer.write_table(make_table(min(BLOCK, rows - start), 1 + start).data)


def cores() -> int:
    return len(os.sched_getaffinity(0))


# Scoring a file


def scoring(place: Path, name: str, rows: int) -> Iterator[Figure]:
    both = [
        (*score(place, name, "data.parquet"), library_rate(place, name, rows))
        for _ in range(REPEATS[name])
    ]
    rates, peaks, alone = zip(*both, strict=True)
    rate, library, peak = median(rates), median(alone), max(peaks)
    # What the programs and the model take is in both; the difference is that of the rows.
    _, base = score(place, name, "small.parquet")
    yield Figure(f"{name}: sylva predict, {rows:,} rows of Parquet", rate, "rows/s")
    yield Figure(f"{name}: the library alone, on a matrix", library, "rows/s")
    yield Figure(
        f"{name}: sylva predict against the library", rate / library, "×", 0.8, at_least=True
    )
    yield Figure(f"{name}: memory beyond that for 1,000 rows", peak - base, "MB", 1000)


def score(place: Path, name: str, source: str, *options: str) -> tuple[float, float]:
    """Return the rows per second, and the most megabytes of all processes together."""
    target = str(place / "out.parquet")
    arguments = ["predict", name, str(place / source), "-o", target, "--json", *options]
    with start(place, *arguments) as process:
        # The command scores in a child process. The sum of the peaks is at least the peak of the
        # sum, and counts shared pages several times, but that is so for small files too.
        peaks: dict[int, float] = {}
        while process.poll() is None:
            for pid in process_tree(process.pid):
                with suppress(OSError):  # it has ended: its last peak counts
                    peaks[pid] = peak_megabytes(pid)
            time.sleep(LOOK_SECONDS)
        assert process.stdout is not None
        scored = json.loads(process.stdout.read())
    return scored["rows"] / scored["seconds"], sum(peaks.values())


def library_rate(place: Path, name: str, rows: int) -> float:
    model = load_model(place / "models" / name)
    data = pq.read_table(place / "data.parquet")
    matrix = model.encoder.transform(data, model.precision)
    began = time.perf_counter()
    model.predict_matrix(matrix, cores())
    return rows / (time.perf_counter() - began)


# Explaining


def explaining(place: Path) -> Iterator[Figure]:
    for name in REPEATS:
        model = load_model(place / "models" / name)
        data = make_table(EXPLAINED_ROWS, 7).data
        matrix = model.encoder.transform(data, model.precision)
        model.explain_matrix(matrix[:1])
        took = []
        for row in range(EXPLAINED_ROWS):
            began = time.perf_counter()
            model.explain_matrix(matrix[row : row + 1])
            took.append((time.perf_counter() - began) * 1000)
        yield Figure(f"{name}: one row explained, one thread", median(took), "ms", 50)
        rate, _ = score(place, name, "small.parquet", "--explain")
        yield Figure(f"{name}: sylva predict --explain, 1,000 rows", rate, "rows/s")


# Serving


def serving(place: Path, seconds: float) -> Iterator[Figure]:
    with served(place) as port:
        for connections in (1, 4, 16):
            client = ["--client", str(port), str(connections), str(seconds)]
            measured = json.loads(run_module("benchmarks.deploy", *client))
            words = f"sylva serve, cascade, one row per request, {connections} connections"
            yield Figure(words, measured["rate"], "req/s", 200, at_least=True)
            yield Figure("… median", measured["median"], "ms")
            yield Figure("… 99th percentile", measured["p99"], "ms", 50)


@contextmanager
def served(place: Path) -> Iterator[int]:
    process = start(place, "serve", "cascade", "--port", "0")
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().split("http://127.0.0.1:")[1].split()[0])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start ``sylva`` of this checkout with the workspace ``place``."""
    command = [sys.executable, "-m", "benchmarks.sylva", *arguments]
    environment = os.environ | {"SYLVA_WORKSPACE": str(place)}
    return subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def ask(port: int, connections: int, seconds: float) -> None:
    """Ask for one row after another over each connection; print how fast the answers come."""
    rows = make_table(200, 7).data.drop_columns(["truth"]).to_pylist()
    bodies = [json.dumps({"rows": [row]}).encode() for row in rows]
    # The first second is not measured.
    await asyncio.gather(*(talk(port, bodies, 1.0) for _ in range(connections)))
    began = time.perf_counter()
    took = await asyncio.gather(*(talk(port, bodies, seconds) for _ in range(connections)))
    elapsed = time.perf_counter() - began
    every = np.concatenate(took) * 1000
    median, p99 = np.percentile(every, [50, 99])
    print(json.dumps({"rate": len(every) / elapsed, "median": median, "p99": p99}))


async def talk(port: int, bodies: list[bytes], seconds: float) -> list[float]:
    # Written by hand: a client library would take longer than the service.
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    took: list[float] = []
    deadline = time.perf_counter() + seconds
    while (began := time.perf_counter()) < deadline:
        body = bodies[len(took) % len(bodies)]
        head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = next(
            line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        await reader.readexactly(int(length.split(b":")[1]))
        took.append(time.perf_counter() - began)
    writer.close()
    return took


if __name__ == "__main__":
    main()
