"""Resampled metrics: what they cost, which rows they draw, and how often their intervals hold."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from deepforest import bootstrap
from deepforest.bootstrap import Difference, Replicates, difference, resampled, wilson
from deepforest.metrics import (
    METRICS,
    REGRESSION_METRICS,
    Metric,
    decided_metric,
    metric,
)

CLASSIFIED = [
    *("auc", "f1", "ks", "average_precision", "accuracy", "balanced_accuracy", "log_loss"),
    *("recall_at_rate(0.1)", "recall_at_rate(0.05)", "recall_at_rate(0.01)"),
]


def drawn(rng: np.random.Generator, rows: int, share: float, skill: float) -> tuple[Any, Any, Any]:
    """Rows of two classes, and the right probabilities of two models, the second a bit worse."""
    truth = (rng.random(rows) < share).astype(int)
    shared = 0.8 * rng.normal(size=rows)
    outputs = []
    for distance in (skill, 0.85 * skill):
        seen = shared + 0.6 * rng.normal(size=rows) + distance * truth
        odds = np.log(share / (1 - share)) + distance * seen - distance**2 / 2
        score = 1 / (1 + np.exp(-odds))
        outputs.append(np.column_stack([1 - score, score]))
    return truth, *outputs


def numbers(rng: np.random.Generator, rows: int, noise: float, tail: float) -> tuple[Any, Any, Any]:
    """Numbers, and those that two models predict, the second a bit worse."""
    truth = rng.normal(size=rows)
    shared = truth + 0.8 * noise * rng.standard_t(tail, size=rows)
    outputs = [shared + spread * rng.normal(size=rows) for spread in (0.6 * noise, 0.8 * noise)]
    return truth, *(output[:, None] for output in outputs)


def named(*names: str) -> list[Metric]:
    return [metric(name) for name in names]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_replicate_is_the_metric_of_the_drawn_rows(classes: int, grouped: bool) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, 300)
    # Few different scores, so that there are ties.
    output = rng.integers(1, 20, (300, classes)) + 8.0 * np.eye(classes)[truth]
    output /= output.sum(axis=1, keepdims=True)
    groups = rng.integers(0, 60, 300) if grouped else None
    metrics = [*METRICS.values()]
    found = resampled(metrics, truth, output, groups=groups, count=5)
    units = None if groups is None else np.unique(groups, return_inverse=True)[1]
    for number, weight in enumerate(bootstrap._draws(300, units, 5)):
        rows = np.repeat(np.arange(300), weight.astype(int))
        if groups is not None:
            assert all(len(set(weight[units == unit])) == 1 for unit in range(units.max() + 1))
        for each in metrics:
            expected = each(truth[rows], output[rows], None)
            assert found[each.name].values[number] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1"])
def test_decisions_at_a_threshold_are_resampled(name: str) -> None:
    truth, output, _ = drawn(np.random.default_rng(0), 300, 0.3, 1.5)
    each = decided_metric(name, 0.4)
    decided = np.column_stack([output[:, 1] < 0.4, output[:, 1] >= 0.4]).astype(float)
    values = resampled([each], truth, output, count=5)[name].values
    for value, weight in zip(values, bootstrap._draws(300, None, 5), strict=True):
        rows = np.repeat(np.arange(300), weight.astype(int))
        assert value == pytest.approx(each(truth[rows], output[rows], None))
        if name != "f1":
            assert value == pytest.approx(METRICS[name](truth[rows], decided[rows], None))


@pytest.mark.parametrize("name", REGRESSION_METRICS)
def test_replicates_of_numbers_are_the_metric_of_the_drawn_rows(name: str) -> None:
    truth, output, _ = numbers(np.random.default_rng(0), 200, 0.5, 5)
    found = resampled([REGRESSION_METRICS[name]], truth, output, count=3)[name]
    for value, weight in zip(found.values, bootstrap._draws(200, None, 3), strict=True):
        rows = np.repeat(np.arange(200), weight.astype(int))
        expected = REGRESSION_METRICS[name](truth[rows], output[rows], None)
        assert value == pytest.approx(expected)


def test_thresholds_that_are_left_out_change_nothing_of_note() -> None:
    truth, output, _ = drawn(np.random.default_rng(0), 60_000, 0.2, 1.5)
    metrics = named("auc", "f1", "ks", "average_precision", "recall_at_rate(0.001)")
    found = resampled(metrics, truth, output, count=3)
    for number, weight in enumerate(bootstrap._draws(60_000, None, 3)):
        for each in metrics:
            exact = each(truth, output, weight)
            assert found[each.name].values[number] == pytest.approx(exact, abs=2e-4)


def test_two_outputs_of_the_same_rows_have_the_same_draws_and_others_do_not() -> None:
    first, second, other = (next(bootstrap._draws(rows, None, 1)) for rows in (500, 500, 501))
    assert (first == second).all() and first.sum() == 500
    assert (first != other[:500]).any()


def test_memory_does_not_grow_with_the_replicates() -> None:
    truth, output, _ = drawn(np.random.default_rng(0), 50_000, 0.1, 1.5)
    peaks = []
    for count in (2, 40):
        tracemalloc.start()
        resampled(named(*CLASSIFIED), truth, output, count=count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_large_tables_have_fewer_replicates() -> None:
    assert bootstrap.replicate_count(1_000, 2) == 1_000
    assert bootstrap.replicate_count(1_000_000, 2) == 200
    assert bootstrap.replicate_count(1_000_000, 50) == 100
    assert bootstrap.replicate_count(100, 10) == 1_000
    assert bootstrap.replicate_count(100, 200) < 300


@pytest.mark.parametrize("name", ["auc", "accuracy", "f1", "ks", "average_precision"])
def test_a_perfect_figure_of_few_rows_is_not_certain(name: str) -> None:
    truth = np.repeat([0, 1], 20)
    score = np.where(truth == 1, 0.9, 0.1)
    found = resampled(named(name), truth, np.column_stack([1 - score, score]))[name]
    assert found.value == 1.0
    low, high = found.interval() or (0.0, 0.0)
    assert 0.7 < low < 0.95 and high == 1.0


def test_a_recall_of_nothing_found_is_not_certain() -> None:
    truth = np.zeros(1_000, int)
    truth[-10:] = 1
    score = np.linspace(1, 0, 1_000)
    name = "recall_at_rate(0.01)"
    found = resampled(named(name), truth, np.column_stack([1 - score, score]))[name]
    low, high = found.interval() or (1.0, 0.0)
    assert (low, found.value) == (0.0, 0.0) and 0.2 < high < 0.4


def test_recall_of_few_checked_rows_also_varies_with_the_positive_rows() -> None:
    truth = np.repeat([1, 0], 100)
    score = np.linspace(1, 0, 200)
    name = "recall_at_rate(0.05)"
    found = resampled(named(name), truth, np.column_stack([1 - score, score]))[name]
    low, high = found.interval() or (1.0, 0.0)
    # All 10 checked rows are positive. Wilson's interval of 10 of 10 would end at their share.
    assert found.value == pytest.approx(0.1)
    assert low < 0.0775 and 0.105 < high < 0.12


def test_balanced_accuracy_of_a_class_that_is_never_found_is_not_certain() -> None:
    truth = np.repeat([0, 1], [1_000, 12])
    output = np.tile([0.9, 0.1], (1_012, 1))
    found = resampled(named("balanced_accuracy"), truth, output)["balanced_accuracy"]
    low, high = found.interval() or (0.0, 0.0)
    # The recall of 0 of 12 rows may be up to 24 %.
    assert low == pytest.approx(0.498, abs=1e-3) and high == pytest.approx(0.621, abs=1e-3)


@pytest.mark.parametrize(("name", "positives"), [("auc", 10), ("ks", 20), ("recall_at_rate", 10)])
def test_too_few_rows_of_a_class_have_no_interval(name: str, positives: int) -> None:
    for count, is_known in ((positives - 1, False), (positives, True)):
        truth = np.repeat([0, 1], [300, count])
        score = np.random.default_rng(0).random(len(truth))
        found = resampled(named(name), truth, np.column_stack([1 - score, score]))
        assert (next(iter(found.values())).interval() is not None) == is_known


def test_groups_are_counted_instead_of_rows() -> None:
    truth, output, _ = drawn(np.random.default_rng(0), 400, 0.3, 1.5)
    groups = np.arange(400) // 50
    assert resampled(named("auc"), truth, output, groups=groups)["auc"].interval() is None
    assert resampled(named("auc"), truth, output)["auc"].interval() is not None


def test_wilson_is_the_interval_of_the_textbook() -> None:
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)


def test_what_has_no_value_has_no_replicates() -> None:
    truth, output = np.zeros(50, int), np.full((50, 2), 0.5)
    assert set(resampled(named("auc", "accuracy"), truth, output)) == {"accuracy"}
    assert resampled(named("accuracy"), truth[:0], output[:0]) == {}
    nearly_none = np.full(1_000, np.nan)
    assert Replicates(metric("auc"), 0.5, nearly_none, units=50).interval() is None
    assert difference("auc", nearly_none, nearly_none, 0.1, 50) is None


def test_rows_that_decide_a_tie() -> None:
    assert Difference(0.01, 0.02).rows_to_decide(1_000) == 4_000
    assert Difference(0.0, 0.02).rows_to_decide(1_000) is None
    assert Difference(0.01, 0.01).is_tie and not Difference(-0.011, 0.01).is_tie


def test_outputs_that_decide_nearly_all_rows_alike_are_not_compared() -> None:
    truth = np.repeat([0, 1], [900, 100])
    score = np.where(truth == 1, 0.9, 0.1)
    outputs = []
    for missed in (0, 2, 12):
        changed = np.where(np.arange(1_000) >= 1_000 - missed, 0.1, score)
        outputs.append(np.column_stack([1 - changed, changed]))
    best, alike, worse = (resampled(named("accuracy"), truth, each) for each in outputs)
    for other, is_known in ((alike, False), (worse, True)):
        own, first = other["accuracy"], best["accuracy"]
        gap = difference("accuracy", own.values, first.values, own.value - first.value, own.units)
        assert gap is not None and gap.gain < 0 and not gap.is_tie
        assert (gap.margin is not None) == is_known
    assert Difference(-0.002, None).rows_to_decide(1_000) is None


# --- how often a 95 % interval holds the true value ---

SETS, POPULATION = 1_000, 1_000_000
CLASSIFICATIONS = {
    "half of 200": (200, 0.5, 1.5),
    "2 % of 1,000": (1_000, 0.02, 2.0),
    "3 % of 1,500": (1_500, 0.03, 2.0),
    "20 % of 2,000": (2_000, 0.2, 1.5),
    # Nearly all rows that a recall checks are positive, for both models.
    "half of 1,000, easy": (1_000, 0.5, 2.5),
}
REGRESSIONS = {"300 numbers": (300, 0.5, 5.0), "2,000 numbers": (2_000, 1.0, 30.0)}
FEW_CHECKED = "recall_at_rate(0.01)"
"""It is decided by 2 to 20 rows. Counts so small can only be held more often than 95 times."""


@dataclass
class Held:
    """How often intervals are given, and how often they hold the true value."""

    sets: int = 0
    given: int = 0
    held: int = 0

    def add(self, true: float, limits: tuple[float, float] | None) -> None:
        self.sets += 1
        if limits is not None:
            self.given += 1
            self.held += limits[0] <= true <= limits[1]

    def __str__(self) -> str:
        return f"{self.held / max(self.given, 1):.1%} of {self.given / self.sets:.0%}"

    def check(self, what: str, highest: float = 0.98) -> None:
        """Check that few intervals are wrong, and their coverage if most sets have one."""
        assert self.given - self.held <= 0.08 * self.sets, f"{what}: {self}"
        if self.given >= self.sets / 2:
            assert 0.92 <= self.held / self.given <= highest, f"{what}: {self}"


Draw = Callable[..., Any]
Interval = tuple[float, float] | None


def intervals(
    number: int, draw: Draw, metrics: list[Metric], rows: int
) -> dict[str, tuple[Interval, Interval]]:
    """Return the intervals of metrics and of differences, for one data set."""
    truth, output, other = draw(np.random.default_rng(1_000 + number), rows)
    own, others = (resampled(metrics, truth, each, count=400) for each in (output, other))
    found: dict[str, tuple[Interval, Interval]] = {}
    for name, each in own.items():
        limits, of_gap = each.interval(), None
        gap = each.value - others[name].value
        between = difference(name, each.values, others[name].values, gap, each.units)
        if limits is not None and between is not None and between.margin is not None:
            of_gap = gap - between.margin, gap + between.margin
        found[name] = limits, of_gap
    return found


def coverages(draw: Draw, metrics: list[Metric], rows: int) -> dict[str, tuple[Held, Held]]:
    """Return how often intervals of metrics, and of differences, hold the value of all rows."""
    truth, output, other = draw(np.random.default_rng(99), POPULATION)
    true = {each.name: each(truth, output, None) for each in metrics}
    true_gap = {each.name: true[each.name] - each(truth, other, None) for each in metrics}
    counts = {each.name: (Held(), Held()) for each in metrics}
    of_set = partial(intervals, draw=draw, metrics=metrics, rows=rows)
    with ProcessPoolExecutor() as pool:
        for found in pool.map(of_set, range(SETS), chunksize=20):
            for name, (limits, of_gap) in found.items():
                counts[name][0].add(true[name], limits)
                counts[name][1].add(true_gap[name], of_gap)
    for name, (single, paired) in counts.items():
        print(f"{name}: {single}, differences {paired}")
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("case", CLASSIFICATIONS)
def test_intervals_of_classes_hold_the_true_value_95_times_in_100(case: str) -> None:
    rows, share, skill = CLASSIFICATIONS[case]
    metrics = named(*CLASSIFIED)
    found = coverages(partial(drawn, share=share, skill=skill), metrics, rows)
    for name, (single, paired) in found.items():
        single.check(name, 1.0 if name == FEW_CHECKED else 0.98)
        paired.check(f"difference of {name}")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["2 % of 1,000", "20 % of 2,000"])
def test_intervals_of_decisions_at_a_threshold_hold_the_true_value(case: str) -> None:
    rows, share, skill = CLASSIFICATIONS[case]
    metrics = [decided_metric(name, 0.2) for name in ("accuracy", "balanced_accuracy", "f1")]
    found = coverages(partial(drawn, share=share, skill=skill), metrics, rows)
    for name, (single, paired) in found.items():
        single.check(name)
        paired.check(f"difference of {name}")


@pytest.mark.slow
@pytest.mark.parametrize("case", REGRESSIONS)
def test_intervals_of_numbers_hold_the_true_value_95_times_in_100(case: str) -> None:
    rows, noise, tail = REGRESSIONS[case]
    metrics = list(REGRESSION_METRICS.values())
    found = coverages(partial(numbers, noise=noise, tail=tail), metrics, rows)
    for name, (single, paired) in found.items():
        single.check(name)
        paired.check(f"difference of {name}")


PAYMENTS = {
    "5 % of 1,000, like amounts": (1_000, 0.05, 0.5),
    "10 % of 2,000": (2_000, 0.1, 1.0),
    # A few payments are most of the money.
    "2 % of 3,000, a few large amounts": (3_000, 0.02, 1.4),
}


def payments(rng: np.random.Generator, rows: int, share: float, spread: float) -> Any:
    """Rows as ``drawn``; the outputs have a third column with the amount of each row."""
    truth, *outputs = drawn(rng, rows, share, 2.0)
    amounts = rng.lognormal(4, spread, rows)
    return truth, *(np.column_stack([output, amounts]) for output in outputs)


def saved(truth: Any, output: Any) -> Any:
    """The money that each row saves if all from a probability of 0.1 on are interrupted."""
    return np.where(output[:, 1] >= 0.1, output[:, 2] * truth - 5.0, 0.0)


MONEY_SAVED = Metric("money_saved", "Money saved", True, per_row=saved)


def test_money_of_a_few_large_amounts_has_no_interval() -> None:
    for amounts, is_known in (([900.0, 1.0], False), ([20.0, 21.0], True)):
        truth = np.repeat([1, 0], [40, 400])
        output = np.column_stack([1 - truth, truth, np.resize(amounts, 440)])
        output[2:40, 2] = amounts[1]
        found = resampled([MONEY_SAVED], truth, output)["money_saved"]
        assert found.value == pytest.approx(saved(truth, output).mean())
        limits = found.interval()
        assert (limits is not None) == is_known
        if limits is not None:
            assert limits[0] < found.value < limits[1]


def test_money_may_be_lost_and_groups_decide_together() -> None:
    truth = np.repeat([1, 0], [60, 400])
    output = np.column_stack([np.zeros(460), np.full(460, 0.5), np.full(460, 20.0)])
    found = resampled([MONEY_SAVED], truth, output)["money_saved"]
    low, high = found.interval() or (0.0, 0.0)
    assert low < found.value < high < 0
    groups = np.minimum(np.arange(460) // 15, 4)
    assert resampled([MONEY_SAVED], truth, output, groups=groups)["money_saved"].units < 5


@pytest.mark.parametrize(("share", "rows"), [(0.05, 200), (0.3, 30), (0.9, 60)])
def test_intervals_of_counted_shares_hold_the_true_value(share: float, rows: int) -> None:
    counts = np.random.default_rng(0).binomial(rows, share, 2_000)
    held = [low <= share <= high for low, high in (wilson(count, rows) for count in counts)]
    assert 0.92 <= np.mean(held) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("case", PAYMENTS)
def test_intervals_of_money_hold_the_true_value_95_times_in_100(case: str) -> None:
    rows, share, spread = PAYMENTS[case]
    found = coverages(partial(payments, share=share, spread=spread), [MONEY_SAVED], rows)
    single, paired = found["money_saved"]
    single.check("money saved")
    # Few amounts decide, so that the interval of a difference is rather too wide.
    paired.check("difference of money saved", 1.0)
