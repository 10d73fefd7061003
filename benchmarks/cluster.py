"""Measure deep forests on a Dask cluster: ``python -m benchmarks.cluster [PART …]``.

The cluster is real: ``sylva cluster up`` starts a scheduler and two workers of one thread. The
peer is the same fit in one process of this machine. Both sides of a ratio are measured in the same
run. CPU seconds are those of all processes: of this one, of the scheduler, the workers, their hosts
and the processes in which fits run.

- ``graph``  the job graph, its checkpoints and the cluster against a plain loop, on adult
- ``spread`` two workers against two threads, 500,000 rows × 50 columns
- ``loss``   a worker is killed in the middle
- ``queue``  1,000 jobs that wait and have nothing to do
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]

from benchmarks._figures import ROOT, Figure, process_tree
from benchmarks._forest_data import NoData, load
from deepforest import FitEvent, preset
from deepforest.presets import PRESETS
from engine.executors import ClusterOfRun, NodeTask
from engine.executors.cluster_jobs import ClusterJobs
from engine.executors.dask import DaskExecutor
from engine.node_types import load_catalog
from engine.workspace import Workspace

WORKERS = 2
WAITING = 1_000
ADMIT_SECONDS = 60.0
LOST_SECONDS = 15.0
SETTINGS = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}
"""Of LightGBM, for Datasets that several fits share."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--rows", type=int, default=500_000, help="Rows of spread and loss.")
    given = options.parse_args()
    for name in given.parts or PARTS:
        with cluster() as lab:
            for figure in PARTS[name](lab, given):
                print(figure.line(), flush=True)


# A cluster


