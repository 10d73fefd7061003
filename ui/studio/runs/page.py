"""The Runs page: the history of runs, or one run, as the address says."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.errors import SylvaError
from engine.summaries import RunSummary
from engine.text import clock, duration, readable
from ui.studio import links
from ui.studio.markdown import plain
from ui.studio.runs.history import History
from ui.studio.runs.run_view import LOOK_SECONDS, draw_run, history_of, steady
from ui.studio.runs.state_style import INK, marked, tone
from ui.studio.session import studio

PAGE_LENGTH = 50
STATES = ("running", "done", "failed", "cancelled", "interrupted")
SHOWN = "runs-shown"


def page() -> None:
    """Draw what the address asks for: ``?run=ID`` one run, else the history."""
    try:
        wanted = st.query_params.get("run")
        if wanted:
            draw_run(wanted)
        else:
            _draw_history()
    except SylvaError as error:
        st.error(plain(readable(str(error))))
        if st.query_params.get("run") and st.button("All runs"):
            st.query_params.pop("run")
            st.rerun()


def _history() -> History:
    return history_of(str(studio().workspace.root), studio().store)


def _draw_history() -> None:
    st.subheader("Runs", anchor=False)
    with studio().log() as log:
        if not log.runs(1):
            st.info("No runs yet. Open a pipeline under Build and press Run; it then appears here.")
            return
    with st.container(horizontal=True, gap="medium"):
        words = st.text_input("Find", placeholder="name or id", key="runs-words", width=320)
        states = st.pills("State", STATES, selection_mode="multi", key="runs-states")
    live = any(run.live for run in _found(words, states)[0])
    with steady("runs-live"):
        st.fragment(_draw_list, run_every=LOOK_SECONDS if live else None)(words, states, live)


def _found(words: str, states: list[str]) -> tuple[list[RunSummary], bool]:
    wanted = [*states, "starting"] if "running" in states else states
    with studio().log() as log:
        return _history().newest(log, words=words, states=wanted, limit=st.session_state.get(SHOWN, PAGE_LENGTH))


def _draw_list(words: str, states: list[str], was_live: bool) -> None:
    try:
        _draw_found(words, states, was_live)
    except SylvaError as error:
        st.error(plain(readable(str(error))))


def _draw_found(words: str, states: list[str], was_live: bool) -> None:
    runs, more = _found(words, states)
    if any(run.live for run in runs) != was_live:
        st.rerun()
    if not runs:
        st.info("No run fits; change the words or the states above.")
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
    st.session_state[SHOWN] = st.session_state.get(SHOWN, PAGE_LENGTH) + PAGE_LENGTH


def open_run(run: str) -> None:
    """Show one run; its address can be kept and sent around."""
    st.query_params["run"] = run
    st.rerun()


def history_table(runs: list[RunSummary], headlines: list[str]) -> pd.DataFrame:
    """The runs as a table shows them."""
    return pd.DataFrame(
        {
            "Pipeline": [readable(run.name) for run in runs],
            "Started": [clock(run.started or run.created) for run in runs],
            "Took": ["" if run.live else duration(run.seconds) for run in runs],
            "State": [marked(run.state) for run in runs],
            "Result": [readable(headline) for headline in headlines],
            "Id": [run.id for run in runs],
        }
    )


def _draw_table(runs: list[RunSummary]) -> list[RunSummary]:
    """The table; the ticked runs. A click on a cell opens its run."""
    with studio().log() as log:
        table = history_table(runs, [_history().headline(log, run) for run in runs])
    picked = st.dataframe(
        table.style.map(_state_style, subset=["State"]),
        hide_index=True,
        on_select="rerun",
        selection_mode=["multi-row", "single-cell"],
        key=f"runs-table-{runs[0].id}",  # a new run shifts the rows, and with them what is ticked
        height=min(38 + 35 * len(runs), 560),
    )["selection"]
    if picked["cells"]:
        open_run(runs[picked["cells"][0][0]].id)
    return [runs[row] for row in picked["rows"] if row < len(runs)]


def _state_style(mark: str) -> str:
    return f"color: {INK}; background-color: {tone(mark.split()[-1]).ground}"
