"""The canvas in a real browser, in a real Streamlit app (``tests/ui/canvas/app.py``), with the real node types."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.tab import PATIENCE, ROOT, Tab, free_port, served, until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

APP = ROOT / "tests" / "ui" / "canvas" / "app.py"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("canvas")
    log = folder / "log.jsonl"
    log.touch()
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(APP), "--server.port", str(port)]
    settings = {"server.headless": "true", "browser.gatherUsageStats": "false", "server.fileWatcherType": "none"}
    command += [part for name, value in settings.items() for part in (f"--{name}", value)]
    command += ["--server.address", "127.0.0.1"]
    with served(command, port, folder, CANVAS_LOG=str(log), PYTHONPATH=str(ROOT)) as address:
        yield address, log


class Studio(Tab):
    """The canvas in a small app, and what Python noted of it."""

    def __init__(self, page: Any, address: str, log: Path) -> None:
        super().__init__(page, address)
        self.log, self.start = log, log.stat().st_size

    def open(self, query: str) -> Studio:
        self.page.goto(f"{self.address}/?{query}")
        self.page.wait_for_selector(".stage")
        if "doc=empty" not in query:
            self.page.wait_for_selector(".react-flow__node")
        until(self.records)
        time.sleep(0.3)
        return self

    def records(self) -> list[dict[str, Any]]:
        with self.log.open("rb") as log:
            log.seek(self.start)
            return [json.loads(line) for line in log.read().splitlines()]

    def python(self, holds: Callable[[dict[str, Any]], Any], seconds: float = PATIENCE) -> dict[str, Any]:
        """The newest record, once it is as expected."""
        try:
            until(lambda: self.records() and holds(self.records()[-1]), seconds)
        except AssertionError:
            raise AssertionError(f"Python has {json.dumps(self.records()[-1])[:2000]}") from None
        return self.records()[-1]

    @contextmanager
    def slowly(self, button: str) -> Iterator[None]:
        """What is done while Python is at work on a button's click."""
        self.button(button).click()
        waiting = self.log.with_suffix(".waiting")
        until(waiting.exists)
        yield
        waiting.unlink()

    def resting_places(self) -> dict[str, tuple[float, float]]:
        """Where the nodes are once nothing moves any more."""
        seen = [self.places()]
        until(lambda: self.page.wait_for_timeout(300) or seen.append(self.places()) or seen[-2] == seen[-1])
        return seen[-1]


@pytest.fixture
def studio(server: tuple[str, Path], browser: Any, request: pytest.FixtureRequest) -> Iterator[Studio]:
    scheme = getattr(request, "param", "light")
    context = browser.new_context(viewport={"width": 1440, "height": 880}, color_scheme=scheme)
    studio = Studio(context.new_page(), *server)
    yield studio
    context.close()
    assert not studio.errors


def edges_of(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(edge["from"], edge["to"]) for edge in record["document"]["edges"]]


def names_of(record: dict[str, Any]) -> list[str]:
    return list(record["document"]["nodes"])


WIRES = [
    ("load-data.table", "split.table"),
    ("split.train", "deep-forest.table"),
    ("split.test", "predict.table"),
    ("deep-forest.model", "predict.model"),
    ("predict.predictions", "evaluate.predictions"),
]


def test_five_steps_are_built_by_mouse_from_an_empty_canvas(studio: Studio):
    studio.open("doc=empty")
    places = {
        "load-data": (140, 150), "split": (400, 150), "deep-forest": (660, 120),
        "predict": (660, 320), "evaluate": (920, 320),
    }  # fmt: skip
    for name, place in places.items():
        studio.drop(name, *place)
    studio.python(lambda record: names_of(record) == list(places))
    for wire in WIRES:
        studio.connect(*wire)
    record = studio.python(lambda record: edges_of(record) == WIRES)
    assert all(x % 16 == 0 and y % 16 == 0 for x, y in record["document"]["layout"].values())
    assert record["selection"] == ["evaluate"]
    studio.shoot("built")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("load-data.table", "predict.model", "takes model, and this is table"),
        ("split.train", "deep-forest.table", "there already"),
        ("predict.predictions", "predict.table", "cannot feed itself"),
    ],
)
def test_a_wrong_connection_is_refused_with_the_reason(studio: Studio, source: str, target: str, reason: str):
    studio.open("doc=five")
    studio.connect(source, target, let_go=False)
    studio.page.wait_for_selector(".refusal")
    assert reason in studio.page.locator(".refusal").inner_text()
    studio.shoot(f"refused-{target}")
    studio.page.mouse.up()
    time.sleep(0.5)
    assert edges_of(studio.records()[-1]) == WIRES
    assert studio.page.locator(".refusal").count() == 0


