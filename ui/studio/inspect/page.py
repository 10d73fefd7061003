"""The Inspect page: inside a deep forest, layer by layer, also while it is growing.

``/inspect?run=RUN&node=NODE`` names a deep forest or an inspection of one. Without it, the page
shows a list to choose from. ``&tab=TAB`` is the open part, ``&with=RUN/NODE`` a second forest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from engine.errors import BadInput, CorruptObject, SylvaError
from engine.events import RunRow
from engine.pipeline import Pipeline
from engine.run_state import RunState
from engine.run_summaries import RunSummary
from engine.runs import RunWatcher
from engine.store import Artifact
from engine.text import clock, counted, readable
from engine.text import listed as in_list
from nodes.inspection.layers import Layers, load_layers
from ui.studio import links
from ui.studio.inspect import sections
from ui.studio.inspect.forest_source import (
    FOREST,
    INSPECTION,
    ForestChoice,
    ForestView,
    choice_titles,
    choices,
    evaluations_of,
    forest_records,
    forest_view,
    growth_text,
    listed,
    node_of,
    score_text,
    screened,
)
from ui.studio.inspect.windows import draw_windows
from ui.studio.previews.models import forest_record
from ui.studio.previews.reports import result_of
from ui.studio.runs.run_view import open_watcher, steady
from ui.studio.screen_text import plain, state_label, tone
from ui.studio.session import studio
from ui.studio.widgets import check_intact, image_format, opened

LOOK_SECONDS = 2.0
MOST_RUNS, MOST_SEARCHED = 30, 500
MOST_COMPARED = 10
"""How many of the newest runs offer their forests for a comparison."""
SECOND = "with"
"""The second forest in the address of the page."""
PAIRED = ("Growth", "Margins", sections.MAPS_TAB)
"""The parts that can show a second forest."""
HINT = (
    "Add an Inspect layers node after the forest to see t-SNE maps, single rows and how often its "
    "learners agree."
)
OF_NUMBERS = (
    "This forest predicts a number. Maps of rows, single rows and agreement of learners are for "
    "forests that predict classes."
)
INSPECTED = (
    "This run also has an inspection of this forest. "
    "Choose it above to see t-SNE maps and single rows."
)


class FoundForest(NamedTuple):
    """A forest of a run in a list."""

    run: RunSummary
    pipeline: Pipeline
    state: RunState
    choice: ForestChoice

    @property
    def address(self) -> str:
        """Return what names it in the address of the page, as a second forest."""
        return f"{self.run.id}/{self.choice.node}"


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
    """Return to the list of forests.

    Streamlit removes the open tab from the address itself: a widget owns that part.
    """
    for name in ("run", "node", SECOND):
        st.query_params.pop(name, None)


# The list


def _draw_chooser() -> None:
    """Draw the list of forests; a click opens one."""
    st.subheader("Inspect", anchor=False)
    with st.spinner("Looking for forests…", show_time=False):
        forests = _forests(MOST_RUNS)
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
        column_config={
            "When": st.column_config.Column(width=160),
            "State": st.column_config.Column(width=90),
            "Score": st.column_config.Column(width=420),
        },
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        key=f"inspect-choose-{forests[0].run.id}",
        height=min(38 + 35 * len(forests), 640),
    )["selection"]
    rows = [*picked["rows"], *(cell[0] for cell in picked["cells"])]
    # The list may have become shorter since the click.
    if rows and rows[0] < len(forests):
        found = forests[rows[0]]
        st.query_params.from_dict({"run": found.run.id, "node": found.choice.node})
        st.rerun()


def chooser_table(forests: list[FoundForest]) -> pd.DataFrame:
    """Return the forests as the list shows them: run, forest and score of each."""
    return pd.DataFrame(
        {
            "Pipeline": [readable(found.run.name) for found in forests],
            "Forest": [readable(found.choice.label) for found in forests],
            "Shows": [found.choice.shows for found in forests],
            "When": [clock(found.run.started or found.run.created) for found in forests],
            "State": [state_label(found.choice.state) for found in forests],
            "Score": [readable(_listed_score(found)) for found in forests],
        }
    )


def _forests(most_runs: int) -> list[FoundForest]:
    """Return the forests of the newest runs that trained some.

    Only the newest runs of the workspace are searched, and the search ends when enough are found.
    """
    forests: list[FoundForest] = []
    runs = 0
    with studio().runs.log() as log:
        rows = log.runs(MOST_SEARCHED)
    for row in rows:
        # A search in the text is fast; most runs need not be parsed.
        if FOREST not in row.document and INSPECTION not in row.document:
            continue
        found = _forests_of(row)
        shown = listed([each.choice for each in found])
        forests += [each for each in found if each.choice in shown]
        runs += bool(shown)
        if runs == most_runs:
            break
    return forests


def _forests_of(row: RunRow) -> list[FoundForest]:
    """Return the forests of one run.

    The list is empty if its pipeline is not readable, or if the run was removed meanwhile.
    """
    planned = studio().runs.planned_pipeline(row)
    summary = studio().runs.summary(row.id) if planned else None
    if planned is None or summary is None:
        return []
    state = studio().runs.state(row.id)
    return [
        FoundForest(summary, planned.pipeline, state, choice)
        for choice in choices(planned.pipeline, state, studio().catalog)
    ]


def _listed_score(found: FoundForest) -> str:
    """Return the score of exactly this forest.

    It is that of each evaluation of it in the run, named if there are several; without one it is
    the score that the cascade has measured of itself.
    """
    evaluated = _evaluated(found.pipeline, found.state, found.choice)
    if len(evaluated) == 1:
        return evaluated[0][1]
    if evaluated:
        return "; ".join(f"{line} ({readable(title)})" for title, line in evaluated)
    try:
        return score_text(*forest_records(found.choice, found.state, _read_forest))
    # A model that is damaged or of another version has no score; opening it says why.
    except (SylvaError, OSError, KeyError, TypeError, ValueError):
        return ""


def _evaluated(pipeline: Pipeline, state: RunState, choice: ForestChoice) -> list[tuple[str, str]]:
    """Return the figure of each evaluation of this forest, with the title of the evaluation."""
    figures = []
    for title, report in evaluations_of(pipeline, state, studio().catalog, choice):
        line = result_of(report, studio().store).line
        if line:
            figures.append((title, line))
    return figures


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
    forests = choices(planned.pipeline, state, studio().catalog)
    choice = _chosen(forests)
    if choice is None:
        st.info("This run has no deep forest.")
        st.button("All forests", on_click=_leave)
        return
    second = _second_forest(watcher.row.id, choice)
    _draw_head(watcher, forests, choice, second)
    # Only a node that may still change has to be drawn again.
    awaited = _is_awaited(choice, state)
    inspected = any(each.type == INSPECTION and each.forest == choice.node for each in forests)
    with steady("inspect-live"):
        st.fragment(_draw, run_every=LOOK_SECONDS if awaited else None)(
            watcher, planned.pipeline, choice, second, awaited, inspected
        )


def _chosen(forests: list[ForestChoice]) -> ForestChoice | None:
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
        known = in_list(choice_titles(forests).values())
        raise BadInput(f"This run does not have the forest that the address names; it has {known}.")
    return chosen


def _is_awaited(choice: ForestChoice, state: RunState) -> bool:
    """Return whether the node may still change, so that the page has to look again."""
    return state.live and node_of(state, choice.node).state in ("running", "queued")


def _draw_head(
    watcher: RunWatcher,
    forests: list[ForestChoice],
    choice: ForestChoice,
    second: FoundForest | None,
) -> None:
    """Draw the name of the pipeline, the choice of one or two forests, and the way back."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(plain(readable(watcher.row.name)), anchor=False, width="content")
        if len(forests) > 1:
            _draw_picker(forests, choice)
        else:
            st.markdown(plain(readable(choice.label)), width="content")
        _draw_second_picker(watcher.row.id, choice, second)
        image_format()
        if st.button("Open run", icon=":material/history:"):
            links.to_run(watcher.row.id)
        st.button("All forests", icon=":material/arrow_back:", on_click=_leave)


