"""Measure the cascades against peers: ``python -m benchmarks.cascade [part ...] [--quick]``.

- ``speed``      against the same gcForest cascade on scikit-learn's forests: CPU, memory, accuracy,
  each side in its own process
- ``papers``     accuracy against the mdDF column of the paper; ``--full-mnist`` uses all its rows
- ``peers``      the default cascade against LightGBM, random forest and extra-trees alone
- ``screening``  what is saved if confident rows leave early
- ``margins``    the margin ratio by layer

All but ``speed`` and ``screening`` fit on two threads; CPU seconds are of the whole process. Data
sets that are not on this machine are left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from deepforest import CascadeForestClassifier, MarginForestClassifier, ScreenedForestClassifier
from deepforest.metrics import accuracy, auc

from ._figures import peak_megabytes, run_module
from ._forest_data import NoData, Split, load, load_split
from .forest import accuracy_line, cpu_seconds, line, ratio_line, warm_up

TREES = 100
FOLDS = 5
# Test accuracy of mdDF in its paper; of MNIST our own target without scanning.
PAPER = {"letter": 97.5, "satimage": 91.75, "adult": 86.56, "yeast": 63.34, "mnist": 98.2}
PEER_SETS = {
    "letter": 3,
    "adult": 3,
    "satimage": 3,
    "yeast": 5,
    "bank_marketing": 3,
    "mammography": 5,
}
# Rare classes: accuracy would hardly differ between models.
BY_AUC = ("bank_marketing", "mammography")


def forests(n_estimators: int) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "count": 2, "n_estimators": n_estimators}
        for kind in ("random_forest", "completely_random_forest")
    ]


# --- the same cascade, ours and on scikit-learn ---


def measure_speed(quick: bool) -> None:
    """Measure two layers of 2 random and 2 completely-random forests, 5 folds, one thread."""
    trees = 20 if quick else TREES
    for name in ("letter", "satimage"):
        sides = {}
        for side in ("ours", "theirs"):
            # Each side in its own process: the peak of memory cannot be set back.
            printed = run_module("benchmarks.cascade", "--alone", side, name, str(trees))
            sides[side] = json.loads(printed)
        if "reason" in sides["ours"]:
            print(f"{name}: left out, {sides['ours']['reason']}")
            continue
        own, other = sides["ours"], sides["theirs"]
        times = [f"{side['cpu']:.1f} s" for side in (own, other)]
        ratio_line(f"{name}: 2-layer gcForest, fit", *times, other["cpu"] / own["cpu"], 6)
        memory = own["mb"] / other["mb"]
        sizes = [f"{side['mb']:.0f} MB" for side in (own, other)]
        line("  memory of the fit", *sizes, f"1/{1 / memory:.1f}", "<= 1/8", memory <= 1 / 8)
        accuracy_line("  accuracy", 100 * own["accuracy"], 100 * other["accuracy"])


def alone(side: str, name: str, trees: int) -> None:
    """Print CPU seconds, megabytes and accuracy of one side as JSON."""
    try:
        split = load(name)
    except NoData as reason:
        print(json.dumps({"reason": str(reason)}))
        return
    if side == "ours":
        warm_up()
    fit = fit_ours if side == "ours" else fit_theirs
    before = peak_megabytes()
    cpu, predict = cpu_seconds(lambda: fit(split, trees))
    memory = peak_megabytes() - before
    share = accuracy(split.y_test, predict(split.x_test))
    print(json.dumps({"cpu": cpu, "mb": memory, "accuracy": share}))


def fit_ours(split: Split, trees: int) -> Callable[[Any], Any]:
    settings: dict[str, Any] = {
        "combine": "mean",
        "metric": "accuracy",
        "folds": FOLDS,
        "max_layers": 2,
        "patience": 2,
    }
    model = CascadeForestClassifier(forests(trees), **settings, random_state=0)
    return model.fit(split.x, split.y).predict_proba


def fit_theirs(split: Split, trees: int) -> Callable[[Any], Any]:
    """Fit the same cascade, as one would write it on scikit-learn's forests."""
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold

    kinds = [lambda seed: RandomForestClassifier(trees, random_state=seed)] * 2
    kinds += [lambda seed: ExtraTreesClassifier(trees, max_features=1, random_state=seed)] * 2
    x, layers = split.x, []
    for number in range(2):
        vectors = np.zeros((len(kinds), len(split.y), split.y.max() + 1))
        layer = []
        for learner, make in enumerate(kinds):
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=number).split(x, split.y)
            models = []
            for fold, (rows, held_out) in enumerate(folds):
                model = make(100 * number + 10 * learner + fold).fit(x[rows], split.y[rows])
                vectors[learner, held_out] = model.predict_proba(x[held_out])
                models.append(model)
            layer.append(models)
        layers.append(layer)
        x = np.hstack([split.x, *vectors])

    def predict(raw: Any) -> Any:
        rows = raw
        for layer in layers:
            vectors = []
            for models in layer:
                vectors.append(np.mean([model.predict_proba(rows) for model in models], axis=0))
            rows = np.hstack([raw, *vectors])
        return np.mean(vectors, axis=0)

    return predict


