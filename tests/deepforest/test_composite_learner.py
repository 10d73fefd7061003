"""Composite forests as learners of a cascade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_classification

from deepforest import CascadeForestClassifier, CascadeForestRegressor, CompositeForestClassifier
from deepforest.learners import CompositeForest, make_learner

COMPOSITE = {"kind": "composite_forest", "n_estimators": 5, "max_depth": 2, "degrees": [1, 3]}
FOREST = {"kind": "random_forest", "n_estimators": 5}


def cascade(*learners: Any, **settings: Any) -> CascadeForestClassifier:
    shape: dict[str, Any] = {"cv": 2, "max_layers": 2, "patience": 2, "random_state": 0}
    return CascadeForestClassifier(list(learners), **shape | settings)


def test_a_cascade_with_a_composite_forest_is_saved_and_loaded(tmp_path: Path) -> None:
    x, y = load_wine(return_X_y=True)
    x[::7, 3] = np.nan
    model = cascade(COMPOSITE, FOREST).fit(x, y)
    assert model.score(x, y) > 0.9
    names = [each.name for each in model.layer_records_[0].learners]
    assert names == ["composite forest 1", "random forest 2"]
    model.save(tmp_path)
    loaded = CascadeForestClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))


def test_training_rows_get_their_vectors_from_other_folds() -> None:
    # Random labels: predictions of rows that a learner has seen would be right.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)), rng.integers(0, 2, 300)
    learner = COMPOSITE | {"C": 100.0, "degrees": [9], "n_estimators": 10}
    model = cascade(learner, max_layers=1, resampling="per_layer", scoring="auc").fit(x, y)
    assert abs(model.layer_records_[0].score - 0.5) < 0.1
    assert model.score(x, y) > 0.8


def test_weights_of_rows_reach_the_svms() -> None:
    x, y = make_classification(200, 5, flip_y=0.3, random_state=0)
    learner = COMPOSITE | {"max_depth": 1}
    plain = cascade(learner, max_layers=1).fit(x, y)
    heavy = cascade(learner, max_layers=1, class_weight={0: 1.0, 1: 10.0}).fit(x, y)
    assert heavy.predict(x).sum() > plain.predict(x).sum() + 10


def test_contributions_and_importances_are_not_known() -> None:
    x, y = load_wine(return_X_y=True)
    model = cascade(COMPOSITE, max_layers=1).fit(x, y)
    with pytest.raises(ValueError, match="not known for a composite forest"):
        model.predict_contributions(x[:2])


def test_a_cascade_of_numbers_refuses_it() -> None:
    x = load_wine().data
    with pytest.raises(ValueError, match="learns classes, but the cascade learns numbers"):
        CascadeForestRegressor([COMPOSITE], cv=2, max_layers=1).fit(x, x[:, 0])


def test_settings_are_checked_at_once_and_described_as_json() -> None:
    with pytest.raises(ValueError, match="gamma is 'best'"):
        make_learner({"kind": "composite_forest", "gamma": "best"})
    learner = CompositeForest(C={1: 1.0, 3: 0.5}, degrees=(1, 3))
    assert make_learner(learner.about()) == learner


def test_settings_and_defaults_are_those_of_the_estimator_except_c_and_gamma() -> None:
    own = {name: value for name, value in vars(CompositeForest()).items() if name != "count"}
    of_estimator = CompositeForestClassifier().get_params()
    assert own.keys() | {"categorical_features", "n_jobs", "random_state"} == of_estimator.keys()
    differing = {name for name, value in own.items() if of_estimator[name] != value}
    assert differing == {"n_estimators", "C", "gamma"}
