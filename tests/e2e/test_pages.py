"""Every page in a real browser, in both themes: nothing in the console, no failed request, and
nothing that axe-core reports as serious or critical for people who use assistive technology."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.plan import RunOptions
from engine.runs import Runs
from engine.supervisor_starter import SupervisorStarter
from tests.e2e.studio import Studio
from tests.e2e.tab import PATIENCE, waited
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
expect = playwright.expect

MODEL = "wine-forest"
SETTLED = """() => {
    const app = document.querySelector('[data-testid="stApp"]');
    const unfinished = document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]');
    return app?.dataset.testScriptState === "notRunning" && !unfinished;
}"""
SERIOUS = """async () => {
    const report = await axe.run(document, { resultTypes: ["violations"] });
    return report.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
        .flatMap(({ id, nodes }) => nodes.map(({ html, any, all, none }) =>
            [id, html.slice(0, 300), [...any, ...all, ...none].map(check => check.message)]));
}"""


def wine() -> Pipeline:
    """A pipeline with something to see on every page."""
    few = {"learners": [{"kind": "random_forest", "trees": 10}], "max_layers": 2}
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:wine"}, label="Wines"),
        "split": Node(type="split"),
        "forest": Node(type="deep-forest", params=few),
        "mart": Node(type="mart", params={"trees": 20}),
        "predict": Node(type="predict"),
        "predict_mart": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
        "evaluate_mart": Node(type="evaluate", label="MART alone"),
        "inspect": Node(type="inspect-layers"),
        "save": Node(type="save-model", params={"name": MODEL}),
    }
    wires = [
        ("load.table", "split.table"),
        ("split.train", "forest.table"),
        ("split.train", "mart.table"),
        ("forest.model", "predict.model"),
        ("split.test", "predict.table"),
        ("mart.model", "predict_mart.model"),
        ("split.test", "predict_mart.table"),
        ("predict.predictions", "evaluate.predictions"),
        ("predict_mart.predictions", "evaluate_mart.predictions"),
        ("forest.model", "inspect.model"),
        ("split.test", "inspect.table"),
        ("forest.model", "save.model"),
    ]
    layout = {name: (at % 4 * 288.0, at // 4 * 192.0) for at, name in enumerate(nodes)}
    edges = tuple(Edge.between(*wire) for wire in wires)
    return Pipeline(name="Wines", nodes=nodes, edges=edges, layout=layout)


@pytest.fixture
def run(tab: Studio) -> tuple[str, str]:
    """The pipeline, and its finished run."""
    pipeline = tab.library.create(wine())
    with (
        SupervisorStarter() as starter,
        Runs(tab.workspace, load_catalog(), starter=starter) as runs,
    ):
        run = runs.start(wine(), RunOptions(pipeline_id=pipeline))
        until(lambda: runs.state(run).state == "done", PATIENCE, "the end of the run")
    return pipeline, run


@pytest.fixture
def complaints(studio: Studio) -> Iterator[list[str]]:
    """Everything that went wrong in the browser, each with the page on which it did."""
    found: list[str] = []
    page = studio.page

    def note(what: str) -> None:
        found.append(f"{page.url}: {what}")

    def note_message(message: Any) -> None:
        if message.type == "error":
            note(message.text)

    def note_response(response: Any) -> None:
        if response.status >= 400:
            note(f"{response.status} for {response.url}")

    def note_failure(request: Any) -> None:
        # The browser itself stops what is under way when it leaves a page.
        if "ERR_ABORTED" not in str(request.failure):
            note(f"{request.failure} for {request.url}")

    listeners = {
        "console": note_message,
        "response": note_response,
        "requestfailed": note_failure,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield found
    for event, listener in listeners.items():
        page.remove_listener(event, listener)


def settle(studio: Studio) -> None:
    """Wait until the page is drawn, and all of it."""
    studio.page.wait_for_function(SETTLED)
    assert studio.page.get_by_test_id("stException").all_inner_texts() == []


def findings(studio: Studio) -> list[str]:
    """What axe reports as serious or critical in the page as it is now."""
    found = studio.page.evaluate(SERIOUS)
    return [f"{rule}: {html} {' '.join(messages)}" for rule, html, messages in found]


def check(studio: Studio, scheme: str) -> list[str]:
    """Choose a theme, and return what axe finds once colours and drawing have settled."""
    page = studio.page
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function(
        "scheme => document.documentElement.dataset.theme === scheme", arg=scheme
    )
    settle(studio)
    found: list[str] = []

    def is_clean() -> bool:
        found[:] = findings(studio)
        return not found

    # Colours fade from one theme to the other; what stays is a finding.
    waited(is_clean, 5)
    return [f"{page.url} ({scheme}): {each}" for each in found]


def test_every_page_is_clean_and_accessible_in_both_themes(
    studio: Studio, run: tuple[str, str], complaints: list[str]
):
    page, (pipeline, run_id) = studio.page, run
    forest = f"inspect?run={run_id}&node=inspect"
    canvas = page.locator('[data-testid="stDataFrame"] canvas').first
    plot = page.locator(".js-plotly-plot .main-svg").first
    heading: Callable[[str], Any] = lambda name: page.get_by_role("heading", name=name).first  # noqa: E731
    pages = [
        ("", page.locator(".st-key-pipelines img").first),
        (f"build?pipeline={pipeline}", studio.node("forest")),
        ("runs", canvas),
        (f"runs?run={run_id}", heading("Wines")),
        ("inspect", canvas),
        (forest, plot),
        (f"{forest}&tab=Margins", plot),
        (f"{forest}&tab=t-SNE", page.locator(".row-maps canvas").first),
        (f"{forest}&tab=One+row", plot),
        (f"compare?runs={run_id}", plot),
        ("data?file=sample:wine", heading("Wine (sample)")),
        (f"models?model={MODEL}", heading(MODEL)),
    ]
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    found: list[str] = []
    for address, sign in pages:
        page.emulate_media(color_scheme="light")
        page.goto(f"{studio.address}/{address}")
        expect(sign).to_be_visible()
        if address.startswith("build"):
            studio.choose("forest")
        settle(studio)
        page.evaluate(axe)
        found += check(studio, "light") + check(studio, "dark")
    assert found == [], json.dumps(found, indent=1)

    # By click: the pages are drawn without a load of the document.
    for name in ("Build", "Runs", "Inspect", "Compare", "Data", "Models"):
        page.get_by_role("link", name=name).click()
        page.wait_for_url(f"**/{name.lower()}*")
        settle(studio)
    assert complaints == [], json.dumps(complaints, indent=1)
