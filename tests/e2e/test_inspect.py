"""Inside a deep forest in a real browser: a run of the digits sample, its maps brushed, one row followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.catalogue import load_catalogue
from engine.document import Document, Edge, Node
from engine.plan import Request
from engine.state import run_state
from engine.workspace import Workspace
from tests.e2e.studio import PATIENCE, studio_at
from tests.e2e.tab import Tab, until
from tests.ui.inspect.lab import inspected_run, large
from ui.studio import Studio

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

MS = PATIENCE * 1000
SMALL_FOREST = {
    "learners": [{"kind": "random_forest", "trees": 10}, {"kind": "completely_random_forest", "trees": 10}],
    "max_layers": 2,
    "folds": 3,
}


def digits() -> Document:
    return Document(
        name="Digits, inspected",
        nodes={
            "load": Node(type="load-data", params={"source": "sample:digits"}),
            "split": Node(type="split"),
            "forest": Node(type="deep-forest", params=SMALL_FOREST),
            "inspect": Node(type="inspect-layers", params={"rows": 300}),
        },
        edges=(
            Edge.between("load.table", "split.table"),
            Edge.between("split.train", "forest.table"),
            Edge.between("forest.model", "inspect.model"),
            Edge.between("split.test", "inspect.table"),
        ),
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Studio]]:
    """Address, finished run, and the studio's workspace."""
    studio = Studio(Workspace(tmp_path_factory.mktemp("inspect")).create(), load_catalogue())
    run = studio.start(digits(), Request())

    def finished() -> bool:
        with studio.log() as log:
            state = run_state(log, log.run(run))
        assert state.live or state.state == "done", state
        return not state.live

    try:
        until(finished, 300, "the run")
    finally:
        studio.launcher.close()
    with studio_at(studio.workspace.root) as address:
        yield address, run, studio


@pytest.fixture
def tab(place: tuple[str, str, Studio], browser: Any, request: pytest.FixtureRequest) -> Iterator[Tab]:
    scheme = getattr(request, "param", "light")
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme=scheme, accept_downloads=True)
    tab = Tab(context.new_page(), place[0])
    yield tab
    broken = tab.page.locator('[data-testid="stException"]')
    if broken.count():
        tab.errors.append(broken.first.inner_text())
    context.close()
    assert not tab.errors


def opened(tab: Tab, run: str, node: str = "inspect", name: str = "Growth") -> Any:
    """The page of an inspection with a tab open; what is in the tab."""
    tab.page.goto(f"{tab.address}/inspect?run={run}&node={node}")
    choose(tab, name)
    return tab.page.locator(f".st-key-inspect-{name.lower().replace(' ', '-')}")


def choose(tab: Tab, name: str) -> None:
    tab.page.get_by_role("tab", name=name, exact=True).click(timeout=MS)
    expect(tab.page.locator(f".st-key-inspect-{name.lower().replace(' ', '-')}")).to_be_visible(timeout=MS)


def plots(place: Any, count: int) -> None:
    expect(place.locator(".js-plotly-plot .main-svg").first).to_be_visible(timeout=MS)
    expect(place.locator(".js-plotly-plot")).to_have_count(count, timeout=MS)


def brush(tab: Tab, layer: int) -> None:
    """Drag a frame over the left half of a map."""
    canvas = tab.page.locator(f'canvas[data-layer="{layer}"]')
    expect(canvas).to_be_visible(timeout=MS)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    tab.pull((box["x"] + 3, box["y"] + 3), (box["x"] + box["width"] / 2, box["y"] + box["height"] - 3))


def marked(tab: Tab) -> int:
    return int(tab.page.locator(".row-maps").get_attribute("data-marked") or 0)


def test_a_run_is_chosen_from_the_list_and_its_growth_is_seen(tab: Tab, place: tuple[str, str, Studio]):
    tab.page.goto(f"{tab.address}/inspect")
    grid = tab.page.locator('[data-testid="stDataFrame"] canvas').first
    expect(grid).to_be_visible(timeout=MS)
    box = grid.bounding_box()

    def clicked() -> bool:  # a table that has just appeared may not listen yet
        tab.page.mouse.click(box["x"] + 120, box["y"] + 52)
        tab.page.wait_for_timeout(1000)
        return f"run={place[1]}" in tab.page.url

    until(clicked, PATIENCE, "the choice of a run")
    plots(tab.page.locator(".st-key-inspect-growth"), 3)
    expect(tab.page.locator(".st-key-inspect-words")).to_contain_text("Growth stopped", timeout=MS)
    tab.shoot("inspect-growth")


