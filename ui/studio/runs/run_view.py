"""Draw one run: name and buttons, graph, timeline, and the chosen node in detail.

While the run is live, all of it is drawn again about once a second. After that nothing polls.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.events import RunRow
from engine.pipeline import Pipeline
from engine.pipeline_library import Library
from engine.run_state import STARTING_SECONDS, RunState
from engine.runs import RunWatcher
from engine.sweeps import ExpandedPipeline
from engine.text import clock, counted, duration, readable
from ui.studio import links
from ui.studio.builder.node_results import result_in_run
from ui.studio.builder.node_states import NodeResult
from ui.studio.new_pipelines import pipeline_of_run
from ui.studio.runs.graph import RunGraph, clicked_node, draw_graph, last_answer, titles
from ui.studio.runs.node_view import draw_node, failure_text
from ui.studio.runs.remarks import (
    LONGEST_NOTE,
    MOST_TAGS,
    Remark,
    known_tags,
    read_remark,
    remark_of,
    write_remark,
)
from ui.studio.runs.timeline import gantt, live_timeline
from ui.studio.screen_text import plain, state_label, tone
from ui.studio.session import studio
from ui.studio.streamlit_compat import DeltaGenerator
from ui.studio.widgets import errors_flashed, errors_shown, grid, show_flashes

LOOK_SECONDS = 1.0
WATCHER = "run-watcher"
PENDING = "run-pending-attempt"
"""Where a session has the run that was resumed, its attempt, and how long to wait for the next."""
FLASHES = "run"
RESUME = "Resume", ":material/play_arrow:", "Continue the run; finished nodes do not run again."
RESUME_BUTTONS = {
    "failed": (
        "Retry",
        ":material/replay:",
        "Run the failed node and all nodes after it; finished nodes do not run again.",
    ),
    "cancelled": RESUME,
    "interrupted": RESUME,
}
"""For each state that can be continued: the label, icon and help of the button."""
RUNS_WITH_TAGS = 50
"""The newest runs, whose tags are offered for others."""
MOST_DRAWN = 60
"""Nodes beyond which the branches of a sweep are drawn as one, to stay readable."""


def draw_run(run_id: str) -> None:
    """Draw the run with this id, which may be the beginning of an id.

    Raise ``UnknownRun`` if it does not exist.
    """
    watcher = open_watcher(run_id, WATCHER)
    is_polled = _needs_polling(watcher.refresh())
    planned = studio().runs.planned_pipeline(watcher.row)
    with steady("run-live"):
        st.fragment(_draw, run_every=LOOK_SECONDS if is_polled else None)(
            watcher, planned, is_polled
        )


def steady(key: str) -> DeltaGenerator:
    """Return a container whose content does not fade while it is drawn again.

    Streamlit makes old content pale until the new one is there. At one refresh a second, that
    blinks.
    """
    st.html(
        f"<style>.st-key-{key} [data-stale='true'] "
        "{opacity: 1 !important; transition: none !important}</style>"
    )
    return st.container(key=key)


def open_watcher(run_id: str, key: str) -> RunWatcher:
    """Return the watcher of a run, saved in the session of this browser tab.

    So each refresh reads only the events that are new. ``key`` names it in the session.
    """
    watcher: RunWatcher | None = st.session_state.get(key)
    if watcher is None or watcher.row.id != run_id:
        watcher = st.session_state[key] = studio().runs.watch(run_id)
        # The whole id: a beginning of it may mean another run later.
        st.query_params["run"] = watcher.row.id
    return watcher


@errors_shown()
def _draw(watcher: RunWatcher, planned: ExpandedPipeline | None, is_polled: bool) -> None:
    """Draw all parts of the run once; start or stop polling if its state asks for that."""
    pipeline = planned.pipeline if planned else None
    state = watcher.refresh()
    if _needs_polling(state) != is_polled:
        st.rerun()
    # A pipeline that cannot be read has no titles: its nodes keep their names.
    named = {name: name for name in state.nodes} | _titles(watcher.row, pipeline)
    _draw_head(watcher.row, state, named, pipeline)
    if pipeline is None:
        st.warning(
            "Another version of Sylva wrote the pipeline of this run; its graph cannot be drawn."
        )
    chosen = _chosen_node(state, planned)
    if planned is not None:
        _draw_graph(watcher.row, state, planned, chosen)
    _draw_timeline(watcher, state, named)
    _draw_workers(state, named)
    if chosen is not None:
        _draw_details(watcher.row, state, pipeline, named)


def _titles(row: RunRow, pipeline: Pipeline | None) -> dict[str, str]:
    """Return the titles of the nodes of a run, as far as its pipeline can be read."""
    if pipeline is None:
        return {}
    return titles(pipeline, studio().catalog, studio().runs.names(row))


# Head and buttons


def _draw_head(
    row: RunRow, state: RunState, named: Mapping[str, str], pipeline: Pipeline | None
) -> None:
    """Draw the name, the state, the buttons, and how to continue.

    ``named`` are the titles of the nodes.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(readable(row.name)), anchor=False, width="content")
        st.badge(state_label(state.state), color=tone(state.state).badge)
        remark = read_remark(studio().workspace, row.id)
        for tag in remark.tags:
            st.badge(plain(tag), color="gray", icon=":material/label:")
        st.space("stretch")
        _draw_remark(row.id, remark)
        _draw_buttons(state)
    st.caption(plain(" · ".join(run_words(row, state, time.time()))))
    if remark.note:
        st.text(readable(remark.note))
    _draw_advice(state, named, pipeline)


