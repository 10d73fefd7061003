"""Jobs that need each other's results, run as soon as what they need is there.

A layer of a cascade is such a graph: its folds are drawn, each (learner, fold) is fitted, and the vectors of the rows
that were held out are gathered learner by learner. A job waits for its own inputs only. What is finished may be kept by
a checkpointer, so that a fit that was killed repeats none of it.

- ``Job``, ``JobRunner``   the graph's nodes, and what runs them: executor, checkpointer, listener, cancellation
- ``Event``                what a listener is told
- ``Checkpointer``, ``FolderCheckpointer``  where finished jobs are kept
- ``FitCancelled``         raised by a fit that was asked to stop
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
LOOK_EVERY = 0.1  # seconds between looks whether the fit was cancelled
ATTEMPTS = 20


class FitCancelled(Exception):
    """The fit was asked to stop."""


@dataclass(frozen=True)
class Job:
    """Work that is called with the results of the jobs it needs, in their order.

    With ``pack`` and ``unpack`` its result can be kept by a checkpointer; without, it is worked out again. A ``light``
    job is done on the spot: to hand it to a worker would cost more.
    """

    key: str
    work: Callable[..., Any]
    needs: tuple[str, ...] = ()
    pack: Callable[[Any], Pack] | None = None
    unpack: Callable[[Pack], Any] | None = None
    light: bool = False
    place: tuple[str, ...] = ()
    """Where it stands among the others, in words: layer, learner, fold. Jobs that have none go without saying."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a job: ``kept`` means that its result was there from an earlier fit.

    Jobs that have a place are announced as ``waiting`` before the first of them starts.
    """

    key: str
    state: State
    seconds: float = 0.0
    result: Any = field(default=None, repr=False)
    place: tuple[str, ...] = ()


class Checkpointer(Protocol):
    """Keeps the results of finished jobs by key."""

    def load(self, key: str) -> Pack | None:
        """The result kept under ``key``, or None."""

    def save(self, key: str, pack: Pack) -> None:
        """Keep a result; once this returns it survives a kill."""


class FolderCheckpointer:
    """Keeps each result in a folder of its own, which appears whole or not at all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def load(self, key: str) -> Pack | None:
        """The result kept under ``key``; a broken one counts as not there."""
        try:
            return read_model(self.folder / key)[1]["result"]
        except (BrokenModel, KeyError, OSError):
            return None

    def save(self, key: str, pack: Pack) -> None:
        """Write beside, then change places: what was there is whole until then, whoever else may be at it."""
        target = self.folder / key
        beside = target.parent / f".{target.name}-{uuid.uuid4().hex[:8]}"
        write_model(beside, {}, {"result": pack})
        for attempt in range(ATTEMPTS):
            old = beside.with_name(f"{beside.name}-{attempt}")
            try:
                if target.exists():
                    target.rename(old)
                beside.rename(target)
                break
            except OSError:  # another process, at the same fit, was faster
                if attempt + 1 == ATTEMPTS:
                    raise
            finally:
                _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class Interrupt:
    """Called by long work now and then; raises once the fit is cancelled or ``over``. In another process it never does.

    A fit is over when its runner is left, by Ctrl-C for instance: nobody waits for the work that still runs.
    """

    def __init__(self, cancelled: Callable[[], bool] | None) -> None:
        self.cancelled = cancelled
        self.over = False

    def __call__(self) -> None:
        """Raise ``FitCancelled`` if so."""
        if self.over or (self.cancelled is not None and self.cancelled()):
            raise FitCancelled("the fit was cancelled")

    def __reduce__(self) -> tuple[Any, ...]:
        return Interrupt, (None,)


class JobRunner:
    """Runs graphs of jobs on an executor, by default ``n_jobs`` threads of its own; use it in a ``with`` block.

    ``listener`` is told each event by the thread that runs the graph. ``cancelled`` is asked often; once it says yes,
    nothing more is started and ``FitCancelled`` is raised. ``prefix`` is put before the keys of what is kept.
    """

    def __init__(
        self,
        n_jobs: int = 1,
        *,
        executor: Executor | None = None,
        checkpointer: Checkpointer | None = None,
        listener: Callable[[Event], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.n_jobs = n_jobs
        self.checkpointer = checkpointer
        self.prefix = ""
        self.interrupt = Interrupt(cancelled)
        self.tell = listener or (lambda event: None)
        self._executor = executor or ThreadPoolExecutor(n_jobs)
        self._owned = self._executor if executor is None else None

    def __enter__(self) -> JobRunner:
        return self

    def __exit__(self, *error: object) -> None:
        self.interrupt.over = True
        if self._owned is not None:
            self._owned.shutdown(cancel_futures=True)

    def run(self, jobs: Iterable[Job]) -> dict[str, Any]:
        """The results of all jobs by key; the first failure is raised once the jobs that run beside it have ended."""
        waiting = {job.key: job for job in jobs}
        results: dict[str, Any] = {}
        running: dict[Future[Any], tuple[Job, float]] = {}
        failure: BaseException | None = None
        for job in waiting.values():
            if job.place:
                self._say(job, "waiting")
        while waiting or running:
            if failure is None:
                failure = self._start_ready(waiting, results, running)
            if not running:
                break
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

    def _say(self, job: Job, state: State, seconds: float = 0.0, result: Any = None) -> None:
        self.tell(Event(job.key, state, seconds, result, job.place))

    def _start_ready(
        self, waiting: dict[str, Job], results: dict[str, Any], running: dict[Future[Any], tuple[Job, float]]
    ) -> BaseException | None:
        """Start what can be started while there is a free worker, or take it from the checkpoints."""
        for job in list(waiting.values()):
            if len(running) >= self.n_jobs or not all(key in results for key in job.needs):
                continue
            try:
                self.interrupt()
            except FitCancelled as error:
                return error
            del waiting[job.key]
            if not self._is_kept(job, results):
                self._say(job, "started")
                submit = _on_the_spot if job.light else self._executor.submit
                future = submit(job.work, *(results[key] for key in job.needs))
                running[future] = (job, time.perf_counter())
        # a kept result may have made further jobs ready, with nothing running to come back for
        if not running and any(all(key in results for key in job.needs) for job in waiting.values()):
            return self._start_ready(waiting, results, running)
        return None

    def _is_kept(self, job: Job, results: dict[str, Any]) -> bool:
        if self.checkpointer is None or job.unpack is None:
            return False
        pack = self.checkpointer.load(self.prefix + job.key)
        if pack is None:
            return False
        try:
            results[job.key] = job.unpack(pack)
        except (ValueError, KeyError, TypeError):  # written by another version: fit it again
            return False
        self._say(job, "kept", result=results[job.key])
        return True

    def _finish(self, job: Job, future: Future[Any], seconds: float, results: dict[str, Any]) -> BaseException | None:
        error = future.exception() or self._keep(job, future.result())
        if error is not None:
            self._say(job, "failed", seconds)
            if not isinstance(error, FitCancelled):
                error.add_note(f"in the job {job.key}")
            return error
        results[job.key] = future.result()
        self._say(job, "finished", seconds, results[job.key])
        return None

    def _keep(self, job: Job, result: Any) -> BaseException | None:
        if self.checkpointer is None or job.pack is None:
            return None
        try:
            self.checkpointer.save(self.prefix + job.key, job.pack(result))
        except OSError as error:  # a full disk, say
            return error
        return None


def _on_the_spot(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(work(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future
