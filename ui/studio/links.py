"""Ways from one page to another; each switches to the page at once, with the address that names what to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import streamlit as st

PAGES = "pages"


def to_build(pipeline: str) -> NoReturn:
    """The canvas with a pipeline of the workspace."""
    _go("build", {"pipeline": pipeline})


def to_run(run: str) -> NoReturn:
    """One run."""
    _go("runs", {"run": run})


def to_inspect(run: str, node: str) -> NoReturn:
    """The layers of a deep forest, by the run and the node that made or inspected it."""
    _go("inspect", {"run": run, "node": node})


def to_compare(runs: Sequence[str]) -> NoReturn:
    """Runs side by side."""
    _go("compare", {"runs": ",".join(runs)})


def to_data(file: str) -> NoReturn:
    """One file of the workspace."""
    _go("data", {"file": file})


def _go(page: str, address: Mapping[str, str]) -> NoReturn:
    st.switch_page(st.session_state[PAGES][page], query_params=dict(address))
    raise AssertionError("switch_page ends the script")
