"""Measure a real Dask cluster on this machine: ``python -m benchmarks.scale.cluster JOB``.

- ``replay``  a MART cascade on one or two workers of one thread: when each fit began and ended
- ``queue``   1,000 tasks that wait at once and whose results are there: what is left is overhead
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from deepforest import FitEvent, preset
from engine.executors import ClusterOfRun, NodeTask
from engine.executors.cluster_jobs import ClusterJobs
from engine.executors.dask import DaskExecutor
from engine.workspace import Workspace

from .._cascade_jobs import keep_all_layers
from .._figures import ROOT, process_tree
from ..cluster import task_of
from .jobs import _size, table

ADMIT_SECONDS = 120.0
Figures = dict[str, Any]


@dataclass
class RealCluster:
    """A cluster whose workers are admitted, and a folder for the results of one node."""

    task: NodeTask
    folder: Path
    up: int
    """The process that has started the cluster."""

    def cpu_by_part(self) -> dict[str, float]:
        """Return the CPU seconds so far of this process, the scheduler, the workers, and all else.

        All else are the hosts beside the workers and the processes in which fits run.
        """
        seconds = {"coordinator": _cpu(os.getpid(), with_children=False)}
        for pid in process_tree(self.up):
            part = _part_of(pid)
            seconds[part] = seconds.get(part, 0.0) + _cpu(pid, with_children=part == "hosts")
        return seconds


def _part_of(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return "hosts"
    if "scheduler" in words:
        return "scheduler"
    if any("spawn_main" in word for word in words):
        return "workers"
    if pid and ("worker" in words or "up" in words):
        return "nannies"
    return "hosts"


def _cpu(pid: int, with_children: bool) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    own = times.user + times.system
    return float(own + (times.children_user + times.children_system if with_children else 0))


@contextmanager
def real_cluster(n_workers: int) -> Iterator[RealCluster]:
    """Start a cluster of workers of one thread, and yield it once they are admitted."""
    words = ["cluster", "up", "--workers", str(n_workers), "--port", "0"]
    command = [sys.executable, "-m", "benchmarks.sylva", *words]
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(Path(place) / "workspace").create()
        up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert up.stdout is not None
        try:
            address = up.stdout.readline().split(" is at ")[1].split()[0].rstrip(".")
            executor = DaskExecutor(address, workspace.run_folder("bench"))
            _admit(executor, n_workers)
            task = _task(workspace, executor, n_workers)
            folder = workspace.checkpoints / task.key
            folder.mkdir(parents=True)
            yield RealCluster(task, folder, up.pid)
            executor.close()
        finally:
            up.terminate()
            up.wait()


def _admit(executor: DaskExecutor, n_workers: int) -> None:
    deadline = time.monotonic() + ADMIT_SECONDS
    while len(executor._admitted()) < n_workers:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the workers were not admitted: {executor.workers}")
        executor.wait(0.2)


def _task(workspace: Workspace, executor: DaskExecutor, n_workers: int) -> NodeTask:
    machines = {socket.gethostname(): n_workers}
    about = ClusterOfRun(executor.address, executor._check.resource, machines, executor._client.id)
    return task_of(workspace, "bench", about)


@dataclass
class Timeline:
    """Note when the sets of fits were announced, and when each fit began and ended."""

    began: float = field(default_factory=time.perf_counter)
    sets: list[Figures] = field(default_factory=list)

    def __call__(self, event: FitEvent) -> None:
        """Note an event."""
        now = time.perf_counter() - self.began
        if not event.place:
            return
        if event.state == "waiting" and (not self.sets or self.sets[-1]["fits"]):
            self.sets.append({"announced": now, "fits": {}, "ended": now})
        elif event.state == "finished":
            self.sets[-1]["fits"][event.key] = [round(event.seconds, 3), event.worker]
            self.sets[-1]["ended"] = now


def replay(workers: int, rows: int, columns: int, learners: int, folds: int, trees: int) -> Figures:
    """Return when the fits of a cascade of two layers ran, CPU by process, and bytes."""
    keep_all_layers()
    x, y = table(rows, columns, 2)
    learner = {"kind": "mart", "n_estimators": trees, "count": learners}
    model = preset("mart_cascade", learners=[learner], cv=folds, max_layers=2, patience=3)
    model.set_params(random_state=0, n_jobs=1, scoring="log_loss")
    with real_cluster(workers) as cluster:
        # The first fits start the hosts of the workers, which takes seconds.
        warm = preset("mart_cascade", learners=[learner | {"n_estimators": 1}], cv=2, max_layers=1)
        _fit(warm.set_params(random_state=0), x[:400], y[:400], cluster, None)
        timeline, before = Timeline(), cluster.cpu_by_part()
        _fit(model, x, y, cluster, timeline)
        wall = time.perf_counter() - timeline.began
        after = cluster.cpu_by_part()
        files = [file for file in cluster.folder.rglob("*") if file.is_file()]
        return {
            "wall": round(wall, 3),
            "sets": timeline.sets,
            "cpu_by_part": {part: round(after[part] - before.get(part, 0), 3) for part in after},
            "written": sum(_size(file) for file in files),
            "task_bytes": len(json.dumps(cluster.task.to_dict())),
        }


def _fit(model: Any, x: Any, y: Any, cluster: RealCluster, timeline: Timeline | None) -> None:
    remote = ClusterJobs(cluster.task)
    try:
        model.fit(x, y, checkpoint=cluster.folder, executor=remote, listener=timeline)
    finally:
        remote.close()


class _Noting(ClusterJobs):
    """Cluster jobs that note the requests that are submitted."""

    def __init__(self, task: NodeTask) -> None:
        super().__init__(task)
        self.requests: dict[str, dict[str, Any]] = {}

    def submit_job(self, key: str, request: dict[str, Any]) -> Any:
        """Note a request, and submit it."""
        self.requests[key] = request
        return super().submit_job(key, request)


def queue(workers: int, tasks: int) -> Figures:
    """Return the wall and CPU seconds of tasks that wait at once and find their results."""
    x, y = table(400, 30, 2)
    with real_cluster(workers) as cluster:
        remote = _Noting(cluster.task)
        learner = {"kind": "mart", "n_estimators": 1, "count": 2}
        small = preset("mart_cascade", learners=[learner], cv=2, max_layers=1, random_state=0)
        small.fit(x, y, checkpoint=cluster.folder, executor=remote)
        (key, request), *_ = remote.requests.items()
        # The same result under many keys: a task finds it and ends.
        copies = [_copy(cluster.folder, key, number) for number in range(tasks)]
        began, before = time.perf_counter(), cluster.cpu_by_part()
        futures = [remote.submit_job(copy, request) for copy in copies]
        submitted = time.perf_counter() - began
        wait(futures)
        wall, after = time.perf_counter() - began, cluster.cpu_by_part()
        assert all(future.exception() is None for future in futures)
        remote.close()
        return {
            "tasks": tasks,
            "wall": round(wall, 3),
            "submitting": round(submitted, 3),
            "cpu_by_part": {part: round(after[part] - before.get(part, 0), 3) for part in after},
        }


def _copy(folder: Path, key: str, number: int) -> str:
    """Return another key with the same result."""
    name = f"copy-{number}"
    (folder / name).symlink_to(folder / key, target_is_directory=True)
    return name


JOBS = {job.__name__: job for job in (replay, queue)}


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    print(json.dumps(JOBS[job.pop("job")](**job)))
