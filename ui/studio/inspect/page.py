"""The Inspect page: inside a deep forest, layer by layer, also while it is growing.

``/inspect?run=RUN&node=NODE`` names a deep forest or an inspection of one. Without it, the page
shows a list to choose from. ``&tab=TAB`` is the open part.
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
    ForestChoice,
    ForestView,
    choices,
    forest_view,
    growth_text,
    listed,
    node_of,
    reported_layers,
    screened,
)
from ui.studio.previews.models import forest_record
from ui.studio.previews.reports import result_text
from ui.studio.runs.run_view import open_watcher, steady
from ui.studio.screen_text import plain, state_label, tone
from ui.studio.session import studio
from ui.studio.widgets import check_intact, image_format, opened

LOOK_SECONDS = 2.0
MOST_RUNS, MOST_SEARCHED = 30, 500
HINT = (
    "Add an Inspect layers node after the forest to see t-SNE maps, single rows and how often its "
    "learners agree."
)
INSPECTED = (
    "This run also has an inspection of this forest. "
    "Choose it above to see t-SNE maps and single rows."
)


def page() -> None:
    """Draw the forest that the address names, else the list of forests."""
    try:
        requested = st.query_params.get("run")
        if requested:
            _draw_run(requested)
        else:
            _draw_chooser()
    except SylvaError as error:
        st.error(plain(readable(str(error))))
        if st.query_params.get("run"):
            st.button("All forests", on_click=_leave)


def _leave() -> None:
    """Return to the list of forests."""
    st.query_params.clear()


# The list


def _draw_chooser() -> None:
    """Draw the list of forests; a click opens one."""
    st.subheader("Inspect", anchor=False)
    forests = _forests()
    if not forests:
        st.info(
            "No run has trained a deep forest yet. Under Build, open a pipeline that has a "
            "Deep forest node and press Run; the forest then appears here."
        )
        return
    st.caption("Click a forest to inspect it. A forest with an Inspect layers node shows the most.")
    picked = st.dataframe(
        chooser_table(forests),
        hide_index=True,
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        key=f"inspect-choose-{forests[0][0].id}",
        height=min(38 + 35 * len(forests), 640),
    )["selection"]
    rows = [*picked["rows"], *(cell[0] for cell in picked["cells"])]
    # The list may have become shorter since the click.
    if rows and rows[0] < len(forests):
        run, choice, _ = forests[rows[0]]
        st.query_params.from_dict({"run": run.id, "node": choice.node})
        st.rerun()


def chooser_table(forests: list[tuple[RunSummary, ForestChoice, str]]) -> pd.DataFrame:
    """Return the forests as the list shows them: run, forest and score of each."""
    return pd.DataFrame(
        {
            "Pipeline": [readable(run.name) for run, _, _ in forests],
            "Node": [readable(choice.label) for _, choice, _ in forests],
            "Shows": [
                "all parts" if choice.type == INSPECTION else "growth, margins, learners"
                for _, choice, _ in forests
            ],
            "When": [clock(run.started or run.created) for run, _, _ in forests],
            "State": [state_label(choice.state) for _, choice, _ in forests],
            "Score": [readable(score) for _, _, score in forests],
        }
    )


def _forests() -> list[tuple[RunSummary, ForestChoice, str]]:
    """Return the newest runs that trained deep forests, with each forest and its score.

    Only the newest runs of the workspace are searched, and the search ends when enough are found.
    """
    forests: list[tuple[RunSummary, ForestChoice, str]] = []
    runs = 0
    with studio().runs.log() as log:
        rows = log.runs(MOST_SEARCHED)
    for row in rows:
        # A search in the text is fast; most runs need not be parsed.
        if FOREST not in row.document and INSPECTION not in row.document:
            continue
        planned = studio().runs.planned_pipeline(row)
        summary = studio().runs.summary(row.id) if planned else None
        # The pipeline may not be readable, and the run may have been removed meanwhile.
        if planned is None or summary is None:
            continue
        state = studio().runs.state(row.id)
        shown = listed(choices(planned.pipeline, state))
        forests += [(summary, choice, _score(summary, choice, state)) for choice in shown]
        runs += bool(shown)
        if runs == MOST_RUNS:
            break
    return forests


def _score(run: RunSummary, choice: ForestChoice, state: RunState) -> str:
    """Return the result of the run, else the score of the last layer that is kept so far."""
    node = state.nodes.get(choice.forest or "")
    result = result_text(run)
    if result or node is None:
        return result
    kept = [record for record in reported_layers(node.partial_results) if record["kept"]]
    return f"{kept[-1]['score']:.4f} on held-out rows" if kept else ""


# One forest


def _draw_run(run_id: str) -> None:
    """Draw one run: the forest that is chosen, and a choice if there are several.

    The page is drawn again every few seconds until the node is finished.
    """
    watcher = open_watcher(run_id, "inspect-watcher")
    state = watcher.refresh()
    planned = studio().runs.planned_pipeline(watcher.row)
    if planned is None:
        st.warning(
            "Another version of Sylva wrote the pipeline of this run; it cannot be inspected here."
        )
        return
    forests = choices(planned.pipeline, state)
    choice = _chosen(forests, state)
    if choice is None:
        st.info("This run has no deep forest.")
        st.button("All forests", on_click=_leave)
        return
    _draw_head(watcher, forests, choice)
    # Only a node that may still change has to be drawn again.
    awaited = _is_awaited(choice, state)
    inspected = any(each.type == INSPECTION and each.forest == choice.node for each in forests)
    with steady("inspect-live"):
        st.fragment(_draw, run_every=LOOK_SECONDS if awaited else None)(
            watcher, choice, awaited, inspected
        )


def _chosen(forests: list[ForestChoice], state: RunState) -> ForestChoice | None:
    """Return the forest that the address names, else the first one.

    Raise ``BadInput`` if the run does not have the forest that is named.
    """
    requested = st.query_params.get("node")
    if not forests:
        return None
    if requested is None:
        return forests[0]
    chosen = next((choice for choice in forests if choice.node == requested), None)
    if chosen is None:
        known = ", ".join(choice.node for choice in forests)
        raise BadInput(f"Run {state.id} has no deep forest '{requested}'; it has {known}.")
    return chosen


def _is_awaited(choice: ForestChoice, state: RunState) -> bool:
    """Return whether the node may still change, so that the page has to look again."""
    return state.live and node_of(state, choice.node).state in ("running", "queued")


def _draw_head(watcher: RunWatcher, forests: list[ForestChoice], choice: ForestChoice) -> None:
    """Draw the name of the pipeline, the choice of a forest, and the way back."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(readable(watcher.row.name)), anchor=False, width="content")
        if len(forests) > 1:
            _draw_picker(forests, choice)
        else:
            st.markdown(plain(readable(choice.label)), width="content")
        st.space("stretch")
        image_format()
        if st.button("Open run", icon=":material/history:"):
            links.to_run(watcher.row.id)
        st.button("All forests", icon=":material/arrow_back:", on_click=_leave)


