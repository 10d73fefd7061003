"""A swept node in the builder: one node on the canvas, its sweep to the form and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Node, Pipeline, Sweep
from engine.pipeline_file import with_values
from engine.run_state import NodeState, RunState
from ui.studio.builder.node_states import NodeResult, node_views, unchanged_nodes
from ui.studio.canvas.protocol import Revision, apply_edit, payload

CATALOG = load_catalog()
SWEEP = Sweep.model_validate({"random": {"trees": {"from": 3, "to": 9}}, "trials": 3})
DOCUMENT = Pipeline(
    name="One", nodes={"forest": Node(type="random-forest", label="Mine", sweep=SWEEP)}
)
COPIES = {"forest": ("forest-1", "forest-2", "forest-3")}

DONE = NodeState("done", fraction=1.0, seconds=2.0)
CACHED = NodeState("cached", fraction=1.0, seconds=9.0, text="unchanged since run 1")
FAILED = NodeState("failed", error={"message": "no rows"})
HALF = NodeState("running", fraction=0.5)
QUEUED = NodeState()


@pytest.mark.parametrize(
    ("branches", "state", "words"),
    [
        ((QUEUED, QUEUED, QUEUED), "queued", "0 of 3"),
        ((HALF, QUEUED, QUEUED), "running", "0 of 3"),
        ((DONE, QUEUED, QUEUED), "running", "1 of 3"),
        ((DONE, HALF, FAILED), "running", "1 of 3"),
        ((DONE, DONE, FAILED), "failed", "no rows"),
        ((DONE, CACHED, DONE), "done", "3 branches"),
        ((CACHED, CACHED, CACHED), "cached", "3 branches"),
        ((DONE, NodeState("cancelled"), NodeState("cancelled")), "skipped", "1 of 3"),
        ((DONE, NodeState("skipped"), DONE), "skipped", "2 of 3"),
        ((DONE, DONE), "done", "2 branches"),  # the run was of some branches only
    ],
)
def test_the_branches_of_a_node_are_shown_as_one(
    branches: tuple[NodeState, ...], state: str, words: str
):
    run = RunState("r", "One", 0.0, nodes=dict(zip(COPIES["forest"], branches, strict=False)))
    view = node_views(DOCUMENT, run, DOCUMENT, COPIES)["forest"]
    assert view["state"] == state
    assert words in view["text"]


def test_branches_that_are_all_done_show_which_was_best():
    best = NodeResult("Mine trees=5 · AUC", "0.9")

    def view(*branches: NodeState) -> Any:
        run = RunState("r", "One", 0.0, nodes=dict(zip(COPIES["forest"], branches, strict=True)))
        return node_views(DOCUMENT, run, DOCUMENT, COPIES, lambda name: best)["forest"]

    done = view(DONE, CACHED, DONE)
    assert done["result"].startswith("3") and done["result"].endswith("Mine trees=5 · AUC")
    assert done["headline"] == "0.9"
    failed = view(DONE, FAILED, DONE)
    assert "1 of 3" in failed["text"] and "no rows" in failed["text"]
    assert not failed.get("result") and not failed.get("headline")


def test_progress_is_that_of_all_branches_and_time_that_of_the_work_done():
    def view(*branches: NodeState) -> Any:
        run = RunState("r", "One", 0.0, nodes=dict(zip(COPIES["forest"], branches, strict=True)))
        return node_views(DOCUMENT, run, DOCUMENT, COPIES)["forest"]

    assert view(DONE, HALF, QUEUED)["progress"] == 0.5
    assert view(DONE, CACHED, DONE)["seconds"] == 4.0


def test_another_sweep_makes_the_node_stale():
    node = with_values(DOCUMENT.nodes["forest"], sweep=None)
    assert unchanged_nodes(with_values(DOCUMENT, nodes={"forest": node}), DOCUMENT) == set()


def test_a_sweep_goes_to_the_canvas_and_comes_back_with_an_undo():
    parts: dict[str, Any] = {
        "pipeline_id": "p",
        "epoch": 1,
        "taken": Revision(),
        "problems": [],
        "states": {},
        "reveal": None,
        "height": 1,
    }
    sent = json.loads(json.dumps(payload(DOCUMENT, CATALOG, **parts)))["document"]
    assert set(sent["nodes"]["forest"]) == {
        "type",
        "label",
        "settings",
    }  # all that the canvas keeps
    without = with_values(
        DOCUMENT, nodes={"forest": with_values(DOCUMENT.nodes["forest"], sweep=None)}
    )
    sent["nodes"]["forest"]["since"] = 2
    edit = {"instance": "tab", "pipeline": "p", "revision": 2, "epoch": 1, "document": sent}
    assert (
        apply_edit(without, edit, pipeline_id="p", epoch=1, taken=Revision()).pipeline == DOCUMENT
    )
    sent["nodes"]["forest"] = {"type": "random-forest", "settings": {}, "since": 2}
    assert (
        apply_edit(DOCUMENT, edit, pipeline_id="p", epoch=1, taken=Revision()).pipeline == without
    )


def test_a_node_that_sweeps_says_so_before_any_run():
    assert node_views(DOCUMENT, None, None)["forest"] == {
        "state": "idle",
        "text": "Sweep: 3 branches",
    }
