"""Killed at any moment of a node, a run resumes with one command and repeats nothing finished."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import engine as engine_package
from tests.faults.lab import DIAMOND, Lab, Outputs, Pipeline

Undisturbed = Callable[[Pipeline], Outputs]

EXECUTIONS = {
    "before-run": 1,
    "before-write": 2,
    "after-temporary": 2,
    "after-rename": 2,
    "after-record": 1,
}
"""How often the killed node's code may run in all: work that was recorded is not done again."""

QUICK = {("after-temporary", "both")}
CASES = [
    pytest.param(point, victim, marks=[] if (point, victim) in QUICK else pytest.mark.slow)
    for point in EXECUTIONS
    for victim in ("worker", "supervisor", "both")
]


@pytest.mark.parametrize(("point", "victim"), CASES)
def test_one_command_finishes_a_run_killed_at(
    point: str, victim: str, lab: Lab, undisturbed: Undisturbed
) -> None:
    killed = lab.run(DIAMOND, fault=f"{point}:left:{victim}")
    if victim == "worker":
        assert (killed.code, killed.json["state"]) == (1, "failed")
        assert killed.states == {
            "source": "done",
            "left": "failed",
            "right": "done",
            "join": "skipped",
        }
        assert "SIGKILL" in killed.message("left")
    else:
        assert (killed.code, killed.json["state"]) == (1, "interrupted")
        assert killed.states["left"] == "interrupted"
    lab.no_process_is_left()

    resumed = lab.sylva("retry" if victim == "worker" else "resume", "last", "--json")
    assert (resumed.code, resumed.json["state"]) == (0, "done")
    assert resumed.run == killed.run
    assert resumed.outputs == undisturbed(DIAMOND)
    executions = lab.executions()
    assert executions["left"] == EXECUTIONS[point]
    assert executions["join"] == 1
    assert all(executions[node] == 1 for node, state in killed.states.items() if state == "done")
    lab.nothing_is_left()


def test_every_crash_point_of_a_node_is_tested() -> None:
    engine = Path(engine_package.__file__).parent
    text = "".join(path.read_text() for path in engine.rglob("*.py"))
    assert set(re.findall(r'crash_point\("([\w-]+)", (?!"run")', text)) == set(EXECUTIONS)


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_how_to_go_on(lab: Lab) -> None:
    said = lab.sylva("run", lab.write(DIAMOND), fault="before-write:left:both")
    assert said.code == 1
    assert "interrupted" in said.out
    assert "sylva resume" in said.err
    assert lab.sylva("resume", "last").code == 0
