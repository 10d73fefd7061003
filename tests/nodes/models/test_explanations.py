"""Every kind of model says why a row got its prediction, or that it cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from engine.errors import BadInput
from engine.values import Table, ThresholdDecision
from nodes.models.explanations import MOST_ROWS, column_importance, explain_row, explain_rows
from nodes.models.fast_predict import with_fast_predict
from nodes.models.model import FittedModel, load_model
from nodes.models.scoring import score_file
from tests.expect import refused
from tests.nodes.conftest import MODELS, make_context
from tests.nodes.models.conftest import DECIDING, make_table

EXPLAINED = [name for name in MODELS if name != "mlp"]


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that trains a model of a kind on 2 or 3 classes, and loads it."""

    @cache
    def trained(name: str, n_classes: int = 2) -> FittedModel:
        folder = tmp_path_factory.mktemp("model")
        node_type, params = MODELS[name]
        context = make_context(tmp_path_factory.mktemp("work"))
        inputs = {"table": classes_of(n_classes)}
        model = node_type.run(context, inputs, node_type.params(**params))["model"]
        model.save(folder)
        return load_model(folder)

    return trained


def classes_of(n_classes: int) -> Table:
    """Return a table of every kind of column with 2 or 3 classes."""
    table = make_table(300)
    if n_classes == 2:
        return table
    colours = table.data.column("colour").cast(pa.string()).fill_null("grey")
    more = np.where(np.array(colours) == "red", "maybe", np.array(table.data.column("class")))
    return table.with_data(
        table.data.set_column(table.data.schema.get_field_index("class"), "class", pa.array(more))
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", EXPLAINED)
def test_base_and_contributions_add_up_to_the_probabilities(
    train: Any, name: str, n_classes: int
) -> None:
    model, table = train(name, n_classes), make_table(60, seed=1)
    found = model.contributions(table)
    assert model.encoder.names == DECIDING
    assert found.shape == (60, len(DECIDING) + 1, n_classes)
    assert np.abs(found.sum(axis=1) - model.predict_proba(table)).max() < 1e-6
    sizes = dict(zip(DECIDING, np.abs(found[:, :-1, -1]).mean(axis=0), strict=True))
    assert sizes["amount"] > sizes["steady"], sizes


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_row_has_the_same_contributions_alone_and_in_a_batch(train: Any, name: str) -> None:
    model, table = train(name), make_table(20, seed=1)
    together = model.contributions(table, threads=2)
    alone = [model.contributions(table.with_data(table.data.slice(at, 1)))[0] for at in range(20)]
    assert np.allclose(together, alone, rtol=0, atol=1e-12)


def test_logistic_regression_compares_with_the_mean_row(train: Any) -> None:
    model, table = train("logistic-regression"), make_table(300)
    scores = model.contributions(table)
    # A row of means has no contributions, so that the base is the same for all rows.
    assert np.allclose(scores[:, -1], scores[0, -1])
    means = model.encoder.transform(table.data).mean(axis=0, keepdims=True)
    assert np.allclose(model.predict_matrix(means)[0], scores[0, -1])


def test_a_logistic_regression_of_an_earlier_version_is_explained(train: Any) -> None:
    model, table = train("logistic-regression"), make_table(20)
    means, model.estimator.means_ = model.estimator.means_, np.zeros(model.encoder.width)
    try:
        without = model.contributions(table)
    finally:
        model.estimator.means_ = means
    assert np.allclose(without.sum(axis=1), model.predict_proba(table))


def test_a_neural_network_is_refused(train: Any, tmp_path: Path) -> None:
    model, table = train("mlp"), make_table(5)
    with refused(BadInput, naming=["Neural network", "cannot be explained"]):
        model.contributions(table)
    pq.write_table(table.data, tmp_path / "t.parquet")
    with refused(BadInput, naming=["cannot be explained"]):
        score_file(model, tmp_path / "t.parquet", tmp_path / "o.parquet", explain=True)
    assert not (tmp_path / "o.parquet").exists()


def test_no_rows_have_no_contributions(train: Any) -> None:
    assert train("mart").contributions(make_table(0)).shape == (0, len(DECIDING) + 1, 2)


def test_of_two_classes_the_second_is_explained_and_of_more_the_predicted(train: Any) -> None:
    for n_classes in (2, 3):
        model, table = train("random-forest", n_classes), make_table(MOST_ROWS + 20, seed=1)
        matrix = model.encoder.transform(table.data, model.precision)
        probabilities = model.predict_matrix(matrix)
        explained = explain_rows(model, matrix, probabilities)
        wanted = [1] * len(matrix) if n_classes == 2 else probabilities.argmax(axis=1)
        assert np.array_equal(explained.explained, wanted)
        total = explained.base + explained.contributions.sum(axis=1)
        assert np.allclose(total, probabilities[np.arange(len(matrix)), explained.explained])


def test_the_positive_class_of_the_threshold_is_explained(train: Any) -> None:
    model, table = train("random-forest", 2), make_table(20, seed=1)
    decided = replace(model, decision=ThresholdDecision(model.classes[0], 0.5, "highest F1", 20))
    matrix = model.encoder.transform(table.data, model.precision)
    explained = explain_rows(decided, matrix, model.predict_matrix(matrix))
    assert explained.explained.tolist() == [0] * 20
    assert explain_row(decided, table.data.slice(0, 1)).positive == 0
    assert explain_row(model, table.data.slice(0, 1)).positive == 1


@pytest.mark.parametrize("name", ["deep-forest", "mart"])
def test_the_fast_model_of_a_service_explains_the_same(train: Any, name: str) -> None:
    table = make_table(5, seed=1)
    wanted = train(name).contributions(table)
    # A model of its own: the boosters of this one are replaced.
    train.cache_clear()
    fast = with_fast_predict(train(name))
    train.cache_clear()
    assert np.array_equal(fast.contributions(table), wanted)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_a_scored_file_has_the_contributions_of_each_row(
    train: Any, tmp_path: Path, ending: str
) -> None:
    import pyarrow.csv as pa_csv

    model, table = train("mart"), make_table(MOST_ROWS + 100, seed=2)
    source, target = tmp_path / "t.parquet", tmp_path / f"o{ending}"
    taken = table.data.append_column("base value", pa.array(np.arange(table.data.num_rows)))
    pq.write_table(taken, source)
    score_file(model, source, target, keep=["id", "base value"], explain=True)
    match ending:
        case ".csv":
            out = pa_csv.read_csv(target)
        case ".parquet":
            out = pq.read_table(target)
        case _:
            out = pa.ipc.open_file(target).read_all()
    names = [f"contribution of {name}" for name in DECIDING]
    front = ["id", "base value", "prediction", "p(no)", "p(yes)"]
    assert out.column_names == [
        *front,
        "explained class",
        "base value (explanation)",
        *names,
    ]
    assert set(out.column("explained class").to_pylist()) == {"yes"}
    values = np.column_stack([out.column(name).to_numpy() for name in names])
    total = values.sum(axis=1) + out.column("base value (explanation)").to_numpy()
    assert np.allclose(total, out.column("p(yes)").to_numpy(), rtol=0, atol=1e-6)
    assert np.allclose(values, model.contributions(table)[:, :-1, 1])
    assert out.column("base value").to_pylist() == list(range(table.data.num_rows))


# One row


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_explained_as_in_a_table_and_with_its_way_through_the_layers(
    train: Any, name: str
) -> None:
    model, table = train(name), make_table(6)
    found = explain_row(model, table.data.slice(4, 1))
    assert np.allclose(found.probabilities, model.predict_proba(table)[4])
    if name == "mlp":
        assert "cannot be explained" in found.reason and np.isnan(found.contributions).all()
    else:
        assert not found.reason
        assert np.allclose(found.contributions, model.contributions(table)[4, :-1])
        assert np.allclose(found.base + found.contributions.sum(axis=0), found.probabilities)
    layers = getattr(model.estimator, "n_layers_", 0)
    assert found.vectors.shape[:2] == (layers, len(found.learners))
    if layers:
        assert np.allclose(found.outputs[-1], found.probabilities)


@pytest.mark.parametrize("name", ["deep-forest", "logistic-regression"])
def test_a_changed_row_is_predicted_like_a_row_that_has_the_values(train: Any, name: str) -> None:
    model, table = train(name), make_table(30)
    row, other = table.data.slice(3, 1), table.data.slice(7, 1)
    values = other.to_pylist()[0]
    changes = {name: values[name] for name in ("amount", "count", "member", "colour", "grade")}
    changes["when"] = str(values["when"])
    wanted = other.set_column(3, "steady", row.column("steady"))
    found, expected = explain_row(model, row, changes), explain_row(model, wanted)
    assert np.allclose(found.probabilities, expected.probabilities)
    assert np.allclose(found.contributions, expected.contributions)
    assert not np.allclose(found.probabilities, explain_row(model, row).probabilities)


def test_a_change_that_the_model_cannot_take_is_refused(train: Any) -> None:
    model, row = train("mart"), make_table(1).data
    with refused(BadInput, naming=["amount", "number is expected"]):
        explain_row(model, row, {"amount": "much"})
    with refused(BadInput, naming=["does not have", "other"]):
        explain_row(model, row, {"other": 1})
    with refused(BadInput, naming=["lacks", "amount"]):
        explain_row(model, row.drop_columns(["amount"]))


@pytest.mark.parametrize("name", MODELS)
def test_shuffled_columns_show_what_a_model_needs(train: Any, name: str) -> None:
    model, table = train(name), make_table(200, seed=5)
    found = column_importance(model, table, scoring="auc", n_repeats=3)
    drops = dict(zip(DECIDING, found.mean, strict=True))
    assert found.drops.shape == (len(DECIDING), 3)
    assert drops["amount"] > max(drops["steady"], drops["grade"]), drops


def test_an_importance_that_cannot_be_measured_is_refused(train: Any) -> None:
    model, table = train("mart"), make_table(50)
    with refused(BadInput, naming=["no target"]):
        column_importance(model, Table(table.data))
    with refused(BadInput, naming=["nonsense"]):
        column_importance(model, table, scoring="nonsense")
    only = table.data.filter(pa.compute.equal(table.data.column("class").cast("string"), "no"))
    with refused(BadInput, naming=["auc", "no value"]):
        column_importance(model, table.with_data(only), scoring="auc")
    with refused(BadInput, naming=["lacks", "amount"]):
        column_importance(model, table.with_data(table.data.drop_columns(["amount"])))
