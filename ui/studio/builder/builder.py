"""The builder: canvas, the form of the selected node beside it, problems, outputs and logs below."""

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
"""How often a live run is looked at."""

SAVE_SECONDS = 5.0
"""How often saving is tried again."""

CANVAS = "canvas"
CANVAS_HEIGHT = "max(420px, calc(100vh - 320px))"
CANVAS_HEIGHT_OVER_OUTPUT = "max(360px, calc(100vh - 500px))"
LOG_BYTES = 20_000
MOST_PROBLEMS = 50
MOST_LOGS = 4


def builder(opened: OpenPipeline) -> None:
    """Draw the builder; it is drawn again by itself while a run is live or edits are unsaved."""
    _refresh_run(opened)
    _announce_end(opened)
    opened.poll_seconds = _poll_seconds(opened)
    st.fragment(_draw, run_every=opened.poll_seconds)(opened)


def _poll_seconds(opened: OpenPipeline) -> float | None:
    """Return after how many seconds there may be news without a click; None if there cannot be."""
    if opened.running:
        return LOOK_SECONDS
    return SAVE_SECONDS if opened.save_error else None


def _draw(opened: OpenPipeline) -> None:
    try:
        _draw_all(opened)
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw_all(opened: OpenPipeline) -> None:
    _refresh_run(opened)
    opened.refresh()
    _rerun_if_moved(opened)
    opened.forget_problems()
    chosen = _chosen()
    place = toolbar(opened, chosen)
    _show_notice(opened)
    middle, side = st.columns([3, 1], gap="small")
    with middle:
        result = _canvas(opened)
    with place:
        save_state(opened)
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
    try:
        opened.refresh_run()
    except SylvaError as error:
        opened.notice = str(error)


def _show_notice(opened: OpenPipeline) -> None:
    if opened.notice:
        st.toast(plain(opened.notice), icon=":material/info:", duration="long")
        opened.notice = ""


def _chosen() -> tuple[str, ...]:
    """Return the selection that the browser last sent: the toolbar is drawn before the canvas."""
    sent = st.session_state.get(CANVAS)
    names = (sent.get("selection") if sent is not None else None) or ()
    return tuple(name for name in names if isinstance(name, str))


def _canvas(opened: OpenPipeline) -> CanvasResult:
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
    """Return what came out at a node; for branches, what the comparison of them says."""
    run, copies, shown = opened.run, opened.branches_of(name), [name]
    if run is None:
        return ""
    if copies != (name,) and opened.run_expanded:
        ends = {PortRef(copy, port) for copy in copies if copy in run.nodes for port in run.nodes[copy].outputs}
        shown = [end.node for end in _meeting_points(opened, opened.run_expanded, ends)]
    return next((found.line for each in shown if (found := _result(run.nodes.get(each)))), "")


def _result(state: NodeState | None) -> ReportLine | None:
    """Return what the report of a finished node says, if it has one."""
    about = next((one for one in state.outputs.values() if one.get("type") == "report"), None) if state else None
    if about is None:
        return None
    from ui.studio.previews.reports import result_of

    return result_of(Artifact.from_dict(about), studio().store)


def _apply_edit(opened: OpenPipeline, edited: Edited) -> None:
    if not opened.apply_canvas_edit(edited):
        st.rerun(scope="fragment")


def _height(opened: OpenPipeline) -> str:
    """Return the height of canvas and form, which leave space for a preview."""
    return CANVAS_HEIGHT_OVER_OUTPUT if opened.open_panel == "Output" and opened.previewed_port else CANVAS_HEIGHT


def _preview(opened: OpenPipeline, end: PortRef) -> None:
    opened.previewed_port, opened.open_panel = end, "Output"


def _run(opened: OpenPipeline, request: RunRequest) -> None:
    match request:
        case (_, "all"):
            begin(opened, opened.start)
        case (node, "to"):
            begin(opened, lambda: opened.start(to=(node,)))
        case (node, "from"):
            begin(opened, lambda: opened.start(force_from=(node,)))


def _announce_end(opened: OpenPipeline) -> None:
    """Show the node that failed when a run has ended."""
    run = opened.run
    if not opened.announce_end or run is None or run.live:
        return
    opened.announce_end = False
    failed = run.nodes_in("failed")
    if failed and opened.source_node(failed[0]) in opened.document.nodes:
        opened.show(opened.source_node(failed[0]))
        opened.open_panel = "Log"


# Below the canvas


