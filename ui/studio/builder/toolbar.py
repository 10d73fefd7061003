"""The row above the canvas: name, save state, file menu, and buttons that start and stop runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import streamlit as st

from engine.edits import set_name
from engine.errors import Problem, RankedOnTestRows, SylvaError
from engine.export_python import check_exportable, export_python
from engine.pipeline import Pipeline
from engine.pipeline_file import dumps
from engine.text import counted
from nodes.models.ranking import chosen_on_validation_rows
from ui.studio.builder import browser_tab
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.new_pipelines import save_copy
from ui.studio.screen_text import plain, problem_text, time_of_day
from ui.studio.streamlit_compat import DeltaGenerator
from ui.studio.widgets import download

RESUMABLE = ("failed", "cancelled", "interrupted")
"""States of a run that Retry resumes."""

RUN_ALL_AGAIN = "Run all again (ignore cache)"
PARTS = ("Run to here", "Run from here", RUN_ALL_AGAIN)
MORE = "more"
MOST_PROBLEMS = 50


class Slots(NamedTuple):
    """Places in the row for what is known only after the canvas has sent its edits."""

    save_state: DeltaGenerator
    problems: DeltaGenerator


def toolbar(opened: OpenPipeline, chosen: tuple[str, ...]) -> Slots:
    """Draw the row, and return the slots for ``save_state`` and ``problem_list``.

    What a button does is its callback: the next rerun may cancel a rerun, but not a callback.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="toolbar"):
        st.button(
            "Pipelines",
            icon=":material/arrow_back:",
            type="tertiary",
            help="All pipelines",
            on_click=browser_tab.close,
        )
        _name(opened)
        _file_menu(opened)
        save_state_slot = st.empty()
        st.space("stretch")
        problems_slot = st.empty()
        _run_buttons(opened, chosen)
    return Slots(save_state_slot, problems_slot)


def _name(opened: OpenPipeline) -> None:
    """Draw the name of the pipeline, which can be edited."""
    name = opened.pipeline.name
    # Another name needs another widget: a widget in the browser keeps its own value.
    key = f"{opened.pipeline_id}/name/{name}"

    def rename() -> None:
        """Save the new name; an empty one is ignored."""
        new_name = st.session_state[key].strip()
        if new_name and new_name != opened.pipeline.name:
            opened.try_edit(lambda pipeline: set_name(pipeline, new_name))

    st.text_input(
        "Name",
        name,
        key=key,
        on_change=rename,
        max_chars=200,
        label_visibility="collapsed",
        width=260,
    )


def save_state(opened: OpenPipeline) -> None:
    """Draw when the pipeline was saved, or that it was not and why.

    Call it after the canvas was drawn: an edit may have just been saved.
    """
    why = opened.save_error or opened.refused_edit
    if why:
        st.badge("not saved", icon=":material/error:", color="red", help=plain(why))
    else:
        st.caption(f"saved {time_of_day(opened.saved_at)}", width="content")


def _file_menu(opened: OpenPipeline) -> None:
    """Draw the menu: export, duplicate, delete."""
    with st.popover("File", icon=":material/folder_open:", key=f"file/{opened.pipeline_id}"):
        # What is on screen, also if it is not saved.
        text = dumps(opened.pipeline)
        file = f"{opened.pipeline_id}.json"
        download("Export JSON", text, file, "application/json", "export-json", width="stretch")
        _export_python(opened)
        copy, icon = partial(_do, opened, _duplicate), ":material/content_copy:"
        st.button("Duplicate", icon=icon, width="stretch", on_click=copy)
        with st.expander("Delete", icon=":material/delete:"):
            st.caption("Its runs are not deleted.")
            st.button("Delete this pipeline", width="stretch", on_click=_do, args=(opened, _delete))


def _export_python(opened: OpenPipeline) -> None:
    """Draw the button; the script is made when it is pressed, since that takes a moment."""
    why_not = _cannot_be_python(opened)
    hint = "Download a Python script that gives the same result without the studio."
    download(
        "Export as Python",
        lambda: export_python(opened.pipeline, opened.catalog),
        f"{opened.pipeline_id}.py",
        "text/x-python",
        "export-python",
        icon=":material/code:",
        width="stretch",
        help=hint,
        refused=why_not,
    )


def _cannot_be_python(opened: OpenPipeline) -> str:
    """Return why the pipeline cannot be exported as Python; empty if it can."""
    if not opened.pipeline.nodes:
        return "The pipeline has no nodes yet."
    if opened.problems():
        return "Fix the problems first (press Validate to see them)."
    try:
        check_exportable(opened.pipeline, opened.catalog)
    except SylvaError as error:
        return str(error)
    return ""


# Runs


