"""Preview what a threshold does: one slider for all figures of an evaluation, and its choice.

An evaluation holds the counts at up to 500 thresholds, so that the slider needs no run.

- ``draw_slider``   the slider, the figures at it and the costs; returns a ``ChosenThreshold``
- ``draw_gain``, ``draw_money``  plots with a mark at the threshold
- ``show_choice``   the report of a *Choose threshold* node
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from deepforest.bootstrap import MONEY, SMALLEST, wilson
from deepforest.metrics import METRIC_INFO, metric_title
from engine.text import counted
from engine.values import Costs, Report, ThresholdDecision
from nodes.models.decision import ThresholdCounts
from nodes.models.uncertainty import interval_text
from ui.studio import plots
from ui.studio.screen_text import plain
from ui.studio.widgets import chart, draw_tabs, facts, grid, tiles

RATES = {"1/100": 1 / 100, "1/1,000": 1 / 1_000, "1/10,000": 1 / 10_000}
DIGITS = (4, 6, 9, 17)
EXPLANATIONS = {
    "Threshold": "Probability from which a row counts as positive.",
    "Precision": "Share of the interrupted rows that are positive.",
    "Recall": "Share of the positive rows that are found.",
    "F1": "Harmonic mean of precision and recall.",
    "Accuracy": "Share of rows whose predicted class is right.",
    "Balanced accuracy": "Mean of the recall of both classes.",
    "Interrupted": "Share of all rows that count as positive.",
    **{METRIC_INFO[name].title: METRIC_INFO[name].explanation for name in MONEY},
}
NOT_A_RUN = "The costs are for this view only. They do not change the model or the report."


@dataclass(frozen=True)
class ChosenThreshold:
    """Hold the counts of an evaluation, the position of the slider, and the costs."""

    counts: ThresholdCounts
    at: int
    costs: Costs | None

    @property
    def threshold(self) -> float:
        """Return the threshold at the slider."""
        return float(self.counts.threshold[self.at])

    def value(self, name: str) -> float | None:
        """Return a figure at the threshold, such as ``recall``; None if it has no value."""
        return number(getattr(self.counts, name)[self.at])

    @property
    def matrix(self) -> list[list[int]]:
        """Return the confusion matrix; the positive class is the second."""
        tp, fp = int(self.counts.true_positives[self.at]), int(self.counts.false_positives[self.at])
        return [[self.counts.negatives - fp, fp], [self.counts.positives - tp, tp]]

    @property
    def false_positive_rate(self) -> float | None:
        """Return the share of the other rows that count as positive."""
        fp = int(self.counts.false_positives[self.at])
        return fp / self.counts.negatives if self.counts.negatives else None

    @property
    def money(self) -> float | None:
        """Return the money as it is shown; None if nothing is known about costs."""
        if self.costs is None:
            return None
        return self.costs.shown(float(self.counts.money(self.costs)[self.at]))

    @property
    def label(self) -> str:
        """Return the text of a mark in a plot."""
        return f"threshold {self.threshold:.4g}"


def number(value: Any) -> float | None:
    """Return a number of numpy as plain data; None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


# The slider of an evaluation


def draw_slider(report: Report, key: str) -> ChosenThreshold:
    """Draw the slider and the figures at it; return what was chosen."""
    data = report.data["thresholds"]
    counts = ThresholdCounts.from_json(data)
    start, best = max(int(data["at"]), 1), max(int(data["best"]), 1)
    # Another report has other thresholds, and so another slider.
    digest = hashlib.sha256(json.dumps(data["threshold"]).encode()).hexdigest()[:8]
    slider = f"{key}-threshold-{digest}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        at = _draw_positions(counts, slider, start)
        costs = _draw_costs(report, f"{key}-{digest}")
    _draw_shortcuts(counts, slider, start, best)
    chosen = ChosenThreshold(counts, at, costs)
    two_classes = len(report.data["classes"]) == 2
    tiles(figure_tiles(chosen, two_classes=two_classes), _intervals(report, chosen, start, best))
    st.caption(plain(origin_text(report, at, start, best)))
    return chosen


