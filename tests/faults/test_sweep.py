"""Sweeps in real processes: branches run as nodes do, fail alone, and go on alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Sylva
from tests.faults.lab import Lab, Pipeline, diamond
from tests.waiting import until

FOREST: Pipeline = {
    "format": "sylva-pipeline",
    "version": 1,
    "name": "Flowers",
    "nodes": {
        "load": {"type": "load-data", "params": {"source": "sample:iris"}},
        "split": {"type": "split"},
        "forest": {"type": "random-forest", "params": {"trees": 3}},
        "predict": {"type": "predict"},
        "evaluate": {"type": "evaluate"},
    },
    "edges": [
        {"from": "load.table", "to": "split.table"},
        {"from": "split.train", "to": "forest.table"},
        {"from": "forest.model", "to": "predict.model"},
        {"from": "split.test", "to": "predict.table"},
        {"from": "predict.predictions", "to": "evaluate.predictions"},
    ],
}


def swept(document: Pipeline, node: str, **sweep: Any) -> Pipeline:
    about = {**document["nodes"][node], "sweep": sweep}
    return {**document, "nodes": {**document["nodes"], node: about}}


def branching(**left: Any) -> Pipeline:
    """A diamond whose left node has a branch without an action and one that acts the first time."""
    action = left.pop("action")
    return swept(diamond(first=1, **left), "left", grid={"action": ["none", action]})


@pytest.mark.slow
def test_a_sweep_asked_for_on_the_command_line_ends_in_a_leaderboard_and_is_cached(
    lab: Lab,
) -> None:
    plain = lab.run(FOREST)
    words = ("--sweep", "forest.trees=3,9", "--sweep", "forest.max_depth=1,null")
    done = lab.run(FOREST, *words)
    assert done.code == 0
    (report,) = done.json["reports"].values()
    assert {(row["name"], row["trees"], row["max_depth"]) for row in report["rows"]} == {
        ("Random forest trees=3 depth=1", 3, 1),
        ("Random forest trees=3 depth=none", 3, None),
        ("Random forest trees=9 depth=1", 9, 1),
        ("Random forest trees=9 depth=none", 9, None),
    }
    # The branch that is what the plain pipeline was had its result already.
    assert done.nodes["forest-2"]["key"] == plain.nodes["forest"]["key"]
    assert [name for name, state in done.states.items() if state == "cached"] == [
        "load",
        "split",
        "forest-2",
        "predict-2",
    ]
    assert done.json["settings"] == ["forest.trees=3,9", "forest.max_depth=1,null"]
    assert set(lab.run(FOREST, *words).states.values()) == {"cached"}
    text = lab.sylva("show", "last").out
    assert "leaderboard" in text
    assert "Random forest trees=9 depth=1" in text
    assert '"max_depth": 1' in lab.sylva("show", "last", "forest-1").out


def test_what_cannot_be_swept_is_refused_before_anything_runs(lab: Lab) -> None:
    sylva, file = Sylva(lab.workspace), lab.write(FOREST)
    refused = sylva.json(
        "run", file, "--sweep", "forest.trees=0,many", "--sweep", "split.seeds=1", code=2
    )
    assert [(problem["node"], problem["field"]) for problem in refused["problems"]] == [
        ("split", "sweep.grid.seeds"),
        ("forest", "sweep.grid.trees"),
        ("forest", "sweep.grid.trees"),
    ]
    assert "'tree'" in sylva.json("run", file, "--sweep", "tree.x=1", code=2)["error"]
    assert "NODE.PARAM=VALUE" in sylva.json("run", file, "--sweep", "forest", code=2)["error"]
    assert not (lab.workspace / "runs").exists()


def test_files_that_a_branch_would_not_find_are_reported_beforehand(lab: Lab) -> None:
    words = ("--sweep", "load.source=sample:iris,gone.csv")
    (problem,) = Sylva(lab.workspace).json("run", lab.write(FOREST), *words, code=2)["problems"]
    assert (problem["node"], problem["field"]) == ("load", "source")


def test_a_branch_that_fails_leaves_the_others_and_is_retried_alone(lab: Lab) -> None:
    failed = lab.run(branching(action="exit", amount=3))
    assert failed.code == 1
    assert failed.states == {
        "source": "done",
        "left-1": "done",
        "left-2": "failed",
        "right": "done",
        "join": "skipped",
    }
    assert lab.resume().code == 0
    assert lab.executions() == {"source": 1, "left-1": 1, "left-2": 2, "right": 1, "join": 1}


@pytest.mark.slow
def test_a_run_killed_in_one_branch_resumes_there(lab: Lab) -> None:
    command = lab.start_run(branching(action="sleep", amount=600))
    for node in ("left-1", "left-2", "right"):
        lab.begun(node)
    until(lambda: len(lab.workers()) == 1)
    lab.kill(lab.supervisor())
    assert lab.answer(command).json["state"] == "interrupted"
    assert lab.resume().states["join"] == "done"
    assert lab.executions() == {"source": 1, "left-1": 1, "left-2": 2, "right": 1, "join": 1}
    lab.nothing_is_left()


def test_the_run_keeps_the_pipeline_as_it_was_written(lab: Lab) -> None:
    from engine.events import EventLog
    from engine.workspace import Workspace

    document = branching(action="none", amount=0) | {"name": "As written"}
    document["nodes"]["left"]["sweep"]["grid"] = {"value": [1, 2]}
    lab.run(document)
    with EventLog(Workspace(Path(lab.workspace))) as log:
        (row,) = log.runs(1)
    kept = json.loads(row.document)
    assert list(kept["nodes"]) == ["source", "left", "right", "join"]
    assert kept["nodes"]["left"]["sweep"] == {"grid": {"value": [1, 2]}}
