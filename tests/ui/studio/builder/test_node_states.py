"""Which states of a run the canvas shows after the pipeline was changed."""

from __future__ import annotations

import pytest

from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import with_values
from engine.run_state import NodeState, RunState
from ui.studio.builder.node_states import OUT_OF_DATE, NodeResult, node_views, unchanged_nodes

CHAIN = Pipeline(
    name="Chain",
    nodes={
        "load": Node(type="load-data", params={"source": "sample:wine"}),
        "split": Node(type="split"),
        "mart": Node(type="mart"),
        "other": Node(type="load-data"),
    },
    edges=(Edge.between("load.table", "split.table"), Edge.between("split.train", "mart.table")),
)


def with_node(name: str, **values: object) -> Pipeline:
    node = with_values(CHAIN.nodes[name], **values)
    return with_values(CHAIN, nodes={**CHAIN.nodes, name: node})


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (CHAIN, {"load", "split", "mart", "other"}),
        (with_node("split", label="Cut"), {"load", "split", "mart", "other"}),
        (with_node("load", params={"source": "sample:iris"}), {"other"}),
        (with_node("split", params={"seed": 1}), {"load", "other"}),
        (with_node("mart", params={"trees": 9}), {"load", "split", "other"}),
        (with_node("mart", type="extra-trees"), {"load", "split", "other"}),
        (with_values(CHAIN, edges=CHAIN.edges[:1]), {"load", "split", "other"}),
        (
            with_values(CHAIN, edges=(CHAIN.edges[0], Edge.between("split.test", "mart.table"))),
            {"load", "split", "other"},
        ),
        (
            with_values(CHAIN, edges=(Edge.between("other.table", "split.table"), CHAIN.edges[1])),
            {"load", "other"},
        ),
        (with_values(CHAIN, layout={"load": (5.0, 5.0)}), {"load", "split", "mart", "other"}),
        (with_node("split", bypass=True), {"load", "other"}),
    ],
)
def test_a_change_makes_the_node_and_all_below_it_stale(now: Pipeline, same: set[str]):
    assert unchanged_nodes(now, CHAIN) == same


def test_a_change_of_a_node_that_stays_bypassed_changes_nothing():
    before = with_node("split", bypass=True)
    node = with_values(before.nodes["split"], params={"seed": 1})
    now = with_values(before, nodes={**before.nodes, "split": node})
    assert unchanged_nodes(now, before) == set(CHAIN.nodes)


def test_a_cycle_drawn_since_does_not_hang():
    edges = (*CHAIN.edges, Edge.between("mart.model", "load.table"))
    assert unchanged_nodes(with_values(CHAIN, edges=edges), CHAIN) == {"other"}


@pytest.mark.parametrize(
    ("state", "view"),
    [
        (NodeState("queued"), {"state": "queued"}),
        (
            NodeState("running", fraction=0.4, text="layer 2"),
            {"state": "running", "progress": 0.4, "text": "layer 2"},
        ),
        (
            NodeState("done", fraction=1.0, seconds=1.5),
            {"state": "done", "seconds": 1.5, "progress": None},
        ),
        (
            NodeState("cached", seconds=1.5, text="unchanged"),
            {"state": "cached", "seconds": None, "text": "unchanged"},
        ),
        (NodeState("failed", error={"message": "no file"}), {"state": "failed", "text": "no file"}),
        (
            NodeState("skipped", text="needs 'load', which failed"),
            {"state": "skipped", "text": "a node before it failed"},
        ),
        (NodeState("cancelled"), {"state": "skipped"}),
        (NodeState("interrupted"), {"state": "skipped"}),
        (NodeState("of a newer version"), {"state": "idle"}),
    ],
)
def test_every_state_is_shown(state: NodeState, view: dict[str, object]):
    run = RunState("1", "Chain", 0.0, nodes={"load": state, "gone": NodeState("done")})
    shown = node_views(CHAIN, run, CHAIN)
    assert list(shown) == ["load"]
    assert {name: shown["load"][name] for name in view} == view  # type: ignore[literal-required]


RESULTS = {"mart": NodeResult("AUC", "0.925")}


@pytest.mark.parametrize("state", ["done", "cached"])
def test_a_finished_node_shows_what_came_out(state: str):
    nodes = {name: NodeState(state, text="at work") for name in CHAIN.nodes}
    run = RunState("1", "Chain", 0.0, nodes=nodes)
    shown = node_views(CHAIN, run, CHAIN, result=lambda name: RESULTS.get(name, NodeResult()))
    assert (shown["mart"]["result"], shown["mart"]["headline"]) == ("AUC", "0.925")
    assert (shown["load"]["result"], shown["load"]["headline"]) == ("at work", "")


@pytest.mark.parametrize("state", ["running", "failed"])
def test_a_node_that_is_not_finished_has_no_result(state: str):
    run = RunState("1", "Chain", 0.0, nodes={"mart": NodeState(state, text="at work")})
    shown = node_views(CHAIN, run, CHAIN, result=lambda name: RESULTS[name])
    assert shown["mart"]["text"] == "at work"
    assert not shown["mart"].get("result") and not shown["mart"].get("headline")


def test_without_a_run_there_is_nothing_to_show():
    assert node_views(CHAIN, None, None) == {}


def test_a_node_that_was_changed_since_the_run_says_so():
    nodes = {name: NodeState("done", seconds=1.0) for name in ("load", "split")}
    run = RunState("1", "Chain", 0.0, nodes=nodes)
    views = node_views(with_node("split", params={"seed": 1}), run, CHAIN)
    assert views["load"]["state"] == "done" and "mart" not in views
    assert views["split"] == {"state": "idle", "text": OUT_OF_DATE}
