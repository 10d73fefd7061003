"""The Inspect page: inside a deep forest, layer by layer, also while it is growing.

``/inspect?run=RUN&node=NODE`` names a deep forest or an inspection of one; without it there is a list to choose from.
``&tab=TAB`` is the part of it that is open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from engine.errors import BadInput, CorruptObject, SylvaError
from engine.run_state import RunState
from engine.run_summaries import RunSummary
from engine.runs import RunWatcher
from engine.store import Artifact
from engine.text import clock, counted, failure_line, readable
from nodes.inspection.layers import Layers, load_layers
from ui.studio import links
from ui.studio.inspect import sections
from ui.studio.inspect.forest_source import (
    FOREST,
    INSPECTION,
    Choice,
    Subject,
    choices,
    growth_words,
    listed,
    node_of,
    screened,
    subject,
    told_layers,
)
from ui.studio.markdown import plain
from ui.studio.previews.models import forest_record
from ui.studio.runs.run_view import open_watcher, steady
from ui.studio.runs.state_style import result_text, state_label, tone
from ui.studio.session import studio
from ui.studio.widgets import check_intact, image_format, opened

LOOK_SECONDS = 2.0
MOST_RUNS, MOST_SEARCHED = 30, 500
HINT = "Add an Inspect layers node after the forest to see t-SNE, single rows and the agreement of its learners."
INSPECTED = "This forest is inspected in the same run: choose its inspection above to see t-SNE and single rows."


def page() -> None:
    """Draw what the address asks for."""
    try:
        wanted = st.query_params.get("run")
        if wanted:
            _draw_run(wanted)
        else:
            _draw_chooser()
    except SylvaError as error:
        st.error(plain(readable(str(error))))
        if st.query_params.get("run"):
            st.button("All forests", on_click=_leave)


def _leave() -> None:
    st.query_params.clear()


# The list


def _draw_chooser() -> None:
    st.subheader("Inspect", anchor=False)
    found = _forests()
    if not found:
        st.info("No run has trained a deep forest yet. Build a pipeline with one, run it, and inspect it here.")
        return
    st.caption("Click a forest to inspect it. Forests with an Inspect layers node show the most.")
    picked = st.dataframe(
        chooser_table(found), hide_index=True, on_select="rerun", selection_mode=["single-row", "single-cell"],
        key=f"inspect-choose-{found[0][0].id}", height=min(38 + 35 * len(found), 640),
    )["selection"]  # fmt: skip
    rows = [*picked["rows"], *(cell[0] for cell in picked["cells"])]
    if rows and rows[0] < len(found):
        run, choice, _ = found[rows[0]]
        st.query_params.from_dict({"run": run.id, "node": choice.node})
        st.rerun()


def chooser_table(found: list[tuple[RunSummary, Choice, str]]) -> pd.DataFrame:
    """The forests as a table shows them."""
    return pd.DataFrame(
        {
            "Pipeline": [readable(run.name) for run, _, _ in found],
            "Node": [readable(choice.label) for _, choice, _ in found],
            "Shows": [
                "all parts" if choice.type == INSPECTION else "growth, margins, learners" for _, choice, _ in found
            ],
            "When": [clock(run.started or run.created) for run, _, _ in found],
            "State": [state_label(choice.state) for _, choice, _ in found],
            "Score": [readable(score) for _, _, score in found],
        }
    )


def _forests() -> list[tuple[RunSummary, Choice, str]]:
    """Return the newest runs that trained deep forests, with each forest and a score."""
    found: list[tuple[RunSummary, Choice, str]] = []
    runs = 0
    with studio().runs.log() as log:
        rows = log.runs(MOST_SEARCHED)
    for row in rows:
        if FOREST not in row.document and INSPECTION not in row.document:
            continue
        planned = studio().runs.planned_pipeline(row)
        summary = studio().runs.summary(row.id) if planned else None
        if planned is None or summary is None:  # not readable, or removed meanwhile
            continue
        state = studio().runs.state(row.id)
        there = listed(choices(planned.pipeline, state))
        found += [(summary, choice, _score(summary, choice, state)) for choice in there]
        runs += bool(there)
        if runs == MOST_RUNS:
            break
    return found


def _score(run: RunSummary, choice: Choice, state: RunState) -> str:
    """Return what the run found, else the score of the last layer that was kept so far."""
    node = state.nodes.get(choice.forest or "")
    kept = [record for record in told_layers(node.partial_results) if record["kept"]] if node else []
    return result_text(run) or (f"{kept[-1]['score']:.4f}, rows held out" if kept else "")


# One forest


def _draw_run(wanted: str) -> None:
    watcher = open_watcher(wanted, "inspect-watcher")
    state = watcher.refresh()
    planned = studio().runs.planned_pipeline(watcher.row)
    if planned is None:
        st.warning("The pipeline of this run was written by another version of Sylva; it cannot be inspected.")
        return
    there = choices(planned.pipeline, state)
    choice = _chosen(there, state)
    if choice is None:
        st.info("This run has no deep forest.")
        st.button("All forests", on_click=_leave)
        return
    _draw_head(watcher, there, choice)
    awaited = _is_awaited(choice, state)
    inspected = any(each.type == INSPECTION and each.forest == choice.node for each in there)
    with steady("inspect-live"):
        st.fragment(_draw, run_every=LOOK_SECONDS if awaited else None)(watcher, choice, awaited, inspected)


def _chosen(there: list[Choice], state: RunState) -> Choice | None:
    wanted = st.query_params.get("node")
    if not there or wanted is None:
        return there[0] if there else None
    found = next((choice for choice in there if choice.node == wanted), None)
    if found is None:
        known = ", ".join(choice.node for choice in there)
        raise BadInput(f"Run {state.id} has no deep forest '{wanted}'; it has {known}.")
    return found


def _is_awaited(choice: Choice, state: RunState) -> bool:
    return state.live and node_of(state, choice.node).state in ("running", "queued")


def _draw_head(watcher: RunWatcher, there: list[Choice], choice: Choice) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(readable(watcher.row.name)), anchor=False, width="content")
        if len(there) > 1:
            _draw_picker(there, choice)
        else:
            st.markdown(plain(readable(choice.label)), width="content")
        st.space("stretch")
        image_format()
        if st.button("Open run", icon=":material/history:"):
            links.to_run(watcher.row.id)
        st.button("All forests", icon=":material/arrow_back:", on_click=_leave)


def _draw_picker(there: list[Choice], choice: Choice) -> None:
    names = {each.node: each for each in there}
    key = f"inspect-node-{choice.node}"
    st.selectbox(
        "Node", list(names), index=list(names).index(choice.node), key=key, label_visibility="collapsed", width=340,
        format_func=lambda node: f"{readable(names[node].label)} ({node})",
        on_change=lambda: st.query_params.update(node=st.session_state[key]),
    )  # fmt: skip


def _draw(watcher: RunWatcher, choice: Choice, awaited: bool, inspected: bool) -> None:
    try:
        state = watcher.refresh()
        if _is_awaited(choice, state) != awaited:
            st.rerun()
        seen = subject(choice, state, _read_forest, _read_layers)
        _draw_standing(seen, state, inspected=inspected)
        _draw_sections(seen, growing=awaited and choice.type == FOREST)
    except CorruptObject:
        st.warning("The result of this node is damaged or no longer in the store. Run the node again to restore it.")
    except SylvaError as error:
        st.warning(plain(readable(f"This cannot be shown: {error} Run the node again to restore it.")))
    except (KeyError, TypeError, ValueError, IndexError):  # written by another version, or by no version at all
        logging.getLogger(__name__).exception("layers of %s in run %s", choice.node, watcher.row.id)
        st.warning("The result of this node cannot be read. Run the node again to restore it.")


def _draw_standing(seen: Subject, state: RunState, *, inspected: bool) -> None:
    """What the node does now or why it ended, what was looked at, and how to see more."""
    node = node_of(state, seen.choice.node)
    if seen.at_work is not None:
        with st.container(key="inspect-progress"):
            st.progress(min(max(seen.at_work.fraction, 0.0), 1.0), plain(readable(_doing(seen))))
    elif seen.error:
        st.error(plain(readable(failure_line(seen.choice.node, node.error or {}))))
    elif seen.layers is None and node.state not in ("done", "cached"):
        st.badge(state_label(node.state), color=tone(node.state).badge)
    st.caption(" · ".join(plain(readable(part)) for part in about(seen)))
    if seen.records and seen.choice.type == FOREST:
        st.info(INSPECTED if inspected else HINT, icon=":material/layers:")


def _doing(seen: Subject) -> str:
    assert seen.at_work is not None
    now = "waiting" if seen.at_work.state == "queued" else seen.at_work.text or "running"
    return f"{seen.choice.label}: {now}"


def about(seen: Subject) -> list[str]:
    """What is looked at, in a few words each."""
    layers = seen.layers
    if layers is None:
        return [counted(len(seen.records[0]["learners"]), "learner") + " per layer"] if seen.records else []
    return [
        layers.title,
        layers.kind.replace("_", " "),
        f"{counted(len(layers.stages), 'layer')} of {counted(len(layers.learners), 'learner')}",
        counted(len(layers.classes), "class", "classes"),
        f"inspected on {counted(layers.table_rows, 'row')}",
        f"{counted(len(layers.rows), 'row')} drawn",
    ]


def _draw_sections(seen: Subject, *, growing: bool) -> None:
    if not seen.records:
        if not seen.error:
            st.info("No layer is finished yet; layers appear here as they finish.")
        return
    with st.container(key="inspect-words"):
        st.markdown(plain(readable(growth_words(seen.records, growing=growing))))
    drawn = tab_names(seen)
    containers = st.tabs(list(drawn), key=sections.TABS, on_change="rerun", bind="query-params")
    tabs = dict(zip(drawn, containers, strict=True))
    name = next((name for name, tab in tabs.items() if tab.open), next(iter(drawn)))
    with tabs[name], st.container(key=f"inspect-{name.lower().replace(' ', '-')}"):
        drawn[name](seen)


def tab_names(seen: Subject) -> dict[str, Callable[[Subject], None]]:
    """The parts that can be drawn of what is known."""
    inspected = seen.layers is not None
    parts: Mapping[str, tuple[bool, Callable[[Subject], None]]] = {
        "Growth": (True, sections.draw_growth),
        "Margins": (True, sections.draw_margins),
        "t-SNE": (inspected, sections.draw_maps),
        sections.ROW_TAB: (inspected, sections.draw_row),
        "Learners": (True, sections.draw_learners),
        "Screening": (inspected or screened(seen.kept), sections.draw_screening),
    }
    return {name: draw for name, (there, draw) in parts.items() if there}


# What is stored; read once, looked at each time whether it is still there


def _read_forest(output: Artifact) -> Mapping[str, Any]:
    check_intact(output, studio().store)
    return _forest(output.digest, output)


@st.cache_data(show_spinner="Reading the forest…", max_entries=16)
def _forest(digest: str, _output: Artifact) -> Mapping[str, Any]:
    found = forest_record(opened(_output, studio().store).path)
    if found is None:
        raise BadInput("the model has no layers.")
    return found


def _read_layers(output: Artifact) -> Layers:
    check_intact(output, studio().store)
    return _layers(output.digest)


@st.cache_resource(show_spinner="Reading the layers…", max_entries=4)
def _layers(digest: str) -> Layers:
    return load_layers(studio().store.workspace.objects / digest)
