"""What the studio uses of Streamlit beyond its public interface: it is in one module, and it works.

These tests fail when Streamlit changes. ``tests/e2e`` clicks the same in a browser.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import streamlit as st
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.scriptrunner_utils.script_requests import RerunData

from ui.studio import streamlit_compat
from ui.studio.streamlit_compat import StudioPages, page_html, redraw_after_late_requests

STUDIO = Path(streamlit_compat.__file__).parent
ROOT = STUDIO.parents[1]


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


def test_pages_get_our_head_and_streamlit_answers_everything_else():
    client = TestClient(StudioPages(PlainTextResponse("from Streamlit")))
    for page in ("/", "/build", "/build?pipeline=wine", "/unknown"):
        assert client.get(page).text == page_html()
    for other in ("/static/js/index.js", "/favicon.png", "/_stcore/health", "/media/a.png"):
        assert client.get(other).text == "from Streamlit"


def test_our_script_runs_before_the_one_of_streamlit():
    html = page_html()
    assert html.index("window.__streamlit") < html.index('<script type="module"')
    assert "<title>Sylva</title>" in html and "<title>Streamlit" not in html


@pytest.mark.parametrize(
    "name",
    [
        "window.__streamlit",
        "BACKEND_BASE_URL",
        "HOST_CONFIG",
        "window.matchMedia(`(prefers-color-scheme: dark)`)",
    ],
)
def test_the_browser_still_reads_what_our_script_sets(name: str):
    scripts = Path(st.__file__).parent / "static" / "static" / "js"
    assert any(name in path.read_text() for path in scripts.glob("index.*.js"))


def test_the_private_functions_still_take_what_is_passed():
    inspect.signature(ScriptRunner._run_script).bind("runner", "request")
    inspect.signature(ScriptRunner._get_script_run_ctx).bind("runner")
    inspect.signature(BidiComponentManager.register_from_manifest).bind(
        "manager", "manifest", "folder"
    )
    inspect.signature(BidiComponentManager.get_component_asset_root).bind("manager", "name")


def test_one_minor_version_of_streamlit_is_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = next(each for each in project["dependencies"] if each.startswith("streamlit>"))
    major, minor = map(int, version("streamlit").split(".")[:2])
    assert bounds == f"streamlit>={major}.{minor},<{major}.{minor + 1}"


def test_no_other_module_imports_more_than_the_public_names():
    private = []
    for path in sorted(STUDIO.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("streamlit.") and path.name != "streamlit_compat.py":
                private.append(f"{path.relative_to(STUDIO)}:{node.lineno} {module}")
    assert private == []
