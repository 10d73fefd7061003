"""The surest mistakes of an evaluation and why they were made; importances of shuffled columns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from engine.pipeline import Edge, Node, Pipeline
from engine.run_state import NodeState, RunState
from engine.store import Artifact, Store
from engine.values import Folder, Predictions, Report, Table
from engine.workspace import Workspace
from nodes import evaluate, permutation_importance, predict
from nodes.models.explanations import explain_row
from nodes.models.model import load_model
from tests.nodes.conftest import MODELS, make_context
from tests.nodes.models.conftest import make_table
from ui.studio import explained_rows
from ui.studio.previews.errors import EvaluatedRows, evaluated_rows, surest_mistakes

HOSTILE = "<img src=x onerror=alert(1)> [a](javascript:alert(1)) **b** :red[c]"


class Stored:
    """A store with a report and what it was made from."""

    def __init__(self, root: Path, kind: str = "mart") -> None:
        self.store = Store(Workspace(root / "ws").create())
        context, folder = make_context(root), root / "model"
        folder.mkdir()
        node, params = MODELS[kind]
        table = make_table(150)
        node.run(context, {"table": table}, node.params(**params))["model"].save(folder)
        # Other rows than those of the training, some of which are predicted wrongly.
        rows = make_table(150, seed=9)
        names = [HOSTILE if name == "id" else name for name in rows.data.column_names]
        self.table = Table(rows.data.rename_columns(names), "class", {HOSTILE: "id"})
        inputs = {"model": Folder(folder), "table": self.table}
        self.predictions: Predictions = predict.NODE.run(context, inputs, predict.NODE.params())[
            "predictions"
        ]
        read = {"predictions": self.predictions}
        report = evaluate.NODE.run(context, read, evaluate.NODE.params())["report"]
        settings = permutation_importance.NODE.params(repeats=2)
        shuffled = permutation_importance.NODE.run(context, inputs, settings)["report"]
        self.folder = folder
        self.report = self.store.put("report", report)
        self.shuffled = self.store.put("report", shuffled)
        self.evaluated = EvaluatedRows(
            self.store.put("predictions", self.predictions),
            self.store.put("table", self.table),
            self.store.put("model", Folder(folder)),
        )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("errors"))


def _page(report: object, store: object, evaluated: object) -> None:
    from ui.studio.previews import Maker, show_output

    show_output(report, store, title="", key="p", maker=Maker("evaluate", {}, "", evaluated))


def drawn(
    report: Artifact, store: Store, evaluated: EvaluatedRows | None, clicked: int | None = None
) -> AppTest:
    """Return the preview with the switch on, and with one of the mistakes clicked."""
    arguments = {"report": report, "store": store, "evaluated": evaluated}
    test = AppTest.from_function(_page, default_timeout=60, kwargs=arguments)
    if clicked is not None:
        selection = {"selection": {"rows": [clicked], "columns": [], "cells": []}}
        test.session_state["p-errors-None"] = selection
    test.run()
    if test.toggle:
        test.toggle[0].set_value(True).run()
    assert not test.exception
    return test


def shown(test: AppTest) -> str:
    elements = [*test.markdown, *test.caption, *test.info, *test.warning]
    return "\n".join(str(each.value) for each in elements).replace("\\", "")


def test_the_surest_mistakes_come_first(stored: Stored) -> None:
    found = surest_mistakes(stored.predictions)
    truth = np.array(stored.predictions.truth.cast(pa.string()))
    predicted = stored.predictions.probabilities.argmax(axis=1)
    wrong = np.array(stored.predictions.classes)[predicted] != truth
    assert found.total == wrong.sum() > 2
    assert [wrong[row["row"]] for row in found.rows] == [True] * found.total
    sure = [row["p (true)"] for row in found.rows]
    assert sure == sorted(sure)
    assert all(
        row["true class"] == "yes" for row in surest_mistakes(stored.predictions, "yes").rows
    )


def test_a_threshold_decides_what_is_a_mistake(stored: Stored) -> None:
    found = surest_mistakes(stored.predictions, rule=("yes", 1.1))
    assert {row["predicted"] for row in found.rows} == {"no"}
    assert found.total == np.sum(np.array(stored.predictions.truth.cast(pa.string())) == "yes")


def test_predictions_without_classes_have_no_mistakes() -> None:
    assert surest_mistakes(Predictions(np.ones((2, 2)) / 2, ["a", "b"], "m")).rows == []


def test_the_list_is_drawn_on_demand_and_a_click_says_why(stored: Stored) -> None:
    test = drawn(stored.report, stored.store, stored.evaluated)
    mistakes = surest_mistakes(stored.predictions)
    assert test.dataframe[-1].value["row"].tolist() == [row["row"] for row in mistakes.rows]
    assert "Why row" not in shown(test)
    assert f"{mistakes.total} rows predicted wrongly by the most probable class" in shown(test)
    test = drawn(stored.report, stored.store, stored.evaluated, clicked=1)
    row = mistakes.rows[1]["row"]
    found = explain_row(load_model(stored.folder), stored.table.data.slice(row, 1))
    assert f"Why row {row} got its prediction" in shown(test)
    assert f"The probability of yes is {found.probabilities[1]:.1%}" in shown(test)
    specs = [json.loads(each.proto.spec) for each in test.get("plotly_chart")]
    assert specs[-1]["layout"]["title"]["text"] == "Contributions to the probability of yes"


def test_a_report_without_predictions_has_no_list(stored: Stored) -> None:
    assert not drawn(stored.report, stored.store, None).toggle


@pytest.mark.parametrize("kind", ["random-forest", "deep-forest"])
def test_an_evaluation_of_numbers_lists_the_largest_errors(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=120), "b": rng.normal(size=120)}
    price = 10 * values["a"] + rng.normal(size=120)
    table = Table(pa.table({**values, "price": price}), "price")
    context, folder = make_context(tmp_path), tmp_path / "model"
    folder.mkdir()
    node, params = MODELS[kind]
    node.run(context, {"table": table}, node.params(**params))["model"].save(folder)
    inputs = {"model": Folder(folder), "table": table}
    made = predict.NODE.run(context, inputs, predict.NODE.params())["predictions"]
    report = evaluate.NODE.run(context, {"predictions": made}, evaluate.NODE.params())["report"]
    store = Store(Workspace(tmp_path / "ws").create())
    evaluated = EvaluatedRows(
        store.put("predictions", made),
        store.put("table", table),
        store.put("model", Folder(folder)),
    )
    test = drawn(store.put("report", report), store, evaluated, clicked=0)
    listed = test.dataframe[-1].value
    errors = abs(made.values - price)
    assert listed["row"].tolist() == np.argsort(-errors, kind="stable")[:50].tolist()
    assert abs(listed["error"]).tolist() == pytest.approx(sorted(errors, reverse=True)[:50])
    row = int(np.argmax(errors))
    assert f"Why row {row} got its prediction" in shown(test)
    assert f"The predicted value is {made.values[row]:.6g}" in shown(test)
    specs = [json.loads(each.proto.spec) for each in test.get("plotly_chart")]
    assert specs[-1]["layout"]["title"]["text"] == "Contributions to the predicted value"


def test_what_is_missing_is_named(stored: Stored) -> None:
    evaluated = stored.evaluated
    test = drawn(stored.report, stored.store, evaluated._replace(predictions=None))
    assert "evaluated rows are not stored" in shown(test)
    test = drawn(stored.report, stored.store, evaluated._replace(model=None), clicked=0)
    assert "does not have the model" in shown(test)


def test_a_model_that_left_the_store_is_named(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    explained_rows._memory.clear()
    assert stored.evaluated.model is not None
    shutil.rmtree(stored.store.workspace.objects / stored.evaluated.model.digest)
    test = drawn(stored.report, stored.store, stored.evaluated, clicked=0)
    assert "model of this run is not stored any more" in shown(test)


def test_a_model_without_contributions_is_named(tmp_path: Path) -> None:
    stored = Stored(tmp_path, "mlp")
    test = drawn(stored.report, stored.store, stored.evaluated, clicked=0)
    assert "cannot be explained" in shown(test)


def test_the_rows_of_an_evaluation_are_found_in_its_run(stored: Stored) -> None:
    nodes = {"m": "mart", "p": "predict", "e": "evaluate", "t": "split"}
    edges = ["m.model p.model", "t.test p.table", "p.predictions e.predictions"]
    pipeline = Pipeline(
        name="x",
        nodes={name: Node(type=kind) for name, kind in nodes.items()},
        edges=tuple(Edge.between(*edge.split()) for edge in edges),
    )
    state = RunState("r", "x", 0.0)
    outputs = dict(zip(("p", "t", "m"), stored.evaluated, strict=True))
    ports = {"p": "predictions", "t": "test", "m": "model"}
    for name, output in outputs.items():
        assert output is not None
        state.nodes[name] = NodeState(outputs={ports[name]: output.to_dict()})
    assert evaluated_rows(pipeline, state, "e") == stored.evaluated
    assert evaluated_rows(pipeline, state, "m") is None
    del state.nodes["m"]
    assert evaluated_rows(pipeline, state, "e") == stored.evaluated._replace(model=None)


def test_importances_are_drawn_with_intervals_and_names_are_escaped(stored: Stored) -> None:
    test = drawn(stored.shuffled, stored.store, None)
    spec = json.loads(test.get("plotly_chart")[0].proto.spec)
    assert spec["layout"]["title"]["text"] == "Permutation importance"
    assert spec["layout"]["xaxis"]["title"]["text"].startswith("Rise of Log loss")
    assert len(spec["data"][0]["error_x"]["array"]) == len(test.dataframe[0].value)
    row = {"column": HOSTILE, "drop": 0.1, "low": 0.05, "high": 0.2}
    headline = {"metric": "auc", "value": 0.9, "rows": 5}
    report = Report(
        "permutation-importance", "x", headline, [row], {"model": HOSTILE, "repeats": 2}
    )
    test = drawn(stored.store.put("report", report), stored.store, None)
    assert "<img" not in test.get("plotly_chart")[0].proto.spec
    assert "<img" not in "".join(caption.value for caption in test.caption).replace("\\<", "")
