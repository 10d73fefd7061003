"""Evaluate predicted numbers against the true ones.

- ``true_numbers``      the target of a table as the truth of predictions
- ``rows_with_truth``   true and predicted numbers of the rows whose number is known
- ``evaluation``        RMSE, MAE, R², errors by range of the truth, and some rows for plots
- ``check_settings``    settings of an evaluation that only classes have
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.values import Predictions, Report, Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_POINTS = 1_000
"""Rows in a plot; more cannot be seen."""
WORST_POINTS = 50
"""Of these, rows with the largest errors, which a random draw could miss."""
RANGES = 5


def true_numbers(table: Table) -> pa.Array:
    """Return the target as numbers, missing where it is missing or infinite.

    Raise ``BadInput`` if the target is a class.
    """
    import numpy as np
    import pyarrow as pa

    from nodes.models.encoder import numbers
    from nodes.models.training import check_number_target

    check_number_target(table)
    values = numbers(table.labels())
    return pa.array(values, mask=np.isnan(values))


def rows_with_truth(predictions: Predictions) -> tuple[np.ndarray, np.ndarray]:
    """Return true and predicted numbers of the rows whose number is known.

    Raise ``BadInput`` if it is not known for any row.
    """
    import numpy as np

    assert predictions.values is not None
    if predictions.truth is None:
        raise BadInput(
            "the scored table has no target to compare the predictions with; set Target in its "
            "Load data node"
        )
    truth = predictions.truth.to_numpy(zero_copy_only=False).astype(float)
    known = ~np.isnan(truth)
    if not known.any():
        raise BadInput(
            "the target is missing in all rows, so nothing can be evaluated; use rows with known "
            "numbers"
        )
    return truth[known], predictions.values[known]


def check_settings(params: Any) -> None:
    """Raise ``BadInput`` for a setting of an evaluation that only classes have."""
    for field, title in (("positive", "Positive class"), ("threshold", "Threshold")):
        if getattr(params, field, None) is not None:
            raise BadInput(
                f"the target is a number and has no classes; leave {title} empty", field=field
            )


def evaluation(name: str, truth: np.ndarray, predicted: np.ndarray) -> Report:
    """Return every metric, the errors by range of the truth, and rows for plots."""
    return Report(
        "evaluation",
        name,
        {**_metrics(truth, predicted), "rows": len(truth)},
        rows=_by_range(truth, predicted),
        data={"task": "regression", "classes": [], "points": _points(truth, predicted)},
    )


def _metrics(truth: np.ndarray, predicted: np.ndarray) -> dict[str, float | None]:
    """Return RMSE, MAE and R²; R² is None if all true numbers are the same."""
    from deepforest.metrics import REGRESSION_METRICS

    output = predicted.reshape(-1, 1)
    return {name: REGRESSION_METRICS[name](truth, output) for name in ("rmse", "mae", "r2")}


def _by_range(truth: np.ndarray, predicted: np.ndarray) -> list[dict[str, Any]]:
    """Return the errors in ranges of the truth that have about the same number of rows."""
    import numpy as np

    order = np.argsort(truth, kind="stable")
    rows: list[dict[str, Any]] = []
    for part in np.array_split(order, min(RANGES, len(order))):
        errors = predicted[part] - truth[part]
        rows.append(
            {
                "from": float(truth[part].min()),
                "to": float(truth[part].max()),
                "rows": len(part),
                "mean_error": float(errors.mean()),
                "rmse": float(np.sqrt(np.square(errors).mean())),
                "mae": float(np.abs(errors).mean()),
            }
        )
    return rows


def _points(truth: np.ndarray, predicted: np.ndarray) -> dict[str, list[float]]:
    """Return true and predicted numbers of at most ``MAX_POINTS`` rows.

    They are drawn at random, always in the same way, beside those with the largest errors.
    """
    import numpy as np

    chosen = np.arange(len(truth))
    if len(truth) > MAX_POINTS:
        by_error = np.argsort(-np.abs(predicted - truth), kind="stable")
        others = np.random.default_rng(0).permutation(by_error[WORST_POINTS:])
        drawn = others[: MAX_POINTS - WORST_POINTS]
        chosen = np.sort(np.concatenate([by_error[:WORST_POINTS], drawn]))
    return {"truth": truth[chosen].tolist(), "predicted": predicted[chosen].tolist()}
