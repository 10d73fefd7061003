"""Draw one node of a run in detail: its state and error, settings, log, fits and outputs."""

from __future__ import annotations

import time
from pathlib import Path

import streamlit as st

from engine.events import RunRow
from engine.node_types import NodeType
from engine.pipeline import Pipeline
from engine.pipeline_diff import settings_of
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.text import clock, duration, readable, size
from nodes.models.ranking import RowParts, rows_text
from ui.studio.previews import Maker, show_output
from ui.studio.runs.flow import flow_loads
from ui.studio.runs.graph import draw_layer
from ui.studio.runs.timeline import Subtasks, layer_lines, settled, subtask_grid, three_parts
from ui.studio.screen_text import field_title, plain, source_title, state_label
from ui.studio.session import studio
from ui.studio.widgets import download, grid

LOG_BYTES = 64_000
LOG_LINES = 200
LEGIBLE_SUBTASKS = 60
"""Subtasks beyond which the graph of a layer would not be readable."""


def draw_node(
    row: RunRow, state: RunState, pipeline: Pipeline | None, name: str, title: str
) -> None:
    """Draw everything about one node of a run.

    ``pipeline`` is the pipeline that ran; without it, the settings of the node are not shown.
    """
    node = state.nodes[name]
    written = pipeline.nodes.get(name) if pipeline else None
    node_type = studio().catalog.get(written.type) if written else None
    tries = written.settings.tries(row.retries) if written else 0
    failed = [each for each in state.nodes_in("failed") if state.nodes[each].error]
    # The head of a failed run has the error of its first failed node.
    is_shown = state.state == "failed" and failed[:1] == [name]
    failure = "" if is_shown else failure_text(title, node, node_type)
    _draw_state(name, node, failure, tries)
    if node.subtasks:
        _draw_subtasks(state.id, name, node)
    _draw_outputs(row, state, name, node_type)
    _draw_log(state.id, name)
    if pipeline is not None and written is not None:
        _draw_settings(state.id, name, title, pipeline)


def failure_text(title: str, node: NodeState, node_type: NodeType | None) -> str:
    """Return which node failed, in which field of its form, and why."""
    error = node.error or {}
    field = error.get("field")
    place = f"{title}, {field_title(field, node_type)}" if field else title
    return f"{place}: {error.get('message', 'it failed')}"


def _draw_settings(run: str, name: str, title: str, pipeline: Pipeline) -> None:
    """Draw what is set for a node, in the words of its form."""
    with st.expander(f"Settings of {plain(readable(title))}", key=f"run-settings-{run}-{name}"):
        settings = settings_of(name, pipeline, studio().catalog, source_title=source_title)
        rows = [{"Setting": setting, "Value": value} for setting, value in settings.items()]
        if rows:
            grid(rows, f"run-settings-table-{run}-{name}")
        else:
            st.caption("All settings have their defaults.")


def _draw_state(name: str, node: NodeState, failure: str, tries: int) -> None:
    """Draw state and times of a node; if it failed, the ``failure`` first, unless it is empty."""
    # A queued node with an error has failed before, and will be tried again.
    if node.error and node.state in ("failed", "queued"):
        if failure:
            st.error(plain(readable(failure)))
        if node.error.get("traceback"):
            with st.expander("Traceback", key=f"run-traceback-{name}"):
                st.code(readable(node.error["traceback"]), language="python")
    elif node.state == "skipped":
        # The text of the run has the id of that node.
        st.text("A node before it failed.")
    elif node.text:
        st.text(readable(node.text))
    if node.state == "running":
        st.progress(node.fraction)
    st.caption(plain(" · ".join(state_facts(node, time.time(), tries))))


def state_facts(node: NodeState, now: float, tries: int) -> list[str]:
    """Return facts about a node, in a few words each.

    ``now`` is the time for one that is running, ``tries`` how often it may be started, if known.
    """
    words = [state_label(node.state)]
    if node.started is not None:
        words.append(f"started {clock(node.started)}")
    if node.state == "running" and node.started is not None:
        words.append(f"running for {duration(now - node.started)}")
    elif node.seconds is not None:
        earlier = " when it was computed" if node.state == "cached" else ""
        words.append(f"took {duration(node.seconds)}{earlier}")
    if node.try_number > 1:
        # A node whose input had to be repaired is started more often than its retries allow.
        most = f" of {tries}" if node.try_number <= tries else ""
        words.append(f"try {node.try_number}{most}")
    if node.executions:
        count = node.executions
        words.append("executed once" if count == 1 else f"executed {count} times")
    return words


