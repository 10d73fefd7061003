"""When a cascade stops to grow, and which layers it keeps."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.datasets import load_iris

from deepforest import CascadeForestClassifier
from deepforest.early_stopping import Growth
from deepforest.metrics import METRICS, REGRESSION_METRICS
from tests.expect import refused

ENDLESS = 100


def grown(scores: list[float], metric: str = "accuracy", **settings: Any) -> Growth:
    """Growth with scores as long as it asks for them; all of them must be asked for."""
    measure = REGRESSION_METRICS.get(metric) or METRICS[metric]
    growth = Growth(measure, **{"patience": 1, "tolerance": 0.0, "max_layers": ENDLESS, **settings})
    for number, score in enumerate(scores, 1):
        assert growth.add_score(score) == (number < len(scores)), f"after layer {number}"
    return growth


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
        ([0.5, 0.505], {"tolerance": 0.01}, 1),
        ([0.5, 0.52, 0.525], {"tolerance": 0.01}, 2),
        ([0.5, 0.506, 0.512, 0.517, 0.52], {"tolerance": 0.01, "patience": 2}, 3),
        ([0.5, 0.6, 0.7], {"max_layers": 3}, 3),
        ([0.5, 0.4, 0.3], {"max_layers": 3, "patience": 5}, 1),
        ([0.5], {"max_layers": 1}, 1),
        ([0.9, 0.5, 0.4, 0.45], {"metric": "log_loss"}, 3),
        ([0.9, 0.9], {"metric": "log_loss"}, 1),
        ([3.0, 2.0, 1.95], {"metric": "rmse", "tolerance": 0.1}, 2),
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
                ["0.4000", "-0.1000", "kept"],
                ["0.6000", "0.1000"],
                ["0.5500", "-0.0500", "dropped", "layer 3"],
                ["0.5000", "-0.1000", "dropped", "layer 3", "stopped", "2 layers"],
            ],
        ),
        ([0.5, 0.6], {"max_layers": 2}, [["0.5000"], ["0.6000", "0.1000", "stopped", "2 layers"]]),
        (
            [0.4, 0.395],
            {"metric": "log_loss", "tolerance": 0.01},
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


def test_a_layer_is_judged_anew_when_a_later_one_is_better() -> None:
    growth = Growth(METRICS["accuracy"], patience=2, tolerance=0.0, max_layers=ENDLESS)
    growth.add_score(0.5)
    growth.add_score(0.4)
    assert "dropped" in growth.decisions()[1].reason
    growth.add_score(0.6)
    assert "kept" in growth.decisions()[1].reason


def test_growth_may_be_stopped_for_another_reason() -> None:
    growth = Growth(METRICS["accuracy"], patience=1, tolerance=0.0, max_layers=ENDLESS)
    growth.add_score(0.5)
    growth.stop("no rows are left")
    assert growth.decisions()[-1].reason.endswith(": no rows are left")


@pytest.mark.parametrize("score", [None, float("nan"), float("inf")])
def test_a_measure_without_a_value_is_an_error_that_names_it(score: float | None) -> None:
    growth = Growth(METRICS["auc"], patience=1, tolerance=0.0, max_layers=3)
    with refused(ValueError, naming=["'auc'", score]):
        growth.add_score(score)


def test_a_fit_whose_measure_has_no_value_says_so() -> None:
    x, y = load_iris(return_X_y=True)
    model = CascadeForestClassifier(
        [{"kind": "random_forest", "n_estimators": 2}], metric="recall_at_rate(0.001)"
    )
    with refused(ValueError, naming=["'recall_at_rate(0.001)'", "None"]):
        model.fit(x, y)
