"""Figures about the inside of a cascade on cases computed by hand, and how they are collected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deepforest import (
    CascadeForestClassifier,
    MarginForestClassifier,
    ScreenedForestClassifier,
    margin_forest,
)
from deepforest.inspection import (
    Flow,
    Importance,
    agreement,
    learner_scores,
    name_importances,
    scatter_ratio,
    screening_flow,
    steering_measure,
)
from deepforest.metrics import METRICS
from tests.deepforest.scripted_scores import keeps_every_layer

NAN = np.nan
FORESTS = [
    {"kind": "random_forest", "n_estimators": 4, "max_depth": 3},
    {"kind": "extra_trees", "n_estimators": 4},
]


@pytest.mark.parametrize(
    ("points", "codes", "ratio"),
    [
        # Centres 1 and 5 around 3: within 1+1+1+1, between 2·2² + 2·2².
        ([[0, 0], [2, 0], [4, 0], [6, 0]], [0, 0, 1, 1], 4 / 16),
        # Scale and place do not matter.
        ([[7, 7], [7, 27], [7, 47], [7, 67]], [0, 0, 1, 1], 4 / 16),
        # A class of one row: centres 0 and 4 around 8/3; within 2, between (8/3)² + 2·(4/3)².
        ([[0, 0], [3, 0], [5, 0]], [4, 9, 9], 2 / (96 / 9)),
        # A row of unknown class counts for nothing.
        ([[0, 0], [2, 0], [4, 0], [6, 0], [99, 99]], [0, 0, 1, 1, -1], 4 / 16),
        # Every class in one place.
        ([[0, 0], [0, 0], [4, 3]], [0, 0, 1], 0.0),
        # Nothing to tell apart.
        ([[0, 0], [2, 0]], [1, 1], None),
        ([[0, 0], [2, 0], [0, 0], [2, 0]], [0, 0, 1, 1], None),
        ([[1, 1], [1, 1]], [0, 1], None),
        ([[1, 1], [2, 1]], [-1, -1], None),
    ],
)
def test_scatter_ratio_is_variance_within_classes_over_variance_between_them(
    points: list[list[float]], codes: list[int], ratio: float | None
) -> None:
    found = scatter_ratio(np.array(points, float), np.array(codes))
    assert found is None if ratio is None else found == pytest.approx(ratio)


def one_hot(*codes: list[int]) -> np.ndarray:
    return np.eye(3)[np.array(codes)]


def test_agreement_is_the_share_of_rows_on_which_two_learners_name_the_same_class() -> None:
    vectors = one_hot([0, 1, 2, 0], [0, 1, 1, 1], [2, 1, 2, 0])
    expected = [[1, 2 / 4, 3 / 4], [2 / 4, 1, 1 / 4], [3 / 4, 1 / 4, 1]]
    assert agreement(vectors).tolist() == expected
    assert agreement(np.empty((2, 0, 3))).tolist() == [[0, 0], [0, 0]]


def test_learners_are_scored_on_the_rows_whose_class_is_known() -> None:
    vectors = np.array(
        [[[0.75, 0.25], [0.5, 0.5], [0.1, 0.9]], [[0.25, 0.75], [0.2, 0.8], [0.9, 0.1]]]
    )
    first, second = learner_scores(vectors, np.array([0, 1, -1]))
    assert first == {"accuracy": 0.5, "log_loss": pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)}
    assert second == {"accuracy": 0.5, "log_loss": pytest.approx(-(np.log(0.25) + np.log(0.8)) / 2)}
    assert learner_scores(vectors, np.array([-1, -1, -1]), [METRICS["auc"]]) == [{"auc": None}] * 2


def of_first(*probabilities: float) -> list[list[float]]:
    return [[p, 1 - p] for p in probabilities]


def test_screening_lets_go_what_a_layer_is_sure_of_and_the_last_layer_lets_all_go() -> None:
    """Rows are of class 0. Layer 1 errs on 2 of 5.

    From confidence 0.8 on it has no errors: a rate below 0.5 · 2/5.
    """
    outputs = np.array([of_first(0.9, 0.8, 0.3, 0.6, 0.45), of_first(0.1, 0.8, 0.7, 0.6, 0.2)])
    assert screening_flow(outputs, np.zeros(5, int), 0.5) == [
        Flow(1, 5, 1, pytest.approx(2 / 5), 0.0, 0.8),
        Flow(2, 4, 4, pytest.approx(1 / 4), pytest.approx(1 / 4), None),
    ]


def test_screening_keeps_to_what_was_last_said_and_leaves_rows_of_unknown_class_out() -> None:
    outputs = np.array([of_first(0.9, 0.8, 0.4, 0.6), of_first(NAN, 0.3, 0.7, 0.6)])
    flow = screening_flow(outputs, np.array([0, 0, 0, -1]), 0.1)
    # One of three is wrong. The two surer ones are right: the second sets the threshold and the
    # first leaves.
    assert flow[0] == Flow(1, 3, 1, pytest.approx(1 / 3), 0.0, 0.8)
    assert flow[1] == Flow(2, 2, 2, pytest.approx(1 / 2), pytest.approx(1 / 2), None)
    alone = screening_flow(
        outputs[:, :1], np.array([0]), 0.1
    )  # what is never wrong is never surer than that
    assert alone == [Flow(1, 1, 0, 0.0, None, 0.9), Flow(2, 1, 1, 0.0, 0.0, None)]


def test_a_layer_that_nobody_reaches_has_no_errors() -> None:
    empty = screening_flow(np.zeros((2, 1, 2)), np.array([-1]), 0.5)
    assert empty == [Flow(1, 0, 0, None, None, None), Flow(2, 0, 0, None, None, None)]


def test_importances_are_summed_over_columns_of_one_name_and_weighed_by_the_learners() -> None:
    importances = np.array([[0.5, 0.2, 0.3, 0.0], [0.1, 0.1, 0.2, 0.6]])
    named = name_importances(importances, np.array([0.75, 0.25]), ["a", "v", "v", "b"], 2)
    assert [entry.feature for entry in named] == ["v", "a"]
    assert named[0] == Importance(
        "v", pytest.approx(0.75 * 0.5 + 0.25 * 0.3), pytest.approx([0.5, 0.3])
    )
    assert named[1] == Importance(
        "a", pytest.approx(0.75 * 0.5 + 0.25 * 0.1), pytest.approx([0.5, 0.1])
    )
    assert name_importances(np.zeros((2, 3)), np.array([0.5, 0.5]), ["a", "b", "c"], 9) == []


@pytest.mark.parametrize(
    ("scores", "wanted", "name"),
    [
        ({"auc": 0.7, "accuracy": 0.9}, "auc", "auc"),
        ({"auc": 0.7, "accuracy": 0.9}, None, "accuracy"),
        ({"auc": 0.7, "accuracy": 0.8}, "my_measure", "score"),
    ],
)
def test_the_measure_that_steered_is_the_one_asked_for_or_the_one_of_the_same_value(
    scores: dict[str, float], wanted: str | None, name: str
) -> None:
    assert steering_measure([{"score": 0.9, "scores": scores}], wanted) == name


# The pass through a real cascade


def three_clouds(n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + codes[:, None] * [1.2, -0.8, 0, 0], codes


@pytest.mark.parametrize(
    "cascade",
    [
        CascadeForestClassifier(FORESTS, max_layers=3, patience=3, random_state=0),
        MarginForestClassifier(FORESTS, max_layers=3, patience=3, random_state=0),
        ScreenedForestClassifier(
            FORESTS, max_layers=3, patience=3, error_share=0.5, random_state=0
        ),
    ],
    ids=lambda cascade: type(cascade).__name__,
)
def test_one_pass_tells_what_the_trace_and_the_predictions_tell(cascade: Any) -> None:
    x, y = three_clouds()
    cascade.fit(x[:160], y[:160])
    trace, rows = cascade.trace(x), np.arange(len(x))
    stages = list(cascade.stages(x))
    for number, stage in enumerate(stages):
        assert stage.rows.tolist() == rows[trace.left_at > number].tolist()
        np.testing.assert_array_equal(stage.vectors, trace.vectors[number][:, stage.rows])
        np.testing.assert_array_equal(stage.output[stage.rows], trace.outputs[number][stage.rows])
    np.testing.assert_array_equal(stages[-1].output, cascade.predict_proba(x))


@pytest.mark.parametrize("augment", ["concat", "stack", "none"])
@pytest.mark.parametrize("kind", [CascadeForestClassifier, MarginForestClassifier])
def test_every_column_a_layer_saw_has_a_name(
    kind: Any, augment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = three_clouds()
    own: dict[str, Any] = {"pass_on": "vectors"}
    if kind is MarginForestClassifier:
        own = {}
        # All layers have a weight, so that each changes the output.
        equal = lambda by_layer, *_: np.ones(by_layer.shape[1])  # noqa: E731
        monkeypatch.setattr(margin_forest, "best_alphas", equal)
    settings = {"cv": 3, "max_layers": 3, "patience": 3, "random_state": 0}
    cascade = kind(FORESTS, augment=augment, scoring=keeps_every_layer(), **settings, **own).fit(
        x, y
    )
    named = cascade.layer_feature_names(["a", "b", "c", "d"])
    assert [len(names) for names in named] == [
        each.shape[1] for each in cascade.layer_importances()
    ]
    assert named[0] == ["a", "b", "c", "d"]
    assert len(named) == 3
    added = {name for name in named[2] if name not in named[0]}
    if augment == "none":
        assert added == set()
    elif kind is MarginForestClassifier:
        assert added == {"class vectors of layers 1 to 2"}
    else:
        assert added == {
            "class vectors of layer 2: random forest 1",
            "class vectors of layer 2: extra trees 2",
        }


def test_columns_that_a_cascade_did_not_select_have_no_importance() -> None:
    from deepforest import MartSelector

    x, y = three_clouds()
    cascade = CascadeForestClassifier(
        FORESTS, cv=3, max_layers=1, selector=MartSelector(2), random_state=0
    ).fit(x, y)
    # Each cascade selects for itself: the names are those of all columns.
    assert cascade.layer_feature_names(["a", "b", "c", "d"]) == [["a", "b", "c", "d"]]
    [importances] = cascade.layer_importances()
    assert importances.shape == (2, 4)
    selected = np.concatenate([each.selected for each in cascade.cascades_])
    np.testing.assert_array_equal(np.flatnonzero(importances.sum(axis=0)), np.unique(selected))
