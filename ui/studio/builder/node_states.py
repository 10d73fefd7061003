"""Decide what the canvas shows of a run: a state for each node that has not changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from engine.graph import PipelineGraph
from engine.pipeline import Edge, Node, Pipeline, Sweep
from engine.run_state import NodeState, RunState
from engine.sweeps import branch_count
from engine.text import counted
from ui.studio.canvas.protocol import STATES, NodeView, State

LONGEST = 300
OUT_OF_DATE = "changed since the last run"
STOPPED = {
    "cancelled": "stopped; press Retry to continue",
    "interrupted": "interrupted; press Retry to continue",
}


class NodeResult(NamedTuple):
    """The result of a finished node: a few words, and the one figure that counts, if any."""

    text: str = ""
    headline: str = ""


def node_views(
    pipeline: Pipeline,
    run: RunState | None,
    run_pipeline: Pipeline | None,
    copies: Mapping[str, Sequence[str]] | None = None,
    result: Callable[[str], NodeResult] = lambda name: NodeResult(),
) -> dict[str, NodeView]:
    """Return the states that the canvas shows, by node.

    A node that was changed since the run, or that reads from such a node, is idle and says so: its
    result is out of date.

    Parameters
    ----------
    run_pipeline : the pipeline as it was when the run began
    copies : for each swept node its branches in the run
    result : returns the result of a finished node
    """
    # A swept node shows its number of branches until it has run.
    views = {name: _awaited(node.sweep) for name, node in pipeline.nodes.items() if node.sweep}
    if run is None or run_pipeline is None:
        return views
    unchanged = unchanged_nodes(pipeline, run_pipeline)
    for name in pipeline.nodes:
        own = (copies or {}).get(name, (name,))
        states = [run.nodes[copy] for copy in own if copy in run.nodes]
        if states and name not in unchanged:
            views.setdefault(name, {"state": "idle", "text": OUT_OF_DATE})
        elif states:
            is_single = tuple(own) == (name,)
            views[name] = view = _view(states[0]) if is_single else folded_view(states)
            if view["state"] in ("done", "cached"):
                found = result(name)
                # The number of branches is part of the result.
                words = (found.text or view["text"],) if is_single else (view["text"], found.text)
                view["result"] = " · ".join(filter(None, words))[:LONGEST]
                view["headline"] = found.headline
    return views


def _awaited(sweep: Sweep) -> NodeView:
    """Return the view of a swept node that was not run: how many branches it will have."""
    return {"state": "idle", "text": f"Sweep: {counted(branch_count(sweep), 'branch', 'branches')}"}


def unchanged_nodes(pipeline: Pipeline, since: Pipeline) -> set[str]:
    """Return the nodes that would do the same work as in ``since``.

    They have the same settings, and read the same outputs of nodes that are unchanged too.
    """
    edges, edges_since = _edges_into(pipeline), _edges_into(since)
    # Labels, limits and positions do not change what a node computes.
    changed = {
        name
        for name, node in pipeline.nodes.items()
        if (before := since.nodes.get(name)) is None
        or _work(node) != _work(before)
        or edges.get(name, []) != edges_since.get(name, [])
    }
    return set(pipeline.nodes) - PipelineGraph(pipeline).downstream(changed)


def _work(node: Node) -> tuple[object, ...]:
    """Return what decides what a node computes; a bypassed node computes nothing."""
    return ("bypass",) if node.bypass else (node.type, node.params, node.sweep)


def _edges_into(pipeline: Pipeline) -> dict[str, list[Edge]]:
    """Return the edges into each node."""
    edges: dict[str, list[Edge]] = {}
    for edge in pipeline.edges:
        edges.setdefault(edge.target.node, []).append(edge)
    return edges


def _view(node: NodeState) -> NodeView:
    """Return the view of a node that ran once."""
    text = node.text
    if node.state == "failed" and node.error:
        text = str(node.error.get("message", ""))
    elif node.state in STOPPED:
        text = STOPPED[node.state]
    elif node.state == "skipped":
        text = "a node before it failed"  # the text of the run has the id of that node
    return {
        "state": _canvas_state(node.state),
        "progress": node.fraction if node.state == "running" else None,
        "text": text[:LONGEST],
        "seconds": node.seconds if node.state == "done" else None,
    }


def _canvas_state(state: str) -> State:
    """Return a state of a run as the canvas knows it; another version may know others."""
    if state in STOPPED:
        return "skipped"
    return cast(State, state) if state in STATES else "idle"


def folded_view(states: Sequence[NodeState]) -> NodeView:
    """Return the branches of a node as one view.

    It is running while any branch is, failed if any has failed, and done when all are done.
    """
    count = Counter(node.state for node in states)
    total, ready = len(states), count["done"] + count["cached"]
    progress = f"{ready} of {total} branches done"
    view: NodeView = {"state": "queued", "progress": None, "text": progress, "seconds": None}
    # Between two branches none is running, but the node is not done yet.
    if count["running"] or (count["queued"] and ready):
        failed = f", {count['failed']} failed" if count["failed"] else ""
        view |= {
            "state": "running",
            "progress": sum(map(_share, states)) / total,
            "text": f"{progress}{failed}",
        }
    elif count["failed"]:
        error = next(node.error for node in states if node.state == "failed") or {}
        words = f"{count['failed']} of {total} branches failed: {error.get('message', '')}"
        view |= {"state": "failed", "text": words[:LONGEST]}
    elif ready == total:
        seconds = sum(node.seconds or 0.0 for node in states if node.state == "done")
        view |= {"state": "done", "seconds": seconds, "text": f"{total} branches"}
        if not count["done"]:
            view |= {"state": "cached", "seconds": None}
    elif not count["queued"]:
        # No branch failed and none waits: the run was stopped.
        stopped = next((STOPPED[state] for state in STOPPED if count[state]), "")
        view |= {
            "state": "skipped",
            "text": "; ".join(part for part in (progress, stopped) if part),
        }
    return view


def _share(node: NodeState) -> float:
    """Return how much of a branch is done, from 0 to 1; one that failed has ended too."""
    return 1.0 if node.state in ("done", "cached", "failed", "skipped") else node.fraction
