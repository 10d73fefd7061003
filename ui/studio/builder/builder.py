"""Draw the builder: the canvas, the form of the selected node beside it, and panels below."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import streamlit as st

from engine.edits import apply_branch
from engine.errors import Problem, SylvaError
from engine.pipeline import PortRef
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.sweeps import ExpandedPipeline, Values, branch_label, param_label, value_label
from engine.text import duration, readable
from ui.studio.builder.node_panel import failure, panel
from ui.studio.builder.node_states import node_views
from ui.studio.builder.open_pipeline import OpenPipeline, Panel
from ui.studio.builder.page import is_open
from ui.studio.builder.toolbar import begin, save_state, toolbar
from ui.studio.canvas import CanvasResult, Edited, RunRequest, canvas
from ui.studio.markdown import plain, time_of_day
from ui.studio.session import studio

if TYPE_CHECKING:
    from ui.studio.previews.reports import ReportLine

LOOK_SECONDS = 0.5
"""Time between two looks at a live run."""

SAVE_SECONDS = 5.0
"""Time between two tries to save."""

CANVAS = "canvas"
CANVAS_HEIGHT = "max(420px, calc(100vh - 320px))"
CANVAS_HEIGHT_OVER_OUTPUT = "max(360px, calc(100vh - 500px))"
LOG_BYTES = 20_000
MOST_PROBLEMS = 50
MOST_LOGS = 4


def builder(opened: OpenPipeline) -> None:
    """Draw an open pipeline.

    The page is drawn again by itself while a run is live, to follow it, or while edits are unsaved,
    to try again to save them.
    """
    _refresh_run(opened)
    _announce_end(opened)
    opened.poll_seconds = _poll_seconds(opened)
    st.fragment(_draw, run_every=opened.poll_seconds)(opened)


def _poll_seconds(opened: OpenPipeline) -> float | None:
    """Return how often to look for news without a click; None if there cannot be any."""
    if opened.running:
        return LOOK_SECONDS
    return SAVE_SECONDS if opened.save_error else None


def _draw(opened: OpenPipeline) -> None:
    """Draw the fragment; an error replaces it, since the page does not see errors of a fragment."""
    try:
        _draw_all(opened)
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw_all(opened: OpenPipeline) -> None:
    """Draw all parts, in the order in which they know of each other.

    The toolbar comes first on the page, but the save state in it is known only after the canvas has
    sent its edits.
    """
    _refresh_run(opened)
    opened.refresh()
    _rerun_if_moved(opened)
    # A file that a node reads may have changed since the last drawing.
    opened.forget_problems()
    chosen = _chosen()
    save_state_slot = toolbar(opened, chosen)
    _show_notice(opened)
    middle, side = st.columns([3, 1], gap="small")
    with middle:
        result = _canvas(opened)
    with save_state_slot:
        save_state(opened)
    # Streamlit has no height in CSS units for a container.
    st.html(f"<style>.st-key-panel {{ height: {_height(opened)} !important; }}</style>")
    with side, st.container(key="panel"):
        panel(opened, result.selection, opened.problems())
    _below(opened, result.selection)
    _rerun_if_moved(opened)


def _rerun_if_moved(opened: OpenPipeline) -> None:
    """Draw the whole page again for another pipeline, or to poll at another interval."""
    if not is_open(opened) or _poll_seconds(opened) != opened.poll_seconds:
        st.rerun(scope="app")


def _refresh_run(opened: OpenPipeline) -> None:
    """Read what is new of the last run; an error becomes a notice and does not stop the page."""
    try:
        opened.refresh_run()
    except SylvaError as error:
        opened.notice = str(error)


def _show_notice(opened: OpenPipeline) -> None:
    """Show the notice of the pipeline once."""
    if opened.notice:
        st.toast(plain(opened.notice), icon=":material/info:", duration="long")
        opened.notice = ""


def _chosen() -> tuple[str, ...]:
    """Return the selection that the browser sent last.

    The toolbar needs it, and is drawn before the canvas.
    """
    sent = st.session_state.get(CANVAS)
    if sent is None:
        return ()
    names = sent.get("selection") or ()
    return tuple(name for name in names if isinstance(name, str))


def _canvas(opened: OpenPipeline) -> CanvasResult:
    """Draw the canvas, handle what the user did there, and return what it sent."""
    return canvas(
        opened.document,
        epoch=opened.canvas_version,
        catalogue=opened.catalogue,
        problems=opened.problems,
        states=lambda document: node_views(
            document,
            opened.run,
            opened.run_pipeline,
            opened.run_expanded.copies if opened.run_expanded else None,
            lambda name: _result_line(opened, name),
        ),
        key=CANVAS,
        pipeline=opened.pipeline,
        reveal=opened.reveal,
        on_edit=lambda edited: _apply_edit(opened, edited),
        on_port=lambda end: _preview(opened, end),
        on_run=lambda request: _run(opened, request),
        height=_height(opened),
    )


def _result_line(opened: OpenPipeline, name: str) -> str:
    """Return the result of a node in a few words, for the canvas.

    For a node with branches it is the result of the node that compares them.
    """
    run, copies, shown = opened.run, opened.branches_of(name), [name]
    if run is None:
        return ""
    if copies != (name,) and opened.run_expanded:
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
    # Imported late: previews load plotly, and most drawings of the canvas need none.
    from ui.studio.previews.reports import result_of

    return result_of(Artifact.from_dict(report), studio().store)


def _apply_edit(opened: OpenPipeline, edited: Edited) -> None:
    """Save an edit of the canvas; if the file was changed elsewhere, draw the new version."""
    if not opened.apply_canvas_edit(edited):
        st.rerun(scope="fragment")


def _height(opened: OpenPipeline) -> str:
    """Return the height of canvas and form; they are lower while a preview is open below."""
    return (
        CANVAS_HEIGHT_OVER_OUTPUT
        if opened.open_panel == "Output" and opened.previewed_port
        else CANVAS_HEIGHT
    )


def _preview(opened: OpenPipeline, end: PortRef) -> None:
    """Open the preview of an output that was clicked."""
    opened.previewed_port, opened.open_panel = end, "Output"


def _run(opened: OpenPipeline, request: RunRequest) -> None:
    """Start the run that was requested on the canvas."""
    match request:
        case (_, "all"):
            begin(opened, opened.start)
        case (node, "to"):
            begin(opened, lambda: opened.start(to=(node,)))
        case (node, "from"):
            begin(opened, lambda: opened.start(force_from=(node,)))


def _announce_end(opened: OpenPipeline) -> None:
    """Bring the node that failed into view, once, when a run has ended."""
    run = opened.run
    if not opened.announce_end or run is None or run.live:
        return
    # Only once: after that the user decides what is open.
    opened.announce_end = False
    failed = run.nodes_in("failed")
    if failed and opened.source_node(failed[0]) in opened.document.nodes:
        opened.show(opened.source_node(failed[0]))
        opened.open_panel = "Log"


# Below the canvas


def _below(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    """Draw the panels below the canvas, of which one is open."""
    problems = opened.problems()
    titles: dict[Panel, str] = {
        "Problems": f"Problems ({len(problems)})",
        "Output": "Output",
        "Log": "Log",
    }
    # Buttons instead of tabs: the program opens panels too, and tabs have a value of their own.
    with st.container(horizontal=True, gap="small", key="bottom"):
        for part, title in titles.items():
            looks: Literal["secondary", "tertiary"] = (
                "secondary" if part == opened.open_panel else "tertiary"
            )
            st.button(title, key=f"bottom-{part}", type=looks, on_click=_open, args=(opened, part))
    match opened.open_panel:
        case "Problems":
            _problems(opened, problems)
        case "Output":
            _output(opened, opened.previewed_port)
        case "Log":
            _log(opened, chosen)


def _open(opened: OpenPipeline, part: Panel) -> None:
    """Open a panel."""
    opened.open_panel = part


def _problems(opened: OpenPipeline, problems: list[Problem]) -> None:
    """Draw each problem; a click brings its node into view."""
    if not problems and opened.document.nodes:
        st.caption("No problems found.")
    elif not problems:
        st.caption("The pipeline is empty: drag a node onto the canvas.")
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        text = plain(str(problem))
        if problem.node in opened.document.nodes:
            st.button(
                text,
                key=f"problem-{index}",
                type="tertiary",
                icon=":material/error:",
                on_click=opened.show,
                args=(problem.node,),
            )
        else:
            st.caption(text)
    if len(problems) > MOST_PROBLEMS:
        st.caption(f"… and {len(problems) - MOST_PROBLEMS} more.")


def _output(opened: OpenPipeline, end: PortRef | None) -> None:
    """Draw the preview of an output, or when it will appear."""
    from ui.studio.previews import show_output

    if end is None or end.node not in opened.document.nodes:
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
        offered = {board.node: board, **offered}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Branch",
            list(offered),
            format_func=lambda name: readable(run.pipeline.nodes[name].label or name),
            key=f"branch/{opened.pipeline}/{end}",
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
        name in opened.document.nodes and opened.document.nodes[name].sweep for name in values
    ):
        st.button(
            label,
            icon=":material/check:",
            help="Save these values in the settings and remove the sweep. Their results stay cached.",
            on_click=_keep,
            args=(opened, values),
        )


def _keep(opened: OpenPipeline, values: Mapping[str, Values]) -> None:
    """Save the values of a branch in the settings and remove the sweep."""
    if opened.attempt(
        lambda: opened.edit(lambda document: apply_branch(document, opened.catalogue, values))
    ):
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
        node_type = opened.catalogue.get(run.pipeline.nodes[name].type)
        if name not in run.values and node_type and node_type.outputs:
            yield PortRef(name, node_type.outputs[0].name)


def _title(opened: OpenPipeline, end: PortRef) -> str:
    """Return the title of an output: ``Split: Test rows``."""
    node = opened.document.nodes[end.node]
    node_type = opened.type_of(end.node)
    port = node_type.output(end.port) if node_type else None
    node_title = node.label or (node_type.title if node_type else node.type)
    port_title = port.title if port and port.title else end.port
    return f"{node_title}: {port_title}"


def _log(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    """Draw the state of the last run, and the logs of the interesting nodes."""
    run = opened.run
    if run is None:
        st.caption("This pipeline was not run yet. Press Run to start it.")
        return
    took = f" in {duration(run.finished - run.started)}" if run.finished and run.started else ""
    st.caption(f"Run `{run.id}`, {time_of_day(run.created)}: **{run.state}**{took}")
    for name in _logs_to_show(opened, run, chosen):
        _node_log(opened, run.id, name, run.nodes[name])


def _logs_to_show(opened: OpenPipeline, run: RunState, chosen: tuple[str, ...]) -> list[str]:
    """Return the nodes whose logs to show.

    These are the selected nodes, else those that failed or are running; of many branches only some.
    """
    interesting = run.nodes_in("failed", "running")
    if not chosen:
        return interesting[:MOST_LOGS]
    shown: list[str] = []
    for name in chosen:
        own = [copy for copy in opened.branches_of(name) if copy in run.nodes]
        shown += [copy for copy in own if copy in interesting][:MOST_LOGS] or own[:MOST_LOGS]
    return shown


def _node_log(opened: OpenPipeline, run: str, name: str, state: NodeState) -> None:
    """Draw the end of the log of one node, and its error if it failed."""
    st.markdown(f"`{name}`: {state.state} {plain(state.text)}")
    if state.state == "failed":
        failure(state)
    path = opened.library.workspace.node_log(run, name)
    text = ""
    if path.is_file():
        with path.open("rb") as file:
            # A log may be very large; its end is what matters.
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    if text:
        st.code(text, language=None, height=200)
    elif state.state in ("running", "done"):
        st.caption(
            "The node wrote no log."
            if state.state == "done"
            else "The node has written nothing yet."
        )