def _draw_picker(forests: list[ForestChoice], choice: ForestChoice) -> None:
    """Draw the choice between the forests of a run; it changes the address."""
    names = {each.node: each for each in forests}
    key = f"inspect-node-{choice.node}"  # another node in the address, another widget
    st.selectbox(
        "Node",
        list(names),
        index=list(names).index(choice.node),
        key=key,
        label_visibility="collapsed",
        width=340,
        format_func=lambda node: f"{readable(names[node].label)} ({node})",
        on_change=lambda: st.query_params.update(node=st.session_state[key]),
    )


def _draw(watcher: RunWatcher, choice: ForestChoice, awaited: bool, inspected: bool) -> None:
    """Draw what is known of the forest now.

    A stored result may be damaged, deleted, or from another version. The page then says so instead
    of showing a traceback: run the node again.
    """
    try:
        state = watcher.refresh()
        if _is_awaited(choice, state) != awaited:
            st.rerun()
        forest = forest_view(choice, state, _read_forest, _read_layers)
        _draw_state(forest, state, inspected=inspected)
        _draw_sections(forest, growing=awaited and choice.type == FOREST)
    except CorruptObject:
        st.warning(
            "The result of this node is damaged or was deleted. Run the node again to restore it."
        )
    except SylvaError as error:
        st.warning(
            plain(readable(f"This cannot be shown: {error} Run the node again to restore it."))
        )
    # Another version wrote it, or it is damaged.
    except (KeyError, TypeError, ValueError, IndexError):
        logging.getLogger(__name__).exception("layers of %s in run %s", choice.node, watcher.row.id)
        st.warning("The result of this node cannot be read. Run the node again to restore it.")


