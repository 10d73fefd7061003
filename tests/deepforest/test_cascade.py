"""The cascade forest: growth, combination, what is known of its layers, and what they say."""

from __future__ import annotations

import json
import warnings
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    make_classification,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import train_test_split

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
    _grow,
    preset,
)
from deepforest._grow import Grown
from deepforest._strategy import TrainingData
from deepforest.learners import Target
from deepforest.presets import PRESETS
from deepforest.records import LayerRecord
from tests.deepforest.scripted_scores import keeps_every_layer, scripted
from tests.expect import refused

FEW = [
    {"kind": "random_forest", "n_estimators": 8},
    {"kind": "completely_random_forest", "n_estimators": 8},
]
OF_ALL_KINDS = [
    *FEW,
    {"kind": "extra_trees", "n_estimators": 8},
    {"kind": "mart", "n_estimators": 8, "min_samples_leaf": 5},
]
CLASSIFIERS = [CascadeForestClassifier, MarginForestClassifier, ScreenedForestClassifier]
CASCADES = [*CLASSIFIERS, CascadeForestRegressor]
RESAMPLING = ("nested", "per_layer")
# The fits of a forest and of a mart in the first layer and in the second one, with three folds.
FITS = {
    ("nested", "folds"): ((3, 6), (3, 6)),
    ("nested", "oob"): ((3, 3), (3, 6)),
    ("per_layer", "folds"): ((3, 3), (3, 3)),
    ("per_layer", "oob"): ((1, 1), (3, 3)),
}
X, Y = load_iris(return_X_y=True)


def grown(make: Any = CascadeForestClassifier, **params: Any) -> Any:
    """A cascade of three layers, whatever they bring."""
    settings = {"learners": FEW, "cv": 3, "max_layers": 3, "patience": 3, "random_state": 0}
    return make(**{**settings, "scoring": keeps_every_layer(), **params}).fit(X, Y)


# --- the same again ---


@pytest.mark.parametrize("vectors", ["folds", "oob"])
@pytest.mark.parametrize("make", CASCADES)
def test_the_result_does_not_depend_on_the_number_of_jobs(make: Any, vectors: str) -> None:
    said = [
        make(
            OF_ALL_KINDS,
            class_vectors=vectors,
            cv=3,
            max_layers=2,
            patience=2,
            random_state=1,
            n_jobs=n_jobs,
        )
        .fit(X, Y)
        ._predict(X)
        for n_jobs in (1, 3)
    ]
    np.testing.assert_array_equal(said[0], said[1])


@pytest.mark.parametrize("make", CASCADES)
def test_the_random_state_makes_a_fit_repeatable(make: Any) -> None:
    model = make(OF_ALL_KINDS, cv=3, max_layers=2, random_state=7).fit(X, Y)
    first, records = model._predict(X), [replaced(record) for record in model.layer_records_]
    np.testing.assert_array_equal(model.fit(X, Y)._predict(X), first)
    assert [replaced(record) for record in model.layer_records_] == records
    assert not np.array_equal(model.set_params(random_state=8).fit(X, Y)._predict(X), first)


def replaced(record: LayerRecord) -> dict[str, Any]:
    """A record without times."""
    content = {**record.as_dict(), "seconds": 0}
    content["learners"] = [{**learner, "seconds": 0} for learner in content["learners"]]
    return content


def test_blocks_of_rows_are_predicted_like_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepforest import _input

    model = grown(ScreenedForestClassifier)
    whole, represented = model.predict_proba(X), model.transform(X)
    monkeypatch.setattr(_input, "BLOCK_ROWS", 40)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).predict_proba(X), whole)
    np.testing.assert_array_equal(model.transform(X), represented)


def test_a_random_state_object_may_be_given() -> None:
    said = [
        CascadeForestClassifier(FEW, cv=3, max_layers=1, random_state=np.random.RandomState(3)).fit(
            X, Y
        )
        for _ in range(2)
    ]
    np.testing.assert_array_equal(said[0].predict_proba(X), said[1].predict_proba(X))


# --- it learns ---


