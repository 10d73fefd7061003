"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


def sync(path: Path) -> None:
    """Have the disk keep a file's bytes, or a folder's names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file to be filled; it then takes the place of ``path``, which readers see old or new, never half."""
    temporary = path.with_name(f".{path.name[:100]}.{uuid4().hex[:8]}.unfinished")
    try:
        yield temporary
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
