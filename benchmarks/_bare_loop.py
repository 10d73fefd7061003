"""Do the least that a node needs: fork, write durably, join; two at a time. Print the seconds.

``python -m benchmarks._bare_loop FOLDER COUNT``
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path


def write_like_a_node(folder: str, index: int) -> None:
    """Write the same files with the same syncs as a node's output and its record."""
    root = Path(folder)
    temporary = root / "tmp" / f"t{index}"
    temporary.mkdir()
    about = {
        "kind": "probe",
        "title": "Probe",
        "headline": {"value": index},
        "rows": [],
        "data": {"padding": ""},
    }
    durably(temporary / "report.json", json.dumps(about))
    sync(temporary)
    temporary.rename(root / "objects" / f"o{index}")
    sync(root / "objects")
    durably(root / "tmp" / f"r{index}", json.dumps(about))
    (root / "tmp" / f"r{index}").rename(root / "results" / f"r{index}")
    sync(root / "results")


def durably(path: Path, text: str) -> None:
    path.write_text(text)
    sync(path)


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def main() -> None:
    folder, count = sys.argv[1], int(sys.argv[2])
    for name in ("tmp", "objects", "results"):
        (Path(folder) / name).mkdir(parents=True)
    context = multiprocessing.get_context("forkserver")
    first = context.Process(target=write_like_a_node, args=(folder, count))
    first.start()  # also starts the server, which is not counted
    first.join()
    began = time.perf_counter()
    running: list[ForkServerProcess] = []
    for index in range(count):
        if len(running) == 2:
            wait([process.sentinel for process in running])
            running = [process for process in running if process.is_alive()]
        running.append(context.Process(target=write_like_a_node, args=(folder, index)))
        running[-1].start()
    for process in running:
        process.join()
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
