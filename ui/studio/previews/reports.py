"""Preview a report: an evaluation, a comparison, a selection of features, or any other kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from deepforest.bootstrap import MONEY, Difference
from deepforest.metrics import (
    METRIC_INFO,
    format_metric,
    headline_metric,
    lower_is_better,
    metric_title,
    title_among,
)
from engine.errors import SylvaError
from engine.result_names import named_report
from engine.run_summaries import RunSummary
from engine.store import Artifact, Store
from engine.text import counted, size
from engine.values import Report
from nodes.evaluate import per_class
from nodes.models.uncertainty import difference_text
from ui.studio import plots
from ui.studio.previews import regression, thresholds
from ui.studio.previews.certainty import explain_intervals, folds_tab, interval_texts
from ui.studio.previews.errors import EvaluatedRows, draw_errors
from ui.studio.previews.importances import show_importances
from ui.studio.screen_text import plain
from ui.studio.widgets import (
    chart,
    downloads,
    draw_tabs,
    facts,
    grid,
    metric_column,
    metric_tile,
    opened,
    tiles,
)

BY_THRESHOLD = ("accuracy", "balanced_accuracy", "f1", "threshold", *MONEY)
"""Metrics of an evaluation that a slider changes."""
OPTIMISTIC = (
    " Optimistic: the threshold was chosen so that F1 is highest on these rows, so that F1 is "
    "slightly too high."
)
AGAINST = (
    "The difference to the first line on the same rows, with its 95 % interval. "
    "A tie: the interval contains 0. Too few rows differ: the two decide nearly all rows alike, so "
    "these rows do not say which is better."
)
MOST_NAMES = 4
"""Names of tied models in a sentence."""
SCORES = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
"""Scores in the table of classes."""


class Maker(NamedTuple):
    """The node that made an output, and the names of the results in its pipeline by node."""

    node: str = ""
    names: Mapping[str, str] = {}
    rows: str = ""
    """The rows that it evaluates or compares on, in words: ``test rows``."""
    evaluated: EvaluatedRows | None = None
    """Of an evaluation of predictions: the outputs it was made from."""

    @property
    def name(self) -> str:
        """Return the name of the output; empty if it is not known."""
        return self.names.get(self.node, "")


def show_report(output: Artifact, store: Store, key: str, maker: Maker) -> None:
    """Draw a report by its kind, and its downloads.

    Raise ``CorruptObject`` if the store lost it.

    A kind that only a plug-in knows is shown as plain rows.
    """
    report = named_report(opened(output, store), maker.node, maker.names)
    if report.kind == "comparison" and maker.rows:
        report = replace(report, data={**report.data, "ranked_on": maker.rows})
    draw = KINDS.get(report.kind, _any)
    if regression.is_regression(report):
        draw = regression.show_evaluation
    draw(report, key)
    if maker.evaluated is not None and report.kind == "evaluation":
        draw_errors(report, maker.evaluated, store, key)
    downloads(report.kind, report.rows, asdict(report), key)


def _evaluation(report: Report, key: str) -> None:
    """Draw an evaluation: its metrics, curves, confusion matrix and classes."""
    figures, data = report.headline, report.data
    positive = f"positive class {data['positive']}" if data.get("positive") is not None else ""
    facts(
        report.title,
        f"evaluated on {counted(int(figures.get('rows') or 0), 'row')}",
        counted(len(data["classes"]), "class", "classes"),
        positive,
    )
    tiles(_metric_tiles(report), interval_texts(report))
    explain_intervals(report)
    if data.get("thresholds"):
        _at_threshold(report, thresholds.draw_slider(report, key), key)
        return
    tabs = {
        "Curves": lambda: _curves(data["curves"], key),
        "Confusion": lambda: _confusion(report, key),
        "Classes": lambda: _classes(report.rows, key),
    }
    draw_tabs(tabs | folds_tab(report, key), key)


def _at_threshold(report: Report, chosen: thresholds.ChosenThreshold, key: str) -> None:
    """Draw the plots and tables of an evaluation at the threshold of its slider."""
    labels = report.data["confusion"]["labels"]
    tabs = {
        "Curves": lambda: _curves(report.data["curves"], key, chosen),
        "Confusion": lambda: _confusion_at(labels, chosen, key),
        "Gain and lift": lambda: thresholds.draw_gain(chosen, key),
        "Money": lambda: thresholds.draw_money(chosen, f"{key}-money"),
        "Classes": lambda: _classes(per_class(chosen.matrix, labels), key),
    }
    draw_tabs(tabs | folds_tab(report, key), key)


def _metric_tiles(report: Report) -> list[tuple[str, str, str]]:
    """Return the metrics that have a value as tiles, the most important first."""
    first = headline_metric(report.headline)
    known = [name for name in METRIC_INFO if report.headline.get(name) is not None]
    if report.data.get("thresholds"):
        # These are drawn below the slider, for the threshold that it has.
        known = [name for name in known if name not in BY_THRESHOLD]
    # A stable sort: the others stay in the order of their importance.
    order = sorted(known, key=lambda name: name != first)
    more = {}
    if report.data.get("threshold_rule") == "best F1":
        more["f1"] = more["threshold"] = OPTIMISTIC
    return [
        metric_tile(title_in(report, name), name, report.headline[name], more.get(name, ""))
        for name in order
    ]


def _confusion(report: Report, key: str) -> None:
    """Draw the confusion matrix, and how a row gets its predicted class."""
    confusion = report.data["confusion"]
    figure = plots.confusion_matrix(confusion["labels"], confusion["counts"])
    chart(figure, f"{key}-confusion")
    threshold = confusion.get("threshold")
    if threshold is None:
        st.caption(
            "The predicted class of a row is the most probable one. "
            "The colour shows the share of the rows of the actual class."
        )
    else:
        st.caption(f"Rows with a probability of {threshold:.4g} or more count as positive.")


def _confusion_at(labels: Sequence[str], chosen: thresholds.ChosenThreshold, key: str) -> None:
    """Draw the confusion matrix at a threshold."""
    chart(plots.confusion_matrix(labels, chosen.matrix), f"{key}-confusion")
    st.caption(
        f"Rows with a probability of {chosen.threshold:.4g} or more count as positive. "
        "The colour shows the share of the rows of the actual class."
    )


def _curves(
    curves: list[dict[str, Any]], key: str, chosen: thresholds.ChosenThreshold | None = None
) -> None:
    """Draw the ROC and the precision-recall curves side by side, with marks at a threshold."""
    roc, precision_recall = plots.roc_curves(curves), plots.precision_recall_curves(curves)
    if chosen is not None:
        recall = chosen.value("recall")
        plots.add_mark(roc, chosen.false_positive_rate, recall, chosen.label)
        plots.add_mark(precision_recall, recall, chosen.value("precision"), chosen.label)
    left, right = st.columns(2)
    with left:
        chart(roc, f"{key}-roc")
    with right:
        chart(precision_recall, f"{key}-pr")


def _classes(rows: list[dict[str, Any]], key: str) -> None:
    """Draw precision, recall and F1 of each class as a table and a plot."""
    titles: dict[str, Any] = {
        "class": "Class",
        "rows": st.column_config.NumberColumn("Rows", format="localized"),
        "predicted": st.column_config.NumberColumn(
            "Predicted", format="localized", help="Rows predicted as this class"
        ),
    }
    shares = {
        name: st.column_config.NumberColumn(title, format="percent")
        for name, title in SCORES.items()
    }
    grid(rows, f"{key}-classes", column_config=titles | shares)
    chart(plots.class_scores(rows), f"{key}-scores")


def _comparison(report: Report, key: str) -> None:
    """Draw a comparison: the best model, the leaderboard, bars and curves."""
    best, metric = report.headline, str(report.data.get("metric") or "auc")
    facts(counted(len(report.rows), "model"), *ranking_facts(report, metric))
    if best.get("best") and best.get("value") is not None:
        figure = f"{title_in(report, metric)} {format_metric(metric, best['value'])}"
        names = [str(best["best"])] + [str(row["name"]) for row in report.rows if row.get("tie")]
        word = "Tie" if len(names) > 1 else "Best"
        shown = ", ".join(f"**{plain(name)}**" for name in names[:MOST_NAMES])
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        st.markdown(f"{word}: {shown}{more} with {figure}")
        if report.data.get("note"):
            st.info(plain(str(report.data["note"])))
        if report.data.get("decides"):
            st.caption(
                "The differences of the tied models are within the uncertainty of these rows. "
                f"{plain(str(report.data['decides']))}"
            )
    draw_tabs(
        {
            "Leaderboard": lambda: _leaderboard(report, key),
            "Bars": lambda: _bars(report, metric, key),
            "Curves": lambda: show_overlaid_curves(report.data.get("curves") or [], key),
        },
        key,
    )


def ranking_facts(report: Report, metric: str) -> list[str]:
    """Return what ranks the models, as far as it is known.

    It is ``ranked by AUC on test rows``, ``ranked by AUC in cross-validation``, or ``ranked by
    AUC`` and ``chosen on 320 validation rows``.
    """
    rows = str(report.data.get("ranked_on") or "rows")
    ranked = f"ranked by {title_in(report, metric)}"
    match report.data.get("chosen_on"):
        case {"rows": int() as count, "folds": int() as folds}:
            return [ranked, f"chosen by {folds}-fold cross-validation of {count:,} {rows}"]
        case {"rows": int() as count}:
            return [ranked, f"chosen on {count:,} {rows}"]
    if report.data.get("cross_validated"):
        return [f"{ranked} in cross-validation"]
    return [ranked if rows == "rows" else f"{ranked} on {rows}"]


def _compared(report: Report) -> list[str]:
    """Return the metrics for which any model has a value, the one that ranks first."""
    known = {name for row in report.rows for name, value in row.items() if value is not None}
    ranking = report.data.get("metric")
    return sorted((name for name in METRIC_INFO if name in known), key=lambda name: name != ranking)


def _leaderboard(report: Report, key: str) -> None:
    """Draw the models as a table; values that a sweep tried are columns too."""
    swept = [name for name in report.data.get("details", []) if isinstance(name, str)]
    columns = ["rank", "name", *swept, *_compared(report), "positive", "rows"]
    against = [difference_in(report, row) for row in report.rows]
    rows: list[dict[str, Any]] = []
    for row, text in zip(report.rows, against, strict=True):
        shown = {"rank": row.get("rank"), "name": row.get("name")}
        if any(against):
            shown["against the best"] = text or "–"
        rows.append(shown | {name: row.get(name) for name in columns})
    titles = report.data.get("titles") or {}
    config: dict[str, Any] = {name: str(titles[name]) for name in swept if name in titles}
    config |= {"rank": "Rank", "rows": "Rows", "positive": "Positive class"}
    config["against the best"] = st.column_config.TextColumn("Against the best", help=AGAINST)
    config["name"] = st.column_config.TextColumn("Model", pinned=True)
    for name in _compared(report):
        config[name] = metric_column(title_in(report, name), name)
    # None hides the column: no evaluation has a positive class.
    if all(row["positive"] is None for row in rows):
        config["positive"] = None
    grid(rows, f"{key}-board", column_config=config)


def difference_in(report: Report, row: Mapping[str, Any]) -> str:
    """Return the difference of a line of a comparison to the best, in words; empty if unknown."""
    gain, high = row.get("gain"), row.get("gain_high")
    if gain is None:
        return ""
    margin = None if high is None else high - gain
    return difference_text(str(report.data.get("metric")), Difference(gain, margin))


def _bars(report: Report, metric: str, key: str) -> None:
    """Draw the models as bars by one metric, the best first."""
    measures = _compared(report)
    if not measures:
        st.caption("No model has a value to compare.")
        return
    index = measures.index(metric) if metric in measures else 0
    measure = st.selectbox(
        "Metric", measures, index, format_func=partial(title_in, report), key=f"{key}-measure"
    )
    lower = lower_is_better(measure)
    rows = sorted(report.rows, key=lambda row: _rank(row.get(measure), lower))
    title = title_in(report, measure)
    figure = plots.leaderboard(rows, measure, title, greater_is_better=not lower)
    chart(figure, f"{key}-bars")


def _rank(value: float | None, lower: bool) -> tuple[bool, float]:
    """Return what a row is sorted by: the best first, those without a value last."""
    if value is None:
        return True, 0.0
    return False, value if lower else -value


def show_overlaid_curves(
    models: Sequence[Mapping[str, Any]],
    key: str,
    curves: Sequence[str] = ("roc", "precision_recall"),
) -> None:
    """Draw the curves of all models on top of each other, for one class that the user chooses.

    A model has a ``name`` and ``curves``, one for each class; ``curves`` are those to draw.
    """
    classes = dict.fromkeys(str(curve["class"]) for model in models for curve in model["curves"])
    if not classes:
        st.caption("The evaluations have no curves to compare.")
        return
    label = next(iter(classes))
    if len(classes) > 1:
        label = st.selectbox("Class", list(classes), key=f"{key}-class", width=240)
    else:
        facts(f"class {label} against the rest")
    for column, curve in zip(st.columns(len(curves)), curves, strict=True):
        with column:
            chart(plots.overlaid_curves(models, curve, label), f"{key}-{curve}")


def _feature_selection(report: Report, key: str) -> None:
    """Draw which columns were kept, and the importance of each."""
    figures = report.headline
    kept = f"{figures.get('kept'):,} of {figures.get('features'):,} columns kept"
    facts(kept, f"{figures.get('importance kept') or 0:.1%} of the total importance")
    chart(plots.importances(report.rows), f"{key}-importances")
    config = {
        "column": "Column",
        "importance": st.column_config.ProgressColumn(
            "Importance", format="percent", min_value=0.0, max_value=1.0
        ),
        "kept": st.column_config.CheckboxColumn("Kept"),
    }
    grid(report.rows, f"{key}-rows", column_config=config)


def _any(report: Report, key: str) -> None:
    """Draw headline and rows of a report of an unknown kind."""
    facts(report.title)
    if report.headline:
        grid(headline_rows(report.headline), f"{key}-headline")
    if report.rows:
        titles = {name: metric_title(name) for name in report.rows[0]}
        grid(report.rows, f"{key}-rows", column_config=titles)


def headline_rows(headline: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a headline as rows of texts."""
    rows = []
    for name, value in headline.items():
        is_bytes = name.lower() == "bytes" and isinstance(value, int)
        text = size(value) if is_bytes else format_metric(name, value)
        rows.append({"": metric_title(name), "Value": text})
    return rows


