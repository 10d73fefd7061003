"""Define gcForest with confidence screening: later layers train only on the less confident rows.

- ``ScreenedForestClassifier``
- ``confidence_threshold``  the confidence above which rows leave a layer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._base import CascadeClassifier
from ._grow import GrowthState
from ._input import keep_arguments
from ._layer import LayerFit
from .learners import Learner

Array = npt.NDArray[Any]

LEARNERS = (
    {"kind": "random_forest", "count": 2, "n_estimators": 50},
    {"kind": "completely_random_forest", "count": 2, "n_estimators": 50},
)
SURE = 0.9  # with a higher accuracy of the first layer, the stricter share is used
STRICT, LENIENT = 1 / 10, 1 / 3


class ScreenedForestClassifier(CascadeClassifier):
    """Classify with gcForest-CS (Pang, Ting, Zhao and Zhou): confident rows leave early.

    A row leaves at the first layer whose confidence in it is above η_t. Among the rows above η_t,
    errors are less than ``error_share`` times as frequent as among all. Only the other rows train
    the next layer, which has the more trees the fewer they are.

    Parameters
    ----------
    error_share : "auto" or float
        The paper's ``a``, below 1. "auto" is 1/10 if the first layer is right on more than 90 % of
        the rows, else 1/3.
    tree_growth : float
        Layer t has 1 + ``tree_growth`` · (share of rows that left) times the trees of the first.
    others
        As for ``CascadeForestClassifier``.

    Attributes
    ----------
    As of ``CascadeForestClassifier``; ``layers_[t]`` has ``rows_in``, ``rows_out``, ``error_out``
    and ``threshold``. ``error_share_`` is the share that was used.
    """

    def __init__(
        self,
        learners: Any = LEARNERS,
        *,
        error_share: str | float = "auto",
        tree_growth: float = 2.0,
        class_vectors: str = "folds",
        folds: int = 5,
        metric: str | Callable[[Array, Array], float] = "accuracy",
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

    def _check_params(self) -> None:
        super()._check_params()
        if self.error_share != "auto" and not (
            isinstance(self.error_share, Real) and 0 < float(self.error_share) < 1
        ):
            raise ValueError(
                f"error_share is {self.error_share!r}; give 'auto' or a share between 0 and 1"
            )
        if not self.tree_growth >= 0:
            raise ValueError(f"tree_growth is {self.tree_growth}; give a number from 0")

    def _learners_of(
        self, number: int, learners: tuple[Learner, ...], state: GrowthState
    ) -> tuple[Learner, ...]:
        """Return learners with more trees, by the share of rows that have left."""
        # The fewer rows a layer has, the more trees it can afford: their number rises linearly.
        gone = 1 - len(state.rows) / len(state.output)
        return tuple(learner.with_trees(1 + self.tree_growth * gone) for learner in learners)

    def _combine_layer(self, fit: LayerFit, state: GrowthState) -> None:
        """Average the vectors, and let the rows above the threshold leave."""
        rows, vectors = state.rows, fit.vectors[:, state.rows]
        fit.layer.coefficients = np.full(len(vectors), 1 / len(vectors))
        output = fit.layer.combine(vectors)
        # Rows that left keep the output of the layer they left at: growth is decided by all rows.
        state.output[rows] = output
        right = output.argmax(axis=1) == state.task.target[rows]
        if not self.estimators_:  # the first layer
            self.error_share_ = self._share(float(right.mean()))
        # Equation 2 of the paper: a row is confident if its largest class probability is above η_t.
        confidence = output.max(axis=1)
        fit.layer.threshold = confidence_threshold(confidence, right, self.error_share_)
        state.rows = rows[confidence <= fit.layer.threshold]

    def _share(self, accuracy: float) -> float:
        """Return the error share, from the accuracy of the first layer if it is "auto"."""
        if self.error_share == "auto":
            return STRICT if accuracy > SURE else LENIENT
        return float(self.error_share)


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
