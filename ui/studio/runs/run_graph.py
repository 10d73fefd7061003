"""Draw the graph of a run with streamlit-flow. It cannot be edited.

The component sends back what it shows, with a timestamp of its own, and accepts a new drawing only
with that timestamp or a later one. So ``flow_state`` compares what is shown with what should be
shown, and sends a drawing only if they differ. Otherwise the view would jump at every refresh.

- ``drawing``         nodes and edges of a pipeline in the colours of their states
- ``folded_drawing``  the same with the branches of a node as one, if there are too many
- ``layer_drawing``   the fits of one layer of a deep forest: folds → fits → class vectors → layer
- ``draw_graph``      draws it with the component
- ``flow_state``      a drawing in the form that the component takes
- ``clicked``         the node that was clicked since the last refresh
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st
from streamlit_flow import streamlit_flow
from streamlit_flow.elements import StreamlitFlowEdge, StreamlitFlowNode
from streamlit_flow.layouts import LayeredLayout
from streamlit_flow.state import StreamlitFlowState

from engine.node_types import NodeCatalog
from engine.pipeline import Pipeline
from engine.run_state import NodeState, RunState, Subtask
from engine.text import duration
from ui.studio.builder.node_states import folded_view
from ui.studio.runs.timeline import three_parts
from ui.studio.screen_text import INK, node_title, plain, shortened, state_label, tone

WIDTH, HEIGHT = 184, 58
NAME_LENGTH = 21
EDGE = "#8391a7"
LEFT_OUT = NodeState("not in this run")


class Layered(LayeredLayout):  # type: ignore[misc]
    """Layers from left to right, with space for edges that pass a node."""

    def __init__(self, between_nodes: int, between_layers: int) -> None:
        super().__init__(
            "right", node_node_spacing=between_nodes, node_layer_spacing=between_layers
        )

    def __to_dict__(self) -> dict[str, Any]:
        options: dict[str, Any] = super().__to_dict__()
        options["elkOptions"] |= {
            # Without this space, long edges run through nodes.
            "elk.spacing.edgeNode": HEIGHT * 0.8,
            "elk.layered.nodePlacement.strategy": "LINEAR_SEGMENTS",
        }
        return options


@dataclass(frozen=True)
class Drawing:
    """Nodes and edges as plain data, to be compared and tested without the component."""

    nodes: Mapping[str, tuple[str, str, str]]
    """Title, the line below it, and the state, by id."""
    edges: tuple[tuple[str, str], ...]
    chosen: str | None = None


def drawing(
    pipeline: Pipeline, catalog: NodeCatalog, state: RunState, chosen: str | None
) -> Drawing:
    """Return the drawing of a pipeline with the states of its nodes.

    ``chosen`` is the node with a frame. A node that the run left out is drawn with a dashed border.
    """
    shown = {}
    for name, title in titles(pipeline, catalog).items():
        node = state.nodes.get(name, LEFT_OUT)
        shown[name] = (title, node_line(node), node.state)
    # Two nodes may be connected by several ports, but one line is enough.
    edges = dict.fromkeys((edge.source.node, edge.target.node) for edge in pipeline.edges)
    return Drawing(shown, tuple(edges), chosen)


def folded_drawing(
    pipeline: Pipeline,
    catalog: NodeCatalog,
    state: RunState,
    copies: Mapping[str, Sequence[str]],
    chosen: str | None,
) -> Drawing:
    """Return the drawing of a pipeline as it was written, with its sweeps not expanded.

    ``copies`` maps each node to its branches in the run. They are drawn as one node, whose state
    sums up theirs.
    """
    as_written = drawing(pipeline, catalog, state, chosen)
    shown = dict(as_written.nodes)
    for name, (title, _, _) in as_written.nodes.items():
        own = copies.get(name, (name,))
        if tuple(own) != (name,):
            # Only the state and its count fit: the reason of a failure is shown below.
            view = folded_view([state.nodes.get(copy, LEFT_OUT) for copy in own])
            shown[name] = (f"{title} × {len(own)}", view["text"].partition(":")[0], view["state"])
    origin = next((name for name in shown if chosen in copies.get(name, (name,))), None)
    return replace(as_written, nodes=shown, chosen=origin)


def titles(pipeline: Pipeline, catalog: NodeCatalog) -> dict[str, str]:
    """Return the title of each node: its label, else the title of its type."""
    return {name: node_title(node, catalog) for name, node in pipeline.nodes.items()}


def node_line(node: NodeState) -> str:
    """Return state and time of a node in a few words.

    Progress is rounded to 10 %, so that the graph is not drawn again all the time.
    """
    if node.state == "running":
        return f"{state_label('running')} {int(node.fraction * 10) * 10} %"
    if node.state in ("done", "failed") and node.seconds is not None:
        return f"{state_label(node.state)} {duration(node.seconds)}"
    return state_label(node.state)


def layer_drawing(subtasks: Mapping[tuple[str, ...], Subtask], layer: str) -> Drawing:
    """Return the drawing of one layer: folds → fits → class vectors of each learner → layer.

    The vectors of a learner are done when all its fits are, and the layer when all vectors are.
    """
    nodes: dict[str, tuple[str, str, str]] = {}
    edges: dict[tuple[str, str], None] = {}
    for path, subtask in subtasks.items():
        job_layer, learner, fold = three_parts(path)
        if job_layer == layer:
            fit = f"fit {learner} {fold}"
            nodes.setdefault(f"fold {fold}", (fold or "All rows", "rows held out", "cached"))
            took = f" {duration(subtask.seconds)}" if subtask.seconds is not None else ""
            nodes[fit] = (learner, state_label(subtask.state) + took, subtask.state)
            # A dict keeps the order of the edges and drops doubles.
            edges |= {(f"fold {fold}", fit): None, (fit, f"vectors {learner}"): None}
    # Class vectors are known only when all fits of a learner are.
    finished = {"done", "reused"}
    learners = dict.fromkeys(
        three_parts(path)[1] for path in subtasks if three_parts(path)[0] == layer
    )
    for learner in learners:
        fits = [
            subtask
            for path, subtask in subtasks.items()
            if three_parts(path)[:2] == (layer, learner)
        ]
        whole = all(subtask.state in finished for subtask in fits)
        nodes[f"vectors {learner}"] = (learner, "class vectors", "done" if whole else "queued")
        edges[f"vectors {learner}", "layer"] = None
    vectors = [node for name, node in nodes.items() if name.startswith("vectors ")]
    nodes["layer"] = (
        layer,
        "",
        "done" if vectors and all(node[2] == "done" for node in vectors) else "queued",
    )
    return Drawing(nodes, tuple(edges))


def draw_graph(
    drawn: Drawing, key: str, *, height: int, spacing: tuple[int, int], clickable: bool = False
) -> None:
    """Draw a graph; ``spacing`` is the space between nodes and between layers, in pixels."""
    shown = st.session_state.get(key)
    streamlit_flow(
        key,
        flow_state(drawn, shown),
        height=height,
        # Once the nodes have their positions, the view is the user's.
        fit_view=not is_laid_out(shown),
        get_node_on_click=clickable,
        min_zoom=0.1,
        hide_watermark=True,
        layout=Layered(*spacing),
    )


def flow_state(drawn: Drawing, shown: Mapping[str, Any] | None) -> StreamlitFlowState:
    """Return what to send to the component that now shows ``shown``.

    Nodes keep their positions. The timestamp 0 is older than any: the component then ignores it.
    """
    positions = {}
    for node in (shown or {}).get("nodes", []):
        positions[node["id"]] = node["position"]["x"], node["position"]["y"]
    nodes = [_flow_node(drawn, name, positions.get(name, (0.0, 0.0))) for name in drawn.nodes]
    edges = [_flow_edge(drawn, *ends) for ends in drawn.edges]
    timestamp = 0 if shown is None or _agrees(nodes, shown) else shown["timestamp"]
    return StreamlitFlowState(nodes, edges, timestamp=timestamp)


def is_laid_out(shown: Mapping[str, Any] | None) -> bool:
    """Return whether the component has given each node a position of its own."""
    if shown is None:
        return False
    positions = {(node["position"]["x"], node["position"]["y"]) for node in shown["nodes"]}
    return len(positions) == len(shown["nodes"])


def clicked(shown: Mapping[str, Any] | None, seen: int) -> str | None:
    """Return the id of the node that was clicked after the time ``seen``."""
    return shown["selectedId"] if shown is not None and shown["timestamp"] > seen else None


def _agrees(nodes: list[StreamlitFlowNode], shown: Mapping[str, Any]) -> bool:
    """Return whether the component shows these nodes already, with these texts and colours."""
    now = {node["id"]: (node["data"].get("content"), node.get("style")) for node in shown["nodes"]}
    return {node.id: (node.data["content"], node.style) for node in nodes} == now


def _flow_node(drawn: Drawing, name: str, position: tuple[float, float]) -> StreamlitFlowNode:
    """Return a node for the component."""
    title, line, state = drawn.nodes[name]
    return StreamlitFlowNode(
        name,
        position,
        {"content": f"**{plain(shortened(title, NAME_LENGTH))}**  \n{plain(line)}"},
        node_type=_side(drawn, name),
        source_position="right",
        target_position="left",
        draggable=False,
        selectable=False,
        connectable=False,
        deletable=False,
        style=_style(state, chosen=name == drawn.chosen),
        # Known in advance: the component cannot measure nodes that are hidden.
        width=WIDTH,
        height=HEIGHT,
    )


def _side(drawn: Drawing, name: str) -> str:
    """Return the type of a node by the sides on which it has edges."""
    if all(target != name for _, target in drawn.edges):
        return "input"
    return "output" if all(source != name for source, _ in drawn.edges) else "default"


def _style(state: str, *, chosen: bool) -> dict[str, Any]:
    """Return the CSS of a node by its state; the chosen node has a frame."""
    colours = tone(state)
    return {
        "width": f"{WIDTH}px",
        "height": f"{HEIGHT}px",
        "background": colours.ground,
        "color": INK,
        "border": f"1px {'dashed' if state == LEFT_OUT.state else 'solid'} {colours.strong}",
        "boxShadow": f"0 0 0 3px {colours.strong}" if chosen else "none",
        "borderRadius": "8px",
        "padding": "6px 4px",
        "fontSize": "12px",
        "whiteSpace": "nowrap",
        "cursor": "pointer",
    }


def _flow_edge(drawn: Drawing, source: str, target: str) -> StreamlitFlowEdge:
    """Return an edge for the component; it moves while the node that it leads to is running."""
    busy = drawn.nodes[target][2] == "running"
    colour = tone("running").strong if busy else EDGE
    return StreamlitFlowEdge(
        f"{source}→{target}",
        source,
        target,
        edge_type="default",
        animated=busy,
        style={"stroke": colour},
        deletable=False,
        focusable=False,
    )
