"""Fit one layer of a cascade: several learners, with out-of-fold vectors of the training rows.

- ``LayerPlan``   what a layer is fitted with: learners, rows, weights, folds
- ``fit_layer``   fits it as a graph of jobs: folds → (learner, fold) → a learner's vectors
- ``Layer``       the fitted layer: vectors of new rows, and how they are combined
- ``n_fits``      how many fits a layer takes
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._features import Features, digest_of
from ._files import VERSION, Pack
from ._fit_jobs import Job, JobRunner
from .arithmetic import weighted_sum
from .forest.binning import Binner
from .learners import FITTED, FitSlice, Fitted, Learner, Target

Array = npt.NDArray[Any]
Fold = tuple[Array, Array | None]  # training rows, rows held out (None: those out of the bags)


@dataclass(frozen=True)
class LayerPlan:
    """Describe what a layer is fitted with.

    With ``out_of_bag``, learners that draw bags need no folds: their vectors come from the trees
    that did not see a row.
    """

    number: int
    learners: tuple[Learner, ...]
    rows: Array
    weights: Array | None
    out_of_bag: bool
    folds: int
    seed: int

    def folds_of(self, learner: Learner) -> int:
        """Return how many models a learner has in this layer."""
        return n_fits([learner], self.out_of_bag, self.folds)


def n_fits(learners: Iterable[Learner], out_of_bag: bool, folds: int) -> int:
    """Return how many models a layer has: one per learner and fold, or one if it is out of bag."""
    return sum(1 if out_of_bag and learner.out_of_bag else folds for learner in learners)


@dataclass
class Layer:
    """Hold a fitted layer.

    ``coefficients`` are the weights of the learners' vectors; ``alphas`` (mdDF) those of the
    outputs of all layers up to this one. Rows whose most probable class has more than
    ``threshold`` leave the cascade here. ``binner`` has the bins of the vectors that the layer
    sees, if its learners use bins.
    """

    models: list[list[Fitted]]  # by learner, by fold
    n_features: int
    binner: Binner | None = None
    coefficients: Array = field(default_factory=lambda: np.zeros(0))
    alphas: Array | None = None
    threshold: float | None = None

    def vectors(self, features: Features) -> Array:
        """Return each learner's vectors, learners × rows × outputs: the mean of its fold models."""
        # Algorithm 1 of mdDF, line 7. Float32, since the layers were trained on float32 vectors.
        by_learner = []
        for models in self.models:
            by_learner.append(_mean([model.vectors(features) for model in models]))
        return np.stack(by_learner).astype(np.float32)

    def combine(self, vectors: Array) -> Array:
        """Return the output of the layer, rows × outputs, from its learners' vectors."""
        return weighted_sum(self.coefficients, vectors)

    def importances(self) -> Array:
        """Return each learner's importances of the features of the layer (learners × features)."""
        by_learner = []
        for models in self.models:
            by_learner.append(_mean([model.importances(self.n_features) for model in models]))
        return np.array(by_learner)


class LayerFit(NamedTuple):
    """Hold a fitted layer, its learners' vectors of ALL rows, and the seconds of each learner.

    Rows that did not take part have zeros.
    """

    layer: Layer
    vectors: Array
    seconds: list[float]


class FitResult(NamedTuple):
    """Hold the result of one fit job."""

    model: Fitted
    vectors: Array
    seconds: float


def fit_layer(plan: LayerPlan, features: Features, task: Target, runner: JobRunner) -> LayerFit:
    """Fit all learners of a layer and gather their out-of-fold vectors."""
    # Shared views are made before the jobs start: making them is not safe in several threads.
    for learner in dict.fromkeys(plan.learners):
        learner.prepare(features)
    if runner.checkpointer is not None:  # several fits may save into the same folder
        runner.prefix = f"{fingerprint(plan, features, task)}/"
    results = runner.run(layer_jobs(plan, features, task, runner))
    models, vectors, seconds = [], [], []
    for number in range(len(plan.learners)):
        fits = [results[key] for key in _fit_keys(plan, number)]
        models.append([fit.model for fit in fits])
        seconds.append(sum(fit.seconds for fit in fits))
        vectors.append(results[_vectors_key(plan, number)])
    layer = Layer(models, features.n_features, features.vector_binner)
    return LayerFit(layer, np.stack(vectors), seconds)


