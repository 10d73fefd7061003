"""Train a composite forest: Algorithm 1 of the paper, and the choice of C and γ.

- ``Training``           the rows and settings of one fit
- ``choose_penalties``   C of each degree, by cross-validation on all rows
- ``choose_gamma``       γ, by rows that are held out of a smaller forest
- ``grow_trees``         trees with fitted leaves; ``GrownTree`` chooses the degrees for any γ
- ``evaluate``           a forest on held-out rows; ``HeldOutRecord`` is the result
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .._resampling import draw_folds
from ..learners.base import Target
from .bound import (
    best_degrees,
    best_sequence,
    bound,
    complexity,
    complexity_terms,
    leaf_costs,
    vc_dimension,
)
from .leaves import Kernel, LeafData, LeafFits, LeafModel, LeafRecord, fit_leaf
from .tree import QuestionTree, grow_tree

Array = npt.NDArray[Any]
Result = TypeVar("Result")
Report = Callable[[float, str], None]

PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""The values of C_δ that are tried: those of the paper."""
GAMMAS = (1e-5, 1e-4, 1e-3, 1e-2)
"""The values of γ that are tried.

The paper has 0.001 to 1, but from 0.01 on the bound is saturated in nearly all leaves.
"""
DEFAULT_GAMMA = 1e-3
"""γ if too few rows are there to hold some out."""
CV_FOLDS = 3
CV_ROWS = 5_000
"""Rows of the cross-validation: of larger tables a sample, because an SVM costs their square."""
HELD_OUT_FOLDS = 5
TRIAL_TREES = 30
"""Trees that are enough to compare values of γ."""


@dataclass(frozen=True)
class HeldOutRecord:
    """Hold what was measured on held-out rows.

    ``errors`` has the error of the forest for each γ that was tried, ``error`` that for the γ that
    is used. ``smallest_error`` is the error if the bound is ignored and each tree takes its least
    degrees. ``tree_bounds`` and ``tree_errors`` are of the single trees, in the order of the trees.
    ``source`` says which rows these are: "validation rows", or "training rows" that were held out
    of a forest of their own.
    """

    source: str
    rows: int
    errors: dict[float, float]
    error: float
    smallest_error: float
    tree_bounds: list[float]
    tree_errors: list[float]


