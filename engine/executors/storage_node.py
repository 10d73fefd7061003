"""What a worker without the workspace does with the storage of a run: before a node, and after it.

Each worker has a small workspace of its own for each run, a cache that is removed with the run. A
node finds its inputs there, and what an earlier try of it has finished; its result goes from there
into the storage.

- ``localised``        in a Dask worker: the task with the worker's own workspace
- ``sharing``          around a node
- ``sharing_subtask``  around a subtask
- ``CheckpointMirror``  copies what a running node saves for its next try
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from engine.atomic import replacing
from engine.errors import CorruptObject
from engine.executors import NodeTask, SubtaskRequest
from engine.settings import REMOTE_SOURCES
from engine.shared_storage import PAUSES, Content, Damaged, SharedStorage, StorageFailed
from engine.store import Store
from engine.workspace import Workspace

MIRROR_SECONDS = 1.0
"""How often a running node's checkpoint folder is looked at."""
SUBTASK_FILES = "data"
"""The folder of a checkpoint folder with what subtasks need; a node can make these files again."""


def read_token(address: str, run: str, pauses: tuple[float, ...] = ()) -> dict[str, Any]:
    """Return what the supervisor of a run wrote; raise ``StorageFailed`` if that is not possible.

    ``pauses`` are those between the tries.
    """
    return SharedStorage(address, Path(), pauses).read_token(run)


def localised(task: NodeTask, folder: Path) -> NodeTask:
    """Return a task with a workspace of this worker in ``folder``.

    Raise ``StorageFailed`` if this worker does not reach the storage any more.
    """
    assert task.storage is not None
    # A worker that gives up gets no more nodes of the run, so a short failure must not count.
    from_supervisor = read_token(task.storage, task.run, PAUSES)
    workspace = Workspace(folder).create()
    workspace.run_folder(task.run).mkdir(exist_ok=True)
    settings = json.dumps({REMOTE_SOURCES: from_supervisor["remote_sources"]})
    if not workspace.settings.is_file() or workspace.settings.read_text() != settings:
        with replacing(workspace.settings) as written:
            written.write_text(settings)
    return replace(task, workspace=str(folder))


def publish_log(task: NodeTask) -> None:
    """Move what a try of a node has printed to where the supervisor looks for it."""
    log = Workspace(Path(task.workspace)).node_log(task.run, task.node)
    # The result of the node counts, not its log.
    with contextlib.suppress(StorageFailed, OSError):
        if task.subtask is None and log.is_file():
            _storage_of(task).write_file(log_name(task), log)
            log.unlink()


def log_name(task: NodeTask) -> str:
    """Return the name of the log of a try in the storage."""
    return f"runs/{task.run}/{task.node}-{task.try_number}.log"


@contextmanager
def sharing(task: NodeTask, store: Store, folder: Path) -> Iterator[None]:
    """Bring what a node needs before the block, and its result into the storage after it.

    If the storage has the result already, it is in the store when the block begins.
    """
    if task.storage is None:
        yield
        return
    storage = _storage_of(task)
    # A node that is forced uses only a result of its own run.
    if storage.fetch_result(store, task.key, task.run if task.force else None) is not None:
        yield
        return
    for artifacts in task.inputs.values():
        for artifact in artifacts:
            try:
                storage.fetch_artifact(store, artifact)
            except Damaged as error:  # the supervisor writes it again
                raise CorruptObject(artifact.digest, str(error)) from error
    with CheckpointMirror(storage, task.key, folder):
        yield
    result = store.find(task.key)
    if result is not None:
        storage.publish_result(store, result)
        storage.remove_parts(task.key)


@contextmanager
def sharing_subtask(task: NodeTask, subtask: SubtaskRequest, folder: Path) -> Iterator[bool]:
    """Bring what a subtask needs before the block, and its result into the storage after it.

    Yield whether it has to be carried out: not if the storage has its result.
    """
    if task.storage is None:
        yield True
        return
    storage = _storage_of(task)
    if storage.fetch_part(task.key, subtask.key, folder):
        yield False
        return
    for name, (size, sha256) in subtask.files.items():
        storage.fetch_file(folder, name, Content(size, sha256))
    yield True
    files = {name: Content.of(folder / name) for name in _files_below(folder, subtask.key)}
    storage.publish_part(task.key, subtask.key, folder, files)


def node_storage(task: NodeTask) -> tuple[SharedStorage, Path]:
    """Return the storage of a task and the checkpoint folder of its node on this machine."""
    return _storage_of(task), Workspace(Path(task.workspace)).checkpoints / task.key


def _storage_of(task: NodeTask) -> SharedStorage:
    assert task.storage is not None
    return _open(task.storage, task.workspace)


@cache
def _open(address: str, workspace: str) -> SharedStorage:
    """Return one storage object per process: it remembers what it has seen there."""
    scratch = Workspace(Path(workspace)).temporary / "storage"
    scratch.mkdir(exist_ok=True)
    return SharedStorage(address, scratch)


def _files_below(folder: Path, part: str = "") -> list[str]:
    """Return the files of a checkpoint folder, or of a part of it; hidden ones are unfinished."""
    names = []
    for path in sorted((folder / part).rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not any(each.startswith(".") for each in name.parts):
            names.append(name.as_posix())
    return names


class CheckpointMirror:
    """Copy files that a running node saves in its checkpoint folder, in a thread.

    At first it brings what an earlier try has saved, perhaps on another machine. A file is copied
    once it has not changed between two looks, and all are when the node fails.
    """

    def __init__(self, storage: SharedStorage, key: str, folder: Path) -> None:
        self._storage, self._key, self._folder = storage, key, folder
        self._seen: dict[str, tuple[int, int]] = {}
        """Size and time of each file at the last look."""
        self._copied: dict[str, tuple[int, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> None:
        for name in self._storage.fetch_parts(self._key, self._folder):
            self._copied[name] = self._version(name)
        self._thread.start()

    def __exit__(self, kind: object, *error: object) -> None:
        """Stop; copy everything if the node failed, for its next try."""
        self._over.set()
        self._thread.join()
        if kind is not None:
            with contextlib.suppress(StorageFailed, OSError):
                self._copy(all_files=True)

    def _repeat(self) -> None:
        while not self._over.wait(MIRROR_SECONDS):
            # A storage that is away for a while is looked at again.
            with contextlib.suppress(StorageFailed, OSError):
                self._copy()

    def _copy(self, all_files: bool = False) -> None:
        """Copy the files that are new or have changed, and are not being written."""
        for name in _files_below(self._folder):
            if name.startswith(f"{SUBTASK_FILES}/"):
                continue
            version, before = self._version(name), self._seen.get(name)
            self._seen[name] = version
            if name not in self._copied and self._storage.has_part_of(self._key, name):
                self._copied[name] = version  # a worker has written it
            if version == self._copied.get(name) or not (all_files or version == before):
                continue
            files = {name: Content.of(self._folder / name)}
            self._storage.publish_part(self._key, f"file {name}", self._folder, files)
            self._copied[name] = version

    def _version(self, name: str) -> tuple[int, int]:
        status = (self._folder / name).stat()
        return status.st_size, status.st_mtime_ns
