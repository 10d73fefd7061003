"""Measure the cascades: ``python -m benchmarks.cascade [part ...] [--quick] [--workers N]``.

- ``permuted``   what cascades report on labels that have nothing to do with the columns
- ``leak``       what the papers' way reports there, and a second layer that is always kept
- ``honest``     the reported score against the score on test rows
- ``depth``      the depth that the default chooses against the best depth on test rows
- ``df21``       CPU and accuracy against DF21, LightGBM, random forest and extra-trees
- ``mddf``       accuracy of mdDF against its paper; margins by layer
- ``screening``  what is saved if confident rows leave early
- ``scaling``    how the cost grows from 100,000 to a million rows
- ``memory``     peak memory on wide tables
- ``speed``      the papers' gcForest against the same cascade on scikit-learn's forests
- ``mnist``      the default cascade on all rows of MNIST, without scanning

Every fit runs on one thread in a process of its own. Results are saved in ``artifacts/figures``:
the same command goes on where it was cut off, and repeats nothing until a source of ``deepforest``
changes. Data sets that are not on this machine are left out. ``--quick`` takes one seed and few
rows: it shows that everything works, its figures mean little.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from deepforest import CascadeForestClassifier, preset
from deepforest.metrics import accuracy

from ._figures import Results, peak_megabytes, run_module
from ._forest_data import NOISE_ROWS, NoData, Split, load
from .forest import accuracy_line, cpu_seconds, line, ratio_line, warm_up

Result = dict[str, Any]

HONEST_SETS = (
    "letter",
    "satimage",
    "yeast",
    "adult",
    "bank_marketing",
    "mammography",
    "vehicle",
    "german_numeric",
)
DF21_ACCURACY = {"letter": 97.5, "adult": 87.2, "satimage": 91.9}
PEERS = ("LightGBM 100", "random forest 500", "extra-trees 500")
# Seeds of each set; without an official test set every seed is another split.
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
MDDF_PAPER = {"letter": 97.5, "satimage": 91.75, "adult": 86.56, "yeast": 63.34}
OUT_OF_BAG = {"class_vectors": "oob"}
# MART has no bags: its class vectors come from folds in either case.
NOISE_MODELS: dict[str, tuple[str, Result]] = {
    "default": ("default", {}),
    "default, out-of-bag": ("default", OUT_OF_BAG),
    "gcforest": ("gcforest", {}),
    "gcforest, out-of-bag": ("gcforest", OUT_OF_BAG),
    "mddf": ("mddf", {}),
    "mddf, out-of-bag": ("mddf", OUT_OF_BAG),
    "gcforest_cs": ("gcforest_cs", {}),
    "gcforest_cs, out-of-bag": ("gcforest_cs", OUT_OF_BAG),
    "mart_cascade": ("mart_cascade", {}),
}
# Of the cascade that is compared with scikit-learn's forests.
TREES = 100
FOLDS = 5


class Bench(NamedTuple):
    """Hold where results come from and how much is measured."""

    results: Results
    quick: bool

    def seeds(self, n: int = 3) -> range:
        """Return the seeds: ``n``, or one."""
        return range(1 if self.quick else n)

    @property
    def rows(self) -> int | None:
        """The most rows of a real data set; None for all."""
        return 1000 if self.quick else None

    def measure(self, title: str, jobs: Iterable[Result]) -> list[Result] | None:
        """Return the results of jobs; print the reason and return None if one has none."""
        results = self.results.measure(jobs)
        for result in results:
            if "reason" in result:
                print(f"{title}: left out, {result['reason']}", flush=True)
                return None
        return results

    def fits(
        self, model: str, table: str, seeds: Iterable[int], changes: Result | None = None
    ) -> list[Result] | None:
        """Return the results of a preset on a data set, one of each seed."""
        job = {"job": "fit", "model": model, "table": table, "rows": self.rows}
        if changes:
            job["changes"] = changes
        return self.measure(f"{table}, {model}", [{**job, "seed": seed} for seed in seeds])


# --- are the reported scores true? ---


def measure_permuted(bench: Bench) -> None:
    """Compare the reported AUC with 0.5 where there is nothing to learn."""
    line("reported AUC, nothing to learn", "mean", "", "by chance", "aim")
    for table in NOISE_ROWS:
        for title, result in zip(NOISE_MODELS, _noise(bench, table, "kept"), strict=False):
            kept, error = _mean_and_error(result)
            title, shown = f"{table}: {title}", (f"{kept:.3f}", "", f"± {error:.3f}")
            if "not grouped" in table:
                # Copies of a row are in other folds: only ``groups`` can tell the cascade.
                line(title, *shown, "needs groups=")
            else:
                line(title, *shown, "0.5 ± 0.03", abs(kept - 0.5) <= 0.03)


def measure_leak(bench: Bench) -> None:
    """Measure what the papers' way reports there, and a second layer that is always kept."""
    line("reported AUC, nothing to learn", "per layer", "2 layers forced", "by chance", "")
    for table in NOISE_ROWS:
        both = [_noise(bench, table, way) for way in ("per layer", "two layers")]
        for title, per_layer, forced in zip(NOISE_MODELS, *both, strict=False):
            means = [f"{_mean_and_error(result)[0]:.3f}" for result in (per_layer, forced)]
            line(f"{table}: {title}", *means, f"± {_mean_and_error(forced)[1]:.3f}", "")


