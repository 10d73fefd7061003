"""A table as an estimator needs it: weights of rows and of classes stay apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deepforest import preset
from engine.node_types import NodeContext
from engine.values import Table
from nodes import deep_forest, steps
from nodes.models.kinds import Encoding
from nodes.models.training import TrainingRows, prepare
from tests.expect import refused

LEARNERS = [{"kind": "random_forest", "trees": 8, "max_depth": 4}]


def rare_class(rows: int = 400, **more: pa.Array) -> Table:
    """Two classes that overlap, one of them rare; ``more`` are weight columns."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.15
    columns = {
        "number": pa.array(y + rng.normal(size=rows)),
        "noise": pa.array(rng.normal(size=rows)),
        "class": pa.array(np.where(y, "rare", "frequent")),
    }
    return Table(pa.table(columns | more), "class", dict.fromkeys(more, "weight"))


def row_weights(rows: int = 400) -> pa.Array:
    return pa.array(np.random.default_rng(1).integers(1, 5, rows).astype(float))


def prepared(table: Table, weights: Any = "none") -> TrainingRows:
    return prepare(table, Encoding("codes", "float64"), class_weights=weights)


def grow(ctx: NodeContext, table: Table, weights: Any) -> Any:
    """The cascade that the node grows."""
    params = deep_forest.NODE.params(
        learners=LEARNERS, folds=3, max_layers=2, patience=2, metric="f1", class_weights=weights
    )
    return deep_forest.NODE.run(ctx, {"table": table}, params)["model"].estimator


def grow_directly(rows: TrainingRows, sample_weight: Any, class_weight: Any) -> Any:
    """The cascade that the library grows."""
    cascade = preset(
        "default",
        learners=[{"kind": "random_forest", "n_estimators": 8, "max_depth": 4}],
        cv=3,
        max_layers=2,
        patience=2,
        scoring="f1",
        class_weight=class_weight,
        categorical_features=rows.categorical,
        random_state=0,
    )
    return cascade.fit(rows.matrix, rows.y, sample_weight=sample_weight)


def scores(cascade: Any) -> list[float]:
    return [record.score for record in cascade.layer_records_]


@pytest.mark.parametrize("weights", ["balanced", {"rare": 5.0}])
def test_product_of_row_and_class_weights_is_one_on_average(weights: Any) -> None:
    rows = prepared(rare_class(w=row_weights()), weights)
    assert rows.row_weights is not None
    assert rows.weights is not None
    assert rows.class_weight is not None
    assert rows.row_weights.mean() == pytest.approx(1)
    assert rows.weights.mean() == pytest.approx(1)
    by_row = np.array([rows.class_weight[code] for code in rows.y])
    np.testing.assert_allclose(rows.row_weights * by_row, rows.weights)


def test_equal_weights_are_none() -> None:
    rows = prepared(rare_class(w=pa.array([3.0] * 400)), {"rare": 2.0, "frequent": 2.0})
    assert (rows.row_weights, rows.class_weight, rows.weights) == (None, None, None)
    assert rows.class_weights == {"rare": 2.0, "frequent": 2.0}


def test_balanced_classes_have_the_same_total_of_row_weights() -> None:
    rows = prepared(rare_class(w=row_weights()), "balanced")
    totals = np.bincount(rows.y, rows.weights)
    assert totals[0] == pytest.approx(totals[1])


def test_class_weights_do_not_enter_the_scores_of_a_deep_forest(ctx: NodeContext) -> None:
    table = rare_class()
    rows = prepared(table, "balanced")
    of_node = scores(grow(ctx, table, "balanced"))
    assert of_node == pytest.approx(scores(grow_directly(rows, None, "balanced")))
    weighted = scores(grow_directly(rows, rows.weights, None))
    # F1 of a sample in which both classes are as frequent is much higher.
    assert min(weighted) > max(of_node) + 0.05


def test_row_weights_enter_the_scores_of_a_deep_forest(ctx: NodeContext) -> None:
    table = rare_class(w=row_weights())
    rows = prepared(table)
    of_node = scores(grow(ctx, table, "none"))
    assert of_node == pytest.approx(scores(grow_directly(rows, rows.row_weights, None)))
    assert of_node != pytest.approx(scores(grow(ctx, rare_class(), "none")))


@pytest.mark.filterwarnings("ignore:.* is now named:FutureWarning")
def test_script_of_an_earlier_version_still_trains_with_class_weights() -> None:
    # These names and calls were in exported scripts.
    rows = steps.training_rows(rare_class(), class_weights="balanced")
    cascade = preset("default", learners=LEARNERS, folds=3, max_layers=1, random_state=0)
    cascade.fit(rows.matrix, rows.codes, sample_weight=rows.weights)
    plain = preset("default", learners=LEARNERS, folds=3, max_layers=1, random_state=0)
    plain.fit(rows.matrix, rows.codes)
    rare = rows.classes.index("rare")
    weighted = cascade.predict_proba(rows.matrix)[:, rare].mean()
    assert weighted > plain.predict_proba(rows.matrix)[:, rare].mean() + 0.1
    assert steps.model(rows, cascade).class_weights == rows.class_weights


# Groups and times


def with_roles(**roles: str) -> Table:
    """Twelve rows of three customers and a device that is not always known."""
    columns = {
        "x": pa.array(np.arange(12.0)),
        "customer": pa.array(["007", "7", "b"] * 4),
        "device": pa.array(["a", None, None, "a"] * 3).dictionary_encode(),
        "at": pa.array(np.arange(12)[::-1] * 10**6, pa.timestamp("us")),
        "day": pa.array([1.0, None] * 6),
        "class": pa.array(["no", "yes"] * 6),
    }
    return Table(pa.table(columns), "class", roles)  # type: ignore[arg-type]


