"""How far scored rows differ from training rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest
from scipy.stats import ks_2samp

from engine.values import Table
from nodes.data.formats import MISSING_TEXTS
from nodes.models.drift import (
    SUMMARY,
    ColumnDrift,
    DriftCounter,
    DriftReport,
    read_summary,
    sampled,
    summarise,
)
from nodes.models.encoder import TableEncoder
from nodes.models.model import FittedModel, load_model
from nodes.models.new_data import InputChecker
from nodes.models.scoring import score_guarded
from tests.expect import refused
from tests.nodes.models.conftest import Kept, make_table


def measured(training: dict[str, Any], scored: dict[str, Any]) -> dict[str, ColumnDrift]:
    """The drift of each column, as a file with these values has it."""
    table = pa.table(training)
    encoder = TableEncoder.fit(Table(table), "codes")
    counter = DriftCounter(encoder, summarise(table, encoder), MISSING_TEXTS)
    written = pa.table(scored)
    # In two blocks, as a file is read.
    for block in (written.slice(0, 100), written.slice(100)):
        counter.add(block, InputChecker(encoder).table(block))
    return {column.name: column for column in counter.report().columns}


def normal(rows: int, shift: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, rows)


def test_rows_of_the_same_distribution_have_no_drift():
    [drift] = measured({"x": normal(5000)}, {"x": normal(4000, seed=1)}).values()
    assert drift.level == "none" and drift.psi < 0.02 and drift.ks is not None and drift.ks < 0.05


def test_ks_is_that_of_scipy_up_to_the_width_of_a_bin():
    before, now = normal(5000), normal(3000, shift=0.5, seed=1)
    [drift] = measured({"x": before}, {"x": now}).values()
    assert drift.ks == pytest.approx(ks_2samp(before, now).statistic, abs=0.02)
    assert drift.level != "none"


def test_psi_is_that_of_its_formula():
    before = np.repeat(np.arange(10), 100)
    now = np.repeat(np.arange(10), [*[50] * 5, *[150] * 5])
    [drift] = measured({"x": before}, {"x": now}).values()
    assert drift.psi == pytest.approx(5 * 0.05 * np.log(1.5 / 0.5), rel=1e-6)


@pytest.mark.parametrize("value", [-9.0, 9.0])
def test_values_outside_of_the_training_range_are_large_drift(value: float):
    [drift] = measured({"x": normal(2000)}, {"x": np.full(300, value)}).values()
    assert drift.level == "large" and drift.ks == pytest.approx(1.0)


def test_a_constant_that_changes_is_large_drift():
    for value in (4, 6):
        [drift] = measured({"x": [5] * 500}, {"x": [value] * 500}).values()
        assert drift.ks == pytest.approx(1.0), value


def test_unseen_categories_are_counted_apart_from_missing_values():
    training = {"job": ["cook", "nurse"] * 500}
    scored = {"job": ["cook"] * 400 + ["pilot"] * 300 + ["NA"] * 200 + [None] * 100}
    [drift] = measured(training, scored).values()
    assert (drift.unseen, drift.missing, drift.missing_in_training) == (0.3, 0.3, 0.0)
    assert drift.ks is None and drift.level == "large"


def test_a_column_that_is_missing_in_many_rows_drifts():
    gaps = pa.array(normal(1000), mask=np.arange(1000) % 2 == 0)
    [drift] = measured({"x": normal(5000)}, {"x": gaps}).values()
    assert drift.level == "large" and drift.missing == 0.5 and drift.unseen is None


def test_few_rows_are_not_called_drift_by_chance():
    calls = []
    for seed in range(200):
        [drift] = measured({"x": normal(2000)}, {"x": normal(20, seed=seed + 1)}).values()
        calls.append(drift.level != "none")
    assert sum(calls) <= 4


def test_the_columns_with_the_most_drift_come_first_and_are_named():
    training = {"a": normal(3000), "b": normal(3000, seed=1), "c": normal(3000, seed=2)}
    scored = {"a": normal(900, seed=5), "b": normal(900, 2, seed=6), "c": normal(900, 0.45, seed=7)}
    drifts = measured(training, scored)
    assert list(drifts) == ["b", "c", "a"]
    report = DriftReport(900, 3000, tuple(drifts.values()))
    assert report.at("large") == ["b"] and report.at("some") == ["c"]
    assert "'b'" in report.words and "'c'" in report.words and "'a'" not in report.words
    assert DriftReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_only_some_rows_of_a_large_table_are_counted():
    data = pa.table({"x": np.arange(200_000)})
    rows = sampled(data)
    assert rows.num_rows == 50_000
    assert (rows.column("x")[0].as_py(), rows.column("x")[-1].as_py()) == (0, 199_999)
    assert sampled(data.slice(0, 10)).num_rows == 10


class TestSavedModels:
    def test_the_summary_is_saved_without_rows(self, kept: Kept, model: FittedModel, table: Table):
        summary = model.summary
        assert summary is not None and summary.rows == 600
        assert list(summary.columns) == model.encoder.names
        for name, column in summary.columns.items():
            assert sum(column.counts) + column.missing == 600
            assert column.missing == table.data.column(name).null_count
        assert (kept.folder("mart") / SUMMARY).stat().st_size < 10_000

    def test_scoring_measures_drift_block_by_block(self, kept: Kept, tmp_path: Path):
        data = make_table(900, seed=3).data
        grown = pc.multiply(data.column("amount"), 4.0)
        data = data.set_column(data.column_names.index("amount"), "amount", grown)
        new = pa.chunked_array([["black"] * 300 + [None] * 600], pa.string())
        data = data.set_column(data.column_names.index("colour"), "colour", new)
        source = tmp_path / "new.csv"
        pa_csv.write_csv(data, source)
        scored = score_guarded(kept.folder("mart"), source, tmp_path / "out.csv", drift=True)
        assert scored.drift is not None
        report = DriftReport.from_json(scored.drift)
        assert (report.rows, report.training_rows) == (900, 600)
        assert set(report.at("large")) == {"amount", "colour"} and not report.at("some")
        colour = next(column for column in report.columns if column.name == "colour")
        assert colour.unseen == pytest.approx(1 / 3) and colour.missing == pytest.approx(2 / 3)

    def test_without_a_summary_drift_is_refused_before_anything_is_written(
        self, model: FittedModel, table: Table, tmp_path: Path
    ):
        folder = tmp_path / "old"
        folder.mkdir()
        replace(model, summary=None).save(folder)
        assert load_model(folder).summary is None
        pa_csv.write_csv(table.data, tmp_path / "t.csv")
        with refused(naming="summary"):
            score_guarded(folder, tmp_path / "t.csv", tmp_path / "o.csv", drift=True)
        assert not (tmp_path / "o.csv").exists()

    @pytest.mark.parametrize(
        "change",
        [
            {"format": "other"},
            {"version": 2},
            {"rows": -1},
            {"rows": 1.5},
            {"columns": {}},
            {"columns": None},
            {"edges": [1.0, 1.0]},
            {"edges": [float("inf")]},
            {"edges": ["a"]},
            {"counts": [1]},
            {"missing": True},
        ],
    )
    def test_a_summary_that_cannot_be_right_is_refused(self, tmp_path: Path, change: dict):
        table = pa.table({"x": [1.0, 2.0, 3.0]})
        encoder = TableEncoder.fit(Table(table), "codes")
        summarise(table, encoder).save(tmp_path)
        assert read_summary(tmp_path, encoder) is not None
        data = json.loads((tmp_path / SUMMARY).read_text())
        part = data["columns"]["x"] if change.keys() & data["columns"]["x"].keys() else data
        part.update(change)
        (tmp_path / SUMMARY).write_text(json.dumps(data))
        with pytest.raises((ValueError, KeyError, TypeError)):
            read_summary(tmp_path, encoder)
