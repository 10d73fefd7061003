"""A threshold that is saved with a model decides the same classes wherever the model is used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import sylva
from engine.values import Folder, Table
from engine.workspace import Workspace
from nodes import choose_threshold, mart, predict
from nodes.models.model import FILE, load_model
from nodes.models.registry import Registry
from tests.nodes.conftest import make_context
from tests.nodes.models.conftest import make_table
from tests.nodes.models.test_rows import as_rows
from ui.cli import main
from ui.rest.service import Service

NAME = "decided"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a model whose threshold is not that of the most probable class."""
    root = tmp_path_factory.mktemp("decided")
    ctx = make_context(root)
    trained = mart.NODE.run(ctx, {"table": make_table()}, mart.NODE.params(trees=12))["model"]
    (root / "trained").mkdir()
    trained.save(root / "trained")
    inputs = {"model": Folder(root / "trained"), "table": make_table(seed=4)}
    params = choose_threshold.NODE.params(rule="recall", recall=0.98, calibration="isotonic")
    folder = root / "models" / NAME
    folder.mkdir(parents=True)
    choose_threshold.NODE.run(ctx, inputs, params)["model"].save(folder)
    return root


@pytest.fixture(scope="module")
def new_rows() -> Table:
    """Rows without their classes."""
    table = make_table(200, seed=5)
    return Table(table.data.drop_columns("class"), None, table.roles)


@pytest.fixture(scope="module")
def expected(workspace: Path, new_rows: Table) -> pa.Table:
    """What the Predict node gives."""
    inputs = {"model": Folder(workspace / "models" / NAME), "table": new_rows}
    made = predict.NODE.run(make_context(workspace), inputs, predict.NODE.params())["predictions"]
    decision = load_model(workspace / "models" / NAME).decision
    assert decision is not None
    by_threshold = np.where(made.probabilities[:, 1] >= decision.threshold, "yes", "no")
    table = made.to_arrow()
    assert table.column("prediction").to_pylist() == by_threshold.tolist()
    assert (by_threshold != np.where(made.probabilities[:, 1] > 0.5, "yes", "no")).any()
    return table


def test_the_command_line(workspace, new_rows, expected, tmp_path, monkeypatch, capsys):
    pa_csv.write_csv(new_rows.data, tmp_path / "new.csv")
    arguments = ["predict", NAME, tmp_path / "new.csv", "-o", tmp_path / "out.csv", "--json"]
    monkeypatch.setenv("SYLVA_WORKSPACE", str(workspace))
    monkeypatch.setattr(sys, "argv", ["sylva", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    scored = pa_csv.read_csv(tmp_path / "out.csv")
    assert scored.column("prediction").to_pylist() == expected.column("prediction").to_pylist()
    np.testing.assert_array_equal(
        scored.column("p(yes)").to_numpy(), expected.column("p(yes)").to_numpy()
    )
    told = json.loads(capsys.readouterr().out)
    assert told["decision"]["positive"] == "yes" and told["decision"]["rows"] == 600


def test_the_service(workspace, new_rows, expected):
    service = Service(NAME, load_model(workspace / "models" / NAME))
    rows = as_rows(make_table(200, seed=5))
    requests = [{"rows": rows}, {"rows": rows[:3], "explain": True}]
    bodies = service.answers([json.dumps(each).encode() for each in requests])
    answer, explained = (json.loads(body) for body in bodies)
    schema = service.schema
    predicted = [each["prediction"] for each in answer["predictions"]]
    assert predicted == expected.column("prediction").to_pylist()
    assert schema["decision"]["threshold"] == service.model.decision.threshold
    assert schema["calibration"] == "isotonic"
    for each in explained["predictions"]:
        total = each["explanation"]["base"] + sum(each["explanation"]["contributions"].values())
        assert total == pytest.approx(each["probabilities"]["yes"], abs=1e-9)


def test_python(workspace, new_rows, expected):
    model = sylva.load_model(NAME, workspace)
    assert model.predict(new_rows.data).tolist() == expected.column("prediction").to_pylist()
    assert model.threshold == model.fitted.decision.threshold


def test_the_list_of_models_names_it(workspace):
    entry = Registry(Workspace(workspace)).entry(NAME)
    assert "yes" in entry.decision[0] and "isotonic" in entry.decision[1]


def test_a_program_of_an_earlier_version_would_refuse_it(workspace):
    """It reads versions up to 1, and says so for any other."""
    assert json.loads((workspace / "models" / NAME / FILE).read_text())["version"] == 2
