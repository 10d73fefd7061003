"""Define the interface between a cascade and its learners.

- ``Target``      the target: classes or numbers, one per row
- ``FitSlice``      the rows, weights and seed of one fit
- ``Learner``   the params of a learner, from which it fits; a kind is one subclass
- ``Fitted``    a fitted learner: vectors of new rows, importances, and itself as plain data
- ``RankOfFit``  one of several processes that carry out a fit together
- ``Fit``       the result of a fit: the fitted learner, and vectors of rows it was not trained on
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .._features import Features
from .._input import as_json, check_whole
from ..persistence import Pack

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Target:
    """Hold the target of all rows: class numbers below ``n_classes``, or numbers if it is 0."""

    values: Array
    n_classes: int

    @property
    def n_outputs(self) -> int:
        """How many numbers a learner returns per row: one per class, or one."""
        return max(self.n_classes, 1)


@dataclass(frozen=True)
class FitSlice:
    """Describe one fit: the rows it is trained on, and those it predicts.

    ``rows`` and ``held_out`` are ascending and have no row in common. With ``out_of_bag`` the
    training rows are predicted too, each by the trees that left it out of their bag; this is for
    learners that draw bags. Without ``held_out`` only the training rows are. ``weights`` has one
    entry for each of ALL rows. Long work calls ``interrupt``, which raises an exception to stop it.
    """

    rows: Array
    held_out: Array | None
    weights: Array | None
    seed: int
    n_jobs: int = 1
    interrupt: Callable[[], None] = lambda: None
    out_of_bag: bool = False

    def __post_init__(self) -> None:
        if self.held_out is None:
            object.__setattr__(self, "out_of_bag", True)

    @property
    def predict_rows(self) -> Array:
        """The rows whose vectors the fit returns, ascending."""
        if self.held_out is None:
            return self.rows
        if not self.out_of_bag:
            return self.held_out
        return np.sort(np.concatenate([self.rows, self.held_out]))


class OpenPort:
    """Keep a port that no other program gets, until it is closed."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("", 0))
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Free the port."""
        self._socket.close()


@dataclass(frozen=True)
class RankOfFit:
    """Describe one of the processes that carry out a fit together, each with some of the rows.

    ``number`` counts them from 0. ``positions`` are the training rows of this one in its Dataset,
    ``fewest`` the number of training rows of the one that has the fewest. ``machines`` are the
    addresses of all, ``host:port`` with commas between; this one has ``open_port``.
    """

    number: int
    positions: Array
    fewest: int
    machines: str
    open_port: OpenPort


class Fitted(ABC):
    """Predict with a fitted learner, and convert it to plain data."""

    kind: ClassVar[str]

    @abstractmethod
    def vectors(self, features: Features) -> Array:
        """Return class probabilities or one number for each row (rows × outputs)."""

    def contributions(self, features: Features) -> Array:
        """Return how much each feature adds to the vectors, rows × (features + 1) × outputs.

        The last entry is the base value, the same for all rows; the sum is the vector. Raise
        ``ValueError`` if this kind of learner cannot tell.
        """
        raise ValueError(
            f"the contributions of the columns are not known for a {self.title} learner; forests "
            "and mart have them"
        )

    @property
    def title(self) -> str:
        """The name in messages."""
        return self.kind

    @abstractmethod
    def importances(self, n_features: int) -> Array:
        """Return the share of each feature in what was learned; all zero if it is not measured."""

    @abstractmethod
    def pack(self) -> Pack:
        """Return the learner as plain data; raise ``TypeError`` if it has no such form."""

    @classmethod
    @abstractmethod
    def unpack(cls, pack: Pack, n_features: int, n_classes: int) -> Self:
        """Return the learner that was packed; raise ``ValueError`` if the data is not valid."""


class Fit(NamedTuple):
    """Hold a fitted learner, and its vectors of the rows of ``FitSlice.predict_rows``.

    A row that every tree had in its bag has NaN.
    """

    model: Fitted
    vectors: Array


@dataclass(frozen=True)
class Learner(ABC):
    """Hold the params of a learner; ``count`` says how many of them a layer has."""

    kind: ClassVar[str]
    out_of_bag: ClassVar[bool] = False
    """Whether it can predict its own training rows, from the trees that left them out."""
    view: ClassVar[str] = "numbers"
    """How it reads the features: their "bins", LightGBM's "dataset" or the "numbers"."""
    old_names: ClassVar[Mapping[str, str]] = {}
    """The settings that had another name in earlier versions: old name → new name."""

    count: int = 1

    def __post_init__(self) -> None:
        check_whole(f"count of {self.kind}", self.count, 1)

    @property
    def n_ranks(self) -> int:
        """How many processes carry out a fit together."""
        return 1

    def prepare(self, features: Features) -> None:
        """Make the view of the features that all fits share, before the first of them starts."""
        if self.view == "bins":
            features.binned()
        elif self.view == "dataset":
            features.dataset()

    @abstractmethod
    def fit(self, features: Features, target: Target, part: FitSlice) -> Fit:
        """Fit on the rows of ``part`` and predict its ``predict_rows``."""

    def open_port(self, number: int, host: str) -> OpenPort:
        """Return the port of one of several processes, which the others reach at ``host``."""
        return OpenPort()

    def fit_rank(self, features: Features, target: Target, part: FitSlice, rank: RankOfFit) -> Fit:
        """Fit as one of several processes, on the rows of ``part``, and predict its rows.

        The view of ``features`` has the rows of this process only; for learners with several ranks.
        """
        raise NotImplementedError(f"a {self.title} is fitted by one process")

    @property
    def title(self) -> str:
        """The name in records."""
        return self.kind.replace("_", " ")

    def about(self) -> dict[str, Any]:
        """Return kind and params as JSON; ``make_learner`` takes the result."""
        return {"kind": self.kind, **{name: as_json(value) for name, value in asdict(self).items()}}

    def with_depth(self, depth: int) -> Learner:
        """Return the learner with trees of at most that depth; unchanged if it has no limit."""
        if not hasattr(self, "max_depth"):
            return self
        # A limit that the user has set stays the upper limit in deeper layers.
        limit = depth if self.max_depth is None else min(depth, self.max_depth)
        return replace(self, **{"max_depth": limit})

    def share(self, n: int) -> Learner:
        """Return a learner of which ``n`` together have the trees of this one.

        Unchanged unless its prediction is the mean of independent trees.
        """
        return self

    def with_trees(self, factor: float) -> Learner:
        """Return the learner with ``factor`` times as many trees; unchanged if it has no trees."""
        n_trees = getattr(self, "n_estimators", None)
        if n_trees is None:
            return self
        return replace(self, **{"n_estimators": max(1, round(n_trees * factor))})


def check_share(name: str, value: Any) -> None:
    """Raise ``ValueError`` unless ``value`` is above 0 and at most 1."""
    if not isinstance(value, int | float | np.floating) or not 0 < value <= 1:
        raise ValueError(f"{name} is {value!r}; give a share above 0 and at most 1")


def known(vectors: Array, votes: Array) -> Array:
    """Return the vectors as 32-bit floats, with NaN where no tree voted; they may be the same."""
    found: Array = vectors.astype(np.float32, copy=False)
    found[votes == 0] = np.nan
    return found
