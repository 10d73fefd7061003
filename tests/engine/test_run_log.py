"""The run log stays small, and whoever reads it sees the same, whenever they look."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SylvaError
from engine.events import (
    EventLog,
    Failure,
    NodeCached,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeReopened,
    NodeRetrying,
    NodeSkipped,
    NodeStarted,
    NodeStopped,
    PartialResult,
    RunEvent,
    RunFinished,
    RunStarted,
    SubtaskUpdate,
    event_from_dict,
)
from engine.executors import NodeTask
from engine.pipeline import Pipeline
from engine.pipeline_file import parse
from engine.plan import RunOptions
from engine.processes import ProcessId, identify
from engine.run_state import (
    RunState,
    Subtask,
    apply_events,
    mark_interrupted_if_dead,
    run_state,
    updates_left_behind,
)
from engine.run_summaries import RunSummary
from engine.runs import Runs
from engine.scheduler import Scheduler
from engine.store import Store
from engine.supervisor import _condense
from engine.values import Report as ReportValue
from engine.workspace import Workspace
from tests.engine.lab import Lab
from tests.faults.lab import pipeline

GONE = ProcessId(1, 1, "another")
OLD_LOG = Path(__file__).with_name("old_log.sql")
PATHS = [("layer 1", "rf", "fold 1"), ("layer 1", "rf", "fold 2")]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog(Workspace(tmp_path).create()) as made:
        yield made


def folded(log: EventLog, run: str) -> RunState:
    row = log.run(run)
    return apply_events(RunState(row.id, row.name, row.created), log.events(run))


def kinds(log: EventLog, run: str) -> list[str]:
    return [entry.event.kind for entry in log.events(run)]


# What a node reports on the way


def talk(node: str, executions: int = 1) -> list[RunEvent]:
    """All that a node reports on the way, one after the other."""
    states = [("waiting", None), ("running", None), ("done", 0.5 * executions)]
    said: list[RunEvent] = [NodeStarted(node=node, process=identify())]
    for number, place in enumerate(PATHS):
        said += [
            SubtaskUpdate(node=node, subtasks=((place, state, seconds),))
            for state, seconds in states
        ]
        said += [
            NodeProgress(node=node, fraction=number / 2, text=f"fold {number}"),
            PartialResult(node=node, name=f"part {number}", data={"score": number}),
        ]
    return said


class Talking:
    """An executor whose nodes report what a test says, one report at a time or all at once."""

    free = 1

    def __init__(
        self, lab: Lab, endings: list[str], at_once: bool, after: Callable[[], None]
    ) -> None:
        self.lab, self.endings, self.at_once, self.after = lab, endings, at_once, after
        self.reports: list[RunEvent] = []

    def submit(self, job: NodeTask, upcoming: object) -> None:
        ending = self.endings.pop(0)
        end: RunEvent = NodeFailed(node=job.node, error=Failure("error", "the test said so"))
        if ending == "finished":
            self.lab.store.record(self.lab.executor._result(job))
            end = NodeFinished(node=job.node)
        self.reports = [*talk(job.node), end]

    def wait(self, timeout: float | None) -> list[RunEvent]:
        self.after()
        count = len(self.reports) if self.at_once else 1
        now, self.reports = self.reports[:count], self.reports[count:]
        return now

    def wake(self) -> None:
        pass

    def stop(self) -> list[str]:
        return ["a"] if self.reports else []

    def close(self) -> None:
        pass


def one_node() -> Pipeline:
    return parse(json.dumps(pipeline(a={})))


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("endings", [["finished"], ["failed"], ["failed", "finished"]])
def test_what_was_said_on_the_way_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endings: list[str], at_once: bool
) -> None:
    """Readers that saw none, some or all of it get the same state as one who reads at the end."""
    monkeypatch.setattr("engine.scheduler.BACK_OFF_SECONDS", 0.0)
    lab = Lab(tmp_path)
    readers: list[RunState] = []

    def look() -> None:
        row = lab.log.run("last")
        readers[:] = [
            apply_events(state, lab.log.events(row.id, state.last_event)) for state in readers
        ]
        readers.append(
            apply_events(RunState(row.id, row.name, row.created), lab.log.events(row.id))
        )

    lab.executor.executed.clear()
    executor = Talking(lab, list(endings), at_once, look)
    made = lab.scheduler(one_node(), RunOptions(retries=len(endings) - 1))
    scheduler = Scheduler(made.plan, made.options, made.run_id, lab.store, lab.log, executor, {})
    lab.log.append(scheduler.run_id, RunFinished(state=scheduler.run()))
    look()
    assert len(readers) >= 2
    assert all(state == readers[-1] for state in readers)
    told = kinds(lab.log, scheduler.run_id)
    assert told.count("progress") == 0
    assert told.count("jobs") == len(endings)
    assert told.count("part") == 2 * len(endings)
    node = readers[-1].nodes["a"]
    assert node.subtasks == {place: Subtask("done", 0.5, len(endings)) for place in PATHS}
    assert node.executions == len(endings)


def test_a_node_at_work_has_one_progress_in_the_log(log: EventLog) -> None:
    run = log.create_run("test", "{}", {})
    log.append(run, NodeStarted(node="a", try_number=1, key="k", process=GONE))
    entry, seen = None, 0
    for step in range(5):
        entry = log.append(
            run, NodeProgress(node="a", fraction=step / 5), replaces=[entry] if entry else []
        )
        (newest,) = log.events(run, max(seen, 1))
        assert newest.event == NodeProgress(node="a", fraction=step / 5)
        assert newest.seq > seen
        seen = newest.seq
    assert kinds(log, run) == ["started", "progress"]


def test_what_replaces_an_event_is_there_or_the_event_is(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails half-way leaves the log as it was."""
    run = log.create_run("test", "{}", {})
    first = log.append(run, NodeProgress(node="a", fraction=0.1))
    monkeypatch.setattr("engine.events._row", lambda entry: (entry.run, None, None, None, None))
    with pytest.raises(sqlite3.IntegrityError):
        log.append(run, NodeProgress(node="a", fraction=0.2), replaces=[first])
    assert [entry.event for entry in log.events(run)] == [NodeProgress(node="a", fraction=0.1)]


