"""Define Random Composite Forests as a learner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._features import Features
from ..persistence import Pack
from .base import Fit, FitSlice, Fitted, Learner, Target

if TYPE_CHECKING:
    from ..composite import CompositeForestClassifier

Array = npt.NDArray[Any]


class FittedComposite(Fitted):
    """Predict with a composite forest.

    Contributions of columns are not known: an SVM of a high degree is not a sum over columns, and
    a vote has no size.
    """

    kind = "composite_forest"

    def __init__(self, forest: CompositeForestClassifier, n_classes: int) -> None:
        self.forest = forest
        self.n_classes = n_classes

    def vectors(self, features: Features) -> Array:
        """Return the shares of the votes."""
        return self.predict(features.dense())

    def predict(self, values: Array) -> Array:
        """Return the shares of the votes; zero for classes without training rows."""
        shares = np.zeros((len(values), self.n_classes))
        if len(values):
            shares[:, self.forest.classes_] = self.forest.predict_proba(values)
        return shares

    @property
    def title(self) -> str:
        """The name in messages."""
        return "composite forest"

    def importances(self, n_features: int) -> Array:
        """Return zeros: the SVMs in the leaves do not measure them."""
        return np.zeros(n_features)

    def pack(self) -> Pack:
        """Return the arrays of trees and leaves."""
        pack = self.forest.pack()
        return Pack({"kind": self.kind, "forest": pack.about}, pack.arrays)

    @classmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> FittedComposite:
        """Return the forest; raise ``ValueError`` if it is of other columns or classes."""
        from ..composite import CompositeForestClassifier

        forest = CompositeForestClassifier.unpack(Pack(pack.about["forest"], pack.arrays))
        known = forest.classes_
        is_sound = known.dtype.kind == "i" and ((known >= 0) & (known < n_classes)).all()
        if forest.n_features_in_ != n_features or not is_sound:
            raise ValueError("the composite forest is of other features or classes")
        return cls(forest, n_classes)


@dataclass(frozen=True)
class CompositeForest(Learner):
    """Fit a composite forest; the settings are those of ``CompositeForestClassifier``.

    By default C and γ are numbers. With "auto", each fit of each layer chooses them again, which
    takes longer than the fit itself.
    """

    kind = "composite_forest"

    n_estimators: int = 50
    max_depth: int = 3
    max_features: int | float | str | None = "sqrt"
    degrees: tuple[int, ...] = tuple(range(1, 10))
    sequences: int | str = 10
    selection: str = "bound"
    gamma: float | str = 1e-3
    C: Any = 1.0
    min_leaf: int = 10
    vc: str = "kernel"

    def __post_init__(self) -> None:
        super().__post_init__()
        # ``about`` writes a mapping as pairs, because the keys of JSON are texts.
        if isinstance(self.C, list):
            object.__setattr__(self, "C", dict(self.C))
        # ``about`` writes the degrees as a list, too.
        object.__setattr__(self, "degrees", tuple(self.degrees))
        self._classifier().check_settings()

    def share(self, n: int) -> Learner:
        """Return a forest with its share of the trees."""
        return self.with_trees(1 / n)

    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Fit on the rows of ``part``; raise ``ValueError`` if the cascade learns numbers."""
        if target.n_classes == 0:
            raise ValueError(
                "a composite forest learns classes, but the cascade learns numbers; use "
                "random_forest, extra_trees or mart"
            )
        values = features.dense(part.rows)
        # The class vectors of the layer before follow the columns of the table.
        is_category = np.zeros(values.shape[1], bool)
        is_category[: features.n_raw] = features.categorical[: features.n_raw]
        forest = self._classifier().set_params(
            categorical_features=is_category, n_jobs=part.n_jobs, random_state=part.seed % 2**31
        )
        forest.fit(
            values,
            target.values[part.rows],
            None if part.weights is None else part.weights[part.rows],
            report=lambda share, text: part.interrupt(),
        )
        # One thread: a cascade predicts several blocks of rows in parallel.
        model = FittedComposite(forest.set_params(n_jobs=None), target.n_classes)
        return Fit(model, model.predict(features.dense(part.predict_rows)).astype(np.float32))

    def _classifier(self) -> CompositeForestClassifier:
        """Return an unfitted classifier with the settings of the learner."""
        from ..composite import CompositeForestClassifier

        settings: Mapping[str, Any] = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "count"
        }
        return CompositeForestClassifier(**settings)
