"""Errors a person can act on: each says what is wrong and how to mend it.

``SylvaError`` is the root of everything the command line shows as one plain sentence. ``BadInput`` is the
one a node raises for data or settings that cannot work; the engine adds which node it was.
"""

from __future__ import annotations


class SylvaError(Exception):
    """Something the user can mend; shown as its message, never as a traceback."""

    exit_code = 1


class BadInput(SylvaError):
    """A node's data or settings cannot work. ``field`` names the parameter to change, where there is one."""

    exit_code = 2

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def reader_crashed(file: str, how: str, field: str | None = None) -> BadInput:
    """Return the error for a file whose reader ended its own process; ``how`` is the signal or the exit code."""
    return BadInput(
        f"'{file}' cannot be read: the reader crashed ({how}), so the file is probably damaged; "
        "save it again or use another file",
        field=field,
    )


class Cancelled(SylvaError):
    """The run was asked to stop while this node was at work."""


class CorruptObject(SylvaError):
    """A stored output no longer has the bytes its name promises."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(f"Stored output {digest[:12]} is damaged: {reason}. It will be computed again.")
        self.digest = digest
