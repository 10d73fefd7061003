"""A full disk fails what needs space, says so, damages nothing; the run resumes with new space."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import SylvaError
from engine.events import EventLog
from engine.workspace import Workspace
from tests.faults.lab import Lab, Outputs, Pipeline, diamond, pipeline
from tests.run_events import append_stored
from tests.waiting import until

Undisturbed = Callable[[Pipeline], Outputs]


@pytest.fixture
def disk(lab: Lab) -> Iterator[Path]:
    """A small disk of its own for the workspace."""
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    lab.workspace.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(lab.workspace)], check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    try:
        yield lab.workspace
    finally:
        lab.kill_everything()
        lab.no_process_is_left()
        subprocess.run(["umount", str(lab.workspace)], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=30m", str(disk)], check=True)


def fill(disk: Path) -> None:
    """Leave not one byte."""
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


def empty(disk: Path) -> None:
    (disk / "filler").unlink()


def is_sound(disk: Path) -> bool:
    with contextlib.closing(sqlite3.connect(disk / "sylva.db")) as database:
        return database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("action", "megabytes"),
    # NumPy finds out about a full disk in two ways, depending on the size.
    [
        ("big", 8),
        pytest.param("array", 8, marks=pytest.mark.slow),
        pytest.param("array", 20, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_node_that_writes_more_than_fits_fails_alone_and_is_done_with_more_space(
    action: str, megabytes: float, lab: Lab, disk: Path, undisturbed: Undisturbed
) -> None:
    document = diamond(action=action, amount=megabytes)
    failed = lab.run(document)
    assert failed.code == 1
    assert failed.states == {"source": "done", "left": "failed", "right": "done", "join": "skipped"}
    assert failed.nodes["left"]["error"]["kind"] == "disk"
    assert str(disk) in failed.message("left")
    assert not list((disk / "tmp").iterdir())

    enlarge(disk)
    retried = lab.sylva("retry", "last", "--json")
    assert (retried.code, retried.outputs) == (0, undisturbed(document))
    assert lab.executions() == {"source": 1, "left": 2, "right": 1, "join": 1}
    assert is_sound(disk)


@pytest.mark.slow
def test_a_disk_that_fills_up_amid_a_run_does_no_lasting_harm(
    lab: Lab, disk: Path, undisturbed: Undisturbed
) -> None:
    document = diamond(action="gate")
    command = lab.start("run", lab.write(document))
    lab.begun("left")
    fill(disk)
    lab.open_gate()
    said = lab.answer(command)
    assert said.code == 1
    assert str(disk) in said.out + said.err
    lab.no_process_is_left()

    empty(disk)
    resumed = lab.resume()
    assert (resumed.code, resumed.outputs) == (0, undisturbed(document))
    assert lab.executions()["source"] == 1
    assert is_sound(disk)
    lab.nothing_is_left()


@pytest.mark.slow
def test_a_run_lives_through_a_disk_that_is_full_for_a_moment(lab: Lab, disk: Path) -> None:
    command = lab.start_run(diamond(action="sleep", amount=3))
    lab.begun("right")
    until(lambda: len(lab.workers()) == 1)
    fill(disk)
    time.sleep(1)
    empty(disk)
    assert lab.answer(command).code == 0
    assert set(lab.executions().values()) == {1}
    assert is_sound(disk)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("run",), ("resume", "last"), ("show", "last"), ("runs",), ("gc",)]
)
def test_on_a_full_disk_every_command_gives_a_plain_message_or_works(
    words: tuple[str, ...], lab: Lab, disk: Path
) -> None:
    assert lab.run(diamond(), fault="before-write:left:both").code == 1
    fill(disk)
    answer = lab.sylva(*words, *([lab.write(diamond())] if words == ("run",) else []))
    assert answer.code in (0, 1)
    assert answer.code == 0 or answer.err.strip()
    empty(disk)
    assert is_sound(disk)
    assert lab.run(diamond()).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("amount", [0.05, 0.2, 0.4])
def test_a_disk_that_fills_up_at_any_moment_loses_nothing_that_was_finished(
    amount: float, lab: Lab, disk: Path, undisturbed: Undisturbed
) -> None:
    """Nodes finish all the time while space runs out."""
    nodes = {
        f"node_{index}": {"action": "sleep", "amount": amount / 4, "value": index}
        for index in range(20)
    }
    document = pipeline(**nodes, total={"after": " ".join(nodes)})
    command = lab.start("run", lab.write(document))
    lab.begun("node_3")
    fill(disk)
    assert lab.answer(command).code == 1
    empty(disk)
    finished = {path.stem for path in (disk / "results").iterdir()}
    resumed = lab.resume()
    assert (resumed.code, resumed.outputs) == (0, undisturbed(document))
    again = {node for node, times in lab.executions().items() if times > 1}
    assert not {resumed.nodes[node]["key"] for node in again} & finished
    assert is_sound(disk)


def test_a_disk_too_full_to_shrink_the_run_log_is_said_and_costs_nothing(disk: Path) -> None:
    with EventLog(Workspace(disk).create()) as log:
        runs = [log.create_run("test", "{}", {}) for _ in range(40)]
        for run in runs:
            append_stored(log, run, "part", "a", part="p", data={"text": "x" * 40_000})
        log.remove_runs(runs[20:])
        fill(disk)
        with pytest.raises(SylvaError, match=r"could not be made smaller .*free some space"):
            log.shrink()
        assert len(log.runs()) == 20
        before = log.size()
        empty(disk)
        log.shrink()
        assert log.size() < before
        assert [len(log.events(row.id)) for row in log.runs()] == [1] * 20
    assert is_sound(disk)
