"""A swept run on the Runs page: a node for each branch, or one for all if there are too many."""

from __future__ import annotations

from pathlib import Path

from engine.events import RunRow
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline, Sweep
from engine.pipeline_file import dumps
from engine.run_state import NodeState, RunState
from engine.runs import Runs
from engine.workspace import Workspace
from ui.studio.builder.node_states import NodeResult
from ui.studio.runs.graph import RunGraph, drawing
from ui.studio.runs.run_view import _one_of_its_branches

CATALOG = load_catalog()
RUNS = Runs(Workspace(Path("unused")), CATALOG)
DOCUMENT = Pipeline(
    name="Swept",
    nodes={
        "load": Node(type="load-data"),
        "forest": Node(type="random-forest", sweep=Sweep(grid={"trees": [1, 2, 3]})),
    },
    edges=(Edge.between("load.table", "forest.table"),),
)
ROW = RunRow(id="r", name="Swept", created=0.0, document=dumps(DOCUMENT), options={})
STATE = RunState(
    "r",
    "Swept",
    0.0,
    "failed",
    {
        "load": NodeState("done"),
        "forest-1": NodeState("done"),
        "forest-2": NodeState("done"),
        "forest-3": NodeState("failed", error={"message": "no rows"}),
    },
)


def no_result(name: str) -> NodeResult:
    return NodeResult()


def test_a_run_is_drawn_with_a_node_for_each_branch():
    planned = RUNS.planned_pipeline(ROW)
    assert planned is not None
    drawn = drawing(RunGraph(planned.pipeline, STATE, {}, no_result), CATALOG, "forest-2")
    assert {name: node.title for name, node in drawn.nodes.items()} == {
        "load": "Load data",
        "forest-1": "Random forest trees=1",
        "forest-2": "Random forest trees=2",
        "forest-3": "Random forest trees=3",
    }
    assert [link.target for link in drawn.links] == ["forest-1", "forest-2", "forest-3"]


def test_the_pipeline_of_a_run_stays_as_it_was_written():
    assert RUNS.written_pipeline(ROW) == DOCUMENT


def test_too_many_branches_are_drawn_as_one_and_a_click_leads_to_the_one_that_failed():
    planned = RUNS.planned_pipeline(ROW)
    assert planned is not None
    drawn = drawing(RunGraph(DOCUMENT, STATE, planned.copies, no_result), CATALOG, "forest-3")
    node = drawn.nodes["forest"]
    assert (node.title, node.view["state"]) == ("Random forest × 3", "failed")
    assert "1 of 3" in node.view["text"]
    assert (drawn.nodes["load"].title, drawn.nodes["load"].view["state"]) == ("Load data", "done")
    assert drawn.chosen == "forest"
    assert _one_of_its_branches("forest", STATE, planned) == "forest-3"
    assert _one_of_its_branches("forest-1", STATE, planned) == "forest-1"
    assert _one_of_its_branches(None, STATE, planned) is None
