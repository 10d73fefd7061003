"""Measure multi-grained scanning: ``python -m benchmarks.scanning [digits usps mnist-10k mnist]``.

The same cascade with and without a scan, on the same test rows; without names, all but the last,
which takes long. Each fit runs in its own process, on all threads: accuracy, CPU seconds of fit and
prediction, wall seconds and peak memory. Results are saved, and a run that was cut off continues.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from deepforest import CascadeForestClassifier, preset

from ._figures import Figure, Results, peak_megabytes
from ._forest_data import NoData, Split, load

SEEDS = (0, 1)
SOME = 10_000
DATA: dict[str, dict[str, Any]] = {
    "digits": {"shape": [8, 8], "scans": {"all": {}, "1/8": {"sample": 0.125}}},
    "usps": {"shape": [16, 16], "scans": {"all": {}, "1/8": {"sample": 0.125}}},
    "mnist-10k": {"shape": [28, 28], "scans": {"1/10": {"sample": 0.1}}, "accuracy": 97.5},
    "mnist": {
        "shape": [28, 28],
        "scans": {"1/10": {"sample": 0.1}},
        "accuracy": 98.7,
        "megabytes": 6000,
    },
}


def split_of(name: str, seed: int) -> Split:
    """Return training and test rows; raise ``NoData`` if they are not on this machine."""
    if name == "digits":
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        x, x_test, y, y_test = train_test_split(x, y, test_size=0.4, random_state=seed, stratify=y)
        return Split(x, y, x_test, y_test, official=False)
    split = load(name.partition("-")[0])
    if name.endswith("-10k"):
        rows = np.sort(np.random.default_rng(seed).choice(len(split.y), SOME, replace=False))
        return split._replace(x=split.x[rows], y=split.y[rows])
    return split


def measure(job: Mapping[str, Any]) -> dict[str, Any]:
    """Fit one model and return its figures."""
    try:
        split = split_of(job["data"], job["seed"])
    except NoData as error:
        return {"reason": str(error)}
    if job["scan"] and job["scan"].get("fresh"):
        model: Any = preset("gcforest_cs_scan", shape=job["scan"]["shape"])
    else:
        model = CascadeForestClassifier(scan=job["scan"], class_vectors="oob")
    model.set_params(random_state=job["seed"], n_jobs=-1)
    cpu, wall = time.process_time(), time.perf_counter()
    model.fit(split.x, split.y)
    fitted = time.process_time()
    right = model.predict(split.x_test) == split.y_test
    return {
        "accuracy": 100 * float(right.mean()),
        "layers": model.n_layers_,
        "fit_cpu": fitted - cpu,
        "predict_cpu": time.process_time() - fitted,
        "wall": time.perf_counter() - wall,
        "megabytes": peak_megabytes(),
    }


def main(names: list[str]) -> None:
    """Print the figures of the data sets."""
    results = Results("benchmarks.scanning")
    for name in names:
        about = DATA[name]
        seeds = SEEDS[:1] if name == "mnist" else SEEDS
        kinds: dict[str, Any] = {"no scan": None}
        for title, scan in about["scans"].items():
            kinds[f"scan of {title} positions"] = {"shape": about["shape"], **scan}
        kinds["gcForest-CS, fresh scans"] = {"shape": about["shape"], "fresh": True}
        for title, scan in kinds.items():
            jobs = [{"data": name, "seed": seed, "scan": scan} for seed in seeds]
            _print_line(name, title, results.measure(jobs), about if scan else {})


def _print_line(
    name: str, title: str, found: list[dict[str, Any]], targets: Mapping[str, Any]
) -> None:
    if "reason" in found[0]:
        print(f"{name}: left out, {found[0]['reason']}")
        return
    means = {key: float(np.mean([each[key] for each in found])) for key in found[0]}
    what = f"{name}, {title}"
    accuracy = Figure(what, means["accuracy"], "%", targets.get("accuracy"), at_least=True)
    print(accuracy.line())
    memory = Figure("  peak memory", means["megabytes"], "MB", targets.get("megabytes"))
    print(memory.line())
    print(
        f"  CPU: fit {means['fit_cpu']:.1f} s, predict {means['predict_cpu']:.1f} s; wall "
        f"{means['wall']:.1f} s; {means['layers']:.1f} layers; {len(found)} seeds",
        flush=True,
    )


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        print(json.dumps(measure(json.loads(sys.argv[1]))))
    else:
        unknown = sorted(set(sys.argv[1:]) - set(DATA))
        if unknown:
            sys.exit(f"{unknown[0]!r} is not known; name some of {', '.join(DATA)}")
        main(sys.argv[1:] or list(DATA)[:-1])
