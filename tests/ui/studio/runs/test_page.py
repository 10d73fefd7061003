"""The Runs page: history, comparison, one run; real runs of small nodes."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SylvaError
from engine.events import RunFinished, RunStarted
from engine.node_types import NodeCatalog
from engine.plan import RunOptions
from engine.run_state import NodeState, RunState
from engine.run_summaries import RunSummary
from engine.supervisor_starter import SupervisorStarter
from engine.values import Report
from engine.workspace import Workspace
from tests.run_events import append_stored
from tests.ui.studio.runs.lab import (
    DONE,
    ERROR,
    STARTED,
    ended,
    labels,
    press,
    probes,
    runs_page,
    started,
    state_of,
    words,
    written,
)
from ui.studio.previews.reports import result_text
from ui.studio.runs import node_view as run_node
from ui.studio.runs import page as runs
from ui.studio.runs import run_view
from ui.studio.runs.remarks import Remark, read_remark
from ui.studio.session import Studio

ROOT = Path(__file__).parents[4]
PLUGIN = ROOT / "tests" / "plugin"
TRACE = "SYLVA_TEST_TRACE"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which each execution of a probe leaves its node's name."""
    return tmp_path_factory.mktemp("traces") / "trace"


@pytest.fixture(scope="module")
def starter(traces: Path) -> Iterator[SupervisorStarter]:
    """One warm process for all real runs; it knows the probes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(PLUGIN), str(ROOT)]))
        patch.setenv(TRACE, str(traces))
        made = SupervisorStarter(preload=True)
    yield made
    made.close()


@pytest.fixture
def studio(
    tmp_path: Path, starter: SupervisorStarter, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> Studio:
    monkeypatch.syspath_prepend(PLUGIN)
    from sylva_test_nodes import PROBE

    made = Studio(Workspace(tmp_path).create(), NodeCatalog([PROBE]))
    made.runs.starter = starter
    for module in (runs, run_view, run_node):
        monkeypatch.setattr(module, "studio", lambda: made)
    traces.write_text("")
    return made


# History


def test_an_empty_history_says_what_to_do(studio: Studio) -> None:
    test = runs_page()
    assert not test.exception
    assert "press Run" in test.info[0].value


def test_the_history_lists_runs_newest_first(studio: Studio) -> None:
    report = studio.store.put("report", Report("evaluation", "E", {"accuracy": 0.5})).to_dict()
    finished = ("finished", "a", {**DONE, "outputs": {"report": report}})
    first = written(
        studio, probes("a", name="First"), [finished, ("run-finished", None, {"state": "done"})]
    )
    second = written(studio, probes("a", name="<b>Second</b>"), [("started", "a", STARTED)])
    table = runs_page().dataframe[0].value
    assert second not in str(table) and first not in str(table), "ids are not for the screen"
    assert list(table["Pipeline"]) == ["<b>Second</b>", "First"]
    assert list(table["State"]) == ["! interrupted", "✓ done"]
    assert list(table["Result"]) == ["", "Accuracy: 50.0 %"]


def test_the_history_is_filtered_by_words_and_states_and_shows_more_on_demand(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PAGE_LENGTH", 2)
    for number in range(3):
        written(
            studio, probes("a", name=f"Run {number}"), [("run-finished", None, {"state": "failed"})]
        )
    test = runs_page()
    assert list(test.dataframe[0].value["Pipeline"]) == ["Run 2", "Run 1"]
    press(test, "Show more")
    assert list(test.dataframe[0].value["Pipeline"]) == ["Run 2", "Run 1", "Run 0"]
    test.text_input(key="runs-words").set_value("run 1").run()
    assert list(test.dataframe[0].value["Pipeline"]) == ["Run 1"]
    test.text_input(key="runs-words").set_value("").run()
    test.button_group(key="runs-states").set_value(["done"]).run()
    assert not test.dataframe
    assert len(test.info) == 1


def ticked(*rows: int, cells: list[tuple[int, str]] | None = None) -> dict[str, Any]:
    return {"selection": {"rows": list(rows), "columns": [], "cells": cells or []}}


def test_one_chosen_run_is_opened_and_two_are_compared(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        written(studio, probes("a", name="Probe"), [("run-finished", None, {"state": "done"})])
        for _ in range(2)
    ]
    key = f"runs-table-{made[1]}"
    compared: list[list[str]] = []
    monkeypatch.setattr("ui.studio.links.to_compare", compared.append)
    test = runs_page()
    test.session_state[key] = ticked(0, 1)
    test.run()
    press(test, "Compare")
    assert compared == [made[::-1]]
    test.session_state[key] = ticked(1)
    test.run()
    press(test, "Open run")
    assert test.query_params["run"] == made[0]
    assert "Probe" in test.subheader[0].value


def test_a_click_into_the_table_opens_the_run(studio: Studio) -> None:
    run = written(studio, probes("a"), [("run-finished", None, {"state": "done"})])
    test = runs_page()
    test.session_state[f"runs-table-{run}"] = ticked(cells=[(0, "Pipeline")])
    test.run()
    assert test.query_params["run"] == run


def test_a_run_has_tags_and_a_note_by_which_it_is_found(studio: Studio) -> None:
    done = [("run-finished", None, {"state": "done"})]
    run, other = (written(studio, probes("a", name="Probe"), done) for _ in range(2))
    test = runs_page(run=run)
    test.multiselect(key=f"run-tags-{run}").set_value([" Baseline ", ""]).run()
    note = "Best so far\n<b>keep</b>"
    test.text_area(key=f"run-note-{run}").set_value(note).run()
    assert not test.exception
    assert "Baseline" in words(test) and note in words(test)
    history = runs_page()
    table = history.dataframe[0].value
    assert list(map(list, table["Tags"])) == [[], ["Baseline"]]
    first, second = table["Note"]
    assert first == "" and "Best so far" in second
    for text, count in (("baseline", 1), ("so far", 1), ("probe", 2), (other, 1), ("nothing", 0)):
        history.text_input(key="runs-words").set_value(text).run()
        assert sum(len(each.value) for each in history.dataframe) == count
    assert "Baseline" in runs_page(run=other).multiselect(key=f"run-tags-{other}").options


@pytest.mark.parametrize("stored", ["", "{", "[1]", '{"tags": 7, "note": null}'])
def test_a_damaged_remark_is_an_empty_one(studio: Studio, stored: str) -> None:
    run = written(studio, probes("a"), [("run-finished", None, {"state": "done"})])
    folder = studio.workspace.run_folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "remark.json").write_text(stored)
    assert read_remark(studio.workspace, run) == Remark()
    assert not runs_page(run=run).exception


# One run


@pytest.mark.parametrize(
    ("errors", "named"),
    [
        ([], ["failed"]),
        ([ERROR], ["First", ERROR["message"]]),
        ([ERROR, ERROR, ERROR], ["First", ERROR["message"], "2 more"]),
    ],
)
def test_the_cause_of_a_failure_names_the_node(
    errors: list[dict[str, Any]], named: list[str]
) -> None:
    nodes = {f"n{number}": NodeState("failed", error=error) for number, error in enumerate(errors)}
    said = run_view.cause(RunState("r", "n", 0.0, nodes=nodes), {"n0": "First", "n1": "Second"})
    assert all(each in said for each in named) and "Second" not in said


@pytest.mark.parametrize(
    "wanted", ["no-such-run", "../../etc/passwd", "' OR 1=1 --", "![x](http://y)", "a" * 5000]
)
def test_a_run_that_is_not_there_is_said_plainly(studio: Studio, wanted: str) -> None:
    test = runs_page(run=wanted)
    assert not test.exception
    assert len(test.error) == 1 and not test.selectbox
    assert "![x](" not in test.error[0].value
    press(test, "All runs")
    assert "run" not in test.query_params


def test_a_finished_run_shows_its_result_and_what_each_node_did(studio: Studio) -> None:
    run = studio.runs.start(probes("a", "b", name="Two *probes*", a={"value": 2}), RunOptions())
    ended(studio, run)
    test = runs_page(run=run)
    assert not test.exception
    assert test.subheader[0].value == r"Two \*probes\*"
    assert test.selectbox(key=f"run-node-{run}").value == "b"
    assert "probe does none" in test.code[0].value
    assert (
        "Stop" not in labels(test) and "Retry" not in labels(test) and "Resume" not in labels(test)
    )
    assert run in words(test)
    test.selectbox(key=f"run-node-{run}").set_value("a").run()
    settings = test.dataframe[-1].value
    assert [list(settings[column]) for column in settings] == [["Value"], ["2"]]


def test_a_failed_run_tells_the_cause_first_and_a_retry_runs_nothing_twice(
    studio: Studio, traces: Path
) -> None:
    pipeline = probes("a", "b", "c", b={"action": "raise", "first": 1})
    run = studio.runs.start(pipeline, RunOptions())
    assert ended(studio, run).state == "failed"
    test = runs_page(run=run)
    assert not test.exception
    assert test.selectbox(key=f"run-node-{run}").value == "b"
    assert test.error[0].value.replace("\\", "").startswith("Probe 2: ")
    assert "Traceback" not in test.error[0].value
    assert len(test.error) == 1, "the error is shown once"
    assert test.expander[0].label == "Traceback" and not test.expander[0].proto.expanded
    press(test, "Retry")
    assert not test.exception
    assert ended(studio, run, attempt=2).state == "done"
    test.run()
    assert not test.error
    assert "attempt 2" in words(test)
    assert sorted(traces.read_text().split()) == ["a", "b", "b", "c"]


def test_a_run_is_stopped_and_resumed(studio: Studio, traces: Path) -> None:
    run = studio.runs.start(probes("a", "b", b={"action": "gate"}), RunOptions())
    started(studio, run, "b")
    test = runs_page(run=run)
    assert not test.exception
    assert "Stop" in labels(test)
    press(test, "Stop")
    assert ended(studio, run).state == "cancelled"
    test.run()
    assert "Stop" not in labels(test)
    Path(f"{traces}.open").touch()
    press(test, "Resume")
    assert ended(studio, run, attempt=2).state == "done"
    assert not test.run().exception
    assert sorted(traces.read_text().split()) == ["a", "b", "b"]


def test_a_run_whose_supervisor_died_is_interrupted_and_can_be_resumed(studio: Studio) -> None:
    run = written(studio, probes("a"), [("started", "a", STARTED)])
    test = runs_page(run=run)
    press(test, "Resume")
    assert ended(studio, run, attempt=2).state == "done"


def test_a_run_that_is_at_work_already_is_not_started_again(studio: Studio) -> None:
    run = written(studio, probes("a"), [("started", "a", STARTED)])
    test = runs_page(run=run)
    with studio.runs.log() as log:
        from engine.processes import identify

        log.append(run, RunStarted(supervisor=identify(), todo=("a",)))
    press(test, "Resume")
    assert not test.exception
    with studio.runs.log() as log:
        assert [entry.event.kind for entry in log.events(run)].count("run-started") == 2, (
            "the two written here"
        )


def test_the_jobs_inside_a_node_are_shown(studio: Studio) -> None:
    def at(fold: int, state: str, seconds: float | None) -> list[Any]:
        return [["Layer 1", "Random forest", f"Fold {fold}"], state, seconds]

    events = [
        ("started", "a", STARTED),
        ("jobs", "a", {"jobs": [at(fold, "waiting", None) for fold in (1, 2, 3)]}),
        ("jobs", "a", {"jobs": [at(1, "kept", None), at(2, "done", 1.5), at(3, "running", None)]}),
    ]
    run = written(studio, probes("a"), events, alive=True)
    test = runs_page(run=run)
    assert not test.exception
    assert "2 of 3" in test.text[0].value and "Layer 1" in test.text[0].value
    with studio.runs.log() as log:
        append_stored(log, run, "jobs", "a", jobs=[at(3, "done", 2.0)])
    test.run()
    assert "3 of 3" in test.text[0].value


def test_what_the_user_chose_stays_chosen_when_something_fails(studio: Studio) -> None:
    run = written(studio, probes("a", "b"), [("started", "a", STARTED)], alive=True)
    test = runs_page(run=run)
    assert test.selectbox(key=f"run-node-{run}").value == "a"
    test.selectbox(key=f"run-node-{run}").set_value("b").run()
    with studio.runs.log() as log:
        append_stored(log, run, "failed", "a", error=ERROR)
    assert test.run().selectbox(key=f"run-node-{run}").value == "b"


def test_a_pipeline_of_another_version_is_shown_without_its_graph(studio: Studio) -> None:
    with studio.runs.log() as log:
        run = log.create_run("Old", '{"format": "sylva-pipeline", "version": 99}', {})
        log.append(run, RunFinished(state="done"))
    test = runs_page(run=run)
    assert not test.exception
    assert "Another version" in test.warning[0].value
    assert state_of(studio, run).state == "done"


def test_the_exact_pipeline_of_a_run_is_opened(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(run_view, "open_pipeline", opened.append)
    run = written(studio, probes("a"), [("run-finished", None, {"state": "done"})])
    press(runs_page(run=run), "Open this pipeline")
    assert opened == [run]


# Damage


def test_a_run_that_cannot_be_started_is_interrupted_at_once(studio: Studio) -> None:
    class Refusing:
        def start(self, workspace: Workspace, run: str) -> None:
            raise SylvaError("no process left")

    studio.runs.starter = Refusing()
    with pytest.raises(SylvaError):
        studio.runs.start(probes("a"), RunOptions())
    with studio.runs.log() as log:
        (row,) = log.runs()
    assert state_of(studio, row.id).state == "interrupted"


def test_a_damaged_run_costs_no_other_its_place_in_the_history(studio: Studio) -> None:
    written(studio, probes("a", name="Good"), [("run-finished", None, {"state": "done"})])
    bad = written(studio, probes("a", name="Bad"), [])
    with contextlib.closing(sqlite3.connect(studio.workspace.database)) as database, database:
        database.execute("UPDATE runs SET request = '{', document = '{' WHERE id = ?", (bad,))
        database.execute("UPDATE events SET data = '{}' WHERE run = ?", (bad,))
    test = runs_page()
    assert not test.exception
    assert list(test.dataframe[0].value["Pipeline"]) == ["Bad", "Good"]
    assert list(test.dataframe[0].value["State"]) == ["! interrupted", "✓ done"]
    alone = runs_page(run=bad)
    assert not alone.exception
    assert alone.warning and not alone.selectbox


@pytest.mark.parametrize("alone", [False, True])
def test_a_log_that_breaks_while_the_page_is_open_is_said_plainly(
    studio: Studio, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = written(studio, probes("a"), [("run-finished", None, {"state": "done"})])

    def refuse(*_: object, **__: object) -> None:
        raise SylvaError("The run log cannot be used.")

    monkeypatch.setattr(run_view, "_draw_head", refuse)
    monkeypatch.setattr(runs, "_draw_table", refuse)
    test = runs_page(run=run) if alone else runs_page()
    assert [error.value for error in test.error] == ["The run log cannot be used."]
    assert not test.exception


# Which node is shown first


def test_a_node_that_was_interrupted_is_shown_before_one_that_never_began() -> None:
    nodes = {
        "a": NodeState("done"),
        "b": NodeState("cancelled", started=1.0),
        "c": NodeState("cancelled"),
    }
    assert run_view.spotlight(RunState("r", "n", 0.0, nodes=nodes)) == "b"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"a": "done", "b": "failed", "c": "running"}, "b"),
        ({"a": "done", "b": "running", "c": "queued"}, "b"),
        ({"a": "done", "b": "done"}, "b"),
        ({}, None),
    ],
)
def test_a_failed_node_is_shown_first(states: dict[str, str], expected: str | None) -> None:
    nodes = {name: NodeState(state) for name, state in states.items()}
    assert run_view.spotlight(RunState("r", "n", 0.0, nodes=nodes)) == expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, ""),
        (Report("probe", "P", {"value": 3}), ""),
        (Report("evaluation", "E", {"accuracy": 0.5}), "Accuracy: 50.0 %"),
        (
            Report("comparison", "C", {"best": "MART", "metric": "accuracy", "value": 0.9}),
            "MART: Accuracy 90.0 %",
        ),
    ],
)
def test_a_list_shows_the_main_figure_of_a_report(report: Report | None, expected: str) -> None:
    run = RunSummary("r", "n", 0.0, "done", 0.0, 1.0, 1, report=report)
    assert result_text(run) == expected


def test_workers_of_a_cluster_are_listed_with_what_they_do(studio: Studio) -> None:
    fit, next_fit = ["Layer 1", "MART 1", "Fold 1"], ["Layer 1", "MART 1", "Fold 2"]
    about = {"threads": 2, "machine": "b", "memory": 3500}
    worker, lost = "tcp://10.0.0.2:1", "tcp://10.0.0.3:1"
    run = written(
        studio,
        probes("a"),
        [
            ("worker", None, {"address": worker, "state": "admitted", **about}),
            ("worker", None, {"address": lost, "state": "admitted", **about}),
            ("started", "a", STARTED),
            (
                "jobs",
                "a",
                {"jobs": [[fit, "done", 1.0, worker], [next_fit, "running", None, lost]]},
            ),
            ("worker", None, {"address": lost, "state": "lost", **about}),
            ("jobs", "a", {"jobs": [[next_fit, "running", None, worker]]}),
        ],
        alive=True,
    )
    rows = run_view.worker_rows(state_of(studio, run), {"a": "Forest"})
    assert [row["State"] for row in rows] == ["admitted", "lost"]
    assert [row["Now"] for row in rows] == ["Forest · Layer 1 · MART 1 · Fold 2", ""]
    assert [row["Fits done"] for row in rows] == [1, 0]
    assert {(row["Threads"], row["Machine"], row["Memory"]) for row in rows} == {(2, "b", "3.5 GB")}