@dataclass
class ClusterLab:
    """A workspace, and a cluster of which all workers are admitted."""

    workspace: Workspace
    address: str
    about: ClusterOfRun
    process: int
    """The command that has started the cluster."""
    count: int = 0

    def remote(self) -> tuple[ClusterJobs, Path]:
        """Return what carries out fits on the cluster, with the folder of a new node."""
        self.count += 1
        task = task_of(self.workspace, f"bench-{self.count}", self.about)
        folder = self.workspace.checkpoints / task.key
        folder.mkdir(parents=True)
        return ClusterJobs(task), folder

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that this process and the cluster have used so far."""
        return sum(cpu_of(pid) for pid in {os.getpid(), *process_tree(self.process)})

    def workers(self) -> list[int]:
        """Return the Dask workers; above each is its nanny."""
        found = []
        for pid in process_tree(self.process):
            with suppress(psutil.Error):  # it has ended
                if any("spawn_main" in word for word in psutil.Process(pid).cmdline()):
                    found.append(pid)
        return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def task_of(workspace: Workspace, key: str, about: ClusterOfRun) -> NodeTask:
    """Return a deep forest node as it would be submitted; its params are not used."""
    return NodeTask(
        workspace=str(workspace.root),
        run="bench",
        node="forest",
        try_number=1,
        type="deep-forest",
        params={},
        key=key,
        fingerprint="",
        inputs={},
        sources={},
        branch=None,
        branches={},
        force=False,
        allow_absolute=False,
        threads=1,
        timeout=None,
        memory_limit=10**9,
        bytes_left=None,
        imports=load_catalog()["deep-forest"].imports,
        delegates=True,
        cluster=about,
    )


@contextmanager
def cluster() -> Iterator[ClusterLab]:
    """Start a cluster; yield it once its workers are admitted and have run a fit each."""
    words = ["cluster", "up", "--workers", str(WORKERS), "--port", "0"]
    command = [sys.executable, "-m", "benchmarks.sylva", *words]
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
        workspace = Workspace(Path(folder) / "workspace").create()
        up = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        try:
            assert up.stdout is not None
            up.stdout.readline()
            address = up.stdout.readline().split()[-1]
            executor = DaskExecutor(address, workspace.run_folder("bench"))
            admit(executor)
            lab = ClusterLab(workspace, address, executor.cluster, up.pid)
            warm_up(lab)
            yield lab
            executor.close()
        finally:
            up.terminate()
            up.wait()


def admit(executor: DaskExecutor) -> None:
    """Wait until all workers are admitted."""
    deadline = time.monotonic() + ADMIT_SECONDS
    while sum(executor.cluster.machines.values()) < WORKERS:
        if time.monotonic() > deadline:
            raise TimeoutError("the workers of the cluster were not admitted")
        executor.wait(0.2)


def warm_up(lab: ClusterLab) -> None:
    """Let each worker start its host and load the libraries, and compile what is measured."""
    x = np.random.default_rng(0).standard_normal((400, 4))
    remote, folder = lab.remote()
    marts = preset("mart_cascade", max_layers=1, cv=4, random_state=0, n_jobs=1)
    marts.fit(x, x[:, 0] > 0, checkpoint=folder, executor=remote)
    remote.close()


# Measurements


@dataclass
class Watch:
    """Note the events of a fit: which worker has done each fit, and in how many seconds."""

    workers: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def __call__(self, event: FitEvent) -> None:
        """Note one event."""
        if event.place and event.state == "finished":
            self.workers.append(event.worker)
            self.seconds.append(event.seconds)


@dataclass(frozen=True)
class Cost:
    """Hold the wall time and the CPU seconds of an action."""

    wall: float
    cpu: float


def cost_of(lab: ClusterLab, action: Callable[[], object]) -> Cost:
    """Return what an action costs, in all processes."""
    began, before = time.perf_counter(), lab.cpu_seconds()
    action()
    return Cost(time.perf_counter() - began, lab.cpu_seconds() - before)


def on_cluster(lab: ClusterLab, model: Any, x: Any, y: Any, watch: Watch) -> None:
    """Fit a cascade whose fits the workers carry out."""
    remote, folder = lab.remote()
    try:
        model.fit(x, y, checkpoint=folder, executor=remote, listener=watch)
    finally:
        remote.close()
        shutil.rmtree(folder)


def least(costs: list[Cost]) -> float:
    """Return the least CPU seconds of several repeats: the ones that others disturbed least."""
    return min(cost.cpu for cost in costs)


def graph(lab: ClusterLab, given: argparse.Namespace) -> Iterator[Figure]:
    """Measure what a job costs beside its fit: 4 MARTs × 5 folds × 3 layers on adult."""
    try:
        data = load("adult")
    except NoData as reason:
        print(f"graph is left out: {reason}")
        return
    loop, fit, saved, remote, watch = [], [], [], [], Watch()
    for _ in range(given.repeats):
        loop.append(cost_of(lab, lambda: plain_loop(data.x, data.y)))
        fit.append(cost_of(lab, lambda: adult_model().fit(data.x, data.y)))
        with tempfile.TemporaryDirectory(dir=ROOT, prefix=".bench-") as folder:
            saved.append(cost_of(lab, lambda: adult_model().fit(data.x, data.y, checkpoint=folder)))
        watch = Watch()
        jobs = partial(on_cluster, lab, adult_model(), data.x, data.y, watch)
        remote.append(cost_of(lab, jobs))
    fits = len(watch.workers)
    yield Figure(f"adult, {fits} fits in a plain loop over LightGBM: CPU", least(loop), "s")
    yield Figure("  as a job graph in one process", least(fit) / least(loop), "×", 1.08)
    yield Figure("  with checkpoints, against without", least(saved) / least(fit), "×", 1.05)
    yield Figure("  on two workers, against one process", least(remote) / least(fit), "×")
    extra = 1000 * (least(remote) - least(saved)) / fits
    yield Figure("  … more for each fit", extra, "ms")
    yield Figure("  … wall time", wall(remote) / wall(fit), "×")


FOLDS, LAYERS = 5, 3


def adult_model() -> Any:
    """Return a MART cascade that always grows three layers."""
    settings = {"max_layers": LAYERS, "patience": LAYERS, "cv": FOLDS, "resampling": "per_layer"}
    return preset("mart_cascade", random_state=0, n_jobs=WORKERS, **settings)


def plain_loop(x: Any, y: Any) -> Any:
    """Fit the same trees without jobs, records and scores; return the last class vectors."""
    import lightgbm
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y))
    marts = PRESETS["mart_cascade"].params["learners"]
    vectors = np.zeros((len(y), 0), np.float32)
    for _ in range(LAYERS):
        seen = np.hstack([x, vectors])
        data = lightgbm.Dataset(seen, params=dict(SETTINGS)).construct()
        vectors = np.zeros((len(y), 2 * len(marts)), np.float32)
        for number, mart in enumerate(marts):
            for training, held in folds:
                part = data.subset(training).construct()
                part.set_label(y[training])
                booster = lightgbm.train(settings_of(mart), part, mart["n_estimators"])
                positive = np.asarray(booster.predict(seen[held], num_threads=1))
                vectors[held, 2 * number] = 1 - positive
                vectors[held, 2 * number + 1] = positive
    return vectors


def settings_of(mart: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of LightGBM that the learner of the library has, too."""
    return {
        **SETTINGS,
        "objective": "binary",
        "max_depth": mart["max_depth"] or -1,
        "bagging_fraction": mart["subsample"],
        "bagging_freq": 1,
        "feature_fraction": 0.8,
        "deterministic": True,
        "force_col_wise": True,
    }


def wall(costs: list[Cost]) -> float:
    """Return the least wall time of several repeats."""
    return min(cost.wall for cost in costs)


def large(rows: int) -> tuple[Any, Any]:
    """Return rows × 50 numbers with a target that needs many trees."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 50), dtype=np.float32)
    y = x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * rng.standard_normal(rows, dtype=np.float32) > 0
    return x, y


def large_model() -> Any:
    """Return one layer of the paper's cascade: four MARTs of about 50 trees × 5 folds."""
    settings = {"max_layers": 1, "cv": 5, "resampling": "per_layer"}
    return preset("mart_cascade", random_state=0, n_jobs=WORKERS, **settings)


