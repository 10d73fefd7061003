"""Watch over the ranks of a fit: it ends with a model or with an error, and never hangs.

- ``Gangs``    the fits of a layer that have several ranks
- ``GangFit``  one of these fits: starts its ranks, and starts all of them again if one is lost
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._features import Features
from .._fit import FitResult, PlannedFit, unpack_fit
from .._fit_files import FitFiles
from .._fit_jobs import FolderCheckpointer, JobRunner
from ..learners import Target
from ..persistence import Pack
from .meeting import LOOK_EVERY, Meeting
from .places import GangFailed, LocalPlaces, Places, RemotePlaces, RemoteRanks

Array = npt.NDArray[Any]

TRIES = 3
"""How often the ranks of a fit are started."""
START_SECONDS = 30.0
"""How long the process of a rank may take until its first sign."""
STALL_SECONDS = 600.0
"""How long all ranks may be without a sign of progress, such as a round of boosting; later
``STALL_ROUNDS`` times as long as the longest round, if that is more."""
STALL_ROUNDS = 20
SETTLE_SECONDS = 2.0
"""When a rank fails, its peers lose their connections and fail too; the cause comes this soon."""
LOST = ("crashed", "lost")
"""The kinds of failures of a process that another try may not have."""


class RankLost(RuntimeError):
    """Report that the ranks of a fit must be started again, and why."""


class Gangs:
    """Carry out the fits of a layer that have several ranks; a context."""

    def __init__(self, runner: JobRunner, features: Features, target: Target) -> None:
        self.runner = runner
        self.features = features
        self.target = target
        self._folders = ExitStack()
        self._places: Places | None = None
        self.files: FitFiles | None = None

    def __enter__(self) -> Gangs:
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.close()

    def prepare(self, fits: list[PlannedFit], weights: Array | None) -> None:
        """Make the places for ranks and the files that they read.

        Raise ``ValueError`` if the executor cannot run ranks, ``GangFailed`` if one had no rows.
        """
        most = max(fit.learner.n_ranks for fit in fits)
        for fit in fits:
            _check_rows(fit)
        folder = self._folder()
        self.files = FitFiles(folder, self.features, self.target, weights)
        if self.runner.remote is None:
            self._places = LocalPlaces(folder, most)
        elif isinstance(self.runner.remote, RemoteRanks):
            self._places = RemotePlaces(self.runner.remote)
        else:
            raise ValueError("the executor cannot fit one learner on several machines; use ranks=1")

    def work(self, fit: PlannedFit) -> Callable[[], FitResult]:
        """Return the work of a fit: to watch over its ranks."""
        assert self.files is not None and self._places is not None
        ranks, threads = fit.learner.n_ranks, 0
        if self.runner.remote is None:
            threads = max(1, self.runner.n_jobs // ranks)
        requests = [self.files.request_of_rank(fit, threads, rank, ranks) for rank in range(ranks)]
        report = partial(self.runner.report_from_work, fit.key, fit.place)
        gang = GangFit(
            fit,
            requests,
            self.files.folder.parent,
            self._places,
            self.features.n_features,
            self.target,
            self.runner.interrupt,
            report,
        )
        return gang.run

    def _folder(self) -> Path:
        """Return the folder of the checkpoints, or a temporary one without any."""
        if isinstance(self.runner.checkpointer, FolderCheckpointer):
            return self.runner.checkpointer.folder
        return Path(self._folders.enter_context(tempfile.TemporaryDirectory(prefix="gang-")))


def _check_rows(fit: PlannedFit) -> None:
    """Raise ``GangFailed`` if a rank would have no training rows."""
    ranks = fit.learner.n_ranks
    if len(np.unique(fit.training % ranks)) < ranks:
        raise GangFailed(
            f"{len(fit.training)} training rows of a fold are too few for a {fit.learner.title} "
            f"with {ranks} workers per fit; set a smaller number"
        )


@dataclass
class GangFit:
    """Fit one learner by several ranks; ``report`` gets the workers, and why it starts again."""

    fit: PlannedFit
    requests: list[dict[str, Any]]
    folder: Path
    places: Places
    n_features: int
    target: Target
    interrupt: Callable[[], None]
    report: Callable[[str, str], None]

    def run(self) -> FitResult:
        """Return the result; raise ``GangFailed`` if no try succeeds."""
        why = ""
        for number in range(1, TRIES + 1):
            places = self.places.take(len(self.requests), self.interrupt)
            try:
                workers = ", ".join(dict.fromkeys(places))
                text = f"started again (try {number} of {TRIES}): {why}" if why else ""
                self.report(workers, text)
                return self._try(places)
            except RankLost as error:
                why = str(error)
            finally:
                self.places.release(places)
        raise GangFailed(f"the workers of the fit were lost {TRIES} times; the last time {why}")

    def _try(self, places: list[str]) -> FitResult:
        """Start all ranks, let them meet, wait for them and return what they have found."""
        meeting = Meeting.new(self.folder)
        ranks = _Ranks(meeting, self.places, places, self.interrupt)
        try:
            for rank, request in enumerate(self.requests):
                gang = {
                    "meeting": meeting.name,
                    "rank": rank,
                    "ranks": len(self.requests),
                    "host": self.places.host(places[rank]),
                }
                ranks.start(
                    f"{self.fit.key}-{meeting.name}-rank-{rank + 1}", request | {"gang": gang}
                )
            ranks.introduce()
            ranks.wait_until(ranks.all_ended)
            return self._result(meeting)
        finally:
            ranks.stop()
            meeting.remove()

    def _result(self, meeting: Meeting) -> FitResult:
        """Put the vectors of all ranks together; the model is the same in all of them."""
        rows, ranks = self.fit.predict_rows, len(self.requests)
        vectors = np.empty((len(rows), self.target.n_outputs), np.float32)
        packs, seconds = [], []
        for rank in range(ranks):
            pack = meeting.load(rank)
            if pack is None:
                raise RankLost(f"the result of worker {rank + 1} did not arrive")
            own = rows % ranks == rank
            part = unpack_fit(pack, int(own.sum()), self.n_features, self.target.n_classes)
            vectors[own] = part.vectors
            packs.append(pack)
            seconds.append(part.seconds)
        if any(pack.text != packs[0].text for pack in packs):
            raise RankLost("the workers found different models")
        first = Pack(packs[0].about, {**packs[0].arrays, "vectors": vectors}, packs[0].text)
        result = unpack_fit(first, len(rows), self.n_features, self.target.n_classes)
        return result._replace(seconds=max(seconds))


@dataclass
class _Ranks:
    """The ranks of one try, while they run."""

    meeting: Meeting
    places: Places
    at: list[str]
    interrupt: Callable[[], None]
    keys: list[str] = field(default_factory=list)
    ended: list[Future[Any]] = field(default_factory=list)
    begun: dict[int, float] = field(default_factory=dict)
    """When the process of each rank was first seen to run."""
    signs: list[Any] = field(default_factory=list)
    changed: float = field(default_factory=time.monotonic)
    longest: float = 0.0
    """The longest time between two signs of the training."""

    def start(self, key: str, request: dict[str, Any]) -> None:
        """Start the next rank, and wait until its process runs.

        Ranks take their workers one after the other, all gangs in the same order.
        """
        rank = len(self.keys)
        self.ended.append(self.places.start(key, request, self.at[rank]))
        self.keys.append(key)
        self.wait_until(lambda: rank in self.begun)

    def introduce(self) -> None:
        """Tell all ranks the addresses of all, once each of them has loaded its rows."""
        self.wait_until(lambda: all(self._port(rank) for rank in range(len(self.keys))))
        addresses = []
        for rank, place in enumerate(self.at):
            addresses.append(f"{self.places.host(place)}:{self._port(rank)}")
        self.meeting.invite(",".join(addresses))

    def all_ended(self) -> bool:
        """Return whether all ranks have ended; one that failed raises in ``wait_until``."""
        return all(future.done() for future in self.ended)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait, and look after the ranks meanwhile; raise ``RankLost`` or ``GangFailed``."""
        while True:
            self.interrupt()
            self._look()
            if is_so():
                return
            wait(self.ended, LOOK_EVERY, return_when="FIRST_EXCEPTION")
            time.sleep(0 if self._failed() else LOOK_EVERY)

    def stop(self) -> None:
        """End all ranks."""
        for key in self.keys:
            self.places.stop(key)

    def _look(self) -> None:
        """Raise ``RankLost`` or ``GangFailed`` unless all ranks are well."""
        if self._failed():
            self._explain()
        self._check_workers()
        self._check_signs()

    def _failed(self) -> list[int]:
        """Return the ranks whose processes have failed."""
        return [
            rank
            for rank, future in enumerate(self.ended)
            if future.done() and future.exception() is not None
        ]

    def _explain(self) -> None:
        """Raise the cause of a failure: the others of the gang fail only in consequence of it."""
        wait(self.ended, SETTLE_SECONDS)
        self._check_workers()
        lost = ""
        for rank in self._failed():
            error = self.ended[rank].exception()
            kind, sign = getattr(error, "kind", "error"), self.meeting.sign(rank) or {}
            where = f"worker {rank + 1} ({self.at[rank]})"
            if kind in LOST:
                lost = f"{where} failed: {error}"
            elif sign.get("of_network"):
                lost = lost or f"{where} lost its connection: {sign['message']}"
            elif sign.get("state") == "failed" and kind == "error":
                raise GangFailed(sign["message"])
            else:
                raise GangFailed(f"{where} failed: {error}", kind)
        raise RankLost(lost)

    def _check_workers(self) -> None:
        """Raise ``RankLost`` if a worker has left the cluster before its rank has ended."""
        present = self.places.present()
        for rank, future in enumerate(self.ended):
            if self.at[rank] not in present and (not future.done() or future.exception()):
                raise RankLost(f"worker {rank + 1} ({self.at[rank]}) left the cluster")

    def _check_signs(self) -> None:
        """Raise ``RankLost`` if a process does not report, or no rank makes progress."""
        now = time.monotonic()
        signs = [self.meeting.sign(rank) for rank in range(len(self.keys))]
        for rank, sign in enumerate(signs):
            if rank not in self.begun and (sign or self.places.has_started(self.keys[rank])):
                self.begun[rank] = self.changed = now
            if sign is None and now - self.begun.get(rank, now) > START_SECONDS:
                raise RankLost(
                    f"worker {rank + 1} ({self.at[rank]}) did not report within {START_SECONDS:g} s"
                )
        if signs != self.signs:
            if any(sign and sign["state"] == "training" for sign in self.signs):
                self.longest = max(self.longest, now - self.changed)
            self.signs, self.changed = signs, now
        limit = max(STALL_SECONDS, STALL_ROUNDS * self.longest)
        # A rank whose worker is still busy with other work holds up the others, but is not lost.
        if len(self.begun) == len(self.keys) and now - self.changed > limit:
            raise RankLost(f"no worker has made progress for {limit:,.0f} s")

    def _port(self, rank: int) -> int:
        """Return the port of a rank, 0 if it is not ready."""
        sign = self.meeting.sign(rank)
        return int(sign["port"]) if sign and sign["state"] == "ready" else 0
