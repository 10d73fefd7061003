"""Why a row got its prediction: contributions, changed values, models that are gone."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import load_catalog
from engine.store import Artifact
from engine.values import Folder, Table
from engine.workspace import Workspace
from nodes import inspect_layers
from nodes.inspection.layers import Layers
from nodes.models.encoder import NumberColumn
from nodes.models.explanations import explain_row
from nodes.models.model import load_model
from tests.nodes.conftest import MODELS, make_context
from tests.nodes.models.conftest import make_table
from tests.ui.studio.inspect.lab import HOSTILE, finished, inspect_page, pipeline
from tests.ui.studio.runs.lab import words, written
from ui.studio import explained_rows
from ui.studio.inspect import page, why
from ui.studio.plots.explanations import Contribution, contributions, largest
from ui.studio.runs import run_view
from ui.studio.session import Studio


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Layers]:
    """A deep forest and an inspection of rows of every kind of column, with hostile names."""
    table = make_table(200)
    names = [HOSTILE if name == "steady" else name for name in table.data.column_names]
    colours = table.data.column("colour").cast(pa.string())
    hostile = pa.compute.replace_substring(colours, "red", HOSTILE)
    at = names.index("colour")
    data = table.data.rename_columns(names).set_column(at, "colour", hostile)
    table = Table(data, table.target, table.roles)
    folder = tmp_path_factory.mktemp("model")
    context = make_context(tmp_path_factory.mktemp("work"))
    node, params = MODELS["deep-forest"]
    node.run(context, {"table": table}, node.params(**params))["model"].save(folder)
    inputs = {"model": Folder(folder), "table": table}
    settings = inspect_layers.NODE.params(rows=30, perplexity=5.0)
    return folder, inspect_layers.NODE.run(context, inputs, settings)["layers"]


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    for module in (page, run_view, why):
        monkeypatch.setattr(module, "studio", lambda: made)
    explained_rows._memory.clear()
    return made


def stored_run(studio: Studio, folder: Path, layers: Layers) -> tuple[str, Artifact]:
    """Return a finished run with the model and the inspection, and the stored model."""
    model = studio.store.put("model", Folder(folder))
    output = studio.store.put("layers", layers)
    events: list[Any] = [
        ("finished", "load", {"key": "l", "seconds": 0.1, "outputs": {}}),
        ("finished", "forest", finished(model, "model")),
        ("finished", "inspect", finished(output, "layers")),
        ("run-finished", None, {"state": "done"}),
    ]
    return written(studio, pipeline(), events), model


def opened(run: str) -> AppTest:
    test = inspect_page("One row", run=run, node="inspect")
    assert not test.exception
    return test


def titles(test: AppTest) -> list[str]:
    charts = test.get("plotly_chart")
    return [json.loads(chart.proto.spec)["layout"]["title"]["text"] for chart in charts]


def position(test: AppTest, layers: Layers) -> int:
    row = next(box for box in test.selectbox if box.label == "Row").value
    return layers.rows.tolist().index(row)


def number(test: AppTest, label: str) -> Any:
    return next(each for each in test.number_input if each.label == label)


def with_columns(test: AppTest, *names: str) -> AppTest:
    """Let the form show these columns."""
    return test.multiselect[0].set_value(list(names)).run()


def test_the_page_says_how_base_and_contributions_give_the_probability(
    studio: Studio, trained: tuple[Path, Layers]
) -> None:
    folder, layers = trained
    run, _ = stored_run(studio, folder, layers)
    test = opened(run)
    at = position(test, layers)
    found = explain_row(load_model(folder), layers.sample.slice(at, 1))
    assert f"probability of yes is {found.probabilities[1]:.1%}" in words(test)
    assert f"= {found.probabilities[1]:.3f}" in words(test)
    assert "Contributions to the probability of yes" in titles(test)
    assert "<img" not in words(test).replace("\\<", "")


def test_a_changed_value_moves_prediction_and_layers_and_reset_takes_it_back(
    studio: Studio, trained: tuple[Path, Layers]
) -> None:
    folder, layers = trained
    run, _ = stored_run(studio, folder, layers)
    before = sorted(studio.workspace.root.rglob("*"))
    test = with_columns(opened(run), "amount", "colour", "when", "member")
    at = position(test, layers)
    row = layers.sample.slice(at, 1)
    assert not any(title.startswith("After") for title in titles(test))
    number(test, "amount").set_value(900.0).run()
    found = explain_row(load_model(folder), row, {"amount": 900.0})
    assert f"to {found.probabilities[1]:.1%}" in words(test)
    assert {"Before the change", "After the change"} <= set(titles(test))
    colour = next(box for box in test.selectbox if box.label == "colour")
    assert HOSTILE in colour.options and "missing" in colour.options
    colour.set_value(None).run()
    found = explain_row(load_model(folder), row, {"amount": 900.0, "colour": None})
    assert f"to {found.probabilities[1]:.1%}" in words(test)
    next(each for each in test.button if each.label == "Reset").click().run()
    assert not test.exception and "With the changed values" not in words(test)
    assert sorted(studio.workspace.root.rglob("*")) == before


def test_a_time_that_is_none_gets_a_message(studio: Studio, trained: tuple[Path, Layers]) -> None:
    run, _ = stored_run(studio, *trained)
    test = with_columns(opened(run), "when")
    test.text_input[0].set_value("soon").run()
    assert not test.exception
    assert "time such as" in test.warning[0].value


def test_a_model_that_was_removed_is_reported(studio: Studio, trained: tuple[Path, Layers]) -> None:
    run, model = stored_run(studio, *trained)
    shutil.rmtree(studio.workspace.objects / model.digest)
    test = opened(run)
    assert any("not stored any more" in info.value for info in test.info)


def test_a_row_that_lacks_a_column_is_reported(
    studio: Studio, trained: tuple[Path, Layers]
) -> None:
    folder, layers = trained
    less = replace(layers, sample=layers.sample.drop_columns(["amount"]))
    run, _ = stored_run(studio, folder, less)
    test = opened(run)
    assert any("lacks 'amount'" in info.value.replace("\\", "") for info in test.info)


def test_predictions_of_a_model_without_contributions_can_still_be_changed(
    studio: Studio, trained: tuple[Path, Layers], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, context = tmp_path_factory.mktemp("m"), make_context(tmp_path_factory.mktemp("w"))
    node, params = MODELS["mlp"]
    sample = Table(trained[1].sample, "class", {"id": "id"})
    node.run(context, {"table": sample}, node.params(**params))["model"].save(folder)
    run, _ = stored_run(studio, folder, trained[1])
    test = opened(run)
    assert any("cannot be explained" in info.value for info in test.info)
    number(with_columns(test, "amount"), "amount").set_value(900.0).run()
    assert not test.exception and "With the changed values" in words(test)


def test_a_slow_model_shows_what_is_done(
    studio: Studio, trained: tuple[Path, Layers], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    release = threading.Event()
    monkeypatch.setattr(explained_rows, "PATIENCE", 0.01)

    def slow(*arguments: Any) -> Any:
        assert release.wait(30)
        return load_model(*arguments)

    def progress(fraction: float, text: str) -> None:
        shown.append(text)
        release.set()

    class Bar:
        def progress(self, fraction: float, text: str) -> None:
            progress(fraction, text)

        def empty(self) -> None:
            shown.append("")

    monkeypatch.setattr("nodes.models.model.load_model", slow)
    monkeypatch.setattr(explained_rows.st, "empty", Bar)
    model = studio.store.put("model", Folder(trained[0]))
    row = explained_rows.StoredRow(model, "r", trained[1].sample.slice(0, 1))
    found = explained_rows.explanation(row, studio.store)
    assert shown[0] == "Loading the model…" and shown[-1] == ""
    monkeypatch.setattr("nodes.models.model.load_model", None)
    # Both the model and the explanation come from memory now.
    assert explained_rows.explanation(row, studio.store) is found


def test_many_columns_are_summed_up_and_names_are_escaped() -> None:
    parts = [Contribution(f"c{at}", str(at), 0.01 * at) for at in range(40)]
    shown = largest(parts, 10)
    assert [part.column for part in shown[:2]] == ["c39", "c38"]
    assert shown[-1].column == "31 other columns"
    assert sum(part.amount for part in shown) == pytest.approx(sum(p.amount for p in parts))
    figure = contributions([Contribution(HOSTILE, HOSTILE, 0.1)], HOSTILE).to_json()
    assert "<img" not in figure


@pytest.mark.parametrize(("scale", "step"), [(250.0, 10.0), (1.0, 0.1), (0.03, 0.001)])
def test_arrows_change_a_number_by_a_tenth_of_its_spread(scale: float, step: float) -> None:
    column = NumberColumn("x", "number", 0.0, 0.0, scale, False, True)
    assert why.number_step(column) == pytest.approx(step)