def _intervals(report: Report, chosen: ChosenThreshold, start: int, best: int) -> dict[str, str]:
    """Return the 95 % intervals of the figures at the slider in words, by title.

    Shares of rows are counted anywhere. The others are known where the node computed them, as long
    as the costs are the same.
    """
    stored: dict[str, Sequence[float]] = report.data.get("intervals") or {}
    # Without a threshold of the model, F1 alone is that of the best threshold.
    of_f1 = best if report.data["threshold_rule"] == "best F1" else start
    known = {
        name: limits
        for name, limits in stored.items()
        if chosen.at == (of_f1 if name == "f1" else start)
    }
    if chosen.costs is None or report.data.get("costs") != asdict(chosen.costs):
        known = {name: limits for name, limits in known.items() if name not in MONEY}
    texts = {metric_title(name): interval_text(name, known[name]) for name in known}
    # Rows of a group are not independent trials.
    if report.data.get("resampled") == "rows":
        counts, at = chosen.counts, chosen.at
        found = float(counts.true_positives[at])
        for name, rows in (("precision", counts.interrupted[at]), ("recall", counts.positives)):
            if rows >= SMALLEST:
                low, high = wilson(found, float(rows))
                texts[metric_title(name)] = f"{100 * low:.1f}–{percent(high)}"
    return {title: text for title, text in texts.items() if title in EXPLANATIONS}


def _draw_positions(counts: ThresholdCounts, slider: str, start: int) -> int:
    """Draw the slider, from the lowest threshold to the highest; return the position."""
    # At the first threshold, which is infinite, no row is positive.
    positions = list(range(len(counts.threshold) - 1, 0, -1))
    if len(positions) == 1:
        facts(f"All rows have the probability {counts.threshold[1]:.4g}.")
        return 1
    texts = threshold_texts(counts.threshold)
    # A slider that a button has moved is a new one. If its value were set, the browser would miss
    # that when the page is drawn twice in a row.
    moves, position = st.session_state.get(f"{slider}-moved", (0, start))
    return int(
        st.select_slider(
            "Threshold",
            positions,
            position,
            key=f"{slider}-{moves}",
            format_func=lambda position: texts[position],
            help="All figures, plots and the confusion matrix follow it.",
        )
    )


def threshold_texts(thresholds: np.ndarray) -> list[str]:
    """Return the thresholds as texts that all differ, each with as few digits as that takes."""
    texts = [f"{threshold:.{DIGITS[0]}g}" for threshold in thresholds]
    for digits in DIGITS[1:]:
        times = Counter(texts)
        for at, text in enumerate(texts):
            if times[text] > 1:
                texts[at] = f"{thresholds[at]:.{digits}g}"
    return texts


def _draw_shortcuts(counts: ThresholdCounts, slider: str, start: int, best: int) -> None:
    """Draw buttons that set the slider: as predicted, highest F1, and interrupt rates."""
    targets = {"As predicted": start, "Highest F1 here (optimistic)": best}
    for title, rate in RATES.items():
        at = counts.at_rate(rate)
        if at > 0:
            targets[f"{title} interrupted"] = at
    with st.container(horizontal=True, gap="xsmall", key=f"threshold-shortcuts-{slider}"):
        for title, position in targets.items():
            st.button(title, key=f"{slider}-{title}", on_click=_move, args=(slider, position))


def _move(slider: str, position: int) -> None:
    """Set the slider."""
    moves, _ = st.session_state.get(f"{slider}-moved", (0, position))
    st.session_state[f"{slider}-moved"] = (moves + 1, position)


def _draw_costs(report: Report, key: str) -> Costs | None:
    """Draw the costs, which are those of the model's rule at first; None if all are 0."""
    saved = report.data.get("costs")
    known = Costs() if saved is None else Costs(**saved)
    with st.popover("Costs", icon=":material/payments:"):
        false_alarm = _cost("Cost per false alarm", known.false_alarm, f"{key}-alarm")
        missed = _cost("Cost per missed positive", known.missed, f"{key}-missed")
        gain = _cost("Gain per positive found", known.gain, f"{key}-gain", least=None)
        if known.amounts is not None:
            facts(f"plus the {known.amounts} of each positive found")
        st.caption(NOT_A_RUN)
    costs = replace(known, false_alarm=false_alarm, missed=missed, gain=gain)
    return None if costs == Costs() else costs


def _cost(label: str, value: float, key: str, least: float | None = 0.0) -> float:
    """Draw the input of one cost."""
    return float(st.number_input(label, min_value=least, value=float(value), key=key))


def figure_tiles(chosen: ChosenThreshold, *, two_classes: bool) -> list[tuple[str, str, str]]:
    """Return the figures at the threshold as tiles."""
    figures = {"Threshold": f"{chosen.threshold:.4g}"}
    for name in ("precision", "recall"):
        figures[metric_title(name)] = percent(chosen.value(name))
    f1 = chosen.value("f1")
    figures["F1"] = "–" if f1 is None else f"{f1:.3f}"
    if two_classes:
        (right, _), (_, found) = matrix = chosen.matrix
        figures["Accuracy"] = percent((right + found) / max(chosen.counts.rows, 1))
        recalls = [matrix[code][code] / sum(matrix[code]) for code in (0, 1) if sum(matrix[code])]
        figures["Balanced accuracy"] = percent(sum(recalls) / len(recalls))
    figures["Interrupted"] = percent(chosen.value("interrupt_rate"))
    if chosen.costs is not None and chosen.money is not None:
        figures[metric_title(chosen.costs.name)] = money_text(chosen.money)
    return [(title, figure, EXPLANATIONS[title]) for title, figure in figures.items()]


