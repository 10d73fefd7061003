"""The list of pipelines: open, create, import, duplicate, delete. A new user sees it first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from engine.errors import InvalidPipeline, Problem, SylvaError
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.pipeline_library import Entry, Library
from engine.text import counted
from engine.validation import find_problems
from ui.studio.builder import browser_tab
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.new_pipelines import open_example, open_sample, samples, save_copy
from ui.studio.screen_text import plain, time_of_day
from ui.studio.session import studio
from ui.studio.widgets import errors_flashed, show_flashes

FIVE_STEPS = """
1. Drag **Load data** from the list on the left onto the canvas, and choose a table in the form on
   the right. To use a table of your own, upload it under **Data** first; that page can also build
   this pipeline for you.
2. Drag **Split** beside it, and draw a line from *Table* to *Table*.
3. Drag **Deep forest** and connect *Training rows* with it. Choose learners, or keep the preset.
4. Drag **Predict** and connect *Model* and *Test rows* with it. Then connect **Evaluate** after it.
5. Press **Run**. Click the dot at the right side of a finished node to see its output.
"""
MOST_SHOWN = 20
MOST_PROBLEMS = 12
FLASHES = "pipeline-list"


def pipeline_list() -> None:
    """Draw the pipelines of the workspace on the left, and how to begin on the right."""
    library = Library(studio().workspace)
    entries = library.entries()
    show_flashes(FLASHES)
    for unsaved in browser_tab.unsaved_pipelines():
        _return_to(unsaved)
    left, right = st.columns([3, 2], gap="large")
    with left:
        _own(library, entries)
    with right:
        _start(library)


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


def _own(library: Library, entries: list[Entry]) -> None:
    """Draw the pipelines of the workspace, the newest first, and how to add one."""
    st.subheader("Pipelines", anchor=False)
    with st.container(horizontal=True):
        new = partial(library.create, Pipeline(name="New pipeline", nodes={}))
        st.button(
            "New pipeline", icon=":material/add:", type="primary", on_click=_open, args=(new,)
        )
        with st.popover("Import", icon=":material/upload:"):
            _import(library)
    if not entries:
        st.caption("No pipelines yet. Create an empty one, or open an example.")
    # Hundreds of rows would make the page slow.
    shown = st.session_state.get("pipelines-shown", MOST_SHOWN)
    for entry in entries[:shown]:
        _row(library, entry)
    if len(entries) > shown:
        st.button(
            "Show all", on_click=lambda: st.session_state.update({"pipelines-shown": len(entries)})
        )


def _row(library: Library, entry: Entry) -> None:
    """Draw one pipeline: its name, its size, and its buttons; a broken file can only be deleted."""
    broken = bool(entry.problem)
    with st.container(
        border=True, horizontal=True, vertical_alignment="center", key=f"row-{entry.id}"
    ):
        with st.container(gap=None):
            st.markdown(f"**{plain(entry.title)}**")
            nodes = counted(entry.nodes, "node")
            facts = f"{nodes} · changed {time_of_day(entry.modified)}"
            st.caption(plain(entry.problem) if broken else facts)
        open_it = partial(_open, lambda: entry.id)
        st.button("Open", key=f"open-{entry.id}", disabled=broken, on_click=open_it)
        copy, key = (
            partial(_show_errors, partial(_duplicate, library, entry.id)),
            f"copy-{entry.id}",
        )
        st.button("Duplicate", key=key, type="tertiary", disabled=broken, on_click=copy)
        with st.popover("Delete", type="tertiary", key=f"delete-menu-{entry.id}"):
            st.write(f"Delete “{plain(entry.title)}”? Its runs are not deleted.")
            delete = partial(_show_errors, partial(library.delete, entry.id))
            st.button("Delete it", key=f"delete-{entry.id}", type="primary", on_click=delete)


def _open(pipeline_id: Callable[[], str]) -> None:
    """Open the pipeline whose id this function returns; it may create it."""
    _show_errors(lambda: browser_tab.switch_to(pipeline_id()))


def _duplicate(library: Library, pipeline_id: str) -> None:
    """Save a copy of a pipeline."""
    save_copy(library, library.open(pipeline_id).pipeline)


def _show_errors(action: Callable[[], object]) -> None:
    """Call a function; an error of ours is shown by the next drawing."""
    with errors_flashed(FLASHES):
        action()


# From elsewhere


def _import(library: Library) -> None:
    """Draw the import of a JSON file; a file with problems is imported only after a second look."""
    file = st.file_uploader("A pipeline as JSON", type=["json"], key="import")
    if file is None:
        return
    try:
        pipeline = parse(file.getvalue())
        # A pipeline with problems can be opened and fixed, so it may be imported too.
        problems: list[Problem] = find_problems(pipeline, studio().catalog)
    except InvalidPipeline as error:
        _list_problems(
            "This file cannot be read as a pipeline. It was not imported.", error.problems
        )
        return
    if problems:
        _list_problems(
            "This pipeline has problems and cannot run yet. It is not imported yet.", problems
        )
    label = "Import anyway" if problems else "Import"
    create = partial(_open, partial(library.create, pipeline))
    st.button(label, type="primary", key="take-in", on_click=create)


def _list_problems(title: str, problems: list[Problem]) -> None:
    """Draw a title and the first problems."""
    st.error(title)
    st.code(
        "\n".join(str(problem) for problem in problems[:MOST_PROBLEMS]),
        language=None,
        wrap_lines=True,
    )
    if len(problems) > MOST_PROBLEMS:
        st.caption(f"… and {len(problems) - MOST_PROBLEMS:,} more.")


# First steps


def _start(library: Library) -> None:
    """Draw the first steps and the examples."""
    st.subheader("First steps", anchor=False)
    # Not ``open_sample``: this one has results to look at.
    example, icon = partial(_open, partial(open_example, studio().runs)), ":material/play_circle:"
    st.button("Open the finished example", icon=icon, type="primary", on_click=example)
    st.caption(
        "A deep forest that classifies handwritten digits: trained, evaluated and ready to inspect."
    )
    with st.container(border=True):
        st.markdown("**Build your own in five steps**")
        st.markdown(FIVE_STEPS)
    st.markdown("**Examples**")
    for name, pipeline in samples().items():
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            with st.container(gap=None):
                st.markdown(f"**{plain(pipeline.name)}**")
                st.caption(plain(pipeline.description))
            open_it = partial(_open, partial(open_sample, library, name))
            st.button("Open", key=f"sample-{name}", on_click=open_it)


def unreadable(error: SylvaError) -> None:
    """Draw why the pipeline of the address cannot be opened, and a way to the list."""
    st.error(plain(str(error)))
    st.button("Show all pipelines", on_click=browser_tab.close)
