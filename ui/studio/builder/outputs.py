"""Draw the output of a node in its panel; for a swept node, of the branch that is chosen.

- ``draw_output``     the preview of an output
- ``result_nodes``    the nodes of the last run that have the result of a node
- ``names_now``       the names of results, with the labels of now
- ``best_values``     the swept values of the branch that a comparison ranks first
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import streamlit as st

from engine.edits import apply_branch
from engine.node_types import NodeType, node_title
from engine.pipeline import PortRef
from engine.result_names import result_names
from engine.run_state import NodeState
from engine.store import Artifact
from engine.sweeps import ExpandedPipeline, Values, branch_label, param_label, value_label
from engine.text import readable
from nodes.models.ranking import TEST, WORDS, RowParts, rows_text
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.previews import Maker, show_output
from ui.studio.previews.reports import result_of
from ui.studio.screen_text import plain
from ui.studio.session import studio

TEST_ROWS = WORDS[TEST]
ON_TEST_ROWS = (
    "The test rows chose these values, so the figures on these rows are too good. "
    "Let validation rows choose: see the list of hints."
)


def result_nodes(opened: OpenPipeline, name: str) -> list[str]:
    """Return the nodes of the last run that have the result of a node.

    For a node with branches these are the nodes that compare them.
    """
    run, copies = opened.run, opened.branches_of(name)
    if run is None or copies == (name,) or not opened.run_expanded:
        return [name]
    finished = [copy for copy in copies if copy in run.nodes]
    ends = {PortRef(copy, port) for copy in finished for port in run.nodes[copy].outputs}
    return [end.node for end in _meeting_points(opened, opened.run_expanded, ends)]


def draw_output(opened: OpenPipeline, name: str) -> None:
    """Draw the output of a node, or when it will appear; of several outputs the user chooses."""
    node_type = opened.type_of(name)
    if node_type is None or not node_type.outputs:
        st.caption("This node has no output.")
        return
    end = _branch(opened, _chosen_port(opened, name, node_type))
    state = opened.run.nodes.get(end.node) if opened.run else None
    if state is None or end.port not in state.outputs:
        how = "It appears here when the node is done." if opened.running else "Press Run first."
        st.caption(f"This node has no result yet. {how}")
        return
    if opened.is_outdated(name):
        st.caption(":material/history: From the last run, before the pipeline was changed.")
    show_output(
        Artifact.from_dict(state.outputs[end.port]),
        studio().store,
        title="",
        key=f"output/{end.node}.{end.port}",
        maker=Maker(end.node, names_now(opened), _rows_of(opened, end.node)),
    )


def names_now(opened: OpenPipeline) -> Mapping[str, str]:
    """Return the names of the results of the last run by node, with the labels of now."""
    expanded = opened.run_expanded
    return result_names(opened.pipeline, expanded, opened.catalog) if expanded else {}


def _rows_of(opened: OpenPipeline, name: str) -> str:
    """Return the rows that a node of the last run evaluates or compares on, in words."""
    run = opened.run_expanded
    return rows_text(RowParts(run.pipeline, opened.catalog).evaluated(name)) if run else "rows"


def _chosen_port(opened: OpenPipeline, name: str, node_type: NodeType) -> PortRef:
    """Draw a choice between the outputs of a node if it has several; return the chosen one."""
    ports = {port.name: port.title or port.name for port in node_type.outputs}
    clicked = opened.previewed_port
    chosen = clicked.port if clicked and clicked.node == name and clicked.port in ports else None
    if chosen is None:
        chosen = _first_port(node_type)
    if len(ports) == 1:
        return PortRef(name, chosen)
    # Another choice on the canvas needs another widget: a widget keeps its own value.
    key = f"port/{opened.pipeline_id}/{name}/{chosen}"

    def choose() -> None:
        """Remember the chosen output."""
        opened.previewed_port = PortRef(name, st.session_state[key])

    st.segmented_control(
        "Output",
        list(ports),
        default=chosen,
        required=True,
        format_func=lambda port: plain(ports[port]),
        key=key,
        on_change=choose,
        label_visibility="collapsed",
    )
    return PortRef(name, chosen)


def _first_port(node_type: NodeType) -> str:
    """Return the output to show first; of a node that compares, its report."""
    compares = any(port.role == "evaluation" for port in node_type.inputs)
    if compares and (report := _report_of(node_type)):
        return report
    return node_type.outputs[0].name


def _report_of(node_type: NodeType) -> str | None:
    """Return the first output that is a report."""
    return next((port.name for port in node_type.outputs if port.type == "report"), None)


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
    boards = list(_meeting_points(opened, run, offered.values()))
    # Those that choose on validation rows first.
    boards.sort(key=lambda board: _rows_of(opened, board.node) == TEST_ROWS)
    # A leaderboard comes first: after a sweep it is what most users look for.
    offered = {board.node: board for board in boards} | offered
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Branch",
            list(offered),
            format_func=lambda name: readable(node_title(run.pipeline.nodes[name], opened.catalog)),
            key=f"branch/{opened.pipeline_id}/{end}",
        )
        if chosen in run.values:
            _keep_button(opened, run.values[chosen], "Keep these values")
        else:
            _keep_best_button(opened, run, chosen)
    return offered[chosen]


def _keep_best_button(opened: OpenPipeline, run: ExpandedPipeline, board: str) -> None:
    """Draw a button that saves the values of the branch that a comparison ranks first."""
    values = best_values(run, opened.run.nodes.get(board) if opened.run else None)
    words = " ".join(branch_label(each, opened.type_of(name)) for name, each in values.items())
    rows = _rows_of(opened, board)
    drawn = _keep_button(opened, values, f"Keep the best: {plain(words)}", rows)
    if drawn and rows == TEST_ROWS:
        st.caption(f":orange[:material/lightbulb: {ON_TEST_ROWS}]")


def best_values(run: ExpandedPipeline, state: NodeState | None) -> Mapping[str, Values]:
    """Return the swept values of the branch that a comparison ranks first, by node.

    It is empty if the first is not a branch, or the comparison is not finished. ``state`` is that
    of the node that compares.
    """
    outputs = state.outputs.values() if state else ()
    report = next((output for output in outputs if output.get("type") == "report"), None)
    if report is None:
        return {}
    best = result_of(Artifact.from_dict(report), studio().store).best_node
    return run.values.get(best, {})


def _keep_button(
    opened: OpenPipeline, values: Mapping[str, Values], label: str, rows: str = ""
) -> bool:
    """Draw a button that ends the sweep with the values of a branch; return whether it is drawn.

    It is not drawn if the sweep was removed since the run. ``rows`` are those that chose the
    values, in words.
    """
    nodes = [opened.pipeline.nodes.get(name) for name in values]
    if not nodes or not all(node and node.sweep for node in nodes):
        return False
    chosen = f" They are the best on {rows}." if rows not in ("", "rows") else ""
    st.button(
        label,
        icon=":material/check:",
        help="Save these values in the settings and remove the sweep. "
        f"Their results stay cached.{chosen}",
        on_click=_keep,
        args=(opened, values, rows),
    )
    return True


def _keep(opened: OpenPipeline, values: Mapping[str, Values], rows: str) -> None:
    """Save the values of a branch in the settings and remove the sweep."""
    if opened.try_edit(lambda pipeline: apply_branch(pipeline, opened.catalog, values)):
        saved = [
            f"{param_label(param, opened.type_of(name))} = {value_label(value)}"
            for name, each in values.items()
            for param, value in each.items()
        ]
        words = f"Saved {', '.join(saved)} and removed the sweep. Undo restores it."
        if rows == TEST_ROWS:
            words += f" {ON_TEST_ROWS}"
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
            # A node that chooses also passes a model on; the leaderboard is its report.
            yield PortRef(name, _report_of(node_type) or node_type.outputs[0].name)
