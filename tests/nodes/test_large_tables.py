"""Nodes do the same with a table that is large for their memory limit as with any other.

Here every table and every array is large, and blocks have a few rows.
"""

from __future__ import annotations

import datetime
import mmap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from deepforest import large_arrays
from engine import scratch
from engine.errors import BadInput
from engine.node_types import NodeContext, NodeType
from engine.values import Folder, Table
from nodes import deep_forest, evaluate, filter_rows, load_data, predict, sample, split
from nodes.models import encoder
from nodes.models.training import prepare
from tests.expect import refused

from .conftest import MODELS

ROWS = 1_500


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "BLOCK_BYTES", 1 << 15)
    monkeypatch.setattr(large_arrays, "BLOCK_BYTES", 1 << 14)
    monkeypatch.setattr(encoder, "ROWS_AT_ONCE", 100)


@pytest.fixture
def large(ctx: NodeContext) -> NodeContext:
    return replace(ctx, large=1)


def rows(count: int, seed: int) -> pa.Table:
    """Return columns of every kind, most with gaps, and a target that a few rows lack."""
    rng = np.random.default_rng(seed)
    number, gaps = rng.normal(size=count), rng.random(count) < 0.1
    label = np.where(number + rng.normal(size=count) > 0.5, "yes", "no")
    start = datetime.datetime(2026, 1, 1)
    times = [start + datetime.timedelta(seconds=seed * count + i) for i in range(count)]
    levels = pa.array([f"level {seed % 3} {code}" for code in rng.integers(0, 4, count)])
    texts = [f"{seed}/{i}" for i in range(count)]
    return pa.table(
        {
            "number": pa.array(number),
            "nan": pa.array(np.where(gaps, np.nan, rng.normal(size=count))),
            "gaps": pa.array(rng.normal(size=count), mask=gaps),
            "whole": pa.array(rng.integers(-9, 9, count), mask=gaps),
            "level": levels.dictionary_encode(),
            "text": pa.array(texts),
            "few": pa.array(np.where(gaps, "a", "b")),
            "flag": pa.array(number > 1),
            "time": pa.array(times),
            "weight": pa.array(rng.integers(0, 4, count).astype(float)),
            "label": pa.array(label, mask=rng.random(count) < 0.01),
        }
    )


