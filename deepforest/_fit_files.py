"""Carry out a fit from files, on this machine or another one that sees the same folder.

The process that grows a cascade writes what the fits of a layer need once: the features in the
views of the learners, the target and the weights, each file named by its content. A request names
these files and the rows of one fit, as plain JSON. The machine that carries it out saves the result
as a checkpoint, and finds it there if the fit was done before.

- ``FitFiles``  writes the files, and makes requests
- ``run_fit``   carries out a request
- ``RequestFiles``  reads the files that a request names
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ._features import Features, digest_of
from ._fit import PlannedFit, carry_out, pack_fit
from ._fit_jobs import FolderCheckpointer
from ._lightgbm import SAMPLED_ROWS, lightgbm_threads, load_dataset, rows_of
from .forest.binning import BinnedMatrix
from .learners import Target, make_learner

Array = npt.NDArray[Any]

DATA = "data"
"""The folder of the files, beside the results."""


class FitFiles:
    """Write what the fits of one layer need into the folder of a checkpointer."""

    def __init__(
        self, folder: Path, features: Features, target: Target, weights: Array | None
    ) -> None:
        self.folder = folder / DATA
        self.folder.mkdir(parents=True, exist_ok=True)
        self.features = features
        self._layer = digest_of(features.vectors)[:16]
        self.common = {
            "values": self._array("values", features.values, features.digest),
            "categorical": self._array("categorical", features.categorical),
            "augment": features.augment,
            "vectors": self._array("vectors", features.vectors),
            "target": self._array("target", target.values),
            "n_classes": target.n_classes,
            "weights": self._array("weights", weights),
        }

    def request(self, fit: PlannedFit, threads: int) -> dict[str, Any]:
        """Return all that ``run_fit`` needs to know of one fit, as plain JSON."""
        return self._request(fit, threads) | self._views(fit.learner.view)

    def request_of_rank(
        self, fit: PlannedFit, threads: int, rank: int, ranks: int
    ) -> dict[str, Any]:
        """Return what one of several processes that carry out a fit together needs to know.

        Its Dataset, if it reads one, has every so many rows, from the number of the rank on.
        """
        if fit.learner.view != "dataset":
            return self._request(fit, threads) | self._views(fit.learner.view)

        def write(path: Path) -> None:
            rows = np.arange(rank, len(self.features), ranks)
            with lightgbm_threads(1):
                rows_of(self.features.dataset(), rows).save_binary(str(path))

        name = f"dataset-{self._stem}-part-{rank + 1}-of-{ranks}.bin"
        self._write(name, write)
        sampled = self.features.dataset().params[SAMPLED_ROWS]
        return self._request(fit, threads) | {"dataset": name, "sampled": sampled}

    def _request(self, fit: PlannedFit, threads: int) -> dict[str, Any]:
        """Return what every process needs to know of a fit, without a view of the features."""
        return {
            **self.common,
            "learner": fit.learner.about() | {"count": 1},
            "training": self._rows(fit.training),
            "left_out": self._rows(fit.left_out),
            "out_of_bag": fit.out_of_bag,
            "seed": fit.seed,
            "threads": threads,
        }

    def _views(self, view: str) -> dict[str, Any]:
        """Write the features as a kind of learner reads them."""
        stem = self._stem
        if view == "dataset":
            name = f"dataset-{stem}.bin"
            self._write(name, lambda path: self.features.dataset().save_binary(str(path)))
            return {"dataset": name, "sampled": self.features.dataset().params[SAMPLED_ROWS]}
        if view == "bins":
            matrix = self.features.binned()
            n = matrix.n_features
            return {
                "n_bins": matrix.n_bins[:n].tolist(),
                "columns": self._array("columns", matrix.columns[:n], stem),
                "rows": self._array("rows", matrix.rows[:, :n], stem),
            }
        return {}

    @property
    def _stem(self) -> str:
        """The name of a view; the vectors of the layer are a part of it."""
        return f"{self.features.digest[:16]}-{self._layer}"

    def _rows(self, rows: Array) -> str:
        """Write rows as one bit for each row of the features; return the name of the file."""
        mask = np.zeros(len(self.features), bool)
        mask[rows] = True
        name = self._array("mask", np.packbits(mask))
        assert name is not None
        return name

    def _array(self, kind: str, array: Array | None, digest: str | None = None) -> str | None:
        """Write an array under a name made of its content; return the name."""
        if array is None:
            return None
        name = f"{kind}-{(digest or digest_of(array))[:33]}.npy"

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.save(file, array, allow_pickle=False)

        self._write(name, write)
        return name

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        """Let ``write`` fill a file, which appears complete or not at all."""
        if (self.folder / name).exists():
            return
        beside = self.folder / f".{name}-{uuid.uuid4().hex[:8]}"
        write(beside)
        # The results that other machines compute from it must outlive a power failure, not this.
        beside.replace(self.folder / name)


def run_fit(
    folder: str | Path,
    key: str,
    request: dict[str, Any],
    interrupt: Callable[[], None] = lambda: None,
) -> None:
    """Carry out a fit and save its result under ``key``, unless it is there already.

    A request of one of several processes is carried out together with the others.
    """
    if "gang" in request:
        from .gang.rank import run_rank

        run_rank(Path(folder), request, interrupt)
        return
    checkpointer = FolderCheckpointer(folder)
    if checkpointer.load(key) is not None:
        return
    files = RequestFiles(Path(folder) / DATA, request)
    features = files.features()
    fit = PlannedFit(
        key,
        (),
        make_learner(request["learner"]),
        files.rows("training", len(features)),
        files.rows("left_out", len(features)),
        request["out_of_bag"],
        request["seed"],
    )
    target = Target(files.array("target"), request["n_classes"])
    weights = files.optional("weights")
    threads = threads_here(request["threads"])
    result = carry_out(fit, features, target, weights, threads, interrupt)
    checkpointer.save(key, pack_fit(result))


def threads_here(asked: int) -> int:
    """Return how many threads a fit uses on this machine: those asked for, or those it is given.

    ``OMP_NUM_THREADS`` gives them, as to any work of a worker. The model is the same.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    threads = max(asked, int(given) if given.isdigit() else 1)
    return min(threads, len(os.sched_getaffinity(0)))


class RequestFiles:
    """Read the files that a request names."""

    def __init__(self, folder: Path, request: dict[str, Any]) -> None:
        self.folder = folder
        self.request = request

    def array(self, field: str) -> Array:
        """Return an array, mapped into memory: only what is used is read."""
        path = self.folder / self.request[field]
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return array

    def optional(self, field: str) -> Array | None:
        """Return an array, None if the request has none."""
        return None if self.request[field] is None else self.array(field)

    def rows(self, field: str, n_rows: int) -> Array:
        """Return the rows of a mask, ascending."""
        return np.flatnonzero(np.unpackbits(self.array(field), count=n_rows))

    def features(self) -> Features:
        """Return the features with the view that the learner reads."""
        request = self.request
        dataset = matrix = None
        if "dataset" in request:
            dataset = load_dataset(self.folder / request["dataset"], request["sampled"])
        if "rows" in request:
            matrix = BinnedMatrix.of(self.array("columns"), self.array("rows"), request["n_bins"])
        return Features.restore(
            self.array("values"),
            self.array("categorical"),
            request["augment"],
            self.optional("vectors"),
            matrix,
            dataset,
        )
