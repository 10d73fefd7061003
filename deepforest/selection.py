"""Select features by boosted trees, for example before the first layer of a cascade.

- ``MartSelector``
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from . import large_arrays
from ._features import Features
from ._input import TabularEstimator, check_whole, checked_weights, keep_arguments
from ._renamed import accept_old_names
from .learners import FitSlice, Mart, Target
from .learners.mart import FittedMart

Array = npt.NDArray[Any]


MAX_SAMPLES = 10_000
OLD_NAMES = {"n_features": "n_features_to_select", "trees": "n_estimators", "leaves": "num_leaves"}


@accept_old_names(OLD_NAMES)
class MartSelector(SelectorMixin, TabularEstimator):  # type: ignore[misc]
    """Select the features from which boosted trees gain most.

    The importance of a feature in a tree is the sum, over the splits on it, of how much they lower
    the loss; it is averaged over the trees.

    Parameters
    ----------
    n_features_to_select : int or None
        Keep this many, the most important ones.
    share : float or None
        Keep as many of the most important ones as together have this share of all importance. With
        both parameters, the one that keeps fewer features counts; with neither, all features that
        any tree splits on are kept.
    n_estimators, learning_rate, num_leaves
        Settings of the boosted trees.
    max_samples : int or None
        Boost on at most this many rows of each class, drawn at random (with numbers: on this many
        rows). So the cost is bounded, and all rows of rare classes are used. None uses all rows.
    target : "auto", "classes" or "numbers"
        What y holds.
    n_jobs : int or None
        Threads; the result does not depend on it.

    Attributes
    ----------
    importances_ : mean gain of each feature
    """

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        share: float | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        max_samples: int | None = MAX_SAMPLES,
        target: str = "auto",
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        keep_arguments(self, locals())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit boosted trees on all features and measure the gain of each.

        Raise ``ValueError`` if a parameter, X, y or a weight cannot be used.
        """
        if self.n_features_to_select is not None:
            check_whole("n_features_to_select", self.n_features_to_select, 1)
        if self.share is not None and not 0 < self.share <= 1:
            raise ValueError(f"share is {self.share}; give a share above 0 and at most 1")
        if self.max_samples is not None:
            check_whole("max_samples", self.max_samples, 2)
        values, y = self._read_fit(X, y)
        target = self._target(y)
        weights = None if sample_weight is None else checked_weights(sample_weight, values)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = self._draw(target, weights, seed)
        # Only the drawn rows are binned: that costs most.
        if len(rows) < len(values):
            values = large_arrays.take(values, rows)
            target = Target(target.values[rows], target.n_classes)
            weights = None if weights is None else weights[rows]
        n_jobs = effective_n_jobs(self.n_jobs)
        categorical = self._categorical(values.shape[1])
        features = Features(values, categorical, learning=True, n_jobs=n_jobs)
        mart = Mart(
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            num_leaves=self.num_leaves,
            subsample=1.0,
        )
        # A fit needs rows to predict; one is enough, as only the gains are used.
        every = np.arange(len(rows))
        fit = mart.fit(features, target, FitSlice(every, every[:1], weights, seed, n_jobs))
        assert isinstance(fit.model, FittedMart)
        # Equations 5 and 6 of Zhang et al.: I_j² = 1/M · Σ_m Σ_l i_l²·[v_l = j], the improvement of
        # all splits l on feature j, averaged over the M trees.
        self.importances_ = fit.model.gains() / self.n_estimators
        return self

    def _draw(self, target: Target, weights: Array | None, seed: int) -> Array:
        """Return the rows to boost on, ascending: of positive weight, and not too many."""
        rows = np.arange(len(target.values)) if weights is None else np.flatnonzero(weights)
        groups = [rows]
        if target.n_classes:
            groups = [rows[target.values[rows] == code] for code in range(target.n_classes)]
        limit = self.max_samples
        if limit is None or max(map(len, groups)) <= limit:
            return rows
        # A draw by class shifts only the intercept of a logistic model, not what its features are
        # worth (Prentice and Pyke, 1979). Weights that undo the shift would add noise: with them,
        # fewer of the weak features were found.
        rng = np.random.default_rng(seed)
        drawn = []
        for group in groups:
            few = len(group) <= limit
            drawn.append(group if few else rng.choice(group, limit, replace=False))
        return np.sort(np.concatenate(drawn))

    def _target(self, y: Array) -> Target:
        """Return the target as classes or numbers."""
        if self.target not in ("auto", "classes", "numbers"):
            raise ValueError(f"target is {self.target!r}; give 'auto', 'classes' or 'numbers'")
        if self.target == "numbers" or (
            self.target == "auto" and type_of_target(y).startswith("continuous")
        ):
            return Target(np.asarray(y, float), 0)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("y has only one class; the selection needs at least two")
        return Target(codes, len(classes))

    def _get_support_mask(self) -> Array:
        """Return which features are kept, as flags."""
        check_is_fitted(self, "importances_")
        order = np.argsort(-self.importances_, kind="stable")
        gained = self.importances_[order]
        # At least one feature: without any, no layer could learn.
        n_kept = max(1, int((gained > 0).sum()))
        if self.share is not None:
            # A feature is kept if those before it do not reach the share yet.
            before = np.cumsum(gained) - gained
            n_kept = max(1, min(n_kept, int((before < self.share * gained.sum()).sum())))
        if self.n_features_to_select is not None:
            n_most = self.n_features_to_select
            n_kept = n_most if self.share is None else min(n_kept, n_most)
        mask = np.zeros(len(order), bool)
        mask[order[:n_kept]] = True
        return mask
