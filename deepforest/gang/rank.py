"""Take part in a fit as one of its ranks.

- ``run_rank``  loads the rank's part of the rows, trains with the others, predicts its part
- ``without_output``  discards what is printed meanwhile
- ``main``      does so in a process of its own on this machine, which ends with its parent
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .meeting import Meeting

SIGN_SECONDS = 1.0
"""A rank reports the round of its training at most this often."""
MESSAGE_CHARACTERS = 400
ENDED = 3
"""The exit code of a rank whose parent has ended."""
OF_NETWORK = ("socket", "connect", "port", "network", "machine list")
"""Words of LightGBM's messages when another rank is lost or cannot be reached."""


def run_rank(
    folder: Path, request: dict[str, Any], interrupt: Callable[[], None] = lambda: None
) -> None:
    """Do the part of one rank; its result goes into the folder of the meeting.

    An error is reported there, too, so that the supervisor knows a lost peer from a wrong setting.
    """
    rank: int = request["gang"]["rank"]
    meeting = Meeting(folder, request["gang"]["meeting"])
    meeting.report(rank, state="loading")
    try:
        _take_part(folder, request, meeting, interrupt)
    except Exception as error:
        # XGBoost adds the addresses of its functions.
        words = str(error) or type(error).__name__
        text = " ".join(words.partition("Stack trace")[0].split())[:MESSAGE_CHARACTERS]
        of_network = any(word in text.lower() for word in OF_NETWORK)
        meeting.report(rank, state="failed", of_network=of_network, message=text)
        raise


def _take_part(
    folder: Path, request: dict[str, Any], meeting: Meeting, interrupt: Callable[[], None]
) -> None:
    """Load, meet the others, train and predict."""
    # These libraries load slowly; the first sign must not wait for them.
    import numpy as np

    from .._fit import FitResult, pack_fit
    from .._fit_files import DATA, RequestFiles, threads_here
    from ..learners import FitSlice, RankOfFit, Target, make_learner

    rank, ranks = request["gang"]["rank"], request["gang"]["ranks"]
    files = RequestFiles(folder / DATA, request)
    features = files.features()
    target = Target(files.array("target"), request["n_classes"])
    training = files.rows("training", len(features))
    left_out = files.rows("left_out", len(features))
    part = FitSlice(
        training[training % ranks == rank],
        left_out[left_out % ranks == rank],
        files.optional("weights"),
        request["seed"],
        request["threads"] or threads_here(0),  # those that the ranks of one machine share
        _Signs(meeting, rank, interrupt),
    )
    start = time.perf_counter()
    learner = make_learner(request["learner"])
    open_port = learner.open_port(rank, request["gang"]["host"])
    meeting.report(rank, state="ready", port=open_port.port)
    machines = meeting.wait_for_machines(interrupt)
    # The file of a rank has every so many rows of the table, from its own number on.
    fewest = int(np.bincount(training % ranks, minlength=ranks).min())
    own = RankOfFit(rank, part.rows // ranks, fewest, machines, open_port)
    with without_output():
        model, vectors = learner.fit_rank(features, target, part, own)
    result = FitResult(model, vectors, time.perf_counter() - start)
    meeting.save(rank, pack_fit(result))


@contextmanager
def without_output() -> Iterator[None]:
    """Discard what this process prints.

    A thread of LightGBM prints ``Listening...`` whatever its verbosity, and no logger gets it.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)


class _Signs:
    """Report the rounds of the training, which calls this before each of them."""

    def __init__(self, meeting: Meeting, rank: int, interrupt: Callable[[], None]) -> None:
        self.meeting = meeting
        self.rank = rank
        self.interrupt = interrupt
        self.round = 0
        self.reported = 0.0

    def __call__(self) -> None:
        """Count a round; raise what ``interrupt`` raises."""
        self.interrupt()
        self.round += 1
        if time.monotonic() - self.reported >= SIGN_SECONDS:
            self.reported = time.monotonic()
            self.meeting.report(self.rank, state="training", round=self.round)


def main() -> None:
    """Do the part that the command line describes: the folder, and the request as JSON."""
    folder, request = sys.argv[1:]
    threading.Thread(target=_end_with_parent, daemon=True).start()
    run_rank(Path(folder), json.loads(request))


def _end_with_parent() -> None:
    """End this process when the parent is gone: the other end of the standard input is closed."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(ENDED)


if __name__ == "__main__":
    main()
