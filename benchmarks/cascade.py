"""The cascades against their peers: ``python -m benchmarks.cascade [part ...] [--quick] [--full-mnist]``.

Parts: ``speed`` (the same gcForest cascade on scikit-learn's forests: CPU, memory, accuracy, each side in a process of
its own), ``papers`` (accuracy against the mdDF column of the paper), ``peers`` (the default cascade against LightGBM,
random forest and extra-trees alone), ``screening`` (what leaving early saves), ``margins`` (the margin ratio by layer).
All but ``speed`` fit on two threads; CPU seconds are of the whole process. Data that are not there are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from deepforest import CascadeForestClassifier, MarginForestClassifier, ScreenedForestClassifier
from deepforest.metrics import accuracy, auc

from ._forest_data import NoData, Split, load, load_split
from .forest import cpu_seconds, line, peak_megabytes, warm_up

TREES = 100
FOLDS = 5
PAPER = {"letter": 97.5, "satimage": 91.75, "adult": 86.56, "yeast": 63.34, "mnist": 98.2}
PEER_SETS = {
    "letter": 3,
    "adult": 3,
    "satimage": 3,
    "yeast": 5,
    "bank_marketing": 3,
    "mammography": 5,
}
BY_AUC = ("bank_marketing", "mammography")


def forests(trees: int) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "count": 2, "trees": trees}
        for kind in ("random_forest", "completely_random_forest")
    ]


# --- the same cascade, ours and on scikit-learn ---


def measure_speed(quick: bool) -> None:
    """Two layers of 2 random and 2 completely-random forests, 5 folds, one thread."""
    trees = 20 if quick else TREES
    for name in ("letter", "satimage"):
        sides = {}
        for side in ("ours", "theirs"):
            command = [
                sys.executable,
                "-m",
                "benchmarks.cascade",
                "--alone",
                side,
                name,
                str(trees),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            sides[side] = json.loads(done.stdout)
        if "reason" in sides["ours"]:
            print(f"{name}: left out, {sides['ours']['reason']}")
            continue
        own, other = sides["ours"], sides["theirs"]
        ratio, memory = other["cpu"] / own["cpu"], own["mb"] / other["mb"]
        figure = f"{ratio:.1f} x"
        line(
            f"{name}: 2-layer gcForest, fit",
            f"{own['cpu']:.1f} s",
            f"{other['cpu']:.1f} s",
            figure,
            ">= 6 x",
            ratio >= 6,
        )
        figure = f"1/{1 / memory:.1f}"
        line(
            "  memory of the fit",
            f"{own['mb']:.0f} MB",
            f"{other['mb']:.0f} MB",
            figure,
            "<= 1/8",
            memory <= 1 / 8,
        )
        gap = 100 * (own["accuracy"] - other["accuracy"])
        shares = [f"{100 * side['accuracy']:.2f} %" for side in (own, other)]
        line("  accuracy", *shares, f"{gap:+.2f} points", ">= -0.3 points", gap >= -0.3)


def alone(side: str, name: str, trees: int) -> None:
    """One side's CPU seconds, megabytes and accuracy, as JSON."""
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
    print(
        json.dumps(
            {"cpu": cpu, "mb": memory, "accuracy": accuracy(split.y_test, predict(split.x_test))}
        )
    )


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
    """The same cascade as one would write it on scikit-learn's forests."""
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
            said = [
                np.mean([model.predict_proba(rows) for model in models], axis=0) for models in layer
            ]
            rows = np.hstack([raw, *said])
        return np.mean(said, axis=0)

    return predict


# --- accuracy ---


def measure_papers(quick: bool, full_mnist: bool) -> None:
    """mdDF and the default cascade on the sets of the paper: means of 3 seeds (yeast: 5 random splits)."""
    for name, aim in PAPER.items():
        seeds = range(1 if quick else 5 if name == "yeast" else 1 if name == "mnist" else 3)
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
                    scores.append(100 * accuracy(split.y_test, model.predict_proba(split.x_test)))  # type: ignore[operator]
            except NoData as reason:
                print(f"{name}: left out, {reason}")
                break
            sampled = name == "mnist" and not full_mnist
            reached = None if sampled else float(np.mean(scores)) >= aim
            own = f"{np.mean(scores):.2f} %"
            about = "6,000 rows" if sampled else f">= {aim} %"
            line(
                f"{name}: {title}",
                own,
                f"{np.mean(cpu):.0f} CPU-s",
                f"± {np.std(scores):.2f}",
                about,
                reached,
            )


