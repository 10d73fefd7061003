"""Manage the files in the workspace's data folder.

- ``list_files``    all files, with rows and columns where they are known or quick to find
- ``add_file``      save an uploaded file: copied, read as a check, then moved into the folder
- ``delete_file``   remove a file
- ``clean_name``, ``name_problem``, ``free_name``   names for uploaded files

A file may be damaged or hostile. So the ones that are new are read in a child process with limits.
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
from typing import BinaryIO
from uuid import uuid4

from engine import sandbox
from engine.atomic import FileVersion, put_in_place
from engine.errors import BadInput, SylvaError
from engine.text import size
from engine.workspace import Files, Workspace
from nodes.data import formats, tables
from nodes.data.formats import FileFormat
from nodes.data.locations import local_parts
from nodes.data.samples import PREFIX
from nodes.load_data import preview_params

MAX_UPLOAD_MEGABYTES = 1024
"""Streamlit holds an upload in memory until it is copied."""
SPARE_BYTES = 50_000_000
"""Bytes that an upload leaves free on the disk, for runs that are under way."""
CHUNK = 8 << 20
MAX_NAME_BYTES = 120
"""File systems allow 255; temporary names beside the file are longer than its name."""
MAX_FILES = 2_000
COUNTED_BYTES = 1 << 20
"""Text files up to this size are read for the list; larger ones show their columns only."""
MAX_COLUMNS = 8192
LIST_SECONDS = 1.0
"""After this time, the list shows the remaining files without their rows; the next list continues
there."""
FILE_SECONDS = 10.0
"""A file that takes longer is shown without its rows."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Progress = Callable[[float, str], None]
_replacing = threading.Lock()


@dataclass(frozen=True)
class DataFile:
    """Describe a file in the list; ``name`` is the source that a pipeline gives for it.

    ``modified`` is in seconds since 1970. Rows and columns are None if they are not known.
    """

    name: str
    size: int
    modified: float
    rows: int | None = None
    columns: int | None = None


class NameTaken(SylvaError):
    """Report that a file of this name exists already; ``name`` is the name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A file '{name}' already exists.")
        self.name = name


class UploadRefused(SylvaError):
    """Report that a file was not saved; ``field`` names the setting that might fix it."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


# The list


def list_files(files: Files) -> list[DataFile]:
    """Return all files that a pipeline may read, the last changed first.

    Hidden files and files outside of the data folder are left out. At most ``MAX_FILES`` are
    listed.
    """
    visible = sorted(_visible(files), key=lambda each: -each[1].modified)[:MAX_FILES]
    shapes = _shapes([(files.data / name, version) for name, version in visible])
    listed = []
    for name, version in visible:
        rows, columns = shapes.get((files.data / name, version), (None, None))
        listed.append(DataFile(name, version.size, version.modified / 1e9, rows, columns))
    return listed


def _visible(files: Files) -> Iterator[tuple[str, FileVersion]]:
    """Yield name and version of every file that is not hidden and lies inside the data folder."""
    for folder, subfolders, names in os.walk(files.data):
        # os.walk goes only into the folders that are left in this list.
        subfolders[:] = sorted(each for each in subfolders if not each.startswith("."))
        if Path(folder) != files.data and any("=" in each for each in subfolders):
            # A partitioned table is one entry, not one for each of its files.
            subfolders.clear()
            yield from _partitioned(Path(folder), files)
            continue
        for name in names:
            path = Path(folder, name)
            if name.startswith(".") or not _is_utf8(str(path)):
                continue
            version = FileVersion.of(path)
            # A link may lead out of the data folder.
            if version and path.resolve().is_relative_to(files.data.resolve()):
                yield path.relative_to(files.data).as_posix(), version


def _partitioned(folder: Path, files: Files) -> Iterator[tuple[str, FileVersion]]:
    """Yield name and version of a folder with partitions; nothing if it has no Parquet files."""
    try:
        parts = [FileVersion.of(Path(part)) for part in local_parts(folder)]
    except BadInput:
        return
    known = [version for version in parts if version is not None]
    if known and _is_utf8(str(folder)):
        size = sum(version.size for version in known)
        modified = max(version.modified for version in known)
        changed = max(version.changed for version in known)
        version = FileVersion(len(known), size, modified, changed)
        yield folder.relative_to(files.data).as_posix(), version


def _is_utf8(path: str) -> bool:
    """Return whether the bytes of a name on disk are UTF-8; a document cannot hold other names."""
    try:
        return bool(path.encode())
    except UnicodeEncodeError:
        return False


Shape = tuple[int | None, int | None]
_known_shapes: OrderedDict[tuple[Path, FileVersion], Shape] = OrderedDict()
_measuring = threading.Lock()