def spread(lab: ClusterLab, given: argparse.Namespace) -> Iterator[Figure]:
    """Measure two workers of one thread against a pool of two threads."""
    x, y = large(given.rows)
    threads, workers, watch = [], [], Watch()
    for _ in range(given.repeats):
        threads.append(cost_of(lab, lambda: large_model().fit(x, y)))
        workers.append(cost_of(lab, lambda: on_cluster(lab, large_model(), x, y, watch)))
    counts = Counter(watch.workers)
    share = 100 * min(counts.values()) / counts.total() if len(counts) == WORKERS else 0.0
    yield Figure(f"{given.rows:,} × 50, {len(watch.workers)} fits: two threads", wall(threads), "s")
    yield Figure("  two workers: wall time", wall(workers) / wall(threads), "×", 1.25)
    yield Figure("  two workers: CPU", least(workers) / least(threads), "×")
    yield Figure("  fits of the worker that did fewer", share, "%", 40, at_least=True)


def loss(lab: ClusterLab, given: argparse.Namespace) -> Iterator[Figure]:
    """Kill a worker when a third of the fits are done, and measure what that costs."""
    x, y = large(given.rows)
    calm = Watch()
    undisturbed = cost_of(lab, lambda: on_cluster(lab, large_model(), x, y, calm))
    watch = KillsWorker(lab, after=len(calm.seconds) // 3)
    disturbed = cost_of(lab, lambda: on_cluster(lab, large_model(), x, y, watch))
    assert watch.killed and len(watch.seconds) == len(calm.seconds)
    lost = disturbed.wall - undisturbed.wall
    yield Figure(f"{given.rows:,} × 50, undisturbed", undisturbed.wall, "s")
    yield Figure("  longest fit", max(calm.seconds), "s")
    limit = round(max(calm.seconds) + LOST_SECONDS, 1)
    yield Figure("  a worker killed after a third of the fits: lost", lost, "s", limit)


@dataclass
class KillsWorker(Watch):
    """Kill a worker with SIGKILL once so many fits are done."""

    lab: ClusterLab | None = None
    after: int = 0
    killed: bool = False

    def __init__(self, lab: ClusterLab, after: int) -> None:
        super().__init__()
        self.lab, self.after = lab, after

    def __call__(self, event: FitEvent) -> None:
        """Note one event."""
        super().__call__(event)
        if self.lab is not None and len(self.seconds) >= self.after and not self.killed:
            self.killed = True
            os.kill(self.lab.workers()[0], signal.SIGKILL)


def queue(lab: ClusterLab, given: argparse.Namespace) -> Iterator[Figure]:
    """Submit many jobs at once whose results are there already: only their overhead is left."""
    x = np.random.default_rng(0).standard_normal((400, 4))
    remote, folder = lab.remote()
    requests: dict[str, dict[str, Any]] = {}
    submit = remote.submit_job

    def noting(key: str, request: dict[str, Any]) -> Any:
        """Submit a job and remember it."""
        requests[key] = request
        return submit(key, request)

    remote.submit_job = noting  # type: ignore[method-assign]
    marts = preset("mart_cascade", max_layers=1, cv=4, random_state=0, n_jobs=1)
    marts.fit(x, x[:, 0] > 0, checkpoint=folder, executor=remote)
    key, request = next(iter(requests.items()))
    source = folder / key
    names = [f"{key}-{number}" for number in range(WAITING)]
    for name in names:
        shutil.copytree(source, folder / name)

    def whole() -> None:
        """Submit all jobs, and wait for them."""
        done, _ = wait([submit(name, request) for name in names])
        assert all(each.exception() is None for each in done)

    scheduler = [pid for pid in process_tree(lab.process) if is_scheduler(pid)]
    before = sum(map(cpu_of, [os.getpid(), *scheduler]))
    took = cost_of(lab, whole)
    cpu = sum(map(cpu_of, [os.getpid(), *scheduler])) - before
    remote.close()
    yield Figure(
        f"{WAITING:,} jobs waiting: CPU of Dask's scheduler and of the node, a job",
        1000 * cpu / WAITING,
        "ms",
        20,
    )
    yield Figure("  CPU of all processes, a job", 1000 * took.cpu / WAITING, "ms")
    yield Figure("  time of a worker's thread, a job", 1000 * took.wall * WORKERS / WAITING, "ms")


def is_scheduler(pid: int) -> bool:
    """Return whether a process is the scheduler of the cluster."""
    return "scheduler" in psutil.Process(pid).cmdline()


PARTS: dict[str, Callable[[ClusterLab, argparse.Namespace], Iterator[Figure]]] = {
    "graph": graph,
    "spread": spread,
    "loss": loss,
    "queue": queue,
}


if __name__ == "__main__":
    main()