def percent(share: float | None) -> str:
    """Return a share in percent, with enough digits for a small one."""
    if share is None:
        return "–"
    digits = 1 if share == 0 or share >= 0.001 else 3
    return f"{100 * share:.{digits}f} %"


def money_text(money: float) -> str:
    """Return an amount of money as a person reads it."""
    return f"{money:,.2f}" if abs(money) < 1_000 else f"{money:,.0f}"


def origin_text(report: Report, at: int, start: int, best: int) -> str:
    """Return where the threshold at the slider comes from, and whether its figures are honest."""
    if at == start:
        match report.data["threshold_rule"]:
            case "model":
                decision = report.data["decision"]
                return (
                    f"The threshold of the model: {decision['rule']}, chosen on "
                    f"{counted(decision['rows'], 'validation row')}. The evaluated rows did not "
                    "choose it."
                )
            case "given":
                return "The threshold that is set in Evaluate."
        return (
            "The predicted class is the most probable one. To save a threshold with the model, "
            "use Choose threshold on validation rows."
        )
    if at == best:
        return (
            "Optimistic: this threshold has the highest F1 on the evaluated rows themselves. "
            "Expect less on new rows."
        )
    return (
        "Optimistic if you choose it here: a threshold that is chosen on the evaluated rows looks "
        "better than on new rows. Use Choose threshold on validation rows."
    )


# Plots with a mark at the threshold


def draw_gain(chosen: ChosenThreshold, key: str) -> None:
    """Draw gain and lift side by side."""
    counts = chosen.counts
    rates, recalls = _plain(counts.interrupt_rate), _plain(counts.recall)
    lifts = _plain(counts.precision * counts.rows / max(counts.positives, 1))
    texts = hover_texts(counts, chosen.costs)
    rate, recall = chosen.value("interrupt_rate"), chosen.value("recall")
    left, right = st.columns(2)
    with left:
        figure = plots.gain_curve(rates, recalls, texts)
        chart(plots.add_mark(figure, rate, recall, chosen.label), f"{key}-gain")
    with right:
        # Without its first point: a logarithmic axis has no 0.
        figure = plots.lift_curve(rates[1:], lifts[1:], texts[1:])
        chart(plots.add_mark(figure, rate, lifts[chosen.at], chosen.label), f"{key}-lift")
    st.caption(
        "Dotted: rows that are interrupted at random. Lift is the precision divided by the share "
        "of positive rows."
    )


def draw_money(chosen: ChosenThreshold, key: str) -> None:
    """Draw the money by interrupt rate and by threshold."""
    if chosen.costs is None:
        st.caption(
            "Nothing is known about costs. Set them under Costs above, or choose the threshold "
            "by costs or by money in a column with Choose threshold."
        )
        return
    money = chosen.counts.money(chosen.costs)
    span = tuple(sorted(chosen.costs.shown(limit) for limit in money_span(money, chosen.at)))
    _draw_by_rate_and_threshold(
        chosen,
        [chosen.costs.shown(float(value)) for value in money],
        plots.Axis(metric_title(chosen.costs.name), plots.MONEY, span),
        key,
    )
    st.caption("Double-click a plot to see the whole curve.")


def money_span(money: np.ndarray, at: int) -> tuple[float, float]:
    """Return the amounts that a plot shows: the best, none interrupted, and the one chosen.

    Interrupting all rows may cost a hundred times as much, and would make the rest a flat line.
    """
    best, compared = float(np.nanmax(money)), float(min(money[0], money[at]))
    room = best - compared
    if room <= 0:
        return float(np.nanmin(money)), best
    return max(compared - room, float(np.nanmin(money))) - 0.1 * room, best + 0.15 * room