def measure_peers(quick: bool) -> None:
    """The default cascade against the best of three peers."""
    for name, n_seeds in PEER_SETS.items():
        measure = auc if name in BY_AUC else accuracy
        scores: dict[str, list[float]] = {}
        cpu: dict[str, float] = {}
        try:
            for seed in range(1 if quick else n_seeds):
                split = load_split(name, seed)
                for title, model in (
                    ("default", CascadeForestClassifier(random_state=seed, n_jobs=2)),
                    *peers(seed),
                ):
                    began = time.process_time()
                    model.fit(split.x, split.y)
                    cpu[title] = cpu.get(title, 0.0) + time.process_time() - began
                    value = measure(split.y_test, model.predict_proba(split.x_test))
                    scores.setdefault(title, []).append(100 * value)  # type: ignore[operator]
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        best = max(
            (title for title in scores if title != "default"),
            key=lambda title: np.mean(scores[title]),
        )
        ours, theirs = np.array(scores["default"]), np.array(scores[best])
        gap = float((ours - theirs).mean())
        error = _standard_error(measure, split, ours, theirs)
        line(
            f"{name}: {'AUC' if name in BY_AUC else 'accuracy'}, best peer {best}",
            f"{ours.mean():.2f}",
            f"{theirs.mean():.2f}",
            f"{gap:+.2f} ± {error:.2f}",
            ">= - one s.e.",
            gap >= -error,
        )
        print(
            "   ",
            ", ".join(
                f"{t} {np.mean(v):.2f} ({cpu[t] / len(v):.1f} CPU-s)" for t, v in scores.items()
            ),
        )


def peers(seed: int) -> Iterable[tuple[str, Any]]:
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    yield "LightGBM 100", LGBMClassifier(n_estimators=100, n_jobs=2, random_state=seed, verbose=-1)
    yield "random forest 500", RandomForestClassifier(500, n_jobs=2, random_state=seed)
    yield "extra-trees 500", ExtraTreesClassifier(500, n_jobs=2, random_state=seed)


def _standard_error(measure: Any, split: Split, ours: Any, theirs: Any) -> float:
    """Of the difference over splits, where the split is drawn anew; of an accuracy on the one test set otherwise."""
    if not split.official:
        return float((ours - theirs).std(ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else 0.0
    share = theirs.mean() / 100
    return float(100 * np.sqrt(share * (1 - share) / len(split.y_test)))


# --- screening and margins ---


def measure_screening(quick: bool) -> None:
    """Training CPU with and without screening. Screened forests start with a third of the trees, and have as many as
    the plain ones once all rows are gone: growing complexity is half of the method."""
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
        cpu, scores, predicting = zip(
            *(fit_and_judge(model, split) for model in (screened, plain)), strict=True
        )
        ratio, gap = cpu[1] / cpu[0], scores[0] - scores[1]
        own, other = (f"{seconds:.1f} s" for seconds in cpu)
        line(
            f"{name}: screened against plain, fit",
            own,
            other,
            f"{ratio:.1f} x",
            ">= 3 x",
            ratio >= 3,
        )
        own, other = (f"{score:.2f} %" for score in scores)
        line("  accuracy", own, other, f"{gap:+.2f} points", ">= -0.3 points", gap >= -0.3)
        own, other = (f"{seconds:.2f} s" for seconds in predicting)
        line("  prediction", own, other, f"{predicting[1] / predicting[0]:.1f} x", "")
        print("    rows in:", [record.rows_in for record in screened.layers_])


def fit_and_judge(model: Any, split: Split) -> tuple[float, float, float]:
    """CPU seconds of the fit, accuracy in percent, CPU seconds of the prediction."""
    fitting, _ = cpu_seconds(lambda: model.fit(split.x, split.y))
    predicting, said = cpu_seconds(lambda: model.predict_proba(split.x_test))
    return fitting, 100 * accuracy(split.y_test, said), predicting  # type: ignore[operator]


def measure_margins() -> None:
    """The margin ratio of mdDF after each layer, kept or not, and the accuracy on rows that were held out."""
    for name in ("satimage", "letter", "yeast", "adult"):
        try:
            split = load_split(name, 0)
        except NoData as reason:
            print(f"{name}: left out, {reason}")
            continue
        records = MarginForestClassifier(random_state=0, n_jobs=2).fit(split.x, split.y).layers_
        ratios = [
            record.margins.ratio for record in records if record.margins and record.margins.ratio
        ]
        shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
        held_out = " ".join(f"{record.score:.4f}" for record in records)
        line(
            f"{name}: margin ratio by layer",
            "",
            "",
            shown,
            "falls",
            min(ratios[1:], default=9.0) < ratios[0],
        )
        print(f"    held-out accuracy {held_out}")


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
    print(f"{'':<44} {'ours':>12} {'peer':>12} {'figure':>16}   aim")
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
