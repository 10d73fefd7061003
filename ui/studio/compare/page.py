"""The Compare page: a leaderboard of evaluations, and the ticked ones side by side.

The address names the runs, ``/compare?runs=A,B``. Without it, the newest runs of the workspace are
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import streamlit as st

from deepforest.metrics import METRIC_INFO, lower_is_better, metric_title
from engine.errors import SylvaError
from engine.events import RunRow
from engine.pipeline_diff import changes
from engine.text import clock, counted, readable
from engine.values import Report
from ui.studio import links, plots
from ui.studio.compare.leaderboard import (
    Evaluations,
    Line,
    alike,
    board_rows,
    data_names,
    first_measure,
    measure_title,
    measures_of,
    names_of,
    ranked,
)
from ui.studio.previews.reports import show_overlaid_curves
from ui.studio.runs.run_view import open_pipeline_button
from ui.studio.screen_text import plain, shortened, source_title, time_of_day
from ui.studio.session import studio
from ui.studio.widgets import (
    as_arrow,
    as_csv,
    chart,
    download,
    draw_tabs,
    errors_shown,
    grid,
    metric_column,
)

ADDRESS = "runs"
MOST_RUNS = 200
LATEST = (20, 50, MOST_RUNS)
TICKED_AT_FIRST = 4
MOST_DRAWN = 12
SCROLLBAR = 16
"""Pixels added to a table, so that its horizontal scroll bar does not cover the last row."""
RATES = tuple(name for name in METRIC_INFO if name.startswith("recall_at_"))
HOW_TO_BEGIN = (
    "Build a pipeline that ends in Predict and Evaluate, and press Run: each evaluation is then a "
    "line here. To compare certain runs, tick them under Runs and press Compare."
)


def page() -> None:
    """Draw the page, or why it cannot be drawn."""
    st.subheader("Compare", anchor=False)
    with errors_shown():
        _draw()


@st.cache_resource(show_spinner=False)
def _evaluations(workspace: str) -> Evaluations:
    """Return the evaluations of a workspace; all browser tabs share what was read."""
    return Evaluations(studio().runs)


@st.cache_resource(show_spinner=False, max_entries=100)
def _report(workspace: str, digest: str, _line: Line) -> Report | None:
    """Return an evaluation with its curves, from the cache; None if it is damaged or deleted."""
    return studio().runs.open_report(_line.output)


def _root() -> str:
    """Return the folder of the workspace, as part of a cache key."""
    return str(studio().workspace.root)


def requested_runs(address: str) -> list[str]:
    """Return the ids of the runs that an address names, each once."""
    ids = dict.fromkeys(part.strip() for part in address.split(",") if part.strip())
    return list(ids)[:MOST_RUNS]


# What is compared


def _draw() -> None:
    """Draw the leaderboard, or how to get one."""
    requested = requested_runs(st.query_params.get(ADDRESS, ""))
    with st.spinner("Reading the evaluations…", show_time=True):
        with studio().runs.log() as log:
            newest = log.runs(st.session_state.get("compare-latest", LATEST[1]))
        if not newest:
            st.info(f"No runs yet. {HOW_TO_BEGIN}")
            return
        rows = _find_runs(requested) if requested else newest
        lines = _evaluations(_root()).lines(rows)
    if lines:
        _draw_board(requested, rows, lines)
    else:
        _draw_scope(requested, rows)
        if rows:
            these = "These runs have" if len(rows) > 1 else "This run has"
            st.info(f"{these} no evaluation. {HOW_TO_BEGIN}")


def _find_runs(requested: Sequence[str]) -> list[RunRow]:
    """Return the runs that an address names, and show which of them are missing."""
    rows: dict[str, RunRow] = {}
    missing = []
    for run_id in requested:
        try:
            row = studio().runs.find(run_id)
            rows.setdefault(row.id, row)
        except SylvaError:
            missing.append(shortened(run_id, 40))
    if missing:
        more = " …" if len(missing) > 5 else ""
        st.warning(plain(f"These runs are not in this workspace: {', '.join(missing[:5])}{more}"))
    return list(rows.values())


def _draw_scope(requested: Sequence[str], rows: Sequence[RunRow]) -> None:
    """Draw which runs the lines are from, and how to choose others."""
    if not requested:
        st.selectbox(
            "Runs",
            LATEST,
            index=1,
            format_func=lambda count: f"Newest {count}",
            key="compare-latest",
            width=140,
        )
        return
    names = ", ".join(dict.fromkeys(shortened(row.name, 40) for row in rows))
    label, hint = "See the newest runs", None
    if rows:
        label = f"{counted(len(rows), 'run')} chosen"
        hint = f"{plain(shortened(names, 200))}. Press to see the newest runs instead."
    st.button(label, on_click=_forget_runs, icon=":material/close:", help=hint)


def _forget_runs() -> None:
    """Compare the newest runs instead of those in the address."""
    st.query_params.pop(ADDRESS, None)


# The leaderboard


def _draw_board(requested: Sequence[str], runs: Sequence[RunRow], lines: list[Line]) -> None:
    """Draw the filters, the leaderboard, and what is ticked in it.

    ``requested`` are the ids in the address, ``runs`` the runs of these lines.
    """
    data = data_names(lines)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        _draw_scope(requested, runs)
        shown = _filtered(lines, data)
        measure = _draw_measure(shown) if shown else None
        order = ranked(shown, measure) if measure else shown
        rows = board_rows(order, data)
        file = "leaderboard.csv", "text/csv"
        download("Leaderboard as CSV", as_csv(rows), *file, "compare-csv", disabled=not rows)
    if not shown:
        st.info("No evaluation matches. Choose other pipelines or other data above.")
        return
    ticked = _draw_table(order, rows, measure)
    kinds = len({data[line.key] for line in shown})
    if kinds > 1:
        st.caption(
            f"These lines were evaluated on {kinds} different sets of rows, see the column Data. "
            "Only lines with the same rows can be compared: choose one set under Data above."
        )
    if ticked:
        _draw_ticked(ticked, data)
    else:
        st.caption(
            "Tick lines to see their curves, recalls, confusion matrices and settings side by side."
        )


def _filtered(lines: list[Line], data: dict[str, str]) -> list[Line]:
    """Draw the filters that are of use, and return the lines that pass them.

    With a single pipeline there is nothing to choose, and the same for the data.
    """
    pipelines = list(dict.fromkeys(line.pipeline for line in lines))
    kinds = list(dict.fromkeys(data.values()))
    chosen, kind = [], None
    if len(pipelines) > 1:
        chosen = st.multiselect(
            "Pipelines", pipelines, key="compare-pipelines", placeholder="all", width=320
        )
    if len(kinds) > 1:
        kind = st.selectbox(
            "Data",
            kinds,
            None,
            key="compare-data",
            placeholder="all",
            width=280,
            format_func=readable,
            help="The evaluated rows. Only lines with the same rows can be compared.",
        )
    fitting = [line for line in lines if not chosen or line.pipeline in chosen]
    return [line for line in fitting if kind is None or data[line.key] == kind]


def _draw_measure(lines: list[Line]) -> str | None:
    """Draw the choice of the measure to rank by; return None if no line has any."""
    measures = measures_of(lines)
    if not measures:
        return None
    return st.selectbox(
        "Ranked by",
        measures,
        measures.index(first_measure(lines)),
        key="compare-measure",
        width=200,
        format_func=lambda name: measure_title(lines, name),
        help="The best come first, those without a value last.",
    )


def _draw_table(order: list[Line], rows: list[dict[str, Any]], measure: str | None) -> list[Line]:
    """Draw the leaderboard and return the ticked lines.

    At first the best lines are ticked that evaluated the same rows as the very best.
    """
    # Lines of other data cannot be compared with the best one.
    first = alike(order, TICKED_AT_FIRST)
    settings = {
        "selection_mode": "multi-row",
        "on_select": "rerun",
        "selection_default": {"selection": {"rows": [order.index(line) for line in first]}},
        "column_config": _columns(order, measure),
        "height": min(38 + 35 * len(rows) + SCROLLBAR, 420),
    }
    # The file has the full time, the page a short one.
    shown = [
        row | {"started": time_of_day(line.started)} for row, line in zip(rows, order, strict=True)
    ]
    picked = st.dataframe(
        as_arrow(shown), hide_index=True, placeholder="–", key=table_key(order), **settings
    )  # type: ignore[call-overload]
    return [order[row] for row in picked["selection"]["rows"] if row < len(order)]


def table_key(order: Sequence[Line]) -> str:
    """Return the key of the table. Another order is another table: ticks belong to its rows."""
    return f"compare-board-{crc32(' '.join(line.key for line in order).encode()):x}"


def _columns(lines: Sequence[Line], measure: str | None) -> dict[str, Any]:
    """Return the titles and formats of the columns; the measure of the ranking has a mark."""
    text = st.column_config.TextColumn
    config: dict[str, Any] = {
        "rank": st.column_config.NumberColumn("#", width=44, pinned=True),
        "evaluation": text("Evaluation", pinned=True, width="medium"),
        "started": text("Started", help="When the run began."),
        "model": text("Model"),
        "pipeline": text("Pipeline"),
        "data": text(
            "Data", help="The evaluated rows; only lines with the same rows can be compared."
        ),
        "run": text("Run"),
        "node": text("Node"),
    }
    for name in [*measures_of(lines), "threshold"]:
        mark = ""
        if name == measure:
            mark = " ▴" if lower_is_better(name) else " ▾"
        config[name] = metric_column(f"{measure_title(lines, name)}{mark}", name)
    return config


# The ticked lines side by side


def _draw_ticked(ticked: list[Line], data: dict[str, str]) -> None:
    """Draw the ticked lines side by side, in tabs."""
    kinds = list(dict.fromkeys(data[line.key] for line in ticked))
    if len(kinds) > 1:
        data_sets = "; ".join(kinds[:4]) + (" …" if len(kinds) > 4 else "")
        text = (
            f"The ticked lines were evaluated on different rows ({data_sets}). "
            "Their measures cannot be compared."
        )
        st.warning(plain(text))
    if len(ticked) > MOST_DRAWN:
        st.caption(f"Only the first {MOST_DRAWN} of {len(ticked)} ticked lines are shown.")
    drawn = ticked[:MOST_DRAWN]
    draw_tabs(
        {
            "Curves": lambda: _draw_curves(_reports(drawn)),
            "Recall at rates": lambda: _draw_recalls(drawn),
            "Confusion": lambda: _draw_confusions(_reports(drawn)),
            "Settings": lambda: _draw_changes(drawn),
            "Runs": lambda: _draw_runs(drawn),
        },
        "compare",
    )


def _reports(lines: list[Line]) -> list[tuple[str, Report]]:
    """Return names and whole reports of the lines, and show which of them are lost."""
    # Only these tabs need curves and counts; the leaderboard has figures alone.
    read = [
        (name, _report(_root(), line.output.digest, line))
        for name, line in zip(names_of(lines), lines, strict=True)
    ]
    stored = [(name, report) for name, report in read if report is not None]
    if len(stored) < len(lines):
        missing = [name for name, report in read if report is None]
        names = ", ".join(missing)
        st.warning(plain(f"Deleted or damaged: {names}. Run the pipeline again to restore them."))
    return stored


def _draw_curves(reports: list[tuple[str, Report]]) -> None:
    """Draw the curves of all evaluations on top of each other, for one class."""
    models: list[dict[str, Any]] = [
        {"name": name, "curves": report.data.get("curves") or []} for name, report in reports
    ]
    if models:
        show_overlaid_curves(models, "compare", ("precision_recall", "roc"))


def _draw_confusions(reports: list[tuple[str, Report]]) -> None:
    """Draw the confusion matrices in two columns."""
    for start in range(0, len(reports), 2):
        for index, column in enumerate(st.columns(2), start=start):
            confusion = reports[index][1].data.get("confusion") if index < len(reports) else None
            if confusion:
                with column:
                    figure = plots.confusion_matrix(
                        confusion["labels"], confusion["counts"], title=reports[index][0]
                    )
                    chart(figure, f"compare-confusion-{index}")


def _draw_recalls(lines: list[Line]) -> None:
    """Draw the recall if only one row in 100, 1,000 or 10,000 can be checked."""
    rows = [
        {"name": name, **line.evaluation.measures}
        for name, line in zip(names_of(lines), lines, strict=True)
    ]
    if not any(row.get(rate) is not None for row in rows for rate in RATES):
        st.caption(
            "These lines have no recall at a rate. It needs a positive class, which is a setting "
            "of Evaluate, and at least 100 rows."
        )
        return
    rates = [(rate, metric_title(rate)) for rate in RATES]
    chart(plots.recall_at_rates(rows, rates), "compare-recalls")
    # The smallest table decides what can be measured for all lines.
    fewest = min(line.evaluation.rows for line in lines)
    if fewest < 10_000:
        st.caption(
            f"With {fewest:,} rows, one in 10,000 is less than one row: it cannot be measured."
        )


def _draw_changes(lines: list[Line]) -> None:
    """Draw in which settings the pipelines of the runs differ."""
    runs = list(dict.fromkeys(line.run for line in lines))
    if len(runs) == 1:
        st.caption(
            "All ticked lines are from one run. "
            "Tick lines of two runs to see how their settings differ."
        )
        return
    rows = [studio().runs.find(run) for run in runs]
    pipelines = {run_title(row): studio().runs.written_pipeline(row) for row in rows}
    # A pipeline of another version may not be readable.
    readable_pipelines = {title: each for title, each in pipelines.items() if each}
    differences = changes(readable_pipelines, studio().catalog, source_title=source_title)
    if differences:
        height = min(38 + 35 * len(differences) + SCROLLBAR, 420)
        grid(differences, "compare-changes", height=height)
    else:
        st.caption("These runs have the same nodes, connections and settings.")


def run_title(row: RunRow) -> str:
    """Return the name of a run for a column, with the part of its id that is unique for the day."""
    return f"{shortened(row.name, 24)} · {row.id[9:] or row.id}"


def _draw_runs(lines: list[Line]) -> None:
    """Draw the runs of the lines, with ways to open each."""
    runs: dict[str, Line] = {}
    for line in lines:
        runs.setdefault(line.run, line)
    for line in runs.values():
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            st.markdown(f"**{plain(line.pipeline)}**", width="content")
            st.caption(plain(f"started {clock(line.started)} · {line.run}"), width="content")
            st.space("stretch")
            if st.button("Open run", icon=":material/history:", key=f"compare-run-{line.run}"):
                links.to_run(line.run)
            if line.inspect and st.button(
                "Inspect", icon=":material/layers:", key=f"compare-inspect-{line.run}"
            ):
                links.to_inspect(line.run, line.inspect)
            open_pipeline_button(line.run, f"compare-open-{line.run}")
