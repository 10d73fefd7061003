"""One layer of a cascade: several learners, each fitted so that it can tell vectors of rows it did not see.

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

from ._files import VERSION, Pack
from .arithmetic import weighted_sum
from .features import Features, digest_of
from .forest.binning import Binner
from .jobs import Job, JobRunner
from .learners import FITTED, Fitted, Learner, Part, Task

Array = npt.NDArray[Any]
Fold = tuple[Array, Array | None]  # rows to learn from, rows held out (None: those out of the trees' bags)


@dataclass(frozen=True)
class LayerPlan:
    """What a layer is fitted with. ``folds`` is 0 where vectors come from out of the bags, if the learner can."""

    number: int
    learners: tuple[Learner, ...]
    rows: Array
    weights: Array | None
    out_of_bag: bool
    folds: int
    seed: int

    def folds_of(self, learner: Learner) -> int:
        """How many models a learner has."""
        return n_fits([learner], self.out_of_bag, self.folds)


def n_fits(learners: Iterable[Learner], out_of_bag: bool, folds: int) -> int:
    """How many models a layer has: one a learner if that tells of rows out of its bags, else one a learner and fold."""
    return sum(1 if out_of_bag and learner.out_of_bag else folds for learner in learners)


@dataclass
class Layer:
    """A fitted layer.

    ``coefficients`` weigh the learners' vectors; ``alphas`` (mdDF) what each layer up to this one says, where that is
    added up. ``threshold``: rows whose best class has more leave here.
    ``binner`` holds the bins of the vectors the layer is given, where its learners use bins.
    """

    models: list[list[Fitted]]  # by learner, by fold
    n_features: int
    binner: Binner | None = None
    coefficients: Array = field(default_factory=lambda: np.zeros(0))
    alphas: Array | None = None
    threshold: float | None = None

    def vectors(self, features: Features) -> Array:
        """What each learner says about each row (learners × rows × outputs): the mean over its fold models."""
        said = [_mean([model.vectors(features) for model in of_learner]) for of_learner in self.models]
        return np.stack(said).astype(np.float32)

    def combine(self, vectors: Array) -> Array:
        """What the layer says about each row."""
        return weighted_sum(self.coefficients, vectors)

    def importances(self) -> Array:
        """Each learner's importances of the features the layer sees (learners × features)."""
        return np.array([_mean([model.importances(self.n_features) for model in models]) for models in self.models])


class LayerFit(NamedTuple):
    """A fitted layer, its learners' vectors of ALL rows (zero for rows that did not take part) and its costs."""

    layer: Layer
    vectors: Array
    seconds: list[float]


class FitResult(NamedTuple):
    """What one fit job gives."""

    model: Fitted
    vectors: Array
    seconds: float


def fit_layer(plan: LayerPlan, features: Features, task: Task, runner: JobRunner) -> LayerFit:
    """Fit all learners of a layer."""
    for learner in dict.fromkeys(plan.learners):
        learner.prepare(features)
    if runner.checkpointer is not None:  # what other fits left in the same place stays apart
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


def layer_jobs(plan: LayerPlan, features: Features, task: Task, runner: JobRunner) -> list[Job]:
    """The layer as a graph of jobs."""
    jobs = [Job(_folds_key(plan), partial(draw_folds, plan.rows, task, plan.folds, plan.seed), light=True)]
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
            told = len(plan.rows) if out_of_bag else len(plan.rows[fold :: plan.folds])
            unpack = partial(unpack_fit, n_told=told, n_features=features.n_features, n_classes=task.n_classes)
            pack = _pack_fit if _can_pack(learner) else None
            place = (f"Layer {plan.number}", names[number], "Out of bag" if out_of_bag else f"Fold {fold + 1}")
            jobs.append(Job(key, work, (_folds_key(plan),), pack, unpack, place=place))
        gather = partial(gather_vectors, plan.rows, task, out_of_bag)
        jobs.append(Job(_vectors_key(plan, number), gather, (_folds_key(plan), *keys), light=True))
    return jobs


def numbered(titles: list[str]) -> list[str]:
    """Titles told apart: those that come several times get a number."""
    return [
        f"{title} {titles[:position].count(title) + 1}" if titles.count(title) > 1 else title
        for position, title in enumerate(titles)
    ]


