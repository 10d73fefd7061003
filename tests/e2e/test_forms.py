"""Forms in a real browser: learners edited in their rows, a table uploaded, keys and help."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.studio import Studio, forest
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

TABLE = "age,job,Label\n" + "31,cook,high\n42,nurse,low\n25,pilot,low\n" * 10
FOCUSED = """() => {
    const field = document.activeElement;
    const help = document.getElementById(field.getAttribute("aria-describedby"));
    return [field.getAttribute("aria-label") || field.textContent, help ? help.textContent : ""];
}"""


def kinds(studio: Studio) -> list[Any]:
    """The learners in the file, as kind and trees."""
    learners = studio.document.nodes["forest"].params.get("learners", [])
    return [(each["kind"], each.get("trees")) for each in learners]


def edit(studio: Studio, button: str, after: list[Any]) -> None:
    studio.click_until(studio.button(button), lambda: kinds(studio) == after, button)


def tabbed(studio: Studio, count: int) -> list[tuple[str, str]]:
    """The names of the next fields that Tab leads to, each with its help."""
    stops = []
    for _ in range(count):
        studio.press("Tab")
        name, text = studio.page.evaluate(FOCUSED)
        stops.append((name, text))
    return stops


def test_learners_are_edited_in_their_rows_and_tab_leads_from_field_to_field(studio: Studio):
    two = [{"kind": "random_forest", "trees": 20}, {"kind": "mart", "trees": 30}]
    studio.begin(forest(learners=two))
    studio.choose("forest")
    first, second = ("random_forest", 20), ("mart", 30)
    edit(studio, "Copy learner 1", [first, first, second])
    edit(studio, "Move up learner 3", [first, second, first])
    edit(studio, "Remove learner 1", [second, first])
    rows = studio.panel.locator('[class*="st-key-card-text"]')
    expect(rows).to_have_text(
        ["1 × MART · 30 trees · rate 0.1", "1 × Random forest · 20 trees · √ features"]
    )
    heights = [row.bounding_box()["height"] for row in rows.locator("p").all()]
    assert max(heights) < 24, "a row takes more than one line"

    studio.unfold("Learner 2", "Features per split")
    trees = studio.field("Trees")
    trees.fill("25")
    trees.press("Tab")
    until(lambda: kinds(studio) == [second, ("random_forest", 25)], what="the number of trees")
    expect(rows.last).to_have_text("1 × Random forest · 25 trees · √ features")
    # The row was drawn again, and the keyboard is where it was.
    expect(studio.field("Depth")).to_be_focused()
    expect(studio.page.locator(".field-help:popover-open")).to_contain_text("empty: no limit")
    help_box = studio.box(studio.page.locator(".field-help:popover-open"))
    assert help_box["x"] + help_box["width"] <= studio.box(studio.panel)["x"], "help covers fields"
    assert [name for name, _ in tabbed(studio, 2)] == ["Features per split", "Min rows per leaf"]

    studio.unfold("Layers", "Max layers")
    studio.field("Max layers").click()
    stops = tabbed(studio, 4)
    assert [name for name, _ in stops] == ["Patience", "Folds", "Tolerance", "Folds by"]
    assert all(text for _, text in stops), "a field without its help"
    studio.fill("Folds", "3")
    # What is typed stays while the form is drawn again with fewer rows.
    studio.button("Remove learner 1").click()
    studio.field("Max layers").fill("5")
    expect(rows).to_have_count(1)
    expect(studio.field("Max layers")).to_have_value("5")
    studio.field("Max layers").press("Enter")
    studio.saved(lambda pipeline: pipeline.nodes["forest"].params.get("max_layers") == 5)
    expect(studio.panel.get_by_text("max 5 layers, 3 folds", exact=True)).to_be_visible()
    studio.shoot("forest-form")


def test_a_table_is_uploaded_in_load_data_and_its_target_proposed(studio: Studio):
    studio.begin(forest())
    studio.choose("load")
    expect(studio.field("Source")).to_have_value("Digits (sample)")
    file = {"name": "uploaded here.csv", "mimeType": "text/csv", "buffer": TABLE.encode()}
    studio.panel.locator('input[type="file"]').set_input_files(file)
    expected = {"source": "uploaded here.csv", "target": "Label"}
    studio.saved(lambda pipeline: pipeline.nodes["load"].params == expected)
    expect(studio.field("Source")).to_have_value("uploaded here.csv")
    expect(studio.field("Target")).to_have_value("Label")
    assert (studio.workspace.data / "uploaded here.csv").read_text() == TABLE
    studio.shoot("load-form")
