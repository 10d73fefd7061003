"""What is in a column, and which columns matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from nodes.data.column_statistics import Bars
from ui.studio.plots.style import BLUE, COLOURS, GREY, in_full, lay_out, named_ticks, shortened

MOST_COLUMNS = 40


def histogram(
    bars: Bars, name: str, by_class: Mapping[str, Sequence[int]] | None = None, *, shares: bool = False
) -> go.Figure:
    """A column of numbers or times in intervals, or of single values.

    ``by_class`` splits each bar; with ``shares`` the bars of each class add up to 100 %, so that a rare one is seen.
    """
    if bars.scale == "values":
        return category_counts(bars.labels, bars.counts, name, by_class, sampled=bars.sampled, shares=shares)
    edges: list[Any] = [_when(edge) for edge in bars.edges] if bars.scale == "time" else bars.edges
    pairs = list(pairwise(edges))
    spans = [f"{_edge(low)} to {_edge(high)}" for low, high in pairs]
    figure = go.Figure(
        [
            go.Bar(
                name=shortened(label), x=[low + (high - low) / 2 for low, high in pairs], y=list(counts),
                width=[_width(low, high) for low, high in pairs], marker={"color": colour, "line": {"width": 0}},
                opacity=0.6 if shares else 1, customdata=[[span, in_full(label)] for span in spans],
                hovertemplate=_bar_hover("y", split=by_class is not None, shares=shares),
            )
            for label, counts, colour in _series(bars.counts, by_class, shares)
        ]
    )  # fmt: skip
    lay_out(figure, in_full(name), 360, legend=by_class is not None)
    figure.update_layout(barmode="overlay" if shares else "stack", bargap=0)
    figure.update_xaxes(title=shortened(name, 60))
    figure.update_yaxes(**_amount(bars.sampled, shares))
    return figure


def category_counts(
    labels: Sequence[str],
    counts: Sequence[int],
    name: str,
    by_class: Mapping[str, Sequence[int]] | None = None,
    *,
    sampled: bool = False,
    shares: bool = False,
) -> go.Figure:
    """One bar a value, in the order given; ``by_class`` and ``shares`` as in ``histogram``."""
    figure = go.Figure(
        [
            go.Bar(
                name=shortened(label), x=list(part), y=list(range(len(labels))), orientation="h",
                marker={"color": colour}, customdata=[[in_full(value), in_full(label)] for value in labels],
                hovertemplate=_bar_hover("x", split=by_class is not None, shares=shares),
            )
            for label, part, colour in _series(counts, by_class, shares)
        ]
    )  # fmt: skip
    lay_out(figure, in_full(name), 130 + 24 * max(len(labels), 3), legend=by_class is not None)
    figure.update_layout(barmode="group" if shares else "stack", bargap=0.2)
    figure.update_xaxes(**_amount(sampled, shares))
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(labels, longest=28))
    return figure


def importances(rows: Sequence[Mapping[str, Any]], most: int = MOST_COLUMNS) -> go.Figure:
    """Columns by importance, the greatest first; those dropped are grey."""
    shown = list(rows[:most])
    names = [str(row["column"]) for row in shown]
    kept = [bool(row.get("kept", True)) for row in shown]
    figure = go.Figure(
        go.Bar(
            x=[row["importance"] for row in shown], y=list(range(len(shown))), orientation="h",
            marker={"color": [BLUE if keep else GREY for keep in kept]},
            customdata=[[in_full(name), "kept" if keep else "dropped"] for name, keep in zip(names, kept, strict=True)],
            hovertemplate="%{customdata[0]}, %{customdata[1]}<br>%{x:.2%}<extra></extra>",
        )
    )  # fmt: skip
    title = "Importance" if len(rows) <= most else f"Importance, the first {most} of {len(rows):,} columns"
    lay_out(figure, title, 120 + 24 * max(len(shown), 3))
    figure.update_xaxes(title="Share of all importance (grey: dropped)", tickformat=".0%", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, **named_ticks(names, longest=28))
    return figure


def _series(
    counts: Sequence[int], by_class: Mapping[str, Sequence[int]] | None, shares: bool
) -> list[tuple[str, Sequence[float], str]]:
    """Name, amounts and colour of each class, or of all rows together."""
    parts: Mapping[str, Sequence[float]] = {"": counts} if by_class is None else by_class
    if shares:
        parts = {label: [count / (sum(part) or 1) for count in part] for label, part in parts.items()}
    return [(label, part, COLOURS[index % len(COLOURS)]) for index, (label, part) in enumerate(parts.items())]


def _bar_hover(axis: str, *, split: bool, shares: bool) -> str:
    label = "<br>%{customdata[1]}" if split else ""
    amount = f"%{{{axis}:.2%}} of the class" if shares else f"%{{{axis}:,}} rows"
    return f"%{{customdata[0]}}{label}<br>{amount}<extra></extra>"


def _amount(sampled: bool, shares: bool) -> dict[str, Any]:
    """The axis that counts."""
    if shares:
        return {"title": "Share of the class", "tickformat": ".0%"}
    return {"title": "Rows in a sample" if sampled else "Rows"}


def _when(seconds: float) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if seconds > 0 else datetime.min.replace(tzinfo=UTC)


def _edge(edge: float | datetime) -> str:
    return edge.strftime("%Y-%m-%d %H:%M") if isinstance(edge, datetime) else f"{edge:.6g}"


def _width(low: Any, high: Any) -> float:
    """Plotly measures time in milliseconds."""
    span = high - low
    return span.total_seconds() * 1000 if isinstance(span, timedelta) else float(span)
