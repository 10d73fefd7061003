"""The row over the canvas: name, save state, file menu, and all that starts and stops runs."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.edits import set_name
from engine.errors import SylvaError
from engine.export_python import check_exportable, export_python
from engine.pipeline_file import dumps
from engine.text import counted
from ui.studio.builder import open_pipeline as desks
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.markdown import plain, time_of_day

AGAIN = ("failed", "cancelled", "interrupted")
"""States of a run that can be gone on with."""

PARTS = ("Run to here", "Run from here", "Run all afresh")
MORE = "more"


def toolbar(desk: OpenPipeline, chosen: tuple[str, ...]) -> DeltaGenerator:
    """Draw the row; the place for ``save_state``, which is known once the canvas has told its edits.

    What a button does is its callback: a rerun may be cut short by the next, a callback is not.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="toolbar"):
        st.button(
            "Pipelines", icon=":material/arrow_back:", type="tertiary", help="All pipelines", on_click=desks.clear
        )
        _name(desk)
        _file_menu(desk)
        place = st.empty()
        st.space("stretch")
        _run_buttons(desk, chosen)
    return place


def _name(desk: OpenPipeline) -> None:
    name = desk.document.name
    key = f"{desk.pipeline}/name/{name}"  # another name, another widget

    def rename() -> None:
        wanted = st.session_state[key].strip()
        if wanted and wanted != desk.document.name:
            desk.attempt(lambda: desk.edit(lambda document: set_name(document, wanted)))

    st.text_input("Name", name, key=key, on_change=rename, max_chars=200, label_visibility="collapsed", width=260)


def save_state(desk: OpenPipeline) -> None:
    """Say when the document was saved, or that it was not."""
    if desk.not_saved:
        st.badge("not saved", icon=":material/error:", color="red", help=plain(desk.not_saved))
    else:
        st.caption(f"saved {time_of_day(desk.saved_at)}", width="content")


def _file_menu(desk: OpenPipeline) -> None:
    with st.popover("File", icon=":material/folder_open:", key=f"file/{desk.pipeline}"):
        text = dumps(desk.document)
        st.download_button(
            "Export JSON", text, f"{desk.pipeline}.json", "application/json", icon=":material/download:",
            on_click="ignore", width="stretch",
        )  # fmt: skip
        _export_python(desk)
        st.button(
            "Duplicate", icon=":material/content_copy:", width="stretch", on_click=_do, args=(desk, desk.duplicate)
        )
        with st.expander("Delete", icon=":material/delete:"):
            st.caption("Its runs stay.")
            st.button("Delete this pipeline", width="stretch", on_click=_do, args=(desk, desk.delete))


def _export_python(desk: OpenPipeline) -> None:
    """The script is written when it is asked for: for a great pipeline that takes a moment."""
    why_not = _cannot_be_python(desk)
    st.download_button(
        "Export as Python", lambda: export_python(desk.document, desk.catalogue), f"{desk.pipeline}.py",
        "text/x-python", icon=":material/code:", on_click="ignore", width="stretch", disabled=bool(why_not),
        help=plain(why_not) or "A script with the same result, without the studio",
    )  # fmt: skip


def _cannot_be_python(desk: OpenPipeline) -> str:
    if not desk.document.nodes:
        return "The pipeline has no nodes yet."
    if desk.problems():
        return "Mend the problems first; Validate lists them."
    try:
        check_exportable(desk.document, desk.catalogue)
    except SylvaError as error:
        return str(error)
    return ""


# Runs


def _run_buttons(desk: OpenPipeline, chosen: tuple[str, ...]) -> None:
    run, running = desk.run_now, desk.running
    st.button(
        "Validate",
        icon=":material/check:",
        help="Look for problems, also in the files that are read",
        on_click=validate,
        args=(desk,),
    )
    st.button(
        "Run", icon=":material/play_arrow:", type="primary", disabled=running, on_click=begin, args=(desk, desk.start)
    )
    st.menu_button(
        "More",
        PARTS if len(chosen) == 1 else PARTS[-1:],
        disabled=running,
        help="Run a part of the pipeline, or all of it anew",
        key=MORE,
        on_click=_run_part,
        args=(desk, chosen),
    )
    st.button(
        "Stop",
        icon=":material/stop:",
        disabled=not running,
        help="Stop the run; Retry goes on with it",
        on_click=_do,
        args=(desk, desk.stop),
    )
    st.button(
        "Retry",
        icon=":material/replay:",
        disabled=run is None or run.state not in AGAIN,
        help="Go on with the run; nothing that is finished runs again",
        on_click=begin,
        args=(desk, desk.retry),
    )


def _run_part(desk: OpenPipeline, chosen: tuple[str, ...]) -> None:
    match st.session_state[MORE]:
        case "Run to here":
            begin(desk, lambda: desk.start(to=chosen))
        case "Run from here":
            begin(desk, lambda: desk.start(afresh=chosen))
        case "Run all afresh":
            begin(desk, lambda: desk.start(afresh=tuple(desk.document.nodes)))


def _do(desk: OpenPipeline, action: Callable[[], None]) -> None:
    desk.attempt(action)


def begin(desk: OpenPipeline, start: Callable[[], None]) -> None:
    """Begin a run; if it is refused, the problems are listed."""
    if desk.attempt(start):
        desk.bottom, desk.watching = "Log", True


def validate(desk: OpenPipeline) -> None:
    """Say whether it can run, and show what is in the way."""
    desk.bottom = "Problems"
    desk.look_afresh()
    count = len(desk.problems())
    desk.notice = f"{counted(count, 'problem')}; see below." if count else "Ready to run."