KINDS = {
    "evaluation": _evaluation,
    "comparison": _comparison,
    "feature-selection": _feature_selection,
    "permutation-importance": show_importances,
    "threshold": thresholds.show_choice,
}


# Metrics of a report


def title_in(report: Report, metric: str) -> str:
    """Return the title of a metric in a report.

    It depends on the other metrics: F1 is at a threshold, or a mean over classes.
    """
    return title_among([report.headline] if report.kind == "evaluation" else report.rows, metric)


def result_text(run: RunSummary) -> str:
    """Return the result of a run, such as ``Accuracy: 97.3 %``; empty while it is live."""
    what, figure = headline(run.report) if run.report else ("", "")
    return ": ".join(part for part in (what, figure) if part)


def headline(report: Report) -> tuple[str, str]:
    """Return the figure that a list of runs shows, as a name and a value.

    Both texts are empty for a report that has no such figure.
    """
    found = main_figure(report)
    if found.best:
        return found.tie.capitalize() or found.best, f"{found.metric} {found.figure}"
    return found.metric, found.figure


class ReportLine(NamedTuple):
    """The one figure of a report, as a node on the canvas shows it."""

    figure: str = ""
    """``97.4 %``; empty for a report that has no such figure."""
    metric: str = ""
    """What it measures: ``Accuracy``."""
    best: str = ""
    """Of a comparison, the best model as it was named when the comparison was made."""
    best_node: str = ""
    """The node that evaluated it; its name may be another now."""
    tied: int = 0
    """How many models are not certainly worse than the best."""

    @property
    def tie(self) -> str:
        """Return ``tie of 3``; empty if one model is the best."""
        return f"tie of {1 + self.tied}" if self.tied else ""

    @property
    def line(self) -> str:
        """Return all of it in one line, the figure first: ``AUC 0.925: MART``."""
        figure = f"{self.metric} {self.figure}".strip()
        return f"{figure}: {self.tie or self.best}" if self.best else figure


