"""The pipelines saved in a workspace: each in a file of the ``pipelines`` folder.

- ``Library``  lists, opens, saves, creates and deletes them
- ``Entry``    a pipeline in the list

A save over another version of the file than the one that was opened raises ``Outdated``.
The name of the file is the pipeline's id and never changes; its title is the name inside the file.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from engine.atomic import FileVersion, lock
from engine.errors import InvalidPipeline, SylvaError, Unreadable
from engine.events import EventLog
from engine.pipeline import Pipeline
from engine.pipeline_file import read, write
from engine.text import free_name, shown
from engine.workspace import Workspace

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class UnknownPipeline(SylvaError):
    """No pipeline has that id."""

    exit_code = 2


class Outdated(SylvaError):
    """Another process has saved the pipeline since it was opened."""


class Opened(NamedTuple):
    """A pipeline, and the version of the file it was read from."""

    pipeline: Pipeline
    version: FileVersion


@dataclass(frozen=True)
class Entry:
    """A pipeline in the list; without ``pipeline``, ``problem`` says why it cannot be opened."""

    id: str
    title: str
    modified: float
    pipeline: Pipeline | None = None
    problem: str = ""


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
            version = FileVersion.of(path)
            if version and ID.fullmatch(path.stem):
                entries.append(_entry(path, version))
        return sorted(entries, key=lambda entry: entry.modified, reverse=True)

    def version(self, pipeline_id: str) -> FileVersion | None:
        """Return the present version of a pipeline's file; ``None`` if it does not exist."""
        return _version(self._path(pipeline_id))

    def open(self, pipeline_id: str) -> Opened:
        """Read a pipeline; raise ``InvalidPipeline`` if its file does not hold one."""
        path = self._path(pipeline_id)
        # Before reading: if the file changes in between, the next save is refused.
        version = _version(path)
        if version is None:
            if os.path.lexists(path):
                name = shown(str(path))
                message = f"{name} is not a regular file; remove it, or replace it by a file"
                raise InvalidPipeline([Unreadable(message)])
            message = f"{self.folder} has no pipeline '{pipeline_id}'; it may have been deleted."
            raise UnknownPipeline(message)
        return Opened(read(path), version)

    def save(self, pipeline_id: str, pipeline: Pipeline, over: FileVersion) -> FileVersion:
        """Replace the version ``over`` and return the new one; raise ``Outdated`` for another."""
        path = self._path(pipeline_id)
        with self._changing():
            # Inside the lock: another process may save at the same moment.
            if _version(path) != over:
                raise Outdated(
                    f"The pipeline '{pipeline_id}' was changed or deleted elsewhere "
                    "since it was opened."
                )
            self._refuse_outside(path)
            write(path, pipeline)
            version = _version(path)
        if version is None:
            raise SylvaError(f"{path} was removed right after it was written.")
        return version

    def create(self, pipeline: Pipeline) -> str:
        """Save a new pipeline and return its id, made from its name and used by no run before."""
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
        """Return the file of a pipeline; raise ``UnknownPipeline`` for what cannot be an id."""
        if not ID.fullmatch(pipeline_id):
            message = f"{shown(pipeline_id)} is not the id of a pipeline; open one from the list."
            raise UnknownPipeline(message)
        return self.folder / f"{pipeline_id}.json"

    def _free_id(self, name: str) -> str:
        """Return an id made from a name: ``Fraud (2024)`` becomes ``fraud_2024``."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_")[:80] or "pipeline"
        # Runs name their pipeline by its id: a new one must not get the runs of a deleted one.
        used = self._used_by_runs()
        return free_name(stem, lambda name: name in used or os.path.lexists(self._path(name)))

    def _used_by_runs(self) -> set[str]:
        """Return the ids of pipelines that have runs, also of deleted ones."""
        if not self.workspace.database.exists():
            return set()
        # A log that cannot be read must not keep a user from saving a pipeline.
        try:
            with EventLog(self.workspace) as log:
                return log.pipeline_ids()
        except SylvaError:
            return set()

    def _refuse_outside(self, path: Path) -> None:
        """Raise if a link would make a save overwrite a file outside of this workspace."""
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise SylvaError(
                f"{shown(str(path))} is a link to a file outside of the workspace, which is not "
                "changed. Replace the link by the file, or duplicate the pipeline."
            )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock that lets one process at a time change the folder."""
        self.workspace.create()
        try:
            with lock(self.folder / ".lock"):
                yield
        except OSError as error:
            message = f"The folder {self.folder} cannot be written: {error.strerror}."
            raise SylvaError(message) from error


def _version(path: Path) -> FileVersion | None:
    """Return the version of a pipeline's file.

    A backup that links to it does not make another one of it.
    """
    version = FileVersion.of(path)
    return version.content if version else None


@lru_cache(maxsize=1000)
def _entry(path: Path, version: FileVersion) -> Entry:
    """Return what the list shows; read once for each version of the file."""
    modified = version.modified / 1e9
    try:
        pipeline = read(path)
    except InvalidPipeline as error:
        return Entry(path.stem, path.stem, modified, problem=str(error))
    return Entry(path.stem, pipeline.name, modified, pipeline)
