"""A process that is started early starts supervisors, which live on without it."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from engine.atomic import Busy
from engine.errors import SylvaError
from engine.events import EventLog
from engine.pipeline import Node, Pipeline
from engine.plan import RunOptions
from engine.processes import ProcessId, end_leftover, identify, is_alive
from engine.run_state import RunState, run_state
from engine.runs import Runs
from engine.supervisor_starter import SupervisorStarter
from engine.workspace import Workspace
from tests.command_line import PLUGIN, ROOT
from tests.expect import refused
from tests.waiting import until


def wait_for_end(log: EventLog, run: str) -> RunState:
    deadline = time.monotonic() + 60
    while (state := run_state(log, log.run(run))).live and time.monotonic() < deadline:
        time.sleep(0.02)
    return state


@pytest.mark.slow
def test_a_killed_starter_is_replaced_and_runs_go_on_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PLUGIN, str(ROOT)]))
    workspace = Workspace(tmp_path).create()
    nodes = {"a": Node(type="probe", params={"action": "sleep", "amount": 0.5})}
    starter = SupervisorStarter(preload=True)
    killed = starter._process
    os.kill(killed.pid, signal.SIGKILL)
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    with EventLog(workspace) as log:
        created = [
            Runs(workspace).create(Pipeline(name="one", nodes=nodes), RunOptions())
            for _ in range(2)
        ]
        for run in created:
            starter.start(workspace, run).close()
        assert starter._process is not killed
        while any(run_state(log, log.run(run)).state == "starting" for run in created):
            time.sleep(0.02)
        starter.close()
        states = [wait_for_end(log, run) for run in created]
    assert [state.state for state in states] == ["done", "done"]
    # Both came to the same work at the same time; one did it.
    assert len({state.nodes["a"].key for state in states}) == 1


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PLUGIN, str(ROOT)]))
    return Workspace(tmp_path).create()


def waiting_run(workspace: Workspace) -> str:
    nodes = {"a": Node(type="probe", params={"action": "sleep", "amount": 60})}
    return Runs(workspace).create(Pipeline(name="one", nodes=nodes), RunOptions())


def wait_until_running(workspace: Workspace, run: str) -> None:
    until(lambda: Runs(workspace).state(run).nodes_in("running"), what="the start of a node")


def test_the_death_of_a_supervisor_is_known_at_once(workspace: Workspace) -> None:
    run = waiting_run(workspace)
    with SupervisorStarter() as starter:
        supervisor = starter.start(workspace, run)
    wait_until_running(workspace, run)
    assert not supervisor.poll()
    assert (
        supervisor.identity
        and supervisor.identity.to_dict() == Runs(workspace).state(run).supervisor
    )
    os.kill(supervisor.identity.pid, signal.SIGKILL)
    supervisor.wait()
    assert supervisor.poll() and not supervisor.failed
    with EventLog(
        workspace
    ) as log:  # a killed process gives up its files a moment before it is gone
        assert wait_for_end(log, run).state == "interrupted"


def test_a_supervisor_can_be_cancelled_before_it_has_reported(workspace: Workspace) -> None:
    run = waiting_run(workspace)
    with SupervisorStarter() as starter:
        supervisor = starter.start(workspace, run)
        supervisor.cancel()
        supervisor.wait()
    assert not Runs(workspace).state(run).nodes_in("running")


def test_a_supervisor_reports_that_it_failed_and_its_log_says_why(workspace: Workspace) -> None:
    with EventLog(workspace) as log:
        run = log.create_run("unreadable", "{", {})
    with SupervisorStarter() as starter:
        supervisor = starter.start(workspace, run)
        supervisor.wait()
    assert supervisor.failed
    assert workspace.supervisor_log(run).read_text().strip()


def test_a_supervisor_holds_the_locks_of_its_run(workspace: Workspace) -> None:
    run = waiting_run(workspace)
    with SupervisorStarter() as starter:
        supervisor = starter.start(workspace, run)
        with pytest.raises(Busy), workspace.claim(run):
            pass
        with pytest.raises(Busy):
            starter.start(workspace, run)
    wait_until_running(workspace, run)
    supervisor.poll()
    supervisor.cancel()
    supervisor.wait()
    with workspace.idle(), workspace.claim(run):
        pass


def test_what_keeps_a_starter_from_starting_is_said_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starter = SupervisorStarter(preload=True)
    starter._process.kill()
    starter._process.wait()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with refused(SylvaError, naming=["some-run", os.strerror(errno.ENOENT)]):
        starter.start(Workspace(tmp_path), "some-run")
    starter.close()


def test_a_leftover_group_is_ended_but_not_one_that_merely_has_its_number() -> None:
    sleeper = os.spawnv(
        os.P_NOWAIT,
        sys.executable,
        [sys.executable, "-c", "import os, time; os.setpgrp(); time.sleep(99)"],
    )
    while os.getpgid(sleeper) != sleeper:
        time.sleep(0.01)
    process = identify(sleeper)
    end_leftover(ProcessId(sleeper, process.began + 1, process.boot))
    end_leftover(ProcessId(sleeper, process.began, "another boot"))
    assert is_alive(process)
    end_leftover(process)
    assert not is_alive(process)
    os.waitpid(sleeper, 0)
