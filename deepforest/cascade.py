"""Define the cascade forest: gcForest (Zhou and Feng) and the MART cascade (Zhang et al.).

- ``CascadeForestClassifier``  for classes
- ``CascadeForestRegressor``   for numbers
- ``AveragingStrategy``        combines the learners of a layer by their mean, plain or weighted
- ``mixture_weights``, ``blend_weights``  the weights of learners, for classes and for numbers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array

from ._base import BaseCascade, BaseCascadeClassifier, check_choice
from ._calibration import sample_rows
from ._input import keep_arguments
from ._layer import Layer
from ._renamed import CASCADE_NAMES, accept_old_names
from ._strategy import Combination, LayerStrategy, TrainingData
from .learners import Target
from .metrics import Metric, resolve_metric

Array = npt.NDArray[Any]

COMBINE = ("auto", "mean", "weighted")
PASS_ON = ("auto", "vectors", "output")
WEIGHING_ROWS = 50_000
MART_CLASSES = 4  # up to so many classes, MART is among the default learners
DEFAULT = (
    "random_forest",
    "extra_trees",
    "completely_random_forest",
    {"kind": "mart", "n_estimators": 100},
)
"""Three kinds of forests and boosting: the best average accuracy on our benchmarks."""
DEFAULT_OF_MANY_CLASSES = ({"kind": "extra_trees", "count": 2, "n_estimators": 200},)
"""Without boosting: it grows one tree per class and round, so with many classes it costs most, and
in a cascade it then gains least. Extra-trees alone predicted letters, digits and satellite images
better than with random or completely-random forests among them, at less cost."""
REGRESSORS = (
    {"kind": "random_forest", "max_features": 1 / 3},
    {"kind": "extra_trees", "max_features": 1.0},
    "mart",
)


class AveragingStrategy(LayerStrategy):
    """Combine the vectors of a layer's learners by their mean, plain or weighted."""

    def __init__(self, weighted: bool, passes_output: bool) -> None:
        self.weighted = weighted
        self._passes_output = passes_output

    @property
    def passes_output(self) -> bool:
        """Whether the next layer sees the combined vector only."""
        return self._passes_output

    def combine(
        self, vectors: Array, rows: Array, data: TrainingData, before: Layer | None
    ) -> Combination:
        """Return the weight of each learner."""
        # gcForest averages the learners. Here the vectors are of rows new to the learners, so that
        # these can be compared by them and the better ones count more.
        n = len(vectors)
        if not self.weighted or n == 1:
            return Combination(np.full(n, 1 / n))
        # A few numbers: some of the rows are enough.
        some = sample_rows(len(rows), WEIGHING_ROWS)
        vectors, rows = vectors[:, some], rows[some]
        target = data.target.values[rows]
        weights = None if data.weights is None else data.weights[rows]
        if data.target.n_classes == 0:
            return Combination(blend_weights(vectors[:, :, 0].T.astype(float), target, weights))
        # The likelihood of a mixture needs only the probability of each row's true class.
        of_true_class = vectors[:, np.arange(len(rows)), target]
        return Combination(mixture_weights(of_true_class.T.astype(float), weights))

    def next_features(self, vectors: Array, output: Array) -> Array:
        """Return the learners' vectors side by side, or their combination."""
        if self.passes_output:
            return output.astype(np.float32)
        return super().next_features(vectors, output)

    def n_next_features(self, n_learners: int, n_outputs: int) -> int:
        """Return how many columns these are."""
        return n_outputs if self.passes_output else n_learners * n_outputs


class _AveragingCascade(BaseCascade):
    """Add the parameters of ``AveragingStrategy``."""

    combine: str
    pass_on: str

    def _check_params(self, data: TrainingData) -> None:
        super()._check_params(data)
        check_choice("combine", self.combine, COMBINE)
        check_choice("pass_on", self.pass_on, PASS_ON)

    def _decide_passing(self, data: TrainingData) -> bool:
        if self.pass_on != "auto" or self.resampling == "per_layer":
            return self.pass_on == "output"
        # With many classes the vectors would be most of what a layer sees, and of what it costs.
        return bool(self.n_learners_ * self.n_outputs_ > data.values.shape[1])

    def _strategy(self) -> LayerStrategy:
        weighted = self.combine == "weighted"
        if self.combine == "auto":
            # With many classes the weights mostly follow chance: one forest gets nearly all.
            weighted = self.n_outputs_ <= MART_CLASSES or self.resampling == "per_layer"
        return AveragingStrategy(weighted, self.passes_output_)


