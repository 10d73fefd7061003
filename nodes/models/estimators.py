"""Provide scikit-learn estimators whose predictions have the same bits everywhere.

A matrix product of BLAS rounds a row differently when other rows stand beside it, and the
exponential of the C library differs between processors. The classes here train with scikit-learn
and LightGBM, and predict with ``deepforest.arithmetic``, where each row is computed by the same
additions in the same order.

- ``RowwiseLogisticRegression``, ``RowwiseMLPClassifier``  scikit-learn's, with such predictions
- ``RowwiseRidge``   scikit-learn's ridge regression, with such predictions
- ``BoostedTrees``, ``BoostedRegressionTrees``  MART by LightGBM, for classes and for numbers
- ``StoredForest``   a forest that version 1 of the nodes random-forest and extra-trees saved
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier

from deepforest.arithmetic import class_probabilities, row_products
from deepforest.contributions import score_contributions, through_softmax
from deepforest.lightgbm_text import trees_only

EARLY_STOPPING = 20
"""Rounds of boosting without a lower loss on validation rows, after which training ends."""
LEAF = -1
ROUNDING = 1e-6
"""How far the class shares of a stored leaf may be from adding up to 1."""


class _MostProbable(ClassifierMixin):  # type: ignore[misc]
    """Predict the most probable class; subclasses compute the probabilities."""

    classes_: np.ndarray

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return class probabilities, rows × classes."""
        raise NotImplementedError

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the most probable class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])