def _run_buttons(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    """Draw the buttons for runs; ``chosen`` are the selected nodes."""
    run, running = opened.run, opened.running
    st.button(
        "Validate",
        icon=":material/check:",
        help="Check the pipeline and the files that it reads",
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
        # "Here" needs exactly one selected node.
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
        help="Stop the run; Retry continues it later",
        on_click=_do,
        args=(opened, OpenPipeline.stop),
    )
    st.button(
        "Retry",
        icon=":material/replay:",
        disabled=run is None or run.state not in RESUMABLE,
        help="Continue the last run; finished nodes do not run again",
        on_click=begin,
        args=(opened, opened.retry),
    )


def _run_part(opened: OpenPipeline, chosen: tuple[str, ...]) -> None:
    """Start the run that was chosen in the menu More."""
    match st.session_state[MORE]:
        case "Run to here":
            begin(opened, partial(opened.start, to=chosen))
        case "Run from here":
            begin(opened, partial(opened.start, force_from=chosen))
        # A bare name would be a pattern that matches everything.
        case choice if choice == RUN_ALL_AGAIN:
            begin(opened, opened.start_again)


def _do(opened: OpenPipeline, action: Callable[[OpenPipeline], None]) -> None:
    """Call a function with the pipeline; an error of ours is shown as a notice."""
    opened.show_errors(lambda: action(opened))


def _duplicate(opened: OpenPipeline) -> None:
    """Save a copy and open it, with the edits that are not saved yet."""
    browser_tab.switch_to(save_copy(opened.library, opened.pipeline))


def _delete(opened: OpenPipeline) -> None:
    """Delete the pipeline and show the list."""
    opened.delete()
    browser_tab.close()


def begin(opened: OpenPipeline, start: Callable[[], None]) -> None:
    """Start a run; if it is refused, the first problem is shown instead.

    ``start`` starts it, and raises ``SylvaError`` if that is not possible.
    """
    if opened.show_errors(start):
        opened.announce_end = True


def validate(opened: OpenPipeline) -> None:
    """Check the pipeline again, and show how many problems there are."""
    # The user may have fixed a file since the last check.
    opened.forget_problems()
    problems = opened.problems()
    if problems:
        opened.notice = f"{counted(len(problems), 'problem')}; see the list in the bar above."
    elif opened.hints():
        hints = counted(len(opened.hints()), "hint")
        opened.notice = f"The pipeline is ready to run. {hints}; see the list in the bar above."
    else:
        opened.notice = "No problems found; the pipeline is ready to run."


# Problems


def problem_list(opened: OpenPipeline) -> None:
    """Draw the list of problems and hints behind a button; a click brings the node into view."""
    found, hints = opened.problems(), opened.hints()
    if not (found or hints):
        return
    counts = [(len(found), "problem"), (len(hints), "hint")]
    title = ", ".join(counted(count, word) for count, word in counts if count)
    icon = ":material/error:" if found else ":material/lightbulb:"
    problems = [*found, *hints]
    with st.popover(title, icon=icon, type="tertiary", key="problems"):
        for index, problem in enumerate(problems[:MOST_PROBLEMS]):
            text = plain(problem_text(problem, opened.pipeline, opened.catalog))
            if problem.severity == "warning":
                text = f"Hint: {text}"
            if problem.node in opened.pipeline.nodes:
                st.button(
                    text,
                    key=f"problem-{index}",
                    type="tertiary",
                    on_click=_show_problem,
                    args=(opened, problem.node),
                )
            else:
                st.caption(text)
            _fix_button(opened, problem, index)
        if len(problems) > MOST_PROBLEMS:
            st.caption(f"… and {len(problems) - MOST_PROBLEMS} more.")


def _fix_button(opened: OpenPipeline, problem: Problem, index: int) -> None:
    """Draw a button that fixes a sweep that is ranked on test rows, if there is a fix."""
    if not isinstance(problem, RankedOnTestRows) or problem.node is None:
        return
    if chosen_on_validation_rows(opened.pipeline, opened.catalog, problem.node) is not None:
        st.button(
            "Choose on validation rows",
            key=f"fix-{index}",
            icon=":material/auto_fix_high:",
            help="Split holds out validation rows, and Choose best picks the best model on them. "
            "Only this model then predicts the test rows. Undo takes it back.",
            on_click=_fix,
            args=(opened, problem.node),
        )


def _fix(opened: OpenPipeline, node: str) -> None:
    """Let validation rows choose among the branches of a node, in one edit."""

    def edit(pipeline: Pipeline) -> Pipeline:
        return chosen_on_validation_rows(pipeline, opened.catalog, node) or pipeline

    if opened.try_edit(edit):
        words = "Validation rows choose the best model now; the test rows evaluate it once."
        # A notice that saving failed is more important.
        opened.notice = opened.notice or f"{words} Undo takes it back."


def _show_problem(opened: OpenPipeline, node: str) -> None:
    """Show the settings of a node that has a problem."""
    opened.shown_part = node, "Settings"
    opened.show(node)
