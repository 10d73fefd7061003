"""Results on disk, named by the hash of their content.

An artifact is a folder under ``objects/`` whose name is the hash of its files. It is written under
a temporary name, synced and renamed, and only then a small record under ``results/`` says which
artifacts belong to a cache key. So a record always points at complete data: killed at any moment,
the store holds a result or does not, never half of it.

- ``Store.put``, ``record``  store an artifact; record the result of a cache key
- ``Store.find``             the result of a key, if it is there and unchanged since it was written
- ``Store.open``             read an artifact back, after a check of its hash
- ``Store.collect``          remove everything that no key refers to
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from typing_extensions import TypedDict  # pydantic cannot read typing's own before Python 3.12

from engine.atomic import replacing, sync
from engine.crash_points import crash_point
from engine.errors import CorruptObject, SylvaError
from engine.values import VALUES, Savable
from engine.workspace import Workspace

LARGE = 1 << 20
"""Bytes from which it pays to hash a file while it is written to disk."""


@dataclass(frozen=True)
class StoredFile:
    """One file of an artifact; time and size show cheaply that it was not changed."""

    size: int
    modified: int
    sha256: str


class ArtifactData(TypedDict):
    """An ``Artifact`` as plain JSON."""

    type: str
    digest: str
    files: dict[str, Any]


@dataclass(frozen=True)
class Artifact:
    """One output of a node in the store."""

    type: str
    digest: str
    files: dict[str, StoredFile]

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(file.size for file in self.files.values())

    def to_dict(self) -> ArtifactData:
        """Return it as plain JSON."""
        files = {name: dict(vars(file)) for name, file in self.files.items()}
        return {"type": self.type, "digest": self.digest, "files": files}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Artifact:
        """Return the artifact that ``to_dict`` wrote."""
        files = {name: StoredFile(**file) for name, file in data["files"].items()}
        return cls(data["type"], data["digest"], files)


@dataclass(frozen=True)
class CacheEntry:
    """The result of a cache key: artifacts by port, the run that made them, the seconds."""

    key: str
    run: str
    node: str
    seconds: float
    finished: float
    outputs: dict[str, Artifact]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CacheEntry:
        """Return the entry that a record holds."""
        outputs = {port: Artifact.from_dict(artifact) for port, artifact in data["outputs"].items()}
        return cls(**{**data, "outputs": outputs})


@dataclass(frozen=True)
class Store:
    """The results of one workspace. ``scratch`` separates the temporary files of different runs."""

    workspace: Workspace
    scratch: str = "shared"

    def put(
        self, port_type: str, value: Savable, *, node: str = "", bytes_left: int | None = None
    ) -> Artifact:
        """Store ``value`` durably; equal content is stored once.

        Raise ``SylvaError`` if it needs more than ``bytes_left``.
        """
        crash_point("before-write", node)
        with self._temporary_folder() as folder:
            value.save(folder)
            files = _hashed_and_synced(folder)
            artifact = Artifact(port_type, _digest_of(files), files)
            if bytes_left is not None and artifact.size > bytes_left:
                raise SylvaError(
                    f"the store has {bytes_left:,} bytes left of its limit and this output needs "
                    f"{artifact.size:,}; free space with `sylva gc` or raise --store-limit"
                )
            crash_point("after-temporary", node)
            adopted = self._adopt(folder, artifact)
        crash_point("after-rename", node)
        return adopted

    def record(self, result: CacheEntry) -> None:
        """Record the result of a key, which must be stored already.

        The record is replaced in one step. From then on every run finds the result.
        """
        path = self._record_path(result.key)
        with replacing(path, self._scratch()) as temporary:
            temporary.write_text(json.dumps(asdict(result)), encoding="utf-8")
        crash_point("after-record", result.node)

    def find(self, key: str) -> CacheEntry | None:
        """Return the result of ``key`` if all of it is in the store and unchanged, else None.

        A damaged record counts as missing, so that the node simply runs again.
        """
        try:
            record = json.loads(self._record_path(key).read_text(encoding="utf-8"))
            result = CacheEntry.from_dict(record)
            outputs = result.outputs.values()
            # A record that was changed by hand may name files of another artifact.
            named = all(_digest_of(artifact.files) == artifact.digest for artifact in outputs)
            whole = named and all(map(self.intact, outputs))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return result if whole else None

    def folder(self, artifact: Artifact) -> Path:
        """Return the folder of the files of an artifact."""
        return self.workspace.objects / artifact.digest

    def add(self, artifact: Artifact, fill: Callable[[Path], None]) -> Artifact:
        """Store an artifact of another machine; ``fill`` writes its files into a folder.

        Raise ``CorruptObject`` if the files are not those of the artifact.
        """
        with self._temporary_folder() as folder:
            fill(folder)
            files = _hashed_and_synced(folder)
            if _digest_of(files) != artifact.digest:
                raise CorruptObject(artifact.digest, "another machine sent something else")
            return self._adopt(folder, Artifact(artifact.type, artifact.digest, files))

    def intact(self, artifact: Artifact) -> bool:
        """Return whether the files are those that were written.

        A file is hashed again only if its time has changed, so this is cheap for large files.
        """
        return all(self._unchanged(artifact, name, file) for name, file in artifact.files.items())

    def open(self, artifact: Artifact) -> Any:
        """Read an artifact back; raise ``CorruptObject`` if its bytes have changed."""
        try:
            if damage := self._damage(artifact):
                raise CorruptObject(artifact.digest, damage)
            return VALUES[artifact.type].load(self.folder(artifact))
        # A run that found it damaged has discarded it at this moment.
        except FileNotFoundError as error:
            raise CorruptObject(artifact.digest, "a file of it is gone") from error

    def is_whole(self, artifact: Artifact) -> bool:
        """Return whether every byte is as it was written; all files are hashed."""
        try:
            return self._damage(artifact) is None
        except FileNotFoundError:
            return False

    def discard(self, artifact: Artifact) -> None:
        """Remove a damaged artifact; the records that point at it no longer count."""
        shutil.rmtree(self.folder(artifact), ignore_errors=True)

    def size(self) -> int:
        """Return the bytes of all artifacts."""
        return _size_of(self.workspace.objects)

    def collect(self, keep: Iterable[str]) -> int:
        """Remove every result whose key is not in ``keep``, and all that belongs to no result.

        Return the bytes that were freed.
        """
        before, keys, referenced = self.size(), set(keep), set()
        for path in self.workspace.results.iterdir():
            result = self.find(path.stem) if path.stem in keys else None
            if result is None:
                _remove(path)
            else:
                referenced |= {artifact.digest for artifact in result.outputs.values()}
        for path in self.workspace.objects.iterdir():
            if path.name not in referenced:
                _remove(path)
        for path in self.workspace.checkpoints.iterdir():
            if path.name not in keys:
                _remove(path)
        return before - self.size()

    def clear_temporary(self) -> int:
        """Remove temporary files of all runs, none of which is alive; return the bytes freed."""
        freed = _size_of(self.workspace.temporary)
        for path in self.workspace.temporary.iterdir():
            _remove(path)
        return freed

    def clear_scratch(self) -> None:
        """Remove the temporary files of this run."""
        shutil.rmtree(self.workspace.temporary / self.scratch, ignore_errors=True)

    def _adopt(self, folder: Path, artifact: Artifact) -> Artifact:
        """Rename a finished folder to its digest; if that exists already and is intact, use it."""
        target = self.folder(artifact)
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            # Another node had the same output, perhaps in a run that goes on beside this one.
            existing = Artifact(artifact.type, artifact.digest, _hashed_and_synced(target))
            if _digest_of(existing.files) == artifact.digest:
                return existing
            # The existing one is damaged: replace it by the new, whole one.
            shutil.rmtree(target)
            folder.rename(target)
        sync(target.parent)
        return artifact

    def _damage(self, artifact: Artifact) -> str | None:
        """Return what is wrong with an artifact, None if every file has its hash."""
        for name, file in artifact.files.items():
            path = self.folder(artifact) / name
            if not path.is_file():
                return f"its file '{name}' is gone"
            if _sha256(path) != file.sha256:
                return f"its file '{name}' has changed on disk"
        return None

    def _unchanged(self, artifact: Artifact, name: str, file: StoredFile) -> bool:
        """Return whether a file has its size, and its time or else its hash."""
        path = self.folder(artifact) / name
        try:
            now = path.stat()
        except OSError:
            return False
        if now.st_size != file.size:
            return False
        return now.st_mtime_ns == file.modified or _sha256(path) == file.sha256

    @contextmanager
    def _temporary_folder(self) -> Iterator[Path]:
        """Provide an empty folder on the same disk, which is removed at the end."""
        folder = self._scratch() / uuid4().hex
        folder.mkdir()
        try:
            yield folder
        finally:
            # This also frees the space when the disk was full.
            shutil.rmtree(folder, ignore_errors=True)

    def _scratch(self) -> Path:
        """Return the folder for temporary files of this run."""
        folder = self.workspace.temporary / self.scratch
        folder.mkdir(exist_ok=True)
        return folder

    def _record_path(self, key: str) -> Path:
        return self.workspace.results / f"{key}.json"


def _remove(path: Path) -> None:
    """Remove a file or a folder; a link is removed, not what it points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _hashed_and_synced(folder: Path) -> dict[str, StoredFile]:
    """Hash and sync every file, and the folders: else a power cut could empty them."""
    files, folders = {}, {folder}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.add(path)
        else:
            files[path.relative_to(folder).as_posix()] = _describe(path)
    for each in folders:
        sync(each)
    return files


def _describe(path: Path) -> StoredFile:
    """Hash and sync one file."""
    size = path.stat().st_size
    if size < LARGE:
        sync(path)
        sha256 = _sha256(path)
    else:
        # The disk writes while the CPU hashes.
        with ThreadPoolExecutor(1) as pool:
            synced = pool.submit(sync, path)
            sha256 = _sha256(path)
            synced.result()
    return StoredFile(size, path.stat().st_mtime_ns, sha256)


def _digest_of(files: dict[str, StoredFile]) -> str:
    """Return the name of an artifact: the hash of the names and hashes of its files."""
    listing = json.dumps([[name, file.sha256] for name, file in sorted(files.items())])
    return hashlib.sha256(listing.encode()).hexdigest()


def _sha256(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