@pytest.mark.parametrize("vectors", ["folds", "oob"])
@pytest.mark.parametrize("make", CLASSIFIERS)
def test_cascades_are_about_as_good_as_a_forest_or_better(make: Any, vectors: str) -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    learners = [{**learner, "n_estimators": 30} for learner in FEW]
    model = make(learners, class_vectors=vectors, cv=3, max_layers=3, random_state=0).fit(
        x_train, y_train
    )
    forest = RandomForestClassifier(30, random_state=0).fit(x_train, y_train)
    assert model.score(x_test, y_test) >= forest.score(x_test, y_test) - 0.02
    known = (model.oof_output_.argmax(axis=1) == y_train).mean()
    assert known == pytest.approx(model.score(x_test, y_test), abs=0.04)


def test_a_regression_is_learned() -> None:
    x, y = load_diabetes(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    for combine in ("mean", "weighted"):
        model = CascadeForestRegressor(OF_ALL_KINDS, combine=combine, cv=3, random_state=0).fit(
            x_train, y_train
        )
        assert 0.25 < model.score(x_test, y_test) < 0.6
        *_, last = model.staged_predict(x_test)
        np.testing.assert_array_equal(last, model.predict(x_test))
        assert model.oof_output_.shape == (len(x_train), 1)


def test_the_default_depends_on_the_number_of_classes() -> None:
    few = CascadeForestClassifier(cv=3, max_layers=1, random_state=0).fit(X, Y)
    assert [learner.settings["kind"] for learner in few.layer_records_[0].learners][-1] == "mart"
    x, y = load_digits(return_X_y=True)
    many = CascadeForestClassifier(cv=3, max_layers=1, random_state=0).fit(x[:200], y[:200])
    assert "mart" not in [learner.settings["kind"] for learner in many.layer_records_[0].learners]


def test_scikit_learn_estimators_may_be_learners() -> None:
    model = grown(
        learners=[LogisticRegression(), {"kind": "random_forest", "n_estimators": 5}], max_layers=2
    )
    assert model.score(X, Y) > 0.95
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert [learner.settings["kind"] for learner in model.layer_records_[0].learners] == [
        "scikit",
        "random_forest",
    ]
    json.dumps([record.as_dict() for record in model.layer_records_], allow_nan=False)


def test_weighted_learners_say_more_the_more_they_know() -> None:
    blind = {"kind": "random_forest", "n_estimators": 5, "min_samples_leaf": 70}
    good = {"kind": "random_forest", "n_estimators": 20}
    weighted = grown(learners=[blind, good], max_layers=1)
    assert weighted.layer_records_[0].coefficients[1] > 0.95
    assert grown(learners=[blind, good], max_layers=1, combine="mean").layer_records_[
        0
    ].coefficients == [
        0.5,
        0.5,
    ]
    regression = CascadeForestRegressor(
        [blind, good], combine="weighted", max_layers=1, random_state=0
    ).fit(X, Y)
    assert regression.layer_records_[0].coefficients[1] > 0.9


# --- growth ---


@pytest.mark.parametrize(
    "metric",
    [
        "accuracy",
        "balanced_accuracy",
        "auc",
        "f1",
        "ks",
        "log_loss",
        "average_precision",
        "recall_at_rate(0.2)",
    ],
)
@pytest.mark.parametrize("resampling", RESAMPLING)
def test_growth_is_steered_by_any_measure(metric: str, resampling: str) -> None:
    model = CascadeForestClassifier(
        FEW, resampling=resampling, cv=3, scoring=metric, max_layers=4, random_state=0
    ).fit(X, Y)
    check_growth(model, lower_is_better=metric == "log_loss")
    for record in model.layer_records_:
        assert record.metric == metric
        assert record.score == (record.blind or record.scores)[metric]
        assert record.probe or metric in record.scores


@pytest.mark.parametrize("metric", ["rmse", "r2", "mae"])
@pytest.mark.parametrize("resampling", RESAMPLING)
def test_growth_of_a_regression_is_steered_by_any_measure(metric: str, resampling: str) -> None:
    x, y = load_diabetes(return_X_y=True)
    model = CascadeForestRegressor(
        FEW, resampling=resampling, cv=3, scoring=metric, max_layers=4, random_state=0
    ).fit(x, y)
    check_growth(model, lower_is_better=metric != "r2")
    assert set(model.layer_records_[0].scores) == {"rmse", "r2", "mae"}


def check_growth(model: Any, lower_is_better: bool = False) -> None:
    """Compare the decisions with the gains: those of rows that were left out need a proof."""
    records = model.layer_records_
    scores = np.array([record.score for record in records]) * (-1 if lower_is_better else 1)
    best = 1
    assert records[0].gain is None
    for number, record in enumerate(records[1:], 2):
        if record.probe:  # of one cascade: its gain is that of the rows it is blind to
            assert number == len(records)
            assert record.gain <= 0
            break
        assert record.gain == pytest.approx(scores[number - 1] - scores[best - 1])
        error = (record.gain_se or 0.0) if model.resampling == "nested" else 0.0
        if record.gain > error:
            best = number
    assert model.n_layers_ == best
    if model.resampling == "per_layer":
        assert scores[best - 1] == scores.max()
    assert [record.kept for record in records] == [number < best for number in range(len(scores))]
    assert [record.number for record in records] == list(range(1, len(scores) + 1))
    assert "growth stopped" in records[-1].reason
    assert all(record.reason and record.seconds > 0 for record in records)
    scored_on = "blind" if model.resampling == "nested" else "out_of_fold"
    assert {record.scored_on for record in records} == {scored_on}


def test_growth_is_steered_by_a_callable_that_sees_the_labels() -> None:
    seen = []

    def balanced(truth: np.ndarray, probabilities: np.ndarray) -> float:
        seen.append((set(truth), probabilities.shape))
        return float(
            balanced_accuracy_score(truth, np.array(["a", "b", "c"])[probabilities.argmax(axis=1)])
        )

    labels = np.array(["a", "b", "c"])[Y]
    model = CascadeForestClassifier(FEW, cv=3, scoring=balanced, max_layers=2, random_state=0).fit(
        X, labels
    )
    check_growth(model)
    assert seen[0] == ({"a", "b", "c"}, (150, 3))
    assert model.layer_records_[0].blind["balanced"] == model.layer_records_[0].score


def test_growth_of_a_regression_is_steered_by_a_callable() -> None:
    def nearness(truth: np.ndarray, said: np.ndarray) -> float:
        return -float(np.abs(truth - said).max())

    check_growth(
        CascadeForestRegressor(FEW, cv=3, scoring=nearness, max_layers=2, random_state=0).fit(X, Y)
    )


@pytest.mark.parametrize(("patience", "n_grown"), [(1, 3), (2, 4), (9, 5)])
@pytest.mark.parametrize("resampling", RESAMPLING)
def test_growth_waits_as_long_as_its_patience(
    patience: int, n_grown: int, resampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grow, "PROBE_ROWS", len(X) + 1)  # a probe has scores of its own
    params = {"augment": "none", "patience": patience, "max_layers": 5, "resampling": resampling}
    model = CascadeForestClassifier(
        FEW[:1], cv=3, scoring=scripted(0.5, 0.7, 0.6), random_state=0, **params
    ).fit(X, Y)
    assert (len(model.layer_records_), model.n_layers_) == (n_grown, 2)
    assert [record.kept for record in model.layer_records_] == [True, True] + [False] * (
        n_grown - 2
    )


def test_a_validation_set_steers_the_growth() -> None:
    wrong = (X, (Y + 1) % 3)
    settings = {"scoring": "accuracy", "cv": 3, "random_state": 0}
    model = CascadeForestClassifier(FEW, max_layers=3, **settings).fit(X, Y, validation=wrong)
    first = model.layer_records_[0]
    assert first.scored_on == "validation"
    assert first.score == first.validation["accuracy"] < 0.2
    assert first.scores["accuracy"] > 0.8
    assert first.blind["accuracy"] > 0.8
    right = CascadeForestClassifier(FEW, max_layers=2, **settings).fit(X, Y, validation=(X, Y))
    assert right.layer_records_[right.n_layers_ - 1].score == right.score(X, Y)


@pytest.mark.parametrize("make", CASCADES)
def test_validation_scores_are_those_of_the_layers_as_they_predict(make: Any) -> None:
    x_train, x_held, y_train, y_held = train_test_split(X, Y, random_state=0)
    model = make(FEW, cv=3, max_layers=3, patience=3, random_state=0).fit(
        x_train, y_train, validation=(x_held, y_held)
    )
    stages = list(model._staged_predict(x_held))
    for record, said in zip(model.layer_records_, stages, strict=False):
        if make is CascadeForestRegressor:
            assert record.validation["mae"] == pytest.approx(np.abs(said[:, 0] - y_held).mean())
        else:
            assert record.validation["accuracy"] == pytest.approx(
                (said.argmax(axis=1) == y_held).mean()
            )


def test_a_validation_frame_goes_through_the_selector_too() -> None:
    selector = MartSelector(2, n_estimators=5)
    model = CascadeForestClassifier(FEW, cv=3, max_layers=2, selector=selector, random_state=0)
    model.fit(X, Y, validation=(X[::2], Y[::2]))
    assert model.layer_records_[0].validation["accuracy"] > 0.9


# --- weights ---


def rare() -> tuple[np.ndarray, np.ndarray]:
    """Two overlapping clouds, one of them with 8 % of the rows."""
    rng = np.random.default_rng(0)
    y = (rng.random(1500) < 0.08).astype(int)
    return rng.normal(y[:, None] * 0.8, 1.0, (1500, 4)), y


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_balanced_classes_raise_the_recall_of_the_rare_one(make: Any) -> None:
    x, y = rare()
    x_train, x_test, y_train, y_test = train_test_split(x, y, stratify=y, random_state=0)
    learners = [
        {"kind": "random_forest", "n_estimators": 20, "min_samples_leaf": 20},
        {"kind": "mart", "n_estimators": 20},
    ]
    plain, balanced = (
        make(learners, class_weight=weight, max_layers=2, cv=3, random_state=0).fit(
            x_train, y_train
        )
        for weight in (None, "balanced")
    )
    assert (
        recall_score(y_test, balanced.predict(x_test))
        > recall_score(y_test, plain.predict(x_test)) + 0.1
    )


def test_a_mapping_of_class_weights_is_by_label() -> None:
    x, y = rare()
    names = np.where(y == 1, "fraud", "fine")
    learners = [{"kind": "random_forest", "n_estimators": 10, "min_samples_leaf": 20}]
    model = CascadeForestClassifier(
        learners, max_layers=1, class_weight={"fraud": 50.0, "fine": 1.0}, random_state=0
    )
    assert (model.fit(x, names).predict(x) == "fraud").mean() > 0.3


@pytest.mark.parametrize(
    ("make", "params"),
    [
        *[(make, {}) for make in CASCADES],
        *[(make, {"class_weight": "balanced"}) for make in CLASSIFIERS],
    ],
)
def test_rows_of_weight_zero_leave_no_trace(make: Any, params: dict[str, Any]) -> None:
    model = make(OF_ALL_KINDS, cv=3, max_layers=2, random_state=0, **params)
    kept = np.arange(len(X)) % 5 > 0
    kept[:10] = False
    odd = np.where(kept[:, None], X, 1e6)
    first = model.fit(odd, Y, kept.astype(float))._predict(X)
    said = model.oof_output_
    second = model.fit(X[kept], Y[kept], np.ones(kept.sum()))._predict(X)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(said[kept], model.oof_output_)
    assert np.isnan(said[~kept]).all()


def test_a_class_whose_rows_all_weigh_nothing_is_still_a_class() -> None:
    model = CascadeForestClassifier(OF_ALL_KINDS, cv=3, max_layers=2, random_state=0)
    model.fit(X, Y, (Y < 2).astype(float))
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X)[:, 2].max() < 0.05