def interrupted(log: EventLog) -> str:
    """A run whose supervisor was killed while a node was at work."""
    run = log.create_run("test", "{}", {})
    log.append(run, RunStarted(supervisor=GONE, todo=("a", "b")))
    for node in ("a", "b"):
        log.append(run, NodeStarted(node=node, try_number=1, key="k", process=GONE))
    for place in PATHS:
        for state, seconds in (("waiting", None), ("running", None), ("done", 1.0)):
            log.append(
                run, SubtaskUpdate(node="a", subtasks=((place, state, seconds),)), moment=100.0
            )
    log.append(run, NodeProgress(node="a", fraction=0.5, text="half"), moment=101.0)
    log.append(run, NodeProgress(node="b", fraction=0.5, text="half"), moment=102.0)
    return run


def test_what_a_killed_supervisor_left_is_put_together_when_the_run_goes_on(log: EventLog) -> None:
    run = interrupted(log)
    before = folded(log, run)
    _condense(log, run, log.events(run))
    assert kinds(log, run).count("jobs") == 1
    assert [entry.time for entry in log.events(run) if entry.event.kind == "jobs"] == [101.0]
    after = folded(log, run)
    assert after.nodes["a"].subtasks == before.nodes["a"].subtasks
    assert apply_events(before, log.events(run, before.last_event)).nodes == before.nodes
    events = log.events(run)
    _condense(log, run, events)  # killed again before it began: nothing is left to be done
    assert log.events(run) == events
    log.append(run, RunStarted(supervisor=GONE, todo=("a", "b")))
    carried = apply_events(before, log.events(run, before.last_event))
    assert replace(carried, last_event=0) == replace(folded(log, run), last_event=0)


def test_a_node_that_ended_left_nothing_in_passing(log: EventLog) -> None:
    run = interrupted(log)
    log.append(run, NodeStopped(node="a"))
    assert list(updates_left_behind(log.events(run))) == ["b"]


# Old logs


@pytest.fixture
def old_log(tmp_path: Path) -> Iterator[EventLog]:
    """A log that an earlier version wrote: with all progress of nodes and without summaries."""
    workspace = Workspace(tmp_path).create()
    database = sqlite3.connect(workspace.database)
    database.executescript(OLD_LOG.read_text())
    database.close()
    with EventLog(workspace) as made:
        yield made


