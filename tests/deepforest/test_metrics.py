"""Every measure against small cases worked out by hand and against scikit-learn's values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sklearn.metrics as reference

from deepforest import metrics
from deepforest.metrics import METRICS, Curve, metric

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
