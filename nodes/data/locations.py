"""Find where a source is: a file or folder of this machine, a storage, or a database.

- ``locate``       what a source means, if the workspace allows to read it
- ``Location``     a ``Path``, a ``RemoteFile`` (S3, Google Cloud, Azure) or a ``Database``
- ``version_of``   a text that changes when the content of a location changes
- ``address_problem``, ``without_credentials``  addresses that may be part of a document

Credentials come from the environment only. They never are part of an address, so they are in no
document, no message and no log. Messages of a storage are not repeated either: some of them contain
parts of the credentials.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from engine import sandbox
from engine.atomic import FileVersion
from engine.errors import BadInput
from engine.storages import (
    AZURE_HOST,
    STORAGES,
    code_of_error,
    file_system,
    kind_of_error,
    path_in_storage,
    scheme_of,
)
from engine.workspace import Files

DATABASES = ("postgresql", "postgres")
DATABASE_CREDENTIALS = "PGUSER and PGPASSWORD"

REMEMBERED_SECONDS = 20.0
"""For so long a preview trusts the last version of a remote source: a page asks again and again."""
MAX_FOLDER_FILES = 10_000
PARQUET_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True)
class RemoteFile:
    """A file or a folder in a storage, such as ``s3://bucket/sales.parquet``."""

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def scheme(self) -> str:
        """Return ``s3``, ``gs`` or ``abfs``."""
        return scheme_of(self.address)

    @property
    def name(self) -> str:
        """Return the last part of the address, as messages show it."""
        return PurePosixPath(self.path).name

    @property
    def path(self) -> str:
        """Return the path inside the storage: it begins with the bucket or the container."""
        return path_in_storage(self.address)

    @property
    def file_system(self) -> Any:
        """Return the file system of pyarrow that reads it."""
        return file_system(self.address)

    def open(self) -> Any:
        """Open the bytes of a file for reading at any position."""
        return self.file_system.open_input_file(self.path)

    def open_stream(self) -> Any:
        """Open a file for reading from its start, decompressed if its name says so."""
        return self.file_system.open_input_stream(self.path, compression="detect")

    def size(self) -> int:
        """Return the size of a file in bytes; raise ``BadInput`` if it does not exist."""
        return int(self._info().size or 0)

    def is_dir(self) -> bool:
        """Return whether it is a folder; raise ``BadInput`` if it does not exist."""
        from pyarrow.fs import FileType

        return bool(self._info().type == FileType.Directory)

    def _info(self) -> Any:
        from pyarrow.fs import FileType

        info = self.file_system.get_file_info(self.path)
        if info.type == FileType.NotFound:
            raise _does_not_exist(self)
        return info

    def files(self) -> list[tuple[str, str]]:
        """Return path and version of each Parquet file below a folder, sorted by path."""
        from pyarrow.fs import FileSelector, FileType

        found = []
        for info in self.file_system.get_file_info(FileSelector(self.path, recursive=True)):
            if info.type == FileType.File and _is_part(info.path.removeprefix(f"{self.path}/")):
                found.append((info.path, f"{info.size}:{info.mtime_ns}"))
        return sorted(found)

    def version(self) -> str:
        """Return a text that changes when the content does: size, time and ETag, of all files."""
        if self.is_dir():
            return _digest(self.files())
        info = self._info()
        with self.file_system.open_input_stream(self.path) as stream:
            metadata = stream.metadata() or {}
        # The time has whole seconds in some storages; a second write may leave it unchanged.
        tags = [bytes(value) for key, value in metadata.items() if key.lower() in TAGS]
        return f"{info.size}:{info.mtime_ns}:{b','.join(sorted(tags)).decode(errors='replace')}"


TAGS = (b"etag", b"generation", "etag", "generation")
"""Metadata of a file that changes with each write."""


@dataclass(frozen=True)
class Database:
    """A PostgreSQL database, such as ``postgresql://host:5432/shop``; a query reads a table."""

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """Return the name of the database, as messages show it."""
        return self.address.partition("://")[2].partition("/")[2] or self.address


