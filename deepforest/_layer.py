"""Fit one layer of a cascade: several learners, with class vectors of rows they did not learn from.

- ``Layer``        a fitted layer: vectors of new rows, and how they are combined
- ``LayerPlan``    what the layer of one cascade is fitted with: learners, rows, weights, folds
- ``fit_layer``    fits a layer of one or several cascades, as jobs (learner, fold)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from . import large_arrays
from ._features import Features, digest_of
from ._fit import FitResult, PlannedFit, can_pack, carry_out, join, pack_fit, unpack_fit
from ._fit_files import FitFiles
from ._fit_jobs import FitJob, JobRunner
from ._resampling import CascadeRows
from .arithmetic import weighted_sum
from .forest.binning import Binner
from .gang.supervisor import Gangs
from .learners import FITTED, Fitted, Learner, Target
from .persistence import VERSION, Pack

if TYPE_CHECKING:
    from .scanning.scan import Scan

Array = npt.NDArray[Any]


@dataclass
class Layer:
    """Hold a fitted layer.

    ``coefficients`` are the weights of the learners' vectors; ``alphas`` (mdDF) those of the
    outputs of all layers up to this one. Rows whose most probable class has more than
    ``threshold`` leave the cascade here. ``temperature`` calibrates the probabilities after this
    layer; 1 leaves them as they are. ``binner`` has the bins of the vectors that the layer sees, if
    its learners use bins. ``scan`` is the scan of the rows that was made for this layer, if any.
    """

    models: list[list[Fitted]]  # by learner, by fold
    n_features: int
    binner: Binner | None = None
    coefficients: Array = field(default_factory=lambda: np.zeros(0))
    alphas: Array | None = None
    threshold: float | None = None
    temperature: float = 1.0
    scan: Scan | None = None

    def vectors(self, features: Features, known: dict[int, Array] | None = None) -> Array:
        """Return each learner's vectors, learners × rows × outputs: the mean of its fold models.

        ``known`` holds vectors of these features by the id of the model, and is added to: in layer
        1 several cascades share models.
        """
        known = {} if known is None else known
        by_learner = []
        # Algorithm 1 of mdDF, line 7. Float32, since the layers were trained on float32 vectors.
        for models in self.models:
            for model in models:
                if id(model) not in known:
                    known[id(model)] = model.vectors(features)
            by_learner.append(mean([known[id(model)] for model in models]))
        return np.stack(by_learner).astype(np.float32)

    def contributions(self, features: Features) -> list[Array]:
        """Return each learner's contributions, rows × (features of the layer + 1) × outputs."""
        by_learner = []
        for models in self.models:
            by_learner.append(mean([model.contributions(features) for model in models]))
        return by_learner

    def combine(self, vectors: Array) -> Array:
        """Return the output of the layer, rows × outputs, from its learners' vectors."""
        return weighted_sum(self.coefficients, vectors)

    def importances(self) -> Array:
        """Return each learner's importances of the features of the layer (learners × features)."""
        by_learner = []
        for models in self.models:
            by_learner.append(mean([model.importances(self.n_features) for model in models]))
        return np.array(by_learner)


class SeesFeatures(Protocol):
    """Name what a layer needs of a cascade that grows."""

    def see(self) -> Features:
        """Return the features that the next layer sees."""


@dataclass(frozen=True)
class LayerPlan:
    """Describe what the layer of one cascade is fitted with.

    ``rows`` are the training rows and blind rows that are still in the cascade. With
    ``out_of_bag``, forests need no folds: the vectors of training rows come from the trees that did
    not draw the row.
    """

    number: int
    learners: tuple[Learner, ...]
    rows: CascadeRows
    weights: Array | None
    out_of_bag: bool
    seed: int

    @property
    def shared(self) -> bool:
        """Whether fits serve two cascades; later layers see other vectors in each cascade."""
        return self.rows.can_share and self.number == 1


class LayerFit(NamedTuple):
    """Hold the fitted layer of a cascade, its learners' vectors of ALL rows, and their seconds.

    Rows that are not in the cascade have zeros.
    """

    layer: Layer
    vectors: Array
    seconds: list[float]


KnownFits = Mapping[tuple[str, Learner], FitResult]
"""Results of fits by key and learner: trials of several learners have the same keys."""


