"""The Compare page: a leaderboard of evaluations, and the ticked ones side by side.

The address names the runs, ``/compare?runs=A,B``. Without it, the newest runs of the workspace are
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import streamlit as st

from deepforest.bootstrap import Difference
from deepforest.metrics import METRIC_INFO, lower_is_better, metric_title
from engine.errors import SylvaError
from engine.events import RunRow
from engine.pipeline import Node, Pipeline
from engine.pipeline_diff import ABSENT, changes
from engine.text import clock, counted, readable
from engine.values import Report
from nodes.models.uncertainty import difference, difference_text, interval_text, what_decides
from ui.studio import links, plots
from ui.studio.compare.leaderboard import (
    Evaluations,
    Line,
    SameRows,
    board_rows,
    first_measure,
    folded,
    groups_of,
    measure_title,
    measures_of,
    names_of,
    ranked,
)
from ui.studio.forms.fit_count import preset_info
from ui.studio.inspect.forest_source import FOREST
from ui.studio.plots.regression import predicted_against_true
from ui.studio.previews.reports import AGAINST, show_overlaid_curves
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
LONGEST_CHANGE = 60
MOST_DIFFERENCES = 50
"""Lines whose difference to the best is shown."""
NOT_ON_SCREEN = ("data", "run", "node")
"""Columns of the file that the page does not show, besides the limits of intervals."""
INTERVAL, DIFFERENCE = "interval", "difference"
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
            known = log.runs(MOST_RUNS)
        if not known:
            st.info(f"No runs yet. {HOW_TO_BEGIN}")
            return
        newest = known[: st.session_state.get("compare-latest", LATEST[1])]
        rows = _find_runs(requested) if requested else newest
        # The letters of test rows go by all runs, so that they are the same for any choice.
        every = {row.id: row for row in (*known, *rows)}
        evaluations = _evaluations(_root())
        lines = evaluations.lines(every.values())
    chosen = {row.id for row in rows}
    damaged = [row for row in rows if row.id in evaluations.damaged]
    if damaged:
        runs = ", ".join(run_titles(damaged[:5])) + (" …" if len(damaged) > 5 else "")
        st.warning(plain(f"Left out, because an evaluation of it cannot be read: {runs}."))
    groups = []
    for group in groups_of(lines):
        own = [line for line in group.lines if line.run in chosen]
        if own:
            groups.append(group._replace(lines=own))
    if groups:
        _draw_board(requested, rows, groups)
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


def _draw_board(
    requested: Sequence[str], runs: Sequence[RunRow], groups: Sequence[SameRows]
) -> None:
    """Draw the filters, the leaderboard of some test rows, and what is ticked in it.

    ``requested`` are the ids in the address, ``runs`` the runs of these lines.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        _draw_scope(requested, runs)
        group = _draw_group(groups)
        shown = folded(_of_pipelines(group.lines))
        measure = _draw_measure(shown) if shown else None
        order = ranked(shown, measure) if measure else shown
        rows = board_rows(order, group.title)
        file = "leaderboard.csv", "text/csv"
        download("Leaderboard as CSV", as_csv(rows), *file, "compare-csv", disabled=not rows)
    if not shown:
        st.info("No evaluation matches. Choose other pipelines or other test rows above.")
        return
    ticked = _draw_table(order, rows, measure)
    if measure:
        _draw_summary(order, measure)
    if ticked:
        _draw_ticked(ticked)
    else:
        st.caption(
            "Tick lines to see their curves, recalls, confusion matrices and settings side by side."
        )


def _draw_group(groups: Sequence[SameRows]) -> SameRows:
    """Draw the choice of the test rows; return those that are chosen, at first the newest."""
    newest = max(groups, key=lambda group: max(line.started for line in group.lines))
    if len(groups) == 1:
        return newest
    by_letter = {group.letter: group for group in groups}

    def words(letter: str) -> str:
        """Return test rows in words, with how many results they have."""
        group = by_letter[letter]
        return readable(f"{group.title} · {counted(len(folded(group.lines)), 'result')}")

    letter = st.selectbox(
        "Test rows",
        list(by_letter),
        list(by_letter).index(newest.letter),
        key="compare-rows",
        width=340,
        format_func=words,
        help="Results can be compared only if they were evaluated on the same rows.",
    )
    return by_letter[letter]


