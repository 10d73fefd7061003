"""The titles of the metrics that settings name.

They are those of ``deepforest.metrics``, which takes a moment to load; a test compares them.
"""

from __future__ import annotations

from typing import Any, get_args

METRIC_TITLES = {
    "auc": "AUC",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "f1": "F1",
    "ks": "KS",
    "average_precision": "Average precision",
    "log_loss": "Log loss",
    "recall_at_1_in_10000": "Recall at 1/10,000",
    "recall_at_1_in_1000": "Recall at 1/1,000",
    "recall_at_1_in_100": "Recall at 1/100",
    "recall_at_rate": "Recall at 1/100",
    "money_saved": "Money saved",
    "net_gain": "Net gain",
    "cost": "Cost",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
}


def metric_titles(names: Any) -> dict[str, str]:
    """Return the titles of the metrics that a ``Literal`` names."""
    return {name: METRIC_TITLES[name] for name in get_args(names)}
