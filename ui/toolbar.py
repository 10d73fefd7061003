"""The row over the canvas: name, save state, file menu, and all that starts and stops runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import streamlit as st

from engine.document import changed
from engine.edits import SetName
from engine.pipeline_file import dumps
from ui import desk as desks
from ui.desk import Desk
from ui.studio import studio
from ui.text import plain, time_of_day

AGAIN = ("failed", "cancelled", "interrupted")
"""States of a run that can be gone on with."""

RunKind = Literal["Run to here", "Run from here", "Run all afresh"]


def toolbar(desk: Desk, chosen: tuple[str, ...]) -> None:
    """Draw the row."""
    with st.container(horizontal=True, vertical_alignment="center", key="toolbar"):
        if st.button("Pipelines", icon=":material/arrow_back:", type="tertiary", help="All pipelines"):
            desks.clear()
            st.rerun()
        _name(desk)
        _file_menu(desk)
        _save_state(desk)
        st.space("stretch")
        _run_buttons(desk, chosen)


def _name(desk: Desk) -> None:
    key = f"{desk.pipeline}/name/{desk.document.name}"

    def rename() -> None:
        wanted = st.session_state[key].strip()
        if wanted and wanted != desk.document.name:
            desk.attempt(lambda: desk.edit(SetName(wanted)))

    st.text_input(
        "Name", desk.document.name, key=key, on_change=rename, max_chars=200, label_visibility="collapsed", width=260
    )


def _save_state(desk: Desk) -> None:
    if desk.not_saved:
        st.badge("not saved", icon=":material/error:", color="red", help=plain(desk.not_saved))
    else:
        st.caption(f"saved {time_of_day(desk.saved_at)}", width="content")


def _file_menu(desk: Desk) -> None:
    with st.popover("File", icon=":material/folder_open:", key=f"file/{desk.pipeline}"):
        text = dumps(desk.document)
        st.download_button(
            "Export JSON", text, f"{desk.pipeline}.json", "application/json", icon=":material/download:",
            on_click="ignore", width="stretch",
        )  # fmt: skip
        if st.button("Duplicate", icon=":material/content_copy:", width="stretch"):
            desk.attempt(lambda: desks.lay_out(_duplicate(desk)))
            st.rerun(scope="app")
        if st.button("Delete", icon=":material/delete:", width="stretch", help="Delete this pipeline; its runs stay."):
            desk.asked = "delete"
        if desk.asked == "delete" and st.button("Yes, delete it", type="primary", width="stretch"):
            desk.attempt(lambda: desk.library.delete(desk.pipeline))
            desks.clear()
            st.rerun(scope="app")


def _duplicate(desk: Desk) -> str:
    return desk.library.create(changed(desk.document, name=f"{desk.document.name[:190]} copy"))


# Runs


def _run_buttons(desk: Desk, chosen: tuple[str, ...]) -> None:
    run, running = desk.run_now, desk.running
    if st.button("Validate", icon=":material/check:", help="Look for problems, also in the files that are read"):
        validate(desk)
    if st.button("Run", icon=":material/play_arrow:", type="primary", disabled=running):
        start(desk, desk.start)
    kinds: list[RunKind] = (
        ["Run to here", "Run from here", "Run all afresh"] if len(chosen) == 1 else ["Run all afresh"]
    )
    wanted = st.menu_button(
        "More",
        kinds,
        icon=":material/arrow_drop_down:",
        disabled=running,
        help="Run a part of the pipeline, or all of it anew",
    )
    if wanted is not None:
        start(desk, lambda: _run_part(desk, wanted, chosen))
    if st.button("Stop", icon=":material/stop:", disabled=not running, help="Stop the run; Retry goes on with it"):
        desk.attempt(lambda: studio().stop(run.id) if run else None)
    can_retry = run is not None and run.state in AGAIN
    if st.button("Retry", icon=":material/replay:", disabled=not can_retry, help="Go on; nothing finished runs again"):
        start(desk, desk.retry)


def _run_part(desk: Desk, wanted: RunKind, chosen: tuple[str, ...]) -> None:
    match wanted:
        case "Run to here":
            desk.start(to=chosen)
        case "Run from here":
            desk.start(afresh=chosen)
        case "Run all afresh":
            desk.start(afresh=tuple(desk.document.nodes))


def start(desk: Desk, begin: Callable[[], None]) -> None:
    """Begin a run; if it is refused, the problems are listed."""
    if desk.attempt(begin):
        desk.bottom, desk.watching = "Log", True
        st.rerun(scope="app")  # the page has to look for news from now on


def validate(desk: Desk) -> None:
    """Say whether it can run, and show what is in the way."""
    desk.bottom = "Problems"
    count = len(desk.problems())
    desk.notice = f"{count} problem{'s' if count > 1 else ''}; see below." if count else "Ready to run."
