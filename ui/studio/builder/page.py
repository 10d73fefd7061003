"""Build: the list of pipelines, or the one that is open."""

from __future__ import annotations

import streamlit as st

from engine.errors import SylvaError
from ui.studio.builder import open_pipeline as desk
from ui.studio.builder.builder import workbench
from ui.studio.builder.pipeline_list import gallery, unreadable
from ui.studio.markdown import plain


def page() -> None:
    """Draw the page."""
    try:
        opened = desk.current_pipeline()
    except SylvaError as error:
        unreadable(error)
        return
    try:
        workbench(opened) if opened else gallery()
    except SylvaError as error:
        st.error(plain(str(error)))