def _draw_state(forest: ForestView, state: RunState, *, inspected: bool) -> None:
    """Draw the state of the node, what was inspected, and how to see more.

    ``inspected`` is True if the same run has an inspection of this forest.
    """
    node = node_of(state, forest.choice.node)
    if forest.unfinished is not None:
        fraction = min(max(forest.unfinished.fraction, 0.0), 1.0)
        with st.container(key="inspect-progress"):
            st.progress(fraction, plain(readable(_doing(forest))))
    elif forest.error:
        st.error(plain(readable(failure_line(forest.choice.node, node.error or {}))))
    elif forest.layers is None and node.state not in ("done", "cached"):
        st.badge(state_label(node.state), color=tone(node.state).badge)
    st.caption(" · ".join(plain(readable(part)) for part in forest_facts(forest)))
    if forest.records and forest.choice.type == FOREST:
        st.info(INSPECTED if inspected else HINT, icon=":material/layers:")


def _doing(forest: ForestView) -> str:
    """Return what the unfinished node does now."""
    assert forest.unfinished is not None
    now = "waiting" if forest.unfinished.state == "queued" else forest.unfinished.text or "running"
    return f"{forest.choice.label}: {now}"


def forest_facts(forest: ForestView) -> list[str]:
    """Return facts about the forest, in a few words each."""
    layers = forest.layers
    if layers is None:
        if not forest.records:
            return []
        return [f"{counted(len(forest.records[0]['learners']), 'learner')} per layer"]
    return [
        layers.title,
        layers.kind.replace("_", " "),
        f"{counted(len(layers.stages), 'layer')} of {counted(len(layers.learners), 'learner')}",
        counted(len(layers.classes), "class", "classes"),
        f"inspected on {counted(layers.table_rows, 'row')}",
        f"{counted(len(layers.rows), 'row')} drawn",
    ]


def _draw_sections(forest: ForestView, *, growing: bool) -> None:
    """Draw the tabs and the content of the open one."""
    if not forest.records:
        if not forest.error:
            st.info("No layer is finished yet; layers appear here as they finish.")
        return
    with st.container(key="inspect-words"):
        st.markdown(plain(readable(growth_text(forest.records, growing=growing))))
    drawn = tab_names(forest)
    # The open tab is part of the address, so that it can be shared.
    containers = st.tabs(list(drawn), key=sections.TABS, on_change="rerun", bind="query-params")
    tabs = dict(zip(drawn, containers, strict=True))
    name = next((name for name, tab in tabs.items() if tab.open), next(iter(drawn)))
    with tabs[name], st.container(key=f"inspect-{name.lower().replace(' ', '-')}"):
        drawn[name](forest)


def tab_names(forest: ForestView) -> dict[str, Callable[[ForestView], None]]:
    """Return the parts that can be drawn with what is known, by name.

    Maps and single rows need an inspection. Screening is also shown for a forest that used it.
    """
    inspected = forest.layers is not None
    parts: Mapping[str, tuple[bool, Callable[[ForestView], None]]] = {
        "Growth": (True, sections.draw_growth),
        "Margins": (True, sections.draw_margins),
        "t-SNE": (inspected, sections.draw_maps),
        sections.ROW_TAB: (inspected, sections.draw_row),
        "Learners": (True, sections.draw_learners),
        "Screening": (inspected or screened(forest.kept), sections.draw_screening),
    }
    return {name: draw for name, (can_draw, draw) in parts.items() if can_draw}


# Stored results: read once, but checked each time, since the store may have been cleaned


def _read_forest(output: Artifact) -> Mapping[str, Any]:
    """Return the record of a stored forest.

    Raise ``CorruptObject`` if it is gone or was changed.
    """
    check_intact(output, studio().store)
    return _forest(output.digest, output)


@st.cache_data(show_spinner="Reading the forest…", max_entries=16)
def _forest(digest: str, _output: Artifact) -> Mapping[str, Any]:
    """Return the record of a stored forest from the cache."""
    record = forest_record(opened(_output, studio().store).path)
    if record is None:
        raise BadInput("The model has no layers.")
    return record


def _read_layers(output: Artifact) -> Layers:
    """Return a stored inspection.

    Raise ``CorruptObject`` if it is gone or was changed.
    """
    check_intact(output, studio().store)
    return _layers(output.digest)


@st.cache_resource(show_spinner="Reading the layers…", max_entries=4)
def _layers(digest: str) -> Layers:
    """Return a stored inspection from the cache, which all browser tabs share."""
    return load_layers(studio().store.workspace.objects / digest)