def layer_jobs(plan: LayerPlan, features: Features, task: Target, runner: JobRunner) -> list[Job]:
    """Return the layer as a graph of jobs; each fit gets its share of the threads."""
    # Figure 4 of Zhang et al.: folds → one fit per learner and fold → vectors of each learner.
    # Bound with ``partial``, not with lambdas: an executor may send the work to another process.
    jobs = [
        Job(
            _folds_key(plan),
            partial(draw_folds, plan.rows, task, plan.folds, plan.seed),
            light=True,
        )
    ]
    threads = max(1, runner.n_jobs // n_fits(plan.learners, plan.out_of_bag, plan.folds))
    names = numbered([learner.title for learner in plan.learners])
    for number, learner in enumerate(plan.learners):
        keys = _fit_keys(plan, number)
        out_of_bag = len(keys) == 1
        for fold, key in enumerate(keys):
            work = partial(
                fit_part,
                learner,
                features,
                task,
                plan.rows if out_of_bag else None,
                fold,
                plan.weights,
                seed_of(plan.seed, plan.number, number, fold),
                threads,
                runner.interrupt,
            )
            # Fold sizes are known before the folds are drawn: ``draw_folds`` takes every k-th row.
            n_rows = len(plan.rows) if out_of_bag else len(plan.rows[fold :: plan.folds])
            unpack = partial(
                unpack_fit, n_rows=n_rows, n_features=features.n_features, n_classes=task.n_classes
            )
            pack = _pack_fit if _can_pack(learner) else None
            place = (
                f"Layer {plan.number}",
                names[number],
                "Out of bag" if out_of_bag else f"Fold {fold + 1}",
            )
            jobs.append(Job(key, work, (_folds_key(plan),), pack, unpack, place=place))
        gather = partial(gather_vectors, plan.rows, task, out_of_bag)
        jobs.append(Job(_vectors_key(plan, number), gather, (_folds_key(plan), *keys), light=True))
    return jobs


def numbered(titles: list[str]) -> list[str]:
    """Return the titles; one that occurs several times gets a number."""
    return [
        f"{title} {titles[:position].count(title) + 1}" if titles.count(title) > 1 else title
        for position, title in enumerate(titles)
    ]


def fingerprint(plan: LayerPlan, features: Features, task: Target) -> str:
    """Return a hash of everything that the fits of a layer depend on."""
    # A saved fit is used again only if all of this is equal; a wrong match would go unnoticed.
    settings = [VERSION, task.n_classes, plan.number, plan.out_of_bag, plan.folds, plan.seed]
    learners = [learner.about() for learner in plan.learners]
    data = digest_of(features.vectors, task.target, plan.rows, plan.weights)
    text = json.dumps([settings, learners, features.augment, features.digest, data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def draw_folds(rows: Array, task: Target, folds: int, seed: int) -> list[Array]:
    """Return the rows of each fold, ascending; every class is spread evenly over the folds."""
    # Algorithm 1 of mdDF, line 1, stratified: a fold without a class would not learn it.
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    # Sorted by class, each class starts in the fold after the one where the last class ended.
    if task.n_classes:
        order = order[np.argsort(task.target[order], kind="stable")]
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def fit_part(
    learner: Learner,
    features: Features,
    task: Target,
    all_rows: Array | None,
    fold: int,
    weights: Array | None,
    seed: int,
    n_jobs: int,
    interrupt: Callable[[], None],
    folds: list[Array],
) -> FitResult:
    """Fit a learner on the rows of all folds but ``fold``; with ``all_rows``, on these."""
    rows, held_out = all_rows, None
    if rows is None:
        held_out = folds[fold]
        rows = np.sort(
            np.concatenate([part for number, part in enumerate(folds) if number != fold])
        )
    start = time.perf_counter()
    fit = learner.fit(features, task, FitSlice(rows, held_out, weights, seed, n_jobs, interrupt))
    return FitResult(fit.model, fit.vectors, time.perf_counter() - start)


def gather_vectors(
    rows: Array, task: Target, out_of_bag: bool, folds: list[Array], *fits: FitResult
) -> Array:
    """Return a learner's vectors of all rows, from the fits that held each row out."""
    # Algorithm 1 of mdDF, line 5: a row's vector comes from the one model that did not see it.
    vectors = np.zeros((len(task.target), task.n_outputs), np.float32)
    for predict_rows, fit in zip([rows] if out_of_bag else folds, fits, strict=True):
        vectors[predict_rows] = fit.vectors
    unknown = rows[np.isnan(vectors[rows, 0])]
    # Every tree had the row in its bag: only the frequency of the classes is known without it.
    if len(unknown):
        vectors[unknown] = _typical(task, rows)
    return vectors


def seed_of(seed: int, *path: int) -> int:
    """Return a seed for one layer, learner or fold from the seed of the whole cascade."""
    # Independent streams, whatever the order in which jobs run or are repeated.
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0])


def _typical(task: Target, rows: Array) -> Array:
    """Return the frequencies of the classes, or the mean of the target."""
    if task.n_classes:
        return np.bincount(task.target[rows], minlength=task.n_classes) / len(rows)
    return np.array([task.target[rows].mean()])


def _mean(arrays: list[Array]) -> Array:
    """Return the mean, added up in order, without a copy of all arrays in one."""
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total / len(arrays)


# --- keys, and fits as plain data ---


def _folds_key(plan: LayerPlan) -> str:
    return f"layer-{plan.number}-folds"


def _vectors_key(plan: LayerPlan, learner: int) -> str:
    return f"layer-{plan.number}-learner-{learner + 1}"


def _fit_keys(plan: LayerPlan, learner: int) -> list[str]:
    n_folds = plan.folds_of(plan.learners[learner])
    return [f"{_vectors_key(plan, learner)}-fold-{fold + 1}" for fold in range(n_folds)]


def _can_pack(learner: Learner) -> bool:
    """Return whether the fitted learner can be saved without pickle."""
    return learner.kind != "scikit"


def _pack_fit(result: FitResult) -> Pack:
    """Return the result of a fit job as a pack for a checkpointer."""
    pack = result.model.pack()
    about = {**pack.about, "seconds": result.seconds}
    return Pack(about, {**pack.arrays, "vectors": result.vectors}, pack.text)


def unpack_fit(pack: Pack, n_rows: int, n_features: int, n_classes: int) -> FitResult:
    """Return the result of a fit job that was saved; raise ``ValueError`` if it cannot be right.

    ``n_rows`` is the number of rows that the fit held out, and has vectors of.
    """
    # The file may be damaged or of another version: a wrong shape must not reach the kernels.
    model = FITTED[pack.about["kind"]].unpack(pack, n_features, n_classes)
    vectors, seconds = pack.arrays["vectors"], pack.about["seconds"]
    if (
        vectors.dtype != np.float32
        or vectors.shape != (n_rows, max(n_classes, 1))
        or not isinstance(seconds, float)
    ):
        raise ValueError("the vectors are not those of the rows")
    # NaN is allowed: a row that every tree had in its bag. Float32 sums may exceed 1 slightly.
    if n_classes and not (np.isnan(vectors) | ((vectors >= 0) & (vectors <= 1 + 1e-5))).all():
        raise ValueError("the vectors are not probabilities")
    return FitResult(model, vectors, seconds)


def pack_layer(layer: Layer, number: int) -> dict[str, Pack]:
    """Return a layer as packs by name: one for itself and one for each model."""
    about = {
        "n_features": layer.n_features,
        "threshold": layer.threshold,
        "n_folds": [len(models) for models in layer.models],
        "binned": layer.binner is not None,
    }
    arrays = {"coefficients": layer.coefficients}
    if layer.alphas is not None:
        arrays["alphas"] = layer.alphas
    if layer.binner is not None:
        arrays.update(layer.binner.arrays())
    packs = {f"layer-{number}": Pack(about, arrays)}
    for learner, models in enumerate(layer.models, 1):
        for fold, model in enumerate(models, 1):
            packs[f"layer-{number}-learner-{learner}-fold-{fold}"] = model.pack()
    return packs


def unpack_layer(packs: Mapping[str, Pack], number: int, n_classes: int) -> Layer:
    """Return the layer that ``pack_layer`` packed; raise ``ValueError`` if a model is damaged."""
    own = packs[f"layer-{number}"]
    n_features = int(own.about["n_features"])

    def model(learner: int, fold: int) -> Fitted:
        pack = packs[f"layer-{number}-learner-{learner}-fold-{fold}"]
        return FITTED[pack.about["kind"]].unpack(pack, n_features, n_classes)

    models = []
    for learner, n_folds in enumerate(own.about["n_folds"], 1):
        models.append([model(learner, fold) for fold in range(1, n_folds + 1)])
    binner = Binner.from_arrays(own.arrays) if own.about["binned"] else None
    coefficients, alphas = own.arrays["coefficients"], own.arrays.get("alphas")
    return Layer(models, n_features, binner, coefficients, alphas, own.about["threshold"])
