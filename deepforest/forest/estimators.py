"""Define the forests as scikit-learn estimators.

- ``HistForestClassifier``, ``HistForestRegressor``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from .. import large_arrays
from .._input import (
    BLOCK_ROWS,
    TableReader,
    TabularEstimator,
    check_whole,
    checked_weights,
    describe_classes,
    fill_by_block,
    json_param,
    keep_arguments,
    read_classes,
    read_params,
)
from ..persistence import BrokenModel, Pack, read_model, write_model
from .binning import MAX_BINS, Binner
from .forest import Forest, ForestSettings, GrownForest, grow_forest

Array = npt.NDArray[Any]

EXPLAINED_ROWS = 256


class _HistForest(TabularEstimator):
    """Fit, apply, save and load a forest, for classes as well as for numbers."""

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        splitter: str = "best",
        max_features: int | float | str | None = 1.0,
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        min_weight_fraction_leaf: float = 0.0,
        bootstrap: bool = True,
        oob_score: bool = False,
        measure_importances: bool | None = None,
        max_bins: int = MAX_BINS,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        keep_arguments(self, locals())

    # --- fitting ---

    def _grow(
        self,
        matrix_input: Array,
        target: Array,
        n_classes: int,
        sample_weight: Array | None,
        interrupt: Callable[[], None] | None = None,
    ) -> GrownForest:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        n_jobs = effective_n_jobs(self.n_jobs)
        # Rows of weight 0 must not have any effect, not even on the bins.
        learned = matrix_input
        if sample_weight is not None and not sample_weight.all():
            learned = large_arrays.take(matrix_input, np.flatnonzero(sample_weight > 0))
        self.binner_ = Binner(self.max_bins).fit(
            learned, self._categorical(matrix_input.shape[1]), n_jobs
        )
        grown = grow_forest(
            self.binner_.bin(matrix_input, n_jobs=n_jobs),
            target,
            self._settings(),
            n_classes=n_classes,
            out_of_bag=self.oob_score,
            sample_weight=sample_weight,
            seed=seed,
            n_jobs=n_jobs,
            interrupt=interrupt,
        )
        self.forest_: Forest = grown.forest
        return grown

    def _settings(self) -> ForestSettings:
        check_whole("n_estimators", self.n_estimators, 1)
        check_whole("min_samples_split", self.min_samples_split, 2)
        check_whole("min_samples_leaf", self.min_samples_leaf, 1)
        if self.max_depth is not None:
            check_whole("max_depth", self.max_depth, 1)
        if not 0.0 <= self.min_weight_fraction_leaf <= 0.5:
            raise ValueError(
                f"min_weight_fraction_leaf is {self.min_weight_fraction_leaf}; "
                "give a share from 0 to 0.5"
            )
        if self.oob_score and not self.bootstrap:
            raise ValueError(
                "oob_score needs bootstrap=True: without it every tree learns from all rows"
            )
        return ForestSettings(
            n_trees=int(self.n_estimators),
            splitter=self.splitter,
            max_features=self.max_features,
            max_depth=None if self.max_depth is None else int(self.max_depth),
            min_samples_split=int(self.min_samples_split),
            min_samples_leaf=int(self.min_samples_leaf),
            min_weight_fraction_leaf=float(self.min_weight_fraction_leaf),
            bootstrap=bool(self.bootstrap),
            measure=bool(self.measure_importances),
        )

    # --- prediction ---

    def _predict_means(self, x: Any) -> Array:
        return self._predict_values(self._read(x))

    def _predict_values(self, values: Array) -> Array:
        """Return the mean over the trees for rows of numbers."""
        out = np.empty((len(values), self.forest_.n_outputs))
        return self._by_block(values, out, self.forest_.predict)

    def apply(self, X: Any) -> Array:  # noqa: N803
        """Return the leaf of each row in each tree (rows × trees), as its number in the tree."""
        values = self._read(X)
        out = np.empty((len(values), self.forest_.n_trees), np.int32)
        return self._by_block(values, out, self.forest_.leaves)

    def predict_contributions(self, X: Any) -> Array:  # noqa: N803
        """Return how much each column adds to the prediction, rows × (columns + 1) × outputs.

        They are the Shapley values of the trees, as in TreeSHAP. The outputs are the class
        probabilities, or the predicted number. The last entry is the base value, the mean
        prediction for the training rows of the trees; base value and contributions add up to the
        prediction.
        """
        values = self._read(X)
        out = np.empty((len(values), values.shape[1] + 1, self.forest_.n_outputs))
        return self._by_block(values, out, self.forest_.contributions, EXPLAINED_ROWS)

    def _by_block(
        self,
        values: Array,
        out: Array,
        compute: Callable[[Array], Array],
        n_rows: int = BLOCK_ROWS,
    ) -> Array:
        return fill_by_block(
            out, lambda block: compute(self.binner_.bin_rows(values[block])), self.n_jobs, n_rows
        )

    @property
    def feature_importances_(self) -> Array:
        """The mean share of each feature in the decrease of impurity; zero if not measured."""
        check_is_fitted(self, "forest_")
        return self.forest_.feature_importances()

    # --- persistence ---

    def save(self, folder: str | Path) -> None:
        """Write the fitted forest into a folder as arrays and JSON, without pickle."""
        check_is_fitted(self, "forest_")
        arrays = {**self.forest_.arrays(), **self.binner_.arrays()}
        for name in self._fitted_arrays():
            if hasattr(self, name):
                arrays[name] = getattr(self, name)
        params = {
            name: json_param(name, value) for name, value in self.get_params(deep=False).items()
        }
        description = {
            "class": type(self).__name__,
            "params": params,
            "n_features": self.n_features_in_,
            "n_classes": self.forest_.n_classes,
            "feature_names": [str(n) for n in self.feature_names_in_]
            if hasattr(self, "feature_names_in_")
            else None,
            "table": None
            if self.table_ is None
            else {"names": self.table_.names, "levels": self.table_.levels},
            "oob_score": getattr(self, "oob_score_", None),
            **self._describe(),
        }
        write_model(folder, description, {"forest": Pack(arrays=arrays)})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Return the forest that ``save`` wrote.

        Raise ``BrokenModel`` if the folder holds another class, or a file is missing or damaged.
        """
        description, packs = read_model(folder)
        held = description.get("class")
        if held != cls.__name__:
            raise BrokenModel(
                f"{folder} holds a {held}, not a {cls.__name__}; load it with {held}.load"
            )
        try:
            model = cls(**read_params(description["params"]))
            model._restore(description, dict(packs["forest"].arrays))
        except Exception as error:  # whatever it is, the folder is to blame
            raise BrokenModel(f"{folder} does not hold a whole {cls.__name__}: {error}") from error
        return model

    def _restore(self, description: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.n_features_in_ = description["n_features"]
        if description["feature_names"] is not None:
            self.feature_names_in_ = np.array(description["feature_names"], dtype=object)
        table = description["table"]
        self.table_ = None if table is None else TableReader(table["names"], table["levels"])
        self.binner_ = Binner.from_arrays(arrays)
        self.forest_ = Forest.from_arrays(
            arrays, description["n_features"], description["n_classes"]
        )
        if self.binner_.n_features != self.forest_.n_features:
            raise ValueError(f"there are bins of {self.binner_.n_features} features")
        for name in self._fitted_arrays():
            if name in arrays:
                setattr(self, name, arrays[name])
        if description["oob_score"] is not None:
            self.oob_score_ = description["oob_score"]

    def _fitted_arrays(self) -> tuple[str, ...]:
        return ()

    def _describe(self) -> dict[str, Any]:
        return {}


class HistForestClassifier(ClassifierMixin, _HistForest):  # type: ignore[misc]
    """Classify with trees on binned features: random forest, extra-trees or completely random.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    splitter : "best", "random" or "completely_random"
        How a node is split: at the best cut of each candidate feature (random forest), at the best
        of one random cut per candidate (extra-trees), or at one random cut of one random feature,
        without a look at the classes.
    max_features : int, float, "sqrt", "log2" or None
        Candidate features per node; has no effect if splits are completely random.
    max_depth, min_samples_split, min_samples_leaf
        Limits for splitting a node; the numbers count different rows.
    min_weight_fraction_leaf : float
        The least share of the total weight in a leaf.
    bootstrap : bool
        Whether each tree is trained on rows drawn with repetition.
    oob_score : bool
        Whether to compute the class vectors of the rows outside of the trees' bags.
    class_weight : "balanced", a mapping from class to weight, or None
        Weights of the classes; they multiply the sample weights.
    measure_importances : bool or None
        Completely random trees measure importances only if this is true, as it doubles their cost;
        others always do.
    max_bins : int
        Bins per feature, at most 254, besides the one for missing values.
    categorical_features : "from_dtype", list of columns (numbers, names or flags) or None
        Columns that hold categories; the category, string and boolean columns of a data frame
        always do.
    n_jobs : int or None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random draws.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_
    oob_decision_function_ : class vectors of the training rows (NaN if all trees saw the row)
    oob_score_ : accuracy of those
    binner_ : the bins; forest_ : the trees as arrays
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        splitter: str = "best",
        max_features: int | float | str | None = "sqrt",
        max_depth: int | None = None,
        min_samples_split: int = 2,
        min_samples_leaf: int = 1,
        min_weight_fraction_leaf: float = 0.0,
        bootstrap: bool = True,
        oob_score: bool = False,
        class_weight: str | Mapping[Any, float] | None = None,
        measure_importances: bool | None = None,
        max_bins: int = MAX_BINS,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        keep_arguments(self, locals())

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        interrupt: Callable[[], None] | None = None,
    ) -> Self:
        """Grow the forest on ``X`` (an array, or a data frame) and the classes ``y``.

        ``interrupt`` is called before each tree, in the thread that grows it; an exception that it
        raises ends the fit.
        """
        values, y = self._read_fit(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.n_classes_ = len(self.classes_)
        weights = self._weights(y, codes, values, sample_weight)
        grown = self._grow(values, codes.astype(np.int32), self.n_classes_, weights, interrupt)
        if self.oob_score:
            self._keep_oob(grown, codes, weights)
        return self

    def _weights(self, y: Array, codes: Array, values: Array, sample_weight: Any) -> Array | None:
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, values)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, y)
            weights = by_class if weights is None else weights * by_class
        return weights

    def _keep_oob(self, grown: GrownForest, codes: Array, weights: Array | None) -> None:
        # A row in the bag of every tree has no out-of-bag vector, and does not count in the score.
        seen, vectors = grown.votes > 0, grown.vectors
        hit = vectors.argmax(axis=1) == codes
        self.oob_score_ = float(np.mean(hit[seen])) if seen.any() else float("nan")
        vectors[~seen] = np.nan
        self.oob_decision_function_ = vectors

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """Return class probabilities: the mean over the trees of the shares in their leaves."""
        return self._predict_means(X)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """Return the logarithms of the class probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _fitted_arrays(self) -> tuple[str, ...]:
        return ("oob_decision_function_",)

    def _describe(self) -> dict[str, Any]:
        return {"classes": describe_classes(self.classes_)}

    def _restore(self, description: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(description, arrays)
        self.classes_ = read_classes(description["classes"])
        self.n_classes_ = len(self.classes_)
        if self.forest_.n_classes != self.n_classes_:
            raise ValueError(f"the trees are made for {self.forest_.n_classes} classes")


class HistForestRegressor(RegressorMixin, _HistForest):  # type: ignore[misc]
    """Predict numbers with regression trees on binned features, split by variance.

    Parameters are those of ``HistForestClassifier`` without the class weights; ``max_features`` is
    1.0 by default.

    Attributes
    ----------
    n_features_in_, feature_names_in_
    oob_prediction_ : mean over the trees that did not see a training row (NaN if all did)
    oob_score_ : R² of those
    """

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        interrupt: Callable[[], None] | None = None,
    ) -> Self:
        """Grow the forest on ``X`` (an array, or a data frame) and the numbers ``y``.

        ``interrupt`` is as for ``HistForestClassifier``.
        """
        values, y = self._read_fit(X, y)
        target = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        weights = None if sample_weight is None else checked_weights(sample_weight, values)
        grown = self._grow(values, target, 0, weights, interrupt)
        if self.oob_score:
            seen, predicted = grown.votes > 0, grown.vectors[:, 0]
            self.oob_prediction_ = np.where(seen, predicted, np.nan)
            residual = float(((target - predicted)[seen] ** 2).sum())
            spread = float(((target[seen] - target[seen].mean()) ** 2).sum()) if seen.any() else 0.0
            self.oob_score_ = 1.0 - residual / spread if spread > 0 else float("nan")
        return self

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the mean over the trees of the values in their leaves."""
        return self._predict_means(X)[:, 0]

    def _fitted_arrays(self) -> tuple[str, ...]:
        return ("oob_prediction_",)
