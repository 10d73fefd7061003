"""Score files in the background: each by a ``sylva predict`` process, known to all browser tabs.

- ``ScoringJob``   one of them, as it is now
- ``ScoringJobs``  starts, cancels and remembers them
- ``misfit``       why a model cannot score a file, as far as the first rows show it

A job continues when the page is left or drawn again. Its result appears in the ``exports`` folder
of the workspace when it is complete. Jobs end with the studio.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal
from uuid import uuid4

from engine import sandbox
from engine.atomic import read_lock
from engine.errors import BadInput, SylvaError, reader_crashed
from engine.processes import exit_text
from engine.workspace import Files, Workspace
from nodes.data.formats import FileFormat, imports_for, open_blocks
from nodes.models.drift import SUMMARY
from nodes.models.encoder import TableEncoder
from nodes.models.model import describe_model
from nodes.models.new_data import InputChecker
from nodes.models.registry import Registry
from nodes.models.scoring import check_names
from ui.studio.new_pipelines import title_of

PROGRAM = """
import os, signal, sys
from engine.processes import die_with_parent
from ui.cli import main
die_with_parent(int(sys.argv.pop(1)), signal.SIGTERM)
os.nice(5)  # the studio comes first
main()
"""
# With -P, a file such as json.py in the working folder cannot replace a library.
COMMAND = (sys.executable, "-P", "-c", PROGRAM, str(os.getpid()))
"""The command line ``sylva``; it stops when the studio ends."""
MAX_RUNNING = 2
"""Each job uses all cores, and memory for its model."""
MAX_REMEMBERED = 50
STOP_SECONDS = 10.0
"""How long a cancelled job may take to stop before it is killed."""
CHECKED_ROWS = 1_000

State = Literal["running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class ScoringJob:
    """A file that is being scored, or was scored."""

    id: str
    model: str
    source: str
    target: Path
    state: State = "running"
    rows: int = 0
    total: int | None = None
    """The approximate number of rows, if it is known."""
    started: float = field(default_factory=time.time)
    finished: float | None = None
    error: str = ""
    stopping: bool = False
    drift: dict[str, Any] | None = None
    """How far the rows differ from training, as ``DriftReport.to_json``; None if unknown."""

    @property
    def running(self) -> bool:
        """Return whether the job has not ended yet."""
        return self.state == "running"

    @property
    def fraction(self) -> float:
        """Return how much is done, from 0 to 1; 0 if the number of rows is not known."""
        return min(self.rows / self.total, 1.0) if self.total else 0.0


class ScoringJobs:
    """The scoring jobs of one workspace.

    All methods may be called from any thread. ``command`` is the command line to run; tests use
    their own.
    """

    def __init__(self, workspace: Workspace, command: Sequence[str] = COMMAND) -> None:
        self.workspace, self.command = workspace, list(command)
        self._lock = threading.RLock()
        self._jobs: dict[str, ScoringJob] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def start(
        self,
        model: str,
        source: str,
        *,
        ending: str = "csv",
        keep_all: bool = True,
        file_format: FileFormat | None = None,
    ) -> ScoringJob:
        """Start to score a file of the data folder, and return the job.

        Raise ``SylvaError`` if too many jobs are running, ``BadInput`` if model or file do not
        exist.

        Parameters
        ----------
        ending : format of the result, ``csv`` or ``parquet``
        keep_all : whether the result has the columns of the file too
        file_format : how a text file is written; by default it is detected
        """
        folder = Registry(self.workspace).folder_of(model)
        path = Files(self.workspace.root).readable(source, field="file")
        with self._lock:
            running = [f"{job.source} by {job.model}" for job in self._jobs.values() if job.running]
            if len(running) >= MAX_RUNNING:
                raise SylvaError(
                    f"At most {MAX_RUNNING} files can be scored at once: "
                    f"{' and '.join(running)} are running. "
                    "Wait for one of them to end, or cancel it."
                )
            target = self._free_target(f"{title_of(source)} by {model}", ending)
            job = ScoringJob(uuid4().hex[:12], model, source, target)
            self._jobs[job.id] = job
            self._forget_oldest()
        arguments = _predict_arguments(folder, path, target, keep_all, file_format or FileFormat())
        # The thread that starts a process waits for its end: the kernel takes the end of that
        # thread for the end of the parent.
        thread = threading.Thread(
            target=self._run, args=(job, arguments), name=f"scoring-{job.id}", daemon=True
        )
        thread.start()
        return job

    def all(self) -> list[ScoringJob]:
        """Return all jobs, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def of(self, model: str) -> list[ScoringJob]:
        """Return the jobs of one model, the newest first."""
        return [job for job in self.all() if job.model == model]

    def get(self, job: str) -> ScoringJob | None:
        """Return one job as it is now; None if it was removed from the list."""
        with self._lock:
            return self._jobs.get(job)

    def cancel(self, job: str) -> None:
        """Cancel a job that is running; no file is written.

        Its process gets ``STOP_SECONDS`` to end by itself. A job that has ended is left as it is.
        """
        with self._lock:
            if job in self._jobs and self._jobs[job].running:
                self._update(job, stopping=True)
                if job in self._processes:
                    _stop(self._processes[job])

    def cancel_all_of(self, model: str) -> None:
        """Cancel all jobs of a model, so that it can be deleted."""
        for job in self.of(model):
            self.cancel(job.id)

    def forget(self, job: str) -> None:
        """Remove a finished job from the list; its file stays."""
        with self._lock:
            if job in self._jobs and not self._jobs[job].running:
                del self._jobs[job]

    def _forget_oldest(self) -> None:
        """Remove the oldest ended jobs if there are too many in the list."""
        too_many = max(len(self._jobs) - MAX_REMEMBERED, 0)
        for job in [job.id for job in self._jobs.values() if not job.running][:too_many]:
            del self._jobs[job]

    def _free_target(self, title: str, ending: str) -> Path:
        """Return a path in ``exports`` that neither a file nor a running job has."""
        folder = Files(self.workspace.root).exports
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SylvaError(f"{folder} cannot be written: {error.strerror}.") from error
        taken = {job.target for job in self._jobs.values() if job.running}
        # A file name may have 255 bytes; a number and an ending follow.
        stem = title.encode()[:150].decode("utf-8", "ignore").lstrip(".")
        path, number = folder / f"{stem}.{ending}", 2
        while path in taken or os.path.lexists(path):
            path, number = folder / f"{stem} {number}.{ending}", number + 1
        return path

    def _update(self, job: str, **changes: Any) -> None:
        """Change a job; it is replaced, since readers in other threads hold the old one."""
        with self._lock:
            self._jobs[job] = replace(self._jobs[job], **changes)

    # The process

    def _run(self, job: ScoringJob, arguments: list[str]) -> None:
        """Run ``sylva predict`` to its end and note the result."""
        try:
            result = self._predict(job, arguments)
        # An error here must not leave a job that never ends.
        except Exception as error:
            result = {"error": f"Scoring could not be started: {error}"}
        if "error" in result:
            _remove_unfinished(job.target)
        with self._lock:
            self._processes.pop(job.id, None)
            if "error" not in result:
                rows, drift = result["rows"], result.get("drift")
                self._update(job.id, state="done", rows=rows, total=rows, drift=drift)
            # A cancelled process ends with an error too.
            elif self._jobs[job.id].stopping:
                self._update(job.id, state="cancelled")
            else:
                self._update(job.id, state="failed", error=result["error"])
            self._update(job.id, finished=time.time())

    def _predict(self, job: ScoringJob, arguments: list[str]) -> dict[str, Any]:
        """Return what the command printed as its result: its ``rows``, or an ``error``."""
        other_lines = []
        # A file instead of a pipe: only the messages are read while the process runs.
        with TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                # Ctrl+C in the terminal ends the studio, which then stops its jobs itself.
                start_new_session=True,
            )
            with self._lock:
                self._processes[job.id] = process
                # It may have been cancelled before there was a process.
                if self._jobs[job.id].stopping:
                    _stop(process)
            assert process.stderr is not None
            with process.stderr:
                for line in process.stderr:
                    # All other lines are messages, which explain a failure.
                    if line.startswith('{"rows"'):
                        self._update(job.id, **json.loads(line))
                    else:
                        other_lines.append(line)
            code = process.wait()
            output.seek(0)
            text = output.read()
        try:
            result: dict[str, Any] = json.loads(text)
        except ValueError:
            result = {"error": _why_it_died(job.source, code, other_lines)}
        return result


