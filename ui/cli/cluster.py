"""The commands ``sylva cluster …``: start a small Dask cluster on this machine, or check one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import SylvaError
from ui.cli.options import CommonOptions, command

app = typer.Typer(
    name="cluster",
    help="Start a Dask cluster on this machine for trying, or check a cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.2

Processes = list[subprocess.Popen[bytes]]


@command(app, without=("json", "workspace"))
def up(
    common: CommonOptions,
    workers: Annotated[int, typer.Option(min=1, max=256, help="How many workers to start.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each worker.")] = 1,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the scheduler; 0 takes a free one.")
    ] = 8786,
) -> None:
    """Start a scheduler and workers on this machine, until Ctrl-C."""
    from engine.executors.dask import distributed

    distributed()  # report a missing package before anything starts
    # A plain kill ends the cluster like Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    processes: Processes = []
    with tempfile.TemporaryDirectory(prefix="sylva-cluster-") as folder:
        try:
            address = _start_scheduler(Path(folder), port, processes)
            worker = ["worker", address, "--host", HOST, "--nthreads", str(threads)]
            _start([*worker, "--nworkers", str(workers)], Path(folder), processes)
            print(f"A cluster of {workers} workers is at {address}. Press Ctrl-C to stop it.")
            print(f"Run a pipeline on it: sylva run FILE --executor {address}", flush=True)
            while all(process.poll() is None for process in processes):
                time.sleep(LOOK_SECONDS)
            raise SylvaError(f"A process of the cluster ended. {_last_line(Path(folder))}")
        except KeyboardInterrupt:
            print("The cluster is stopped.")
        finally:
            _stop(processes)


@command(app)
def check(
    common: CommonOptions,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Such as tcp://HOST:PORT.")],
    storage: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Check also that this storage can hold the data."),
    ] = None,
) -> None:
    """Check which workers of a cluster could run pipelines of the workspace."""
    from engine.executors.storage import check_cluster
    from engine.settings import check_cluster_address
    from ui.cli.output import print_table

    check_cluster_address(address, "ADDRESS")
    rows = []
    for worker in check_cluster(address, common.workspace, storage):
        rows.append({"worker": worker.address} | worker.model_dump(exclude={"address", "kind"}))

    def render() -> None:
        """Print the workers as a table, or say that they are missing."""
        if not rows:
            print(f"The cluster at {address} has no workers yet.")
        print_table(rows)

    common.output(rows, render)
    if not any(row["state"] == "admitted" for row in rows):
        raise typer.Exit(1)


def _start_scheduler(folder: Path, port: int, processes: Processes) -> str:
    """Start a Dask scheduler and return its address."""
    about = folder / "scheduler.json"
    words = ["scheduler", "--host", HOST, "--port", str(port), "--scheduler-file", str(about)]
    scheduler = _start(words, folder, processes)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and scheduler.poll() is None:
        with contextlib.suppress(OSError, ValueError):  # it is not written yet
            return str(json.loads(about.read_text())["address"])
        time.sleep(LOOK_SECONDS)
    raise SylvaError(f"The Dask scheduler did not start. {_last_line(folder)}")


def _start(words: list[str], folder: Path, processes: Processes) -> subprocess.Popen[bytes]:
    """Start a Dask command whose messages go to a file in the folder."""
    if words[0] == "worker":
        words = [*words, "--local-directory", str(folder)]
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--no-dashboard"],
            # Fits share the processors: a library must not use all of them for one fit.
            env={"OMP_NUM_THREADS": "1", **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    processes.append(process)
    return process


def _last_line(folder: Path) -> str:
    """Return the last line that a process of the cluster wrote."""
    lines = (folder / "log.txt").read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _stop(processes: Processes) -> None:
    """End the processes, the workers first."""
    for process in reversed(processes):
        process.terminate()
    for process in reversed(processes):
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
