"""How certain the figures of an evaluation are, alone and against another of the same rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepforest.bootstrap import Difference
from deepforest.metrics import METRICS, REGRESSION_METRICS
from engine.node_types import NodeContext
from engine.values import Predictions, Report
from engine.workspace import Files
from nodes import compare, evaluate
from nodes.models.uncertainty import (
    difference,
    difference_text,
    interval_text,
    intervals_of,
    margin_of_folds,
    what_decides,
    within_limits,
)

TRUTH = np.random.default_rng(0).random(500) < 0.3


def predictions(skill: float, seed: int = 1, truth: np.ndarray = TRUTH) -> Predictions:
    noise = np.random.default_rng(seed).random(len(truth))
    score = truth * skill + noise * (1 - skill)
    names = pa.array(np.where(truth, "yes", "no"))
    return Predictions(np.column_stack([1 - score, score]), ["no", "yes"], "M", names)


@pytest.fixture
def evaluated(tmp_path: Path) -> Any:
    ctx = NodeContext("e", "0" * 64, Files(tmp_path), tmp_path)

    def run(scored: Predictions, **params: Any) -> Report:
        settings = evaluate.EvaluateParams(**params)
        report: Report = evaluate.run(ctx, {"predictions": scored}, settings)["report"]
        return report

    return run


@pytest.mark.parametrize("params", [{}, {"threshold": 0.4}, {"positive": "no"}])
def test_every_figure_has_an_interval_that_contains_it(evaluated: Any, params: Any) -> None:
    report = evaluated(predictions(0.2), **params)
    expected = {*METRICS, "recall_at_1_in_100"} - {"recall_at_rate"}
    assert set(report.data["intervals"]) == set(report.data["replicates"]) == expected
    for name, (low, high) in report.data["intervals"].items():
        assert 0 <= low <= report.headline[name] <= high and low < high
        assert high <= 1 or name == "log_loss"
        assert len(report.data["replicates"][name]) == 1_000


def test_more_rows_give_narrower_intervals(evaluated: Any) -> None:
    few, many = (evaluated(predictions(0.2, truth=np.tile(TRUTH, n))) for n in (1, 9))
    for name in ("auc", "accuracy", "log_loss", "average_precision", "balanced_accuracy"):
        wide, narrow = (np.diff(each.data["intervals"][name]).item() for each in (few, many))
        assert narrow < wide / 2


def test_figures_of_several_classes_have_intervals(evaluated: Any) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    output = rng.random((300, 3)) + np.eye(3)[truth] * 0.5
    output /= output.sum(axis=1, keepdims=True)
    scored = Predictions(output, list("abc"), "M", pa.array(np.array(list("abc"))[truth]))
    report = evaluated(scored)
    names = {"accuracy", "balanced_accuracy", "log_loss", "auc", "f1", "ks", "average_precision"}
    assert set(report.data["intervals"]) == names
    against_rest = evaluated(scored, positive="b")
    assert set(against_rest.data["intervals"]) == names | {"recall_at_1_in_100"}


def test_a_figure_that_does_not_follow_from_the_rows_has_no_interval() -> None:
    scored = predictions(0.2)
    found = intervals_of({"auc": 0.123, "rows": 500}, TRUTH.astype(int), scored.probabilities)
    assert found["intervals"] == {} == found["replicates"]


def test_figures_of_a_regression_have_intervals() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=400)
    values = truth + rng.normal(size=400)
    figures = {
        name: metric(truth, values[:, None], None) for name, metric in REGRESSION_METRICS.items()
    }
    found = intervals_of({**figures, "rows": 400}, truth, values)
    assert set(found["intervals"]) == {"rmse", "mae", "r2"}
    for name, (low, high) in found["intervals"].items():
        assert low < figures[name] < high


def test_rows_of_a_group_are_resampled_together(evaluated: Any) -> None:
    scored = predictions(0.2)
    at = np.repeat(np.arange(500), 10)
    repeated = Predictions(scored.probabilities[at], scored.classes, "M", scored.truth.take(at))
    grouped = replace(repeated, carried=pa.table({"customer": pa.array(at)}), group="customer")
    single, alike, units = map(evaluated, (scored, repeated, grouped))
    width = [np.diff(each.data["intervals"]["auc"]).item() for each in (single, alike, units)]
    assert width[1] < width[0] / 2
    assert width[2] == pytest.approx(width[0], rel=0.15)
    assert (alike.data["resampled"], units.data["resampled"]) == ("rows", "groups")
    # Replicates of rows and of groups are not of the same rows.
    assert difference("auc", alike, units) is None


def test_the_group_of_predictions_is_stored_also_if_its_column_is_renamed(tmp_path: Path) -> None:
    carried = pa.table({"id": pa.array(range(500)), "truth": pa.array(range(500))})
    replace(predictions(0.2), carried=carried, group="truth").save(tmp_path)
    loaded = Predictions.load(tmp_path)
    assert loaded.group == "truth (input)" and loaded.group in loaded.carried.column_names


def test_a_clear_difference_is_not_a_tie_and_noise_is(evaluated: Any) -> None:
    best, worse, alike = map(
        evaluated, (predictions(0.4), predictions(0.1), predictions(0.4, seed=2))
    )
    gap = difference("auc", worse, best)
    assert gap is not None and gap.gain < 0 and not gap.is_tie
    for name in ("auc", "accuracy", "log_loss"):
        gap = difference(name, alike, best)
        assert gap is not None and gap.is_tie
    gap = difference("log_loss", best, worse)
    assert gap is not None
    better = best.headline["log_loss"] < worse.headline["log_loss"]
    assert (gap.gain > 0) == better
    assert difference("auc", best, best) == (0.0, 0.0)


def test_paired_rows_make_a_difference_more_certain(evaluated: Any) -> None:
    scored = predictions(0.3)
    wiggle = np.random.default_rng(5).normal(0, 0.01, 500)
    score = np.clip(scored.probabilities[:, 1] + wiggle, 0, 1)
    nearly = replace(scored, probabilities=np.column_stack([1 - score, score]))
    best, other = evaluated(scored), evaluated(nearly)
    gap = difference("auc", other, best)
    assert gap is not None and gap.margin < np.diff(best.data["intervals"]["auc"]).item() / 5


@pytest.mark.parametrize("change", ["rows", "positive", "old"])
def test_evaluations_that_cannot_be_compared_have_no_difference(
    evaluated: Any, change: str
) -> None:
    best = evaluated(predictions(0.2))
    other = evaluated(predictions(0.1))
    if change == "rows":
        other = evaluated(predictions(0.1, truth=TRUTH[::-1]))
    if change == "positive":
        other = evaluated(predictions(0.1), positive="no")
    if change == "old":
        data = {key: value for key, value in other.data.items() if key != "replicates"}
        other = replace(other, data=data)
    assert difference("auc", other, best) is None


def folds(values: list[float], rows: int = 100) -> Report:
    lines = [
        {"repeat": 1, "fold": number, "rows": rows, "auc": value}
        for number, value in enumerate(values, start=1)
    ]
    known = {"classes": "x", "columns": {}}
    data = {"folds": lines, "test_to_train": 0.25, "test_rows": known, "positive": "yes"}
    return Report("evaluation", "CV", {"auc": float(np.mean(values))}, data=data)


def test_cross_validations_are_compared_fold_by_fold() -> None:
    best = folds([0.9, 0.8, 0.7, 0.85, 0.75])
    steady = folds([0.89, 0.79, 0.69, 0.84, 0.741])
    gap = difference("auc", steady, best)
    assert gap is not None and not gap.is_tie and gap.gain == pytest.approx(-0.0098)
    other = folds([0.7, 0.8, 0.9, 0.75, 0.845])
    gap = difference("auc", other, best)
    assert gap is not None and gap.is_tie
    assert difference("auc", folds([0.9, 0.8, 0.7, 0.85, 0.75], rows=99), best) is None


def test_a_single_fold_has_no_margin_and_limits_hold() -> None:
    assert margin_of_folds([0.5], 0.25) is None
    assert within_limits("auc", 0.9, 1.1) == (0.9, 1.0)
    assert within_limits("log_loss", -0.1, 1.1) == (0.0, 1.1)
    assert within_limits("r2", -0.1, 1.1) == (-0.1, 1.0)


@pytest.mark.parametrize(
    ("gap", "text", "decides"),
    [
        (Difference(-0.01, 0.02), "tie", "About 3,000 more rows"),
        (Difference(0.0, 0.0), "tie", "They are equal on these rows"),
        (Difference(-0.03, 0.02), "0.030 ± 0.020 worse", None),
        (Difference(0.03, 0.02), "0.030 ± 0.020 better", None),
        (Difference(-0.01, None), "too few rows differ", None),
    ],
)
def test_differences_in_words(gap: Difference, text: str, decides: str | None) -> None:
    assert difference_text("auc", gap) == text
    if decides:
        assert what_decides(gap, 1_000).startswith(decides)


def test_intervals_in_words() -> None:
    assert interval_text("auc", [0.913, 0.936]) == "0.913–0.936"
    assert interval_text("accuracy", [0.913, 0.936]) == "91.3–93.6 %"


def test_a_comparison_reports_ties_and_what_decides(evaluated: Any, tmp_path: Path) -> None:
    reports = [
        evaluated(predictions(skill, seed), name=name)
        for name, skill, seed in (("Good", 0.4, 1), ("Alike", 0.4, 2), ("Bad", 0.1, 3))
    ]
    ctx = NodeContext("c", "0" * 64, Files(tmp_path), tmp_path)

    def compared(reports: list[Report]) -> Report:
        params = compare.CompareParams()
        report: Report = compare.run(ctx, {"reports": reports}, params)["report"]
        return report

    report = compared(reports)
    assert report.headline["tied"] == 1
    assert [row["tie"] for row in report.rows] == [None, True, False]
    assert report.rows[2]["gain"] < report.rows[2]["gain_high"] < 0
    assert report.rows[1]["gain_low"] < 0 < report.rows[1]["gain_high"]
    assert "more rows would decide" in report.data["decides"]
    clear = compared(reports[::2])
    assert clear.headline["tied"] == 0 and "decides" not in clear.data
    unknown = compared([reports[0], evaluated(predictions(0.1, truth=TRUTH[::-1]), name="Other")])
    assert "tied" not in unknown.headline and "tie" not in unknown.rows[0]
