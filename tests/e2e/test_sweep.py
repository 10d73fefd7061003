"""A sweep as a user makes it: values in a form, branches at work, a leaderboard, and an undo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.document import Document, Edge, Node
from engine.workspace import Workspace
from tests.e2e.studio import PATIENCE, Studio, expect, studio_at

PIPELINE = Document(
    name="Flowers",
    nodes={
        "load": Node(type="load-data", params={"source": "sample:iris"}),
        "split": Node(type="split"),
        "forest": Node(type="random-forest", params={"trees": 2}),
        "predict": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
    },
    edges=(
        Edge.between("load.table", "split.table"),
        Edge.between("split.train", "forest.table"),
        Edge.between("forest.model", "predict.model"),
        Edge.between("split.test", "predict.table"),
        Edge.between("predict.predictions", "evaluate.predictions"),
    ),
    layout={"load": (0, 0), "split": (288, 0), "forest": (576, 0), "predict": (864, 0), "evaluate": (1152, 0)},
)


@pytest.fixture
def studio(tmp_path: Path, browser: Any) -> Iterator[Studio]:
    workspace = Workspace(tmp_path / "workspace").create()
    with studio_at(workspace.root) as address:
        page = browser.new_context(viewport={"width": 1500, "height": 950}).new_page()
        page.set_default_timeout(PATIENCE * 1000)
        yield Studio(page, address, workspace)
        page.context.close()


def tries(document: Document) -> Any:
    sweep = document.nodes["forest"].sweep
    return sweep.grid["trees"] if sweep else None


def choose_setting(studio: Studio, name: str) -> None:
    """The list does not open while the part it is in unfolds."""
    option = studio.page.get_by_role("option", name=name, exact=True)
    for _ in range(30):
        if option.is_visible():
            option.click()
            return
        studio.page.get_by_label("Setting to sweep").click()
        studio.page.wait_for_timeout(1000)
    raise AssertionError("the list of settings does not open")


def test_values_given_in_the_form_run_in_branches_and_meet_in_a_leaderboard(studio: Studio) -> None:
    page = studio.begin(PIPELINE).page
    studio.choose("forest")
    panel = page.locator(".st-key-panel")
    panel.get_by_text("Sweep", exact=True).click()
    choose_setting(studio, "Trees")
    values = panel.get_by_label("Trees", exact=True).nth(1)
    expect()(values).to_have_value("2", timeout=PATIENCE * 1000)
    values.fill("2, 3, 4")
    values.press("Enter")
    expect()(panel).to_contain_text("3 branches: trees (3)", timeout=PATIENCE * 1000)
    studio.saved(lambda document: tries(document) == [2, 3, 4], PATIENCE)

    studio.button("Run").click()
    studio.expect_states(2 * PATIENCE, forest="done", evaluate="done")
    expect()(studio.node("forest")).to_contain_text("3 branches")
    assert studio.run is not None
    assert set(studio.run.names("done")) >= {"forest-1", "forest-2", "forest-3", "leaderboard"}

    studio.look_at("evaluate.report")
    page.get_by_text("Best: Random forest trees=").wait_for()
    expect()(studio.node("evaluate")).to_contain_text("3 branches · AUC")
    page.get_by_role("button", name="Keep the best: trees=").click()
    best = studio.saved(lambda document: tries(document) is None, PATIENCE).nodes["forest"].params["trees"]
    expect()(page.get_by_test_id("stToast")).to_contain_text(f"trees = {best} is kept", timeout=PATIENCE * 1000)
    studio.expect_states(forest="idle")  # the canvas has it
    studio.button("Undo").click()
    studio.saved(lambda document: tries(document) == [2, 3, 4], PATIENCE)

    studio.expect_states(forest="done")
    studio.look_at("forest.model")
    studio.button("Keep these values").click()
    kept = studio.saved(lambda document: tries(document) is None, PATIENCE)
    assert kept.nodes["forest"].params == {"trees": 2}
    studio.expect_states(forest="idle")
    studio.button("Undo").click()
    studio.saved(lambda document: tries(document) == [2, 3, 4], PATIENCE)
    studio.button("Undo").click()  # the values, then the sweep
    studio.saved(lambda document: tries(document) == [2], PATIENCE)
    studio.button("Undo").click()
    studio.saved(lambda document: tries(document) is None, PATIENCE)
    assert studio.errors == []
