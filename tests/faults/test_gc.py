"""`sylva gc` never touches a run that starts or runs, and a killed process protects nothing."""

from __future__ import annotations

import fcntl
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine.atomic import Busy
from engine.events import EventLog
from engine.pipeline_file import parse
from engine.plan import RunOptions
from engine.runs import Runs
from engine.supervisor_starter import SupervisorStarter
from engine.workspace import Workspace
from tests.faults.lab import Lab, diamond, pipeline
from tests.waiting import until


def forget_all(lab: Lab) -> int:
    """What the command does, in this process: how many runs it forgot."""
    return Runs(Workspace(lab.workspace)).clean(keep=0).removed


def is_in_use(lab: Lab) -> bool:
    """Whether a process protects the workspace from a cleaning."""
    try:
        with Workspace(lab.workspace).idle():
            return False
    except Busy:
        return True


def runs(lab: Lab) -> list[str]:
    with EventLog(Workspace(lab.workspace).create()) as log:
        return [row.id for row in log.runs()]


@contextmanager
def forgetting(lab: Lab) -> Iterator[Counter[int]]:
    """Forget all runs over and over; yield how often that gave which exit code."""
    codes: Counter[int] = Counter()
    enough = threading.Event()

    def forget() -> None:
        while not enough.is_set():
            codes[lab.sylva("gc", "--keep", "0", "--json").code] += 1

    threads = [threading.Thread(target=forget) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def test_a_run_is_kept_from_the_moment_it_has_an_id(lab: Lab) -> None:
    starter = lab.start_run(pipeline(only={}), fault="run-created:run:none")
    until(lambda: runs(lab))
    with pytest.raises(Busy, match="A run is in progress"):
        forget_all(lab)
    assert len(runs(lab)) == 1
    # A starter that was killed protects its run no longer; the supervisor was never given it.
    lab.kill(starter.pid)
    starter.communicate()
    lab.no_process_is_left()
    assert forget_all(lab) == 1
    assert runs(lab) == []


def test_a_run_is_kept_while_its_starter_is_gone_and_its_supervisor_has_not_begun(lab: Lab) -> None:
    fault = "run-received:run:none"
    run = lab.sylva("run", lab.write(pipeline(only={})), "--json", "--detach", fault=fault).run
    with pytest.raises(Busy):
        forget_all(lab)
    assert runs(lab) == [run]
    lab.kill(lab.supervisor())
    lab.no_process_is_left()
    assert forget_all(lab) == 1


def test_the_studio_hands_a_run_over_as_the_command_line_does(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (lab.environment | {"SYLVA_FAULT": "run-received:run:none"}).items():
        monkeypatch.setenv(name, value)
    workspace = Workspace(lab.workspace).create()
    starter = SupervisorStarter(preload=True)
    monkeypatch.delenv("SYLVA_FAULT")
    try:
        with workspace.in_use():
            run = Runs(workspace).create(parse(json.dumps(pipeline(only={}))), RunOptions())
            starter.start(workspace, run)
            with pytest.raises(Busy, match="is running"), workspace.claim(run):
                pass
        with pytest.raises(Busy):
            forget_all(lab)
        assert runs(lab) == [run]
    finally:
        starter._process.kill()
        starter.close()
    lab.kill_everything()
    lab.no_process_is_left()
    assert forget_all(lab) == 1


@pytest.mark.slow
def test_an_old_run_is_kept_from_the_moment_it_is_resumed(lab: Lab) -> None:
    failed = lab.run(pipeline(only={"action": "raise", "first": 1}))
    assert failed.code == 1
    resumed = lab.sylva("resume", failed.run, "--json", "--detach", fault="run-received:run:none")
    assert resumed.code == 0
    assert lab.sylva("gc", "--keep", "0").code == 1
    lab.kill(*lab.supervisors())
    lab.no_process_is_left()
    assert lab.sylva("resume", failed.run, "--json").code == 0


def test_runs_succeed_beside_a_program_that_forgets_runs_all_the_time(lab: Lab) -> None:
    with forgetting(lab) as codes:
        commands = [lab.start_run(pipeline(only={"value": value})) for value in range(2)]
        answers = [lab.answer(command) for command in commands]
    assert [answer.code for answer in answers] == [0, 0], answers
    assert [answer.json["reports"]["only"]["headline"]["value"] for answer in answers] == [0, 1]
    assert set(codes) <= {0, 1, 2}  # 2: there was no log yet


@pytest.mark.slow
def test_a_run_waits_for_the_end_of_a_cleaning(lab: Lab) -> None:
    assert lab.run(pipeline(first={})).code == 0
    with (lab.workspace / "in-use.lock").open("a") as cleaning:
        fcntl.flock(cleaning, fcntl.LOCK_EX)
        command = lab.start_run(pipeline(second={}))
        until(
            lambda: len(lab.processes()) == 2
        )  # the command, and its supervisor that waits for a run
        assert len(runs(lab)) == 1
    assert lab.answer(command).code == 0
    assert len(runs(lab)) == 2


@pytest.mark.slow
def test_many_runs_succeed_beside_programs_that_forget_runs_all_the_time(lab: Lab) -> None:
    with forgetting(lab) as codes:
        for round_ in range(4):
            documents = [
                diamond(action="sleep", amount=0.1, value=10 * round_ + each) for each in range(4)
            ]
            commands = [lab.start_run(document) for document in documents]
            answers = [lab.answer(command, timeout=180) for command in commands]
            assert [answer.code for answer in answers] == [0] * 4, answers
            assert all("join" in answer.json["reports"] for answer in answers)
    assert codes[1]
    lab.nothing_is_left()
    forget_all(lab)
    assert not list((lab.workspace / "objects").iterdir())


@pytest.mark.slow
def test_of_four_who_resume_a_run_beside_a_cleaning_one_does(lab: Lab) -> None:
    failed = lab.run(diamond(action="gate"), fault="before-run:left:both")
    assert failed.code == 1
    commands = [lab.start("resume", failed.run, "--json") for _ in range(4)]
    # Before the first of them has decided to go on, the run is not protected.
    until(lambda: is_in_use(lab))
    with forgetting(lab) as codes:
        until(lambda: sum(command.poll() is not None for command in commands) == 3, seconds=180)
        lab.begun("left")
        lab.open_gate()
        answers = [lab.answer(command, timeout=180) for command in commands]
    assert sorted(answer.code for answer in answers) == [0, 1, 1, 1], answers
    for loser in (answer for answer in answers if answer.code):
        assert "is running" in loser.out
    assert codes[1]


@pytest.mark.slow
def test_a_detached_run_is_forgotten_only_after_its_end(lab: Lab) -> None:
    with forgetting(lab):
        run = lab.sylva("run", lab.write(diamond(action="gate")), "--json", "--detach").run
        lab.begun("left")
        assert lab.show(run).json["state"] == "running"
        lab.open_gate()
        until(lambda: "There is no run" in lab.show(run).out)
    assert lab.executions()["join"] == 1
