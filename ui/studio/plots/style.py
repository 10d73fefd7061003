"""How all plots look: colours, names made harmless, the frame."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
"""For ``st.plotly_chart``; the camera of the tool bar saves a picture."""

COLOURS = ("#1F83CC", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C")
"""Okabe and Ito's, without black and yellow, the blue a little brighter: each is seen on white and on black."""
BLUE, GREY = COLOURS[0], COLOURS[-1]
DASHES = ("solid", "dash", "dot", "dashdot")
CLEAR_TO_BLUE = ((0.0, "rgba(31, 131, 204, 0.06)"), (1.0, "rgba(31, 131, 204, 0.8)"))
"""Cells of a heat map let the page shine through so far that one ink is read on all of them; see ``for_dark``."""
INK = "#1f2937"
FAINT = "rgba(128, 128, 128, 0.6)"
GRID = "rgba(128, 128, 128, 0.2)"
TOOLS = {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": BLUE}
"""The bar with the camera; left alone, plotly takes a clear page for a black one and puts a dark box behind the bar."""
LONGEST_NAME = 18


def line(index: int) -> dict[str, Any]:
    """A colour, and a dash for each time round the colours."""
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "dash": dash, "width": 2, "shape": "linear"}


def number(value: object) -> float | None:
    """The value if it is a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def named_ticks(labels: Sequence[str], every: int = 1, longest: int = LONGEST_NAME) -> dict[str, Any]:
    """Names at whole numbers: names that are alike when shortened stay apart."""
    places = list(range(0, len(labels), every))
    texts = [shortened(labels[place], longest) for place in places]
    return {"tickmode": "array", "tickvals": places, "ticktext": texts, "zeroline": False}


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A user's name made short and harmless."""
    flat = " ".join(name.split())
    if len(flat) > longest:
        end = longest // 3
        flat = f"{flat[: longest - end - 1]}…{flat[-end:]}"  # long names often differ at their ends
    return html.escape(flat, quote=False)


def in_full(name: str) -> str:
    """A user's name made harmless, on lines of a length that fits on the screen."""
    flat = " ".join(name.split())[:400]
    return "<br>".join(html.escape(flat[start : start + 80], quote=False) for start in range(0, len(flat), 80))


def cell_texts(cells: Sequence[tuple[int, int, str]]) -> go.Scatter:
    """Texts in the cells of a heat map (column, row, text), for the light theme."""
    return go.Scatter(
        x=[cell[0] for cell in cells], y=[cell[1] for cell in cells], text=[cell[2] for cell in cells], mode="text",
        textfont={"color": INK, "size": 12}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def for_dark(figure: go.Figure) -> go.Figure:
    """The same with white texts in its cells: no one ink is read on a light page and on a dark one."""
    return figure.update_traces(textfont_color="white", selector={"mode": "text"})


def lay_out(figure: go.Figure, title: str, height: int, *, legend: bool = False) -> None:
    """Title, size and axes; backgrounds are left to the page and text colours to the theme."""
    figure.update_layout(
        title={"text": title, "font": {"size": 16}, "x": 0, "xanchor": "left"},
        height=height + (_legend_height([trace.name or "" for trace in figure.data]) if legend else 0),
        margin={"l": 10, "r": 10, "t": 50, "b": 10},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=legend,
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        hoverlabel={"align": "left"},
        modebar=TOOLS,
        font={"size": 13},
    )
    figure.update_xaxes(automargin=True, gridcolor=GRID, zeroline=False)
    figure.update_yaxes(automargin=True, gridcolor=GRID, zeroline=False)


def _legend_height(names: Sequence[str]) -> int:
    """Pixels for a legend below a plot of half a page; beside it, such a plot would have no room."""
    widest = 45 + 7 * max(map(len, names), default=0)
    lines = -(-len(names) // max(1, 380 // widest))
    return 20 * lines
