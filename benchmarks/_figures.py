"""Measure times and processes, and print figures with their targets.

- ``Figure``          a figure with its target, as a line
- ``seconds``, ``median_seconds``  the time that an action takes
- ``run_module``      runs a module of this checkout in its own process
- ``process_tree``    the processes that a process has started
- ``peak_megabytes``  the most memory that a process has held
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def reached(self) -> bool:
        if self.limit is None:
            return True
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def line(self) -> str:
        target = verdict = ""
        if self.limit is not None:
            target = f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"
            verdict = "reached" if self.reached else "MISSED"
        return f"{self.what:<62} {self.value:>9.3f} {self.unit:<8} {target:<14} {verdict}"


def median_seconds(action: Callable[[], object], repeats: int) -> float:
    return statistics.median(seconds(action) for _ in range(repeats))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run_module(name: str, *arguments: str) -> str:
    """Return what ``python -m NAME ARGUMENTS`` prints."""
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def process_tree(root: int) -> list[int]:
    """Return the ids of a process and of all that it has started, directly or not."""
    tree = [root]
    for pid in tree:  # it grows meanwhile
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                tree += map(int, children.read_text().split())
            except OSError:  # the thread or the process has ended
                continue
    return tree


def peak_megabytes(pid: int | str = "self") -> float:
    """Return the most memory that a process has held.

    ``ru_maxrss`` would include what its parent held when it started the process.
    """
    for entry in Path(f"/proc/{pid}/status").read_text().splitlines():
        if entry.startswith("VmHWM:"):
            return int(entry.split()[1]) / 1024
    raise OSError(f"process {pid} has no peak memory: it has ended")
