"""Runs are listed, watched and read through one API."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import engine.run_summaries
from engine.errors import BadInput, BadParam, InvalidPipeline
from engine.events import EventLog
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.plan import RunOptions, make_plan
from engine.processes import identify
from engine.run_state import NodeState, run_state
from engine.runs import NotResumable, Runs
from engine.values import Report
from engine.workspace import Workspace
from tests.expect import problems, refused
from tests.run_events import append_stored

GONE = {"pid": 1, "began": 1, "boot": "another"}
STARTED = {"attempt": 1, "key": "k", "process": GONE}
DONE: dict[str, Any] = {"key": "k", "seconds": 1.5, "outputs": {}}
ERROR = {"kind": "error", "message": "ValueError", "field": None, "traceback": ""}
AGAIN = {"supervisor": GONE, "todo": ["a"]}

Event = tuple[str, str | None, dict[str, Any]]


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(Workspace(tmp_path).create(), load_catalog())


def forest(*ranks: int, **sweep: Any) -> Pipeline:
    """A deep forest of boosted trees with so many workers per fit each."""
    learners = [{"kind": "mart", "ranks": each} for each in ranks]
    return Pipeline(
        name="Forest",
        nodes={
            "load": Node(type="load-data", params={"source": "sample:wine"}),
            "forest": Node(type="deep-forest", params={"learners": learners}, **sweep),
        },
        edges=(Edge.between("load.table", "forest.table"),),
    )


def chain(*names: str, name: str = "Chain") -> Pipeline:
    """Each node compares the reports of the one before it."""
    edges = [Edge.between(f"{first}.report", f"{then}.reports") for first, then in pairwise(names)]
    return Pipeline(
        name=name, nodes={each: Node(type="compare") for each in names}, edges=tuple(edges)
    )


def written(
    runs: Runs, pipeline: Pipeline, events: list[Event], supervisor: dict[str, Any] = GONE
) -> str:
    """Write the log of a run by hand; return its id."""
    run_id = runs.create(pipeline, RunOptions())
    with runs.log() as log:
        append_stored(log, run_id, "run-started", supervisor=supervisor, todo=list(pipeline.nodes))
        for kind, node, facts in events:
            append_stored(log, run_id, kind, node, **facts)
    return run_id


def ended_as(runs: Runs, state: str, name: str = "One") -> str:
    events: list[Event] = [
        ("started", "a", STARTED),
        ("finished", "a", DONE),
        ("run-finished", None, {"state": state}),
    ]
    return written(runs, chain("a", name=name), events)


def with_report(runs: Runs, report: Report) -> dict[str, Any]:
    return {**DONE, "outputs": {"report": runs.store.put("report", report).to_dict()}}


# Start and resume


@pytest.mark.parametrize(
    ("pipeline", "options", "error"),
    [
        (Pipeline(name="empty", nodes={}), RunOptions(), BadInput),
        (
            Pipeline(name="unknown", nodes={"a": Node(type="nonsense")}),
            RunOptions(),
            InvalidPipeline,
        ),
        (
            Pipeline(name="one", nodes={"a": Node(type="load-data")}),
            RunOptions(to=("b",)),
            BadInput,
        ),
    ],
)
def test_nothing_is_written_for_a_run_that_cannot_start(
    tmp_path: Path, pipeline: Pipeline, options: RunOptions, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Runs(Workspace(tmp_path / "new"), load_catalog()).start(pipeline, options)
    assert not (tmp_path / "new").exists()


def test_a_check_validates_the_params_of_each_node_once(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_catalog()["split"].params
    validate, texts = model.model_validate_json, []
    monkeypatch.setattr(
        model, "model_validate_json", lambda text: texts.append(text) or validate(text)
    )
    params = {"shares": [0.123, 0.877]} if "shares" in model.model_fields else {"seed": 987_654}
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:wine"}),
        "split": Node(type="split", params=params),
    }
    pipeline = Pipeline(name="P", nodes=nodes, edges=(Edge.between("load.table", "split.table"),))
    runs.require_valid(pipeline, RunOptions(to=("split",)))
    make_plan(pipeline, load_catalog(), RunOptions())
    assert len(texts) == 1


@pytest.mark.parametrize("state", ["done", "running"])
def test_a_run_that_is_done_or_live_is_not_resumed(runs: Runs, state: str) -> None:
    if state == "done":
        run_id = ended_as(runs, "done")
    else:
        run_id = written(runs, chain("a"), [], supervisor=identify().to_dict())
    with refused(NotResumable, naming=[run_id, state]) as refusal:
        runs.resume(run_id)
    assert refusal.value.state.state == state


def test_the_pipeline_of_a_started_run_is_not_parsed_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = chain("a", "b")
    run_id = runs.create(pipeline, RunOptions())
    monkeypatch.setattr(engine.run_summaries, "parse", lambda text: pytest.fail("parsed again"))
    assert runs.pipeline(run_id) == pipeline


# Lists


def test_the_newest_come_first_and_no_more_than_asked_for(runs: Runs) -> None:
    made = [ended_as(runs, "done", f"Run {number}") for number in range(5)]
    assert [run.id for run in runs.list(3)] == made[:1:-1]
    assert [run.id for run in runs.list()] == made[::-1]


@pytest.mark.parametrize(
    ("text", "states", "expected"),
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
def test_runs_are_found_by_text_and_states(
    runs: Runs, text: str, states: list[str], expected: list[str]
) -> None:
    ended_as(runs, "done", "Digits")
    ended_as(runs, "failed", "Digits")
    written(runs, chain("a", name="Fraud"), [("started", "a", STARTED)])
    assert [run.name for run in runs.list(10, text=text, states=states)] == expected
    assert [run.name for run in runs.list(1, text=text, states=states)] == expected[:1]


def test_a_finished_run_that_is_resumed_is_noticed(runs: Runs) -> None:
    run_id = ended_as(runs, "failed")
    assert runs.list()[0].state == "failed"
    with runs.log() as log:
        append_stored(log, run_id, "run-started", supervisor=GONE, todo=["a"])
        assert runs.list()[0].state == "interrupted"
        append_stored(log, run_id, "run-finished", state="done")
        assert runs.list()[0].state == "done"


# Reports


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([], ""),
        ([Report("probe", "P", {"value": 3})], "value 3"),
        ([Report("evaluation", "E", {"accuracy": 0.5})], "accuracy 0.5000"),
        (
            [
                Report("evaluation", "E", {"accuracy": 0.5}),
                Report("comparison", "C", {"best": "MART", "metric": "accuracy", "value": 0.9}),
            ],
            "best MART, accuracy 0.9000",
        ),
    ],
)
def test_a_comparison_is_the_headline_before_an_evaluation(
    runs: Runs, reports: list[Report], expected: str
) -> None:
    nodes = {f"n{number}": Node(type="compare") for number in range(max(1, len(reports)))}
    events: list[Event] = [
        ("finished", f"n{number}", with_report(runs, report))
        for number, report in enumerate(reports)
    ]
    run_id = written(
        runs, Pipeline(name="P", nodes=nodes), [*events, ("run-finished", None, {"state": "done"})]
    )
    assert runs.headline(run_id) == expected


def test_the_headline_of_a_run_is_read_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = ("finished", "a", with_report(runs, Report("evaluation", "E", {"accuracy": 0.5})))
    run_id = written(runs, chain("a"), [finished, ("run-finished", None, {"state": "done"})])
    assert runs.headline(run_id) == "accuracy 0.5000"
    monkeypatch.setattr(type(runs.store), "open", lambda *_: pytest.fail("read again"))
    assert runs.headline(run_id) == runs.list()[0].headline == "accuracy 0.5000"


def test_a_live_run_has_no_headline_yet(runs: Runs) -> None:
    finished = ("finished", "a", with_report(runs, Report("evaluation", "E", {"accuracy": 0.5})))
    run_id = written(runs, chain("a"), [finished], supervisor=identify().to_dict())
    assert runs.headline(run_id) == ""


def test_a_report_that_another_node_reads_is_not_a_final_one(runs: Runs) -> None:
    outputs = {name: with_report(runs, Report("probe", name, {})) for name in ("a", "b")}
    run_id = written(
        runs, chain("a", "b"), [("finished", name, outputs[name]) for name in ("a", "b")]
    )
    assert list(runs.reports(run_id)) == ["b"]
    digest = outputs["b"]["outputs"]["report"]["digest"]
    next((runs.workspace.objects / digest).iterdir()).write_text("damaged")
    assert list(runs.reports(run_id)) == []


# A run that is watched


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], []),
        ([("started", "a", STARTED), ("finished", "a", DONE)], [("a", "done", 1)]),
        ([("cached", "a", {**DONE, "why": "unchanged"})], [("a", "cached", 1)]),
        ([("started", "a", STARTED), ("failed", "a", {"error": ERROR})], [("a", "failed", 1)]),
        (
            [
                ("started", "a", STARTED),
                ("retrying", "a", {"why": "x", "error": ERROR}),
                ("started", "a", STARTED),
            ],
            [("a", "failed", 1), ("a", "interrupted", 1)],
        ),
        (
            [("started", "a", STARTED), ("run-finished", None, {"state": "cancelled"})],
            [("a", "cancelled", 1)],
        ),
        (
            [
                ("started", "a", STARTED),
                ("run-started", None, AGAIN),
                ("started", "a", STARTED),
                ("finished", "a", DONE),
            ],
            [("a", "interrupted", 1), ("a", "done", 2)],
        ),
    ],
)
def test_each_time_a_node_was_running_is_a_span(
    runs: Runs, events: list[Event], expected: list
) -> None:
    watcher = runs.watch(written(runs, chain("a"), events))
    watcher.refresh()
    assert [(span.node, span.state, span.attempt) for span in watcher.spans] == expected
    assert all(span.end is not None and span.end >= span.start for span in watcher.spans)


def test_refreshing_after_each_event_gives_the_same_as_refreshing_once(runs: Runs) -> None:
    run_id = written(runs, chain("a", "b"), [])
    steps: list[Event] = [
        ("started", "a", STARTED),
        ("progress", "a", {"fraction": 0.5, "text": "half"}),
        ("finished", "a", DONE),
        ("started", "b", STARTED),
        ("jobs", "b", {"jobs": [[["Layer 1", "Forest", "Fold 1"], "done", 1.0]]}),
        ("failed", "b", {"error": ERROR}),
        ("run-finished", None, {"state": "failed"}),
    ]
    often, once = runs.watch(run_id), runs.watch(run_id)
    with runs.log() as log:
        for kind, node, facts in steps:
            append_stored(log, run_id, kind, node, **facts)
            state = often.refresh()
            assert [entry.event.kind for entry in often.new_events][-1] == kind
        assert state == once.refresh() == run_state(log, log.run(run_id))
    assert often.spans == once.spans
    assert state.nodes["b"].subtasks["Layer 1", "Forest", "Fold 1"].state == "done"


def test_the_last_events_of_a_supervisor_that_has_just_ended_are_not_missed(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    run_id = written(runs, chain("a"), [], supervisor=identify(process.pid).to_dict())
    watcher = runs.watch(run_id)
    assert watcher.refresh().state == "running"
    read = EventLog.events

    def read_before_the_end(log: EventLog, *args: Any, **options: Any) -> Any:
        events = read(log, *args, **options)
        if (
            process.poll() is None
        ):  # between this look and the next, the supervisor finishes the run
            append_stored(log, run_id, "finished", "a", **DONE)
            append_stored(log, run_id, "run-finished", state="done")
            process.communicate(b"\n")
        return events

    monkeypatch.setattr(EventLog, "events", read_before_the_end)
    state = watcher.refresh()
    assert (state.state, state.nodes["a"].state) == ("done", "done")
    assert [entry.event.kind for entry in watcher.new_events] == ["finished", "run-finished"]


def test_a_run_can_be_watched_from_its_creation(runs: Runs) -> None:
    run_id = runs.create(chain("a"), RunOptions())
    watcher = runs.watch(run_id[:-1])
    assert (watcher.row.id, watcher.refresh().state) == (run_id, "starting")
    with runs.log() as log:
        append_stored(log, run_id, "run-started", **(AGAIN | {"supervisor": identify().to_dict()}))
    assert watcher.refresh().nodes == {"a": NodeState()}


SWEPT = {"grid": {"learners.0.ranks": [1, 3]}}


@pytest.mark.parametrize(
    ("pipeline", "field", "naming"),
    [(forest(1, 2), "learners.1.ranks", "2"), (forest(1, sweep=SWEPT), "learners.0.ranks", "3")],
)
def test_workers_that_see_a_storage_only_do_not_share_a_fit(
    runs: Runs, pipeline: Pipeline, field: str, naming: str
) -> None:
    cluster = RunOptions(executor="tcp://127.0.0.1:9")
    runs.require_valid(pipeline, cluster)
    with refused(InvalidPipeline, naming=naming) as caught:
        runs.start(pipeline, replace(cluster, storage="s3://bucket/runs"))
    problems(caught.value.problems, (BadParam, "forest", field))
    assert not runs.list()
