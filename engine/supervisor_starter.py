"""Start the supervisors of runs, for the command line and the studio.

Loading the engine takes half a second. So a process is started early that loads it and waits:
``python -m engine.supervisor``. For each request it forks a supervisor, which lives on without the
process that asked for it.

A request carries two locks as open files: the workspace is in use, and the run is claimed. A lock
belongs to the open file and not to a process, so it has a holder at every moment, also when a
process dies while the request is on its way. The kernel releases a lock when its last holder dies,
so a killed starter or supervisor protects nothing any longer. The third open file is one end of a
connection on which the supervisor reports who it is; it closes when the supervisor ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import SylvaError
from engine.processes import ProcessId, is_alive
from engine.workspace import CLEANING_SECONDS, LEAVING_SECONDS, Workspace

MAX_MESSAGE_BYTES = 1 << 16
PRELOAD = "--preload"


class SupervisorStarter:
    """A process that is ready to fork supervisors."""

    def __init__(self, *, preload: bool = False) -> None:
        """Start the process; with ``preload`` it also loads the libraries that nodes need."""
        self._options = [PRELOAD] if preload else []
        self._sending = threading.Lock()
        self._launch()

    def _launch(self) -> None:
        """Start the process that forks supervisors."""
        self._requests, end = _connection()
        with end:
            # -P: modules in the current folder must not replace those of the engine. A new session:
            # Ctrl-C in the terminal must not reach the runs.
            command = [sys.executable, "-P", "-m", "engine.supervisor", *self._options]
            self._process = subprocess.Popen(command, stdin=end.fileno(), start_new_session=True)

    def start(self, workspace: Workspace, run_id: str) -> SupervisorProcess:
        """Start the supervisor of a run; raise ``Busy`` if the run has one already."""
        ours, theirs = _connection()
        try:
            with theirs, self._sending:
                if not self._send(workspace, run_id, theirs):  # the process was killed
                    self.close()
                    self._process.wait()
                    self._launch()
                    if not self._send(workspace, run_id, theirs):
                        raise SylvaError(
                            f"Run {run_id} could not be started: the process that starts runs "
                            "ended twice. See its messages in the terminal."
                        )
        except OSError as error:
            ours.close()
            message = f"Run {run_id} could not be started: {error.strerror or error}."
            raise SylvaError(message) from error
        except BaseException:
            ours.close()
            raise
        return SupervisorProcess(ours)

    def _send(self, workspace: Workspace, run_id: str, connection: socket.socket) -> bool:
        """Claim the run and send it with its locks; return False if no process can receive it."""
        message = json.dumps({"workspace": str(workspace.root), "run": run_id}).encode()
        # Always in this order: `sylva gc` can remove a run that is claimed before the lock is held.
        with (
            workspace.in_use(CLEANING_SECONDS) as in_use,
            workspace.claim(run_id, LEAVING_SECONDS) as claim,
        ):
            try:
                socket.send_fds(self._requests, [message], [in_use, claim, connection.fileno()])
            except (BrokenPipeError, ConnectionResetError):
                return False
        return True

    def close(self) -> None:
        """Let the process end; the supervisors that it has started live on."""
        self._requests.close()

    def __enter__(self) -> SupervisorStarter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SupervisorProcess:
    """The supervisor of a run, as seen by the process that asked for it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._cancelled = False
        self.identity: ProcessId | None = None
        """The process, once it has reported."""
        self.failed = False
        """Whether it ended by an error of its own; its log has the error."""
        self.ended = False

    def poll(self) -> bool:
        """Read what it has reported since; return whether it has ended."""
        with contextlib.suppress(BlockingIOError):
            while not self.ended:
                self._receive(socket.MSG_DONTWAIT)
        return self.ended

    def wait(self) -> None:
        """Wait for its end."""
        while not self.ended:
            self._receive()

    def cancel(self) -> None:
        """Ask it to stop, now or as soon as it has reported."""
        self._cancelled = True
        if self.identity and is_alive(self.identity):
            os.kill(self.identity.pid, signal.SIGTERM)

    def close(self) -> None:
        """Stop listening; the supervisor lives on."""
        self._connection.close()

    def _receive(self, flags: int = 0) -> None:
        """Read one report; an empty message means that the supervisor has ended."""
        try:
            message = self._connection.recv(MAX_MESSAGE_BYTES, flags)
        except ConnectionResetError:
            message = b""
        if not message:
            self.ended = True
            return
        report = json.loads(message)
        # The first report says which process it is, a second one that it failed.
        self.failed = report.get("failed", self.failed)
        if "process" in report:
            self.identity = ProcessId(**report["process"])
            if self._cancelled:
                self.cancel()


@dataclass(frozen=True)
class SupervisorRequest:
    """A run to supervise, and the open files that hold its locks."""

    workspace: Workspace
    run_id: str
    locks: list[int]
    connection: socket.socket

    def report(self, **facts: Any) -> None:
        """Report to the process that asked for the run, if it still listens."""
        with contextlib.suppress(OSError):
            self.connection.send(json.dumps(facts).encode())

    def close(self) -> None:
        """Close the open files; the locks are released unless another process holds them."""
        for lock in self.locks:
            os.close(lock)
        self.connection.close()


def receive_request(requests: socket.socket) -> SupervisorRequest | None:
    """Wait for a request; return None when the other end is closed."""
    # Programs that a node starts must not inherit the open files.
    flags = socket.MSG_CMSG_CLOEXEC
    message, handles, _, _ = socket.recv_fds(requests, MAX_MESSAGE_BYTES, 3, flags)
    if not message:
        return None
    facts = json.loads(message)
    *locks, connection = handles
    workspace = Workspace(Path(facts["workspace"]))
    return SupervisorRequest(workspace, facts["run"], locks, socket.socket(fileno=connection))


def _connection() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets on which each message arrives whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
