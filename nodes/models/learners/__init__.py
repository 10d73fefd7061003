"""The families of models, one file each, and the register by which a saved model finds its family."""

from __future__ import annotations

from nodes.models.learners.base import Learner, Problem
from nodes.models.learners.deep_forest import DeepForest
from nodes.models.learners.forests import ExtraTrees, RandomForest
from nodes.models.learners.linear import LogisticRegression
from nodes.models.learners.mart import Mart
from nodes.models.learners.mlp import Mlp

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
