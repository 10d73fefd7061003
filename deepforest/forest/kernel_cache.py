"""Save compiled kernels in a folder that all processes of a user share.

All copies of the same kernel source on one machine share one folder below the user's cache folder.
Its name is a hash of all that the machine code depends on: the source, the compiler's version and
the processor. The saved code is executed without a check, so the folder is used only if no other
user can write there.

- ``kernel_folder``     the folder, or None if compiled code cannot be saved
- ``is_ready``          whether all kernels of a part are saved there
- ``ensure_compiled``   wait until they are, and report the reason meanwhile
- ``start_compiling``   compile in the background
- ``file_lock``         held by the process that compiles; the others wait

Nothing here loads the compiler.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

COUNTS, WEIGHTS = "counts", "weights"
PARTS = (COUNTS, WEIGHTS)
"""Trees whose rows count in whole numbers (all the same, or drawn), and trees with row weights."""

COMPILING = "Compiling the forest kernels for this machine (once, about 30 s)"
WAITING = (
    "Waiting: another process is compiling the forest kernels for this machine (once, about 30 s)"
)
UNSAVED = "Compiling the forest kernels (about 30 s); they cannot be saved: {reason}"

SOURCES = ("_compile.py", "binning.py", "kernels.py", "prediction.py", "../arithmetic.py")
LOOK_SECONDS = 0.1
SAY_SECONDS = 5.0
PATIENCE_SECONDS = 300.0
"""A process that holds a lock for longer does not respond any more; the next one then compiles."""
READ_WRITE_ALL = 0o077


class FolderRefused(Exception):
    """Report that compiled code cannot be saved; the message says why and what to do."""


def kernel_folder() -> Path | None:
    """Return the folder of the compiled kernels, made if need be; None if it cannot be used."""
    try:
        return _checked_folder()
    except FolderRefused:
        return None


def _checked_folder() -> Path:
    home = _cache_home()
    if home is None:
        raise FolderRefused("there is no home folder; set XDG_CACHE_HOME to a folder of your own")
    folder = home / "sylva" / f"kernels-{_fingerprint()}"
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise FolderRefused(
            f"{folder} cannot be made ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder of your own"
        ) from error
    # Code from this folder is executed, so no other user may be able to write there.
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise FolderRefused(f"{folder} is not your own folder; remove it")
    if facts.st_mode & READ_WRITE_ALL:
        raise FolderRefused(f"{folder} is open to other users; run chmod 700 on it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FolderRefused(f"{folder} cannot be written; run chmod 700 on it")
    return folder


def _cache_home() -> Path | None:
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if Path(chosen).is_absolute():
        return Path(chosen)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


@cache
def _fingerprint() -> str:
    """Hash what the machine code depends on."""
    here = Path(__file__).parent
    parts = [(here / name).read_bytes() for name in SOURCES]
    versions = (platform.python_version(), version("numba"), version("llvmlite"), version("numpy"))
    parts += [part.encode() for part in (*versions, platform.machine(), *_processor())]
    digests = b"\0".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()[:16]


def _processor() -> list[str]:
    """Return the name and the features of the first processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return [platform.processor()]
    return sorted(
        line
        for line in lines
        if line.startswith(("vendor_id", "model", "flags", "Features", "CPU "))
    )


def is_ready(part: str) -> bool:
    """Return whether all kernels of ``part`` are compiled and saved."""
    folder = kernel_folder()
    return folder is not None and _mark(folder, part).exists()


def mark_ready(part: str) -> None:
    """Mark all kernels of ``part`` as saved."""
    folder = kernel_folder()
    if folder is not None:
        with contextlib.suppress(OSError):  # a full disk: they are looked for again the next time
            _mark(folder, part).touch()


def _mark(folder: Path, part: str) -> Path:
    return folder / f"ready-{part}"


@contextlib.contextmanager
def file_lock(name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold the lock ``name`` of the folder during a ``with`` block; do nothing without a folder.

    ``on_wait`` is called once if another process holds it.
    """
    handle = take_lock(name, on_wait)
    try:
        yield
    finally:
        release_lock(handle)


def take_lock(name: str, on_wait: Callable[[], None] = lambda: None) -> int | None:
    """Wait for a lock and return its handle.

    Return None without a folder, or if the holder does not release it in ``PATIENCE_SECONDS``.
    """
    handle = _open_lock(name)
    if handle is None or _try_lock(handle):
        return handle
    on_wait()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        if _try_lock(handle):
            return handle
    os.close(handle)
    return None


def release_lock(handle: int | None) -> None:
    """Release a lock that ``take_lock`` returned."""
    if handle is not None:
        os.close(handle)


def _open_lock(name: str) -> int | None:
    folder = kernel_folder()
    if folder is None:
        return None
    try:
        return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(name: str) -> bool:
    handle = _open_lock(name)
    if handle is None:
        return False
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


def ensure_compiled(
    parts: Sequence[str], say: Callable[[str], None], interrupt: Callable[[], None] = lambda: None
) -> None:
    """Return once the kernels of ``parts`` are saved, so that using them does not take long.

    They are compiled by another process, which can be ended at any moment and whose memory does not
    count as memory of this one. ``say`` gets the reason every few seconds; ``interrupt`` is called
    often and may raise. If that process fails, the kernels are compiled when they are first called.
    """
    missing = [part for part in parts if not is_ready(part)]
    if not missing:
        return
    try:
        _checked_folder()
    except FolderRefused as error:
        say(UNSAVED.format(reason=error))
        return
    reason = WAITING if any(map(_is_locked, missing)) else COMPILING
    # A second process waits for the lock of the first one, and then finds the kernels saved.
    compiler = start_compiling(*missing)
    said = -SAY_SECONDS
    try:
        while compiler.poll() is None:
            if time.monotonic() - said >= SAY_SECONDS:
                said = time.monotonic()
                say(reason)
            interrupt()
            with contextlib.suppress(subprocess.TimeoutExpired):
                compiler.wait(LOOK_SECONDS)
    finally:
        compiler.terminate()
        compiler.wait()


def start_compiling(*arguments: str) -> subprocess.Popen[bytes]:
    """Start the command ``compile_kernels``; ``arguments`` are its parts (all) and options."""
    # -P: modules of the current folder must not be loaded.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "deepforest.forest.compile_kernels", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
