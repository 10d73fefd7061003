"""The builder: canvas, the chosen node's form beside it, problems, outputs and logs below."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import streamlit as st

from engine.branches import Values, branch_words, brief, param_words
from engine.edits import apply_branch
from engine.errors import SylvaError
from engine.pipeline import PortRef
from engine.problems import Problem
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.sweeps import NAME, ExpandedPipeline
from engine.text import duration
from engine.wording import readable
from ui.studio.builder import open_pipeline as desks
from ui.studio.builder.node_panel import failure, panel
from ui.studio.builder.node_states import node_views
from ui.studio.builder.open_pipeline import Bottom, OpenPipeline
from ui.studio.builder.toolbar import begin, save_state, toolbar
from ui.studio.canvas import CanvasResult, Edited, RunRequest, canvas
from ui.studio.markdown import plain, time_of_day
from ui.studio.session import studio

if TYPE_CHECKING:
    from ui.studio.previews.reports import ReportLine

LOOK_SECONDS = 0.5
"""How often a run under way is asked for news."""

SAVE_SECONDS = 5.0
"""How often it is tried again to save what could not be saved."""

CANVAS = "canvas"
CANVAS_HEIGHT = "max(420px, calc(100vh - 320px))"
CANVAS_HEIGHT_OVER_OUTPUT = "max(360px, calc(100vh - 500px))"
LOG_BYTES = 20_000
MOST_PROBLEMS = 50
MOST_LOGS = 4


def workbench(desk: OpenPipeline) -> None:
    """Draw the builder; it looks for news by itself while a run is under way, and rests otherwise."""
    _follow(desk)
    _announce_end(desk)
    desk.polled = _pace(desk)
    st.fragment(_draw, run_every=desk.polled)(desk)


def _pace(desk: OpenPipeline) -> float | None:
    """After how many seconds there may be news that no click brings."""
    if desk.running:
        return LOOK_SECONDS
    return SAVE_SECONDS if desk.not_saved else None


def _draw(desk: OpenPipeline) -> None:
    try:
        _draw_all(desk)
    except SylvaError as error:
        st.error(plain(str(error)))


def _draw_all(desk: OpenPipeline) -> None:
    _follow(desk)
    desk.refresh()
    _start_over_if_moved(desk)
    desk.look_afresh()
    chosen = _chosen()
    place = toolbar(desk, chosen)
    _say_notice(desk)
    middle, side = st.columns([3, 1], gap="small")
    with middle:
        result = _canvas(desk)
    with place:
        save_state(desk)
    st.html(f"<style>.st-key-panel {{ height: {_height(desk)} !important; }}</style>")
    with side, st.container(key="panel"):
        panel(desk, result.selection, desk.problems())
    _below(desk, result.selection)
    _start_over_if_moved(desk)


def _start_over_if_moved(desk: OpenPipeline) -> None:
    """The page has to be drawn as a whole for another pipeline, or to look for news at another pace."""
    if not desks.is_open(desk) or _pace(desk) != desk.polled:
        st.rerun(scope="app")


def _follow(desk: OpenPipeline) -> None:
    try:
        with studio().log() as log:
            desk.follow(log)
    except SylvaError as error:
        desk.notice = str(error)


def _say_notice(desk: OpenPipeline) -> None:
    if desk.notice:
        st.toast(plain(desk.notice), icon=":material/info:", duration="long")
        desk.notice = ""


def _chosen() -> tuple[str, ...]:
    """The selection as the browser last told it; the toolbar is drawn before the canvas."""
    sent = st.session_state.get(CANVAS)
    names = (sent.get("selection") if sent is not None else None) or ()
    return tuple(name for name in names if isinstance(name, str))


def _canvas(desk: OpenPipeline) -> CanvasResult:
    return canvas(
        desk.document,
        epoch=desk.epoch,
        catalogue=desk.catalogue,
        problems=desk.problems,
        states=lambda document: node_views(
            document,
            desk.run_now,
            desk.run_document,
            desk.run_branches.copies if desk.run_branches else None,
            lambda name: _result_line(desk, name),
        ),
        key=CANVAS,
        pipeline=desk.pipeline,
        reveal=desk.reveal,
        on_edit=lambda edited: _take(desk, edited),
        on_port=lambda end: _look_at(desk, end),
        on_run=lambda request: _run(desk, request),
        height=_height(desk),
    )


def _result_line(desk: OpenPipeline, name: str) -> str:
    """What came out at a node; of branches, what the comparison says in which they meet."""
    run, copies, told = desk.run_now, desk.copies(name), [name]
    if run is None:
        return ""
    if copies != (name,) and desk.run_branches:
        ends = {PortRef(copy, port) for copy in copies if copy in run.nodes for port in run.nodes[copy].outputs}
        told = [end.node for end in _meeting_points(desk, desk.run_branches, ends)]
    return next((found.line for each in told if (found := _result(run.nodes.get(each)))), "")


def _result(state: NodeState | None) -> ReportLine | None:
    """What the report of a finished node says, if it gives one."""
    about = next((one for one in state.outputs.values() if one.get("type") == "report"), None) if state else None
    if about is None:
        return None
    from ui.studio.previews.reports import result_of

    return result_of(Artifact.from_dict(about), studio().store)


def _take(desk: OpenPipeline, edited: Edited) -> None:
    if not desk.take(edited):
        st.rerun(scope="fragment")


def _height(desk: OpenPipeline) -> str:
    """Canvas and form leave room for an output that is looked at."""
    return CANVAS_HEIGHT_OVER_OUTPUT if desk.bottom == "Output" and desk.looked_at else CANVAS_HEIGHT


def _look_at(desk: OpenPipeline, end: PortRef) -> None:
    desk.looked_at, desk.bottom = end, "Output"


def _run(desk: OpenPipeline, request: RunRequest) -> None:
    match request:
        case (_, "all"):
            begin(desk, desk.start)
        case (node, "to"):
            begin(desk, lambda: desk.start(to=(node,)))
        case (node, "from"):
            begin(desk, lambda: desk.start(afresh=(node,)))


def _announce_end(desk: OpenPipeline) -> None:
    """Put a failure before the user when a run that was watched has ended."""
    run = desk.run_now
    if not desk.watching or run is None or run.live:
        return
    desk.watching = False
    failed = run.names("failed")
    if failed and desk.origin(failed[0]) in desk.document.nodes:
        desk.show(desk.origin(failed[0]))
        desk.bottom = "Log"


# Below the canvas


def _below(desk: OpenPipeline, chosen: tuple[str, ...]) -> None:
    problems = desk.problems()
    titles: dict[Bottom, str] = {"Problems": f"Problems ({len(problems)})", "Output": "Output", "Log": "Log"}
    # Buttons, since the program opens parts as well: a widget with a value of its own would lag behind.
    with st.container(horizontal=True, gap="small", key="bottom"):
        for part, title in titles.items():
            looks: Literal["secondary", "tertiary"] = "secondary" if part == desk.bottom else "tertiary"
            st.button(title, key=f"bottom-{part}", type=looks, on_click=_open_part, args=(desk, part))
    match desk.bottom:
        case "Problems":
            _problems(desk, problems)
        case "Output":
            _output(desk, desk.looked_at)
        case "Log":
            _log(desk, chosen)


def _open_part(desk: OpenPipeline, part: Bottom) -> None:
    desk.bottom = part


def _problems(desk: OpenPipeline, problems: list[Problem]) -> None:
    """Each problem; a click brings its node into view."""
    if not problems:
        st.caption("No problems found." if desk.document.nodes else "Nothing to run yet: drag a node onto the canvas.")
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        text = plain(str(problem))
        if problem.node in desk.document.nodes:
            st.button(
                text,
                key=f"problem-{index}",
                type="tertiary",
                icon=":material/error:",
                on_click=desk.show,
                args=(problem.node,),
            )
        else:
            st.caption(text)
    if len(problems) > MOST_PROBLEMS:
        st.caption(f"… and {len(problems) - MOST_PROBLEMS} more.")


def _output(desk: OpenPipeline, end: PortRef | None) -> None:
    from ui.studio.previews import show_output

    if end is None or end.node not in desk.document.nodes:
        st.caption("Click the dot of a finished output on the canvas to look at it.")
        return
    name, port = _branch(desk, end)
    state = desk.run_now.nodes.get(name) if desk.run_now else None
    if state is None or port not in state.outputs:
        how = "It appears here when the node is done." if desk.running else "Run the pipeline first."
        st.caption(f"“{plain(_title(desk, end))}” has no result yet. {how}")
    else:
        title = _title(desk, end) if name == end.node else ""
        show_output(Artifact.from_dict(state.outputs[port]), studio().store, title=title, key=f"output/{name}.{port}")


def _branch(desk: OpenPipeline, end: PortRef) -> PortRef:
    """The output of the run to look at: of a node that was swept, that of the branch chosen, or the leaderboard."""
    copies, run = desk.copies(end.node), desk.run_branches
    if run is None:
        return end
    if copies == (end.node,):
        _keep_best_button(desk, run, end.node)
        return end
    offered = {copy: PortRef(copy, end.port) for copy in copies}
    for board in _meeting_points(desk, run, offered.values()):
        offered = {board.node: board, **offered}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Branch",
            list(offered),
            format_func=lambda name: readable(run.document.nodes[name].label or name),
            key=f"branch/{desk.pipeline}/{end}",
            width=420,
        )
        if chosen in run.values:
            _keep_button(desk, run.values[chosen], "Keep these values")
        else:
            _keep_best_button(desk, run, chosen)
    return offered[chosen]


def _keep_best_button(desk: OpenPipeline, run: ExpandedPipeline, board: str) -> None:
    """The same for the branch that a comparison puts first."""
    values = best_values(run, board, desk.run_now.nodes.get(board) if desk.run_now else None)
    words = " ".join(branch_words(each, desk.type_of(name)) for name, each in values.items())
    _keep_button(desk, values, f"Keep the best: {plain(words)}")


def best_values(run: ExpandedPipeline, board: str, state: NodeState | None) -> Mapping[str, Values]:
    """The values of the branch that a comparison puts first; none if that is no branch."""
    found = _result(state)
    for name in (edge.source.node for edge in run.document.edges if edge.target.node == board):
        title = run.document.nodes[name].params.get(NAME)
        if found and title and found.best in (title, f"{title} ({name})"):  # as a comparison tells namesakes apart
            return run.values.get(name, {})
    return {}


def _keep_button(desk: OpenPipeline, values: Mapping[str, Values], label: str) -> None:
    """A way to end the sweep with the values of a branch."""
    if values and all(name in desk.document.nodes and desk.document.nodes[name].sweep for name in values):
        st.button(
            label,
            icon=":material/check:",
            help="Put them into the settings and remove the sweep. Nothing has to run again for them.",
            on_click=_keep,
            args=(desk, values),
        )


def _keep(desk: OpenPipeline, values: Mapping[str, Values]) -> None:
    if desk.attempt(lambda: desk.edit(lambda document: apply_branch(document, desk.catalogue, values))):
        kept = [
            f"{param_words(param, desk.type_of(name))} = {brief(value)}"
            for name, each in values.items()
            for param, value in each.items()
        ]
        words = f"{', '.join(kept)} {'is' if len(kept) == 1 else 'are'} kept; the sweep is ended. Undo brings it back."
        desk.notice = desk.notice or words


def _meeting_points(desk: OpenPipeline, run: ExpandedPipeline, ends: Collection[PortRef]) -> Iterator[PortRef]:
    """Where these outputs of branches meet in one, such as a leaderboard."""
    for name in dict.fromkeys(edge.target.node for edge in run.document.edges if edge.source in ends):
        node_type = desk.catalogue.get(run.document.nodes[name].type)
        if name not in run.values and node_type and node_type.outputs:
            yield PortRef(name, node_type.outputs[0].name)


def _title(desk: OpenPipeline, end: PortRef) -> str:
    node = desk.document.nodes[end.node]
    node_type = desk.type_of(end.node)
    port = node_type.output(end.port) if node_type else None
    named = node.label or (node_type.title if node_type else node.type)
    return f"{named}: {port.title if port and port.title else end.port}"


def _log(desk: OpenPipeline, chosen: tuple[str, ...]) -> None:
    run = desk.run_now
    if run is None:
        st.caption("Not run yet.")
        return
    ended = run.finished if run.finished and run.started else None
    took = f" in {duration(ended - run.started)}" if ended and run.started else ""
    st.caption(f"Run `{run.id}`, {time_of_day(run.created)}: **{run.state}**{took}")
    for name in _worth_reading(desk, run, chosen):
        _node_log(desk, run.id, name, run.nodes[name])


def _worth_reading(desk: OpenPipeline, run: RunState, chosen: tuple[str, ...]) -> list[str]:
    """The nodes whose logs to show: the chosen ones, else those that failed or are at work; of many branches a few."""
    telling = run.names("failed", "running")
    found: list[str] = []
    for name in chosen:
        own = [copy for copy in desk.copies(name) if copy in run.nodes]
        found += [copy for copy in own if copy in telling][:MOST_LOGS] or own[:MOST_LOGS]
    return found if chosen else telling[:MOST_LOGS]


def _node_log(desk: OpenPipeline, run: str, name: str, state: NodeState) -> None:
    st.markdown(f"`{name}`: {state.state} {plain(state.text)}")
    if state.state == "failed":
        failure(state)
    path = desk.library.workspace.node_log(run, name)
    text = ""
    if path.is_file():
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            text = file.read().decode(errors="replace")
    if text:
        st.code(text, language=None, height=200)
    elif state.state in ("running", "done"):
        st.caption("It wrote no log." if state.state == "done" else "It has written nothing yet.")
