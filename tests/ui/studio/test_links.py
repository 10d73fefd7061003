"""A page that was left cannot empty the page that is shown. ``tests/e2e`` does it in a browser."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

from ui.studio.links import redraw_after_late_requests


@pytest.fixture
def requests_run(monkeypatch: pytest.MonkeyPatch) -> list[RerunData]:
    """The requests that reach Streamlit's own runner, in order."""
    seen: list[RerunData] = []
    monkeypatch.setattr(ScriptRunner, "_run_script", lambda runner, request: seen.append(request))
    redraw_after_late_requests()
    return seen


def runner_at(page: str) -> Any:
    """A runner whose last run drew ``page``."""
    context = SimpleNamespace(page_script_hash=page, query_string="pipeline=wine")
    return SimpleNamespace(_get_script_run_ctx=lambda: context)


def test_a_late_request_of_the_page_before_draws_the_whole_present_page(
    requests_run: list[RerunData],
):
    late = RerunData(page_script_hash="runs", query_string="run=1", fragment_id_queue=["graph"])
    ScriptRunner._run_script(runner_at("build"), late)
    assert requests_run == [RerunData(page_script_hash="build", query_string="pipeline=wine")]


@pytest.mark.parametrize(
    "request_of_the_browser",
    [
        RerunData(page_script_hash="build", fragment_id_queue=["canvas"]),
        RerunData(page_script_hash="runs", query_string="run=1"),
    ],
    ids=["a fragment of the present page", "another page as a whole"],
)
def test_other_requests_stay_as_they_are(
    requests_run: list[RerunData], request_of_the_browser: RerunData
):
    ScriptRunner._run_script(runner_at("build"), request_of_the_browser)
    assert requests_run == [request_of_the_browser]
