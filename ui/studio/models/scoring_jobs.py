"""Files being scored: started by a page, worked on by processes of their own, known to all tabs of the studio.

- ``ScoringJob``          one of them, as it is now
- ``ScoringJobs``  starts, stops and remembers them
- ``misfit``       what keeps a file from being scored by a model; seen at once from its first rows

A job goes on when the page is left or drawn anew. Its result appears in the workspace's ``exports`` when all of it is
there. Jobs end with the studio.
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
from nodes.models.encoder import TableEncoder
from nodes.models.model import describe_model
from nodes.models.new_data import InputChecker
from nodes.models.registry import Registry
from nodes.models.scoring import check_names
from ui.studio.data.starter_pipeline import title_of

SCORER = (sys.executable, "-P", "-m", "ui.studio.models.scorer")
MOST_AT_ONCE = 2
"""Each takes all cores it is given, and memory for its model."""
MOST_REMEMBERED = 50
PATIENCE = 10.0
"""Seconds that a job that was told to stop has for it."""
CHECKED_ROWS = 1_000

State = Literal["running", "done", "failed", "cancelled"]


@dataclass(frozen=True)
class ScoringJob:
    """A file being scored, or what became of it."""

    id: str
    model: str
    source: str
    target: Path
    state: State = "running"
    rows: int = 0
    total: int | None = None
    """About how many rows there are, if that is known."""
    started: float = field(default_factory=time.time)
    finished: float | None = None
    error: str = ""
    stopping: bool = False

    @property
    def running(self) -> bool:
        """Whether it is still at work."""
        return self.state == "running"

    @property
    def fraction(self) -> float:
        """How far it is, 0 to 1; 0 where that is not known."""
        return min(self.rows / self.total, 1.0) if self.total else 0.0


class ScoringJobs:
    """The jobs of one workspace."""

    def __init__(self, workspace: Workspace, scorer: Sequence[str] = SCORER) -> None:
        self.workspace, self.scorer = workspace, list(scorer)
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
        """Begin to score a file of the data folder; raises what stands in the way."""
        folder = Registry(self.workspace).place(model)
        path = Files(self.workspace.root).readable(source, field="file")
        with self._lock:
            busy = [f"{job.source} by {job.model}" for job in self._jobs.values() if job.running]
            if len(busy) >= MOST_AT_ONCE:
                raise SylvaError(f"{' and '.join(busy)} are being scored already; wait for one of them, or stop it.")
            target = self._free_target(f"{title_of(source)} by {model}", ending)
            job = ScoringJob(uuid4().hex[:12], model, source, target)
            self._jobs[job.id] = job
            self._forget_oldest()
        order = {
            "parent": os.getpid(), "model": str(folder), "source": str(path), "target": str(target),
            "keep_all": keep_all, "file_format": (file_format or FileFormat()).to_json(),
        }  # fmt: skip
        # Whoever starts the process stays until its end: the kernel takes the end of a thread for that of its parent.
        threading.Thread(target=self._work, args=(job.id, order), name=f"scoring-{job.id}", daemon=True).start()
        return job

    def all(self) -> list[ScoringJob]:
        """All jobs, the newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def of(self, model: str) -> list[ScoringJob]:
        """Those of one model, the newest first."""
        return [job for job in self.all() if job.model == model]

    def get(self, job: str) -> ScoringJob | None:
        """One job as it is now."""
        with self._lock:
            return self._jobs.get(job)

    def cancel(self, job: str) -> None:
        """Stop a job; nothing of its result stays."""
        with self._lock:
            if (found := self._jobs.get(job)) is None or not found.running:
                return
            self._jobs[job] = replace(found, stopping=True)
            process = self._processes.get(job)
        if process is not None:
            _stop(process)

    def cancel_all_of(self, model: str) -> None:
        """Stop whatever is at work with a model."""
        for job in self.of(model):
            self.cancel(job.id)

    def forget(self, job: str) -> None:
        """Take a finished job off the list; its file stays."""
        with self._lock:
            if (found := self._jobs.get(job)) is not None and not found.running:
                del self._jobs[job]

    def _forget_oldest(self) -> None:
        over = len(self._jobs) - MOST_REMEMBERED
        for job in [job.id for job in self._jobs.values() if not job.running][: max(over, 0)]:
            del self._jobs[job]

    def _free_target(self, title: str, ending: str) -> Path:
        """A name in ``exports`` that neither a file has nor a job that is at work."""
        folder = Files(self.workspace.root).exports
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SylvaError(f"{folder} cannot be written: {error.strerror}.") from error
        taken = {job.target for job in self._jobs.values() if job.running}
        stem = title.encode()[:150].decode("utf-8", "ignore").lstrip(".")
        names = (folder / f"{stem}{'' if number == 1 else f' {number}'}.{ending}" for number in range(1, 1_000_000))
        return next(path for path in names if path not in taken and not os.path.lexists(path))

    # The work

    def _work(self, job: str, order: dict[str, Any]) -> None:
        try:
            ended = self._watched(job, order)
        except Exception as error:  # whatever it is, the job has ended
            ended = {"error": f"The scoring could not be started: {error}"}
        target = Path(order["target"])
        if "done" not in ended:
            _clear(target)
        self._end(job, ended)

    def _watched(self, job: str, order: dict[str, Any]) -> dict[str, Any]:
        """Start the process and listen to it; its last word."""
        last: dict[str, Any] = {}
        with TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
            process = subprocess.Popen(
                self.scorer, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True,
                encoding="utf-8", start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None and process.stdout is not None
            with process.stdout:
                with suppress(BrokenPipeError), process.stdin as told:
                    told.write(json.dumps(order))
                self._note_process(job, process)
                for line in process.stdout:
                    last = json.loads(line)
                    self._note_progress(job, last)
            code = process.wait()
            if not last.keys() & {"done", "error", "stopped"}:
                complaints.seek(0)
                last = {"error": _why_it_died(Path(order["source"]).name, code, complaints.read())}
        return last

    def _note_process(self, job: str, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes[job] = process
            stop = self._jobs[job].stopping
        if stop:
            _stop(process)

    def _note_progress(self, job: str, facts: dict[str, Any]) -> None:
        if "rows" in facts:
            with self._lock:
                self._jobs[job] = replace(self._jobs[job], rows=facts["rows"], total=facts["total"])

    def _end(self, job: str, last: dict[str, Any]) -> None:
        with self._lock:
            self._processes.pop(job, None)
            found = replace(self._jobs[job], finished=time.time())
            if "done" in last:
                found = replace(found, state="done", rows=last["done"], total=last["done"])
            elif found.stopping or "stopped" in last:
                found = replace(found, state="cancelled")
            else:
                found = replace(found, state="failed", error=last["error"])
            self._jobs[job] = found


def _stop(process: subprocess.Popen[str]) -> None:
    """Ask, and insist later."""
    with suppress(ProcessLookupError):
        process.terminate()
    insist = threading.Timer(PATIENCE, _insist, args=(process,))
    insist.daemon = True
    insist.start()


def _insist(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()


def _clear(target: Path) -> None:
    """Remove what a process that was killed has left beside its target."""
    beginning = f".{target.name[:100]}."
    with suppress(OSError):
        for path in target.parent.iterdir():
            if path.name.startswith(beginning) and path.name.endswith(".unfinished"):
                path.unlink(missing_ok=True)


def _why_it_died(source: str, code: int, error_output: str) -> str:
    lines = [line for line in error_output.splitlines() if line.strip()]
    if code == -signal.SIGKILL or "bad_alloc" in error_output:
        return "The scoring was killed; perhaps there was not enough memory."
    if code < 0:
        return reader_crashed(source, exit_text(code)).message
    return f"The scoring ended unexpectedly: {lines[-1][:300] if lines else f'exit code {code}'}"


# Whether a file fits


def misfit(model: Path, source: Path, file_format: FileFormat | None = None) -> str:
    """Return what keeps the model from scoring the file, all columns named; empty if its first rows fit."""
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
    """Raise ``BadInput`` unless the first rows of the file fit the model; runs in a child process."""
    with read_lock(Path(model)):
        fitting = InputChecker(TableEncoder.from_json(describe_model(Path(model))["encoder"]))
    file = open_blocks(Path(source), FileFormat.from_json(file_format))
    check_names(file, fitting)
    wanted = [name for name in fitting.encoder.names if file.names is None or name in file.names]
    first = next(iter(file.blocks(wanted, CHECKED_ROWS)), None)
    if first is None:
        raise BadInput(f"'{Path(source).name}' has no rows")
    fitting.table(first)
