"""Fit the forests of a scan on the windows of rows, and turn rows into class vectors with them.

Every window has the label of its row. A row's vectors are those of all its windows, by grain, by
learner, by position. Bags and folds are of ROWS: the windows of a row overlap and have one label,
so that a forest that knows one of them knows the others.

- ``ScanPlan``   what a scan is fitted with: grains, learners, folds
- ``ScanRows``   the rows of one fit: training rows, and rows that are only predicted
- ``Images``     binned rows
- ``fit_scan``   fits a scan as jobs (grain, learner, fold), and returns the rows' held-out vectors
- ``Scan``       a fitted scan
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._features import digest_of
from .._fit_jobs import FitJob, JobRunner
from .._layer import mean, numbered, seed_of
from .._resampling import draw_folds
from ..forest.binning import BinnedMatrix, Binner
from ..forest.forest import Forest
from ..learners import FitSlice, ForestLearner, Target
from ..persistence import VERSION, Pack
from .windows import Grain, Pooling, channels, check_shape

Array = npt.NDArray[Any]

BLOCK_ROWS = 4096
SAMPLE_VALUES = 2_000_000
"""Values of a row sample from which the bins are learned."""


class Images:
    """Hold rows as bins, one byte per value, with the same bins for all places of a channel.

    Values of different places are comparable, so that a window is the same wherever it is.
    """

    def __init__(self, values: Array, shape: tuple[int, ...]) -> None:
        n, width = values.shape
        self.binner = _learn_bins(values, shape)
        # A power of two, so that the row of an address is found by a shift.
        capacity = 1 << max(0, width - 1).bit_length()
        self.matrix = BinnedMatrix(n, capacity, by_column=False)
        self.matrix.n_features = width
        self.matrix.n_bins[:width] = np.tile(self.binner.n_bins, width // channels(shape))
        varies = np.zeros(width, bool)
        for first in range(0, n, BLOCK_ROWS):
            bins = bin_rows(self.binner, values[first : first + BLOCK_ROWS])
            self.matrix.rows[first : first + len(bins), :width] = bins
            varies |= (bins != self.matrix.rows[0, :width]).any(axis=0)
        self.matrix.rows[:, width:] = 0
        self.varies = varies
        """Which columns are not constant."""


def _learn_bins(values: Array, shape: tuple[int, ...]) -> Binner:
    n_rows = max(1, SAMPLE_VALUES // values.shape[1])
    if len(values) > n_rows:
        values = values[np.sort(np.random.default_rng(0).choice(len(values), n_rows, False))]
    return Binner().fit(np.ascontiguousarray(values).reshape(-1, channels(shape)))


def bin_rows(binner: Binner, values: Array) -> Array:
    """Return the bins of rows (rows × values), with the bins of their channel."""
    flat = np.ascontiguousarray(values).reshape(-1, binner.n_features)
    return binner.bin_rows(flat).reshape(values.shape)


class ScanPlan(NamedTuple):
    """Describe what a scan is fitted with.

    ``place`` and ``key`` name its jobs, for people and for checkpoints.
    """

    shape: tuple[int, ...]
    grains: list[Grain]
    learners: tuple[ForestLearner, ...]
    out_of_bag: bool
    n_folds: int
    pooling: Pooling | None
    seed: int
    key: str = "scan"
    place: Callable[[str, str, str], tuple[str, ...]] = lambda *place: place
    levels: int = 1


class ScanRows(NamedTuple):
    """Hold the rows of one fit: those it learns, and those it only predicts.

    ``weights`` and ``groups`` have an entry for every row.
    """

    training: Array
    blind: Array
    weights: Array | None = None
    groups: Array | None = None


@dataclass
class Scan:
    """Hold a fitted scan: forests by grain, by learner, by fold.

    ``recalls`` has for each grain the share of right predictions for held-out training rows, by
    position and class; ``class_rows`` is how many rows each class has. ``levels`` is how many of
    the newest scans a layer of a cascade sees. ``binner`` has the bins of the vectors.
    """

    shape: tuple[int, ...]
    grains: list[Grain]
    kinds: list[str]
    models: list[list[list[Forest]]]
    pooling: Pooling | None
    pixels: Binner
    recalls: list[Array]
    class_rows: Array
    levels: int = 1
    binner: Binner = field(default_factory=Binner)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.class_rows)

    @property
    def width(self) -> int:
        """The number of columns that a scan makes of a row."""
        n_places = sum(self._n_places(grain) for grain in self.grains)
        return n_places * len(self.kinds) * self.n_classes

    def _n_places(self, grain: Grain) -> int:
        return len(grain.positions) if self.pooling is None else len(self._blocks(grain))

    def _blocks(self, grain: Grain) -> list[Array]:
        """Return the positions behind each group of columns of a learner."""
        if self.pooling is None:
            return [np.array([position]) for position in range(len(grain.positions))]
        return self.pooling.blocks(grain.grid)

    def vectors(self, values: Array) -> Array:
        """Return the class vectors of new rows: the mean over fold models or all trees."""
        images = bin_rows(self.pixels, values)
        parts = []
        for grain, by_learner in zip(self.grains, self.models, strict=True):
            windows = grain.windows
            for forests in by_learner:
                own = mean([forest.predict_windows(images, windows) for forest in forests])
                parts.append(_pooled(own, grain, self.pooling).reshape(len(values), -1))
        return np.concatenate(parts, axis=1)

    def names(self, classes: Sequence[Any]) -> list[str]:
        """Return the names of the columns, such as "7x7@(3,4) random_forest class 2"."""
        names = []
        for grain in self.grains:
            places = [self._place_name(grain, block) for block in self._blocks(grain)]
            for kind in numbered(self.kinds):
                for place in places:
                    names += [f"{grain.title}@{place} {kind} class {name}" for name in classes]
        return names

    def _place_name(self, grain: Grain, block: Array) -> str:
        first, last = grain.position_name(block[0]), grain.position_name(block[-1])
        return first if first == last else f"{first}-{last}"

    def raw_importances(self, of_columns: Array) -> Array:
        """Return the importances of a row's values from those of the scan's columns.

        ``of_columns`` is anything × columns. What a vector counts is passed on to the values of
        its windows, by what its forests learned; completely random forests use all the same.
        """
        raw = np.zeros((len(of_columns), int(np.prod(self.shape))))
        first = 0
        for grain, by_learner in zip(self.grains, self.models, strict=True):
            windows, blocks = grain.windows, self._blocks(grain)
            for forests in by_learner:
                own = mean([forest.feature_importances() for forest in forests])
                if not own.any():
                    own = np.full(len(own), 1 / len(own))
                for block in blocks:
                    counts = of_columns[:, first : first + self.n_classes].sum(axis=1)
                    first += self.n_classes
                    for corner in windows.corners[block]:
                        raw[:, corner + windows.offsets] += np.outer(counts / len(block), own)
        return raw

    # --- plain data ---

    def pack(self, stem: str) -> dict[str, Pack]:
        """Return the scan as packs by name: one for each forest, and one for all else."""
        packs, n_folds = {}, []
        for number, by_learner in enumerate(self.models, 1):
            n_folds.append([len(forests) for forests in by_learner])
            for learner, forests in enumerate(by_learner, 1):
                for fold, forest in enumerate(forests, 1):
                    name = f"{stem}-grain-{number}-learner-{learner}-fold-{fold}"
                    packs[name] = Pack({}, forest.arrays())
        pooling = None if self.pooling is None else [self.pooling.kind, self.pooling.size]
        about = {
            "shape": list(self.shape),
            "kinds": self.kinds,
            "sizes": [list(grain.size) for grain in self.grains],
            "grids": [list(grain.grid) for grain in self.grains],
            "n_folds": n_folds,
            "pooling": pooling,
            "levels": self.levels,
        }
        arrays = {"class_rows": self.class_rows}
        for name, binner in (("pixels", self.pixels), ("vectors", self.binner)):
            arrays.update({f"{name}_{key}": each for key, each in binner.arrays().items()})
        for number, (grain, recalls) in enumerate(zip(self.grains, self.recalls, strict=True), 1):
            arrays[f"positions_{number}"] = grain.positions
            arrays[f"recalls_{number}"] = recalls
        packs[stem] = Pack(about, arrays)
        return packs

    @classmethod
    def unpack(cls, packs: Mapping[str, Pack], stem: str, n_classes: int) -> Scan:
        """Return the scan that was packed; raise ``ValueError`` if the data is not valid."""
        about, arrays = packs[stem].about, packs[stem].arrays
        shape = check_shape(about["shape"])
        pooling = None if about["pooling"] is None else Pooling(*about["pooling"])
        grains, models, recalls = [], [], []
        for number, size in enumerate(about["sizes"], 1):
            positions = arrays[f"positions_{number}"]
            grain = Grain(shape, tuple(size), positions, tuple(about["grids"][number - 1]))
            _check_grain(grain, pooling)
            by_learner = []
            for learner, n_folds in enumerate(about["n_folds"][number - 1], 1):
                names = [
                    f"{stem}-grain-{number}-learner-{learner}-fold-{fold}"
                    for fold in range(1, n_folds + 1)
                ]
                n_values = len(grain.windows.offsets)
                by_learner.append(
                    [Forest.from_arrays(packs[name].arrays, n_values, n_classes) for name in names]
                )
            _require(len(by_learner) == len(about["kinds"]) and all(by_learner), "its forests")
            own = arrays[f"recalls_{number}"]
            _require(own.shape == (len(positions), n_classes), "the recalls of its positions")
            grains.append(grain)
            models.append(by_learner)
            recalls.append(own)
        pixels, binner = (_read_binner(arrays, name) for name in ("pixels", "vectors"))
        kinds, class_rows = [str(kind) for kind in about["kinds"]], arrays["class_rows"]
        _require(len(grains) > 0 and class_rows.shape == (n_classes,), "the number of classes")
        _require(pixels.n_features == channels(shape), "the bins of the values")
        levels = int(about["levels"])
        scan = cls(
            shape, grains, kinds, models, pooling, pixels, recalls, class_rows, levels, binner
        )
        _require(levels > 0 and binner.n_features == scan.width, "the bins of the vectors")
        return scan


def _read_binner(arrays: Mapping[str, Array], name: str) -> Binner:
    before = f"{name}_"
    own = {key.removeprefix(before): arrays[key] for key in arrays if key.startswith(before)}
    return Binner.from_arrays(own)


def _check_grain(grain: Grain, pooling: Pooling | None) -> None:
    """Raise ``ValueError`` for windows that are not inside of a row: the kernels do not check."""
    positions, size, sides = grain.positions, grain.size, grain.shape[:2]
    _require(len(size) == len(sides) and min(size) > 0, "a window size")
    _require(
        positions.dtype.kind in "iu" and positions.ndim == 2 and positions.shape[1] == len(size),
        "the positions",
    )
    inside = (positions >= 0) & (positions + np.array(size) <= np.array(sides))
    _require(len(positions) > 0 and inside.all(), "the positions")
    if pooling is not None:
        _require(int(np.prod(grain.grid)) == len(positions), "the grid of positions")


def _require(holds: Any, part: str) -> None:
    if not holds:
        raise ValueError(f"{part} of the scan cannot be right")


def _pooled(vectors: Array, grain: Grain, pooling: Pooling | None) -> Array:
    return vectors if pooling is None else pooling.merge(vectors, grain.grid)


# --- fitting ---


class _Fit(NamedTuple):
    """Describe one fit: a forest on the windows of some rows."""

    key: str
    place: tuple[str, ...]
    learner: ForestLearner
    training: Array
    left_out: Array
    out_of_bag: bool
    seed: int

    @property
    def predict_rows(self) -> Array:
        rows = [self.training, self.left_out] if self.out_of_bag else [self.left_out]
        return np.sort(np.concatenate(rows))


class _Result(NamedTuple):
    forest: Forest
    vectors: Array  # rows × windows × classes; NaN if every tree had the row in its bag
    seconds: float


def fit_scan(
    plan: ScanPlan, images: Images, target: Target, rows: ScanRows, runner: JobRunner
) -> tuple[Scan, Array]:
    """Fit a scan, and return it with the class vectors of ALL rows, float32.

    Those of a training row come from trees that did not learn it, those of a blind row from all.
    Rows that are neither have zeros.
    """
    n, n_classes = len(target.values), target.n_classes
    folds = None
    if not plan.out_of_bag or rows.groups is not None:  # a bag does not respect groups
        n_folds = max(2, min(plan.n_folds, len(rows.training)))
        seed = seed_of(plan.seed, len(plan.grains))
        folds = draw_folds(rows.training, target, n_folds, seed, rows.groups)
    kinds = [learner.kind for learner in plan.learners]
    class_rows = np.bincount(target.values[rows.training], minlength=n_classes)
    scan = Scan(
        plan.shape,
        plan.grains,
        kinds,
        [],
        plan.pooling,
        images.binner,
        [],
        class_rows,
        plan.levels,
    )
    vectors = np.zeros((n, scan.width), np.float32)
    first = 0
    # One grain at a time: only its vectors of all positions are in memory.
    for number in range(len(plan.grains)):
        models, by_learner = _fit_grain(plan, number, images, target, rows, folds, runner)
        scan.models.append(models)
        scan.recalls.append(_recalls(by_learner, target, rows.training))
        for own in by_learner:
            pooled = _pooled(own, plan.grains[number], plan.pooling).reshape(n, -1)
            vectors[:, first : first + pooled.shape[1]] = pooled
            first += pooled.shape[1]
    scan.binner = Binner().fit(vectors[rows.training], n_jobs=runner.n_jobs)
    return scan, vectors


def _fit_grain(
    plan: ScanPlan,
    number: int,
    images: Images,
    target: Target,
    rows: ScanRows,
    folds: list[Array] | None,
    runner: JobRunner,
) -> tuple[list[list[Forest]], list[Array]]:
    """Return the forests of a grain by learner, by fold, and the vectors of all rows by learner."""
    grain = plan.grains[number]
    fits = _plan_fits(plan, number, rows, folds)
    every = [fit for by_fold in fits for fit in by_fold]
    if runner.checkpointer is not None:
        runner.prefix = f"{_fingerprint(plan, grain, images, target, rows)}/"
    threads = max(1, runner.n_jobs // len(every))
    jobs = []
    for fit in every:
        work = partial(
            _grow, fit, images.matrix, grain, target, rows.weights, threads, runner.interrupt
        )
        unpack = partial(
            _unpack_fit,
            shape=(len(fit.predict_rows), len(grain.positions), target.n_classes),
            n_features=len(grain.windows.offsets),
        )
        jobs.append(FitJob(fit.key, work, _pack_fit, unpack, fit.place))
    results: dict[str, _Result] = runner.run(jobs)
    models, vectors = [], []
    for by_fold in fits:
        models.append([results[fit.key].forest for fit in by_fold])
        own = [results[fit.key].vectors for fit in by_fold]
        vectors.append(_gather(by_fold, own, target, rows))
    return models, vectors


def _plan_fits(
    plan: ScanPlan, number: int, rows: ScanRows, folds: list[Array] | None
) -> list[list[_Fit]]:
    """Return the fits of a grain by learner, by fold; out of bag there is one."""
    grain = plan.grains[number]
    titles = numbered([learner.title for learner in plan.learners])
    fits = []
    for learner_number, learner in enumerate(plan.learners):
        stem = f"{plan.key}-grain-{number + 1}-learner-{learner_number + 1}"
        seed = seed_of(plan.seed, number, learner_number)
        about = (f"Scan {grain.title}", titles[learner_number])
        if folds is None:
            place = plan.place(*about, "out of bag")
            one = _Fit(f"{stem}-fold-1", place, learner, rows.training, rows.blind, True, seed)
            fits.append([one])
            continue
        by_fold = []
        for fold, left_out in enumerate(folds, 1):
            training = np.setdiff1d(rows.training, left_out, assume_unique=True)
            predicted = np.sort(np.concatenate([left_out, rows.blind]))
            place = plan.place(*about, f"fold {fold}")
            key, own_seed = f"{stem}-fold-{fold}", seed_of(seed, fold)
            by_fold.append(_Fit(key, place, learner, training, predicted, False, own_seed))
        fits.append(by_fold)
    return fits


def _grow(
    fit: _Fit,
    matrix: BinnedMatrix,
    grain: Grain,
    target: Target,
    weights: Array | None,
    n_jobs: int,
    interrupt: Callable[[], None],
) -> _Result:
    """Carry out one fit."""
    start = time.perf_counter()
    part = FitSlice(
        fit.training, fit.left_out, weights, fit.seed, n_jobs, interrupt, fit.out_of_bag
    )
    grown = fit.learner.grow(matrix, target, part, grain.windows)
    vectors = grown.vectors
    vectors[grown.votes == 0] = np.nan
    shape = (len(grown.predict_rows), len(grain.positions), -1)
    return _Result(grown.forest, vectors.reshape(shape), time.perf_counter() - start)


def _gather(fits: list[_Fit], vectors: list[Array], target: Target, rows: ScanRows) -> Array:
    """Return a learner's vectors of all rows, rows × windows × classes.

    Those of a training row come from the fit that left it out, those of a blind row from all.
    """
    n_windows = vectors[0].shape[1]
    result = np.zeros((len(target.values), n_windows, target.n_classes), np.float32)
    of_blind = []
    for fit, own in zip(fits, vectors, strict=True):
        at = fit.predict_rows
        result[at] = own
        of_blind.append(own[np.searchsorted(at, rows.blind)])
    result[rows.blind] = mean(of_blind)
    unknown = rows.training[np.isnan(result[rows.training, 0, 0])]
    # Every tree had the row in its bag: only the frequency of the classes is known without it.
    if len(unknown):
        counts = np.bincount(target.values[rows.training], minlength=target.n_classes)
        result[unknown] = counts / counts.sum()
    return result


def _recalls(by_learner: list[Array], target: Target, training: Array) -> Array:
    """Return the share of rows that each position predicts right, positions × classes.

    By the mean of the learners; a class without rows has 0.
    """
    n_windows = by_learner[0].shape[1]
    truth = target.values[training]
    right = np.zeros((n_windows, target.n_classes))
    for window in range(n_windows):
        vectors = mean([own[training, window] for own in by_learner])
        hit = vectors.argmax(axis=1) == truth
        right[window] = np.bincount(truth[hit], minlength=target.n_classes)
    counts = np.bincount(truth, minlength=target.n_classes)
    return right / np.maximum(counts, 1)


def _fingerprint(
    plan: ScanPlan, grain: Grain, images: Images, target: Target, rows: ScanRows
) -> str:
    """Return a hash of everything that the fits of a grain depend on."""
    settings = [VERSION, plan.shape, grain.size, plan.out_of_bag, plan.n_folds, plan.seed]
    learners = [learner.about() for learner in plan.learners]
    data = digest_of(images.matrix.rows, grain.positions, target.values, *rows)
    text = json.dumps([settings, learners, target.n_classes, data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _pack_fit(result: _Result) -> Pack:
    arrays = {**result.forest.arrays(), "vectors": result.vectors}
    return Pack({"seconds": result.seconds}, arrays)


def _unpack_fit(pack: Pack, shape: tuple[int, ...], n_features: int) -> _Result:
    """Return a saved result; raise ``ValueError`` if it cannot be right."""
    vectors, seconds = pack.arrays["vectors"], pack.about["seconds"]
    if vectors.shape != shape or vectors.dtype != np.float32 or not isinstance(seconds, float):
        raise ValueError("the vectors are not those of the windows")
    forest = Forest.from_arrays(pack.arrays, n_features, shape[-1])
    return _Result(forest, vectors, seconds)
