"""Draw one node of a run in detail: its state and error, settings, log, fits and outputs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import streamlit as st

from engine.events import RunRow
from engine.pipeline import Pipeline
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.text import clock, duration, failure_line, readable, size
from ui.studio.previews import show_output
from ui.studio.runs.run_graph import draw_graph, layer_drawing
from ui.studio.runs.timeline import Subtasks, layer_lines, settled, subtask_grid, three_parts
from ui.studio.screen_text import plain, state_label
from ui.studio.session import studio
from ui.studio.widgets import download

LOG_BYTES = 64_000
LOG_LINES = 200
LEGIBLE_SUBTASKS = 60
"""Subtasks beyond which the graph of a layer would not be readable."""


def draw_node(row: RunRow, state: RunState, pipeline: Pipeline | None, name: str) -> None:
    """Draw everything about one node of a run.

    ``pipeline`` is the pipeline that ran; without it, the settings of the node are not shown.
    """
    node = state.nodes[name]
    written = pipeline.nodes.get(name) if pipeline else None
    _draw_state(name, node, written.settings.tries(row.retries) if written else 0)
    if node.subtasks:
        _draw_subtasks(state.id, name, node)
    _draw_outputs(state, name, node)
    _draw_log(state.id, name)
    if written is not None:
        with st.expander(f"Settings of {name}", key=f"run-settings-{state.id}-{name}"):
            settings = written.model_dump(exclude_defaults=True)
            st.code(json.dumps(settings, indent=2, ensure_ascii=False), language="json")


def _draw_state(name: str, node: NodeState, tries: int) -> None:
    """Draw state and times of a node; if it failed, the error first."""
    # A queued node with an error has failed before, and will be tried again.
    if node.error and node.state in ("failed", "queued"):
        st.error(plain(readable(failure_line(name, node.error))))
        if node.error.get("traceback"):
            with st.expander("Traceback", key=f"run-traceback-{name}"):
                st.code(readable(node.error["traceback"]), language="python")
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
    key, height = f"run-layer-graph-{run}-{name}-{layer}", min(1000, 60 + 48 * count)
    draw_graph(layer_drawing(subtasks, layer), key, height=height, spacing=(16, 70))


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


def _draw_outputs(state: RunState, name: str, node: NodeState) -> None:
    """Draw a choice between the outputs, and the chosen one.

    While the run is live, none is open at first: a preview takes time, and the page is drawn often.
    """
    if not node.outputs:
        return
    st.markdown("##### Outputs")
    outputs = {port: Artifact.from_dict(data) for port, data in node.outputs.items()}
    port = st.segmented_control(
        "Output",
        list(outputs),
        default=None if state.live else next(iter(outputs)),
        format_func=lambda port: f"{port} ({outputs[port].type}, {size(outputs[port].size)})",
        key=f"run-output-{state.id}-{name}",
        label_visibility="collapsed",
    )
    if port is None:
        st.caption("Choose an output to see it.")
    else:
        show_output(
            outputs[port], studio().store, title="", key=f"run-output-{state.id}-{name}-{port}"
        )
