"""What it costs to fit one MART by two processes, and to lose one of them.

Prints the processor seconds of one fit by one process and by two, the AUC of both, and the seconds
from the kill of a process to the model.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from deepforest._features import Features
from deepforest._fit import FitResult, PlannedFit, carry_out
from deepforest._fit_files import FitFiles
from deepforest.gang.meeting import Meeting
from deepforest.gang.places import LocalPlaces
from deepforest.gang.supervisor import GangFit
from deepforest.learners import Learner, Target, make_learner
from deepforest.metrics import METRICS

RANKS = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=240_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--kind", choices=["mart", "xgboost"], default="mart")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((arguments.rows, arguments.columns), dtype=np.float32)
    score = x[:, 0] + x[:, 1] * x[:, 2] + np.sin(2 * x[:, 5]) + rng.standard_normal(len(x))
    features = Features(x, np.zeros(x.shape[1], bool), learning=True)
    target = Target((score > 0).astype(np.int32), 2)
    rows = np.arange(len(x))
    held_out = rows[::5]
    learner: Learner = make_learner({"kind": arguments.kind, "n_estimators": arguments.trees})
    fit = PlannedFit("fit", (), learner, np.setdiff1d(rows, held_out), held_out, False, 1)
    learner.prepare(features)

    def alone() -> FitResult:
        return carry_out(fit, features, target, None, 1, lambda: None)

    result, cpu, wall = timed(alone, resource.RUSAGE_SELF)
    print(f"one process: {cpu:.1f} CPU-s, {wall:.1f} s, AUC {auc(result, fit, target):.4f}")
    files = FitFiles(folder, features, target, None)
    together = replace(fit, learner=replace(learner, **{"ranks": RANKS}))
    requests = [files.request_of_rank(together, 1, rank, RANKS) for rank in range(RANKS)]
    places = LocalPlaces(folder, RANKS)

    def by_ranks(report: Callable[[str, str], None] = lambda workers, text: None) -> FitResult:
        gang = GangFit(together, requests, folder, places, x.shape[1], target, lambda: None, report)
        return gang.run()

    first, cpu, wall = timed(by_ranks, resource.RUSAGE_CHILDREN)
    print(f"two processes: {cpu:.1f} CPU-s, {wall:.1f} s, AUC {auc(first, fit, target):.4f}")
    killed: list[float] = []
    threading.Thread(target=kill_one, args=(folder, places, killed), daemon=True).start()
    second = by_ranks(lambda workers, text: print(f"  {text}") if text else None)
    same = first.model.pack().text == second.model.pack().text
    print(f"from the kill to the model: {time.monotonic() - killed[0]:.1f} s, the same: {same}")


def kill_one(folder: Path, places: LocalPlaces, killed: list[float]) -> None:
    """Kill the second process as soon as it trains."""
    while not killed:
        time.sleep(0.05)
        for meeting in (folder / "gangs").iterdir():
            sign = Meeting(folder, meeting.name).sign(1) or {}
            if sign.get("state") == "training" and not killed:
                list(places.processes.values())[1].kill()
                killed.append(time.monotonic())


def timed(action: Callable[[], FitResult], who: int) -> tuple[FitResult, float, float]:
    """Return the result, and the processor seconds and seconds that it took."""
    before, began = used(who), time.monotonic()
    result = action()
    return result, used(who) - before, time.monotonic() - began


def used(who: int) -> float:
    usage: Any = resource.getrusage(who)
    return float(usage.ru_utime + usage.ru_stime)


def auc(result: FitResult, fit: PlannedFit, target: Target) -> float:
    value = METRICS["auc"](target.values[fit.predict_rows], result.vectors, None)
    return float(value or 0)


if __name__ == "__main__":
    main()
