"""gcForest-CS: who leaves where, and how the rest goes on."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits, load_iris

from deepforest import ScreenedForestClassifier, preset
from deepforest.forest.forest import grow_forest
from deepforest.learners import forests
from deepforest.metrics import METRICS
from deepforest.screening import confidence_threshold, tree_factor
from tests.deepforest.scripted_scores import keeps_every_layer

FEW = [
    {"kind": "random_forest", "n_estimators": 10},
    {"kind": "completely_random_forest", "n_estimators": 10},
]

PAPER: dict[str, Any] = {"resampling": "per_layer", "cv": 3, "random_state": 0}


@cache
def digits(**params: object) -> ScreenedForestClassifier:
    x, y = load_digits(return_X_y=True)
    asked = {"max_layers": 4, "patience": 4, **PAPER, **params}
    return ScreenedForestClassifier(FEW, **asked).fit(x[::2], y[::2])  # type: ignore[arg-type]


# --- the threshold ---


def plain_threshold(confidence: list[float], right: list[bool], share: float) -> float:
    """The least confidence c so that rows of at least c err less than ``share`` times as often."""
    error = sum(not each for each in right) / len(right)
    for c in sorted(set(confidence)):
        told = [each for each, sure in zip(right, confidence, strict=True) if sure >= c]
        if sum(not each for each in told) / len(told) < share * error:
            return c
    return max(confidence)


@settings(deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.3, 0.5, 0.6, 0.8, 0.9, 1.0]), st.booleans()),
        min_size=1,
        max_size=40,
    ),
    share=st.sampled_from([0.05, 0.1, 1 / 3, 0.9]),
)
def test_the_threshold_is_the_papers_and_equals_stay_together(
    rows: list[tuple[float, bool]], share: float
) -> None:
    confidence, right = [row[0] for row in rows], [row[1] for row in rows]
    found = confidence_threshold(np.array(confidence), np.array(right), share)
    assert found == plain_threshold(confidence, right, share)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_the_threshold_of_any_confidences(rows: list[tuple[float, bool]]) -> None:
    confidence, right = [row[0] for row in rows], [row[1] for row in rows]
    found = confidence_threshold(np.array(confidence), np.array(right), 0.5)
    assert found == plain_threshold(confidence, right, 0.5)


@pytest.mark.parametrize(
    ("right", "threshold"),
    [
        ([True, True, True, False], 0.7),
        ([False, True, True, True], 0.9),  # the surest row is wrong: nobody leaves
        ([True, True, True, True], 0.9),  # no error can be less than none
        ([False, False, False, False], 0.9),
    ],
)
def test_thresholds_by_hand(right: list[bool], threshold: float) -> None:
    assert confidence_threshold(np.array([0.9, 0.8, 0.7, 0.6]), np.array(right), 0.5) == threshold


# --- the flow of rows ---


def test_rows_that_leave_do_not_come_into_the_next_layer() -> None:
    records = digits().layer_records_
    assert len(records) > 2
    assert records[0].rows_in == len(digits().oof_output_)
    for record, following in pairwise(records):
        assert following.rows_in == record.rows_in - record.rows_out
        assert record.rows_out > 0
    for record in records:
        assert record.threshold is not None
        assert record.error_out is None or 0 <= record.error_out < 0.1
        assert record.effective_size == record.rows_in


def test_learners_are_judged_on_the_rows_they_saw() -> None:
    last = digits().layer_records_[-1]
    assert last.rows_in < 200
    assert all((learner.scores["accuracy"] or 0) > 0.3 for learner in last.learners)
    assert (last.scores["accuracy"] or 0) > 0.85  # over all rows, those that left keep their answer


def test_a_row_leaves_at_the_first_layer_that_is_sure_and_keeps_its_answer() -> None:
    x, _ = load_digits(return_X_y=True)
    model = digits()
    trace, depth = model.trace(x), model.n_layers_
    said = model.predict_proba(x)
    for number, record in enumerate(model.layer_records_[:depth]):
        there = trace.left_at > number
        sure = trace.outputs[number].max(axis=1) > record.threshold
        if number < depth - 1:
            np.testing.assert_array_equal(trace.left_at[there] == number + 1, sure[there])
        gone = trace.left_at == number + 1
        np.testing.assert_array_equal(said[gone], trace.outputs[number][gone])
    assert (np.bincount(trace.left_at, minlength=depth + 1)[1:] > 0).all()


def test_all_rows_may_leave_at_once() -> None:
    x, _ = load_digits(return_X_y=True)
    trace = digits().trace(x)
    early = x[trace.left_at == 1]
    assert len(list(digits().staged_predict_proba(early))) == 1
    np.testing.assert_array_equal(
        digits().predict_proba(early), digits().predict_proba(x)[trace.left_at == 1]
    )
    assert digits().transform(early).shape == (len(early), 20)
    assert (digits().trace(early).left_at == 1).all()


def test_stages_of_rows_that_left_stay_as_they_are() -> None:
    x, _ = load_digits(return_X_y=True)
    left_at = digits().trace(x).left_at
    stages = list(digits().staged_predict_proba(x))
    for number in range(1, len(stages)):
        gone = left_at <= number
        np.testing.assert_array_equal(stages[number][gone], stages[number - 1][gone])


# --- the cascade that learns all rows ---


class SureWithManyRows(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts what column 1 says; column 0 is how sure it is, unless it learned many rows."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> SureWithManyRows:  # noqa: N803
        self.classes_, self.n_rows_ = np.array([0, 1]), len(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        sure = X[:, 0] if self.n_rows_ <= 60 else np.full(len(X), 0.97)
        sure = sure + 0.01 * (X.shape[1] > 2)  # another output in later layers
        return np.where(X[:, [1]] == self.classes_, sure[:, None], 1 - sure[:, None])


def test_too_few_rows_in_the_cascade_that_learns_all_of_them() -> None:
    """With more rows to learn from it is surer, and all its rows leave after layer 1."""
    y = np.arange(120) // 4 % 2
    # Half of the rows are sure. The others are not, and every second of these is wrong.
    sure = np.array([0.95, 0.8, 0.6, 0.6])[np.arange(120) % 4]
    told = np.where(np.arange(120) % 4 == 3, 1 - y, y)
    model = ScreenedForestClassifier(
        [SureWithManyRows()],
        error_share=0.5,
        cv=3,
        max_layers=2,
        scoring=keeps_every_layer(),
        random_state=0,
    ).fit(np.column_stack([sure, told]), y)
    first, second = model.layer_records_
    assert (first.rows_in, first.rows_out, second.rows_in) == (120, 30, 90)
    assert len(model.cascades_[0].layers) == model.n_layers_ == 1
    assert [first.kept, second.kept] == [True, False]
    assert "dropped" not in first.reason
    assert "is better" in second.reason
    assert "dropped, since too few rows are left" in second.reason
    # What is reported is what is deployed: one layer.
    loss = METRICS["log_loss"](y, model.oof_output_, None)
    assert first.blind["log_loss"] == pytest.approx(loss)
    assert second.blind["log_loss"] != pytest.approx(loss)


# --- the number of trees ---


@pytest.mark.parametrize(
    ("share_left", "growth", "factor"),
    [
        (0.0, 2.0, 1.0),
        (0.5, 2.0, 2.0),  # half of the rows: twice the trees
        (0.75, 9.0, 4.0),
        (0.75, 2.0, 3.0),  # at most tripled
        (0.75, 0.0, 1.0),
        (1.0, 2.0, 3.0),
    ],
)
def test_trees_times_rows_stay_equal_up_to_a_limit(
    share_left: float, growth: float, factor: float
) -> None:
    assert tree_factor(share_left, growth) == pytest.approx(factor)


@pytest.mark.parametrize("growth", [0.0, 0.5, 3.0])
def test_trees_grow_more_numerous_as_rows_go(growth: float) -> None:
    records = digits(tree_growth=growth).layer_records_
    n_rows = records[0].rows_in
    for record in records:
        expected = round(10 * min(n_rows / record.rows_in, 1 + growth))
        assert [learner.settings["n_estimators"] for learner in record.learners] == [expected] * 2
    assert records[-1].learners[0].settings["n_estimators"] == round(10 * (1 + growth))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets trees times rows of every forest that is grown."""
    grown: list[int] = []

    def spy(matrix: Any, target: Any, settings: Any, **arguments: Any) -> Any:
        grown.append(settings.n_trees * len(arguments["rows"]))
        return grow_forest(matrix, target, settings, **arguments)

    monkeypatch.setattr(forests, "grow_forest", spy)
    return grown


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
def test_screening_takes_less_work_than_the_plain_cascade(resampling: str, work: list[int]) -> None:
    """With the same learners at the start, folds, and number of layers."""
    x, y = load_digits(return_X_y=True)
    params = preset("gcforest_cs").get_params(deep=False)
    learners = [{**learner, "n_estimators": 20} for learner in params["learners"]]
    # Patience lets both grow all layers, whatever these gain.
    same = {"resampling": resampling, "cv": params["cv"], "max_layers": 3, "patience": 3}
    sums = []
    for name in ("gcforest_cs", "gcforest"):
        work.clear()
        model = preset(name, learners=learners, scoring="accuracy", random_state=0, **same)
        assert len(model.fit(x, y).layer_records_) == 3
        sums.append(sum(work))
    assert sums[0] < 0.7 * sums[1]


