"""Maps of the sampled rows, one a layer, linked in the browser: rows marked in one are marked in all.

The drawing is done by a small component (``assets/row_maps.js``): marks follow the mouse at once, and Python hears of
them when it is let go.

- ``payload``    what the component is given: plain JSON, arrays as base64
- ``row_maps``   draws it; the marks it tells of go to ``Marks``
- ``Marks``      which rows are marked, kept for as long as the browser tab lives
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager

from nodes.inspection.layers import Layers
from ui.studio.plots.style import COLOURS

if TYPE_CHECKING:
    from streamlit.components.v2.component_manager import BidiComponentManager
    from streamlit.components.v2.types import ComponentRenderer

_ASSETS = Path(__file__).parents[1] / "assets"
_NAME = "sylva-row-maps"
_POINTS = (*COLOURS[:-1], "#8B5CF6", "#8A6D3B", "#E11D74", "#7CB518")
"""Points have no dash to tell them apart: more colours than lines have, and then other shapes."""
_FULL = 65535
MOST_PANELS = 8
_KEY = "inspect-maps"


# Marks


@dataclass
class Marks:
    """Positions in the sample of one inspection; ``epoch`` rises when Python changes them: the browser follows."""

    digest: str
    rows: tuple[int, ...] = ()
    epoch: int = 0

    def change(self, rows: Sequence[int]) -> None:
        """Mark these rows and no others, on the page as well."""
        self.rows, self.epoch = tuple(rows), self.epoch + 1


def marks(digest: str) -> Marks:
    """The marks of an inspection; those of another are forgotten."""
    held: Marks | None = st.session_state.get("inspect-marks")
    if held is None or held.digest != digest:
        held = st.session_state["inspect-marks"] = Marks(digest)
    return held


def positions_in(told: object, count: int) -> tuple[int, ...]:
    """Positions that a browser told of, as far as there are such."""
    if not isinstance(told, list):
        return ()
    return tuple(sorted({at for at in told if type(at) is int and 0 <= at < count}))


# The component


def row_maps(layers: Layers, numbers: Sequence[int], by: str, held: Marks, file: str) -> None:
    """Draw the layers of these numbers, coloured by ``class``, ``mistake`` or ``margin``."""
    _renderer()(
        key=_KEY,
        data={**_payload(layers, tuple(numbers), held.digest, file), "by": by, "marked": list(held.rows),
              "epoch": held.epoch},
        default={"marked": list(held.rows)},  # what the page begins with: else no rows, told later, were no change
        height="content",
        on_marked_change=partial(_take, held, len(layers.rows)),
    )  # fmt: skip


def _take(held: Marks, count: int) -> None:
    sent = st.session_state.get(_KEY)
    held.rows = positions_in(sent.get("marked") if sent is not None else None, count)


@st.cache_data(show_spinner=False, max_entries=8)
def _payload(_layers: Layers, numbers: tuple[int, ...], digest: str, file: str) -> dict[str, Any]:
    return payload(_layers, numbers, digest, file)


def payload(layers: Layers, numbers: Sequence[int], digest: str, file: str) -> dict[str, Any]:
    """All that is needed to draw the maps of some layers, whatever the colours and the marks."""
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
                "said": _text(layers.predicted(number), np.int16),
                "margin": _text(layers.margin(number), np.float32),
            }
            for number in numbers
        ],
    }


def caption(stage: Mapping[str, Any]) -> str:
    """What stands under a map: how well the classes are apart, and how many rows are right."""
    separation, accuracy = stage["separation"], (stage["scores"] or {}).get("accuracy")
    parts = [] if separation is None else [f"S_A/S_E {separation:.3g}"]
    parts += [] if accuracy is None else [f"accuracy {accuracy:.1%}"]
    return " · ".join(parts) or "no classes known"


def some(numbers: Sequence[int], most: int = MOST_PANELS) -> list[int]:
    """At most so many of the layers, evenly spread, the first and the last among them."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[round(at * (len(numbers) - 1) / (most - 1))] for at in range(most)]


def _spread(points: np.ndarray) -> np.ndarray:
    """Points as whole numbers over the full square, both axes to one scale."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    return np.asarray(np.round(np.clip((points - middle) / scale + 0.5, 0, 1) * _FULL))


def _text(values: np.ndarray, kind: type[np.generic]) -> str:
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode("ascii")


_known: tuple[BidiComponentManager, ComponentRenderer] | None = None


def _renderer() -> ComponentRenderer:
    """The component, registered with the manager of the app that is running."""
    global _known
    manager = get_bidi_component_manager()
    if _known is None or _known[0] is not manager:
        js, css = ((_ASSETS / f"row_maps.{end}").read_text(encoding="utf-8") for end in ("js", "css"))
        made = st.components.v2.component(_NAME, html='<div class="row-maps"></div>', js=js, css=css)
        _known = manager, made
    return _known[1]
