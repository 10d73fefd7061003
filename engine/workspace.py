"""Where everything of a user lives on disk.

::

    workspace/
      data/         files pipelines may read         exports/, models/  what save nodes wrote
      pipelines/    documents built in the studio
      objects/      stored outputs, by content       results/           which outputs a node's key stands for
      tmp/          being written                    checkpoints/       half-done nodes, by key
      runs/ID/      lock, logs of one run            sylva.db           runs and events
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.atomic import lock
from engine.errors import BadInput, SylvaError

DEFAULT_ROOT = Path("~/.sylva")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
"""How an address such as ``s3://bucket`` begins; a ``Path`` made of it has one slash only."""

CLEANING_SECONDS = 60.0
"""How long a run that is to start waits for `sylva gc` to end."""
LEAVING_SECONDS = 5.0
"""How long a supervisor may take to leave a run after its last event."""


@dataclass(frozen=True)
class Workspace:
    """The folders of one workspace."""

    root: Path

    @classmethod
    def at(cls, root: Path | str | None = None) -> Workspace:
        """The workspace at ``root``, else at ``$SYLVA_WORKSPACE``, else at ``~/.sylva``. Nothing is created."""
        chosen = str(root or os.environ.get("SYLVA_WORKSPACE") or DEFAULT_ROOT)
        if ADDRESS.match(chosen):
            raise BadInput(
                f"The workspace '{chosen}' is an address, but a workspace is a folder of this machine. "
                "Give the path of a folder to --workspace or in $SYLVA_WORKSPACE."
            )
        try:
            chosen.encode()
            return cls(Path(chosen).expanduser().absolute())
        except (RuntimeError, UnicodeEncodeError) as error:  # no home, or bytes that are no text
            raise SylvaError(f"There can be no workspace at {chosen!a}; choose one with --workspace.") from error

    @property
    def data(self) -> Path:
        """Files a pipeline may read."""
        return self.root / "data"

    @property
    def pipelines(self) -> Path:
        """Documents built in the studio."""
        return self.root / "pipelines"

    @property
    def objects(self) -> Path:
        """Stored outputs, one folder each, named by content."""
        return self.root / "objects"

    @property
    def results(self) -> Path:
        """One small file per key: which outputs it stands for."""
        return self.root / "results"

    @property
    def temporary(self) -> Path:
        """Outputs being written; nothing here counts."""
        return self.root / "tmp"

    @property
    def checkpoints(self) -> Path:
        """Folders in which nodes keep finished parts of unfinished work."""
        return self.root / "checkpoints"

    @property
    def database(self) -> Path:
        """Runs and their events."""
        return self.root / "sylva.db"

    def run_folder(self, run: str) -> Path:
        """Lock and logs of one run."""
        if run in ("", "..") or Path(run).name != run:
            raise SylvaError(f"'{run}' cannot be the id of a run.")
        return self.root / "runs" / run

    def node_log(self, run: str, node: str) -> Path:
        """What a node printed, over all its attempts."""
        return self.run_folder(run) / f"{node}.log"

    def supervisor_log(self, run: str) -> Path:
        """What the supervisor itself had to say, if anything went wrong outside the nodes."""
        return self.run_folder(run) / "supervisor.txt"

    def create(self) -> Workspace:
        """Make the folders that are missing."""
        try:
            # What people analyse is nobody else's business.
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept = (self.data, self.pipelines, self.objects, self.results, self.temporary, self.checkpoints)
            for folder in (*kept, self.root / "runs"):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SylvaError(
                f"The workspace {self.root} cannot be written ({error.strerror}); choose another with --workspace."
            ) from error
        return self

    @contextmanager
    def in_use(self, patience: float = 0.0) -> Iterator[int]:
        """Hold the lock that keeps `sylva gc` away; yield the open file, which can be handed over.

        Every run holds it, from before its id exists until it has ended. ``patience`` is how many seconds to wait
        for a cleaning that is under way.
        """
        message = "The store is being cleaned; try again shortly."
        with lock(self.root / "in-use.lock", shared=True, busy=message, patience=patience) as handle:
            yield handle

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Hold off all runs while the store is cleaned; refused while a run is starting or running."""
        message = "A run is in progress, or another `sylva gc`; wait for it, or cancel the run."
        with lock(self.root / "in-use.lock", busy=message, patience=0.0):
            yield

    @contextmanager
    def claim(self, run: str, patience: float = 0.0) -> Iterator[int]:
        """Hold the right to supervise ``run``; yield the open file, which can be handed over.

        The kernel gives it back the moment its last holder dies, however it dies. Claim a run only while the
        workspace is ``in_use``: otherwise `sylva gc` may remove the run meanwhile.
        """
        self.run_folder(run).mkdir(parents=True, exist_ok=True)
        path, message = self.run_folder(run) / "lock", f"Run {run} is already being supervised."
        with lock(path, busy=message, patience=patience) as handle:
            yield handle
