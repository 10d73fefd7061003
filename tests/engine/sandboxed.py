"""Functions that the tests of the sandbox call in a child process: each fails in its own way."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from engine.errors import BadInput


def add(a: int, b: int) -> int:
    return a + b


def process() -> list[int]:
    return [os.getpid(), os.getppid()]


def abort() -> None:
    os.abort()


def segfault() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def sleep(pause: float) -> str:
    time.sleep(pause)
    return "awake"


def take_memory() -> None:
    held = []
    while True:
        held.append(bytes(10_000_000))


def take_arrow_memory() -> None:
    import pyarrow as pa

    held = []
    while True:
        held.append(pa.allocate_buffer(50_000_000))


def refuse() -> None:
    raise BadInput("the header is missing", field="header")


def break_down() -> None:
    raise ZeroDivisionError("first line\nsecond line")


def table(rows: int) -> Any:
    import pyarrow as pa

    words = pa.chunked_array(
        [pa.array(["a", None, "b"]).dictionary_encode(), pa.array(["c"]).dictionary_encode()]
    )
    data = pa.table({"word": words, "number": [1.5, None, 2.5, 3.5]})
    return {"rows": rows}, pa.concat_tables([data] * rows)


def count(to: int, then_abort: bool = False) -> Generator[int, None, None]:
    yield from range(to)
    if then_abort:
        os.abort()


def count_slowly(note: str, pause: float) -> Generator[int, None, None]:
    """Count until the caller stops; write the last number when that happens."""
    number = 0
    try:
        while True:
            yield (number := number + 1)
            time.sleep(pause)
    finally:
        Path(note).write_text(str(number))
