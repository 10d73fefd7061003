"""Taking in a file that the browser sends: progress, names that are taken, files that cannot be read.

What was tried with a file is remembered by the id of its upload, so that drawing the page again tries nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from engine.text import size
from nodes.data.files import MOST_UPLOADED, CannotKeep, NameTaken, clean_name, free_name, name_fault, receive
from nodes.data.tables import Reading
from ui.studio.markdown import plain
from ui.studio.session import studio
from ui.studio.widgets import flash

READINGS = "data-readings"
"""Where a session keeps how files are written, by name."""
ROUND = "data-upload-round"
"""Raised once a file is taken in: the next uploader is another, and empty."""
TRIED = "data-upload-tried"
ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
DELIMITERS = ("auto", "comma", "semicolon", "tab", "pipe", "space")
MENDED_BY_READING = ("encoding", "delimiter", "source", "header")


@dataclass(frozen=True)
class Wish:
    """Under which name a file is to be kept, and whether in place of another."""

    name: str
    replace: bool = False


@dataclass
class Tried:
    """What became of an upload so far."""

    id: str
    wish: Wish | None
    """What is to be tried next; nothing while the user is asked."""
    taken: str = ""
    fault: str = ""
    field: str | None = None


def draw_upload(key: str = "data") -> str | None:
    """Offer to add a file, and take in the one that came; the name under which one was kept just now."""
    number = st.session_state.get(f"{ROUND}-{key}", 0)
    given = st.file_uploader(
        "Add a table", key=f"{key}-upload-{number}", max_upload_size=MOST_UPLOADED,
        help="CSV, TSV, Parquet, Arrow or Feather, or LibSVM; texts may be compressed (.gz). It is copied into the "
        "workspace's data folder. Larger files can be copied there by hand.",
    )  # fmt: skip
    if given is None:
        st.session_state.pop(f"{TRIED}-{key}", None)
        return None
    tried = st.session_state.get(f"{TRIED}-{key}")
    if tried is None or tried.id != given.file_id:
        tried = Tried(given.file_id, Wish(clean_name(given.name)))
    if tried.wish and _try(given, tried, key):
        return tried.wish.name
    _ask(given, tried, key)
    return None


def reading_of(name: str) -> Reading:
    """How a file is written, as far as this session was told."""
    found: Reading = st.session_state.get(READINGS, {}).get(name, Reading())
    return found


def choose_reading(name: str, key: str) -> Reading:
    """Fields that say how a text file is written."""
    now = reading_of(name)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        encodings = [*dict.fromkeys((*ENCODINGS, now.encoding))]
        encoding = st.selectbox("Encoding", encodings, encodings.index(now.encoding), key=f"{key}-encoding", width=140)
        delimiter = st.selectbox(
            "Delimiter", DELIMITERS, DELIMITERS.index(now.delimiter), key=f"{key}-delimiter", width=140
        )
        header = st.toggle("First row is the header", now.header, key=f"{key}-header")
    chosen = Reading(encoding, delimiter, header)
    st.session_state[READINGS] = {**st.session_state.get(READINGS, {}), name: chosen}
    return chosen


def _try(given: UploadedFile, tried: Tried, key: str) -> bool:
    """Whether the file was kept; if not, ``tried`` says why."""
    wish = tried.wish
    assert wish is not None
    bar = st.progress(0.0, f"Copying {plain(wish.name)}")
    try:
        receive(
            given, wish.name, studio().workspace, replace=wish.replace, reading=reading_of(wish.name),
            progress=lambda fraction, text: _advance(bar, fraction, wish.name, text),
        )  # fmt: skip
    except NameTaken as taken:
        tried.taken = taken.name
    except CannotKeep as error:
        tried.fault, tried.field = str(error), error.field
    else:
        st.session_state.pop(f"{TRIED}-{key}", None)
        st.session_state[f"{ROUND}-{key}"] = st.session_state.get(f"{ROUND}-{key}", 0) + 1
        flash("data", f"{wish.name} was added ({size(given.size)}).")
        return True
    finally:
        bar.empty()
    tried.wish = None
    st.session_state[f"{TRIED}-{key}"] = tried
    return False


def _advance(bar: st.delta_generator.DeltaGenerator, fraction: float, name: str, text: str) -> None:
    bar.progress(min(fraction, 1.0), f"{plain(name)}: {text}")


def _ask(given: UploadedFile, tried: Tried, key: str) -> None:
    if tried.taken:
        _ask_for_name(tried, key)
    if tried.fault:
        name = clean_name(given.name)
        st.error(f"The file was not kept: {plain(tried.fault.rstrip('.'))}.")
        if tried.field in MENDED_BY_READING:
            with st.expander("Is it written in another way?"):
                choose_reading(name, f"{key}-again")
                st.button("Try again", key=f"{key}-try-again", on_click=_wish, args=(tried, Wish(name), key))


def _ask_for_name(tried: Tried, key: str) -> None:
    st.warning(f"There is a file “{plain(tried.taken)}” already.")
    other = st.text_input("Keep this one as", free_name(tried.taken, studio().files), key=f"{key}-other-name")
    fault = name_fault(other)
    if fault:
        st.caption(f":red[{plain(fault)}]")
    with st.container(horizontal=True):
        st.button(
            "Keep both", key=f"{key}-keep-both", type="primary", disabled=bool(fault),
            on_click=_wish, args=(tried, Wish(other), key),
        )  # fmt: skip
        st.button(
            "Replace the old one", key=f"{key}-replace", on_click=_wish, args=(tried, Wish(tried.taken, True), key)
        )


def _wish(tried: Tried, wish: Wish, key: str) -> None:
    st.session_state[f"{TRIED}-{key}"] = Tried(tried.id, wish)
