"""The whole studio in a real browser: pipelines built by mouse, run by real processes, broken, mended and retried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepforest.presets import PRESETS
from engine.document import Document, Edge, Node
from engine.events import EventLog
from engine.library import Library
from engine.state import run_state
from engine.workspace import Workspace
from tests.e2e.studio import PATIENCE, Studio, chain, forest, studio_at
from tests.e2e.tab import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

SLOW_FOREST = {"learners": [{"kind": "random_forest", "trees": 400, "count": 4}], "max_layers": 3}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Workspace]]:
    workspace = Workspace(tmp_path_factory.mktemp("studio")).create()
    with studio_at(workspace.root) as address:
        yield address, workspace


@pytest.fixture
def studio(place: tuple[str, Workspace], browser: Any, request: pytest.FixtureRequest) -> Iterator[Studio]:
    scheme = getattr(request, "param", "light")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    studio = Studio(context.new_page(), *place)
    yield studio
    if studio.page.locator('[data-testid="stException"]').count():
        studio.errors.append(studio.page.locator('[data-testid="stException"]').first.inner_text())
    context.close()
    assert not studio.errors


def test_a_first_visitor_finds_a_finished_example_one_click_away(studio: Studio):
    studio.open()
    expect(studio.page.get_by_text("Build your own in five steps")).to_be_visible()
    studio.shoot("first-visit")
    studio.button("Open the finished example").click()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(forest="finished", mart="finished", compare="finished")
    assert studio.run is not None and studio.run.state == "done"
    studio.look_at("compare.report")
    expect(studio.page.get_by_text("Deep forest", exact=False).first).to_be_visible()
    studio.page.wait_for_timeout(1500)
    studio.shoot("example")


def test_five_steps_are_built_by_mouse_set_run_and_judged(studio: Studio):
    studio.new()
    places = {
        "load-data": (140, 110), "split": (400, 110), "deep-forest": (600, 60),
        "predict": (400, 330), "evaluate": (640, 330),
    }  # fmt: skip
    for name, at in places.items():
        studio.drop(name, *at)
        studio.page.wait_for_timeout(150)
    wires = [
        ("load-data.table", "split.table"),
        ("split.train", "deep-forest.table"),
        ("split.test", "predict.table"),
        ("deep-forest.model", "predict.model"),
        ("predict.predictions", "evaluate.predictions"),
    ]
    for wire in wires:
        studio.connect(*wire)
    studio.saved(lambda document: [edge.names for edge in document.edges] == wires)
    studio.choose("deep-forest")
    studio.button("Change the learners").click()
    trees = studio.page.locator(".st-key-panel").get_by_label("Trees", exact=True)
    expect(trees.first).to_be_visible(timeout=60_000)
    trees.first.fill("30")
    trees.first.press("Enter")
    studio.saved(lambda document: document.nodes["deep-forest"].params["learners"][0].get("trees") == 30)
    panel = studio.page.locator(".st-key-panel")
    panel.get_by_role("button", name="Remove", exact=True).last.click()
    studio.saved(
        lambda document: "mart" not in [card["kind"] for card in document.nodes["deep-forest"].params["learners"]]
    )
    studio.page.wait_for_timeout(1000)
    studio.fill("Most layers", "2")
    studio.saved(lambda document: document.nodes["deep-forest"].params.get("max_layers") == 2)
    studio.shoot("forest-form")
    studio.button("Layout").click()
    studio.button("Run").click()
    studio.expect_states(**dict.fromkeys(places, "finished"))
    studio.look_at("evaluate.report")
    expect(studio.page.get_by_text("Accuracy", exact=True).first).to_be_visible(timeout=60_000)
    studio.page.wait_for_timeout(1500)
    studio.shoot("judged")
    assert studio.run is not None and studio.run.state == "done"
    assert [len(studio.run.nodes[name].outputs) for name in ("evaluate", "split")] == [1, 2]


def test_a_wrong_connection_is_refused_with_the_reason(studio: Studio):
    studio.begin(forest())
    studio.connect("forest.model", "split.table", let_go=False)
    expect(studio.page.locator(".refusal")).to_contain_text("takes table, and this is model")
    studio.shoot("refused")
    studio.page.mouse.up()
    studio.page.wait_for_timeout(500)
    assert len(studio.document.edges) == 2


def test_a_missing_file_is_named_before_anything_runs_and_a_click_leads_to_its_node(studio: Studio):
    studio.begin(chain(("load-data", {"source": "nowhere.csv"}), ("sample", {})))
    studio.page.wait_for_timeout(500)
    studio.button("Run").click()
    problem = studio.page.get_by_role("button", name=re.compile("there is no file 'nowhere.csv'"))
    expect(problem).to_be_visible(timeout=60_000)
    assert studio.run is None
    problem.click()
    expect(studio.page.locator(".st-key-panel")).to_contain_text("here is no file 'nowhere.csv'")
    studio.shoot("missing-file")
    (studio.workspace.data / "nowhere.csv").write_text("a,b\n" + "1,2\n3,4\n" * 10)
    studio.button("Run").click()
    studio.expect_states(**{"load-data": "finished", "sample": "done"})


def test_a_failed_node_tells_its_cause_is_mended_and_retried_and_what_was_done_is_not_done_again(studio: Studio):
    selection = ("feature-selection", {"trees": 5})  # what it keeps is not known before the run
    wrong = ("select-columns", {"columns": ["nonsense"]})
    studio.begin(chain(("load-data", {"source": "sample:wine"}), selection, wrong))
    studio.button("Run").click()
    studio.expect_states(**{"load-data": "finished", "feature-selection": "done", "select-columns": "failed"})
    panel = studio.page.locator(".st-key-panel")
    expect(panel).to_contain_text("nonsense")
    expect(panel.get_by_role("alert").first).to_contain_text("nonsense")
    studio.page.wait_for_timeout(500)
    studio.shoot("failed")
    columns = panel.get_by_role("combobox", name="Columns")
    columns.press("Backspace")
    studio.saved(lambda document: not document.nodes["select-columns"].params.get("columns"))
    columns.fill("alcohol")
    columns.press("Enter")
    studio.saved(lambda document: document.nodes["select-columns"].params.get("columns") == ["alcohol"])
    studio.page.keyboard.press("Escape")
    studio.button("Retry").click()
    studio.expect_states(**{"load-data": "cached", "feature-selection": "cached", "select-columns": "done"})
    assert [event.node for event in studio.events("started")] == ["select-columns"]


def test_a_run_is_found_again_after_a_reload_and_goes_on(studio: Studio):
    studio.begin(forest(**SLOW_FOREST))
    studio.button("Run").click()
    studio.expect_states(forest="running")
    studio.page.reload()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(load="finished", forest="running")
    expect(studio.node("forest")).to_contain_text(re.compile(r"layer \d"))
    studio.shoot("running")
    studio.expect_states(forest="done")
    assert len(studio.events("run-started")) == 1


def test_a_run_is_stopped_and_gone_on_with(studio: Studio):
    studio.begin(forest(**{**SLOW_FOREST, "seed": 7}))
    studio.button("Run").click()
    studio.expect_states(forest="running")
    until(lambda: any(event.data["jobs"][0][1] == "done" for event in studio.events("jobs")), what="a finished fit")
    studio.button("Stop").click()
    studio.expect_states(load="finished", forest="skipped")
    assert studio.run is not None and studio.run.state == "cancelled"
    studio.button("Retry").click()
    studio.expect_states(forest="done")
    assert studio.run.id == until(lambda: studio.run).id
    assert any(event.data["jobs"][0][1] == "kept" for event in studio.events("jobs"))


def test_a_setting_is_undone_and_redone_in_document_and_form(studio: Studio):
    studio.begin(forest())
    studio.choose("split")
    expect(studio.field("Seed")).to_have_value("0")
    studio.fill("Seed", "17")
    studio.saved(lambda document: document.nodes["split"].params == {"seed": 17})
    studio.button("Undo").click()
    studio.saved(lambda document: document.nodes["split"].params == {})
    expect(studio.field("Seed")).to_have_value("0")
    studio.button("Redo").click()
    studio.saved(lambda document: document.nodes["split"].params == {"seed": 17})
    expect(studio.field("Seed")).to_have_value("17")


def test_looking_at_forms_changes_nothing_however_quickly_and_while_a_run_is_under_way(studio: Studio):
    params = {"learners": [{"kind": "random_forest", "trees": 500, "count": 4}], "max_layers": 2, "seed": 23}
    studio.begin(forest(**params))
    before = studio.document
    for pause in (80, 150, 300):
        for node in ("load", "split", "forest", "split"):
            studio.click(node)
            studio.page.wait_for_timeout(pause)
    studio.button("Run").click()
    studio.expect_states(forest="running")
    for node in ("split", "forest", "load", "forest", "split", "forest"):
        studio.click(node)
        studio.page.wait_for_timeout(900)
    assert studio.document.nodes == before.nodes
    studio.button("Stop").click()
    studio.expect_states(forest="skipped|done")
    assert studio.document.nodes == before.nodes


def test_another_preset_changes_nothing_else(studio: Studio):
    studio.begin(forest())
    studio.choose("forest")
    panel = studio.page.locator(".st-key-panel")
    for preset in ("gcforest", "mddf"):
        panel.get_by_role("combobox", name="Preset").click()
        panel.get_by_role("combobox", name="Preset").fill(PRESETS[preset].title)
        studio.page.get_by_role("option", name=PRESETS[preset].title, exact=True).click()
        studio.saved(lambda document, preset=preset: document.nodes["forest"].params == {"preset": preset})
        studio.button("Validate").click()
        expect(studio.button("Problems (0)")).to_be_visible()
        studio.fill("Patience", "3")
        studio.saved(lambda document: "patience" in document.nodes["forest"].params)
        studio.fill("Patience", "")
        studio.saved(lambda document, preset=preset: document.nodes["forest"].params == {"preset": preset})


def test_a_wrong_value_is_marked_at_its_field_and_costs_nothing_else(studio: Studio):
    studio.begin(forest())
    studio.choose("forest")
    studio.fill("Most layers", "a lot")
    studio.saved(lambda document: document.nodes["forest"].params.get("max_layers") == "a lot")
    expect(studio.page.locator(".st-key-panel")).to_contain_text("whole number")
    studio.fill("Patience", "2")
    document = studio.saved(lambda document: document.nodes["forest"].params.get("patience") == 2)
    assert document.nodes["forest"].params["max_layers"] == "a lot"
    studio.shoot("wrong-value")
    studio.fill("Most layers", "3")
    studio.saved(lambda document: document.nodes["forest"].params.get("max_layers") == 3)
    expect(studio.page.get_by_text("No problems found")).to_be_visible(timeout=60_000)


def test_two_tabs_keep_each_others_edits(studio: Studio):
    studio.begin(forest())
    other = Studio(studio.page.context.new_page(), studio.address, studio.workspace)
    other.open(studio.pipeline)
    other.page.wait_for_selector(".react-flow__node")
    other.choose("split")
    other.fill("Seed", "5")
    studio.saved(lambda document: document.nodes["split"].params == {"seed": 5})
    studio.page.bring_to_front()
    studio.drop("predict", 300, 330)
    document = studio.saved(lambda document: "predict" in document.nodes)
    assert document.nodes["split"].params == {"seed": 5}
    studio.choose("split")
    expect(studio.field("Seed")).to_have_value("5")
    assert not other.errors


def test_pipelines_are_renamed_duplicated_exported_imported_and_deleted(studio: Studio, tmp_path: Path):
    studio.begin(forest(seed=3))
    first = studio.pipeline
    studio.page.get_by_label("Name", exact=True).fill("Renamed here")
    studio.page.get_by_label("Name", exact=True).press("Enter")
    studio.saved(lambda document: document.name == "Renamed here")
    studio.open_menu()
    with studio.page.expect_download() as download:
        studio.button("Export JSON").click()
    exported = tmp_path / "exported.json"
    download.value.save_as(exported)
    assert json.loads(exported.read_text())["nodes"]["forest"]["params"] == {"seed": 3}
    studio.button("Duplicate").click()
    until(lambda: studio.pipeline != first)
    assert studio.document.name == "Renamed here copy"
    copy = studio.pipeline
    # For a moment there may be two: the field of the pipeline before is about to go.
    named = studio.page.get_by_label("Name", exact=True)
    until(lambda: named.evaluate_all("fields => fields.map(field => field.value)") == ["Renamed here copy"])
    studio.page.wait_for_timeout(1000)
    studio.delete_pipeline()
    assert studio.library.stamp(copy) is None and studio.library.stamp(first) is not None
    bring_in(studio, exported.read_bytes())
    studio.page.locator(".st-key-take-in button").click()
    studio.page.wait_for_selector(".react-flow__node")
    assert studio.pipeline not in (first, copy)
    assert studio.document.nodes == studio.library.open(first).document.nodes


def bring_in(studio: Studio, content: bytes) -> None:
    studio.open()
    studio.button("Import").first.click()
    file = studio.workspace.root.parent / "pipeline.json"
    file.write_bytes(content)
    studio.page.locator('input[type="file"]').set_input_files(file, timeout=120_000)


SCRIPT = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
UNKNOWN = {"format": "sylva-pipeline", "version": 1, "name": SCRIPT, "nodes": {"a": {"type": SCRIPT}}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "nested"),
        (
            b'{"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {}, "pad": "'
            + b"x" * 50_000_000
            + b'"}',
            "larger than",
        ),
        (json.dumps(UNKNOWN).encode(), "no node type"),
    ],
    ids=["deep", "50 MB", "unknown node"],
)
def test_a_hostile_import_shows_its_problems_and_changes_nothing(studio: Studio, content: bytes, said: str):
    studio.open()  # a first visit brings the example
    before = {entry.id for entry in studio.library.entries()}
    bring_in(studio, content)
    expect(studio.page.get_by_text("Nothing was changed")).to_be_visible(timeout=120_000)
    expect(studio.page.get_by_text(said, exact=False).first).to_be_visible()
    assert {entry.id for entry in studio.library.entries()} == before
    assert studio.page.evaluate("window.hacked") is None
    studio.shoot("hostile-import")


def test_hostile_names_are_shown_as_text_everywhere(studio: Studio):
    document = chain(("load-data", {"source": "sample:wine"}), ("sample", {}), name=SCRIPT[:60])
    nodes = {name: Node(type=node.type, params=node.params, label=SCRIPT) for name, node in document.nodes.items()}
    studio.begin(Document(name=SCRIPT, nodes=nodes, edges=document.edges, layout=document.layout, description=SCRIPT))
    studio.choose("sample")
    studio.button("Run").click()
    studio.expect_states(sample="finished")
    studio.look_at("sample.table")
    studio.page.wait_for_timeout(1500)
    assert studio.page.evaluate("window.hacked") is None
    studio.open()
    expect(studio.page.get_by_text(SCRIPT).first).to_be_visible()
    assert studio.page.evaluate("window.hacked") is None


@pytest.mark.parametrize("studio", ["dark"], indirect=True)
def test_the_dark_theme_is_dark_everywhere(studio: Studio):
    studio.open()
    studio.button("Open the finished example").click()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(compare="finished")
    studio.choose("forest")
    studio.look_at("evaluate_forest.report")
    studio.page.wait_for_timeout(2000)
    studio.shoot("dark")
    for part in (".stApp", ".stage", ".palette"):
        colour = studio.page.locator(part).first.evaluate("e => getComputedStyle(e).backgroundColor")
        numbers = [float(number) for number in re.findall(r"[\d.]+", colour)]
        assert len(numbers) == 3 or numbers[3:] == [0.0] or max(numbers[:3]) < 90, (part, colour)
        assert max(numbers[:3]) < 90, (part, colour)


def test_a_hundred_nodes_are_still_edited(studio: Studio):
    nodes = {f"split-{at}": Node(type="split") for at in range(100)}
    edges = tuple(Edge.between(f"split-{at}.train", f"split-{at + 1}.table") for at in range(99) if (at + 1) % 10)
    layout = {f"split-{at}": (at % 10 * 272.0, at // 10 * 144.0) for at in range(100)}
    studio.begin(Document(name="Hundred", nodes=nodes, edges=edges, layout=layout))
    expect(studio.page.locator(".react-flow__node")).to_have_count(100)
    studio.page.wait_for_timeout(1000)
    studio.button("Fit").click()
    studio.drop("load-data", 120, 470)
    studio.saved(lambda document: len(document.nodes) == 101)
    studio.shoot("hundred")


def test_runs_outlive_the_studio_and_are_found_when_it_comes_back(tmp_path: Path, browser: Any):
    workspace = Workspace(tmp_path).create()
    pipeline = Library(workspace).create(forest(**SLOW_FOREST))
    with studio_at(workspace.root) as address:
        tab = Studio(browser.new_page(), address, workspace).open(pipeline)
        tab.page.wait_for_selector(".react-flow__node")
        tab.button("Run").click()
        tab.expect_states(forest="running")
        tab.page.close()
    assert tab.run is not None and tab.run.state == "running"
    with studio_at(workspace.root) as address:
        tab = Studio(browser.new_page(), address, workspace).open(pipeline)
        tab.expect_states(load="finished", forest="done")
        tab.page.close()


def test_the_runs_page_shows_a_run_while_it_works_and_a_failed_one_is_retried_there(studio: Studio):
    studio.begin(forest(**{**SLOW_FOREST, "seed": 11}))
    studio.button("Run").click()
    studio.expect_states(forest="running")
    assert studio.run is not None
    run = studio.run.id
    studio.page.get_by_role("link", name="Runs").click()
    expect(studio.page.get_by_role("heading", name="Runs")).to_be_visible(timeout=60_000)
    studio.page.goto(f"{studio.address}/runs?run={run}")
    grid = studio.page.get_by_text("random forest 1", exact=False).first
    expect(grid).to_be_visible(timeout=60_000)
    studio.shoot("run-live")
    expect(studio.page.get_by_text(re.compile("Layer 3"), exact=False).first).to_be_visible(timeout=60_000)
    until(lambda: studio.page.wait_for_timeout(100) or not is_live(studio, run), PATIENCE, "the end of the run")
    studio.page.wait_for_timeout(2500)
    studio.shoot("run-done")
    studio.button("Open this pipeline").click()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(forest="done")


def is_live(studio: Studio, run: str) -> bool:
    with EventLog(studio.workspace) as log:
        return run_state(log, log.run(run)).live


def test_a_failed_run_is_opened_from_the_history_with_its_cause_first(studio: Studio):
    steps = [("feature-selection", {"trees": 5}), ("select-columns", {"columns": ["absent"]})]
    studio.begin(chain(("load-data", {"source": "sample:iris"}), *steps, name="Broken iris"))
    studio.button("Run").click()
    studio.expect_states(**{"select-columns": "failed"})
    assert studio.run is not None
    studio.page.goto(f"{studio.address}/runs?run={studio.run.id}")
    alert = studio.page.get_by_role("alert").first
    expect(alert).to_contain_text("absent")
    expect(studio.button("Retry")).to_be_enabled()
    studio.page.wait_for_timeout(1500)
    studio.shoot("run-failed")
    studio.button("Retry").click()
    until(lambda: studio.page.wait_for_timeout(100) or started(studio).count("select-columns") == 2)
    assert started(studio).count("load-data") <= 1


def started(studio: Studio) -> list[str | None]:
    """The nodes that were started in the run, each as often as it was."""
    with EventLog(studio.workspace) as log:
        row = next(row for row in log.runs() if row.name == "Broken iris")
        return [event.node for event in log.events(row.id) if event.kind == "started"]
