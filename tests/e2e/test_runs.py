"""The Runs page in a real browser: the graph of a run, in both themes, by both components."""

from __future__ import annotations

from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.values import Report
from engine.workspace import Workspace
from tests.e2e.studio import Studio
from tests.e2e.tab import PATIENCE, gone
from tests.ui.studio.compare.lab import judged_run, pipeline
from tests.waiting import until
from ui.studio.session import Studio as Workshop

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

COMPONENT = "**/component/streamlit_flow**"
BRIGHT = """elements => {
    const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const names = [];
    for (const element of elements) {
        const style = getComputedStyle(element);
        paint.clearRect(0, 0, 1, 1);
        paint.fillStyle = style.backgroundColor;
        paint.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = paint.getImageData(0, 0, 1, 1).data;
        if (alpha > 127 && (red + green + blue) / 3 > 110) names.push(element.className);
    }
    return names;
}"""
"""Which elements have a bright background; the canvas turns any notation into numbers."""


@pytest.fixture
def run(place: tuple[str, Workspace]) -> str:
    """A finished run of a pipeline with labels, whose evaluation has a figure."""
    document = pipeline(one="mart")
    labels = {"one": "Boosted trees", "evaluate_one": "How good it is"}
    nodes = dict(document.nodes)
    for name, label in labels.items():
        nodes[name] = nodes[name].model_copy(update={"label": label})
    report = Report("evaluation", "MART", {"accuracy": 0.974, "rows": 500})
    studio = Workshop(place[1], load_catalog())
    document = document.model_copy(update={"nodes": nodes, "name": "Labelled"})
    return judged_run(studio, document, evaluate_one=report)


def open_in_flow(studio: Studio, run: str) -> Any:
    """The frame of streamlit-flow, with the graph in it.

    A slow browser may get the canvas instead; the next visit has the files of the component.
    """
    flow = studio.page.frame_locator("iframe[title*=streamlit_flow]")

    def drawn() -> bool:
        studio.page.goto(f"{studio.address}/runs?run={run}")
        try:
            flow.locator(".node-title").first.wait_for(timeout=15_000)
        except gone():
            return False
        return True

    until(drawn, 3 * PATIENCE, what="the graph")
    return flow


def chosen_node(page: Any) -> str:
    """What the list of nodes below the graph shows."""
    read = "box => box.innerText + [...box.querySelectorAll('input')].map(each => each.value)"
    try:
        return str(page.get_by_test_id("stSelectbox").first.evaluate(read, timeout=2_000))
    except gone():
        return ""


def test_the_graph_of_a_run_shows_its_result_in_both_themes_and_without_streamlit_flow(
    studio: Studio, run: str
) -> None:
    page = studio.page
    page.emulate_media(color_scheme="dark")
    flow = open_in_flow(studio, run)
    evaluation = flow.locator('.react-flow__node[data-id="evaluate_one"]')
    expect(evaluation.locator(".node-title")).to_have_text("How good it is")
    expect(evaluation.locator(".node-headline")).to_have_text("97.4 %")
    expect(evaluation.locator(".state-done")).to_be_visible()
    # The component gets the theme with the nodes, and again when it changes.
    parts = flow.locator("body, .react-flow, .node, .react-flow__controls-button")
    until(lambda: parts.count() > 4 and parts.evaluate_all(BRIGHT) == [], what="a dark graph")
    studio.shoot("run-dark")

    # A click shows the node below the graph.
    title = flow.locator('.react-flow__node[data-id="one"] .node-title')
    studio.click_until(title, lambda: "Boosted trees" in chosen_node(page), "the node")

    page.emulate_media(color_scheme="light")
    until(lambda: "state-done" in str(parts.evaluate_all(BRIGHT)), what="a light graph")
    studio.shoot("run-light")

    # The browser cannot load the component: the canvas draws the graph.
    page.route(COMPONENT, lambda route: route.abort())
    try:
        page.goto(f"{studio.address}/runs?run={run}")
        expect(studio.node("evaluate_one").locator(".node-headline")).to_have_text("97.4 %")
        expect(page.locator("iframe[title*=streamlit_flow]")).to_have_count(0)
        studio.shoot("run-canvas")
    finally:
        page.unroute(COMPONENT)
