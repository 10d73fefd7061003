"""Preview predictions of numbers and their evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from deepforest.metrics import METRIC_INFO
from engine.text import counted
from engine.values import Predictions, Report
from ui.studio.plots.regression import predicted_against_true, residuals, value_histogram
from ui.studio.previews.certainty import explain_intervals, folds_tab, interval_texts
from ui.studio.widgets import chart, draw_tabs, facts, grid, metric_tile, tiles

if TYPE_CHECKING:
    import pyarrow as pa

METRICS = ("rmse", "mae", "r2")
BINS = 30
FIRST_ROWS = 200


def is_regression(report: Report) -> bool:
    """Return whether a report evaluates predicted numbers."""
    return report.kind == "evaluation" and report.data.get("task") == "regression"


def show_evaluation(report: Report, key: str) -> None:
    """Draw an evaluation of numbers: its metrics, plots of single rows, and errors by range."""
    rows = int(report.headline.get("rows") or 0)
    facts(report.title, f"evaluated on {counted(rows, 'row')}", "predicted numbers")
    tiles(_metric_tiles(report), interval_texts(report))
    explain_intervals(report)
    points = report.data["points"]
    shown = len(points["truth"])
    tabs = {
        "Predicted and true": lambda: _draw_points(predicted_against_true, report, f"{key}-true"),
        "Residuals": lambda: _draw_points(residuals, report, f"{key}-residuals"),
        "Errors by range": lambda: _draw_ranges(report, key),
    }
    draw_tabs(tabs | folds_tab(report, key), key)
    if shown < rows:
        st.caption(
            f"The plots show {shown:,} of {rows:,} rows, drawn at random beside those with the "
            "largest errors. The metrics use all rows."
        )


def _metric_tiles(report: Report) -> list[tuple[str, str, str]]:
    """Return the metrics that have a value as tiles."""
    known = [name for name in METRICS if report.headline.get(name) is not None]
    return [metric_tile(METRIC_INFO[name].title, name, report.headline[name]) for name in known]


def _draw_points(plot: Any, report: Report, key: str) -> None:
    """Draw a plot of true and predicted values of single rows."""
    points = report.data["points"]
    chart(plot(points["truth"], points["predicted"]), key)


def _draw_ranges(report: Report, key: str) -> None:
    """Draw the errors in ranges of the true value: a model may be worse at the ends."""
    number = st.column_config.NumberColumn
    config: dict[str, Any] = {
        "from": number("True value from", format="%.6g"),
        "to": number("to", format="%.6g"),
        "rows": number("Rows", format="localized"),
        "mean_error": number(
            "Mean error", format="%.4g", help="Above zero: the predictions are too high."
        ),
        "rmse": number("RMSE", format="%.4g"),
        "mae": number("MAE", format="%.4g"),
    }
    grid(report.rows, f"{key}-ranges", column_config=config)


# Predictions


@dataclass(frozen=True)
class ValueSummary:
    """All that the preview of predicted numbers draws, however many rows there are."""

    rows: int
    edges: list[float]
    counts: list[int]
    metrics: dict[str, Any]
    """Empty if no true number is known."""
    known: int
    first: pa.Table


def summarize(predictions: Predictions) -> ValueSummary:
    """Return what the preview draws of predicted numbers."""
    import numpy as np

    from nodes.models.regression import evaluation, rows_with_truth

    values = predictions.values
    assert values is not None
    counts, edges = np.histogram(values, BINS)
    truth, metrics, known = predictions.truth, {}, 0
    if truth is not None and truth.null_count < len(truth):
        report = evaluation("", *rows_with_truth(predictions))
        known = int(report.headline.get("rows") or 0)
        metrics = {name: report.headline.get(name) for name in METRICS}
    few = Predictions(
        predictions.probabilities[:FIRST_ROWS],
        [],
        predictions.model,
        None if truth is None else truth[:FIRST_ROWS],
        None if predictions.carried is None else predictions.carried.slice(0, FIRST_ROWS),
    )
    return ValueSummary(
        len(values), edges.tolist(), counts.tolist(), metrics, known, few.to_arrow()
    )


def draw_predictions(summary: ValueSummary, key: str) -> None:
    """Draw the metrics if true numbers are known, the first rows, and how values are spread."""
    if summary.metrics:
        known = [(name, value) for name, value in summary.metrics.items() if value is not None]
        tiles([metric_tile(METRIC_INFO[name].title, name, value) for name, value in known])
        if summary.known < summary.rows:
            st.caption(
                f"Evaluated on the {counted(summary.known, 'row')} whose true number is known."
            )
    draw_tabs(
        {
            "Rows": lambda: _draw_rows(summary, key),
            "Distribution": lambda: _draw_distribution(summary, key),
        },
        key,
    )


def _draw_rows(summary: ValueSummary, key: str) -> None:
    """Draw the first rows."""
    grid(summary.first, f"{key}-rows")
    if summary.rows > FIRST_ROWS:
        st.caption(f"These are the first {FIRST_ROWS} of {summary.rows:,} rows.")


def _draw_distribution(summary: ValueSummary, key: str) -> None:
    """Draw how often each value is predicted."""
    if not summary.rows:
        st.caption("The table is empty: it has no rows to plot.")
        return
    chart(value_histogram(summary.edges, summary.counts), f"{key}-plot")
