"""Saving tables and predictions: whole files or none, in the exports folder and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.errors import SylvaError
from engine.node_types import NodeContext
from engine.values import Predictions, Report, Table
from nodes.data.tables import load
from nodes.load_data import LoadDataParams
from nodes.save_table import NODE, SaveTableParams
from tests.expect import refused


def save(ctx: NodeContext, value: Any, **params: Any) -> Report:
    report: Report = NODE.run(ctx, {"table": value}, SaveTableParams(**params))["report"]
    return report


def load_again(ctx: NodeContext, name: str, **params: Any) -> Table:
    (ctx.files.exports / name).replace(ctx.files.data / name)
    return load(LoadDataParams(source=name, **params), ctx.files)


@pytest.mark.parametrize("file_format", ["csv", "parquet", "arrow"])
def test_a_saved_table_loads_as_it_was(ctx, fraud, file_format):
    report = save(ctx, fraud, name="payments", format=file_format)
    assert report.headline["File"] == f"exports/payments.{file_format}"
    assert (report.headline["Rows"], report.headline["Columns"]) == (4_000, 25)
    again = load_again(ctx, f"payments.{file_format}", target="fraud", roles=dict(fraud.roles))
    assert again.data.equals(fraud.data)


def test_predictions_are_saved_as_people_read_them(ctx):
    predictions = Predictions(
        np.array([[0.9, 0.1], [0.2, 0.8]]),
        ["no", "yes"],
        "Forest",
        pa.array(["no", "no"]),
        pa.table({"id": [7, 8]}),
    )
    save(ctx, predictions, name="scores")
    assert (ctx.files.exports / "scores.csv").read_text().splitlines() == [
        '"id","prediction","p(no)","p(yes)","truth"',
        '7,"no",0.9,0.1,"no"',
        '8,"yes",0.2,0.8,"no"',
    ]


def test_an_ending_that_was_given_is_not_added_again(ctx, digits):
    save(ctx, digits, name="digits.csv")
    assert [path.name for path in ctx.files.exports.iterdir()] == ["digits.csv"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(ctx, digits, monkeypatch):
    save(ctx, digits, name="t")
    before = (ctx.files.exports / "t.csv").read_bytes()

    def fail(target: str, file_format: str, schema: pa.Schema) -> None:
        Path(target).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nodes.save_table.open_writer", fail)
    with refused(SylvaError, naming=["t.csv", "No space left on device"]):
        save(ctx, digits, name="t")
    assert [path.name for path in ctx.files.exports.iterdir()] == ["t.csv"]
    assert (ctx.files.exports / "t.csv").read_bytes() == before


def test_a_link_is_replaced_and_not_written_through(ctx, digits, tmp_path):
    outside = tmp_path / "outside.csv"
    outside.write_text("mine")
    ctx.files.exports.mkdir()
    (ctx.files.exports / "t.csv").symlink_to(outside)
    save(ctx, digits, name="t")
    assert outside.read_text() == "mine"
    assert not (ctx.files.exports / "t.csv").is_symlink()


@pytest.mark.parametrize(
    "name", ["", "../t", "a/b", "a\\b", ".hidden", "t.", "t ", "a\nb", "a\0b", "t\n", "x" * 101]
)
def test_names_that_are_no_plain_file_names_are_refused(name):
    with pytest.raises(ValidationError):
        SaveTableParams(name=name)


@pytest.mark.parametrize("name", ["t", "my table-2.v1", "A_", "0"])
def test_plain_names_are_taken(name):
    assert SaveTableParams(name=name).name == name
