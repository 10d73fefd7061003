"""When a cascade stops to grow, and which layers it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.datasets import load_iris

from deepforest import CascadeForestClassifier
from deepforest.early_stopping import EarlyStopping
from deepforest.metrics import METRICS, REGRESSION_METRICS
from tests.expect import refused

ENDLESS = 100


def grown(scores: list[float], metric: str = "accuracy", **settings: Any) -> EarlyStopping:
    """Growth with scores as long as it asks for them; all of them must be asked for."""
    measure = REGRESSION_METRICS.get(metric) or METRICS[metric]
    growth = stopping(measure, errors=0.0, **settings)
    for number, score in enumerate(scores, 1):
        growth.add(score)
        assert growth.stopped == (number == len(scores)), f"after layer {number}"
    return growth


def stopping(measure: Any = METRICS["log_loss"], **settings: Any) -> EarlyStopping:
    return EarlyStopping(measure, **{"patience": 1, "tol": 0.0, "max_layers": ENDLESS, **settings})


@pytest.mark.parametrize(
    ("scores", "settings", "kept"),
    [
        ([0.5, 0.4], {}, 1),
        ([0.5, 0.5], {}, 1),
        ([0.5, 0.6, 0.7, 0.7], {}, 3),
        ([0.5, 0.6, 0.55], {}, 2),
        ([0.5, 0.4, 0.45, 0.6, 0.6, 0.5, 0.59], {"patience": 3}, 4),
        ([0.5, 0.4, 0.4], {"patience": 2}, 1),
        ([0.5, 0.4, 0.6, 0.4, 0.4], {"patience": 2}, 3),
        ([0.5, 0.505], {"tol": 0.01}, 1),
        ([0.5, 0.52, 0.525], {"tol": 0.01}, 2),
        ([0.5, 0.506, 0.512, 0.517, 0.52], {"tol": 0.01, "patience": 2}, 3),
        ([0.5, 0.6, 0.7], {"max_layers": 3}, 3),
        ([0.5, 0.4, 0.3], {"max_layers": 3, "patience": 5}, 1),
        ([0.5], {"max_layers": 1}, 1),
        ([0.9, 0.5, 0.4, 0.45], {"metric": "log_loss"}, 3),
        ([0.9, 0.9], {"metric": "log_loss"}, 1),
        ([3.0, 2.0, 1.95], {"metric": "rmse", "tol": 0.1}, 2),
        ([-1.0, 0.2, 0.1], {"metric": "r2"}, 2),
    ],
)
def test_growth_stops_when_it_should_and_keeps_the_layers_up_to_the_best(
    scores: list[float], settings: dict[str, Any], kept: int
) -> None:
    growth = grown(scores, **settings)
    assert [decision.kept for decision in growth.decisions()] == [
        n < kept for n in range(len(scores))
    ]
    assert [decision.score for decision in growth.decisions()] == scores


@pytest.mark.parametrize(
    ("metric", "scores", "gains"),
    [
        ("accuracy", [0.5, 0.25, 0.75], [None, -0.25, 0.25]),
        ("accuracy", [0.5, 0.75, 0.25], [None, 0.25, -0.5]),
        ("log_loss", [0.5, 0.25, 0.75], [None, 0.25, -0.5]),
    ],
)
def test_gains_are_against_the_best_layer_before(
    metric: str, scores: list[float], gains: list[float | None]
) -> None:
    growth = grown(scores, metric, patience=3, max_layers=3)
    assert [decision.gain for decision in growth.decisions()] == gains


@pytest.mark.parametrize(
    ("scores", "settings", "naming"),
    [
        (
            [0.5, 0.6, 0.6],
            {},
            [
                ["accuracy", "0.5000"],
                ["accuracy", "0.6000", "0.1000"],
                ["accuracy", "0.6000", "+0.0000", "dropped", "layer 2", "stopped", "last layer"],
            ],
        ),
        (
            [0.5, 0.4, 0.6, 0.55, 0.5],
            {"patience": 2},
            [
                ["0.5000"],
                ["0.4000", "worse by 0.1000", "kept"],
                ["0.6000", "0.1000"],
                ["0.5500", "worse by 0.0500", "dropped", "layer 3"],
                ["0.5000", "worse by 0.1000", "dropped", "layer 3", "stopped", "2 layers"],
            ],
        ),
        ([0.5, 0.6], {"max_layers": 2}, [["0.5000"], ["0.6000", "0.1000", "stopped", "2 layers"]]),
        (
            [0.4, 0.395],
            {"metric": "log_loss", "tol": 0.01},
            [
                ["log loss", "0.4000"],
                ["log loss", "0.3950", "0.01 ", "+0.0050", "dropped", "layer 1", "stopped"],
            ],
        ),
    ],
)
def test_every_decision_says_why(
    scores: list[float], settings: dict[str, Any], naming: list[list[str]]
) -> None:
    reasons = [decision.reason.lower() for decision in grown(scores, **settings).decisions()]
    for reason, values in zip(reasons, naming, strict=True):
        assert [value for value in values if value not in reason] == [], reason
    stopped = ["stopped" in reason for reason in reasons]
    assert stopped == [*[False] * (len(reasons) - 1), True]


def test_a_model_that_cannot_be_so_deep_keeps_fewer_layers() -> None:
    growth = grown([0.5, 0.6, 0.7, 0.6])
    assert growth.n_kept == growth.best == 3
    growth.deepest = 1
    assert growth.n_kept == 1
    first, second, third, last = growth.decisions()
    assert [each.kept for each in (first, second, third, last)] == [True, False, False, False]
    assert "dropped" not in first.reason
    for each in (second, third):
        assert "dropped, since too few rows are left" in each.reason
    assert "dropped, the model ends with layer 3" in last.reason


# --- gains with their errors ---


def proven(*gains: tuple[float, float | None], **settings: Any) -> EarlyStopping:
    """Growth by log loss: the first layer, then layers with these gains and errors."""
    growth = stopping(**settings)
    growth.add(0.5, 0.01)
    for gain, error in gains:
        growth.add(0.5 - gain, 0.01, gain, error)
    return growth


@pytest.mark.parametrize(
    ("gains", "settings", "kept"),
    [
        ([(0.010, 0.004)], {}, 2),
        ([(0.010, 0.011)], {}, 1),
        ([(0.010, 0.010)], {}, 1),  # not above its error
        ([(0.010, None)], {}, 1),  # an error that is not known may be large
        ([(-0.010, 0.001)], {}, 1),
        ([(0.010, 0.004)], {"tol": 0.005}, 2),
        ([(0.010, 0.004)], {"tol": 0.006}, 1),  # above the tolerance, but not by its error
        ([(0.010, 0.011), (0.012, 0.004)], {"patience": 2}, 3),
        ([(0.010, 0.011), (0.010, 0.011)], {"patience": 2}, 1),
        ([(0.010, 0.011)], {"errors": 0.0}, 2),  # the papers' way
        ([(0.010, 0.006)], {"errors": 2.0}, 1),
    ],
)
def test_a_layer_is_kept_if_its_gain_is_above_its_error(
    gains: list[tuple[float, float | None]], settings: dict[str, Any], kept: int
) -> None:
    growth = proven(*gains, **settings)
    assert growth.best == kept
    decisions = growth.decisions()
    assert [decision.kept for decision in decisions] == [n < kept for n in range(len(decisions))]
    assert [(decision.gain, decision.gain_se) for decision in decisions[1:]] == gains
    assert [decision.score_se for decision in decisions] == [0.01] * len(decisions)


def test_a_gain_within_its_error_is_not_proven_in_words() -> None:
    kept, dropped = proven((0.038, 0.005), (0.004, 0.006)).decisions()[1:]
    assert "better by 0.0380 ± 0.0050" in kept.reason
    assert "not proven" not in kept.reason
    for words in ("gain +0.0040 ± 0.0060: not proven", "dropped", "ends with layer 2"):
        assert words in dropped.reason
    assert "no proven gain above 0" in dropped.reason


def test_layers_whose_gains_add_up_are_kept_with_the_one_that_proves_it() -> None:
    growth = proven((0.004, 0.006), (0.012, 0.006), patience=2)
    second, third = growth.decisions()[1:]
    assert second.kept
    assert third.kept
    assert "not proven; kept, since a later layer is better" in second.reason
    assert not growth.stopped


# --- probes ---


@pytest.mark.parametrize(
    ("gain", "tol", "refused_"),
    [(None, 0.0, False), (0.01, 0.0, False), (0.0, 0.0, True), (0.01, 0.02, True)],
)
def test_a_probe_needs_a_gain_above_the_tolerance(
    gain: float | None, tol: float, refused_: bool
) -> None:
    growth = proven(tol=tol)
    assert growth.is_last_chance
    assert growth.refuse(gain, 0.02) == refused_
    assert growth.stopped == refused_
    assert [decision.kept for decision in growth.decisions()] == [True] + [False] * refused_
    if refused_:
        reason = growth.decisions()[-1].reason
        assert [word for word in ("probe", "one cascade", "dropped") if word not in reason] == []


def test_a_probe_decides_only_about_the_last_chance() -> None:
    growth = stopping(patience=2)
    assert not growth.is_last_chance  # there is no layer yet
    growth.add(0.5, 0.01)
    assert not growth.is_last_chance
    growth.add(0.5, 0.01, 0.0, 0.01)
    assert growth.is_last_chance


# --- decisions that change, and other reasons ---


def test_a_layer_is_judged_anew_when_a_later_one_is_better() -> None:
    growth = stopping(METRICS["accuracy"], patience=2, max_layers=ENDLESS)
    growth.add(0.5)
    growth.add(0.4)
    assert "dropped" in growth.decisions()[1].reason
    growth.add(0.6, 0.01, 0.1, 0.01)
    assert "kept" in growth.decisions()[1].reason


def test_growth_may_be_stopped_for_another_reason() -> None:
    growth = stopping(METRICS["accuracy"], patience=1, max_layers=ENDLESS)
    growth.add(0.5)
    growth.stop("no rows are left")
    assert growth.decisions()[-1].reason.endswith(": no rows are left")


@pytest.mark.parametrize("score", [None, float("nan"), float("inf")])
def test_a_measure_without_a_value_is_an_error_that_names_it(score: float | None) -> None:
    growth = stopping(METRICS["auc"], patience=1, max_layers=3)
    with refused(ValueError, naming=["'auc'", score]):
        growth.add(score)


def test_a_fit_whose_measure_has_no_value_says_so() -> None:
    x, y = load_iris(return_X_y=True)
    model = CascadeForestClassifier(
        [{"kind": "random_forest", "n_estimators": 2}], scoring="recall_at_rate(0.001)"
    )
    with refused(ValueError, naming=["'recall_at_rate(0.001)'", "None"]):
        model.fit(x, y)


def test_a_gain_whose_error_is_not_known_is_not_proven() -> None:
    growth = proven()
    growth.add(0.9, None, 0.4, None)
    assert growth.best == 1