def fit_layer(
    plans: list[LayerPlan],
    cascades: Sequence[SeesFeatures],
    target: Target,
    runner: JobRunner,
    known: KnownFits | None = None,
) -> list[LayerFit]:
    """Fit a layer of all cascades, each on what it sees, and gather the class vectors.

    ``known`` are fits of this layer that are done already.
    """
    if not plans:
        return []
    known = known or {}
    fits = [plan_fits(plan) for plan in plans]
    results: dict[str, FitResult] = {}
    # Cascades that share fits go together; others one after the other, so that they can share the
    # memory of the raw features.
    if plans[0].shared:
        merged: dict[str, PlannedFit] = {}
        for plan, planned in zip(plans, fits, strict=True):
            # The cascade that learns all rows may be among them: it has fits of its own.
            if plan.shared:
                merged.update({fit.key: fit for by_fold in planned for fit in by_fold})
        every = list(merged.values())
        results = run_fits(plans[0], every, cascades[0].see(), target, runner, known)
    layers = []
    for plan, planned, cascade in zip(plans, fits, cascades, strict=True):
        features = cascade.see()
        if not plan.shared:
            every = [fit for by_fold in planned for fit in by_fold]
            results = run_fits(plan, every, features, target, runner, known)
        layers.append(gather(plan, planned, results, features, target))
    return layers


def plan_fits(plan: LayerPlan) -> list[list[PlannedFit]]:
    """Return the fits of a layer by learner, by fold; a learner out of bag has one."""
    titles = numbered([learner.title for learner in plan.learners])
    rows, of_folds = plan.rows, []
    # The learners share these arrays, which have a number for each row.
    for left_out in rows.folds or []:
        training = np.setdiff1d(rows.training, left_out, assume_unique=True)
        of_folds.append((training, join(left_out, rows.blind)))
    return [
        _fits_of(plan, number, learner, titles[number], of_folds)
        for number, learner in enumerate(plan.learners)
    ]


def _fits_of(
    plan: LayerPlan,
    number: int,
    learner: Learner,
    title: str,
    of_folds: list[tuple[Array, Array]],
) -> list[PlannedFit]:
    """Return the fits of one learner; ``of_folds`` are the rows of each fit and those it predicts.

    A learner out of bag has a single fit.
    """
    rows, single = plan.rows, not len(plan.rows.fold_numbers)
    stem, layer, of_cascade = f"layer-{plan.number}-learner-{number + 1}", "Layer", ""
    if rows.is_final:
        layer = "Model, layer"
    elif not single:
        of_cascade = f"Cascade {rows.number + 1}, "
    where = (f"{layer} {plan.number}", title)
    if plan.out_of_bag and learner.out_of_bag:
        name: tuple[int, ...] = (0,) if single else (rows.number,)
        key = "-".join([stem, "fold", *(str(each + 1) for each in name)])
        text = f"{of_cascade}out of bag".capitalize()
        seed = seed_of(plan.seed, plan.number, number, *name)
        return [PlannedFit(key, (*where, text), learner, rows.training, rows.blind, True, seed)]
    # Fits of nested folds share the trees of a learner: new rows are passed through all of them.
    part = learner if single else learner.share(len(of_folds))
    fits = []
    for fold, (training, predicted) in enumerate(of_folds):
        name = (fold,) if single else (rows.number, rows.fold_numbers[fold])
        text = f"{of_cascade}fold {name[-1] + 1}".capitalize()
        if plan.shared:
            name = (min(name), max(name))
            text = f"Without folds {name[0] + 1} and {name[1] + 1}"
        key = "-".join([stem, "fold", *(str(each + 1) for each in name)])
        seed = seed_of(plan.seed, plan.number, number, *name)
        fits.append(PlannedFit(key, (*where, text), part, training, predicted, False, seed))
    return fits


def run_fits(
    plan: LayerPlan,
    fits: list[PlannedFit],
    features: Features,
    target: Target,
    runner: JobRunner,
    known: KnownFits,
) -> dict[str, FitResult]:
    """Run fits as jobs and return their results by key; each gets its share of the threads.

    Fits that are ``known`` do not run again.
    """
    results = {}
    for fit in fits:
        if (fit.key, fit.learner) in known:
            results[fit.key] = known[fit.key, fit.learner]
    fits = [fit for fit in fits if fit.key not in results]
    if not fits:
        return results
    # Figure 4 of Zhang et al.: folds → one fit per learner and fold → vectors of each learner.
    # Shared views are made before the jobs start: making them is not safe in several threads.
    for learner in dict.fromkeys(plan.learners):
        learner.prepare(features)
    if runner.checkpointer is not None:  # several fits may save into the same folder
        runner.prefix = f"{fingerprint(plan, features, target)}/"
    with Gangs(runner, features, target) as gangs:
        watched = [fit for fit in fits if fit.learner.n_ranks > 1]
        if watched:
            gangs.prepare(watched, plan.weights)
        results.update(runner.run(_jobs(plan, fits, features, target, runner, gangs)))
    return results


