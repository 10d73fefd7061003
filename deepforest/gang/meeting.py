"""Let ranks and their supervisor find each other through a folder that all of them see.

Each rank reports what it does; the supervisor gives all ranks the addresses of all. Files appear
complete or not at all.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._fit_jobs import FolderCheckpointer
    from ..persistence import Pack

FOLDER = "gangs"
"""The folder of the meetings, beside the results of fits."""
LOOK_EVERY = 0.1
"""Seconds between two looks into the folder."""

Sign = dict[str, Any]
"""What a rank does: its ``state`` (loading, ready, training, failed) and more of it."""


class Meeting:
    """The files of one try of a fit."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder / FOLDER / name

    @classmethod
    def new(cls, folder: Path) -> Meeting:
        """Make the folder of another meeting."""
        meeting = cls(folder, uuid.uuid4().hex[:12])
        meeting.folder.mkdir(parents=True)
        return meeting

    def report(self, rank: int, **sign: Any) -> None:
        """Say what a rank does now."""
        self._write(f"rank-{rank}.json", sign)

    def sign(self, rank: int) -> Sign | None:
        """Return what a rank reported last, None if nothing yet."""
        return self._read(f"rank-{rank}.json")

    def invite(self, machines: str) -> None:
        """Give all ranks the addresses of all: ``host:port``, with commas between."""
        self._write("machines.json", {"machines": machines})

    def wait_for_machines(self, interrupt: Callable[[], None]) -> str:
        """Return the addresses of all ranks, once the supervisor knows them.

        The supervisor ends a rank that waits in vain.
        """
        while (found := self._read("machines.json")) is None:
            interrupt()
            time.sleep(LOOK_EVERY)
        return str(found["machines"])

    def save(self, rank: int, result: Pack) -> None:
        """Save the result of a rank."""
        self._results().save(f"result-{rank}", result)

    def load(self, rank: int) -> Pack | None:
        """Return the result of a rank, None if it is not there."""
        return self._results().load(f"result-{rank}")

    def _results(self) -> FolderCheckpointer:
        """Return where results are; a rank gives its first sign before it loads this module."""
        from .._fit_jobs import FolderCheckpointer

        return FolderCheckpointer(self.folder)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, name: str, content: Sign) -> None:
        beside = self.folder / f".{name}-{uuid.uuid4().hex[:8]}"
        beside.write_text(json.dumps(content))
        beside.replace(self.folder / name)

    def _read(self, name: str) -> Sign | None:
        try:
            content: Sign = json.loads((self.folder / name).read_text())
        except (OSError, ValueError):  # not there yet, or a network file system renames it
            return None
        return content
