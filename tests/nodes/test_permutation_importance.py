"""Permutation importance: which columns a model needs, with intervals, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import BadInput
from engine.node_types import Column, NodeContext
from engine.testing import check_node
from engine.values import Folder, Report, Table
from nodes import permutation_importance
from nodes.permutation_importance import NODE
from tests.expect import refused
from tests.nodes.conftest import MODELS, load_sample
from tests.nodes.models.conftest import DECIDING, make_table


@pytest.fixture
def model(ctx: NodeContext, tmp_path: Path) -> Folder:
    node, params = MODELS["mart"]
    folder = tmp_path / "m"
    folder.mkdir()
    node.run(ctx, {"table": make_table(300)}, node.params(**params))["model"].save(folder)
    return Folder(folder)


def measured(ctx: NodeContext, model: Folder, table: Table, **params: Any) -> Report:
    report = NODE.run(ctx, {"model": model, "table": table}, NODE.params(**params))["report"]
    assert isinstance(report, Report)
    return report


def test_columns_come_by_what_they_cost_with_an_interval(ctx: NodeContext, model: Folder) -> None:
    report = measured(ctx, model, make_table(200, seed=5), metric="auc", repeats=4)
    names = [row["column"] for row in report.rows]
    assert sorted(names) == sorted(DECIDING)
    assert names[0] == "amount"
    drops = [row["drop"] for row in report.rows]
    assert drops == sorted(drops, reverse=True)
    assert all(row["low"] <= row["drop"] <= row["high"] for row in report.rows)
    assert report.headline["rows"] == 200 and report.data["repeats"] == 4
    assert report.headline["needed"] == sum(row["low"] > 0 for row in report.rows) > 0


def test_a_large_table_is_sampled_and_the_seed_decides(ctx: NodeContext, model: Folder) -> None:
    table = make_table(200, seed=5)
    one = measured(ctx, model, table, rows=50)
    assert one.headline["rows"] == 50 and one.headline["metric"] == "log_loss"
    assert one == measured(ctx, model, table, rows=50)
    assert one.headline["value"] != measured(ctx, model, table, rows=50, seed=1).headline["value"]


def test_a_model_of_numbers_is_measured_by_rmse(ctx: NodeContext, tmp_path: Path) -> None:
    table = load_sample(ctx, "diabetes")
    folder = tmp_path / "numbers"
    folder.mkdir()
    node = MODELS["mart"][0]
    node.run(ctx, {"table": table}, node.params(trees=20))["model"].save(folder)
    report = measured(ctx, Folder(folder), table)
    assert report.headline["metric"] == "rmse"
    assert report.rows[0]["low"] > 0


def test_it_keeps_the_contract_of_nodes(model: Folder, tmp_path: Path) -> None:
    check_node(NODE, tmp_path, {"model": model, "table": make_table(60)})


def test_rows_that_cannot_be_measured_are_refused(ctx: NodeContext, model: Folder) -> None:
    table = make_table(40)
    with refused(BadInput, naming=["no rows"]):
        measured(ctx, model, table.with_data(table.data.slice(0, 0)))
    with refused(BadInput, naming=["no target"]):
        measured(ctx, model, Table(table.data))
    with refused(BadInput, naming=["lacks", "amount"]):
        measured(ctx, model, table.with_data(table.data.drop_columns(["amount"])))
    with refused(BadInput, naming=["rmse"]):
        measured(ctx, model, table, metric="rmse")
    only = np.array(table.data.column("class").cast("string")) == "no"
    with refused(BadInput, naming=["auc", "no value"]):
        measured(ctx, model, table.with_data(table.data.filter(only)), metric="auc")


def test_a_missing_target_is_found_before_the_run() -> None:
    with refused(BadInput, naming=["no target"]):
        permutation_importance.columns({"table": (Column("x", "number"),)}, NODE.params())
    assert permutation_importance.columns({"table": None}, NODE.params()) == {}