def _noise(bench: Bench, table: str, way: str) -> list[Result]:
    """Return the results of all presets on a table without meaning."""
    shared = {"job": "noise", "table": table, "way": way, "seeds": list(bench.seeds())}
    jobs = [
        {**shared, "model": model, "changes": changes, "rows": 400 if bench.quick else None}
        for model, changes in NOISE_MODELS.values()
    ]
    return bench.measure(table, jobs) or []


def _mean_and_error(result: Result) -> tuple[float, float]:
    return float(np.mean(result["auc"])), result["se"] / np.sqrt(len(result["auc"]))


def measure_honest(bench: Bench) -> None:
    """Compare the score that the default reports of its kept layers with that on test rows."""
    line("default: reported score", "reported", "test", "difference", "aim")
    differences: dict[str, list[float]] = {}
    for table in HONEST_SETS:
        fits = bench.fits("default", table, bench.seeds())
        if fits is None:
            continue
        depths = "/".join(str(fit["depth"]) for fit in fits)
        for metric in fits[0]["test"]:
            reported, test, error = _reported_and_test(fits, metric)
            gap = reported - test
            differences.setdefault(metric, []).append(gap)
            title = f"{table}: {metric}, layers {depths}"
            figure = f"{gap:+.4f} = {gap / error:+.1f} se"
            shown = (f"{reported:.4f}", f"{test:.4f}", figure)
            line(title, *shown, "within 2 se", abs(gap) <= 2 * error)
    for metric, gaps in differences.items():
        mean = float(np.mean(gaps))
        aim, reached = "", None
        if metric != "log_loss":
            aim, reached = "within ± 0.003", abs(mean) <= 0.003
        line(f"mean difference of {metric}, {len(gaps)} sets", "", "", f"{mean:+.4f}", aim, reached)


def _reported_and_test(fits: list[Result], metric: str) -> tuple[float, float, float]:
    """Return reported and test score, and the standard error of their difference."""
    reported = np.array([fit["reported"][metric] for fit in fits])
    test = np.array([fit["test"][metric] for fit in fits])
    errors = np.hypot(reported[:, 1], test[:, 1])
    # Other seeds of an official split have the same rows, and so the same luck with them.
    n_splits = 1 if fits[0]["official"] else len(fits)
    error = float(errors.mean() / np.sqrt(n_splits))
    return float(reported[:, 0].mean()), float(test[:, 0].mean()), error


def measure_depth(bench: Bench) -> None:
    """Compare the depth that the default chooses with the depth that is best on test rows."""
    line("default: test log loss by depth", "chosen", "best", "excess", "aim")
    good, n_sets = 0, 0
    for table in HONEST_SETS:
        fits = bench.fits("default", table, bench.seeds())
        if fits is None:
            continue
        jobs = []
        for seed, fit in enumerate(fits):
            job = {"job": "depths", "model": "default", "table": table, "rows": bench.rows}
            # Two layers more than were kept, to see what they would have gained.
            jobs.append({**job, "seed": seed, "n_layers": max(4, fit["depth"] + 2)})
        forced = bench.measure(table, jobs) or []
        n_sets += 1
        good += _depth_lines(table, [fit["depth"] for fit in fits], forced)
    line(
        "sets within 1 se of the best depth", "", "", f"{good} of {n_sets}", ">= 7 of 8", good >= 7
    )


