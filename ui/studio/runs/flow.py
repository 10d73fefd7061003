"""Draw a graph with streamlit-flow in the node design of the canvas.

The component draws in a frame of its own, in which the styles of the page do not apply. It reads
the content of a node as Markdown with HTML. So a node is written in the HTML of the canvas, and an
invisible node behind all others brings the styles of the canvas, from the style sheet that the
canvas was built with. Streamlit sends its theme into the frame: the colours follow it.

- ``Drawing``     nodes and connections as plain data
- ``flow_loads``  whether streamlit-flow is installed and complete
- ``draw_flow``   draws it with the component
- ``flow_parts``  the nodes and edges that the component gets
- ``clicked``     the node that was clicked since the last refresh
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from engine.text import duration, readable
from ui.studio import canvas
from ui.studio.canvas import NodeView
from ui.studio.runs.layered import LANE_HEIGHT, WIDTH, Item, Lane, Link, Placed, height_of, layered
from ui.studio.streamlit_compat import StreamlitAPIException, text_font

HEAD, HEADLINE, LINE = 38, 30, 30
"""Heights of the parts of a node; the last has space below its text."""
LEAST_SIZE = 1000.0, 150.0
"""The least size of what is fitted into the view: a small graph is not drawn larger than life."""
MARGIN = 1.1
"""The part of the view that the component fills with a graph is one by this."""
LINE_WORDS = {
    "queued": "Queued",
    "running": "Running",
    "failed": "Failed",
    "skipped": "Skipped",
}
ICONS = {
    "Data": "M2.5 4c0-1.1 2.5-2 5.5-2s5.5.9 5.5 2-2.5 2-5.5 2-5.5-.9-5.5-2v8c0 1.1 2.5 2 5.5 "
    "2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
    "Prepare": "M2 4.5h5m4 0h3M2 11.5h2m4 0h6M9 2.8v3.4M6 9.8v3.4",
    "Train": "M8 14V9M8 2 3.5 7h2L3 10.5h10L10.5 7h2z",
    "Predict": "M2 8h8M7 4.5 10.5 8 7 11.5M13.5 2.5v11",
    "Evaluate": "M2.5 12.5a6 6 0 1 1 11 0M8 9.5l2.8-3.2M8 10.5a.6.6 0 1 0 0-1.2.6.6 0 0 0 0 1.2",
    "Save": "M8 2v7.5M4.8 6.5 8 9.7l3.2-3.2M2.5 11v2.5h11V11",
    "other": "M8 2.5 13 5.3v5.4L8 13.5 3 10.7V5.3zM3 5.3 8 8l5-2.7M8 8v5.5",
    "queued": "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 4.8V8l2.2 1.6",
    "running": "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2",
    "done": "M3 8.5 6.5 12 13 4.5",
    "cached": "M9 1.8 3.5 9h4L7 14.2 12.5 7h-4z",
    "failed": "M4 4l8 8M12 4l-8 8",
    "skipped": "M3 4.5 7 8l-4 3.5zM9 4.5 13 8l-4 3.5z",
}
"""The icons of the canvas, for categories and states."""
OWN_STYLES = """
:root { --st-background-color: var(--background-color); --st-text-color: var(--text-color);
 --st-primary-color: var(--primary-color); --st-font: var(--font);
 --st-secondary-background-color: var(--secondary-background-color); }
.markdown-node, .markdown-node > .node { height: 100%; }
.markdown-node * { margin: 0; }
.react-flow__node { padding: 0; border: 0; background: none; text-align: left; cursor: pointer;
 font: 13px/1.35 var(--st-font, sans-serif); color: var(--ink); }
.node.chosen { border-color: var(--accent); box-shadow: 0 0 0 1.5px var(--accent); }
.react-flow__handle { width: 9px; height: 9px; border: 2px solid var(--card);
 background: var(--grey); }
.node { width: 100%; }
.lane .react-flow__handle, .backdrop .react-flow__handle { visibility: hidden; width: 1px;
 height: 1px; min-width: 0; min-height: 0; border: 0; margin: 0 4px; }
.react-flow__edge-path { stroke: color-mix(in srgb, var(--port, var(--grey)) 72%, var(--paper));
 stroke-width: 2; }
.lane { background: color-mix(in srgb, var(--port, var(--grey)) 72%, var(--paper)); }
.react-flow__background circle { fill: color-mix(in srgb, var(--ink) 17%, var(--paper)); }
.react-flow__controls { display: flex; box-shadow: none; }
.react-flow__controls-button { border: 1px solid var(--line); background: var(--paper);
 fill: var(--ink); }
