"""The process from which every worker is forked.

It has one thread and nothing open but two sockets, so forking it is safe, and it has loaded the slow libraries,
so a forked worker starts at once. Workers and fork server tell the supervisor what happens through one datagram
socket: each message arrives whole, and a worker's last word arrives before the news of its end.

The kernel ends the fork server with its supervisor and every worker with the fork server.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.executors import NodeTask
from engine.executors.worker import describe, execute
from engine.processes import die_with_parent, identify, kill_group, limit_memory
from engine.workspace import Workspace

NICENESS = 5
"""Nodes use all the machine has, but what people look at meanwhile comes first."""


def start_fork_server() -> tuple[int, socket.socket, socket.socket]:
    """Fork a fork server; its process id, the socket for requests and the socket of reports."""
    requests, requests_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    reports, reports_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        requests_end.close()
        reports_end.close()
        return pid, requests, reports
    try:
        die_with_parent(supervisor)
        _close_all_but(requests_end.fileno(), reports_end.fileno())
        _ForkServer(requests_end, reports_end).serve()
    finally:
        os._exit(0)


def preload(modules: Iterable[str]) -> None:
    """Load what is not loaded yet. What cannot be loaded fails the node that needs it, later, with its own message."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name} could not be loaded ahead of time: {error}", file=sys.stderr, flush=True)
    if not missing:
        return
    if "pyarrow" in sys.modules:
        # At its first conversion Arrow looks for pandas and loads it where it is installed; else every worker would.
        sys.modules["pyarrow"].scalar(0)
    # A collection in a worker would touch, and so copy, every page it shares with this process.
    gc.collect()
    gc.freeze()


def _close_all_but(*kept: int) -> None:
    """A fork server that replaces a lost one is forked amid a run: nothing it starts may hold on to the run's locks."""
    for handle in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if handle > 2 and handle not in kept:
            with contextlib.suppress(OSError):
                os.close(handle)


class _ForkServer:
    def __init__(self, requests: socket.socket, reports: socket.socket) -> None:
        self.requests = requests
        self.reports = reports
        self.children: dict[int, NodeTask] = {}
        self.upcoming: dict[str, None] = {}
        self.unread = b""

    def serve(self) -> None:
        """Fork what is asked for; load what will be needed whenever there is nothing else to do."""
        wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            requests = self.requests.fileno()
            readable, _, _ = select.select([requests, wake], [], [], 0 if self.upcoming else None)
            if wake in readable:
                os.read(wake, 4096)
            self._reap()
            if requests in readable:
                for request in self._read_requests():
                    preload(request["job"]["imports"])
                    self._fork(NodeTask.from_dict(request["job"]))
                    self.upcoming |= request["upcoming"]
            elif self.upcoming:
                soonest = next(iter(self.upcoming))
                del self.upcoming[soonest]
                preload([soonest])

    def _read_requests(self) -> Iterator[dict[str, Any]]:
        received = self.requests.recv(1 << 20)
        if not received:
            os._exit(0)
        *lines, self.unread = (self.unread + received).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def _fork(self, job: NodeTask) -> None:
        fork_server = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                self._become_worker(job, fork_server)
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self.children[pid] = job

    def _become_worker(self, job: NodeTask, fork_server: int) -> None:
        os.setpgid(0, 0)
        die_with_parent(fork_server)
        os.nice(NICENESS)
        # Sent by the worker itself, so that it comes before everything else it tells.
        self._tell(job, "started", process=identify().to_dict())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.requests.close()
        try:
            _write_to(Workspace(Path(job.workspace)).node_log(job.run, job.node), job.attempt)
        except OSError as error:  # a full disk, for instance
            self._tell(job, "failed", failure=asdict(describe(error, job)))
            return
        faulthandler.enable()
        limit_memory(job.memory_limit)
        execute(job, lambda kind, **facts: self._tell(job, kind, **facts))

    def _reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            kill_group(pid)  # what the node started and left behind
            self._tell(self.children.pop(pid), "ended", code=os.waitstatus_to_exitcode(status))

    def _tell(self, job: NodeTask, kind: str, **facts: Any) -> None:
        message = {"node": job.node, "attempt": job.attempt, "kind": kind, **facts}
        self.reports.send(json.dumps(message).encode())


def _write_to(log: Path, attempt: int) -> None:
    """Send everything the node prints to its log, also what libraries print from C."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(handle, stream)
    os.close(handle)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # Whatever the parent's streams were, in a test run for instance, these are the worker's.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if attempt > 1:
        print(time.strftime("%H:%M:%S"), f"attempt {attempt}")
