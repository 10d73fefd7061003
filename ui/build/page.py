"""Build: the list of pipelines, or the one that is open."""

from __future__ import annotations

import streamlit as st

from engine.errors import SylvaError
from ui.build import desk
from ui.build.gallery import gallery, unreadable
from ui.build.workbench import workbench
from ui.text import plain


def page() -> None:
    """Draw the page."""
    try:
        opened = desk.open_desk()
    except SylvaError as error:
        unreadable(error)
        return
    try:
        workbench(opened) if opened else gallery()
    except SylvaError as error:
        st.error(plain(str(error)))
