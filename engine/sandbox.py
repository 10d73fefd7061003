"""Call a function in a child process with limits, because the file it reads may come from anyone.

A damaged Parquet file can make Arrow's C++ code end the whole process, and a small gzip file can hold terabytes. In a
child process this costs one call: the caller gets ``BadInput`` with a clear message and goes on.

- ``call``    calls a function and returns its result
- ``stream``  calls a generator function and yields its results, until a file ends the process
- ``warm``    starts the server process early, so that the first call is quick too

A server process loads the slow modules once and forks a child for each call, so that a call costs milliseconds. Child
and caller talk through one socket in lines of JSON; an Arrow table travels as a memory file, which the caller maps.
Nothing is unpickled. This protects from accidents and damaged files. It does not take away the child's rights.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput, Cancelled, SylvaError, reader_crashed
from engine.executors.fork_server import preload
from engine.processes import die_with_parent, exit_text, limit_memory, wait_passively

if TYPE_CHECKING:
    import pyarrow as pa

MEGABYTES = 2_000
SECONDS = 60.0
GRACE_SECONDS = 60.0
"""The kernel ends a child after its time. A server that does not say so within this time is taken for lost."""
STOP_SECONDS = 5.0
"""How long a caller that stops early waits for the child to clean up."""
RESULT_BYTES = 1 << 30
"""Largest table that a call returns."""


@dataclass(frozen=True)
class Call:
    """What to call, for which file, and within which limits."""

    function: str
    """``module:function``. It returns JSON, or a pair of JSON and an Arrow table."""
    subject: str
    """The file, as messages name it."""
    arguments: Mapping[str, Any]
    imports: Sequence[str] = ()
    """Slow modules that the function needs."""
    field: str | None = "source"
    """The setting that names the file."""
    megabytes: int = MEGABYTES
    seconds: float = SECONDS
    """Longest time until the first result, and from one to the next."""


def call(request: Call) -> Any:
    """Return the function's result: JSON, or JSON and a table. ``BadInput`` if it refuses or does not survive."""
    results = list(stream(request))
    return results[-1]


def stream(request: Call) -> Generator[Any, None, None]:
    """Yield each result as it comes. ``BadInput`` if the function refuses or does not survive.

    A caller that stops early stops the function as well: it gets ``Cancelled`` where it would give its next result.
    """
    for last_try in (False, True):
        try:
            yield from _server.ask(request)
            return
        except _Lost as lost:
            if last_try or lost.answered:
                raise SylvaError(
                    f"'{request.subject}' could not be read: the process that reads files ended."
                ) from lost


def warm(imports: Sequence[str]) -> None:
    """Start the server and load modules there, without waiting for it."""
    with contextlib.suppress(OSError, SylvaError):
        connection, _ = _server.connect({"imports": list(imports)})
        connection.close()


# The caller's side


class _Lost(Exception):
    """The server ended before it reported the end of the child."""

    def __init__(self, *, answered: bool) -> None:
        super().__init__()
        self.answered = answered


class _Server:
    """The server process as its callers see it. Several threads may call at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self, request: Mapping[str, Any]) -> tuple[socket.socket, int]:
        """Send a request to the server, started if need be; the socket of its answers and the child's error output."""
        ours, theirs = socket.socketpair()
        errors = os.memfd_create("sylva-errors")
        with theirs:
            for _ in range(2):  # a server that has ended is replaced
                try:
                    with self._lock:
                        socket.send_fds(self._running(), [b"x"], [theirs.fileno(), errors])
                    ours.settimeout(GRACE_SECONDS)
                    ours.sendall(json.dumps(request).encode() + b"\n")
                    return ours, errors
                except OSError:
                    self._stop()
        ours.close()
        os.close(errors)
        raise SylvaError("The process that reads files could not be started.")

    def ask(self, request: Call) -> Generator[Any, None, None]:
        """Yield what the child answers; raise what became of it."""
        asked = {
            "function": request.function, "arguments": dict(request.arguments), "imports": list(request.imports),
            "megabytes": request.megabytes, "seconds": request.seconds,
        }  # fmt: skip
        connection, errors = self.connect(asked)
        answered = False
        with connection, os.fdopen(errors, "rb") as error_output, _stopped_at_the_end(connection):
            connection.settimeout(request.seconds + GRACE_SECONDS)
            for kind, value in _messages(connection):
                match kind:
                    case "result":
                        answered = True
                        yield value
                    case "refused":
                        raise BadInput(value["message"], field=value["field"])
                    case "failed":
                        raise _unreadable(request, value)
                    case "done":
                        return
                    case "ended":
                        error_output.seek(0)
                        raise _why_it_ended(request, value, error_output.read()[-10_000:])
        raise _Lost(answered=answered)

    def _running(self) -> socket.socket:
        if self._process is None or self._control is None or self._process.poll() is not None:
            self._start()
        assert self._control is not None
        return self._control

    def _start(self) -> None:
        self._stop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # -P: modules of the current folder must not be loaded. A session of its own: Ctrl-C is not for the server.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "engine.sandbox", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._control = ours

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


_server = _Server()


