"""Every measure against small cases worked out by hand and against scikit-learn's values."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference

from deepforest import metrics
from deepforest.metrics import (
    METRICS,
    REGRESSION_METRICS,
    Curve,
    gain_and_error,
    metric,
    resolve_metric,
    standard_error,
)
from tests.expect import refused

RANKING = ("auc", "ks", "average_precision", "recall_at_rate")


def two(scores):
    """Probabilities of two classes from scores of the second."""
    scores = np.asarray(scores, float)
    return np.column_stack([1 - scores, scores])


def drawn(classes, rows=400, ties=False, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    probabilities = rng.random((rows, classes)) + np.eye(classes)[truth] * 0.4
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    if ties:
        probabilities = np.round(probabilities, 1) + 0.01
        probabilities /= probabilities.sum(axis=1, keepdims=True)
    return truth, probabilities, rng.random(rows) + 0.1


HAND = [
    ("accuracy", [0, 1, 1, 0], [0.2, 0.7, 0.4, 0.1], 3 / 4),
    ("balanced_accuracy", [0, 0, 0, 1], [0.2, 0.7, 0.4, 0.9], (2 / 3 + 1) / 2),
    ("auc", [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.4], 3 / 4),
    ("auc", [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], 1 / 2),
    ("auc", [0, 1], [0.9, 0.1], 0.0),
    ("ks", [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.4], 1 / 2),
    ("ks", [0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], 1.0),
    ("ks", [0, 1], [0.9, 0.1], 0.0),
    ("f1", [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.4], 4 / 5),
    ("average_precision", [0, 1, 0, 1], [0.1, 0.9, 0.8, 0.4], (1 + 2 / 3) / 2),
    ("log_loss", [0, 1], [0.5, 0.25], (np.log(2) + np.log(4)) / 2),
]


@pytest.mark.parametrize(("name", "truth", "scores", "expected"), HAND)
def test_value_worked_out_by_hand(name, truth, scores, expected):
    assert METRICS[name](np.array(truth), two(scores)) == pytest.approx(expected, abs=1e-12)


def sklearn_value(name, truth, p, weight):
    binary = p.shape[1] == 2
    if name == "accuracy":
        return reference.accuracy_score(truth, p.argmax(1), sample_weight=weight)
    if name == "balanced_accuracy":
        return reference.balanced_accuracy_score(truth, p.argmax(1), sample_weight=weight)
    if name == "log_loss":
        return reference.log_loss(truth, p, sample_weight=weight)
    if name == "auc" and binary:
        return reference.roc_auc_score(truth, p[:, 1], sample_weight=weight)
    if name == "auc":
        each = [
            reference.roc_auc_score(truth == c, p[:, c], sample_weight=weight)
            for c in range(p.shape[1])
        ]
        return np.mean(each)
    if name == "average_precision":
        columns = [1] if binary else range(p.shape[1])
        return np.mean(
            [
                reference.average_precision_score(truth == c, p[:, c], sample_weight=weight)
                for c in columns
            ]
        )
    if name == "ks":
        columns = [1] if binary else range(p.shape[1])
        curves = [reference.roc_curve(truth == c, p[:, c], sample_weight=weight) for c in columns]
        return np.mean([(tpr - fpr).max() for fpr, tpr, _ in curves])
    if binary:
        precision, recall, _ = reference.precision_recall_curve(
            truth, p[:, 1], sample_weight=weight
        )
        return np.nanmax(2 * precision * recall / (precision + recall))
    return reference.f1_score(truth, p.argmax(1), average="macro", sample_weight=weight)


CASES = list(
    itertools.product(
        [name for name in METRICS if name != "recall_at_rate"],
        (2, 3, 7),
        (False, True),
        (False, True),
    )
)


@pytest.mark.parametrize(("name", "classes", "ties", "weighted"), CASES)
def test_same_value_as_scikit_learn(name, classes, ties, weighted):
    truth, p, weight = drawn(classes, ties=ties)
    weight = weight if weighted else None
    assert METRICS[name](truth, p, weight) == pytest.approx(
        sklearn_value(name, truth, p, weight), abs=1e-12
    )


def test_macro_auc_is_what_scikit_learn_calls_one_vs_rest():
    truth, p, _ = drawn(5)
    assert metrics.auc(truth, p) == pytest.approx(
        reference.roc_auc_score(truth, p, multi_class="ovr"), abs=1e-12
    )


def test_f1_at_a_stated_threshold():
    truth, p, weight = drawn(2)
    expected = reference.f1_score(truth, p[:, 1] >= 0.3, sample_weight=weight)
    assert metrics.f1(truth, p, weight, threshold=0.3) == pytest.approx(expected, abs=1e-12)


def test_best_threshold_gives_the_best_f1():
    truth, p, _ = drawn(2, ties=True)
    score, threshold = metrics.best_f1(truth, p)
    assert metrics.f1(truth, p, threshold=threshold) == pytest.approx(score, abs=1e-12)
    assert all(metrics.f1(truth, p, threshold=t) <= score + 1e-12 for t in np.unique(p[:, 1]))


def test_log_loss_of_a_certain_mistake_is_large_but_finite():
    assert metrics.log_loss(np.array([0, 1]), two([0.0, 0.0])) == pytest.approx(
        reference.log_loss([0, 1], two([0.0, 0.0])), rel=1e-9
    )


def test_mean_of_single_precision_is_computed_in_double_precision():
    truth, p, _ = drawn(2, rows=10_000)
    p = p.astype(np.float32)
    losses = -np.log(p[np.arange(len(truth)), truth])
    assert metrics.log_loss(truth, p) == pytest.approx(losses.mean(dtype=np.float64), rel=1e-12)


class TestRecallAtRate:
    def test_counts_positives_among_the_top_rows(self):
        truth = np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 1])
        scores = np.linspace(1, 0.1, 10)
        assert metrics.recall_at_rate(truth, two(scores), rate=0.3) == pytest.approx(2 / 3)
        assert metrics.recall_at_rate(truth, two(scores), rate=1.0) == pytest.approx(1.0)

    def test_ties_count_by_expectation_whatever_the_order(self):
        truth, scores = (
            np.array([1, 1, 0, 0, 0, 0, 0, 0]),
            np.array([0.9, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1]),
        )
        for seed in range(5):
            order = np.random.default_rng(seed).permutation(8)
            found = metrics.recall_at_rate(truth[order], two(scores[order]), rate=0.25)
            assert found == pytest.approx((1 + 1 / 4) / 2)

    def test_constant_score_finds_the_share_it_looks_at(self):
        truth = np.array([0, 1] * 50)
        assert metrics.recall_at_rate(truth, two(np.full(100, 0.3)), rate=0.07) == pytest.approx(
            0.07
        )

    def test_part_of_a_row_counts_as_that_part(self):
        assert metrics.recall_at_rate(
            np.array([1, 1, 0]), two([0.9, 0.8, 0.1]), rate=0.5
        ) == pytest.approx(0.75)

    def test_less_than_one_row_has_no_value(self):
        truth, scores = np.array([0, 1] * 50), np.linspace(0, 1, 100)
        assert metrics.recall_at_rate(truth, two(scores), rate=0.009) is None
        assert metrics.recall_at_rate(truth, two(scores), rate=0.01) == pytest.approx(1 / 50)

    def test_mean_over_classes_when_there_are_more_than_two(self):
        truth, p, _ = drawn(3)
        each = [
            metrics.recall_at_rate((truth == c).astype(int), two(p[:, c]), rate=0.1)
            for c in range(3)
        ]
        assert metrics.recall_at_rate(truth, p, rate=0.1) == pytest.approx(np.mean(each))

    @pytest.mark.parametrize("rate", [0, -0.1, 1.5])
    def test_impossible_rate_is_refused(self, rate):
        with pytest.raises(ValueError, match="rate"):
            metrics.recall_at_rate(np.array([0, 1]), two([0.1, 0.9]), rate=rate)


class TestWithoutValue:
    @pytest.mark.parametrize("name", METRICS)
    def test_no_rows(self, name):
        assert METRICS[name](np.zeros(0, int), np.zeros((0, 2))) is None
        assert METRICS[name](np.zeros(0, int), np.zeros((0, 3))) is None

    @pytest.mark.parametrize("name", [*RANKING, "f1"])
    def test_no_positive_row(self, name):
        assert METRICS[name](np.zeros(200, int), two(np.linspace(0, 1, 200))) is None

    @pytest.mark.parametrize("name", ["auc", "ks"])
    def test_only_positive_rows(self, name):
        assert METRICS[name](np.ones(200, int), two(np.linspace(0, 1, 200))) is None

    @pytest.mark.parametrize("name", RANKING)
    def test_absent_class_is_left_out_of_the_mean(self, name):
        truth, p, _ = drawn(3)
        kept = truth != 2
        with_absent = METRICS[name](truth[kept], p[kept])
        columns = [
            METRICS[name]((truth[kept] == c).astype(int), two(p[kept][:, c])) for c in (0, 1)
        ]
        assert with_absent == pytest.approx(np.mean(columns))

    def test_one_class_of_many(self):
        _, p, _ = drawn(3)
        assert metrics.auc(np.ones(len(p), int), p) is None
        assert metrics.accuracy(np.ones(len(p), int), p) is not None


@pytest.mark.parametrize(
    "name", [*METRICS, "recall_at_rate(0.001)", "recall_at_rate(1e-2)", "recall_at_rate(.5)"]
)
def test_measure_is_found_by_name(name):
    assert metric(name).name == name


def test_rate_in_the_name_is_used():
    truth, p, _ = drawn(2)
    assert metric("recall_at_rate(0.2)")(truth, p) == metrics.recall_at_rate(truth, p, rate=0.2)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("recall_at_rate(0.001)", "Recall at 1/1,000"),
        ("recall_at_rate(0.0001)", "Recall at 1/10,000"),
        ("recall_at_rate(1e-4)", "Recall at 1/10,000"),
        ("recall_at_rate", "Recall at 1/100"),
        ("recall_at_rate(0.3)", "Recall at 30 %"),
    ],
)
def test_title_says_how_many_rows_are_checked(name, title):
    assert metric(name).title == metrics.metric_title(name) == title
    assert metrics.format_metric(name, 0.25) == "25.0 %"
    assert not metrics.lower_is_better(name)


@pytest.mark.parametrize(("rate", "found"), [("0.001", 30 / 40), ("0.0001", 3 / 40)])
def test_recall_at_a_small_rate_decides_between_models(rate, found):
    truth = np.zeros(30_000, int)
    truth[:40] = 1
    measure = metric(f"recall_at_rate({rate})")
    good, bad = (two(sign * np.arange(30_000.0) / 30_000 + 0.5 - sign / 2) for sign in (-1, 1))
    assert measure(truth, good) == pytest.approx(found)
    assert gain_and_error(measure, truth, good, bad)[0] == pytest.approx(found)


@pytest.mark.parametrize(
    "name", ["", "AUC", "recall_at_rate()", "recall_at_rate(2)", "recall_at_rate(x)"]
)
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="balanced_accuracy"):
        metric(name)


def test_improvement_follows_the_direction_of_the_measure():
    assert METRICS["auc"].improves(0.9, 0.8) and not METRICS["auc"].improves(0.8, 0.8)
    assert METRICS["log_loss"].improves(0.3, 0.4) and not METRICS["log_loss"].improves(
        0.39, 0.4, tolerance=0.05
    )


@pytest.mark.parametrize(
    ("truth", "p"),
    [
        ([0, 1], [0.1, 0.9]),
        ([0], two([0.1, 0.2])),
        ([0, 2], two([0.1, 0.2])),
        ([0, -1], two([0.1, 0.2])),
    ],
)
def test_shapes_that_do_not_fit_are_refused(truth, p):
    with pytest.raises(ValueError):
        metrics.accuracy(np.array(truth), np.array(p))


@pytest.mark.parametrize("name", METRICS)
def test_weights_that_do_not_fit_are_refused(name):
    for weight in (np.ones(1), np.ones(3)):
        with pytest.raises((ValueError, TypeError)):
            METRICS[name](np.array([0, 1]), two([0.1, 0.9]), weight)


def test_confusion_matrix_equals_scikit_learn():
    truth, p, weight = drawn(4)
    np.testing.assert_allclose(
        metrics.confusion_matrix(truth, p, weight),
        reference.confusion_matrix(truth, p.argmax(1), sample_weight=weight),
    )


class TestCurves:
    def test_roc_points_equal_scikit_learn(self):
        truth, p, weight = drawn(2, rows=120, ties=True)
        curve = metrics.roc_curve(truth == 1, p[:, 1], weight)
        fpr, tpr, threshold = reference.roc_curve(
            truth, p[:, 1], sample_weight=weight, drop_intermediate=False
        )
        for ours, theirs in zip(curve, (fpr, tpr, threshold), strict=True):
            np.testing.assert_allclose(ours, theirs)

    def test_precision_recall_points_equal_scikit_learn(self):
        truth, p, weight = drawn(2, rows=120, ties=True)
        curve = metrics.precision_recall_curve(truth == 1, p[:, 1], weight)
        precision, recall, threshold = reference.precision_recall_curve(
            truth, p[:, 1], sample_weight=weight
        )
        for ours, theirs in zip(curve, (recall[:-1], precision[:-1], threshold), strict=True):
            np.testing.assert_allclose(ours, theirs[::-1])

    @pytest.mark.parametrize("make", [metrics.roc_curve, metrics.precision_recall_curve])
    def test_thinning_keeps_the_ends_and_the_shape(self, make):
        truth, p, _ = drawn(2, rows=20_000)
        full, thin = (make(truth == 1, p[:, 1], points=points) for points in (10**9, 300))
        assert 100 < len(thin.x) <= 300
        for at in (0, -1):
            assert (thin.x[at], thin.y[at]) == (full.x[at], full.y[at])
        length = (np.abs(np.diff(full.x)) + np.abs(np.diff(full.y))).sum()
        assert farthest(full, thin) <= length / 290

    def test_one_score_for_all_gives_the_diagonal(self):
        curve = metrics.roc_curve(np.array([True, False]), np.array([0.5, 0.5]))
        assert curve.x.tolist() == [0, 1] and curve.y.tolist() == [0, 1]

    def test_one_class_has_no_roc_curve(self):
        assert metrics.roc_curve(np.array([True, True]), np.array([0.5, 0.6])) is None
        assert (
            metrics.precision_recall_curve(np.array([False, False]), np.array([0.5, 0.6])) is None
        )


def farthest(full: Curve, thin: Curve) -> float:
    """The largest distance from a point of the full curve to the nearest kept point."""
    gaps = np.abs(full.x[:, None] - thin.x) + np.abs(full.y[:, None] - thin.y)
    return float(gaps.min(axis=1).max())


class TestRequestedMetric:
    def test_a_callable_sees_labels_and_probabilities_and_more_is_better(self) -> None:
        def confidence(y: np.ndarray, probabilities: np.ndarray) -> float:
            assert y.tolist() == ["no", "yes"]
            return probabilities.max(axis=1).mean()

        measure = resolve_metric(confidence, np.array(["no", "yes"]))
        assert (measure.name, measure.greater_is_better) == ("confidence", True)
        assert measure(np.array([0, 1]), np.array([[0.8, 0.2], [0.4, 0.6]])) == pytest.approx(0.7)

    def test_a_callable_on_numbers_sees_them_as_one_column(self) -> None:
        measure = resolve_metric(lambda y, said: -float(np.abs(y - said).sum()), None)
        assert measure(np.array([1.0, 2.0]), np.array([[1.5], [2.0]])) == -0.5

    @pytest.mark.parametrize(
        ("name", "classes", "known"),
        [("precision", np.arange(2), "accuracy"), ("accuracy", None, "rmse")],
    )
    def test_an_unknown_measure_is_named_with_the_known_ones(
        self, name: str, classes: Any, known: str
    ) -> None:
        with refused(ValueError, naming=[f"'{name}'", known]):
            resolve_metric(name, classes)

    @pytest.mark.parametrize(
        ("name", "scoring", "classes"),
        [
            ("log_loss", "neg_log_loss", 2),
            ("auc", "roc_auc", 2),
            ("auc", "roc_auc_ovr", 3),
            ("average_precision", "average_precision", 2),
            ("accuracy", "accuracy", 3),
            ("balanced_accuracy", "balanced_accuracy", 3),
            ("f1", "f1", 2),
        ],
    )
    def test_scikit_learn_names_of_the_same_metric_are_known(
        self, name: str, scoring: str, classes: int
    ) -> None:
        reference.get_scorer(scoring)  # scikit-learn knows the name
        assert resolve_metric(scoring, np.arange(classes)) is METRICS[name]

    @pytest.mark.parametrize(
        ("name", "scoring"),
        [
            ("r2", "r2"),
            ("rmse", "neg_root_mean_squared_error"),
            ("mae", "neg_mean_absolute_error"),
        ],
    )
    def test_scikit_learn_names_of_metrics_of_numbers_are_known(
        self, name: str, scoring: str
    ) -> None:
        reference.get_scorer(scoring)
        assert resolve_metric(scoring, None) is REGRESSION_METRICS[name]

    def test_a_metric_of_numbers_is_refused_for_classes(self) -> None:
        with refused(ValueError, naming=["'neg_mean_absolute_error'", "accuracy"]):
            resolve_metric("neg_mean_absolute_error", np.arange(2))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("r2", reference.r2_score),
        ("rmse", reference.root_mean_squared_error),
        ("mae", reference.mean_absolute_error),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_of_numbers_equal_scikit_learn(
    name: str, function: Callable[..., float], weighted: bool
) -> None:
    rng = np.random.default_rng(0)
    truth, weight = rng.normal(size=(2, 300)) ** 2
    predicted = truth + rng.normal(size=300)
    weight = weight if weighted else None
    assert REGRESSION_METRICS[name](truth, predicted[:, None], weight) == pytest.approx(
        function(truth, predicted, sample_weight=weight), abs=1e-12
    )


@pytest.mark.parametrize("name", REGRESSION_METRICS)
def test_metrics_of_numbers_without_rows_have_no_value(name: str) -> None:
    assert REGRESSION_METRICS[name](np.zeros(0), np.zeros((0, 1))) is None


def test_r2_of_equal_numbers_has_no_value() -> None:
    assert REGRESSION_METRICS["r2"](np.ones(3), np.zeros((3, 1))) is None


def generated(rows: int, positive: float = 0.3, seed: int = 0) -> tuple[Any, Any, Any]:
    """True classes, and the probabilities of a good and of a less good model that err alike."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(rows) < positive).astype(int)
    shared = truth * 1.5 + rng.normal(size=rows)
    outputs = (
        1 / (1 + np.exp(1.5 - shared - noise * rng.normal(size=rows))) for noise in (0.3, 0.8)
    )
    return truth, *(two(output) for output in outputs)