def fingerprint(plan: LayerPlan, features: Features, task: Task) -> str:
    """Names everything that the fits of a layer depend on."""
    settings = [VERSION, task.n_classes, plan.number, plan.out_of_bag, plan.folds, plan.seed]
    learners = [learner.about() for learner in plan.learners]
    data = digest_of(features.vectors, task.target, plan.rows, plan.weights)
    text = json.dumps([settings, learners, features.augment, features.digest, data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def draw_folds(rows: Array, task: Task, folds: int, seed: int) -> list[Array]:
    """The rows of each fold, ascending; every class is dealt out evenly."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    if task.n_classes:
        order = order[np.argsort(task.target[order], kind="stable")]
    return [np.sort(order[fold::folds]) for fold in range(folds)]


def fit_part(
    learner: Learner,
    features: Features,
    task: Task,
    all_rows: Array | None,
    fold: int,
    weights: Array | None,
    seed: int,
    n_jobs: int,
    interrupt: Callable[[], None],
    folds: list[Array],
) -> FitResult:
    """Fit a learner on all rows but those of ``fold``, or on ``all_rows``."""
    rows, held_out = all_rows, None
    if rows is None:
        held_out = folds[fold]
        rows = np.sort(np.concatenate([part for number, part in enumerate(folds) if number != fold]))
    start = time.perf_counter()
    fit = learner.fit(features, task, Part(rows, held_out, weights, seed, n_jobs, interrupt))
    return FitResult(fit.model, fit.vectors, time.perf_counter() - start)


def gather_vectors(rows: Array, task: Task, out_of_bag: bool, folds: list[Array], *fits: FitResult) -> Array:
    """A learner's vectors of all rows, from the fits that held each row out."""
    vectors = np.zeros((len(task.target), task.n_outputs), np.float32)
    for told, fit in zip([rows] if out_of_bag else folds, fits, strict=True):
        vectors[told] = fit.vectors
    unknown = rows[np.isnan(vectors[rows, 0])]
    if len(unknown):  # every tree had the row in its bag: all that is known of it is how frequent the classes are
        vectors[unknown] = _typical(task, rows)
    return vectors


def seed_of(seed: int, *path: int) -> int:
    """A seed for one place in the cascade, from the seed of the whole."""
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0])


def _typical(task: Task, rows: Array) -> Array:
    if task.n_classes:
        return np.bincount(task.target[rows], minlength=task.n_classes) / len(rows)
    return np.array([task.target[rows].mean()])


def _mean(arrays: list[Array]) -> Array:
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
    return learner.kind != "scikit"


def _pack_fit(result: FitResult) -> Pack:
    pack = result.model.pack()
    about = {**pack.about, "seconds": result.seconds}
    return Pack(about, {**pack.arrays, "vectors": result.vectors}, pack.text)


def unpack_fit(pack: Pack, n_told: int, n_features: int, n_classes: int) -> FitResult:
    """The result of a fit job as it was kept; ``ValueError`` if it cannot be right."""
    model = FITTED[pack.about["kind"]].unpack(pack, n_features, n_classes)
    vectors, seconds = pack.arrays["vectors"], pack.about["seconds"]
    if vectors.dtype != np.float32 or vectors.shape != (n_told, max(n_classes, 1)) or not isinstance(seconds, float):
        raise ValueError("the vectors are not those of the rows")
    if n_classes and not (np.isnan(vectors) | ((vectors >= 0) & (vectors <= 1 + 1e-5))).all():
        raise ValueError("the vectors are no probabilities")
    return FitResult(model, vectors, seconds)


def pack_layer(layer: Layer, number: int) -> dict[str, Pack]:
    """A layer as packs, one a model and one for itself."""
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
    """The layer that was packed."""
    own = packs[f"layer-{number}"]
    n_features = int(own.about["n_features"])

    def model(learner: int, fold: int) -> Fitted:
        pack = packs[f"layer-{number}-learner-{learner}-fold-{fold}"]
        return FITTED[pack.about["kind"]].unpack(pack, n_features, n_classes)

    models = [[model(i, fold) for fold in range(1, n + 1)] for i, n in enumerate(own.about["n_folds"], 1)]
    binner = Binner.from_arrays(own.arrays) if own.about["binned"] else None
    coefficients, alphas = own.arrays["coefficients"], own.arrays.get("alphas")
    return Layer(models, n_features, binner, coefficients, alphas, own.about["threshold"])
