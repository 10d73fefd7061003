"""Requests that wait at the same moment, answered together.

``RequestBatcher`` has one thread. While it is at work requests gather,
and what has gathered is its next work: what costs the
same for one row and for twenty is then paid once. A request that comes alone is answered at once, as it would be
without all this.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Outcome = bytes | Exception
Asked = tuple[bytes, "asyncio.Future[bytes]"]


class RequestBatcher:
    """Answers bodies by ``answer``, as many at once as wait and have ``most`` bytes together.

    ``answer`` gives an outcome for each of them, in their order: the answer, or the exception that whoever asked gets.
    """

    def __init__(self, answer: Callable[[Sequence[bytes]], Sequence[Outcome]], most: int) -> None:
        self._answer, self._most = answer, most
        self._waiting: deque[Asked] = deque()
        self._lock = threading.Lock()
        self._working = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="together")

    async def ask(self, body: bytes) -> bytes:
        """The answer to one body."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[bytes] = loop.create_future()
        with self._lock:
            self._waiting.append((body, told))
            if not self._working:
                self._thread.submit(self._work, loop)
                self._working = True
        return await told

    def close(self) -> None:
        """Finish what is under way."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while asked := self._taken():
            bodies = [body for body, _ in asked]
            try:
                outcomes = self._answer(bodies)
            except Exception as error:
                outcomes = [error] * len(asked)
            loop.call_soon_threadsafe(_tell, asked, outcomes)

    def _taken(self) -> list[Asked]:
        """What is answered next; nothing if nothing waits, and then the work is over."""
        taken: list[Asked] = []
        size = 0
        with self._lock:
            while self._waiting and (not taken or size + len(self._waiting[0][0]) <= self._most):
                taken.append(self._waiting.popleft())
                size += len(taken[-1][0])
            self._working = bool(taken)
        return taken


def _tell(asked: Sequence[Asked], outcomes: Sequence[Outcome]) -> None:
    for (_, told), outcome in zip(asked, outcomes, strict=True):
        if told.done():  # who asked has gone
            continue
        if isinstance(outcome, Exception):
            told.set_exception(outcome)
        else:
            told.set_result(outcome)
