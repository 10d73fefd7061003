"""``import sylva``: saved models for data frames, and pipelines run from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sylva
from tests.expect import assert_same_bits, refused
from tests.nodes.models.conftest import ROOT, Kept, environment

DOCUMENT = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "Wines",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "sample:wine"}},
        "split": {"type": "split"},
        "tree": {"type": "mart", "params": {"trees": 3, "min_rows": 5}},
        "predict": {"type": "predict"},
        "evaluate": {"type": "evaluate"},
        "save": {"type": "save-model", "params": {"name": "wine"}},
    },
    "edges": [
        {"from": "load.table", "to": "split.table"},
        {"from": "split.train", "to": "tree.table"},
        {"from": "tree.model", "to": "predict.model"},
        {"from": "split.test", "to": "predict.table"},
        {"from": "predict.predictions", "to": "evaluate.predictions"},
        {"from": "tree.model", "to": "save.model"},
    ],
}


@pytest.fixture
def frame(table) -> pd.DataFrame:
    return table.data.to_pandas()


@pytest.fixture
def loaded(kept: Kept) -> sylva.Model:
    return sylva.load_model("mart", kept.workspace)


def test_three_lines_score_a_data_frame(kept: Kept, frame: pd.DataFrame, table, tmp_path: Path):
    frame.to_parquet(tmp_path / "new.parquet")
    lines = [
        "import sylva, pandas as pd",
        f"df = pd.read_parquet({str(tmp_path / 'new.parquet')!r})",
        "print(sylva.load_model('mart').predict_proba(df)[:3].tolist())",
    ]
    printed = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=ROOT,
        env=environment(kept.workspace),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = kept.open("mart").predict_proba(table)[:3].tolist()
    assert json.loads(printed) == expected


def test_every_kind_of_table_gets_the_same_bits(loaded: sylva.Model, frame: pd.DataFrame, table):
    expected = loaded.fitted.predict_proba(table)
    data = table.data.drop_columns(["class"])
    for each in (
        frame,
        frame[frame.columns[::-1]],
        data,
        data.to_pydict(),
        data.to_pylist(),
    ):
        assert_same_bits(loaded.predict_proba(each), expected)
    assert_same_bits(loaded.predict_proba(frame.head(1)), expected[:1])
    assert loaded.predict_proba(frame.head(0)).shape == (0, 2)


def test_classes_are_predicted_as_texts(loaded: sylva.Model, frame: pd.DataFrame):
    probabilities = loaded.predict_proba(frame, threads=1)
    classes = np.array(loaded.classes)
    assert (loaded.predict(frame) == classes[probabilities.argmax(axis=1)]).all()
    assert loaded.classes == ["no", "yes"] and loaded.columns[0] == "amount"


def test_a_data_frame_that_does_not_fit_is_refused(loaded: sylva.Model, frame: pd.DataFrame):
    with refused(naming=["'amount'", "'when'"]):
        loaded.predict_proba(frame.drop(columns=["amount", "when"]))
    with refused(naming=["'count'", "'many'"]):
        loaded.predict_proba(frame.assign(count="many"))


@pytest.mark.parametrize("data", [5, None, "rows", [1, 2], {"amount": [1], "count": [1, 2]}])
def test_what_is_not_a_table_is_refused(loaded: sylva.Model, data: object):
    with refused(naming="table"):
        loaded.predict_proba(data)


def test_mixed_values_in_a_column_are_refused(loaded: sylva.Model, frame: pd.DataFrame):
    with refused(naming="amount"):
        loaded.predict_proba(frame.assign(amount=[1.0, b"x", {}] + [None] * (len(frame) - 3)))


def test_a_model_that_does_not_exist_is_refused(kept: Kept, tmp_path: Path):
    with refused(naming=["'mrat'", "'mart'"]):
        sylva.load_model("mrat", kept.workspace)
    with refused(sylva.SylvaError, naming="'mart'"):
        sylva.load_model("mart", tmp_path)


def test_a_model_is_loaded_by_its_path(kept: Kept, tmp_path: Path, frame: pd.DataFrame):
    model = sylva.load_model(str(kept.folder("linear")), tmp_path)
    assert model.name == "linear" and model.predict_proba(frame).shape == (600, 2)


def test_drift_is_measured(loaded: sylva.Model, frame: pd.DataFrame):
    report = loaded.drift(frame.assign(amount=frame["amount"] * 10))
    assert report.at("large") == ["amount"] and report.columns[0].name == "amount"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


class TestRun:
    def test_a_pipeline_is_run_and_its_model_loaded(self, place: Path):
        (place / "wines.json").write_text(json.dumps(DOCUMENT))
        finished = sylva.run(place / "wines.json", place)
        assert sorted(finished.reports) == ["evaluate", "save"]
        assert finished.metrics["evaluate"]["accuracy"] > 0.8
        test = finished.output("split", "test")
        assert isinstance(test.data, pa.Table) and test.data.num_rows == 53
        proba = sylva.load_model("wine", place).predict_proba(test.data)
        assert_same_bits(proba, finished.output("predict").probabilities)

    def test_an_output_that_does_not_exist_is_refused(self, place: Path):
        finished = sylva.run(DOCUMENT, place)
        with refused(naming=["'train'", "'test'"]):
            finished.output("split")
        with refused(naming=["'x'", "'split'"]):
            finished.output("x")

    def test_a_pipeline_that_is_not_valid_does_not_run(self, place: Path):
        with refused(sylva.SylvaError, naming="no-such-type"):
            sylva.run({**DOCUMENT, "nodes": {"a": {"type": "no-such-type"}}, "edges": []}, place)
        with refused(sylva.SylvaError, naming="none.json"):
            sylva.run(place / "none.json", place)
        with refused(naming="JSON"):
            sylva.run({"nodes": {1, 2}}, place)

    def test_a_node_that_fails_is_named(self, place: Path):
        tree = {"type": "mart", "params": {"class_weights": {"cork": 2.0}}}
        document = {**DOCUMENT, "nodes": {**DOCUMENT["nodes"], "tree": tree}}
        with refused(sylva.SylvaError, naming=["'tree'", "'cork'", "sylva resume"]):
            sylva.run(document, place)
