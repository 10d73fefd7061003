"""Plot a composite forest: the degrees of its leaves, and the bound of each tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go

from ui.studio.plots.style import BLUE, apply_layout

HEIGHT = 320


def degree_histogram(degrees: Sequence[int]) -> go.Figure:
    """Plot how many leaves have each degree; 0 is a leaf that always votes for the same class."""
    counts = Counter(degrees)
    shown = range(min(degrees), max(degrees) + 1)
    names = ["constant" if degree == 0 else str(degree) for degree in shown]
    figure = go.Figure(
        go.Bar(
            x=names,
            y=[counts[degree] for degree in shown],
            marker={"color": BLUE},
            hovertemplate="degree %{x}<br>%{y:,} leaves<extra></extra>",
        )
    )
    apply_layout(figure, "Degrees of the leaves", HEIGHT)
    # Names, not numbers: plotly would put ticks between whole numbers.
    figure.update_xaxes(title="Degree of the kernel", type="category")
    figure.update_yaxes(title="Leaves")
    return figure


def bound_and_error(bounds: Sequence[float], errors: Sequence[float], rows: str) -> go.Figure:
    """Plot one point per tree: its bound, and its error on held-out rows; ``rows`` names them."""
    figure = go.Figure(
        go.Scatter(
            x=list(bounds), y=list(errors), mode="markers", showlegend=False,
            marker={"color": BLUE, "size": 7, "opacity": 0.6},
            customdata=list(range(1, len(bounds) + 1)),
            hovertemplate="tree %{customdata}<br>bound %{x:.4f}<br>error %{y:.2%}<extra></extra>",
        )
    )  # fmt: skip
    apply_layout(figure, "Bound and error of each tree", HEIGHT)
    figure.update_xaxes(title="Bound", zeroline=False)
    figure.update_yaxes(title=f"Error on {rows}", tickformat=".1%", zeroline=False)
    return figure
