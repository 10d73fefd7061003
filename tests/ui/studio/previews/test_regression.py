"""Previews of predicted numbers, as Streamlit draws them from the results of a real run."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import sylva
from engine.values import Report
from tests.ui.studio.runs.lab import words
from ui.studio.previews import headline

APP = str(Path(__file__).parent / "app.py")
PIPELINE = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "Numbers",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "sample:diabetes"}},
        "split": {"type": "split"},
        "train": {"type": "linear-regression"},
        "predict": {"type": "predict"},
        "evaluate": {"type": "evaluate"},
        "folds": {"type": "cross-validate", "params": {"folds": 3}},
        "compare": {"type": "compare"},
        "save": {"type": "save-model", "params": {"name": "numbers"}},
    },
    "edges": [
        {"from": "load.table", "to": "split.table"},
        {"from": "split.train", "to": "train.table"},
        {"from": "split.test", "to": "predict.table"},
        {"from": "train.model", "to": "predict.model"},
        {"from": "predict.predictions", "to": "evaluate.predictions"},
        {"from": "train.model", "to": "folds.model"},
        {"from": "split.train", "to": "folds.table"},
        {"from": "evaluate.report", "to": "compare.reports"},
        {"from": "train.model", "to": "save.model"},
    ],
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    sylva.run(PIPELINE, folder)
    return folder


@pytest.fixture
def drawn(workspace: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the preview of an output."""

    def draw(output: str) -> AppTest:
        monkeypatch.setenv("SYLVA_WORKSPACE", str(workspace))
        monkeypatch.setenv("PREVIEWED", output)
        test = AppTest.from_file(APP, default_timeout=60).run()
        assert not test.exception
        return test

    return draw


@pytest.mark.parametrize("output", ["evaluate.report", "folds.report", "predict.predictions"])
def test_the_metrics_of_numbers_are_tiles(drawn, output: str):
    test = drawn(output)
    assert [tile.label for tile in test.metric] == ["RMSE", "MAE", "R²"]
    assert 40 < float(test.metric[0].value.replace("\\", "")) < 70
    assert "predicted numbers" in words(test)
    if output != "predict.predictions":
        assert all("–" in tile.delta for tile in test.metric)
        assert "95 % interval" in words(test)


def test_the_tabs_of_an_evaluation_show_rows_residuals_ranges_and_folds(drawn):
    tabs = ["Predicted and true", "Residuals", "Errors by range"]
    assert [tab.label for tab in drawn("evaluate.report").tabs] == tabs
    assert [tab.label for tab in drawn("folds.report").tabs] == [*tabs, "Folds"]


def test_a_model_of_numbers_has_no_classes(drawn):
    test = drawn("train.model")
    assert "predicts a number" in words(test)
    assert "Classes" not in [tab.label for tab in test.tabs]


def test_a_comparison_of_numbers_is_drawn(drawn):
    assert "ranked by RMSE" in words(drawn("compare.report"))


def test_the_headline_of_numbers_is_the_rmse():
    report = Report("evaluation", "m", {"rmse": 12.5, "mae": 9.0, "r2": 0.5, "rows": 3})
    assert headline(report) == ("RMSE", "12.500")


def test_a_saved_model_of_numbers_predicts_in_python_and_over_rest(workspace: Path):
    import json

    from ui.rest.service import Service

    model = sylva.load_model("numbers", workspace)
    row = dict.fromkeys(model.columns, 1.0)
    (value,) = model.predict([row])
    with pytest.raises(sylva.BadInput, match="call predict instead"):
        model.predict_proba([row])
    service = Service("numbers", model.fitted)
    assert service.schema["task"] == "regression" and service.schema["classes"] == []
    request = json.dumps({"rows": [row], "explain": True}).encode()
    answer = ask(service, request)
    assert answer["predictions"][0]["prediction"] == value
    explained = answer["predictions"][0]["explanation"]
    assert explained["base"] + sum(explained["contributions"].values()) == pytest.approx(value)


def ask(service, body: bytes) -> dict:
    """Return the answer of a service to a request."""
    from fastapi.testclient import TestClient

    with TestClient(service.make_app(), base_url="http://127.0.0.1") as client:
        headers = {"content-type": "application/json"}
        answer = client.post("/predict", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()
