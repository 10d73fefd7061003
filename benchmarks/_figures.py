"""Measure times and processes, and print figures with their targets.

- ``Figure``          a figure with its target, as a line
- ``seconds``, ``median_seconds``, ``cost``  the time that an action takes
- ``run_module``      runs a module of this checkout in its own process
- ``run_job``         the same for one job of a long measurement
- ``Results``         saved results of long measurements, each from its own process
- ``process_tree``    the processes that a process has started
- ``peak_megabytes``  the most memory that a process has held
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


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


def cost(action: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that an action takes, and the CPU seconds of all its threads."""
    began, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - cpu


def run_module(name: str, *arguments: str) -> str:
    """Return what ``python -m NAME ARGUMENTS`` prints."""
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


class Results:
    """Measure jobs, each in its own process, and save what they return.

    A job is a mapping that JSON can hold; ``python -m MODULE JOB`` prints its result as JSON. A
    measurement that was cut off goes on where it stopped. Results are saved by the sources of
    ``deepforest``: after a change of these everything is measured again.
    """

    def __init__(self, module: str, workers: int = 1) -> None:
        self.module = module
        self.workers = workers
        self.folder = ROOT / "artifacts" / "figures" / f"{module}-{source_digest('deepforest')}"

    def measure(self, jobs: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return the results of jobs, in their order; ``workers`` of them run at once."""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(self._result, jobs))

    def _result(self, job: Mapping[str, Any]) -> Any:
        text = json.dumps(job, sort_keys=True)
        # One file per job: several commands may measure at the same time.
        file = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if file.is_file():
            return json.loads(file.read_text())["result"]
        result = run_job(self.module, text)
        # What could not be measured is not saved: the reason may be gone the next time.
        if "reason" not in result:
            write_whole(file, json.dumps({"job": job, "result": result}))
        return result


def run_job(module: str, text: str) -> Any:
    """Return what ``python -m MODULE JOB`` prints last, as JSON; it has one thread.

    Raise ``RuntimeError`` if the process fails.
    """
    command = [sys.executable, "-m", module, text]
    environment = {**os.environ, **ONE_THREAD}
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if run.returncode:
        raise RuntimeError(f"the job {text} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def write_whole(file: Path, text: str) -> None:
    """Write a file that exists only when it is complete."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)


def source_digest(package: str) -> str:
    """Return a hash of the sources of a package of this checkout."""
    content = hashlib.sha256()
    for file in sorted((ROOT / package).rglob("*.py")):
        content.update(file.read_bytes())
    return content.hexdigest()[:12]


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
