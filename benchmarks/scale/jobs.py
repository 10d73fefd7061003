"""Measure one job and print its figures: ``python -m benchmarks.scale.jobs JOB``.

- ``cascade``  grows a cascade whose fits are carried out from files, as on a cluster: this process
  coordinates, and each fit has a process of its own, one at a time
- ``threads``  one MART with one and with two threads

CPU seconds are those of each thread, by step. Memory is what a process holds that is not a mapped
file, because the system can take mapped files back.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deepforest import _features, _fit_files, _fit_jobs, _grow, _layer, preset
from deepforest.learners import FitSlice, Target, forests, mart

from .._cascade_jobs import keep_all_layers
from ..forest import warm_up

Array = npt.NDArray[Any]
Figures = dict[str, Any]

LOOK_SECONDS = 0.01
TIMED = (
    (_features.Features, "binned", "bin"),
    (_features, "new_dataset", "bin"),
    (_features, "widened", "widen"),
    (_layer, "fingerprint", "digest"),
    (_fit_files.FitFiles, "__init__", "files"),
    (_fit_files.FitFiles, "request", "files"),
    (_fit_jobs.JobRunner, "_take", "take"),
    (_layer, "gather", "gather"),
    (_grow._Growth, "combine", "score"),
    (_grow._Growth, "score", "score"),
    (_grow._Growth, "record", "score"),
    (_fit_files.RequestFiles, "features", "read"),
    (mart, "rows_of", "subset"),
    (mart.Mart, "_boost", "grow"),
    (_features.Features, "dense", "predict"),
    (mart.FittedMart, "_predict", "predict"),
    (forests.ForestLearner, "fit", "grow"),
    (_fit_jobs.FolderCheckpointer, "save", "save"),
)
"""What counts as which step; a step does not contain the time of another one inside it."""


class Steps:
    """Add up the CPU seconds of each step, in any thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._local = threading.local()

    def install(self) -> None:
        """Time the functions of ``TIMED`` in this process."""
        for owner, name, step in TIMED:
            setattr(owner, name, self._timed(getattr(owner, name), step))

    def _timed(self, function: Callable[..., Any], step: str) -> Callable[..., Any]:
        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            outer = getattr(self._local, "inside", 0.0)
            self._local.inside = 0.0
            began = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                whole = time.thread_time() - began
                self.seconds[step] += whole - self._local.inside
                self._local.inside = outer + whole

        return run


class Memory:
    """Note the most memory that this process holds in a block, without mapped files.

    ``cpu`` are the seconds that looking has cost.
    """

    cpu = 0.0

    def __enter__(self) -> Memory:
        self.most = self.before = held_megabytes()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self.most = max(self.most, held_megabytes())
        self.cpu = time.thread_time()


