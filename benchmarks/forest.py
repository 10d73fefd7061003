"""Measure the forests against scikit-learn's: ``python -m benchmarks.forest [--quick]``.

Both sides grow the same number of trees in this process, on one thread; figures are ratios of CPU
seconds (the best of a few runs), accuracies are means over five seeds. Every line shows its target.
A line whose data is not on this machine is left out with the reason.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from deepforest.forest import Binner, ForestSettings, HistForestClassifier, grow_forest

from ._figures import peak_megabytes, run_module
from ._forest_data import NoData, Split, continuous, load, with_class_vectors

SEEDS = range(5)


def cpu_seconds(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least CPU time of a few runs, and the last result."""
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


def ratio_line(name: str, ours: str, theirs: str, ratio: float, aim: float) -> None:
    """Print a line whose figure is a ratio that has to reach ``aim``."""
    line(name, ours, theirs, f"{ratio:.1f} x", f">= {aim:g} x", ratio >= aim)


def accuracy_line(name: str, ours: float, theirs: float) -> None:
    """Print a line about two accuracies in percent; ours may be 0.3 points lower."""
    gap = ours - theirs
    shares = (f"{ours:.2f} %", f"{theirs:.2f} %")
    line(name, *shares, f"{gap:+.2f} points", ">= -0.3 points", gap >= -0.3)


def warm_up() -> None:
    """Compile what is going to be measured."""
    x, y = continuous(200, 7)
    for target in (y, np.arange(200) % 3):  # two and three classes have different kernels
        for splitter in ("best", "random", "completely_random"):
            model = HistForestClassifier(2, splitter=splitter, oob_score=True)
            model.fit(x, target).predict_proba(x)


def compare(name: str, split: Split, kind: str, n_trees: int, aim: float, repeats: int) -> None:
    """Measure the time to fit, ours against theirs."""
    ours = forest(kind, n_trees, 0)
    theirs = peer(kind, n_trees, 0)
    own, _ = cpu_seconds(lambda: ours.fit(split.x, split.y), repeats)
    other, _ = cpu_seconds(lambda: theirs.fit(split.x, split.y), repeats)
    ratio_line(f"{name}, {kind}", f"{own:.2f} s", f"{other:.2f} s", other / own, aim)


def compare_accuracy(name: str, split: Split, kind: str, n_trees: int) -> None:
    """Measure the accuracy over five seeds, ours against theirs."""
    ours = [
        forest(kind, n_trees, seed).fit(split.x, split.y).score(split.x_test, split.y_test)
        for seed in SEEDS
    ]
    theirs = [
        peer(kind, n_trees, seed, n_jobs=-1).fit(split.x, split.y).score(split.x_test, split.y_test)
        for seed in SEEDS
    ]
    own, other = 100 * float(np.mean(ours)), 100 * float(np.mean(theirs))
    accuracy_line(f"{name}, {kind}: accuracy", own, other)


def forest(kind: str, n_trees: int, seed: int) -> Any:
    """Return our forest of a kind."""
    if kind == "random forest":
        return HistForestClassifier(n_trees, random_state=seed)
    splitter = "completely_random" if kind == "completely random" else "random"
    return HistForestClassifier(n_trees, splitter=splitter, bootstrap=False, random_state=seed)


def peer(kind: str, n_trees: int, seed: int, n_jobs: int = 1) -> Any:
    """Return scikit-learn's forest of the same kind."""
    if kind == "random forest":
        return RandomForestClassifier(n_trees, random_state=seed, n_jobs=n_jobs)
    # With one candidate per node, the best of the random cuts is the only one.
    max_features = 1 if kind == "completely random" else "sqrt"
    return ExtraTreesClassifier(
        n_trees, max_features=max_features, random_state=seed, n_jobs=n_jobs
    )


def measure_fits(n_trees: int, quick: bool) -> None:
    """Measure time and accuracy on real data sets."""
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
    """Measure a fit on 80,000 rows × 50 continuous features."""
    x, y = continuous(80_000, 50)
    split = Split(x, y, x[:1], y[:1])
    compare("80k × 50 continuous", split, "random forest", 5 if quick else 20, 40.0, 1)


def measure_second_layer(n_trees: int) -> None:
    """Measure letter with four class vectors of 26 classes, as later layers of a cascade see it."""
    try:
        x, y = with_class_vectors(load("letter"))
    except NoData as reason:
        print(f"letter, second layer: left out, {reason}")
        return
    split = Split(x, y, x[:1], y[:1])
    for kind, aim in (("random forest", 6.0), ("completely random", 4.0)):
        compare("letter + 104 class vectors", split, kind, n_trees, aim, 2)


def measure_prediction(quick: bool) -> None:
    """Measure the prediction of a million rows by 400 trees, each side in its own process."""
    n_rows, n_trees = (100_000, 100) if quick else (1_000_000, 400)
    rates = {}
    for side in ("ours", "theirs"):
        arguments = ("--predict", side, str(n_rows), str(n_trees))
        out = run_module("benchmarks.forest", *arguments).split()
        rates[side] = (float(out[0]), float(out[1]))
    ratio = rates["theirs"][0] / rates["ours"][0]
    own, other = (f"{n_rows / rates[side][0] / 1000:.0f}k rows/s" for side in ("ours", "theirs"))
    ratio_line(f"predict {n_rows:,} × 16, {n_trees} trees", own, other, ratio, 3)
    memory = [f"{rates[side][1]:.0f} MB" for side in ("ours", "theirs")]
    line("  peak memory, model, rows and result included", *memory, "", "bounded")


def predict_alone(side: str, n_rows: int, n_trees: int) -> None:
    """Print CPU seconds and peak megabytes of a prediction, of letter if it is there."""
    try:
        split = load("letter")
    except NoData:
        x, y = continuous(16_000, 16)
        split = Split(x, y, x, y)
    make = forest if side == "ours" else peer
    model = make("random forest", n_trees, 0)
    model.fit(split.x, split.y)
    rows = np.tile(split.x_test, (n_rows // len(split.x_test) + 1, 1))[:n_rows]
    model.predict_proba(rows[:1000])
    seconds, _ = cpu_seconds(lambda: model.predict_proba(rows))
    print(seconds, peak_megabytes())


def measure_growth(quick: bool) -> None:
    """Measure how the cost grows from 100,000 to a million rows (50 features, out of bag)."""
    small, large = (20_000, 200_000) if quick else (100_000, 1_000_000)
    seconds = []
    for n_rows in (small, large):
        x, y = continuous(n_rows, 50)
        seconds.append(cpu_seconds(lambda x=x, y=y: _oob_fit(x, y, 5), 1)[0])  # type: ignore[misc]
    ratio = seconds[1] / seconds[0]
    name = f"{small // 1000}k -> {large // 1000}k rows × 50, 5 trees, oob"
    times = [f"{each:.2f} s" for each in seconds]
    line(name, *times, f"{ratio:.1f} x cost", "<= 13 x", ratio <= 13)


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
    line("CPU seconds, one process, same trees", "ours", "scikit-learn", "figure", "aim")
    measure_fits(n_trees, arguments.quick)
    measure_continuous(arguments.quick)
    measure_second_layer(n_trees)
    measure_prediction(arguments.quick)
    measure_growth(arguments.quick)


if __name__ == "__main__":
    main()
