"""The list of pipelines: open, create, import, duplicate, delete. A new user sees it first.

Each pipeline is a card with a small picture of its graph and the result of its last run.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import NoReturn

import streamlit as st

from engine.errors import InvalidPipeline, SylvaError
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.pipeline_library import Entry, Library
from engine.run_state import RunState
from engine.run_summaries import RunSummary
from engine.text import counted
from engine.validation import find_problems
from ui.studio import links
from ui.studio.builder import browser_tab
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.builder.thumbnail import thumbnail
from ui.studio.inspect.forest_source import FINISHED, FOREST, choices
from ui.studio.new_pipelines import is_new, open_sample, samples, save_copy
from ui.studio.previews.reports import headline
from ui.studio.screen_text import (
    node_title,
    plain,
    problem_text,
    shortened,
    state_label,
    time_of_day,
    tone,
)
from ui.studio.session import studio
from ui.studio.widgets import errors_flashed, errors_shown, show_flashes

WHAT_SYLVA_IS = (
    "Sylva is a studio for deep forests: draw a pipeline, run it, and look inside every layer."
)
EXAMPLE_RUNS = (
    "Your first pipeline is an example: a deep forest that learns handwritten digits. "
    "It is being trained now, which takes some seconds."
)
EXAMPLE_READY = (
    "Your first pipeline is an example: a deep forest that has learned handwritten digits. Click "
    "it to see the results on its graph, or press Inspect to look inside its layers."
)
EXAMPLE_STOPPED = (
    "Your first pipeline is an example: a deep forest that learns handwritten digits. It is not "
    "trained yet. Open it and press Run or Retry."
)
FIVE_STEPS = """
1. Drag **Load data** from the list on the left onto the canvas. Choose a table in its form, or
   upload your own.
2. Drag **Split** beside it. It connects itself.
3. Drag **Deep forest**, and draw a line from *Training rows* to it. Choose learners, or keep the
   preset.
4. Drag **Predict**, and draw a line from *Test rows* to it. Then drag **Evaluate**.
5. Press **Run**. Click a finished node to see its output.

With a table of your own there is a shorter way: upload it under **Data**, choose its target, and
press *Use in a new pipeline*.
"""
STYLE = Path(__file__).parents[1] / "assets" / "pipelines.css"
LOOK_SECONDS = 1.0
"""Time between two looks at live runs."""
PAGE_LENGTH = 24
SHOWN, SEARCH = "pipelines-shown", "pipelines-search"
MOST_PROBLEMS = 12
LONGEST_TITLE, LONGEST_NEWS = 80, 60
FLASHES = "pipeline-list"


def pipeline_list() -> None:
    """Draw the pipelines of the workspace on the left, and how to begin on the right."""
    st.html(STYLE)
    library = Library(studio().workspace)
    st.markdown(WHAT_SYLVA_IS)
    show_flashes(FLASHES)
    for unsaved in browser_tab.unsaved_pipelines():
        _return_to(unsaved)
    left, right = st.columns([7, 3], gap="large")
    with left:
        _own(library)
        _examples(library)
    with right:
        st.subheader("First steps", anchor=False)
        with st.container(border=True):
            st.markdown("**Build your own in five steps**")
            st.markdown(FIVE_STEPS)


def _return_to(unsaved: OpenPipeline) -> None:
    """Draw a way back to unsaved edits.

    The list may not have the pipeline: it may have been deleted elsewhere.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        name, error = plain(unsaved.pipeline.name), plain(unsaved.save_error)
        st.warning(f"“{name}” has edits that could not be saved: {error}")
        open_it = partial(_open, lambda: unsaved.pipeline_id)
        st.button("Show the edits", key=f"return-{unsaved.pipeline_id}", on_click=open_it)


# The pipelines of the workspace


