"""Change files so that readers see the old or the new state, never a part; also after a power cut.

- ``replacing``    write a file beside another, then replace that one
- ``swap_folder``  replace a folder by a finished one
- ``put_in_place``, ``sync``  put a finished file there; make a file or a folder durable
- ``FileVersion``  which version of a file is on disk
- ``lock``         the lock between processes: shared or exclusive, with or without patience
- ``read_lock``, ``write_lock``  locks of a folder that is read, or replaced, as a whole
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from engine.errors import SylvaError

POLL_SECONDS = 0.02
OLD = "old"
"""Where ``write_lock`` keeps the folder that is being replaced."""


class Busy(SylvaError):
    """Another process holds the lock."""


# Files and folders


class FileVersion(NamedTuple):
    """Which version of a file is on disk: two equal versions of a path have the same content."""

    inode: int
    size: int
    modified: int
    """Time of the last write, in nanoseconds. Programs can set it to an older date."""
    changed: int
    """Time of the last change of content, name or permissions, in nanoseconds.

    Programs cannot set it.
    """

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
        """Return the version without ``changed``, which a new name, a link or chmod also alter."""
        return self._replace(changed=0)


def sync(path: Path) -> None:
    """Write a file's bytes, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def replacing(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Yield a temporary file to fill; it then replaces ``path`` in one step.

    The temporary file is beside ``path``, or in ``folder``, which must be on the same disk.
    """
    name = f".{path.name[:100]}.{uuid4().hex[:8]}.unfinished"
    temporary = (folder or path.parent) / name
    try:
        yield temporary
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        put_in_place(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def put_in_place(file: Path, path: Path) -> None:
    """Replace ``path`` by a finished file on the same disk."""
    sync(file)
    file.replace(path)
    sync(path.parent)


def swap_folder(new: Path, folder: Path, old: Path) -> None:
    """Replace ``folder`` by ``new``; the old one moves to ``old``, if there was one."""
    # A power cut must not leave the new name with files that were not written.
    for path in (*new.rglob("*"), new):
        sync(path)
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    sync(folder.parent)


# Locks


@contextmanager
def lock(
    path: Path,
    *,
    shared: bool = False,
    patience: float | None = None,
    busy: str = "Another process uses it; try again later.",
    on_wait: Callable[[], None] | None = None,
    create_folder: bool = False,
) -> Iterator[int]:
    """Hold the lock of the file ``path``; yield its handle, which may be passed to another process.

    The kernel releases the lock when the last process that holds it ends, however it ends.

    Parameters
    ----------
    shared:
        Whether others may hold the lock at the same time, as long as they share it too.
    patience:
        How many seconds to wait before ``Busy`` is raised with the text ``busy``; ``None`` waits
        without end.
    on_wait:
        Called once if another process holds the lock.
    create_folder:
        Whether to create the folder of the file, also if it disappears meanwhile.
    """
    import fcntl

    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = None if patience is None else time.monotonic() + patience
    waiting = False
    while True:
        if create_folder:
            path.parent.mkdir(exist_ok=True)
        try:
            # Over NFS a shared lock needs a file open for reading, an exclusive one for writing.
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            if create_folder:
                continue  # the folder was removed right after it was created
            raise
        try:
            if not _try_lock(handle, mode):
                if on_wait and not waiting:
                    on_wait()
                waiting = True
                _wait_for_lock(handle, mode, deadline, busy)
            # A lock only counts if the file is still the same: its last holder may have removed it.
            if _is_same(handle, path):
                yield handle
                return
        finally:
            os.close(handle)


def _try_lock(handle: int, mode: int) -> bool:
    """Lock the file if no other process holds a lock that excludes it."""
    import fcntl

    try:
        fcntl.flock(handle, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_lock(handle: int, mode: int, deadline: float | None, busy: str) -> None:
    """Wait for the lock; raise ``Busy`` with the text ``busy`` at the deadline."""
    import fcntl

    if deadline is None:
        fcntl.flock(handle, mode)
        return
    while time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        if _try_lock(handle, mode):
            return
    raise Busy(busy)


def _is_same(handle: int, path: Path) -> bool:
    """Return whether ``path`` is still the file that was opened."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def read_lock(folder: Path) -> Iterator[None]:
    """Keep ``folder`` from being replaced meanwhile.

    Without effect where no file may be written.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(lock(_lock_beside(folder), shared=True))
        yield


@contextmanager
def write_lock(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``folder`` to work in; other users of ``folder`` wait.

    What a killed process left there is removed; a folder that it had moved away comes back.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".{folder.name}.unfinished")
    with lock(_lock_beside(folder)):
        _clear(temporary, folder)
        temporary.mkdir()
        try:
            yield temporary
        finally:
            _clear(temporary, folder)


def _lock_beside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


def _clear(temporary: Path, folder: Path) -> None:
    """Remove the temporary folder, after the folder inside it was put back."""
    old = temporary / OLD
    # A process was killed between the two renames of ``swap_folder``.
    if old.exists() and not folder.exists():
        old.rename(folder)
    if temporary.exists():
        shutil.rmtree(temporary)
