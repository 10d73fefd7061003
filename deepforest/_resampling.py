"""Decide which rows each fit of a cascade learns from, and which it predicts.

Nested (the default): cascades that are blind to one fold each, through all layers. Inside a cascade
the class vectors of its training rows come from models that left the row out too. The rows of the
fold are then as new to it as rows of tomorrow, so its score on them is honest, at every depth. Once
these cascades have shown which depth is best, one cascade learns all rows: it is the model.

Per layer (the papers' way): one cascade, with new folds in every layer. From layer 2 on its
out-of-fold scores are too good: the class vectors of a row's neighbours contain its label.

- ``CascadeRows``  the rows of one cascade: training rows in folds, and rows it is blind to
- ``Resampling``   the rows of all cascades: those that are scored, and the one that learns all rows
- ``nested``       cascades that are blind to one fold each; whole groups stay in one fold
- ``by_time``      cascades that learn the past only
- ``per_layer``    one cascade, blind to no row
- ``draw_folds``   rows in folds, with every class spread evenly, or with whole groups
- ``common_rows``  those of some rows that are among others too
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .learners import Target

Array = npt.NDArray[Any]

RESAMPLING = ("nested", "per_layer")
# With so many blind rows, and so many of them outside of the most frequent class, a score is exact
# enough: further cascades would cost more than they tell.
ENOUGH_ROWS = 2500
ENOUGH_OF_RARE_CLASSES = 500
ENOUGH_GROUPS = 30


@dataclass(frozen=True)
class CascadeRows:
    """Hold the rows of one cascade.

    ``folds`` divide its training rows: those of a fold get their class vectors from models of the
    other folds. None: new folds are drawn in every layer. ``blind`` are the rows that no fit of
    this cascade sees. ``scored`` are the rows whose output counts in the scores.
    """

    training: Array
    folds: list[Array] | None
    blind: Array
    scored: Array
    number: int = 0
    """Number of the cascade, from 0: the fold it is blind to, or the block of time."""
    fold_numbers: tuple[int, ...] = ()
    is_final: bool = False
    """Whether it learns all rows, after others have been scored."""
    can_share: bool = False
    """Whether the fit without folds i and j serves the cascades that are blind to i and to j."""

    def without_sharing(self) -> CascadeRows:
        """Return the rows of a cascade that sees other columns than the others."""
        return replace(self, can_share=False)


class Resampling(NamedTuple):
    """Hold the rows of the cascades that are scored, and of the one that then learns all rows.

    Without a ``final`` one, those that are scored are the model.
    """

    scored: list[CascadeRows]
    final: CascadeRows | None = None


def nested(
    rows: Array,
    target: Target,
    n_folds: int,
    seed: int,
    groups: Array | None,
    rows_needed: float = 0,
) -> Resampling:
    """Return cascades that are blind to one fold each: as many as an exact score takes.

    ``rows_needed`` is the least number of blind rows if the metric needs many.
    """
    folds = draw_folds(rows, target, n_folds, seed, groups)
    final = _all_rows(rows, folds)
    if len(folds) < 3:
        return Resampling(_nested_in_two(rows, folds, target, seed, groups), final)
    cascades = []
    for blind, held_out in enumerate(folds[: _n_blind(folds, target, groups, rows_needed)]):
        others = [number for number in range(len(folds)) if number != blind]
        cascades.append(
            CascadeRows(
                training=_join([folds[number] for number in others]),
                folds=[folds[number] for number in others],
                blind=held_out,
                scored=held_out,
                number=blind,
                fold_numbers=tuple(others),
                can_share=True,
            )
        )
    return Resampling(cascades, final)


def _all_rows(rows: Array, folds: list[Array]) -> CascadeRows:
    """Return the cascade that learns all rows; its class vectors come from these folds."""
    none, numbers = rows[:0], tuple(range(len(folds)))
    return CascadeRows(rows, folds, none, none, len(folds), numbers, is_final=True)


def _n_blind(folds: list[Array], target: Target, groups: Array | None, rows_needed: float) -> int:
    """Return for how many of the folds there is a cascade that is blind to it."""
    for number in range(1, len(folds)):
        blind = np.concatenate(folds[:number])
        enough = len(blind) >= max(ENOUGH_ROWS, rows_needed)
        if enough and target.n_classes:
            rare = len(blind) - np.bincount(target.values[blind]).max()
            enough = bool(rare >= ENOUGH_OF_RARE_CLASSES)
        if enough and groups is not None:
            enough = len(np.unique(groups[blind])) >= ENOUGH_GROUPS
        if enough:
            return number
    return len(folds)


def _nested_in_two(
    rows: Array, folds: list[Array], target: Target, seed: int, groups: Array | None
) -> list[CascadeRows]:
    """Return cascades that learn one of two folds, which is divided again for the vectors."""
    cascades = []
    for blind, held_out in enumerate(folds):
        training = np.setdiff1d(rows, held_out, assume_unique=True)
        inner = draw_folds(training, target, 2, seed + 1 + blind, groups)
        numbers = tuple(range(len(inner)))
        cascades.append(CascadeRows(training, inner, held_out, held_out, blind, numbers))
    return cascades


def by_time(rows: Array, times: Array, n_blocks: int, target: Target, seed: int) -> Resampling:
    """Return cascades that learn the rows before a block of time and are scored on the block.

    Raise ``ValueError`` if there are fewer than three different times.
    """
    blocks = _time_blocks(rows, times, n_blocks + 1)
    if len(blocks) < 3:
        raise ValueError("times has fewer than 3 different values; leave it out")
    cascades = []
    for number in range(1, len(blocks)):
        training = _join(blocks[:number])
        if len(training) < 2:  # there is no other row that its class vector could come from
            continue
        # The first block has no others: the class vectors of its rows come from folds within it.
        folds = blocks[:number] if number > 1 else draw_folds(training, target, 2, seed, None)
        numbers = tuple(range(len(folds)))
        cascades.append(
            CascadeRows(training, folds, blocks[number], blocks[number], number - 1, numbers)
        )
    return Resampling(cascades, _all_rows(rows, blocks))


def _time_blocks(rows: Array, times: Array, n_blocks: int) -> list[Array]:
    """Return blocks of about equally many rows, in the order of time; equal times stay together."""
    moment_of_row = np.unique(times[rows], return_inverse=True)[1]
    rows_until = np.cumsum(np.bincount(moment_of_row))
    # A moment belongs to the block in which its middle row is.
    middle = rows_until - np.bincount(moment_of_row) / 2
    block_of_moment = np.minimum((middle * n_blocks / len(rows)).astype(int), n_blocks - 1)
    blocks = [np.sort(rows[block_of_moment[moment_of_row] == block]) for block in range(n_blocks)]
    blocks = [block for block in blocks if len(block)]
    # A first block of few rows would be all that the first cascade learns.
    while len(blocks) > 3 and len(blocks[0]) < len(rows) / n_blocks / 2:
        blocks[:2] = [_join(blocks[:2])]
    return blocks


def per_layer(rows: Array) -> Resampling:
    """Return one cascade, whose out-of-fold output of all rows counts."""
    return Resampling([CascadeRows(rows, None, rows[:0], rows)])


def draw_folds(
    rows: Array, target: Target, n_folds: int, seed: int, groups: Array | None = None
) -> list[Array]:
    """Return the rows of each fold, ascending; every class is spread evenly over the folds.

    With ``groups``, all rows of a group are in one fold; rows of a single group are divided as if
    they had none.
    """
    if groups is not None and len(np.unique(groups[rows])) > 1:
        return _folds_of_groups(rows, target, n_folds, seed, groups)
    # Algorithm 1 of mdDF, line 1, stratified: a fold without a class would not learn it.
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    # Sorted by class, each class starts in the fold after the one where the last class ended.
    if target.n_classes:
        order = order[np.argsort(target.values[order], kind="stable")]
    folds = [np.sort(order[fold::n_folds]) for fold in range(n_folds)]
    return [fold for fold in folds if len(fold)]


def common_rows(rows: Array, others: Array) -> Array:
    """Return those of ``rows`` that are in ``others`` too, in their order; no row occurs twice."""
    # Not ``np.intersect1d``: it sorts, and these sorts took a tenth of some fits.
    return rows[np.isin(rows, others, assume_unique=True)]


def _folds_of_groups(
    rows: Array, target: Target, n_folds: int, seed: int, groups: Array
) -> list[Array]:
    """Return folds of whole groups, as equal in classes and in size as the groups allow."""
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

    n_folds = min(n_folds, len(np.unique(groups[rows])))
    classes, kind = None, GroupKFold
    # Classes can be spread evenly only if some of them have enough rows.
    if target.n_classes and np.bincount(target.values[rows]).max() >= n_folds:
        classes, kind = target.values[rows], StratifiedGroupKFold
    splitter = kind(n_folds, shuffle=True, random_state=seed % 2**31)
    with warnings.catch_warnings():
        # scikit-learn warns of classes with fewer rows than folds; the learners can do without.
        warnings.simplefilter("ignore", UserWarning)
        parts = [rows[held_out] for _, held_out in splitter.split(rows, classes, groups[rows])]
    return [part for part in parts if len(part)]


def _join(parts: list[Array]) -> Array:
    """Return the rows of all parts, ascending."""
    return np.sort(np.concatenate(parts))
