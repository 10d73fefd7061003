"""Processes of this machine: who is alive, who dies with whom, how a group is ended, what one may use. Linux.

A process id alone names nobody for long, since ids are used again; together with the boot and the clock
tick at which the process began it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
MEMORY_SHARE = 0.9
"""Share of the machine's memory one node may use when nothing else is said."""


@dataclass(frozen=True)
class ProcessId:
    """One process for good: id, the clock tick at which it began, and the boot it belongs to."""

    pid: int
    began: int
    boot: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def identify(pid: int | None = None) -> ProcessId:
    """The identity of a process, by default of this one; ``began`` is 0 if there is no such process."""
    pid = os.getpid() if pid is None else pid
    status = _status(pid)
    return ProcessId(pid, int(status[19]) if status else 0, _boot())


def is_alive(process: ProcessId) -> bool:
    """Whether exactly this process still runs (a zombie does not)."""
    status = _status(process.pid)
    return bool(status) and status[0] != "Z" and int(status[19]) == process.began and process.boot == _boot()


def wait_passively() -> None:
    """Let threads of OpenMP sleep while they wait, unless the user has chosen otherwise.

    By default they spin: two threads that boost trees took twice the processor time. OpenMP reads this when it is
    loaded, so call it before LightGBM or scikit-learn are imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def die_with_parent(parent: int, kill_signal: int = signal.SIGKILL) -> None:
    """Have the kernel end this process when ``parent`` ends, however that happens."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, kill_signal)
    if os.getppid() != parent:  # it ended before the kernel knew
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name under which ``ps`` and ``top`` list this process and what it forks; 15 letters at most."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def kill_group(leader: int) -> None:
    """End a process and all it started in its group, at once."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_leftover(process: ProcessId, patience: float = 5.0) -> None:
    """End the group of a worker whose supervisor died, and wait until it is gone.

    The leader may be dead while processes it started live on: its number cannot have been given to another
    process as long as the group exists, unless the machine was started anew.
    """
    leader = identify(process.pid)
    if process.boot != leader.boot or leader.began not in (0, process.began):
        return
    deadline = time.monotonic() + patience
    while _group_lives(process.pid) and time.monotonic() < deadline:
        kill_group(process.pid)
        time.sleep(0.01)


def limit_memory(megabytes: int) -> None:
    """Limit what this process allocates on top of what it began with; files mapped into memory do not count."""
    import resource

    status = Path("/proc/self/status").read_text()
    born_with = int(status.split("VmData:")[1].split()[0]) * 1024
    limit = born_with + megabytes * 1_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    # If the whole machine runs short all the same, the kernel should choose this process, not the studio.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def exit_text(code: int) -> str:
    """Return how a process ended, by the exit code that Python gives: the name of a signal, or the code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # most real-time signals have no name
        return f"signal {-code}"


def usable_memory() -> int:
    """Megabytes; a container's own limit counts where there is one."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        if limit.is_file() and (text := limit.read_text().strip()).isdigit():
            total = min(total, int(text))
    return int(total * MEMORY_SHARE / 1_000_000)


def _status(pid: int) -> list[str]:
    """What ``/proc`` says of a process, from its state on; the name before it may hold spaces and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


@cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _group_lives(leader: int) -> bool:
    """Whether any process of the group runs. Zombies do not: in a container perhaps nobody ever collects them."""
    processes = (_status(int(each.name)) for each in Path("/proc").iterdir() if each.name.isdigit())
    return any(status and status[0] != "Z" and int(status[2]) == leader for status in processes)
