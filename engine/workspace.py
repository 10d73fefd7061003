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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SylvaError

DEFAULT_ROOT = Path("~/.sylva")


class Busy(SylvaError):
    """Someone else holds what was asked for."""


@dataclass(frozen=True)
class Workspace:
    """The folders of one workspace."""

    root: Path

    @classmethod
    def at(cls, root: Path | str | None = None) -> Workspace:
        """The workspace at ``root``, else at ``$SYLVA_WORKSPACE``, else at ``~/.sylva``. Nothing is created."""
        chosen = str(root or os.environ.get("SYLVA_WORKSPACE") or DEFAULT_ROOT)
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
    def in_use(self) -> Iterator[None]:
        """Held by every run, so that nothing is collected from under it."""
        with _locked(self.root / "in-use.lock", shared=True, message="The store is being cleaned; try again shortly."):
            yield

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Held while the store is cleaned; refused while a run is alive."""
        with _locked(
            self.root / "in-use.lock", shared=False, message="A run is in progress; wait for it or cancel it."
        ):
            yield

    @contextmanager
    def claim(self, run: str) -> Iterator[None]:
        """The right to supervise ``run``. The kernel gives it back the moment its holder dies, however it dies."""
        self.run_folder(run).mkdir(parents=True, exist_ok=True)
        with _locked(self.run_folder(run) / "lock", shared=False, message=f"Run {run} is already being supervised."):
            yield


@contextmanager
def _locked(path: Path, *, shared: bool, message: str) -> Iterator[None]:
    import fcntl

    with path.open("a") as file:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            raise Busy(message) from error
        yield