def _jobs(
    plan: LayerPlan,
    fits: list[PlannedFit],
    features: Features,
    target: Target,
    runner: JobRunner,
    gangs: Gangs,
) -> list[FitJob]:
    """Return the jobs of fits."""
    threads = runner.threads(len(fits))
    files = None
    if runner.remote is not None:
        files = FitFiles(runner.remote_folder, features, target, plan.weights)
    jobs = []
    for fit in fits:
        # Bound with ``partial``, not by lambdas: an executor may send the work to a process.
        work = partial(carry_out, fit, features, target, plan.weights, threads, runner.interrupt)
        unpack = partial(
            unpack_fit,
            n_rows=len(fit.predict_rows),
            n_features=features.n_features,
            n_classes=target.n_classes,
        )
        pack = pack_fit if can_pack(fit.learner) else None
        if fit.learner.n_ranks > 1:
            job = FitJob(fit.key, gangs.work(fit), pack, unpack, fit.place, waits=True)
        else:
            request = files.request(fit, threads) if files and pack else None
            job = FitJob(fit.key, work, pack, unpack, fit.place, request)
        jobs.append(job)
    return jobs


def gather(
    plan: LayerPlan,
    fits: list[list[PlannedFit]],
    results: dict[str, FitResult],
    features: Features,
    target: Target,
) -> LayerFit:
    """Return the layer of one cascade from its fits."""
    models, seconds = [], []
    vectors = large_arrays.empty((len(fits), len(target.values), target.n_outputs), np.float32)
    for number, by_fold in enumerate(fits):
        done = [results[fit.key] for fit in by_fold]
        models.append([each.model for each in done])
        seconds.append(sum(each.seconds for each in done))
        vectors[number] = gather_vectors(plan, by_fold, done, target)
    layer = Layer(models, features.n_features, features.vector_binner)
    return LayerFit(layer, vectors, seconds)


def gather_vectors(
    plan: LayerPlan, fits: list[PlannedFit], results: list[FitResult], target: Target
) -> Array:
    """Return a learner's vectors of the rows of a cascade.

    Those of a training row come from the fit that left it out, those of a blind row from all fits.
    """
    # Algorithm 1 of mdDF, line 5: a row's vector comes from the one model that did not see it.
    rows = plan.rows
    vectors = large_arrays.zeros((len(target.values), target.n_outputs), np.float32)
    of_blind = []
    for number, (fit, result) in enumerate(zip(fits, results, strict=True)):
        left_out = rows.training
        if not fit.out_of_bag:
            assert rows.folds is not None
            left_out = rows.folds[number]
        at = fit.predict_rows
        vectors[left_out] = result.vectors[np.searchsorted(at, left_out)]
        of_blind.append(result.vectors[np.searchsorted(at, rows.blind)])
    vectors[rows.blind] = mean(of_blind)
    unknown = rows.training[np.isnan(vectors[rows.training, 0])]
    # Every tree had the row in its bag: only the frequency of the classes is known without it.
    if len(unknown):
        vectors[unknown] = _typical(target, rows.training)
    return vectors


def numbered(titles: list[str]) -> list[str]:
    """Return the titles; one that occurs several times gets a number."""
    return [
        f"{title} {titles[:position].count(title) + 1}" if titles.count(title) > 1 else title
        for position, title in enumerate(titles)
    ]


