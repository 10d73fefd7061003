"""Measure one cascade or one peer and print the result: ``python -m benchmarks._cascade_jobs JOB``.

A job is a mapping as JSON; ``job`` names the function below that carries it out:

- ``fit``       a preset on a real data set: CPU, memory, reported scores and test scores
- ``depths``    the same with a fixed number of layers: test log loss after each of them
- ``noise``     a preset on labels that have nothing to do with the columns: the AUC it reports
- ``peer``      LightGBM, random forest or extra-trees
- ``df21``      DF21, by the interpreter that ``SYLVA_DF21`` names
- ``scaling``   the default preset on a generated table
- ``memory``    the peak memory of a fit on a wide generated table

All fits use one thread.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata
from sklearn.base import clone

from deepforest import MartSelector, preset
from deepforest.early_stopping import EarlyStopping
from deepforest.metrics import auc
from deepforest.records import LayerRecord

from ._figures import ROOT, peak_megabytes
from ._forest_data import (
    NoData,
    continuous,
    load_noise,
    load_split,
    some_rows,
    wide,
)
from .forest import cpu_seconds, warm_up

Array = npt.NDArray[Any]
Result = dict[str, Any]

WAYS: dict[str, Result] = {
    "kept": {},
    "per layer": {"resampling": "per_layer"},
    "two layers": {"max_layers": 2, "patience": 2},
}
DF21_SCRIPT = ROOT / "benchmarks" / "_df21.py"


def fit(
    model: str, table: str, seed: int, changes: Result | None = None, rows: int | None = None
) -> Result:
    """Return CPU, memory, depth, and reported and test scores with their standard errors."""
    split = some_rows(load_split(table, seed), rows)
    cascade = make_cascade(model, seed, changes)
    fit_cpu, _ = cpu_seconds(lambda: cascade.fit(split.x, split.y))
    megabytes = peak_megabytes()
    predict_cpu, probabilities = cpu_seconds(lambda: cascade.predict_proba(split.x_test))
    return {
        "cpu": fit_cpu,
        "predict_cpu": predict_cpu,
        "mb": megabytes,
        "depth": cascade.n_layers_,
        "layers": [summary(record) for record in cascade.layer_records_],
        "reported": scores_with_errors(*scored_rows(split.y, cascade.oof_output_)),
        "test": scores_with_errors(split.y_test, probabilities),
        "official": split.official,
        "n_test": len(split.y_test),
    }


def depths(model: str, table: str, seed: int, n_layers: int, rows: int | None = None) -> Result:
    """Return test and blind log loss after each of ``n_layers`` layers, useful or not.

    ``paired_se[d][e]`` is the standard error of the difference between d + 1 and e + 1 layers.
    """
    keep_all_layers()
    split = some_rows(load_split(table, seed), rows)
    cascade = make_cascade(model, seed, {"max_layers": n_layers, "patience": n_layers})
    cascade.fit(split.x, split.y)
    losses = np.array(
        [row_losses(split.y_test, p) for p in cascade.staged_predict_proba(split.x_test)]
    )
    differences = losses[:, None] - losses[None]
    paired = differences.std(axis=2) / np.sqrt(len(split.y_test))
    return {
        "test": losses.mean(axis=1).tolist(),
        "paired_se": paired.tolist(),
        "blind": [record.blind["log_loss"] for record in cascade.layer_records_],
        "reasons": [record.reason for record in cascade.layer_records_],
    }


def noise(
    model: str,
    table: str,
    seeds: list[int],
    way: str,
    changes: Result | None = None,
    rows: int | None = None,
) -> Result:
    """Return reported AUCs on labels without meaning, one of each seed.

    The ``way`` is "kept" for the kept model, "two layers" for one with a second layer, useful or
    not, and "per layer" for the kept model with folds of the papers' kind.
    """
    changes = dict(changes or {}) | WAYS[way]
    if way == "two layers":
        keep_all_layers()
    if table == "1,000 columns":
        changes["selector"] = MartSelector(20)
    scores = []
    for seed in seeds:
        data = load_noise(table, seed, rows)
        cascade = preset(model).set_params(**changes, n_jobs=1, random_state=seed)
        cascade.fit(data.x, data.y, groups=data.groups)
        scores.append(auc(*scored_rows(data.y, cascade.oof_output_)))
    # How far AUC strays from 0.5 by chance (Mann and Whitney): one seed.
    m, n = np.bincount(data.y)
    error = float(np.sqrt((m + n + 1) / (12 * m * n)))
    return {"auc": scores, "se": error, "cpu": time.process_time()}


def peer(name: str, table: str, seed: int, rows: int | None = None) -> Result:
    """Return CPU and test scores of a peer."""
    split = some_rows(load_split(table, seed), rows)
    model = make_peer(name, seed)
    fit_cpu, _ = cpu_seconds(lambda: model.fit(split.x, split.y))
    probabilities = model.predict_proba(split.x_test)
    test = scores_with_errors(split.y_test, probabilities)
    return {"cpu": fit_cpu, "test": test, "official": split.official}


def df21(table: str, seed: int, rows: int | None = None) -> Result:
    """Return CPU and accuracy of DF21; a reason if it is not on this machine."""
    python = os.environ.get("SYLVA_DF21")
    if not python:
        how = inspect.cleandoc(DF21_SCRIPT.read_text().split('"""')[1]).split("\n\n", 1)[1]
        return {"reason": f"SYLVA_DF21 is not set. {' '.join(how.split())}"}
    split = some_rows(load_split(table, seed), rows)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, x=split.x, y=split.y, x_test=split.x_test, y_test=split.y_test)
        command = [python, str(DF21_SCRIPT), str(data), str(seed)]
        run = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, check=True
        )
    result: Result = json.loads(run.stdout.splitlines()[-1])
    return result


