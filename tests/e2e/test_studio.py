"""The whole studio in a real browser: pipelines built by mouse, run, broken, fixed and retried."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.events import EventLog
from engine.pipeline_library import Library
from engine.workspace import Workspace
from tests.e2e.studio import WIRES, Studio, chain, forest, studio_at
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

SLOW = {"learners": [{"kind": "random_forest", "trees": 500, "count": 30}]}
"""A forest of many fits: it is at work for as long as a test looks at it, and then stopped."""


def test_five_nodes_are_built_by_mouse_set_run_and_evaluated(studio: Studio):
    studio.new()
    places = {
        "load-data": (140, 130),
        "split": (400, 130),
        "deep-forest": (650, 130),
        "predict": (400, 350),
        "evaluate": (650, 350),
    }
    for name, at in places.items():
        studio.drop(name, *at)
        studio.saved(lambda pipeline, name=name: name in pipeline.nodes)
    # An added node connects itself to the selected one, where only one connection is possible.
    drawn = {WIRES[0], WIRES[3], WIRES[4]}
    studio.saved(lambda pipeline: {edge.names for edge in pipeline.edges} == drawn)
    for wire in (WIRES[1], WIRES[2]):
        studio.connect(*wire)
        drawn.add(wire)
        studio.saved(lambda pipeline: {edge.names for edge in pipeline.edges} == drawn)
    studio.choose("deep-forest")
    studio.unfold("Learner 1", "Trees")
    studio.fill("Trees", "20")
    studio.saved(
        lambda pipeline: (
            pipeline.nodes["deep-forest"].params.get("learners", [{}])[0].get("trees") == 20
        )
    )
    remove = studio.panel.get_by_role("button", name=re.compile("^Remove learner"))
    for left in (3, 2, 1):
        remove.last.click()
        studio.saved(
            lambda pipeline, left=left: (
                len(pipeline.nodes["deep-forest"].params["learners"]) == left
            )
        )
        expect(remove).to_have_count(left)  # the form is drawn anew
    studio.unfold("Layers", "Max layers")
    studio.fill_until(
        "Max layers",
        "1",
        lambda pipeline: pipeline.nodes["deep-forest"].params.get("max_layers") == 1,
    )
    studio.shoot("forest-form")
    studio.button("Layout").click()
    studio.button("Run").click()
    studio.expect_states(**dict.fromkeys(places, "finished"))
    studio.look_at("evaluate.report")
    expect(studio.page.get_by_text("Accuracy", exact=True).first).to_be_visible()
    studio.shoot("evaluated")
    assert studio.run is not None and studio.run.state == "done"
    assert [len(studio.run.nodes[name].outputs) for name in ("evaluate", "split")] == [1, 3]


def test_a_missing_file_is_named_before_anything_runs_and_a_click_leads_to_its_node(studio: Studio):
    studio.begin(chain(("load-data", {"source": "nowhere.csv"}), ("sample", {})))
    studio.button("Run").click()
    studio.button("1 problem").click()
    problem = studio.page.get_by_role("button", name=re.compile(r"nowhere\.csv"))
    expect(problem).to_be_visible()
    assert studio.run is None
    problem.click()
    expect(studio.page.locator('.react-flow__node.selected[data-id="load-data"]')).to_be_visible()
    expect(studio.panel).to_contain_text("nowhere.csv")
    (studio.workspace.data / "nowhere.csv").write_text("a,b\n" + "1,2\n3,4\n" * 10)
    studio.button("Run").click()
    studio.expect_states(**{"load-data": "finished", "sample": "finished"})


def test_a_failed_node_shows_its_cause_is_fixed_and_retried_and_nothing_is_done_twice(
    studio: Studio,
):
    selection = ("feature-selection", {"trees": 5})  # what it keeps is not known before the run
    wrong = ("select-columns", {"columns": ["nonsense"]})
    studio.begin(chain(("load-data", {"source": "sample:wine"}), selection, wrong))
    pipeline = studio.pipeline
    studio.button("Run").click()
    studio.expect_states(
        **{"load-data": "finished", "feature-selection": "finished", "select-columns": "failed"}
    )
    expect(studio.panel.get_by_role("alert").first).to_contain_text("nonsense")
    studio.shoot("failed")
    assert studio.run is not None
    studio.page.goto(f"{studio.address}/runs?run={studio.run.id}")
    expect(studio.page.get_by_role("alert").first).to_contain_text("nonsense")
    expect(studio.button("Retry")).to_be_enabled()
    studio.button("Open this pipeline").click()
    studio.page.wait_for_selector(".react-flow__node")
    assert studio.pipeline == pipeline
    studio.choose("select-columns")
    columns = studio.panel.get_by_role("combobox", name="Columns")
    columns.press("Backspace")
    studio.saved(lambda document: not document.nodes["select-columns"].params.get("columns"))
    columns.fill("alcohol")
    columns.press("Enter")
    studio.saved(
        lambda document: document.nodes["select-columns"].params.get("columns") == ["alcohol"]
    )
    studio.page.keyboard.press("Escape")
    studio.button("Retry").click()
    studio.expect_states(
        **{"load-data": "cached", "feature-selection": "cached", "select-columns": "done"}
    )
    assert [event.node for event in studio.events("started")] == ["select-columns"]


def fits(studio: Studio, state: str) -> list[Any]:
    """The fits of a forest that the run's log tells to be in a state."""
    return [event for event in studio.events("jobs") if event.subtasks[0][1] == state]


