"""The pipelines there are: open, start, import, duplicate, delete; what a visitor sees first."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from engine.document import Document, changed
from engine.errors import SylvaError
from engine.library import Entry, Library
from engine.pipeline_file import parse
from engine.problems import InvalidPipeline, Problem
from engine.validate import find_problems
from ui import desk
from ui.samples import EXAMPLE, open_sample, samples
from ui.studio import studio
from ui.text import plain, time_of_day

FIVE_STEPS = """
1. Drag **Load data** from the list on the left onto the canvas, and choose your table in the form on the right.
2. Drag **Split** beside it, and draw a line from *Table* to *Table*.
3. Drag **Deep forest** and connect *To learn from* with it; choose its learners, or leave the preset as it is.
4. Drag **Predict** and connect *Model* and *To judge by* with it; then **Evaluate** behind it.
5. Press **Run**. Click the dot of any finished output to look at it.
"""
MOST_SHOWN = 20


def gallery() -> None:
    """Draw the start page."""
    library = Library(studio().workspace)
    entries = library.entries()
    left, right = st.columns([3, 2], gap="large")
    with left:
        _own(library, entries)
    with right:
        _start(library)


# One's own pipelines


def _own(library: Library, entries: list[Entry]) -> None:
    st.subheader("Pipelines")
    with st.container(horizontal=True):
        if st.button("New pipeline", icon=":material/add:", type="primary"):
            _open(library.create(Document(name="New pipeline", nodes={})))
        with st.popover("Import", icon=":material/upload:"):
            _import(library)
    if not entries:
        st.caption("None yet. Begin with an empty one, or open an example.")
    for entry in entries[: st.session_state.get("shown", MOST_SHOWN)]:
        _row(library, entry)
    if len(entries) > st.session_state.get("shown", MOST_SHOWN) and st.button("Show all"):
        st.session_state.shown = len(entries)
        st.rerun()


def _row(library: Library, entry: Entry) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"row-{entry.id}"):
        with st.container(gap=None):
            st.markdown(f"**{plain(entry.title)}**")
            nodes = "1 node" if entry.nodes == 1 else f"{entry.nodes} nodes"
            st.caption(plain(entry.fault) if entry.fault else f"{nodes} · changed {time_of_day(entry.modified)}")
        if st.button("Open", key=f"open-{entry.id}", disabled=bool(entry.fault)):
            _open(entry.id)
        if st.button("Duplicate", key=f"duplicate-{entry.id}", type="tertiary", disabled=bool(entry.fault)):
            duplicate(library, entry.id)
            st.rerun()
        with st.popover("Delete", type="tertiary"):
            confirm_delete(entry.title, lambda: library.delete(entry.id), key=entry.id)


def duplicate(library: Library, pipeline: str) -> str:
    """A copy under another name; its id."""
    document = library.open(pipeline).document
    return library.create(changed(document, name=f"{document.name[:190]} copy"))


def confirm_delete(title: str, delete: Callable[[], None], *, key: str) -> None:
    """Ask once more, then delete."""
    st.write(f"Delete “{plain(title)}”? Its runs stay.")
    if st.button("Delete it", key=f"delete-{key}", type="primary"):
        delete()
        st.rerun()


# From elsewhere


def _import(library: Library) -> None:
    """Take in a JSON file; one with problems is shown and left outside, unless the user wants it all the same."""
    given = st.file_uploader("A pipeline as JSON", type=["json"], key="import")
    if given is None:
        return
    try:
        document = parse(given.getvalue())
        problems: list[Problem] = find_problems(document, studio().catalogue)
    except InvalidPipeline as error:
        _list_problems("This file is not a pipeline that can be read. Nothing was changed.", error.problems)
        return
    if problems:
        _list_problems("This pipeline cannot run as it is. Nothing was changed.", problems)
    label = "Import all the same" if problems else "Import"
    if st.button(label, type="primary"):
        _open(library.create(document))


def _list_problems(title: str, problems: list[Problem], most: int = 12) -> None:
    st.error(title)
    st.code("\n".join(str(problem) for problem in problems[:most]), language=None, wrap_lines=True)
    if len(problems) > most:
        st.caption(f"… and {len(problems) - most:,} more.")


# First steps


def _start(library: Library) -> None:
    st.subheader("First steps")
    if st.button("Open the finished example", icon=":material/play_circle:", type="primary"):
        _open(open_sample(library, EXAMPLE))
    st.caption("A deep forest that tells handwritten digits apart, trained, judged and ready to be looked into.")
    with st.container(border=True):
        st.markdown("**Build your own in five steps**")
        st.markdown(FIVE_STEPS)
    st.markdown("**Examples**")
    for name, document in samples().items():
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            with st.container(gap=None):
                st.markdown(f"**{plain(document.name)}**")
                st.caption(plain(document.description))
            if st.button("Open", key=f"sample-{name}"):
                _open(open_sample(library, name))


def _open(pipeline: str) -> None:
    desk.lay_out(pipeline)
    st.rerun()


def unreadable(error: SylvaError) -> None:
    """Say why the pipeline of the address cannot be opened, and offer the list."""
    st.error(plain(str(error)))
    if st.button("Show all pipelines"):
        desk.clear()
        st.rerun()
