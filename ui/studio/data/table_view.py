"""One table of the workspace: its target and classes, its rows and columns, and what can be done with it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.errors import BadInput, SylvaError
from engine.node_types import Column
from engine.pipeline_library import Library
from engine.text import size
from nodes.data import formats
from nodes.data.files import FileVersion, delete, stamp
from nodes.data.samples import FILES, sample_columns, sample_name
from nodes.data.tables import Look, Reading, classes, look
from ui.studio import links
from ui.studio.data.starter_pipeline import pipeline_for
from ui.studio.data.upload import choose_reading, reading_of
from ui.studio.markdown import plain, time_of_day
from ui.studio.previews.tables import show_rows_and_columns
from ui.studio.session import studio
from ui.studio.widgets import counted, facts, flash, flash_error, grid

DOWNLOADED = 100_000_000
"""Bytes up to which a file is offered for download: it passes through memory."""
MADE = "data-made"
"""Where a callback leaves the pipeline that was made."""
ADDRESS = "target"
MOST_SHOWN_CLASSES = 8


def draw_file(source: str) -> None:
    """Draw a file or a sample."""
    st.subheader(plain(source), anchor=False)
    try:
        its = _stamp_of(source)
    except BadInput as problem:
        st.error(f"It cannot be opened: {plain(problem.message)}.")
        st.button("All tables", on_click=_leave)
        return
    reading = reading_of(source)
    try:
        seen = _seen(str(studio().workspace.root), source, its, reading, None)
    except BadInput as problem:
        _draw_unreadable(source, problem)
        return
    _draw_facts(source, its, seen)
    target = _choose_target(source, seen)
    with_target = _with_target(source, its, reading, target)
    # Of a large table that is sorted, the first rows may well be of one class: only a run can tell.
    _draw_actions(source, its, reading, target, with_target or (seen if target and not seen.whole else None))
    shown = with_target or seen
    if with_target and target:
        _draw_classes(with_target, target)
    show_rows_and_columns(shown.table, f"{source}-{its}-{reading}-{target if with_target else None}", "data-look")


def _stamp_of(source: str) -> FileVersion | None:
    """Which version of the file it is; none for a sample, ``BadInput`` if there is no such thing."""
    return None if sample_name(source) is not None else stamp(studio().files.readable(source, field="file"))


@st.cache_resource(max_entries=6, show_spinner="Reading …")
def _seen(root: str, source: str, its: FileVersion | None, reading: Reading, target: str | None) -> Look:
    return look(source, studio().files, reading, target)


def _leave() -> None:
    st.query_params.clear()


def _draw_unreadable(source: str, problem: BadInput) -> None:
    st.error(f"It cannot be read: {plain(problem.message)}.")
    _draw_reading(source)
    _draw_delete(source)


# What is known of it


def _draw_facts(source: str, its: FileVersion | None, seen: Look) -> None:
    rows, columns = seen.table.data.shape
    all_rows = counted(seen.rows, "row") if seen.rows is not None else ""
    shape = f"{all_rows} × {counted(columns, 'column')}" if all_rows else counted(columns, "column")
    about = [size(its.size), f"changed {time_of_day(its.modified / 1e9)}"] if its else [_sample_title(source)]
    facts([shape, *about])
    if not seen.whole:
        st.caption(f"The table is large: all figures here are of its first {rows:,} rows.")
    if seen.empty:
        names = ", ".join(seen.empty[:6]) + (" …" if len(seen.empty) > 6 else "")
        st.caption(f"Without any value, and left out: {plain(names)}.")


def _sample_title(source: str) -> str:
    name = sample_name(source) or ""
    return FILES[name].title if name in FILES else "Payments, a few of them fraud; generated"


# The target


def _choose_target(source: str, seen: Look) -> str | None:
    names: list[str] = seen.table.data.column_names
    wanted, key = st.query_params.get(ADDRESS), f"data-target-{source}"
    own = wanted if wanted in names else own_target(source, seen)
    return st.selectbox(
        "Target", names, names.index(own) if own else None, key=key, on_change=_keep_target, args=(key,),
        placeholder="Choose the column with the classes to learn",
    )  # fmt: skip


def _keep_target(key: str) -> None:
    """Put the target into the address, so that a reload does not forget it."""
    chosen = st.session_state.get(key)
    if chosen is None:
        st.query_params.pop(ADDRESS, None)
    else:
        st.query_params[ADDRESS] = chosen


def own_target(source: str, seen: Look) -> str | None:
    """The target that a table comes with: a sample has one, and a LibSVM file."""
    name = sample_name(source)
    if name is not None:
        return next((column.name for column in sample_columns(name) if _is_target(column)), None)
    ending = source.rpartition(".")[2].lower()
    return "target" if formats.SUFFIXES.get(f".{ending}") == "libsvm" else None


def _is_target(column: Column) -> bool:
    return column.role == "target"


def _with_target(source: str, its: FileVersion | None, reading: Reading, target: str | None) -> Look | None:
    """The table with its target, as a pipeline would load it; nothing, and the reason said, if it cannot be one."""
    if target is None:
        return None
    try:
        return _seen(str(studio().workspace.root), source, its, reading, target)
    except BadInput as problem:
        st.warning(plain(problem.message[:1].upper() + problem.message[1:]) + ".")
        return None


def class_rows(seen: Look) -> list[dict[str, Any]]:
    """One row a class, with its share."""
    found = classes(seen.table)
    total = sum(rows for _, rows in found) or 1
    return [{"Class": name, "Rows": rows, "Share": rows / total} for name, rows in found]


def _draw_classes(seen: Look, target: str) -> None:
    rows = class_rows(seen)
    config = st.column_config
    grid(
        rows, "data-classes", height=38 + 35 * min(len(rows), MOST_SHOWN_CLASSES),
        column_config={
            "Rows": config.NumberColumn(format="localized"),
            "Share": config.ProgressColumn(format="percent", min_value=0, max_value=1, color="blue"),
        },
    )  # fmt: skip
    least = min(rows, key=lambda row: row["Rows"])
    notes = [
        f"{counted(len(rows), 'class', 'classes')}; the rarest, {least['Class']}, has {counted(least['Rows'], 'row')}"
    ]
    if seen.without_target:
        notes.append(f"{counted(seen.without_target, 'row')} without a target will be left out")
    facts(notes)


# What can be done


def _draw_actions(
    source: str, its: FileVersion | None, reading: Reading, target: str | None, usable: Look | None
) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Use in a new pipeline", type="primary", icon=":material/account_tree:", disabled=usable is None,
            help=None if usable else "Choose the target first.", key="data-use",
            on_click=_use, args=(source, target, reading, usable),
        )  # fmt: skip
        if its is not None:
            _draw_reading(source)
            _draw_download(source, its)
            _draw_delete(source)


def _use(source: str, target: str | None, reading: Reading, seen: Look | None) -> None:
    if target is None or seen is None:
        return
    try:
        st.session_state[MADE] = Library(studio().workspace).create(pipeline_for(source, target, reading, seen))
    except SylvaError as error:
        flash_error("data", error)


def go_on() -> None:
    """Open the pipeline that was made; a drawing that was cut short meanwhile loses nothing."""
    if MADE in st.session_state:
        links.to_build(st.session_state.pop(MADE))


def _draw_reading(source: str) -> None:
    ending = source.lower().removesuffix(".gz").rpartition(".")[2]
    if formats.SUFFIXES.get(f".{ending}") not in ("csv", "tsv"):
        return
    with st.popover("How it is read", type="tertiary"):
        before = reading_of(source)
        if choose_reading(source, f"data-view-{source}") != before:
            st.rerun()


def _draw_download(source: str, its: FileVersion) -> None:
    path = studio().files.readable(source, field="file")
    small = its.size <= DOWNLOADED
    st.download_button(
        "Download", path.read_bytes if small else b"", path.name, "application/octet-stream", on_click="ignore",
        type="tertiary", disabled=not small, help=None if small else "It is too large to pass through the browser.",
    )  # fmt: skip


def _draw_delete(source: str) -> None:
    with st.popover("Delete", type="tertiary"):
        st.write(f"Delete “{plain(source)}”? Pipelines that read it will not find it any more.")
        st.button("Delete it", type="primary", key="data-delete", on_click=_delete, args=(source,))


def _delete(source: str) -> None:
    try:
        delete(source, studio().files)
        _leave()
        flash("data", f"{source} was deleted.")
    except SylvaError as error:
        flash_error("data", error)