# --- accuracy ---


def measure_papers(quick: bool, full_mnist: bool) -> None:
    """Measure mdDF and the default cascade on the paper's data sets, as means over seeds."""
    for name, aim in PAPER.items():
        # Yeast has no test set: each seed is another split.
        seeds = range(1 if quick else {"yeast": 5, "mnist": 1}.get(name, 3))
        for title, make in (("mdDF", MarginForestClassifier), ("default", CascadeForestClassifier)):
            scores, cpu = [], []
            try:
                for seed in seeds:
                    split = load_split(name, seed)
                    if name == "mnist" and not full_mnist:
                        split = Split(split.x[:6000], split.y[:6000], split.x_test, split.y_test)
                    began = time.process_time()
                    model = make(random_state=seed, n_jobs=2).fit(split.x, split.y)
                    cpu.append(time.process_time() - began)
                    share = accuracy(split.y_test, model.predict_proba(split.x_test))
                    scores.append(100 * share)  # type: ignore[operator]
            except NoData as reason:
                print(f"{name}: left out, {reason}")
                break
            sampled = name == "mnist" and not full_mnist
            reached = None if sampled else float(np.mean(scores)) >= aim
            own, took = f"{np.mean(scores):.2f} %", f"{np.mean(cpu):.0f} CPU-s"
            about = "6,000 rows" if sampled else f">= {aim} %"
            line(f"{name}: {title}", own, took, f"± {np.std(scores):.2f}", about, reached)


def measure_peers(quick: bool) -> None:
    """Measure the default cascade against the best of three peers."""
    for name, n_seeds in PEER_SETS.items():
        measure = auc if name in BY_AUC else accuracy
        scores: dict[str, list[float]] = {}
        cpu: dict[str, float] = {}
        try:
            for seed in range(1 if quick else n_seeds):
                split = load_split(name, seed)
                ours = CascadeForestClassifier(random_state=seed, n_jobs=2)
                for title, model in (("default", ours), *peers(seed)):
                    began = time.process_time()
                    model.fit(split.x, split.y)
                    cpu[title] = cpu.get(title, 0.0) + time.process_time() - began
                    value = measure(split.y_test, model.predict_proba(split.x_test))
                    scores.setdefault(title, []).append(100 * value)  # type: ignore[operator]
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        means = {title: float(np.mean(values)) for title, values in scores.items()}
        best = max(means.keys() - {"default"}, key=lambda title: means[title])
        gap = means["default"] - means[best]
        error = _standard_error(split, np.array(scores["default"]), np.array(scores[best]))
        metric = "AUC" if name in BY_AUC else "accuracy"
        shares = (f"{means['default']:.2f}", f"{means[best]:.2f}")
        figure = f"{gap:+.2f} ± {error:.2f}"
        title = f"{name}: {metric}, best peer {best}"
        line(title, *shares, figure, ">= - one s.e.", gap >= -error)
        for title, values in scores.items():
            print(f"    {title} {means[title]:.2f} ({cpu[title] / len(values):.1f} CPU-s)")