def _of_pipelines(lines: list[Line]) -> list[Line]:
    """Draw a filter by pipeline, if there are several, and return the lines that pass it."""
    pipelines = list(dict.fromkeys(line.pipeline for line in lines))
    if len(pipelines) == 1:
        return lines
    chosen = st.multiselect(
        "Pipelines", pipelines, key="compare-pipelines", placeholder="all", width=260
    )
    return [line for line in lines if not chosen or line.pipeline in chosen]


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
    """Draw the leaderboard and return the ticked lines; at first these are the best."""
    changed = changed_in(order)
    settings = {
        "selection_mode": "multi-row",
        "on_select": "rerun",
        "selection_default": {"selection": {"rows": list(range(len(order)))[:TICKED_AT_FIRST]}},
        "column_config": _columns(order, measure, changed),
        "height": min(38 + 35 * len(rows) + SCROLLBAR, 420),
    }
    certainty = _certainty(order, measure) if measure else [{} for _ in order]
    shown = []
    for row, line, sure in zip(rows, order, certainty, strict=True):
        # The file has the full time and the ids, the page a short time.
        texts = {"started": time_of_day(line.started), "runs": repeats_text(line)}
        visible = {name: value for name, value in row.items() if is_shown(name)}
        first = {name: visible.pop(name) for name in ("rank", "evaluation")}
        first["changed"] = changed.get(line.run, "")
        if measure:
            first[measure] = visible.pop(measure)
        shown.append(first | sure | visible | texts)
    picked = st.dataframe(
        as_arrow(shown), hide_index=True, placeholder="–", key=table_key(order), **settings
    )  # type: ignore[call-overload]
    return [order[row] for row in picked["selection"]["rows"] if row < len(order)]


def is_shown(column: str) -> bool:
    """Return whether the page shows a column of the file."""
    return column not in NOT_ON_SCREEN and not column.endswith(("_low", "_high"))


def repeats_text(line: Line) -> str:
    """Return that a result is in several runs; empty if it is in one."""
    runs = len({line.run, *(repeat.run for repeat in line.repeats)})
    return f"{runs} runs with the same result" if runs > 1 else ""


def _certainty(order: Sequence[Line], measure: str) -> list[dict[str, str]]:
    """Return for each line the interval of the measure, and its difference to the best.

    Both are empty where they are not known; no line has them if none is known.
    """
    sure: list[dict[str, str]] = []
    for line, gap in zip(order, _differences(order, measure), strict=True):
        limits = line.evaluation.intervals.get(measure)
        texts = {INTERVAL: "", DIFFERENCE: "best" if line is order[0] else ""}
        if limits:
            texts[INTERVAL] = interval_text(measure, limits)
        if gap:
            texts[DIFFERENCE] = difference_text(measure, gap)
        sure.append(texts)
    if any(texts[INTERVAL] for texts in sure):
        return sure
    return [{} for _ in order]


def _differences(order: Sequence[Line], measure: str) -> list[Difference | None]:
    """Return the difference of each line to the first; None beyond the first lines.

    Each difference reads a report, so only those are asked for that may have one.
    """
    gaps: list[Difference | None] = [None] * len(order)
    if measure not in order[0].evaluation.intervals:
        return gaps
    for rank, line in enumerate(order[1:MOST_DIFFERENCES], start=1):
        if measure not in line.evaluation.intervals:
            continue
        keys = line.output.digest, order[0].output.digest
        gaps[rank] = _difference(_root(), *keys, measure, line, order[0])
    return gaps


@st.cache_data(show_spinner="Computing the differences…", max_entries=5000)
def _difference(
    workspace: str, digest: str, best_digest: str, measure: str, _line: Line, _best: Line
) -> Difference | None:
    """Return the difference of two lines from the cache; None if it is not known."""
    report, best = (_report(workspace, each.output.digest, each) for each in (_line, _best))
    return None if report is None or best is None else difference(measure, report, best)


