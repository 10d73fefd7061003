"""The Models page as Streamlit draws it, without a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import load_catalog
from engine.pipeline import Node, Pipeline
from engine.pipeline_library import Library
from engine.plan import RunOptions
from engine.runs import Runs
from engine.workspace import Workspace
from nodes.models.model_card import EvaluationSummary
from tests.ui.studio.models.conftest import MODEL, ROWS
from tests.ui.studio.models.test_scoring_jobs import STAND_IN
from tests.ui.studio.models.test_use import document
from tests.ui.studio.runs.lab import labels, press, words
from tests.waiting import until
from ui.studio import links, upload
from ui.studio.models import page as models_page
from ui.studio.models import use
from ui.studio.models.page import evaluation_text, metric_tiles
from ui.studio.models.scoring_jobs import ScoringJobs
from ui.studio.session import Studio


def studio_of(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Studio:
    made = Studio(workspace, load_catalog())
    for module in (models_page, use, upload):
        monkeypatch.setattr(module, "studio", lambda: made)
    return made


@pytest.fixture
def jobs(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> ScoringJobs:
    """The page over a workspace with a model; scoring is done by a stand-in."""
    studio_of(workspace, monkeypatch)
    made = ScoringJobs(workspace, [sys.executable, "-I", "-c", STAND_IN])
    monkeypatch.setattr(use, "jobs", lambda: made)
    return made


def _page() -> None:
    from ui.studio.models.page import page

    page()


def at(model: str = "") -> AppTest:
    test = AppTest.from_function(_page, default_timeout=30)
    if model:
        test.query_params["model"] = model
    return test.run()


def choose(test: AppTest, file: str) -> AppTest:
    return next(box for box in test.selectbox if box.label == "File").set_value(file).run()


def uploader(test: AppTest, label: str) -> Any:
    return next(each for each in test.file_uploader if each.label == label)


def ended(jobs: ScoringJobs) -> None:
    until(lambda: not any(job.running for job in jobs.all()))


def test_without_models_the_page_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    studio_of(Workspace(tmp_path).create(), monkeypatch)
    test = at()
    assert not test.exception
    assert "Save model" in words(test)


def test_models_are_listed_with_what_is_known_of_them(jobs: ScoringJobs):
    table = at().dataframe[0].value
    assert table[["Name", "Kind", "Trained on"]].values.tolist() == [[MODEL, "Random forest", 120]]
    assert table["Size"][0] > 1000


def test_a_model_shows_its_card(jobs: ScoringJobs):
    test = at(MODEL)
    assert not test.exception
    assert all(
        each in words(test) for each in ("Random forest", "2 classes", "4 features", "120 rows")
    )
    assert "Delete it" in labels(test) and "Run" not in labels(test)


def test_the_rows_that_a_model_was_evaluated_on_are_named_in_words(jobs: ScoringJobs):
    evaluation = EvaluationSummary("evaluate", "Deep forest", "s1.test", {})
    split = Pipeline(name="P", nodes={"s1": Node(type="split", label="Hold out")})
    text = evaluation_text(evaluation, split)
    assert all(each in text for each in ("Deep forest", "Test rows", "“Hold out”"))
    assert "s1" not in text
    assert evaluation_text(evaluation, None) == "Deep forest, evaluated in its run."


@pytest.mark.parametrize(("threshold", "title"), [(0.3, "F1 at threshold"), (None, "Mean F1")])
def test_a_tile_says_what_f1_goes_by(threshold: float | None, title: str):
    judged = EvaluationSummary(
        "evaluate", "Deep forest", "split.test", {"auc": 0.9, "f1": 0.8, "threshold": threshold}
    )
    assert [(name, value) for name, value, _ in metric_tiles(judged)][:2] == [
        ("AUC", "0.900"),
        (title, "0.800"),
    ]


def test_ways_lead_to_run_layers_and_pipeline(
    jobs: ScoringJobs, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    pipeline = Library(workspace).create(document())
    run = Runs(workspace).create(document(), RunOptions(pipeline_id=pipeline))
    card = {"run": run, "node": "save", "saved": 1.0}
    (workspace.root / "models" / MODEL / "card.json").write_text(json.dumps(card))
    went: list[tuple[str, ...]] = []
    for name in ("to_run", "to_inspect", "to_build"):
        monkeypatch.setattr(links, name, lambda *where, name=name: went.append((name, *where)))
    test = at(MODEL)
    for button in ("Run", "Inspect layers", "Pipeline"):
        press(test, button)
    assert went == [("to_run", run), ("to_inspect", run, "learn"), ("to_build", pipeline)]


@pytest.mark.parametrize("model", ["none", "../data", "a\0b", "<img src=x>"])
def test_an_address_of_no_model_says_what_there_is(jobs: ScoringJobs, model: str):
    test = at(model)
    assert not test.exception and len(test.error) == 1 and MODEL in test.error[0].value
    test = press(test, "All models")
    assert not test.error and "model" not in test.query_params


def test_a_damaged_model_says_so_and_can_be_deleted(jobs: ScoringJobs, workspace: Workspace):
    (workspace.root / "models" / MODEL / "model.json").write_text("{")
    test = at(MODEL)
    assert not test.exception and len(test.error) == 1 and MODEL in test.error[0].value
    test = press(test, "Delete it")
    assert not (workspace.root / "models" / MODEL).exists() and "deleted" in test.toast[0].value


def test_columns_that_do_not_fit_are_named_before_anything_starts(
    jobs: ScoringJobs, workspace: Workspace
):
    (workspace.data / "weather.csv").write_text("age,rain\n1,2\n")
    test = choose(at(MODEL), "weather.csv")
    assert not test.exception
    assert "'job'" in test.error[0].value and "'since'" in test.error[0].value
    assert next(button for button in test.button if button.label == "Score").disabled


def test_a_file_is_scored_and_its_result_shown_also_to_another_tab(
    jobs: ScoringJobs, workspace: Workspace
):
    (workspace.data / "quick.csv").write_text(ROWS)
    jobs.command[-1] = STAND_IN.replace(
        'open(beside, "w").close()', 'open(beside, "w").write("age,prediction\\n1,low\\n")'
    )
    test = choose(at(MODEL), "quick.csv")
    assert "all 4 columns" in words(test)
    test = press(test, "Score")
    assert not test.exception and len(jobs.all()) == 1
    ended(jobs)
    for tab in (test.run(), at(MODEL)):
        assert not tab.exception
        assert "2,000 rows in" in words(tab) and "exports/quick by people.csv" in words(tab)
        assert tab.dataframe[1].value.columns.tolist() == ["prediction", "age"]
        assert "Download the result" in [button.label for button in tab.download_button]
    test = press(test, "Clear")
    assert jobs.all() == [] and (workspace.root / "exports" / "quick by people.csv").exists()


def test_a_running_job_shows_how_far_it_is_and_is_cancelled(
    jobs: ScoringJobs, workspace: Workspace
):
    (workspace.data / "slow.csv").write_text(ROWS)
    press(choose(at(MODEL), "slow.csv"), "Score")
    until(lambda: jobs.all()[0].rows >= 2)
    test = at(MODEL)
    assert not test.exception and "Cancel" in labels(test)
    press(test, "Cancel")
    ended(jobs)
    assert "cancelled" in words(at(MODEL))


def test_a_file_is_added_right_there_and_chosen(jobs: ScoringJobs, workspace: Workspace):
    test = at(MODEL)
    test = uploader(test, "Add a table").set_value(("new.csv", ROWS.encode(), "text/csv")).run()
    assert not test.exception
    assert (workspace.data / "new.csv").read_text() == ROWS
    assert next(box for box in test.selectbox if box.label == "File").value == "new.csv"
    assert "all 4 columns" in words(test)


def test_calls_are_shown_as_code(jobs: ScoringJobs, monkeypatch: pytest.MonkeyPatch):
    test = AppTest.from_function(_page, default_timeout=30)
    test.query_params["model"] = MODEL
    test.session_state[f"model-{MODEL}-tabs"] = "How to use it"
    test = test.run()
    assert not test.exception
    codes = [code.value for code in test.code]
    assert [code.split()[0] for code in codes] == ["sylva", "sylva", "curl", "import"]


def test_a_model_is_deleted_after_being_asked(jobs: ScoringJobs, workspace: Workspace):
    test = press(at(MODEL), "Delete it")
    assert not test.exception
    assert not (workspace.root / "models" / MODEL).exists() and "model" not in test.query_params
    assert "Save model" in words(test)


def test_deleting_a_model_ends_what_is_being_scored_with_it(
    jobs: ScoringJobs, workspace: Workspace
):
    (workspace.data / "slow.csv").write_text("the stand-in takes its time over it")
    job = jobs.start(MODEL, "slow.csv")
    press(at(MODEL), "Delete it")
    ended(jobs)
    found = jobs.get(job.id)
    assert found is not None and found.stopping and not found.target.exists()
