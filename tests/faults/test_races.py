"""Many programs on one workspace: work is done once, a run has one supervisor, cleaning waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.lab import Lab, Outputs, Pipeline, diamond, pipeline
from tests.waiting import until

Undisturbed = Callable[[Pipeline], Outputs]


@pytest.mark.slow
def test_of_many_who_resume_a_run_at_once_exactly_one_does(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    document = diamond(action="gate")
    assert lab.run(document, fault="before-run:left:both").code == 1
    commands = [lab.start("resume", "last", "--json") for _ in range(4)]
    until(lambda: sum(command.poll() is not None for command in commands) == 3)
    lab.open_gate()
    answers = [lab.answer(command) for command in commands]
    winners = [answer for answer in answers if answer.code == 0]
    assert len(winners) == 1
    assert winners[0].outputs == undisturbed(document)
    for loser in answers:
        if loser.code:
            assert winners[0].run in loser.json["error"]
    assert lab.executions()["left"] == lab.executions()["join"] == 1
    lab.nothing_is_left()


def test_two_runs_of_one_pipeline_at_once_do_the_work_once(
    lab: Lab, undisturbed: Undisturbed
) -> None:
    """Also the first two runs of a new workspace."""
    document = diamond(action="sleep", amount=1)
    commands = [lab.start_run(document) for _ in range(2)]
    answers = [lab.answer(command) for command in commands]
    assert [answer.code for answer in answers] == [0, 0]
    assert answers[0].run != answers[1].run
    assert answers[0].outputs == answers[1].outputs == undisturbed(document)
    assert lab.executions() == {"source": 1, "left": 1, "right": 1, "join": 1}
    lab.nothing_is_left()


@pytest.mark.slow
def test_the_work_of_a_killed_run_is_taken_over_by_one_that_waits_for_it(lab: Lab) -> None:
    document = diamond(action="sleep", amount=600, first=1)
    first = lab.start_run(document)
    lab.begun("left")
    supervisor = lab.supervisor()
    second = lab.start_run(document)
    until(lambda: "waiting" in lab.show().nodes.get("left", {}).get("text", ""))
    lab.kill(supervisor)
    assert (lab.answer(first).code, lab.answer(second).code) == (1, 0)
    assert lab.executions()["left"] == 2


@pytest.mark.slow
def test_identical_nodes_of_one_pipeline_do_the_work_once(lab: Lab) -> None:
    twin = {"action": "sleep", "amount": 0.5, "value": 5}
    answer = lab.run(pipeline(one=twin, two=twin, both={"after": "one two"}))
    assert (answer.code, set(answer.states.values())) == (0, {"done"})
    assert sum(lab.executions().values()) == 2


@pytest.mark.slow
def test_many_programs_may_begin_in_a_new_workspace_at_once(lab: Lab) -> None:
    commands = [
        lab.start_run(pipeline(**{f"node_{index}": {"value": index}})) for index in range(8)
    ]
    assert {lab.answer(command).code for command in commands} == {0}
    assert len(lab.sylva("runs", "--json").json) == 8


@pytest.mark.slow
def test_the_store_is_not_cleaned_under_a_run(lab: Lab) -> None:
    command = lab.start_run(diamond(action="gate"))
    lab.begun("left")
    refused = lab.sylva("gc", "--keep", "0")
    assert refused.code == 1
    assert refused.err.strip()
    lab.open_gate()
    assert lab.answer(command).code == 0
    assert lab.sylva("gc", "--keep", "0").code == 0


@pytest.mark.slow
def test_an_interrupted_run_resumes_after_a_cleaning_that_kept_it(lab: Lab) -> None:
    assert lab.run(diamond(), fault="before-write:left:both").code == 1
    assert lab.sylva("gc").code == 0
    assert not list((lab.workspace / "tmp").iterdir())
    assert lab.resume().code == 0
    assert lab.executions()["source"] == 1


@pytest.mark.slow
def test_a_hundred_and_fifty_nodes_at_once_do_not_choke_on_their_own_messages(lab: Lab) -> None:
    leaves = {f"leaf_{index}": {"note": "x" * 20_000, "value": index} for index in range(150)}
    answer = lab.run(pipeline(**leaves), "--workers", "150")
    assert (answer.code, set(answer.states.values())) == (0, {"done"})