@accept_old_names(CASCADE_NAMES)
class CascadeForestClassifier(_AveragingCascade, BaseCascadeClassifier):
    """Classify with a cascade: each layer sees the features and the class vectors before it.

    Parameters
    ----------
    learners : list or None
        The learners of a layer: kinds ("random_forest", "completely_random_forest", "extra_trees",
        "mart"), mappings such as ``{"kind": "mart", "count": 4, "n_estimators": 50}``,
        ``Learner`` objects, or scikit-learn classifiers. None gives the best average accuracy on
        our benchmarks: up to four classes a random forest, extra-trees, a completely-random forest
        and a mart, of 100 trees each; with more classes two extra-trees of 200 trees.
    resampling : "nested" or "per_layer"
        "nested" grows cascades that are blind to one fold each, through all their layers: their
        score on these rows is honest, and decides about the depth. Then one cascade learns all
        rows: the model. The trees of a forest are shared among the fits of a cascade. "per_layer"
        is the papers' way: one cascade, with new folds in every layer. Its scores are too good from
        the second layer on.
    class_vectors : "folds" or "oob"
        Where the vectors of training rows come from: from models of other folds, or from the trees
        that left the row out of their bag (one fit per forest and cascade instead of one per fold;
        learners without bags, such as "mart", still use folds).
    cv : int
        Number of folds, at least 2.
    combine : "auto", "weighted" or "mean"
        The output of a layer: the mixture of its learners' vectors under which the classes of new
        rows are most likely, or their plain mean. "auto" weights up to four classes; with
        ``resampling="per_layer"``, any number.
    pass_on : "auto", "vectors" or "output"
        What the next layer sees of a layer: the vectors of each learner, or the output of the
        layer. "auto" takes the output if the vectors would be more columns than X has.
    scoring : str or callable
        What decides about growth: "accuracy", "balanced_accuracy", "auc", "f1", "ks", "log_loss",
        "average_precision", "recall_at_rate(0.01)", or a callable
        ``(y, probabilities) -> float`` of which more is better. "auto" is "log_loss"; with
        ``resampling="per_layer"``, "auc" for two classes and "accuracy" for more.
    patience, tol, max_layers
        Growth stops when ``patience`` layers in a row bring no proven gain above ``tol``, or at
        ``max_layers``. The layers up to the best one are kept. A gain is proven if it is above
        ``tol`` by more than its standard error; "per_layer" takes every gain at its word.
    augment : "concat", "stack" or "none"
        What the next layer sees: the features and the vectors, only the vectors, or only the
        features.
    selector : MartSelector or None
        Selects features before the first layer.
    scan : MultiGrainedScanner, mapping of its params such as ``{"shape": (28, 28)}``, or None
        For sequences and images: the layers see class vectors of windows in place of the columns.
        Each cascade fits a scan of its own on its training rows, so that the score on the rows it
        is blind to stays honest.
    class_weight : "balanced", a mapping from class to weight, or None
        What an error on each class costs; enters every learner as sample weights.
    calibrate : bool
        Whether the probabilities are made sharper or flatter, by one number per layer, so that they
        are right on rows new to the model (temperature scaling); only with nested resampling.
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
    cascades_ : list of FittedCascade
        The cascade, with the layers that were kept; ``n_layers_`` counts these. Models of earlier
        versions may have several, whose mean is the output.
    layer_records_ : list of LayerRecord
        The record of each layer that was grown, whether it was kept or not.
    oof_output_ : array, rows × classes
        The output for each training row during the fit, from models that had not seen the row (NaN
        for rows of weight zero, for the earliest rows if ``times`` were given, and with many rows
        for those that were not needed for an exact score).

    Examples
    --------
    >>> model = CascadeForestClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X_new)
    """

    def __init__(
        self,
        learners: Any = None,
        *,
        resampling: str = "nested",
        class_vectors: str = "folds",
        cv: int = 5,
        combine: str = "auto",
        pass_on: str = "auto",
        scoring: str | Callable[[Array, Array], float] = "auto",
        patience: int = 1,
        tol: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        scan: Any = None,
        class_weight: str | Mapping[Any, float] | None = None,
        calibrate: bool = True,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _requested_learners(self, target: Target) -> Any:
        if self.learners is not None:
            return self.learners
        return DEFAULT if target.n_classes <= MART_CLASSES else DEFAULT_OF_MANY_CLASSES


@accept_old_names(CASCADE_NAMES)
class CascadeForestRegressor(RegressorMixin, _AveragingCascade):  # type: ignore[misc]
    """Predict numbers with a cascade: each layer sees the features and the predictions before it.

    Parameters are those of ``CascadeForestClassifier`` without the class weights; ``scoring`` is
    "rmse", "r2", "mae" or a callable ``(y, predicted) -> float`` of which more is better.
    """

    def __init__(
        self,
        learners: Any = None,
        *,
        resampling: str = "nested",
        class_vectors: str = "folds",
        cv: int = 5,
        combine: str = "mean",
        pass_on: str = "auto",
        scoring: str | Callable[[Array, Array], float] = "rmse",
        patience: int = 1,
        tol: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _requested_learners(self, target: Target) -> Any:
        return REGRESSORS if self.learners is None else self.learners

    def _requested_metric(self) -> Metric:
        return resolve_metric(self.scoring, None)

    def _read_target(self, y: Array) -> Target:
        return Target(
            np.asarray(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")), 0
        )

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return the predicted number of each row."""
        return self._predict(X)[:, 0]

    def staged_predict(self, X: Any) -> Iterator[Array]:  # noqa: N803
        """Yield the predicted numbers after each layer."""
        for output in self._staged_predict(X):
            yield output[:, 0]


# --- weights of learners ---

ROUNDS = 200
SMALLEST = 1e-6  # one row that a learner is sure and wrong about must not take all its weight


def mixture_weights(probabilities: Array, row_weight: Array | None = None) -> Array:
    """Return weights w that sum to 1 and raise the likelihood Σ_i log Σ_j w_j p_j(i).

    ``probabilities`` are p_j(i), rows × learners: what learner j gives to the true class of row i.
    The likelihood is concave in the weights, and each round of expectation-maximisation raises it.
    It starts from equal weights and stops when a round changes little, before the very maximum:
    learners that are about equally good have about the same weight.
    """
    likelihood = np.maximum(probabilities, SMALLEST)
    n_rows, n_learners = likelihood.shape
    share = np.full(n_rows, 1 / n_rows) if row_weight is None else row_weight / row_weight.sum()
    weights = np.full(n_learners, 1 / n_learners)
    for _ in range(ROUNDS):
        before = weights
        # w_j ← Σ_i s_i · w_j·p_j(i) / Σ_l w_l·p_l(i): the mean share of learner j in the mixture.
        weights = weights * (share / (likelihood @ weights) @ likelihood)
        if np.abs(weights - before).max() < 1e-5:
            break
    return np.asarray(weights / weights.sum())


def blend_weights(predicted: Array, truth: Array, row_weight: Array | None = None) -> Array:
    """Return weights ≥ 0 that sum to 1, of the blend nearest to ``truth``.

    ``predicted`` are rows × learners. One more row of the least-squares problem asks for a sum of
    1; the sum it ends with may differ, but the shares are the best.
    """
    # If the weights sum to 1, Σ_j w_j·p_j − y = Σ_j w_j·(p_j − y): the errors can be blended.
    errors = predicted - truth[:, None]
    if row_weight is not None:
        errors = errors * np.sqrt(row_weight)[:, None]
    n = predicted.shape[1]
    target = np.append(np.zeros(len(errors)), 1.0)
    # The errors are scaled so that they and the row of the sum are of the same size.
    weights, _ = nnls(np.vstack([errors / (np.linalg.norm(errors) or 1.0), np.ones(n)]), target)
    return np.asarray(weights / weights.sum())