def test_a_run_is_found_after_a_reload_stopped_on_the_runs_page_and_resumed(studio: Studio):
    studio.begin(forest(**SLOW))
    before = studio.document.nodes
    studio.button("Run").click()
    studio.expect_states(forest="running")
    studio.page.reload()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(load="finished", forest="running")
    # However quickly, looking changes nothing.
    for node in ("split", "forest", "load", "forest", "split"):
        studio.click(node)
    studio.choose("forest")
    until(lambda: fits(studio, "done"), what="a finished fit")
    expect(studio.node("forest").locator(".node-bar")).to_be_visible()
    studio.shoot("running")
    assert studio.run is not None
    run = studio.run.id

    studio.page.get_by_role("link", name="Runs").click()
    expect(studio.page.get_by_role("heading", name="Runs")).to_be_visible()
    studio.page.goto(f"{studio.address}/runs?run={run}")
    live = studio.page.locator(".st-key-run-live")
    expect(live.get_by_text("random forest 1").first).to_be_visible()
    studio.shoot("run-live")
    studio.button("Stop").click()
    expect(studio.button("Resume")).to_be_visible()
    studio.button("Open this pipeline").click()
    studio.page.wait_for_selector(".react-flow__node")
    studio.expect_states(load="finished", forest="skipped")
    assert studio.run.state == "cancelled"

    studio.button("Retry").click()
    until(lambda: fits(studio, "reused"), what="a fit that was reused")
    assert len(studio.events("run-started")) == 2 and studio.run.id == run
    studio.button("Stop").click()
    studio.expect_states(forest="skipped")
    assert studio.document.nodes == before


@pytest.mark.slow
def test_a_run_outlives_the_studio_and_is_found_when_it_comes_back(tmp_path: Path, browser: Any):
    workspace = Workspace(tmp_path).create()
    few = {"learners": [{"kind": "random_forest", "trees": 200, "count": 2}], "max_layers": 1}
    pipeline = Library(workspace).create(forest(**few))
    with studio_at(workspace.root) as address:
        tab = Studio(browser.new_page(), address, workspace).open(pipeline)
        tab.button("Run").click()
        tab.expect_states(forest="running")
        tab.page.close()
    assert tab.run is not None
    run = tab.run.id
    with studio_at(workspace.root) as address:
        tab = Studio(browser.new_page(), address, workspace).open(pipeline)
        tab.expect_states(load="finished", forest="done")
        assert tab.run is not None and tab.run.id == run
        tab.page.close()
    with EventLog(workspace) as log:
        assert [
            entry.event.node for entry in log.events(run) if entry.event.kind == "started"
        ].count("forest") == 1


