"""What every learner is: settings first, then ``fit``, and from there on it predicts and saves itself.

- ``Problem``   what a learner is given to learn from
- ``Learner``   the protocol; a new family of models is one class that follows it, listed in ``LEARNERS``
- ``save_array``, ``load_array``  numpy files that can hold no pickled object
- ``one_blas_thread``  makes sums of a training come out the same however many threads there are
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from engine.node_types import SubtaskState
from nodes.models.encoder import Form, Precision

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Problem:
    """A matrix, the class of each row and what goes with them."""

    matrix: np.ndarray
    codes: np.ndarray
    """Class number of each row; every class from 0 to ``classes`` - 1 occurs."""
    classes: int
    weights: np.ndarray | None = None
    """Weight of each row, 1 on average; ``None`` if all are equal."""
    categorical: tuple[int, ...] = ()
    """Matrix columns that hold level numbers."""
    threads: int = 1
    """How many may be used; never changes the result."""
    progress: Callable[[float, str], None] = lambda fraction, text: None
    """Told often; raises to stop the training."""
    log: Callable[[str], None] = lambda text: None
    job: Callable[[tuple[str, ...], SubtaskState, float | None], None] = lambda place, state, seconds: None
    """Told what becomes of the fits inside the training, if there are any."""
    tell: Callable[[str, dict[str, Any]], None] = lambda part, data: None
    """Told what is known of the result already, by parts."""
    cancelled: Callable[[], bool] = lambda: False
    """Whether the training was asked to stop, for learners that are long between two words of progress."""
    checkpoint: Path | None = None
    """A folder that outlives a crash, for what need not be done twice."""


class Learner(Protocol):
    """A classifier over matrices; the same settings, data and seed give the same bytes."""

    kind: ClassVar[str]
    """Name it is registered and saved under."""
    title: ClassVar[str]
    form: ClassVar[Form]
    precision: ClassVar[Precision]
    order: ClassVar[Literal["C", "F"]]

    @property
    def shape(self) -> tuple[int, int]:
        """Matrix columns it needs and classes it knows, once it is fitted."""

    def fit(self, problem: Problem) -> None:
        """Learn."""

    def predict_proba(self, matrix: np.ndarray, threads: int = 1) -> np.ndarray:
        """Class probabilities, rows × classes, as 64-bit floats."""

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the big things into files; give back the small ones as plain JSON."""

    @classmethod
    def load(cls, folder: Path, about: Mapping[str, Any]) -> Self:
        """A learner that predicts as the saved one did; ``ValueError`` if the files cannot be right."""


def save_array(folder: Path, name: str, array: np.ndarray) -> None:
    """Write ``name.npy``."""
    import numpy as np

    np.save(folder / f"{name}.npy", array, allow_pickle=False)


def load_array(folder: Path, name: str, kind: str, ndim: int = 1) -> np.ndarray:
    """Read ``name.npy``; ``ValueError`` if it holds objects, another kind of number, NaN or another number of axes."""
    import numpy as np

    array: np.ndarray = np.load(folder / f"{name}.npy", allow_pickle=False)
    if array.dtype.kind != kind or array.ndim != ndim:
        raise ValueError(f"{name}.npy holds {array.dtype} of {array.ndim} axes")
    if kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name}.npy holds values that are no numbers")
    return array


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Matrix products on one thread: split among threads, their sums round differently."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield
