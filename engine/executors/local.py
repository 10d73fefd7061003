"""Run each node in a process of its own on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from engine.errors import reader_crashed
from engine.events import Failure, NodeFailed, NodeFinished, NodeStarted, RunEvent, event_from_dict
from engine.executors import NodeTask
from engine.executors.fork_server import start_fork_server
from engine.executors.worker import out_of_memory
from engine.processes import exit_text, kill_group
from engine.workspace import Workspace

NO_MEMORY = ("bad_alloc", "LLVM ERROR: Unable to allocate")
"""What C++ libraries write when they get no memory."""
GRACE_SECONDS = 0.5
"""How long a node may take to stop by itself before it is killed."""


@dataclass
class _Running:
    """A task that was submitted and has not ended."""

    task: NodeTask
    number: int
    """Counts the tasks, so that a late message of an earlier one is not taken for one of this."""
    leader: int | None = None
    """The process of the node, which leads its process group."""
    deadline: float | None = None
    killed_because: Failure | None = None
    """Why this executor killed it, if it did."""
    reading: str = ""
    """The file from outside that the node reads now."""
    reading_field: str | None = None


class LocalExecutor:
    """Runs up to ``slots`` worker processes at once, forked from a fork server."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.running: dict[str, _Running] = {}
        self._numbers = count()
        # The workers whose end the fork server has not reported, by number.
        self._leaders: dict[int, int] = {}
        self._wake, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._unsent = b""
        self._fork_server, self._requests, self._messages = start_fork_server()

    @property
    def free(self) -> int:
        """How many tasks may be submitted now."""
        return self.slots - len(self.running)

    def submit(self, task: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Ask the fork server for a worker."""
        number = next(self._numbers)
        self.running[task.node] = _Running(task, number)
        request = {"task": task.to_dict(), "number": number, "upcoming": dict(upcoming)}
        self._unsent += json.dumps(request).encode() + b"\n"
        self._send()

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """Return new events of workers, of those that ended or took too long too."""
        # Ask to write only when there is something to send: ``select`` would return at once.
        unsent = [self._requests] if self._unsent else []
        readable, writable, _ = select.select(
            [self._messages.fileno(), self._wake], unsent, [], self._until_deadline(timeout)
        )
        if writable:
            self._send()
        if self._wake in readable:
            os.read(self._wake, 4096)
        events = self._read_messages()
        self._end_overdue()
        return events + self._replace_lost_fork_server()

    def wake(self) -> None:
        """Make ``wait`` return."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_end, b"x")

    def stop(self) -> list[str]:
        """Ask all workers to stop, kill those that do not, and return their nodes."""
        stopping = dict(self.running)
        for each in stopping.values():
            if each.leader:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(each.leader, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self.running and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        for each in stopping.values():
            if each.leader:  # also of a worker that was only starting when it was asked to stop
                kill_group(each.leader)
        self.running.clear()
        return list(stopping)

    def close(self) -> None:
        """End the fork server and with it every worker that still runs."""
        self._requests.close()
        os.kill(self._fork_server, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._fork_server, 0)
        self._read_messages()  # a process that has ended may have passed on its number
        self._kill_what_is_left()
        self._messages.close()

    def _send(self) -> None:
        """Send as much as the fork server takes now.

        Never block: the fork server may itself be waiting until its messages are read.
        """
        # A fork server that has just died is noticed in `wait`, which fails its tasks.
        with contextlib.suppress(OSError):
            while self._unsent:
                sent = self._requests.send(self._unsent, socket.MSG_DONTWAIT)
                self._unsent = self._unsent[sent:]

    def _until_deadline(self, timeout: float | None) -> float | None:
        """Return how long ``wait`` may sleep: until a node has used up its time, or ``timeout``."""
        deadlines = [each.deadline for each in self.running.values() if each.deadline]
        limits = [deadline - time.monotonic() for deadline in deadlines]
        if timeout is not None:
            limits.append(timeout)
        return max(0.0, min(limits)) if limits else None

    def _read_messages(self) -> list[RunEvent]:
        """Read all messages that have arrived; those of earlier tries no longer count."""
        events: list[RunEvent] = []
        while select.select([self._messages], [], [], 0)[0]:
            message = json.loads(self._messages.recv(1 << 20))
            number = message["number"]
            if "exit_code" in message:
                self._leaders.pop(number, None)
            for running in [each for each in self.running.values() if each.number == number]:
                events += self._handle(running, message)
        return events

    def _handle(self, running: _Running, message: dict[str, Any]) -> list[RunEvent]:
        """Return the event of a message, if it has one for the scheduler."""
        node = running.task.node
        if "reading" in message:
            running.reading, running.reading_field = message["reading"]
            return []
        if "exit_code" in message:
            del self.running[node]
            failure = running.killed_because or self._why_it_ended(running, message["exit_code"])
            return [NodeFailed(node=node, error=failure)]
        event = event_from_dict(message["event"])
        match event:
            case NodeStarted():
                if event.process:
                    running.leader = event.process.pid
                    self._leaders[running.number] = running.leader
                if running.task.timeout:
                    running.deadline = time.monotonic() + running.task.timeout
            case NodeFailed() if running.killed_because:
                return []  # its exit code follows, and the true reason is known here
            case NodeFinished() | NodeFailed():
                del self.running[node]
        return [event]

    def _why_it_ended(self, running: _Running, code: int) -> Failure:
        """Return why a process ended without a last event, from its exit code and its log."""
        task = running.task
        if code >= 0:
            why = f"its process ended without a result (exit code {code}); its log may say why"
            return Failure("crashed", why)
        trace = _tail(task)
        # C++ code ends the process when it gets no memory, before Python can raise MemoryError.
        if any(words in trace for words in NO_MEMORY):
            return Failure("memory", out_of_memory(task))
        if -code == signal.SIGKILL:
            why = (
                "was killed (SIGKILL): by a person, or by the system because the machine "
                "ran out of memory"
            )
            return Failure("crashed", why)
        if running.reading:
            error = reader_crashed(running.reading, exit_text(code), running.reading_field)
            return Failure("bad-input", error.message, error.field, traceback=trace)
        why = f"its process crashed ({exit_text(code)}); its log shows where"
        return Failure("crashed", why, traceback=trace)

    def _end_overdue(self) -> None:
        """Kill the nodes that have used up their time; their exit codes follow."""
        now = time.monotonic()
        for running in self.running.values():
            if running.deadline and now >= running.deadline and running.leader:
                running.deadline = None
                why = f"took longer than its timeout of {running.task.timeout:g} s"
                running.killed_because = Failure("timeout", why)
                kill_group(running.leader)

    def _kill_what_is_left(self) -> None:
        """Kill the groups of workers that a fork server which has ended did not see end.

        The workers have ended with it, but not their children.
        """
        for leader in self._leaders.values():
            kill_group(leader)
        self._leaders.clear()

    def _replace_lost_fork_server(self) -> list[RunEvent]:
        """If the fork server was killed, fail the nodes it ran and start another one."""
        pid, _ = os.waitpid(self._fork_server, os.WNOHANG)
        if not pid:
            return []
        events = self._read_messages()
        self._kill_what_is_left()
        lost = Failure("crashed", "lost its process: the process that starts workers was killed")
        events += [NodeFailed(node=node, error=lost) for node in self.running]
        self.running.clear()
        # The tasks in it have failed already.
        self._unsent = b""
        self._requests.close()
        self._messages.close()
        self._fork_server, self._requests, self._messages = start_fork_server()
        return events


def _tail(task: NodeTask, size: int = 4000) -> str:
    """Return the end of a node's log, where a crash leaves its trace."""
    try:
        log = Workspace(Path(task.workspace)).node_log(task.run, task.node)
        return log.read_text(errors="replace")[-size:]
    except OSError:
        return ""
