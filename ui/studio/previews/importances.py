"""Preview the report of Permutation importance."""

from __future__ import annotations

from typing import Any

import streamlit as st

from deepforest.metrics import format_metric, lower_is_better, metric_title
from engine.text import counted
from engine.values import Report
from ui.studio import plots
from ui.studio.widgets import chart, facts, grid


def show_importances(report: Report, key: str) -> None:
    """Draw how much worse a model predicts when each column is shuffled, with intervals."""
    figures = report.headline
    metric = str(figures["metric"])
    title = metric_title(metric)
    facts(
        str(report.data.get("model") or ""),
        f"{title} {format_metric(metric, figures['value'])}",
        counted(int(figures.get("rows") or 0), "row"),
        f"each column shuffled {counted(int(report.data['repeats']), 'time')}",
    )
    chart(plots.permutation_importances(report.rows, loss_title(metric)), f"{key}-importances")
    st.caption(
        "The longer the bar, the more the model needs the column. The line is the 95 % interval "
        "of the mean over the shuffles; grey: it holds 0, so that the column may add nothing. "
        "Columns that say the same can replace each other: each alone looks unimportant."
    )
    config: dict[str, Any] = {
        "column": "Column",
        "drop": st.column_config.NumberColumn(f"{loss_title(metric)}, mean", format="%.4f"),
        "low": st.column_config.NumberColumn("95 % from", format="%.4f"),
        "high": st.column_config.NumberColumn("95 % to", format="%.4f"),
    }
    grid(report.rows, f"{key}-rows", column_config=config)


def loss_title(metric: str) -> str:
    """Return what a shuffled column changes for the worse: a rise or a drop of the metric."""
    word = "Rise" if lower_is_better(metric) else "Drop"
    return f"{word} of {metric_title(metric)}"
