"""Run the Streamlit app with its pages and style. ``sylva studio`` starts it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from deepforest.forest.kernel_cache import COMPILING
from engine.errors import SylvaError
from ui.studio import data_page as data
from ui.studio import links
from ui.studio.builder import page as build
from ui.studio.compare import page as compare
from ui.studio.inspect import page as inspect
from ui.studio.models import page as models
from ui.studio.new_pipelines import prepare_example
from ui.studio.runs import page as runs
from ui.studio.screen_text import plain
from ui.studio.session import studio

HERE = Path(__file__).parent
CHECK_SECONDS = 2.0


def main() -> None:
    """Draw the page that the address names."""
    icon = str(HERE / "assets" / "icon.svg")
    st.set_page_config(page_title="Sylva", page_icon=icon, layout="wide")
    st.logo(HERE / "assets" / "logo.svg", size="medium")
    st.html(HERE / "assets" / "style.css")
    try:
        _prepare()
    # For example, the workspace is read-only; its pages can still be shown.
    except SylvaError as error:
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
    # The default page has no path in its address; it only leads to Build, which has one.
    home = st.Page(
        lambda: st.switch_page(pages[0]), title="Sylva", default=True, visibility="hidden"
    )
    navigation = st.navigation([home, *pages], position="top")
    if _is_compiling():
        _show_compiling()
    navigation.run()


def _is_compiling() -> bool:
    """Return whether the forest kernels are being compiled in the background."""
    compiler = studio().compiler
    return compiler is not None and compiler.poll() is None


@st.fragment(run_every=CHECK_SECONDS)
def _show_compiling() -> None:
    """Say that deep forests have to wait until their code is compiled."""
    if not _is_compiling():
        st.rerun()
    text = f"{COMPILING}. Deep forests wait for it; everything else works."
    st.caption(f":material/hourglass_top: {text}")


@st.cache_resource(show_spinner=False)
def _prepare() -> None:
    """Add the example pipeline; the cache makes this once for each start of the studio."""
    prepare_example(studio().runs)


main()
