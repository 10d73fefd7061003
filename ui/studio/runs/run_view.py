"""One run on screen: head and buttons, graph, timeline, and the chosen node in detail.

While someone is at work on the run, everything is drawn anew about once a second; afterwards nothing polls.
"""

from __future__ import annotations

import time

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit_flow import streamlit_flow

from engine.errors import SylvaError
from engine.events import RunRow
from engine.pipeline import Pipeline
from engine.run_state import STARTING_SECONDS, RunState
from engine.store import Store
from engine.sweeps import ExpandedPipeline
from engine.text import clock, duration, failure_line, last_words, readable
from ui.studio.markdown import plain
from ui.studio.runs.history import History, document_of, planned_of
from ui.studio.runs.node_view import draw_node
from ui.studio.runs.run_graph import Layered, clicked, drawing, flow_state, folded_drawing, is_laid_out, titles
from ui.studio.runs.state_style import marked, tone
from ui.studio.runs.timeline import gantt, live_timeline
from ui.studio.runs.watch import Watch, spotlight
from ui.studio.session import studio

LOOK_SECONDS = 1.0
GRAPH_HEIGHTS = (200, 460)
MOST_DRAWN = 60
"""Nodes beyond which the branches of a sweep are drawn as one: nobody could read them."""


def draw_run(wanted: str) -> None:
    """The run that an address names."""
    watch = open_watch(wanted, "run-watch")
    watched = _is_watched(watch, look(watch))
    with steady("run-live"):
        st.fragment(_draw, run_every=LOOK_SECONDS if watched else None)(watch, planned_of(watch.row), watched)


@st.cache_resource(show_spinner=False)
def history_of(workspace: str, _store: Store) -> History:
    """What is known of the runs of a workspace; the same for all who look."""
    return History(_store)


def steady(key: str) -> DeltaGenerator:
    """A container whose content does not fade while it is being drawn anew, as Streamlit's does on a busy machine."""
    st.html(f"<style>.st-key-{key} [data-stale='true'] {{opacity: 1 !important; transition: none !important}}</style>")
    return st.container(key=key)


def open_watch(wanted: str, place: str) -> Watch:
    """What this tab knows of a run; kept in its ``place``, so that each look reads new events only."""
    held: Watch | None = st.session_state.get(place)
    if held is None or held.row.id != wanted:
        with studio().log() as log:
            held = st.session_state[place] = Watch(log.run(wanted))
        st.query_params["run"] = held.row.id
    return held


def look(watch: Watch) -> RunState:
    """The run as it is now."""
    with studio().log() as log:
        return watch.look(log)


def _draw(watch: Watch, planned: ExpandedPipeline | None, watched: bool) -> None:
    document = planned.pipeline if planned else None
    try:
        state = look(watch)
        if _is_watched(watch, state) != watched:
            st.rerun()
        _draw_head(watch.row, state)
        if document is None:
            st.warning("The pipeline of this run was written by another version of Sylva; its graph cannot be drawn.")
        chosen = _chosen_node(state, planned)
        if planned is not None:
            _draw_graph(watch, state, planned, chosen)
        _draw_timeline(watch, state, document)
        if chosen is not None:
            _draw_details(state, document)
    except SylvaError as error:
        st.error(plain(readable(str(error))))


# Head and buttons


def _draw_head(row: RunRow, state: RunState) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(readable(row.name)), anchor=False, width="content")
        st.badge(marked(state.state), color=tone(state.state).badge)
        st.space("stretch")
        _draw_buttons(state)
    st.caption(plain(" · ".join(run_words(row, state, time.time()))))
    _draw_way_on(state)


def run_words(row: RunRow, state: RunState, now: float) -> list[str]:
    """What is known of a run, in a few words each."""
    words = ["not started yet" if state.started is None else f"started {clock(state.started)}"]
    if state.started is not None and state.live:
        words.append(f"running for {duration(now - state.started)}")
    elif state.started is not None and state.finished is not None:
        words.append(f"took {duration(state.finished - state.started)}")
    settings = [f"with {readable(setting)}" for setting in row.request.get("settings", [])]
    return [*words, f"attempt {max(1, state.attempt)}", *settings, row.id]


def _draw_buttons(state: RunState) -> None:
    waiting = _awaited(state)
    if state.live:
        stopping = st.session_state.get("run-stopping") == (state.id, state.attempt)
        st.button("Stop", icon=":material/stop:", on_click=_stop, args=(state,), disabled=stopping)
    elif state.state == "failed":
        st.button(
            "Retry", icon=":material/replay:", type="primary", on_click=_go_on, args=(state,), disabled=waiting,
            help="Retry from failed node: what is finished does not run again.",
        )  # fmt: skip
    elif state.state in ("cancelled", "interrupted"):
        st.button(
            "Resume", icon=":material/play_arrow:", type="primary", on_click=_go_on, args=(state,), disabled=waiting,
            help="What is finished does not run again.",
        )  # fmt: skip
    if st.button("Open this pipeline", icon=":material/account_tree:", help="Exactly as it was when it ran."):
        open_pipeline(state.id)
    if st.button("All runs", icon=":material/arrow_back:"):
        st.query_params.pop("run", None)
        st.session_state.pop("run-watch", None)
        st.rerun()


