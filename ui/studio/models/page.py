"""The Models page: saved models on the left, the chosen one on the right, as the address says."""

from __future__ import annotations

import streamlit as st

from engine.errors import BadInput, SylvaError
from nodes.models.registry import ModelEntry, Registry
from ui.studio.markdown import plain
from ui.studio.models.model_view import draw_model, open_requested_page
from ui.studio.session import studio
from ui.studio.widgets import selectable_table, show_flashes

ADDRESS = "model"
HOW_TO_GET_ONE = """
**No models yet.** A model is listed here when a pipeline saves it:

1. Open a pipeline under *Build* that trains one, such as an example.
2. Drag **Save model** from the list onto the canvas, connect *Model* with it, and give it a name.
3. Press **Run**. When the node is done, the model is listed here.
"""


def page() -> None:
    """Draw the page, or why it cannot be drawn."""
    try:
        _draw()
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw() -> None:
    """Draw the list and the chosen model; without models, how to get one."""
    open_requested_page()
    registry = Registry(studio().workspace)
    entries = registry.entries()
    chosen = st.query_params.get(ADDRESS)
    if not entries and not chosen:
        st.subheader("Models", anchor=False)
        show_flashes("models")
        with st.container(border=True, width=640):
            st.markdown(HOW_TO_GET_ONE)
        return
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Models", anchor=False)
        show_flashes("models")
        _draw_list(entries)
    with right:
        _draw_chosen(registry, chosen)


def _draw_chosen(registry: Registry, chosen: str | None) -> None:
    """Draw the model that the address names, or why it cannot be shown."""
    if not chosen:
        st.info(
            "Choose a model to see where it comes from, to score a file with it, or to see how to use it."
        )
        return
    try:
        entry = registry.entry(chosen)
    except BadInput as problem:
        st.error(plain(problem.message))
        st.button("All models", on_click=_leave)
        return
    draw_model(registry, entry)


def _leave() -> None:
    """Close the model and show only the list."""
    st.query_params.pop(ADDRESS, None)


# The list


def model_table(entries: list[ModelEntry]) -> list[dict[str, object]]:
    """Return the models as rows of the list; one that cannot be read has few values."""
    return [
        {
            "Name": entry.name,
            "Kind": entry.title or "cannot be read",
            "Result": entry.card.headline or None,
            "Saved": int(entry.saved * 1000),
            "Trained on": entry.rows or None,
            "Size": entry.bytes,
        }
        for entry in entries
    ]


def _draw_list(entries: list[ModelEntry]) -> None:
    """Draw the list; a click opens a model."""
    if not entries:
        st.caption("No models.")
        return
    config = st.column_config
    selectable_table(
        model_table(entries),
        [entry.name for entry in entries],
        ADDRESS,
        time="Saved",
        columns={
            "Name": config.TextColumn(width=112),
            "Kind": config.TextColumn(width=92),
            "Result": config.TextColumn(width=112),
            "Trained on": config.NumberColumn(format="localized", width=80, help="Training rows"),
            "Size": config.NumberColumn(format="bytes", width=72),
        },
    )
