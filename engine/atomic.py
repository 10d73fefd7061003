"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4


class FileVersion(NamedTuple):
    """Which version of a file is on disk: two equal versions of a path have the same content."""

    inode: int
    size: int
    modified: int
    """Time of the last write, in nanoseconds. Programs can set it to an older date."""
    changed: int
    """Time of the last change of content, name or permissions, in nanoseconds. Programs cannot set it."""

    @classmethod
    def of(cls, path: Path) -> FileVersion | None:
        """Return the version that is on disk now.

        Return None unless it is a regular file: opening a pipe would block.
        """
        try:
            status = path.stat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def content(self) -> FileVersion:
        """Return the version without ``changed``, which a new name, a link or chmod alter as well."""
        return self._replace(changed=0)


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
