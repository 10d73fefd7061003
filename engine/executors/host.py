"""The process beside a Dask worker that looks after one node at a time.

A node must not run inside a Dask worker: a crash would take the worker along, and a thread cannot be stopped. So each
thread of a Dask worker keeps a host: a process with one thread that runs jobs through a ``LocalExecutor``, with all
that comes with it (loaded libraries, limits on memory and time, a process group for each node).

- ``Host``   the Dask worker's end: hands over a job and hears what becomes of it
- ``serve``  the host's end

The kernel tells the host when its Dask worker dies, however it dies; the host then ends its node and all the node has
started.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.catalogue import load_catalog
from engine.executors import NodeTask, Report, report_to_dict
from engine.executors.local import GRACE_SECONDS, LocalExecutor
from engine.processes import die_with_parent, usable_memory, wait_passively
from engine.workspace import Workspace

LOOK_SECONDS = 1.0


class Host:
    """A host for jobs of one workspace, as the thread that started it sees it."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self._line, end = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.executors.host", workspace, str(os.getpid()), str(end.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[end.fileno()],
            start_new_session=True,
        )
        end.close()

    @property
    def alive(self) -> bool:
        """Whether it can take a job."""
        return self._process.poll() is None

    def begin(self, job: dict[str, Any], upcoming: Iterable[str]) -> None:
        """Hand over a job. A host that has just died is noticed in ``hear``."""
        with contextlib.suppress(OSError):
            self._line.send_bytes(json.dumps({"job": job, "upcoming": list(upcoming)}).encode())

    def hear(self, timeout: float) -> dict[str, Any] | None:
        """Its next report, if one comes in time; ``OSError`` or ``EOFError`` once the host is gone."""
        return json.loads(self._line.recv_bytes()) if self._line.poll(timeout) else None

    def end(self) -> None:
        """End it and the node it runs; returns when both are gone."""
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS + LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._line.close()


def serve(workspace: Path, dask_worker: int, line: Connection) -> None:
    """Run the jobs that come, one after the other, until the Dask worker is gone or says so."""
    die_with_parent(dask_worker, signal.SIGTERM)
    wait_passively()
    load_catalog()  # every node's process is a copy of this one and has it too
    executor = LocalExecutor(Workspace(workspace), slots=1)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGCHLD, lambda *_: executor.wake())
    try:
        while True:
            order = json.loads(line.recv_bytes())
            job = fit_to_this_machine(NodeTask.from_dict(order["job"]))
            for report in _run(executor, job, order["upcoming"]):
                line.send_bytes(json.dumps(report_to_dict(report)).encode())
    except (EOFError, OSError):
        pass  # nobody is left at the other end
    finally:
        executor.stop()
        executor.close()


def _leave(*_: object) -> None:
    # Asked twice, by the Dask worker and by its death, it must still finish ending its node.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def _run(executor: LocalExecutor, job: NodeTask, upcoming: list[str]) -> Iterator[Report]:
    executor.submit(job, dict.fromkeys(upcoming))
    while executor.running:
        yield from executor.wait(LOOK_SECONDS)


def fit_to_this_machine(job: NodeTask) -> NodeTask:
    """The job with the threads and the memory there are here, which the supervisor cannot know."""
    threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return replace(
        job,
        threads=max(1, int(threads)) if threads.isdigit() else 1,
        memory_limit=min(job.memory_limit, usable_memory()),
    )


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), Connection(int(sys.argv[3])))
