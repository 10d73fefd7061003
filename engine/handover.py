"""How a run passes from the process that starts it to its supervisor.

The starter takes two locks: the workspace is in use, and the run is claimed. It sends both, as open
files, together with the name of the run. A lock belongs to the open file and not to a process, so
there is no moment without a holder: also when the starter dies while the message is on its way. The
kernel gives a lock back when its last holder dies, so a starter or a supervisor that was killed
protects nothing any longer.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path

from engine.workspace import CLEANING_SECONDS, LEAVING_SECONDS, Workspace

LONGEST_MESSAGE = 1 << 16


@dataclass(frozen=True)
class Order:
    """A run to supervise, and the open files that hold its locks."""

    workspace: Workspace
    run: str
    locks: list[int]


def new_line() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets on which each message arrives whole."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_order(line: socket.socket, workspace: Workspace, run: str) -> None:
    """Claim a run and send it with its locks; raise ``Busy`` if another process has it."""
    message = json.dumps({"workspace": str(workspace.root), "run": run}).encode()
    # Always in this order: what may be cleaned away cannot be claimed.
    with (
        workspace.in_use(CLEANING_SECONDS) as in_use,
        workspace.claim(run, LEAVING_SECONDS) as claim,
    ):
        socket.send_fds(line, [message], [in_use, claim])


def receive_order(line: socket.socket) -> Order | None:
    """Wait for an order; return None when the other end is closed."""
    # Programs that a node starts must not inherit the locks.
    message, locks, _, _ = socket.recv_fds(line, LONGEST_MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
    if not message:
        return None
    about = json.loads(message)
    return Order(Workspace(Path(about["workspace"])), about["run"], locks)
