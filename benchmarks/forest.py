"""The forest kernel against scikit-learn: ``python -m benchmarks.forest [--quick]``.

Both sides grow the same number of trees in this process, on one thread; figures are ratios of CPU seconds (the best of
a few runs), accuracies are means over five seeds. Every line shows what is aimed at. A line whose data is not on this
machine is left out with the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from deepforest.forest import Binner, ForestSettings, HistForestClassifier, grow_forest

from ._forest_data import NoData, Split, continuous, load, with_class_vectors

SEEDS = range(5)


def cpu_seconds(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least CPU time of a few runs, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def line(
    name: str, ours: str, theirs: str, figure: str, aim: str, reached: bool | None = None
) -> None:
    """Print one line of the table."""
    mark = "" if reached is None else ("  reached" if reached else "  NOT reached")
    print(f"{name:<44} {ours:>12} {theirs:>12} {figure:>16}   {aim:<18}{mark}", flush=True)


def warm_up() -> None:
    """Compile what is going to be measured."""
    x, y = continuous(200, 7)
    for target in (y, np.arange(200) % 3):
        for splitter in ("best", "random", "completely_random"):
            HistForestClassifier(2, splitter=splitter, oob_score=True).fit(x, target).predict_proba(
                x
            )


def compare(name: str, split: Split, kind: str, n_trees: int, aim: float, repeats: int) -> None:
    """Time to fit, ours against theirs."""
    ours = forest(kind, n_trees, 0)
    theirs = peer(kind, n_trees, 0)
    own, _ = cpu_seconds(lambda: ours.fit(split.x, split.y), repeats)
    other, _ = cpu_seconds(lambda: theirs.fit(split.x, split.y), repeats)
    line(
        f"{name}, {kind}",
        f"{own:.2f} s",
        f"{other:.2f} s",
        f"{other / own:.1f} x",
        f">= {aim:g} x",
        other / own >= aim,
    )


def compare_accuracy(name: str, split: Split, kind: str, n_trees: int) -> None:
    """Accuracy over five seeds, ours against theirs."""
    ours = [
        forest(kind, n_trees, seed).fit(split.x, split.y).score(split.x_test, split.y_test)
        for seed in SEEDS
    ]
    theirs = [
        peer(kind, n_trees, seed, n_jobs=-1).fit(split.x, split.y).score(split.x_test, split.y_test)
        for seed in SEEDS
    ]
    gap = 100 * (np.mean(ours) - np.mean(theirs))
    own, other = f"{100 * np.mean(ours):.2f} %", f"{100 * np.mean(theirs):.2f} %"
    line(
        f"{name}, {kind}: accuracy", own, other, f"{gap:+.2f} points", ">= -0.3 points", gap >= -0.3
    )


def forest(kind: str, n_trees: int, seed: int) -> Any:
    """Our forest of a kind."""
    if kind == "random forest":
        return HistForestClassifier(n_trees, random_state=seed)
    splitter = "completely_random" if kind == "completely random" else "random"
    return HistForestClassifier(n_trees, splitter=splitter, bootstrap=False, random_state=seed)


def peer(kind: str, n_trees: int, seed: int, n_jobs: int = 1) -> Any:
    """Scikit-learn's forest of the same kind."""
    if kind == "random forest":
        return RandomForestClassifier(n_trees, random_state=seed, n_jobs=n_jobs)
    max_features = 1 if kind == "completely random" else "sqrt"
    return ExtraTreesClassifier(
        n_trees, max_features=max_features, random_state=seed, n_jobs=n_jobs
    )


def measure_fits(n_trees: int, quick: bool) -> None:
    """Real data sets: time and accuracy."""
    aims = {"letter": 5.0, "satimage": 5.0, "adult": 4.0}
    for name, aim in aims.items():
        try:
            split = load(name)
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        repeats = 1 if quick else 3
        compare(name, split, "random forest", n_trees, aim, repeats)
        compare(name, split, "completely random", n_trees, 4.0, repeats)
        compare(name, split, "extra-trees", n_trees, 1.0, repeats)
        for kind in ("random forest", "completely random"):
            compare_accuracy(name, split, kind, n_trees)


def measure_continuous(quick: bool) -> None:
    """80,000 rows × 50 continuous features."""
    x, y = continuous(80_000, 50)
    split = Split(x, y, x[:1], y[:1])
    compare("80k × 50 continuous", split, "random forest", 5 if quick else 20, 40.0, 1)