def _draw_remark(run: str, remark: Remark) -> None:
    """Draw the fields for the tags and the note of a run; they are saved at once."""
    keys = f"run-tags-{run}", f"run-note-{run}"
    with st.popover("Tags and note", icon=":material/label:"):
        # Typing must not be slower with every run of the workspace.
        newest = [each.id for each in studio().runs.list(RUNS_WITH_TAGS)]
        offered = dict.fromkeys([*remark.tags, *known_tags(studio().workspace, newest)])
        st.multiselect(
            "Tags",
            list(offered),
            default=list(remark.tags),
            accept_new_options=True,
            max_selections=MOST_TAGS,
            placeholder="Choose or type a tag",
            key=keys[0],
            on_change=_save_remark,
            args=(run, *keys),
        )
        st.text_area(
            "Note",
            remark.note,
            max_chars=LONGEST_NOTE,
            key=keys[1],
            on_change=_save_remark,
            args=(run, *keys),
        )


def _save_remark(run: str, tags_key: str, note_key: str) -> None:
    """Save the tags and the note as they are in the fields."""
    with errors_flashed(FLASHES):
        remark = remark_of(st.session_state[tags_key], st.session_state[note_key])
        write_remark(studio().workspace, run, remark)


def run_words(row: RunRow, state: RunState, now: float) -> list[str]:
    """Return facts about a run, in a few words each; ``now`` is for a live one."""
    words = ["not started yet" if state.started is None else f"started {clock(state.started)}"]
    if state.started is not None and state.live:
        words.append(f"running for {duration(now - state.started)}")
    elif state.started is not None and state.finished is not None:
        words.append(f"took {duration(state.finished - state.started)}")
    overrides = [f"with {readable(text)}" for text in row.overrides]
    attempt = [f"attempt {state.attempt}"] if state.attempt > 1 else []
    return [*words, *attempt, *overrides, f"run {row.id}"]


def _draw_buttons(state: RunState) -> None:
    """Draw Stop, Retry or Resume as the state allows, and the ways to other pages."""
    if state.live:
        stopping = st.session_state.get("run-stopping") == (state.id, state.attempt)
        st.button("Stop", icon=":material/stop:", on_click=_stop, args=(state,), disabled=stopping)
    elif state.state in RESUME_BUTTONS:
        label, icon, hint = RESUME_BUTTONS[state.state]
        st.button(
            label,
            icon=icon,
            type="primary",
            on_click=_resume,
            args=(state,),
            disabled=_is_resuming(state),
            help=hint,
        )
    open_pipeline_button(state.id)
    if st.button("All runs", icon=":material/arrow_back:"):
        st.query_params.pop("run", None)
        st.session_state.pop(WATCHER, None)
        st.rerun()


