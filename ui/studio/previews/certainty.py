"""Show how certain the figures of an evaluation are: their intervals, and the figures by fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from deepforest.metrics import METRIC_INFO, title_among
from engine.values import Report
from nodes.models.uncertainty import interval_text
from ui.studio.widgets import grid, metric_column


def interval_texts(report: Report) -> dict[str, str]:
    """Return the 95 % intervals of the metrics of an evaluation in words, by title."""
    texts = {}
    for name, limits in (report.data.get("intervals") or {}).items():
        if name in METRIC_INFO:
            texts[title_among([report.headline], name)] = interval_text(name, limits)
    return texts


def explain_intervals(report: Report) -> None:
    """Say what the intervals below the figures are."""
    if not report.data.get("intervals"):
        return
    if report.data.get("folds"):
        words = "of the mean over the folds"
    elif report.data.get("resampled") == "groups":
        words = "for other test rows like these, where whole groups vary"
    else:
        words = "for other test rows like these, if rows are independent of each other"
    few = [title_among([report.headline], name) for name in report.data.get("too_few") or []]
    without = f" Too few rows for one: {', '.join(few)}." if few else ""
    st.caption(f"Below a figure: its 95 % interval {words}.{without}")


def folds_tab(report: Report, key: str) -> dict[str, Callable[[], None]]:
    """Return the tab of a cross-validation; nothing for an evaluation on test rows."""
    folds = report.data.get("folds")
    return {"Folds": lambda: _draw_folds(report, key)} if folds else {}


def _draw_folds(report: Report, key: str) -> None:
    """Draw the figures of each fold of a cross-validation."""
    folds: list[dict[str, Any]] = report.data["folds"]
    metrics = [name for name in METRIC_INFO if _has_value(folds, name)]
    rows = st.column_config.NumberColumn("Rows", format="localized")
    config: dict[str, Any] = {"fold": "Fold", "rows": rows, "repeat": "Repeat"}
    if len({fold["repeat"] for fold in folds}) == 1:
        # None hides the column.
        config["repeat"] = None
    for name in metrics:
        config[name] = metric_column(title_among([report.headline], name), name)
    shown = []
    for fold in folds:
        shown.append({name: fold.get(name) for name in ("repeat", "fold", "rows", *metrics)})
    grid(shown, f"{key}-folds", column_config=config)
    st.caption("Each fold was held out once. The figures at the top are the means over the folds.")


def _has_value(folds: list[dict[str, Any]], name: str) -> bool:
    """Return whether any fold has a value for a metric."""
    return any(fold.get(name) is not None for fold in folds)
