"""Inspect in a real browser: from the list to the maps of two forests, and to one row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.workspace import Workspace
from tests.e2e.studio import Studio
from tests.e2e.tab import waited
from tests.ui.studio.inspect.lab import inspected_run, large, with_images, with_input
from tests.waiting import until
from ui.studio.session import Studio as Workshop

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

ROWS = 600
NEXT_FRAME = (
    "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
)


@pytest.fixture(scope="module")
def runs(place: tuple[str, Workspace]) -> tuple[str, str]:
    """Two runs that inspected forests on the same rows, written as the node writes them."""
    workshop = Workshop(place[1], load_catalog())
    first, second = (with_images(with_input(large(ROWS, depth), range(ROWS))) for depth in (3, 2))
    return inspected_run(workshop, first)[0], inspected_run(workshop, second, label="mdDF")[0]


@pytest.fixture
def complaints(studio: Studio) -> Iterator[list[str]]:
    """What the browser reports as an error while the test runs."""
    found: list[str] = []

    def listen(message: Any) -> None:
        if message.type == "error":
            found.append(message.text)

    studio.page.on("console", listen)
    yield found
    studio.page.remove_listener("console", listen)


def choose_from_list(studio: Studio) -> None:
    grid = studio.page.locator('[data-testid="stDataFrame"] canvas').first
    expect(grid).to_be_visible()

    def chosen() -> bool:  # a table that has just appeared may not listen yet
        if "run=" not in studio.page.url and grid.is_visible():
            box = studio.box(grid)
            studio.page.mouse.click(box["x"] + 120, box["y"] + 52)
        # Another click would undo the choice, so it is given time to have its effect.
        return waited(lambda: "run=" in studio.page.url, 2)

    until(chosen, what="the choice of a forest")


def open_tab(studio: Studio, name: str) -> Any:
    section = studio.page.locator(f".st-key-inspect-{name.lower().replace(' ', '-')}")
    tab = studio.page.get_by_role("tab", name=name, exact=True)
    expect(tab).to_be_visible()
    studio.click_until(tab, section.is_visible, f"the tab {name}")
    return section


def brush(studio: Studio, canvas: Any) -> int:
    """Drag a frame over the left half of a map; how many rows are marked then."""
    maps = studio.page.locator(".row-maps")

    def dragged() -> int:  # the maps may be drawn again while the mouse is down
        canvas.scroll_into_view_if_needed()
        box = studio.box(canvas)
        studio.pull(
            (box["x"] + 3, box["y"] + 3),
            (box["x"] + box["width"] / 2, box["y"] + box["height"] - 3),
        )
        # The end of the drag is drawn with the next frame.
        studio.page.evaluate(NEXT_FRAME)
        return marked(maps)

    return until(dragged, what="marked rows")


def marked(maps: Any) -> int:
    return int(maps.get_attribute("data-marked") or 0)


def test_a_forest_is_chosen_and_rows_are_followed_through_the_maps_of_two_forests(
    studio: Studio, runs: tuple[str, str], complaints: list[str]
):
    page, (first, second) = studio.page, runs
    page.goto(f"{studio.address}/inspect")
    choose_from_list(studio)
    expect(page.locator(".st-key-inspect-growth .js-plotly-plot .main-svg").first).to_be_visible()
    studio.shoot("inspect-growth")

    # Rows that are marked in one map are marked in those of both forests, and listed.
    page.goto(f"{studio.address}/inspect?run={first}&node=inspect&tab=t-SNE&with={second}/inspect")
    maps, listing = page.locator(".row-maps"), page.locator(".st-key-inspect-marked")
    expect(maps.locator("section.group")).to_have_count(2)
    expect(maps.locator("canvas.map")).to_have_count(4 + 3)
    expect(maps).to_have_attribute("data-pictures", "shown")
    count = brush(studio, maps.locator("section.group").nth(1).locator('canvas[data-layer="1"]'))
    assert ROWS / 10 < count < ROWS
    expect(listing).to_contain_text(f"{count} rows marked")
    expect(listing.get_by_test_id("stDataFrame")).to_be_visible()
    studio.shoot("inspect-brushed")
    csv = studio.download(listing.get_by_role("button", name="Download data (CSV)")).read_text()
    assert csv.startswith("row,truth,") and len(csv.splitlines()) == count + 1

    # Zoom, by button and by wheel.
    studio.click_until(
        maps.get_by_role("button", name="Zoom in"),
        lambda: maps.get_attribute("data-zoom") != "1.00",
        "the zoom",
    )
    zoomed = float(maps.get_attribute("data-zoom") or 0)
    maps.locator("canvas.map").first.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    until(lambda: float(maps.get_attribute("data-zoom") or 0) > zoomed, what="more zoom")
    maps.get_by_role("button", name="Reset view").click()
    expect(maps).to_have_attribute("data-zoom", "1.00")
    assert marked(maps) == count, "the marks stay"
    assert studio.download(maps.get_by_role("button", name="SVG")).read_text().startswith("<svg")

    # One row: its nearest rows are images, and are found again in the maps.
    open_tab(studio, "One row")
    near = page.locator(".st-key-inspect-neighbours")
    expect(near.locator("section")).to_have_count(4)
    expect(near.locator("img").first).to_be_visible()
    studio.shoot("inspect-row")

    # A click on a neighbour opens its row.
    def row() -> str:
        return page.get_by_role("combobox", name="Row").first.input_value()

    shown = row()
    studio.click_until(near.locator("section button").first, lambda: row() != shown, "the row")
    expect(near.locator("section")).to_have_count(4)
    studio.click_until(
        near.get_by_role("button", name="Show them in the maps"), maps.is_visible, "the maps"
    )
    until(lambda: 8 < marked(maps) <= 1 + 4 * 8, what="the marks of the nearest rows")
    assert complaints == []