def test_a_circle_is_refused(studio: Studio):
    studio.open("doc=empty")
    studio.drop("sample", 200, 200)
    studio.drop("select-columns", 520, 200)
    studio.connect("sample.table", "select-columns.table")
    studio.python(lambda record: len(edges_of(record)) == 1)
    studio.connect("select-columns.table", "sample.table", let_go=False)
    assert "close a circle" in studio.page.locator(".refusal").inner_text()
    studio.page.mouse.up()


def test_every_edit_is_undone_and_redone(studio: Studio):
    studio.open("doc=five")
    before = studio.records()[-1]["document"]
    studio.click("predict")
    studio.press("Delete")
    studio.python(lambda record: "predict" not in names_of(record) and len(edges_of(record)) == 2)
    studio.drop("mart", 400, 420)
    studio.python(lambda record: "mart" in names_of(record))
    studio.press("Control+z")
    studio.press("Control+z")
    studio.python(lambda record: record["document"] == before)
    studio.press("Control+Shift+z")
    studio.python(lambda record: "predict" not in names_of(record))
    studio.press("Control+y")
    studio.python(lambda record: "mart" in names_of(record))
    studio.button("Undo").click()
    studio.button("Undo").click()
    studio.python(lambda record: record["document"] == before)
    assert studio.button("Undo").is_disabled()


def test_undo_brings_back_the_parameters_of_a_deleted_node(studio: Studio):
    studio.open("doc=five")
    studio.click("load-data")
    studio.press("Backspace")
    studio.python(lambda record: "load-data" not in names_of(record))
    studio.press("Control+z")
    record = studio.python(lambda record: "load-data" in names_of(record))
    assert record["document"]["nodes"]["load-data"]["params"] == {"source": "sample:digits"}
    assert names_of(record)[0] == "load-data"


def test_a_parameter_set_by_python_is_shown_and_undone(studio: Studio):
    studio.open("doc=five")
    studio.button("Set parameter").click()
    playwright.expect(studio.node("load-data").locator(".step-title")).to_have_text("Renamed")
    studio.button("Undo").click()
    record = studio.python(lambda record: record["document"]["nodes"]["load-data"]["label"] == "")
    assert record["document"]["nodes"]["load-data"]["params"] == {"source": "sample:digits"}
    assert any(record["restored"] == ["load-data"] for record in studio.records())


def test_nodes_and_edges_are_deleted_by_key_and_the_keyboard_stays_in_the_canvas(studio: Studio):
    studio.open("doc=five")
    studio.click("evaluate")
    studio.press("Delete")
    studio.python(lambda record: "evaluate" not in names_of(record))
    studio.press("Control+a")
    studio.press("Delete")
    studio.python(lambda record: not names_of(record) and not record["document"]["notes"])


def test_an_edge_is_selected_and_deleted(studio: Studio):
    studio.open("doc=five")
    (x1, y1), (x2, y2) = (
        studio.centre(studio.handle(end, side)) for end, side in zip(WIRES[0], ("output", "input"), strict=True)
    )
    studio.page.mouse.click((x1 + x2) / 2, (y1 + y2) / 2)
    studio.press("Delete")
    studio.python(lambda record: edges_of(record) == WIRES[1:])


