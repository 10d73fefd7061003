"""The Runs page: the history of runs, or one run, as the address says."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.errors import SylvaError
from engine.run_summaries import RunSummary
from engine.text import clock, duration, readable
from ui.studio import links
from ui.studio.previews.reports import result_text
from ui.studio.runs.cluster import draw_cluster
from ui.studio.runs.remarks import read_remark
from ui.studio.runs.run_view import LOOK_SECONDS, draw_run, steady
from ui.studio.screen_text import plain, state_label, tone
from ui.studio.session import studio
from ui.studio.widgets import errors_shown

PAGE_LENGTH = 50
STATES = ("running", "done", "failed", "cancelled", "interrupted")
SHOWN = "runs-shown"
FAINT = "33"
"""The opacity of a colour that text is readable on, as the end of a hexadecimal colour."""


def page() -> None:
    """Draw the run that the address names, ``?run=ID``, else the list of runs."""
    try:
        run_id = st.query_params.get("run")
        if run_id:
            draw_run(run_id)
        else:
            _draw_history()
    except SylvaError as error:
        st.error(plain(readable(str(error))))
        if st.query_params.get("run") and st.button("All runs"):
            st.query_params.pop("run")
            st.rerun()


def _draw_history() -> None:
    """Draw the search fields and the list.

    The list is drawn again by itself while a run is live.
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("Runs", anchor=False, width="stretch")
        draw_cluster()
    if not studio().runs.list(1):
        st.info("No runs yet. Open a pipeline under Build and press Run; it then appears here.")
        return
    with st.container(horizontal=True, gap="medium"):
        hint = "pipeline, tag or note"
        words = st.text_input("Find", placeholder=hint, key="runs-words", width=320)
        states = st.pills("State", STATES, selection_mode="multi", key="runs-states")
    # Only a list with a live run has to be drawn again by itself.
    live = any(run.live for run in _matching_runs(words, states)[0])
    with steady("runs-live"):
        st.fragment(_draw_list, run_every=LOOK_SECONDS if live else None)(words, states, live)


def _matching_runs(words: str, states: list[str]) -> tuple[list[RunSummary], bool]:
    """Return the newest runs that match, and whether there are more.

    ``words`` are looked for in name, id, tags and note. A run that is starting counts as running.
    """
    limit = st.session_state.get(SHOWN, PAGE_LENGTH)
    # One more than is shown: that it exists means that there are more.
    if "running" in states:
        # For a user it is the same.
        states = [*states, "starting"]
    if not words.strip():
        runs = studio().runs.list(limit + 1, states=states)
    else:
        runs = [run for run in studio().runs.list(states=states) if _has_text(run, words.strip())]
    return runs[:limit], len(runs) > limit


def _has_text(run: RunSummary, words: str) -> bool:
    """Return whether a run has the words in its name, its id, its tags or its note."""
    if any(words.casefold() in text.casefold() for text in (run.name, run.id)):
        return True
    return read_remark(studio().workspace, run.id).has_text(words)


# The page does not see errors of a fragment.
@errors_shown()
def _draw_list(words: str, states: list[str], was_live: bool) -> None:
    """Draw the runs that match, and what can be done with the ticked ones.

    ``was_live`` is whether the fragment looks for news by itself. If that has changed, the whole
    page is drawn again, so that it starts or stops.
    """
    runs, more = _matching_runs(words, states)
    if any(run.live for run in runs) != was_live:
        st.rerun()
    if not runs:
        st.info("No run matches. Change the search text or the states above.")
        return
    chosen = _draw_table(runs)
    if more:
        st.button("Show more", on_click=_show_more)
    if len(chosen) == 1 and st.button("Open run", type="primary"):
        open_run(chosen[0].id)
    if len(chosen) > 1 and st.button("Compare", type="primary", icon=":material/compare_arrows:"):
        links.to_compare([run.id for run in chosen])
    if not chosen:
        st.caption("Click a run to open it. Tick two or more to compare them.")


def _show_more() -> None:
    """Show one more page of runs."""
    st.session_state[SHOWN] = st.session_state.get(SHOWN, PAGE_LENGTH) + PAGE_LENGTH


def open_run(run: str) -> None:
    """Show one run; its address can be saved and shared."""
    st.query_params["run"] = run
    st.rerun()


def history_table(runs: list[RunSummary]) -> pd.DataFrame:
    """Return the runs as the table shows them, one row for each."""
    remarks = [read_remark(studio().workspace, run.id) for run in runs]
    return pd.DataFrame(
        {
            "Pipeline": [readable(run.name) for run in runs],
            "Started": [clock(run.started or run.created) for run in runs],
            "Took": ["" if run.live else duration(run.seconds) for run in runs],
            "State": [state_label(run.state) for run in runs],
            "Result": [readable(result_text(run)) for run in runs],
            "Tags": [list(remark.tags) for remark in remarks],
            "Note": [readable(remark.note) for remark in remarks],
        }
    )


def _draw_table(runs: list[RunSummary]) -> list[RunSummary]:
    """Draw the table and return the ticked runs. A click on a cell opens its run."""
    picked = st.dataframe(
        history_table(runs).style.map(_state_style, subset=["State"]),
        hide_index=True,
        column_config={"Tags": st.column_config.ListColumn()},
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"],
        # A new run shifts the rows, and with them what is ticked.
        key=f"runs-table-{runs[0].id}",
        height=min(38 + 35 * len(runs), 560),
    )["selection"]
    if picked["cells"]:
        open_run(runs[picked["cells"][0][0]].id)
    return [runs[row] for row in picked["rows"] if row < len(runs)]


def _state_style(mark: str) -> str:
    """Return the CSS of a cell with a state, such as ``✓ done``; it fits both themes."""
    return f"background-color: {tone(mark.split()[-1]).strong}{FAINT}"