def _depth_lines(table: str, chosen: list[int], forced: list[Result]) -> bool:
    """Print a line per data set and one per seed; return whether the depth is good enough."""
    excesses, errors, bests = [], [], []
    for depth, result in zip(chosen, forced, strict=True):
        best = int(np.argmin(result["test"]))
        bests.append(best + 1)
        excesses.append(result["test"][depth - 1] - result["test"][best])
        errors.append(result["paired_se"][depth - 1][best])
    excess, error = float(np.mean(excesses)), float(np.mean(errors))
    shown = ["/".join(map(str, depths)) for depths in (chosen, bests)]
    reached = excess <= error
    line(f"{table}: layers", *shown, f"{excess:.4f} ± {error:.4f}", "<= 1 se", reached)
    for result in forced:
        for rows in ("test", "blind"):
            print(f"    {rows:<6}", *(f"{loss:.4f}" for loss in result[rows]))
    return reached


# --- against others ---


def measure_df21(bench: Bench) -> None:
    """Measure the default against DF21 and against single forests and LightGBM."""
    for table, aim in DF21_ACCURACY.items():
        fits = bench.fits("default", table, bench.seeds())
        if fits is None:
            continue
        cpu, score = _mean(fits, "cpu"), 100 * _mean_test(fits, "accuracy")
        line(f"{table}: accuracy", f"{score:.2f} %", "", "", f">= {aim} %", score >= aim)
        job = {"job": "df21", "table": table, "rows": bench.rows}
        others = bench.measure(table, [{**job, "seed": seed} for seed in bench.seeds()])
        if others is None:
            continue
        times = (f"{cpu:.1f} s", f"{_mean(others, 'cpu'):.1f} s")
        ratio_line("  CPU of the fit against DF21", *times, _mean(others, "cpu") / cpu, 10)
        times = tuple(f"{_mean(each, 'predict_cpu'):.2f} s" for each in (fits, others))
        line("  prediction of the test rows", *times, "", "")
        accuracy_line("  accuracy against DF21", score, 100 * _mean(others, "accuracy"))
    for table, n_seeds in PEER_SETS.items():
        _compare_with_peers(bench, table, n_seeds)


def _compare_with_peers(bench: Bench, table: str, n_seeds: int) -> None:
    """Measure the default against the best of three peers."""
    seeds = bench.seeds(n_seeds)
    by_model = {"default": bench.fits("default", table, seeds)}
    if by_model["default"] is None:
        return
    for peer in PEERS:
        job = {"job": "peer", "name": peer, "table": table, "rows": bench.rows}
        by_model[peer] = bench.measure(table, [{**job, "seed": seed} for seed in seeds])
    metric = "auc" if table in BY_AUC else "accuracy"
    scores = {}
    for model, results in by_model.items():
        scores[model] = np.array([100 * each["test"][metric][0] for each in results or []])
    best = max(PEERS, key=lambda peer: float(scores[peer].mean()))
    gap = float(scores["default"].mean() - scores[best].mean())
    error = _standard_error(by_model["default"][0], scores["default"], scores[best])
    shown = [f"{scores[model].mean():.2f}" for model in ("default", best)]
    title, figure = f"{table}: {metric}, best peer {best}", f"{gap:+.2f} ± {error:.2f}"
    line(title, *shown, figure, ">= - one se", gap >= -error)
    for model, results in by_model.items():
        print(f"    {model} {scores[model].mean():.2f} ({_mean(results or [], 'cpu'):.1f} CPU-s)")