def end_of(studio: Studio, wire: tuple[str, str], side: str = "target") -> tuple[float, float]:
    """Where an edge is taken by its end."""
    edge = studio.page.locator(f'.react-flow__edge[data-id="{wire[0]}>{wire[1]}"]')
    return studio.centre(edge.locator(f".react-flow__edgeupdater-{side}"))


def test_the_end_of_an_edge_is_led_to_another_port_and_back_by_one_undo(studio: Studio):
    studio.open("doc=five")
    before = studio.records()[-1]["document"]
    studio.pull(end_of(studio, WIRES[1], "source"), studio.centre(studio.handle("load-data.table", "output")))
    moved = [WIRES[0], ("load-data.table", "deep-forest.table"), *WIRES[2:]]
    studio.python(lambda record: edges_of(record) == moved)
    studio.press("Control+z")
    studio.python(lambda record: record["document"] == before)
    assert studio.button("Undo").is_disabled()
    studio.press("Control+y")
    studio.python(lambda record: edges_of(record) == moved)


def test_the_end_of_an_edge_springs_back_from_empty_ground_and_from_a_port_that_refuses_it(studio: Studio):
    studio.open("doc=five")
    start = end_of(studio, WIRES[4])
    studio.pull(start, studio.on_stage(900, 500))
    playwright.expect(studio.page.locator(".react-flow__edge")).to_have_count(5)
    assert studio.page.locator(".quick-add").count() == 0
    studio.pull(start, studio.centre(studio.handle("deep-forest.table", "input")), let_go=False)
    playwright.expect(studio.page.locator(".refusal")).to_contain_text("takes table, and this is predictions")
    studio.page.mouse.up()
    studio.pull(start, studio.centre(studio.handle("evaluate.predictions", "input")))
    playwright.expect(studio.page.locator(".react-flow__edge-path")).to_have_count(5)
    assert studio.button("Undo").is_disabled()
    assert studio.records()[-1]["revision"] == 0


def test_a_selection_is_copied_pasted_and_duplicated_with_its_edges_and_parameters(studio: Studio):
    studio.open("doc=five")
    studio.click("load-data")
    studio.click("split", modifiers=["Shift"])
    studio.python(lambda record: sorted(record["selection"]) == ["load-data", "split"])
    studio.press("Control+c")
    studio.press("Control+v")
    record = studio.python(lambda record: len(names_of(record)) == 7)
    assert ("load-data-2.table", "split-2.table") in edges_of(record)
    assert record["document"]["nodes"]["load-data-2"]["params"] == {"source": "sample:digits"}
    studio.press("Control+d")
    record = studio.python(lambda record: len(names_of(record)) == 9)
    assert sorted(record["selection"]) == ["load-data-3", "split-3"]


def test_a_box_selects_and_what_is_selected_moves_together_and_by_keys(studio: Studio):
    studio.open("doc=five")
    before = studio.records()[-1]["document"]["layout"]
    box = studio.node("split").bounding_box()
    studio.page.keyboard.down("Shift")
    studio.pull(studio.on_stage(20, 120), (box["x"] + 20, box["y"] + box["height"] + 10))
    studio.page.keyboard.up("Shift")
    studio.python(lambda record: sorted(record["selection"]) == ["load-data", "split"])
    for _ in range(3):
        studio.press("ArrowDown")
    studio.press("Shift+ArrowRight")
    moved = studio.python(
        lambda record: record["document"]["layout"]["split"] == [before["split"][0] + 80, before["split"][1] + 48]
    )
    assert moved["document"]["layout"]["predict"] == before["predict"]
    studio.press("Control+z")
    studio.python(lambda record: record["document"]["layout"] == before)


def test_a_node_is_dragged_on_the_grid(studio: Studio):
    studio.open("doc=five")
    before = studio.records()[-1]["document"]["layout"]["evaluate"]
    x, y = studio.centre(studio.node("evaluate").locator(".step-title"))
    studio.pull((x, y), (x - 40, y + 160))
    record = studio.python(lambda record: record["document"]["layout"]["evaluate"] != before)
    assert all(value % 16 == 0 for value in record["document"]["layout"]["evaluate"])


