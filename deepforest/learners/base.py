"""What a cascade asks of a learner.

- ``Task``      what is to be learned: classes or numbers, one a row
- ``Part``      the rows, weights and seed of one fit
- ``Learner``   the settings of a learner, from which it fits; a kind is one subclass
- ``Fitted``    a fitted learner: vectors of new rows, importances, and itself as plain data
- ``Fit``       what a fit gives: the fitted learner and the vectors of the rows it did not learn from
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .._files import Pack
from .._input import as_json, check_whole
from ..features import Features

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Task:
    """The target of all rows: class numbers below ``n_classes``, or numbers if ``n_classes`` is 0."""

    target: Array
    n_classes: int

    @property
    def n_outputs(self) -> int:
        """Numbers a learner gives a row: one a class, or one."""
        return max(self.n_classes, 1)


@dataclass(frozen=True)
class Part:
    """One fit's share of the work.

    ``rows`` to learn from and rows ``held_out``, ascending; or, with ``held_out`` None, the vectors are those of the
    rows of which each tree left some out of its bag. ``weights`` has one entry a row of ALL rows.
    """

    rows: Array
    held_out: Array | None
    weights: Array | None
    seed: int
    n_jobs: int = 1
    interrupt: Callable[[], None] = lambda: None

    @property
    def told(self) -> Array:
        """The rows whose vectors are wanted."""
        return self.rows if self.held_out is None else self.held_out


class Fitted(ABC):
    """A fitted learner."""

    kind: ClassVar[str]

    @abstractmethod
    def vectors(self, features: Features) -> Array:
        """What it says about each row: class probabilities, or one number (rows × outputs)."""

    @abstractmethod
    def importances(self, n_features: int) -> Array:
        """Each feature's share in what was learned; all zero where that is not measured."""

    @abstractmethod
    def pack(self) -> Pack:
        """Itself as plain data."""

    @classmethod
    @abstractmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> Self:
        """The learner that was packed; ``ValueError`` if it cannot be right."""


class Fit(NamedTuple):
    """A fitted learner, and its vectors of the rows of ``Part.told`` (NaN where it has nothing to say of a row)."""

    model: Fitted
    vectors: Array


@dataclass(frozen=True)
class Learner(ABC):
    """Settings of a learner; ``count`` says how many of them a layer has."""

    kind: ClassVar[str]
    out_of_bag: ClassVar[bool] = False
    """Whether it can tell vectors of its own training rows, from the trees that left them out."""

    count: int = 1

    def __post_init__(self) -> None:
        check_whole(f"count of {self.kind}", self.count, 1)

    @abstractmethod
    def prepare(self, features: Features) -> None:
        """Make the view of the features that the fits share."""

    @abstractmethod
    def fit(self, features: Features, task: Task, part: Part) -> Fit:
        """Learn from the rows of ``part``."""

    @property
    def title(self) -> str:
        """What it is called in records."""
        return self.kind.replace("_", " ")

    def about(self) -> dict[str, Any]:
        """Kind and settings as JSON."""
        return {"kind": self.kind, **{name: as_json(value) for name, value in asdict(self).items()}}

    def with_depth(self, depth: int) -> Learner:
        """The same learner with trees of at most that depth, where it has such a thing."""
        if not hasattr(self, "max_depth"):
            return self
        return replace(self, **{"max_depth": depth if self.max_depth is None else min(depth, self.max_depth)})

    def with_trees(self, factor: float) -> Learner:
        """The same learner with ``factor`` times as many trees, where it has trees."""
        trees = getattr(self, "trees", None)
        return self if trees is None else replace(self, **{"trees": max(1, round(trees * factor))})


def check_share(name: str, value: Any) -> None:
    """``ValueError`` unless ``value`` is above 0 and at most 1."""
    if not isinstance(value, int | float | np.floating) or not 0 < value <= 1:
        raise ValueError(f"{name} is {value!r}; give a share above 0 and at most 1")


def known(vectors: Array, votes: Array) -> Array:
    """Vectors with NaN where no tree voted."""
    return np.where(votes[:, None] > 0, vectors, np.float32("nan")).astype(np.float32)
