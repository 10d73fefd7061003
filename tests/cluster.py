"""A Dask cluster of real processes on this machine.

They have the environment of a lab, so that the lab finds all of them.

- ``Cluster``  a scheduler and its workers; who is who among the processes beside them
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from tests.command_line import COMMAND
from tests.faults.lab import Lab
from tests.waiting import until

DASK = str(Path(sys.executable).with_name("dask"))
START_SECONDS = 120.0


@dataclass
class Cluster:
    """A scheduler on a free port.

    ``within`` is put before a command, for example to run it in a namespace.
    """

    lab: Lab
    host: str = "127.0.0.1"
    within: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)
    protocol: str = "tcp"

    def __post_init__(self) -> None:
        self.folder = self.lab.root / f"cluster-{uuid4().hex[:8]}"
        self.folder.mkdir()
        self.nannies: list[subprocess.Popen[bytes]] = []
        self._started: list[subprocess.Popen[bytes]] = []
        self.address = ""
        self._start_scheduler("0")

    def _start_scheduler(self, port: str) -> None:
        about = self.folder / f"scheduler-{uuid4().hex[:8]}.json"
        words = [*self.within, DASK, "scheduler", "--host", self.host, "--port", port]
        words += ["--scheduler-file", str(about), "--protocol", self.protocol]
        self.scheduler = self._start(words)
        self.address = until(lambda: self._address(about), START_SECONDS, "a Dask scheduler")

    def restart_scheduler(self) -> None:
        """Kill the scheduler and start another one at its address; its workers end."""
        self.lab.kill(self.scheduler.pid)
        self.scheduler.wait()
        for nanny in self.nannies:
            nanny.wait(START_SECONDS)
        self.nannies.clear()
        self._start_scheduler(self.address.rpartition(":")[2])

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing the lab has caused outlives its cluster."""
        self.lab.kill_everything()
        for process in self._started:
            process.wait()

    def start_worker(
        self, *, host: str | None = None, within: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """A worker with one thread. A nanny starts it again when it dies. Runs wait for it."""
        words = [DASK, "worker", self.address, "--host", host or self.host, "--nthreads", "1"]
        # Dask itself would restart a worker that has little memory.
        words += ["--memory-limit", "0"]
        nanny = self._start(
            [*within, *words, "--local-directory", str(self.folder / uuid4().hex[:8])]
        )
        self.nannies.append(nanny)
        return nanny

    def start_odd_worker(self, *python: str, **environment: str) -> None:
        """A worker without a nanny, whose Python has other options or sees other packages."""
        command = "from distributed.cli.dask_worker import main; main()"
        words = [sys.executable, *python, "-c", command, self.address, "--host", self.host]
        words += ["--nthreads", "1", "--no-nanny"]
        self._start([*words, "--local-directory", str(self.folder / uuid4().hex[:8])], environment)

    def run(self, document: dict[str, Any], *words: str) -> subprocess.Popen[str]:
        """Start a run on this cluster."""
        command = [
            COMMAND,
            "run",
            self.lab.write(document),
            "--json",
            "--executor",
            self.address,
            *words,
        ]
        return subprocess.Popen(
            [*self.within, *command],
            env=self.lab.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def executions(self) -> Counter[str]:
        """How often each node's code was begun.

        Unlike ``Lab.executions`` it allows a process that has released its work and is about to
        end when the node starts on another worker.
        """
        return Counter(line.split()[0] for line in self.lab.trace())

    # Who is who. A host forks its fork server and that one the nodes, so the three look alike.

    def workers(self) -> set[int]:
        """The Dask workers, once all have started; above each is its nanny."""
        return until(lambda: self._workers(), START_SECONDS, "all Dask workers")

    def nodes(self) -> list[int]:
        """The processes in which nodes run."""
        parents = {
            pid: parent(pid)
            for pid, line in self.lab.processes().items()
            if "engine.executors.dask" in line
        }
        return [pid for pid, fork_server in parents.items() if parents.get(fork_server) in parents]

    def worker_of(self, node: int) -> int:
        """The Dask worker of a node, its third parent: above it are fork server and host."""
        return parent(parent(parent(node)))

    def left_by_nodes(self) -> list[int]:
        """What nodes have started and not waited for."""
        return [pid for pid, line in self.lab.processes().items() if line[0] == "sleep"]

    def supervisors(self) -> list[int]:
        """The processes that own a run."""
        return self.lab.supervisors()

    def _workers(self) -> set[int]:
        children = [each for nanny in self.nannies for each in psutil.Process(nanny.pid).children()]
        found = {each.pid for each in children if any("spawn_main" in w for w in command_of(each))}
        return found if len(found) == len(self.nannies) else set()

    def _start(
        self, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        ours = {**self.lab.environment, "OMP_NUM_THREADS": "1", **self.settings}
        with (self.folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [*words, "--no-dashboard"],
                env={**ours, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self._started.append(process)
        return process

    def _address(self, about: Path) -> str:
        assert self.scheduler.poll() is None, (self.folder / "log.txt").read_text()
        try:
            return json.loads(about.read_text())["address"]
        except (FileNotFoundError, ValueError):
            return ""


def command_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess):  # a zombie has none any more
        return process.cmdline()
    return []


def parent(pid: int) -> int:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).ppid()
    return 0
