"""Measure, fit, simulate and write ``docs/scale.md``: ``python -m benchmarks.scale [PART …]``."""

from __future__ import annotations

import argparse
import os
import time

from .runs import FITTED, HELD_OUT, job_of, measure

JOBS = "benchmarks.scale.jobs"


def measure_runs() -> None:
    """Measure what has no result yet, the small runs first."""
    jobs = [job_of(run) for run in (*FITTED, *HELD_OUT)]
    jobs.append({"job": "threads", "rows": 200_000, "columns": 100, "trees": 20})
    jobs.sort(key=lambda job: job["rows"] * job["columns"])
    for number, job in enumerate(jobs, 1):
        result = measure(job, JOBS)
        cpu = result.get("cpu", 0)
        print(f"{time.strftime('%H:%M:%S')} {number}/{len(jobs)} {job}: {cpu:.1f} CPU-s", flush=True)


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["measure"])
    parser.parse_args()
    os.nice(10)
    measure_runs()


if __name__ == "__main__":
    main()
