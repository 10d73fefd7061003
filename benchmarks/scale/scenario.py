"""Say what the cost model and the scheduler's rules mean for the largest run of the papers.

- ``PAPER``      the run: 131.4M rows × 300 columns
- ``Assumed``    what cannot be measured here: network, storage, threads of larger machines
- ``times_of``   a run as sets of fits with their seconds
- ``table_of``   simulated runs on 10 to 200 machines
- ``replayed``   a measured run, simulated with the seconds of its own fits
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from .model import CostModel, Part, after_fits, before_fits, bytes_moved, new_bytes, parts_of
from .runs import Result, Run
from .simulate import LayerTimes, Machines, Outcome, Simulation
from .work import LayerWork

PAPER = Run(131_400_000, 300, learners=4, folds=5, layers=3, trees=50)
MACHINES = (10, 20, 50, 100, 200)
CORES = 16
SEEDS = range(5)
STRAGGLING = 0.2
LOSSES_PER_HOUR = 0.1
SCALES = frozenset({"bin", "widen", "subset", "grow", "predict"})
"""The steps that use all threads; the others use one."""


@dataclass(frozen=True)
class Assumed:
    """What is assumed: bytes a second of one machine and of the storage, and serial shares."""

    network: float = 1.25e9
    storage: float = 5e9
    serial_bin: float = 0.0
    """The share of binning that one thread does alone, measured with two threads."""
    serial_fit: float = 0.1
    """The same of a fit."""
    value_bytes: int = 8
    """Of a number in the table: the node Deep forest makes a matrix of 64-bit floats."""

    def on(self, cores: float, serial: float) -> float:
        """Return by what the time of one thread is multiplied on several (Amdahl's law)."""
        return serial + (1 - serial) / cores


@dataclass(frozen=True)
class FitTiming:
    """Seconds of a fit: reading its files, what one thread does, and what all threads do."""

    assumed: Assumed

    def seconds(self, request: dict[str, Any], cores: float, at_once: int) -> float:
        """Return the seconds of a fit on so many cores, while so many fits run in all."""
        shared = request["scales"] * self.assumed.on(cores, self.assumed.serial_fit)
        return self.reading(request, at_once) + float(request["alone"]) + shared

    def reading(self, request: dict[str, Any], at_once: int) -> float:
        """Return the seconds in which its files arrive."""
        bytes_a_second = min(self.assumed.network, self.assumed.storage / max(1, at_once))
        return float(request["read"]) / bytes_a_second


def times_of(model: CostModel, run: Run, assumed: Assumed, cores: int = CORES) -> list[LayerTimes]:
    """Return what a run does in which order, with the seconds of each part."""
    sets = []
    for number, (work, parts) in enumerate(parts_of(run, assumed.value_bytes)):
        before = coordinator_steps(model, work, parts[0][1], number == 0, assumed, cores)
        writes = before.pop("files", 0.0) + before.pop("writing", 0.0)
        part = parts[0][1]
        sets.append(
            LayerTimes(
                work.title,
                sum(before.values()),
                _requests(model, work, parts),
                sum(after_fits(model, work, part).values()),
                writes,
                model.layer_step("take", part),
            )
        )
    return sets


def coordinator_steps(
    model: CostModel, work: LayerWork, part: Part, first: bool, assumed: Assumed, cores: int
) -> dict[str, float]:
    """Return the seconds of the coordinating process before a set of fits, by step."""
    steps = before_fits(model, work, part, first)
    for step in steps.keys() & SCALES:
        steps[step] *= assumed.on(cores, assumed.serial_bin)
    if work.makes_files:
        steps["writing"] = new_bytes(part) / min(assumed.network, assumed.storage)
    return steps


def _requests(
    model: CostModel, work: LayerWork, parts: list[tuple[int, Part]]
) -> dict[str, dict[str, Any]]:
    """Return what each fit of a set needs, by key."""
    requests = {}
    for key, (training, _) in zip(work.keys, work.parts, strict=True):
        part = min((part for _, part in parts), key=lambda each: abs(each.training - training))
        steps = model.fit_steps(part)
        shared = sum(seconds for step, seconds in steps.items() if step in SCALES)
        requests[key] = {
            "scales": shared,
            "alone": sum(steps.values()) - shared,
            "read": bytes_moved(part),
        }
    return requests


@dataclass(frozen=True)
class Line:
    """Simulated runs on so many machines: medians of the seeds, and the slowest run."""

    machines: int
    dask_threads: int
    calm: Outcome
    straggling: float
    median: float
    slowest: float
    repeated: float
    restarts: float
    busy: float
    """Of the machine hours, the share in which a machine had a fit."""


def table_of(model: CostModel, assumed: Assumed, dask_threads: int, run: Run = PAPER) -> list[Line]:
    """Return a line for each number of machines, whose workers have so many Dask threads."""
    layers = times_of(model, run, assumed)
    return [_line(layers, FitTiming(assumed), number, dask_threads) for number in MACHINES]


def _line(layers: list[LayerTimes], timing: FitTiming, number: int, dask_threads: int) -> Line:
    calm = Simulation(layers, Machines(number, CORES, dask_threads), timing).run()
    slow = Machines(number, CORES, dask_threads, STRAGGLING)
    slowed = [Simulation(layers, slow, timing, seed).run() for seed in SEEDS]
    failing = Machines(number, CORES, dask_threads, STRAGGLING, LOSSES_PER_HOUR)
    failed = [Simulation(layers, failing, timing, seed).run() for seed in SEEDS]
    return Line(
        number,
        dask_threads,
        calm,
        statistics.median(outcome.seconds for outcome in slowed),
        statistics.median(outcome.seconds for outcome in failed),
        max(outcome.seconds for outcome in failed),
        statistics.mean(outcome.repeated for outcome in failed),
        statistics.mean(outcome.restarts for outcome in failed),
        calm.busy / calm.together / number / calm.seconds,
    )


def shares(model: CostModel, assumed: Assumed, machines: int, run: Run = PAPER) -> dict[str, float]:
    """Return the seconds of a calm run by what they are spent on, the longest first."""
    timing, found = FitTiming(assumed), dict[str, float]()
    threads = Machines(machines).dask_threads * machines
    for number, (work, parts) in enumerate(parts_of(run, assumed.value_bytes)):
        part = parts[0][1]
        own = coordinator_steps(model, work, part, number == 0, assumed, CORES)
        own |= after_fits(model, work, part)
        own["take"] = model.layer_step("take", part) * len(work.keys)
        for step, seconds in own.items():
            found[step] = found.get(step, 0.0) + seconds
        n_fits, waves = len(work.keys), 1
        together = -(-n_fits // machines)
        cores = min(max(1, threads // n_fits), CORES / together)
        request = next(iter(_requests(model, work, parts).values()))
        reading = timing.reading(request, n_fits)
        whole = timing.seconds(request, cores, n_fits)
        found["reading"] = found.get("reading", 0.0) + waves * reading
        found["fitting"] = found.get("fitting", 0.0) + waves * (whole - reading)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


# --- the simulation against measured runs ---


class KnownTiming:
    """Each fit takes as long as it did in the measured run."""

    def seconds(self, request: dict[str, Any], cores: float, at_once: int) -> float:
        """Return the seconds of a fit."""
        return float(request["seconds"])


def replayed(result: Result) -> tuple[float, float]:
    """Return the simulated and the measured wall seconds of a run on a real cluster."""
    ended, layers = 0.0, []
    for number, each in enumerate(result["sets"]):
        fits = {key: {"seconds": seconds} for key, (seconds, _) in each["fits"].items()}
        layers.append(LayerTimes(f"set {number}", each["announced"] - ended, fits))
        ended = each["ended"]
    workers = result["job"]["workers"]
    simulated = Simulation(layers, Machines(workers, 1, 1), KnownTiming()).run()
    return simulated.seconds, ended