def _draw_picker(forests: list[ForestChoice], choice: ForestChoice) -> None:
    """Draw the choice between the forests of a run; it changes the address."""
    names = choice_titles(forests)
    key = f"inspect-node-{choice.node}"  # another node in the address, another widget
    st.selectbox(
        "Node",
        list(names),
        index=list(names).index(choice.node),
        key=key,
        label_visibility="collapsed",
        width=250,
        format_func=names.__getitem__,
        on_change=lambda: st.query_params.update(node=st.session_state[key]),
    )


def _second_forest(run_id: str, choice: ForestChoice) -> FoundForest | None:
    """Return the second forest that the address names; None if it names none.

    One that does not exist is reported.
    """
    address = st.query_params.get(SECOND, "")
    if address in ("", f"{run_id}/{choice.node}"):
        return None
    try:
        offered = _forests_of(studio().runs.find(address.partition("/")[0]))
    except SylvaError:
        offered = []
    found = next((each for each in offered if each.address == address), None)
    if found is None:
        st.warning("The second forest does not exist any more. Choose another one.")
    return found


def _draw_second_picker(run_id: str, choice: ForestChoice, second: FoundForest | None) -> None:
    """Draw the choice of a second forest, to be shown beside the first; it changes the address."""
    this = f"{run_id}/{choice.node}"
    # The newest first; the chosen one may be older than all that are offered.
    offered = {found.address: found for found in _forests(MOST_COMPARED)}
    if second is not None:
        offered.setdefault(second.address, second)
    offered.pop(this, None)
    if not offered:
        st.space("stretch")
        return
    titles = {"": "Compare with…"} | {
        address: _second_title(found) for address, found in offered.items()
    }
    chosen = second.address if second else ""
    key = f"inspect-second-{this}-{chosen}"  # another address, another widget
    st.selectbox(
        "Compare with",
        list(titles),
        index=list(titles).index(chosen),
        key=key,
        label_visibility="collapsed",
        width="stretch",
        format_func=titles.__getitem__,
        on_change=lambda: _choose_second(st.session_state[key]),
    )


