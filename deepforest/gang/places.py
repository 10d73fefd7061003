"""Where ranks run.

- ``Places``        hands out places, each to one rank at a time
- ``LocalPlaces``   processes of this machine
- ``RemotePlaces``  workers of a cluster, through ``RemoteRanks``
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from .meeting import LOOK_EVERY

PATIENCE_SECONDS = 60.0
"""How long a fit waits for the workers it needs, if there are too few; a lost one comes back."""
COMMAND = (sys.executable, "-m", "deepforest.gang.rank")
HERE = "127.0.0.1"


class GangFailed(RuntimeError):
    """Report that a fit with several ranks failed; ``kind`` as of other processes."""

    def __init__(self, message: str, kind: str = "error") -> None:
        super().__init__(message)
        self.kind = kind


class TooFewWorkers(GangFailed):
    """Report that a fit needs more workers at the same time than there are."""


class RankFailed(RuntimeError):
    """Report that the process of a rank ended without a result; ``kind`` as of other processes."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Places(ABC):
    """Hand out places; a gang gets all of its places at once or waits."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._changed = threading.Condition()

    @abstractmethod
    def present(self) -> list[str]:
        """Return the names of all places, whether they are taken or not."""

    @abstractmethod
    def host(self, place: str) -> str:
        """Return the address under which the other ranks reach a place."""

    @abstractmethod
    def start(self, key: str, request: dict[str, Any], place: str) -> Future[Any]:
        """Start a rank; the future fails with an error that has a ``kind``."""

    @abstractmethod
    def has_started(self, key: str) -> bool:
        """Return whether the process of a rank runs; its place may be busy with other work."""

    @abstractmethod
    def stop(self, key: str) -> None:
        """End a rank, whatever it does, or forget one that has ended."""

    def take(self, number: int, interrupt: Callable[[], None]) -> list[str]:
        """Return so many places, in their order; wait until they are free.

        Raise ``TooFewWorkers`` if there are not so many for a minute.
        """
        enough = time.monotonic()
        while True:
            interrupt()
            present = self.present()
            with self._changed:
                free = [place for place in present if place not in self._taken]
                if len(free) >= number:
                    self._taken.update(free[:number])
                    return free[:number]
                if len(present) >= number:
                    enough = time.monotonic()
                elif time.monotonic() - enough > PATIENCE_SECONDS:
                    raise TooFewWorkers(
                        f"a fit with {number} workers needs them at the same time, but "
                        f"{len(present)} can be used; start more workers, or set a smaller number "
                        "of workers per fit"
                    )
                self._changed.wait(LOOK_EVERY)

    def release(self, places: list[str]) -> None:
        """Give places back."""
        with self._changed:
            self._taken.difference_update(places)
            self._changed.notify_all()


class LocalPlaces(Places):
    """Run each rank in a process of this machine: one gang at a time."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__()
        self.folder = folder
        self.number = number
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def present(self) -> list[str]:
        """Return as many places as the largest gang needs."""
        return [f"process {number + 1}" for number in range(self.number)]

    def host(self, place: str) -> str:
        """Return the address of this machine for itself."""
        return HERE

    def start(self, key: str, request: dict[str, Any], place: str) -> Future[Any]:
        """Start a process; it ends when this one does."""
        paths = os.pathsep.join(path for path in sys.path if path)
        # Threads that wait must leave the processor to the other ranks; see wait_passively.
        environment = {"GOMP_SPINCOUNT": "1000", **os.environ, "PYTHONPATH": paths}
        process = subprocess.Popen(
            [*COMMAND, str(self.folder), json.dumps(request)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        self.processes[key] = process
        ended: Future[Any] = Future()
        threading.Thread(target=_wait, args=(process, ended), daemon=True).start()
        return ended

    def has_started(self, key: str) -> bool:
        """Return true: nothing else is in its way."""
        return True

    def stop(self, key: str) -> None:
        """Kill the process of a rank and wait for its end."""
        process = self.processes.pop(key)
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _wait(process: subprocess.Popen[bytes], ended: Future[Any]) -> None:
    """Tell the future how a process ended."""
    code = process.wait()
    if code == 0:
        ended.set_result(None)
    elif code < 0:
        ended.set_exception(RankFailed("crashed", f"its process was ended by signal {-code}"))
    else:
        ended.set_exception(RankFailed("error", f"its process ended with exit code {code}"))


@runtime_checkable
class RemoteRanks(Protocol):
    """Let the workers of a cluster carry out ranks."""

    def workers(self) -> list[str]:
        """Return the addresses of the workers that may be used, such as ``tcp://10.0.0.2:4711``."""

    def submit_rank(self, key: str, request: dict[str, Any], worker: str) -> Future[str]:
        """Let one worker carry out a request, which it does not repeat if that fails."""

    def worker_of(self, key: str) -> str:
        """Return the worker that has begun with it, empty if none has yet."""

    def drop(self, key: str) -> None:
        """End it wherever it runs."""


class RemotePlaces(Places):
    """Run each rank on another worker of a cluster."""

    def __init__(self, remote: RemoteRanks) -> None:
        super().__init__()
        self.remote = remote

    def present(self) -> list[str]:
        """Return the addresses of the workers.

        They are sorted: gangs that take them in one order never wait for each other in a circle.
        """
        return sorted(self.remote.workers())

    def host(self, place: str) -> str:
        """Return the host of an address such as ``tls://10.0.0.2:4711``."""
        return place.rpartition("/")[2].rpartition(":")[0]

    def start(self, key: str, request: dict[str, Any], place: str) -> Future[Any]:
        """Submit a rank to one worker."""
        return self.remote.submit_rank(key, request, place)

    def has_started(self, key: str) -> bool:
        """Return whether the worker has begun with it."""
        return bool(self.remote.worker_of(key))

    def stop(self, key: str) -> None:
        """Take a rank back from its worker."""
        self.remote.drop(key)
