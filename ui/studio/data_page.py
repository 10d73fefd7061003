"""The Data page: the tables of the workspace on the left, the chosen one on the right.

A table has its facts, its target, what can be done with it, and its rows and columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from engine.atomic import FileVersion
from engine.errors import BadInput
from engine.pipeline_library import Library
from engine.storages import scheme_of
from engine.text import counted, size
from engine.values import Table, kind_of
from nodes.data import formats
from nodes.data.columns import TASK_TITLES, Task, proposed_target, proposed_task
from nodes.data.files import DataFile, delete_file, list_files
from nodes.data.formats import FileFormat
from nodes.data.hints import table_hints
from nodes.data.locations import is_database, locate, without_credentials
from nodes.data.samples import PREFIX, SHORT_TITLES, TITLES, sample_columns, sample_name
from nodes.data.tables import Preview, count_classes, preview, source_version
from nodes.load_data import preview_params
from ui.studio import links
from ui.studio.new_pipelines import pipeline_for
from ui.studio.previews.tables import show_rows_and_columns
from ui.studio.screen_text import plain, source_title, time_of_day
from ui.studio.session import studio
from ui.studio.upload import (
    choose_file_format,
    choose_sheet,
    draw_upload,
    file_format_of,
    remember_file_format,
)
from ui.studio.widgets import (
    BINARY,
    download,
    errors_flashed,
    errors_shown,
    facts,
    flash,
    grid,
    selectable_table,
    show_flashes,
)

ADDRESS = "file"
MAX_DOWNLOAD = 100_000_000
"""Bytes up to which a file is offered for download: it passes through memory."""
NEW_PIPELINE = "data-made"
"""Where a callback saves the id of the pipeline that it has made."""
TARGET = "target"
MAX_SHOWN_CLASSES = 8
MAX_HINTS = 8
OTHER_ADDRESS = "data-other-address"
"""The key of the field for an address."""


@errors_shown()
def page() -> None:
    """Draw upload and list on the left, and the table that the address names on the right."""
    _open_new_pipeline()
    chosen = st.query_params.get(ADDRESS)
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.subheader("Data", anchor=False)
        show_flashes("data")
        saved = draw_upload()
        if saved:
            st.query_params.from_dict({ADDRESS: saved})
            st.rerun()
        _draw_list(list_files(studio().files))
        _draw_samples(chosen)
        _draw_address()
    with right:
        if chosen:
            _draw_table(chosen)
        else:
            st.info("Choose a table to see its rows and columns, or add one of your own.")


# The list


def file_table(files: list[DataFile]) -> list[dict[str, object]]:
    """Return the files as rows of the list."""
    return [
        {
            "Name": file.name,
            "Rows": file.rows,
            "Columns": file.columns,
            "Size": file.size,
            "Changed": int(file.modified * 1000),
        }
        for file in files
    ]


def _draw_list(files: list[DataFile]) -> None:
    """Draw the files of the workspace; a click opens one."""
    if not files:
        st.caption("No files yet. Add one above, or copy it into the folder:")
        st.code(str(studio().files.data), language=None, wrap_lines=True)
        return
    config = st.column_config
    selectable_table(
        file_table(files),
        [file.name for file in files],
        ADDRESS,
        time="Changed",
        columns={
            "Name": config.TextColumn(width=150),
            "Rows": config.NumberColumn(format="localized", width=64),
            "Columns": config.NumberColumn(format="localized", width=72),
            "Size": config.NumberColumn(format="bytes", width=72),
        },
    )


def _draw_samples(chosen: str | None) -> None:
    """Draw buttons for the tables that come with the studio."""
    st.caption("Tables that come with the studio")
    with st.container(horizontal=True, gap="small"):
        for name, title in SHORT_TITLES.items():
            source = f"{PREFIX}{name}"
            looks: Literal["primary", "secondary"] = "primary" if source == chosen else "secondary"
            choose = partial(st.query_params.from_dict, {ADDRESS: source})
            st.button(title, key=f"data-sample-{name}", type=looks, on_click=choose)


def _draw_address() -> None:
    """Draw a field for the address of a table on another machine."""
    with st.expander("Read from a storage or a database", icon=":material/cloud:"):
        st.text_input("Address", key=OTHER_ADDRESS, placeholder="s3://bucket/folder/table.parquet")
        st.caption(
            "s3://, gs:// or abfs:// for a file or a folder of Parquet files, postgresql:// for a "
            "database. The settings of the workspace must allow the address. User and password "
            "come from the environment of the studio, never from the address."
        )
        st.button("Open", key="data-open-address", on_click=_open_address)


def _open_address() -> None:
    """Show the table of the typed address, without a password that may be part of it."""
    typed = str(st.session_state.get(OTHER_ADDRESS, "")).strip()
    address = without_credentials(typed)
    if address != typed:
        st.session_state[OTHER_ADDRESS] = address
        flash("data", "User and password were removed from the address.")
    if address:
        st.query_params.from_dict({ADDRESS: address})


# One table


def _draw_table(source: str) -> None:
    """Draw a table: its facts, its target, what can be done with it, and its content.

    ``source`` is the name of a file in the data folder, ``sample:NAME``, or an address.
    """
    st.subheader(plain(source_title(source)), anchor=False)
    try:
        version = _version_of(source)
    except BadInput as problem:
        st.error(f"The table cannot be opened: {plain(problem.message)}.")
        st.button("All tables", on_click=_close)
        return
    if is_database(source):
        _draw_query(source)
    file_format = file_format_of(source)
    try:
        # Without a target first: a bad target must not hide the table.
        seen, table = _read(source, file_format, None)
    except BadInput as problem:
        _draw_unreadable(source, version, problem)
        return
    _draw_facts(source, version, seen)
    if len(seen.sheets) > 1 and choose_sheet(source, seen.sheets, "data-sheet") != file_format:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        target = _choose_target(source, seen)
        task = _choose_task(source, seen, target)
    target_works = False
    if target is not None:
        try:
            seen, table = _read(source, file_format, target, task)
            target_works = True
        except BadInput as problem:
            st.warning(plain(problem.message[:1].upper() + problem.message[1:]) + ".")
    # The first rows of a large table may have a single class, and the others more: only a run
    # can tell.
    usable = target is not None and (target_works or not seen.complete)
    _draw_actions(source, version, file_format, target, task, seen if usable else None)
    if target_works and target is not None and task == "classification":
        _draw_classes(table, target, seen)
    elif target_works and target is not None:
        _draw_numbers(table, target, seen)
    shown_target = target if target_works else None
    params = preview_params(source, file_format, shown_target, task if target_works else None)
    _draw_hints(table_hints(params, studio().files))
    key = f"{source_version(params, studio().files)}-{file_format}-{shown_target}-{params.task}"
    show_rows_and_columns(table, key, "data-look")


def _draw_hints(hints: list[BadInput]) -> None:
    """Draw what in the table may spoil a model, each with what to do."""
    if not hints:
        return
    lines = [f"- {plain(hint.message[:1].upper() + hint.message[1:])}." for hint in hints]
    more = [f"- … and {len(lines) - MAX_HINTS:,} more."] if len(lines) > MAX_HINTS else []
    st.warning("\n".join([*lines[:MAX_HINTS], *more]), icon=":material/lightbulb:")


def _draw_query(source: str) -> None:
    """Draw the query that reads a table from a database; the session remembers it."""
    now = file_format_of(source)
    query = st.text_area(
        "Query", now.query, key=f"data-query-{source}", placeholder="SELECT * FROM customers"
    )
    remember_file_format(source, replace(now, query=query))


def _version_of(source: str) -> FileVersion | None:
    """Return the version of a file, None for a folder, a sample or an address.

    Raise ``BadInput`` if the source does not exist, or if it may not be read.
    """
    if sample_name(source) is not None:
        return None
    where = locate(source, studio().files)
    return FileVersion.of(where) if isinstance(where, Path) else None


def _read(
    source: str, file_format: FileFormat, target: str | None, task: Task | None = None
) -> tuple[Preview, Table]:
    """Return the preview of a source, and its first rows as a table.

    Raise ``BadInput`` if the file or the target cannot be used.
    """
    params = preview_params(source, file_format, target, task)
    with st.spinner("Reading …"):
        seen = preview(params, studio().files)
        return seen, seen.table(params)


def _close() -> None:
    """Close the table and show only the list."""
    for name in (ADDRESS, TARGET):
        st.query_params.pop(name, None)


def _draw_unreadable(source: str, version: FileVersion | None, problem: BadInput) -> None:
    """Draw why a table cannot be read, with what may fix that: the options of a file."""
    if problem.field == "query" and not file_format_of(source).query:
        st.info("Write a query to see its rows.")
        return
    st.error(f"The table cannot be read: {plain(problem.message)}.")
    if version is not None:
        _draw_file_format(source)
        _draw_delete(source)


def _draw_facts(source: str, version: FileVersion | None, seen: Preview) -> None:
    """Draw size and shape of a table, and what of it is left out."""
    rows, columns = seen.data.shape
    shape = counted(columns, "column")
    if seen.rows is not None:
        shape = f"{counted(seen.rows, 'row')} × {shape}"
    if scheme_of(source):
        facts(shape, "read from another machine")
    elif sample_name(source) is not None:
        facts(shape, TITLES[sample_name(source) or ""])
    elif version is None:
        facts(shape, "a folder of Parquet files")
    else:
        facts(shape, size(version.size), f"changed {time_of_day(version.modified / 1e9)}")
    if not seen.complete:
        st.caption(f"The table is large. This page shows figures of its first {rows:,} rows only.")
    if seen.empty:
        names = ", ".join(seen.empty[:6]) + (" …" if len(seen.empty) > 6 else "")
        st.caption(f"Columns without any value are left out: {plain(names)}.")


# The target


def _choose_target(source: str, seen: Preview) -> str | None:
    """Draw the choice of the target column; return None if none is chosen."""
    names: list[str] = seen.data.column_names
    chosen, key = st.query_params.get(TARGET), f"data-target-{source}"
    default = chosen if chosen in names else default_target(source) or proposed_target(names)
    index = names.index(default) if default in names else None
    hint = "Choose the column to predict"
    return st.selectbox(
        "Target", names, index, key=key, on_change=_save_target, args=(key,), placeholder=hint
    )


def _choose_task(source: str, seen: Preview, target: str | None) -> Task:
    """Draw whether the target is a class or a number; at first, what its values look like.

    A target that does not hold numbers is a class, without a choice.
    """
    if target is None or kind_of(seen.data.schema.field(target).type) != "number":
        return "classification"
    looks = proposed_task(seen.data.column(target))
    key = f"data-task-{source}-{target}"
    options: list[Task] = ["classification", "regression"]
    return st.selectbox(
        "Predict it as",
        options,
        options.index(looks),
        format_func=TASK_TITLES.__getitem__,
        key=key,
        width=220,
        help="Whole numbers with few values are often classes. Other numbers are quantities.",
    )


def _save_target(key: str) -> None:
    """Put the target into the address, so that it is still chosen after a reload."""
    chosen = st.session_state.get(key)
    if chosen is None:
        st.query_params.pop(TARGET, None)
    else:
        st.query_params[TARGET] = chosen


def default_target(source: str) -> str:
    """Return the target of a sample or a LibSVM file; empty for other tables."""
    name = sample_name(source)
    if name is not None:
        return next((column.name for column in sample_columns(name) if column.role == "target"), "")
    return formats.LIBSVM_TARGET if formats.is_libsvm(Path(source), FileFormat()) else ""


def class_rows(table: Table) -> list[dict[str, Any]]:
    """Return one row for each class: how many rows it has, and their share."""
    classes = count_classes(table)
    total = sum(rows for _, rows in classes) or 1
    return [{"Class": name, "Rows": rows, "Share": rows / total} for name, rows in classes]


def _draw_classes(table: Table, target: str, seen: Preview) -> None:
    """Draw the classes of the target, and how many rows have no target."""
    rows = class_rows(table)
    config = st.column_config
    share = config.ProgressColumn(format="percent", min_value=0, max_value=1, color="blue")
    columns = {"Rows": config.NumberColumn(format="localized"), "Share": share}
    height = 38 + 35 * min(len(rows), MAX_SHOWN_CLASSES)
    grid(rows, "data-classes", height=height, column_config=columns)
    least = min(rows, key=lambda row: row["Rows"])
    classes, fewest = counted(len(rows), "class", "classes"), counted(least["Rows"], "row")
    notes = [f"{classes}; the rarest, {least['Class']}, has {fewest}"]
    without_target = seen.rows_without(target)
    if without_target:
        notes.append(f"{counted(without_target, 'row')} without a target will be left out")
    facts(*notes)


def _draw_numbers(table: Table, target: str, seen: Preview) -> None:
    """Draw the range of a target that is a number, and how many rows have no target."""
    import pyarrow.compute as pc

    values = table.labels()
    least, greatest = pc.min_max(values).as_py().values()
    mean, spread = pc.mean(values).as_py(), pc.stddev(values).as_py()
    notes = [
        f"a number from {least:,.6g} to {greatest:,.6g}",
        f"mean {mean:,.6g}, standard deviation {spread:,.6g}",
    ]
    without_target = seen.rows_without(target)
    if without_target:
        notes.append(f"{counted(without_target, 'row')} without a target will be left out")
    facts(*notes)


# What can be done


def _draw_actions(
    source: str,
    version: FileVersion | None,
    file_format: FileFormat,
    target: str | None,
    task: Task,
    usable: Preview | None,
) -> None:
    """Draw the buttons; ``usable`` is the preview if a pipeline can be made of it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Use in a new pipeline",
            type="primary",
            icon=":material/account_tree:",
            disabled=usable is None,
            help=None if usable else "Choose the target first.",
            key="data-use",
            on_click=_use,
            args=(source, target, task, file_format, usable),
        )
        if version is not None:
            # The sheet of an Excel file that can be read is chosen above.
            if formats.is_text_format(source):
                _draw_file_format(source)
            _draw_download(source, version)
            _draw_delete(source)


