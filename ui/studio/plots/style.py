"""Set how all plots look: colours, names that are safe to show, the frame."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from itertools import chain
from typing import Any

import plotly.graph_objects as go

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
"""For ``st.plotly_chart``; the camera of the tool bar saves a picture."""

COLOURS = ("#1F83CC", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C")
"""The palette of Okabe and Ito, without black and yellow and with a brighter blue: each colour is
visible on white and on black."""
BLUE, GREY = COLOURS[0], COLOURS[-1]
DASHES = ("solid", "dash", "dot", "dashdot")
CLEAR_TO_BLUE = ((0.0, "rgba(31, 131, 204, 0.06)"), (1.0, "rgba(31, 131, 204, 0.8)"))
"""Cells of a heat map are so transparent that one text colour is readable on all of them; see
``for_dark``."""
INK = "#1f2937"
FAINT = "rgba(128, 128, 128, 0.6)"
GRID = "rgba(128, 128, 128, 0.2)"
TOOLS = {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": BLUE}
"""The bar with the camera. By default plotly takes a transparent page for a black one, and puts a
dark box behind the bar."""
LONGEST_NAME = 18
LONGEST_HOVER_NAME = 400
HOVER_LINE = 80
LONGEST_LEGEND_NAME = 100
LEGEND_LINE = 44


def line(index: int) -> dict[str, Any]:
    """Return the style of a line: the next colour, with another dash when colours repeat."""
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    colour = COLOURS[index % len(COLOURS)]
    return {"color": colour, "dash": dash, "width": 2, "shape": "linear"}


def number(value: object) -> float | None:
    """Return the value if it is a number, else ``None``."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value)


def named_ticks(
    labels: Sequence[str], every: int = 1, longest: int = LONGEST_NAME
) -> dict[str, Any]:
    """Return an axis with names at 0, 1, 2 …; ``every`` shows only every second name, or so.

    Positions are numbers, since two names may be equal once they are shortened.
    """
    positions = list(range(0, len(labels), every))
    texts = [shortened(labels[position], longest) for position in positions]
    return {"tickmode": "array", "tickvals": positions, "ticktext": texts, "zeroline": False}


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a user's name on one line, shortened and escaped for plotly, which reads HTML."""
    flat = " ".join(name.split())
    if len(flat) > longest:
        end = longest // 3
        # The end is kept too: long names often differ only there.
        flat = f"{flat[: longest - end - 1]}…{flat[-end:]}"
    return html.escape(flat, quote=False)


def hover_name(name: str) -> str:
    """Return a user's name escaped, broken into lines that fit on the screen.

    It is for hover texts, which show names in full up to ``LONGEST_HOVER_NAME`` characters.
    """
    flat = " ".join(name.split())[:LONGEST_HOVER_NAME]
    lines = [flat[start : start + HOVER_LINE] for start in range(0, len(flat), HOVER_LINE)]
    return "<br>".join(html.escape(text, quote=False) for text in lines)


def legend_name(name: str) -> str:
    """Return a user's name escaped, broken into lines that fit below half a page.

    Only names over ``LONGEST_LEGEND_NAME`` characters are shortened; hover texts show them in full.
    """
    flat = html.unescape(shortened(name, LONGEST_LEGEND_NAME))
    lines = textwrap.wrap(flat, LEGEND_LINE, break_on_hyphens=False)
    return "<br>".join(html.escape(text, quote=False) for text in lines)


def cell_texts(cells: Sequence[tuple[int, int, str]]) -> go.Scatter:
    """Return texts for the cells of a heat map (column, row, text), for the light theme."""
    columns, rows, texts = zip(*cells, strict=True) if cells else ((), (), ())
    return go.Scatter(
        x=columns, y=rows, text=texts, mode="text",
        textfont={"color": INK, "size": 12}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def for_dark(figure: go.Figure) -> go.Figure:
    """Return the figure with white texts in its cells.

    A text colour that is readable on a light page is not readable on a dark one.
    """
    return figure.update_traces(textfont_color="white", selector={"mode": "text"})


def apply_layout(figure: go.Figure, title: str, height: int, *, legend: bool = False) -> None:
    """Set title, size and axes. Backgrounds and text colours are left to the page's theme."""
    if legend:
        listed = [trace for trace in figure.data if trace.showlegend is not False]
        height += _legend_height([trace.name or "" for trace in listed])
    figure.update_layout(
        title={"text": title, "font": {"size": 16}, "x": 0, "xanchor": "left"},
        height=height,
        margin={"l": 10, "r": 10, "t": 50, "b": 10},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=legend,
        legend={
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "xanchor": "left",
            # By default half of the height; the rest would be behind a scrollbar.
            "maxheight": 1,
        },
        hoverlabel={"align": "left"},
        modebar=TOOLS,
        font={"size": 13},
    )
    figure.update_xaxes(automargin=True, gridcolor=GRID, zeroline=False)
    figure.update_yaxes(automargin=True, gridcolor=GRID, zeroline=False)


def _legend_height(names: Sequence[str]) -> int:
    """Return the pixels that a legend needs below a plot of half a page's width (380 pixels).

    Beside such a plot a legend does not fit.
    """
    lines = [name.split("<br>") for name in names]
    # A mark takes 45 pixels, a letter about 7.
    widest = 45 + 7 * max((len(html.unescape(text)) for text in chain(*lines)), default=0)
    in_a_row = max(1, 380 // widest)
    # A row is as high as the name in it with the most lines.
    rows = [max(map(len, lines[at : at + in_a_row])) for at in range(0, len(lines), in_a_row)]
    return 20 * sum(rows)