def test_an_old_log_opens_and_reads(old_log: EventLog) -> None:
    found = list(summaries(old_log))
    assert [(run.name, run.state) for run in found] == [
        ("Old forest", "interrupted"),
        ("Old failure", "failed"),
        ("Old log", "done"),
    ]
    good, failed = (run_state(old_log, old_log.run(run.id)) for run in (found[2], found[1]))
    assert {node.state for node in good.nodes.values()} == {"done"}
    assert (failed.nodes["slow"].state, failed.nodes["join"].state) == ("failed", "skipped")
    assert kinds(old_log, found[2].id).count("progress") > 1


def test_an_old_run_goes_on_with_its_jobs(old_log: EventLog) -> None:
    row = old_log.run("last")
    before = folded(old_log, row.id).nodes["forest"]
    assert {job.state for job in before.subtasks.values()} == {"reused", "done"}
    _condense(old_log, row.id, old_log.events(row.id))
    after = folded(old_log, row.id).nodes["forest"]
    assert after.subtasks == before.subtasks
    assert (
        after.partial_results
        == before.partial_results
        == {"layer 1": {"score": 0.6}, "layer 2": {"score": 0.7}}
    )


def test_every_event_of_an_old_log_is_known_and_written_in_the_same_words(
    old_log: EventLog,
) -> None:
    rows = old_log._db.execute("SELECT seq, kind, node, data FROM events").fetchall()
    entries = {entry.seq: entry for row in old_log.runs() for entry in old_log.events(row.id)}
    assert len(rows) == len(entries) > 20
    for seq, kind, node, data in rows:
        written = json.loads(json.dumps(entries[seq].event.to_dict()))
        stored = json.loads(data)
        if "error" in stored:
            stored["error"] = Failure(**stored["error"]).to_dict()  # written with all its fields
        assert (written.pop("kind"), written.pop("node", None), written) == (kind, node, stored)