def _draw_way_on(state: RunState) -> None:
    """What to say about a run that is between two states."""
    if refused := st.session_state.pop("run-refused", None):
        st.error(plain(readable(refused)))
    if state.state == "interrupted" and not _awaited(state):
        words = last_words(studio().workspace, state.id)
        st.warning(plain(readable(f"Its supervisor ended{': ' + words if words else '.'} Resume goes on from there.")))
    elif state.state == "failed" and not _awaited(state):
        st.error(plain(readable(cause(state))))
        st.caption("If the pipeline is to be changed, open it and run it again: what is finished stays. Else retry.")
    elif _awaited(state):
        st.info("Going on…")


def cause(state: RunState) -> str:
    """Why a run failed: the first node that did, and how many more."""
    failed = [(name, node.error) for name in state.nodes_in("failed") if (node := state.nodes[name]).error]
    if not failed:
        return "The run failed."
    (name, error), more = failed[0], len(failed) - 1
    others = f" (and {more} more node{'s' if more > 1 else ''})" if more else ""
    return failure_line(name, error or {}) + others


def _stop(state: RunState) -> None:
    try:
        studio().stop(state.id)
        st.session_state["run-stopping"] = (state.id, state.attempt)
    except SylvaError as error:
        st.session_state["run-refused"] = str(error)


def _go_on(state: RunState) -> None:
    try:
        studio().go_on(state.id)
        st.session_state["run-awaited"] = (state.id, state.attempt, time.time() + STARTING_SECONDS)
    except SylvaError as error:
        st.session_state["run-refused"] = str(error)


def _awaited(state: RunState) -> bool:
    """Whether the run was told to go on and its supervisor has yet to say its first word."""
    run, attempt, until = st.session_state.get("run-awaited", ("", 0, 0.0))
    return bool(run == state.id and attempt == state.attempt and time.time() < until)


def _is_watched(watch: Watch, state: RunState) -> bool:
    return state.live or _awaited(state)


def open_pipeline(run: str) -> None:
    """Put the exact pipeline of a run on the desk and go there; the one place that leads from Runs to Build."""
    from ui.studio.builder import open_pipeline as desk

    desk.open_run(run)
    from ui.studio.builder import page as build

    address = {desk.ADDRESS: st.query_params[desk.ADDRESS]}
    st.switch_page(st.Page(build.page, title="Build", url_path="build"), query_params=address)


# Graph and timeline


def _chosen_node(state: RunState, planned: ExpandedPipeline | None) -> str | None:
    """The node to look at: what the user chose, else the one worth looking at first."""
    key, own = f"run-node-{state.id}", f"run-own-choice-{state.id}"
    shown = st.session_state.get(_graph_key(state.id))
    seen = st.session_state.get(own, 0)
    found = _one_of_its_branches(clicked(shown, seen), state, planned)
    if shown and found in state.nodes:
        st.session_state[own], st.session_state[key] = shown["timestamp"], found
    elif own not in st.session_state or st.session_state.get(key) not in state.nodes:
        st.session_state[key] = spotlight(state)
    chosen: str | None = st.session_state[key]
    return chosen


def _one_of_its_branches(name: str | None, state: RunState, planned: ExpandedPipeline | None) -> str | None:
    """The node of the run that a click means: of many branches drawn as one, one that failed or is at work."""
    if name is None or planned is None or name in state.nodes:
        return name
    own = [copy for copy in planned.copies_of([name]) if copy in state.nodes]
    telling = state.nodes_in("failed", "running")
    return next((copy for copy in own if copy in telling), next(iter(own), None))


def _graph_key(run: str) -> str:
    return f"run-graph-{run}"


def _draw_graph(watch: Watch, state: RunState, planned: ExpandedPipeline, chosen: str | None) -> None:
    shown = st.session_state.get(_graph_key(state.id))
    as_written = document_of(watch.row) if len(planned.pipeline.nodes) > MOST_DRAWN else None
    if as_written is None:
        drawn = drawing(planned.pipeline, studio().catalogue, state, chosen)
    else:
        drawn = folded_drawing(as_written, studio().catalogue, state, planned.copies, chosen)
    low, high = GRAPH_HEIGHTS
    streamlit_flow(
        _graph_key(state.id),
        flow_state(drawn, shown),
        height=min(high, max(low, 40 * len(drawn.nodes))),
        fit_view=not is_laid_out(shown),
        get_node_on_click=True,
        min_zoom=0.1,
        hide_watermark=True,
        layout=Layered(30, 60),
    )


def _draw_timeline(watch: Watch, state: RunState, document: Pipeline | None) -> None:
    spans = watch.timeline(live=state.live)
    if not spans:
        return
    named = titles(document, studio().catalogue) if document else {}
    shown = {node: named.get(node, node) for node in state.nodes}
    if state.live:
        st.html(live_timeline(spans, shown))
    else:
        st.plotly_chart(gantt(spans, shown), key=f"run-gantt-{state.id}", config={"displayModeBar": False})


def _draw_details(state: RunState, document: Pipeline | None) -> None:
    named = titles(document, studio().catalogue) if document else {}
    key = f"run-node-{state.id}"
    name = st.selectbox(
        "Node",
        list(state.nodes),
        format_func=lambda node: f"{readable(named.get(node) or node)} ({node}): {state.nodes[node].state}",
        key=key,
        on_change=_note_choice,
        args=(state.id,),
    )
    draw_node(state, document, str(name))


def _note_choice(run: str) -> None:
    """From now on the user's choice stands, whatever fails or starts."""
    shown = st.session_state.get(_graph_key(run))
    st.session_state[f"run-own-choice-{run}"] = shown["timestamp"] if shown else 0
