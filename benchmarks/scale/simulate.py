"""Replay the scheduler's own rules on a simulated clock.

The rules are not written again: ``JobRunner`` starts the fits of a layer and ``ClusterJobs`` makes
Dask tasks of them, tries lost ones again and counts the threads of the workers. Only what they talk
to is simulated: time, Dask with its workers, and how long a fit takes.

- ``Clock``       events in the order of their times
- ``Cluster``     stands for Dask: machines with cores, threads and speeds, which may be lost
- ``LayerTimes``  how long each fit and each step of the coordinating process takes
- ``Simulation``  grows a cascade on a cluster; returns an ``Outcome``
"""

from __future__ import annotations

import heapq
import itertools
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from deepforest._fit_jobs import FitJob, JobRunner
from deepforest.persistence import Pack
from engine.executors import ClusterOfRun, NodeTask
from engine.executors.cluster_jobs import ClusterJobs

ALLOWED_FAILURES = 3
"""Dask gives a task up when more workers than this died with it (``allowed-failures``)."""
RESOURCE = "SYLVA"


class Clock:
    """Hold events and carry them out in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Carry out an action in so many seconds."""
        heapq.heappush(self._events, (self.now + seconds, next(self._number), action))

    def step(self) -> None:
        """Go to the next event and carry it out."""
        self.now, _, action = heapq.heappop(self._events)
        action()

    def spend(self, seconds: float) -> None:
        """Let time pass, with the events in it."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.step()
        self.now = end


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster: one Dask worker each."""

    number: int
    cores: int = 16
    dask_threads: int = 16
    """As given to ``dask worker --nthreads``."""
    straggling: float = 0.0
    """Standard deviation of the logarithm of a machine's speed, and half of it for each fit."""
    losses_per_hour: float = 0.0
    """Of each machine."""
    back_after: float = 600.0
    """Seconds until another machine takes the place of a lost one."""
    noticed_after: float = 30.0
    """Seconds until Dask gives up on a machine that is silent."""


@dataclass
class _Machine:
    address: str
    speed: float
    tasks: list[_Task] = field(default_factory=list)
    answers: bool = True


class _Task:
    """A Dask future, and the task behind it."""

    def __init__(self, key: str, request: dict[str, Any]) -> None:
        self.key, self.request = key, request
        self.deaths = self.start = 0
        self._done: Future[dict[str, Any]] = Future()

    def result(self) -> dict[str, Any]:
        """Return the last event of the task, or raise what Dask raises."""
        return self._done.result()

    def add_done_callback(self, call: Callable[[_Task], None]) -> None:
        """Call a function with this task when it has ended."""
        self._done.add_done_callback(lambda _: call(self))

    def end(self, outcome: dict[str, Any] | Exception) -> None:
        """Set its outcome."""
        if isinstance(outcome, Exception):
            self._done.set_exception(outcome)
        else:
            self._done.set_result(outcome)


class KilledWorker(Exception):
    """Stand for Dask's error of the same name."""


class Timing(Protocol):
    """Say how long a fit takes."""

    def seconds(self, request: dict[str, Any], cores: float, at_once: int) -> float:
        """Return the seconds of a fit on so many cores, while so many fits run in all."""