.react-flow__controls-button:hover { background: var(--panel); }
.react-flow__controls-interactive { display: none; }
"""


@dataclass(frozen=True)
class DrawnNode:
    """A node of a drawing: its title, its state as the canvas shows it, and its category.

    ``has_headline`` is whether there is room for a large figure.
    """

    title: str
    view: NodeView
    category: str = "other"
    has_headline: bool = False

    @property
    def height(self) -> float:
        """Return the height of the node on screen."""
        return HEAD + LINE + (HEADLINE if self.has_headline else 0)


@dataclass(frozen=True)
class Drawing:
    """Nodes and connections as plain data; ``chosen`` is the node with a frame."""

    nodes: Mapping[str, DrawnNode]
    links: tuple[Link, ...]
    chosen: str | None = None


# The component


def flow_loads() -> bool:
    """Return whether streamlit-flow can be imported, with the files for the browser."""
    try:
        import streamlit_flow  # noqa: F401
    except (ImportError, StreamlitAPIException):
        return False
    return True


def draw_flow(drawn: Drawing, key: str, *, most_height: int, clickable: bool = False) -> None:
    """Draw a graph; ``clickable`` is whether ``clicked`` can find a click on a node.

    The component sends back what it shows, with a timestamp of its own, and accepts a new drawing
    only with that timestamp or a later one. A drawing that it shows already is sent with the
    timestamp 0, which it ignores. Otherwise the view would jump at every refresh.
    """
    # Imported here: without the package the rest of the page still works.
    from streamlit_flow import streamlit_flow
    from streamlit_flow.elements import StreamlitFlowEdge, StreamlitFlowNode
    from streamlit_flow.layouts import ManualLayout
    from streamlit_flow.state import StreamlitFlowState

    shown = st.session_state.get(key)
    nodes, edges = flow_parts(drawn)
    state = StreamlitFlowState(
        [StreamlitFlowNode(**node) for node in nodes],
        [StreamlitFlowEdge(**edge) for edge in edges],
        timestamp=0 if shown is None or agrees(nodes, shown) else shown["timestamp"],
    )
    streamlit_flow(
        key,
        state,
        height=min(most_height, int(nodes[0]["height"] * MARGIN)),
        # Once it is drawn, the view is the user's.
        fit_view=shown is None,
        get_node_on_click=clickable,
        min_zoom=0.1,
        hide_watermark=True,
        # The positions are known: the layout of the component takes seconds to load.
        layout=ManualLayout(),
    )


def agrees(nodes: list[dict[str, Any]], shown: Mapping[str, Any]) -> bool:
    """Return whether the component shows these nodes already, with these texts."""
    now = {node["id"]: node["data"].get("content") for node in shown["nodes"]}
    return {node["id"]: node["data"]["content"] for node in nodes} == now


def clicked(shown: Mapping[str, Any] | None, seen: int) -> str | None:
    """Return the id of the node that was clicked after the time ``seen``."""
    return shown["selectedId"] if shown is not None and shown["timestamp"] > seen else None


# Nodes and edges


def flow_parts(drawn: Drawing) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the nodes and edges of a drawing, as arguments of those of the component.

    The first node is the invisible one behind all others.
    """
    heights = {name: node.height for name, node in drawn.nodes.items()}
    placed = layered(heights, drawn.links)
    nodes = [_backdrop(placed, heights)]
    for item, position in placed.positions.items():
        if isinstance(item, Lane):
            nodes.append(_lane(item, position))
        else:
            nodes.append(_node(drawn, item, position))
    return nodes, [_edge(drawn, *link) for link in placed.links]


def _backdrop(placed: Placed, heights: Mapping[str, float]) -> dict[str, Any]:
    """Return the invisible node behind all others, with the styles."""
    corners = placed.positions.items()
    right = max(x for _, (x, _) in corners) + WIDTH
    top = min(y for _, (_, y) in corners)
    bottom = max(y + height_of(item, heights) for item, (_, y) in corners)
    least_width, least_height = LEAST_SIZE
    width, height = max(right, least_width), max(bottom - top, least_height)
    corner = (right - width) / 2, (top + bottom - height) / 2
    node = _box("backdrop", corner, width, height)
    return node | {"data": {"content": f"<style>{styles()}</style>"}, "className": "backdrop"}


def _lane(lane: Lane, position: tuple[float, float]) -> dict[str, Any]:
    """Return the straight part of a connection that passes a column."""
    box = _box(_id(lane), position, WIDTH, LANE_HEIGHT)
    return box | {"className": f"lane port-{lane.kind}"}


def _node(drawn: Drawing, name: str, position: tuple[float, float]) -> dict[str, Any]:
    """Return a node of the drawing."""
    node = drawn.nodes[name]
    box = _box(_id(name), position, WIDTH, node.height)
    content = node_html(node, chosen=name == drawn.chosen)
    own = {"data": {"content": content}, "focusable": True, "ariaLabel": spoken(node)}
    has_source = any(link.target == name for link in drawn.links)
    has_target = any(link.source == name for link in drawn.links)
    if not has_source:
        own["node_type"] = "input"
    elif not has_target:
        own["node_type"] = "output"
    return box | own | {"style": {"width": box["width"], "height": box["height"]}}


