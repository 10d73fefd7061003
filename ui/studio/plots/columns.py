"""Plot what is in a column, and which columns matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from nodes.data.column_statistics import Bars
from ui.studio.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    apply_layout,
    hover_name,
    legend_name,
    named_ticks,
    shortened,
)

MAX_COLUMNS = 40
ByClass = Mapping[str, Sequence[int]]
"""Class → its number of rows in each bar."""


class _Series(NamedTuple):
    """The bars of one class, or of all rows."""

    label: str
    heights: Sequence[float]
    colour: str


def histogram(
    bars: Bars, name: str, by_class: ByClass | None = None, *, shares: bool = False
) -> go.Figure:
    """Plot a column of numbers or times in intervals, or of single values.

    ``by_class`` splits each bar. With ``shares`` the bars of each class add up to 100 %, so that a
    rare class is visible.
    """
    if bars.scale == "values":
        return category_counts(
            bars.labels, bars.counts, name, by_class, sampled=bars.sampled, shares=shares
        )
    edges: list[Any] = bars.edges
    if bars.scale == "time":
        edges = [_moment(edge) for edge in bars.edges]
    intervals = list(pairwise(edges))
    texts = [f"{_edge_text(low)} to {_edge_text(high)}" for low, high in intervals]
    middles = [low + (high - low) / 2 for low, high in intervals]
    widths = [_width(low, high) for low, high in intervals]
    # Shares of several classes overlap, so those bars are transparent.
    hover = _bar_hover("y", split=by_class is not None, shares=shares)
    figure = go.Figure()
    for series in _series(bars.counts, by_class, shares):
        figure.add_bar(
            name=legend_name(series.label), x=middles, y=list(series.heights), width=widths,
            marker={"color": series.colour, "line": {"width": 0}}, opacity=0.6 if shares else 1,
            customdata=[[text, hover_name(series.label)] for text in texts], hovertemplate=hover,
        )  # fmt: skip
    apply_layout(figure, hover_name(name), 360, legend=by_class is not None)
    figure.update_layout(barmode="overlay" if shares else "stack", bargap=0)
    figure.update_xaxes(title=shortened(name, 60))
    figure.update_yaxes(**_count_axis(bars.sampled, shares))
    return figure


def category_counts(
    labels: Sequence[str],
    counts: Sequence[int],
    name: str,
    by_class: ByClass | None = None,
    *,
    sampled: bool = False,
    shares: bool = False,
) -> go.Figure:
    """Plot one bar per value, in the given order.

    ``by_class`` and ``shares`` are those of ``histogram``.
    """
    hover = _bar_hover("x", split=by_class is not None, shares=shares)
    positions = list(range(len(labels)))
    figure = go.Figure()
    for series in _series(counts, by_class, shares):
        class_name = hover_name(series.label)
        figure.add_bar(
            name=legend_name(series.label), x=list(series.heights), y=positions, orientation="h",
            marker={"color": series.colour},
            customdata=[[hover_name(value), class_name] for value in labels], hovertemplate=hover,
        )  # fmt: skip
    height = 130 + 24 * max(len(labels), 3)
    apply_layout(figure, hover_name(name), height, legend=by_class is not None)
    figure.update_layout(barmode="group" if shares else "stack", bargap=0.2)
    figure.update_xaxes(**_count_axis(sampled, shares))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(labels, longest=28))
    return figure


def importances(rows: Sequence[Mapping[str, Any]], max_columns: int = MAX_COLUMNS) -> go.Figure:
    """Plot columns by importance, the greatest first; dropped columns are grey."""
    shown = list(rows[:max_columns])
    names = [str(row["column"]) for row in shown]
    colours, hover = [], []
    for name, row in zip(names, shown, strict=True):
        is_kept = bool(row.get("kept", True))
        colours.append(BLUE if is_kept else GREY)
        hover.append([hover_name(name), "kept" if is_kept else "dropped"])
    figure = go.Figure(
        go.Bar(
            x=[row["importance"] for row in shown], y=list(range(len(shown))), orientation="h",
            marker={"color": colours}, customdata=hover,
            hovertemplate="%{customdata[0]}, %{customdata[1]}<br>%{x:.2%}<extra></extra>",
        )
    )  # fmt: skip
    title = "Importance"
    if len(rows) > max_columns:
        title = f"Importance, the first {max_columns} of {len(rows):,} columns"
    apply_layout(figure, title, 120 + 24 * max(len(shown), 3))
    figure.update_xaxes(
        title="Share of all importance (grey: dropped)", tickformat=".0%", rangemode="tozero"
    )
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=28))
    return figure


def _series(counts: Sequence[int], by_class: ByClass | None, shares: bool) -> list[_Series]:
    """Return the bars of each class, or of all rows together."""
    parts: ByClass = {"": counts} if by_class is None else by_class
    series = []
    for index, (label, part) in enumerate(parts.items()):
        heights: Sequence[float] = part
        if shares:
            total = sum(part) or 1
            heights = [count / total for count in part]
        series.append(_Series(label, heights, COLOURS[index % len(COLOURS)]))
    return series


def _bar_hover(axis: str, *, split: bool, shares: bool) -> str:
    """Return what the mouse shows of a bar; ``axis`` is the one that holds its height."""
    label = "<br>%{customdata[1]}" if split else ""
    height = f"%{{{axis}:.2%}} of the class" if shares else f"%{{{axis}:,}} rows"
    return f"%{{customdata[0]}}{label}<br>{height}<extra></extra>"


def _count_axis(sampled: bool, shares: bool) -> dict[str, Any]:
    """Return the axis of the counts or shares."""
    if shares:
        return {"title": "Share of the class", "tickformat": ".0%"}
    return {"title": "Rows in a sample" if sampled else "Rows"}


def _moment(seconds: float) -> datetime:
    """Return the time so many seconds after 1970, as near as Python can represent it."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        limit = datetime.max if seconds > 0 else datetime.min
        return limit.replace(tzinfo=UTC)


def _edge_text(edge: float | datetime) -> str:
    """Return the end of an interval as text."""
    return edge.strftime("%Y-%m-%d %H:%M") if isinstance(edge, datetime) else f"{edge:.6g}"


def _width(low: Any, high: Any) -> float:
    """Return the width of a bar; plotly measures time in milliseconds."""
    span = high - low
    return span.total_seconds() * 1000 if isinstance(span, timedelta) else float(span)
