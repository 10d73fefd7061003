"""Versions, import, services and drift on the Models page, without a browser."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.workspace import Workspace
from nodes.load_data import NODE as LOAD
from nodes.mart import NODE as MART
from nodes.models.drift import ColumnDrift, DriftReport
from nodes.models.registry import Registry, zip_model
from nodes.models.versions import Versions
from tests.ui.studio.models.conftest import MODEL, run_node
from tests.ui.studio.models.test_page import _page, studio_of, uploader
from tests.ui.studio.models.test_services import STAND_IN, running
from tests.ui.studio.runs.lab import labels, press, words
from ui.studio.models import scoring_jobs, serving, use
from ui.studio.models.page import model_table
from ui.studio.models.scoring_jobs import ScoringJob, ScoringJobs
from ui.studio.models.services import ModelServices


@pytest.fixture
def registry(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The page over a workspace whose model has a second version, which is not in use."""
    studio_of(workspace, monkeypatch)
    monkeypatch.setattr(use, "jobs", lambda: ScoringJobs(workspace))
    table = run_node(
        LOAD,
        workspace.root,
        {},
        source="people.csv",
        target="pay",
    )["table"]
    folder = workspace.root / "second"
    folder.mkdir()
    run_node(MART, workspace.root, {"table": table}, trees=3, min_rows=5)["model"].save(folder)
    registry = Registry(workspace)
    Versions(registry.folder / MODEL).add(folder, {"note": "**bold**"}, use=False)
    return registry


def at(tab: str = "Versions", version: int | None = None) -> AppTest:
    test = AppTest.from_function(_page, default_timeout=30)
    test.query_params["model"] = MODEL
    if version:
        test.query_params["version"] = str(version)
    test.session_state[f"model-{MODEL}-tabs"] = tab
    test = test.run()
    assert not test.exception
    return test


class TestVersions:
    def test_the_version_in_use_is_shown_first(self, registry: Registry):
        test = at()
        assert next(box for box in test.selectbox if box.label == "Version").value == 1
        assert "Use this version" not in labels(test) and "Random forest" in words(test)
        table = test.dataframe[1].value
        assert table[["Version", "Kind"]].values.tolist() == [[2, "MART"], [1, "Random forest"]]
        assert table["In use"].notna().tolist() == [False, True]

    def test_another_one_is_chosen_and_put_in_use(self, registry: Registry):
        test = at()
        choice = next(box for box in test.selectbox if box.label == "Version")
        test = choice.set_value(2).run()
        assert test.query_params["version"] in ("2", ["2"]) and "MART" in words(test)
        assert r"\*\*bold\*\*" in [text.value for text in test.markdown]
        press(test, "Use this version")
        assert registry.entry(MODEL).version == 2

    def test_a_note_is_written(self, registry: Registry):
        test = at(version=2)
        note = next(field for field in test.text_input if field.label == "Note of version 2")
        assert note.value == "**bold**"
        test = note.set_value("smaller").run()
        assert registry.entry(f"{MODEL}@2").note == "smaller" and "smaller" in words(test)

    def test_only_the_chosen_version_is_deleted(self, registry: Registry):
        test = press(at(version=2), "Delete it")
        assert [each.version for each in registry.versions(MODEL)] == [1]
        assert "version" not in test.query_params and "Random forest" in words(test)
        press(test, "Delete it")
        assert registry.names() == []

    def test_a_version_that_does_not_exist_is_an_error(self, registry: Registry):
        test = at(version=9)
        assert "version 9" in words(test) and "All models" in labels(test)

    def test_calls_name_the_version(self, registry: Registry):
        codes = [code.value for code in at("How to use it", version=2).code]
        assert f"predict {MODEL}@2" in codes[0] and f"'{MODEL}@2'" in codes[-1]


class TestImport:
    def send(self, test: AppTest, name: str, content: bytes) -> AppTest:
        sent = uploader(test, "Downloaded model")
        return sent.set_value((name, content, "application/zip")).run()

    def field(self, test: AppTest, label: str):
        return next(field for field in test.text_input if field.label == label)

    def test_a_model_becomes_a_model_of_its_own_or_a_version(self, registry: Registry):
        archive = zip_model(registry.folder_of(f"{MODEL}@2"))
        test = self.send(at("Inside"), "other (1).zip", archive)
        assert self.field(test, "Name").value == "other"
        test = self.field(test, "Note").set_value("from home").run()
        test = press(test, "Import")
        assert not test.exception
        assert registry.entry("other").note == "from home"
        assert test.query_params["model"] in ("other", ["other"])
        assert "imported from other" in words(test)
        test = self.send(test, "other.zip", zip_model(registry.folder_of(MODEL)))
        toggle = next(each for each in test.toggle if each.label == "Use this version")
        press(toggle.set_value(False).run(), "Import")
        assert [(each.version, each.in_use) for each in registry.versions("other")] == [
            (2, False),
            (1, True),
        ]

    def test_a_file_that_is_not_a_model_is_refused(self, registry: Registry):
        test = press(self.send(at("Inside"), "bad.zip", b"<b>no</b>"), "Import")
        assert not test.exception and "'bad.zip'" in words(test)
        assert registry.names() == [MODEL]