def main_figure(report: Report) -> ReportLine:
    """Return the one figure of a report that lists and nodes show.

    For an evaluation it is AUC if there is a positive class, else accuracy; for a comparison that
    of the best model.
    """
    figures = report.headline
    if report.kind == "comparison" and figures.get("metric") and figures.get("value") is not None:
        metric, value = str(figures["metric"]), figures["value"]
        best, nodes = str(figures.get("best") or ""), report.data.get("nodes") or [""]
        figure = format_metric(metric, value)
        tied = int(figures.get("tied") or 0)
        return ReportLine(figure, title_in(report, metric), best, str(nodes[0]), tied)
    if report.kind == "threshold" and figures.get("threshold") is not None:
        return ReportLine(f"{figures['threshold']:.4g}", metric_title("threshold"))
    if report.kind == "permutation-importance":
        needed = f"{figures['needed']:,} of {figures['columns']:,}"
        return ReportLine(needed, "Columns needed")
    metric_name = headline_metric(figures) if report.kind == "evaluation" else None
    if metric_name is None:
        return ReportLine()
    return ReportLine(format_metric(metric_name, figures[metric_name]), metric_title(metric_name))


def result_of(output: Artifact, store: Store) -> ReportLine:
    """Return the figure of a stored report; an empty one if it was cleaned up or is damaged."""
    try:
        return _read_line(output.digest, output, store)
    except (SylvaError, OSError, ValueError, TypeError, KeyError):
        return ReportLine()


@st.cache_data(max_entries=2000, show_spinner=False)
def _read_line(digest: str, _output: Artifact, _store: Store) -> ReportLine:
    """Return the figure of a stored report from the cache; ``digest`` is the cache key."""
    return main_figure(opened(_output, _store))
