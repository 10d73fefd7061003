"""A quick model says what the model says, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from nodes import deep_forest
from nodes.models.fast_predict import FEW, FastBooster, with_fast_predict
from nodes.models.model import load_model
from tests.nodes.conftest import load_sample, make_context
from tests.nodes.models.conftest import make_table


@pytest.fixture(scope="module")
def cascades(tmp_path_factory):
    """A cascade of boosters and a forest over two layers, for two classes and for ten."""
    folder = tmp_path_factory.mktemp("cascades")
    context = make_context(folder)
    params = deep_forest.NODE.params(
        learners=[{"kind": "mart", "count": 2, "trees": 4}, {"kind": "extra_trees", "trees": 4}],
        max_layers=2,
        patience=2,
        folds=2,
    )
    digits = load_sample(context, "digits")
    tables = {"two": make_table(300), "ten": digits.with_data(digits.data.slice(0, 400))}
    for name, table in tables.items():
        (folder / name).mkdir()
        deep_forest.NODE.run(context, {"table": table}, params)["model"].save(folder / name)
    return folder, tables


@pytest.mark.parametrize("name", ["two", "ten"])
@pytest.mark.parametrize("rows", [1, FEW, FEW + 1])
def test_the_answers_are_the_same(cascades, name, rows):
    folder, tables = cascades
    plain, quick = load_model(folder / name), with_fast_predict(load_model(folder / name))
    matrix = plain.encoder.transform(tables[name].data.slice(0, 60))
    matrix[3, :2] = np.nan
    wanted = plain.predict_matrix(matrix)
    blocks = [matrix[start : start + rows] for start in range(0, len(matrix), rows)]
    np.testing.assert_array_equal(
        np.vstack([quick.predict_matrix(block) for block in blocks]), wanted
    )
    first_layers = [cascade.layers[0] for cascade in quick.estimator.cascade.cascades_]
    boosters = [model.booster for layer in first_layers for model in layer.models[0]]
    assert boosters and all(isinstance(booster, FastBooster) for booster in boosters)


def test_a_plain_booster_is_quick_as_well(model, table, kept):
    quick = with_fast_predict(kept.open("mart"))
    matrix = model.encoder.transform(table.data.slice(0, 40))
    each = np.vstack([quick.predict_matrix(matrix[i : i + 1]) for i in range(40)])
    np.testing.assert_array_equal(each, model.predict_matrix(matrix))


def test_a_lightgbm_without_such_a_thing_is_used_as_it_is(monkeypatch):
    import lightgbm.basic

    monkeypatch.setattr(lightgbm.basic, "_LIB", object())
    booster = type(
        "Booster",
        (),
        {"num_feature": lambda _: 2, "num_model_per_iteration": lambda _: 1, "_handle": 0},
    )()
    assert FastBooster.over(booster) is booster