def _below(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    problems = opened.problems()
    titles: dict[Panel, str] = {"Problems": f"Problems ({len(problems)})", "Output": "Output", "Log": "Log"}
    # Buttons, since the program opens panels as well: a widget with a value of its own would lag behind.
    with st.container(horizontal=True, gap="small", key="bottom"):
        for part, title in titles.items():
            looks: Literal["secondary", "tertiary"] = "secondary" if part == opened.open_panel else "tertiary"
            st.button(title, key=f"bottom-{part}", type=looks, on_click=_open, args=(opened, part))
    match opened.open_panel:
        case "Problems":
            _problems(opened, problems)
        case "Output":
            _output(opened, opened.previewed_port)
        case "Log":
            _log(opened, chosen)


def _open(opened: OpenPipeline, part: Panel) -> None:
    opened.open_panel = part


def _problems(opened: OpenPipeline, problems: list[Problem]) -> None:
    """Draw each problem; a click brings its node into view."""
    if not problems:
        st.caption(
            "No problems found."
            if opened.document.nodes
            else "There is nothing to run yet: drag a node onto the canvas."
        )
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
    from ui.studio.previews import show_output

    if end is None or end.node not in opened.document.nodes:
        st.caption("Click the dot of a finished output on the canvas to look at it.")
        return
    name, port = _branch(opened, end)
    state = opened.run.nodes.get(name) if opened.run else None
    if state is None or port not in state.outputs:
        how = "It appears here when the node is done." if opened.running else "Run the pipeline first."
        st.caption(f"“{plain(_title(opened, end))}” has no result yet. {how}")
    else:
        title = _title(opened, end) if name == end.node else ""
        show_output(Artifact.from_dict(state.outputs[port]), studio().store, title=title, key=f"output/{name}.{port}")


def _branch(opened: OpenPipeline, end: PortRef) -> PortRef:
    """Return the output to show: for a swept node that of the chosen branch, or the leaderboard."""
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
    """Draw the same button for the branch that a comparison puts first."""
    values = best_values(run, board, opened.run.nodes.get(board) if opened.run else None)
    words = " ".join(branch_label(each, opened.type_of(name)) for name, each in values.items())
    _keep_button(opened, values, f"Keep the best: {plain(words)}")


def best_values(run: ExpandedPipeline, board: str, state: NodeState | None) -> Mapping[str, Values]:
    """Return the values of the branch that a comparison puts first; empty if that is not a branch."""
    found = _result(state)
    for name in (edge.source.node for edge in run.pipeline.edges if edge.target.node == board):
        branch = run.branches.get(name)
        if found is None or branch is None:
            continue
        title = branch.title(str(run.pipeline.nodes[name].params.get("name", "")))
        # A comparison adds the node where two evaluations have the same title.
        if found.best in (title, f"{title} ({name})"):
            return run.values[name]
    return {}


def _keep_button(opened: OpenPipeline, values: Mapping[str, Values], label: str) -> None:
    """Draw a button that ends the sweep with the values of a branch."""
    if values and all(name in opened.document.nodes and opened.document.nodes[name].sweep for name in values):
        st.button(
            label,
            icon=":material/check:",
            help="Put them into the settings and remove the sweep. Nothing has to run again for them.",
            on_click=_keep,
            args=(opened, values),
        )


def _keep(opened: OpenPipeline, values: Mapping[str, Values]) -> None:
    if opened.attempt(lambda: opened.edit(lambda document: apply_branch(document, opened.catalogue, values))):
        kept = [
            f"{param_label(param, opened.type_of(name))} = {value_label(value)}"
            for name, each in values.items()
            for param, value in each.items()
        ]
        words = f"Saved {', '.join(kept)} and removed the sweep. Undo brings it back."
        opened.notice = opened.notice or words


def _meeting_points(opened: OpenPipeline, run: ExpandedPipeline, ends: Collection[PortRef]) -> Iterator[PortRef]:
    """Yield the nodes that read several of these outputs of branches, such as a leaderboard."""
    for name in dict.fromkeys(edge.target.node for edge in run.pipeline.edges if edge.source in ends):
        node_type = opened.catalogue.get(run.pipeline.nodes[name].type)
        if name not in run.values and node_type and node_type.outputs:
            yield PortRef(name, node_type.outputs[0].name)


def _title(opened: OpenPipeline, end: PortRef) -> str:
    node = opened.document.nodes[end.node]
    node_type = opened.type_of(end.node)
    port = node_type.output(end.port) if node_type else None
    named = node.label or (node_type.title if node_type else node.type)
    return f"{named}: {port.title if port and port.title else end.port}"


def _log(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    run = opened.run
    if run is None:
        st.caption("Not run yet.")
        return
    ended = run.finished if run.finished and run.started else None
    took = f" in {duration(ended - run.started)}" if ended and run.started else ""
    st.caption(f"Run `{run.id}`, {time_of_day(run.created)}: **{run.state}**{took}")
    for name in _logs_to_show(opened, run, chosen):
        _node_log(opened, run.id, name, run.nodes[name])


def _logs_to_show(opened: OpenPipeline, run: RunState, chosen: tuple[str, ...]) -> list[str]:
    """Return the nodes whose logs to show: the selected ones, else those that failed or are running."""
    interesting = run.nodes_in("failed", "running")
    found: list[str] = []
    for name in chosen:
        own = [copy for copy in opened.branches_of(name) if copy in run.nodes]
        found += [copy for copy in own if copy in interesting][:MOST_LOGS] or own[:MOST_LOGS]
    return found if chosen else interesting[:MOST_LOGS]


def _node_log(opened: OpenPipeline, run: str, name: str, state: NodeState) -> None:
    st.markdown(f"`{name}`: {state.state} {plain(state.text)}")
    if state.state == "failed":
        failure(state)
    path = opened.library.workspace.node_log(run, name)
    text = ""
    if path.is_file():
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    if text:
        st.code(text, language=None, height=200)
    elif state.state in ("running", "done"):
        st.caption("The node wrote no log." if state.state == "done" else "The node has written nothing yet.")
