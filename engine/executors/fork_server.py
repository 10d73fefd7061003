"""The process from which every worker is forked.

It has one thread and nothing open but two sockets, so it is safe to fork, and it has loaded the
slow libraries, so a forked worker starts at once. Workers and fork server send messages to the
executor through one datagram socket: each message arrives whole, and the last event of a worker
arrives before its exit code. A message names the node and the try and has one more key:

- ``event``      a run event of the node
- ``reading``    the file from outside that the node reads now, and the parameter that names it
- ``exit_code``  how the worker's process ended, sent by the fork server

The kernel ends the fork server with its supervisor, and every worker with the fork server.
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
from pathlib import Path
from typing import Any

from engine.events import NodeFailed, NodeStarted, RunEvent
from engine.executors import NodeTask
from engine.executors.worker import describe, execute
from engine.processes import die_with_parent, identify, kill_group, limit_memory, write_output_to
from engine.workspace import Workspace

NICENESS = 5
"""Nodes use the whole machine, but programs that people look at meanwhile come first."""


def start_fork_server() -> tuple[int, socket.socket, socket.socket]:
    """Start a fork server; return its process id and the sockets for requests and messages."""
    requests, requests_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    messages, messages_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        requests_end.close()
        messages_end.close()
        return pid, requests, messages
    try:
        die_with_parent(supervisor)
        # One that replaces a lost fork server starts amid a run and must not hold its locks.
        _close_all_but(requests_end.fileno(), messages_end.fileno())
        _ForkServer(requests_end, messages_end).serve()
    finally:
        os._exit(0)


def preload(modules: Iterable[str]) -> None:
    """Import modules that are not loaded yet, and prepare this process to be forked.

    A module that cannot be imported fails later, in the node that needs it, with its own message.
    """
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        try:
            importlib.import_module(name)
        except Exception as error:
            message = f"{name} could not be loaded ahead of time: {error}"
            print(message, file=sys.stderr, flush=True)
    if not missing:
        return
    if "pyarrow" in sys.modules:
        # At its first conversion Arrow imports pandas, if it is installed; else every worker would.
        sys.modules["pyarrow"].scalar(0)
    # A collection in a worker would touch, and so copy, every page it shares with this process.
    gc.collect()
    gc.freeze()


def _close_all_but(*kept: int) -> None:
    """Close the files that this process has inherited, except these and its streams."""
    for handle in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if handle > 2 and handle not in kept:
            with contextlib.suppress(OSError):
                os.close(handle)


class _ForkServer:
    """The loop of the fork server, and what a forked worker does first."""

    def __init__(self, requests: socket.socket, messages: socket.socket) -> None:
        self.requests = requests
        self.messages = messages
        self.children: dict[int, int] = {}
        """The number of the request that each worker was forked for."""
        self.upcoming: dict[str, None] = {}
        self.unread = b""

    def serve(self) -> None:
        """Fork a worker for each request; between requests import what later nodes need."""
        # A signal writes into this pipe, so that ``select`` returns when a worker ends.
        wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            requests = self.requests.fileno()
            timeout = 0 if self.upcoming else None
            readable, _, _ = select.select([requests, wake], [], [], timeout)
            if wake in readable:
                os.read(wake, 4096)
            self._reap()
            if requests in readable:
                for request in self._read_requests():
                    preload(request["task"]["imports"])
                    self._fork(NodeTask.from_dict(request["task"]), request["number"])
                    self.upcoming |= request["upcoming"]
            elif self.upcoming:
                soonest = next(iter(self.upcoming))
                del self.upcoming[soonest]
                preload([soonest])

    def _read_requests(self) -> Iterator[dict[str, Any]]:
        """Yield complete requests, one JSON object a line; exit when the executor has closed."""
        received = self.requests.recv(1 << 20)
        if not received:
            os._exit(0)
        *lines, self.unread = (self.unread + received).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def _fork(self, task: NodeTask, number: int) -> None:
        """Start a worker, the leader of a new process group."""
        fork_server = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                self._become_worker(task, number, fork_server)
            finally:
                os._exit(0)
        # Here and in the worker: the group must exist before either of them goes on.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self.children[pid] = number

    def _become_worker(self, task: NodeTask, number: int, fork_server: int) -> None:
        """Run a task in this forked process: own group, log and memory limit."""

        def send(event: RunEvent) -> None:
            self._send(number, event=event.to_dict())

        os.setpgid(0, 0)
        die_with_parent(fork_server)
        os.nice(NICENESS)
        # Sent by the worker itself, so that it arrives before all its other events.
        send(
            NodeStarted(
                node=task.node, try_number=task.try_number, key=task.key, process=identify()
            )
        )
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.requests.close()
        try:
            _write_to(
                Workspace(Path(task.workspace)).node_log(task.run, task.node), task.try_number
            )
        except OSError as error:  # a full disk, for instance
            send(NodeFailed(node=task.node, error=describe(error, task)))
            return
        faulthandler.enable()
        limit_memory(task.memory_limit)
        execute(task, send, lambda subject, field: self._send(number, reading=[subject, field]))

    def _reap(self) -> None:
        """Report the workers that have ended and kill what they left behind."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            kill_group(pid)  # processes that the node started and left behind
            self._send(self.children.pop(pid), exit_code=os.waitstatus_to_exitcode(status))

    def _send(self, number: int, **content: Any) -> None:
        """Send a message about the worker of a request to the executor."""
        self.messages.send(json.dumps({"number": number, **content}).encode())


def _write_to(log: Path, try_number: int) -> None:
    """Send everything the node prints to its log."""
    write_output_to(log)
    # The parent may have replaced its streams, in a test run for instance; these are the worker's.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if try_number > 1:
        print(time.strftime("%H:%M:%S"), f"try {try_number}")
