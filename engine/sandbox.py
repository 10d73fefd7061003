"""Call a function in a child process with limits, because the file it reads may come from anyone.

A damaged Parquet file can make Arrow's C++ code end the whole process, and a small gzip file can
hold terabytes. In a child process this costs one call: the caller gets ``BadInput`` with a clear
message and continues.

- ``call``    calls a function and returns its result
- ``stream``  calls a generator function and yields its results as they come
- ``warm``    starts the server process early, so that the first call is fast too

A server process loads the slow modules once and forks a child for each call, so that a call takes
milliseconds. Child and caller exchange lines of JSON through one socket; an Arrow table is passed
as a memory file, which the caller maps. Nothing is unpickled. This protects from accidents and
damaged files. It does not restrict what the child may do: it has the rights of its user.
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
"""The kernel ends a child when its time is over. A server that has not reported this after so many
more seconds is considered lost."""
STOP_SECONDS = 5.0
"""How long a caller that stops early waits for the child to clean up."""
KILLED = "the process that read it was killed, perhaps because the machine ran out of memory"
RESULT_BYTES = 1 << 30
"""Largest table that a call returns."""


@dataclass(frozen=True)
class Call:
    """Describe what to call, for which file, and within which limits.

    The arguments must be JSON: they travel to another process.
    """

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
    slow: str = "the file is probably damaged"
    """Why a call may take longer than that, as messages say it."""


def call(request: Call) -> Any:
    """Return the function's result: JSON, or a pair of JSON and a table.

    Raise ``BadInput`` if the function refuses the file, exceeds a limit or crashes.
    """
    results = list(stream(request))
    return results[-1]


def stream(request: Call) -> Generator[Any, None, None]:
    """Yield each result as it comes.

    Raise ``BadInput`` if the function refuses the file, exceeds a limit or crashes. A caller that
    stops early also stops the function, which gets ``Cancelled`` at its next result.
    """
    # The server may end between two calls, for example when memory runs out: try once more. Not
    # after a first result, since the caller has already used it.
    for last_try in (False, True):
        try:
            yield from _server.call(request)
            return
        except _ServerLost as lost:
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


class _ServerLost(Exception):
    """The server ended before it reported the end of the child."""

    def __init__(self, *, answered: bool) -> None:
        super().__init__()
        self.answered = answered


class _Server:
    """Start the server process and send it requests. Several threads may call at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self, request: Mapping[str, Any]) -> tuple[socket.socket, int]:
        """Send a request to the server, which is started if necessary.

        Return the socket of the answers, and the file descriptor of the child's error output.
        """
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

    def call(self, request: Call) -> Generator[Any, None, None]:
        """Yield the results of the child. Raise ``BadInput`` or ``_ServerLost`` if it fails."""
        message = {
            "function": request.function,
            "arguments": dict(request.arguments),
            "imports": list(request.imports),
            "megabytes": request.megabytes,
            "seconds": request.seconds,
        }
        connection, errors = self.connect(message)
        answered = False
        with connection, os.fdopen(errors, "rb") as error_output, _stop_child(connection):
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
                        raise _error_of_exit(request, value, error_output.read()[-10_000:])
        raise _ServerLost(answered=answered)

    def _running(self) -> socket.socket:
        """Return the socket of the server, which is started if it does not run."""
        if self._process is None or self._control is None or self._process.poll() is not None:
            self._start()
        assert self._control is not None
        return self._control

    def _start(self) -> None:
        """Start a new server process; the caller holds the lock."""
        self._stop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            # -P: modules of the current folder must not be loaded. A new session: Ctrl-C in the
            # terminal must not reach the server.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "engine.sandbox", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._control = ours

    def _stop(self) -> None:
        """End the server process, which also ends its children."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._control = self._process = None


_server = _Server()


@contextlib.contextmanager
def _stop_child(connection: socket.socket) -> Iterator[None]:
    """Stop the child when its caller leaves early, and give it a moment to clean up."""
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
    """Yield kind and value of each line until the other side closes the socket.

    A table is mapped, not copied.
    """
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
                    # A file descriptor arrives before or with the line that it belongs to.
                    value = (value, _mapped(files.pop(0)))
                yield message["kind"], value
    except (TimeoutError, ConnectionResetError):
        return
    finally:
        for handle in files:
            os.close(handle)


def _mapped(handle: int) -> pa.Table:
    """Map the table of a memory file, and close the descriptor: the mapping keeps the memory."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(f"/proc/self/fd/{handle}")).read_all()
    finally:
        os.close(handle)


