"""Switch to another page of the studio. The address says what the page shows.

No function returns: Streamlit ends the script when it switches the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext

PAGES = "pages"


def to_build(pipeline: str) -> NoReturn:
    """Open a pipeline of the workspace on the Build page."""
    _go("build", {"pipeline": pipeline})


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
    st.switch_page(st.session_state[PAGES][page], query_params=dict(address))
    raise AssertionError("switch_page ends the script")


def redraw_after_late_requests() -> None:
    """Draw the present page when a request for a part of the page before arrives late.

    A component or a timer of the page that was just left may still ask to draw its fragment
    again. Streamlit then finds no such fragment, draws nothing, and the browser shows an empty
    page. Call this once, before the server starts.
    """
    run_script = ScriptRunner._run_script

    def run(runner: ScriptRunner, request: RerunData) -> None:
        run_script(runner, on_present_page(request, runner._get_script_run_ctx()))

    ScriptRunner._run_script = run  # type: ignore[method-assign, assignment]


def on_present_page(request: RerunData, last: ScriptRunContext) -> RerunData:
    """Return the request, or one for the whole present page if it is for a fragment of another.

    ``last`` is the context of the last run of the script: its page is the present one.
    """
    if not request.fragment_id_queue or request.page_script_hash == last.page_script_hash:
        return request
    return RerunData(
        query_string=last.query_string,
        page_script_hash=last.page_script_hash,
        cached_message_hashes=request.cached_message_hashes,
        context_info=request.context_info,
    )
