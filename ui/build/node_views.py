"""What the canvas shows of a run: a state for each node whose work is still that of the run."""

from __future__ import annotations

from engine.document import Document, Edge
from engine.state import NodeState, RunState
from ui.canvas import NodeView, State

STATES: dict[str, State] = {
    "queued": "queued",
    "running": "running",
    "done": "done",
    "cached": "cached",
    "failed": "failed",
    "skipped": "skipped",
    "cancelled": "skipped",
    "interrupted": "skipped",
}
STOPPED = {"cancelled": "stopped; Retry goes on", "interrupted": "interrupted; Retry goes on"}


def node_views(document: Document, run: RunState | None, run_document: Document | None) -> dict[str, NodeView]:
    """The states to show; none for nodes that were changed since, or that read from such a node."""
    if run is None or run_document is None:
        return {}
    same = unchanged_nodes(document, run_document)
    return {name: _view(state) for name, state in run.nodes.items() if name in same}


def unchanged_nodes(document: Document, since: Document) -> set[str]:
    """The nodes that would do the same work as in ``since``: same settings, fed by the same ports of such nodes."""
    edges, edges_since = _edges_into(document), _edges_into(since)
    changed = [
        name
        for name, node in document.nodes.items()
        if (before := since.nodes.get(name)) is None
        or (node.type, node.params) != (before.type, before.params)
        or edges.get(name, []) != edges_since.get(name, [])
    ]
    below: dict[str, set[str]] = {}
    for edge in document.edges:
        below.setdefault(edge.source.node, set()).add(edge.target.node)
    stale = set(changed)
    while changed:
        new = below.get(changed.pop(), set()) - stale
        stale |= new
        changed += new
    return set(document.nodes) - stale


def _edges_into(document: Document) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in document.edges:
        found.setdefault(edge.target.node, []).append(edge)
    return found


def _view(node: NodeState) -> NodeView:
    text = node.text
    if node.state == "failed" and node.error:
        text = str(node.error.get("message", ""))
    elif node.state in STOPPED:
        text = STOPPED[node.state]
    return {
        "state": STATES.get(node.state, "idle"),
        "progress": node.fraction if node.state == "running" else None,
        "text": text[:300],
        "seconds": node.seconds if node.state == "done" else None,
    }