def scaling(n_rows: int, n_features: int) -> Result:
    """Return CPU, memory and layers of the default preset on a generated table."""
    cascade = make_cascade("default", 0)
    x, y = continuous(n_rows, n_features)
    cpu, _ = cpu_seconds(lambda: cascade.fit(x, y))
    return {"cpu": cpu, "mb": peak_megabytes(), "layers": len(cascade.layer_records_)}


def memory(what: str, n_rows: int, n_features: int) -> Result:
    """Return the peak memory of the process and CPU: "mart_cascade", "lightgbm" or "selector"."""
    x, y = wide(n_rows, n_features)
    model: Any
    if what == "mart_cascade":
        # Both layers are grown, useful or not: the second one sees more columns.
        model = preset(what, max_layers=2, patience=2, n_jobs=1, random_state=0)
    elif what == "selector":
        model = MartSelector(min(300, n_features // 2), random_state=0)
    else:
        model = make_peer("LightGBM 100", 0)
    cpu, _ = cpu_seconds(lambda: model.fit(x, y))
    return {"cpu": cpu, "mb": peak_megabytes(), "data_mb": x.nbytes / 2**20}


JOBS = {job.__name__: job for job in (fit, depths, noise, peer, df21, scaling, memory)}


# --- models ---


def make_cascade(name: str, seed: int, changes: Result | None = None) -> Any:
    """Return a preset on one thread, after everything that it needs was compiled and imported."""
    warm_up()
    x, y = continuous(200, 8)
    cascade = preset(name).set_params(**(changes or {}), n_jobs=1, random_state=seed)
    for target in (y, np.arange(200) % 6):
        small = clone(cascade).set_params(selector=None, max_layers=1)
        small.fit(x, target).predict_proba(x)
    return cascade


def make_peer(name: str, seed: int) -> Any:
    """Return a peer with the parameters that it has by default, on one thread."""
    from lightgbm import LGBMClassifier
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    if name == "LightGBM 100":
        return LGBMClassifier(n_estimators=100, n_jobs=1, random_state=seed, verbose=-1)
    kind = RandomForestClassifier if name == "random forest 500" else ExtraTreesClassifier
    return kind(500, n_jobs=1, random_state=seed)


def keep_all_layers() -> None:
    """Make cascades of this process keep every layer, whatever it gains."""
    # Layers after the best one are dropped, and a dropped layer cannot predict test rows.
    EarlyStopping._is_proven = lambda self, gain, gain_se: True  # type: ignore[method-assign]
    EarlyStopping.refuse = lambda self, *figures: False  # type: ignore[method-assign]


# --- scores ---


def summary(record: LayerRecord) -> Result:
    """Return what the tables show of a layer."""
    ratio = None if record.margins is None else record.margins.ratio
    return {
        "score": record.score,
        "kept": record.kept,
        "reason": record.reason,
        "margin_ratio": ratio,
        "rows_in": record.rows_in,
        "alphas": record.alphas,
        "seconds": record.seconds,
    }


def scored_rows(y: Array, output: Array) -> tuple[Array, Array]:
    """Return the rows that a cascade was blind to; with many rows these are not all."""
    known = ~np.isnan(output[:, 0])
    return y[known], output[known]


def scores_with_errors(y: Array, probabilities: Array) -> dict[str, tuple[float, float]]:
    """Return log loss, accuracy and, for two classes, AUC, each with its standard error."""
    losses = row_losses(y, probabilities)
    right = probabilities.argmax(axis=1) == y
    n = np.sqrt(len(y))
    scores = {
        "log_loss": (float(losses.mean()), float(losses.std() / n)),
        "accuracy": (float(right.mean()), float(right.std() / n)),
    }
    if probabilities.shape[1] == 2:
        scores["auc"] = auc_with_error(y, probabilities[:, 1])
    return scores


def row_losses(y: Array, probabilities: Array) -> Array:
    """Return −log of each row's probability of its true class, at least 1e-7.

    The metric of the library depends here on the type of the numbers: float32 during a fit, float64
    in a prediction. Reported and test scores must not differ by that.
    """
    of_true_class = np.asarray(probabilities, float)[np.arange(len(y)), y]
    return np.asarray(-np.log(np.maximum(of_true_class, 1e-7)))


def auc_with_error(y: Array, score: Array) -> tuple[float, float]:
    """Return AUC and its standard error by DeLong et al. (1988)."""
    positive, negative = score[y == 1], score[y == 0]
    rank = rankdata(np.concatenate([positive, negative]))
    m, n = len(positive), len(negative)
    # For each positive row the share of negative ones below it, and for each negative row the share
    # of positive ones above it.
    below = (rank[:m] - rankdata(positive)) / n
    above = 1 - (rank[m:] - rankdata(negative)) / m
    error = np.sqrt(below.var(ddof=1) / m + above.var(ddof=1) / n)
    return float(below.mean()), float(error)


def main(text: str) -> None:
    """Carry out a job and print its result."""
    job = json.loads(text)
    try:
        result = JOBS[job.pop("job")](**job)
    except NoData as reason:
        result = {"reason": str(reason)}
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