def _box(name: str, position: tuple[float, float], width: float, height: float) -> dict[str, Any]:
    """Return an empty node that can be neither edited nor clicked."""
    return {
        "id": name,
        "pos": position,
        "data": {"content": ""},
        "node_type": "default",
        "source_position": "right",
        "target_position": "left",
        "draggable": False,
        "selectable": False,
        "connectable": False,
        "deletable": False,
        "focusable": False,
        "style": {"width": width, "height": height, "pointerEvents": "none"},
        # Known in advance: the component cannot measure nodes that are hidden.
        "width": width,
        "height": height,
    }


def _edge(drawn: Drawing, source: Item, target: Item, kind: str) -> dict[str, Any]:
    """Return an edge; it moves while the node that it leads to is running."""
    node = drawn.nodes.get(target) if isinstance(target, str) else None
    return {
        "id": f"{_id(source)} → {_id(target)} {kind}",
        "source": _id(source),
        "target": _id(target),
        "animated": node is not None and node.view["state"] == "running",
        "className": f"port-{kind}",
    }


def _id(item: Item) -> str:
    """Return the id of a node or lane for the component; a node keeps its name."""
    if isinstance(item, Lane):
        # A space is not part of the name of a node.
        return f"lane {item.source} {item.kind} {item.column}"
    return item


# The look of a node


def node_html(node: DrawnNode, *, chosen: bool) -> str:
    """Return the HTML of a node as the canvas writes it, in one line; all text is escaped."""
    state, title = node.view["state"], _escaped(node.title)
    line = _escaped(state_line(node.view))
    time = ""
    if state == "cached":
        time = "cached"
    elif state == "done" and (seconds := node.view.get("seconds")) is not None:
        time = duration(seconds)
    parts = [
        f'<div class="node state-{state} category-{node.category}{" chosen" if chosen else ""}">',
        f'<div class="node-head"><span class="node-icon">{_icon(node.category)}</span>',
        f'<span class="node-names"><span class="node-title" title="{title}">{title}</span>',
        f'<span class="node-time">{time}</span></span>',
    ]
    if state != "idle":
        parts.append(f'<span class="node-state" title="{state}">{_icon(state)}</span>')
    parts.append("</div>")
    if node.has_headline:
        headline = _escaped(node.view.get("headline", ""))
        parts.append(f'<div class="node-headline">{headline}</div>')
    parts.append(f'<div class="node-line" title="{line}">{line}</div>')
    if state == "running":
        done = node.view.get("progress") or 0.0
        parts.append(f'<div class="node-bar"><i style="width: {done:.0%}"></i></div>')
    return "".join([*parts, "</div>"])


def state_line(view: NodeView) -> str:
    """Return the second line of a node: its result, how far it is, or why it failed."""
    words = LINE_WORDS.get(view["state"], "")
    text = view.get("result") or view.get("text") or words
    if view["state"] == "running":
        return f"{view.get('progress') or 0.0:.0%} · {text}".replace("%", " %")
    return words if view["state"] == "queued" else text


def spoken(node: DrawnNode) -> str:
    """Return a node for screen readers: title, state, headline and second line."""
    about = ", ".join(filter(None, (node.view.get("headline"), state_line(node.view))))
    return readable(f"{node.title}, {node.view['state']}{': ' if about else ''}{about}")


def _escaped(text: str) -> str:
    """Return text for HTML, in one line: an empty line would end the HTML for Markdown."""
    return html.escape(readable(" ".join(text.split())))


def _icon(name: str) -> str:
    """Return an icon of the canvas."""
    path = ICONS.get(name, ICONS["other"])
    return f'<svg class="icon" width="14" height="14" viewBox="0 0 16 16"><path d="{path}"/></svg>'


@cache
def styles() -> str:
    """Return the styles of nodes on the canvas, for the frame of the component."""
    source = f"src: url({text_font()}); font-weight: 200 900"
    font = f'@font-face {{ font-family: "Source Sans"; {source} }}'
    folder = Path(canvas.__file__).parent / "frontend_dist"
    built = "".join(file.read_text(encoding="utf-8") for file in folder.glob("index-*.css"))
    # One line: an empty line would end the HTML for Markdown.
    return " ".join(f"{font} {node_rules(built)} {OWN_STYLES}".split())


def node_rules(css: str) -> str:
    """Return the rules of the canvas for nodes, their colours and their motion."""
    wanted = re.compile(r"\.(node|state|category|port)-|\.node\b|\.icon\b")
    elsewhere = re.compile(r"react-flow|\.(far|palette|quick-add|group|port|bypassed)\b(?!-)")
    at_rule = re.compile(r"@[^{}]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
    rules = [rule for rule in at_rule.findall(css) if "sylva-turn" in rule or "motion" in rule]
    for selector, body in re.findall(r"([^{}]+)\{([^{}]*)\}", at_rule.sub("", css)):
        if selector == ".sylva-canvas" and "--paper:" in body:
            rules.insert(0, f":root {{{body}}}")
        elif wanted.search(selector) and not elsewhere.search(selector):
            rules.append(f"{selector} {{{body}}}")
    return "".join(rules)