def _draw_summary(order: Sequence[Line], measure: str) -> None:
    """Say which lines are as good as the best one, and what would decide."""
    gaps = _differences(order, measure)
    tied = [rank for rank, gap in enumerate(gaps) if gap is not None and gap.is_tie]
    if not tied:
        return
    names = names_of(order, changed_in(order))
    shown = ", ".join(names[rank] for rank in tied[:4])
    more = f" and {len(tied) - 4} more" if len(tied) > 4 else ""
    reason = "Their differences are within the uncertainty of these rows."
    nearest = gaps[tied[0]]
    assert nearest is not None
    decides = what_decides(nearest, order[0].evaluation.rows)
    st.caption(plain(f"A tie with {names[0]}: {shown}{more}. {reason} {decides}"))


def table_key(order: Sequence[Line]) -> str:
    """Return the key of the table. Another order is another table: ticks belong to its rows."""
    return f"compare-board-{crc32(' '.join(line.key for line in order).encode()):x}"


def _columns(
    lines: Sequence[Line], measure: str | None, changed: Mapping[str, str]
) -> dict[str, Any]:
    """Return the titles and formats of the columns; the measure of the ranking has a mark."""
    text = st.column_config.TextColumn
    config: dict[str, Any] = {
        "rank": st.column_config.NumberColumn("#", width=44, pinned=True),
        "evaluation": text("Result", pinned=True, width="medium"),
        INTERVAL: text("95 % interval", help="How much the figure varies with the test rows."),
        DIFFERENCE: text(
            "Against the best",
            help=AGAINST,
        ),
        "model": text("Model"),
        "pipeline": text("Pipeline"),
        "started": text("Started", help="When the newest run with this result began."),
    }
    config["changed"] = None
    if any(changed.values()):
        help_text = "What differs from the oldest run of this pipeline in the table."
        config["changed"] = text("Changed", width="large", help=help_text)
    # Without repeats the column would be empty: None hides it.
    config["runs"] = None
    if any(line.repeats for line in lines):
        help_text = "Runs that found the result in the cache are one line."
        config["runs"] = text("Runs", width="medium", help=help_text)
    # Predicted numbers have no threshold: None hides the column.
    if not any(line.evaluation.classes for line in lines):
        config["threshold"] = None
    for name in [name for name in (*measures_of(lines), "threshold") if name not in config]:
        mark = ""
        if name == measure:
            mark = " ▴" if lower_is_better(name) else " ▾"
        config[name] = metric_column(f"{measure_title(lines, name)}{mark}", name)
    return config


# The ticked lines side by side


