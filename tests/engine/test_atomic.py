"""Files and folders are replaced as a whole, and one lock keeps processes apart."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from engine.atomic import Busy, lock, read_lock, replacing, swap_folder, write_lock
from tests.expect import refused


def test_a_file_that_could_not_be_written_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a") as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert (tmp_path / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_keeps_its_permissions_when_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    with replacing(tmp_path / "a") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_temporary_file_can_lie_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with replacing(tmp_path / "a", tmp_path / "elsewhere") as temporary:
        temporary.write_text("new")
        assert temporary.parent.name == "elsewhere"
    assert (tmp_path / "a").read_text() == "new"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_is_swapped_and_the_old_one_moved_away(tmp_path: Path) -> None:
    for name in ("new", "folder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    swap_folder(tmp_path / "new", tmp_path / "folder", tmp_path / "old")
    assert (tmp_path / "folder" / "file").read_text() == "new"
    assert (tmp_path / "old" / "file").read_text() == "folder"


def test_an_exclusive_lock_is_held_by_one_and_a_shared_lock_by_many(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    shared = lock(path, shared=True, patience=0)
    exclusive = lock(path, patience=0, busy="cleaning")
    with shared, lock(path, shared=True, patience=0), refused(Busy, naming="cleaning"), exclusive:
        pass
    with lock(path, patience=0), refused(Busy), lock(path, shared=True, patience=0.05):
        pass


def test_who_waits_for_a_lock_says_so_once_and_gets_it(tmp_path: Path) -> None:
    waits: list[str] = []
    got = threading.Event()

    def wait() -> None:
        with lock(tmp_path / "lock", on_wait=lambda: waits.append("waiting")):
            got.set()

    with lock(tmp_path / "lock"):
        thread = threading.Thread(target=wait)
        thread.start()
        while not waits:
            assert thread.is_alive()
        assert not got.is_set()
    thread.join(30)
    assert got.is_set() and waits == ["waiting"]


def test_a_lock_on_a_file_that_is_gone_does_not_count(tmp_path: Path) -> None:
    """The process that held the lock has removed the folder.

    A third process may hold the lock of a new file there.
    """
    folder, waiting, inodes = tmp_path / "work", threading.Event(), []

    def wait() -> None:
        with lock(folder / "lock", on_wait=waiting.set, create_folder=True) as handle:
            inodes.append((os.fstat(handle).st_ino, (folder / "lock").stat().st_ino))

    with lock(folder / "lock", create_folder=True):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(30)
        shutil.rmtree(folder)
    thread.join(30)
    [(held, present)] = inodes
    assert held == present


def test_without_its_folder_a_lock_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), lock(tmp_path / "gone" / "lock"):
        pass
    assert not (tmp_path / "gone").exists()


def test_a_write_lock_brings_back_what_a_killed_process_had_moved_away(tmp_path: Path) -> None:
    left = tmp_path / ".model.unfinished" / "old"
    left.mkdir(parents=True)
    (left / "file").write_text("whole")
    with write_lock(tmp_path / "model") as temporary:
        assert list(temporary.iterdir()) == []
        assert (tmp_path / "model" / "file").read_text() == "whole"
    assert not temporary.exists()


def test_a_read_lock_of_a_folder_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    with read_lock(tmp_path / "gone" / "model"):
        pass
    assert list(tmp_path.iterdir()) == []
