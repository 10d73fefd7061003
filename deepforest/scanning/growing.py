"""Scan rows for the layers of a cascade, each cascade inside of its own boundary.

Before its first layer, or before every layer, a cascade fits a scan on its own training rows. Rows
that it is blind to are only predicted, so that their score stays honest.

- ``CascadeScans``  fits the scans of all cascades of one fit
- ``RecentScans``   the newest scans of a cascade with their vectors: what its next layer sees
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._features import Features
from .._fit_jobs import JobRunner
from .._layer import seed_of
from .._resampling import CascadeRows
from ..forest.binning import Binner
from ..learners import Target
from .scan import Images, Scan, ScanRows, fit_scan
from .scanner import MultiGrainedScanner, plan_scan
from .windows import check_shape

Array = npt.NDArray[Any]


class CascadeScans:
    """Fit the scans of the cascades of one fit.

    ``fresh``: every layer has a scan of its own, with other positions; otherwise only the first.
    ``levels`` is how many of the newest scans a layer sees.
    """

    def __init__(
        self,
        scanner: MultiGrainedScanner,
        values: Array,
        target: Target,
        groups: Array | None,
        runner: JobRunner,
        seed: int,
        *,
        fresh: bool,
        levels: int,
    ) -> None:
        self.scanner = scanner
        self.images = Images(values, check_shape(scanner.shape, values.shape[1]))
        self.target = target
        self.groups = groups
        self.runner = runner
        self.seed = seed
        self.fresh = fresh
        self.levels = levels

    def is_due(self, number: int) -> bool:
        """Return whether layer ``number`` has a scan of its own."""
        return self.fresh or number == 1

    def fit(
        self, number: int, rows: CascadeRows, training: Array, blind: Array, weights: Array | None
    ) -> tuple[Scan, Array]:
        """Fit the scan before layer ``number`` of a cascade; return it with the rows' vectors."""
        layer, of_cascade = "Layer", ""
        if rows.is_final:
            layer = "Model, layer"
        elif len(rows.fold_numbers):
            of_cascade = f"Cascade {rows.number + 1}, "

        def place(grain: str, learner: str, fold: str) -> tuple[str, ...]:
            return f"{layer} {number}", f"{grain}, {learner}", f"{of_cascade}{fold}".capitalize()

        # All cascades have the same positions: their layers are compared with each other.
        plan = plan_scan(self.scanner, self.images, seed_of(self.seed, 0, number))
        plan = plan._replace(
            key=f"layer-{number}-scan-cascade-{rows.number + 1}",
            place=place,
            levels=self.levels,
        )
        own = ScanRows(training, blind, weights, self.groups)
        return fit_scan(plan, self.images, self.target, own, self.runner)


class RecentScans:
    """Hold the newest scans of a cascade, and the vectors of rows by each of them."""

    def __init__(self) -> None:
        self.scans: list[Scan] = []
        self.vectors: list[Array] = []
        self.n_added = 0

    def add(self, scan: Scan, vectors: Array) -> None:
        """Add the scan of the next layer; the oldest one is dropped."""
        self.scans = [*self.scans, scan][-scan.levels :]
        self.vectors = [*self.vectors, vectors][-scan.levels :]
        self.n_added += 1

    def keep(self, rows: Array) -> None:
        """Continue with some of the rows."""
        self.vectors = [vectors[rows] for vectors in self.vectors]

    @property
    def width(self) -> int:
        """The number of columns that the next layer sees of the scans."""
        return sum(scan.width for scan in self.scans)

    def features(
        self, augment: str, room: int, *, learning: bool = False, n_jobs: int = 1
    ) -> Features:
        """Return what the next layer sees: the vectors of the newest scans, newest first."""
        edges, other_bin = [], []
        for scan in reversed(self.scans):
            edges += scan.binner.edges
            other_bin += scan.binner.other_bin.tolist()
        values = self.vectors[0]
        if len(self.vectors) > 1:
            values = np.concatenate(self.vectors[::-1], axis=1)
        return Features(
            values,
            np.zeros(values.shape[1], bool),
            augment=augment,
            room=room,
            binner=Binner().restore(edges, other_bin),
            learning=learning,
            n_jobs=n_jobs,
        )

    def names(self, classes: list[Any]) -> list[str]:
        """Return the names of the columns of ``features``."""
        names = []
        for age, scan in enumerate(reversed(self.scans)):
            before = f"scan of layer {self.n_added - age}: " if scan.levels > 1 else ""
            names += [before + name for name in scan.names(classes)]
        return names

    def raw_importances(self, of_columns: Array) -> Array:
        """Return the importances of a row's values from those of the columns of ``features``."""
        first, parts = 0, []
        for scan in reversed(self.scans):
            parts.append(scan.raw_importances(of_columns[:, first : first + scan.width]))
            first += scan.width
        return np.asarray(np.sum(parts, axis=0))