@contextlib.contextmanager
def _stopped_at_the_end(connection: socket.socket) -> Iterator[None]:
    """Make the child stop when its caller leaves early, and give it a moment to clean up."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            connection.settimeout(STOP_SECONDS)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        raise


def _messages(connection: socket.socket) -> Iterator[tuple[str, Any]]:
    """Yield kind and value of each line, until the other side has closed. A table is mapped, not copied."""
    unread, files = b"", []
    try:
        while True:
            received, handles, _, _ = socket.recv_fds(connection, 1 << 16, 1)
            files += handles
            if not received:
                return
            *lines, unread = (unread + received).split(b"\n")
            for line in lines:
                message = json.loads(line)
                value = message["value"]
                if message.get("table"):
                    value = (value, _mapped(files.pop(0)))
                yield message["kind"], value
    except (TimeoutError, ConnectionResetError):
        return
    finally:
        for handle in files:
            os.close(handle)


def _mapped(handle: int) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(f"/proc/self/fd/{handle}")).read_all()
    finally:
        os.close(handle)


def _unreadable(request: Call, reason: str) -> BadInput:
    return BadInput(f"'{request.subject}' cannot be read: {reason}", field=request.field)


def _why_it_ended(request: Call, code: int, error_output: bytes) -> BadInput:
    if code == -signal.SIGALRM:
        reason = f"it took longer than {request.seconds:g} seconds, so the file is probably damaged"
        return _unreadable(request, reason)
    if b"bad_alloc" in error_output:
        return _unreadable(request, _too_large(request.megabytes))
    if code == -signal.SIGKILL:
        reason = "the process that read it was killed, perhaps because the machine ran out of memory"
        return _unreadable(request, reason)
    return reader_crashed(request.subject, exit_text(code), request.field)


def _too_large(megabytes: int) -> str:
    return f"it needs more than {megabytes:,} MB of memory; use a smaller file, or one that is not damaged"


# The server


def _serve(control: socket.socket) -> None:
    """Fork a child for each request; report to its caller how the child ended."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not fork
    wait_passively()
    wake, wake_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([control.fileno(), wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
        _report_ended(children)
        if control.fileno() in readable:
            received, handles, _, _ = socket.recv_fds(control, 1, 2)
            if not received:
                return
            connection = socket.socket(fileno=handles[0])
            with contextlib.suppress(OSError, ValueError):
                _take_request(connection, handles[1], control, children)
            os.close(handles[1])


def _take_request(
    connection: socket.socket, errors: int, control: socket.socket, children: dict[int, socket.socket]
) -> None:
    connection.settimeout(GRACE_SECONDS)
    request = json.loads(_read_line(connection))
    preload(request["imports"])
    if "function" not in request:
        connection.close()
        return
    preload([request["function"].partition(":")[0]])
    server = os.getpid()
    pid = os.fork()
    if pid:
        children[pid] = connection
        return
    try:
        die_with_parent(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        _answer(connection, request, errors)
    finally:
        os._exit(0)


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        received = connection.recv(1 << 16)
        if not received:
            raise ConnectionResetError
        line += received
    return line


def _report_ended(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as connection, contextlib.suppress(OSError):  # the caller may be gone
            _send(connection, "ended", os.waitstatus_to_exitcode(status))


# The child


def _answer(connection: socket.socket, request: dict[str, Any], errors: int) -> None:
    """Call the function within the limits and send what it returns or raises."""
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    faulthandler.disable()
    _start_clock(request)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(request["megabytes"])
    module, _, name = request["function"].partition(":")
    try:
        result = getattr(import_module(module), name)(**request["arguments"])
        with contextlib.closing(result if isinstance(result, Generator) else _single(result)) as results:
            for each in results:
                _check_not_stopped(connection)
                _send_result(connection, each)
                _start_clock(request)
        _send(connection, "done", None)
    except Cancelled:
        return
    except BadInput as error:
        _send(connection, "refused", {"message": error.message, "field": error.field})
    except MemoryError:
        _send(connection, "failed", _too_large(request["megabytes"]))
    except Exception as error:  # a file from elsewhere may break a reader in any way
        reason = (str(error) or type(error).__name__).splitlines()[0]
        is_memory = "bad_alloc" in reason or "malloc of size" in reason
        _send(connection, "failed", _too_large(request["megabytes"]) if is_memory else reason[:300])


def _single(result: Any) -> Generator[Any, None, None]:
    yield result


def _start_clock(request: dict[str, Any]) -> None:
    """Have the kernel end this process if the next result takes too long, also while C code runs."""
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])


def _check_not_stopped(connection: socket.socket) -> None:
    if select.select([connection], [], [], 0)[0]:  # the caller sends nothing more: only its end can be read
        raise Cancelled("The caller has stopped.")


def _send_result(connection: socket.socket, result: Any) -> None:
    if not isinstance(result, tuple):
        _send(connection, "result", result)
        return
    import pyarrow as pa

    value, table = result
    if table.nbytes > RESULT_BYTES:
        raise MemoryError
    handle = os.memfd_create("sylva-table")
    with pa.OSFile(f"/proc/self/fd/{handle}", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.unify_dictionaries())
    line = json.dumps({"kind": "result", "value": value, "table": True}).encode() + b"\n"
    sent = socket.send_fds(connection, [line], [handle])
    connection.sendall(line[sent:])


def _send(connection: socket.socket, kind: str, value: Any) -> None:
    connection.sendall(json.dumps({"kind": kind, "value": value}).encode() + b"\n")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