# --- the record ---


@pytest.mark.parametrize("make", CASCADES)
def test_records_survive_json(make: Any) -> None:
    model = make(
        [{"kind": "random_forest", "n_estimators": np.int64(5)}],
        cv=3,
        max_layers=2,
        random_state=0,
    ).fit(X, Y)
    for record in model.layer_records_:
        text = json.dumps(record.as_dict(), allow_nan=False)
        assert LayerRecord.from_dict(json.loads(text)) == record


@pytest.mark.parametrize("vectors", ["folds", "oob"])
@pytest.mark.parametrize("resampling", RESAMPLING)
def test_a_record_tells_rows_features_learners_and_times(vectors: str, resampling: str) -> None:
    model = grown(
        learners=OF_ALL_KINDS, class_vectors=vectors, resampling=resampling, pass_on="vectors"
    )
    first, second, _ = model.layer_records_
    assert (first.rows_in, first.rows_out, first.threshold, first.alphas) == (150, 0, None, None)
    # A cascade that is blind to one of three folds learns from the others.
    assert first.effective_size == (150 if resampling == "per_layer" else 100)
    assert (first.n_features, second.n_features) == (4, 4 + 4 * 3)
    of_forests, of_marts = FITS[resampling, vectors]
    for record, of_forest, of_mart in zip((first, second), of_forests, of_marts, strict=True):
        fits = [learner.fits for learner in record.learners]
        assert fits == [of_forest] * 3 + [of_mart]
    assert [learner.settings["n_estimators"] for learner in first.learners] == [8] * 4
    assert len({learner.name for learner in first.learners}) == 4
    for learner in first.learners:
        assert learner.seconds > 0
        assert learner.scores["accuracy"] > 0.8
    assert first.margins is not None
    assert sum(first.margins.counts) == 150
    assert first.margins.ratio == pytest.approx(first.margins.std / first.margins.mean)
    assert sum(first.coefficients) == pytest.approx(1)


