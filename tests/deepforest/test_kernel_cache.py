"""Compiled kernels are saved once for all processes of a user, where only this user can write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deepforest.forest import _compile as compiling
from deepforest.forest import binning, kernel_cache
from deepforest.forest.kernel_cache import COMPILING, COUNTS, PARTS, WAITING
from tests.waiting import until

USE_A_KERNEL = """
import numpy as np
from deepforest.forest import kernels
rows, counts = np.arange(9, dtype=np.uint32), np.zeros(9, np.uint8)
kernels.draw_bag(rows, 9, 1, np.zeros(1, np.uint64), counts)
stats = kernels.draw_bag.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), *counts)
"""


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def folder() -> Path:
    found = kernel_cache.kernel_folder()
    assert found is not None
    return found


def double(x: int) -> int:
    return 2 * x


def start_using_a_kernel() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", USE_A_KERNEL], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_at_once_compile_once_and_the_next_one_not_at_all(cache_home: Path) -> None:
    first = [start_using_a_kernel() for _ in range(2)]
    answers = [process.communicate()[0].split() for process in first]
    answers.append(start_using_a_kernel().communicate()[0].split())
    hits_and_misses = [(int(answer[0]), int(answer[1])) for answer in answers]
    assert sorted(hits_and_misses[:2]) == [(0, 1), (1, 0)]
    assert hits_and_misses[2] == (1, 0)
    assert answers[0][2:] == answers[1][2:] == answers[2][2:]
    assert len(answers[0]) == 2 + 9


def a_file(folder: Path) -> None:
    folder.parent.write_text("")


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def a_link(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def another_users(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (a_file, "cannot be made"),
        (open_to_others, "chmod 700"),
        (a_link, "is not your own folder"),
        (another_users, "is not your own folder"),
    ],
)
def test_a_folder_that_is_not_safe_is_not_used(
    cache_home: Path, spoil: Callable[[Path], None], message: str
) -> None:
    path = folder()
    path.rmdir()
    if spoil is a_file:
        path.parent.rmdir()
    spoil(path)
    assert kernel_cache.kernel_folder() is None
    assert not any(map(kernel_cache.is_ready, PARTS))
    compiled: Any = compiling.kernel(double)
    assert compiled(4) == 8
    assert compiled._cache.cache_path is None
    said: list[str] = []
    kernel_cache.ensure_compiled([COUNTS], said.append)
    assert len(said) == 1
    assert message in said[0]


def test_damaged_files_are_compiled_again(cache_home: Path) -> None:
    first: Any = compiling.kernel(double)
    assert first(4) == 8
    for saved in folder().glob("*double*"):
        saved.write_bytes(saved.read_bytes()[:10])
    again: Any = compiling.kernel(double)
    assert again(4) == 8
    assert sum(again.stats.cache_misses.values()) == 1
    third: Any = compiling.kernel(double)
    assert third(4) == 8
    assert sum(third.stats.cache_hits.values()) == 1


def test_a_change_of_the_kernels_has_a_folder_of_its_own(cache_home: Path, tmp_path: Path) -> None:
    sources = Path(kernel_cache.__file__).parent
    copy = tmp_path / "copy" / "deepforest" / "forest"
    copy.mkdir(parents=True)
    for name in ("__init__.py", "kernel_cache.py", *kernel_cache.SOURCES):
        (copy / name).write_bytes((sources / name).read_bytes())
    (copy.parent / "__init__.py").touch()
    code = "from deepforest.forest.kernel_cache import kernel_folder; print(kernel_folder())"

    def name_of_folder() -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "copy")}
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return Path(done.stdout.strip()).name

    assert name_of_folder() == folder().name
    with (copy / "kernels.py").open("a") as file:
        file.write("\n")
    assert name_of_folder() != folder().name


def test_who_waits_says_so_and_goes_on_when_the_kernels_are_there(cache_home: Path) -> None:
    said: list[str] = []
    lock = kernel_cache.take_lock(COUNTS)

    def hear(text: str) -> None:
        said.append(text)
        if not kernel_cache.is_ready(COUNTS):
            kernel_cache.mark_ready(COUNTS)
            kernel_cache.release_lock(lock)

    kernel_cache.ensure_compiled([COUNTS], hear)
    assert set(said) == {WAITING}
    said.clear()
    kernel_cache.ensure_compiled([COUNTS], hear)
    assert not said


def test_waiting_can_be_stopped_at_any_moment(cache_home: Path) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    said: list[str] = []
    with pytest.raises(Stopped):
        kernel_cache.ensure_compiled([COUNTS], said.append, stop)
    assert said == [COMPILING]
    assert not kernel_cache.is_ready(COUNTS)
    with kernel_cache.file_lock(
        COUNTS, lambda: pytest.fail("the process that compiled is still there")
    ):
        pass


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="a single processor compiles in a single process"
)
def test_a_compilation_that_is_ended_leaves_no_process_behind(cache_home: Path) -> None:
    locks = [kernel_cache.take_lock(part) for part in PARTS]  # so that it waits
    compiler = kernel_cache.start_compiling("--background")
    children = Path(f"/proc/{compiler.pid}/task/{compiler.pid}/children")
    until(
        lambda: compiler.poll() is not None or len(children.read_text().split()) >= len(PARTS) - 1
    )
    others = children.read_text().split()
    compiler.terminate()
    assert compiler.wait() == -signal.SIGTERM
    assert others
    until(lambda: not any(map(runs, others)))
    for lock in locks:
        kernel_cache.release_lock(lock)


def runs(pid: str) -> bool:
    try:
        return (
            Path("/proc", pid, "cmdline").read_bytes() != b""
        )  # a dead process that was not waited for has none
    except OSError:
        return False


def test_arrays_that_may_and_may_not_be_written_share_a_kernel() -> None:
    values = np.random.default_rng(0).normal(size=(300, 2))
    locked = values.copy()
    locked.flags.writeable = False
    kernel: Any = binning._bin_block
    bins = binning.Binner().fit(values).bin_rows(values)
    variants = len(kernel.signatures)
    assert (binning.Binner().fit(locked).bin_rows(locked) == bins).all()
    assert (binning.Binner().fit(values).bin_rows(np.asfortranarray(values)) == bins).all()
    assert len(kernel.signatures) == variants
    assert values.flags.writeable