PROCESS = identify()
OUTPUTS = {"report": {"type": "report", "digest": "d", "files": {"report.json": {"size": 1}}}}
EVENTS: list[RunEvent] = [
    RunStarted(supervisor=PROCESS, todo=("a", "b")),
    RunFinished(state="done"),
    NodeStarted(node="a", try_number=2, key="k", process=PROCESS),
    NodeProgress(node="a", fraction=0.5, text="half"),
    SubtaskUpdate(node="a", subtasks=((PATHS[0], "done", 0.5), (PATHS[1], "waiting", None))),
    PartialResult(node="a", name="layer-1", data={"score": 0.5, "learners": [{"name": "MART 1"}]}),
    NodeFinished(node="a", key="k", seconds=1.5, outputs=OUTPUTS),
    NodeCached(node="a", key="k", seconds=1.5, outputs=OUTPUTS, why="unchanged"),
    NodeFailed(node="a", error=Failure("corrupt", "damaged", None, "trace", "digest")),
    NodeRetrying(node="a", why="again", error=Failure("crashed", "crashed")),
    NodeSkipped(node="a", why="needs b"),
    NodeStopped(node="a"),
    NodeReopened(node="a", why="damaged"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_an_event_survives_the_way_between_processes_and_into_the_log(
    log: EventLog, event: RunEvent
) -> None:
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event
    run = log.create_run("test", "{}", {})
    log.append(run, event)
    assert [entry.event for entry in log.events(run)] == [event]


# Summaries


def summaries(log: EventLog) -> list[RunSummary]:
    return Runs(log.workspace).list()


def ended(log: EventLog, state: str = "done", report: dict[str, Any] | None = None) -> str:
    run = log.create_run("test", json.dumps(pipeline(a={})), {"settings": ["a.value=3"]})
    log.append(run, RunStarted(supervisor=GONE, todo=("a",)))
    if report:
        log.append(run, NodeFinished(node="a", key="k", seconds=1.0, outputs={"report": report}))
    log.append(run, RunFinished(state=state))
    return run


def stored_report(log: EventLog) -> dict[str, Any]:
    report = ReportValue("evaluation", "E", {"accuracy": 0.5}, rows=[{"class": "a"}])
    return Store(log.workspace).put("report", report).to_dict()


def test_a_saved_summary_is_used_until_the_run_goes_on(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ended(log, "failed")
    (first,) = summaries(log)
    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "events", lambda *_, **__: pytest.fail("read again"))
        assert list(summaries(log)) == [first]
    log.append(run, RunStarted(supervisor=identify(), todo=("a",)))
    (now,) = summaries(log)
    assert (now.state, now.live, now.finished) == ("running", True, None)
    log.append(run, RunFinished(state="done"))
    assert [each.state for each in summaries(log)] == ["done"]


def test_a_summary_does_not_hide_that_a_supervisor_died(log: EventLog) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run = log.create_run("test", "{}", {})
    log.append(run, RunStarted(supervisor=identify(process.pid), todo=("a",)))
    assert [each.state for each in summaries(log)] == ["running"]
    process.communicate(b"\n")
    for _ in range(2):  # the second time it was saved
        assert [each.state for each in summaries(log)] == ["interrupted"]
    assert mark_interrupted_if_dead(folded(log, run)).state == "interrupted"


def test_a_summary_has_the_headline_of_the_report_and_reads_it_once(log: EventLog) -> None:
    run = ended(log, report=stored_report(log))
    summary = Runs(log.workspace).summary(run)
    assert summary and summary.report
    assert (summary.report.headline, summary.report.rows) == ({"accuracy": 0.5}, [])
    assert summary.overrides == ("a.value=3",)
    for folder in log.workspace.objects.iterdir():
        (folder / ReportValue.FILE).unlink()
    assert list(summaries(log)) == [summary]


def test_a_report_that_cannot_be_read_is_looked_for_again(log: EventLog) -> None:
    report = stored_report(log)
    ended(log, report=report)
    file = log.workspace.objects / report["digest"] / ReportValue.FILE
    text = file.read_text()
    file.write_text("damaged")
    assert [each.report for each in summaries(log)] == [None]
    file.write_text(text)
    assert [each.report is not None for each in summaries(log)] == [True]


@pytest.mark.parametrize("facts", ["{", "[]", '{"state": 7}', '{"state": "done"}'])
def test_a_damaged_summary_is_made_again(log: EventLog, facts: str) -> None:
    run = ended(log, "failed")
    (good,) = summaries(log)
    log._db.execute("UPDATE summaries SET facts = ?", (facts,))
    assert list(summaries(log)) == [good]
    log._db.execute("UPDATE summaries SET seq = 999999 WHERE run = ?", (run,))
    assert list(summaries(log)) == [good]


def test_summaries_are_listed_when_they_cannot_be_saved(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(log)

    def refuse(*_: object) -> None:
        raise SylvaError("the disk is full")

    monkeypatch.setattr(EventLog, "save_summaries", refuse)
    assert [each.state for each in summaries(log)] == ["done"]


# Its size


def filled(log: EventLog, runs: int = 30) -> list[str]:
    made = []
    for _ in range(runs):
        run = log.create_run("test", "{}", {})
        log.append(run, PartialResult(node="a", name="p", data={"text": "x" * 30_000}))
        log.append(run, RunFinished(state="done"))
        made.append(run)
    return made


def test_a_log_gives_the_space_of_forgotten_runs_back(log: EventLog) -> None:
    runs = filled(log)
    list(summaries(log))
    log.shrink()
    before = log.size()
    log.remove_runs(runs[1:])
    with EventLog(log.workspace) as reader:
        log.shrink()
        assert log.size() < before / 5
        assert [row.id for row in reader.runs()] == runs[:1]
        assert len(reader.events(runs[0])) == 2
    assert log._db.execute("SELECT run FROM summaries").fetchall() == [(runs[0],)]


def test_a_log_is_shrunk_beside_a_reader_and_written_on(log: EventLog) -> None:
    runs = filled(log)
    with EventLog(log.workspace) as reader, EventLog(log.workspace) as writer:
        log.remove_runs(runs[1:])
        reader._db.execute("BEGIN")
        assert len(reader.runs()) == 1
        log._db.execute("PRAGMA busy_timeout = 100")
        log.shrink()
        assert len(reader.runs()) == 1
        reader._db.execute("COMMIT")
        writer.append(runs[0], RunStarted(supervisor=GONE))
        assert kinds(reader, runs[0]) == ["part", "run-finished", "run-started"]


def test_a_log_that_cannot_be_shrunk_now_stays_as_it_is(log: EventLog) -> None:
    runs = filled(log)
    log.remove_runs(runs[1:15])
    (pages,) = log._db.execute("PRAGMA page_count").fetchone()
    with EventLog(log.workspace) as blocker:
        blocker._db.execute("BEGIN IMMEDIATE")
        log._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(SylvaError, match="could not be made smaller"):
            log.shrink()
    assert log._db.execute("PRAGMA page_count").fetchone() == (pages,)
    assert len(log.runs()) == len(runs) - 14
