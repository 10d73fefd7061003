"""The cascades as scikit-learn estimators: its checks, odd inputs, clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array, csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepforest import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    FitCancelled,
    MarginForestClassifier,
    MartSelector,
    ScreenedForestClassifier,
)
from tests.expect import refused

FEW = [
    {"kind": "random_forest", "n_estimators": 10},
    {"kind": "completely_random_forest", "n_estimators": 10},
]
FEW_OF_ALL = [
    {"kind": kind, "n_estimators": 5} for kind in ("random_forest", "extra_trees", "mart")
]
CLASSIFIERS = [CascadeForestClassifier, MarginForestClassifier, ScreenedForestClassifier]
CASCADES = [*CLASSIFIERS, CascadeForestRegressor]
FOLDS_DRAW_ROWS = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "folds and bags draw rows: a row given twice may be in two folds, one of weight 2 is in one"
    )
    for kind in ("dense", "sparse")
}
# The check of class weights limits the weight of a leaf, where there is such a parameter. Trees
# with pure leaves ignore weights, so here the learners themselves have larger leaves.
LARGE_LEAVES = [{**learner, "min_samples_leaf": 10} for learner in FEW]


def expected_to_fail(estimator: Any) -> dict[str, str]:
    return {} if isinstance(estimator, MartSelector) else FOLDS_DRAW_ROWS


@parametrize_with_checks(
    [
        CascadeForestClassifier(LARGE_LEAVES, cv=2, max_layers=2),
        CascadeForestRegressor(FEW, cv=2, max_layers=2),
        MartSelector(n_estimators=5),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        MarginForestClassifier(LARGE_LEAVES, cv=2, max_layers=2),
        ScreenedForestClassifier(LARGE_LEAVES, cv=2, max_layers=2),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_checks_of_other_cascades(estimator: Any, check: Any) -> None:
    check(estimator)


# --- as part of scikit-learn ---


@pytest.mark.parametrize("make", CASCADES)
def test_clone_keeps_the_parameters_and_fit_returns_the_cascade(make: Any) -> None:
    x, y = load_iris(return_X_y=True)
    model = make(FEW, cv=3, max_layers=1, tol=0.01, random_state=4)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.fit(x, y) is copy
    assert copy.get_params() == model.get_params()


def test_a_grid_search_chooses_among_learners() -> None:
    x, y = load_iris(return_X_y=True)
    blind = [{"kind": "random_forest", "n_estimators": 1, "max_depth": 1, "min_samples_leaf": 60}]
    search = GridSearchCV(
        CascadeForestClassifier(cv=2, max_layers=1, random_state=0),
        {"learners": [blind, FEW]},
        cv=2,
    ).fit(x, y)
    assert search.best_params_ == {"learners": FEW}


def test_a_cascade_is_a_step_of_a_pipeline_last_or_not() -> None:
    x, y = load_iris(return_X_y=True)
    cascade = CascadeForestClassifier(FEW, cv=2, max_layers=2, random_state=0)
    assert make_pipeline(StandardScaler(), cascade).fit(x, y).score(x, y) > 0.95
    assert make_pipeline(cascade, LogisticRegression()).fit(x, y).score(x, y) > 0.95


@pytest.mark.parametrize("make", CASCADES)
@pytest.mark.parametrize(
    "method",
    [
        "predict",
        "transform",
        "trace",
        "layer_importances",
        "feature_importances_",
        "save",
        "staged",
    ],
)
def test_nothing_can_be_asked_before_the_fit(make: Any, method: str, tmp_path: Any) -> None:
    x, model = np.ones((2, 2)), make()
    ask = {
        "layer_importances": lambda: model.layer_importances(),
        "feature_importances_": lambda: model.feature_importances_,
        "save": lambda: model.save(tmp_path),
        "staged": lambda: list(model._staged_predict(x)),
    }.get(method, lambda: getattr(model, method)(x))
    with pytest.raises(NotFittedError):
        ask()


# --- odd inputs ---

RNG = np.random.default_rng(0)
SHAPES = {
    "one row a class": (RNG.random((2, 3)), np.array([0, 1])),
    "two rows a class": (RNG.random((4, 3)), np.array([0, 0, 1, 1])),
    "one row of a class": (RNG.random((9, 3)), np.array([0] * 8 + [1])),
    "constant": (np.ones((30, 1)), np.arange(30) % 3),
    "wide": (RNG.random((12, 300)), np.arange(12) % 2),
    "all missing": (np.full((20, 2), np.nan), np.arange(20) % 2),
    "float32": (RNG.random((30, 3)).astype(np.float32), np.arange(30) % 3),
    "whole numbers": (RNG.integers(0, 9, (30, 3)), np.arange(30) % 3),
    "by column": (np.asfortranarray(RNG.random((30, 3))), np.arange(30) % 3),
    "the same row": (np.repeat(RNG.random((1, 4)), 20, axis=0), np.arange(20) % 2),
}


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", CASCADES)
def test_odd_shapes(make: Any, shape: str, resampling: str) -> None:
    x, y = SHAPES[shape]
    model = make(FEW_OF_ALL, resampling=resampling, cv=3, max_layers=2, random_state=0).fit(x, y)
    said = model._predict(x)
    assert np.isfinite(said).all()
    assert model.predict(x[:1]).shape == (1,)
    np.testing.assert_array_equal(model._predict(x[:1]), said[:1])
    if make is not CascadeForestRegressor:
        assert said.shape == (len(x), len(np.unique(y)))
        np.testing.assert_allclose(said.sum(axis=1), 1, atol=1e-6)
        assert np.isfinite(model.oof_output_).all()


@pytest.mark.parametrize(
    ("make", "vectors"), [*((each, "folds") for each in CLASSIFIERS), (CLASSIFIERS[0], "oob")]
)
def test_a_thousand_classes(make: Any, vectors: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((1500, 5)), np.arange(1500) % 1000
    learners = [
        {"kind": "random_forest", "n_estimators": 2},
        {"kind": "completely_random_forest", "n_estimators": 2},
    ]
    model = make(learners, class_vectors=vectors, cv=2, max_layers=1, random_state=0).fit(x, y)
    said = model.predict_proba(x[:10])
    assert said.shape == (10, 1000)
    np.testing.assert_allclose(said.sum(axis=1), 1, atol=1e-6)


def test_float32_and_float64_of_the_same_numbers_give_the_same_answer() -> None:
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    models = [
        CascadeForestClassifier(FEW, max_layers=2, random_state=0).fit(x.astype(t), y)
        for t in ("f4", "f8")
    ]
    np.testing.assert_array_equal(models[0].predict_proba(x), models[1].predict_proba(x))


@pytest.mark.parametrize("make", CASCADES)
def test_sparse_input_is_taken_as_what_it_stands_for(make: Any) -> None:
    x, y = make_classification(80, random_state=0)
    x = np.where(np.abs(x) < 1, 0, x)
    model = make(FEW_OF_ALL, cv=2, max_layers=2, random_state=0)
    dense = model.fit(x, y)._predict(x)
    np.testing.assert_array_equal(model.fit(csr_array(x), y)._predict(csc_array(x)), dense)


def test_missing_values_are_learned_from() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((200, 2))
    y = (rng.random(200) < 0.5).astype(int)
    x[y == 1, 0] = np.nan
    for learner in FEW_OF_ALL:
        model = CascadeForestClassifier([learner], cv=3, max_layers=2, random_state=0).fit(x, y)
        assert model.score(x, y) > 0.9


def people() -> tuple[Any, np.ndarray]:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": rng.choice(["clerk", "nurse", "baker", None], n),
            "city": pd.Categorical(rng.choice(["Oslo", "Rome"], n)),
            "member": rng.random(n) < 0.5,
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "visits": pd.array(rng.integers(0, 5, n), dtype="Int64"),
            "title": pd.array(rng.choice(["Dr", None], n), dtype="string"),
            "consent": pd.array(rng.choice([True, False, None], n), dtype="boolean"),
        }
    )
    frame.loc[3, "visits"] = pd.NA
    target = ((frame["job"] == "nurse") | ((frame["city"] == "Rome") & frame["member"])).to_numpy()
    return frame, np.where(target, "yes", "no")


@pytest.mark.parametrize("make", CASCADES)
def test_data_frames_with_categories_strings_booleans_and_missing_values(make: Any) -> None:
    frame, target = people()
    y = target == "yes" if make is CascadeForestRegressor else target
    learners = [{"kind": kind, "n_estimators": 20} for kind in ("random_forest", "mart")]
    model = make(learners, cv=2, max_layers=2, random_state=0).fit(frame, y)
    assert model.categorical_.tolist() == [False, True, True, True, False, False, True, True]
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.score(frame, y) > 0.9
    strange = frame.iloc[:2].copy()
    strange["job"] = ["astronaut", None]
    assert model.predict(strange).shape == (2,)
    assert model.predict(frame.iloc[3:4]) == model.predict(frame)[3]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_a_column_of_numbers_that_becomes_text_is_named() -> None:
    frame, target = people()
    model = CascadeForestClassifier(FEW, cv=2, max_layers=1).fit(frame, target)
    with refused(ValueError, naming="'age'"):
        model.predict(frame.assign(age="old"))


@pytest.mark.parametrize("chosen", [[0], [True, False]])
def test_categorical_columns_of_an_array_by_number_and_flag(chosen: list[Any]) -> None:
    x = np.column_stack([np.arange(60) % 6, np.arange(60)]).astype(float)
    y = np.isin(np.arange(60) % 6, [1, 4]).astype(int)
    model = CascadeForestClassifier(
        FEW, categorical_features=chosen, max_layers=1, random_state=0
    ).fit(x, y)
    assert model.categorical_.tolist() == [True, False]
    assert model.score(x, y) > 0.95


@pytest.mark.parametrize(
    "names", [np.array([False, True]), np.array(["no", "yes"]), np.array([-3, 10]), [0.0, 1.5]]
)
def test_classes_may_be_anything_that_can_be_told_apart(names: Any) -> None:
    x, y = make_classification(60, random_state=0)
    labels = np.asarray(names)[y]
    if labels.dtype.kind == "f":
        with pytest.raises(ValueError, match="Unknown label type"):
            CascadeForestClassifier(FEW).fit(x, labels)
        return
    model = CascadeForestClassifier(FEW, cv=2, max_layers=1, random_state=0).fit(x, labels)
    assert model.classes_.tolist() == sorted(names.tolist())
    assert model.score(x, labels) > 0.9


# --- clear errors ---


@pytest.mark.parametrize(
    ("params", "naming"),
    [
        ({"learners": ["oak"]}, ["'oak'", "random_forest", "completely_random_forest"]),
        ({"learners": [{"n_estimators": 5}]}, ["'kind'", "{'n_estimators': 5}"]),
        (
            {"learners": [{"kind": "mart", "branches": 5}]},
            ["mart", "'branches'", "count", "n_estimators"],
        ),
        (
            {"learners": [{"kind": "mart", "n_estimators": 0}]},
            ["n_estimators", "mart", "0", "from 1"],
        ),
        ({"learners": []}, ["learner"]),
        ({"learners": [42]}, ["42", "scikit-learn"]),
        ({"learners": [LinearSVC()]}, ["LinearSVC", "predict_proba"]),
        ({"scoring": "beauty"}, ["metric", "'beauty'", "accuracy", "balanced_accuracy", "auc"]),
        ({"resampling": "all"}, ["resampling", "'all'", "'nested'", "'per_layer'"]),
        ({"augment": "add"}, ["augment", "'add'", "'concat'", "'stack'", "'none'"]),
        ({"class_vectors": "out"}, ["class_vectors", "'out'", "'folds'", "'oob'"]),
        ({"cv": 1}, ["cv", "is 1", "from 2"]),
        ({"patience": 0}, ["patience", "is 0", "from 1"]),
        ({"max_layers": 1.5}, ["max_layers", "1.5", "from 1"]),
        ({"tol": -1}, ["tol", "-1", "from 0"]),
        ({"categorical_features": "all"}, ["categorical_features", "'all'"]),
        ({"categorical_features": [9]}, ["categorical_features", "column 9", "4"]),
        ({"class_weight": {7: 1.0}}, ["class_weight"]),
    ],
)
@pytest.mark.parametrize("make", CLASSIFIERS)
def test_wrong_parameters_say_what_is_wrong(
    make: Any, params: dict[str, Any], naming: list[str]
) -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=naming):
        make(**{"learners": FEW, "max_layers": 1, **params}).fit(x, y)


@pytest.mark.parametrize(
    ("model", "naming"),
    [
        (CascadeForestClassifier(FEW, combine="max"), ["combine", "'max'", "'mean'", "'weighted'"]),
        (CascadeForestRegressor(FEW, scoring="auc"), ["metric", "'auc'", "r2", "rmse", "mae"]),
        (MarginForestClassifier(FEW, gamma=1.0), ["gamma", "1.0", "0 and 1"]),
        (MarginForestClassifier(FEW, mu=0.0), ["mu", "0.0", "above 0"]),
        (ScreenedForestClassifier(FEW, error_share=1.5), ["error_share", "1.5", "'auto'"]),
        (ScreenedForestClassifier(FEW, tree_growth=-1.0), ["tree_growth", "-1.0", "from 0"]),
    ],
)
def test_wrong_parameters_of_one_kind_of_cascade(model: Any, naming: list[str]) -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=naming):
        model.fit(x, y)


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_one_class_is_nothing_to_tell_apart(make: Any) -> None:
    with refused(ValueError, naming=["y", "'x'"]):
        make(FEW).fit(np.ones((5, 2)), ["x"] * 5)


@pytest.mark.parametrize(
    ("weights", "naming"),
    [
        (np.zeros(150), ["weight", "zero"]),
        (np.full(150, -1.0), ["negative", "weight"]),
        (np.arange(150) == 7, ["weigh", "= 1", "2"]),
        (np.ones(3), ["sample_weight"]),
    ],
)
@pytest.mark.parametrize("make", CASCADES)
def test_weights_that_cannot_be_right(make: Any, weights: np.ndarray, naming: list[str]) -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=naming):
        make(FEW).fit(x, y, weights.astype(float))


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize(
    ("validation", "naming"),
    [
        (lambda x: (x[:2], [0, 3]), ["validation", "y", "3"]),
        (lambda x: (x[:2], ["a", "b"]), ["validation", "y", "'a'"]),
        (lambda x: (x[:2], [0]), ["validation", "2 rows", "(1,)"]),
        (lambda x: x, ["validation", "(X, y)"]),
    ],
)
def test_validation_rows_must_be_like_the_training_rows(
    make: Any, validation: Any, naming: list[str]
) -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=naming):
        make(FEW).fit(x, y, validation=validation(x))


@pytest.mark.parametrize(
    ("weights", "naming"),
    [
        ({0: -1.0, 1: 1, 2: 1}, ["class_weight", "from 0"]),
        ("balance", ["class_weight", "'balanced'", "None"]),
    ],
)
def test_class_weights_that_cannot_be_right(weights: Any, naming: list[str]) -> None:
    with refused(ValueError, naming=naming):
        CascadeForestClassifier(FEW, class_weight=weights).fit(*load_iris(return_X_y=True))


def test_text_in_an_array_is_explained() -> None:
    x = np.array([["a", 1], ["b", 2]] * 10, dtype=object)
    with refused(ValueError, naming=["array", "data frame"]):
        CascadeForestClassifier(FEW).fit(x, [0, 1] * 10)


def test_a_column_of_text_may_not_become_numbers() -> None:
    frame = pd.DataFrame({"a": list("xy") * 20, "b": range(40)})
    model = CascadeForestClassifier(FEW, random_state=0).fit(frame, [0, 1] * 20)
    with refused(ValueError, naming=["'a'", "int64"]):
        model.predict(frame.assign(a=1))


def test_whole_numbers_of_pandas_stay_whole_as_classes() -> None:
    frame = pd.DataFrame({"b": range(40)})
    model = CascadeForestClassifier(FEW, random_state=0).fit(
        frame, pd.Series([0, 1] * 20, dtype="Int64")
    )
    assert model.classes_.dtype == np.int64


def test_missing_classes_are_named() -> None:
    with refused(ValueError, naming=["y", "missing"]):
        CascadeForestClassifier(FEW).fit(
            np.arange(6.0)[:, None], np.array(["a", "b", None] * 2, dtype=object)
        )


def test_a_verbose_fit_says_a_line_a_layer(capsys: pytest.CaptureFixture[str]) -> None:
    model = CascadeForestClassifier(FEW, verbose=True, random_state=0).fit(
        *load_iris(return_X_y=True)
    )
    said = capsys.readouterr().out.splitlines()
    layers = [f"Layer {record.number}" for record in model.layer_records_]
    assert [line.split(",")[0] for line in said] == [*layers, "Model on all rows"]


def test_columns_of_the_representation_have_names() -> None:
    x, y = load_iris(return_X_y=True, as_frame=True)
    model = CascadeForestClassifier(FEW, random_state=0).set_output(transform="pandas").fit(x, y)
    names = model.get_feature_names_out()
    assert list(model.transform(x).columns) == list(names)
    assert len(set(names)) == model.transform(x).shape[1]


@pytest.mark.parametrize(
    ("make", "learner", "naming"),
    [
        (CascadeForestClassifier, Ridge(), ["Ridge", "numbers"]),
        (CascadeForestRegressor, LogisticRegression(), ["LogisticRegression", "classes"]),
        (CascadeForestClassifier, Perceptron(), ["Perceptron", "predict_proba"]),
        (CascadeForestClassifier, Ridge, ["Ridge", "a class"]),
    ],
)
def test_a_learner_that_does_not_suit_is_refused(
    make: Any, learner: Any, naming: list[str]
) -> None:
    with refused(ValueError, naming=naming):
        make([learner]).fit(*load_iris(return_X_y=True))


def test_validation_numbers_must_be_as_many_as_the_rows() -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=["validation", "5 rows"]):
        CascadeForestRegressor(FEW).fit(x, y, validation=(x[:5], y[:3]))


def test_a_measure_without_a_value_is_named() -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=["'auc'", "None"]):
        CascadeForestClassifier(FEW, scoring="auc", cv=2).fit(x, y, validation=(x[:3], y[:3]))


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-17, 2.0**17, 2.0**1000])
@pytest.mark.parametrize("make", CASCADES)
def test_only_the_ratios_of_weights_matter(make: Any, scale: float) -> None:
    x, y = load_iris(return_X_y=True)
    weights = np.where(y == 1, 2.0, 1.0)
    settings = {"cv": 3, "max_layers": 2, "random_state": 0}
    plain = make(FEW_OF_ALL, **settings).fit(x, y, weights)
    scaled = make(FEW_OF_ALL, **settings).fit(x, y, weights * scale)
    np.testing.assert_array_equal(plain.oof_output_, scaled.oof_output_)


def test_a_cancelled_fit_leaves_nothing_that_passes_for_fitted() -> None:
    x, y = load_iris(return_X_y=True)
    model = CascadeForestClassifier(FEW, random_state=0).fit(x, y)
    with pytest.raises(FitCancelled):
        model.fit(x, y, cancelled=lambda: True)
    with pytest.raises(NotFittedError):
        model.predict(x)


def test_importances_of_any_learner_are_shares() -> None:
    x, y = load_iris(return_X_y=True)
    learners = [
        *FEW,
        DecisionTreeClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ]
    model = CascadeForestClassifier(learners, max_layers=2, random_state=0).fit(x, y)
    for of_layer in model.layer_importances():
        assert set(np.round(of_layer.sum(axis=1), 6)) <= {0.0, 1.0}