def test_a_type_dropped_on_an_output_is_connected_if_it_fits(studio: Studio):
    studio.open("doc=five")
    stage = studio.page.locator(".stage").bounding_box()
    x, y = studio.centre(studio.handle("deep-forest.model", "output"))
    studio.drop("save-model", x - stage["x"], y - stage["y"])
    studio.python(lambda record: ("deep-forest.model", "save-model.model") in edges_of(record))
    x, y = studio.centre(studio.handle("deep-forest.model", "output"))
    studio.drop("evaluate", x - stage["x"], y - stage["y"])
    studio.python(lambda record: "evaluate-2" in names_of(record))
    assert "no free input for model" in studio.page.locator(".notice").inner_text()


def test_search_and_add_by_slash_double_click_and_a_loose_edge(studio: Studio):
    studio.open("doc=five")
    studio.click_ground()
    studio.press("/")
    studio.write(studio.page.locator(".quick-add input"), "neural")
    studio.shoot("search")
    studio.press("Enter")
    studio.python(lambda record: "mlp" in names_of(record) and record["selection"] == ["mlp"])
    studio.page.mouse.dblclick(*studio.on_stage(200, 480))
    studio.write(studio.page.locator(".quick-add input"), "sample")
    studio.press("Enter")
    studio.python(lambda record: "sample" in names_of(record))
    studio.pull(studio.centre(studio.handle("evaluate.report", "output")), studio.on_stage(900, 470))
    studio.page.wait_for_selector(".quick-add")
    assert studio.page.locator(".quick-add li").all_inner_texts()[0].startswith("Compare")
    studio.press("Enter")
    studio.python(lambda record: ("evaluate.report", "compare.reports") in edges_of(record))


def test_the_palette_is_searched(studio: Studio):
    studio.open("doc=empty")
    studio.page.get_by_label("Search steps").fill("forest")
    names = studio.page.locator("[data-node-type]").evaluate_all("items => items.map(item => item.dataset.nodeType)")
    assert "deep-forest" in names and "random-forest" in names and "load-data" not in names


def test_notes_are_written_moved_and_kept_as_text(studio: Studio):
    studio.open("doc=empty")
    studio.button("Note").click()
    studio.write(studio.page.get_by_label("Note text"), "<b>bold?</b> remember c and r")
    studio.press("Escape")
    record = studio.python(lambda record: record["document"]["notes"] and record["document"]["notes"][0]["text"])
    assert record["document"]["notes"][0]["text"] == "<b>bold?</b> remember c and r"
    assert "<b>bold?</b>" in studio.page.locator(".note").inner_text()
    assert studio.page.locator(".note b").count() == 0
    studio.press("Delete")
    studio.python(lambda record: not record["document"]["notes"])


def test_layout_fit_and_zoom(studio: Studio):
    studio.open("doc=five")
    x, y = studio.centre(studio.node("split").locator(".step-title"))
    studio.pull((x, y), (x + 30, y + 200))
    studio.button("Layout").click()
    record = studio.python(lambda record: record["revision"] >= 2)
    columns = [record["document"]["layout"][name][0] for name in names_of(record)]
    assert columns == sorted(columns) and len(set(columns)) == 5
    studio.button("Zoom in").click()
    studio.button("Fit").click()
    stage = studio.page.locator(".stage").bounding_box()
    until(lambda: all(stage["x"] <= x <= stage["x"] + stage["width"] for x, _ in studio.places().values()))