Location = Path | RemoteFile | Database


# What a source means


def is_database(source: str) -> bool:
    """Return whether a source is the address of a database."""
    return scheme_of(source) in DATABASES


def address_problem(source: str) -> str:
    """Return why a source cannot be part of a document; empty if it can.

    Only addresses of other machines are checked here. The text never repeats the source, which may
    contain a password.
    """
    scheme = scheme_of(source)
    if not scheme:
        return ""
    if scheme not in STORAGES and scheme not in DATABASES:
        known = ", ".join(f"{each}://" for each in (*STORAGES, DATABASES[0]))
        return f"addresses that start with {scheme}:// cannot be read; use one of {known}"
    if without_credentials(source) != source:
        variables = STORAGES.get(scheme, DATABASE_CREDENTIALS)
        return (
            "an address must not contain a user, a password, ? or #; remove them, and set "
            f"{variables} in the environment of Sylva"
        )
    authority, _, path = source.partition("://")[2].partition("/")
    if not authority or (scheme in STORAGES and not path.strip("/")):
        return "the address is not complete; write it like s3://bucket/folder/file.csv"
    if any(part in (".", "..") for part in path.split("/")) or re.search(r"[\s\x00-\x1f]", source):
        return "an address must not contain spaces, or . and .. as folders"
    return ""


def without_credentials(source: str) -> str:
    """Return an address without user, password, and what follows ``?`` or ``#``."""
    scheme = scheme_of(source)
    if scheme not in STORAGES and scheme not in DATABASES:
        return source
    start, rest = source[: len(scheme) + 3], source[len(scheme) + 3 :]
    rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    # A password may itself contain a slash: what stands before the last @ is not part of the host.
    if "@" in path:
        authority, slash, path = rest.rpartition("@")[2].partition("/")
    elif not AZURE_HOST.fullmatch(authority):
        user, _, host = authority.rpartition("@")
        container = user.partition(":")[0]
        is_azure = scheme == "abfs" and AZURE_HOST.fullmatch(f"{container}@{host}")
        authority = f"{container}@{host}" if is_azure else host
    return f"{start}{authority}{slash}{path}"


def locate(source: str, files: Files) -> Location:
    """Return what a source means; raise ``BadInput`` if the workspace does not allow to read it."""
    if not scheme_of(source):
        return files.readable(source, field="source", folders=True)
    problem = address_problem(source)
    if problem:
        raise BadInput(problem, field="source")
    files.require_remote(source, field="source")
    return location(source)


def location(text: str) -> Location:
    """Return the location that ``str(location)`` is the text of."""
    scheme = scheme_of(text)
    if scheme in DATABASES:
        return Database(text)
    return RemoteFile(text) if scheme in STORAGES else Path(text)


# Versions


def version_of(where: Location, query: str = "", *, fresh: bool = True) -> str | None:
    """Return a text that changes when the content of a location does; None if it was deleted.

    A remote location is asked in a child process: whatever answers there is not ours. Unless
    ``fresh`` is set, the version of the last ``REMEMBERED_SECONDS`` will do.
    """
    if isinstance(where, Path):
        if where.is_dir():
            return _digest((path, str(FileVersion.of(Path(path)))) for path in local_parts(where))
        version = FileVersion.of(where)
        # Two names of one file, such as a link, are the same source.
        return None if version is None else f"{where.resolve()}:{':'.join(map(str, version))}"
    return _remembered_version(str(where), query, fresh)


_versions: dict[tuple[str, str], tuple[float, str | BadInput]] = {}
_asking = threading.Lock()