def _predict_arguments(
    model: Path, source: Path, target: Path, keep_all: bool, file_format: FileFormat
) -> list[str]:
    """Return the arguments of ``sylva predict`` for a job."""
    arguments = ["predict", str(model), str(source), "--out", str(target)]
    arguments += ["--json", "--progress", "json"]
    arguments += ["--encoding", file_format.encoding, "--delimiter", file_format.delimiter]
    if not file_format.header:
        arguments.append("--no-header")
    if keep_all:
        arguments.append("--keep-all")
    # A model that was saved without a summary has nothing to compare the rows with.
    if (model / SUMMARY).is_file():
        arguments += ["--drift", str(target.with_name(f"{target.name}.drift.json"))]
    return arguments


def _stop(process: subprocess.Popen[str]) -> None:
    """Ask a process to end, and kill it if it takes too long."""
    with suppress(ProcessLookupError):
        process.terminate()
    timer = threading.Timer(STOP_SECONDS, process.kill)
    timer.daemon = True
    timer.start()


def _remove_unfinished(target: Path) -> None:
    """Remove the temporary file that a killed process has left beside its target."""
    beginning = f".{target.name[:100]}."
    with suppress(OSError):
        for path in target.parent.iterdir():
            if path.name.startswith(beginning) and path.name.endswith(".unfinished"):
                path.unlink(missing_ok=True)


