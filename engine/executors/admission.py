"""Which workers of a Dask cluster may run the nodes of a run.

A worker that does not see the workspace, or that has other code, would fail the nodes it gets or,
worse, store other results under the same keys. So a Dask plug-in checks each worker, also one that
joins later, and gives it the resource of the run. Every task of the run requires that resource, so
Dask never hands one to a worker that was refused.

- ``WorkerCheck``     what is checked: the token in the run's folder, and the versions
- ``make_plugin``     the plug-in, which travels with all of its code: Sylva need not be there
- ``prepare_token``   writes the token of a run that every admitted worker must read

A worker runs this code even where Sylva is not installed, so this module imports the standard
library and ``engine.environment`` only.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.environment import Versions, differences, environment, plugin_versions

TOKEN = "token"
CACHE = "sylva"
UNLIMITED = 1_000_000
MEMORY = "-MB"
"""After the name of the resource of a run: the memory that nodes may use there."""


def prepare_token(folder: Path) -> str:
    """Write a new token into the folder of a run and return it."""
    token = secrets.token_hex(8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKEN).write_text(token)
    return token


@dataclass(frozen=True)
class WorkerCheck:
    """What a worker must have to run nodes of a run."""

    run_folder: str
    token: str
    expected: Versions
    storage: str | None = None
    """Where the data of the run are, if workers need not see the folder of the run."""

    @property
    def resource(self) -> str:
        """The name of the Dask resource that admitted workers have."""
        return f"SYLVA-{self.token}"

    def refusals(self) -> list[str]:
        """Return why this machine may not run nodes, in words; empty if it may."""
        texts = differences(environment() | plugin_versions(), self.expected)
        if self.storage is not None:
            # Needs Sylva, and would only repeat that it is another version.
            return texts or self._storage_refusals()
        folder = Path(self.run_folder)
        try:
            found = (folder / TOKEN).read_text()
        except OSError:
            texts.append(f"it does not see the folder of the run, {self.run_folder}")
        else:
            if found != self.token:
                texts.append(f"its folder {self.run_folder} is another one than that of the run")
        return texts

    def _storage_refusals(self) -> list[str]:
        """Return why this machine cannot read what the run wrote into the storage."""
        from engine.executors.storage_node import read_token
        from engine.shared_storage import StorageFailed

        assert self.storage is not None
        try:
            found = read_token(self.storage, Path(self.run_folder).name)
        except StorageFailed as error:
            return [str(error)]
        if found["token"] != self.token:
            return [f"the storage {self.storage} is another one there than that of the run"]
        return []


def cache_folder(worker: Any, run: str) -> Path:
    """Return where a worker keeps what it has brought from the storage of a run."""
    return Path(worker.local_directory) / CACHE / run


def make_plugin(check: WorkerCheck, topic: str, distributed: Any) -> Any:
    """Return a plug-in that checks each worker and reports what it found as a Dask event.

    The report has the ``address``, ``threads``, ``machine`` and ``memory`` (in megabytes, of its
    machine or job) of the worker, and the ``refusals``.
    """

    class Admission(distributed.WorkerPlugin):  # type: ignore[misc]
        """Check one worker; the class is local, so Dask sends its code with it."""

        async def setup(self, worker: Any) -> None:
            """Give the worker the resource of the run, or report why not."""
            import asyncio
            import socket

            # In a thread: a storage may take seconds, and the worker has to answer meanwhile.
            refusals, memory = await asyncio.to_thread(check.refusals), 0
            if not refusals:
                from engine.processes import usable_memory  # Sylva is installed here

                memory = usable_memory()
                # Marks, not limits: a coordinator keeps the first while its thread takes other
                # tasks, and no task asks for the second, which others read.
                await worker.set_resources(
                    **{check.resource: UNLIMITED, check.resource + MEMORY: memory}
                )
            report = {
                "address": worker.address,
                "threads": worker.state.nthreads,
                "machine": socket.gethostname(),
                "memory": memory,
                "refusals": refusals,
            }
            worker.log_event(topic, {"checked": report})

        async def teardown(self, worker: Any) -> None:
            """Take the resource back: the run does not need the worker any more."""
            if check.resource in worker.state.total_resources:
                await worker.set_resources(**{check.resource: 0, check.resource + MEMORY: 0})
            if check.storage is not None:
                import shutil

                shutil.rmtree(cache_folder(worker, Path(check.run_folder).name), ignore_errors=True)

    return Admission()
