"""The folders of a workspace, the locks that guard them, and the files that a pipeline may read.

::

    workspace/
      data/         files that pipelines may read    exports/, models/  written by Save nodes
      pipelines/    pipelines built in the studio
      objects/      stored outputs, by content       results/           cache entries: key → outputs
      tmp/          being written                    checkpoints/       half-done nodes, by key
      runs/ID/      lock and logs of one run         sylva.db           runs and events
      settings.json what pipelines may read from other machines, and where they run
      services/     models that the studio serves
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.atomic import lock
from engine.errors import BadInput, SylvaError
from engine.settings import REMOTE_SOURCES, covers, remote_sources

DEFAULT_ROOT = Path("~/.sylva")
FOLDERS = ("data", "pipelines", "objects", "results", "tmp", "checkpoints", "runs")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""How an address such as ``s3://bucket`` begins; a ``Path`` made of it has one slash only."""

CLEANING_SECONDS = 60.0
"""How long a run waits for `sylva gc` to end before it starts."""
LEAVING_SECONDS = 5.0
"""How long a supervisor may take to leave a run after its last event."""
LITTLE_SPACE = 100_000
"""Bytes of free disk space below which a supervisor could not write its log."""


@dataclass(frozen=True)
class Workspace:
    """The folders of one workspace."""

    root: Path

    @classmethod
    def at(cls, root: Path | str | None = None) -> Workspace:
        """Return the workspace at ``root``, else at ``$SYLVA_WORKSPACE``, else at ``~/.sylva``."""
        chosen = str(root or os.environ.get("SYLVA_WORKSPACE") or DEFAULT_ROOT)
        if ADDRESS.match(chosen):
            raise BadInput(
                f"The workspace '{chosen}' is an address, but a workspace is a folder of this "
                "machine. Give the path of a folder to --workspace or in $SYLVA_WORKSPACE."
            )
        try:
            chosen.encode()
            return cls(Path(chosen).expanduser().absolute())
        # There is no home folder, or the path has bytes that are not text.
        except (RuntimeError, UnicodeEncodeError) as error:
            message = f"A workspace cannot be at {chosen!a}; choose another path with --workspace."
            raise SylvaError(message) from error

    @property
    def data(self) -> Path:
        """Return the folder of files that a pipeline may read."""
        return self.root / "data"

    @property
    def pipelines(self) -> Path:
        """Return the folder of pipelines built in the studio."""
        return self.root / "pipelines"

    @property
    def objects(self) -> Path:
        """Return the folder of stored outputs; each has a folder, named by its content."""
        return self.root / "objects"

    @property
    def results(self) -> Path:
        """Return the folder of cache entries: for each key a small file that lists its outputs."""
        return self.root / "results"

    @property
    def temporary(self) -> Path:
        """Return the folder of outputs that are being written."""
        return self.root / "tmp"

    @property
    def checkpoints(self) -> Path:
        """Return the folder in which nodes save finished parts of unfinished work."""
        return self.root / "checkpoints"

    @property
    def database(self) -> Path:
        """Return the file of runs and their events."""
        return self.root / "sylva.db"

    @property
    def settings(self) -> Path:
        """Return the file with the settings of the workspace, which may not exist."""
        return self.root / "settings.json"

    def run_folder(self, run: str) -> Path:
        """Return the folder with the lock and the logs of a run."""
        # The id may come from the command line, and must not lead to another folder.
        if run in ("", "..") or Path(run).name != run:
            raise SylvaError(f"'{run}' is not the id of a run; `sylva runs` lists them.")
        return self.root / "runs" / run

    def node_log(self, run: str, node: str) -> Path:
        """Return the file with what a node printed, over all its tries."""
        return self.run_folder(run) / f"{node}.log"

    def supervisor_log(self, run: str) -> Path:
        """Return the file with the errors of the supervisor itself."""
        return self.run_folder(run) / "supervisor.txt"

    def supervisor_error(self, run: str) -> str:
        """Return the last line of the supervisor's log; empty if nothing went wrong."""
        if shutil.disk_usage(self.root).free < LITTLE_SPACE:  # then it could not write its log
            return f"the disk is full; free some space at {self.root}."
        log = self.supervisor_log(run)
        lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
        return next((line for line in reversed(lines) if line.strip()), "")

    def create(self) -> Workspace:
        """Create the folders that are missing."""
        try:
            # Readable by the user only: the data may be confidential.
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in FOLDERS:
                (self.root / name).mkdir(exist_ok=True)
        except OSError as error:
            raise self._not_writable(error) from error
        return self

    def _not_writable(self, error: OSError) -> SylvaError:
        return SylvaError(
            f"The workspace {self.root} cannot be written ({error.strerror}); "
            "choose another with --workspace."
        )

    @contextmanager
    def _lock(self, path: Path, **options: Any) -> Iterator[int]:
        """Hold a lock of the workspace; raise ``SylvaError`` where it cannot be written."""
        with ExitStack() as held:
            try:
                handle = held.enter_context(lock(path, **options))
            except OSError as error:
                raise self._not_writable(error) from error
            yield handle

    @contextmanager
    def in_use(self, patience: float = 0.0) -> Iterator[int]:
        """Hold the lock that keeps `sylva gc` away; yield its handle, which may be passed on.

        Every run holds it, from before its id exists until it has ended. ``patience`` is how many
        seconds to wait for a cleaning that has begun.
        """
        message = "The store is being cleaned; try again shortly."
        path = self.root / "in-use.lock"
        with self._lock(path, shared=True, busy=message, patience=patience) as handle:
            yield handle

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Hold the lock that keeps runs away while the store is cleaned; raise ``Busy`` for one."""
        message = "A run is in progress, or another `sylva gc`; wait for it, or cancel the run."
        with self._lock(self.root / "in-use.lock", busy=message, patience=0.0):
            yield

    @contextmanager
    def claim(self, run: str, patience: float = 0.0) -> Iterator[int]:
        """Hold the right to supervise ``run``; yield its lock's handle, which may be passed on.

        Claim a run only while the workspace is ``in_use``: otherwise `sylva gc` may remove it.
        """
        self.run_folder(run).mkdir(parents=True, exist_ok=True)
        path = self.run_folder(run) / "lock"
        message = (
            f"Run {run} is running; `sylva show {run}` shows it, `sylva cancel {run}` stops it."
        )
        with self._lock(path, busy=message, patience=patience) as handle:
            yield handle


@dataclass(frozen=True)
class Files:
    """What a pipeline may read (``data``), and where it may write (``exports``, ``models``).

    This is the only way from a path in a pipeline to a file on disk. A relative path means a file
    in the ``data`` folder and may not leave it, neither by ``..`` nor by a link. An absolute path
    is allowed only if the user started the command line: a pipeline opened in the studio cannot
    name a file outside.
    """

    workspace: Path
    allow_absolute: bool = False

    @property
    def data(self) -> Path:
        """Return the folder where relative paths begin."""
        return Workspace(self.workspace).data

    @property
    def exports(self) -> Path:
        """Return the folder of saved tables."""
        return self.workspace / "exports"

    @property
    def models(self) -> Path:
        """Return the folder of saved models."""
        return self.workspace / "models"

    def require_remote(self, address: str, *, field: str) -> None:
        """Raise ``BadInput`` unless the settings of the workspace allow to read this address.

        Without settings, no address is allowed: a pipeline of someone else must not make this
        machine connect to others.
        """
        settings = Workspace(self.workspace).settings
        if not any(covers(allowed, address) for allowed in remote_sources(settings, field)):
            raise BadInput(
                f"this workspace does not allow reading '{address}'; to allow it, write "
                f'{{"{REMOTE_SOURCES}": ["{address}"]}} into {settings}',
                field=field,
            )

    def readable(self, path: str, *, field: str, folders: bool = False) -> Path:
        """Return the file that ``path`` means; raise ``BadInput`` if it cannot be read.

        With ``folders``, it may also be a folder.
        """
        # Python would raise a ValueError, whose text does not name the parameter.
        if "\0" in path:
            raise BadInput("the path has a NUL character; remove it", field=field)
        locate = self._absolute if Path(path).is_absolute() else self._inside
        try:
            file = locate(path, field)
            if file.is_dir() and folders:
                return file
            if file.is_dir():
                raise BadInput(f"'{path}' is a folder; name a file", field=field)
            if file.is_file():
                return file
            # A pipe or a device can be read once only, but a pipeline may read its source again.
            if file.exists():
                message = f"'{path}' is not a regular file; copy it to one"
                raise BadInput(message, field=field)
        # A link to itself, a long name, a folder without permission.
        except (OSError, RuntimeError) as error:
            message = f"'{path[:200]}' cannot be opened: {error.args[-1]}"
            raise BadInput(message, field=field) from error
        message = f"the file '{path}' does not exist"
        if not Path(path).is_absolute():
            how = "copy it there, or give an absolute path on the command line"
            message += f" in {self.data}; {how}"
        raise BadInput(message, field=field)

    def _absolute(self, path: str, field: str) -> Path:
        """Return an absolute path if the user may give one."""
        if not self.allow_absolute:
            raise BadInput(
                f"'{path}' is an absolute path, which only the command line may use; "
                f"copy the file into {self.data} and give its name",
                field=field,
            )
        return Path(path)

    def _inside(self, path: str, field: str) -> Path:
        """Return a file of the ``data`` folder."""
        # This follows links, so that a link cannot lead outside either.
        file = (self.data / path).resolve()
        if not file.is_relative_to(self.data.resolve()):
            message = f"'{path}' is outside of the workspace; use a file in {self.data}"
            raise BadInput(message, field=field)
        return file
