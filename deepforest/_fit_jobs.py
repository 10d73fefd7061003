"""Run the fits of a layer as jobs, several at the same time.

A checkpointer may save the results of finished jobs, so that a fit that was killed does not repeat
them.

- ``FitJob``, ``JobRunner``  the jobs, and what runs them: executor, checkpointer, listener,
  cancellation
- ``FitEvent``            what a listener gets
- ``make_runner``         the runner of a fit, from the arguments of ``fit``
- ``Checkpointer``, ``FolderCheckpointer``  where the results of finished jobs are saved
- ``FitCancelled``        raised by a fit that was asked to stop
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from joblib import effective_n_jobs  # type: ignore[import-untyped]

from .persistence import BrokenModel, Pack, read_model, write_model

State = Literal["waiting", "started", "finished", "kept", "failed"]
LOOK_EVERY = 0.1  # seconds between two checks whether the fit was cancelled
ATTEMPTS = 20
"""How often a result is saved again when another process saves the same one at the same time."""


class FitCancelled(Exception):
    """Report that the fit was asked to stop."""


@dataclass(frozen=True)
class FitJob:
    """Describe one piece of work.

    With ``pack`` and ``unpack`` a checkpointer can save its result; without, it is computed again.
    """

    key: str
    work: Callable[[], Any]
    pack: Callable[[Any], Pack] | None = None
    unpack: Callable[[Pack], Any] | None = None
    place: tuple[str, ...] = ()
    """Layer, learner and fold in words, for people."""
    request: dict[str, Any] | None = None
    """The same work for ``run_fit``, if another machine can do it."""


@dataclass(frozen=True)
class FitEvent:
    """Report a change in the state of a job.

    ``kept`` means that its result was saved by an earlier fit. All jobs are announced as
    ``waiting`` before the first of them starts.
    """

    key: str
    state: State
    seconds: float = 0.0
    result: Any = field(default=None, repr=False)
    place: tuple[str, ...] = ()
    worker: str = ""
    """The machine that does the work, if it is another one."""


@runtime_checkable
class RemoteJobs(Protocol):
    """Let other machines carry out fits; they see the folder of the checkpoints."""

    @property
    def n_jobs(self) -> int:
        """How many fits may run at the same time."""

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        """Let ``run_fit`` carry out a request; the future has the name of the worker.

        It is done when the result is saved under ``key``, and fails if that is not possible.
        """

    def worker_of(self, key: str) -> str:
        """Return the name of the worker that does the work now, empty if none does yet."""


class Checkpointer(Protocol):
    """Save and load the results of finished jobs by key."""

    def load(self, key: str) -> Pack | None:
        """Return the result saved under ``key``, or None."""

    def save(self, key: str, pack: Pack) -> None:
        """Save a result; once this returns, it survives a kill of the process."""


class FolderCheckpointer:
    """Save each result in its own folder, which appears complete or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def load(self, key: str) -> Pack | None:
        """Return the result saved under ``key``, None if it is missing or damaged."""
        try:
            return read_model(self.folder / key)[1]["result"]
        except (BrokenModel, KeyError, OSError):
            return None

    def save(self, key: str, pack: Pack) -> None:
        """Write a new folder beside the old one, then rename it into place.

        The old result stays complete until then, even if another process saves the same key.
        """
        target = self.folder / key
        beside = target.parent / f".{target.name}-{uuid.uuid4().hex[:8]}"
        write_model(beside, {}, {"result": pack})
        for attempt in range(ATTEMPTS):
            old = beside.with_name(f"{beside.name}-{attempt}")
            try:
                # A folder cannot be renamed onto one that has files.
                if target.exists():
                    target.rename(old)
                beside.rename(target)
                break
            except OSError:  # another process that runs the same fit was faster
                if attempt + 1 == ATTEMPTS:
                    raise
            finally:
                _remove(old)


