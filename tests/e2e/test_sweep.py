"""A sweep as a user makes it: values in a form, branches at work, a leaderboard, and an undo."""

from __future__ import annotations

import re
from typing import Any

from engine.pipeline import Edge, Node, Pipeline
from tests.e2e.studio import PATIENCE, Studio, expect

PIPELINE = Pipeline(
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
    layout={
        "load": (0, 0),
        "split": (288, 0),
        "forest": (576, 0),
        "predict": (864, 0),
        "evaluate": (1152, 0),
    },
)


def tries(pipeline: Pipeline) -> Any:
    sweep = pipeline.nodes["forest"].sweep
    return sweep.grid["trees"] if sweep else None


def test_values_given_in_the_form_run_in_branches_and_meet_in_a_leaderboard(studio: Studio) -> None:
    page = studio.begin(PIPELINE).page
    studio.choose("forest")
    panel, option = studio.panel, page.get_by_role("option", name="Trees", exact=True)
    panel.get_by_text("Sweep", exact=True).click()
    studio.click_until(
        page.get_by_label("Setting to sweep"), option.is_visible, "the list of settings"
    )
    option.click()
    values = panel.get_by_label("Trees", exact=True).nth(1)
    expect()(values).to_have_value("2")
    values.fill("2, 3")
    values.press("Enter")
    studio.saved(lambda pipeline: tries(pipeline) == [2, 3])

    studio.button("Run").click()
    studio.expect_states(2 * PATIENCE, forest="done", evaluate="done")
    expect()(studio.node("forest")).to_contain_text("2")
    assert studio.run is not None
    assert set(studio.run.nodes_in("done")) >= {"forest-1", "forest-2", "leaderboard"}

    studio.look_at("evaluate.report")
    expect()(page.get_by_role("button", name=re.compile(r"trees=\d"))).to_be_visible()
    studio.look_at("forest.model")
    studio.button("Keep these values").click()
    kept = studio.saved(lambda pipeline: tries(pipeline) is None)
    assert kept.nodes["forest"].params == {"trees": 2}
    studio.expect_states(forest="idle")
    for left in ([2, 3], [2], None):  # the values, then the sweep
        studio.button("Undo").click()
        studio.saved(lambda pipeline, left=left: tries(pipeline) == left)