def _standard_error(fit: Result, ours: Any, theirs: Any) -> float:
    """Return the standard error of the difference over random splits.

    With an official split it is that of an accuracy on the one test set.
    """
    if not fit["official"]:
        return float((ours - theirs).std(ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else 0.0
    # Each of n test rows is right with probability p: √(p·(1 − p) / n).
    share = theirs.mean() / 100
    return float(100 * np.sqrt(share * (1 - share) / fit["n_test"]))


def _mean(results: list[Result], name: str) -> float:
    return float(np.mean([each[name] for each in results]))


def _mean_test(fits: list[Result], metric: str) -> float:
    """Return the mean test score."""
    return float(np.mean([fit["test"][metric][0] for fit in fits]))


def measure_mddf(bench: Bench) -> None:
    """Measure mdDF on the data sets of its paper, and the margins after each layer."""
    line("mdDF: accuracy on test rows", "preset", "paper", "CPU", "aim")
    for table, aim in MDDF_PAPER.items():
        fits = bench.fits("mddf", table, bench.seeds(PEER_SETS[table]))
        if fits is None:
            continue
        score = 100 * _mean_test(fits, "accuracy")
        shown = (f"{score:.2f} %", f"{aim:.2f} %", f"{_mean(fits, 'cpu'):.1f} CPU-s")
        line(f"{table}: mddf", *shown, f">= {aim} %", score >= aim)
        layers = fits[0]["layers"]
        ratios = [f"{layer['margin_ratio'] or np.nan:.3f}" for layer in layers]
        kept = [layer for layer in layers if layer["kept"]]
        print("    margin ratio by layer", *ratios, "; layers kept", len(kept))
        print("    weights of the layers", *(f"{alpha:.2f}" for alpha in kept[-1]["alphas"]))


def measure_screening(bench: Bench) -> None:
    """Measure gcforest_cs against gcforest with the trees that it starts with, in both ways."""
    line("gcforest_cs, equal starting trees", "screened", "plain", "figure", "aim")
    shared = ("learners", "cv", "class_vectors", "patience", "tol")
    screened = preset("gcforest_cs").get_params(deep=False)
    # "mean" and "vectors" are what screening does with its learners.
    plain = {name: screened[name] for name in shared} | {"combine": "mean", "pass_on": "vectors"}
    # By name: what "auto" is in the papers' way depends on the kind of cascade.
    for resampling, scoring in (("nested", "log_loss"), ("per_layer", "accuracy")):
        way = {"resampling": resampling, "scoring": scoring}
        for table in ("letter", "adult"):
            both = []
            for model, changes in (("gcforest_cs", way), ("gcforest", {**plain, **way})):
                fits = bench.fits(model, table, bench.seeds(), changes)
                if fits is None:
                    break
                both.append(fits)
            else:
                _screening_lines(f"{table}, {resampling}", *both)


def _screening_lines(title: str, screened: list[Result], plain: list[Result]) -> None:
    for name, what in (("cpu", "fit"), ("predict_cpu", "prediction")):
        own, other = _mean(screened, name), _mean(plain, name)
        times = (f"{own:.2f} s", f"{other:.2f} s")
        # Leaving rows out has to save something; the paper does not say how much on these sets.
        figure = f"{other / own:.2f} x"
        line(f"{title}: CPU of the {what}", *times, figure, "> 1 x", other > own)
    shares = (100 * _mean_test(screened, "accuracy"), 100 * _mean_test(plain, "accuracy"))
    accuracy_line("  accuracy", *shares)
    for side, fits in (("screened", screened), ("plain", plain)):
        rows = [layer["rows_in"] for layer in fits[0]["layers"]]
        print(f"    {side}: kept {fits[0]['depth']} layers, rows in {rows}")


# --- cost ---


def measure_scaling(bench: Bench) -> None:
    """Measure the default on ten times as many rows."""
    n_rows = (1_000, 10_000) if bench.quick else (100_000, 1_000_000)
    jobs = [{"job": "scaling", "n_rows": n, "n_features": 20} for n in n_rows]
    small, large = bench.results.measure(jobs)
    ratio = large["cpu"] / small["cpu"]
    title = f"default, {n_rows[0] // 1000}k -> {n_rows[1] // 1000}k rows × 20"
    times = [f"{each['cpu']:.1f} s" for each in (small, large)]
    line(title, *times, f"{ratio:.1f} x cost", "<= 12 x", ratio <= 12)
    by_layer = [each["cpu"] / each["layers"] for each in (small, large)]
    times = [f"{seconds:.1f} s" for seconds in by_layer]
    line("  CPU of a layer", *times, f"{by_layer[1] / by_layer[0]:.1f} x", "")
    line("  layers grown", *(str(each["layers"]) for each in (small, large)), "", "")
    line("  peak memory", *(f"{each['mb']:.0f} MB" for each in (small, large)), "", "")


def measure_memory(bench: Bench) -> None:
    """Measure the peak of memory on tables of many columns."""
    n_rows, n_columns = (1_000, 60) if bench.quick else (20_000, 3_000)
    size = {"n_rows": n_rows, "n_features": n_columns}
    jobs = [{"job": "memory", "what": what, **size} for what in ("mart_cascade", "lightgbm")]
    own, other = bench.results.measure(jobs)
    shown = [f"{each['mb']:.0f} MB" for each in (own, other)]
    ratio = own["mb"] / other["mb"]
    title = f"MART cascade, {n_rows:,} × {n_columns:,}"
    line(f"{title}: peak memory", *shown, f"{ratio:.2f} x", "<= 2.5 x LightGBM", ratio <= 2.5)
    line("  CPU", *(f"{each['cpu']:.1f} s" for each in (own, other)), "", "")
    n_rows, n_columns = (2_000, 200) if bench.quick else (50_000, 5_000)
    job = {"job": "memory", "what": "selector", "n_rows": n_rows, "n_features": n_columns}
    result = bench.results.measure([job])[0]
    gigabytes = result["mb"] / 1024
    title = f"selection, {n_rows:,} × {n_columns:,}: peak memory"
    shown = [f"{gigabytes:.2f} GB", f"data {result['data_mb'] / 1024:.2f} GB"]
    line(title, *shown, f"{result['cpu']:.0f} CPU-s", "<= 4 GB", gigabytes <= 4)


# --- the same cascade, ours and on scikit-learn ---


def measure_speed(bench: Bench) -> None:
    """Measure two layers of 2 random and 2 completely-random forests, 5 folds, one thread."""
    trees = 20 if bench.quick else TREES
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


def forests(n_estimators: int) -> list[dict[str, Any]]:
    return [
        {"kind": kind, "count": 2, "n_estimators": n_estimators}
        for kind in ("random_forest", "completely_random_forest")
    ]


def fit_ours(split: Split, trees: int) -> Callable[[Any], Any]:
    settings: dict[str, Any] = {
        "combine": "mean",
        "scoring": "accuracy",
        "resampling": "per_layer",
        "pass_on": "vectors",
        "cv": FOLDS,
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


def measure_mnist(bench: Bench) -> None:
    """Measure the default on MNIST, whose pixels it sees as plain columns."""
    fits = bench.fits("default", "mnist", [0])
    if fits is not None:
        share, cpu = 100 * _mean_test(fits, "accuracy"), f"{fits[0]['cpu']:.0f} CPU-s"
        line("mnist: accuracy", f"{share:.2f} %", "", cpu, ">= 98.2 %", share >= 98.2)


PARTS: dict[str, Callable[[Bench], None]] = {
    "permuted": measure_permuted,
    "leak": measure_leak,
    "honest": measure_honest,
    "depth": measure_depth,
    "df21": measure_df21,
    "mddf": measure_mddf,
    "screening": measure_screening,
    "scaling": measure_scaling,
    "memory": measure_memory,
    "speed": measure_speed,
    "mnist": measure_mnist,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)} (all)")
    parser.add_argument("--quick", action="store_true", help="one seed and few rows")
    parser.add_argument("--workers", type=int, default=1, help="fits that run at once (1)")
    parser.add_argument(
        "--alone", nargs=3, metavar=("SIDE", "SET", "TREES"), help=argparse.SUPPRESS
    )
    arguments = parser.parse_args()
    if arguments.alone:
        alone(arguments.alone[0], arguments.alone[1], int(arguments.alone[2]))
        return
    unknown = set(arguments.parts) - PARTS.keys()
    if unknown:
        parser.error(f"unknown part {', '.join(sorted(unknown))}; use {', '.join(PARTS)}")
    bench = Bench(Results("benchmarks._cascade_jobs", arguments.workers), arguments.quick)
    for part in arguments.parts or PARTS:
        began = time.perf_counter()
        print(f"\n{part}")
        PARTS[part](bench)
        print(f"({part}: {time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