def _remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class Interrupt:
    """Raise ``FitCancelled`` once the fit is cancelled or over; long work calls it now and then.

    A fit is over when its runner is left, for example by Ctrl-C: its results are not needed any
    more. A copy in another process never raises, since it cannot know.
    """

    def __init__(self, cancelled: Callable[[], bool] | None) -> None:
        self.cancelled = cancelled
        self.over = False

    def __call__(self) -> None:
        """Raise ``FitCancelled`` if the work should stop."""
        if self.over or (self.cancelled is not None and self.cancelled()):
            raise FitCancelled("the fit was cancelled")

    def __reduce__(self) -> tuple[Any, ...]:
        return Interrupt, (None,)


@dataclass
class _Running:
    """Hold a job that was started and has not ended."""

    job: FitJob
    began: float
    worker: str = ""


class JobRunner:
    """Run jobs on an executor, by default ``n_jobs`` own threads, in a ``with`` block.

    ``listener`` gets each event in the thread that calls ``run``. ``cancelled`` is called often;
    once it returns true, no further job starts and ``FitCancelled`` is raised. ``prefix`` is put
    before the keys of saved results. ``remote`` carries out the jobs that have a request; it needs
    a ``FolderCheckpointer``.
    """

    def __init__(
        self,
        n_jobs: int = 1,
        *,
        executor: Executor | None = None,
        checkpointer: Checkpointer | None = None,
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        remote: RemoteJobs | None = None,
    ) -> None:
        self._n_jobs = n_jobs
        self.remote = remote
        self.checkpointer = checkpointer
        self.prefix = ""
        self.interrupt = Interrupt(cancelled)
        self.notify = listener or (lambda event: None)
        self._executor = executor or ThreadPoolExecutor(n_jobs)
        self._owned = self._executor if executor is None else None

    @property
    def n_jobs(self) -> int:
        """How many jobs run at the same time; workers may come and go."""
        return self._n_jobs if self.remote is None else max(1, self.remote.n_jobs)

    @property
    def remote_folder(self) -> Path:
        """The folder that all machines see."""
        assert isinstance(self.checkpointer, FolderCheckpointer)
        return self.checkpointer.folder

    def __enter__(self) -> JobRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.interrupt.over = True
        # An executor of the caller stays open: it may have other work.
        if self._owned is not None:
            self._owned.shutdown(cancel_futures=True)

    def run(self, jobs: Iterable[FitJob]) -> dict[str, Any]:
        """Return the results of all jobs by key.

        If a job fails, raise its error once the jobs that run at the same time have ended.
        """
        waiting = deque(jobs)
        results: dict[str, Any] = {}
        running: dict[Future[Any], _Running] = {}
        failure: BaseException | None = None
        for job in waiting:
            self._report(job, "waiting")
        while (waiting and failure is None) or running:
            while waiting and failure is None and len(running) < self.n_jobs:
                failure = self._start(waiting.popleft(), results, running)
            for future in self._wait(running):
                error = self._finish(running.pop(future), future, results)
                failure = error if failure is None else failure
            self._report_workers(running.values())
        if failure is not None:
            raise failure
        return results

    def threads(self, n_jobs: int) -> int:
        """Return how many threads each of so many jobs may use."""
        return max(1, self.n_jobs // n_jobs)

    def _wait(self, running: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Return the jobs that have ended; a simulation does not wait in real time."""
        # A limited wait, so that a cancelled fit stops soon even if no job ends.
        return wait(running, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED).done

    def _report(
        self, job: FitJob, state: State, seconds: float = 0.0, result: Any = None, worker: str = ""
    ) -> None:
        """Send an event to the listener."""
        self.notify(FitEvent(job.key, state, seconds, result, job.place, worker))

    def _report_workers(self, running: Iterable[_Running]) -> None:
        """Report which machine does which job, once that is known or has changed."""
        if self.remote is None:
            return
        for each in running:
            worker = self.remote.worker_of(self.prefix + each.job.key)
            if worker not in ("", each.worker):
                each.worker = worker
                self._report(each.job, "started", worker=worker)

    def _start(
        self,
        job: FitJob,
        results: dict[str, Any],
        running: dict[Future[Any], _Running],
    ) -> BaseException | None:
        """Start a job, or load its saved result; return ``FitCancelled`` if it was cancelled."""
        try:
            self.interrupt()
        except FitCancelled as error:
            return error
        if not self._load_saved(job, results):
            self._report(job, "started")
            running[self._submit(job)] = _Running(job, time.perf_counter())
        return None

    def _submit(self, job: FitJob) -> Future[Any]:
        """Hand a job to the other machines if they can do it, else to the executor."""
        if self.remote is not None and job.request is not None:
            return self.remote.submit_job(self.prefix + job.key, job.request)
        return self._executor.submit(job.work)

    def _load_saved(self, job: FitJob, results: dict[str, Any]) -> bool:
        """Take the result of a job from the checkpoints; return whether it was there and usable."""
        if self.checkpointer is None or job.unpack is None:
            return False
        pack = self.checkpointer.load(self.prefix + job.key)
        if pack is None:
            return False
        try:
            results[job.key] = job.unpack(pack)
        except (ValueError, KeyError, TypeError):  # written by another version: fit it again
            return False
        self._report(job, "kept", result=results[job.key])
        return True

    def _finish(
        self, running: _Running, future: Future[Any], results: dict[str, Any]
    ) -> BaseException | None:
        """Save and store the result of a job that has ended; return its error, if it failed."""
        job, seconds = running.job, time.perf_counter() - running.began
        error = future.exception() or self._take(job, future.result(), results)
        if error is not None:
            self._report(job, "failed", seconds, worker=running.worker)
            if not isinstance(error, FitCancelled):
                error.add_note(f"in the job {job.key}")
            return error
        worker = future.result() if self._is_remote(job) else ""
        self._report(job, "finished", seconds, results[job.key], worker)
        return None

    def _is_remote(self, job: FitJob) -> bool:
        """Return whether other machines carry out a job."""
        return self.remote is not None and job.request is not None

    def _take(self, job: FitJob, result: Any, results: dict[str, Any]) -> BaseException | None:
        """Save the result of a job, or read it if another machine has saved it.

        Return the error if that fails, for example on a full disk.
        """
        if not self._is_remote(job):
            results[job.key] = result
            return self._save(job, result)
        pack = self.checkpointer.load(self.prefix + job.key) if self.checkpointer else None
        if pack is None or job.unpack is None:
            return OSError(f"the result of {job.key} is not in {self.remote_folder}")
        results[job.key] = job.unpack(pack)
        return None

    def _save(self, job: FitJob, result: Any) -> BaseException | None:
        """Save a result; return the error if that fails, for example on a full disk."""
        if self.checkpointer is None or job.pack is None:
            return None
        try:
            self.checkpointer.save(self.prefix + job.key, job.pack(result))
        except OSError as error:
            return error
        return None


def make_runner(
    n_jobs: int | None,
    checkpoint: str | Path | Checkpointer | None,
    executor: Executor | RemoteJobs | None,
    listener: Callable[[FitEvent], None] | None,
    cancelled: Callable[[], bool] | None,
) -> JobRunner:
    """Return the runner of a fit; raise ``ValueError`` if ``checkpoint`` is not what it needs."""
    if isinstance(checkpoint, str | Path):
        if Path(checkpoint).is_file():
            raise ValueError(f"checkpoint is {str(checkpoint)!r}, a file; give a folder")
        checkpoint = FolderCheckpointer(checkpoint)
    if isinstance(executor, RemoteJobs):
        if not isinstance(checkpoint, FolderCheckpointer):
            raise ValueError("fits on other machines need a folder; give it as checkpoint")
        return JobRunner(
            effective_n_jobs(n_jobs),
            checkpointer=checkpoint,
            listener=listener,
            cancelled=cancelled,
            remote=executor,
        )
    # An executor has no public way to ask how many jobs it runs at the same time.
    at_once = getattr(executor, "_max_workers", None) or effective_n_jobs(n_jobs)
    return JobRunner(
        at_once,
        executor=executor,
        checkpointer=checkpoint,
        listener=listener,
        cancelled=cancelled,
    )
