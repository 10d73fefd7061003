"""What waits at the same moment is answered at once, and each gets what is its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from ui.rest.batching import Outcome, RequestBatcher

PATIENCE = 30


class Slow:
    """Answers in capitals once it is released, ``?`` with its own error, and fails at ``!``.

    It records what it was asked.
    """

    def __init__(self) -> None:
        self.came: list[list[bytes]] = []
        self.at_work, self.let_go = threading.Event(), threading.Event()

    def __call__(self, bodies: Sequence[bytes]) -> list[Outcome]:
        self.came.append(list(bodies))
        self.at_work.set()
        assert self.let_go.wait(PATIENCE)
        if b"!" in bodies:
            raise OSError("failed")
        return [ValueError("why") if body == b"?" else body.upper() for body in bodies]


async def asked_behind(
    slow: Slow, batcher: RequestBatcher, bodies: Sequence[bytes]
) -> list[asyncio.Task[bytes]]:
    """Questions that have come while the first one, ``first``, is at work."""
    tasks = [asyncio.create_task(batcher.submit(b"first"))]
    assert await asyncio.to_thread(slow.at_work.wait, PATIENCE)
    tasks += [asyncio.create_task(batcher.submit(body)) for body in bodies]
    await asyncio.sleep(0)
    return tasks


def ask_behind(
    slow: Slow, bodies: Sequence[bytes], most: int = 1000
) -> list[bytes | BaseException]:
    """What the first and they get."""

    async def ask() -> list[bytes | BaseException]:
        batcher = RequestBatcher(slow, most)
        tasks = await asked_behind(slow, batcher, bodies)
        slow.let_go.set()
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
        batcher.close()
        return outcomes

    return asyncio.run(ask())


def test_what_gathers_is_answered_at_once():
    slow = Slow()
    assert ask_behind(slow, [b"a", b"b", b"c"]) == [b"FIRST", b"A", b"B", b"C"]
    assert slow.came == [[b"first"], [b"a", b"b", b"c"]]


@pytest.mark.parametrize(
    ("most", "parts"),
    [
        (4, [[b"aa", b"bb"], [b"cccc"], [b"d"]]),
        (5, [[b"aa", b"bb"], [b"cccc", b"d"]]),
        (1, [[b"aa"], [b"bb"], [b"cccc"], [b"d"]]),  # also what is larger is answered
    ],
)
def test_not_more_bytes_than_may_be(most, parts):
    slow = Slow()
    assert ask_behind(slow, [b"aa", b"bb", b"cccc", b"d"], most) == [
        b"FIRST",
        b"AA",
        b"BB",
        b"CCCC",
        b"D",
    ]
    assert slow.came[1:] == parts


def test_an_error_is_of_the_one_that_asked():
    first, one, wrong, other = ask_behind(Slow(), [b"a", b"?", b"b"])
    assert (first, one, other) == (b"FIRST", b"A", b"B")
    assert isinstance(wrong, ValueError)


def test_a_failure_reaches_all_that_were_asked_and_the_next_are_answered():
    first, *failed, other, last = ask_behind(Slow(), [b"a", b"!", b"bb", b"c"], most=3)
    assert all(isinstance(each, OSError) for each in failed) and len(failed) == 2
    assert (first, other, last) == (b"FIRST", b"BB", b"C")


def test_one_that_has_gone_is_nothing_to_the_others():
    async def ask() -> list[bytes | BaseException]:
        slow = Slow()
        batcher = RequestBatcher(slow, 1000)
        tasks = await asked_behind(slow, batcher, [b"a", b"b"])
        tasks[0].cancel()
        tasks[1].cancel()
        slow.let_go.set()
        assert await asyncio.wait_for(tasks[2], PATIENCE) == b"B"
        assert await asyncio.wait_for(batcher.submit(b"later"), PATIENCE) == b"LATER"
        batcher.close()
        return await asyncio.gather(*tasks[:2], return_exceptions=True)

    assert all(isinstance(each, asyncio.CancelledError) for each in asyncio.run(ask()))