def _draw_advice(state: RunState, named: Mapping[str, str], pipeline: Pipeline | None) -> None:
    """Draw why the run is not done, and how to continue it."""
    show_flashes(FLASHES)
    if _is_resuming(state):
        st.info("Resuming…")
    elif state.state == "interrupted":
        why = studio().workspace.supervisor_error(state.id) or "its supervisor ended."
        text = f"The run was interrupted: {why} Press Resume to continue it."
        st.warning(plain(readable(text)))
    elif state.state == "failed":
        st.error(plain(readable(cause(state, named, pipeline))))
        st.caption(
            "If the pipeline needs a change, press Open this pipeline, change it and run it: "
            "finished nodes are not computed again. If the cause was something else, press Retry."
        )


def cause(state: RunState, named: Mapping[str, str], pipeline: Pipeline | None = None) -> str:
    """Return why a run failed.

    It is the error of the first node that failed, and how many more failed. With the pipeline, the
    field of the form is named too.
    """
    failed = [name for name in state.nodes_in("failed") if state.nodes[name].error]
    if not failed:
        return "The run failed."
    name, more = failed[0], len(failed) - 1
    written = pipeline.nodes.get(name) if pipeline else None
    node_type = studio().catalog.get(written.type) if written else None
    line = failure_text(named.get(name, name), state.nodes[name], node_type)
    return f"{line} (and {counted(more, 'more node', 'more nodes')})" if more else line


def _stop(state: RunState) -> None:
    """Ask the run to stop; the button stays disabled until it has."""
    with errors_flashed(FLASHES):
        studio().runs.cancel(state.id)
        st.session_state["run-stopping"] = (state.id, state.attempt)


def _resume(state: RunState) -> None:
    """Resume the run, and remember that until its new supervisor reports."""
    with errors_flashed(FLASHES):
        studio().runs.resume(state.id)
        st.session_state[PENDING] = (state.id, state.attempt, time.time() + STARTING_SECONDS)


def _is_resuming(state: RunState) -> bool:
    """Return whether the run was resumed and its supervisor has not reported yet.

    That ends with the next attempt, or when a supervisor has had enough time to start.
    """
    run, attempt, until = st.session_state.get(PENDING, ("", 0, 0.0))
    return bool(run == state.id and attempt == state.attempt and time.time() < until)


def _needs_polling(state: RunState) -> bool:
    """Return whether something may change without a click."""
    return state.live or _is_resuming(state)


def open_pipeline_button(run: str, key: str = "run-open-pipeline") -> None:
    """Draw a button that opens the exact pipeline of a run in the builder."""
    hint = "Open it exactly as it was in this run."
    if st.button("Open this pipeline", icon=":material/account_tree:", key=key, help=hint):
        open_pipeline(run)


def open_pipeline(run: str) -> None:
    """Open the exact pipeline of a run in the builder."""
    links.to_build(pipeline_of_run(Library(studio().workspace), studio().runs, run))


def _draw_workers(state: RunState, named: Mapping[str, str]) -> None:
    """Draw the workers of the cluster that the run uses, and why some are not used."""
    if not state.workers:
        return
    counts = Counter(worker.state for worker in state.workers.values())
    title = "Workers: " + ", ".join(f"{n} {word}" for word, n in counts.items())
    with st.expander(title, expanded=set(counts) != {"admitted"}):
        grid(worker_rows(state, named), f"run-workers-{state.id}")