def _remembered_version(address: str, query: str, fresh: bool) -> str:
    """Return the version of a remote location, asked now or a moment ago.

    Raise ``BadInput`` if it cannot be read. A failure is remembered as well: an unreachable machine
    takes seconds each time.
    """
    with _asking:
        asked, seen = _versions.get((address, query), (float("-inf"), ""))
    if fresh or time.monotonic() - asked > REMEMBERED_SECONDS:
        try:
            seen = _ask_version(address, query)
        except BadInput as problem:
            seen = BadInput(problem.message, field=problem.field)
        with _asking:
            _versions[address, query] = time.monotonic(), seen
    if isinstance(seen, BadInput):
        raise BadInput(seen.message, field=seen.field)
    return seen


def _ask_version(address: str, query: str) -> str:
    """Ask for the version in a child process."""
    return str(
        sandbox.call(
            sandbox.Call(
                "nodes.data.locations:version_in_child",
                address,
                {"address": address, "query": query},
                ("pyarrow.fs",),
                slow="the machine answers too slowly",
            )
        )
    )


def version_in_child(address: str, query: str) -> str:
    """Return the version of a remote location, connected to from this process."""
    where = location(address)
    if isinstance(where, Database):
        from nodes.data.postgresql import snapshot

        return snapshot(where, query)
    assert isinstance(where, RemoteFile)
    with explaining(where):
        return where.version()


def local_parts(folder: Path) -> list[str]:
    """Return the Parquet files below a folder, sorted; links that lead out of it are left out.

    Raise ``BadInput`` if there are none, or too many.
    """
    parts = []
    base = folder.resolve()
    for current, subfolders, names in os.walk(base):
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "_"))]
        for name in names:
            path = Path(current, name)
            if _is_part(name) and path.is_file() and path.resolve().is_relative_to(base):
                parts.append(str(path))
    return sorted(require_parts(folder.name, parts))


def require_parts(name: str, parts: list[str]) -> list[str]:
    """Return the parts of a folder; raise ``BadInput`` if there are none, or too many."""
    if not parts:
        raise BadInput(
            f"the folder '{name}' has no Parquet files (.parquet); name a file of it, or choose "
            "another folder",
            field="source",
        )
    if len(parts) > MAX_FOLDER_FILES:
        raise BadInput(
            f"the folder '{name}' has {len(parts):,} Parquet files, and at most "
            f"{MAX_FOLDER_FILES:,} are allowed; name one of its folders, or write fewer files",
            field="source",
        )
    return parts


def _is_part(path: str) -> bool:
    """Return whether a path below a folder is a Parquet file, and not hidden or temporary."""
    parts = path.split("/")
    hidden = any(part.startswith((".", "_")) and "=" not in part for part in parts)
    return not hidden and path.lower().endswith(PARQUET_SUFFIXES)


def _digest(parts: Any) -> str:
    """Return a short text for the names and versions of all files of a folder."""
    digest = hashlib.sha256()
    for path, version in parts:
        digest.update(f"{path}\0{version}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


# Storages


@contextmanager
def explaining(where: Location) -> Iterator[None]:
    """Turn an error of a storage into ``BadInput`` in our words, without the text of the storage.

    Errors of files on this machine pass: the readers explain them.
    """
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        if not isinstance(where, RemoteFile):
            raise
        raise failure(where, error) from None


def failure(where: RemoteFile, error: Exception) -> BadInput:
    """Return why a storage could not be read, by the kind of the error."""
    kind = kind_of_error(error)
    if kind == "missing":
        return _does_not_exist(where)
    if kind == "denied":
        variables = STORAGES[where.scheme]
        return BadInput(
            f"'{where}' cannot be read: the credentials are missing or wrong, or they do not "
            f"allow to read it; set {variables} in the environment of Sylva",
            field="source",
        )
    if kind == "unreachable":
        return BadInput(
            f"'{where}' cannot be read: the storage cannot be reached; check the network and the "
            "address",
            field="source",
        )
    reason = code_of_error(error) or "the storage reported an error"
    return BadInput(f"'{where}' cannot be read: {reason}; try again later", field="source")


def _does_not_exist(where: RemoteFile) -> BadInput:
    return BadInput(f"'{where}' does not exist; check the address", field="source")