def bootstrap_errors(
    measure: Any, truth: Any, output: Any, before: Any, weight: Any = None
) -> tuple[float, float]:
    """Standard errors of a metric and of a gain, from rows drawn with replacement."""
    rng = np.random.default_rng(1)
    values = []
    for _ in range(300):
        rows = rng.integers(0, len(truth), len(truth))
        weights = None if weight is None else weight[rows]
        values.append([measure(truth[rows], each[rows], weights) for each in (output, before)])
    new, old = np.array(values).T
    return float(new.std()), float((new - old).std())


class TestNoise:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize(
        "name",
        [
            *("auc", "accuracy", "log_loss", "f1", "ks", "average_precision", "balanced_accuracy"),
            "recall_at_rate(0.1)",
        ],
    )
    def test_errors_are_those_of_the_bootstrap(self, name: str, weighted: bool) -> None:
        truth, good, worse = generated(2000)
        weight = np.random.default_rng(2).exponential(size=2000) if weighted else None
        measure = metric(name)
        error = standard_error(measure, truth, good, weight)
        gain, gain_error = gain_and_error(measure, truth, good, worse, weight)
        expected, expected_of_gain = bootstrap_errors(measure, truth, good, worse, weight)
        assert gain == pytest.approx(
            measure.sign * (measure(truth, good, weight) - measure(truth, worse, weight)), abs=1e-12
        )
        assert gain > 0
        assert 1 / 1.5 < error / expected < 1.5
        assert 1 / 1.5 < gain_error / expected_of_gain < 1.5

    @pytest.mark.parametrize("name", REGRESSION_METRICS)
    def test_errors_of_metrics_of_numbers_are_those_of_the_bootstrap(self, name: str) -> None:
        rng = np.random.default_rng(0)
        truth = rng.normal(size=2000)
        shared = truth + rng.normal(size=2000)
        good, worse = (shared[:, None] + s * rng.normal(size=(2000, 1)) for s in (0.3, 0.8))
        measure = REGRESSION_METRICS[name]
        gain, gain_error = gain_and_error(measure, truth, good, worse)
        expected, expected_of_gain = bootstrap_errors(measure, truth, good, worse)
        assert gain > 0
        assert 1 / 1.5 < standard_error(measure, truth, good) / expected < 1.5
        assert 1 / 1.5 < gain_error / expected_of_gain < 1.5

    def test_error_of_rare_positives_is_that_of_the_bootstrap(self) -> None:
        truth, good, worse = generated(5000, positive=0.01)
        expected, _ = bootstrap_errors(metrics.auc, truth, good, worse)
        assert 1 / 1.5 < standard_error(metrics.auc, truth, good) / expected < 1.5

    def test_error_of_several_classes_is_that_of_the_bootstrap(self) -> None:
        truth, output, _ = drawn(4, rows=2000)
        expected, _ = bootstrap_errors(metrics.auc, truth, output, output)
        assert 1 / 1.5 < standard_error(metrics.auc, truth, output) / expected < 1.5

    @pytest.mark.parametrize("name", [*METRICS, "recall_at_rate(0.001)"])
    def test_equal_outputs_gain_nothing_for_certain(self, name: str) -> None:
        truth, output, _ = generated(2000)
        assert gain_and_error(metric(name), truth, output, output.copy()) == (0.0, 0.0)

    @pytest.mark.parametrize("name", ["accuracy", "log_loss", "auc", "f1", "balanced_accuracy"])
    def test_repeated_rows_of_a_group_add_no_certainty(self, name: str) -> None:
        truth, good, worse = generated(600)
        repeated = np.repeat(np.arange(600), 10)
        measure = metric(name)
        single = standard_error(measure, truth, good)
        single_gain = gain_and_error(measure, truth, good, worse)[1]
        rows = (truth[repeated], good[repeated])
        assert standard_error(measure, *rows, groups=repeated) == pytest.approx(single, rel=0.1)
        _, gain_error = gain_and_error(measure, *rows, worse[repeated], groups=repeated)
        assert gain_error == pytest.approx(single_gain, rel=0.1)
        assert standard_error(measure, *rows) < single / 2

    def test_order_of_groups_and_their_names_do_not_matter_to_a_mean(self) -> None:
        truth, output, _ = generated(500)
        groups = np.arange(500) // 5
        names = np.array([f"customer {group}" for group in groups])
        order = np.random.default_rng(0).permutation(500)
        assert standard_error(metrics.log_loss, truth, output, groups=groups) == pytest.approx(
            standard_error(metrics.log_loss, truth[order], output[order], groups=names[order])
        )

    def test_rows_without_weight_do_not_count(self) -> None:
        truth, output, before = generated(400)
        weight = np.repeat([1.0, 0.0], 200)
        expected = gain_and_error(metrics.log_loss, truth[:200], output[:200], before[:200])
        assert gain_and_error(metrics.log_loss, truth, output, before, weight) == pytest.approx(
            expected
        )

    def test_error_is_the_same_at_every_call(self) -> None:
        truth, output, before = generated(300)
        first, second = (gain_and_error(metrics.auc, truth, output, before) for _ in range(2))
        assert first == second

    @pytest.mark.parametrize("name", METRICS)
    def test_no_rows_have_no_error(self, name: str) -> None:
        none = np.zeros(0, int), np.zeros((0, 2))
        assert standard_error(METRICS[name], *none) is None
        assert gain_and_error(METRICS[name], *none, none[1]) == (None, None)

    def test_one_row_has_a_value_and_no_error(self) -> None:
        right = np.array([0]), two([0.1]), two([0.9])
        assert gain_and_error(metrics.accuracy, *right) == (1.0, None)
        assert standard_error(metrics.accuracy, *right[:2]) is None

    def test_parts_without_a_value_are_left_out(self) -> None:
        # Without its only positive row, a part has no AUC; the other 29 have one.
        truth = np.zeros(300, int)
        truth[7] = 1
        assert standard_error(metrics.auc, truth, two(np.linspace(0, 1, 300))) > 0

    def test_metric_without_a_value_has_no_gain(self) -> None:
        truth, output = np.zeros(100, int), two(np.linspace(0, 1, 100))
        assert gain_and_error(metrics.auc, truth, output, output) == (None, None)
        assert standard_error(metrics.auc, truth, output) is None

    def test_too_few_groups_have_no_error(self) -> None:
        truth, output, before = generated(400)
        gain, error = gain_and_error(
            metrics.auc, truth, output, before, groups=np.arange(400) // 100
        )
        assert gain is not None and error is None

    def test_function_of_a_user_has_an_error(self) -> None:
        truth, good, worse = generated(1000)
        classes = np.array(["no", "yes"])

        def ranking(y: Any, probabilities: Any) -> float:
            return reference.roc_auc_score(y == "yes", probabilities[:, 1])

        measure = resolve_metric(ranking, classes)
        assert standard_error(measure, truth, good) == pytest.approx(
            standard_error(metrics.auc, truth, good), rel=1e-9
        )
        assert gain_and_error(measure, truth, good, worse) == pytest.approx(
            gain_and_error(metrics.auc, truth, good, worse), rel=1e-9
        )

    def test_function_that_fails_on_parts_has_no_error(self) -> None:
        truth, output, before = generated(300)

        def only_of_all_rows(y: Any, probabilities: Any) -> float:
            if len(y) < 300:
                raise RuntimeError("some rows are missing")
            return float(probabilities[:, 1].mean())

        measure = resolve_metric(only_of_all_rows, np.arange(2))
        gain, error = gain_and_error(measure, truth, output, before)
        assert gain == pytest.approx(output[:, 1].mean() - before[:, 1].mean())
        assert error is None


def test_import_does_not_load_scikit_learn() -> None:
    code = "import sys, deepforest.metrics; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