def _own(library: Library) -> None:
    """Draw how to add a pipeline, the search, and the pipelines.

    They are drawn again by themselves while a run is live.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Pipelines", anchor=False, width="stretch")
        words = st.text_input(
            "Search", key=SEARCH, type="search", live=True, width=240, on_change=_from_the_start,
            placeholder="Search", label_visibility="collapsed", icon=":material/search:",
        )  # fmt: skip
        new = partial(library.create, Pipeline(name="New pipeline", nodes={}))
        st.button(
            "New pipeline", icon=":material/add:", type="primary", on_click=_open, args=(new,)
        )
        with st.popover("Import", icon=":material/upload:"):
            _import(library)
    runs = studio().runs.last_summaries([entry.id for entry in _matching(library, words)[0]])
    live = any(run.live for run in runs.values())
    st.fragment(_cards, run_every=LOOK_SECONDS if live else None)(library, words or "", live)


def _from_the_start() -> None:
    """Show the first page of what another search finds."""
    st.session_state.pop(SHOWN, None)


def _show_more() -> None:
    """Show one more page of pipelines."""
    st.session_state[SHOWN] = st.session_state.get(SHOWN, PAGE_LENGTH) + PAGE_LENGTH


def _matching(library: Library, words: str | None) -> tuple[list[Entry], int]:
    """Return the pipelines on the pages that are shown, and how many more match.

    The name of a pipeline has all words of the search. The last changed one comes first.
    """
    wanted = (words or "").casefold().split()
    found = []
    for entry in library.entries():
        title = entry.title.casefold()
        if all(word in title for word in wanted):
            found.append(entry)
    shown = st.session_state.get(SHOWN, PAGE_LENGTH)
    return found[:shown], max(0, len(found) - shown)


# The page does not see errors of a fragment.
@errors_shown()
def _cards(library: Library, words: str, was_live: bool) -> None:
    """Draw a card for each pipeline that matches the search.

    ``was_live`` is whether the fragment looks for news by itself. If that has changed, the whole
    page is drawn again, so that it starts or stops.
    """
    entries, more = _matching(library, words)
    runs = studio().runs.last_summaries([entry.id for entry in entries])
    if any(run.live for run in runs.values()) != was_live:
        st.rerun()
    _say_what_is_here(entries, runs, words)
    with st.container(key="pipelines"):
        for entry in entries:
            _card(library, entry, runs.get(entry.id))
    if more:
        st.button(f"Show more ({more:,} left)", key="more-pipelines", on_click=_show_more)


def _say_what_is_here(entries: list[Entry], runs: Mapping[str, RunSummary], words: str) -> None:
    """Draw a line above the cards: for a new user what the example is, or that nothing is found."""
    if not entries and words.strip():
        st.caption("No pipeline has this name. Change the search, or clear it to see all.")
    elif not entries:
        st.caption("No pipelines yet. Create an empty one, or open an example.")
    elif len(entries) == 1 and not words and is_new(studio().runs):
        run = runs.get(entries[0].id)
        if run is not None and run.live:
            st.caption(EXAMPLE_RUNS)
        elif run is not None and run.state == "done":
            st.caption(EXAMPLE_READY)
        else:
            st.caption(EXAMPLE_STOPPED)


def _card(library: Library, entry: Entry, run: RunSummary | None) -> None:
    """Draw one pipeline, or the problem of its file. A click on the card opens it."""
    with st.container(border=True, key=f"card-{entry.id}", gap="xsmall"):
        if entry.pipeline is not None:
            _picture(entry.pipeline)
        title, broken = _button_title(entry.title), entry.pipeline is None
        if st.button(title, key=f"open-{entry.id}", type="tertiary", disabled=broken):
            _do(partial(browser_tab.switch_to, entry.id))
        if entry.pipeline is None:
            st.caption(plain(entry.problem))
        else:
            nodes = counted(len(entry.pipeline.nodes), "node")
            st.caption(f"{nodes} · changed {time_of_day(entry.modified)}")
            with st.container(key=f"state-{entry.id}"):
                _last_run(run)
        with st.container(horizontal=True, key=f"foot-{entry.id}", gap="xsmall"):
            _actions(library, entry, run)


def _picture(pipeline: Pipeline) -> None:
    """Draw the graph of a pipeline; its name stands below, so screen readers need no other."""
    image = b64encode(thumbnail(pipeline, studio().catalog).encode()).decode()
    st.html(f'<img class="thumbnail" alt="" src="data:image/svg+xml;base64,{image}">')


def _button_title(title: str) -> str:
    """Return the name of a pipeline as the text of the button that opens it."""
    return f"**{plain(shortened(title, LONGEST_TITLE))}**"


def _last_run(run: RunSummary | None) -> None:
    """Draw the state of the last run, and its result or how far it is."""
    if run is None:
        st.caption("Not run yet")
        return
    if run.live:
        state = studio().runs.state(run.id)
        st.progress(_fraction(state), text=plain(_news(studio().runs.pipeline(run.id), state)))
        return
    what, figure = headline(run.report) if run.report else ("", "")
    badge = f":{tone(run.state).badge}-badge[{state_label(run.state)}]"
    figure = f"**{plain(figure)}**" if figure else ""
    st.markdown(" ".join(part for part in (badge, figure, plain(what)) if part))


def _fraction(state: RunState) -> float:
    """Return how much of a run is done, from 0 to 1: each node counts the same."""
    done = sum(1.0 if node.state in FINISHED else node.fraction for node in state.nodes.values())
    return min(1.0, done / max(1, len(state.nodes)))


def _news(pipeline: Pipeline | None, state: RunState) -> str:
    """Return what a live run does now, in a few words.

    ``pipeline`` is the one of the run: it has a node for each branch of a sweep.
    """
    for name, node in state.nodes.items():
        if node.state == "running":
            own = pipeline.nodes.get(name) if pipeline else None
            title = node_title(own, studio().catalog) if own else "Running"
            return shortened(f"{title}: {node.text}" if node.text else title, LONGEST_NEWS)
    return "Starting" if state.state == "starting" else "Running"


def _actions(library: Library, entry: Entry, run: RunSummary | None) -> None:
    """Draw the buttons of a card."""
    forest = _forest_of(run.id, run.last_event) if run and not run.live else None
    if run and forest and st.button("Inspect", key=f"inspect-{entry.id}", icon=":material/layers:"):
        links.to_inspect(run.id, forest)
    with st.popover("More", type="tertiary", key=f"menu-{entry.id}"):
        if st.button("Duplicate", key=f"copy-{entry.id}", disabled=entry.pipeline is None):
            _do(partial(_duplicate, library, entry.id))
        st.write(f"Delete “{plain(entry.title)}”? Its runs are not deleted.")
        if st.button("Delete it", key=f"delete-{entry.id}", type="primary"):
            _do(partial(library.delete, entry.id))


@lru_cache(maxsize=500)
def _forest_of(run_id: str, last_event: int) -> str | None:
    """Return the node to inspect of a run that has ended: an inspection, else a deep forest.

    It is None if the run has neither. ``last_event`` is new when the run was resumed.
    """
    row = studio().runs.find(run_id)
    # A search in the text is fast; most runs need not be parsed.
    planned = studio().runs.planned_pipeline(row) if FOREST in row.document else None
    if planned is None:
        return None
    forests = choices(planned.pipeline, studio().runs.results(row), studio().catalog)
    return next((choice.node for choice in forests if choice.state in FINISHED), None)


def _open(pipeline_id: Callable[[], str]) -> None:
    """Open the pipeline whose id this function returns; it may create it."""
    with errors_flashed(FLASHES):
        browser_tab.switch_to(pipeline_id())


def _duplicate(library: Library, pipeline_id: str) -> None:
    """Save a copy of a pipeline."""
    save_copy(library, library.open(pipeline_id).pipeline)


def _do(action: Callable[[], object]) -> NoReturn:
    """Call a function and draw the whole page again, which shows an error of ours."""
    with errors_flashed(FLASHES):
        action()
    st.rerun()
    raise AssertionError("rerun ends the script")


# From elsewhere


def _import(library: Library) -> None:
    """Draw the import of a JSON file; a file with problems is imported only after a second look."""
    file = st.file_uploader("A pipeline as JSON", type=["json"], key="import")
    if file is None:
        return
    try:
        pipeline = parse(file.getvalue())
    except InvalidPipeline as error:
        title = "This file cannot be read as a pipeline. It was not imported."
        _list_problems(title, [str(problem) for problem in error.problems])
        return
    # A pipeline with problems can be opened and fixed, so it may be imported too.
    catalog = studio().catalog
    problems = find_problems(pipeline, catalog)
    if problems:
        title = "This pipeline has problems and cannot run yet. It is not imported yet."
        _list_problems(title, [problem_text(each, pipeline, catalog) for each in problems])
    label = "Import anyway" if problems else "Import"
    create = partial(_open, partial(library.create, pipeline))
    st.button(label, type="primary", key="take-in", on_click=create)


def _list_problems(title: str, problems: list[str]) -> None:
    """Draw a title and the first problems."""
    st.error(title)
    st.code("\n".join(problems[:MOST_PROBLEMS]), language=None, wrap_lines=True)
    if len(problems) > MOST_PROBLEMS:
        st.caption(f"… and {len(problems) - MOST_PROBLEMS:,} more.")


# Examples


def _examples(library: Library) -> None:
    """Draw a card for each pipeline that comes with the studio."""
    st.subheader("Examples", anchor=False)
    with st.container(key="samples"):
        for name, pipeline in samples().items():
            with st.container(border=True, key=f"card-sample-{name}", gap="xsmall"):
                _picture(pipeline)
                open_it = partial(_open, partial(open_sample, library, name))
                title = _button_title(pipeline.name)
                st.button(title, key=f"open-sample-{name}", type="tertiary", on_click=open_it)
                st.caption(plain(pipeline.description))


def unreadable(error: SylvaError) -> None:
    """Draw why the pipeline of the address cannot be opened, and a way to the list."""
    st.error(plain(str(error)))
    st.button("Show all pipelines", on_click=browser_tab.close)
