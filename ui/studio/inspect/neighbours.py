"""Find the rows that are nearest to a row, in the input and after each layer.

- ``Neighbourhood``, ``neighbourhoods``  the nearest rows in each panel
- ``neighbour_rows``                     the same as rows, for a file
- ``neighbours_html``                    the same as pictures and words, for the page
- ``draw_neighbours``                    draws them; a click on one opens its row
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from nodes.inspection.layers import UNKNOWN, Layers
from ui.studio.inspect.images import RowImages
from ui.studio.inspect.tables import LONGEST_CLASS
from ui.studio.plots.layers import layer_colour
from ui.studio.screen_text import shortened
from ui.studio.streamlit_compat import component

COUNT = 8
"""How many neighbours are shown."""


@dataclass(frozen=True)
class Neighbourhood:
    """The rows nearest to a row in one panel, as positions in the sample, nearest first."""

    number: int
    """0 for the input, else the number of the layer."""
    positions: list[int]
    distances: list[float]
    same_class: int | None
    """How many of them have the class of the row; None if that is not known."""

    @property
    def title(self) -> str:
        """Return the name of the panel."""
        return f"Layer {self.number}" if self.number else "Input"


def neighbourhoods(layers: Layers, at: int, count: int = COUNT) -> list[Neighbourhood]:
    """Return the ``count`` rows nearest to the row at this position, in each panel.

    Distances are Euclidean: between the rows as numbers on one scale, or between the class vectors
    of all learners after a layer. Of equal distances the row that is first in the table counts.
    """
    found = []
    truth = int(layers.truth[at])
    for number in layers.panels:
        points = layers.representation(number)
        distances = np.sqrt(np.square(points - points[at], dtype=np.float64).sum(axis=1))
        # The row itself is not one of its neighbours, but a copy of it is.
        others = np.delete(np.arange(len(points)), at)
        nearest = others[np.argsort(distances[others], kind="stable")[:count]]
        same = None if truth == UNKNOWN else int((layers.truth[nearest] == truth).sum())
        found.append(Neighbourhood(number, nearest.tolist(), distances[nearest].tolist(), same))
    return found


def neighbour_rows(layers: Layers, at: int, found: Sequence[Neighbourhood]) -> list[dict[str, Any]]:
    """Return one row for each neighbour in each panel."""
    rows = []
    for each in found:
        predicted = layers.predicted(max(each.number, 1))
        for rank, (position, distance) in enumerate(
            zip(each.positions, each.distances, strict=True), 1
        ):
            rows.append(
                {
                    "row": int(layers.rows[at]),
                    "panel": each.title,
                    "rank": rank,
                    "neighbour": int(layers.rows[position]),
                    "truth": _class_name(layers, int(layers.truth[position])),
                    # The input predicts nothing.
                    "predicted": layers.classes[int(predicted[position])] if each.number else None,
                    "distance": distance,
                }
            )
    return rows


def _class_name(layers: Layers, code: int) -> str | None:
    """Return the name of a class; None if it is not known."""
    return None if code == UNKNOWN else layers.classes[code]


def neighbours_html(
    layers: Layers, at: int, found: Sequence[Neighbourhood], images: RowImages | None
) -> str:
    """Return the neighbours as HTML: a line for each panel, nearest first, each a button.

    A neighbour of another class than the row has a dashed frame, so that one sees at a glance how
    pure a neighbourhood is.
    """
    depth = len(layers.records)
    lines = [_line(layers, at, each, images, layer_colour(each.number, depth)) for each in found]
    return "".join(lines)


STYLE = """
.near { display: grid; gap: 10px; font-family: var(--st-font); font-size: 13px;
  color: var(--st-text-color); }
.near section { display: flex; gap: 8px; align-items: stretch; flex-wrap: wrap; }
.near header { width: 116px; padding-left: 8px; border-left: 4px solid; }
.near header b { display: block; }
.near button { width: 108px; padding: 5px 7px; border-radius: 8px; cursor: pointer; font: inherit;
  color: inherit; background: transparent; text-align: left; line-height: 1.35;
  border: 1px solid rgba(128, 128, 128, .35); overflow-wrap: anywhere; }
.near button.other { border: 2px dashed #D55E00; padding: 4px 6px; }
.near button:hover { background: var(--st-secondary-background-color); }
.near button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 1px; }
.near img { display: block; height: 44px; max-width: 92px; margin: 0 auto 3px;
  image-rendering: pixelated; background: white; }
.near small { display: block; opacity: .75; font-size: 12px; }
"""
SCRIPT = """
export default function ({ parentElement, data, setTriggerValue }) {
  const box = parentElement.querySelector(".near");
  box.innerHTML = data.html;
  box.onclick = (event) => {
    const card = event.target.closest("button");
    if (card) setTriggerValue("opened", Number(card.dataset.row));
  };
}
"""
_KEY = "inspect-near"


def draw_neighbours(
    layers: Layers,
    at: int,
    found: Sequence[Neighbourhood],
    images: RowImages | None,
    open_row: Callable[[int], None],
) -> None:
    """Draw the neighbours; a click on one calls ``open_row`` with the number of its row."""
    draw = component("sylva-near", html='<div class="near"></div>', js=SCRIPT, css=STYLE)
    draw(
        key=_KEY,
        data={"html": neighbours_html(layers, at, found, images)},
        height="content",
        on_opened_change=partial(_take, layers, open_row),
    )


def _take(layers: Layers, open_row: Callable[[int], None]) -> None:
    """Open the row that the component has sent."""
    sent = st.session_state.get(_KEY)
    opened = sent.get("opened") if sent is not None else None
    # Anything may arrive from a browser; not isinstance: True is an int as well.
    if type(opened) is int and opened in layers.rows:
        open_row(opened)


def _line(
    layers: Layers, at: int, found: Neighbourhood, images: RowImages | None, colour: str
) -> str:
    """Return one panel: how many neighbours share the class, and each of them."""
    counts = f"{len(found.positions)} nearest"
    if found.same_class is not None:
        counts = f"{found.same_class} of {len(found.positions)} have its class"
    head = f"<header style='border-color:{colour}'><b>{found.title}</b>{counts}</header>"
    predicted = layers.predicted(max(found.number, 1))
    cells = []
    for position, distance in zip(found.positions, found.distances, strict=True):
        truth = int(layers.truth[position])
        is_other = UNKNOWN not in (truth, layers.truth[at]) and truth != layers.truth[at]
        name = _class_name(layers, truth)
        words = [f"<b>{_short(name)}</b>" if name is not None else "class unknown"]
        if found.number:
            words.append(f"<small>predicted {_short(layers.classes[predicted[position]])}</small>")
        words.append(f"<small>row {layers.rows[position]:,}</small>")
        words.append(f"<small>distance {distance:.3g}</small>")
        picture = f"<img alt='' src='{images.address(position)}'>" if images else ""
        looks = " class='other'" if is_other else ""
        opens = f"type='button' data-row='{layers.rows[position]}' title='Open this row'"
        cells.append(f"<button{looks} {opens}>{picture}{''.join(words)}</button>")
    return f"<section>{head}{''.join(cells)}</section>"


def _short(name: str) -> str:
    """Return the name of a class, shortened and safe in HTML."""
    return html.escape(shortened(name, LONGEST_CLASS))
