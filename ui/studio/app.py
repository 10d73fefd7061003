"""The Streamlit app: its pages and its looks. ``sylva studio`` starts it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from deepforest.forest.kernel_cache import COMPILING
from engine.errors import SylvaError
from ui.studio import links
from ui.studio.builder import page as build
from ui.studio.builder.examples import prepare_example
from ui.studio.compare import page as compare
from ui.studio.data import page as data
from ui.studio.inspect import page as inspect
from ui.studio.markdown import plain
from ui.studio.models import page as models
from ui.studio.runs import page as runs
from ui.studio.session import studio

HERE = Path(__file__).parent
LOOK_SECONDS = 2.0


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
        st.Page(inspect.page, title="Inspect", icon=":material/layers:", url_path="inspect"),
        st.Page(compare.page, title="Compare", icon=":material/leaderboard:", url_path="compare"),
        st.Page(data.page, title="Data", icon=":material/table:", url_path="data"),
        st.Page(models.page, title="Models", icon=":material/package_2:", url_path="models"),
    ]
    st.session_state[links.PAGES] = {page.url_path: page for page in pages}
    home = st.Page(lambda: st.switch_page(pages[0]), title="Sylva", default=True, visibility="hidden")
    navigation = st.navigation([home, *pages], position="top")
    if _is_compiling():
        _compiling()
    navigation.run()


def _is_compiling() -> bool:
    compiler = studio().compiler
    return compiler is not None and compiler.poll() is None


@st.fragment(run_every=LOOK_SECONDS)
def _compiling() -> None:
    """Say that deep forests have to wait, while that is so."""
    if not _is_compiling():
        st.rerun()
    st.caption(f":material/hourglass_top: {COMPILING}. Deep forests wait for it; all else works.")


@st.cache_resource(show_spinner=False)
def _prepare() -> None:
    """Once for each start of the studio."""
    prepare_example(studio())


main()