# The subtasks inside a node


def _draw_subtasks(run: str, name: str, node: NodeState) -> None:
    """Draw the fits inside a node: the state of the last layer in words, then all as a grid."""
    st.markdown("##### Fits")
    subtasks = settled(node.subtasks, node.state)
    # The last layer is the newest; while the node is running it is the one that grows.
    lines = layer_lines(subtasks)
    last = list(lines)[-1]
    st.text(f"{readable(last)}: {lines[last]}")
    st.html(subtask_grid(subtasks))
    if not flow_loads():
        return
    with st.expander(
        "One layer as a graph", key=f"run-layer-{run}-{name}", on_change="rerun"
    ) as opened:
        if opened.open:
            _draw_layer(run, name, subtasks, list(lines))


def _draw_layer(run: str, name: str, subtasks: Subtasks, layers: list[str]) -> None:
    """Draw the fits of one layer as a graph, unless there are too many to read it."""
    layer = st.selectbox(
        "Layer", layers, index=len(layers) - 1, key=f"run-layer-choice-{run}-{name}"
    )
    count = sum(three_parts(path)[0] == layer for path in subtasks)
    if count > LEGIBLE_SUBTASKS:
        st.info(
            f"This layer has {count} fits: too many for a graph. The grid above shows all of them."
        )
        return
    draw_layer(subtasks, layer, f"run-layer-graph-{run}-{name}-{layer}")


# Its log and its outputs


def log_tail(path: Path) -> str:
    """Return the last lines of a log; empty if the node wrote none.

    Only the end of the file is read, so a log of any size is fast.
    """
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - LOG_BYTES))
        text = file.read().decode(errors="replace")
    return readable("\n".join(text.splitlines()[-LOG_LINES:]))


def _draw_log(run: str, name: str) -> None:
    """Draw the end of the log, with a download of all of it."""
    path = studio().workspace.node_log(run, name)
    tail = log_tail(path)
    if not tail:
        return
    st.markdown("##### Log")
    # A short log needs no frame that scrolls.
    short = len(tail.splitlines()) <= 12
    with st.container(height="content" if short else 300, autoscroll=True, border=not short):
        st.code(tail, language=None, wrap_lines=True)
    key = f"run-log-{run}-{name}"
    download("Download log", path.read_bytes, f"{run}-{name}.log", "text/plain", key, icon=None)


def _draw_outputs(row: RunRow, state: RunState, name: str, node_type: NodeType | None) -> None:
    """Draw a choice between the outputs, and the chosen one.

    While the run is live, none is open at first: a preview takes time, and the page is drawn often.
    """
    outputs = {port: Artifact.from_dict(data) for port, data in state.nodes[name].outputs.items()}
    if not outputs:
        return
    st.markdown("##### Output")
    shown = None if state.live else next(iter(outputs))
    if len(outputs) > 1 or state.live:
        shown = st.segmented_control(
            "Output",
            list(outputs),
            default=shown,
            format_func=lambda port: f"{port_title(port, node_type)} · {size(outputs[port].size)}",
            key=f"run-output-{state.id}-{name}",
            label_visibility="collapsed",
        )
    if shown is None:
        st.caption("Choose an output to see it.")
    else:
        show_output(
            outputs[shown],
            studio().store,
            title="",
            key=f"run-output-{state.id}-{name}-{shown}",
            maker=Maker(name, studio().runs.names(row), _rows_of(row, name)),
        )


def _rows_of(row: RunRow, name: str) -> str:
    """Return the rows that a node of a run evaluates or compares on, in words."""
    runs = studio().runs
    planned = runs.planned_pipeline(row)
    return rows_text(RowParts(planned.pipeline, runs.catalog).evaluated(name)) if planned else ""


def port_title(name: str, node_type: NodeType | None) -> str:
    """Return the title of an output; its name if the type of the node is not installed."""
    port = node_type.output(name) if node_type else None
    return port.title if port and port.title else name