def _choose_second(address: str) -> None:
    """Put the second forest into the address of the page, or remove it."""
    if address:
        st.query_params[SECOND] = address
    else:
        st.query_params.pop(SECOND, None)


def _second_title(found: FoundForest) -> str:
    """Return forest, time and pipeline, as the list of second forests shows them."""
    # Without year and seconds: of runs with the same names, the time must be in sight.
    when = clock(found.run.started or found.run.created)[5:16]
    return f"{readable(found.choice.label)} · {when} · {readable(found.run.name)}"


def _second_view(first: ForestView, found: FoundForest) -> ForestView | None:
    """Return what is known of the second forest; None if it cannot be shown, which is reported.

    The names of the two are made different.
    """
    choice = found.choice
    try:
        state = studio().runs.state(found.run.id)
        view = forest_view(choice, state, _read_forest, _read_layers)
    except SylvaError:
        st.warning("The result of the second forest is damaged or was deleted. Run it again.")
        return None
    if not view.records:
        st.info("The second forest has no finished layer yet.")
        return None
    title = _second_title(found) if choice.label == first.choice.label else choice.label
    return replace(view, title=title, is_second=True)


def _draw(
    watcher: RunWatcher,
    pipeline: Pipeline,
    choice: ForestChoice,
    second: FoundForest | None,
    awaited: bool,
    inspected: bool,
) -> None:
    """Draw what is known of the forest now.

    A stored result may be damaged, deleted, or from another version. The page then says so instead
    of showing a traceback: run the node again.
    """
    try:
        state = watcher.refresh()
        if _is_awaited(choice, state) != awaited:
            st.rerun()
        forest = forest_view(choice, state, _read_forest, _read_layers)
        other = _second_view(forest, second) if second else None
        _draw_state(forest, state)
        _draw_facts(forest, _score_in_words(pipeline, state, forest))
        if second and other:
            _draw_facts(other, _score_in_words(second.pipeline, second.state, other))
        if forest.records and choice.type == FOREST:
            hint = OF_NUMBERS if forest.predicts_numbers else HINT
            st.info(INSPECTED if inspected else hint, icon=":material/layers:")
        _draw_sections(forest, other, growing=awaited and choice.type == FOREST)
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


def _score_in_words(pipeline: Pipeline, state: RunState, forest: ForestView) -> str:
    """Return the forest, its score and where that comes from, for the head of the page.

    It is empty without a score.
    """
    evaluated = _evaluated(pipeline, state, forest.choice)
    if evaluated:
        own = "; ".join(f"{line} in {title}" for title, line in evaluated)
    else:
        own = score_text(forest.records, forest.metric)
        own = f"{own} (measured in training)" if own else ""
    return f"{forest.title}: {own}" if own else ""