def held_megabytes() -> float:
    """Return the memory of this process that is not a mapped file."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("RssAnon:"):
            return int(entry.split()[1]) / 1024
    raise OSError("this system does not report RssAnon")


class FreshProcesses:
    """Carry out fits from files, each in a process of its own, one after the other."""

    n_jobs = 1

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fits: list[Figures] = []
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "lightgbm"])
        self._pool = ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1)

    def submit_job(self, key: str, request: dict[str, Any]) -> Future[str]:
        """Let a fresh process carry out a fit."""
        done: Future[str] = Future()
        fit = self._pool.submit(carry_out, str(self.folder), key, request)

        def finish(ended: Future[Figures]) -> None:
            error = ended.exception()
            if error is not None:
                done.set_exception(error)
                return
            self.fits.append({"key": key, **ended.result()})
            done.set_result("fresh")

        fit.add_done_callback(finish)
        return done

    def worker_of(self, key: str) -> str:
        """Return that the worker has no name."""
        return ""


def carry_out(folder: str, key: str, request: dict[str, Any]) -> Figures:
    """Carry out a fit, and return its rows, CPU seconds by step, memory and bytes."""
    steps = Steps()
    steps.install()
    began = time.process_time()
    with Memory() as memory:
        _fit_files.run_fit(folder, key, request)
    cpu = time.process_time() - began - memory.cpu
    files = _fit_files.RequestFiles(Path(folder) / _fit_files.DATA, request)
    values = files.array("values")
    n_left_out = len(files.rows("left_out", len(values)))
    mapped = n_left_out * values.shape[1] * values.itemsize
    if "dataset" not in request:
        mapped = 0  # a forest predicts from its bins
    width = values.shape[1] + (files.array("vectors").shape[1] if request["vectors"] else 0)
    names = ("dataset", "columns", "rows", "vectors", "target", "weights", "training", "left_out")
    whole = sum(_size(files.folder / request[name]) for name in names if request.get(name))
    return {
        "training": len(files.rows("training", len(values))),
        "left_out": n_left_out,
        "width": width,
        "cpu": cpu,
        "steps": dict(steps.seconds),
        "mb": memory.most - memory.before,
        "read": whole + mapped,
        "result": sum(_size(file) for file in (Path(folder) / key).iterdir()),
    }


def _size(file: Path) -> int:
    return file.stat().st_size


def cascade(
    rows: int,
    columns: int,
    classes: int,
    learners: int,
    folds: int,
    layers: int,
    trees: int,
    kind: str,
) -> Figures:
    """Return what a cascade costs the process that coordinates, and what its fits cost."""
    keep_all_layers()
    if kind != "mart":
        warm_up()
    steps = Steps()
    steps.install()
    x, y = table(rows, columns, classes)
    learner = {"kind": kind, "n_estimators": trees, "count": learners}
    model = preset("mart_cascade", learners=[learner], cv=folds, max_layers=layers, n_jobs=1)
    model.set_params(patience=layers + 1, random_state=0, scoring="log_loss")
    with tempfile.TemporaryDirectory() as place:
        workers = FreshProcesses(Path(place))
        began, wall = time.process_time(), time.perf_counter()
        with Memory() as memory:
            model.fit(x, y, checkpoint=place, executor=workers)
        cpu = time.process_time() - began - memory.cpu
        seconds = time.perf_counter() - wall
        data = sum(_size(file) for file in (Path(place) / _fit_files.DATA).iterdir())
    assert len(model.layer_records_) == layers, "a layer was refused"
    return {
        "cpu": cpu + sum(fit["cpu"] for fit in workers.fits),
        "coordinator": {
            "cpu": cpu,
            "wall": seconds,
            "steps": rounded(steps.seconds),
            "mb": round(memory.most - memory.before, 1),
            "values_mb": round(x.nbytes / 2**20, 1),
            "written": data,
        },
        "fits": grouped(workers.fits),
    }


def grouped(fits: list[Figures]) -> list[Figures]:
    """Return the means of fits that have as many rows and columns, with how many they are."""
    alike: dict[tuple[int, ...], list[Figures]] = {}
    for fit in fits:
        # Folds differ by a row or two.
        rows = (round(fit["training"], -2), round(fit["left_out"], -2))
        alike.setdefault((*rows, fit["width"]), []).append(fit)
    return [_mean_of(group) for group in alike.values()]


def _mean_of(group: list[Figures]) -> Figures:
    names = ("training", "left_out", "width", "cpu", "mb", "read", "result")
    figures: Figures = {"count": len(group)}
    for name in names:
        figures[name] = round(float(np.mean([fit[name] for fit in group])), 4)
    every = sorted({step for fit in group for step in fit["steps"]})
    steps = {}
    for step in every:
        steps[step] = float(np.mean([fit["steps"].get(step, 0) for fit in group]))
    return {
        **figures,
        "mb_most": round(max(fit["mb"] for fit in group), 1),
        "steps": rounded(steps),
    }


def rounded(steps: dict[str, float]) -> dict[str, float]:
    """Return the seconds without digits that mean nothing."""
    return {name: round(seconds, 5) for name, seconds in steps.items()}


def table(n_rows: int, n_columns: int, n_classes: int, seed: int = 0) -> tuple[Array, Array]:
    """Return continuous columns, float32, and classes of equal size that twenty of them show."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    score = x[:, :20].sum(axis=1) + 3 * rng.standard_normal(n_rows, dtype=np.float32)
    cuts = np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1])
    return x, np.digitize(score, cuts)


def threads(rows: int, columns: int, trees: int) -> Figures:
    """Return what binning and a MART cost with one and with two threads.

    The CPU seconds of the thread that leads are the time that an idle machine would need: it leads
    all that only one thread can do. They do not depend on what else this machine does.
    """
    # Else threads that wait would use the processor; it must be set before LightGBM is loaded.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    x, y = table(rows, columns, 2)
    target = Target(y.astype(np.int32), 2)
    learned, left_out = np.arange(rows * 4 // 5), np.arange(rows * 4 // 5, rows)
    found: Figures = {}
    for n_threads in (1, 2):
        features = _features.Features(x, np.zeros(columns, bool), learning=True, n_jobs=n_threads)
        part = FitSlice(learned, left_out, None, 0, n_threads, lambda: None)
        learner = mart.Mart(n_estimators=trees)
        found[f"bin {n_threads}"] = _leading(features.dataset)
        learner.fit(features, target, part)  # what is loaded at the first use is not counted
        found[f"fit {n_threads}"] = _leading(partial(learner.fit, features, target, part))
    return found


def _leading(action: Callable[[], object]) -> list[float]:
    """Return the CPU seconds of the thread that leads, and those of all threads."""
    own, every = time.thread_time(), time.process_time()
    action()
    return [round(time.thread_time() - own, 4), round(time.process_time() - every, 4)]


JOBS = {job.__name__: job for job in (cascade, threads)}


def main(text: str) -> None:
    """Carry out a job and print its result."""
    job = json.loads(text)
    print(json.dumps(JOBS[job.pop("job")](**job)))


if __name__ == "__main__":
    # By its full name, so that the process from which fits are forked can import it beforehand.
    from benchmarks.scale import jobs

    jobs.main(sys.argv[1])