def _draw_ticked(ticked: list[Line]) -> None:
    """Draw the ticked lines side by side, in tabs."""
    if len(ticked) > MOST_DRAWN:
        st.caption(f"Only the first {MOST_DRAWN} of {len(ticked)} ticked lines are shown.")
    drawn = ticked[:MOST_DRAWN]
    tabs = {
        "Curves": lambda: _draw_curves(_reports(drawn)),
        "Recall at rates": lambda: _draw_recalls(drawn),
        "Confusion": lambda: _draw_confusions(_reports(drawn)),
    }
    if not any(line.evaluation.classes for line in drawn):
        tabs = {"Predicted and true": lambda: _draw_predicted(_reports(drawn))}
    draw_tabs(
        {
            **tabs,
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
        for name, line in zip(names_of(lines, changed_in(lines)), lines, strict=True)
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


def _draw_predicted(reports: list[tuple[str, Report]]) -> None:
    """Draw the predicted against the true numbers of each line, two side by side."""
    drawn = [(name, report.data["points"]) for name, report in reports if "points" in report.data]
    if not drawn:
        st.caption("The evaluations have no rows to draw.")
    for start in range(0, len(drawn), 2):
        for column, (index, (name, points)) in zip(
            st.columns(2), enumerate(drawn[start : start + 2], start), strict=False
        ):
            with column:
                figure = predicted_against_true(points["truth"], points["predicted"], title=name)
                chart(figure, f"compare-predicted-{index}")


def _draw_recalls(lines: list[Line]) -> None:
    """Draw the recall if only one row in 100, 1,000 or 10,000 can be checked."""
    rows = [
        {"name": name, **line.evaluation.measures}
        for name, line in zip(names_of(lines, changed_in(lines)), lines, strict=True)
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
    written = [studio().runs.written_pipeline(row) for row in rows]
    pipelines = dict(zip(run_titles(rows), written, strict=True))
    # A pipeline of another version may not be readable.
    readable_pipelines = {title: each for title, each in pipelines.items() if each}
    differences = _changes(readable_pipelines)
    if differences:
        height = min(38 + 35 * len(differences) + SCROLLBAR, 420)
        grid(differences, "compare-changes", height=height)
    else:
        st.caption("These runs have the same nodes, connections and settings.")


def _changes(pipelines: Mapping[str, Pipeline]) -> list[dict[str, str]]:
    """Return in which settings pipelines differ, with the values that counted in the runs."""
    return changes(pipelines, studio().catalog, source_title=source_title, preset=preset_values)


def preset_values(node: Node) -> Mapping[str, Any]:
    """Return the values that the preset of a deep forest gives its parameters; empty for others."""
    preset = node.params.get("preset", "default")
    info = preset_info(preset) if node.type == FOREST and isinstance(preset, str) else None
    if info is None:
        return {}
    learners: Any = [dict(learner) for learner in info.learners]
    if info.learners != info.learners_of_many_classes:
        learners = "by the number of classes"
    return {**info.params, "learners": learners}


@st.cache_data(show_spinner=False, max_entries=2000)
def _change(workspace: str, base: str, run: str) -> str:
    """Return what differs in a run from another one, from the cache: ``trees 100 → 500``."""
    pipelines = {}
    for name in (base, run):
        pipeline = studio().runs.written_pipeline(studio().runs.find(name))
        # A pipeline of another version may not be readable.
        if pipeline is None:
            return ""
        pipelines[name] = pipeline
    return change_text(_changes(pipelines), base, run)


def change_text(differences: Sequence[Mapping[str, str]], base: str, run: str) -> str:
    """Return the first difference of two runs in a few words, and how many more there are."""
    if not differences:
        return ""
    first, more = differences[0], len(differences) - 1
    if first["Setting"] == "Node":
        text = f"{first['Node']} {'removed' if first[run] == ABSENT else 'added'}"
    else:
        setting = first["Setting"]
        # A title such as "MART" or "γ" stays as it is.
        if setting[1:2].islower():
            setting = setting[:1].lower() + setting[1:]
        text = f"{setting} {first[base]} → {first[run]}"
    text = shortened(text, LONGEST_CHANGE)
    return f"{text} and {more} more" if more else text


def changed_in(lines: Sequence[Line]) -> dict[str, str]:
    """Return what was changed in each run, against the oldest run of its pipeline here."""
    oldest: dict[str, str] = {}
    changed: dict[str, str] = {}
    for line in sorted(lines, key=lambda each: each.started):
        base = oldest.setdefault(line.pipeline, line.run)
        if line.run != base and line.run not in changed:
            changed[line.run] = _change(_root(), base, line.run)
    return changed


def run_titles(rows: Sequence[RunRow]) -> list[str]:
    """Return a title for each run: its pipeline and when it was started; each once."""
    titles = [f"{shortened(row.name, 24)} · {time_of_day(row.created)}" for row in rows]
    alike, seen = Counter(titles), Counter[str]()
    for index, title in enumerate(titles):
        seen[title] += 1
        if alike[title] > 1:
            titles[index] = f"{title} ({seen[title]})"
    return titles


def _draw_runs(lines: list[Line]) -> None:
    """Draw the runs of the lines, with ways to open each."""
    runs: dict[str, Line] = {}
    for line in lines:
        for each in (line, *line.repeats):
            runs.setdefault(each.run, each)
    for line in runs.values():
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            st.markdown(f"**{plain(line.pipeline)}**", width="content")
            st.caption(plain(f"started {clock(line.started)}"), width="content")
            st.space("stretch")
            if st.button("Open run", icon=":material/history:", key=f"compare-run-{line.run}"):
                links.to_run(line.run)
            if line.inspect and st.button(
                "Inspect", icon=":material/layers:", key=f"compare-inspect-{line.run}"
            ):
                links.to_inspect(line.run, line.inspect)
            open_pipeline_button(line.run, f"compare-open-{line.run}")
