"""Measure what decisions cost beyond training: ``python -m benchmarks.decisions [PART …]``.

- ``folds``      cross-validation of 5 folds against five separate fits of the same models
- ``explain``    contributions of a row through a MART cascade: their sum, and their time
- ``intervals``  the 95 % intervals of an evaluation of a million rows
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks._cascade_jobs import keep_all_layers
from benchmarks._figures import Figure, cost
from benchmarks.deploy import make_table
from deepforest import CascadeForestClassifier
from deepforest.bootstrap import replicate_count, resampled
from deepforest.metrics import metric
from engine.node_types import NodeContext
from engine.values import Folder, Table
from engine.workspace import Files
from nodes import cross_validate, deep_forest, mart

FOLDS, REPEATS = 5, 5
TRAINING_ROWS = {"MART": 10_000, "MART cascade": 1_000}
EXPLAINED_ROWS = 50
EVALUATED_ROWS = 1_000_000
EVALUATED = (
    *("auc", "accuracy", "balanced_accuracy", "f1", "average_precision", "ks", "log_loss"),
    *("recall_at_1_in_10000", "recall_at_1_in_1000", "recall_at_1_in_100"),
)


def main() -> None:
    parts = {"folds": folds, "explain": explain, "intervals": intervals}
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    for name in options.parse_args().parts or parts:
        for figure in parts[name]():
            print(figure.line(), flush=True)


# Cross-validation


def folds() -> Iterator[Figure]:
    """Compare with fits of as many rows, one after another. Both have one thread."""
    nodes: dict[str, tuple[Any, Any]] = {
        "MART": (mart.NODE, mart.MartParams()),
        "MART cascade": (
            deep_forest.NODE,
            # One layer: the folds of both differ, and another depth would be other work.
            deep_forest.DeepForestParams(preset="mart_cascade", max_layers=1),
        ),
    }
    for name, (node, params) in nodes.items():
        with tempfile.TemporaryDirectory(prefix="sylva-folds-") as folder:
            place = Path(folder)
            table = make_table(TRAINING_ROWS[name], 0)
            trained = node.run(context(place / "model"), {"table": table}, params)["model"]
            (place / "saved").mkdir()
            trained.save(place / "saved")
            settings = cross_validate.NODE.params(folds=FOLDS)
            actions = {
                "cross-validation": partial(
                    validate, place / "work", Folder(place / "saved"), table, settings
                ),
                "separate fits": partial(fit_parts, place / "work", node, params, table),
            }
            times: dict[str, list[tuple[float, float]]] = {key: [] for key in actions}
            # In turn, so that a busy machine slows both down.
            for _ in range(REPEATS):
                for key, action in actions.items():
                    times[key].append(cost(action))
                    shutil.rmtree(place / "work")
        whole, fits = (np.array(each) for each in times.values())
        rows = f"{TRAINING_ROWS[name]:,} rows"
        for index, what in enumerate(("wall", "CPU")):
            ratio = median(whole[:, index] / fits[:, index])
            seconds = median(fits[:, index])
            text = f"{name}, {rows}: {FOLDS} folds against {FOLDS} fits ({seconds:.2f} s), {what}"
            yield Figure(text, ratio, "×", 1.1)


def context(folder: Path) -> NodeContext:
    folder.mkdir(parents=True, exist_ok=True)
    return NodeContext("bench", "0" * 64, Files(folder), folder, threads=1)


def validate(
    folder: Path, model: Folder, table: Table, params: cross_validate.CrossValidateParams
) -> None:
    cross_validate.NODE.run(context(folder), {"model": model, "table": table}, params)


def fit_parts(folder: Path, node: Any, params: Any, table: Table) -> None:
    """Train on all rows but a fifth, five times; nothing is predicted or evaluated."""
    fold = np.arange(table.data.num_rows) % FOLDS
    for number in range(FOLDS):
        part = table.with_data(table.data.take(pa.array(np.flatnonzero(fold != number))))
        node.run(context(folder / str(number)), {"table": part}, params)


# Contributions


def explain() -> Iterator[Figure]:
    """Explain rows of a cascade that has two layers, whether the second one helps or not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5_000 + EXPLAINED_ROWS, 30))
    y = (x[:, 0] * x[:, 1] + x[:, 2] + 0.3 * rng.standard_normal(len(x)) > 0).astype(int)
    learner = {"kind": "mart", "n_estimators": 50}
    keep_all_layers()
    growth = {"max_layers": 2, "patience": 2}
    model = CascadeForestClassifier([learner] * 4, **growth, random_state=0, n_jobs=1)
    model.fit(x[:-EXPLAINED_ROWS], y[:-EXPLAINED_ROWS])
    rows = x[-EXPLAINED_ROWS:]
    parts = model.predict_contributions(rows)
    error = float(np.abs(parts.sum(axis=1) - model.predict_proba(rows)).max())
    what = f"MART cascade, {model.n_layers_} layers × 4 learners × 5 folds × 50 trees"
    yield Figure(f"{what}: sum against prediction", error * 1e6, "1e-6", 1)
    took = []
    for number in range(EXPLAINED_ROWS):
        took.append(cost(partial(model.predict_contributions, rows[number : number + 1]))[0])
    yield Figure("… one row explained, one thread", 1000 * median(took), "ms", 50)


# Intervals


def intervals() -> Iterator[Figure]:
    """Resample a million rows of two classes, 1 % of them positive."""
    rng = np.random.default_rng(0)
    truth = (rng.random(EVALUATED_ROWS) < 0.01).astype(int)
    score = 1 / (1 + np.exp(5 - 2 * truth - rng.normal(size=EVALUATED_ROWS)))
    output = np.column_stack([1 - score, score])
    metrics = [metric(name) for name in EVALUATED]
    draws = replicate_count(*output.shape)
    took = [cost(partial(resampled, metrics, truth, output)) for _ in range(3)]
    wall, cpu = (median(each) for each in zip(*took, strict=True))
    what = f"{len(EVALUATED)} metrics of {EVALUATED_ROWS:,} rows, {draws} draws"
    yield Figure(f"{what}, {os.cpu_count()} cores", wall, "s")
    yield Figure("… CPU", cpu, "s")


if __name__ == "__main__":
    main()
