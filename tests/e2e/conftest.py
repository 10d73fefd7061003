"""One browser and one studio for all end-to-end tests; without Chromium they are skipped.

Both end with the last of these tests: the browser's driver keeps an event loop running, in which
other tests cannot start their own.
Each test makes its own pipelines, tables and runs in the shared workspace, and checks only these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.pipeline import Pipeline
from engine.pipeline_library import Library
from engine.workspace import Workspace
from tests.e2e.studio import Studio, studio_at
from tests.e2e.tab import CHROMIUM


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    playwright.expect.set_options(timeout=60_000)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def place(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Workspace]]:
    """The address of the studio and its workspace."""
    workspace = Workspace(tmp_path_factory.mktemp("studio")).create()
    # A workspace with a pipeline is not new: the studio does not run the example beside the tests.
    Library(workspace).create(Pipeline(name="Not new", nodes={}))
    with studio_at(workspace.root) as address:
        yield address, workspace


@pytest.fixture(scope="module")
def tab(browser: Any, place: tuple[str, Workspace]) -> Iterator[Studio]:
    """One tab for all tests of a module: the browser keeps what it has loaded."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, accept_downloads=True)
    yield Studio(context.new_page(), *place)
    context.close()


@pytest.fixture
def studio(tab: Studio) -> Iterator[Studio]:
    """The tab, as no test before has left it; in the end, nothing may have gone wrong in it."""
    tab.errors.clear()
    tab.page.mouse.up()
    tab.page.emulate_media(color_scheme="light")
    tab.page.goto("about:blank")
    yield tab
    # The browser remembers which panels are open; the next test begins with the usual ones.
    tab.page.evaluate("location.protocol === 'about:' || localStorage.removeItem('sylva-frame')")
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.get_by_test_id("stException").all_inner_texts() == []
    assert tab.errors == []