def _shapes(versions: Sequence[tuple[Path, FileVersion]]) -> dict[tuple[Path, FileVersion], Shape]:
    """Return rows and columns of files, remembered while a file stays the same.

    This takes ``LIST_SECONDS`` at most: the remaining files are measured the next time.
    """
    with _measuring:
        unknown = [version for version in versions if version not in _known_shapes]
        seconds = LIST_SECONDS
        while unknown and seconds > 0:
            measured, taken = _measure(unknown, seconds)
            _known_shapes.update(zip(unknown, measured, strict=False))
            unknown, seconds = unknown[len(measured) :], seconds - taken
        # Versions of files that were changed or deleted are never asked for again.
        while len(_known_shapes) > 4 * MAX_FILES:
            _known_shapes.popitem(last=False)
        return {version: _known_shapes[version] for version in versions if version in _known_shapes}


def _measure(
    versions: Sequence[tuple[Path, FileVersion]], seconds: float
) -> tuple[list[Shape], float]:
    """Return the shapes of as many files as can be measured in this time, and the seconds it took.

    If a file ends the child process, its shape is unknown, and it is the last one of the result.
    """
    paths = [path for path, _ in versions]
    arguments = {"paths": [str(path) for path in paths], "counted_bytes": COUNTED_BYTES}
    imports = {module for path in paths for module in formats.imports_for(path, FileFormat())}
    call = sandbox.Call(
        "nodes.data.files:measure_files", "data", arguments, sorted(imports), seconds=FILE_SECONDS
    )
    shapes: list[Shape] = []
    began = time.monotonic()
    try:
        with closing(sandbox.stream(call)) as results:
            for rows, columns in results:
                if not shapes:
                    # The start of the child process does not count.
                    began = time.monotonic()
                shapes.append((rows, columns))
                if time.monotonic() - began > seconds:
                    break
    except SylvaError:
        # The file that ended the child process is not tried again.
        shapes.append((None, None))
    return shapes, time.monotonic() - began


def measure_files(paths: list[str], counted_bytes: int) -> Generator[list[int | None], None, None]:
    """Yield rows and columns of each file, in a child process: one of them may be damaged.

    Small texts are read completely; of other files, only the header or the metadata.
    """
    for path in map(Path, paths):
        yield list(_shape(path, counted_bytes))


def _shape(path: Path, counted_bytes: int) -> Shape:
    """Return rows and columns of a file, each None if it is not known."""
    try:
        file_format = FileFormat().for_file(path)
        is_small = path.stat().st_size <= counted_bytes
        is_small_text = is_small and not formats.is_compressed(path)
        if file_format.format in ("csv", "libsvm") and is_small_text:
            data = formats.read(path, file_format, (), MAX_COLUMNS)
            return data.num_rows, data.num_columns
        if file_format.format == "excel" and not is_small:
            return None, None
        file = formats.open_blocks(path, file_format)
        # For text files, the total is an estimate.
        rows = file.total if file_format.format not in ("csv", "libsvm") else None
        columns = None if file.names is None else len(file.names)
        return rows, columns
    except (BadInput, OSError, ValueError):
        return None, None


# Names


def clean_name(name: str) -> str:
    """Return a name for an uploaded file: short, without folders and invisible characters."""
    name = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    name = _CONTROLS.sub("", name.encode("utf-8", "ignore").decode())
    name = name.removeprefix(PREFIX).strip().lstrip(". ")
    stem, ending = _split_ending(name)
    return (_shorten(stem, MAX_NAME_BYTES - len(ending.encode())) or "table") + ending


def name_problem(name: str) -> str:
    """Return why a file cannot have this name, as a sentence; empty if it can."""
    if not name.strip() or name != name.strip() or name.startswith("."):
        return "A name must not be empty, start with a dot, or start or end with a space."
    if "/" in name or "\\" in name or _CONTROLS.search(name):
        return "A name must not contain slashes or invisible characters."
    if name.startswith(PREFIX):
        return f"Names that start with {PREFIX} are reserved for the built-in tables."
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return f"The name is too long; use at most {MAX_NAME_BYTES} letters."
    return ""


def free_name(name: str, files: Files) -> str:
    """Return the name, or the name with a number if a file has it already."""
    stem, ending = _split_ending(name)
    for number in count(2):
        if not os.path.lexists(files.data / name):
            break
        name = f"{_shorten(stem, MAX_NAME_BYTES - 24)}-{number}{ending}"
    return name


def _split_ending(name: str) -> tuple[str, str]:
    """Return the name without its ending, and the ending: ``.csv.gz`` is one."""
    path = Path(name)
    ending = "".join(path.suffixes[-2:]) if formats.is_compressed(path) else path.suffix
    # So long an ending is part of the name.
    if len(ending) > 20:
        return name, ""
    return name.removesuffix(ending), ending