@pytest.mark.parametrize("resampling", RESAMPLING)
def test_scores_in_the_record_are_of_what_was_said_of_rows_not_seen(resampling: str) -> None:
    smooth = [{**learner, "min_samples_leaf": 5} for learner in FEW]  # no probability is 0
    model = CascadeForestClassifier(
        smooth, resampling=resampling, cv=3, max_layers=3, random_state=0
    ).fit(X, Y)
    best = model.layer_records_[model.n_layers_ - 1]
    scores = best.blind if resampling == "nested" else best.scores
    assert scores["accuracy"] == pytest.approx((model.oof_output_.argmax(axis=1) == Y).mean())
    own = model.oof_output_[np.arange(150), Y]
    assert scores["log_loss"] == pytest.approx(-np.log(np.clip(own, 1e-15, 1)).mean(), rel=0.05)


# --- a look inside ---


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_the_last_stage_is_the_prediction(make: Any) -> None:
    model = grown(make)
    *_, last = model.staged_predict_proba(X)
    np.testing.assert_array_equal(last, model.predict_proba(X))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), last, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), last.argmax(axis=1))


@pytest.mark.parametrize("make", CASCADES)
def test_transform_gives_the_vectors_of_a_layer(make: Any) -> None:
    model = grown(make)
    width = 2 * (1 if make is CascadeForestRegressor else 3)
    for layer in (1, model.n_layers_, None):
        assert model.transform(X, layer).shape == (150, width)
    np.testing.assert_array_equal(model.transform(X), model.transform(X, model.n_layers_))
    for layer in (0, model.n_layers_ + 1):
        with refused(ValueError, naming=["layer", layer, f"1 to {model.n_layers_}"]):
            model.transform(X, layer)


