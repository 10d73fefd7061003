"""Measure the papers' tables: ``python -m benchmarks.papers``.

It writes ``docs/results.md``, and ``docs/why.md`` from the same results.

Every job is measured once: the same command continues where it was stopped. A job whose method or
data set is not here is left out with the reason.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from pathlib import Path

import deepforest

from .data import missing
from .page import PAGE, write_page
from .results import FOLDER, Measured, Result, read_committed, same_job, write_committed
from .tables import TABLES, DataSet, Job, Method, jobs_of
from .why import WHY, write_why


def all_jobs(names: Iterable[str]) -> list[tuple[DataSet, Method, Job]]:
    """Return the jobs of tables: what takes longest last, one seed of each before the next."""
    jobs = [job for name in names for job in jobs_of(TABLES[name])]
    return sorted(jobs, key=lambda each: (each[0].turn, each[2]["seed"]))


def reason_to_skip(data: DataSet, method: Method) -> str | None:
    """Return why a method cannot be measured on a data set, or None if it can."""
    if method.needs and method.needs not in deepforest.__all__:
        return f"deepforest has no {method.needs}"
    return missing(data.folder)


def measure(names: Iterable[str], measured: Measured) -> int:
    """Measure what has no result yet; return how many jobs failed."""
    jobs = all_jobs(names)
    failed = 0
    for number, (data, method, job) in enumerate(jobs, 1):
        if measured.find(job) is not None:
            continue
        title = f"{number}/{len(jobs)} {job['table']}, {data.title}, {method.name}, {job['seed']}"
        reason = reason_to_skip(data, method)
        if reason is not None:
            print(f"{title}: left out, {reason}", flush=True)
            continue
        print(f"{time.strftime('%H:%M:%S')} {title}", end="", flush=True)
        try:
            result = measured.measure(job)
        except RuntimeError as error:
            failed += 1
            print(f": FAILED\n{error}", flush=True)
            continue
        print(f": {result['scores']}, {result['cpu']:.1f} CPU-s, {result['mb']} MB", flush=True)
    return failed


def collect(measured: Measured) -> list[Result]:
    """Return the result of every job: the measured one, else the committed one."""
    committed = read_committed()
    results = []
    for name in TABLES:
        for _, _, job in jobs_of(TABLES[name]):
            result = measured.find(job)
            if result is None:
                result = next((each for each in committed if same_job(each["job"], job)), None)
            if result is not None:
                results.append(result)
    return results


def main() -> None:
    """Measure tables, then write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", nargs="*", metavar="table", help=f"{', '.join(TABLES)} (all)")
    parser.add_argument("--page", action="store_true", help="write the pages, measure nothing")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"of the results ({FOLDER})")
    arguments = parser.parse_args()
    unknown = set(arguments.tables) - TABLES.keys()
    if unknown:
        parser.error(f"unknown table {', '.join(sorted(unknown))}; use {', '.join(TABLES)}")
    measured = Measured(arguments.folder)
    failed = 0
    if not arguments.page:
        # These fits take hours; other programs of this machine go first.
        os.nice(10)
        failed = measure(arguments.tables or TABLES, measured)
    results = collect(measured)
    write_committed(results)
    write_page(results)
    write_why(results)
    print(f"{len(results)} results are in {PAGE} and {WHY}")
    if failed:
        raise SystemExit(f"{failed} jobs failed; the same command tries them again")


if __name__ == "__main__":
    main()