def test_the_preset_has_the_learners_and_folds_of_the_paper() -> None:
    model = preset("gcforest_cs")
    assert [(each["kind"], each["count"]) for each in model.learners] == [
        ("random_forest", 1),
        ("completely_random_forest", 1),
    ]
    assert model.cv == 3


def test_a_probe_scores_the_rows_that_left_too() -> None:
    """Without them, only the hardest rows would count, and a temperature of their own."""
    x, y = load_digits(return_X_y=True)
    model = ScreenedForestClassifier(FEW, cv=3, random_state=0).fit(x, y)
    *_, kept, last = model.layer_records_
    assert last.probe and last.rows_in < 200
    # The first cascade is blind to a third of the rows: its score is near that of all of them.
    assert last.score == pytest.approx(kept.score, rel=0.3)


# --- the share of errors ---


@pytest.mark.parametrize(("load", "share"), [(load_iris, 1 / 10), (None, 1 / 3)])
def test_the_share_of_errors_depends_on_the_first_layer(load: object, share: float) -> None:
    x, y = load(return_X_y=True) if callable(load) else hard()
    for error_share, used in (("auto", share), (0.5, 0.5)):
        model = ScreenedForestClassifier(FEW, error_share=error_share, max_layers=1, **PAPER)
        output = model.fit(x, y).oof_output_
        right = output.argmax(axis=1) == y
        threshold = confidence_threshold(output.max(axis=1), right, used)
        assert model.layer_records_[0].threshold == pytest.approx(threshold)


def hard() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    return rng.normal(y[:, None] * 0.5, 1.0, (200, 3)), y


def test_the_record_counts_the_leavers_and_the_errors_among_them() -> None:
    x, y = hard()
    learners = [{"kind": "random_forest", "n_estimators": 40}]
    model = ScreenedForestClassifier(learners, error_share=0.6, max_layers=1, **PAPER).fit(x, y)
    record, error = model.layer_records_[0], np.mean(model.oof_output_.argmax(axis=1) != y)
    gone = model.oof_output_.max(axis=1) > record.threshold
    assert record.rows_out == gone.sum() > 0
    assert record.error_out == pytest.approx(
        np.mean(model.oof_output_[gone].argmax(axis=1) != y[gone])
    )
    assert record.error_out < error


def test_growth_stops_where_too_few_rows_are_left() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    y = (x[:, 0] > 0.5).astype(int)
    y[:1] = 1 - y[:1]
    model = ScreenedForestClassifier(
        FEW, error_share=0.99, cv=5, max_layers=9, patience=9, random_state=0
    ).fit(x, y)
    last = model.layer_records_[-1]
    assert last.number == 9 or "too few" in last.reason
    assert model.predict(x).shape == (60,)
