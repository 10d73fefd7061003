"""Answer requests that wait at the same moment in one batch.

A prediction costs nearly the same for one row and for twenty. ``RequestBatcher`` has one thread.
Requests that arrive while it works are collected and become its next batch. A request that arrives
alone is answered at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Outcome = bytes | Exception
WaitingRequest = tuple[bytes, "asyncio.Future[bytes]"]


class RequestBatcher:
    """Answer request bodies in batches of at most ``max_bytes``.

    ``answer`` returns an outcome for each body of a batch, in the same order: the answer, or the
    exception that ``submit`` raises for this body. A body larger than ``max_bytes`` is a batch of
    its own.
    """

    def __init__(
        self, answer: Callable[[Sequence[bytes]], Sequence[Outcome]], max_bytes: int
    ) -> None:
        self._answer = answer
        self._max_bytes = max_bytes
        self._waiting: deque[WaitingRequest] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="batch")

    async def submit(self, body: bytes) -> bytes:
        """Return the answer to one body; raise the exception that ``answer`` returned for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        with self._lock:
            self._waiting.append((body, answer))
            # Inside the lock: either the thread still sees this request, or it is started again.
            if not self._running:
                self._thread.submit(self._run, loop)
                self._running = True
        return await answer

    def close(self) -> None:
        """Finish the batch that is running; requests that wait are not answered."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer batches in the thread of the batcher until no request waits."""
        while batch := self._next_batch():
            bodies = [body for body, _ in batch]
            try:
                outcomes = self._answer(bodies)
            except Exception as error:
                # Each request must get an outcome, or it would never be answered.
                outcomes = [error] * len(batch)
            loop.call_soon_threadsafe(_set_outcomes, batch, outcomes)

    def _next_batch(self) -> list[WaitingRequest]:
        """Return the next requests to answer; an empty list ends the work."""
        batch: list[WaitingRequest] = []
        size = 0
        with self._lock:
            while self._waiting:
                body, _ = self._waiting[0]
                if batch and size + len(body) > self._max_bytes:
                    break
                batch.append(self._waiting.popleft())
                size += len(body)
            self._running = bool(batch)
        return batch


def _set_outcomes(batch: Sequence[WaitingRequest], outcomes: Sequence[Outcome]) -> None:
    """Hand the outcomes to the requests that wait for them; runs in the event loop."""
    for (_, answer), outcome in zip(batch, outcomes, strict=True):
        if answer.done():  # the caller has disconnected
            continue
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
