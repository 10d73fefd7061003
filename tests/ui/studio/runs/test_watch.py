"""A run that is looked at again and again tells the same as one that is read at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.catalogue import load_catalog
from engine.run_state import NodeState, RunState, run_state
from engine.workspace import Workspace
from tests.run_events import append_stored
from tests.ui.studio.runs.lab import DONE, ERROR, STARTED, Event, probes, written
from ui.studio.runs.watch import Watch, spotlight
from ui.studio.session import Studio

AGAIN = {"supervisor": {"pid": 1, "began": 1, "boot": "b"}, "todo": ["a"]}


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(Workspace(tmp_path).create(), load_catalog())


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], []),
        ([("started", "a", STARTED), ("finished", "a", DONE)], [("a", "done", 1)]),
        ([("cached", "a", {**DONE, "why": "unchanged"})], [("a", "cached", 1)]),
        ([("started", "a", STARTED), ("failed", "a", {"error": ERROR})], [("a", "failed", 1)]),
        (
            [("started", "a", STARTED), ("retrying", "a", {"why": "x", "error": ERROR}), ("started", "a", STARTED)],
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
def test_each_time_a_node_was_at_work_is_a_span(studio: Studio, events: list[Event], expected: list) -> None:
    run = written(studio, probes("a"), events)
    with studio.log() as log:
        watch = Watch(log.run(run))
        state = watch.look(log)
    spans = watch.timeline(live=state.live)
    assert [(span.node, span.state, span.attempt) for span in spans] == expected
    assert all(span.end is not None and span.end >= span.start for span in spans)


def test_looking_at_each_step_comes_to_the_same_as_looking_once(studio: Studio) -> None:
    run = written(studio, probes("a", "b"), [])
    steps: list[Event] = [
        ("started", "a", STARTED), ("progress", "a", {"fraction": 0.5, "text": "half"}), ("finished", "a", DONE),
        ("started", "b", STARTED), ("jobs", "b", {"jobs": [[["Layer 1", "Forest", "Fold 1"], "done", 1.0]]}),
        ("failed", "b", {"error": ERROR}), ("run-finished", None, {"state": "failed"}),
    ]  # fmt: skip
    with studio.log() as log:
        often, once = Watch(log.run(run)), Watch(log.run(run))
        for kind, node, facts in steps:
            append_stored(log, run, kind, node, **facts)
            seen = often.look(log)
        assert seen == once.look(log) == run_state(log, log.run(run))
        assert often.spans == once.spans
        assert seen.nodes["b"].subtasks["Layer 1", "Forest", "Fold 1"].state == "done"


def test_what_was_cut_off_at_work_is_looked_at_before_what_never_began() -> None:
    nodes = {"a": NodeState("done"), "b": NodeState("cancelled", started=1.0), "c": NodeState("cancelled")}
    assert spotlight(RunState("r", "n", 0.0, nodes=nodes)) == "b"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({"a": "done", "b": "failed", "c": "running"}, "b"),
        ({"a": "done", "b": "running", "c": "queued"}, "b"),
        ({"a": "done", "b": "done"}, "b"),
        ({}, None),
    ],
)
def test_what_failed_is_looked_at_first(states: dict[str, str], expected: str | None) -> None:
    nodes = {name: NodeState(state) for name, state in states.items()}
    assert spotlight(RunState("r", "n", 0.0, nodes=nodes)) == expected