def _why_it_died(source: str, code: int, error_lines: Sequence[str]) -> str:
    """Return why a process ended without a result, from its exit code and its last lines."""
    lines = [line.strip() for line in error_lines if line.strip()]
    if code == -signal.SIGKILL or any("bad_alloc" in line for line in lines):
        return "Scoring was killed, probably because there was not enough memory."
    if code < 0:
        return reader_crashed(source, exit_text(code)).message
    reason = lines[-1][:300] if lines else f"exit code {code}"
    return f"Scoring ended unexpectedly: {reason}"


# Whether a file fits


def misfit(model: Path, source: Path, file_format: FileFormat | None = None) -> str:
    """Return why the model cannot score the file; empty if its first rows fit.

    All missing columns are named at once. The file is read in a child process with limits: it may
    be damaged or very large.
    """
    file_format = file_format or FileFormat()
    arguments = {"model": str(model), "source": str(source), "file_format": file_format.to_json()}
    imports = imports_for(source, file_format)
    function = "ui.studio.models.scoring_jobs:check_first_rows"
    try:
        sandbox.call(sandbox.Call(function, source.name, arguments, imports, field="file"))
    except BadInput as problem:
        return problem.message
    return ""


def check_first_rows(model: str, source: str, file_format: dict[str, Any]) -> None:
    """Raise ``BadInput`` unless the first rows of the file fit the model.

    It runs in a child process, so its arguments are plain data.
    """
    with read_lock(Path(model)):
        encoder = TableEncoder.from_json(describe_model(Path(model))["encoder"])
    file = open_blocks(Path(source), FileFormat.from_json(file_format))
    checker = InputChecker(encoder, present=file.names or ())
    check_names(file, checker)
    # LibSVM files have no column names.
    columns = [name for name in checker.encoder.names if file.names is None or name in file.names]
    first = next(iter(file.blocks(columns, CHECKED_ROWS)), None)
    if first is None:
        raise BadInput(f"'{Path(source).name}' has no rows")
    checker.table(first)
