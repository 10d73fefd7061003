"""The graph of a run shows states and results, stays where it is, and takes clicks."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit_flow.elements import StreamlitFlowNode

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.run_state import NodeState, RunState, Subtask
from ui.studio.builder.node_states import NodeResult
from ui.studio.canvas import NodeView
from ui.studio.runs import graph
from ui.studio.runs.flow import (
    ICONS,
    Drawing,
    DrawnNode,
    agrees,
    clicked,
    flow_parts,
    node_html,
    node_rules,
    spoken,
    state_line,
    styles,
)
from ui.studio.runs.graph import RunGraph, drawing, layer_drawing, titles
from ui.studio.runs.layered import Link

CANVAS = Path(graph.__file__).parents[1] / "canvas"
CATALOG = load_catalog()
TWO = Drawing(
    {"a": DrawnNode("A", {"state": "done"}), "b": DrawnNode("B", {"state": "queued"})},
    (Link("a", "b", "table"),),
)


def shown_as(drawn: Drawing, timestamp: int = 500, selected: str | None = None) -> dict[str, Any]:
    """What the component sends back after it has drawn."""
    nodes = [StreamlitFlowNode(**node).asdict() for node in flow_parts(drawn)[0]]
    return {"nodes": nodes, "edges": [], "selectedId": selected, "timestamp": timestamp}


# What the component gets


def test_a_graph_that_shows_what_it_should_is_left_alone() -> None:
    nodes, _ = flow_parts(TWO)
    assert agrees(nodes, shown_as(TWO))
    now = Drawing(TWO.nodes | {"b": DrawnNode("B", {"state": "running"})}, TWO.links)
    assert not agrees(flow_parts(now)[0], shown_as(TWO))


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


def test_nothing_can_be_edited_and_only_nodes_can_be_clicked() -> None:
    nodes, _ = flow_parts(TWO)
    for node in nodes:
        editable = ("draggable", "connectable", "deletable", "selectable")
        assert not any(node[name] for name in editable)
    reached = [node["id"] for node in nodes if node["style"].get("pointerEvents") != "none"]
    assert reached == ["a", "b"] == [node["id"] for node in nodes if node["focusable"]]


def test_all_nodes_are_in_front_of_the_invisible_one_that_brings_the_styles() -> None:
    (backdrop, *others), edges = flow_parts(TWO)
    assert backdrop["data"]["content"].startswith("<style>")
    for node in others:
        for side, length in ((0, "width"), (1, "height")):
            start, end = node["pos"][side], node["pos"][side] + node[length]
            first = backdrop["pos"][side]
            assert first <= start and end <= first + backdrop[length]
    assert [(edge["source"], edge["target"]) for edge in edges] == [("a", "b")]


# The look


def test_the_styles_are_those_of_the_canvas() -> None:
    css = styles()
    for rule in (".node {", ".node-headline {", ".state-failed", "--paper: var(--st-background"):
        assert rule in css
    assert "\n" not in css and "react-flow__minimap" not in css
    assert "--paper: var(--background-color" not in css
    source = (CANVAS / "frontend" / "src" / "styles" / "node.css").read_text(encoding="utf-8")
    for name in ("node-head", "node-icon", "node-names", "node-title", "node-line", "node-bar"):
        assert f".{name}" in source and f".{name}" in css


def test_rules_for_other_parts_of_the_canvas_are_left_out() -> None:
    css = (
        ".sylva-canvas{--paper: #fff}.sylva-canvas{display:flex}.far .node{color:red}"
        ".node{width:1px}@media print{.node{display:none}}@keyframes sylva-turn{to{x:1}}"
    )
    assert node_rules(css) == ":root {--paper: #fff}@keyframes sylva-turn{to{x:1}}.node {width:1px}"


def test_the_icons_are_those_of_the_canvas() -> None:
    source = (CANVAS / "frontend" / "src" / "icons.jsx").read_text(encoding="utf-8")
    drawn = dict(re.findall(r'^  (\w+): "([^"]+)"', source, re.MULTILINE))
    assert ICONS.items() <= drawn.items()


def test_a_node_shows_title_time_headline_and_result() -> None:
    view: NodeView = {
        "state": "done",
        "seconds": 1.5,
        "result": "Deep forest · Accuracy",
        "headline": "97.4 %",
    }
    node = DrawnNode("Compare", view, "Evaluate", has_headline=True)
    content = node_html(node, chosen=True)
    for part in ("state-done", "category-Evaluate", "chosen", "1.5 s", ">97.4 %<", ICONS["done"]):
        assert part in content
    assert spoken(node) == "Compare, done: 97.4 %, Deep forest · Accuracy"
    assert node.height > DrawnNode("Load", view).height


def test_a_label_is_text_and_nothing_else() -> None:
    bad = '<img src=x onerror="window.hacked=1">\n\n# [y](z) $x$'
    content = node_html(DrawnNode(bad, {"state": "failed", "text": bad}), chosen=False)
    assert "<img" not in content and "\n" not in content
    assert "&lt;img" in content


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ({"state": "queued"}, "Queued"),
        ({"state": "running", "progress": 0.4, "text": "Running"}, "40 % · Running"),
        ({"state": "done", "result": "1,797 × 65"}, "1,797 × 65"),
        ({"state": "cached", "result": "539 rows"}, "539 rows"),
        ({"state": "failed", "text": "no rows"}, "no rows"),
        ({"state": "skipped"}, "Skipped"),
        ({"state": "idle", "text": "not in this run"}, "not in this run"),
    ],
)
def test_the_second_line_of_a_node(view: NodeView, expected: str) -> None:
    assert state_line(view) == expected


# What is drawn


def test_nodes_are_called_by_label_title_or_type_and_those_outside_the_run_say_so() -> None:
    nodes = {
        "a": Node(type="load-data", label="Digits"),
        "b": Node(type="mart"),
        "c": Node(type="of-a-plugin"),
    }
    edges = (Edge.between("a.table", "b.table"), Edge.between("a.table", "b.extra"))
    pipeline = Pipeline(name="x", nodes=nodes, edges=edges)
    states = {"a": NodeState("done", seconds=1.5), "b": NodeState("running", fraction=0.47)}
    run = RunState("r", "x", 0.0, nodes=states)
    drawn = drawing(RunGraph(pipeline, run, {}, lambda name: NodeResult("4 rows")), CATALOG, "a")
    assert [node.title for node in drawn.nodes.values()] == ["Digits", "MART", "of-a-plugin"]
    assert drawn.nodes["a"].view["result"] == "4 rows"
    assert drawn.nodes["b"].view["progress"] == 0.4
    assert drawn.nodes["c"].view == {"state": "idle", "text": "not in this run"}
    assert drawn.links == (Link("a", "b", "table"),)
    assert drawn.chosen == "a"


def test_titles_in_lists_are_unique() -> None:
    nodes = {"a": Node(type="predict"), "b": Node(type="predict"), "c": Node(type="split")}
    pipeline = Pipeline(name="x", nodes=nodes)
    named = titles(pipeline, CATALOG, {"a": "MART", "b": "Deep forest"})
    assert list(named.values()) == ["Predict · MART", "Predict · Deep forest", "Split"]
    assert list(titles(pipeline, CATALOG, {}).values()) == ["Predict 1", "Predict 2", "Split"]
    nodes = {"a": Node(type="mart"), "b": Node(type="evaluate", label="MART")}
    named = titles(Pipeline(name="x", nodes=nodes), CATALOG, {"a": "MART", "b": "MART"})
    assert list(named.values()) == ["MART", "MART · Evaluate"]


def test_a_layer_is_folds_fits_vectors_and_the_layer() -> None:
    jobs = {
        ("Layer 1", "Forest", "Fold 1"): Subtask("done", 1.0),
        ("Layer 1", "Forest", "Fold 2"): Subtask("reused"),
        ("Layer 1", "Trees", "Fold 1"): Subtask("running"),
        ("Layer 2", "Forest", "Fold 1"): Subtask("waiting"),
    }
    drawn = layer_drawing(jobs, "Layer 1")
    assert drawn.nodes["vectors Forest"].view["state"] == "done"
    assert drawn.nodes["vectors Trees"].view["state"] == "queued"
    assert drawn.nodes["layer"].title == "Layer 1"
    assert drawn.nodes["layer"].view["state"] == "queued"
    assert {(link.source, link.target) for link in drawn.links} == {
        ("fold Fold 1", "fit Forest Fold 1"),
        ("fit Forest Fold 1", "vectors Forest"),
        ("fold Fold 2", "fit Forest Fold 2"),
        ("fit Forest Fold 2", "vectors Forest"),
        ("fold Fold 1", "fit Trees Fold 1"),
        ("fit Trees Fold 1", "vectors Trees"),
        ("vectors Forest", "layer"),
        ("vectors Trees", "layer"),
    }


# Which component draws


def app() -> None:
    import streamlit as st

    from engine.node_types import load_catalog
    from engine.pipeline import Node, Pipeline
    from engine.run_state import NodeState, RunState
    from ui.studio.builder.node_states import NodeResult
    from ui.studio.runs.graph import RunGraph, clicked_node, draw_graph

    run = RunState("r", "x", 0.0, nodes={"a": NodeState("done")})
    pipeline = Pipeline(name="x", nodes={"a": Node(type="load-data")})
    shown = RunGraph(pipeline, run, {}, lambda name: NodeResult("4 rows"))
    draw_graph(shown, load_catalog(), "graph", "a")
    st.text(clicked_node("graph", 0))


def component_of(test: AppTest) -> str:
    """Which component the page has."""
    assert not test.exception
    kinds = [element.type for element in test.main.children.values()]
    return next(kind for kind in kinds if kind in ("component_instance", "bidi_component"))


def test_streamlit_flow_draws_the_graph() -> None:
    assert component_of(AppTest.from_function(app).run()) == "component_instance"


def test_without_streamlit_flow_the_canvas_draws_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # None in sys.modules makes an import fail.
    monkeypatch.setitem(sys.modules, "streamlit_flow", None)
    assert component_of(AppTest.from_function(app).run()) == "bidi_component"


def test_the_canvas_draws_the_graph_if_streamlit_flow_does_not_answer() -> None:
    test = AppTest.from_function(app).run()
    looks = int(graph.LOADING_SECONDS / graph.LOOK_SECONDS)
    for _ in range(looks):
        assert component_of(test) == "component_instance"
        test.run()
    assert component_of(test.run()) == "bidi_component"


def test_an_answer_of_streamlit_flow_ends_the_waiting() -> None:
    test = AppTest.from_function(app).run()
    test.session_state["graph"] = shown_as(TWO, 7, "a")
    for _ in range(20):
        test.run()
    assert component_of(test) == "component_instance"
    assert test.text[0].value == "('a', 7)"
