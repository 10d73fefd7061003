"""Run jobs that need each other's results, each as soon as its inputs are ready.

A layer of a cascade is such a graph: its folds are drawn, each (learner, fold) is fitted, and the
vectors of the rows that were held out are gathered learner by learner. A job waits for its own
inputs only. A checkpointer may save the results of finished jobs, so that a fit that was killed
does not repeat them.

- ``Job``, ``JobRunner``  the nodes of the graph, and what runs them: executor, checkpointer,
  listener, cancellation
- ``FitEvent``               what a listener gets
- ``Checkpointer``, ``FolderCheckpointer``  where the results of finished jobs are saved
- ``FitCancelled``        raised by a fit that was asked to stop
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from ._files import BrokenModel, Pack, read_model, write_model

State = Literal["waiting", "started", "finished", "kept", "failed"]
LOOK_EVERY = 0.1  # seconds between two checks whether the fit was cancelled
ATTEMPTS = 20
"""How often a result is saved again when another process saves the same one at the same time."""


class FitCancelled(Exception):
    """Report that the fit was asked to stop."""


@dataclass(frozen=True)
class Job:
    """Describe work that is called with the results of the jobs it needs, in their order.

    With ``pack`` and ``unpack`` a checkpointer can save its result; without, it is computed again.
    A ``light`` job runs at once in the calling thread: sending it to a worker would cost more.
    """

    key: str
    work: Callable[..., Any]
    needs: tuple[str, ...] = ()
    pack: Callable[[Any], Pack] | None = None
    unpack: Callable[[Pack], Any] | None = None
    light: bool = False
    place: tuple[str, ...] = ()
    """Layer, learner and fold in words, for people; jobs without a place are not announced."""


@dataclass(frozen=True)
class FitEvent:
    """Report a change in the state of a job.

    ``kept`` means that its result was saved by an earlier fit. Jobs with a place are announced as
    ``waiting`` before the first of them starts.
    """

    key: str
    state: State
    seconds: float = 0.0
    result: Any = field(default=None, repr=False)
    place: tuple[str, ...] = ()


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


class JobRunner:
    """Run graphs of jobs on an executor, by default ``n_jobs`` own threads, in a ``with`` block.

    ``listener`` gets each event in the thread that runs the graph. ``cancelled`` is called often;
    once it returns true, no further job starts and ``FitCancelled`` is raised. ``prefix`` is put
    before the keys of saved results.
    """

    def __init__(
        self,
        n_jobs: int = 1,
        *,
        executor: Executor | None = None,
        checkpointer: Checkpointer | None = None,
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.n_jobs = n_jobs
        self.checkpointer = checkpointer
        self.prefix = ""
        self.interrupt = Interrupt(cancelled)
        self.notify = listener or (lambda event: None)
        self._executor = executor or ThreadPoolExecutor(n_jobs)
        self._owned = self._executor if executor is None else None

    def __enter__(self) -> JobRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.interrupt.over = True
        # An executor of the caller stays open: it may have other work.
        if self._owned is not None:
            self._owned.shutdown(cancel_futures=True)

    def run(self, jobs: Iterable[Job]) -> dict[str, Any]:
        """Return the results of all jobs by key.

        If a job fails, raise its error once the jobs that run at the same time have ended. Raise
        ``ValueError`` if a job needs a result that no job gives.
        """
        waiting = {job.key: job for job in jobs}
        results: dict[str, Any] = {}
        running: dict[Future[Any], tuple[Job, float]] = {}
        failure: BaseException | None = None
        for job in waiting.values():
            if job.place:
                self._report(job, "waiting")
        while waiting or running:
            if failure is None:
                failure = self._start_ready(waiting, results, running)
            if not running:
                break
            # A limited wait, so that a cancelled fit stops soon even if no job ends.
            done, _ = wait(running, timeout=LOOK_EVERY, return_when=FIRST_COMPLETED)
            for future in done:
                job, began = running.pop(future)
                error = self._finish(job, future, time.perf_counter() - began, results)
                failure = error if failure is None else failure
        if failure is not None:
            raise failure
        if waiting:
            raise ValueError(f"these jobs wait for what no job gives: {', '.join(waiting)}")
        return results

    def _report(self, job: Job, state: State, seconds: float = 0.0, result: Any = None) -> None:
        """Send an event to the listener."""
        self.notify(FitEvent(job.key, state, seconds, result, job.place))

    def _start_ready(
        self,
        waiting: dict[str, Job],
        results: dict[str, Any],
        running: dict[Future[Any], tuple[Job, float]],
    ) -> BaseException | None:
        """Start the jobs that are ready while a worker is free, or load their saved results.

        Return ``FitCancelled`` if the fit was cancelled meanwhile.
        """
        for job in list(waiting.values()):
            if len(running) >= self.n_jobs or not all(key in results for key in job.needs):
                continue
            try:
                self.interrupt()
            except FitCancelled as error:
                return error
            del waiting[job.key]
            if not self._load_saved(job, results):
                self._report(job, "started")
                submit = _run_here if job.light else self._executor.submit
                future = submit(job.work, *(results[key] for key in job.needs))
                running[future] = (job, time.perf_counter())
        # A loaded result may make further jobs ready; if nothing runs, no event would come back.
        if not running and any(results.keys() >= set(job.needs) for job in waiting.values()):
            return self._start_ready(waiting, results, running)
        return None

    def _load_saved(self, job: Job, results: dict[str, Any]) -> bool:
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
        self, job: Job, future: Future[Any], seconds: float, results: dict[str, Any]
    ) -> BaseException | None:
        """Save and store the result of a job that has ended; return its error, if it failed."""
        error = future.exception() or self._save(job, future.result())
        if error is not None:
            self._report(job, "failed", seconds)
            if not isinstance(error, FitCancelled):
                error.add_note(f"in the job {job.key}")
            return error
        results[job.key] = future.result()
        self._report(job, "finished", seconds, results[job.key])
        return None

    def _save(self, job: Job, result: Any) -> BaseException | None:
        """Save a result; return the error if that fails, for example on a full disk."""
        if self.checkpointer is None or job.pack is None:
            return None
        try:
            self.checkpointer.save(self.prefix + job.key, job.pack(result))
        except OSError as error:
            return error
        return None


def _run_here(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Run work in this thread and return its result as a future that is done."""
    future: Future[Any] = Future()
    try:
        future.set_result(work(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future
