"""Gradient-boosted trees (MART) by LightGBM, kept as LightGBM's own text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deepforest._lightgbm_text import check_text, trees_only
from nodes.models.encoder import Form, Precision
from nodes.models.learners.base import Problem

if TYPE_CHECKING:
    import numpy as np

FILE = "mart.txt"


@dataclass
class Mart:
    """Boosted trees; categories are split by sets of levels, missing values find their own side."""

    kind: ClassVar[str] = "mart"
    title: ClassVar[str] = "MART"
    form: ClassVar[Form] = "codes"
    precision: ClassVar[Precision] = "float64"
    order: ClassVar[Literal["C", "F"]] = "F"

    trees: int = 100
    learning_rate: float = 0.1
    leaves: int = 31
    min_rows: int = 20
    column_share: float = 1.0
    row_share: float = 1.0
    seed: int = 0
    booster: Any = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns and classes."""
        return self.booster.num_feature(), max(self.booster.num_model_per_iteration(), 2)

    def fit(self, problem: Problem) -> None:
        """Grow ``trees`` rounds, one tree a class in each (one tree for two classes)."""
        import lightgbm

        settings = self._settings(problem)
        data = lightgbm.Dataset(
            problem.matrix,
            problem.codes,
            weight=problem.weights,
            categorical_feature=list(problem.categorical),
            params=settings,
        )

        def report(env: Any) -> None:
            problem.progress((env.iteration + 1) / self.trees, f"round {env.iteration + 1} of {self.trees}")

        trained = lightgbm.train(settings, data, num_boost_round=self.trees, callbacks=[report])
        self.booster = from_text(trained.model_to_string())

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities."""
        import numpy as np

        from deepforest.arithmetic import class_probabilities

        if not len(matrix):
            return np.empty((0, self.shape[1]))
        scores = np.asarray(self.booster.predict(matrix, num_threads=threads, raw_score=True))
        return class_probabilities(scores.reshape(len(matrix), -1))

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the text."""
        (folder / FILE).write_text(trees_only(self.booster.model_to_string()), encoding="utf-8", newline="\n")
        return {}

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Mart:
        """Read the text back."""
        text = trees_only((folder / FILE).read_text(encoding="utf-8"))
        check_text(text)
        return cls(booster=from_text(text))

    def _settings(self, problem: Problem) -> dict[str, Any]:
        two = problem.classes == 2
        return {
            "objective": "binary" if two else "multiclass",
            "num_class": 1 if two else problem.classes,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.min_rows,
            "feature_fraction": self.column_share,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1 if self.row_share < 1 else 0,
            "seed": self.seed,
            "num_threads": problem.threads,
            # one thread sums the whole histogram of a column, so the number of threads does not change its rounding
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }


def from_text(text: str) -> Any:
    """The trees of LightGBM's text, without the settings they were grown by."""
    import lightgbm

    try:
        return lightgbm.Booster(model_str=trees_only(text))
    except lightgbm.basic.LightGBMError as error:
        raise ValueError(f"LightGBM cannot read the model: {error}") from None
