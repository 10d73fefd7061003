"""Name the runs that are measured, and save their results.

- ``Run``       a cascade on a generated table
- ``FITTED``, ``HELD_OUT``  runs the cost model is fitted to, and runs it is tested on
- ``find``, ``measure``  the saved result of a job; measures it if there is none
- ``read_committed``, ``write_committed``  the file of all results in the repository
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._figures import ROOT, run_job, source_digest, write_whole

FOLDER = ROOT / "artifacts" / "scale"
COMMITTED = ROOT / "benchmarks" / "scale" / "results.json"

Result = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A cascade on a generated table; each of its learners has ``trees`` rounds or trees."""

    rows: int
    columns: int
    classes: int = 2
    learners: int = 1
    folds: int = 3
    layers: int = 1
    trees: int = 10
    kind: str = "mart"

    def title(self) -> str:
        """Return it in words."""
        kind = "MART" if self.kind == "mart" else self.kind.replace("_", " ")
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        shape = f"{short(self.rows)} × {self.columns:,}, {self.classes} classes"
        learners = f"{self.learners} × {kind} of {self.trees} trees"
        return f"{shape}, {learners}, {self.folds} folds, {layers}"


def short(number: float) -> str:
    """Return a number of rows as people write it."""
    if number >= 1e6:
        return f"{number / 1e6:g}M"
    return f"{number / 1e3:g}k"


FITTED = (
    Run(10_000, 30, learners=2, layers=2, trees=20),
    Run(20_000, 30, learners=4, layers=2, trees=50),
    Run(30_000, 30, classes=5),
    Run(30_000, 100, layers=2, trees=20),
    Run(100_000, 30, folds=5, trees=20),
    Run(100_000, 30, classes=5),
    Run(100_000, 100),
    Run(300_000, 30, layers=2, trees=20),
    Run(1_000_000, 30),
    Run(10_000, 1_000, trees=20),
    Run(10_000, 3_000),
    Run(100_000, 300),
    Run(30_000, 30, kind="random_forest", trees=30),
    Run(100_000, 30, kind="random_forest", trees=30),
    Run(30_000, 100, kind="random_forest", trees=30),
    Run(100_000, 30, classes=5, kind="random_forest", trees=30),
    Run(300_000, 30, kind="random_forest", trees=30),
    Run(30_000, 30, kind="completely_random_forest", trees=30),
    Run(100_000, 30, classes=5, kind="completely_random_forest", trees=30),
    Run(100_000, 100, kind="completely_random_forest", trees=30),
    Run(300_000, 30, kind="completely_random_forest", trees=30),
)
"""Chosen, like ``HELD_OUT``, before anything was fitted."""
HELD_OUT = (
    Run(2_000_000, 30),
    Run(1_000_000, 100),
    Run(30_000, 3_000),
    Run(50_000, 50, classes=5, learners=2, layers=2),
    Run(200_000, 60, layers=2),
    Run(500_000, 50, trees=20),
    Run(15_000, 500, folds=4, trees=30),
    Run(500_000, 30, kind="random_forest", trees=30),
    Run(200_000, 60, classes=5, kind="random_forest", trees=30),
    Run(500_000, 30, kind="completely_random_forest", trees=30),
    Run(50_000, 300, kind="completely_random_forest", trees=30),
)


def find(job: dict[str, Any], folder: Path = FOLDER) -> Result | None:
    """Return the saved result of a job, None if there is none."""
    file = _file_of(job, folder)
    if not file.is_file():
        return None
    saved: Result = json.loads(file.read_text(encoding="utf-8"))
    return saved


def measure(job: dict[str, Any], module: str, folder: Path = FOLDER) -> Result:
    """Return the saved result of a job, else measure it in its own process and save it.

    Raise ``RuntimeError`` if it fails; then nothing is saved.
    """
    saved = find(job, folder)
    if saved is not None:
        return saved
    sources = source_digest("deepforest")
    result = {"job": job, "sources": sources, **run_job(module, json.dumps(job))}
    write_whole(_file_of(job, folder), json.dumps(result))
    return result


def _file_of(job: dict[str, Any], folder: Path) -> Path:
    """Return the file of a result; all settings of the job are in its name."""
    return folder / f"{'-'.join(str(value) for value in job.values())}.json"


def same_job(saved: dict[str, Any], job: dict[str, Any]) -> bool:
    """Return whether a saved job is this one, with the same settings."""
    return saved == job


def job_of(run: Run) -> dict[str, Any]:
    """Return a run as a job: a mapping that JSON can hold."""
    return {"job": "cascade", **asdict(run)}


def run_of(result: Result) -> Run:
    """Return the run that a result belongs to."""
    return Run(**{name: value for name, value in result["job"].items() if name != "job"})


def read_committed(file: Path = COMMITTED) -> list[Result]:
    """Return the committed results; none if the file does not exist."""
    if not file.is_file():
        return []
    results: list[Result] = json.loads(file.read_text(encoding="utf-8"))
    return results


def write_committed(results: Iterable[Result], file: Path = COMMITTED) -> None:
    """Write results into one file, one line each."""
    lines = [json.dumps(result, ensure_ascii=False) for result in results]
    write_whole(file, "[\n" + ",\n".join(lines) + "\n]\n")
