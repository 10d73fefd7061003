"""Starting, resuming and cancelling runs: what the command line and the app ask for.

- ``find_all_problems``    what is wrong with a pipeline and with the files it reads
- ``new_run``              note a run down; a ``Standby`` supervisor or a ``Launcher`` then starts it
- ``request_cancel``       ask a run to stop
- ``Launcher``             a process kept warm by an app, from which a supervisor starts without loading anything
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial

from engine.catalogue import NodeCatalog
from engine.crash_points import crash_point
from engine.errors import BadInput, SylvaError
from engine.events import EventLog
from engine.files import Files
from engine.handover import Order, new_line, receive_order, send_order
from engine.node_types import NodeParams, NodeType
from engine.pipeline import Pipeline
from engine.pipeline_file import dumps
from engine.plan import RunOptions, cache_key
from engine.problems import Problem
from engine.processes import ProcessId, is_alive, wait_passively
from engine.run_state import RunState
from engine.store import Store
from engine.validation import find_problems, find_source_problems
from engine.workspace import Workspace


def find_all_problems(
    document: Pipeline, catalogue: NodeCatalog, request: RunOptions, workspace: Workspace
) -> list[Problem]:
    """Everything that is wrong with a document and with the files it reads, before anything runs."""
    problems = find_problems(document, catalogue)
    if problems:
        return problems
    files, store = Files(workspace.root, request.allow_absolute), Store(workspace)
    return find_source_problems(document, catalogue, files, partial(_was_read_before, files, store))


def _was_read_before(files: Files, store: Store, node_type: NodeType, params: NodeParams) -> bool:
    """A file that was read without complaint and has not changed since need not be read to be checked."""
    if node_type.inputs:
        return False
    try:
        outside = node_type.fingerprint(params, files) if node_type.fingerprint else ""
    except BadInput:
        return False
    return store.find(cache_key(node_type, params, {}, {}, outside)) is not None


def new_run(log: EventLog, document: Pipeline, request: RunOptions) -> str:
    """Note down a run of a valid document; its id. Hold ``Workspace.in_use`` until the run is handed over."""
    run = log.create_run(document.name, dumps(document), request.to_dict())
    crash_point("run-created", "run")
    return run


def request_cancel(state: RunState) -> None:
    """Ask the run's supervisor to stop; it ends the nodes and leaves the run resumable."""
    if not state.live or state.supervisor is None:
        raise SylvaError(f"Run {state.id} is not running; it is {state.state}.")
    supervisor = ProcessId(**state.supervisor)
    if is_alive(supervisor):
        os.kill(supervisor.pid, signal.SIGTERM)


class Launcher:
    """Starts supervisors from a process that has everything loaded. One thread, so that it may fork."""

    def __init__(self) -> None:
        self._process, self._line = _warm_process()
        self._speaking = threading.Lock()

    def start(self, workspace: Workspace, run: str) -> None:
        """Start the supervisor of a run; it outlives this launcher. A warm process that has died is replaced."""
        with self._speaking:
            try:
                if self._process.poll() is not None or not self._send(workspace, run):
                    self._end()
                    self._process, self._line = _warm_process()
                    if not self._send(workspace, run):
                        raise SylvaError(f"Run {run} could not be started: the process that starts runs keeps ending.")
            except OSError as error:
                raise SylvaError(f"Run {run} could not be started: {error.strerror or error}.") from error

    def close(self) -> None:
        """End the warm process; runs it has started go on."""
        self._end()

    def _send(self, workspace: Workspace, run: str) -> bool:
        try:
            send_order(self._line, workspace, run)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _end(self) -> None:
        self._line.close()
        self._process.wait()


def _warm_process() -> tuple[subprocess.Popen[bytes], socket.socket]:
    line, end = new_line()
    with end:
        command = [sys.executable, "-P", "-m", "engine.launch"]
        return subprocess.Popen(command, stdin=end.fileno(), start_new_session=True), line


def _serve() -> None:
    """Load what nodes need, then fork a supervisor for each order."""
    from engine.catalogue import load_catalog
    from engine.executors.fork_server import preload

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    wait_passively()
    needed = {name for node_type in load_catalog().values() for name in node_type.imports}
    preload(["engine.supervisor", "networkx", *sorted(needed)])
    with socket.socket(fileno=sys.stdin.fileno()) as line:
        while order := receive_order(line):
            _fork_supervisor(order)


def _fork_supervisor(order: Order) -> None:
    """Fork twice: the supervisor belongs to no one and leaves no zombie behind."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        for lock in order.locks:  # from here on they are the supervisor's alone
            os.close(lock)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    from engine.supervisor import obey

    try:
        obey(order)
    finally:
        os._exit(0)


if __name__ == "__main__":
    _serve()