def _shorten(text: str, max_bytes: int) -> str:
    """Return the text with at most this many bytes of UTF-8; no character is cut."""
    return text.encode()[:max_bytes].decode("utf-8", "ignore").rstrip(". ")


# Add and delete


def add_file(
    source: BinaryIO,
    name: str,
    workspace: Workspace,
    *,
    replace: bool = False,
    file_format: FileFormat | None = None,
    progress: Progress = lambda fraction, text: None,
) -> str:
    """Save an upload as a file of the data folder and return its name.

    Raise ``UploadRefused`` if it cannot be read as a table; then nothing is saved. Raise
    ``NameTaken`` if there is a file of this name, unless ``replace`` is set. Readers see the old
    file or the new one, never a part. ``progress`` gets the share that is copied.
    """
    problem = name_problem(name)
    if problem:
        raise UploadRefused(problem)
    files = Files(workspace.root)
    _check_free(files, name, replace)
    with _explain_disk_errors(workspace), _temporary_files(workspace) as temporary:
        copy, path = temporary.data / name, files.data / name
        _copy(source, copy, progress)
        progress(1.0, "checking that the file can be read")
        seen = _check_readable(temporary, name, file_format or FileFormat())
        # Two uploads of the same name must not both find it free.
        with _replacing:
            _check_free(files, name, replace)
            put_in_place(copy, path)
            # The list and the page show what was read just now, without reading it again.
            tables.move_preview(copy, path)
            _remember_shape(path, seen)
    return name


def delete_file(name: str, files: Files) -> None:
    """Remove a file of the data folder; raise ``SylvaError`` if that is not possible."""
    path = files.readable(name, field="file")
    try:
        path.unlink()
    except OSError as error:
        raise SylvaError(f"'{name}' could not be deleted: {error.strerror}.") from error


def _check_free(files: Files, name: str, replace: bool) -> None:
    """Raise ``NameTaken`` or ``UploadRefused`` if a file or folder of this name is in the way."""
    path = files.data / name
    if path.is_dir():
        raise UploadRefused(f"There is a folder '{name}'; choose another name.")
    if not replace and os.path.lexists(path):
        raise NameTaken(name)


@contextmanager
def _temporary_files(workspace: Workspace) -> Iterator[Files]:
    """Yield a temporary workspace on the same disk as the data folder, for the copy."""
    temporary = Files(workspace.create().temporary / f"upload-{uuid4().hex}")
    try:
        temporary.data.mkdir(parents=True)
        yield temporary
    finally:
        shutil.rmtree(temporary.workspace, ignore_errors=True)


def _copy(source: BinaryIO, target: Path, progress: Progress) -> None:
    """Copy an upload to the disk; raise ``UploadRefused`` if it is too large for it."""
    total = source.seek(0, os.SEEK_END)
    source.seek(0)
    if total > MAX_UPLOAD_MEGABYTES << 20:
        raise UploadRefused(
            f"The file has {size(total)}, and a browser can send at most {MAX_UPLOAD_MEGABYTES:,} "
            "MB; copy it into the workspace's data folder instead."
        )
    free = shutil.disk_usage(target.parent).free
    if total + SPARE_BYTES > free:
        raise UploadRefused(
            f"There is not enough space on the disk: the file needs {size(total)}, and "
            f"{size(free)} are free. Delete files that you no longer need."
        )
    with target.open("wb") as file:
        while chunk := source.read(CHUNK):
            file.write(chunk)
            progress(file.tell() / total, f"{size(file.tell())} of {size(total)}")


def _check_readable(files: Files, name: str, file_format: FileFormat) -> tables.Preview:
    """Return a preview of the copy; raise ``UploadRefused`` if it cannot be read as a table."""
    try:
        return tables.preview(preview_params(name, file_format), files)
    except BadInput as problem:
        raise UploadRefused(problem.message, problem.field) from None


def _remember_shape(path: Path, seen: tables.Preview) -> None:
    """Store the shape of a file that was just read, so that the list does not read it again."""
    version = FileVersion.of(path)
    if version is not None:
        with _measuring:
            _known_shapes[path, version] = (seen.rows, len(seen.names))


@contextmanager
def _explain_disk_errors(workspace: Workspace) -> Iterator[None]:
    """Turn an error of the disk into ``UploadRefused`` with a reason that users understand."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT:
                reason = "the disk is full. Free some space and try again"
            case errno.EROFS | errno.EACCES | errno.EPERM:
                reason = (
                    f"{workspace.data} is not writable; check the owner and the permissions of "
                    "the folder"
                )
            case _:
                reason = error.strerror or str(error)
        raise UploadRefused(f"{reason}.") from error
