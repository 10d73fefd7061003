"""Runs each node in a process of its own on this machine."""

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
from typing import Any

from engine.errors import reader_crashed
from engine.executors import (
    Failure,
    NodeFailed,
    NodeFinished,
    NodeProgress,
    NodeStarted,
    NodeTask,
    PartialResult,
    RunEvent,
    SubtaskUpdate,
)
from engine.executors.fork_server import start_fork_server
from engine.executors.worker import out_of_memory
from engine.processes import ProcessId, exit_text, kill_group
from engine.workspace import Workspace

GRACE_SECONDS = 0.5
"""How long a node may take to stop by itself before it is killed."""


@dataclass
class _Running:
    job: NodeTask
    leader: int | None = None
    deadline: float | None = None
    verdict: Failure | None = None
    """Why it was killed, when it was this executor that killed it."""
    reading: str = ""
    """The file from outside that the node reads now."""
    reading_field: str | None = None


class LocalExecutor:
    """As many worker processes at once as ``slots``, forked from a fork server."""

    def __init__(self, workspace: Workspace, slots: int) -> None:
        self.workspace = workspace
        self.slots = slots
        self.running: dict[str, _Running] = {}
        self._wake, self._wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._unsent = b""
        self._fork_server, self._requests, self._reports = start_fork_server()

    @property
    def free(self) -> int:
        """How many jobs may be submitted now."""
        return self.slots - len(self.running)

    def submit(self, job: NodeTask, upcoming: Mapping[str, None]) -> None:
        """Ask the fork server for a worker."""
        self.running[job.node] = _Running(job)
        self._unsent += json.dumps({"job": job.to_dict(), "upcoming": dict(upcoming)}).encode() + b"\n"
        self._send()

    def wait(self, timeout: float | None) -> list[RunEvent]:
        """What workers told, which of them ended, and which took too long."""
        unsent = [self._requests] if self._unsent else []
        readable, writable, _ = select.select([self._reports.fileno(), self._wake], unsent, [], self._patience(timeout))
        if writable:
            self._send()
        if self._wake in readable:
            os.read(self._wake, 4096)
        reports = self._read_reports()
        self._end_overdue()
        return reports + self._replace_lost_fork_server()

    def wake(self) -> None:
        """Make ``wait`` return."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_end, b"x")

    def stop(self) -> list[str]:
        """Ask all workers to stop, then make them."""
        stopping = dict(self.running)
        for each in stopping.values():
            if each.leader:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(each.leader, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_SECONDS
        while self.running and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        for each in stopping.values():
            if each.leader:  # also of a worker that was only just starting when it was asked to stop
                kill_group(each.leader)
        self.running.clear()
        return list(stopping)

    def close(self) -> None:
        """End the fork server and with it whatever still runs."""
        self._requests.close()
        os.kill(self._fork_server, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._fork_server, 0)
        self._reports.close()

    def _send(self) -> None:
        """As much as the fork server takes now: it may itself be waiting for its reports to be read."""
        # A fork server that has just died is noticed in `wait`, which fails its jobs.
        with contextlib.suppress(OSError):
            while self._unsent:
                self._unsent = self._unsent[self._requests.send(self._unsent, socket.MSG_DONTWAIT) :]

    def _patience(self, timeout: float | None) -> float | None:
        deadlines = [each.deadline for each in self.running.values() if each.deadline]
        limits = [deadline - time.monotonic() for deadline in deadlines]
        if timeout is not None:
            limits.append(timeout)
        return max(0.0, min(limits)) if limits else None

    def _read_reports(self) -> list[RunEvent]:
        reports: list[RunEvent] = []
        while select.select([self._reports], [], [], 0)[0]:
            message = json.loads(self._reports.recv(1 << 20))
            running = self.running.get(message["node"])
            if running and running.job.attempt == message["attempt"]:
                reports += self._understand(running, message)
        return reports

    def _understand(self, running: _Running, message: dict[str, Any]) -> list[RunEvent]:
        node = running.job.node
        match message["kind"]:
            case "started":
                process = ProcessId(**message["process"])
                running.leader = process.pid
                if running.job.timeout:
                    running.deadline = time.monotonic() + running.job.timeout
                return [NodeStarted(node, process)]
            case "progress":
                return [NodeProgress(node, message["fraction"], message["text"])]
            case "jobs":
                return [SubtaskUpdate(node, message["jobs"])]
            case "reading":
                running.reading, running.reading_field = message["subject"], message["field"]
            case "part":
                return [PartialResult(node, message["part"], message["data"])]
            case "finished":
                del self.running[node]
                return [NodeFinished(node)]
            case "failed" if running.verdict is None:
                del self.running[node]
                return [NodeFailed(node, Failure(**message["failure"]))]
            case "ended":
                del self.running[node]
                return [NodeFailed(node, running.verdict or self._why_it_ended(running, message["code"]))]
        return []

    def _why_it_ended(self, running: _Running, code: int) -> Failure:
        job = running.job
        if code >= 0:
            return Failure("crashed", f"its process ended without a result (exit code {code}); its log may say why")
        if "bad_alloc" in _tail(self.workspace, job):
            return Failure("memory", out_of_memory(job))
        if -code == signal.SIGKILL:
            why = "was killed (SIGKILL): by someone, or by the system because the machine ran out of memory"
            return Failure("crashed", why)
        if running.reading:
            error = reader_crashed(running.reading, exit_text(code), running.reading_field)
            return Failure("bad-input", error.message, error.field, traceback=_tail(self.workspace, job))
        why = f"its process crashed ({exit_text(code)}); its log shows where"
        return Failure("crashed", why, traceback=_tail(self.workspace, job))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for running in self.running.values():
            if running.deadline and now >= running.deadline and running.leader:
                running.deadline = None
                running.verdict = Failure("timeout", f"took longer than its timeout of {running.job.timeout:g} s")
                kill_group(running.leader)

    def _replace_lost_fork_server(self) -> list[RunEvent]:
        pid, _ = os.waitpid(self._fork_server, os.WNOHANG)
        if not pid:
            return []
        reports = self._read_reports()
        for running in self.running.values():
            if running.leader:
                kill_group(running.leader)  # workers die with the fork server, what they started does not
        lost = Failure("crashed", "lost its process: the process that starts workers was killed")
        reports += [NodeFailed(node, lost) for node in self.running]
        self.running.clear()
        self._unsent = b""
        self._requests.close()
        self._reports.close()
        self._fork_server, self._requests, self._reports = start_fork_server()
        return reports


def _tail(workspace: Workspace, job: NodeTask, size: int = 4000) -> str:
    try:
        return workspace.node_log(job.run, job.node).read_text(errors="replace")[-size:]
    except OSError:
        return ""
