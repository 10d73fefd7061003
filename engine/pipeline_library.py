"""The pipelines saved in a workspace: each in a file of the ``pipelines`` folder.

- ``Library``      lists, opens, saves, creates and deletes them
- ``Entry``        a pipeline in the list
- ``FileVersion``  identifies what was read; a save over any other version raises ``Outdated``

The name of the file is the pipeline's id and never changes; its title is the name inside the file.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from engine.atomic import lock
from engine.errors import InvalidPipeline, SylvaError, Unreadable
from engine.events import EventLog
from engine.pipeline import Pipeline
from engine.pipeline_file import read, write
from engine.text import shown
from engine.workspace import Workspace

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class UnknownPipeline(SylvaError):
    """No pipeline has that id."""

    exit_code = 2


class Outdated(SylvaError):
    """Another process has saved the pipeline since it was opened."""


class FileVersion(NamedTuple):
    """Identifies one version of a file: inode, size, time of modification."""

    file: int
    size: int
    modified: int


class Opened(NamedTuple):
    """A pipeline, and the version of the file it was read from."""

    document: Pipeline
    stamp: FileVersion


@dataclass(frozen=True)
class Entry:
    """A pipeline in the list; ``fault`` is the reason if it cannot be opened."""

    id: str
    title: str
    modified: float
    nodes: int = 0
    fault: str = ""


@dataclass(frozen=True)
class Library:
    """The pipelines of one workspace."""

    workspace: Workspace

    @property
    def folder(self) -> Path:
        """Return the folder of the pipeline files."""
        return self.workspace.pipelines

    def entries(self) -> list[Entry]:
        """Return all pipelines, the last changed first."""
        entries = []
        for path in self.folder.glob("*.json"):
            info = _file_info(path)
            if info and ID.fullmatch(path.stem):
                entries.append(_entry(path, _version_of(info), info.st_ctime_ns))
        return sorted(entries, key=lambda entry: entry.modified, reverse=True)

    def stamp(self, pipeline_id: str) -> FileVersion | None:
        """Return the present version of a pipeline's file; ``None`` if it does not exist."""
        return _version(self._path(pipeline_id))

    def open(self, pipeline_id: str) -> Opened:
        """Read a pipeline; raise ``InvalidPipeline`` if its file does not hold one."""
        path = self._path(pipeline_id)
        # Before reading: if the file changes in between, the next save is refused instead of losing data.
        version = _version(path)
        if version is None:
            if os.path.lexists(path):
                problem = Unreadable(f"{shown(str(path))} is not a regular file; remove it, or replace it by a file")
                raise InvalidPipeline([problem])
            raise UnknownPipeline(f"There is no pipeline '{pipeline_id}' in {self.folder}; it may have been deleted.")
        return Opened(read(path), version)

    def save(self, pipeline_id: str, pipeline: Pipeline, over: FileVersion) -> FileVersion:
        """Replace the version ``over`` and return the new one; raise ``Outdated`` if the file has another."""
        path = self._path(pipeline_id)
        with self._changing():
            if _version(path) != over:
                raise Outdated(f"The pipeline '{pipeline_id}' was changed or deleted elsewhere meanwhile.")
            self._refuse_outside(path)
            write(path, pipeline)
            version = _version(path)
        if version is None:
            raise SylvaError(f"{path} was removed right after it was written.")
        return version

    def create(self, pipeline: Pipeline) -> str:
        """Save a new pipeline and return its id, made from its name; no run has used the id before."""
        with self._changing():
            pipeline_id = self._free_id(pipeline.name)
            write(self._path(pipeline_id), pipeline)
        return pipeline_id

    def delete(self, pipeline_id: str) -> None:
        """Remove a pipeline; its runs stay."""
        with self._changing():
            try:
                self._path(pipeline_id).unlink(missing_ok=True)
            except OSError as error:
                raise SylvaError(f"The pipeline could not be deleted: {error.strerror}.") from error

    def _path(self, pipeline_id: str) -> Path:
        if not ID.fullmatch(pipeline_id):
            raise UnknownPipeline(f"{shown(pipeline_id)} is not the id of a pipeline; open one from the list.")
        return self.folder / f"{pipeline_id}.json"

    def _free_id(self, name: str) -> str:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:80] or "pipeline"
        used = self._used_by_runs()
        pipeline_id, number = stem, 1
        while pipeline_id in used or os.path.lexists(self._path(pipeline_id)):
            number += 1
            pipeline_id = f"{stem}_{number}"
        return pipeline_id

    def _used_by_runs(self) -> set[str]:
        """Return the ids of pipelines that have runs, also of deleted ones; none if the log cannot be read."""
        if not self.workspace.database.exists():
            return set()
        try:
            with EventLog(self.workspace) as log:
                return log.pipelines()
        except SylvaError:
            return set()

    def _refuse_outside(self, path: Path) -> None:
        """Raise if a link would make a save overwrite a file outside of this workspace."""
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise SylvaError(
                f"{shown(str(path))} is a link to a file outside of the workspace, which is not changed. "
                "Replace the link by the file, or duplicate the pipeline."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock that lets one process at a time change the folder."""
        self.workspace.create()
        try:
            with lock(self.folder / ".lock"):
                yield
        except OSError as error:
            raise SylvaError(f"The folder {self.folder} cannot be written: {error.strerror}.") from error


def _file_info(path: Path) -> os.stat_result | None:
    """Return what is known of a file; ``None`` unless it is a regular one: opening a pipe would block."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info if stat.S_ISREG(info.st_mode) else None


def _version_of(info: os.stat_result) -> FileVersion:
    return FileVersion(info.st_ino, info.st_size, info.st_mtime_ns)


def _version(path: Path) -> FileVersion | None:
    info = _file_info(path)
    return _version_of(info) if info else None


@lru_cache(maxsize=1000)
def _entry(path: Path, version: FileVersion, changed: int) -> Entry:
    """Return what the list shows, read once for each version of the file.

    ``changed`` is the time of the last change of its permissions, which may make it readable.
    """
    modified = version.modified / 1e9
    try:
        pipeline = read(path)
    except InvalidPipeline as error:
        return Entry(path.stem, path.stem, modified, fault=str(error))
    return Entry(path.stem, pipeline.name, modified, len(pipeline.nodes))
