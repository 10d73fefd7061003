"""Add a file that the browser sends: show progress, ask for another name, say why it was refused.

What was tried with an upload is saved under the id of the upload, so that a rerun of the page does
not try it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from engine.text import size
from nodes.data.csv_reader import DELIMITERS
from nodes.data.files import (
    MAX_UPLOAD_MEGABYTES,
    NameTaken,
    UploadRefused,
    add_file,
    clean_name,
    free_name,
    name_problem,
)
from nodes.data.formats import FileFormat, is_excel
from ui.studio.screen_text import plain
from ui.studio.session import studio
from ui.studio.streamlit_compat import DeltaGenerator, UploadedFile
from ui.studio.widgets import flash

FILE_FORMATS = "data-readings"
"""Where a session saves how files are written, by name."""
ROUND = "data-upload-round"
"""Increased after each upload: the next uploader is another one, and empty."""
UPLOAD = "data-upload-tried"
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
FIXED_BY_FILE_OPTIONS = ("encoding", "delimiter", "source", "header", "sheet")


@dataclass(frozen=True)
class SaveAs:
    """The name under which to save a file, and whether it may replace another file."""

    name: str
    replace: bool = False


@dataclass
class Upload:
    """The state of an upload: what to try next, or what to ask the user."""

    id: str
    next_try: SaveAs | None
    """What to try next; None while the user is asked."""
    taken: str = ""
    problem: str = ""
    field: str | None = None


def draw_upload(key: str = "data") -> str | None:
    """Draw the upload of a file, and save the one that was sent.

    Return the name of the file once it is saved. ``key`` distinguishes the uploads of several
    pages; the message that the file was added is saved under it.
    """
    number = st.session_state.get(f"{ROUND}-{key}", 0)
    sent = st.file_uploader(
        "Add a table",
        key=f"{key}-upload-{number}",
        max_upload_size=MAX_UPLOAD_MEGABYTES,
    )
    st.caption(
        "CSV, TSV, Excel, Parquet, Arrow, Feather or LibSVM; text files may be compressed (.gz). "
        "The file is copied into the workspace."
    )
    if sent is None:
        st.session_state.pop(f"{UPLOAD}-{key}", None)
        return None
    upload = st.session_state.get(f"{UPLOAD}-{key}")
    if upload is None or upload.id != sent.file_id:
        upload = Upload(sent.file_id, SaveAs(clean_name(sent.name)))
    if upload.next_try and _try(sent, upload, key):
        return upload.next_try.name
    _ask(sent, upload, key)
    return None


def file_format_of(name: str) -> FileFormat:
    """Return how a file is written, as the user has chosen in this session."""
    chosen: FileFormat = st.session_state.get(FILE_FORMATS, {}).get(name, FileFormat())
    return chosen


def choose_file_format(name: str, key: str) -> FileFormat:
    """Draw the options of a text file or of an Excel file, and return the chosen format.

    The session remembers it by the name of the file; ``key`` distinguishes the widgets.
    """
    now = file_format_of(name)
    if is_excel(name):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            sheet = st.text_input("Sheet", now.sheet, key=f"{key}-sheet", placeholder="the first")
            header = st.toggle("First row is the header", now.header, key=f"{key}-header")
        chosen = replace(now, sheet=sheet, header=header)
        remember_file_format(name, chosen)
        return chosen
    with st.container(horizontal=True, vertical_alignment="bottom"):
        # The session may have another encoding than those that are offered.
        encodings = [*dict.fromkeys((*ENCODINGS, now.encoding))]
        encoding = st.selectbox(
            "Encoding", encodings, encodings.index(now.encoding), key=f"{key}-encoding", width=140
        )
        delimiters = ["auto", *DELIMITERS]
        delimiter = st.selectbox(
            "Delimiter",
            delimiters,
            delimiters.index(now.delimiter),
            key=f"{key}-delimiter",
            width=140,
        )
        header = st.toggle("First row is the header", now.header, key=f"{key}-header")
    chosen = replace(now, encoding=encoding, delimiter=delimiter, header=header)
    remember_file_format(name, chosen)
    return chosen


def choose_sheet(name: str, sheets: Sequence[str], key: str) -> FileFormat:
    """Draw the choice of the sheet of an Excel file, and return the format with it.

    The session remembers it like the other options.
    """
    now = file_format_of(name)
    # The sheet may have been renamed since it was chosen.
    index = sheets.index(now.sheet) if now.sheet in sheets else 0
    sheet = st.selectbox("Sheet", sheets, index, key=key)
    if sheet != now.sheet and (now.sheet or sheet != sheets[0]):
        remember_file_format(name, replace(now, sheet=sheet))
    return file_format_of(name)


def remember_file_format(name: str, chosen: FileFormat) -> None:
    """Remember in this session how a file is written, or which query reads a database."""
    st.session_state[FILE_FORMATS] = {**st.session_state.get(FILE_FORMATS, {}), name: chosen}


def _try(sent: UploadedFile, upload: Upload, key: str) -> bool:
    """Try to save the file; return whether it was saved. If not, ``upload`` says why."""
    save_as = upload.next_try
    assert save_as is not None
    bar = st.progress(0.0, f"Copying {plain(save_as.name)}")
    try:
        add_file(
            sent,
            save_as.name,
            studio().workspace,
            replace=save_as.replace,
            file_format=file_format_of(save_as.name),
            progress=lambda fraction, text: _show_progress(bar, fraction, save_as.name, text),
        )
    except NameTaken as taken:
        upload.taken = taken.name
    except UploadRefused as error:
        upload.problem, upload.field = str(error), error.field
    else:
        st.session_state.pop(f"{UPLOAD}-{key}", None)
        # The uploader cannot be emptied, so the next drawing gets a new one.
        st.session_state[f"{ROUND}-{key}"] = st.session_state.get(f"{ROUND}-{key}", 0) + 1
        flash(key, f"{save_as.name} was added ({size(sent.size)}).")
        return True
    finally:
        # In every case: a bar that stays would look like an upload that hangs.
        bar.empty()
    upload.next_try = None
    st.session_state[f"{UPLOAD}-{key}"] = upload
    return False


def _show_progress(bar: DeltaGenerator, fraction: float, name: str, text: str) -> None:
    """Show how far the copy is."""
    bar.progress(min(fraction, 1.0), f"{plain(name)}: {text}")


def _ask(sent: UploadedFile, upload: Upload, key: str) -> None:
    """Draw why the file was not saved yet, and what the user can do."""
    if upload.taken:
        _ask_for_name(upload, key)
    if upload.problem:
        name = clean_name(sent.name)
        st.error(f"The file was not saved: {plain(upload.problem.rstrip('.'))}.")
        if upload.field in FIXED_BY_FILE_OPTIONS:
            options = "sheet, header" if is_excel(name) else "encoding, delimiter, header"
            with st.expander(f"File options ({options})"):
                choose_file_format(name, f"{key}-again")
                again = partial(_try_next, upload, SaveAs(name), key)
                st.button("Try again", key=f"{key}-try-again", on_click=again)


def _ask_for_name(upload: Upload, key: str) -> None:
    """Draw the choice between another name and replacing the file."""
    st.warning(f"A file named “{plain(upload.taken)}” exists already.")
    other = st.text_input(
        "Save this one as", free_name(upload.taken, studio().files), key=f"{key}-other-name"
    )
    problem = name_problem(other)
    if problem:
        st.caption(f":red[{plain(problem)}]")
    with st.container(horizontal=True):
        both = partial(_try_next, upload, SaveAs(other), key)
        off = bool(problem)
        st.button("Keep both", key=f"{key}-keep-both", type="primary", disabled=off, on_click=both)
        replacing = partial(_try_next, upload, SaveAs(upload.taken, replace=True), key)
        st.button("Replace the old one", key=f"{key}-replace", on_click=replacing)


def _try_next(upload: Upload, save_as: SaveAs, key: str) -> None:
    """Try to save the file in this way with the next drawing."""
    st.session_state[f"{UPLOAD}-{key}"] = Upload(upload.id, save_as)