def worker_rows(state: RunState, named: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a row for each worker: what it is, what it does now, how many fits it has done."""
    doing: dict[str, list[str]] = {}
    done: Counter[str] = Counter()
    for name, node in state.nodes.items():
        for path, subtask in node.subtasks.items():
            done[subtask.worker] += subtask.state == "done"
            if subtask.state == "running" and node.state == "running":
                doing.setdefault(subtask.worker, []).append(" · ".join((named[name], *path)))
    rows = []
    for address, worker in state.workers.items():
        rows.append(
            {
                "Worker": address,
                "Machine": worker.machine,
                "State": worker.state,
                "Threads": worker.threads,
                "Memory": f"{worker.memory / 1000:.1f} GB" if worker.memory else "",
                "Fits done": done[address],
                "Now": ", ".join(doing.get(address, [])),
                "Why not": worker.why,
            }
        )
    return rows


# Graph and timeline


def _chosen_node(state: RunState, planned: ExpandedPipeline | None) -> str | None:
    """Return the node to show: the one that the user chose, else the most interesting one.

    The user chooses by a click in the graph or in the list; the later of the two counts.
    """
    key, own = f"run-node-{state.id}", f"run-own-choice-{state.id}"
    click = clicked_node(_graph_key(state.id), st.session_state.get(own, 0))
    name = _one_of_its_branches(click[0], state, planned) if click else None
    if click and name in state.nodes:
        st.session_state[own], st.session_state[key] = click[1], name
    # The user has not chosen yet: follow what happens.
    elif own not in st.session_state or st.session_state.get(key) not in state.nodes:
        st.session_state[key] = spotlight(state)
    chosen: str | None = st.session_state[key]
    return chosen


def spotlight(state: RunState) -> str | None:
    """Return the node to show first.

    That is one that failed, else one that is running, else one that was interrupted, else the last.
    """
    begun = [
        name
        for name in state.nodes_in("cancelled", "interrupted")
        if state.nodes[name].started is not None
    ]
    for names in (state.nodes_in("failed"), state.nodes_in("running"), begun):
        if names:
            return names[0]
    return list(state.nodes)[-1] if state.nodes else None


def _one_of_its_branches(
    name: str | None, state: RunState, planned: ExpandedPipeline | None
) -> str | None:
    """Return the node of the run that a click means.

    A folded node stands for several branches: one that failed or is running is shown, else the
    first.
    """
    if name is None or planned is None or name in state.nodes:
        return name
    own = [copy for copy in planned.copies_of([name]) if copy in state.nodes]
    interesting = state.nodes_in("failed", "running")
    return next((copy for copy in own if copy in interesting), next(iter(own), None))


def _graph_key(run: str) -> str:
    """Return the key of the graph in the session."""
    return f"run-graph-{run}"


def _draw_graph(
    row: RunRow, state: RunState, planned: ExpandedPipeline, chosen: str | None
) -> None:
    """Draw the pipeline with the states of its nodes; many branches are drawn as one node."""
    catalog, pipeline = studio().catalog, planned.pipeline
    copies: Mapping[str, Sequence[str]] = {}
    if len(pipeline.nodes) > MOST_DRAWN:
        as_written = studio().runs.written_pipeline(row)
        if as_written is not None:
            pipeline, copies = as_written, planned.copies

    def result(name: str) -> NodeResult:
        """Return the result of a node of the run; the branches of a node have none in common."""
        node, finished = pipeline.nodes[name], state.nodes.get(name)
        if finished is None:
            return NodeResult()
        names = partial(studio().runs.names, row)
        return result_in_run(finished, catalog.get(node.type), node, names)

    graph = RunGraph(pipeline, state, copies, result)
    draw_graph(graph, catalog, _graph_key(state.id), chosen)


def _draw_timeline(watcher: RunWatcher, state: RunState, named: Mapping[str, str]) -> None:
    """Draw when each node was running; nothing before the first node starts."""
    spans = watcher.spans
    if not spans:
        return
    shown = {node: named[node] for node in state.nodes}
    if state.live:
        st.html(live_timeline(spans, shown))
    else:
        st.plotly_chart(
            gantt(spans, shown), key=f"run-gantt-{state.id}", config={"displayModeBar": False}
        )


def _draw_details(
    row: RunRow, state: RunState, pipeline: Pipeline | None, named: Mapping[str, str]
) -> None:
    """Draw the list of nodes and the chosen node."""
    key = f"run-node-{state.id}"
    name = st.selectbox(
        "Node",
        list(state.nodes),
        format_func=lambda node: f"{readable(named[node])}: {state.nodes[node].state}",
        key=key,
        on_change=_note_choice,
        args=(state.id,),
    )
    draw_node(row, state, pipeline, str(name), named[str(name)])


def _note_choice(run: str) -> None:
    """Keep the choice of the user from now on, whichever node fails or starts."""
    st.session_state[f"run-own-choice-{run}"] = last_answer(_graph_key(run))