def test_states_that_arrive_while_dragging_move_nothing(studio: Studio):
    studio.open("doc=five")
    studio.button("Start run").click()
    until(lambda: studio.node("load-data").get_attribute("data-state") == "running")
    others = {name: place for name, place in studio.places().items() if name != "evaluate"}
    x, y = studio.centre(studio.node("evaluate").locator(".step-title"))
    studio.pull((x, y), (x - 50, y + 170), let_go=False)
    held = studio.places()["evaluate"]
    until(lambda: studio.node("split").get_attribute("data-state") == "running")
    until(lambda: studio.node("load-data").get_attribute("data-state") == "done")
    assert studio.places()["evaluate"] == held
    assert {name: place for name, place in studio.places().items() if name != "evaluate"} == others
    studio.page.mouse.up()
    record = studio.python(lambda record: record["document"]["layout"]["evaluate"] != [1152, 64])
    assert record["selection"] == ["evaluate"]
    until(lambda: studio.node("deep-forest").get_attribute("data-state") == "done")
    assert {name: place for name, place in studio.places().items() if name != "evaluate"} == others


def test_an_edit_made_while_python_puts_another_document_in_place_is_carried_over(studio: Studio):
    studio.open("doc=five")
    with studio.slowly("Slow Python edit"):
        studio.click("evaluate")
        studio.press("Delete")
        studio.drop("mart", 400, 430)
    record = studio.python(lambda record: record["epoch"] == 1 and "mart" in names_of(record))
    assert "from-python" in names_of(record) and "evaluate" not in names_of(record)
    playwright.expect(studio.node("from-python")).to_be_visible()
    assert studio.node("evaluate").count() == 0
    assert "carried over" in studio.page.locator(".notice").inner_text()
    studio.shoot("carried-over")


def test_an_edit_that_comes_too_late_for_its_pipeline_is_announced_and_does_not_reach_another(studio: Studio):
    studio.open("doc=empty")
    studio.drop("mart", 400, 400)
    studio.python(lambda record: names_of(record) == ["mart"])
    with studio.slowly("Slow other pipeline"):
        studio.click("mart")
        studio.press("Control+d")
        playwright.expect(studio.node("mart-2")).to_be_visible()
    studio.python(lambda record: record["document"]["name"] == "Five steps")
    assert "before your last edit was saved" in studio.page.locator(".notice").inner_text()
    time.sleep(0.5)
    assert "mart-2" not in names_of(studio.records()[-1])
    assert studio.node("mart-2").count() == 0


def test_undo_history_and_viewport_outlive_a_page_switch(studio: Studio):
    studio.open("doc=five")
    studio.drop("mart", 400, 430)
    studio.python(lambda record: "mart" in names_of(record))
    studio.button("Zoom in").click()
    before = studio.resting_places()
    studio.page.get_by_text("Another page").click()
    studio.page.wait_for_selector(".stage", state="detached")
    studio.page.get_by_text("Another page").click()
    studio.page.wait_for_selector('.react-flow__node[data-id="mart"]')
    until(lambda: studio.places() == before)
    studio.button("Undo").click()
    studio.python(lambda record: "mart" not in names_of(record))


def test_an_edit_made_in_the_moment_of_a_page_switch_is_not_lost(studio: Studio):
    studio.open("doc=five")
    switch = studio.page.get_by_text("Another page")
    studio.click("evaluate")
    time.sleep(0.5)
    studio.press("Delete")
    switch.click()
    studio.page.wait_for_selector(".stage", state="detached")
    switch.click()
    studio.page.wait_for_selector('.react-flow__node[data-id="split"]')
    studio.python(lambda record: "evaluate" not in names_of(record) and "predict" in names_of(record))
    until(lambda: studio.node("evaluate").count() == 0)


def test_ports_and_menu_tell_python(studio: Studio):
    studio.open("doc=five")
    studio.handle("split.test", "output").click()
    until(lambda: any(record["port"] == "split.test" for record in studio.records()))
    studio.click("predict", button="right")
    studio.shoot("menu")
    studio.page.get_by_role("menuitem", name="Run to here").click()
    until(lambda: any(record["run"] == ["predict", "to"] for record in studio.records()))
    studio.click("split", button="right")
    studio.page.get_by_role("menuitem", name="Run from here").click()
    until(lambda: any(record["run"] == ["split", "from"] for record in studio.records()))


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter"])
def test_a_key_asks_to_run_everything(studio: Studio, keys: str):
    studio.open("doc=five")
    studio.click("split")
    studio.press(keys)
    until(lambda: any(record["run"] == ["", "all"] for record in studio.records()))


