"""The Build page: the list of pipelines, or the pipeline that is open in this browser tab.

An open pipeline has a bar with its name and buttons. Below it the canvas fills the window, with the
panel of the selected node at its right side. ``assets/style.css`` puts these parts in their places.
"""

from __future__ import annotations

import streamlit as st

from engine.errors import InvalidPipeline, SylvaError
from engine.pipeline_file import parse
from ui.studio.builder.browser_tab import current_pipeline, is_open, switch_to
from ui.studio.builder.node_panel import panel
from ui.studio.builder.node_results import node_result
from ui.studio.builder.node_states import node_views
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.builder.pipeline_list import pipeline_list, unreadable
from ui.studio.builder.toolbar import begin, problem_list, save_state, toolbar
from ui.studio.canvas import Edited, RunRequest, canvas
from ui.studio.canvas.protocol import selection_in
from ui.studio.screen_text import plain
from ui.studio.widgets import errors_shown

LOOK_SECONDS = 0.5
"""Time between two looks at a live run."""

SAVE_SECONDS = 5.0
"""Time between two tries to save."""

CANVAS = "canvas"
CANVAS_HEIGHT = "calc(100vh - var(--sylva-bars))"
"""All that the bars at the top of the window leave; their height is set in ``style.css``."""


def page() -> None:
    """Draw the pipeline that the address names, or the list."""
    try:
        opened = current_pipeline()
    except SylvaError as error:
        unreadable(error)
        return
    with errors_shown():
        if opened:
            _draw_pipeline(opened)
        else:
            pipeline_list()


def _draw_pipeline(opened: OpenPipeline) -> None:
    """Draw an open pipeline.

    Its parts are drawn again by themselves while a run is live, to follow it, or while edits are
    unsaved, to try again to save them.
    """
    # A file that a node reads may have changed while the user was on another page.
    opened.forget_problems()
    _refresh_run(opened)
    _announce_end(opened)
    opened.poll_seconds = _poll_seconds(opened)
    st.fragment(_draw_parts, run_every=opened.poll_seconds)(opened)


def _poll_seconds(opened: OpenPipeline) -> float | None:
    """Return how often to look for news without a click; None if there cannot be any."""
    if opened.running:
        return LOOK_SECONDS
    return SAVE_SECONDS if opened.save_error else None


# The page does not see errors of a fragment.
@errors_shown()
def _draw_parts(opened: OpenPipeline) -> None:
    """Draw all parts, in the order in which they know of each other.

    The toolbar comes first on the page, but the save state in it is known only after the canvas has
    sent its edits.
    """
    _refresh_run(opened)
    opened.refresh()
    _rerun_if_stale(opened)
    slots = toolbar(opened, _selection(opened))
    _show_notice(opened)
    with st.container(key="stage"):
        selection = _canvas(opened)
    with slots.save_state:
        save_state(opened)
    with slots.problems:
        problem_list(opened)
    with st.container(key="panel"):
        panel(opened, selection)
    _rerun_if_stale(opened)


def _rerun_if_stale(opened: OpenPipeline) -> None:
    """Draw the whole page again for another pipeline, or to poll at another interval."""
    # A fragment cannot change its own interval; only a drawing of the whole page can.
    if not is_open(opened) or _poll_seconds(opened) != opened.poll_seconds:
        st.rerun(scope="app")


def _refresh_run(opened: OpenPipeline) -> None:
    """Read what is new of the last run; an error becomes a notice and does not stop the page."""
    try:
        opened.refresh_run()
    except SylvaError as error:
        opened.notice = str(error)


def _show_notice(opened: OpenPipeline) -> None:
    """Show the notice of the pipeline once."""
    if opened.notice:
        st.toast(plain(opened.notice), icon=":material/info:", duration="long")
        opened.notice = ""


def _selection(opened: OpenPipeline) -> tuple[str, ...]:
    """Return the selection that the browser sent last.

    The toolbar needs it, and is drawn before the canvas.
    """
    sent = st.session_state.get(CANVAS)
    return selection_in(opened.pipeline, sent.get("selection")) if sent is not None else ()


def _canvas(opened: OpenPipeline) -> tuple[str, ...]:
    """Draw the canvas, handle what the user did there, and return the selected nodes."""
    return canvas(
        opened.pipeline,
        epoch=opened.canvas_version,
        catalog=opened.catalog,
        problems=opened.problems,
        states=lambda pipeline: node_views(
            pipeline,
            opened.run,
            opened.run_pipeline,
            opened.run_expanded.copies if opened.run_expanded else None,
            lambda name: node_result(opened, name),
        ),
        key=CANVAS,
        pipeline_id=opened.pipeline_id,
        reveal=opened.reveal,
        show_panel=opened.show_panel,
        on_edit=lambda edited: _apply_edit(opened, edited),
        on_port=opened.show_output,
        on_run=lambda request: _run(opened, request),
        on_import=lambda name, text: _import(opened, name, text),
        height=CANVAS_HEIGHT,
    )


def _apply_edit(opened: OpenPipeline, edited: Edited) -> None:
    """Save an edit of the canvas; if the file was changed elsewhere, draw the new version."""
    if not opened.apply_canvas_edit(edited):
        st.rerun(scope="fragment")


def _import(opened: OpenPipeline, name: str, text: str) -> None:
    """Open the pipeline of a JSON file that was dropped on the canvas, as a new pipeline."""
    try:
        pipeline = parse(text.encode())
    except InvalidPipeline as error:
        opened.notice = f"“{name}” cannot be read as a pipeline: {error.problems[0].message}"
        return
    opened.show_errors(lambda: switch_to(opened.library.create(pipeline)))


def _run(opened: OpenPipeline, request: RunRequest) -> None:
    """Start the run that was requested on the canvas."""
    match request:
        case (_, "all"):
            begin(opened, opened.start)
        case (node, "to"):
            begin(opened, lambda: opened.start(to=(node,)))
        case (node, "from"):
            begin(opened, lambda: opened.start(force_from=(node,)))


def _announce_end(opened: OpenPipeline) -> None:
    """Bring the node that failed into view, once, when a run has ended."""
    run = opened.run
    if not opened.announce_end or run is None or run.live:
        return
    # Only once: after that the user decides what is open.
    opened.announce_end = False
    failed = run.nodes_in("failed")
    if failed and opened.source_node(failed[0]) in opened.pipeline.nodes:
        opened.show(opened.source_node(failed[0]))
