"""Results on disk, named by what is in them.

An output is a folder under ``objects/`` whose name is the hash of its files. It is written under a temporary
name, synced, renamed into place, and only then does a small record under ``results/`` say that a node's key
stands for it. So a record always points at whole data: killed at any moment, the store holds the work or
does not, never half of it.

- ``Store.put`` / ``record``   keep an output; say what a key stands for
- ``Store.find``               the result of a key, if it is there and untouched since it was written
- ``Store.open``               read an output back, its hash checked first
- ``Store.collect``            remove what no one refers to
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from engine.atomic import replacing, sync
from engine.crash_points import crash_point
from engine.errors import CorruptObject, SylvaError
from engine.values import VALUES, Savable
from engine.workspace import Workspace

LARGE = 1 << 20


@dataclass(frozen=True)
class StoredFile:
    """One file of an output; time and size show cheaply that nobody has touched it since it was hashed."""

    size: int
    modified: int
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """One output of a node, as it lies in the store."""

    type: str
    digest: str
    files: dict[str, StoredFile]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files.values())

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> Artifact:
        """From plain JSON."""
        return cls(about["type"], about["digest"], {name: StoredFile(**file) for name, file in about["files"].items()})


@dataclass(frozen=True)
class CacheEntry:
    """What a key stands for: the outputs by port, the run that made them and how long it took."""

    key: str
    run: str
    node: str
    seconds: float
    finished: float
    outputs: dict[str, Artifact]

    @classmethod
    def from_dict(cls, about: dict[str, Any]) -> CacheEntry:
        """From plain JSON."""
        outputs = {port: Artifact.from_dict(output) for port, output in about.pop("outputs").items()}
        return cls(**about, outputs=outputs)


@dataclass(frozen=True)
class Store:
    """The results of one workspace. ``scratch`` keeps apart what different runs are writing."""

    workspace: Workspace
    scratch: str = "shared"

    def put(self, port_type: str, value: Savable, *, node: str = "", bytes_left: int | None = None) -> Artifact:
        """Store ``value`` durably; equal content is stored once. ``bytes_left`` is how much may still be added."""
        crash_point("before-write", node)
        with self._temporary_folder() as folder:
            value.save(folder)
            files = _hashed_and_synced(folder)
            output = Artifact(port_type, _digest_of(files), files)
            if bytes_left is not None and output.size > bytes_left:
                raise SylvaError(
                    f"the store has {bytes_left:,} bytes left of its limit and this output needs {output.size:,}; "
                    "free space with `sylva gc` or raise --store-limit"
                )
            crash_point("after-temporary", node)
            adopted = self._adopt(folder, output)
        crash_point("after-rename", node)
        return adopted

    def record(self, result: CacheEntry) -> None:
        """Say what a key stands for: the moment from which the work is finished."""
        path = self._record_path(result.key)
        with replacing(path, self._scratch()) as temporary:
            temporary.write_text(json.dumps(asdict(result)), encoding="utf-8")
        crash_point("after-record", result.node)

    def find(self, key: str) -> CacheEntry | None:
        """The result of ``key`` if all of it is in the store and looks as it did when it was written."""
        try:
            result = CacheEntry.from_dict(json.loads(self._record_path(key).read_text(encoding="utf-8")))
            outputs = result.outputs.values()
            whole = all(_digest_of(output.files) == output.digest and self.intact(output) for output in outputs)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return result if whole else None

    def intact(self, output: Artifact) -> bool:
        """Whether the files are those that were written. A file is hashed again only if its time has changed."""
        return all(self._unchanged(output, name, file) for name, file in output.files.items())

    def open(self, output: Artifact) -> Any:
        """Read an output back; ``CorruptObject`` if its bytes are not those that were written."""
        try:
            if damage := self._damage(output):
                raise CorruptObject(output.digest, damage)
            return VALUES[output.type].load(self._folder(output))
        except FileNotFoundError as error:  # discarded at this moment by a run that found it damaged
            raise CorruptObject(output.digest, "a file of it is gone") from error

    def is_whole(self, output: Artifact) -> bool:
        """Whether every byte is as it was written."""
        try:
            return self._damage(output) is None
        except FileNotFoundError:
            return False

    def discard(self, output: Artifact) -> None:
        """Drop a damaged output; the records that point at it no longer count."""
        shutil.rmtree(self._folder(output), ignore_errors=True)

    def size(self) -> int:
        """Bytes in stored outputs."""
        return _size_of(self.workspace.objects)

    def collect(self, keep: Iterable[str]) -> int:
        """Remove every result whose key is not in ``keep``, and what belongs to no result; bytes freed."""
        before, kept, referenced = self.size(), set(keep), set()
        for path in self.workspace.results.iterdir():
            result = self.find(path.stem) if path.stem in kept else None
            if result is None:
                _remove(path)
            else:
                referenced |= {output.digest for output in result.outputs.values()}
        for path in self.workspace.objects.iterdir():
            if path.name not in referenced:
                _remove(path)
        for path in self.workspace.checkpoints.iterdir():
            if path.name not in kept:
                _remove(path)
        return before - self.size()

    def clear_temporary(self) -> int:
        """Remove everything half written, of all runs; bytes freed. Only for a workspace at rest."""
        freed = _size_of(self.workspace.temporary)
        for path in self.workspace.temporary.iterdir():
            _remove(path)
        return freed

    def clear_scratch(self) -> None:
        """Remove what this run was writing when it was killed."""
        shutil.rmtree(self.workspace.temporary / self.scratch, ignore_errors=True)

    def _adopt(self, folder: Path, output: Artifact) -> Artifact:
        """Give a finished folder its name; if it is there already and whole, use that one."""
        place = self._folder(output)
        try:
            folder.rename(place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            existing = Artifact(output.type, output.digest, _hashed_and_synced(place))
            if _digest_of(existing.files) == output.digest:
                return existing
            shutil.rmtree(place)
            folder.rename(place)
        sync(place.parent)
        return output

    def _damage(self, output: Artifact) -> str | None:
        for name, file in output.files.items():
            path = self._folder(output) / name
            if not path.is_file():
                return f"its file '{name}' is gone"
            if _sha256(path) != file.sha256:
                return f"its file '{name}' has changed on disk"
        return None

    def _unchanged(self, output: Artifact, name: str, file: StoredFile) -> bool:
        path = self._folder(output) / name
        try:
            found = path.stat()
        except OSError:
            return False
        if found.st_size != file.size:
            return False
        return found.st_mtime_ns == file.modified or _sha256(path) == file.sha256

    @contextmanager
    def _temporary_folder(self) -> Iterator[Path]:
        folder = self._scratch() / uuid4().hex
        folder.mkdir()
        try:
            yield folder
        finally:
            # Also gives the space back when the disk was full.
            shutil.rmtree(folder, ignore_errors=True)

    def _scratch(self) -> Path:
        folder = self.workspace.temporary / self.scratch
        folder.mkdir(exist_ok=True)
        return folder

    def _folder(self, output: Artifact) -> Path:
        return self.workspace.objects / output.digest

    def _record_path(self, key: str) -> Path:
        return self.workspace.results / f"{key}.json"


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _hashed_and_synced(folder: Path) -> dict[str, StoredFile]:
    """Describe and sync every file; a folder that was not synced could come back empty after a power cut."""
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
    size = path.stat().st_size
    if size < LARGE:
        sync(path)
        sha256 = _sha256(path)
    else:
        # The disk writes while the processor hashes.
        with ThreadPoolExecutor(1) as pool:
            synced = pool.submit(sync, path)
            sha256 = _sha256(path)
            synced.result()
    return StoredFile(size, path.stat().st_mtime_ns, sha256)


def _digest_of(files: dict[str, StoredFile]) -> str:
    listing = json.dumps([[name, file.sha256] for name, file in sorted(files.items())])
    return hashlib.sha256(listing.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
