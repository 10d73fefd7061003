"""Define gcForest with confidence screening: later layers train only on the less confident rows.

- ``ScreenedForestClassifier``
- ``ScreeningStrategy``     lets confident rows leave
- ``confidence_threshold``  the confidence above which rows leave a layer
- ``tree_factor``           how the number of trees grows as rows leave
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._base import BaseCascadeClassifier
from ._input import check_whole, keep_arguments
from ._layer import Layer
from ._renamed import CASCADE_NAMES, accept_old_names
from ._strategy import Combination, GrowingCascade, LayerStrategy, TrainingData
from .arithmetic import weighted_sum
from .learners import Learner

Array = npt.NDArray[Any]

LEARNERS = (
    {"kind": "random_forest", "count": 2, "n_estimators": 50},
    {"kind": "completely_random_forest", "count": 2, "n_estimators": 50},
)
SURE = 0.9  # with a higher accuracy of the first layer, the stricter share is used
STRICT, LENIENT = 1 / 10, 1 / 3
OF_SCANS = 1 / 20


@accept_old_names(CASCADE_NAMES)
class ScreenedForestClassifier(BaseCascadeClassifier):
    """Classify with gcForest-CS (Pang, Ting, Zhao and Zhou): confident rows leave early.

    A row leaves at the first layer whose confidence in it is above η_t. Among the rows above η_t,
    errors are less than ``error_share`` times as frequent as among all. Only the other rows train
    the next layer, which has more trees the fewer rows there are, up to a limit.

    Parameters
    ----------
    error_share : "auto" or float
        The paper's ``a``, below 1. "auto" is 1/20 with a scan; else 1/10 if the first layer is
        right on more than 90 % of the rows, and 1/3 if it is not.
    tree_growth : float
        Layer t has m / m_t times the trees of the first, but at most 1 + ``tree_growth`` times as
        many; m_t of all m rows are left in it. 0 gives every layer the same number. A high value is
        about the authors' rule: as many trees times rows in every layer, which saves no work
        against a cascade without screening that has the trees of the first layer in each.
    scan : MultiGrainedScanner, mapping of its params, or None
        Every layer has a scan of its own: with other positions, if some are sampled, and learned
        only from the rows that are still in the cascade. At prediction a row is scanned only for
        the layers that it reaches.
    scan_levels : int
        How many of the newest scans a layer sees.
    others
        As for ``CascadeForestClassifier``.

    Attributes
    ----------
    As of ``CascadeForestClassifier``; ``layer_records_[t]`` has ``rows_in``, ``rows_out``,
    ``error_out`` and ``threshold``.
    """

    def __init__(
        self,
        learners: Any = LEARNERS,
        *,
        error_share: str | float = "auto",
        tree_growth: float = 0.5,
        resampling: str = "nested",
        class_vectors: str = "folds",
        cv: int = 5,
        scoring: str | Callable[[Array, Array], float] = "auto",
        patience: int = 1,
        tol: float = 0.0,
        max_layers: int = 10,
        augment: str = "concat",
        selector: Any = None,
        scan: Any = None,
        scan_levels: int = 3,
        class_weight: str | Mapping[Any, float] | None = None,
        calibrate: bool = True,
        categorical_features: str | Sequence[Any] | None = "from_dtype",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_arguments(self, locals())

    def _check_params(self, data: TrainingData) -> None:
        super()._check_params(data)
        if self.error_share != "auto" and not (
            isinstance(self.error_share, Real) and 0 < float(self.error_share) < 1
        ):
            raise ValueError(
                f"error_share is {self.error_share!r}; give 'auto' or a share between 0 and 1"
            )
        if not self.tree_growth >= 0:
            raise ValueError(f"tree_growth is {self.tree_growth}; give a number from 0")
        check_whole("scan_levels", self.scan_levels, 1)

    @property
    def _fresh_scans(self) -> int:
        return int(self.scan_levels)

    def _strategy(self) -> LayerStrategy:
        error_share = self.error_share
        if error_share == "auto" and self.scan is not None:
            error_share = OF_SCANS
        return ScreeningStrategy(error_share, self.tree_growth)

    def _papers_metric(self) -> str:
        return "log_loss" if self.resampling == "nested" else "accuracy"


class ScreeningStrategy(LayerStrategy):
    """Average the learners, and let the rows leave that a layer is confident about."""

    def __init__(self, error_share: str | float, tree_growth: float) -> None:
        self.error_share = error_share
        self.tree_growth = tree_growth

    def learners(
        self, number: int, learners: tuple[Learner, ...], share_left: float
    ) -> tuple[Learner, ...]:
        """Return learners with more trees, by the share of rows that have left."""
        factor = tree_factor(share_left, self.tree_growth)
        return tuple(learner.with_trees(factor) for learner in learners)

    def combine(
        self, vectors: Array, rows: Array, data: TrainingData, before: Layer | None
    ) -> Combination:
        """Return the plain mean, and the confidence above which rows leave."""
        coefficients = np.full(len(vectors), 1 / len(vectors))
        output = weighted_sum(coefficients, vectors)
        right = output.argmax(axis=1) == data.target.values[rows]
        if self.error_share == "auto":  # in the first layer
            self.error_share = STRICT if float(right.mean()) > SURE else LENIENT
        # Equation 2 of the paper: a row is confident if its largest class probability is above η_t.
        threshold = confidence_threshold(output.max(axis=1), right, float(self.error_share))
        return Combination(coefficients, threshold=threshold)

    def advance(self, cascade: GrowingCascade, vectors: Array, data: TrainingData) -> None:
        """Set the output of the remaining rows, and let the confident ones leave."""
        # Rows that left keep the output of the layer they left at: growth is decided by all rows.
        rows, layer = cascade.remaining, cascade.layers[-1]
        output = layer.combine(vectors[:, rows])
        cascade.output[rows] = output
        cascade.remaining = rows[output.max(axis=1) <= layer.threshold]


def tree_factor(share_left: float, tree_growth: float) -> float:
    """Return how many times the trees of the first layer a layer has: m / m_t, up to a limit.

    m / m_t is the inverse of the share of rows that are left. At m / m_t a layer grows as many
    trees times rows as the first one, and nothing is saved; hence the limit, 1 + ``tree_growth``.
    """
    limit = 1 + tree_growth
    # Compared by a product: no row may be left.
    if limit * (1 - share_left) <= 1:
        return limit
    return 1 / (1 - share_left)


def confidence_threshold(confidence: Array, right: Array, error_share: float) -> float:
    """Return η = min { c_k : error of the k most confident rows < ``error_share`` · error of all }.

    Rows of equal confidence stay together. Without any such k, η is the highest confidence: no row
    leaves.
    """
    # Equation 4: the k most confident rows for every k at once, by running sums of the errors.
    order = np.argsort(-confidence, kind="stable")
    sorted_confidence, wrong = confidence[order], ~right[order]
    errors = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    # Only the last of rows of equal confidence can be a threshold: the others are not separated.
    last_of_equals = np.append(sorted_confidence[1:] != sorted_confidence[:-1], True)
    sure = np.flatnonzero((errors < error_share * wrong.mean()) & last_of_equals)
    return float(sorted_confidence[sure[-1]] if len(sure) else sorted_confidence[0])
