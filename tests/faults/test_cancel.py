"""A cancel ends all of a run within two seconds, whatever its nodes do; the run can be resumed."""

from __future__ import annotations

import signal
import time

import pytest

from tests.faults.lab import Lab, diamond, duration_of
from tests.waiting import until

slow = pytest.mark.slow


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("sleep", marks=slow),
        "stubborn",
        pytest.param("spawn", marks=slow),
        pytest.param("fork", marks=slow),
    ],
)
def test_a_cancelled_node_is_gone_within_two_seconds_and_the_run_resumes(
    action: str, lab: Lab
) -> None:
    command = lab.start_run(diamond(action=action, amount=600, first=1))
    lab.begun("left")
    if action in ("spawn", "fork"):
        until(lab.children_of_workers)
    command_takes = duration_of(lambda: lab.sylva("runs"))
    asked = time.monotonic()
    cancelled = lab.sylva("cancel", "last", "--json")
    assert (cancelled.code, cancelled.json["state"]) == (0, "cancelled")
    answer = lab.answer(command)
    lab.nothing_is_left()
    assert time.monotonic() - asked < 2 + 2 * command_takes
    assert (answer.code, answer.json["state"]) == (1, "cancelled")
    assert answer.states["left"] == "cancelled"

    assert lab.resume().code == 0
    assert lab.executions()["left"] == 2
    assert lab.executions()["source"] == 1


@slow
def test_ctrl_c_cancels(lab: Lab) -> None:
    command = lab.start("run", lab.write(diamond(action="sleep", amount=600, first=1)))
    lab.begun("left")
    lab.kill(command.pid, with_signal=signal.SIGINT)
    answer = lab.answer(command)
    assert answer.code not in (0, 2)
    assert "cancelled" in answer.out
    assert "sylva resume" in answer.err
    lab.nothing_is_left()


@slow
@pytest.mark.parametrize("moment", ["before the run is noted", "after the run is noted"])
def test_ctrl_c_while_the_run_is_starting_cancels_too(moment: str, lab: Lab) -> None:
    command = lab.start_run(diamond(action="sleep", amount=600))
    lab.supervisor()
    if moment == "after the run is noted":
        until(lambda: list(lab.workspace.glob("runs/*/*")))
    lab.kill(command.pid, with_signal=signal.SIGINT)
    assert lab.answer(command, timeout=10).code not in (0, 2)
    lab.no_process_is_left()


@slow
def test_a_run_that_waits_to_try_again_can_be_cancelled(lab: Lab) -> None:
    command = lab.start_run(diamond(action="raise", settings={"retries": 10}))
    lab.begun("left", times=2)
    assert lab.sylva("cancel", "last").code == 0
    assert lab.answer(command).json["state"] == "cancelled"


@slow
def test_a_run_that_is_over_cannot_be_cancelled(lab: Lab) -> None:
    assert lab.run(diamond()).code == 0
    refused = lab.sylva("cancel", "last")
    assert refused.code == 1
    assert "done" in refused.err
