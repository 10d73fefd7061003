"""A workspace may hold what nobody expects: strange names, stray files, a log from elsewhere."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from engine.errors import SylvaError
from engine.events import EventLog
from engine.run_state import run_state
from engine.store import Store
from engine.workspace import Workspace
from tests.expect import refused
from tests.run_events import append_stored
from ui.cli import ReadableStream


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace").create()


def test_whatever_is_printed_is_readable_and_never_fails(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as file:
        print("\x1b]0;title\x07 ✓", file=ReadableStream(file))
    assert (tmp_path / "out").read_text() == "\\x1b]0;title\\x07 ?\n"


@pytest.mark.parametrize("run", ["../../victim", "..", "a/b", "", "."])
def test_a_run_id_is_no_path(workspace: Workspace, run: str) -> None:
    with refused(SylvaError, naming=[f"'{run}'"]):
        workspace.run_folder(run)


def test_only_the_owner_may_look_into_a_workspace(workspace: Workspace) -> None:
    assert workspace.root.stat().st_mode & 0o077 == 0


def test_stray_files_do_not_stop_the_cleaning(workspace: Workspace) -> None:
    for folder in (
        workspace.objects,
        workspace.results,
        workspace.temporary,
        workspace.checkpoints,
    ):
        (folder / ".stray").write_text("x")
        (folder / "folder").mkdir()
    store = Store(workspace)
    assert store.clear_temporary() == 1
    assert store.collect([]) == 1
    assert not any(workspace.objects.iterdir())


def test_a_record_that_is_a_folder_counts_as_none(workspace: Workspace) -> None:
    (workspace.results / "k.json").mkdir()
    assert Store(workspace).find("k") is None


def test_a_log_of_a_newer_version_is_left_alone(workspace: Workspace) -> None:
    with sqlite3.connect(workspace.database) as database:
        database.execute("PRAGMA user_version = 99")
    with refused(SylvaError, naming=[workspace.database]):
        EventLog(workspace)


def test_a_file_that_is_no_log_is_said_plainly(workspace: Workspace) -> None:
    workspace.database.write_bytes(b"garbage" * 1000)
    with refused(SylvaError, naming=[workspace.database]):
        EventLog(workspace)


def test_events_nobody_knows_change_nothing(workspace: Workspace) -> None:
    with EventLog(workspace) as log:
        run = log.create_run("test", "{}", {})
        append_stored(log, run, "paused", "a", why="of a newer version")
        assert run_state(log, log.run(run)).nodes["a"].state == "queued"


def test_a_run_from_the_future_is_not_starting_forever(workspace: Workspace) -> None:
    with EventLog(workspace) as log:
        future = time.time() + 10_000
        log._db.execute("INSERT INTO runs VALUES ('later', 'test', '{}', '{}', ?)", (future,))
        assert run_state(log, log.run("later")).state == "interrupted"
        assert log.run("last").id == "later"
        newer = log.create_run("test", "{}", {})
        assert log.run("last").id == newer