def _draw_by_rate_and_threshold(
    chosen: ChosenThreshold, values: list[Any], axis: plots.Axis, key: str
) -> None:
    """Draw a figure against the interrupt rate and against the threshold, side by side."""
    counts = chosen.counts
    # Without the first point: the threshold is infinite there, and the rate is 0.
    values, texts = values[1:], hover_texts(counts, chosen.costs)[1:]
    rates, thresholds = _plain(counts.interrupt_rate)[1:], _plain(counts.threshold)[1:]
    at, left, right = chosen.at - 1, *st.columns(2)
    with left:
        figure = plots.figure_by_threshold(
            rates, values, plots.INTERRUPTED, axis, texts, logarithmic=True
        )
        chart(plots.add_mark(figure, rates[at], values[at], chosen.label), f"{key}-by-rate")
    with right:
        figure = plots.figure_by_threshold(thresholds, values, plots.THRESHOLD, axis, texts)
        mark = plots.add_mark(figure, thresholds[at], values[at], chosen.label)
        chart(mark, f"{key}-by-threshold")


def hover_texts(counts: ThresholdCounts, costs: Costs | None) -> list[str]:
    """Return what a plot says about each threshold."""
    money = None if costs is None else counts.money(costs)
    texts = []
    for at, threshold in enumerate(counts.threshold):
        lines = [
            f"threshold {threshold:.4g}",
            f"interrupted {percent(number(counts.interrupt_rate[at]))}"
            f" ({counts.interrupted[at]:,} rows)",
            f"precision {percent(number(counts.precision[at]))}",
            f"recall {percent(number(counts.recall[at]))}",
        ]
        if costs is not None and money is not None:
            lines.append(f"{metric_title(costs.name).lower()} {money_text(costs.shown(money[at]))}")
        texts.append("<br>".join(lines))
    return texts


def _plain(values: np.ndarray) -> list[float | None]:
    """Return numbers as plain data."""
    return [number(value) for value in values]


# The report of a choice


def show_choice(report: Report, key: str) -> None:
    """Draw the report of a *Choose threshold* node: the curve of its rule, and the calibration."""
    data = report.data
    saved = data["decision"]
    decision = ThresholdDecision.from_json(saved, [saved["positive"], ""])
    counts = ThresholdCounts.from_json(data["thresholds"])
    chosen = ChosenThreshold(counts, counts.at(decision.threshold), decision.costs)
    facts(
        report.title,
        f"positive class {decision.positive}",
        decision.rule,
        f"chosen on {counted(decision.rows, 'validation row')}",
    )
    tiles(figure_tiles(chosen, two_classes=False))
    st.caption(
        "Optimistic: these rows chose the threshold. Predict and Evaluate the test rows to see "
        "what it does on rows that did not."
    )
    parts = {
        "Threshold": lambda: _draw_quantity(chosen, str(data["quantity"]), key),
        "Other thresholds": lambda: _draw_others(report.rows, key),
    }
    if data.get("calibration"):
        parts["Calibration"] = lambda: _draw_calibration(data["calibration"], key)
    draw_tabs(parts, key)


def _draw_quantity(chosen: ChosenThreshold, quantity: str, key: str) -> None:
    """Draw the figure that the rule is about, with a mark at the chosen threshold."""
    if quantity == "money":
        draw_money(chosen, key)
        return
    values = _plain(getattr(chosen.counts, quantity))
    style = "" if quantity == "f1" else plots.PERCENT
    axis = plots.Axis(metric_title(quantity), style)
    _draw_by_rate_and_threshold(chosen, values, axis, key)


def _draw_others(rows: Sequence[Mapping[str, Any]], key: str) -> None:
    """Draw the figures at the chosen threshold beside those at others."""
    share = {
        name: st.column_config.NumberColumn(metric_title(name), format="percent")
        for name in ("precision", "recall", "interrupt_rate")
    }
    titles = {name: metric_title(name) for name in rows[0] if name not in share}
    # In a narrow panel, the first columns are seen: what one decides by.
    order = ["name", "threshold", "precision", "recall", *rows[0]]
    shown = []
    for row in rows:
        shown.append({name: row[name] for name in dict.fromkeys(order)})
    grid(shown, f"{key}-others", column_config={**titles, **share, "name": "Threshold by"})


def _draw_calibration(calibration: Mapping[str, Any], key: str) -> None:
    """Draw the reliability before and after."""
    before, after = calibration["before"], calibration["after"]
    chart(plots.reliability({"before": before, "after": after}), f"{key}-reliability")
    st.caption(
        f"On the dotted line, probabilities fit. Calibration: {plain(calibration['method'])}; "
        f"each row is calibrated by a map fitted on the other {calibration['folds'] - 1} of "
        f"{calibration['folds']} parts. Brier score (lower is better): {before['brier']:.4g} "
        f"before, {after['brier']:.4g} after. The map that is saved is fitted on all validation "
        "rows. It keeps the order of rows, so that it does not change which rows are interrupted."
    )
