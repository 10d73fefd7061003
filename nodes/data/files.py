"""The files in the workspace's data folder: what there is, and how one more gets in.

- ``DataFile``, ``listing``   the files, subfolders too, with rows and columns where a short look tells them
- ``stamp``                   which version of a file it is
- ``clean_name``, ``name_fault``, ``free_name``  names from elsewhere made fit, judged, told apart
- ``receive``                 takes a file in: copied beside, read for proof, brought to disk, then put in its place
- ``NameTaken``, ``CannotKeep``   the name is in use; the file is not kept, and why
- ``delete``                  removes one
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

from engine import sandbox
from engine.atomic import put_in_place
from engine.errors import BadInput, SylvaError
from engine.files import Files
from engine.text import size
from engine.workspace import Workspace
from nodes.data import formats
from nodes.data.csv_reader import Dialect
from nodes.data.samples import PREFIX
from nodes.data.tables import Reading, look
from nodes.load_data import IMPORTS

MOST_UPLOADED = 1024
"""Megabytes of a file that is sent by the browser: Streamlit holds it in memory until it is copied."""
SPARE = 50_000_000
"""Bytes that an upload leaves free on the disk, for runs that are under way."""
CHUNK = 8 << 20
LONGEST_NAME = 120
"""Bytes of a name; file systems allow 255, and temporary names beside it are longer."""
MOST_FILES = 2_000
COUNTED_BYTES = 1 << 20
"""Text files up to this size are read for the list; larger ones show their columns only."""
LOOKING_SECONDS = 1.0
"""After so long, the list shows the files it has not looked into without their rows; the next time it goes on."""

MEASURING_SECONDS = 10.0
"""A file on which the list hangs for longer is shown without its rows."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Progress = Callable[[float, str], None]
_keeping = threading.Lock()


class FileVersion(NamedTuple):
    """Which version of a file it is."""

    file: int
    size: int
    modified: int
    touched: int


@dataclass(frozen=True)
class DataFile:
    """A file in the list; ``name`` is what a pipeline's source says."""

    name: str
    size: int
    modified: float
    rows: int | None = None
    columns: int | None = None


class NameTaken(SylvaError):
    """There is a file of that name already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is a file '{name}' already.")
        self.name = name


class CannotKeep(SylvaError):
    """The file was not kept; ``field`` names the setting that might mend it."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


# What there is


def listing(files: Files) -> list[DataFile]:
    """Return all files that a pipeline may read, the last changed first; hidden ones are left out."""
    found = sorted(_visible(files), key=lambda each: -each[1].modified)[:MOST_FILES]
    shapes = _shapes([(files.data / name, its) for name, its in found])
    return [
        DataFile(name, its.size, its.modified / 1e9, *shapes.get((files.data / name, its), (None, None)))
        for name, its in found
    ]