def write(workspace: Path, form: str) -> str:
    """Write the rows in three parts, each with its own categories; return the source."""
    data = workspace / "data"
    parts = [rows(ROWS // 3, seed) for seed in range(3)]
    if form == "folder":
        (data / "folder").mkdir()
        for number, part in enumerate(parts):
            pq.write_table(part, data / "folder" / f"{number}.parquet")
        return "folder"
    whole = pa.concat_tables(parts)
    if form == "parquet":
        pq.write_table(whole, data / "rows.parquet", row_group_size=400)
        return "rows.parquet"
    with pa.ipc.new_stream(str(data / "rows.arrow"), whole.schema) as writer:
        writer.write_table(whole)
    return "rows.arrow"


def run(node: NodeType, ctx: NodeContext, inputs: dict[str, Any], **params: Any) -> dict[str, Any]:
    return node.run(ctx, inputs, node.params(**params))


def load(ctx: NodeContext, source: str, **params: Any) -> Table:
    roles = {"text": "id", "weight": "weight"}
    settings = {"target": "label", "missing_target": "drop", "roles": roles} | params
    table = run(load_data.NODE, ctx, {}, source=source, **settings)["table"]
    assert isinstance(table, Table)
    return table


def stored(value: Any, folder: Path) -> dict[str, bytes]:
    """Return the files of a value as the store writes them."""
    folder.mkdir()
    value.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check_same(ctx: NodeContext, small: Table, large: Table, name: str) -> None:
    """Check that two tables are stored as the same rows, in the same blocks."""
    loaded = []
    for number, table in enumerate((small, large)):
        folder = ctx.files.workspace / f"{name}-{number}"
        stored(table, folder)
        loaded.append(Table.load(folder))
    assert loaded[0].columns == loaded[1].columns
    assert loaded[0].data.equals(loaded[1].data)
    chunks = [table.data.column(0).num_chunks for table in loaded]
    assert chunks[0] == chunks[1]


@pytest.mark.parametrize("form", ["parquet", "folder", "arrow"])
def test_a_large_file_is_loaded_like_a_small_one(
    ctx: NodeContext, large: NodeContext, form: str
) -> None:
    source = write(ctx.files.workspace, form)
    check_same(ctx, load(ctx, source), load(large, source), "loaded")
    assert list(large.checkpoint.iterdir()) == []


def test_the_columns_of_a_large_file_take_no_memory(large: NodeContext) -> None:
    source = write(large.files.workspace, "parquet")
    before = pa.total_allocated_bytes()
    table = load(large, source)
    assert pa.total_allocated_bytes() - before < table.data.nbytes / 10


def test_a_large_file_is_checked_like_a_small_one(ctx: NodeContext, large: NodeContext) -> None:
    source = write(ctx.files.workspace, "folder")
    for context in (ctx, large):
        with refused(BadInput, naming=["'label'", "missing"]):
            load(context, source, missing_target="error")
        with refused(BadInput, naming=["'text'", "different"]):
            load(context, source, target="text", roles={})


@pytest.mark.parametrize(
    ("node", "params"),
    [
        (split.NODE, {"validation_share": 0.2}),
        (split.NODE, {"time_column": "time"}),
        (split.NODE, {"group_column": "level"}),
        (sample.NODE, {"share": 0.3}),
        (filter_rows.NODE, {"conditions": [{"column": "nan", "test": "missing"}]}),
    ],
    ids=["rows", "time", "group", "sample", "filter"],
)
def test_rows_of_a_large_table_are_chosen_like_those_of_a_small_one(
    ctx: NodeContext, large: NodeContext, node: NodeType, params: dict[str, Any]
) -> None:
    table = load(ctx, write(ctx.files.workspace, "parquet"))
    found = [run(node, each, {"table": table}, **params) for each in (ctx, large)]
    for port, small in found[0].items():
        check_same(ctx, small, found[1][port], port)


CASCADES: dict[str, dict[str, Any]] = {
    "boosting": {"learners": [{"kind": "mart", "count": 2, "trees": 5}], "folds": 3},
    "out of bag": {"class_vectors": "oob", "select_features": 4},
    "per layer": {"resampling": "per_layer", "class_weights": "balanced"},
    "stack": {"preset": "mddf_st"},
    "screening": {"preset": "gcforest_cs"},
}


def layers(name: str) -> dict[str, Any]:
    """Return the settings of a small cascade."""
    return MODELS["deep-forest"][1] | CASCADES[name]


def train(ctx: NodeContext, node: NodeType, params: dict[str, Any], table: Table) -> Any:
    inputs = {"table": table, "validation": table.with_data(table.data.slice(0, 400))}
    return run(node, ctx, inputs, **params)["model"]


@pytest.mark.parametrize("name", CASCADES)
def test_a_cascade_of_large_arrays_has_the_same_bytes(
    ctx: NodeContext, large: NodeContext, name: str
) -> None:
    check_model(ctx, large, deep_forest.NODE, layers(name))


@pytest.mark.parametrize("kind", ["mart", "random-forest", "extra-trees", "logistic-regression"])
def test_a_model_of_large_arrays_has_the_same_bytes(
    ctx: NodeContext, large: NodeContext, kind: str
) -> None:
    check_model(ctx, large, *MODELS[kind])


def check_model(
    ctx: NodeContext, large: NodeContext, node: NodeType, params: dict[str, Any]
) -> None:
    workspace = ctx.files.workspace
    (workspace / "other").mkdir()
    source = write(workspace, "parquet")
    tables = [load(each, source) for each in (ctx, large)]
    # Each has its own checkpoints: a fit that the other has finished would not be repeated.
    contexts = [ctx, replace(large, checkpoint=workspace / "other")]
    models = [
        train(context, node, params, table) for context, table in zip(contexts, tables, strict=True)
    ]
    files = [stored(model, workspace / f"model-{i}") for i, model in enumerate(models)]
    assert files[0] == files[1]


def test_the_matrix_of_a_large_table_is_mapped(large: NodeContext) -> None:
    table = load(large, write(large.files.workspace, "parquet"))
    with large_arrays.large_arrays_in(large.checkpoint, large.large):
        found = prepare(table, deep_forest.KIND.encoding, scratch=large.scratch)
    memory: Any = found.matrix.base
    assert isinstance(memory, mmap.mmap)
    np.testing.assert_array_equal(found.matrix, prepare(table, deep_forest.KIND.encoding).matrix)


def test_a_large_table_is_predicted_and_evaluated_like_a_small_one(
    ctx: NodeContext, large: NodeContext
) -> None:
    table = load(ctx, write(ctx.files.workspace, "parquet"))
    model = train(ctx, *MODELS["mart"], table)
    model.save(_new(ctx.files.workspace / "model"))
    inputs = {"model": Folder(ctx.files.workspace / "model"), "table": table}
    reports = []
    for number, context in enumerate((ctx, large)):
        predictions = run(predict.NODE, context, inputs)["predictions"]
        report = run(evaluate.NODE, context, {"predictions": predictions})["report"]
        reports.append(stored(report, ctx.files.workspace / f"report-{number}"))
    assert reports[0] == reports[1]


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