def test_a_setting_is_undone_and_redone_and_a_wrong_one_is_marked_and_costs_nothing_else(
    studio: Studio,
):
    studio.begin(forest())
    studio.choose("split")
    expect(studio.field("Seed")).to_have_value("0")
    studio.fill("Seed", "17")
    studio.saved(lambda pipeline: pipeline.nodes["split"].params == {"seed": 17})
    studio.button("Undo").click()
    studio.saved(lambda pipeline: pipeline.nodes["split"].params == {})
    expect(studio.field("Seed")).to_have_value("0")
    studio.button("Redo").click()
    studio.saved(lambda pipeline: pipeline.nodes["split"].params == {"seed": 17})
    expect(studio.field("Seed")).to_have_value("17")

    badge = studio.node("forest").locator(".node-problems")
    studio.choose("forest")
    assert badge.count() == 0
    studio.unfold("Layers", "Max layers")
    studio.fill("Max layers", "a lot")
    studio.saved(lambda pipeline: pipeline.nodes["forest"].params.get("max_layers") == "a lot")
    expect(badge).to_be_visible()
    expect(studio.button("1 problem")).to_be_visible()
    badge.hover()
    expect(studio.page.get_by_role("tooltip")).to_contain_text("a lot")
    studio.fill("Patience", "2")
    pipeline = studio.saved(lambda pipeline: pipeline.nodes["forest"].params.get("patience") == 2)
    assert pipeline.nodes["forest"].params["max_layers"] == "a lot"
    studio.fill("Max layers", "3")
    studio.saved(lambda pipeline: pipeline.nodes["forest"].params.get("max_layers") == 3)
    expect(badge).to_have_count(0)
    expect(studio.page.locator(".st-key-problems")).to_have_count(0)


def test_two_tabs_keep_each_others_edits(studio: Studio):
    studio.begin(forest())
    other = Studio(studio.page.context.new_page(), studio.address, studio.workspace)
    other.open(studio.pipeline)
    other.choose("split")
    other.fill("Seed", "5")
    studio.saved(lambda pipeline: pipeline.nodes["split"].params == {"seed": 5})
    studio.page.bring_to_front()
    studio.drop("predict", 300, 650)
    pipeline = studio.saved(lambda pipeline: "predict" in pipeline.nodes)
    assert pipeline.nodes["split"].params == {"seed": 5}
    studio.choose("split")
    expect(studio.field("Seed")).to_have_value("5")
    assert other.errors == []
    other.page.close()


def test_pipelines_are_renamed_duplicated_exported_imported_and_deleted(
    studio: Studio, tmp_path: Path
):
    studio.begin(forest(seed=3))
    first = studio.pipeline
    name = studio.page.get_by_label("Name", exact=True)
    name.fill("Renamed here")
    name.press("Enter")
    studio.saved(lambda pipeline: pipeline.name == "Renamed here")
    studio.open_menu()
    exported = tmp_path / "exported.json"
    exported.write_bytes(studio.download(studio.button("Export JSON")).read_bytes())
    assert json.loads(exported.read_text())["nodes"]["forest"]["params"] == {"seed": 3}
    studio.click_until(studio.button("Duplicate"), lambda: studio.pipeline != first, "the copy")
    copy, title = studio.pipeline, studio.document.name
    assert title != "Renamed here"
    # For a moment there may be two: the field of the pipeline before is about to go.
    until(lambda: name.evaluate_all("fields => fields.map(field => field.value)") == [title])
    studio.delete_pipeline()
    assert studio.library.version(copy) is None and studio.library.version(first) is not None

    unknown = {
        "format": "sylva-pipeline",
        "version": 1,
        "name": "x",
        "nodes": {"a": {"type": "<b>none</b>"}},
    }
    before = {entry.id for entry in studio.library.entries()}
    chooser = studio.page.locator('input[type="file"]')
    studio.click_until(studio.button("Import").first, chooser.count, "the menu")
    chooser.set_input_files(
        {"name": "a.json", "mimeType": "application/json", "buffer": json.dumps(unknown).encode()}
    )
    expect(studio.page.get_by_text("<b>none</b>").first).to_be_visible()
    assert {entry.id for entry in studio.library.entries()} == before
    studio.open()
    studio.click_until(studio.button("Import").first, chooser.count, "the menu")
    chooser.set_input_files(exported)
    studio.page.locator(".st-key-take-in button").click()
    studio.page.wait_for_selector(".react-flow__node")
    assert studio.pipeline not in before
    assert studio.document.nodes == studio.library.open(first).pipeline.nodes
