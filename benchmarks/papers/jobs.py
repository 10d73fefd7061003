"""Fit one method once and print its figures: ``python -m benchmarks.papers.jobs JOB``.

A job is a mapping as JSON: data set, split rule, seed, method and its settings. Every job has a
process of its own, so that CPU seconds and peak memory are those of this fit; both contain what
was spent on choosing settings.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deepforest.metrics import auc, best_f1, f1, ks, recall_at_rate

from .._cascade_jobs import make_cascade
from .._figures import peak_megabytes
from ..forest import cpu_seconds, warm_up
from .data import Parts, load_parts
from .methods import LEARNERS

Array = npt.NDArray[Any]
RATES = {"recall at 1/10,000": 1e-4, "recall at 1/1,000": 1e-3, "recall at 1/100": 1e-2}


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Return the scores on test rows, CPU seconds, peak memory and what was chosen."""
    parts = load_parts(job["split"], job["data"], job["seed"])
    # What is compiled or imported at the first use is not part of a fit.
    warm_up()
    if "preset" in job["settings"]:
        make_cascade(job["settings"]["preset"], 0)
    if "scan" in job["settings"]:
        _scan_noise(job["settings"]["scan"])
    _forget_peak()
    learn = LEARNERS[job["learner"]]
    cpu, (model, chosen) = cpu_seconds(lambda: learn(parts, job["seed"], **job["settings"]))
    megabytes = peak_megabytes()
    predict_cpu, scores = cpu_seconds(lambda: SCORES[job["scores"]](model, parts))
    rows = [len(parts.train.y), len(parts.test.y)]
    if parts.validation is not None:
        rows.insert(1, len(parts.validation.y))
    return {
        "scores": {name: round(value, 6) for name, value in scores.items()},
        "cpu": round(cpu, 2),
        "predict_cpu": round(predict_cpu, 2),
        "mb": round(megabytes),
        "rows": rows,
        "columns": parts.train.x.shape[1],
        "chosen": chosen,
        **_by_layer(model, parts, job["scores"]),
    }


def _by_layer(model: Any, parts: Parts, scores: str) -> dict[str, Any]:
    """Return the accuracy on test rows after each layer of a cascade that was kept."""
    if scores != "accuracy" or not hasattr(model, "staged_predict_proba"):
        return {}
    stages = model.staged_predict_proba(parts.test.x)
    right = [model.classes_[stage.argmax(axis=1)] == parts.test.y for stage in stages]
    return {"by_layer": {"accuracy": [round(100 * float(each.mean()), 4) for each in right]}}


def accuracy_scores(model: Any, parts: Parts) -> dict[str, float]:
    """Return the accuracy on test rows in percent."""
    right = np.asarray(model.predict(parts.test.x)) == parts.test.y
    return {"accuracy": 100 * float(right.mean())}


def fraud_scores(model: Any, parts: Parts) -> dict[str, float]:
    """Return the metrics of the fraud tables; F1 at the best threshold of the validation rows."""
    assert parts.validation is not None
    best = best_f1(parts.validation.y, model.predict_proba(parts.validation.x))
    assert best is not None, "the validation rows have no fraud"
    threshold = best[1]
    truth, probabilities = parts.test.y, model.predict_proba(parts.test.x)
    scores = {
        "AUC": auc(truth, probabilities),
        "F1": f1(truth, probabilities, threshold=threshold),
        "KS": ks(truth, probabilities),
    }
    for name, rate in RATES.items():
        scores[name] = recall_at_rate(truth, probabilities, rate=rate)
    scores["frauds"] = float(np.sum(truth == 1))
    return {name: float(value) for name, value in scores.items()}  # type: ignore[arg-type]


SCORES = {"accuracy": accuracy_scores, "fraud": fraud_scores}


def _scan_noise(scan: dict[str, Any]) -> None:
    """Scan a few small images, so that everything is compiled."""
    from deepforest import MultiGrainedScanner

    noise = np.random.default_rng(0).random((60, 64), dtype=np.float32)
    scanner = MultiGrainedScanner((8, 8), windows=scan["windows"], sample=4, n_jobs=1)
    scanner.fit_transform(noise, np.arange(60) % 3)
    scanner.transform(noise)


def _forget_peak() -> None:
    """Let the peak memory of this process start from what it holds now, if Linux allows it."""
    # Reading a table holds it twice; that is not part of a fit.
    if os.access("/proc/self/clear_refs", os.W_OK):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))
