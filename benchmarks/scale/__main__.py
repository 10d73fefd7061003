"""Measure runs, fit the cost model, simulate, and write ``docs/scale.md``.

``python -m benchmarks.scale`` does all of it; a run that was stopped continues where it was.
``measure`` only measures, ``page`` only fits, simulates and writes the page.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

from .page import PAGE, write_page
from .runs import (
    FITTED,
    HELD_OUT,
    Result,
    find,
    job_of,
    measure,
    read_committed,
    same_job,
    write_committed,
)

CLUSTER_RUN = {"rows": 30_000, "columns": 50, "learners": 2, "folds": 3, "trees": 20}


def all_jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the module and the job of everything that is measured, the small runs first."""
    for run in sorted((*FITTED, *HELD_OUT), key=lambda run: run.rows * run.columns):
        yield "benchmarks.scale.jobs", job_of(run)
    yield (
        "benchmarks.scale.jobs",
        {"job": "threads", "rows": 200_000, "columns": 100, "trees": 20},
    )
    for workers in (1, 2):
        yield "benchmarks.scale.cluster", {"job": "replay", "workers": workers, **CLUSTER_RUN}
    yield "benchmarks.scale.cluster", {"job": "queue", "workers": 2, "tasks": 1_000}


def measure_all() -> int:
    """Measure what has no result yet; return how many jobs failed."""
    failed = 0
    for module, job in all_jobs():
        if find(job) is not None:
            continue
        print(f"{time.strftime('%H:%M:%S')} {job}", end="", flush=True)
        try:
            result = measure(job, module)
        except RuntimeError as error:
            failed += 1
            print(f": FAILED\n{error}", flush=True)
            continue
        print(f": {result.get('cpu', 0):.1f} CPU-s", flush=True)
    return failed


def collect() -> list[Result]:
    """Return the result of every job: the measured one, else the committed one."""
    committed = read_committed()
    results = []
    for _, job in all_jobs():
        result = find(job)
        if result is None:
            result = next((each for each in committed if same_job(each["job"], job)), None)
        if result is not None:
            results.append(result)
    return results


def main() -> None:
    """Measure, then write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="?", choices=("measure", "page", "all"), default="all")
    part = parser.parse_args().part
    failed = 0
    if part != "page":
        # Other programs of this machine go first.
        os.nice(10)
        failed = measure_all()
    if part != "measure":
        results = collect()
        write_committed(results)
        write_page(results)
        print(f"{len(results)} results are in {PAGE}")
    if failed:
        raise SystemExit(f"{failed} jobs failed; the same command tries them again")


if __name__ == "__main__":
    main()
