"""Preview a table or predictions.

- ``show_table``, ``show_rows_and_columns``  first rows, statistics of columns, a plot of any column
- ``show_predictions``  first rows, their probabilities, and how many are right
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from deepforest.metrics import METRIC_INFO
from engine.store import Artifact, Store
from engine.text import counted, size
from engine.values import Predictions, Table, kind_of
from nodes.data.column_statistics import (
    SAMPLE_ROWS,
    Bars,
    ColumnStatistics,
    bars_by_class,
    column_bars,
    moment,
    table_statistics,
)
from nodes.models.encoder import MISSING, category_codes
from ui.studio import plots
from ui.studio.previews import regression
from ui.studio.widgets import (
    chart,
    check_intact,
    draw_tabs,
    facts,
    grid,
    metric_tile,
    opened,
    short_texts,
    tiles,
)

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

FIRST_ROWS = 200
MOST_COLUMNS = 500
BINS = 20
MOST_LINES = 8
SHORT_SPAN = 3 * 86_400
"""Seconds: times that span less than this are shown with the hour."""


def show_table(output: Artifact, store: Store, key: str) -> None:
    """Draw the facts of a table and its content."""
    table: Table = opened(output, store)
    rows, columns = table.data.shape
    target = f"target {table.target}" if table.target else "no target"
    facts(f"{counted(rows, 'row')} × {counted(columns, 'column')}", target, size(output.size))
    show_rows_and_columns(table, output.digest, key)


def show_rows_and_columns(table: Table, digest: str, key: str) -> None:
    """Draw rows, statistics and plots of a table.

    ``digest`` identifies the table: statistics are computed once and then come from the cache.
    """
    draw_tabs(
        {
            "Rows": lambda: _show_rows(table, key),
            "Columns": lambda: _show_columns(digest, table, key),
            "Plots": lambda: _show_plot(digest, table, key),
        },
        key,
    )


def _target_first(table: Table) -> list[str]:
    """Return the names of the first columns, with the target before the others."""
    names: list[str] = table.data.column_names[:MOST_COLUMNS]
    if table.target is None:
        return names
    return [table.target, *(name for name in names if name != table.target)]


def _show_rows(table: Table, key: str) -> None:
    """Draw the first rows, and how many are left out."""
    names = _target_first(table)
    pinned = {}
    if table.target:
        pinned[table.target] = st.column_config.Column(pinned=True, help="Target")
    first = table.data.select(names).slice(0, FIRST_ROWS)
    grid(short_texts(first), f"{key}-rows", column_config=pinned)
    rows, columns = table.data.shape
    shown = []
    if rows > FIRST_ROWS:
        shown.append(f"the first {FIRST_ROWS} of {rows:,} rows")
    if columns > len(names):
        shown.append(f"{len(names):,} of {columns:,} columns")
    if shown:
        st.caption(f"These are {' and '.join(shown)}.")


def _show_columns(digest: str, table: Table, key: str) -> None:
    """Draw the statistics of each column."""
    columns = _statistics(digest, table)
    if not columns:
        st.caption("The table has no columns.")
        return
    grid(_figures(columns), f"{key}-columns", column_config=_figure_columns())
    if any(column.sampled for column in columns):
        st.caption(
            "Quartiles, distributions and frequent values are estimated from "
            f"{SAMPLE_ROWS:,} rows, spread evenly over the table; all other figures are exact."
        )
    if table.data.num_columns > len(columns):
        st.caption(f"These are the first {len(columns):,} of {table.data.num_columns:,} columns.")


def _show_plot(digest: str, table: Table, key: str) -> None:
    """Draw the distribution of one column, split by class if the user wants that."""
    names = _target_first(table)
    if not names or not table.data.num_rows:
        st.caption("The table is empty: it has no rows to plot.")
        return
    name = st.selectbox("Column", names, key=f"{key}-column")
    # Splitting the target by itself would show nothing.
    can_split = _has_classes(table) and name != table.target
    with st.container(horizontal=True):
        # A switch that is disabled keeps its value.
        split = st.toggle("Split by target", key=f"{key}-split", disabled=not can_split)
        split = split and can_split
        shares = st.toggle("Each class as 100 %", key=f"{key}-shares", disabled=not split) and split
    bars, by_class = _bars(digest, name, split, table)
    if not bars.counts:
        st.caption("The column has no values that can be plotted.")
        return
    chart(plots.histogram(bars, name, by_class, shares=shares), f"{key}-plot")
    column = table.data.column(name)
    left_out = []
    if bars.others:
        left_out.append(f"{counted(bars.others, 'row')} with rarer values")
    if column.null_count:
        left_out.append(f"{counted(column.null_count, 'row')} without a value")
    if left_out:
        st.caption(f"Not shown: {', '.join(left_out)}.")


def _has_classes(table: Table) -> bool:
    """Return whether the target has classes by which a plot can be split."""
    import pyarrow.types as types

    if table.target is None:
        return False
    arrow_type = table.data.schema.field(table.target).type
    return kind_of(arrow_type) in ("category", "bool", "text") or types.is_integer(arrow_type)


@st.cache_data(max_entries=8, show_spinner="Counting …")
def _statistics(digest: str, _table: Table) -> list[ColumnStatistics]:
    """Return the statistics of the columns from the cache."""
    names = _target_first(_table)
    return table_statistics(_table.with_data(_table.data.select(names)))


@st.cache_data(max_entries=64, show_spinner="Counting …")
def _bars(
    digest: str, name: str, split: bool, _table: Table
) -> tuple[Bars, dict[str, list[int]] | None]:
    """Return the distribution of a column from the cache.

    The second value has the counts of each class if the plot is split.
    """
    column = _table.data.column(name)
    return bars_by_class(column, _table.labels()) if split else (column_bars(column), None)


def _figures(columns: list[ColumnStatistics]) -> pa.Table:
    """Return the statistics of the columns as a table with a row for each column."""
    import pyarrow as pa

    numbers = {
        "Smallest": "minimum",
        "25 %": "lower_quartile",
        "Median": "median",
        "75 %": "upper_quartile",
        "Largest": "maximum",
        "Mean": "mean",
        "Spread": "std",
    }
    shown: dict[str, Any] = {
        "Column": [column.name for column in columns],
        "Kind": [column.kind for column in columns],
        "Role": [column.role for column in columns],
        "Missing": pa.array([column.missing_share for column in columns], pa.float64()),
        "Distribution": pa.array(
            [column.bars.counts if column.bars else [] for column in columns], pa.list_(pa.int64())
        ),
        "Values": [_in_words(column) for column in columns],
    }
    for title, name in numbers.items():
        values = [getattr(column, name) if column.kind == "number" else None for column in columns]
        shown[title] = pa.array(
            [None if value is None else float(value) for value in values], pa.float64()
        )
    shown["Distinct"] = pa.array([column.distinct for column in columns], pa.int64())
    return pa.table(shown)


def _figure_columns() -> dict[str, Any]:
    """Return titles, formats and explanations of the statistics."""
    config = st.column_config
    number = config.NumberColumn(format="%.4g")
    names = ("Smallest", "25 %", "Median", "75 %", "Largest", "Mean")
    return {
        "Column": config.TextColumn(pinned=True),
        "Missing": config.NumberColumn(format="percent", help="Share of rows without a value"),
        "Distribution": config.BarChartColumn(
            width="medium",
            y_min=0,
            color="blue",
            help="Number of rows by value: in the order of the values, or the most frequent first",
        ),
        "Values": config.TextColumn(
            width="medium", help="The most frequent values; for times, the first and the last"
        ),
        **dict.fromkeys(names, number),
        "Spread": config.NumberColumn(format="%.4g", help="Standard deviation"),
        "Distinct": config.NumberColumn(help="Number of different values"),
    }


def _in_words(column: ColumnStatistics) -> str:
    """Return the most frequent values with their shares; for times, the first and the last."""
    if column.bars is not None and column.bars.scale == "time" and column.minimum is not None:
        assert column.maximum is not None
        with_clock = column.maximum - column.minimum < SHORT_SPAN
        ends = (column.minimum, column.maximum)
        return " to ".join(moment(end, with_clock=with_clock) for end in ends)
    words = [f"{value} {_share(count, column.counted)}" for value, count in column.frequent[:3]]
    if column.distinct == column.counted > 1:
        words = ["all different"]
    # Infinite numbers are not part of the figures, so name them.
    infinite = [f"{column.infinite:,} infinite"] if column.infinite else []
    return ", ".join(words + infinite)


def _share(count: int, of: int) -> str:
    """Return a share as text; it says 0 % or 100 % only if that is exact."""
    percent = round(100 * count / of)
    if percent == 0:
        return "<1 %"
    if percent == 100 and count < of:
        return ">99 %"
    return f"{percent} %"


# Predictions


@dataclass(frozen=True)
class PredictionSummary:
    """All that the preview draws; it is small, however many rows there are."""

    model: str
    rows: int
    edges: list[float]
    counts: dict[str, list[int]]
    """For each class, rows by its probability; the most frequently predicted class first."""
    known: int
    """Rows whose truth is known."""
    right: int
    first: pa.Table


def show_predictions(output: Artifact, store: Store, key: str, model: str = "") -> None:
    """Draw the facts, the accuracy if the truth is known, and tabs.

    ``model`` is the name of the model; without it, it has the title of its type.
    """
    check_intact(output, store)
    summary = _summary(output.digest, output, store)
    if isinstance(summary, tuple):
        title, values = summary
        by = f"by {model or title}" if model or title else ""
        facts(counted(values.rows, "row"), "predicted numbers", by, size(output.size))
        regression.draw_predictions(values, key)
        return
    model = model or summary.model
    by = f"by {model}" if model else ""
    classes = counted(len(summary.counts), "class", "classes")
    facts(counted(summary.rows, "row"), classes, by, size(output.size))
    if summary.known:
        accuracy = summary.right / summary.known
        tiles([metric_tile(METRIC_INFO["accuracy"].title, "accuracy", accuracy)])
        if summary.known < summary.rows:
            known = counted(summary.known, "row")
            st.caption(f"Evaluated on the {known} whose true class is known.")
    draw_tabs(
        {
            "Rows": lambda: _show_predicted_rows(summary, key),
            "Probabilities": lambda: _show_probabilities(summary, key),
        },
        key,
    )


def _show_predicted_rows(summary: PredictionSummary, key: str) -> None:
    """Draw the first rows."""
    probability = st.column_config.NumberColumn(format="%.4f")
    config = {name: probability for name in summary.first.column_names if name.startswith("p(")}
    grid(summary.first, f"{key}-rows", column_config=config)
    if summary.rows > FIRST_ROWS:
        st.caption(f"These are the first {FIRST_ROWS} of {summary.rows:,} rows.")


def _show_probabilities(summary: PredictionSummary, key: str) -> None:
    """Draw how the probabilities are distributed, for the most frequent classes at first."""
    if not summary.rows:
        st.caption("The table is empty: it has no rows to plot.")
        return
    classes = list(summary.counts)
    # More lines cannot be distinguished.
    if len(classes) > MOST_LINES:
        classes = st.multiselect("Classes", classes, classes[:MOST_LINES], key=f"{key}-classes")
    counts = {name: summary.counts[name] for name in classes}
    chart(plots.probability_histogram(summary.edges, counts), f"{key}-plot")


@st.cache_data(max_entries=16, show_spinner="Counting …")
def _summary(
    digest: str, _output: Artifact, _store: Store
) -> PredictionSummary | tuple[str, regression.ValueSummary]:
    """Return the summary of stored predictions from the cache; ``digest`` is the cache key.

    Of predicted numbers it is the title of the model and their own summary.
    """
    predictions = opened(_output, _store)
    if predictions.values is not None:
        return predictions.model, regression.summarize(predictions)
    return summarize(predictions)


def summarize(predictions: Predictions) -> PredictionSummary:
    """Return what the preview draws of predictions."""
    import numpy as np

    predicted = np.empty(0, np.intp)
    # argmax fails without columns: a table without rows may have no classes.
    if predictions.classes:
        predicted = predictions.predicted
    known, right = _right(predictions, predicted)
    frequency = np.bincount(predicted, minlength=len(predictions.classes))
    edges = np.linspace(0, 1, BINS + 1)
    counts = {}
    for code in np.argsort(-frequency, kind="stable"):
        in_bins, _ = np.histogram(predictions.probabilities[:, code], edges)
        counts[predictions.classes[code]] = in_bins.tolist()
    return PredictionSummary(
        predictions.model,
        len(predictions.probabilities),
        edges.tolist(),
        counts,
        known,
        right,
        short_texts(_first_rows(predictions)),
    )


def _right(predictions: Predictions, predicted: np.ndarray) -> tuple[int, int]:
    """Return how many rows have a known truth, and how many of these are predicted right."""
    import pyarrow as pa

    if predictions.truth is None:
        return 0, 0
    truth = category_codes(pa.chunked_array([predictions.truth]), predictions.classes)
    known = truth != MISSING
    return int(known.sum()), int((known & (truth == predicted)).sum())


def _first_rows(predictions: Predictions) -> pa.Table:
    """Return the first rows as a table."""
    few = Predictions(
        predictions.probabilities[:FIRST_ROWS],
        predictions.classes,
        predictions.model,
        None if predictions.truth is None else predictions.truth[:FIRST_ROWS],
        None if predictions.carried is None else predictions.carried.slice(0, FIRST_ROWS),
        decision=predictions.decision,
    )
    return few.to_arrow()
