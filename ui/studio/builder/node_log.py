"""Draw what a node wrote in the last run: its state, its progress and the end of its log."""

from __future__ import annotations

import streamlit as st

from engine.run_state import NodeState
from engine.text import duration
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.runs.node_view import log_tail
from ui.studio.screen_text import plain, state_label, time_of_day

MOST_LOGS = 4


def draw_log(opened: OpenPipeline, name: str) -> None:
    """Draw the log of a node; of many branches, only some."""
    run = opened.run
    if run is None:
        st.caption("This pipeline was not run yet. Press Run to start it.")
        return
    st.caption(f"Run at {time_of_day(run.created)}: {run.state}")
    shown = _branches_to_show(opened, name)
    if not shown:
        st.caption("The last run did not include this node.")
    for copy in shown:
        _one_log(opened, copy, run.nodes[copy], titled=copy != name)


def _branches_to_show(opened: OpenPipeline, name: str) -> list[str]:
    """Return the nodes of the run whose logs to show: those that failed or run come first."""
    run = opened.run
    own = [copy for copy in opened.branches_of(name) if run and copy in run.nodes]
    interesting = run.nodes_in("failed", "running") if run else []
    return ([copy for copy in own if copy in interesting] or own)[:MOST_LOGS]


def _one_log(opened: OpenPipeline, name: str, state: NodeState, *, titled: bool) -> None:
    """Draw the state of one node of the run, and the end of its log."""
    assert opened.run is not None
    words = [state_label(state.state)]
    if state.seconds is not None:
        words.append(duration(state.seconds))
    if state.state == "running" and state.text:
        words.append(state.text)
    expanded = opened.run_expanded
    if titled and expanded:
        words.insert(0, expanded.pipeline.nodes[name].label or name)
    st.markdown(plain(" · ".join(words)))
    text = log_tail(opened.library.workspace.node_log(opened.run.id, name))
    if text:
        st.code(text, language=None, wrap_lines=True, height=320 if text.count("\n") > 14 else None)
    elif state.state in ("running", "done"):
        is_done = state.state == "done"
        st.caption("The node wrote no log." if is_done else "The node has written nothing yet.")
