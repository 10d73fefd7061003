"""Records of layers: whether depth paid, in one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from deepforest.records import SCORED_ON, LayerRecord, depth_sentence


def record(number: int, gain: float | None = None, **more: Any) -> LayerRecord:
    """A record with the fields that say something about depth; the others are empty."""
    others: dict[str, Any] = {
        "learners": [],
        "score": 0.3,
        "scores": {},
        "validation": {},
        "margins": None,
        "coefficients": [],
        "alphas": None,
        "effective_size": 100.0,
        "rows_in": 100,
        "rows_out": 0,
        "error_out": None,
        "threshold": None,
        "n_features": 4,
        "kept": True,
        "reason": "",
        "seconds": 0.0,
        "metric": "log_loss",
        "scored_on": "blind",
    }
    return LayerRecord(number=number, gain=gain, **others | more)


SENTENCES = [
    ([], ""),
    ([record(1)], ""),
    (
        [record(1), record(2, 0.0164, gain_se=0.0038)],
        "Depth paid: layer 2 gained 0.016 ± 0.004 log loss",
    ),
    (
        [record(1), record(2, 0.02, gain_se=0.03), record(3, 0.00123, gain_se=0.0004)],
        "Depth paid: layer 2 gained 0.020 ± 0.030, layer 3 gained 0.0012 ± 0.0004 log loss",
    ),
    (
        [record(1), record(2, 0.0011, gain_se=0.0044, kept=False)],
        "One layer is enough here: layer 2 gained 0.001 ± 0.004 log loss",
    ),
    (
        [record(1), record(2, -0.002, gain_se=0.001, kept=False, probe=True)],
        "One layer is enough here: a probe of layer 2 was worse by 0.002 ± 0.001 log loss",
    ),
    # Of several dropped layers the best one counts.
    (
        [record(1), record(2, -0.2, kept=False), record(3, -0.1, kept=False)],
        "One layer is enough here: layer 3 was worse by 0.1000 log loss",
    ),
    (
        [
            record(1, metric="auc", scored_on="validation"),
            record(2, 0.02, gain_se=0.004, metric="auc", scored_on="validation"),
        ],
        "Depth paid: layer 2 gained 0.020 ± 0.004 AUC on validation rows",
    ),
]


@pytest.mark.parametrize(("records", "sentence"), SENTENCES)
def test_whether_depth_paid(records: list[LayerRecord], sentence: str) -> None:
    assert depth_sentence(records) == sentence


def test_scores_that_are_too_good_do_not_say_that_depth_paid() -> None:
    papers = {"metric": "accuracy", "scored_on": "out_of_fold"}
    grown = depth_sentence([record(1, **papers), record(2, 0.05, **papers)])
    assert grown == f"Layer 2 gained 0.0500 accuracy, {SCORED_ON['out_of_fold']}"
    # Records of earlier versions do not name the metric.
    papers["metric"] = ""
    dropped = depth_sentence([record(1, **papers), record(2, -0.05, kept=False, **papers)])
    assert dropped.startswith("One layer is enough here: layer 2 was worse by 0.0500, out-of-fold")
