"""Draw maps of the sampled rows, one for each layer, linked in the browser.

Rows that are marked in one map are marked in all of them. A small component,
``assets/row_maps.js``, draws the maps: marks follow the mouse at once, and Python gets them when
the button is released.

- ``payload``    what the component gets: plain JSON, with arrays as base64
- ``row_maps``   draws the component; the marks that it sends go to ``Marks``
- ``Marks``      which rows are marked, saved for as long as the browser tab is open
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from nodes.inspection.layers import Layers
from ui.studio.plots.style import COLOURS
from ui.studio.streamlit_compat import component

_POINTS = (*COLOURS[:-1], "#8B5CF6", "#8A6D3B", "#E11D74", "#7CB518")
"""More colours than lines have, since points have no dashes; after these come other shapes."""
# The largest number of 16 bits: a map on screen needs no more precision.
_FULL = 65535
MOST_PANELS = 8
_KEY = "inspect-maps"


# Marks


@dataclass
class Marks:
    """The marked rows of one inspection, as positions in its sample.

    ``epoch`` increases when Python changes the marks, so that the browser takes them over.
    """

    digest: str
    rows: tuple[int, ...] = ()
    epoch: int = 0

    def change(self, rows: Sequence[int]) -> None:
        """Mark exactly these rows, in the browser too."""
        self.rows, self.epoch = tuple(rows), self.epoch + 1


def marks(digest: str) -> Marks:
    """Return the marks of an inspection; those of another inspection are dropped."""
    marked: Marks | None = st.session_state.get("inspect-marks")
    if marked is None or marked.digest != digest:
        marked = st.session_state["inspect-marks"] = Marks(digest)
    return marked


def positions_in(sent: object, count: int) -> tuple[int, ...]:
    """Return the valid positions of a list that a browser sent.

    Anything may arrive from a browser: what is not the position of one of ``count`` rows is
    ignored.
    """
    if not isinstance(sent, list):
        return ()
    # Not isinstance: True is an int as well.
    return tuple(sorted({at for at in sent if type(at) is int and 0 <= at < count}))


# The component


def row_maps(layers: Layers, numbers: Sequence[int], by: str, marked: Marks, file: str) -> None:
    """Draw the maps of these layers.

    Parameters
    ----------
    numbers : the numbers of the layers
    by : what gives the colour: ``class``, ``mistake`` or ``margin``
    marked : the rows that are marked; the component changes it
    file : the name of a picture that the user saves
    """
    data = {
        **_payload(layers, tuple(numbers), marked.digest, file),
        "by": by,
        "marked": list(marked.rows),
        "epoch": marked.epoch,
    }
    draw = component(
        "sylva-row-maps",
        html='<div class="row-maps"></div>',
        js=_asset("row_maps.js"),
        css=_asset("row_maps.css"),
    )
    draw(
        key=_KEY,
        data=data,
        # Without it, Streamlit would not report that the user has removed all marks.
        default={"marked": list(marked.rows)},
        height="content",
        on_marked_change=partial(_take, marked, len(layers.rows)),
    )


@cache
def _asset(name: str) -> str:
    """Return the text of a file of the studio, read once."""
    return (Path(__file__).parents[1] / "assets" / name).read_text(encoding="utf-8")


def _take(marked: Marks, count: int) -> None:
    """Take over the marks that the component has sent."""
    sent = st.session_state.get(_KEY)
    marked.rows = positions_in(sent.get("marked") if sent is not None else None, count)


@st.cache_data(show_spinner=False, max_entries=8)
def _payload(_layers: Layers, numbers: tuple[int, ...], digest: str, file: str) -> dict[str, Any]:
    """Return ``payload`` from the cache.

    It does not depend on colours and marks, which change with every click.
    """
    return payload(_layers, numbers, digest, file)


def payload(layers: Layers, numbers: Sequence[int], digest: str, file: str) -> dict[str, Any]:
    """Return everything that is needed to draw the maps of these layers.

    Colours and marks are not part of it: they change often, and these data are large.
    """
    stages = {stage["number"]: stage for stage in layers.stages}
    return {
        "id": f"{digest} {' '.join(map(str, numbers))}",
        "file": file,
        "classes": layers.classes,
        "colours": list(_POINTS),
        "rows": _text(layers.rows, np.int32),
        "truth": _text(layers.truth, np.int16),
        "layers": [
            {
                "number": number,
                "title": f"Layer {number}",
                "caption": caption(stages[number]),
                "xy": _text(_spread(layers.embedding[number - 1]), np.uint16),
                "predicted": _text(layers.predicted(number), np.int16),
                "margin": _text(layers.margin(number), np.float32),
            }
            for number in numbers
        ],
    }


def caption(stage: Mapping[str, Any]) -> str:
    """Return the text under a map.

    It says how well the classes are separated, and how many rows are predicted right.
    """
    separation, accuracy = stage["separation"], (stage["scores"] or {}).get("accuracy")
    parts = [] if separation is None else [f"S_A/S_E {separation:.3g}"]
    parts += [] if accuracy is None else [f"accuracy {accuracy:.1%}"]
    return " · ".join(parts) or "no classes known"


def some(numbers: Sequence[int], most: int = MOST_PANELS) -> list[int]:
    """Return at most ``most`` of the layers, evenly spread, with the first and the last."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[round(at * (len(numbers) - 1) / (most - 1))] for at in range(most)]


def _spread(points: np.ndarray) -> np.ndarray:
    """Return the points as whole numbers that fill a square.

    Both axes have the same scale, as t-SNE needs: only distances have a meaning.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    # All points may be equal: do not divide by zero.
    scale = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    return np.asarray(np.round(np.clip((points - middle) / scale + 0.5, 0, 1) * _FULL))


def _text(values: np.ndarray, kind: type[np.generic]) -> str:
    """Return an array as base64 text of numbers of this type."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode("ascii")