def _draw_state(forest: ForestView, state: RunState) -> None:
    """Draw the state of a node that is not finished."""
    node = node_of(state, forest.choice.node)
    if forest.unfinished is not None:
        fraction = min(max(forest.unfinished.fraction, 0.0), 1.0)
        with st.container(key="inspect-progress"):
            st.progress(fraction, plain(readable(_doing(forest))))
    elif forest.error:
        st.error(plain(readable(forest.error)))
    elif forest.layers is None and node.state not in ("done", "cached"):
        st.badge(state_label(node.state), color=tone(node.state).badge)


def _draw_facts(forest: ForestView, score: str) -> None:
    """Draw the score of a forest, and what was inspected."""
    facts = forest_facts(forest)
    if not (score or facts):
        return
    with st.container(key=f"inspect-facts-{forest.key}", gap="xxsmall"):
        if score:
            st.markdown(f"**{plain(readable(score))}**")
        st.caption(" · ".join(plain(readable(fact)) for fact in facts))


def _doing(forest: ForestView) -> str:
    """Return what the unfinished node does now."""
    assert forest.unfinished is not None
    now = "waiting" if forest.unfinished.state == "queued" else forest.unfinished.text or "running"
    return f"{forest.choice.title}: {now}"


def forest_facts(forest: ForestView) -> list[str]:
    """Return facts about the forest, in a few words each."""
    layers = forest.layers
    if layers is None:
        if not forest.records:
            return []
        return [f"{counted(len(forest.records[0]['learners']), 'learner')} per layer"]
    return [
        preset_title(layers.kind),
        f"{counted(len(layers.stages), 'layer')} of {counted(len(layers.learners), 'learner')}",
        counted(len(layers.classes), "class", "classes"),
        f"inspected on {counted(layers.table_rows, 'row')}",
        f"{counted(len(layers.rows), 'row')} drawn",
    ]


def preset_title(kind: str) -> str:
    """Return the title of a preset; a kind that is not a preset is shown as it is."""
    # Imported late: the library takes seconds to load.
    from deepforest.presets import PRESETS

    return PRESETS[kind].title if kind in PRESETS else kind.replace("_", " ")


def _draw_sections(forest: ForestView, other: ForestView | None, *, growing: bool) -> None:
    """Draw the tabs and the content of the open one; ``other`` is a second forest beside it."""
    if not forest.records:
        if not forest.error:
            st.info("No layer is finished yet; layers appear here as they finish.")
        return
    # Of two forests, the sentence is under the growth of each.
    if other is None:
        with st.container(key="inspect-words"):
            st.markdown(plain(readable(growth_text(forest.records, growing=growing))))
    drawn = tab_names(forest)
    # The open tab is part of the address, so that it can be shared.
    containers = st.tabs(list(drawn), key=sections.TABS, on_change="rerun", bind="query-params")
    tabs = dict(zip(drawn, containers, strict=True))
    name = next((name for name, tab in tabs.items() if tab.open), next(iter(drawn)))
    with tabs[name], st.container(key=f"inspect-{name.lower().replace(' ', '-')}"):
        if other is None:
            drawn[name](forest)
        elif name in PAIRED:
            drawn[name](forest, other)
        else:
            st.caption(f"This part shows {plain(readable(forest.title))} only.")
            drawn[name](forest)


def tab_names(forest: ForestView) -> dict[str, Callable[..., None]]:
    """Return the parts that can be drawn with what is known, by name.

    Maps and single rows need an inspection, windows one of a forest that scans. Screening is also
    shown for a forest that used it.
    """
    inspected = forest.layers is not None
    parts: Mapping[str, tuple[bool, Callable[..., None]]] = {
        "Growth": (True, sections.draw_growth),
        "Margins": (True, sections.draw_margins),
        sections.MAPS_TAB: (inspected, sections.draw_maps),
        sections.ROW_TAB: (inspected, sections.draw_row),
        "Learners": (True, sections.draw_learners),
        "Windows": (bool(forest.layers and forest.layers.scans), draw_windows),
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
