"""Cross-validation: every row held out once, figures, interval, crash, bad input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.node_types import NodeContext
from engine.values import Folder, Report, Table
from nodes import compare, cross_validate, logistic_regression, mart
from nodes.cross_validate import NODE
from nodes.models.uncertainty import difference
from tests.expect import refused
from tests.nodes.conftest import MODELS, make_context


def saved(ctx: NodeContext, folder: Path, table: Table, kind: str = "mart") -> Folder:
    node, params = MODELS[kind]
    folder.mkdir()
    node.run(ctx, {"table": table}, node.params(**params))["model"].save(folder)
    return Folder(folder)


def validated(ctx: NodeContext, model: Folder, table: Table, **params: Any) -> Report:
    report = NODE.run(ctx, {"model": model, "table": table}, NODE.params(**params))["report"]
    assert isinstance(report, Report)
    return report


@pytest.fixture
def customers() -> Table:
    """200 customers of 5 rows with the same columns: only rows of others are a fair test."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(200), 5)
    column = np.repeat(rng.random(200), 5)
    labels = np.repeat(rng.integers(0, 2, 200), 5)
    data = pa.table(
        {
            "who": who,
            "x": column,
            "day": np.tile(np.arange(5), 200) * 200 + who,
            "y": pa.array(np.where(labels, "yes", "no")).dictionary_encode(),
        }
    )
    return Table(data, "y", {"who": "group", "day": "id"})


@pytest.mark.parametrize("kind", MODELS)
def test_any_model_is_validated(ctx, digits, tmp_path, kind):
    table = digits.with_data(digits.data.slice(0, 400))
    report = validated(ctx, saved(ctx, tmp_path / "m", table, kind), table, folds=3)
    assert report.kind == "evaluation"
    assert len(report.data["folds"]) == 3
    assert sum(row["rows"] for row in report.data["folds"]) == 400
    accuracies = [row["accuracy"] for row in report.data["folds"]]
    assert report.headline["accuracy"] == pytest.approx(np.mean(accuracies))
    assert np.sum(report.data["confusion"]["counts"]) == 400
    low, high = report.data["intervals"]["accuracy"]
    assert low < report.headline["accuracy"] < high
    assert report.headline["accuracy"] > 0.6


def test_a_fold_is_what_a_separate_fit_on_the_other_rows_finds(ctx, digits, tmp_path):
    table = digits.with_data(digits.data.slice(0, 300))
    model = saved(ctx, tmp_path / "m", table)
    report = validated(ctx, model, table, folds=3, seed=4)
    _, y, _ = cross_validate.labelled(table, ctx.log)
    folds = cross_validate._folds(table, y, NODE.params(folds=3, seed=4), ctx)
    params = mart.NODE.params(**MODELS["mart"][1])
    for fold, row in zip(folds, report.data["folds"], strict=True):
        part = table.with_data(table.data.take(fold.train))
        trained = mart.NODE.run(ctx, {"table": part}, params)["model"]
        held_out = table.with_data(table.data.take(fold.held_out))
        predicted = trained.predict_proba(held_out).argmax(axis=1)
        truth = [trained.classes.index(label) for label in held_out.labels().to_pylist()]
        assert row["accuracy"] == np.mean(predicted == truth)


def test_rows_of_a_group_are_held_out_together(ctx, customers, tmp_path):
    model = saved(ctx, tmp_path / "m", customers, "random-forest")
    honest = validated(ctx, model, customers)
    # The column says who the customer is: with rows of the same customer it is easy.
    other = make_context(_new(tmp_path / "other"))
    easy = validated(other, model, customers, folds_by="rows")
    assert easy.headline["accuracy"] > 0.9
    assert 0.35 < honest.headline["accuracy"] < 0.65
    # The folds hold out other rows, so neither figure is a better one.
    reports = {"reports": [easy, honest]}
    comparison = compare.NODE.run(ctx, reports, compare.NODE.params())["report"]
    assert "different rows" in comparison.data["note"]
    assert difference("accuracy", honest, easy) is None
    same = compare.NODE.run(ctx, {"reports": [easy, easy]}, compare.NODE.params())["report"]
    assert "note" not in same.data