def in_the_middle(studio: Studio, name: str) -> bool:
    (x, y), (middle_x, middle_y) = (
        studio.centre(place) for place in (studio.node(name), studio.page.locator(".stage"))
    )
    return abs(x - middle_x) < 40 and abs(y - middle_y) < 40


def test_python_can_reveal_a_node(studio: Studio):
    studio.open("doc=five")
    studio.button("Reveal last").click()
    studio.python(lambda record: record["selection"] == ["evaluate"])
    until(lambda: in_the_middle(studio, "evaluate"))


def test_python_can_reveal_a_node_as_soon_as_the_page_is_there(studio: Studio):
    studio.open("doc=100&reveal=1")
    studio.python(lambda record: record["selection"] == ["split-99"])
    until(lambda: in_the_middle(studio, "split-99"))
    assert studio.button("Zoom to 100 %").inner_text() == "100 %"


def test_python_can_reveal_a_node_on_a_page_that_remembers_another_place(studio: Studio):
    studio.open("doc=five")
    level = studio.button("Zoom to 100 %")
    whole = level.inner_text()
    studio.button("Zoom in").click()
    playwright.expect(level).not_to_have_text(whole)
    nearer = level.inner_text()
    studio.open("doc=five&reveal=1")
    studio.python(lambda record: record["selection"] == ["evaluate"])
    until(lambda: in_the_middle(studio, "evaluate"))
    assert level.inner_text() == nearer


def test_states_are_said_in_words_and_to_screen_readers(studio: Studio):
    studio.open("doc=five&showcase=1")
    assert studio.node("split").locator(".step-line").inner_text() == "Done in 42 ms"
    failed = studio.node("predict")
    assert (
        failed.get_attribute("aria-label") == "Predict (predict), failed: the table lacks the column age of the sample"
    )
    line = failed.locator(".step-line")
    assert line.get_attribute("title") == "the table lacks the column age of the sample"
    assert (
        line.evaluate("line => line.scrollWidth > line.clientWidth && getComputedStyle(line).textOverflow")
        == "ellipsis"
    )
    assert failed.locator(".step-state").get_attribute("title") == "Failed"


def test_a_queued_node_does_not_look_idle(studio: Studio):
    studio.open("doc=five")

    def look(name: str) -> tuple[str, str]:
        script = "step => [getComputedStyle(step).borderTopStyle, getComputedStyle(step).backgroundColor]"
        border, ground = studio.node(name).locator(".step").evaluate(script)
        return border, ground

    idle = look("evaluate")
    studio.button("Start run").click()
    until(lambda: studio.node("evaluate").get_attribute("data-state") == "queued")
    queued = look("evaluate")
    assert queued[0] != idle[0] and queued[1] != idle[1]
    assert studio.node("evaluate").get_attribute("aria-label") == "Evaluate (evaluate), queued"


def test_the_overview_makes_room_on_a_small_stage(studio: Studio):
    studio.open("doc=five")
    overview = studio.page.locator(".react-flow__minimap")
    playwright.expect(overview).to_be_visible()
    studio.page.set_viewport_size({"width": 980, "height": 700})
    playwright.expect(overview).to_have_count(0)
    studio.page.set_viewport_size({"width": 1440, "height": 880})
    playwright.expect(overview).to_be_visible()


def test_problems_are_shown_at_their_node(studio: Studio):
    studio.open("doc=empty")
    studio.drop("predict", 300, 300)
    badge = studio.node("predict").locator(".step-problems")
    playwright.expect(badge).to_have_text("2", use_inner_text=True)
    badge.hover()
    assert "nothing is connected" in studio.page.get_by_role("tooltip").inner_text()
    studio.shoot("problems")


