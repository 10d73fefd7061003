"""gcForest with confidence screening: rows the cascade is sure of leave early, so that later layers learn from fewer.

- ``ScreenedForestClassifier``
- ``confidence_threshold``  above which confidence rows leave a layer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ._input import keep_arguments
from .classifier import CascadeClassifier
from .growing import Standing
from .layer import LayerFit
from .learners import Learner

Array = npt.NDArray[Any]

LEARNERS = (
    {"kind": "random_forest", "count": 2, "trees": 50},
    {"kind": "completely_random_forest", "count": 2, "trees": 50},
)
SURE = 0.9  # the accuracy of the first layer from which on the stricter share is used
STRICT, LENIENT = 1 / 10, 1 / 3


class ScreenedForestClassifier(CascadeClassifier):
    """gcForest-CS (Pang, Ting, Zhao and Zhou): a row leaves at the first layer that is sure of it.

    A layer is sure of the rows above a confidence η_t, among which it errs less than ``error_share`` times as often as
    among all. Only the others train the next layer, with more trees the fewer they are.

    Parameters
    ----------
    error_share : "auto" or float
        The paper's ``a``, below 1. "auto" is 1/10 where the first layer is right on more than 90 % of the rows, else
        1/3.
    tree_growth : float
        Layer t has 1 + ``tree_growth`` · (share of rows gone) times the trees of the first.
    others
        As for ``CascadeForestClassifier``.

    Attributes
    ----------
    As of ``CascadeForestClassifier``; ``layers_[t]`` has ``rows_in``, ``rows_out``, ``error_out`` and ``threshold``.
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
        if self.error_share != "auto" and not (isinstance(self.error_share, Real) and 0 < float(self.error_share) < 1):
            raise ValueError(f"error_share is {self.error_share!r}; give 'auto' or a share between 0 and 1")
        if not self.tree_growth >= 0:
            raise ValueError(f"tree_growth is {self.tree_growth}; give a number from 0")

    def _learners_of(self, number: int, learners: tuple[Learner, ...], standing: Standing) -> tuple[Learner, ...]:
        gone = 1 - len(standing.rows) / len(standing.output)
        return tuple(learner.with_trees(1 + self.tree_growth * gone) for learner in learners)

    def _take_up(self, fit: LayerFit, standing: Standing) -> None:
        rows, vectors = standing.rows, fit.vectors[:, standing.rows]
        fit.layer.coefficients = np.full(len(vectors), 1 / len(vectors))
        said = fit.layer.combine(vectors)
        standing.output[rows] = said
        right = said.argmax(axis=1) == standing.task.target[rows]
        if not self.estimators_:  # the first layer
            self.error_share_ = self._share(float(right.mean()))
        confidence = said.max(axis=1)
        fit.layer.threshold = confidence_threshold(confidence, right, self.error_share_)
        standing.rows = rows[confidence <= fit.layer.threshold]

    def _share(self, accuracy: float) -> float:
        if self.error_share == "auto":
            return STRICT if accuracy > SURE else LENIENT
        return float(self.error_share)


def confidence_threshold(confidence: Array, right: Array, error_share: float) -> float:
    """η = min { c_k : error among the k most confident rows < ``error_share`` · error of all }.

    Rows of equal confidence stay together. Without any such k nobody leaves: η is the highest confidence.
    """
    order = np.argsort(-confidence, kind="stable")
    sorted_confidence, wrong = confidence[order], ~right[order]
    errors = np.cumsum(wrong) / np.arange(1, len(wrong) + 1)
    last_of_equals = np.append(sorted_confidence[1:] != sorted_confidence[:-1], True)
    sure = np.flatnonzero((errors < error_share * wrong.mean()) & last_of_equals)
    return float(sorted_confidence[sure[-1]] if len(sure) else sorted_confidence[0])
