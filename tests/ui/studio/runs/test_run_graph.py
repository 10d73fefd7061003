"""The graph shows states, stays where it is, and takes clicks."""

from __future__ import annotations

from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.run_state import NodeState, RunState, Subtask
from ui.studio.runs.run_graph import (
    Drawing,
    clicked,
    drawing,
    flow_state,
    is_laid_out,
    layer_drawing,
    node_line,
)

TWO = Drawing({"a": ("A", "done", "done"), "b": ("B", "queued", "queued")}, (("a", "b"),))


def shown_as(drawn: Drawing, timestamp: int = 500, selected: str | None = None) -> dict[str, Any]:
    """What the component sends back after it has drawn."""
    nodes = [node.asdict() for node in flow_state(drawn, None).nodes]
    for number, node in enumerate(nodes):
        node["position"] = {"x": 100.0 * number, "y": 12.0}
    return {"nodes": nodes, "edges": [], "selectedId": selected, "timestamp": timestamp}


def test_a_graph_that_shows_what_it_should_is_left_alone() -> None:
    assert flow_state(TWO, shown_as(TWO)).timestamp == 0


def test_a_graph_that_shows_something_else_is_drawn_anew_where_it_stands() -> None:
    now = Drawing(TWO.nodes | {"b": ("B", "running", "running")}, TWO.edges)
    state = flow_state(now, shown_as(TWO, timestamp=500))
    assert state.timestamp == 500
    assert [node.position["x"] for node in state.nodes] == [0.0, 100.0]
    assert "running" in state.nodes[1].data["content"]


def test_the_first_drawing_is_laid_out_and_later_ones_keep_the_view() -> None:
    assert not is_laid_out(None)
    unplaced = shown_as(TWO)
    for node in unplaced["nodes"]:
        node["position"] = {"x": 0, "y": 0}
    assert not is_laid_out(unplaced)
    assert is_laid_out(shown_as(TWO))


@pytest.mark.parametrize(
    ("shown", "seen", "expected"),
    [
        (None, 0, None),
        (shown_as(TWO, 500, "b"), 0, "b"),
        (shown_as(TWO, 500, "b"), 500, None),
        (shown_as(TWO, 500, None), 0, None),
    ],
)
def test_a_click_counts_once(shown: dict[str, Any] | None, seen: int, expected: str | None) -> None:
    assert clicked(shown, seen) == expected


def test_nothing_can_be_edited() -> None:
    for node in flow_state(TWO, None).nodes:
        assert not (node.draggable or node.connectable or node.deletable or node.selectable)


def test_the_chosen_node_stands_out_and_nodes_look_like_their_state() -> None:
    first, second = flow_state(Drawing(TWO.nodes, TWO.edges, "b"), None).nodes
    assert first.style["boxShadow"] == "none" and second.style["boxShadow"] != "none"
    assert first.style["background"] != second.style["background"]
    assert first.style["color"] == second.style["color"]


def test_a_label_is_text_and_nothing_else() -> None:
    bad = "<img src=x> [y](z)"
    pipeline = Pipeline(name="x", nodes={"a": Node(type="load-data", label=bad)})
    state = flow_state(drawing(pipeline, load_catalog(), RunState("r", "x", 0.0), None), None)
    content = state.nodes[0].data["content"]
    assert r"\<img" in content and r"\[y\]" in content


def test_nodes_are_called_by_label_title_or_type_and_those_outside_the_run_say_so() -> None:
    nodes = {
        "a": Node(type="load-data", label="Digits"),
        "b": Node(type="mart"),
        "c": Node(type="of-a-plugin"),
    }
    edges = (Edge.between("a.table", "b.table"), Edge.between("a.table", "b.extra"))
    pipeline = Pipeline(name="x", nodes=nodes, edges=edges)
    state = RunState("r", "x", 0.0, nodes={"a": NodeState("done", seconds=1.5)})
    drawn = drawing(pipeline, load_catalog(), state, "a")
    assert [title for title, _, _ in drawn.nodes.values()] == ["Digits", "MART", "of-a-plugin"]
    assert drawn.nodes["a"][1:] == ("✓ done 1.5 s", "done")
    assert drawn.nodes["b"][2] == "not in this run"
    assert drawn.edges == (("a", "b"),)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (NodeState("queued"), "· queued"),
        (NodeState("running", fraction=0.47), "▸ running 40 %"),
        (NodeState("done", seconds=0.25), "✓ done 250 ms"),
        (NodeState("cached", seconds=9.0), "= cached"),
        (NodeState("failed", seconds=61.0), "✗ failed 1 min 1 s"),
        (NodeState("of another version"), "· of another version"),
    ],
)
def test_a_node_says_its_state_and_time(node: NodeState, expected: str) -> None:
    assert node_line(node) == expected


def test_a_layer_is_folds_fits_vectors_and_the_layer() -> None:
    jobs = {
        ("Layer 1", "Forest", "Fold 1"): Subtask("done", 1.0),
        ("Layer 1", "Forest", "Fold 2"): Subtask("reused"),
        ("Layer 1", "Trees", "Fold 1"): Subtask("running"),
        ("Layer 2", "Forest", "Fold 1"): Subtask("waiting"),
    }
    drawn = layer_drawing(jobs, "Layer 1")
    assert drawn.nodes["vectors Forest"][2] == "done"
    assert drawn.nodes["vectors Trees"][2] == "queued"
    assert drawn.nodes["layer"] == ("Layer 1", "", "queued")
    assert set(drawn.edges) == {
        ("fold Fold 1", "fit Forest Fold 1"),
        ("fit Forest Fold 1", "vectors Forest"),
        ("fold Fold 2", "fit Forest Fold 2"),
        ("fit Forest Fold 2", "vectors Forest"),
        ("fold Fold 1", "fit Trees Fold 1"),
        ("fit Trees Fold 1", "vectors Trees"),
        ("vectors Forest", "layer"),
        ("vectors Trees", "layer"),
    }
