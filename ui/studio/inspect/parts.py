"""What the sections of the Inspect page are made of.

- ``picture``  a plot whose camera saves what the page's switch says, and what it shows in words
- ``numbers``  a button that saves what is plotted as CSV
- ``camera``   the switch
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from ui.studio.plots import CONFIG
from ui.studio.previews.parts import as_csv, in_theme

if TYPE_CHECKING:
    import plotly.graph_objects as go

CAMERA = "inspect-camera"


def camera() -> None:
    """What the camera in the corner of a plot saves: PNG or SVG."""
    st.segmented_control(
        "Plots are saved as", ["PNG", "SVG"], default="PNG", required=True, key=CAMERA,
        format_func=lambda form: f":material/photo_camera: {form}", label_visibility="collapsed",
    )  # fmt: skip


def picture(figure: go.Figure, name: str, words: str) -> None:
    """A plot with ``words`` under it; ``name`` is its key and that of the file it is saved as."""
    form = str(st.session_state.get(CAMERA) or "PNG").lower()
    saved = {"toImageButtonOptions": {**CONFIG["toImageButtonOptions"], "format": form, "filename": name}}
    st.plotly_chart(in_theme(figure), theme="streamlit", config=CONFIG | saved, key=f"inspect-plot-{name}")
    st.caption(words)


def side_by_side(pictures: Sequence[tuple[go.Figure, str, str]]) -> None:
    """Plots in columns, all as high as the highest."""
    height = max(figure.layout.height for figure, _, _ in pictures)
    for column, (figure, name, words) in zip(st.columns(len(pictures)), pictures, strict=True):
        with column:
            picture(figure.update_layout(height=height), name, words)


def numbers(name: str, rows: Sequence[Mapping[str, Any]] | str) -> None:
    """A button that saves rows, or a text that is CSV already. Made ahead: a click during a redraw must not be lost."""
    data = rows if isinstance(rows, str) else as_csv(rows)
    st.download_button(
        "Numbers as CSV", data, f"{name}.csv", "text/csv", key=f"inspect-{name}-csv", on_click="ignore",
        icon=":material/download:",
    )  # fmt: skip
