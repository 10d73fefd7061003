"""Which pipeline is open in this browser tab.

The address names it. The session holds its ``OpenPipeline``, and those that were closed with edits
that could not be saved.
"""

from __future__ import annotations

import streamlit as st

from engine.pipeline_library import Library
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.screen_text import plain
from ui.studio.session import studio

ADDRESS = "pipeline"
OPEN = "open-pipeline"
UNSAVED = "unsaved-pipelines"
"""Where a session keeps the pipelines that were left with unsaved edits, by id."""


def current_pipeline() -> OpenPipeline | None:
    """Return the pipeline that the address names, or that was open in this tab before.

    Raise ``SylvaError`` if it cannot be opened. If its edits were moved to a copy, the copy is
    returned.
    """
    opened: OpenPipeline | None = st.session_state.get(OPEN)
    requested = st.query_params.get(ADDRESS) or (opened.pipeline_id if opened else None)
    # The address still names the pipeline whose edits were moved to a copy.
    if opened is not None and requested == opened.moved_from:
        requested = opened.pipeline_id
    if not requested:
        return None
    st.query_params[ADDRESS] = requested
    if opened is None or opened.pipeline_id != requested:
        _close()
        # The file does not have these edits.
        opened = _return_to_unsaved(requested)
        if opened is None:
            opened = OpenPipeline.from_library(
                Library(studio().workspace), studio().runs, requested
            )
        st.session_state[OPEN] = opened
    opened.refresh()
    st.query_params[ADDRESS] = opened.pipeline_id
    return opened


def switch_to(pipeline_id: str) -> None:
    """Open another pipeline in this tab."""
    _close()
    st.query_params[ADDRESS] = pipeline_id


def close() -> None:
    """Close the pipeline and show the list."""
    _close()
    st.query_params.pop(ADDRESS, None)


def is_open(opened: OpenPipeline) -> bool:
    """Return whether this pipeline is still the one that the tab and its address show."""
    return (
        st.session_state.get(OPEN) is opened and st.query_params.get(ADDRESS) == opened.pipeline_id
    )


def unsaved_pipelines() -> list[OpenPipeline]:
    """Save the pipelines that were closed with unsaved edits.

    Return those that still cannot be saved.
    """
    unsaved: dict[str, OpenPipeline] = st.session_state.get(UNSAVED, {})
    for pipeline_id, opened in list(unsaved.items()):
        opened.refresh()
        if not opened.unsaved:
            del unsaved[pipeline_id]
            text = f"“{opened.pipeline.name}”: {opened.notice}"
            st.toast(plain(text), icon=":material/info:", duration="long")
    return list(unsaved.values())


def _close() -> None:
    """Forget the open pipeline; with unsaved edits, keep it in the session."""
    opened: OpenPipeline | None = st.session_state.pop(OPEN, None)
    if opened is not None and opened.unsaved:
        unsaved = st.session_state.get(UNSAVED, {})
        st.session_state[UNSAVED] = unsaved | {opened.pipeline_id: opened}


def _return_to_unsaved(pipeline_id: str) -> OpenPipeline | None:
    """Return a pipeline that was closed with unsaved edits; None if it was not."""
    opened: OpenPipeline | None = st.session_state.get(UNSAVED, {}).pop(pipeline_id, None)
    if opened is not None:
        opened.notice = "These are your edits that are not saved yet."
    return opened
