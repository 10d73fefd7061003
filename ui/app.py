"""The Streamlit app: its pages and its looks. ``sylva studio`` starts it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from engine.errors import SylvaError
from ui.build import page as build
from ui.build.samples import prepare_example
from ui.runs import page as runs
from ui.studio import studio
from ui.text import plain

HERE = Path(__file__).parent


def main() -> None:
    """Draw the page that the address names."""
    st.set_page_config(page_title="Sylva", page_icon=str(HERE / "assets" / "icon.svg"), layout="wide")
    st.logo(HERE / "assets" / "logo.svg", size="medium")
    st.html(HERE / "assets" / "style.css")
    try:
        _prepare()
    except SylvaError as error:  # a workspace that is read-only, say: what can be seen is shown
        st.error(plain(str(error)))
    pages = [
        st.Page(build.page, title="Build", icon=":material/account_tree:", url_path="build"),
        st.Page(runs.page, title="Runs", icon=":material/history:", url_path="runs"),
    ]
    home = st.Page(lambda: st.switch_page(pages[0]), title="Sylva", default=True, visibility="hidden")
    st.navigation([home, *pages], position="top").run()


@st.cache_resource(show_spinner=False)
def _prepare() -> None:
    """Once for each start of the studio."""
    prepare_example(studio())


main()