@pytest.mark.parametrize("make", CASCADES)
def test_the_trace_agrees_with_the_stages_and_with_transform(make: Any) -> None:
    model = grown(make)
    trace = model.trace(X)
    depth = model.n_layers_
    assert trace.vectors.shape[:3] == (depth, 2, 150)
    for number, said in enumerate(model._staged_predict(X)):
        there = trace.left_at > number
        np.testing.assert_array_equal(trace.outputs[number][there], said[there])
        assert np.isnan(trace.outputs[number][~there]).all()
        represented = model.transform(X, number + 1)
        np.testing.assert_array_equal(
            np.hstack(list(trace.vectors[number]))[there], represented[there]
        )
    if make is not ScreenedForestClassifier:
        assert (trace.left_at == depth).all()


@pytest.mark.parametrize(("augment", "seen"), [("concat", 4 + 6), ("stack", 6), ("none", 4)])
@pytest.mark.parametrize("with_mart", [False, True])
def test_the_next_layer_sees_what_augment_says(augment: str, seen: int, with_mart: bool) -> None:
    learners = [FEW[0], OF_ALL_KINDS[3]] if with_mart else FEW
    model = grown(augment=augment, learners=learners, pass_on="vectors")
    assert [record.n_features for record in model.layer_records_] == [4, seen, seen]
    assert [importances.shape for importances in model.layer_importances()] == [
        (2, 4),
        (2, seen),
        (2, seen),
    ]
    # The three fits of a forest share its eight trees, and no cascade adds others.
    assert model.score(X, Y) > 0.93
    assert model.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.parametrize("augment", ["concat", "stack", "none"])
