"""Draw the panels below the canvas: problems, the output of a node, and the log of the last run."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from engine.errors import Problem
from engine.run_state import NodeState, RunState
from engine.text import duration
from ui.studio.builder.node_panel import failure
from ui.studio.builder.open_pipeline import OpenPipeline, Panel
from ui.studio.builder.outputs import draw_output
from ui.studio.runs.node_view import log_tail
from ui.studio.screen_text import plain, time_of_day

MOST_PROBLEMS = 50
MOST_LOGS = 4


def draw_panels(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    """Draw the panels below the canvas, of which one is open.

    ``chosen`` are the selected nodes: the log panel shows their logs.
    """
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
            draw_output(opened, opened.previewed_port)
        case "Log":
            _log(opened, chosen)


def _open(opened: OpenPipeline, part: Panel) -> None:
    """Open a panel."""
    opened.open_panel = part


def _problems(opened: OpenPipeline, problems: list[Problem]) -> None:
    """Draw each problem; a click brings its node into view."""
    if not problems and opened.pipeline.nodes:
        st.caption("No problems found.")
    elif not problems:
        st.caption("The pipeline is empty: drag a node onto the canvas.")
    for index, problem in enumerate(problems[:MOST_PROBLEMS]):
        text = plain(str(problem))
        if problem.node in opened.pipeline.nodes:
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
        # A swept node has as many logs as branches: those that failed or run come first.
        own = [copy for copy in opened.branches_of(name) if copy in run.nodes]
        shown += [copy for copy in own if copy in interesting][:MOST_LOGS] or own[:MOST_LOGS]
    return shown


def _node_log(opened: OpenPipeline, run: str, name: str, state: NodeState) -> None:
    """Draw the end of the log of one node, and its error if it failed."""
    st.markdown(f"`{name}`: {state.state} {plain(state.text)}")
    if state.state == "failed":
        failure(state)
    text = log_tail(opened.library.workspace.node_log(run, name))
    if text:
        st.code(text, language=None, height=200)
    elif state.state in ("running", "done"):
        is_done = state.state == "done"
        st.caption("The node wrote no log." if is_done else "The node has written nothing yet.")
