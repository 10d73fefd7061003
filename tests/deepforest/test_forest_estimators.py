"""The forests as scikit-learn estimators."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from deepforest.forest import HistForestClassifier, HistForestRegressor
from deepforest.persistence import BrokenModel
from tests.expect import refused

SPLITTERS = ["best", "random", "completely_random"]
BOOTSTRAP_DRAWS_ROWS = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "the bootstrap draws rows: one given twice is drawn twice as often, one of weight 2 is not"
    )
    for kind in ("dense", "sparse")
}


def expected_to_fail(estimator: Any) -> dict[str, str]:
    return BOOTSTRAP_DRAWS_ROWS if estimator.bootstrap else {}


@parametrize_with_checks(
    [HistForestClassifier(5), HistForestRegressor(5)], expected_failed_checks=expected_to_fail
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        HistForestClassifier(5, splitter="random", bootstrap=False),
        HistForestRegressor(5, bootstrap=False),
        HistForestClassifier(5, splitter="completely_random", bootstrap=False),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn_checks_of_other_settings(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer, load_digits])
def test_as_accurate_as_scikit_learn(load: Any) -> None:
    x, y = load(return_X_y=True)
    ours = cross_val_score(HistForestClassifier(60, random_state=0), x, y).mean()
    theirs = cross_val_score(RandomForestClassifier(60, random_state=0), x, y).mean()
    assert ours >= theirs - 0.012


def test_regression_is_as_good_as_scikit_learn() -> None:
    x, y = load_diabetes(return_X_y=True)
    ours = cross_val_score(HistForestRegressor(60, random_state=0), x, y).mean()
    theirs = cross_val_score(RandomForestRegressor(60, random_state=0), x, y).mean()
    assert ours >= theirs - 0.02


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_out_of_bag_vectors_estimate_the_accuracy(splitter: str) -> None:
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=0)
    model = HistForestClassifier(
        80, splitter=splitter, oob_score=True, measure_importances=True, random_state=0
    ).fit(x_train, y_train)
    assert model.oob_decision_function_.shape == (len(x_train), 10)
    assert model.oob_score_ == pytest.approx(model.score(x_test, y_test), abs=0.04)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[0] == 0.0  # a pixel that is always blank


def test_out_of_bag_prediction_of_a_regression() -> None:
    x, y = load_diabetes(return_X_y=True)
    model = HistForestRegressor(100, oob_score=True, random_state=0).fit(x, y)
    assert np.isfinite(model.oob_prediction_).all()
    assert 0.3 < model.oob_score_ < 0.6


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_threads_do_not_change_the_result(splitter: str) -> None:
    x, y = load_iris(return_X_y=True)
    models = [
        HistForestClassifier(9, splitter=splitter, random_state=3, n_jobs=n).fit(x, y)
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(models[0].predict_proba(x), models[1].predict_proba(x))


def test_classes_may_be_strings_and_class_weights_shift_the_vote() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    names = np.where(y == 1, "benign", "malignant")
    plain = HistForestClassifier(30, max_depth=2, random_state=0).fit(x, names)
    shifted = clone(plain).set_params(class_weight={"benign": 0.01, "malignant": 1.0}).fit(x, names)
    assert set(plain.predict(x)) == {"benign", "malignant"}
    assert (shifted.predict(x) == "malignant").sum() > (plain.predict(x) == "malignant").sum()


@pytest.mark.parametrize("seed", range(351, 363))
def test_weights_with_fractions_leave_no_leaf_without_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns, n_classes = (
        int(rng.integers(10, 40)),
        int(rng.integers(1, 4)),
        int(rng.integers(3, 6)),
    )
    x = rng.normal(size=(rows, columns)).round(int(rng.integers(0, 2)))
    y = rng.integers(0, n_classes, rows)
    if seed % 2:
        x[rng.random(x.shape) < 0.2] = np.nan
    for bootstrap in (False, True):
        model = HistForestClassifier(
            2, bootstrap=bootstrap, class_weight="balanced", random_state=seed
        ).fit(x, y)
        np.testing.assert_allclose(model.predict_proba(x).sum(axis=1), 1, atol=1e-6)
        assert (np.diff(model.forest_.leaf_start) > 1).all()


def test_blocks_and_single_rows_predict_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepforest import _input

    x, y = load_digits(return_X_y=True)
    model = HistForestClassifier(10, random_state=0).fit(x, y)
    whole = model.predict_proba(x)
    monkeypatch.setattr(_input, "BLOCK_ROWS", 100)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).predict_proba(x), whole)
    np.testing.assert_array_equal(model.predict_proba(x[7:8]), whole[7:8])


def test_apply_tells_the_leaves() -> None:
    x, y = load_iris(return_X_y=True)
    model = HistForestClassifier(4, random_state=0, bootstrap=False).fit(x, y)
    leaves = model.apply(x)
    assert leaves.shape == (150, 4)
    for tree in range(4):
        for leaf in np.unique(leaves[:, tree]):
            assert len(np.unique(y[leaves[:, tree] == leaf])) == 1


def test_works_in_a_pipeline() -> None:
    x, y = load_iris(return_X_y=True)
    assert (
        make_pipeline(StandardScaler(), HistForestClassifier(10, random_state=0))
        .fit(x, y)
        .score(x, y)
        > 0.95
    )


@pytest.mark.parametrize(
    "kind", ["two rows a class", "constant", "thousand classes", "wide", "one class"]
)
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_extreme_shapes(kind: str, splitter: str) -> None:
    rng = np.random.default_rng(0)
    x, y = {
        "two rows a class": (rng.random((4, 3)), np.array([0, 0, 1, 1])),
        "constant": (np.ones((20, 1)), np.arange(20) % 3),
        "thousand classes": (rng.random((2000, 5)), np.arange(2000) % 1000),
        "wide": (rng.random((10, 500)), np.arange(10) % 2),
        "one class": (rng.random((10, 2)), np.zeros(10, int)),
    }[kind]
    model = HistForestClassifier(5, splitter=splitter, random_state=0, oob_score=True).fit(x, y)
    probabilities = model.predict_proba(x)
    assert probabilities.shape == (len(x), len(np.unique(y)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
    if kind == "constant":
        np.testing.assert_allclose(probabilities, probabilities[:1].repeat(20, axis=0))


def people() -> Any:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "job": rng.choice(["clerk", "nurse", "baker", None], n),
            "city": pd.Categorical(rng.choice(["Oslo", "Rome"], n)),
            "member": rng.random(n) < 0.5,
            "income": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "visits": pd.array(rng.integers(0, 5, n), dtype="Int64"),
        }
    )
    frame.loc[3, "visits"] = pd.NA
    target = ((frame["job"] == "nurse") | ((frame["city"] == "Rome") & frame["member"])).to_numpy()
    return frame, np.where(target, "yes", "no")


def test_data_frames_with_categories_strings_and_missing_values(tmp_path: Path) -> None:
    frame, target = people()
    model = HistForestClassifier(30, random_state=0, oob_score=True).fit(frame, target)
    assert model.oob_score_ > 0.95
    assert model.binner_.categorical.tolist() == [False, True, True, True, False, False]
    assert list(model.feature_names_in_) == list(frame.columns)
    strange = frame.iloc[:2].copy()
    strange["job"] = ["astronaut", None]
    assert model.predict(strange).shape == (2,)
    model.save(tmp_path / "model")
    loaded = HistForestClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_categorical_columns_of_an_array_by_number_and_flag() -> None:
    x = np.column_stack([np.arange(60) % 6, np.arange(60)]).astype(float)
    y = np.isin(np.arange(60) % 6, [1, 4]).astype(int)
    for chosen in ([0], [True, False]):
        model = HistForestClassifier(10, categorical_features=chosen, random_state=0).fit(x, y)
        assert model.binner_.categorical.tolist() == [True, False]
    with refused(ValueError, naming=["categorical_features", "column 5"]):
        HistForestClassifier(categorical_features=[5]).fit(x, y)


@pytest.mark.parametrize("make", [HistForestClassifier, HistForestRegressor])
def test_saved_and_pickled_forests_predict_the_same(make: Any, tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    x = np.where(np.random.default_rng(0).random(x.shape) < 0.1, np.nan, x)
    model = make(7, max_depth=3, random_state=0, oob_score=True).fit(x, y)
    wanted = model.predict(x)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), wanted)
    model.save(tmp_path)
    loaded = make.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(x), wanted)
    assert loaded.get_params() == model.get_params()
    assert loaded.oob_score_ == model.oob_score_
    np.testing.assert_array_equal(loaded.feature_importances_, model.feature_importances_)


def test_a_damaged_or_foreign_folder_is_refused(tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    HistForestClassifier(3).fit(x, y).save(tmp_path)
    with refused(ValueError, naming="HistForestClassifier.load"):
        HistForestRegressor.load(tmp_path)
    content = bytearray((tmp_path / "forest.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "forest.npz").write_bytes(content)
    with refused(BrokenModel, naming="forest.npz"):
        HistForestClassifier.load(tmp_path)
    manifest = json.loads((tmp_path / "forest.json").read_text())
    manifest["content"]["version"] = 99
    (tmp_path / "forest.json").write_text(json.dumps(manifest))
    with refused(ValueError, naming="version 99"):
        HistForestClassifier.load(tmp_path)
    with refused(BrokenModel, naming="nowhere"):
        HistForestClassifier.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("params", "naming"),
    [
        ({"n_estimators": 0}, ["n_estimators", "0"]),
        ({"max_depth": 0}, ["max_depth", "0"]),
        ({"min_samples_leaf": 0.5}, ["min_samples_leaf", "0.5"]),
        ({"splitter": "worst"}, ["splitter", "'worst'"]),
        ({"bootstrap": False, "oob_score": True}, ["oob_score", "bootstrap"]),
        ({"max_bins": 1000}, ["max_bins", "1000"]),
        ({"min_weight_fraction_leaf": 0.9}, ["min_weight_fraction_leaf", "0.9"]),
    ],
)
def test_wrong_parameters_say_what_is_wrong(params: dict[str, Any], naming: list[str]) -> None:
    x, y = load_iris(return_X_y=True)
    with refused(ValueError, naming=naming):
        HistForestClassifier(**params).fit(x, y)


def test_importing_the_library_does_not_load_the_compiler() -> None:
    code = "import sys, deepforest, deepforest.forest; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