def peers(seed: int) -> Iterable[tuple[str, Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    yield "LightGBM 100", LGBMClassifier(n_estimators=100, n_jobs=2, random_state=seed, verbose=-1)
    yield "random forest 500", RandomForestClassifier(500, n_jobs=2, random_state=seed)
    yield "extra-trees 500", ExtraTreesClassifier(500, n_jobs=2, random_state=seed)


def _standard_error(split: Split, ours: Any, theirs: Any) -> float:
    """Return the standard error of the difference over random splits.

    With an official split it is that of an accuracy on the one test set.
    """
    if not split.official:
        return float((ours - theirs).std(ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else 0.0
    # Each of n test rows is right with probability p: √(p·(1 − p) / n).
    share = theirs.mean() / 100
    return float(100 * np.sqrt(share * (1 - share) / len(split.y_test)))


# --- screening and margins ---


def measure_screening(quick: bool) -> None:
    """Measure CPU and accuracy with and without screening.

    Screened forests start with a third of the trees, and have as many as the plain ones when all
    rows have left: growing complexity is half of the method.
    """
    for name in ("letter", "mnist"):
        try:
            split = load_split(name, 0)
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        if name == "mnist":
            split = Split(split.x[:10_000], split.y[:10_000], split.x_test, split.y_test)
        trees = 20 if quick else TREES
        plain = CascadeForestClassifier(
            forests(trees), combine="mean", metric="accuracy", random_state=0, n_jobs=1
        )
        screened = ScreenedForestClassifier(
            forests(trees // 3), tree_growth=2.0, random_state=0, n_jobs=1
        )
        both = [fit_and_score(model, split) for model in (screened, plain)]
        cpu, scores, predicting = zip(*both, strict=True)
        own, other = (f"{seconds:.1f} s" for seconds in cpu)
        ratio_line(f"{name}: screened against plain, fit", own, other, cpu[1] / cpu[0], 3)
        accuracy_line("  accuracy", *scores)
        own, other = (f"{seconds:.2f} s" for seconds in predicting)
        line("  prediction", own, other, f"{predicting[1] / predicting[0]:.1f} x", "")
        print("    rows in:", [record.rows_in for record in screened.layer_records_])


def fit_and_score(model: Any, split: Split) -> tuple[float, float, float]:
    """Return CPU seconds of the fit, accuracy in percent, CPU seconds of the prediction."""
    fitting, _ = cpu_seconds(lambda: model.fit(split.x, split.y))
    predicting, probabilities = cpu_seconds(lambda: model.predict_proba(split.x_test))
    return fitting, 100 * accuracy(split.y_test, probabilities), predicting  # type: ignore[operator]


def measure_margins() -> None:
    """Print the margin ratio and out-of-fold accuracy of mdDF after each layer, kept or not."""
    for name in ("satimage", "letter", "yeast", "adult"):
        try:
            split = load_split(name, 0)
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        records = (
            MarginForestClassifier(random_state=0, n_jobs=2).fit(split.x, split.y).layer_records_
        )
        of_layers = [record.margins.ratio for record in records if record.margins]
        ratios = [ratio for ratio in of_layers if ratio]
        shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
        falls = min(ratios[1:], default=9.0) < ratios[0]
        line(f"{name}: margin ratio by layer", "", "", shown, "falls", falls)
        print("    out-of-fold accuracy", *(f"{record.score:.4f}" for record in records))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="speed, papers, peers, screening, margins (all)")
    parser.add_argument("--quick", action="store_true", help="fewer trees and seeds")
    parser.add_argument(
        "--full-mnist", action="store_true", help="all 60,000 rows of MNIST instead of 6,000"
    )
    parser.add_argument(
        "--alone", nargs=3, metavar=("SIDE", "SET", "TREES"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.alone:
        alone(arguments.alone[0], arguments.alone[1], int(arguments.alone[2]))
        return
    warm_up()
    parts = arguments.parts or ["speed", "papers", "peers", "screening", "margins"]
    line("", "ours", "peer", "figure", "aim")
    for part in parts:
        {
            "speed": lambda: measure_speed(arguments.quick),
            "papers": lambda: measure_papers(arguments.quick, arguments.full_mnist),
            "peers": lambda: measure_peers(arguments.quick),
            "screening": lambda: measure_screening(arguments.quick),
            "margins": measure_margins,
        }[part]()


if __name__ == "__main__":
    main()