def stamp(path: Path) -> FileVersion | None:
    """The present version of a file; ``None`` if there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return FileVersion(about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns) if path.is_file() else None


def _visible(files: Files) -> Iterator[tuple[str, FileVersion]]:
    for folder, inner, names in os.walk(files.data):
        inner[:] = sorted(each for each in inner if not each.startswith("."))
        for name in names:
            path = Path(folder, name)
            its = stamp(path) if _is_text(str(path)) and not name.startswith(".") else None
            if its and path.resolve().is_relative_to(files.data.resolve()):
                yield path.relative_to(files.data).as_posix(), its


def _is_text(path: str) -> bool:
    """Whether the bytes of a name on disk are UTF-8; no document could hold another."""
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


Shape = tuple[int | None, int | None]
_known_shapes: OrderedDict[tuple[Path, FileVersion], Shape] = OrderedDict()
_measuring = threading.Lock()


def _shapes(versions: Sequence[tuple[Path, FileVersion]]) -> dict[tuple[Path, FileVersion], Shape]:
    """Return rows and columns of files as far as a short look tells; remembered while a file stays the same.

    The look takes a second at most: what is left then is measured the next time.
    """
    with _measuring:
        unknown = [version for version in versions if version not in _known_shapes]
        seconds = LOOKING_SECONDS
        while unknown and seconds > 0:
            measured, taken = _measure(unknown, seconds)
            _known_shapes.update(zip(unknown, measured, strict=False))
            unknown, seconds = unknown[len(measured) :], seconds - taken
        while len(_known_shapes) > 4 * MOST_FILES:
            _known_shapes.popitem(last=False)
        return {version: _known_shapes[version] for version in versions if version in _known_shapes}


def _measure(versions: Sequence[tuple[Path, FileVersion]], seconds: float) -> tuple[list[Shape], float]:
    """Return the shapes of as many files as can be measured in so many seconds, and the seconds it took.

    A file that ends the child process is the last of them, and its shape is unknown.
    """
    paths = [str(path) for path, _ in versions]
    arguments = {"paths": paths, "counted_bytes": COUNTED_BYTES}
    call = sandbox.Call("nodes.data.files:measure_files", "data", arguments, IMPORTS, seconds=MEASURING_SECONDS)
    shapes: list[Shape] = []
    began = time.monotonic()
    try:
        with closing(sandbox.stream(call)) as results:
            for rows, columns in results:
                if not shapes:
                    began = time.monotonic()  # a child process that is only just starting does not count
                shapes.append((rows, columns))
                if time.monotonic() - began > seconds:
                    break
    except SylvaError:
        shapes.append((None, None))
    return shapes, time.monotonic() - began


def measure_files(paths: list[str], counted_bytes: int) -> Generator[list[int | None], None, None]:
    """Yield rows and columns of each file, in a child process: one of them may be damaged."""
    for path in map(Path, paths):
        yield list(_shape(path, counted_bytes))


def _shape(path: Path, counted_bytes: int) -> Shape:
    try:
        kind = formats.format_of(path, "auto")
        if kind == "parquet":
            about = formats.parquet_file(path).metadata
            return about.num_rows, about.num_columns
        if kind != "arrow" and path.stat().st_size <= counted_bytes and not formats.is_compressed(path):
            data = formats.read(path, kind, Dialect(), (), 8192)
            return data.num_rows, data.num_columns
        names = formats.names(path, kind, Dialect())
        return None, len(names) if names is not None else None
    except (BadInput, OSError, ValueError):
        return None, None


# Names


def clean_name(given: str) -> str:
    """A name for a file that came under ``given``: without folders, signs that cannot be seen, or too many letters."""
    name = re.split(r"[/\\]", unicodedata.normalize("NFC", given))[-1]
    name = _CONTROLS.sub("", name.encode("utf-8", "ignore").decode()).removeprefix(PREFIX).strip().lstrip(". ")
    stem, ending = _parted(name)
    return (_cut(stem, LONGEST_NAME - len(ending.encode())) or "table") + ending


def name_fault(name: str) -> str:
    """Why a file cannot be called so; empty if it can."""
    if not name.strip() or name != name.strip() or name.startswith("."):
        return "A name begins with a letter, a digit or a sign, not with a dot or a space."
    if "/" in name or "\\" in name or _CONTROLS.search(name):
        return "A name has no slashes and no signs that cannot be seen."
    if name.startswith(PREFIX):
        return f"Names that begin with {PREFIX} mean the built-in tables."
    if len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        return f"The name is too long; use at most {LONGEST_NAME} letters."
    return ""


def free_name(name: str, files: Files) -> str:
    """The name, or one like it that no file has yet."""
    stem, ending = _parted(name)
    names = (name if number == 1 else f"{_cut(stem, LONGEST_NAME - 24)}-{number}{ending}" for number in count(1))
    return next(each for each in names if not os.path.lexists(files.data / each))


def _parted(name: str) -> tuple[str, str]:
    """What stands before the ending, and the ending; of ``x.csv.gz`` both count."""
    path = Path(name)
    endings = "".join(path.suffixes[-2:]) if formats.is_compressed(path) else path.suffix
    return (name.removesuffix(endings), endings) if len(endings) <= 20 else (name, "")


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore").rstrip(". ")


# Taking in


def receive(
    source: BinaryIO,
    name: str,
    workspace: Workspace,
    *,
    replace: bool = False,
    reading: Reading | None = None,
    progress: Progress = lambda fraction, text: None,
) -> str:
    """Save what ``source`` holds as a file of the data folder and return its name.

    Readers see the old file or the new one, never a part; what cannot be read as a table leaves no trace.
    """
    if fault := name_fault(name):
        raise CannotKeep(fault)
    files = Files(workspace.root)
    _check_free(files, name, replace)
    with _said_plainly(workspace), _place_beside(workspace) as beside:
        copy = beside.data / name
        _copy(source, copy, progress)
        progress(1.0, "checking that it can be read")
        _check_readable(beside, name, reading or Reading())
        with _keeping:
            _check_free(files, name, replace)
            put_in_place(copy, files.data / name)
    return name


def delete(name: str, files: Files) -> None:
    """Remove a file of the data folder."""
    path = files.readable(name, field="file")
    try:
        path.unlink()
    except OSError as error:
        raise SylvaError(f"'{name}' could not be deleted: {error.strerror}.") from error


def _check_free(files: Files, name: str, replace: bool) -> None:
    path = files.data / name
    if path.is_dir():
        raise CannotKeep(f"There is a folder '{name}'; choose another name.")
    if not replace and os.path.lexists(path):
        raise NameTaken(name)


@contextmanager
def _place_beside(workspace: Workspace) -> Iterator[Files]:
    """Room for a copy on the same disk as the data folder, laid out like a workspace of its own."""
    place = Files(workspace.create().temporary / f"upload-{uuid4().hex}")
    try:
        place.data.mkdir(parents=True)
        yield place
    finally:
        shutil.rmtree(place.workspace, ignore_errors=True)


def _copy(source: BinaryIO, target: Path, progress: Progress) -> None:
    total = source.seek(0, os.SEEK_END)
    source.seek(0)
    if total > MOST_UPLOADED << 20:
        raise CannotKeep(
            f"The file has {size(total)}, more than the {MOST_UPLOADED:,} MB that a browser may send; "
            "copy it into the workspace's data folder."
        )
    free = shutil.disk_usage(target.parent).free
    if total + SPARE > free:
        raise CannotKeep(f"There is no room on the disk: the file has {size(total)}, and {size(free)} are free.")
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            file.write(chunk)
            progress(file.tell() / total, f"{size(file.tell())} of {size(total)}")


def _check_readable(files: Files, name: str, reading: Reading) -> None:
    try:
        look(name, files, reading)
    except BadInput as problem:
        raise CannotKeep(problem.message, problem.field) from None


@contextmanager
def _said_plainly(workspace: Workspace) -> Iterator[None]:
    """What the disk refuses, in words."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                reason = "the disk is full. Free some space and try again"
            case errno.EROFS | errno.EACCES | errno.EPERM:
                reason = f"{workspace.data} cannot be written; check whose folder it is"
            case _:
                reason = error.strerror or str(error)
        raise CannotKeep(f"{reason}.") from error