def measure_second_layer(n_trees: int) -> None:
    """Letter with four class vectors of 26 classes: what the layers of a cascade spend their time on."""
    try:
        x, y = with_class_vectors(load("letter"))
    except NoData as reason:
        print(f"letter, second layer: left out, {reason}")
        return
    split = Split(x, y, x[:1], y[:1])
    for kind, aim in (("random forest", 6.0), ("completely random", 4.0)):
        compare("letter + 104 class vectors", split, kind, n_trees, aim, 2)


def measure_prediction(quick: bool) -> None:
    """Prediction rate of 400 trees on a million rows, and the memory it takes, in processes of their own."""
    n_rows, n_trees = (100_000, 100) if quick else (1_000_000, 400)
    rates = {}
    for side in ("ours", "theirs"):
        command = [
            sys.executable,
            "-m",
            "benchmarks.forest",
            "--predict",
            side,
            str(n_rows),
            str(n_trees),
        ]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        rates[side] = (float(out[0]), float(out[1]))
    ratio = rates["theirs"][0] / rates["ours"][0]
    own, other = (f"{n_rows / rates[side][0] / 1000:.0f}k rows/s" for side in ("ours", "theirs"))
    line(
        f"predict {n_rows:,} × 16, {n_trees} trees",
        own,
        other,
        f"{ratio:.1f} x",
        ">= 3 x",
        ratio >= 3,
    )
    memory = [f"{rates[side][1]:.0f} MB" for side in ("ours", "theirs")]
    line("  peak memory, model, rows and result included", *memory, "", "bounded")


def predict_alone(side: str, n_rows: int, n_trees: int) -> None:
    """Print CPU seconds and peak megabytes of one prediction (of letter's classes, if it is there)."""
    try:
        split = load("letter")
    except NoData:
        x, y = continuous(16_000, 16)
        split = Split(x, y, x, y)
    model = (
        forest("random forest", n_trees, 0) if side == "ours" else peer("random forest", n_trees, 0)
    )
    model.fit(split.x, split.y)
    rows = np.tile(split.x_test, (n_rows // len(split.x_test) + 1, 1))[:n_rows]
    model.predict_proba(rows[:1000])
    seconds, _ = cpu_seconds(lambda: model.predict_proba(rows))
    print(seconds, peak_megabytes())


def peak_megabytes() -> float:
    """The most memory this process has held; ``ru_maxrss`` would count what its parent held when starting it."""
    for entry in Path("/proc/self/status").read_text().splitlines():
        if entry.startswith("VmHWM:"):
            return int(entry.split()[1]) / 1024
    raise RuntimeError("this system does not tell the peak memory of a process")


def measure_growth(quick: bool) -> None:
    """How the cost grows from 100,000 to a million rows (50 features, out-of-bag vectors, depth 12)."""
    small, large = (20_000, 200_000) if quick else (100_000, 1_000_000)
    seconds = []
    for n_rows in (small, large):
        x, y = continuous(n_rows, 50)
        seconds.append(cpu_seconds(lambda x=x, y=y: _oob_fit(x, y, 5), 1)[0])  # type: ignore[misc]
    ratio = seconds[1] / seconds[0]
    name = f"{small // 1000}k -> {large // 1000}k rows × 50, 5 trees, oob"
    line(
        name,
        f"{seconds[0]:.2f} s",
        f"{seconds[1]:.2f} s",
        f"{ratio:.1f} x cost",
        "<= 13 x",
        ratio <= 13,
    )


def _oob_fit(x: Any, y: Any, n_trees: int) -> Any:
    matrix = Binner().fit(x).bin(x)
    return grow_forest(
        matrix, y, ForestSettings(n_trees=n_trees, max_depth=12), n_classes=2, out_of_bag=True
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer trees and rows: a minute instead of several"
    )
    parser.add_argument(
        "--predict", nargs=3, metavar=("SIDE", "ROWS", "TREES"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.predict:
        predict_alone(arguments.predict[0], int(arguments.predict[1]), int(arguments.predict[2]))
        return
    warm_up()
    n_trees = 20 if arguments.quick else 100
    print(
        f"{'CPU seconds, one process, same trees':<44} {'ours':>12} {'scikit-learn':>12} {'figure':>16}   aim"
    )
    measure_fits(n_trees, arguments.quick)
    measure_continuous(arguments.quick)
    measure_second_layer(n_trees)
    measure_prediction(arguments.quick)
    measure_growth(arguments.quick)


if __name__ == "__main__":
    main()
