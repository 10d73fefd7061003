"""Results and finished parts of nodes in a storage that all machines of a cluster reach.

A run whose workers share no folder keeps its data below an address such as ``s3://bucket/prefix``::

    objects/SHA256              the bytes of a file, named by their hash: stored once, checked
    results/KEY.json            the result of a cache key, written after its files
    checkpoints/KEY/NAME.json   a finished part of a node, written after its files
    runs/ID/…                   token and logs of a run

What is listed by a ``.json`` is complete, so a result or a part is there or not. Two machines that
write the same thing write the same bytes; nothing is locked.

- ``SharedStorage``   such a storage, from one machine
- ``Content``         size and hash of a file
- ``StorageFailed``   in our words why the storage could not be used; never with credentials
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4

from engine.atomic import lock
from engine.errors import SylvaError
from engine.storages import (
    FOLDER,
    STORAGES,
    ErrorKind,
    code_of_error,
    file_system,
    kind_of_error,
    path_in_storage,
    scheme_of,
)
from engine.store import Artifact, CacheEntry, Store

CHUNK = 4 << 20
PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds between the tries of a storage that cannot be reached or reports an error."""
SHA256 = re.compile(r"[0-9a-f]{64}")
TOKEN = "token.json"

T = TypeVar("T")


class Content(NamedTuple):
    """What a file holds, by size and hash."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Content:
        """Return the content of a file."""
        with path.open("rb", buffering=0) as file:
            return cls(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


class StorageFailed(SylvaError):
    """The storage could not do what it was asked for; ``kind`` says why in one word."""

    def __init__(self, message: str, kind: ErrorKind = "other") -> None:
        super().__init__(message)
        self.kind = kind


class Damaged(StorageFailed):
    """What the storage holds is not what was written."""


@dataclass(frozen=True)
class SharedStorage:
    """The storage at an address.

    Unfinished downloads are in ``scratch``, on the disk of their target. With ``pauses`` a
    failure that may pass, such as a lost connection, is tried again.
    """

    address: str
    scratch: Path
    pauses: tuple[float, ...] = PAUSES
    _present: set[str] = field(default_factory=set, compare=False, repr=False)
    """Hashes of files that are known to be there."""
    _listed: set[str] = field(default_factory=set, compare=False, repr=False)
    """Files of parts that are known to be there, with the keys of their nodes."""

    # Runs

    def write_token(self, run: str, token: str, sources: list[str]) -> None:
        """Write what a worker must read to be admitted, and the addresses that nodes may read."""
        self.write_json(f"runs/{run}/{TOKEN}", {"token": token, "remote_sources": sources})

    def read_token(self, run: str) -> dict[str, Any]:
        """Return what ``write_token`` wrote; raise ``StorageFailed`` if it is not there."""
        found = self.read_json(f"runs/{run}/{TOKEN}")
        if not isinstance(found, dict):
            text = f"the storage {self.address} does not hold the run {run}; is it another one?"
            raise StorageFailed(text, "missing")
        return found

    def remove_run(self, run: str) -> None:
        """Remove token and logs of a run that has ended."""
        self._delete_folder(f"runs/{run}")

    # Results

    def publish_artifact(self, store: Store, artifact: Artifact) -> None:
        """Write the files of an artifact, unless they are there."""
        for name, file in artifact.files.items():
            self.publish_file(store.folder(artifact) / name, Content(file.size, file.sha256))

    def publish_result(self, store: Store, result: CacheEntry) -> None:
        """Write a result: the files of its outputs first, then its entry."""
        for artifact in result.outputs.values():
            self.publish_artifact(store, artifact)
        self.write_json(f"results/{result.key}.json", asdict(result))

    def fetch_artifact(self, store: Store, artifact: Artifact) -> Artifact:
        """Bring an artifact into a store, unless it is there, and return it as the store has it."""
        if store.intact(artifact):
            return artifact

        def fill(folder: Path) -> None:
            for name, file in artifact.files.items():
                self._fetch(folder, name, Content(file.size, file.sha256))

        return store.add(artifact, fill)

    def fetch_result(self, store: Store, key: str, run: str | None = None) -> CacheEntry | None:
        """Bring the result of a key into a store and return it; None if it is missing.

        With ``run`` only a result of that run counts. A damaged one counts as missing.
        """
        data = self.read_json(f"results/{key}.json")
        if data is None:
            return None
        try:
            result = CacheEntry.from_dict(data)
            if run is not None and result.run != run:
                return None
            outputs = {
                port: self.fetch_artifact(store, artifact)
                for port, artifact in result.outputs.items()
            }
        except (Damaged, TypeError, KeyError, AttributeError):
            return None
        local = replace(result, outputs=outputs)
        store.record(local)
        return local

    # Finished parts of nodes

    def publish_part(self, key: str, name: str, folder: Path, files: Mapping[str, Content]) -> None:
        """Write a finished part of the node with this key: files below ``folder``, then the list.

        ``name`` is the part's own, for example the key of a fit.
        """
        for file, content in files.items():
            self.publish_file(folder / file, content)
        self.write_json(f"{self._part(key, name)}.json", {"files": files})
        self._listed.update(f"{key}/{file}" for file in files)

    def fetch_part(self, key: str, name: str, folder: Path) -> list[str]:
        """Bring a finished part into ``folder`` and return its files; empty if it is missing."""
        return self._fetch_listed(key, f"{self._part(key, name)}.json", folder)

    def fetch_parts(self, key: str, folder: Path) -> list[str]:
        """Bring all finished parts of a node into ``folder`` and return their files."""
        found = []
        for path in self._list(f"checkpoints/{key}"):
            found += self._fetch_listed(key, path, folder)
        return found

    def has_part_of(self, key: str, file: str) -> bool:
        """Return whether a file is known to be in a finished part of a node."""
        return f"{key}/{file}" in self._listed

    def forget(self) -> None:
        """Look again whether files are there: one of them was damaged."""
        self._present.clear()

    def remove_parts(self, key: str) -> None:
        """Remove the lists of finished parts of a node whose result is there."""
        self._delete_folder(f"checkpoints/{key}")

    def _part(self, key: str, name: str) -> str:
        """Return the name of a part. S3 would take a slash for a folder."""
        return f"checkpoints/{key}/{quote(name, safe='')}"

    def _fetch_listed(self, key: str, listing: str, folder: Path) -> list[str]:
        """Bring the files of a part; a part that is damaged counts as missing."""
        data = self.read_json(listing)
        if data is None:
            return []
        try:
            files = {name: Content(*content) for name, content in data["files"].items()}
            for name, content in files.items():
                self.fetch_file(folder, name, content)
        except (Damaged, TypeError, KeyError, AttributeError):
            return []
        self._listed.update(f"{key}/{name}" for name in files)
        return list(files)

    # Files

    def publish_file(self, path: Path, content: Content) -> None:
        """Write a file under the hash of its content, unless it is there."""
        if content.sha256 in self._present:
            return
        name = f"objects/{content.sha256}"
        if self._size(name) != content.size:
            self._send(path, name)
        self._present.add(content.sha256)

    def fetch_file(self, folder: Path, name: str, content: Content) -> None:
        """Bring a file into ``folder`` under a name, unless it is there; it appears complete.

        Raise ``Damaged`` if the storage has something else.
        """
        target = folder / _inside(name)
        # Of several processes that need it at the same time, one brings it.
        with lock(self.scratch / f"{content.sha256}.lock"):
            if target.is_file() and target.stat().st_size == content.size:
                return
            with _temporary(self.scratch) as beside:
                self._fetch(beside, "file", content)
                target.parent.mkdir(parents=True, exist_ok=True)
                (beside / "file").replace(target)

    def _fetch(self, folder: Path, name: str, content: Content) -> None:
        """Write the bytes with a hash to a file; raise ``Damaged`` if they have another one."""
        if not SHA256.fullmatch(content.sha256):
            raise Damaged(f"a list in {self.address} is damaged")
        target = folder / _inside(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        stored = f"objects/{content.sha256}"

        def copy(fs: Any) -> str:
            digest = hashlib.sha256()
            with fs.open_input_stream(self._path(stored)) as source, target.open("wb") as file:
                while chunk := source.read(CHUNK):
                    digest.update(chunk)
                    file.write(chunk)
            return digest.hexdigest()

        for _ in range(2):  # the first time it may have been changed on its way
            found = self._or_none("read", copy)
            if found == content.sha256:
                return
            if found is None:
                raise Damaged(f"a file is missing in {self.address}: {stored}")
        # Else it would count as there, and never be written again.
        self._delete(stored)
        raise Damaged(f"a file in {self.address} was changed after it was written: {stored}")

    def append_file(self, name: str, path: Path) -> None:
        """Add what a storage has under a name to a file of this machine, if it has something."""

        def copy(fs: Any) -> bytes:
            with fs.open_input_stream(self._path(name)) as source:
                return bytes(source.read())

        content = self._or_none("read", copy)
        if content:
            with path.open("ab") as file:
                file.write(content)

    def write_file(self, name: str, path: Path) -> None:
        """Write a file under a name, in place of what is there."""
        self._send(path, name)

    def _delete(self, name: str) -> None:
        self._do("written", lambda fs: fs.delete_file(self._path(name)))

    def _delete_folder(self, name: str) -> None:
        self._or_none("written", lambda fs: fs.delete_dir(self._path(name)))

    # Small things

    def write_json(self, name: str, content: Any) -> None:
        """Write plain JSON under a name."""
        text = json.dumps(content).encode()
        self._do("written", lambda fs: self._write(fs, name, lambda to: to.write(text)))

    def read_json(self, name: str) -> Any:
        """Return the JSON under a name, None if it is missing or damaged."""

        def read(fs: Any) -> Any:
            with fs.open_input_stream(self._path(name)) as source:
                return json.loads(source.read())

        try:
            return self._or_none("read", read)
        except (ValueError, RecursionError):
            return None

    def _list(self, folder: str) -> list[str]:
        """Return the names of all lists in a folder."""
        from pyarrow.fs import FileSelector

        base = self._path("")

        def names(fs: Any) -> list[str]:
            selector = FileSelector(self._path(folder), recursive=True, allow_not_found=True)
            paths = [info.path for info in fs.get_file_info(selector)]
            return [each[len(base) :] for each in paths if each.endswith(".json")]

        return self._do("read", names)

    def _size(self, name: str) -> int | None:
        """Return the size of a stored file, None if it is missing."""
        size = self._do("read", lambda fs: fs.get_file_info(self._path(name)).size)
        return None if size is None else int(size)

    def _send(self, path: Path, name: str) -> None:
        """Copy a file of this machine into the storage."""

        def fill(to: Any) -> None:
            with path.open("rb") as file:
                shutil.copyfileobj(file, to, CHUNK)

        self._do("written", lambda fs: self._write(fs, name, fill))

    def _write(self, fs: Any, name: str, fill: Callable[[Any], object]) -> None:
        """Fill a file of the storage, which appears complete."""
        path = self._path(name)
        if scheme_of(self.address) != FOLDER:
            with fs.open_output_stream(path) as to:
                fill(to)
            return
        try:
            _write_beside(fs, path, fill)
        except FileNotFoundError:  # another run of the same node removes the folder of its parts
            _write_beside(fs, path, fill)

    def _path(self, name: str) -> str:
        return f"{path_in_storage(self.address)}/{name}"

    # Errors

    def _or_none(self, what: str, action: Callable[[Any], T]) -> T | None:
        """Do something with the file system; return None if a file does not exist."""
        try:
            return self._do(what, action)
        except StorageFailed as error:
            if error.kind == "missing":
                return None
            raise

    def _do(self, what: str, action: Callable[[Any], T]) -> T:
        """Do something with the file system, again after a failure that may pass.

        Raise ``StorageFailed`` in our words; ``what`` is ``read`` or ``written``.
        """
        import pyarrow as pa

        for pause in (*self.pauses, None):
            try:
                return action(file_system(self.address))
            except (OSError, pa.ArrowException) as error:
                kind = kind_of_error(error)
                if scheme_of(self.address) != FOLDER and _disk_is_full(error):
                    raise  # of this machine
                if pause is None or kind in ("missing", "denied"):
                    raise StorageFailed(self._why(what, kind, error), kind) from None
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _why(self, what: str, kind: ErrorKind, error: Exception) -> str:
        """Return a message without the text of the storage, which may contain credentials."""
        start = f"the storage {self.address} cannot be {what}"
        scheme = scheme_of(self.address)
        if scheme == FOLDER:
            number = getattr(error, "errno", None)
            return f"{start}: {os.strerror(number) if number else 'check the folder'}"
        if kind == "missing":
            return f"{start}: the bucket or the file does not exist; check the address"
        if kind == "denied":
            return (
                f"{start}: the credentials are missing or wrong, or they do not allow it; set "
                f"{STORAGES[scheme]} in the environment of every machine"
            )
        if kind == "unreachable":
            return f"{start}: it cannot be reached; check the network and the address"
        return f"{start}: {code_of_error(error) or 'it reported an error'}; try again later"


def check_storage(storage: SharedStorage) -> None:
    """Write, read and delete a small file; raise ``StorageFailed`` if that is not possible."""
    token = uuid4().hex
    storage.write_token(token, token, [])
    found = storage.read_token(token)
    storage.remove_run(token)
    if found.get("token") != token:
        raise StorageFailed(f"the storage {storage.address} returned something else than written")


def _write_beside(fs: Any, path: str, fill: Callable[[Any], object]) -> None:
    """Fill a file of a folder, which shows files while they are written; storages do not."""
    beside = f"{path}.{uuid4().hex[:8]}.unfinished"
    fs.create_dir(str(PurePosixPath(path).parent))
    with fs.open_output_stream(beside) as to:
        fill(to)
    fs.move(beside, path)


def _disk_is_full(error: Exception) -> bool:
    """Return whether a disk has no space left."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _inside(name: str) -> str:
    """Return a name that stays inside its folder; raise ``Damaged`` for another one."""
    parts = PurePosixPath(name)
    if not name or parts.is_absolute() or ".." in parts.parts:
        raise Damaged("a list in the storage names a file outside of its folder")
    return name


@contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, which is removed at the end."""
    beside = folder / uuid4().hex
    beside.mkdir(parents=True)
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
