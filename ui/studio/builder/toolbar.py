"""The row above the canvas: name, save state, file menu, and what starts and stops runs."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.edits import set_name
from engine.errors import SylvaError
from engine.export_python import check_exportable, export_python
from engine.pipeline_file import dumps
from ui.studio.builder import page
from ui.studio.builder.open_pipeline import OpenPipeline, save_copy
from ui.studio.markdown import plain, time_of_day

RESUMABLE = ("failed", "cancelled", "interrupted")
"""States of a run that Retry resumes."""

RUN_ALL_AGAIN = "Run all again (ignore cache)"
PARTS = ("Run to here", "Run from here", RUN_ALL_AGAIN)
MORE = "more"


def toolbar(opened: OpenPipeline, chosen: tuple[str, ...]) -> DeltaGenerator:
    """Draw the row; return where to draw ``save_state``, which is known once the canvas has sent its edits.

    What a button does is its callback: a rerun may be cut short by the next, a callback is not.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="toolbar"):
        st.button("Pipelines", icon=":material/arrow_back:", type="tertiary", help="All pipelines", on_click=page.close)
        _name(opened)
        _file_menu(opened)
        place = st.empty()
        st.space("stretch")
        _run_buttons(opened, chosen)
    return place


def _name(opened: OpenPipeline) -> None:
    name = opened.document.name
    key = f"{opened.pipeline}/name/{name}"  # another name, another widget

    def rename() -> None:
        new_name = st.session_state[key].strip()
        if new_name and new_name != opened.document.name:
            opened.attempt(lambda: opened.edit(lambda document: set_name(document, new_name)))

    st.text_input("Name", name, key=key, on_change=rename, max_chars=200, label_visibility="collapsed", width=260)


def save_state(opened: OpenPipeline) -> None:
    """Say when the document was saved, or that it was not."""
    if opened.save_error:
        st.badge("not saved", icon=":material/error:", color="red", help=plain(opened.save_error))
    else:
        st.caption(f"saved {time_of_day(opened.saved_at)}", width="content")


def _file_menu(opened: OpenPipeline) -> None:
    with st.popover("File", icon=":material/folder_open:", key=f"file/{opened.pipeline}"):
        text = dumps(opened.document)
        st.download_button(
            "Export JSON", text, f"{opened.pipeline}.json", "application/json", icon=":material/download:",
            on_click="ignore", width="stretch",
        )  # fmt: skip
        _export_python(opened)
        st.button("Duplicate", icon=":material/content_copy:", width="stretch", on_click=_do, args=(opened, _duplicate))
        with st.expander("Delete", icon=":material/delete:"):
            st.caption("Its runs stay.")
            st.button("Delete this pipeline", width="stretch", on_click=_do, args=(opened, _delete))


def _export_python(opened: OpenPipeline) -> None:
    """Draw the button; the script is written when it is pressed, since that takes a moment."""
    why_not = _cannot_be_python(opened)
    st.download_button(
        "Export as Python", lambda: export_python(opened.document, opened.catalogue), f"{opened.pipeline}.py",
        "text/x-python", icon=":material/code:", on_click="ignore", width="stretch", disabled=bool(why_not),
        help=plain(why_not) or "A script with the same result, without the studio",
    )  # fmt: skip


def _cannot_be_python(opened: OpenPipeline) -> str:
    if not opened.document.nodes:
        return "The pipeline has no nodes yet."
    if opened.problems():
        return "Fix the problems first (press Validate to see them)."
    try:
        check_exportable(opened.document, opened.catalogue)
    except SylvaError as error:
        return str(error)
    return ""


# Runs


def _run_buttons(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    run, running = opened.run, opened.running
    st.button(
        "Validate",
        icon=":material/check:",
        help="Look for problems, also in the files that are read",
        on_click=validate,
        args=(opened,),
    )
    st.button(
        "Run",
        icon=":material/play_arrow:",
        type="primary",
        disabled=running,
        on_click=begin,
        args=(opened, opened.start),
    )
    st.menu_button(
        "More",
        PARTS if len(chosen) == 1 else PARTS[-1:],
        disabled=running,
        help="Run a part of the pipeline, or all of it again",
        key=MORE,
        on_click=_run_part,
        args=(opened, chosen),
    )
    st.button(
        "Stop",
        icon=":material/stop:",
        disabled=not running,
        help="Stop the run; Retry continues it",
        on_click=_do,
        args=(opened, OpenPipeline.stop),
    )
    st.button(
        "Retry",
        icon=":material/replay:",
        disabled=run is None or run.state not in RESUMABLE,
        help="Continue the run; nothing that is finished runs again",
        on_click=begin,
        args=(opened, opened.retry),
    )


def _run_part(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    match st.session_state[MORE]:
        case "Run to here":
            begin(opened, lambda: opened.start(to=chosen))
        case "Run from here":
            begin(opened, lambda: opened.start(force_from=chosen))
        case choice if choice == RUN_ALL_AGAIN:
            begin(opened, lambda: opened.start(force_from=tuple(opened.document.nodes)))


def _do(opened: OpenPipeline, action: Callable[[OpenPipeline], None]) -> None:
    opened.attempt(lambda: action(opened))


def _duplicate(opened: OpenPipeline) -> None:
    """Open a copy, with the edits that are not saved yet."""
    page.switch_to(save_copy(opened.library, opened.document))


def _delete(opened: OpenPipeline) -> None:
    opened.delete()
    page.close()


def begin(opened: OpenPipeline, start: Callable[[], None]) -> None:
    """Start a run; if it is refused, the problems are listed."""
    if opened.attempt(start):
        opened.open_panel, opened.announce_end = "Log", True


def validate(opened: OpenPipeline) -> None:
    """Say whether the pipeline can run, and list its problems."""
    opened.open_panel = "Problems"
    opened.forget_problems()
    count = len(opened.problems())
    opened.notice = f"{count} problem{'s' if count > 1 else ''}; see below." if count else "Ready to run."
