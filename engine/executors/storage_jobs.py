"""Subtasks on workers that see a storage instead of the workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.errors import SubtaskFailed
from engine.executors import NodeTask
from engine.executors.cluster_jobs import MOST_TRIES, ClusterJobs, Submitted
from engine.executors.storage_node import SUBTASK_FILES, node_storage
from engine.shared_storage import Content

DOWNLOADS = 4
"""How many results are brought at the same time."""


class StorageJobs(ClusterJobs):
    """Bring what subtasks need into the storage, and their results back."""

    def __init__(self, task: NodeTask, log: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(task, log=log)
        self._storage, self._folder = node_storage(task)
        self._contents: dict[str, Content] = {}
        # One thread: subtasks that start together need the same files.
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="sylva-uploads")
        self._downloads = ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="sylva-downloads")

    def begin(self, submitted: Submitted) -> None:
        """Submit a subtask once the storage has the files that its request names."""
        self._uploads.submit(self._publish_and_submit, submitted)

    def succeed(self, submitted: Submitted, worker: str) -> None:
        """Set the outcome once the result is on this machine, unless the subtask was dropped."""
        self._downloads.submit(self._fetch, submitted, worker)

    def close(self) -> None:
        """Leave the cluster."""
        self._closed = True
        for pool in (self._uploads, self._downloads):
            pool.shutdown(wait=False, cancel_futures=True)
        super().close()

    def _publish_and_submit(self, submitted: Submitted) -> None:
        subtask = submitted.task.subtask
        assert subtask is not None
        try:
            files = {}
            for name in named_files(subtask.request, self._folder / SUBTASK_FILES):
                content = self._publish(name)
                files[f"{SUBTASK_FILES}/{name}"] = content.size, content.sha256
            subtask = replace(subtask, files=files)
            submitted.task = replace(submitted.task, subtask=subtask)
            self._submit(submitted)
        except Exception as error:
            self.fail(submitted, error)

    def _publish(self, name: str) -> Content:
        """Write a file into the storage, once; its name stands for its content."""
        path = self._folder / SUBTASK_FILES / name
        if name not in self._contents:
            self._contents[name] = Content.of(path)
        self._storage.publish_file(path, self._contents[name])
        return self._contents[name]

    def _fetch(self, submitted: Submitted, worker: str) -> None:
        """Bring the result of a subtask to this machine, or let it be carried out once more."""
        try:
            if self._storage.fetch_part(self._task.key, submitted.key, self._folder):
                super().succeed(submitted, worker)
            elif submitted.tries < MOST_TRIES:
                # Another run of the same node has ended and removed the lists of its fits.
                self._submit(submitted)
            else:
                why = f"the result of {submitted.key} is not in {self._storage.address}"
                self.fail(submitted, SubtaskFailed("lost", why))
        except Exception as error:
            self.fail(submitted, error)


def named_files(request: Any, folder: Path) -> Iterator[str]:
    """Yield the files of a folder whose names are somewhere in a request."""
    if isinstance(request, dict):
        request = list(request.values())
    if isinstance(request, list):
        for each in request:
            yield from named_files(each, folder)
        return
    is_name = isinstance(request, str) and Path(request).name == request
    if is_name and (folder / request).is_file():
        yield request
