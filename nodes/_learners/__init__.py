"""The families of models, one file each, and the register by which a saved model finds its family."""

from __future__ import annotations

from nodes._learners.base import Learner, Problem
from nodes._learners.deep_forest import DeepForest
from nodes._learners.forests import ExtraTrees, RandomForest
from nodes._learners.linear import LogisticRegression
from nodes._learners.mart import Mart
from nodes._learners.mlp import Mlp

LEARNERS: dict[str, type[Learner]] = {
    learner.kind: learner for learner in (DeepForest, Mart, RandomForest, ExtraTrees, LogisticRegression, Mlp)
}

__all__ = [
    "LEARNERS",
    "DeepForest",
    "ExtraTrees",
    "Learner",
    "LogisticRegression",
    "Mart",
    "Mlp",
    "Problem",
    "RandomForest",
]