def _unreadable(request: Call, reason: str) -> BadInput:
    """Return the error for a file that cannot be read, with the setting that names it."""
    return BadInput(f"'{request.subject}' cannot be read: {reason}", field=request.field)


def _error_of_exit(request: Call, code: int, error_output: bytes) -> BadInput:
    """Return the error for a child that ended without a message, by its exit code."""
    if code == -signal.SIGALRM:
        reason = f"it took longer than {request.seconds:g} seconds, so {request.slow}"
        return _unreadable(request, reason)
    # C++ and Rust code ends the process when it gets no memory; Python never sees the exception.
    if b"bad_alloc" in error_output or b"memory allocation of" in error_output:
        return _unreadable(request, _too_large(request.megabytes))
    if code == -signal.SIGKILL:
        return _unreadable(request, KILLED)
    return reader_crashed(request.subject, exit_text(code), request.field)


def _too_large(megabytes: int) -> str:
    """Return the reason for a file that needs more memory than the limit, with what to do."""
    limit = f"{megabytes:,} MB of memory"
    return f"it needs more than {limit}; use a smaller file, or one that is not damaged"


# The server


def _serve(control: socket.socket) -> None:
    """Fork a child for each request, and report to its caller how the child ended.

    Return when the caller's process closes ``control``, which also happens when it ends.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a process with threads must not fork
    wait_passively()
    # A child that ends writes into this pipe, so that one ``select`` waits for both: children and
    # requests.
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
    connection: socket.socket,
    errors: int,
    control: socket.socket,
    children: dict[int, socket.socket],
) -> None:
    """Load the modules of one request and fork its child; without a function, only load them.

    The child never returns from here: it answers its caller and ends.
    """
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
    """Return one line; raise ``ConnectionResetError`` if the caller closes the socket before."""
    line = b""
    while not line.endswith(b"\n"):
        received = connection.recv(1 << 16)
        if not received:
            raise ConnectionResetError
        line += received
    return line


def _report_ended(children: dict[int, socket.socket]) -> None:
    """Send the exit code of every child that has ended to its caller."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        # The caller may have closed its end.
        with children.pop(pid) as connection, contextlib.suppress(OSError):
            _send(connection, "ended", os.waitstatus_to_exitcode(status))


# The child


def _answer(connection: socket.socket, request: dict[str, Any], errors: int) -> None:
    """Call the function within the limits and send what it returns or raises.

    Its output goes to the memory file ``errors``, from which the caller reads why a child crashed.
    """
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    faulthandler.disable()
    _start_clock(request)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(request["megabytes"])
    module, _, name = request["function"].partition(":")
    try:
        result = getattr(import_module(module), name)(**request["arguments"])
        results = result if isinstance(result, Generator) else _single(result)
        with contextlib.closing(results):
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
    except Exception as error:  # a damaged file may break a reader in any way
        reason = (str(error) or type(error).__name__).splitlines()[0]
        is_memory = "bad_alloc" in reason or "malloc of size" in reason
        message = _too_large(request["megabytes"]) if is_memory else reason[:300]
        _send(connection, "failed", message)


def _single(result: Any) -> Generator[Any, None, None]:
    """Yield the one result of a function that is not a generator."""
    yield result


def _start_clock(request: dict[str, Any]) -> None:
    """Have the kernel end this process if the next result takes too long, even in C code."""
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])


def _check_not_stopped(connection: socket.socket) -> None:
    """Raise ``Cancelled`` if the caller has closed its end of the socket."""
    # The caller sends nothing after the request, so that only the end of the stream can be read.
    if select.select([connection], [], [], 0)[0]:
        raise Cancelled("The caller has stopped.")


def _send_result(connection: socket.socket, result: Any) -> None:
    """Send JSON, or JSON and a table: the table is written into a memory file for the caller.

    Raise ``MemoryError`` for a table above ``RESULT_BYTES``: it would take the caller's memory.
    """
    if not isinstance(result, tuple):
        _send(connection, "result", result)
        return
    import pyarrow as pa

    value, table = result
    if table.nbytes > RESULT_BYTES:
        raise MemoryError
    handle = os.memfd_create("sylva-table")
    with (
        pa.OSFile(f"/proc/self/fd/{handle}", "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table.unify_dictionaries())
    line = json.dumps({"kind": "result", "value": value, "table": True}).encode() + b"\n"
    sent = socket.send_fds(connection, [line], [handle])
    connection.sendall(line[sent:])


def _send(connection: socket.socket, kind: str, value: Any) -> None:
    """Send one message as a line of JSON."""
    connection.sendall(json.dumps({"kind": kind, "value": value}).encode() + b"\n")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
