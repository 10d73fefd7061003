"""Fit one learner on some rows of a layer, and predict rows that it did not learn from.

- ``PlannedFit``  what is fitted: the learner, the rows it learns from, those it predicts, the seed
- ``carry_out``   makes the ``FitResult`` of it
- ``pack_fit``, ``unpack_fit``  the result as plain data, and back
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._features import Features
from .learners import FITTED, FitSlice, Fitted, Learner, Target
from .persistence import Pack

Array = npt.NDArray[Any]


class FitResult(NamedTuple):
    """Hold the result of one fit job: the vectors are those of ``PlannedFit.predict_rows``."""

    model: Fitted
    vectors: Array
    seconds: float


@dataclass(frozen=True)
class PlannedFit:
    """Describe one fit: the rows a learner is trained on, and those it predicts.

    It predicts the rows of ``left_out``, which the training rows do not hold. With ``out_of_bag``
    it also predicts its training rows, each by the trees that did not draw it.
    """

    key: str
    place: tuple[str, ...]
    learner: Learner
    training: Array
    left_out: Array
    out_of_bag: bool
    seed: int

    @cached_property
    def predict_rows(self) -> Array:
        """The rows whose vectors the fit returns, ascending."""
        return join(self.training, self.left_out) if self.out_of_bag else self.left_out


def carry_out(
    fit: PlannedFit,
    features: Features,
    target: Target,
    weights: Array | None,
    n_jobs: int,
    interrupt: Callable[[], None],
) -> FitResult:
    """Carry out one fit."""
    start = time.perf_counter()
    rows = FitSlice(
        fit.training,
        fit.left_out,
        weights,
        fit.seed,
        n_jobs,
        interrupt,
        out_of_bag=fit.out_of_bag,
    )
    model, vectors = fit.learner.fit(features, target, rows)
    return FitResult(model, vectors, time.perf_counter() - start)


def join(some: Array, others: Array) -> Array:
    """Return the rows of both, ascending."""
    return np.sort(np.concatenate([some, others])) if len(others) else some


def can_pack(learner: Learner) -> bool:
    """Return whether the fitted learner can be saved without pickle."""
    return learner.kind != "scikit"


def pack_fit(result: FitResult) -> Pack:
    """Return the result of a fit job as a pack for a checkpointer."""
    pack = result.model.pack()
    about = {**pack.about, "seconds": result.seconds}
    return Pack(about, {**pack.arrays, "vectors": result.vectors}, pack.text)


def unpack_fit(pack: Pack, n_rows: int, n_features: int, n_classes: int) -> FitResult:
    """Return the result of a fit job that was saved; raise ``ValueError`` if it cannot be right.

    ``n_rows`` is the number of rows that the fit predicts.
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
