"""Many runs are listed quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalogue import load_catalog
from engine.events import EventLog, RunFinished, RunRow
from engine.run_state import RunState
from engine.values import Report
from engine.workspace import Workspace
from tests.run_events import append_stored
from tests.ui.studio.runs.lab import DONE, GONE, STARTED, probes, written
from ui.studio.runs.history import History, final_reports, headline_of
from ui.studio.session import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(Workspace(tmp_path).create(), load_catalog())


def ended_as(studio: Studio, state: str, name: str = "One") -> str:
    events = [("started", "a", STARTED), ("finished", "a", DONE), ("run-finished", None, {"state": state})]
    return written(studio, probes("a", name=name), events)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], ""),
        ([Report("probe", "P", {"value": 3})], ""),
        ([Report("evaluation", "E", {"accuracy": 0.5})], "Accuracy: 50.0 %"),
        (
            [
                Report("evaluation", "E", {"accuracy": 0.5}),
                Report("comparison", "C", {"best": "MART", "metric": "accuracy", "value": 0.9}),
            ],
            "MART: Accuracy 90.0 %",
        ),
    ],
)
def test_the_most_telling_report_is_the_headline(reports: list[Report], expected: str) -> None:
    assert headline_of({str(number): report for number, report in enumerate(reports)}) == expected


def test_a_report_that_another_node_gathers_is_not_the_runs_last_word(studio: Studio) -> None:
    outputs = {name: {"report": studio.store.put("report", Report("probe", name, {})).to_dict()} for name in ("a", "b")}
    done = [("finished", name, {**DONE, "outputs": outputs[name]}) for name in ("a", "b")]
    run = written(studio, probes("a", "b"), done)
    with studio.log() as log:
        row = log.run(run)
        state = _state(log, row)
    assert list(final_reports(studio.store, row, state)) == ["b"]
    next((studio.workspace.objects / outputs["b"]["report"]["digest"]).iterdir()).write_text("damaged")
    assert list(final_reports(studio.store, row, state)) == []


def _state(log: EventLog, row: RunRow) -> RunState:
    from engine.run_state import run_state

    return run_state(log, row)


def test_the_newest_come_first_and_no_more_than_asked_for(studio: Studio) -> None:
    runs = [ended_as(studio, "done", f"Run {number}") for number in range(5)]
    history = History(studio.store)
    with studio.log() as log:
        found, more = history.newest(log, limit=3)
        assert ([run.id for run in found], more) == (runs[:1:-1], True)
        found, more = history.newest(log, limit=5)
        assert ([run.id for run in found], more) == (runs[::-1], False)


@pytest.mark.parametrize(
    ("words", "states", "expected"),
    [
        ("", [], ["Fraud", "Digits", "Digits"]),
        ("digits", [], ["Digits", "Digits"]),
        ("DIG its", [], ["Digits", "Digits"]),
        ("digits", ["failed"], ["Digits"]),
        ("", ["interrupted"], ["Fraud"]),
        ("nothing", [], []),
        ("%", [], []),
    ],
)
def test_runs_are_found_by_words_and_states(studio: Studio, words: str, states: list[str], expected: list[str]) -> None:
    ended_as(studio, "done", "Digits")
    ended_as(studio, "failed", "Digits")
    written(studio, probes("a", name="Fraud"), [("started", "a", STARTED)])
    with studio.log() as log:
        found, _ = History(studio.store).newest(log, words=words, states=states)
    assert [run.name for run in found] == expected


def test_a_finished_run_that_goes_on_is_noticed(studio: Studio) -> None:
    run = ended_as(studio, "failed")
    history = History(studio.store)
    with studio.log() as log:
        assert history.newest(log)[0][0].state == "failed"
        append_stored(log, run, "run-started", supervisor=GONE, todo=["a"])
        assert history.newest(log)[0][0].state == "interrupted"
        log.append(run, RunFinished(state="done"))
        assert history.newest(log)[0][0].state == "done"


def test_the_headline_of_a_run_is_read_once(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    report = studio.store.put("report", Report("evaluation", "E", {"accuracy": 0.5})).to_dict()
    finished = ("finished", "a", {**DONE, "outputs": {"report": report}})
    written(studio, probes("a"), [finished, ("run-finished", None, {"state": "done"})])
    history = History(studio.store)
    with studio.log() as log:
        (run,), _ = history.newest(log)
        assert history.headline(log, run) == "Accuracy: 50.0 %"
        monkeypatch.setattr("ui.studio.runs.history.final_reports", lambda *_: pytest.fail("read again"))
        assert history.headline(log, run) == "Accuracy: 50.0 %"
