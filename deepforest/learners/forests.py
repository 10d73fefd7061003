"""Define the forests as learners: random, completely random, extra-trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy.typing as npt

from .._features import Features
from .._input import check_whole
from .._renamed import LEARNER_NAMES, accept_old_names
from ..forest.binning import BinnedMatrix
from ..forest.forest import (
    Forest,
    ForestSettings,
    GrownForest,
    Windows,
    grow_forest,
    n_candidates,
)
from ..persistence import Pack
from .base import Fit, FitSlice, Fitted, Learner, Target, known

Array = npt.NDArray[Any]


class FittedForest(Fitted):
    """Predict with a grown forest."""

    kind = "forest"

    def __init__(self, forest: Forest) -> None:
        self.forest = forest

    def vectors(self, features: Features) -> Array:
        """Return the mean over the trees."""
        return self.forest.predict(features.binned().rows)

    def contributions(self, features: Features) -> Array:
        """Return the Shapley values of the features, as in TreeSHAP."""
        return self.forest.contributions(features.binned().rows)

    def importances(self, n_features: int) -> Array:
        """Return the importances by decrease of impurity."""
        return self.forest.feature_importances()

    def pack(self) -> Pack:
        """Return the arrays of the trees."""
        return Pack({"kind": self.kind}, self.forest.arrays())

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedForest:
        """Return the forest; raise ``ValueError`` unless its arrays describe trees."""
        return cls(Forest.from_arrays(pack.arrays, n_features, n_classes))


@accept_old_names(LEARNER_NAMES)
@dataclass(frozen=True)
class ForestLearner(Learner):
    """Fit a forest; the kinds differ in how a node is split and which rows a tree sees.

    ``max_features`` is how many features are candidates in a node: a number, a share, "sqrt",
    "log2" or None for all. ``min_samples_leaf`` is the least number of training rows in a leaf.
    """

    splitter: ClassVar[str]
    bootstrap: ClassVar[bool] = False
    out_of_bag = True
    view = "bins"

    n_estimators: int = 100
    max_depth: int | None = None
    max_features: int | float | str | None = "sqrt"
    min_samples_leaf: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(f"n_estimators of {self.kind}", self.n_estimators, 1)
        check_whole(f"min_samples_leaf of {self.kind}", self.min_samples_leaf, 1)
        if self.max_depth is not None:
            check_whole(f"max_depth of {self.kind}", self.max_depth, 1)
        n_candidates(self.max_features, 1)  # raises ValueError if it cannot be used

    def share(self, n: int) -> Learner:
        """Return a forest with its share of the trees."""
        return self.with_trees(1 / n)

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Grow the forest; held-out and out-of-bag rows are predicted while the trees grow."""
        grown = self.grow(features.binned(), target, part)
        return Fit(FittedForest(grown.forest), known(grown.vectors, grown.votes))

    def grow(
        self,
        matrix: BinnedMatrix,
        target: Target,
        part: FitSlice,
        windows: Windows | None = None,
    ) -> GrownForest:
        """Grow the trees on rows of the matrix, or on windows of these rows."""
        return grow_forest(
            matrix,
            target.values,
            self._settings(part.out_of_bag),
            n_classes=target.n_classes,
            rows=part.rows,
            held_out=part.held_out,
            out_of_bag=part.out_of_bag,
            sample_weight=part.weights,
            seed=part.seed,
            n_jobs=part.n_jobs,
            interrupt=part.interrupt,
            windows=windows,
        )

    def _settings(self, out_of_bag: bool) -> ForestSettings:
        """Return the params of the forest; without bags no row would be out of one."""
        return ForestSettings(
            n_trees=self.n_estimators,
            splitter=self.splitter,
            max_features=self.max_features,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            # A node with fewer rows has no split that leaves both children enough of them.
            min_samples_split=max(2, 2 * self.min_samples_leaf),
            bootstrap=self.bootstrap or out_of_bag,
        )


class RandomForest(ForestLearner):
    """Split a node at the best cut of randomly drawn features, on rows drawn with repetition."""

    kind = "random_forest"
    splitter = "best"
    bootstrap = True


class CompletelyRandomForest(ForestLearner):
    """Split a node at a random cut of a random feature; ``max_features`` has no effect."""

    kind = "completely_random_forest"
    splitter = "completely_random"


class ExtraTrees(ForestLearner):
    """Split a node at the best of one random cut of each of some randomly drawn features."""

    kind = "extra_trees"
    splitter = "random"


FORESTS = (RandomForest, CompletelyRandomForest, ExtraTrees)