def test_rows_brushed_in_one_map_are_marked_in_all_and_listed(tab: Tab, place: tuple[str, str, Studio]):
    section = opened(tab, place[1], name="t-SNE")
    brush(tab, 1)
    until(lambda: marked(tab) > 0, PATIENCE)
    count = marked(tab)
    assert 0 < count < 300
    listing = tab.page.locator(".st-key-inspect-marked")
    expect(listing).to_contain_text(f"{count} rows marked", timeout=MS)
    expect(listing.locator('[data-testid="stDataFrame"]')).to_be_visible(timeout=MS)
    tab.shoot("inspect-brushed")
    section.get_by_role("button", name="Mistakes", exact=True).or_(
        section.get_by_text("Mistakes", exact=True)
    ).first.click()
    expect(tab.page.locator(".row-maps")).to_have_attribute("data-by", "mistake", timeout=MS)
    assert marked(tab) == count, "another colour keeps the marks"
    with tab.page.expect_download(timeout=MS) as download:
        listing.get_by_role("button", name="Numbers as CSV").click()
    text = download.value.path().read_text()
    assert text.startswith("row,truth,said after layer 1") and len(text.splitlines()) == count + 1
    with tab.page.expect_download(timeout=MS) as download:
        tab.page.locator(".row-maps").get_by_role("button", name="SVG").click()
    assert download.value.path().read_text().startswith("<svg")
    tab.page.locator(".row-maps").get_by_role("button", name="Clear").click()
    expect(listing).to_contain_text("Mark rows in a map", timeout=MS)
    assert marked(tab) == 0


def test_marks_outlive_a_look_at_another_tab(tab: Tab, place: tuple[str, str, Studio]):
    opened(tab, place[1], name="t-SNE")
    brush(tab, 2)
    until(lambda: marked(tab) > 0, PATIENCE)
    count = marked(tab)
    expect(tab.page.locator(".st-key-inspect-marked")).to_contain_text(f"{count} rows marked", timeout=MS)
    choose(tab, "Learners")
    choose(tab, "t-SNE")
    expect(tab.page.locator(".row-maps")).to_have_attribute("data-marked", str(count), timeout=MS)


def test_one_row_is_followed_and_the_slider_moves_what_would_leave(tab: Tab, place: tuple[str, str, Studio]):
    opened(tab, place[1], name="One row")
    way = tab.page.locator(".st-key-inspect-way")
    plots(way, 2)
    expect(way).to_contain_text("Layer 1 said", timeout=MS)
    tab.shoot("inspect-row")
    choose(tab, "Screening")
    would = tab.page.locator(".st-key-inspect-what-if")
    expect(would).to_contain_text("With a = 0.10", timeout=MS)
    tab.page.get_by_role("slider").press("ArrowRight")
    expect(would).to_contain_text("With a = 0.11", timeout=MS)
    plots(would, 1)


@pytest.mark.parametrize("tab", ["dark"], indirect=True)
def test_every_part_is_drawn_in_the_dark(tab: Tab, place: tuple[str, str, Studio]):
    opened(tab, place[1], name="t-SNE")
    expect(tab.page.locator('canvas[data-layer="1"]')).to_be_visible(timeout=MS)
    tab.shoot("inspect-dark")
    for name, count in (("Growth", 3), ("Margins", 1), ("Learners", 4)):
        choose(tab, name)
        plots(tab.page.locator(f".st-key-inspect-{name.lower()}"), count)


def test_a_forest_itself_shows_its_growth_and_where_to_see_more(tab: Tab, place: tuple[str, str, Studio]):
    section = opened(tab, place[1], node="forest")
    plots(section, 3)
    expect(tab.page.get_by_text("This forest is inspected in the same run")).to_be_visible(timeout=MS)


def test_four_layers_of_five_thousand_rows_are_shown_and_brushed(tab: Tab, place: tuple[str, str, Studio]):
    run, _ = inspected_run(place[2], large())
    plots(opened(tab, run), 3)
    choose(tab, "t-SNE")
    brush(tab, 4)
    until(lambda: marked(tab) > 500, PATIENCE)
    expect(tab.page.locator(".st-key-inspect-marked")).to_contain_text("rows marked", timeout=MS)
