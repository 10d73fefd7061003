"""Plot predicted numbers: against the true ones, their errors, and how they are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import plotly.graph_objects as go

from ui.studio.plots.style import BLUE, FAINT, apply_layout, shortened

HEIGHT = 420
LONGEST_TITLE = 60
MARKER = {"color": BLUE, "size": 6, "opacity": 0.55}


def predicted_against_true(
    truth: Sequence[float],
    predicted: Sequence[float],
    title: str = "Predicted and true value",
) -> go.Figure:
    """Plot one point per row; on the dotted line, the prediction is right."""
    figure = go.Figure(
        go.Scattergl(
            x=list(truth), y=list(predicted), mode="markers", marker=MARKER, showlegend=False,
            hovertemplate="true %{x:.6~g}<br>predicted %{y:.6~g}<extra></extra>",
        )
    )  # fmt: skip
    values = [*truth, *predicted]
    low, high = min(values), max(values)
    line = {"color": FAINT, "dash": "dot", "width": 1}
    figure.add_shape(type="line", x0=low, y0=low, x1=high, y1=high, line=line)
    apply_layout(figure, shortened(title, LONGEST_TITLE), HEIGHT)
    figure.update_xaxes(title="True value", zeroline=False)
    figure.update_yaxes(title="Predicted value", zeroline=False)
    return figure


def residuals(truth: Sequence[float], predicted: Sequence[float]) -> go.Figure:
    """Plot the error of each row against its predicted value; on the dotted line it is zero."""
    errors = [actual - value for actual, value in zip(truth, predicted, strict=True)]
    figure = go.Figure(
        go.Scattergl(
            x=list(predicted), y=errors, mode="markers", marker=MARKER, showlegend=False,
            hovertemplate="predicted %{x:.6~g}<br>residual %{y:.6~g}<extra></extra>",
        )
    )  # fmt: skip
    figure.add_hline(0, line={"color": FAINT, "dash": "dot", "width": 1})
    apply_layout(figure, "Residuals", HEIGHT)
    figure.update_xaxes(title="Predicted value", zeroline=False)
    figure.update_yaxes(title="True minus predicted value", zeroline=False)
    return figure


def value_histogram(edges: Sequence[float], counts: Sequence[int]) -> go.Figure:
    """Plot how many rows are predicted in each interval of the values."""
    intervals = list(pairwise(edges))
    figure = go.Figure(
        go.Bar(
            x=[(low + high) / 2 for low, high in intervals],
            y=list(counts),
            width=[high - low for low, high in intervals],
            marker={"color": BLUE},
            customdata=[[f"{low:.6g}", f"{high:.6g}"] for low, high in intervals],
            hovertemplate="%{customdata[0]} to %{customdata[1]}<br>%{y:,} rows<extra></extra>",
        )
    )
    apply_layout(figure, "Predicted values", 320)
    figure.update_layout(bargap=0.03)
    figure.update_xaxes(title="Predicted value", zeroline=False)
    figure.update_yaxes(title="Rows")
    return figure