@dataclass(frozen=True)
class Training:
    """Hold the rows of a fit, scaled, and its settings.

    ``n_candidates`` is r. ``C`` is empty until it is chosen.
    """

    values: Array
    codes: Array
    weights: Array | None
    n_classes: int
    kernel: Kernel
    n_estimators: int
    max_depth: int
    n_candidates: int
    degrees: tuple[int, ...]
    sequences: int | str
    uses_bound: bool
    min_leaf: int
    vc: str
    seed: int
    n_jobs: int
    C: dict[int, float]

    @property
    def n_rows(self) -> int:
        """The number of training rows, m."""
        return len(self.codes)

    @property
    def target(self) -> Target:
        """The classes of the rows."""
        return Target(self.codes, self.n_classes)

    def take(self, rows: Array, n_estimators: int) -> Training:
        """Return a training of fewer trees on some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(
            self,
            values=self.values[rows],
            codes=self.codes[rows],
            weights=weights,
            n_estimators=n_estimators,
        )


@dataclass(frozen=True)
class HeldOut:
    """Hold rows that are held out of a training."""

    values: Array
    codes: Array
    weights: Array | None

    @classmethod
    def none(cls, n_features: int) -> HeldOut:
        """Return no rows."""
        return cls(np.zeros((0, n_features)), np.zeros(0, np.int64), None)

    def error(self, votes: Array) -> float:
        """Return the weighted share of rows that are not voted right."""
        return float(np.average(votes != self.codes, weights=self.weights))


@dataclass(frozen=True)
class GrownTree:
    """Hold a tree with the fits of its leaves, from which the degrees for any γ follow.

    The other arrays are leaves × degrees: the degree that a fit has after a fallback, the rows it
    classifies right, A_k. Entries of degrees that were not drawn for a leaf are not meaningful.
    ``sequences`` holds columns of these arrays, one sequence in each row; None means all sequences.
    """

    tree: QuestionTree
    leaves: list[LeafFits]
    sequences: Array | None
    degrees: Array
    right: Array
    complexities: Array

    def choose(self, training: Training, gamma: float | None) -> Array:
        """Return for each leaf the column of the chosen degree (the last lines of Algorithm 1).

        Without γ, each tree takes its least degrees.
        """
        costs = np.zeros(self.degrees.shape)
        if gamma is not None:
            costs = self._costs(training, gamma)
        if self.sequences is None:
            return best_degrees(costs, self.degrees)
        return best_sequence(costs, self.degrees, self.sequences)

    def _costs(self, training: Training, gamma: float) -> Array:
        """Return the costs of all leaves and degrees, in rows."""
        rows = np.array([[len(leaf.rows)] for leaf in self.leaves])
        return leaf_costs(
            rows, self.right, self.complexities, gamma, training.n_classes, training.n_rows
        )

    def models(self, training: Training, columns: Array) -> list[LeafModel]:
        """Return the model of each leaf for the chosen columns."""
        drawn = [training.degrees[column] for column in columns]
        return [leaf.models[degree] for leaf, degree in zip(self.leaves, drawn, strict=True)]

    def bound(self, training: Training, columns: Array, gamma: float) -> float:
        """Return the bound of the tree for the chosen columns."""
        costs = self._costs(training, gamma)
        return bound(costs[np.arange(len(columns)), columns], training.n_rows)

    def held_votes(self, training: Training, columns: Array, n_held: int) -> Array:
        """Return the class of each held-out row for the chosen columns."""
        votes = np.zeros(n_held, np.int64)
        for leaf, column in zip(self.leaves, columns, strict=True):
            votes[leaf.held_rows] = leaf.held_votes[training.degrees[column]]
        return votes

    def records(
        self, training: Training, columns: Array, number: int, gamma: float | None
    ) -> list[LeafRecord]:
        """Return the facts about the leaves; ``number`` is that of the tree."""
        records = []
        for k, (leaf, column) in enumerate(zip(self.leaves, columns, strict=True)):
            drawn = training.degrees[column]
            n_rows, right = len(leaf.rows), leaf.right[drawn]
            a_k, term, cost = float(self.complexities[k, column]), None, None
            if gamma is not None:
                term = float(complexity_terms(a_k, gamma, training.n_classes))
                in_rows = leaf_costs(n_rows, right, a_k, gamma, training.n_classes, training.n_rows)
                cost = float(in_rows / training.n_rows)
            records.append(
                LeafRecord(
                    tree=number,
                    leaf=k + 1,
                    depth=int(self.tree.leaf_depths[k]),
                    rows=n_rows,
                    right=right,
                    degree=leaf.models[drawn].degree,
                    C=leaf.models[drawn].C,
                    complexity=a_k,
                    complexity_term=term,
                    right_term=right / training.n_rows,
                    cost=cost,
                    saturated=None if term is None else term * training.n_rows >= right,
                    fallback=leaf.fallbacks[drawn],
                )
            )
        return records


def choose_penalties(training: Training, report: Report) -> dict[int, float]:
    """Return the C of each degree with the least error in a cross-validation on all rows.

    Of several, the smallest. Of more than ``CV_ROWS`` rows, a sample is used.
    """
    rows, target = np.arange(training.n_rows), training.target
    if len(rows) > CV_ROWS:
        rows = draw_folds(rows, target, -(-len(rows) // CV_ROWS), training.seed)[0]
    folds = draw_folds(rows, target, CV_FOLDS, training.seed)
    if len(folds) < 2:
        return dict.fromkeys(training.degrees, 1.0)
    tasks = [
        partial(_fold_error, training, degree, penalty, np.setdiff1d(rows, fold), fold)
        for degree in training.degrees
        for penalty in PENALTIES
        for fold in folds
    ]
    errors = np.array(run_tasks(tasks, training.n_jobs, report, "choosing C"))
    totals = errors.reshape(len(training.degrees), len(PENALTIES), len(folds)).sum(axis=2)
    best = totals.argmin(axis=1)
    return {degree: PENALTIES[index] for degree, index in zip(training.degrees, best, strict=True)}


def _fold_error(
    training: Training, degree: int, penalty: float, rows: Array, held_out: Array
) -> float:
    """Return the total weight of the held-out rows that an SVM predicts wrong."""
    codes, weights = training.codes, training.weights
    if len(np.unique(codes[rows])) == 1:
        predicted = codes[rows[0]]
    else:
        svc = training.kernel.svc(penalty, degree)
        svc.fit(training.values[rows], codes[rows], None if weights is None else weights[rows])
        predicted = svc.predict(training.values[held_out])
    wrong = predicted != codes[held_out]
    return float(wrong.sum() if weights is None else weights[held_out][wrong].sum())


def choose_gamma(training: Training, report: Report) -> tuple[float, HeldOutRecord | None]:
    """Return γ and what was measured for it, on a fifth of the rows.

    A smaller forest learns from the other rows. If some of them cannot be held out, γ is
    ``DEFAULT_GAMMA``.
    """
    folds = draw_folds(np.arange(training.n_rows), training.target, HELD_OUT_FOLDS, training.seed)
    rows = np.setdiff1d(np.arange(training.n_rows), folds[0])
    if len(np.unique(training.codes[rows])) < 2:
        return DEFAULT_GAMMA, None
    weights = None if training.weights is None else training.weights[folds[0]]
    held = HeldOut(training.values[folds[0]], training.codes[folds[0]], weights)
    smaller = training.take(rows, min(training.n_estimators, TRIAL_TREES))
    trees = grow_trees(smaller, held, report, "choosing γ")
    return evaluate(smaller, trees, held, GAMMAS, "training rows")


def grow_trees(training: Training, held: HeldOut, report: Report, text: str) -> list[GrownTree]:
    """Return trees with fitted leaves (the loop over b of Algorithm 1, for all γ at once).

    The leaves are fitted in several threads; the result does not depend on their number.
    """
    data = LeafData(
        training.values,
        training.codes,
        training.weights,
        training.kernel,
        training.C,
        training.min_leaf,
    )
    trees, all_sequences, tasks = [], [], []
    for number in range(training.n_estimators):
        # Each tree has its own generator: its draws do not depend on the other trees.
        rng = np.random.default_rng([training.seed, number])
        tree = grow_tree(
            training.values,
            training.codes,
            training.weights,
            n_candidates=training.n_candidates,
            max_depth=training.max_depth,
            seed=int(rng.integers(2**31 - 1)),
        )
        sequences = _draw_sequences(training, tree.n_leaves, rng)
        leaf_of_row, leaf_of_held = tree.apply(training.values), tree.apply(held.values)
        for leaf in range(tree.n_leaves):
            drawn = list(training.degrees)
            if sequences is not None:
                drawn = [training.degrees[column] for column in np.unique(sequences[:, leaf])]
            rows = np.flatnonzero(leaf_of_row == leaf)
            held_rows = np.flatnonzero(leaf_of_held == leaf)
            tasks.append(partial(_fit_leaf, data, rows, drawn, held, held_rows))
        trees.append(tree)
        all_sequences.append(sequences)
    fits = iter(run_tasks(tasks, training.n_jobs, report, text))
    grown = []
    for tree, sequences in zip(trees, all_sequences, strict=True):
        leaves = list(islice(fits, tree.n_leaves))
        grown.append(_grown(training, tree, leaves, sequences))
    return grown


def _fit_leaf(
    data: LeafData, rows: Array, degrees: list[int], held: HeldOut, held_rows: Array
) -> LeafFits:
    return fit_leaf(data, rows, degrees, held.values[held_rows], held_rows)


def _draw_sequences(training: Training, n_leaves: int, rng: np.random.Generator) -> Array | None:
    """Return sequences of columns, one in each row; None for all sequences.

    Without the bound a single sequence is drawn, which is then the tree (RF+SVM of the paper).
    """
    n_sequences = training.sequences if training.uses_bound else 1
    if isinstance(n_sequences, str):
        return None
    return rng.integers(len(training.degrees), size=(n_sequences, n_leaves))


def _grown(
    training: Training, tree: QuestionTree, leaves: list[LeafFits], sequences: Array | None
) -> GrownTree:
    """Return the tree with the table of its leaves and degrees."""
    shape = len(leaves), len(training.degrees)
    degrees, right, complexities = np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
    n_features = training.values.shape[1]
    depths = tree.leaf_depths
    for k, leaf in enumerate(leaves):
        for column, drawn in enumerate(training.degrees):
            if drawn not in leaf.models:
                continue
            degrees[k, column] = leaf.models[drawn].degree
            right[k, column] = leaf.right[drawn]
            dimension = vc_dimension(
                int(degrees[k, column]), n_features, training.n_classes, training.vc
            )
            complexities[k, column] = complexity(
                int(depths[k]), dimension, training.n_rows, n_features, training.n_candidates
            )
    return GrownTree(tree, leaves, sequences, degrees, right, complexities)


def evaluate(
    training: Training,
    trees: Sequence[GrownTree],
    held: HeldOut,
    gammas: Sequence[float],
    source: str,
) -> tuple[float, HeldOutRecord]:
    """Return the best of ``gammas`` on held-out rows, and what was measured.

    Of several with the same error, the largest: it leads to smaller degrees.
    """
    errors, votes = {}, {}
    for gamma in gammas:
        votes[gamma] = _held_votes(training, trees, gamma, len(held.codes))
        errors[gamma] = held.error(_majority(votes[gamma], training.n_classes))
    best = min(gammas, key=lambda gamma: (errors[gamma], -gamma))
    smallest = _held_votes(training, trees, None, len(held.codes))
    bounds = [tree.bound(training, tree.choose(training, best), best) for tree in trees]
    record = HeldOutRecord(
        source=source,
        rows=len(held.codes),
        errors=errors,
        error=errors[best],
        smallest_error=held.error(_majority(smallest, training.n_classes)),
        tree_bounds=bounds,
        tree_errors=[held.error(of_tree) for of_tree in votes[best]],
    )
    return best, record


def _held_votes(
    training: Training, trees: Sequence[GrownTree], gamma: float | None, n_held: int
) -> Array:
    """Return the votes of all trees for the held-out rows, trees × rows."""
    return np.array(
        [tree.held_votes(training, tree.choose(training, gamma), n_held) for tree in trees]
    )


def _majority(votes: Array, n_classes: int) -> Array:
    """Return the class with the most votes for each row; the first one of several."""
    counts = np.zeros((votes.shape[1], n_classes), np.int64)
    for of_tree in votes:
        counts[np.arange(len(of_tree)), of_tree] += 1
    return np.asarray(counts.argmax(axis=1))


def run_tasks(
    tasks: Sequence[Callable[[], Result]], n_jobs: int, report: Report, text: str
) -> list[Result]:
    """Return the results of the tasks, in their order, computed in ``n_jobs`` threads.

    Before each task ``report`` gets the share that is started; if it raises, the rest is not done.
    """
    started, lock = 0, threading.Lock()

    def run(task: Callable[[], Result]) -> Result:
        nonlocal started
        # Reports must not go backwards, so only one thread counts at a time.
        with lock:
            report(started / len(tasks), text)
            started += 1
        return task()

    # libsvm and the kernels release the lock of the interpreter.
    with ThreadPoolExecutor(n_jobs) as threads:
        return list(threads.map(run, tasks))
