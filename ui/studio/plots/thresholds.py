"""Plot what a threshold does: rows found by rows interrupted, money, and how probabilities fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ui.studio.plots.style import BLUE, COLOURS, FAINT, apply_layout, line

HEIGHT = 380
ORANGE = COLOURS[1]
RATE = "Share of the rows that are interrupted"

Values = Sequence[float | None]


class Axis(NamedTuple):
    """How an axis of a threshold plot is drawn."""

    title: str
    format: str = ",.4~g"
    span: tuple[float, ...] | None = None
    """The values that are shown at first; None shows all."""


PERCENT, MONEY = ".2~%", "~s"
THRESHOLD = Axis("Threshold")
INTERRUPTED = Axis(RATE, PERCENT)


def add_mark(figure: go.Figure, x: float | None, y: float | None, text: str) -> go.Figure:
    """Mark one point of a curve, such as that of the threshold; nothing without values."""
    if x is None or y is None:
        return figure
    figure.add_scatter(
        x=[x], y=[y], mode="markers", showlegend=False, name=text,
        marker={"color": ORANGE, "size": 13, "line": {"color": "white", "width": 2}},
        hovertemplate=f"{text}<extra></extra>",
    )  # fmt: skip
    return figure


def figure_by_threshold(
    x: Values,
    y: Values,
    x_axis: Axis,
    y_axis: Axis,
    hover: Sequence[str],
    *,
    logarithmic: bool = False,
) -> go.Figure:
    """Plot a figure such as F1 or money against the threshold or the interrupt rate.

    ``hover`` has a text for each point. On a logarithmic axis a rate of 0 is left out.
    """
    figure = go.Figure(
        go.Scatter(
            x=list(x), y=list(y), mode="lines", line={"color": BLUE, "width": 2},
            customdata=list(hover), hovertemplate="%{customdata}<extra></extra>",
        )
    )  # fmt: skip
    by = "threshold" if x_axis == THRESHOLD else "interrupt rate"
    apply_layout(figure, f"{y_axis.title} by {by}", HEIGHT)
    figure.update_xaxes(title=x_axis.title, tickformat=x_axis.format)
    if logarithmic:
        figure.update_xaxes(type="log", dtick=1)
    figure.update_yaxes(title=y_axis.title, tickformat=y_axis.format, range=y_axis.span)
    return figure


def gain_curve(rates: Values, recalls: Values, hover: Sequence[str]) -> go.Figure:
    """Plot the share of the positive rows found by the share of rows interrupted."""
    axis = Axis("Share of the positives found", PERCENT)
    figure = figure_by_threshold(rates, recalls, INTERRUPTED, axis, hover)
    diagonal = {"color": FAINT, "dash": "dot", "width": 1}
    # Interrupting rows at random finds the same share of the positive ones.
    figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line=diagonal)
    figure.update_layout(title_text="Gain curve")
    figure.update_xaxes(range=[-0.01, 1.01])
    figure.update_yaxes(range=[-0.01, 1.02])
    return figure


def lift_curve(rates: Values, lifts: Values, hover: Sequence[str]) -> go.Figure:
    """Plot how many times more positives than at random are among the interrupted rows."""
    axis = Axis("Times as many positives as at random")
    figure = figure_by_threshold(rates, lifts, INTERRUPTED, axis, hover, logarithmic=True)
    figure.add_hline(1, line={"color": FAINT, "dash": "dot", "width": 1})
    figure.update_layout(title_text="Lift curve")
    figure.update_yaxes(rangemode="tozero")
    return figure


def reliability(parts: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """Plot the share of positive rows by their mean probability, a line for each part by name."""
    figure = go.Figure()
    diagonal = {"color": FAINT, "dash": "dot", "width": 1}
    figure.add_shape(type="line", x0=0, y0=0, x1=1, y1=1, line=diagonal)
    for index, (name, part) in enumerate(parts.items()):
        figure.add_scatter(
            name=name, x=part["predicted"], y=part["observed"], mode="lines+markers",
            line=line(index), marker={"size": 7}, customdata=part["rows"],
            hovertemplate=f"{name}<br>mean probability %{{x:.2%}}<br>positive %{{y:.2%}}<br>"
            "%{customdata:,} rows<extra></extra>",
        )  # fmt: skip
    apply_layout(figure, "Reliability", HEIGHT + 40, legend=True)
    figure.update_xaxes(title="Mean predicted probability", range=[-0.01, 1.01], tickformat=".0%")
    figure.update_yaxes(title="Share of positive rows", range=[-0.01, 1.02], tickformat=".0%")
    return figure
