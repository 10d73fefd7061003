"""XGBoost as a learner: equal bits after a file, and no damaged model reaches its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip(
    "xgboost", reason="needs the package xgboost-cpu: install sylva-studio[cluster]"
)

from deepforest import CascadeForestClassifier
from deepforest._fit import FitResult
from deepforest.learners import FitSlice, FittedXgboost, Target, Xgboost, make_learner, xgboost
from deepforest.persistence import Pack
from tests.deepforest.test_gang import Trial
from tests.expect import assert_same_bits, refused


def fitted(trial: Trial, n_classes: int, n_jobs: int = 1) -> FitResult:
    values = trial.features.values[:, 0]
    target = Target(np.nan_to_num(values), 0)
    if n_classes:
        edges = np.linspace(-1, 1, n_classes + 1)[1:-1]
        target = Target(np.digitize(target.values, edges), n_classes)
    part = FitSlice(trial.fit.training, trial.fit.left_out, None, 3, n_jobs)
    fit = Xgboost(n_estimators=4).fit(trial.features, target, part)
    return FitResult(fit.model, fit.vectors, 0.0)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_a_model_from_its_text_predicts_the_same(tmp_path: Path, n_classes: int) -> None:
    trial = Trial(tmp_path)
    result = fitted(trial, n_classes)
    pack = result.model.pack()
    again = FittedXgboost.unpack(pack, 5, n_classes)
    vectors = again.vectors(trial.features)
    assert_same_bits(vectors, result.model.vectors(trial.features))
    assert_same_bits(vectors[trial.fit.left_out].astype(np.float32), result.vectors)
    assert again.pack().text == pack.text
    assert again.importances(5).argmax() == 0
    parts = again.contributions(trial.features)
    assert parts.shape == (2000, 6, max(n_classes, 1))
    np.testing.assert_allclose(parts.sum(axis=1), vectors, atol=1e-5)


def test_the_model_is_the_same_with_more_threads(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    assert fitted(trial, 3, 1).model.pack().text == fitted(trial, 3, 4).model.pack().text


def test_negative_codes_of_categories_are_missing(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    model = fitted(trial, 2).model
    assert isinstance(model, FittedXgboost)
    rows = np.zeros((2, 5))
    rows[:, 3] = -1, np.nan
    first, second = model.predict(rows)
    assert_same_bits(first, second)


Change = Callable[[dict[str, Any]], object]
DAMAGE: dict[str, Change] = {
    "a child that does not exist": lambda tree: tree["left_children"].__setitem__(0, 99),
    "a child before its parent": lambda tree: tree["left_children"].__setitem__(1, 0),
    "a column that does not exist": lambda tree: tree["split_indices"].__setitem__(0, 5),
    "a value that is not a number": lambda tree: tree["base_weights"].__setitem__(0, "x"),
    "a value too large": lambda tree: tree["split_conditions"].__setitem__(0, 1e300),
    "an array too short": lambda tree: tree["default_left"].pop(),
    "a parent that is another": lambda tree: tree["parents"].__setitem__(2, 1),
    "a type that does not exist": lambda tree: tree["split_type"].__setitem__(0, 7),
    "a set without a node": lambda tree: tree["categories_nodes"].append(0),
    "a field that is missing": lambda tree: tree.pop("parents"),
    "a field too many": lambda tree: tree.update(more=1),
    "another number of nodes": lambda tree: tree["tree_param"].update(num_nodes="99"),
}


@pytest.mark.parametrize("what", list(DAMAGE))
def test_a_damaged_tree_is_refused(tmp_path: Path, what: str) -> None:
    model = json.loads(fitted(Trial(tmp_path), 2).model.pack().text)
    DAMAGE[what](model["learner"]["gradient_booster"]["model"]["trees"][0])
    with refused(ValueError):
        FittedXgboost.unpack(Pack({"kind": "xgboost"}, text=json.dumps(model)), 5, 2)


def test_text_of_another_model_is_refused(tmp_path: Path) -> None:
    pack = fitted(Trial(tmp_path), 2).model.pack()
    for text, n_features, n_classes in [
        (pack.text, 6, 2),
        (pack.text, 5, 3),
        ("[]", 5, 2),
        ("", 5, 2),
        (pack.text[:-9], 5, 2),
    ]:
        with refused(ValueError):
            FittedXgboost.unpack(Pack({}, text=text), n_features, n_classes)


def test_a_cascade_of_xgboost_is_saved_and_loaded(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    learners = [{"kind": "xgboost", "n_estimators": 5}]
    settings: dict[str, Any] = {"cv": 2, "max_layers": 2, "resampling": "per_layer", "n_jobs": 1}
    cascade = CascadeForestClassifier(learners, random_state=0, **settings)
    x, y = trial.features.values, trial.target.values
    cascade.fit(x, y)
    cascade.save(tmp_path / "model")
    again = CascadeForestClassifier.load(tmp_path / "model")
    assert_same_bits(again.predict_proba(x), cascade.predict_proba(x))
    assert (again.predict(x) == y).mean() > 0.8


def test_without_the_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(xgboost, "find_spec", lambda name: None)
    with refused(ValueError, naming="pip install 'sylva-studio[cluster]'"):
        make_learner("xgboost")


@pytest.mark.parametrize(
    "setting",
    [{"ranks": 0}, {"max_depth": 0}, {"subsample": 2.0}, {"min_child_weight": -1.0}],
)
def test_wrong_settings_are_refused(setting: dict[str, Any]) -> None:
    with refused(ValueError, naming=[*setting, *setting.values()]):
        Xgboost(**setting)


@pytest.mark.slow
def test_two_processes_find_one_model_as_good(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.fit = replace(trial.fit, learner=Xgboost(n_estimators=10, ranks=2))
    alone, first, second = trial.alone(), trial.gang(), trial.gang()
    assert first.model.pack().text == second.model.pack().text
    assert_same_bits(first.vectors, second.vectors)
    assert trial.loss(first) == pytest.approx(trial.loss(alone), rel=0.1)
