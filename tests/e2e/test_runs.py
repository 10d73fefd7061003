"""The Runs page in a real browser: the graph of a run, in both themes, by both components."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.events import EventLog
from tests.e2e.studio import Studio
from tests.e2e.tab import PATIENCE, gone
from tests.waiting import until

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


def finished_example(studio: Studio) -> str:
    """The run of the example, which the studio made at its first start."""

    def newest() -> str | None:
        with EventLog(studio.workspace) as log:
            rows = [row for row in log.runs() if row.name == "Deep forest"]
        return rows[-1].id if rows else None

    return str(until(newest, what="the run of the example"))


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


def test_the_graph_of_a_run_shows_its_result_in_both_themes_and_without_streamlit_flow(
    studio: Studio,
) -> None:
    page, run = studio.page, finished_example(studio)
    page.emulate_media(color_scheme="dark")
    flow = open_in_flow(studio, run)
    compare = flow.locator('.react-flow__node[data-id="compare"]')
    expect(compare.locator(".node-title")).to_have_text("Compare")
    expect(compare.locator(".node-headline")).to_have_text(re.compile(r"^\d+\.\d( %|\d\d)$"))
    expect(compare.locator(".state-done, .state-cached")).to_be_visible()
    # The component follows the theme when it gets it.
    parts = flow.locator("body, .react-flow, .node, .react-flow__controls-button")
    until(lambda: parts.count() > 4 and parts.evaluate_all(BRIGHT) == [], what="a dark graph")
    studio.shoot("run-dark")

    # A click shows the node below the graph.
    node = page.get_by_role("combobox", name=re.compile("Node"))
    title = flow.locator('.react-flow__node[data-id="forest"] .node-title')
    name = title.inner_text()
    studio.click_until(title, lambda: name in (node.first.input_value() or ""), "the node")

    page.emulate_media(color_scheme="light")
    until(lambda: "node" in str(parts.evaluate_all(BRIGHT)), what="a light graph")
    studio.shoot("run-light")

    # The browser cannot load the component: the canvas draws the graph.
    page.route(COMPONENT, lambda route: route.abort())
    try:
        page.goto(f"{studio.address}/runs?run={run}")
        expect(studio.node("compare").locator(".node-headline")).to_be_visible()
        expect(page.locator("iframe[title*=streamlit_flow]")).to_have_count(0)
        studio.shoot("run-canvas")
    finally:
        page.unroute(COMPONENT)
