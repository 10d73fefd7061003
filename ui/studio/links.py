"""Switch to another page of the studio. The address says what the page shows.

No function returns: Streamlit ends the script when it switches the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import streamlit as st

PAGES = "pages"


def to_build(pipeline_id: str) -> NoReturn:
    """Open a pipeline of the workspace on the Build page."""
    _go("build", {"pipeline": pipeline_id})


def to_run(run: str) -> NoReturn:
    """Open a run on the Runs page."""
    _go("runs", {"run": run})


def to_inspect(run: str, node: str) -> NoReturn:
    """Open a deep forest on the Inspect page, by the run and node that made or inspected it."""
    _go("inspect", {"run": run, "node": node})


def to_compare(runs: Sequence[str]) -> NoReturn:
    """Open runs side by side on the Compare page."""
    _go("compare", {"runs": ",".join(runs)})


def to_data(file: str) -> NoReturn:
    """Open a file of the workspace on the Data page."""
    _go("data", {"file": file})


def _go(page: str, address: Mapping[str, str]) -> NoReturn:
    """Switch to a page; ``address`` says what it shows."""
    st.switch_page(st.session_state[PAGES][page], query_params=dict(address))
    raise AssertionError("switch_page ends the script")
