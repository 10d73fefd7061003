"""Inspect in a real browser: a forest chosen from the list, its maps brushed, one row followed."""

from __future__ import annotations

from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.workspace import Workspace
from tests.e2e.studio import Studio
from tests.e2e.tab import waited
from tests.ui.studio.inspect.lab import inspected_run, large
from tests.waiting import until
from ui.studio.session import Studio as Workshop

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

ROWS = 2_000


@pytest.fixture(scope="module")
def run(place: tuple[str, Workspace]) -> str:
    """A finished run with an inspection of three layers, written as the node writes it."""
    found, _ = inspected_run(Workshop(place[1], load_catalog()), large(ROWS, 3))
    return found


def opened(studio: Studio, run: str, name: str) -> Any:
    """The page of an inspection with a tab open; what is in the tab."""
    studio.page.goto(f"{studio.address}/inspect?run={run}&node=inspect")
    return choose(studio, name)


def choose(studio: Studio, name: str) -> Any:
    studio.page.get_by_role("tab", name=name, exact=True).click()
    section = studio.page.locator(f".st-key-inspect-{name.lower().replace(' ', '-')}")
    expect(section).to_be_visible()
    return section


def plots(place: Any, count: int) -> None:
    expect(place.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    expect(place.locator(".js-plotly-plot")).to_have_count(count)


def brush(studio: Studio, layer: int) -> int:
    """Drag a frame over the left half of a map; how many rows are marked then."""
    canvas, maps = (
        studio.page.locator(f'canvas[data-layer="{layer}"]'),
        studio.page.locator(".row-maps"),
    )
    expect(canvas).to_be_visible()
    canvas.scroll_into_view_if_needed()
    box = studio.box(canvas)
    studio.pull(
        (box["x"] + 3, box["y"] + 3), (box["x"] + box["width"] / 2, box["y"] + box["height"] - 3)
    )
    return until(lambda: int(maps.get_attribute("data-marked") or 0), what="marked rows")


def test_a_forest_is_chosen_from_the_list_and_its_growth_is_seen(studio: Studio, run: str):
    studio.page.goto(f"{studio.address}/inspect")
    grid = studio.page.locator('[data-testid="stDataFrame"] canvas').first
    expect(grid).to_be_visible()

    def chosen() -> bool:  # the newest is first; a table that has just appeared may not listen yet
        if "run=" not in studio.page.url and grid.is_visible():
            box = studio.box(grid)
            studio.page.mouse.click(box["x"] + 120, box["y"] + 52)
        # Another click would undo the choice, so it is given time to have its effect.
        return waited(lambda: "run=" in studio.page.url, 2)

    until(chosen, what="the choice of a forest")
    expect(studio.page.locator(".st-key-inspect-growth .js-plotly-plot").first).to_be_visible()
    plots(opened(studio, run, "Growth"), 3)
    studio.shoot("inspect-growth")


def test_rows_brushed_in_one_map_are_marked_in_all_listed_and_taken_along(studio: Studio, run: str):
    section = opened(studio, run, "t-SNE")
    maps, listing = studio.page.locator(".row-maps"), studio.page.locator(".st-key-inspect-marked")
    count = brush(studio, 1)
    assert ROWS / 10 < count < ROWS
    expect(listing).to_contain_text(f"{count:,}".replace(",", ""))
    expect(listing.get_by_test_id("stDataFrame")).to_be_visible()
    studio.shoot("inspect-brushed")
    section.get_by_role("radio", name="Mistakes").or_(
        section.get_by_text("Mistakes", exact=True)
    ).first.click()
    expect(maps).to_have_attribute("data-by", "mistake")
    expect(maps).to_have_attribute("data-marked", str(count))
    lines = (
        studio.download(listing.get_by_role("button", name="Download data (CSV)"))
        .read_text()
        .splitlines()
    )
    assert lines[0].startswith("row,truth,") and len(lines) == count + 1
    assert studio.download(maps.get_by_role("button", name="SVG")).read_text().startswith("<svg")
    choose(studio, "Learners")
    choose(studio, "t-SNE")
    expect(maps).to_have_attribute("data-marked", str(count))
    maps.get_by_role("button", name="Clear").click()
    expect(maps).to_have_attribute("data-marked", "0")
    expect(listing.get_by_test_id("stDataFrame")).to_have_count(0)


def test_one_row_is_followed_and_the_slider_moves_what_would_leave(studio: Studio, run: str):
    opened(studio, run, "One row")
    plots(studio.page.locator(".st-key-inspect-way"), 2)
    studio.shoot("inspect-row")
    choose(studio, "Screening")
    would = studio.page.locator(".st-key-inspect-what-if")
    expect(would).to_contain_text("0.10")
    studio.page.get_by_role("slider").press("ArrowRight")
    expect(would).to_contain_text("0.11")
    plots(would, 1)
