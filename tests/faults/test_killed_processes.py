"""Killing supervisor, fork server, worker, command line or all loses nothing and leaves none."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.faults.lab import Lab, Outputs, Pipeline, diamond, pipeline
from tests.waiting import until

Undisturbed = Callable[[Pipeline], Outputs]


def asleep(action: str = "sleep", **settings: float) -> Pipeline:
    """A diamond whose left node, the first time, sleeps for longer than any test."""
    return diamond(action=action, amount=600, first=1, settings=settings)


def only_left_runs(lab: Lab) -> list[int]:
    """Wait until all else that can be done is done; the processes of the node that sleeps."""
    lab.begun("left")
    lab.begun("right")
    until(lambda: len(lab.workers()) == 1)
    return lab.workers()


@pytest.mark.parametrize("action", ["sleep", pytest.param("stubborn", marks=pytest.mark.slow)])
def test_a_run_resumed_at_once_after_its_supervisor_was_killed_does_nothing_twice(
    action: str, lab: Lab, undisturbed: Undisturbed
) -> None:
    document = asleep(action)
    command = lab.start_run(document)
    old = only_left_runs(lab)
    lab.kill(lab.supervisor())
    resumed = lab.resume()
    assert resumed.code == 0
    assert not set(old) & set(lab.processes())
    assert lab.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    assert resumed.outputs == undisturbed(document)
    interrupted = lab.answer(command)
    assert (interrupted.code, interrupted.json["state"]) == (1, "interrupted")
    lab.nothing_is_left()


@pytest.mark.slow
@pytest.mark.parametrize("action", ["spawn", "fork"])
def test_what_a_node_has_started_is_gone_once_the_run_is_resumed(action: str, lab: Lab) -> None:
    command = lab.start_run(asleep(action))
    until(lab.children_of_workers)
    lab.kill(lab.supervisor())
    assert lab.answer(command).code == 1
    assert lab.resume().code == 0
    assert lab.executions()["left"] == 2
    lab.nothing_is_left()


def test_what_the_last_node_has_started_is_gone_although_its_end_was_not_seen(lab: Lab) -> None:
    command = lab.start_run(pipeline(last={"action": "spawn", "amount": 1.5}))
    until(lab.children_of_workers)
    # It does not see the worker end, as if the run had ended in the same moment.
    lab.kill(lab.fork_server(), with_signal=signal.SIGSTOP)
    assert lab.answer(command).code == 0
    lab.nothing_is_left()


def test_the_run_goes_on_when_the_command_line_is_killed(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    document = diamond(action="gate")
    command = lab.start_run(document)
    lab.begun("left")
    lab.kill(command.pid)
    assert command.wait() != 0
    lab.open_gate()
    lab.no_process_is_left()
    shown = lab.show()
    assert (shown.json["state"], shown.outputs) == ("done", undisturbed(document))
    assert set(lab.executions().values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("action", ["sleep", "spawn"])
def test_losing_the_fork_server_fails_the_nodes_it_ran_and_the_run_goes_on_with_a_new_one(
    action: str, lab: Lab
) -> None:
    document = asleep(action)
    document["nodes"]["late"] = {"type": "probe", "params": {"value": 100}}
    document["edges"].append({"from": "right.report", "to": "late.reports"})
    document["nodes"]["right"]["params"] |= {"action": "sleep", "amount": 600, "first": 1}
    document["nodes"]["right"]["settings"] = {"retries": 1}
    command = lab.start_run(document)
    lab.begun("left")
    lab.begun("right")
    until(lambda: action == "sleep" or lab.children_of_workers())
    lab.kill(lab.fork_server())
    answer = lab.answer(command)
    assert answer.code == 1
    assert answer.states == {
        "source": "done",
        "left": "failed",
        "right": "done",
        "late": "done",
        "join": "skipped",
    }
    assert answer.nodes["left"]["error"]["kind"] == "crashed"
    lab.nothing_is_left()
    assert lab.sylva("retry", "last", "--json").code == 0
    assert lab.executions() == {"source": 1, "left": 2, "right": 2, "late": 1, "join": 1}


@pytest.mark.slow
def test_a_run_that_lost_its_fork_server_and_then_its_supervisor_can_be_resumed(lab: Lab) -> None:
    document = pipeline(
        node={"action": "fork", "amount": 600, "first": 2, "settings": {"retries": 1}}
    )
    command = lab.start_run(document)
    lab.begun("node")
    lab.kill(lab.fork_server())
    lab.begun("node", times=2)
    until(lab.children_of_workers)
    lab.kill(lab.supervisor())
    assert lab.answer(command).code == 1
    assert lab.resume().code == 0
    lab.nothing_is_left()


@pytest.mark.slow
def test_a_worker_killed_from_outside_fails_its_node_alone(lab: Lab) -> None:
    command = lab.start_run(asleep())
    lab.kill(*only_left_runs(lab))
    answer = lab.answer(command)
    assert (answer.code, answer.states["left"], answer.states["right"]) == (1, "failed", "done")
    assert "SIGKILL" in answer.message("left")


@pytest.mark.slow
@pytest.mark.parametrize("victims", ["everything", "supervisor"])
def test_killed_while_writing_a_large_file_a_run_resumes_and_clears_up(
    victims: str, lab: Lab
) -> None:
    document = pipeline(
        source={},
        large={"after": "source", "action": "big", "amount": 200},
        last={"after": "large"},
    )
    command = lab.start_run(document)
    until(lambda: _bytes_being_written(lab) > 5_000_000)
    if victims == "everything":
        lab.kill_everything()
    else:
        lab.kill(lab.supervisor())
    assert lab.answer(command).code != 0
    lab.no_process_is_left()
    assert _bytes_being_written(lab) > 0
    resumed = lab.resume()
    assert (resumed.code, resumed.states) == (
        0,
        {"source": "done", "large": "done", "last": "done"},
    )
    assert lab.executions() == {"source": 1, "large": 2, "last": 1}
    lab.nothing_is_left()


def _bytes_being_written(lab: Lab) -> int:
    return sum(path.stat().st_size for path in (lab.workspace / "tmp").rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("point", ["supervisor-forked", "run-received"])
def test_a_supervisor_killed_before_it_runs_a_node_leaves_a_run_to_resume_at_once(
    point: str, lab: Lab
) -> None:
    # It pauses there, so that a busy machine cannot let it go on before it is killed.
    command = lab.start_run(diamond(), fault=f"{point}:run:none")
    supervisor = lab.supervisor()
    if point == "run-received":
        until(lambda: list(lab.workspace.glob("runs/*/*")))
    lab.kill(supervisor)
    interrupted = lab.answer(command)
    assert interrupted.code == 1
    assert "sylva resume" in interrupted.json["error"]
    assert not lab.executions()
    resumed = lab.resume()
    assert (resumed.code, resumed.json["state"]) == (0, "done")
    assert set(lab.executions().values()) == {1}
