"""Draw the graph of a run. It cannot be edited.

- ``draw_graph``     draws the graph of a run
- ``clicked_node``   the node that was clicked in it
- ``titles``         a title for each node, for lists
- ``drawing``        nodes and connections of a pipeline with the states of a run
- ``draw_layer``     draws the fits of one layer of a deep forest
- ``layer_drawing``  its nodes and connections: folds → fits → class vectors → layer

streamlit-flow draws the graph. Where it is not installed, or does not answer in the browser, the
canvas of the builder draws it without edits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.node_types import NodeCatalog
from engine.pipeline import Pipeline
from engine.run_state import RunState, Subtask
from engine.text import duration
from ui.studio.builder.node_states import STOPPED, NodeResult, node_views
from ui.studio.canvas import NodeView, State, canvas_view
from ui.studio.canvas.protocol import has_headline
from ui.studio.runs.flow import Drawing, DrawnNode, clicked, draw_flow, flow_loads
from ui.studio.runs.layered import Link
from ui.studio.runs.timeline import three_parts
from ui.studio.screen_text import node_title

LOADING_SECONDS = 8.0
"""How long the browser may take to load streamlit-flow; then the canvas draws the graph."""
LOOK_SECONDS = 1.0
MOST_HEIGHT = 520
CANVAS_HEIGHT = 420
FAILED = "graph-does-not-load"
"""Where a session notes that streamlit-flow did not answer: it is not tried again."""
SUBTASK_STATES: dict[str, State] = {
    "waiting": "queued",
    "running": "running",
    "done": "done",
    "reused": "cached",
    "failed": "failed",
    "interrupted": "skipped",
}


@dataclass(frozen=True)
class RunGraph:
    """The pipeline of a run and what is shown of its nodes.

    ``copies`` are the branches in the run of each node, if they are drawn as one. ``result``
    returns the result of a finished node.
    """

    pipeline: Pipeline
    state: RunState
    copies: Mapping[str, Sequence[str]]
    result: Callable[[str], NodeResult]

    def views(self) -> dict[str, NodeView]:
        """Return what each node shows.

        Progress is rounded to 10 %, so that the graph is not drawn again all the time.
        """
        views = node_views(
            self.pipeline, self.state, self.pipeline, copies=self.copies, result=self.result
        )
        for name in self.pipeline.nodes:
            view = views.setdefault(name, {"state": "idle", "text": "not in this run"})
            node = self.state.nodes.get(name)
            if view["state"] == "running":
                view["progress"] = int((view.get("progress") or 0.0) * 10) / 10
                view["text"] = "Running"
            elif node is not None and node.state in STOPPED:
                # Which button continues the run is written above the graph.
                view["text"] = "stopped" if node.state == "cancelled" else node.state
        return views

    def shown_as(self, name: str | None) -> str | None:
        """Return the node that is drawn for a node of the run; None if it is not drawn."""
        nodes = self.pipeline.nodes
        return next((node for node in nodes if name in self.copies.get(node, (node,))), None)


def draw_graph(graph: RunGraph, catalog: NodeCatalog, key: str, chosen: str | None) -> None:
    """Draw the graph of a run with a frame around the node ``chosen``.

    ``clicked_node`` returns which node was clicked.
    """
    if not flow_loads() or st.session_state.get(FAILED):
        canvas_view(
            graph.pipeline,
            catalog=catalog,
            states=graph.views(),
            key=f"{key}-canvas",
            height=f"{CANVAS_HEIGHT}px",
            selected=graph.shown_as(chosen),
            on_select=lambda name: _note_click(key, name),
        )
        return
    draw_flow(drawing(graph, catalog, chosen), key, most_height=MOST_HEIGHT, clickable=True)
    if st.session_state.get(key) is None:
        _await_answer(key)


def clicked_node(key: str, since: int) -> tuple[str, int] | None:
    """Return the node that was clicked in the graph ``key`` and the time, if after ``since``."""
    name = clicked(_answer(key), since)
    return (name, last_answer(key)) if name is not None else None


def last_answer(key: str) -> int:
    """Return when the graph ``key`` reported last; 0 if it has not."""
    shown = _answer(key)
    return shown["timestamp"] if shown else 0


def _answer(key: str) -> Mapping[str, Any] | None:
    """Return what the graph reported last."""
    return st.session_state.get(_click_key(key)) or st.session_state.get(key)


def _click_key(key: str) -> str:
    """Return where a session has the last click on the canvas."""
    return f"{key}-clicked"


def _note_click(key: str, name: str | None) -> None:
    """Keep a click on the canvas in the form in which streamlit-flow reports one."""
    now = int(time.time() * 1000)
    st.session_state[_click_key(key)] = {"selectedId": name, "timestamp": now}


def _await_answer(key: str) -> None:
    """Draw the graph on the canvas if the browser does not load streamlit-flow in time.

    The component answers as soon as it has drawn. That draws the page again, without this.
    """
    waits = f"{key}-waits"

    @st.fragment(run_every=LOOK_SECONDS)
    def look() -> None:
        """Count how often the page was looked at; a page that was left does not count."""
        looks = st.session_state.get(waits, 0)
        st.session_state[waits] = looks + 1
        if looks * LOOK_SECONDS > LOADING_SECONDS:
            st.session_state[FAILED] = True
            st.rerun()

    look()


# Drawings


def drawing(graph: RunGraph, catalog: NodeCatalog, chosen: str | None) -> Drawing:
    """Return the drawing of a run; ``chosen`` may also be one of the branches of a node."""
    views = graph.views()
    nodes = {}
    for name, node in graph.pipeline.nodes.items():
        own = graph.copies.get(name, (name,))
        title = node_title(node, catalog)
        if tuple(own) != (name,):
            title = f"{title} × {len(own)}"
        node_type = catalog.get(node.type)
        nodes[name] = DrawnNode(
            title,
            views[name],
            node_type.category if node_type else "other",
            node_type is not None and has_headline(node_type),
        )
    return Drawing(nodes, _links(graph.pipeline, catalog), graph.shown_as(chosen))


def _links(pipeline: Pipeline, catalog: NodeCatalog) -> tuple[Link, ...]:
    """Return the connections of nodes, each once, with the type of the port they come from."""
    links: dict[Link, None] = {}
    for edge in pipeline.edges:
        node_type = catalog.get(pipeline.nodes[edge.source.node].type)
        port = node_type.output(edge.source.port) if node_type else None
        links[Link(edge.source.node, edge.target.node, port.type if port else "unknown")] = None
    return tuple(links)


def titles(pipeline: Pipeline, catalog: NodeCatalog, results: Mapping[str, str]) -> dict[str, str]:
    """Return a title for each node that no other has, for lists.

    It is the label of the node, else the title of its type. Where these are alike, the name of the
    node's result is added, from ``results``: ``Predict · MART``, then the title of the type:
    ``MART · Evaluate``, and then a number.
    """
    named = {name: node_title(node, catalog) for name, node in pipeline.nodes.items()}
    types = {}
    for name, node in pipeline.nodes.items():
        types[name] = node_title(node.model_copy(update={"label": None}), catalog)
    for more in (results, types):
        alike = Counter(named.values())
        for name, title in named.items():
            if alike[title] > 1 and more.get(name, title) != title:
                named[name] = f"{title} · {more[name]}"
    alike, seen = Counter(named.values()), Counter[str]()
    for name, title in named.items():
        seen[title] += 1
        if alike[title] > 1:
            named[name] = f"{title} {seen[title]}"
    return named


def draw_layer(subtasks: Mapping[tuple[str, ...], Subtask], layer: str, key: str) -> None:
    """Draw the fits of one layer as a graph; this needs streamlit-flow."""
    draw_flow(layer_drawing(subtasks, layer), key, most_height=1000)


def layer_drawing(subtasks: Mapping[tuple[str, ...], Subtask], layer: str) -> Drawing:
    """Return the drawing of one layer: folds → fits → class vectors of each learner → layer.

    The vectors of a learner are done when all its fits are, and the layer when all vectors are.
    """
    nodes: dict[str, DrawnNode] = {}
    links: dict[Link, None] = {}
    fits: dict[str, list[str]] = {}
    for path, subtask in subtasks.items():
        job_layer, learner, fold = three_parts(path)
        if job_layer != layer:
            continue
        fit = f"fit {learner} {fold}"
        rows: NodeView = {"state": "idle", "text": "rows held out"}
        nodes.setdefault(f"fold {fold}", DrawnNode(fold or "All rows", rows, "Data"))
        nodes[fit] = DrawnNode(learner, _fit_view(subtask), "Train")
        # A dict keeps the order of the links and drops doubles.
        links |= {
            Link(f"fold {fold}", fit, "table"): None,
            Link(fit, f"vectors {learner}", "layers"): None,
        }
        fits.setdefault(learner, []).append(subtask.state)
    # Class vectors are known only when all fits of a learner are.
    finished = {"done", "reused"}
    complete = {learner: finished.issuperset(states) for learner, states in fits.items()}
    for learner, is_complete in complete.items():
        view = _whole_view(is_complete, "class vectors")
        nodes[f"vectors {learner}"] = DrawnNode(learner, view, "Predict")
        links[Link(f"vectors {learner}", "layer", "layers")] = None
    is_done = bool(complete) and all(complete.values())
    nodes["layer"] = DrawnNode(layer, _whole_view(is_done, "all class vectors"))
    return Drawing(nodes, tuple(links))


def _fit_view(subtask: Subtask) -> NodeView:
    """Return what the graph shows of a fit."""
    text = "fit"
    if subtask.state == "reused":
        text = "fit of an earlier attempt"
    elif subtask.seconds is not None:
        text = f"fit in {duration(subtask.seconds)}"
    return {"state": SUBTASK_STATES.get(subtask.state, "queued"), "text": text}


def _whole_view(is_complete: bool, text: str) -> NodeView:
    """Return what the graph shows of something that is made of all fits before it."""
    return {"state": "done" if is_complete else "queued", "text": text}
