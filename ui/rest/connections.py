"""Connections to a service: how long one may keep the service waiting, and how many there may be.

uvicorn gives a connection all the time it wants for its first request, and takes as many as there are. Here one is
closed that has not sent the head of a request in time, and those beyond the most that can be held are turned away.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0
"""Time from the opening of a connection, or the first byte of a further request, to the end of the request's head."""
MOST = 512
"""Connections at once."""
ACCEPTED_AT_ONCE = 128
"""Connections that are opened before any of them is looked at."""
OTHER_FILES = 64
"""Files that the program itself may have open."""
SPEAK_SECONDS = 10.0
"""Time between two lines about connections that could not be taken."""

TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 68\r\n"
    b"Connection: close\r\nRetry-After: 1\r\n\r\n"
    b'{"error":"There are too many connections; try again.","problems":[]}'
)


class Connection(H11Protocol):
    """One that is closed unless it asks for something in time."""

    most = MOST
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request, or turn it away."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(TURNED_AWAY)
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting unless the head of a request is complete."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._limit is None and not self.transport.is_closing():
            self._limit = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def make_room() -> None:
    """Let the program have as many files open as its connections take; else take no more than there is room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    besides = ACCEPTED_AT_ONCE + OTHER_FILES
    wanted = MOST + besides
    if 0 <= soft < wanted:  # without any limit it is below zero
        soft = min(wanted, hard) if hard >= 0 else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    Connection.most = MOST if soft < 0 else max(1, min(MOST, soft - besides))


class Trouble:
    """Tells what went wrong in the loop; of connections that cannot be taken, a line now and then."""

    def __init__(self) -> None:
        self._spoke = -SPEAK_SECONDS

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Asked by the loop."""
        if "socket.accept()" not in context.get("message", ""):
            loop.default_exception_handler(context)
        elif time.monotonic() - self._spoke >= SPEAK_SECONDS:
            self._spoke = time.monotonic()
            print(f"Connections cannot be taken: {context.get('exception')}.", file=sys.stderr, flush=True)