class TestService:
    @pytest.fixture
    def services(
        self, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[ModelServices]:
        made = ModelServices(registry.workspace, [sys.executable, "-I", "-c", STAND_IN])
        monkeypatch.setattr(serving, "services", lambda workspace: made)
        yield made
        made.stop(MODEL)

    def test_a_service_is_started_seen_after_a_reload_and_stopped(
        self, services: ModelServices, registry: Registry
    ):
        test = at("Service", version=2)
        port = next(field for field in test.number_input if field.label == "Port")
        test = press(port.set_value(8123).run(), "Serve version 2")
        assert not test.exception
        service = running(services)
        test = at("Service")
        assert "http://127.0.0.1:8123" in words(test)
        codes = [code.value for code in test.code]
        assert codes[0] == service.token and f"Bearer {service.token}" in codes[1]
        assert "answers with version 2" in words(test)
        rows = model_table(registry.entries(), services.all())
        assert [row["Service"] for row in rows] == ["running"]
        test = press(test, "Stop")
        assert services.of(MODEL) is None and "Serve version 1" in labels(test)

    def test_a_killed_service_is_shown_as_ended(self, services: ModelServices):
        services.start(MODEL, 1, 8124)
        os.kill(running(services).process.pid, signal.SIGKILL)
        test = at("Service")
        while "Stop" in labels(test):  # the process may need a moment to end
            test = test.run()
        assert test.warning and "Serve version 1" in labels(test)
        press(test, "Clear")
        assert services.of(MODEL) is None

    def test_a_service_ends_with_its_model(self, services: ModelServices, registry: Registry):
        services.start(MODEL, 1, 8125)
        press(at(), "Delete it")
        assert registry.names() == [] and services.of(MODEL) is None


class TestDrift:
    def shown(
        self, registry: Registry, monkeypatch: pytest.MonkeyPatch, drift: DriftReport | None
    ) -> AppTest:
        target = registry.workspace.root / "scored.csv"
        target.write_text("prediction,p(high)\nhigh,1.0\n")
        made = ScoringJobs(registry.workspace)
        job = ScoringJob("1", MODEL, "new.csv", target, state="done", rows=1, finished=9e9)
        made._jobs["1"] = replace(job, drift=drift.to_json() if drift else None)
        monkeypatch.setattr(use, "jobs", lambda: made)
        return at("Score a file")

    def test_columns_that_drift_are_named(
        self, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ):
        columns = (
            ColumnDrift("*job*", "category", "large", 0.8, None, 0.1, 0.0, 0.0),
            ColumnDrift("age", "number", "none", 0.01, 0.02, None, 0.0, 0.0),
        )
        test = self.shown(registry, monkeypatch, DriftReport(120, 600, columns))
        assert r"\*job\*" in test.warning[0].value
        table = next(each.value for each in test.dataframe if "PSI" in each.value)
        assert table["Drift"].tolist() == ["large", "none"]

    def test_no_drift_is_said_and_so_is_a_model_without_a_summary(
        self, registry: Registry, monkeypatch: pytest.MonkeyPatch
    ):
        column = ColumnDrift("age", "number", "none", 0.01, 0.02, None, 0.0, 0.0)
        test = self.shown(registry, monkeypatch, DriftReport(120, 600, (column,)))
        assert not test.warning and "No drift" in words(test)
        assert "not measured" in words(self.shown(registry, monkeypatch, None))


def test_a_model_without_a_summary_is_scored_without_drift(workspace: Workspace, tmp_path: Path):
    folder = tmp_path / "old"
    folder.mkdir()
    arguments = scoring_jobs._predict_arguments(
        folder, Path("a.csv"), Path("b.csv"), True, scoring_jobs.FileFormat()
    )
    assert "--drift" not in arguments
    (folder / "training.json").write_text(json.dumps({}))
    arguments = scoring_jobs._predict_arguments(
        folder, Path("a.csv"), Path("b.csv"), True, scoring_jobs.FileFormat()
    )
    assert arguments[-2:] == ["--drift", "b.csv.drift.json"]