def _use(
    source: str,
    target: str | None,
    task: Task,
    file_format: FileFormat,
    seen: Preview | None,
) -> None:
    """Save a pipeline for the table; the next drawing opens it."""
    if target is None or seen is None:
        return
    with errors_flashed("data"):
        pipeline = pipeline_for(source, target, file_format, seen, task)
        st.session_state[NEW_PIPELINE] = Library(studio().workspace).create(pipeline)


def _open_new_pipeline() -> None:
    """Open the pipeline that a callback has made.

    Callbacks cannot switch pages. Its id stays in the session until the page has switched.
    """
    if NEW_PIPELINE in st.session_state:
        links.to_build(st.session_state.pop(NEW_PIPELINE))


def _draw_file_format(source: str) -> None:
    """Draw the options of a file: encoding, delimiter and header of a text, sheet of Excel."""
    if not (formats.is_text_format(source) or formats.is_excel(source)):
        return
    with st.popover("File options", type="tertiary"):
        before = file_format_of(source)
        if choose_file_format(source, f"data-view-{source}") != before:
            st.rerun()


def _draw_download(source: str, version: FileVersion) -> None:
    """Draw the download of a file, unless it is too large."""
    path = studio().files.readable(source, field="file")
    refused = None
    if version.size > MAX_DOWNLOAD:
        refused = "The file is too large for the browser. Copy it from the data folder instead."
    looks = {"icon": None, "type": "tertiary", "refused": refused}
    download("Download", path.read_bytes, path.name, BINARY, "data-download", **looks)


def _draw_delete(source: str) -> None:
    """Draw the deletion, which asks first."""
    with st.popover("Delete", type="tertiary"):
        st.write(f"Delete “{plain(source)}”? Pipelines that read this file can then no longer run.")
        st.button("Delete it", type="primary", key="data-delete", on_click=_delete, args=(source,))


def _delete(source: str) -> None:
    """Delete a file and show the list."""
    with errors_flashed("data"):
        delete_file(source, studio().files)
        _close()
        flash("data", f"{source} was deleted.")
