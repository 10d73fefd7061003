"""The deep-forest node: which rows are held out, what decides about layers, and its script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import BadInput
from engine.export_python import Expression, Variables
from engine.node_types import NodeContext
from engine.values import Table
from nodes import deep_forest, steps
from nodes.deep_forest import DeepForestParams
from tests.expect import refused

SMALL = {
    "learners": [
        {"kind": "random_forest", "trees": 20, "max_features": "all"},
        {"kind": "mart", "trees": 5, "min_rows": 5},
    ],
    "folds": 3,
    "max_layers": 2,
    "metric": "auc",
}


def customers(n: int = 60, seed: int = 0, **roles: str) -> Table:
    """Five rows of each customer, who has a number and a class of its own: pure chance.

    The rows of a customer are observed at one time.
    """
    rng = np.random.default_rng(seed)
    columns = {
        "customer": np.repeat([f"c{seed}-{number}" for number in range(n)], 5),
        "day": np.repeat(rng.permutation(n), 5),
        "number": np.repeat(rng.normal(size=n), 5),
        "noise": rng.normal(size=5 * n),
        "class": np.repeat(np.where(rng.random(n) < 0.5, "no", "yes"), 5),
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    # Neither is a feature, with or without its role.
    others = {"customer": "ignore", "day": "ignore"} | roles
    return Table(table, "class", others)  # type: ignore[arg-type]


def grow(ctx: NodeContext, table: Table, validation: Table | None = None, **params: Any) -> Any:
    inputs = {"table": table, "validation": validation}
    checked = DeepForestParams(**SMALL | params)
    return deep_forest.NODE.run(ctx, inputs, checked)["model"].estimator


@pytest.mark.parametrize("resampling", ["nested", "per_layer"])
def test_rows_of_a_known_customer_make_the_score_too_good(
    ctx: NodeContext, resampling: str
) -> None:
    by_rows = grow(ctx, customers(), resampling=resampling)
    by_group = grow(ctx, customers(customer="group"), resampling=resampling)
    assert by_rows.layer_records_[0].score > 0.8
    assert by_group.layer_records_[0].score < 0.65


def test_with_times_the_rows_are_scored_by_cascades_of_earlier_rows(ctx: NodeContext) -> None:
    forest = grow(ctx, customers(day="time"))
    # Each customer is observed once, so an earlier row says nothing about a later one.
    assert forest.layer_records_[0].score < 0.65
    # Those who learned earlier rows only made the scores; one that learned all rows is the model.
    assert len(forest.cascades_) == 1


def test_the_papers_way_cannot_hold_out_by_time(ctx: NodeContext) -> None:
    said: list[str] = []
    listening = replace(ctx, on_log=said.append)
    forest = grow(listening, customers(day="time"), resampling="per_layer")
    assert forest.layer_records_[0].scored_on == "out_of_fold"
    assert any("not on the latest" in line for line in said)
    with refused(field="folds_by", naming=["Validation", "Folds by"]):
        DeepForestParams(folds_by="time", resampling="per_layer")


def test_validation_rows_decide_about_layers(ctx: NodeContext) -> None:
    train, later = customers(), customers(seed=1)
    forest = grow(ctx, train, later)
    record = forest.layer_records_[0]
    assert record.scored_on == "validation"
    # To the forest the customers of the validation rows are new, those of its folds are not.
    assert record.score == record.validation["auc"] < 0.65
    assert record.blind["auc"] > 0.8


def test_columns_that_cannot_be_used_are_known_before_a_run() -> None:
    rule, params = deep_forest.NODE.output_columns, DeepForestParams()
    assert rule is not None
    table = customers()
    assert rule({"table": table.columns, "validation": None}, params) == {}
    with refused(naming=["validation rows", "target"]):
        rule({"table": table.columns, "validation": Table(table.data).columns}, params)
    both = customers(customer="group", day="time").columns
    with refused(field="folds_by", naming=["'customer'", "'day'"]):
        rule({"table": both, "validation": None}, params)
    assert rule({"table": both}, DeepForestParams(folds_by="group")) == {}
    with refused(field="folds_by", naming="role time"):
        rule({"table": table.columns}, DeepForestParams(folds_by="time"))


@pytest.mark.parametrize(
    ("metric", "rate"), [("recall_at_1_in_1000", "0.001"), ("recall_at_1_in_10000", "0.0001")]
)
def test_growth_by_the_recall_at_small_rates(metric: str, rate: str) -> None:
    cascade = deep_forest.build(DeepForestParams(metric=metric))  # type: ignore[arg-type]
    assert cascade.scoring == f"recall_at_rate({rate})"


# The script


def script(params: DeepForestParams, *inputs: str) -> str:
    """The lines of the node in a script; its inputs are variables of these names."""
    variables = {name: Expression(name) for name in inputs}
    names = Variables(variables, {}, {"model": Expression("model")}, None, {}, Expression)
    return "\n".join(deep_forest.python(params, names).lines)


@pytest.mark.parametrize(
    ("roles", "validated", "params"),
    [
        ({"customer": "group"}, True, {"class_weights": {"yes": 3.0}}),
        ({"day": "time"}, False, {"folds_by": "time"}),
        ({"day": "time"}, False, {"resampling": "per_layer", "folds_by": "rows"}),
    ],
)
def test_script_grows_the_forest_of_the_node(
    ctx: NodeContext, roles: dict[str, str], validated: bool, params: dict[str, Any]
) -> None:
    from deepforest import preset

    inputs = {"table": customers(**roles)}
    if validated:
        inputs["validation"] = customers(seed=1)
    text = script(DeepForestParams(**SMALL | params), *inputs)
    space: dict[str, Any] = {"preset": preset, "steps": steps, **inputs}
    exec(text, space)
    grown = grow(ctx, inputs["table"], inputs.get("validation"), **params)
    np.testing.assert_array_equal(
        space["cascade"].predict_proba(space["rows"].matrix),
        grown.predict_proba(space["rows"].matrix),
    )
    scores = [
        [record.score for record in each.layer_records_] for each in (space["cascade"], grown)
    ]
    assert scores[0] == scores[1]


def test_script_names_only_what_can_have_an_effect() -> None:
    text = script(DeepForestParams(folds_by="rows"), "table")
    assert "groups" not in text
    assert "times" not in text
    assert "validation" not in text
    assert "class_weight" not in text
    per_layer = script(DeepForestParams(resampling="per_layer"), "table")
    assert "groups=rows.groups" in per_layer
    assert "times" not in per_layer


def test_params_of_an_earlier_version_are_valid() -> None:
    with pytest.raises(BadInput):
        DeepForestParams(preset="gcforest", gamma=0.5)
    assert DeepForestParams(folds=4).resampling is None
    assert deep_forest.build(DeepForestParams(folds=4)).cv == 4
