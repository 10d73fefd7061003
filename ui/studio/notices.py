"""What a callback has to say: it leaves its words at a place, and the next drawing of that place says them once."""

from __future__ import annotations

import streamlit as st

from ui.studio.markdown import plain


def flash(place: str, text: str) -> None:
    """Something was done."""
    st.session_state[f"{place}-said"] = text


def flash_error(place: str, fault: object) -> None:
    """Something went wrong."""
    st.session_state[f"{place}-fault"] = str(fault)


def show_flashes(place: str) -> None:
    """Say what was left there."""
    if said := st.session_state.pop(f"{place}-said", ""):
        st.toast(plain(said), icon=":material/check:")
    if fault := st.session_state.pop(f"{place}-fault", ""):
        st.error(plain(fault))
