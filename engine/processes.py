"""Processes of this Linux machine: identity, parents, groups, memory limits.

The system uses process ids again. A process is identified by its id together with the boot and the
clock tick at which it began.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGE_BLOCK = 1 << 20
LOW_LIMIT = 8_000
"""Megabytes below which memory that was freed is worth more than the time to get it again."""
MEMORY_SHARE = 0.9
"""Share of the machine's memory that one node may use, unless a limit is set."""


@dataclass(frozen=True)
class ProcessId:
    """One process, never confused with a later one: id, clock tick at which it began, and boot."""

    pid: int
    began: int
    boot: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return dict(vars(self))


def identify(pid: int | None = None) -> ProcessId:
    """Return the identity of a process, by default this one; ``began`` is 0 if it has ended."""
    pid = os.getpid() if pid is None else pid
    status = _status(pid)
    return ProcessId(pid, int(status[19]) if status else 0, _boot())


def is_alive(process: ProcessId) -> bool:
    """Return whether exactly this process still runs (a zombie does not)."""
    status = _status(process.pid)
    if not status or status[0] == "Z":
        return False
    return int(status[19]) == process.began and process.boot == _boot()


def wait_passively() -> None:
    """Let threads of OpenMP sleep after a short wait, unless the user has set how they wait.

    Boosting digits with two threads took 0.6 s this way on an idle machine and 2.5 s on a busy one.
    Sleeping at once took 10 s, and the default of waiting without sleep took over 40 s on the busy
    machine. OpenMP reads this when it is loaded, so call it before LightGBM or scikit-learn are
    imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def die_with_parent(parent: int, kill_signal: int = signal.SIGKILL) -> None:
    """Ask the kernel to end this process when ``parent`` ends in any way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, kill_signal)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name, of 15 letters at most, under which ``ps`` lists this process and its forks."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def write_output_to(log: Path) -> None:
    """Read nothing, and append everything that this process prints to a file, also from C code."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream, handle in ((0, nothing), (1, output), (2, output)):
        os.dup2(handle, stream)
    os.close(nothing)
    os.close(output)


def kill_group(leader: int) -> None:
    """Kill a process and all processes of its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_leftover(process: ProcessId, patience: float = 5.0) -> None:
    """End the group of a worker whose supervisor died, and wait until it is gone.

    The leader may be dead while processes that it started still run. The system does not use its id
    again as long as the group exists, unless the machine was restarted.
    """
    leader = identify(process.pid)
    if process.boot != leader.boot or leader.began not in (0, process.began):
        return
    deadline = time.monotonic() + patience
    while _group_lives(process.pid) and time.monotonic() < deadline:
        kill_group(process.pid)
        time.sleep(0.01)


def limit_memory(megabytes: int) -> None:
    """Limit the memory that this process allocates; memory-mapped files do not count."""
    import resource

    # A forked process shares the memory that it has with its parent: it must not count.
    limit = _allocated_bytes() + megabytes * 1_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    if megabytes < LOW_LIMIT:
        return_freed_memory()
    # If the whole machine runs out of memory, the kernel should kill this process, not the studio.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def return_freed_memory() -> None:
    """Give large blocks of memory back to the system as soon as they are freed.

    The C library would keep blocks of up to 32 MB. Scattered between others, they are often of no
    use any more, but count for the limit. So does a gigabyte that Arrow reserves for itself, unless
    it uses the C library.
    """
    if "pyarrow" in sys.modules:
        arrow = sys.modules["pyarrow"]
        arrow.set_memory_pool(arrow.system_memory_pool())
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    with contextlib.suppress(AttributeError):  # another C library than that of GNU
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        # Small blocks are kept as before: to fetch them again and again would take time.
        library.mallopt(M_TRIM_THRESHOLD, 64 * LARGE_BLOCK)


def exit_text(code: int) -> str:
    """Return the name of the signal that ended a process, or its exit code, in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # most real-time signals have no name
        return f"signal {-code}"


def usable_memory(share: int = 1) -> int:
    """Return the megabytes one node may use, one of ``share`` programs that use this machine.

    The limits of the control groups of this process count, from its own one up to the root. A
    container, a job of SLURM and a service of systemd have such a group.
    """
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file in memory_limit_files():
        with contextlib.suppress(OSError):
            # A group without a limit says "max", or in version 1 a number above all memory.
            if (text := file.read_text().strip()).isdigit():
                total = min(total, int(text))
    return int(total * MEMORY_SHARE / 1_000_000 / share)


def memory_limit_files(
    root: Path = Path("/sys/fs/cgroup"), groups: Path = Path("/proc/self/cgroup")
) -> Iterator[Path]:
    """Yield the files that may limit the memory of this process, in any version of the groups."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        lines = []
    # A line is "number:controllers:/path"; version 2 has no controllers.
    for line in ("0::/", "0:memory:/", *lines):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "memory" if controllers else root
        group = top / path.strip("/")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        for folder in (group, *group.parents):
            if folder.is_relative_to(top):
                yield folder / name


def available_memory() -> int:
    """Return the megabytes that this process may still allocate, by its own limit if it has one."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit == resource.RLIM_INFINITY:
        return usable_memory()
    return min(max(limit - _allocated_bytes(), 0) // 1_000_000, usable_memory())


def _allocated_bytes() -> int:
    """Return the bytes that this process has allocated, as its memory limit counts them."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmData:")[1].split()[0]) * 1024


def _status(pid: int) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state on, empty if there is no process."""
    # The name before the state may contain spaces and brackets. Of the fields after it, [0] is the
    # state, [2] the process group, [19] the clock tick at which the process began.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _group_lives(leader: int) -> bool:
    """Return whether any process of the group runs."""
    # Zombies do not count: in a container without an init process they may stay.
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    running = [status for status in map(_status, pids) if status and status[0] != "Z"]
    return any(int(status[2]) == leader for status in running)