def fingerprint(plan: LayerPlan, features: Features, target: Target) -> str:
    """Return a hash of everything that the fits of a layer depend on."""
    # A saved fit is used again only if all of this is equal; a wrong match would go unnoticed.
    folds = plan.rows.folds or []
    settings = [VERSION, target.n_classes, plan.number, plan.out_of_bag, len(folds), plan.seed]
    learners = [learner.about() for learner in plan.learners]
    rows = [plan.rows.training, plan.rows.blind, *folds]
    data = digest_of(features.vectors, target.values, plan.weights, *rows)
    text = json.dumps([settings, learners, features.augment, features.digest, data], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def seed_of(seed: int, *path: int) -> int:
    """Return a seed for one layer, learner or fold from the seed of the whole cascade."""
    # Independent streams, whatever the order in which jobs run or are repeated.
    return int(np.random.SeedSequence([seed, *path]).generate_state(1)[0])


def mean(arrays: list[Array]) -> Array:
    """Return the mean, added up in order, without a copy of all arrays in one."""
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total / len(arrays) if len(arrays) > 1 else total


def _typical(target: Target, rows: Array) -> Array:
    """Return the frequencies of the classes, or the mean of the target."""
    if target.n_classes:
        return np.bincount(target.values[rows], minlength=target.n_classes) / len(rows)
    return np.array([target.values[rows].mean()])


# --- fits and layers as plain data ---


def pack_layers(cascades: list[list[Layer]]) -> dict[str, Pack]:
    """Return the layers of all cascades as packs by name: one for each layer and each model.

    A model that several cascades share is packed once, in the first of them.
    """
    packs: dict[str, Pack] = {}
    name_of: dict[int, str] = {}
    for cascade, layers in enumerate(cascades, 1):
        # The first cascade has the names that a model with a single one always had.
        before = "" if cascade == 1 else f"cascade-{cascade}-"
        for number, layer in enumerate(layers, 1):
            stem = f"{before}layer-{number}"
            for learner, models in enumerate(layer.models, 1):
                for fold, model in enumerate(models, 1):
                    if id(model) not in name_of:
                        name_of[id(model)] = f"{stem}-learner-{learner}-fold-{fold}"
                        packs[name_of[id(model)]] = model.pack()
            packs[stem] = _pack_layer(layer, name_of)
    return packs


def _pack_layer(layer: Layer, name_of: dict[int, str]) -> Pack:
    """Return everything of a layer but its models, which it names."""
    names = []
    for models in layer.models:
        names.append([name_of[id(model)] for model in models])
    about = {
        "n_features": layer.n_features,
        "threshold": layer.threshold,
        "temperature": layer.temperature,
        "models": names,
        "binned": layer.binner is not None,
    }
    arrays = {"coefficients": layer.coefficients}
    if layer.alphas is not None:
        arrays["alphas"] = layer.alphas
    if layer.binner is not None:
        arrays.update(layer.binner.arrays())
    return Pack(about, arrays)


class LayerReader:
    """Return layers from packs; models that several cascades share are unpacked once."""

    def __init__(self, packs: Mapping[str, Pack], n_classes: int) -> None:
        self.packs = packs
        self.n_classes = n_classes
        self.models: dict[tuple[str, int], Fitted] = {}

    def read(self, cascade: int, number: int) -> Layer:
        """Return a layer of a cascade, both from 1; raise ``ValueError`` if it is damaged."""
        stem = f"layer-{number}" if cascade == 1 else f"cascade-{cascade}-layer-{number}"
        own = self.packs[stem]
        n_features = int(own.about["n_features"])
        models = []
        for names in self._names(own, stem):
            models.append([self._model(name, n_features) for name in names])
        binner = Binner.from_arrays(own.arrays) if own.about["binned"] else None
        return Layer(
            models,
            n_features,
            binner,
            own.arrays["coefficients"],
            own.arrays.get("alphas"),
            own.about["threshold"],
            own.about.get("temperature", 1.0),
        )

    def _names(self, own: Pack, stem: str) -> list[list[str]]:
        """Return the names of a layer's models by learner; earlier versions stored their number."""
        if "models" in own.about:
            return [list(map(str, names)) for names in own.about["models"]]
        names = []
        for learner, n_folds in enumerate(own.about["n_folds"], 1):
            names.append([f"{stem}-learner-{learner}-fold-{fold + 1}" for fold in range(n_folds)])
        return names

    def _model(self, name: str, n_features: int) -> Fitted:
        # With the number of features: ``unpack`` checks the model against it.
        if (name, n_features) not in self.models:
            pack = self.packs[name]
            kind = FITTED[pack.about["kind"]]
            self.models[name, n_features] = kind.unpack(pack, n_features, self.n_classes)
        return self.models[name, n_features]
