"""Logistic regression, fitted by scikit-learn; its weights are all there is to keep."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nodes.models.encoder import Form, Precision
from nodes.models.learners.base import Problem, load_array, one_blas_thread, save_array

if TYPE_CHECKING:
    import numpy as np


@dataclass
class LogisticRegression:
    """A linear score a class, over standardised numbers and one-hot categories."""

    kind: ClassVar[str] = "logistic-regression"
    title: ClassVar[str] = "Logistic regression"
    form: ClassVar[Form] = "onehot"
    precision: ClassVar[Precision] = "float64"
    order: ClassVar[Literal["C", "F"]] = "C"

    c: float = 1.0
    max_iter: int = 500
    weights: np.ndarray | None = field(default=None, repr=False)
    """One line a class, or a single one for two classes."""
    intercepts: np.ndarray | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns and classes."""
        assert self.weights is not None
        return self.weights.shape[1], max(len(self.weights), 2)

    def fit(self, problem: Problem) -> None:
        """Minimise the penalised log loss with L-BFGS."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression as Fitter

        problem.progress(0.0, "fitting")
        fitter = Fitter(C=self.c, max_iter=self.max_iter)
        with warnings.catch_warnings(record=True) as caught, one_blas_thread():
            warnings.simplefilter("always", ConvergenceWarning)
            fitter.fit(problem.matrix, problem.codes, sample_weight=problem.weights)
        if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
            problem.log(f"Not yet settled after {self.max_iter} steps; more steps or a smaller C may help.")
        self.weights, self.intercepts = fitter.coef_, fitter.intercept_
        problem.progress(1.0, f"{int(fitter.n_iter_.max())} steps")

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities."""
        from deepforest.arithmetic import class_probabilities, row_products

        assert self.weights is not None and self.intercepts is not None
        return class_probabilities(row_products(matrix, self.weights.T, self.intercepts))

    def save(self, folder: Path) -> dict[str, Any]:
        """Write weights and intercepts."""
        assert self.weights is not None and self.intercepts is not None
        save_array(folder, "weights", self.weights)
        save_array(folder, "intercepts", self.intercepts)
        return {}

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> LogisticRegression:
        """Read them back."""
        weights, intercepts = load_array(folder, "weights", "f", 2), load_array(folder, "intercepts", "f")
        if len(weights) != len(intercepts):
            raise ValueError("weights and intercepts differ in length")
        return cls(weights=weights, intercepts=intercepts)
