"""Define the cascade forest: gcForest (Zhou and Feng) and the MART cascade (Zhang et al.).

- ``CascadeForestClassifier``  for classes
- ``CascadeForestRegressor``   for numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array

from ._base import CascadeClassifier
from ._fit_jobs import Checkpointer, FitEvent
from ._grow import GrowingCascade, GrowthState, TrainingData, check_choice, read_pair
from ._input import checked_weights, keep_arguments
from ._layer import LayerFit
from .early_stopping import scorer
from .learners import Target
from .mixture import blend_weights, mixture_weights

Array = npt.NDArray[Any]

COMBINE = ("mean", "weighted")
MART_CLASSES = 4  # up to so many classes, MART is among the default learners
DEFAULT = (
    "random_forest",
    "extra_trees",
    "completely_random_forest",
    {"kind": "mart", "n_estimators": 100},
)
"""Three kinds of forests and boosting: the best average accuracy on our benchmarks."""
DEFAULT_OF_MANY_CLASSES = (
    "random_forest",
    {"kind": "extra_trees", "count": 2},
    "completely_random_forest",
)
"""Without boosting: it grows one tree per class and round, so with many classes it costs most, and
in a cascade it then gains least."""
REGRESSORS = (
    {"kind": "random_forest", "max_features": 1 / 3},
    {"kind": "extra_trees", "max_features": 1.0},
    "mart",
)


class _Combining(GrowingCascade):
    """Combine the vectors of a layer's learners by their mean, plain or weighted."""

    combine: str

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("combine", self.combine, COMBINE)

    def _combine_layer(self, fit: LayerFit, state: GrowthState) -> None:
        """Combine by ``combine``; no row leaves the cascade."""
        rows, vectors = state.rows, fit.vectors[:, state.rows]
        fit.layer.coefficients = self._coefficients(vectors, state)
        state.output[rows] = fit.layer.combine(vectors)

    def _coefficients(self, vectors: Array, state: GrowthState) -> Array:
        """Return the weight of each learner; ``vectors`` are learners × rows × outputs."""
        # gcForest averages the learners. Here the vectors are out-of-fold, so that learners can be
        # compared by them and the better ones count more.
        n = len(vectors)
        if self.combine == "mean" or n == 1:
            return np.full(n, 1 / n)
        rows = state.rows
        target = state.task.target[rows]
        weights = None if state.weights is None else state.weights[rows]
        if state.task.n_classes == 0:
            return blend_weights(vectors[:, :, 0].T.astype(float), target, weights)
        # The likelihood of a mixture needs only the probability of each row's true class.
        of_true_class = vectors[:, np.arange(len(rows)), target]
        return mixture_weights(of_true_class.T.astype(float), weights)


class CascadeForestClassifier(_Combining, CascadeClassifier):
    """Classify with a cascade: each layer sees the features and the class vectors before it.

    Parameters
    ----------
    learners : list or None
        The learners of a layer: kinds ("random_forest", "completely_random_forest", "extra_trees",
        "mart"), mappings such as ``{"kind": "mart", "count": 4, "n_estimators": 50}``,
        ``Learner`` objects, or scikit-learn classifiers. None gives the best average accuracy on
        our benchmarks: a random forest, extra-trees, a completely-random forest and, up to four
        classes, a mart of 100 trees (with more classes, a second extra-trees in its place).
    class_vectors : "folds" or "oob"
        Where the vectors of training rows come from: from models of ``folds`` folds that held the
        row out, or from the trees that left it out of their bag (one model per learner instead of
        one per fold; learners without bags, such as "mart", still use folds).
    folds : int
        Number of folds, at least 2.
    combine : "weighted" or "mean"
        The output of a layer: the mixture of its learners' vectors under which the classes of
        held-out rows are most likely, or their plain mean.
    metric : str or callable
        What decides about growth: "accuracy", "balanced_accuracy", "auc", "f1", "ks", "log_loss",
        "average_precision", "recall_at_rate(0.01)", or a callable
        ``(y, probabilities) -> float`` of which more is better. "auto" is "auc" for two classes
        and "accuracy" for more.
    patience, tolerance, max_layers
        Growth stops when ``patience`` layers in a row bring no gain above ``tolerance``, or at
        ``max_layers``. The layers up to the best one are kept.
    augment : "concat", "stack" or "none"
        What the next layer sees: the features and the vectors, only the vectors, or only the
        features.
    selector : MartSelector or None
        Selects features before the first layer.
    class_weight : "balanced", a mapping from class to weight, or None
        What an error on each class costs; enters every learner as sample weights.
    categorical_features : "from_dtype", None, or a list of columns or flags
        Columns that hold categories; "from_dtype" decides by the types of a data frame.
    n_jobs : int or None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None
        Seed of all random draws.
    verbose : bool
        Whether to print a line per layer; ``fit`` takes a ``listener`` that gets more.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
    layers_ : list of LayerRecord
        The record of each layer that was grown, whether it was kept or not.
    estimators_ : list of Layer
        The layers that were kept.
    oof_output_ : array, rows × classes
        The cascade's output for each training row during the fit, from models that had not seen
        the row (NaN for rows of weight zero).

    Examples
    --------
    >>> model = CascadeForestClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X_new)
    """

    def __init__(
        self,
        learners: Any = None,
        *,
        class_vectors: str = "folds",
        folds: int = 5,
        combine: str = "weighted",
        metric: str | Callable[[Array, Array], float] = "auto",
        patience: int = 1,
        tolerance: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _requested_learners(self, data: TrainingData) -> Any:
        if self.learners is not None:
            return self.learners
        return DEFAULT if data.task.n_classes <= MART_CLASSES else DEFAULT_OF_MANY_CLASSES

    def _requested_metric(self) -> str | Callable[[Array, Array], float]:
        if self.metric == "auto":
            return "auc" if self.n_classes_ == 2 else "accuracy"
        return self.metric


class CascadeForestRegressor(RegressorMixin, _Combining):  # type: ignore[misc]
    """Predict numbers with a cascade: each layer sees the features and the predictions before it.

    Parameters are those of ``CascadeForestClassifier`` without the class weights; ``metric`` is
    "rmse", "r2", "mae" or a callable ``(y, predicted) -> float`` of which more is better.
    """

    def __init__(
        self,
        learners: Any = None,
        *,
        class_vectors: str = "folds",
        folds: int = 5,
        combine: str = "mean",
        metric: str | Callable[[Array, Array], float] = "rmse",
        patience: int = 1,
        tolerance: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _requested_learners(self, data: TrainingData) -> Any:
        return REGRESSORS if self.learners is None else self.learners

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        checkpoint: str | Path | Checkpointer | None = None,
        executor: Executor | None = None,
        listener: Callable[[FitEvent], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> Self:
        """Grow the cascade on ``X`` and the numbers ``y``; see ``CascadeForestClassifier.fit``."""
        values, y = self._read_fit(X, y)
        target = np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"))
        weights = None if sample_weight is None else checked_weights(sample_weight, values)
        data = TrainingData(values, Target(target, 0), weights, weights)
        watched = None
        if validation is not None:
            rows, truth = read_pair(self, validation)
            watched = TrainingData(rows, Target(np.asarray(truth, np.float64), 0), None, None)
        runner = self._runner(checkpoint, executor, listener, cancelled)
        return self._fit(data, scorer(self.metric, None), watched, runner)

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the predicted number of each row."""
        return self._predict(X)[:, 0]

    def staged_predict(self, X: Any) -> Iterator[Array]:  # noqa: N803
        """Yield the predicted numbers after each layer."""
        for output in self._staged_predict(X):
            yield output[:, 0]
