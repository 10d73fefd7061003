"""The measures of reports in people's words.

- ``MEASURES``  title and explanation of each, the telling ones first
- ``title_of``, ``shown``  a measure's name and value on screen
- ``title_in``, ``title_among``  its name in a certain report, or for certain judgements
- ``headline``  the one figure of a report
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.values import Report


@dataclass(frozen=True)
class Measure:
    """A measure as people read it."""

    title: str
    explanation: str
    percent: bool = False


MEASURES: Mapping[str, Measure] = {
    "auc": Measure(
        "AUC",
        "How often a row of the class gets a higher probability than one of the others. 0.5 is guessing, 1 is perfect.",
    ),
    "accuracy": Measure("Accuracy", "Share of rows that were given their right class.", percent=True),
    "balanced_accuracy": Measure(
        "Balanced accuracy", "Mean over the classes of the share found; rare classes count as much.", percent=True
    ),
    "f1": Measure(
        "F1",
        "Harmonic mean of precision and recall: high only if both are. 1 is perfect. It goes by the threshold: the one "
        "given to Evaluate, else the one where F1 is highest on these rows. Predicted classes go by the most probable "
        "class instead. With several classes there is no threshold, and it is the mean over them.",
    ),
    "average_precision": Measure(
        "Average precision", "Area under the precision-recall curve: what counts when the class is rare. 1 is perfect."
    ),
    "ks": Measure(
        "KS", "Greatest gap between the share found and the share of false alarms over all thresholds. 1 is perfect."
    ),
    "log_loss": Measure("Log loss", "How far the probabilities are from the truth. Lower is better, 0 is perfect."),
    "recall_at_1_in_10000": Measure(
        "Recall at 1/10,000", "Share of the class found when one row in 10,000 is looked at.", percent=True
    ),
    "recall_at_1_in_1000": Measure(
        "Recall at 1/1,000", "Share of the class found when one row in 1,000 is looked at.", percent=True
    ),
    "recall_at_1_in_100": Measure(
        "Recall at 1/100", "Share of the class found when one row in 100 is looked at.", percent=True
    ),
    "threshold": Measure("Threshold", "Probability from which a row counts as positive for F1."),
}  # fmt: skip

LOWER_IS_BETTER = ("log_loss",)


def title_of(measure: str) -> str:
    """``Balanced accuracy`` for ``balanced_accuracy``."""
    return MEASURES[measure].title if measure in MEASURES else measure.replace("_", " ").capitalize()


def title_in(report: Report, measure: str) -> str:
    """The name of a measure in a report."""
    return title_among([report.headline] if report.kind == "evaluation" else report.rows, measure)


def title_among(judged: Iterable[Mapping[str, Any]], measure: str) -> str:
    """The name of a measure where it is told of these: F1 goes by a threshold, or is the mean over several classes."""
    if measure == "f1":
        by_threshold = {one.get("threshold") is not None for one in judged if one.get("f1") is not None}
        if len(by_threshold) == 1:
            return "F1 at threshold" if by_threshold.pop() else "Mean F1"
    return title_of(measure)


def shown(measure: str, value: Any) -> str:
    """A value as a person reads it: ``0.973``, ``97.2 %``, ``–`` for none."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if measure in MEASURES and MEASURES[measure].percent:
        return f"{value * 100:.1f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def headline(report: Report) -> tuple[str, str]:
    """The one figure that a list of runs shows; two empty texts for a report that has none.

    An evaluation is told by AUC where one class is to be found, else by accuracy; a comparison by its best model.
    """
    about = report.headline
    if report.kind == "comparison" and about.get("metric") and about.get("value") is not None:
        metric = str(about["metric"])
        return str(about.get("best") or ""), f"{title_in(report, metric)} {shown(metric, about['value'])}"
    measure = headline_measure(report) if report.kind == "evaluation" else None
    return (title_of(measure), shown(measure, about[measure])) if measure else ("", "")


def headline_measure(report: Report) -> str | None:
    """The measure that tells most of an evaluation."""
    order = ("auc", "accuracy") if report.headline.get("positive") is not None else ("accuracy", "auc")
    return next((name for name in order if report.headline.get(name) is not None), None)
