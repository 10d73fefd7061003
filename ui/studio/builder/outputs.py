"""Draw the output of a node below the canvas; for a swept node, of the branch that is chosen.

- ``draw_output``  the preview of an output
- ``result_line``  the result of a node in a few words, for the canvas
- ``best_values``  the swept values of the branch that a comparison ranks first
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import streamlit as st

from engine.edits import apply_branch
from engine.pipeline import PortRef
from engine.run_state import NodeState
from engine.store import Artifact
from engine.sweeps import ExpandedPipeline, Values, branch_label, param_label, value_label
from engine.text import readable
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.previews import show_output
from ui.studio.previews.reports import ReportLine, result_of
from ui.studio.screen_text import node_title, plain
from ui.studio.session import studio


def result_line(opened: OpenPipeline, name: str) -> str:
    """Return the result of a node in a few words, for the canvas.

    For a node with branches it is the result of the node that compares them.
    """
    run, copies, shown = opened.run, opened.branches_of(name), [name]
    if run is None:
        return ""
    if copies != (name,) and opened.run_expanded:
        # The branches have no common result; the node that compares them has one.
        ends = {
            PortRef(copy, port)
            for copy in copies
            if copy in run.nodes
            for port in run.nodes[copy].outputs
        }
        shown = [end.node for end in _meeting_points(opened, opened.run_expanded, ends)]
    for node in shown:
        result = _result(run.nodes.get(node))
        if result:
            return result.line
    return ""


def _result(state: NodeState | None) -> ReportLine | None:
    """Return the line of the report of a finished node; None if it has no report."""
    outputs = state.outputs.values() if state else ()
    report = next((output for output in outputs if output.get("type") == "report"), None)
    if report is None:
        return None
    return result_of(Artifact.from_dict(report), studio().store)


def draw_output(opened: OpenPipeline, end: PortRef | None) -> None:
    """Draw the preview of an output, or when it will appear.

    ``end`` is the output that was clicked; None if there was no click yet.
    """
    if end is None or end.node not in opened.pipeline.nodes:
        st.caption("Click the dot at the right side of a finished node to see its output here.")
        return
    name, port = _branch(opened, end)
    state = opened.run.nodes.get(name) if opened.run else None
    if state is None or port not in state.outputs:
        how = (
            "It appears here when the node is done."
            if opened.running
            else "Run the pipeline first."
        )
        st.caption(f"“{plain(_title(opened, end))}” has no result yet. {how}")
    else:
        title = _title(opened, end) if name == end.node else ""
        show_output(
            Artifact.from_dict(state.outputs[port]),
            studio().store,
            title=title,
            key=f"output/{name}.{port}",
        )


def _branch(opened: OpenPipeline, end: PortRef) -> PortRef:
    """Return the output to show for one that was clicked.

    For a swept node the user chooses: a branch, or the leaderboard that compares the branches.
    """
    copies, run = opened.branches_of(end.node), opened.run_expanded
    if run is None:
        return end
    if copies == (end.node,):
        _keep_best_button(opened, run, end.node)
        return end
    offered = {copy: PortRef(copy, end.port) for copy in copies}
    for board in _meeting_points(opened, run, offered.values()):
        # The leaderboard first: after a sweep it is what most users look for.
        offered = {board.node: board, **offered}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Branch",
            list(offered),
            format_func=lambda name: readable(run.pipeline.nodes[name].label or name),
            key=f"branch/{opened.pipeline_id}/{end}",
            width=420,
        )
        if chosen in run.values:
            _keep_button(opened, run.values[chosen], "Keep these values")
        else:
            _keep_best_button(opened, run, chosen)
    return offered[chosen]


def _keep_best_button(opened: OpenPipeline, run: ExpandedPipeline, board: str) -> None:
    """Draw a button that saves the values of the branch that a comparison ranks first."""
    values = best_values(run, board, opened.run.nodes.get(board) if opened.run else None)
    words = " ".join(branch_label(each, opened.type_of(name)) for name, each in values.items())
    _keep_button(opened, values, f"Keep the best: {plain(words)}")


def best_values(run: ExpandedPipeline, board: str, state: NodeState | None) -> Mapping[str, Values]:
    """Return the swept values of the branch that a comparison ranks first, by node.

    It is empty if the first is not a branch, or the comparison is not finished. ``board`` is the
    node that compares.
    """
    result = _result(state)
    if result is None:
        return {}
    for name in (edge.source.node for edge in run.pipeline.edges if edge.target.node == board):
        branch = run.branches.get(name)
        if branch is None:
            continue
        title = branch.title(str(run.pipeline.nodes[name].params.get("name", "")))
        # A comparison adds the node where two evaluations have the same title.
        if result.best in (title, f"{title} ({name})"):
            return run.values[name]
    return {}


def _keep_button(opened: OpenPipeline, values: Mapping[str, Values], label: str) -> None:
    """Draw a button that ends the sweep with the values of a branch.

    It is not drawn if the sweep was removed since the run.
    """
    if values and all(
        name in opened.pipeline.nodes and opened.pipeline.nodes[name].sweep for name in values
    ):
        st.button(
            label,
            icon=":material/check:",
            help="Save these values in the settings and remove the sweep. "
            "Their results stay cached.",
            on_click=_keep,
            args=(opened, values),
        )


def _keep(opened: OpenPipeline, values: Mapping[str, Values]) -> None:
    """Save the values of a branch in the settings and remove the sweep."""
    if opened.try_edit(lambda pipeline: apply_branch(pipeline, opened.catalog, values)):
        saved = [
            f"{param_label(param, opened.type_of(name))} = {value_label(value)}"
            for name, each in values.items()
            for param, value in each.items()
        ]
        words = f"Saved {', '.join(saved)} and removed the sweep. Undo restores it."
        # A notice that saving failed is more important.
        opened.notice = opened.notice or words


def _meeting_points(
    opened: OpenPipeline, run: ExpandedPipeline, ends: Collection[PortRef]
) -> Iterator[PortRef]:
    """Yield the outputs of nodes that read several branches, such as a leaderboard."""
    for name in dict.fromkeys(
        edge.target.node for edge in run.pipeline.edges if edge.source in ends
    ):
        node_type = opened.catalog.get(run.pipeline.nodes[name].type)
        if name not in run.values and node_type and node_type.outputs:
            yield PortRef(name, node_type.outputs[0].name)


def _title(opened: OpenPipeline, end: PortRef) -> str:
    """Return the title of an output: ``Split: Test rows``."""
    node_type = opened.type_of(end.node)
    port = node_type.output(end.port) if node_type else None
    port_title = port.title if port and port.title else end.port
    return f"{node_title(opened.pipeline.nodes[end.node], opened.catalog)}: {port_title}"
