"""Save the results of jobs: one small file each, and all of them in one file of the repository.

- ``Measured``       the results of a folder: what is there is not measured again
- ``read_committed``, ``write_committed``  the file that is committed, one line per result
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._figures import ROOT, run_job, source_digest, write_whole
from .tables import Job

FOLDER = ROOT / "artifacts" / "papers"
COMMITTED = ROOT / "benchmarks" / "papers" / "results.json"

Result = dict[str, Any]


class Measured:
    """The results in a folder, each in a file of its own: TABLE/SET/METHOD-SEED.json.

    A file is complete or not there, so that a run that was stopped continues where it was. A
    result counts for a job only if its settings are the same.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder

    def find(self, job: Job) -> Result | None:
        """Return the result of a job; None if it was not measured with these settings."""
        file = self._file(job)
        if not file.is_file():
            return None
        saved: Result = json.loads(file.read_text(encoding="utf-8"))
        return saved if same_job(saved["job"], job) else None

    def measure(self, job: Job) -> Result:
        """Measure a job in its own process and save the result.

        Raise ``RuntimeError`` if it fails; then nothing is saved.
        """
        sources = source_digest("deepforest")
        figures = run_job("benchmarks.papers.jobs", json.dumps(job))
        result = {"job": job, "sources": sources, **figures}
        write_whole(self._file(job), json.dumps(result))
        return result

    def _file(self, job: Job) -> Path:
        folder = self.folder / _file_name(job["table"]) / _file_name(job["set"])
        return folder / f"{_file_name(job['method'])}-{job['seed']}.json"


def same_job(saved: Job, job: Job) -> bool:
    """Return whether a saved job is this one, with the same settings."""
    # A saved job has lists where this one may have tuples.
    return bool(saved == json.loads(json.dumps(job)))


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


def _file_name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("+", " plus ")).strip("_")