@pytest.mark.parametrize("make", CASCADES)
def test_importances_find_the_feature_that_matters(make: Any, augment: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.random((200, 6))
    y = (x[:, 3] > 0.5).astype(int)
    learners = [{"kind": "random_forest", "n_estimators": 10, "max_features": None}]
    model = make(
        learners, scoring=keeps_every_layer(), augment=augment, cv=3, max_layers=2, random_state=0
    ).fit(x, y)
    importances = model.feature_importances_
    assert importances.shape == (6,)
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 3
    assert importances[3] > 0.8


def test_a_selector_leaves_few_features_and_prediction_still_takes_all(
    growths: list[Grown],
) -> None:
    x, y = make_classification(
        300, 40, n_informative=3, n_redundant=0, shuffle=False, random_state=0
    )
    selector = MartSelector(5, n_estimators=20)
    model = CascadeForestClassifier(FEW, cv=3, max_layers=2, selector=selector, random_state=0).fit(
        x, y
    )
    [chosen] = [set(cascade.selected) for cascade in model.cascades_]
    assert len(chosen) == 5
    assert {0, 1, 2} <= chosen
    # It is what all rows say; the cascades that were scored have selected without some of them.
    assert chosen == set(model._select(TrainingData(x, Target(y, 2))))
    scored = [set(cascade.selected) for cascade in growths[0].scored]
    assert len(scored) == 3
    for columns in scored:
        assert len(columns) == 5
        assert {0, 1, 2} <= columns
    assert model.layer_records_[0].n_features == 5
    assert model.predict(x).shape == (300,)
    important = np.flatnonzero(model.feature_importances_)
    assert set(important) == chosen
    with pytest.raises(ValueError, match="40 features"):
        model.predict(x[:, :5])
    assert not hasattr(selector, "importances_")


class WatchedSelector(MartSelector):
    """Adds each copy that is fitted to a list."""

    fitted: ClassVar[list[MartSelector]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        self.fitted.append(self)
        return super().fit(X, y, sample_weight)


def test_a_selector_is_as_repeatable_as_the_cascade_and_knows_what_y_holds() -> None:
    x, y = make_classification(200, 40, n_informative=10, random_state=0)
    settings = {"cv": 3, "max_layers": 1, "random_state": 0}
    chosen = []
    for _ in range(2):
        selector = MartSelector(5, n_estimators=5)
        model = CascadeForestClassifier(FEW[:1], selector=selector, **settings).fit(x, y)
        chosen.append([cascade.selected.tolist() for cascade in model.cascades_])
    assert chosen[0] == chosen[1]
    numbers = CascadeForestRegressor(
        FEW[:1], selector=WatchedSelector(2, n_estimators=5), **settings
    )
    WatchedSelector.fitted.clear()
    numbers.fit(X, np.arange(150.0))
    # Three cascades are scored, and one learns all rows.
    assert [selector.target for selector in WatchedSelector.fitted] == ["numbers"] * 4


# --- presets ---


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_cascade_to_be_fitted(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # its params have the names of today
        model = preset(name, max_layers=1, cv=3)
    assert type(model) is PRESETS[name].kind
    assert model.max_layers == 1
    if model.scan is not None:  # the shape of a row is for the user to give
        model.set_params(scan={"shape": (X.shape[1],), "windows": [2]})
    few = [{**one, "n_estimators": 6, "min_samples_leaf": 3} for one in model.learners or FEW]
    assert model.set_params(learners=few).fit(X, Y).score(X, Y) > 0.8


def test_an_unknown_preset_names_the_known_ones() -> None:
    with refused(ValueError, naming=["'oak'", "default", "gcforest", "mart_cascade"]):
        preset("oak")