class Cluster:
    """Simulate what ``ClusterJobs`` sees of a Dask client and the workers behind it.

    As in Dask, a task goes to the worker with the fewest tasks for its threads, else it waits; the
    tasks of a lost worker come before those that wait.
    """

    id = "simulated"

    def __init__(self, machines: Machines, clock: Clock, timing: Timing, seed: int = 0) -> None:
        self.machines, self.clock, self.timing = machines, clock, timing
        self._random = np.random.default_rng(seed)
        self._waiting: deque[_Task] = deque()
        self._numbers = itertools.count()
        self._present: list[_Machine] = []
        self.lost = self.repeated = 0
        self.busy_seconds = 0.0
        self.most_together = 0
        """The most fits that one machine had at the same time."""
        self.on_finished: Callable[[str], None] = lambda key: None
        for _ in range(machines.number):
            self._join()

    # --- what ``ClusterJobs`` asks of a client ---

    def subscribe_topic(self, name: str, handler: Callable[[Any], None]) -> None:
        """Ignore events about which worker has which fit."""

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        """Return the workers with their threads."""
        about = {"nthreads": self.machines.dask_threads, "resources": {RESOURCE: 1}}
        return {"workers": {each.address: about for each in self._present}}

    def submit(self, function: Any, task: dict[str, Any], *_: Any, key: str, **__: Any) -> _Task:
        """Queue a task."""
        made = _Task(key, task["subtask"]["request"] | {"saved as": task["subtask"]["key"]})
        self._waiting.append(made)
        self._assign()
        return made

    def close(self, timeout: float) -> None:
        """Do nothing: the cluster ends with its clock."""

    def drop_all(self) -> None:
        """Drop all tasks, as Dask does when the client that has submitted them is gone."""
        self._waiting.clear()
        for machine in self._present:
            machine.tasks = []

    # --- its workers ---

    def _join(self) -> None:
        speed = float(np.exp(self._random.normal(0, self.machines.straggling)))
        machine = _Machine(f"machine-{next(self._numbers)}", speed)
        self._present.append(machine)
        if self.machines.losses_per_hour:
            mean = 3600 / self.machines.losses_per_hour
            self.clock.after(self._random.exponential(mean), lambda: self._lose(machine))
        self._assign()

    def _lose(self, machine: _Machine) -> None:
        """Let a machine fall silent."""
        machine.answers = False
        self.lost += 1
        self.clock.after(self.machines.noticed_after, lambda: self._give_up(machine))
        self.clock.after(self.machines.back_after, self._join)

    def _give_up(self, machine: _Machine) -> None:
        """Give the tasks of a silent machine to others."""
        self._present.remove(machine)
        for task in reversed(machine.tasks):
            task.deaths += 1
            self.repeated += 1
            if task.deaths > ALLOWED_FAILURES:
                task.end(KilledWorker(task.key))
            else:
                self._waiting.appendleft(task)
        machine.tasks = []
        self._assign()

    def _assign(self) -> None:
        """Start waiting tasks while there are free threads."""
        while self._waiting:
            free = [each for each in self._present if len(each.tasks) < self.machines.dask_threads]
            if not free:
                return
            machine = min(free, key=lambda each: len(each.tasks))
            self._start(self._waiting.popleft(), machine)

    def _start(self, task: _Task, machine: _Machine) -> None:
        machine.tasks.append(task)
        task.start += 1
        self.most_together = max(self.most_together, len(machine.tasks))
        n_machines = max(1, len(self._present))
        at_once = min(task.request["of"], n_machines * self.machines.dask_threads)
        # A machine shares its cores among the fits that it has when they are spread evenly.
        cores = min(float(task.request["threads"]), self.machines.cores / -(-at_once // n_machines))
        noise = float(np.exp(self._random.normal(0, self.machines.straggling / 2)))
        seconds = self.timing.seconds(task.request, cores, at_once) / machine.speed / noise
        start = task.start
        self.clock.after(seconds, lambda: self._finish(task, machine, start, seconds))

    def _finish(self, task: _Task, machine: _Machine, start: int, seconds: float) -> None:
        """End a task, unless its machine has fallen silent meanwhile."""
        if not machine.answers or task.start != start or task not in machine.tasks:
            return
        machine.tasks.remove(task)
        self.busy_seconds += seconds
        self.on_finished(task.request["saved as"])
        task.end({"kind": "finished", "worker": machine.address})
        self._assign()


# --- the process that coordinates ---


class _Saved:
    """The results that fits have saved; what they contain does not matter here."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def load(self, key: str) -> Pack | None:
        """Return a result if it is saved."""
        return Pack({}) if key in self.keys else None

    def save(self, key: str, pack: Pack) -> None:
        """Do nothing: each fit saves its own result."""


class _Runner(JobRunner):
    """The runner of a fit, which lets simulated time pass while it waits."""

    def __init__(self, clock: Clock, remote: ClusterJobs, saved: _Saved) -> None:
        super().__init__(checkpointer=saved, remote=remote)
        self._clock = clock

    def _wait(self, running: Iterable[Future[Any]]) -> set[Future[Any]]:
        done = {future for future in running if future.done()}
        if not done:
            self._clock.step()
        return {future for future in running if future.done()}


class _CoordinatorLost(Exception):
    """End the process that coordinates."""


@dataclass(frozen=True)
class LayerTimes:
    """One set of fits: what comes before and after it, and what each fit needs by key."""

    title: str
    before: float
    fits: dict[str, dict[str, Any]]
    after: float = 0.0
    writes: float = 0.0
    """Seconds that are spent before it on files; these are still there after a loss."""
    of_each: float = 0.0
    """Seconds that the coordinating process spends on the result of a fit."""


@dataclass(frozen=True)
class Outcome:
    """What a simulated run took."""

    seconds: float
    of_fits: float
    """Seconds in which fits ran or were waited for."""
    lost: int
    """Machines that were lost."""
    repeated: int
    """Fits that ran on them."""
    restarts: int
    """How often the process that coordinates was lost."""
    busy: float
    """Seconds of all fits together."""
    together: int
    """The most fits that a machine had at the same time."""
    threads: tuple[int, ...]
    """Of a fit, by set."""


class Simulation:
    """Grow a cascade on simulated machines."""

    def __init__(
        self, layers: Sequence[LayerTimes], machines: Machines, timing: Timing, seed: int = 0
    ) -> None:
        self.layers, self.machines = layers, machines
        self.clock, self.saved = Clock(), _Saved()
        self.cluster = Cluster(machines, self.clock, timing, seed)
        self.cluster.on_finished = self.saved.keys.add
        self._random = np.random.default_rng([seed, 1])
        self._written: set[str] = set()
        self.of_fits = 0.0
        self.threads: dict[str, int] = {}

    def run(self) -> Outcome:
        """Return what the run took, in simulated seconds."""
        restarts = 0
        while True:
            try:
                self._coordinate()
                break
            except _CoordinatorLost:
                restarts += 1
                self.cluster.drop_all()
                self.clock.spend(self.machines.noticed_after)
        cluster, threads = self.cluster, tuple(self.threads.values())
        return Outcome(
            self.clock.now,
            self.of_fits,
            cluster.lost,
            cluster.repeated,
            restarts,
            cluster.busy_seconds,
            cluster.most_together,
            threads,
        )

    def _coordinate(self) -> None:
        """Go through the layers; results that are saved are not fitted again."""
        clock = self.clock
        if self.machines.losses_per_hour:
            mean = 3600 / self.machines.losses_per_hour
            clock.after(self._random.exponential(mean), self._end_coordinator)
        jobs = ClusterJobs(_task(), self.cluster, lambda: clock.now)
        with _Runner(clock, jobs, self.saved) as runner:
            for layer in self.layers:
                clock.spend(layer.before)
                if layer.title not in self._written:
                    clock.spend(layer.writes)
                    self._written.add(layer.title)
                runner.prefix = f"{layer.title}/"
                self.threads[layer.title] = runner.threads(len(layer.fits))
                began = clock.now
                runner.run(self._jobs(layer))
                self.of_fits += clock.now - began
                clock.spend(layer.after)

    def _end_coordinator(self) -> None:
        raise _CoordinatorLost

    def _jobs(self, layer: LayerTimes) -> list[FitJob]:
        def take(pack: Pack) -> None:
            """Read the result of a fit, in the process that coordinates."""
            self.clock.spend(layer.of_each)

        common = {"threads": self.threads[layer.title], "of": len(layer.fits)}
        return [
            FitJob(key, lambda: None, unpack=take, request=request | common)
            for key, request in layer.fits.items()
        ]


def _task() -> NodeTask:
    """Return the task of a node that coordinates; ``ClusterJobs`` makes subtasks of it."""
    cluster = ClusterOfRun("", RESOURCE, {socket.gethostname(): 1}, "")
    return NodeTask(
        workspace="",
        run="",
        node="forest",
        try_number=1,
        type="deep-forest",
        params={},
        key="simulated",
        fingerprint="",
        inputs={},
        sources={},
        branch=None,
        branches={},
        force=False,
        allow_absolute=False,
        threads=1,
        timeout=None,
        memory_limit=0,
        bytes_left=None,
        imports=(),
        delegates=True,
        cluster=cluster,
    )
