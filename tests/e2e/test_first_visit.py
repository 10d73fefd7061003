"""The first visit in a real browser: from an empty workspace to the inside of a finished forest."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from engine.events import EventLog
from engine.workspace import Workspace
from tests.e2e.studio import Studio, studio_at
from tests.e2e.tab import gone, waited
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

TRAINING_SECONDS = 180.0
"""The example takes about eight seconds on two free cores."""

COVERED_BY_BUTTON = """image => {
    const { x, y, width, height } = image.getBoundingClientRect();
    return document.elementFromPoint(x + width / 2, y + height / 2).closest("button") !== null;
}"""

FOOT_IS_COVERED = """card => {
    const { y, height } = card.querySelector("[class*='st-key-foot-']").getBoundingClientRect();
    const x = card.getBoundingClientRect().right - 12;
    return document.elementFromPoint(x, y + height / 2).closest("button") !== null;
}"""


def test_a_new_user_finds_a_finished_example_and_looks_inside_its_forest(
    tmp_path: Path, browser: Any
):
    workspace = Workspace(tmp_path).create()
    with studio_at(workspace.root) as address:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        first, other = context.new_page(), context.new_page()
        studio = Studio(first, address, workspace)
        # Two tabs and a reload: the example still runs once.
        first.goto(address, wait_until="commit")
        other.goto(address, wait_until="commit")
        expect(first.get_by_text("Sylva is a studio for deep forests")).to_be_visible()
        other.get_by_role("heading", name="Pipelines", exact=True).wait_for()
        other.close()
        first.reload()
        expect(studio.button("New pipeline")).to_have_count(1)

        card = first.locator(".st-key-pipelines [class*='st-key-card-']")
        expect(card).to_have_count(1)
        expect(card).to_contain_text("Accuracy", timeout=TRAINING_SECONDS * 1000)
        with EventLog(workspace) as log:
            [run] = log.runs()
        title = studio.library.open(str(run.pipeline_id)).pipeline.name
        stage = first.locator(".stage")
        studio.click_until(card.get_by_role("button", name=title), stage.is_visible, "the canvas")
        studio.expect_states(forest="finished", evaluate="finished", inspect="finished")
        expect(studio.node("evaluate")).to_contain_text("%")
        studio.shoot("example")
        studio.click_until(studio.button("Pipelines"), card.is_visible, "the list")

        maps = first.get_by_role("tab", name="t-SNE", exact=True)
        inspect, back = card.get_by_role("button", name="Inspect"), studio.button("Pipelines")

        def is_inspected() -> bool:
            # A click while the card is drawn may open the pipeline instead.
            with suppress(*gone()):
                (back if back.is_visible() else inspect).click(timeout=2_000)
            return waited(maps.is_visible, 5)

        until(is_inspected, what="Inspect")
        assert f"run={run.id}&node=inspect" in first.url
        for name in ("Margins", "One row"):
            expect(first.get_by_role("tab", name=name, exact=True)).to_be_visible()

        first.get_by_role("link", name="Build").click()
        picture = card.locator("img.thumbnail")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.naturalWidth") > 0
        assert picture.evaluate(COVERED_BY_BUTTON), "a click on the picture does not open it"
        assert not card.evaluate(FOOT_IS_COVERED), "a click beside Inspect opens the pipeline"
        expect(card).to_contain_text("Accuracy")
        studio.shoot("first-visit")
        search = first.get_by_role("searchbox", name="Search")
        search.fill("no such name")
        expect(card).to_have_count(0)
        search.fill(title[:6].upper())
        expect(card).to_have_count(1)
        assert studio.errors == []
        context.close()