class RowwiseLogisticRegression(_MostProbable, LogisticRegression):  # type: ignore[misc]
    """Train like scikit-learn's logistic regression, and predict each row by itself."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return class probabilities, rows × classes."""
        return class_probabilities(row_products(X, self.coef_.T, self.intercept_))

    def predict_contributions(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return how much each column adds to the probabilities, rows × (columns + 1) × classes.

        A column adds its weight times its distance from the mean of the training rows. The last
        entry is the base value, the prediction for a row of means. Models of earlier versions do
        not know the means; they count as 0.
        """
        means = getattr(self, "means_", np.zeros(self.n_features_in_))
        parts = np.empty((len(X), X.shape[1] + 1, len(self.coef_)))
        np.multiply((X - means)[:, :, None], self.coef_.T, out=parts[:, :-1])
        parts[:, -1] = row_products(means[None], self.coef_.T, self.intercept_)
        return through_softmax(parts)


class RowwiseRidge(Ridge):  # type: ignore[misc]
    """Train like scikit-learn's ridge regression, and predict each row by itself."""

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the predicted number of each row."""
        weights = self.coef_.reshape(-1, 1)
        return row_products(X, weights, np.atleast_1d(self.intercept_))[:, 0]

    def predict_contributions(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return how much each column adds to the number, rows × (columns + 1) × 1.

        As for ``RowwiseLogisticRegression``; the base value is the prediction for a row of means.
        """
        parts = np.empty((len(X), X.shape[1] + 1, 1))
        np.multiply(X - self.means_, self.coef_, out=parts[:, :-1, 0])
        parts[:, -1, 0] = self.predict(self.means_[None])
        return parts


class RowwiseMLPClassifier(_MostProbable, MLPClassifier):  # type: ignore[misc]
    """Train like scikit-learn's perceptron with rectified units, and predict each row by itself."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return class probabilities, rows × classes."""
        values, last = X, len(self.coefs_) - 1
        for layer, (weights, intercepts) in enumerate(
            zip(self.coefs_, self.intercepts_, strict=True)
        ):
            # A sum that overflows counts as the largest number, so that probabilities stay finite.
            values = np.nan_to_num(row_products(values, weights, intercepts), copy=False)
            if layer < last:
                np.maximum(values, 0, out=values)
        return class_probabilities(values)


class _Boosting(BaseEstimator):  # type: ignore[misc]
    """Grow gradient-boosted trees (MART) with LightGBM.

    Parameters are named as in ``LGBMClassifier``. ``booster_`` holds the trees without the settings
    they were grown by. Training gives the same trees for any number of threads.
    """

    n_jobs: int
    booster_: Any

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        min_child_samples: int = 20,
        colsample_bytree: float = 1.0,
        subsample: float = 1.0,
        random_state: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.colsample_bytree = colsample_bytree
        self.subsample = subsample
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: np.ndarray,  # noqa: N803
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        categorical_feature: Sequence[int] = (),
        callbacks: Sequence[Callable[[Any], None]] = (),
        validation: Sequence[np.ndarray] | None = None,
    ) -> Self:
        """Grow one tree per class in each round, or one tree for two classes or for numbers.

        ``y`` holds class numbers 0, 1, … or numbers to predict. ``categorical_feature`` lists the
        matrix columns that hold category numbers. LightGBM calls each callback after a round; it
        may raise to stop. With ``validation`` (matrix, targets, perhaps weights), training ends
        when the loss on these rows has not fallen for ``EARLY_STOPPING`` rounds, and the rounds up
        to the lowest are kept.
        """
        import lightgbm

        settings = self._settings(y)
        categories = list(categorical_feature)
        data = lightgbm.Dataset(
            X, y, weight=sample_weight, categorical_feature=categories, params=settings
        )
        more: dict[str, Any] = {"callbacks": list(callbacks)}
        if validation is not None:
            matrix, labels, *weights = validation
            weight = weights[0] if weights else None
            more["valid_sets"] = [lightgbm.Dataset(matrix, labels, weight=weight, reference=data)]
            more["callbacks"].append(lightgbm.early_stopping(EARLY_STOPPING, verbose=False))
        trained = lightgbm.train(settings, data, num_boost_round=self.n_estimators, **more)
        # The text has the rounds up to the best one, if they were counted.
        return self.read_text(trained.model_to_string())

    def read_text(self, text: str) -> Self:
        """Replace the trees by those of LightGBM's text; raise ``ValueError`` if it is wrong."""
        import lightgbm

        try:
            # Without the settings of the training: the same trees must give the same text.
            self.booster_ = lightgbm.Booster(model_str=trees_only(text))
        except lightgbm.basic.LightGBMError as error:
            raise ValueError(f"LightGBM cannot read the model: {error}") from None
        self.n_features_in_ = self.booster_.num_feature()
        return self

    def _scores(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the sums of the leaves, rows × trees per round."""
        # Raw scores: LightGBM's own probabilities use the exponential of the C library.
        scores = np.asarray(self.booster_.predict(X, num_threads=self.n_jobs, raw_score=True))
        return scores.reshape(len(X), -1)

    def _objective(self, y: np.ndarray) -> dict[str, Any]:
        """Return the settings of LightGBM that say what the trees predict."""
        raise NotImplementedError

    def _settings(self, y: np.ndarray) -> dict[str, Any]:
        """Return LightGBM's settings, with its own names."""
        return {
            **self._objective(y),
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": self.min_child_samples,
            "feature_fraction": self.colsample_bytree,
            "bagging_fraction": self.subsample,
            "bagging_freq": 1 if self.subsample < 1 else 0,
            "seed": self.random_state,
            "num_threads": self.n_jobs,
            # One thread sums each histogram, so that the number of threads does not change it.
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


class BoostedTrees(_MostProbable, _Boosting):
    """Classify with gradient-boosted trees."""

    def read_text(self, text: str) -> Self:
        """Replace the trees by those of LightGBM's text; raise ``ValueError`` if it is wrong."""
        super().read_text(text)
        self.classes_ = np.arange(max(self.booster_.num_model_per_iteration(), 2))
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return class probabilities, rows × classes."""
        return class_probabilities(self._scores(X))

    def predict_contributions(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return how much each column adds to the probabilities, rows × (columns + 1) × classes.

        They are the Shapley values of the scores, carried over to the probabilities. The last entry
        is the base value.
        """
        return through_softmax(score_contributions(self.booster_, X, self.n_jobs))

    def _objective(self, y: np.ndarray) -> dict[str, Any]:
        """Return one class against the other, or each class against the rest."""
        n_classes = int(y.max()) + 1
        if n_classes == 2:
            return {"objective": "binary", "num_class": 1}
        return {"objective": "multiclass", "num_class": n_classes}


class BoostedRegressionTrees(RegressorMixin, _Boosting):  # type: ignore[misc]
    """Predict numbers with gradient-boosted trees, by least squares."""

    def predict(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the predicted number of each row."""
        return self._scores(X)[:, 0]

    def predict_contributions(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return how much each column adds to the number, rows × (columns + 1) × 1.

        They are Shapley values. The last entry is the base value.
        """
        return score_contributions(self.booster_, X, self.n_jobs)

    def _objective(self, y: np.ndarray) -> dict[str, Any]:
        """Return least squares."""
        return {"objective": "regression", "num_class": 1}


class StoredForest(_MostProbable, BaseEstimator):  # type: ignore[misc]
    """Predict with scikit-learn's trees, read from the arrays in which version 1 saved them.

    ``arrays`` hold all trees one after the other: ``left``, ``right``, ``feature``, ``threshold``
    and ``missing_left`` of each node (children are numbered within their tree),
    ``classes_per_leaf`` of each leaf, ``leaf_class`` and ``leaf_share`` of each class in a leaf.
    """

    DTYPES: ClassVar[Mapping[str, str]] = {
        "nodes_per_tree": "int32", "left": "int32", "right": "int32", "feature": "int32",
        "threshold": "float64", "missing_left": "uint8", "classes_per_leaf": "int32",
        "leaf_class": "int32", "leaf_share": "float64",
    }  # fmt: skip

    def __init__(self, arrays: Mapping[str, np.ndarray], n_features: int, n_classes: int) -> None:
        self.arrays = arrays
        self.n_features = n_features
        self.n_classes = n_classes

    def prepare(self) -> Self:
        """Check the arrays, number the nodes over all trees and return the forest.

        Raise ``ValueError`` unless each tree leads to its leaves and the shares of each leaf add up
        to 1.
        """
        from scipy.sparse import csr_array

        arrays = self.arrays
        sizes, is_inner = arrays["nodes_per_tree"].astype(np.int64), arrays["left"] != LEAF
        ends = np.cumsum(sizes)
        per_node = (
            arrays[name] for name in ("left", "right", "feature", "threshold", "missing_left")
        )
        if not len(sizes) or sizes.min() < 1 or any(len(array) != ends[-1] for array in per_node):
            raise ValueError("nodes of a tree are missing")
        parent, feature = np.flatnonzero(is_inner), arrays["feature"][is_inner]
        start, end = (np.repeat(values, sizes)[is_inner] for values in (ends - sizes, ends))
        children = []
        for name in ("left", "right"):
            child = arrays[name][is_inner] + start
            # A child comes after its parent and inside its tree, so that each walk ends.
            if not ((child > parent) & (child < end)).all():
                raise ValueError("the nodes of a tree do not lead to its leaves")
            children.append(np.full(len(is_inner), LEAF))
            children[-1][is_inner] = child
        self.left_, self.right_ = children
        if not ((feature >= 0) & (feature < self.n_features)).all():
            raise ValueError("a tree splits a column that does not exist")
        first = np.concatenate([[0], np.cumsum(arrays["classes_per_leaf"])])
        shape = ((~is_inner).sum(), self.n_classes)
        self.shares_ = csr_array((arrays["leaf_share"], arrays["leaf_class"], first), shape)
        self.shares_.check_format()
        sums = self.shares_.sum(axis=1)
        if not ((arrays["leaf_share"] > 0).all() and (abs(sums - 1) < ROUNDING).all()):
            raise ValueError("the class shares of a leaf do not add up to 1")
        self.leaf_of_node_ = np.cumsum(~is_inner) - 1
        self.roots_, self.n_features_in_ = ends - sizes, self.n_features
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:  # noqa: N803
        """Return the mean over the trees of the class shares in each row's leaf, rows × classes.

        The trees are summed in their order, so that the result has the same bits everywhere.
        """
        # scikit-learn's trees compare 32-bit floats.
        sums, values = np.zeros((len(X), self.n_classes)), np.asarray(X, np.float32)
        for root in self.roots_:
            sums += self.shares_[self.leaf_of_node_[self._leaves(values, root)]].toarray()
        return sums / len(self.roots_)

    def _leaves(self, values: np.ndarray, root: int) -> np.ndarray:
        """Return the node number of the leaf that each row reaches in the tree at ``root``."""
        node, rows = np.full(len(values), root), np.arange(len(values))
        # All rows go down one level at a time, until each is at a leaf.
        while len(rows := rows[self.left_[node[rows]] != LEAF]):
            at = node[rows]
            value = values[rows, self.arrays["feature"][at]]
            is_below = value <= self.arrays["threshold"][at]
            goes_left = np.where(np.isnan(value), self.arrays["missing_left"][at], is_below)
            node[rows] = np.where(goes_left, self.left_[at], self.right_[at])
        return node
