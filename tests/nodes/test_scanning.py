"""The deep-forest node on images: what it refuses before a run, and what it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits

from engine.export_python import Expression, Variables
from engine.node_types import NodeContext
from engine.testing import check_node
from engine.values import Folder, Table
from nodes import deep_forest, filter_rows, inspect_layers, select_columns, sql, steps
from nodes.deep_forest import NODE, DeepForestParams
from nodes.models.fast_predict import with_fast_predict
from nodes.models.model import load_model
from tests.expect import assert_same_bits, refused

SMALL: dict[str, Any] = {
    "learners": [{"kind": "extra_trees", "trees": 10}],
    "folds": 3,
    "max_layers": 1,
    "scan_shape": [8, 8],
    "scan_windows": [4],
    "scan_sample": 0.2,
}
PIXELS = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]


def digits(names: list[str] | None = None, **others: Any) -> Table:
    """Images of digits; ``names`` are their columns in order, ``others`` further columns."""
    x, y = load_digits(return_X_y=True)
    columns = dict(zip(PIXELS, x[::6].T, strict=True))
    table = {name: pa.array(columns[name]) for name in names or PIXELS}
    table |= {name: pa.array([value] * len(x[::6])) for name, value in others.items()}
    return Table(pa.table({**table, "digit": pa.array(y[::6].astype(str))}), target="digit")


def grow(ctx: NodeContext, table: Table, **params: Any) -> Any:
    return NODE.run(ctx, {"table": table}, DeepForestParams(**SMALL | params))["model"]


def test_the_node_keeps_its_contract_with_a_scan(tmp_path: Path) -> None:
    check_node(NODE, tmp_path, {"table": digits()}, DeepForestParams(**SMALL))


def test_a_saved_model_scans_rows_in_any_order_of_columns(ctx: NodeContext, tmp_path: Path) -> None:
    table = digits()
    model = grow(ctx, table)
    assert len(model.estimator.scans_) == 1
    (tmp_path / "model").mkdir()
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    matrix = loaded.encoder.transform(table.data, loaded.precision)
    expected = model.estimator.predict_proba(matrix)
    assert_same_bits(loaded.estimator.predict_proba(matrix), expected)
    # Columns are found by name, so that another order means the same images.
    turned = digits(PIXELS[::-1])
    assert_same_bits(
        loaded.estimator.predict_proba(loaded.encoder.transform(turned.data, loaded.precision)),
        expected,
    )
    with refused(naming=["pixel_0_0"]):
        loaded.encoder.check(digits(PIXELS[1:]).data)
    with refused(naming=["cannot be explained", "scans"]):
        loaded.contributions(table)
    # A service replaces the cascade by a faster one, which refuses too, before it predicts.
    fast = with_fast_predict(loaded)
    assert_same_bits(fast.estimator.predict_proba(matrix[:3]), expected[:3])
    with refused(naming=["cannot be explained", "scans"]):
        fast.check_explainable()


def test_a_script_grows_the_forest_of_the_node(ctx: NodeContext) -> None:
    from deepforest import preset

    variables = {"table": Expression("table")}
    names = Variables(variables, {}, {"model": Expression("model")}, None, {}, Expression)
    text = "\n".join(deep_forest.python(DeepForestParams(**SMALL), names).lines)
    space: dict[str, Any] = {"preset": preset, "steps": steps, "table": digits()}
    exec(text, space)
    matrix = space["rows"].matrix
    assert_same_bits(
        space["cascade"].predict_proba(matrix),
        grow(ctx, digits()).estimator.predict_proba(matrix),
    )


@pytest.mark.parametrize("preset", ["gcforest_cs", "gcforest_cs_scan"])
def test_other_presets_scan_too(ctx: NodeContext, preset: str) -> None:
    forest = grow(ctx, digits(), preset=preset).estimator
    assert forest.scans_[0].shape == (8, 8)
    assert len(forest.scans_[0].grains[0].positions) == 5


@pytest.mark.parametrize(
    ("params", "field", "naming"),
    [
        ({"scan_windows": [9]}, "scan_windows", ["9", "8 × 8"]),
        ({"scan_shape": [], "scan_sample": None}, "scan_windows", []),
        ({"scan_shape": [], "scan_windows": []}, "scan_sample", []),
        ({"select_features": 5}, "select_features", []),
        (
            {
                "preset": "gcforest_cs_scan",
                "scan_shape": [],
                "scan_windows": [],
                "scan_sample": None,
            },
            "scan_shape",
            [],
        ),
    ],
)
def test_settings_that_do_not_describe_a_scan_are_refused(
    params: dict[str, Any], field: str, naming: list[str]
) -> None:
    with refused(field=field, naming=naming):
        DeepForestParams(**SMALL | params)


@pytest.mark.parametrize("sample", [0, 1.5])
def test_a_sample_of_none_or_of_more_than_all_is_refused(sample: float) -> None:
    with pytest.raises(ValueError, match="scan_sample"):
        DeepForestParams(**SMALL | {"scan_sample": sample})


@pytest.mark.parametrize(
    ("table", "params", "naming"),
    [
        (digits(), {"scan_shape": [8, 9]}, ["8 × 9", "72", "64"]),
        (digits(PIXELS[:-1]), {}, ["64", "63"]),
        (digits(writer="anna"), {}, ["writer"]),
        (digits([PIXELS[1], PIXELS[0], *PIXELS[2:]]), {}, ["pixel_0_1", "pixel_0_0"]),
    ],
    ids=["shape", "columns", "text", "order"],
)
def test_columns_that_are_not_the_image_are_refused_before_and_in_a_run(
    ctx: NodeContext, table: Table, params: dict[str, Any], naming: list[str]
) -> None:
    checked = DeepForestParams(**SMALL | params)
    assert NODE.output_columns is not None
    with refused(field="scan_shape", naming=naming):
        NODE.output_columns({"table": table.columns}, checked)
    with refused(field="scan_shape", naming=naming):
        NODE.run(ctx, {"table": table}, checked)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_pixel_without_values_is_refused(ctx: NodeContext, value: float) -> None:
    table = digits()
    pixels = pa.array(np.full(table.data.num_rows, value))
    table = table.with_data(table.data.set_column(9, PIXELS[9], pixels))
    with refused(field="scan_shape", naming=["64", "1 of them"]):
        grow(ctx, table)


def test_a_node_before_may_not_reorder_the_columns(ctx: NodeContext) -> None:
    names = ", ".join([*PIXELS[32:], *PIXELS[:32], "digit"])
    query = sql.NODE.params(query=f"SELECT {names} FROM a")
    reordered = sql.NODE.run(ctx, {"a": digits()}, query)["table"]
    assert reordered.data.column_names[0] == "pixel_4_0"
    with refused(field="scan_shape", naming=["pixel_4_0", "pixel_0_0"]):
        grow(ctx, reordered)


def test_filtered_rows_and_selected_columns_keep_their_order(ctx: NodeContext) -> None:
    condition = {"column": "pixel_3_3", "test": "present"}
    filtered = filter_rows.NODE.run(
        ctx, {"table": digits()}, filter_rows.NODE.params(conditions=[condition])
    )["table"]
    keep = select_columns.NODE.params(mode="keep", columns=[*PIXELS[::-1], "digit"])
    selected = select_columns.NODE.run(ctx, {"table": filtered}, keep)["table"]
    assert grow(ctx, selected).estimator.scans_[0].shape == (8, 8)


def test_a_number_cannot_be_predicted_by_a_scan(ctx: NodeContext) -> None:
    x, y = load_digits(return_X_y=True)
    columns = {name: pa.array(values) for name, values in zip(PIXELS, x[::20].T, strict=True)}
    noisy = y[::20] + np.random.default_rng(0).normal(size=len(y[::20]))
    table = Table(pa.table({**columns, "size": noisy}), target="size")
    with refused(field="scan_shape"):
        grow(ctx, table, metric=None)


def test_an_inspection_has_the_windows_of_the_forest(ctx: NodeContext, tmp_path: Path) -> None:
    table = digits()
    (tmp_path / "model").mkdir()
    grow(ctx, table).save(tmp_path / "model")
    params = inspect_layers.NODE.params(rows=20, perplexity=5.0)
    inputs = {"model": Folder(tmp_path / "model"), "table": table}
    layers = inspect_layers.NODE.run(ctx, inputs, params)["layers"]
    (scan,) = layers.scans
    assert scan["shape"] == [8, 8] and sum(scan["class_rows"]) == table.data.num_rows
    assert len(scan["grains"][0]["positions"]) == 5
    assert len(scan["importances"]) == 64
    assert layers.features == PIXELS
    assert "4x4@" in layers.stages[0]["importances"][0]["feature"]