def folds(table: Table, folds_by: str, log: list[str] | None = None) -> TrainingRows:
    said = [].append if log is None else log.append
    return prepare(table, Encoding("codes", "float64"), folds_by=folds_by, log=said)


@pytest.mark.parametrize("folds_by", ["auto", "group"])
def test_rows_of_a_group_have_the_same_number(folds_by: str) -> None:
    rows = folds(with_roles(customer="group"), folds_by)
    assert rows.groups is not None
    assert len(set(rows.groups)) == 3
    np.testing.assert_array_equal(rows.groups[:3], rows.groups[3:6])
    assert "customer" not in rows.encoder.names
    assert rows.times is None


def test_row_without_a_group_is_a_group_of_its_own() -> None:
    rows = folds(with_roles(device="group"), "group")
    assert rows.groups is not None
    assert len(set(rows.groups)) == 1 + 6
    assert rows.groups[0] == rows.groups[3]


@pytest.mark.parametrize("folds_by", ["auto", "time"])
def test_times_have_the_order_of_the_column(folds_by: str) -> None:
    rows = folds(with_roles(at="time"), folds_by)
    assert rows.times is not None
    np.testing.assert_array_equal(np.argsort(rows.times), np.arange(12)[::-1])
    assert "at" not in rows.encoder.names
    assert rows.groups is None


def test_groups_and_times_are_only_there_when_asked_for() -> None:
    both = with_roles(customer="group", at="time")
    rows = folds(both, "rows")
    assert (rows.groups, rows.times) == (None, None)
    assert folds(both, "group").groups is not None
    assert folds(both, "time").times is not None
    with refused(field="folds_by", naming=["'customer'", "'at'", "Folds by"]):
        folds(both, "auto")


@pytest.mark.parametrize("folds_by", ["group", "time"])
def test_role_that_no_column_has_is_named(folds_by: str) -> None:
    with refused(field="folds_by", naming=f"role {folds_by}"):
        folds(with_roles(), folds_by)


def test_missing_time_is_refused_where_folds_must_be_by_time() -> None:
    table = with_roles(day="time")
    with refused(field="folds_by", naming=["'day'", "6 rows"]):
        folds(table, "time")
    # The role alone only says that the column is copied to predictions: pipelines of earlier
    # versions must still run.
    said: list[str] = []
    assert folds(table, "auto", said).times is None
    assert any("'day'" in line and "single rows" in line for line in said)


def test_time_with_few_values_is_refused_where_folds_must_be_by_time() -> None:
    table = with_roles(at="time")
    days = pa.array([1.0, 2.0] * 6)
    table = table.with_data(table.data.set_column(3, "at", days))
    with refused(field="folds_by", naming=["'at'", "different values"]):
        folds(table, "time")
    assert folds(table, "auto").times is None


def test_a_single_group_is_refused() -> None:
    table = with_roles(customer="group")
    table = table.with_data(table.data.set_column(1, "customer", pa.array(["a"] * 12)))
    with refused(field="folds_by", naming="'customer'"):
        folds(table, "auto")


# Validation rows


def validated(table: Table, validation: Table, log: list[str] | None = None) -> TrainingRows:
    said = [].append if log is None else log.append
    return prepare(table, Encoding("codes", "float64"), validation=validation, log=said)


def changed(table: Table, name: str, values: list[Any]) -> Table:
    position = table.data.column_names.index(name)
    return table.with_data(table.data.set_column(position, name, pa.array(values)))


def test_validation_rows_are_encoded_like_training_rows() -> None:
    train, later = with_roles(), with_roles()
    # A category that training has not seen, in another order of columns.
    later = changed(later, "device", ["new"] * 6 + ["a"] * 6)
    later = later.with_data(later.data.select(later.data.column_names[::-1]))
    rows = validated(train, later)
    assert rows.validation is not None
    matrix, y = rows.validation
    np.testing.assert_array_equal(y, rows.y)
    device = rows.encoder.names.index("device")
    assert np.isnan(matrix[:6, device]).all()
    np.testing.assert_array_equal(matrix[6:, device], rows.matrix[0, device])


def test_weights_of_validation_rows_are_the_third_part() -> None:
    weights = row_weights(400)
    rows = validated(rare_class(), rare_class(w=weights))
    assert rows.validation is not None
    np.testing.assert_allclose(rows.validation[2], weights.to_numpy() / weights.to_numpy().mean())
    assert rows.weights is None


def test_validation_rows_without_a_class_are_left_out() -> None:
    said: list[str] = []
    later = changed(with_roles(), "class", [None, "yes", "no"] * 4)
    rows = validated(with_roles(), later, said)
    assert rows.validation is not None
    assert len(rows.validation[1]) == 8
    assert any(line.startswith("Validation rows: 4 of 12 rows") for line in said)


BAD_VALIDATION = [
    (lambda table: Table(table.data), ["no target"]),
    (lambda table: changed(table, "class", ["no", "perhaps"] * 6), ["'perhaps'", "'no', 'yes'"]),
    (lambda table: changed(table, "class", ["no"] * 12), ["only 'no'"]),
    (lambda table: changed(table, "class", [None] * 12), ["no values"]),
    (lambda table: table.with_data(table.data.drop_columns("x")), ["'x'"]),
    (lambda table: table.with_data(table.data.slice(0, 0)), ["Share of validation rows"]),
]


@pytest.mark.parametrize(("change", "naming"), BAD_VALIDATION)
def test_validation_rows_that_cannot_be_scored_are_named(change: Any, naming: list[str]) -> None:
    with refused(naming=["validation rows", *naming]):
        validated(with_roles(), change(with_roles()))
