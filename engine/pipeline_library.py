"""The pipelines of a workspace: one document each, in a file of its ``pipelines`` folder.

- ``Library``  lists, opens, saves, creates and deletes them
- ``Entry``    a pipeline in the list
- ``FileVersion``    which version of a file someone has; saving over another's version is refused with ``Outdated``

The name of a file is the pipeline's id and stays; its title is the document's own name.
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
from itertools import count
from pathlib import Path
from typing import NamedTuple

from engine.atomic import lock
from engine.errors import SylvaError
from engine.events import EventLog
from engine.pipeline import Pipeline
from engine.pipeline_file import read, write
from engine.problems import InvalidPipeline, Unreadable
from engine.text import shown
from engine.workspace import Workspace

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class UnknownPipeline(SylvaError):
    """There is no pipeline of that id."""

    exit_code = 2


class Outdated(SylvaError):
    """Someone else has saved the pipeline since it was opened."""


class FileVersion(NamedTuple):
    """Which version of a file it is."""

    file: int
    size: int
    modified: int


class Opened(NamedTuple):
    """A document and the version of the file it was read from, or written to."""

    document: Pipeline
    stamp: FileVersion


@dataclass(frozen=True)
class Entry:
    """A pipeline in the list; ``fault`` says why it cannot be opened."""

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
        """Where they lie."""
        return self.workspace.pipelines

    def entries(self) -> list[Entry]:
        """All pipelines, the last changed first."""
        found = []
        for path in self.folder.glob("*.json") if self.folder.is_dir() else ():
            about = _about(path)
            if about and ID.fullmatch(path.stem):
                found.append(_entry(path, _stamp_of(about), about.st_ctime_ns))
        return sorted(found, key=lambda entry: -entry.modified)

    def stamp(self, pipeline: str) -> FileVersion | None:
        """The present version of a pipeline's file; ``None`` if there is none."""
        return _stamp(self._path(pipeline))

    def open(self, pipeline: str) -> Opened:
        """The document and its version; ``InvalidPipeline`` if the file cannot be read as one."""
        path = self._path(pipeline)
        stamp = _stamp(path)
        if stamp is None:
            if os.path.lexists(path):
                raise InvalidPipeline([Unreadable(f"{shown(str(path))} is not a file; remove it, or put one there")])
            raise UnknownPipeline(f"There is no pipeline '{pipeline}' in {self.folder}; it may have been deleted.")
        return Opened(read(path), stamp)

    def save(self, pipeline: str, document: Pipeline, over: FileVersion) -> FileVersion:
        """Write the document over the version ``over``; its new version. ``Outdated`` if there is another by now."""
        path = self._path(pipeline)
        with self._changing():
            if _stamp(path) != over:
                raise Outdated(f"The pipeline '{pipeline}' was changed or deleted elsewhere meanwhile.")
            self._refuse_outside(path)
            write(path, document)
            return _known_stamp(path)

    def create(self, document: Pipeline) -> str:
        """Keep a new pipeline; its id, made from its name. Runs of one that was deleted are not taken for its own."""
        with self._changing():
            pipeline = self._free_id(document.name)
            write(self._path(pipeline), document)
        return pipeline

    def delete(self, pipeline: str) -> None:
        """Remove a pipeline; its runs stay."""
        with self._changing():
            try:
                self._path(pipeline).unlink(missing_ok=True)
            except OSError as error:
                raise SylvaError(f"The pipeline could not be deleted: {error.strerror}.") from error

    def _path(self, pipeline: str) -> Path:
        if not ID.fullmatch(pipeline):
            raise UnknownPipeline("That cannot be the id of a pipeline.")
        return self.folder / f"{pipeline}.json"

    def _free_id(self, name: str) -> str:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        wanted = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:80] or "pipeline"
        ids = (wanted if number == 1 else f"{wanted}_{number}" for number in count(1))
        known = self._known_to_runs()
        return next(each for each in ids if each not in known and not os.path.lexists(self._path(each)))

    def _known_to_runs(self) -> set[str]:
        """The pipelines that have runs, also those that were deleted; none if the run log cannot be read."""
        if not self.workspace.database.exists():
            return set()
        try:
            with EventLog(self.workspace) as log:
                return log.pipelines()
        except SylvaError:
            return set()

    def _refuse_outside(self, path: Path) -> None:
        """A link must not make a save overwrite what is no pipeline of this workspace."""
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise SylvaError(
                f"{shown(str(path))} is a link to a file elsewhere, which is not written. "
                "Put the file itself there, or duplicate the pipeline."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change at a time, whichever process makes it."""
        self.workspace.create()
        try:
            with lock(self.folder / ".lock"):
                yield
        except OSError as error:
            raise SylvaError(f"The folder {self.folder} cannot be written: {error.strerror}.") from error


def _about(path: Path) -> os.stat_result | None:
    """What is known of a file; nothing if it is none: who opens a pipe waits for ever."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about if stat.S_ISREG(about.st_mode) else None


def _stamp_of(about: os.stat_result) -> FileVersion:
    return FileVersion(about.st_ino, about.st_size, about.st_mtime_ns)


def _stamp(path: Path) -> FileVersion | None:
    about = _about(path)
    return _stamp_of(about) if about else None


def _known_stamp(path: Path) -> FileVersion:
    stamp = _stamp(path)
    if stamp is None:
        raise SylvaError(f"{path} is gone right after it was written.")
    return stamp


@lru_cache(maxsize=1000)
def _entry(path: Path, stamp: FileVersion, touched: int) -> Entry:
    """What the list shows; read once for each version of the file, and again when its permissions change."""
    modified = stamp.modified / 1e9
    try:
        document = read(path)
    except InvalidPipeline as error:
        return Entry(path.stem, path.stem, modified, fault=str(error))
    return Entry(path.stem, document.name, modified, len(document.nodes))
