"""Cascades that earlier versions saved are loaded and predict the same.

``make_cascades.py`` made an archive with commit 3044d69. Names of params, of records and of files
were others then, and every cascade was grown in the papers' way. ``make_nested_cascades.py`` made
one with commit 4d8fc0e, whose models were the mean of the cascades that are blind to a fold.
"""

from __future__ import annotations

import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import deepforest

FOLDER = Path(__file__).parent
NAMES = ("cascade", "out-of-bag", "stack", "selector", "numbers", "mddf", "screening")
NESTED = ("cascade", "stack", "selector", "numbers", "mddf", "screening")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extracted("cascades-3044d69.tar.xz", tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extracted("nested-4d8fc0e.tar.xz", tmp_path_factory.mktemp("nested"))


def extracted(name: str, folder: Path) -> Path:
    with tarfile.open(FOLDER / name) as archive:
        archive.extractall(folder, filter="data")
    return folder


def load(folder: Path) -> Any:
    """Load a cascade with the class that its manifest names; a warning is an error."""
    kind = json.loads((folder / "forest.json").read_text())["content"]["model"]["class"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return getattr(deepforest, kind).load(folder)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_cascade_predicts_the_same(name: str, old: Path, tmp_path: Path) -> None:
    model = load(old / name)
    check(model, name, old)
    assert model.resampling == "per_layer"
    assert model.cv == 2
    assert {record.scored_on for record in model.layer_records_} == {"out_of_fold"}
    # Saved by the code of today it is still the same.
    model.save(tmp_path)
    check(load(tmp_path), name, old)


@pytest.mark.parametrize("name", NESTED)
def test_an_old_model_of_several_cascades_predicts_the_same(
    name: str, nested: Path, tmp_path: Path
) -> None:
    model = load(nested / name)
    check(model, name, nested)
    assert (len(model.cascades_), model.n_layers_) == (3, 2)
    assert {record.scored_on for record in model.layer_records_} == {"blind"}
    model.save(tmp_path)
    check(load(tmp_path), name, nested)
    # Fitted again it is one cascade.
    x, y = load_iris(return_X_y=True)
    assert len(model.fit(x, y).cascades_) == 1


def check(model: Any, name: str, old: Path) -> None:
    x, _ = load_iris(return_X_y=True)
    expected = np.load(old / "expected.npz")
    output = model.predict_proba(x) if hasattr(model, "predict_proba") else model.predict(x)
    np.testing.assert_allclose(output, expected[name], atol=1e-6)
    np.testing.assert_allclose(model.transform(x), expected[f"{name}: vectors"], atol=1e-6)
    np.testing.assert_allclose(
        model.feature_importances_, expected[f"{name}: importances"], rtol=1e-4
    )
    scores = [record.score for record in model.layer_records_]
    np.testing.assert_allclose(scores, expected[f"{name}: scores"])


def test_old_params_have_their_new_names(old: Path) -> None:
    assert load(old / "cascade").scoring == "log_loss"
    assert load(old / "out-of-bag").tol == 0.001
    forest, mart = load(old / "cascade").learners
    assert (forest["n_estimators"], forest["min_samples_leaf"]) == (3, 2)
    assert (mart["n_estimators"], mart["num_leaves"], mart["subsample"]) == (2, 4, 0.8)


@pytest.mark.parametrize("name", ["cascade", "numbers"])
def test_an_old_cascade_can_be_fitted_again(name: str, old: Path) -> None:
    x, y = load_iris(return_X_y=True)
    model = load(old / name)
    assert model.set_params(max_layers=1).fit(x, y).score(x, y) > 0.7
    assert model.n_layers_ == len(model.cascades_) == 1