def test_later_rows_are_held_out_in_their_order(ctx, customers):
    table = replace(customers, roles={"who": "id", "day": "time"})
    _, y, _ = cross_validate.labelled(table, ctx.log)
    folds = cross_validate._folds(table, y, NODE.params(folds=4, repeats=3), ctx)
    days = table.data.column("day").to_numpy()
    assert len(folds) == 4
    for fold in folds:
        assert days[fold.train].max() < days[fold.held_out].min()


def test_repeats_divide_the_rows_anew_and_narrow_the_interval(ctx, digits, tmp_path):
    table = digits.with_data(digits.data.slice(0, 300))
    model = saved(ctx, tmp_path / "m", table, "logistic-regression")
    once = validated(ctx, model, table, folds=3)
    other = make_context(_new(tmp_path / "other"))
    often = validated(other, model, table, folds=3, repeats=4)
    assert [row["repeat"] for row in often.data["folds"]] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
    assert len({row["log_loss"] for row in often.data["folds"]}) == 12
    assert often.data["folds"][:3] == once.data["folds"]
    widths = [
        np.diff(report.data["intervals"]["accuracy"]).item() / sd
        for report in (once, often)
        if (sd := np.std([row["accuracy"] for row in report.data["folds"]], ddof=1))
    ]
    assert widths[1] < widths[0]


def test_a_fold_that_was_finished_before_a_crash_is_not_trained_again(
    tmp_path, digits, monkeypatch
):
    ctx = make_context(tmp_path)
    table = digits.with_data(digits.data.slice(0, 300))
    model = saved(ctx, tmp_path / "m", table, "logistic-regression")
    whole = validated(make_context(_new(tmp_path / "other")), model, table, folds=4)
    fits: list[int] = []
    fit = logistic_regression.NODE.run

    def counted(*arguments: Any) -> Any:
        fits.append(1)
        if len(fits) == 3:
            raise MemoryError
        return fit(*arguments)

    node = replace(logistic_regression.NODE, run=counted)
    monkeypatch.setattr(logistic_regression, "NODE", node)
    with pytest.raises(MemoryError):
        validated(ctx, model, table, folds=4)
    before = len(fits)
    states: list[str] = []
    again = replace(ctx, on_subtask=lambda path, state, seconds, worker: states.append(state))
    assert validated(again, model, table, folds=4) == whole
    assert states.count("reused") >= 2
    assert len(fits) - before == 4 - states.count("reused")


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("rows", "params", "naming"),
    [
        (300, {"folds_by": "group"}, ["group"]),
        (12, {"folds": 20}, ["20 rows", "only 2"]),
    ],
)
def test_rows_that_cannot_be_divided_are_refused(ctx, digits, tmp_path, rows, params, naming):
    model = saved(ctx, tmp_path / "m", digits.with_data(digits.data.slice(0, 100)))
    table = digits.with_data(digits.data.slice(0, rows))
    with refused(field="folds_by" if "folds_by" in params else "folds", naming=naming):
        validated(ctx, model, table, **params)


@pytest.mark.parametrize(
    ("role", "day", "naming"),
    [
        ("group", pa.array([7] * 1_000), ["same group", "'day'"]),
        ("time", pa.array([7] * 1_000), ["'day'", "different values"]),
        ("time", pa.array([None, *range(999)]), ["'day'", "missing in 1 rows"]),
    ],
)
def test_a_group_or_time_that_divides_nothing_is_named(ctx, customers, role, day, naming):
    data = customers.data.set_column(2, "day", day)
    table = replace(customers, data=data, roles={"who": "id", "day": role})
    _, y, _ = cross_validate.labelled(table, ctx.log)
    with refused(field="folds_by", naming=naming):
        cross_validate._folds(table, y, NODE.params(folds_by=role), ctx)


def test_a_class_with_one_row_is_named(ctx, customers, tmp_path):
    labels = customers.labels().to_pylist()
    labels[0] = "rare"
    rare = pa.array(labels).dictionary_encode()
    table = customers.with_data(customers.data.set_column(3, "y", rare))
    model = saved(ctx, tmp_path / "m", table, "logistic-regression")
    with refused(field="folds", naming=["'rare'", "fewer folds"]):
        validated(ctx, model, table, folds_by="rows")