def test_hostile_labels_are_text(studio: Studio):
    studio.open("doc=hostile")
    assert "<script>" in studio.node("bad").locator(".step-title").inner_text()
    assert "<img" in studio.page.locator(".note").inner_text()
    assert studio.page.locator(".sylva-canvas img, .sylva-canvas script").count() == 0
    assert studio.page.evaluate("window.hacked") is None
    assert "not installed" in studio.node("stranger").inner_text()
    studio.drop("mart", 300, 430)
    studio.python(lambda record: "mart" in names_of(record) and len(edges_of(record)) == 2)


@pytest.mark.parametrize("studio", ["light", "dark"], indirect=True)
def test_the_theme_is_followed(studio: Studio):
    studio.open("doc=five&showcase=1")
    colour, ground = studio.page.locator(".step-title").first.evaluate(
        """title => [title, title.closest(".step")].map((element, at) => {
            const context = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d");
            context.fillStyle = getComputedStyle(element)[at ? "backgroundColor" : "color"];
            context.fillRect(0, 0, 1, 1);
            return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).reduce((a, b) => a + b) / 3;
        })"""
    )
    dark = studio.page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (colour > 180 and ground < 70) if dark else (colour < 80 and ground > 230)
    studio.shoot(f"theme-{'dark' if dark else 'light'}")


def test_a_large_pipeline_is_edited(studio: Studio):
    studio.open("doc=100")
    playwright.expect(studio.page.locator(".react-flow__node")).to_have_count(100)
    studio.button("Zoom in").click()
    studio.drop("mart", 400, 500)
    studio.python(lambda record: "mart" in names_of(record))


def test_a_node_among_300_is_dragged_and_no_other_moves(studio: Studio):
    studio.open("doc=300")
    before = studio.resting_places()
    x, y = studio.centre(studio.node("split-100").locator(".step-title"))
    studio.pull((x, y), (x + 60, y + 45))
    studio.python(lambda record: record["selection"] == ["split-100"])
    moved = {name for name, place in studio.resting_places().items() if place != before.get(name)}
    assert moved == {"split-100"}


def test_the_canvas_does_not_fade_while_python_works(studio: Studio):
    studio.open("doc=five")
    home = studio.page.locator(".st-key-canvas")
    with studio.slowly("Slow Python edit"):
        shown = [home.evaluate("home => getComputedStyle(home).opacity") for _ in range(10) if not time.sleep(0.1)]
    assert set(shown) == {"1"}


def test_streamlits_own_keys_stay_out(studio: Studio):
    studio.open("doc=five")
    studio.click("split")
    time.sleep(0.5)
    reruns = len(studio.records())
    studio.press("c")
    studio.press("r")
    time.sleep(1)
    assert studio.page.get_by_role("dialog").count() == 0
    assert len(studio.records()) == reruns


