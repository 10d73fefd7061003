"""Every state shown is derived from the log."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from engine.errors import SylvaError
from engine.events import EventLog, NodeStarted, RunFinished, RunStarted, UnknownRun
from engine.processes import ProcessId, identify
from engine.run_state import RunState, Subtask, run_state
from engine.runs import Runs
from engine.workspace import Workspace
from tests.expect import refused
from tests.run_events import append_stored

GONE = {"pid": 1, "began": 1, "boot": "another"}
DONE = {"key": "k", "seconds": 1.5, "outputs": {}}
ERROR = {"kind": "crashed", "message": "crashed", "field": None}


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(Workspace(tmp_path).create())


def state_after(
    log: EventLog, *events: tuple, supervisor: dict | None = None, todo: str = "ab"
) -> RunState:
    run = log.create_run("test", "{}", {})
    append_stored(
        log, run, "run-started", supervisor=supervisor or identify().to_dict(), todo=list(todo)
    )
    for kind, node, facts in events:
        append_stored(log, run, kind, node, **facts)
    return run_state(log, log.run(run))


STARTED = {"attempt": 1, "key": "k", "process": GONE}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], "queued"),
        ([("started", STARTED)], "running"),
        ([("started", STARTED), ("progress", {"fraction": 0.5, "text": "half"})], "running"),
        ([("started", STARTED), ("finished", DONE)], "done"),
        ([("cached", DONE | {"why": "unchanged"})], "cached"),
        ([("started", STARTED), ("failed", {"error": ERROR})], "failed"),
        ([("started", STARTED), ("retrying", {"why": "again", "error": ERROR})], "queued"),
        ([("skipped", {"why": "needs b"})], "skipped"),
        ([("started", STARTED), ("stopped", {})], "cancelled"),
        ([("cached", DONE | {"why": ""}), ("reopened", {"why": "damaged"})], "queued"),
    ],
)
def test_a_node_is_in_the_state_its_last_event_put_it_in(
    log: EventLog, events: list, expected: str
) -> None:
    state = state_after(log, *((kind, "a", facts) for kind, facts in events))
    assert state.state == "running"
    assert state.nodes["a"].state == expected


def test_a_run_without_a_living_supervisor_was_interrupted(log: EventLog) -> None:
    state = state_after(log, ("started", "a", STARTED), supervisor=GONE)
    assert state.state == "interrupted"
    assert {node.state for node in state.nodes.values()} == {"interrupted"}


def test_nodes_a_cancelled_run_never_came_to_are_cancelled(log: EventLog) -> None:
    run = state_after(log, ("started", "a", STARTED), ("stopped", "a", {})).id
    log.append(run, RunFinished(state="cancelled"))
    assert {node.state for node in run_state(log, log.run(run)).nodes.values()} == {"cancelled"}


def test_a_finished_run_stays_finished_whoever_is_alive(log: EventLog) -> None:
    run = state_after(
        log, ("started", "a", STARTED), ("finished", "a", DONE), supervisor=GONE, todo="a"
    ).id
    log.append(run, RunFinished(state="done"))
    assert run_state(log, log.run(run)).state == "done"


def test_a_second_attempt_queues_only_what_is_left(log: EventLog) -> None:
    run = state_after(log, ("started", "a", STARTED), ("finished", "a", DONE), supervisor=GONE).id
    log.append(run, RunStarted(supervisor=identify(), todo=("b",)))
    state = run_state(log, log.run(run))
    assert (state.nodes["a"].state, state.nodes["b"].state, state.attempt) == ("done", "queued", 2)


def test_executions_are_counted_over_all_attempts(log: EventLog) -> None:
    state = state_after(
        log,
        ("started", "a", STARTED),
        ("retrying", "a", {"why": "", "error": ERROR}),
        ("started", "a", STARTED),
    )
    assert state.nodes["a"].executions == 2


def test_a_process_number_used_again_is_not_the_process(log: EventLog) -> None:
    other = replace(identify(), began=identify().began - 1)
    assert state_after(log, supervisor=other.to_dict()).state == "interrupted"


def test_events_written_together_appear_at_once(log: EventLog, tmp_path: Path) -> None:
    run = log.create_run("test", "{}", {})
    reader = EventLog(Workspace(tmp_path))
    with log.together():
        log.append(run, NodeStarted(node="a"))
        assert reader.events(run) == []
    assert len(reader.events(run)) == 1


def test_a_run_is_found_by_the_beginning_of_its_id_and_as_the_last(log: EventLog) -> None:
    first, second = log.create_run("one", "{}", {}), log.create_run("two", "{}", {})
    assert log.run(first).name == "one"
    assert log.run("last").id == second
    assert log.run(first[:-1] + first[-1]).id == first


def test_a_run_that_cannot_be_told_is_refused(log: EventLog) -> None:
    runs = [log.create_run(name, "{}", {}) for name in ("one", "two")]
    with refused(UnknownRun, naming=["'nope'", log.workspace.root]):
        log.run("nope")
    with refused(UnknownRun, naming=["'2'", *runs]):
        log.run("2")


def test_only_a_run_at_work_can_be_cancelled(log: EventLog) -> None:
    with refused(SylvaError, naming=["interrupted"]):
        Runs(log.workspace).cancel(state_after(log, supervisor=GONE).id)


def test_a_dead_process_has_no_beginning() -> None:
    assert identify(2**22 + 1) == ProcessId(2**22 + 1, 0, identify().boot)


def test_the_jobs_of_a_node_are_known_and_an_interrupted_attempt_leaves_only_what_it_finished(
    log: EventLog,
) -> None:
    first, second = ["Layer 1", "mart", "Fold 1"], ["Layer 1", "mart", "Fold 2"]
    heard = [
        ("started", "a", STARTED),
        ("jobs", "a", {"jobs": [[first, "waiting", None], [second, "waiting", None]]}),
        ("jobs", "a", {"jobs": [[first, "done", 0.5], [second, "running", None]]}),
    ]
    running = state_after(log, *heard).nodes["a"].subtasks
    assert running == {
        tuple(first): Subtask("done", 0.5, 1),
        tuple(second): Subtask("running", None, 1),
    }
    again = state_after(
        log, *heard, ("started", "a", STARTED), ("jobs", "a", {"jobs": [[first, "kept", 0.5]]})
    )
    assert again.nodes["a"].subtasks == {tuple(first): Subtask("reused", 0.5, 2)}


def test_parts_of_a_result_are_known_before_the_node_finishes_and_outlive_an_interrupted_attempt(
    log: EventLog,
) -> None:
    heard = [
        ("started", "a", STARTED),
        ("part", "a", {"part": "layer-1", "data": {"score": 0.5, "kept": True}}),
        ("part", "a", {"part": "layer-2", "data": {"score": 0.4, "kept": False}}),
        ("part", "a", {"part": "layer-2", "data": {"score": 0.4, "kept": True}}),
    ]
    parts = {"layer-1": {"score": 0.5, "kept": True}, "layer-2": {"score": 0.4, "kept": True}}
    assert state_after(log, *heard).nodes["a"].partial_results == parts
    for end in (
        ("failed", "a", {}),
        ("retrying", "a", {}),
        ("reopened", "a", {}),
        ("started", "a", STARTED),
    ):
        assert state_after(log, *heard, end).nodes["a"].partial_results == parts
    damaged = (
        ("part", "a", {"part": 7, "data": {}}),
        ("part", "a", {"part": "layer-3", "data": [1]}),
    )
    assert state_after(log, *heard, *damaged).nodes["a"].partial_results == parts


def test_the_last_run_of_a_pipeline_is_found_among_others(log: EventLog) -> None:
    mine = [log.create_run("same name", "{}", {"pipeline": "mine"}) for _ in range(2)]
    log.create_run("same name", "{}", {"pipeline": "other"})
    log.create_run("same name", "{}", {})
    found = log.last_run_of("mine")
    assert found is not None and found.id == mine[-1]
    assert log.last_run_of("none") is None


def damage(log: EventLog, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(log.workspace.database)) as database, database:
        database.execute(statement)


@pytest.mark.parametrize("text", ["'{'", "'[]'", "x'ff00'", "CAST(x'7bff' AS TEXT)", "''"])
def test_one_damaged_row_costs_no_other(log: EventLog, text: str) -> None:
    good, bad = (
        log.create_run("good", "{}", {"pipeline": "p"}),
        log.create_run("bad", "{}", {"pipeline": "p"}),
    )
    damage(log, f"UPDATE runs SET request = {text}, document = {text} WHERE id = '{bad}'")
    last = log.last_run_of("p")
    assert last is not None and last.id == good
    assert log.pipeline_ids() == {"p"}
    assert {row.id: row.options for row in log.runs()} == {good: {"pipeline": "p"}, bad: {}}
    log.append(good, RunStarted(supervisor=identify(), todo=("a",)))
    append_stored(log, good, "started", "a", **STARTED)
    append_stored(log, good, "finished", "a", **DONE)
    damage(log, f"UPDATE events SET data = {text} WHERE kind = 'started'")
    state = run_state(log, log.run(good))
    assert (state.state, state.nodes["a"].state) == ("running", "done")
    damage(log, f"UPDATE runs SET created = 'never' WHERE id = '{bad}'")
    assert [row.id for row in log.runs()] == [good]


@pytest.mark.parametrize(
    "data", [{}, {"todo": 5, "supervisor": {"pid": "x"}, "state": 3, "outputs": [], "jobs": [1]}]
)
@pytest.mark.parametrize(
    "kind",
    [
        "started",
        "progress",
        "jobs",
        "part",
        "retrying",
        "finished",
        "cached",
        "failed",
        "skipped",
        "stopped",
        "reopened",
    ],
)
def test_facts_that_are_missing_are_unknown(log: EventLog, kind: str, data: dict) -> None:
    run = log.create_run("test", "{}", {})
    append_stored(log, run, "run-started", **data)
    append_stored(log, run, kind, "a", **data)
    append_stored(log, run, "run-finished", **data)
    state = run_state(log, log.run(run))
    assert state.state == "interrupted"
    assert set(state.nodes) == {"a"}


def test_a_node_whose_result_the_log_has_lost_does_not_count_as_done(log: EventLog) -> None:
    state = state_after(
        log, ("started", "a", STARTED), ("finished", "a", {"key": "k", "seconds": 1.0})
    )
    assert state.nodes["a"].state == "interrupted"


def test_a_log_that_is_damaged_while_it_is_open_is_said_plainly(log: EventLog) -> None:
    run = log.create_run("test", "{}", {})
    damage(log, "DROP TABLE events")
    for use in (
        lambda: log.events(run),
        lambda: log.append(run, RunFinished()),
        lambda: log.remove_runs([run]),
    ):
        with refused(SylvaError, naming=[log.workspace.database, "no such table: events"]):
            use()
    damage(log, "DROP TABLE runs")
    for use in (log.runs, log.pipeline_ids, lambda: log.create_run("test", "{}", {})):
        with refused(SylvaError, naming=[log.workspace.database, "no such table: runs"]):
            use()


def test_a_run_whose_id_is_taken_gets_another(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([UUID(int=0)] * 2 + [UUID(int=5 << 112)])
    monkeypatch.setattr("engine.events.uuid4", lambda: next(numbers))
    monkeypatch.setattr("engine.events.time.strftime", lambda *_: "20260101-000000")
    assert log.create_run("one", "{}", {}) == "20260101-000000-0000"
    assert log.create_run("two", "{}", {}) == "20260101-000000-0005"
    assert [row.name for row in log.runs()] == ["two", "one"]
