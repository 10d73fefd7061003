"""The node composite-forest: validation rows, bad tables, the log, and a cascade with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepforest.learners import make_learner
from engine.testing import check_node
from engine.values import Table
from nodes import composite_forest, deep_forest
from nodes.composite_forest import NODE, CompositeForestParams, CompositeLearnerParams
from nodes.models.model import load_model
from tests.expect import refused

from .conftest import make_context

SMALL: dict[str, Any] = {"trees": 4, "degrees": [1, 2, 4], "penalty": 1.0}


def people(rows: int = 240, seed: int = 0) -> Table:
    """Numbers and categories with gaps, in scales that are far apart."""
    rng = np.random.default_rng(seed)
    income, age = rng.lognormal(10, 1, rows) * 1e9, rng.normal(40, 12, rows)
    town = rng.choice(["north", "south", "west"], rows)
    buys = (np.log(income) - 30.7 + (age - 40) / 20 + (town == "south")) > 0
    buys ^= rng.random(rows) < 0.15
    columns = {
        "income": pa.array(income, mask=rng.random(rows) < 0.1),
        "age": pa.array(age),
        "town": pa.array(town, mask=rng.random(rows) < 0.1),
        "buys": pa.array(np.where(buys, "yes", "no")),
    }
    return Table(pa.table(columns), target="buys")


def test_validation_rows_choose_gamma_and_are_compared_with_the_bound(tmp_path: Path) -> None:
    lines: list[str] = []
    context = make_context(tmp_path, on_log=lines.append)
    inputs = {"table": people(), "validation": people(100, seed=1)}
    model = NODE.run(context, inputs, NODE.params(**SMALL))["model"]
    record = model.estimator.held_out_
    assert record.source == "validation rows" and record.rows == 100
    assert model.validation["accuracy"] == pytest.approx(1 - record.error)
    assert any("smallest degrees" in line and "100 validation rows" in line for line in lines)
    folder = tmp_path / "model"
    folder.mkdir()
    model.save(folder)
    assert load_model(folder).estimator.held_out_ == record


def test_the_contract_with_missing_values_and_the_degrees_at_random(tmp_path: Path) -> None:
    params = CompositeForestParams(**SMALL, selection="none")
    check_node(NODE, tmp_path, {"table": people()}, params)


def test_a_table_with_missing_values_is_learned_and_predicted(tmp_path: Path) -> None:
    params = NODE.params(**SMALL, gamma=1e-3)
    model = NODE.run(make_context(tmp_path), {"table": people()}, params)["model"]
    truth = np.array(people(seed=2).labels().to_pylist()) == "yes"
    predicted = model.predict_proba(people(seed=2))[:, 1] > 0.5
    assert np.mean(predicted == truth) > 0.7


def test_a_number_is_not_a_target(tmp_path: Path) -> None:
    table = Table(people().data, target="age")
    with refused(naming=["Composite forest", "predicts classes"]):
        NODE.run(make_context(tmp_path), {"table": table}, NODE.params(**SMALL))


@pytest.mark.parametrize(
    "wrong",
    [
        {"trees": 0},
        {"degrees": []},
        {"degrees": [0]},
        {"sequences": 0},
        {"sequences": "some"},
        {"selection": "best"},
        {"gamma": 0},
        {"gamma": 2},
        {"penalty": -1},
        {"min_leaf": 0},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        NODE.params(**wrong)


def test_a_deep_forest_has_it_as_a_learner(tmp_path: Path) -> None:
    learner = {"kind": "composite_forest", "trees": 3, "degrees": [1, 2], "max_features": "all"}
    params = deep_forest.NODE.params(learners=[learner], folds=2, max_layers=1)
    node = deep_forest.NODE
    model = node.run(make_context(tmp_path), {"table": people()}, params)["model"]
    folder = tmp_path / "model"
    folder.mkdir()
    model.save(folder)
    later = people(seed=2)
    np.testing.assert_array_equal(
        load_model(folder).predict_proba(later), model.predict_proba(later)
    )
    with refused(naming=["cannot be explained", "composite forest"]):
        model.contributions(later)


def test_a_deep_forest_of_numbers_refuses_it_before_the_run() -> None:
    params = deep_forest.NODE.params(learners=[CompositeLearnerParams(kind="composite_forest")])
    columns = [*Table(people().data, target="age").columns]
    with refused(field="learners", naming=["composite forest", "number"]):
        deep_forest.NODE.output_columns({"table": columns}, params)


def test_defaults_of_the_learner_are_those_of_the_library() -> None:
    settings = deep_forest.cascade_params(
        deep_forest.NODE.params(learners=[CompositeLearnerParams(kind="composite_forest")])
    )["learners"][0]
    assert make_learner(settings) == make_learner("composite_forest")


def test_defaults_of_the_node_are_those_of_the_library() -> None:
    from deepforest import CompositeForestClassifier

    built = composite_forest.build(NODE.params())
    assert built.get_params() == CompositeForestClassifier(random_state=0).get_params()