def is_on_stage(studio: Studio, name: str) -> bool:
    node, stage = studio.box(studio.node(name)), studio.box(studio.page.locator(".stage"))
    return all(
        stage[start] <= node[start] and node[start] + node[size] <= stage[start] + stage[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def test_a_long_pipeline_opens_at_its_beginning_large_enough_to_read_and_fit_shows_all_of_it(studio: Studio):
    studio.open("doc=12")
    level = studio.button("Zoom to 100 %")
    playwright.expect(level).to_have_text("75 %")
    assert is_on_stage(studio, "split-0") and is_on_stage(studio, "split-2")
    assert not is_on_stage(studio, "split-11")
    studio.button("Fit").click()
    until(lambda: is_on_stage(studio, "split-0") and is_on_stage(studio, "split-11"))
    playwright.expect(level).not_to_have_text("75 %")


def test_a_pipeline_far_too_large_to_read_opens_as_a_whole(studio: Studio):
    studio.open("doc=300")
    assert is_on_stage(studio, "split-0") and is_on_stage(studio, "split-299")


@pytest.mark.parametrize("by", ["a new edge", "the end of an edge"])
def test_an_edge_takes_the_place_of_the_one_at_an_input_for_one_and_undo_brings_it_back(studio: Studio, by: str):
    studio.open("doc=five")
    before = studio.records()[-1]["document"]
    if by == "a new edge":
        studio.connect("load-data.table", "predict.table", let_go=False)
        after = [*WIRES[:2], *WIRES[3:], ("load-data.table", "predict.table")]
    else:
        end = studio.centre(studio.handle("predict.table", "input"))
        studio.pull(end_of(studio, WIRES[0]), end, let_go=False)
        after = [("load-data.table", "predict.table"), WIRES[1], *WIRES[3:]]
    playwright.expect(studio.page.locator(".replacing")).to_have_text(
        "Replaces the connection from Split: To judge by."
    )
    assert studio.page.locator(".refusal").count() == 0
    studio.shoot(f"replacing-{by.replace(' ', '-')}")
    studio.page.mouse.up()
    studio.python(lambda record: edges_of(record) == after)
    playwright.expect(studio.page.locator(".replacing")).to_have_count(0)
    studio.press("Control+z")
    studio.python(lambda record: record["document"] == before)
    playwright.expect(studio.button("Undo")).to_be_disabled()


def test_a_connection_is_drawn_by_keyboard_alone(studio: Studio):
    studio.open("doc=five")
    studio.node("load-data").focus()
    studio.press("e")
    field = studio.page.get_by_role("combobox", name="Connect")
    playwright.expect(field).to_be_focused()
    options = studio.page.get_by_role("option")
    names = [name.splitlines()[0] for name in options.all_inner_texts()]
    assert names == ["Load data: Table → Deep forest: Training rows", "Load data: Table → Predict: Rows to score"]
    playwright.expect(options.first).to_contain_text("Replaces the connection from Split: To learn from.")
    studio.shoot("connect")
    studio.press("ArrowDown")
    playwright.expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == options.nth(1).get_attribute("id")
    studio.press("Enter")
    after = [*WIRES[:2], *WIRES[3:], ("load-data.table", "predict.table")]
    studio.python(lambda record: edges_of(record) == after)
    playwright.expect(field).to_have_count(0)
    playwright.expect(studio.node("load-data")).to_be_focused()
    studio.press("Control+z")
    studio.python(lambda record: edges_of(record) == WIRES)


def test_the_list_of_connections_is_searched_and_left_without_drawing_one(studio: Studio):
    studio.open("doc=five")
    studio.click("split")
    studio.python(lambda record: record["selection"] == ["split"])
    studio.press("e")
    options = studio.page.get_by_role("option")
    playwright.expect(options.first).to_be_visible()
    studio.write(studio.page.get_by_role("combobox", name="Connect"), "judge forest")
    playwright.expect(options).to_have_count(1)
    playwright.expect(options).to_contain_text("Split: To judge by → Deep forest: Training rows")
    studio.press("Escape")
    playwright.expect(options).to_have_count(0)
    studio.press("ArrowDown")  # the keys are the canvas's again: the step is moved
    record = studio.python(lambda record: record["document"]["layout"]["split"] == [288, 80])
    assert edges_of(record) == WIRES


def test_python_hears_of_the_selection_only_when_the_dragged_node_is_let_go(studio: Studio):
    studio.open("doc=five")
    x, y = studio.centre(studio.node("evaluate").locator(".step-title"))
    studio.pull((x, y), (x - 40, y + 160), let_go=False)
    studio.page.wait_for_selector('.react-flow__node.selected[data-id="evaluate"]')
    studio.page.wait_for_timeout(600)  # time enough to hear of it, if it were told
    assert all(record["selection"] == [] for record in studio.records())
    studio.page.mouse.up()
    record = studio.python(lambda record: record["selection"] == ["evaluate"])
    assert record["document"]["layout"]["evaluate"] != [1152, 64]


def test_a_node_reached_by_tab_is_brought_into_view(studio: Studio):
    studio.open("doc=12")
    assert not is_on_stage(studio, "split-6")
    studio.node("split-0").focus()
    for _ in range(40):
        studio.press("Tab")
        if studio.node("split-6").evaluate("node => node.matches(':focus')"):
            break
    until(lambda: is_on_stage(studio, "split-6"))
