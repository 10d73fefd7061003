"""Use LightGBM from several threads, with Datasets that fits share.

- ``lightgbm_threads``  sets how many threads LightGBM uses in a block
- ``new_dataset``       bins a matrix
- ``load_dataset``      reads a Dataset from a file
- ``rows_of``           takes some rows of a Dataset, which share its bins
- ``RawDataset``        the Dataset of the raw features, and copies of it with more columns
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from . import large_arrays

Array = npt.NDArray[Any]

# The pre-filter drops columns that cannot be split with LightGBM's default ``min_data_in_leaf``,
# but learners that share the Dataset have their own.
SETTINGS: dict[str, Any] = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}
SAMPLED_VALUES = 50_000_000
"""From so many values LightGBM learns the bins, with 12 bytes for each; it would take up to 200,000
rows of any number of columns."""
SAMPLED_ROWS = "bin_construct_sample_cnt"
LOOK_EVERY = 0.1  # seconds between two checks whether a fit that waits was cancelled


class _Threads:
    """Let calls run at the same time only if they use the same number of threads.

    LightGBM has one number for the whole process. If it grows during a call, the new threads of
    this call write outside of its buffers.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.number = 1
        self.running = 0

    @contextmanager
    def __call__(self, number: int, interrupt: Callable[[], None] | None = None) -> Iterator[None]:
        """Wait until calls with another number have ended, then run the block.

        Blocks must not be nested. ``interrupt`` is called while waiting; it may raise an exception.
        """
        with self.changed:
            while not self.changed.wait_for(lambda: self._allows(number), LOOK_EVERY):
                if interrupt is not None:
                    interrupt()
            self.number = number
            self.running += 1
        try:
            yield
        finally:
            with self.changed:
                self.running -= 1
                self.changed.notify_all()

    def _allows(self, number: int) -> bool:
        return self.running == 0 or self.number == number


lightgbm_threads = _Threads()


def new_dataset(values: Any, categorical: list[int], n_jobs: int = 1) -> Any:
    """Return a constructed Dataset of a matrix."""
    import lightgbm

    n_sampled = min(200_000, max(1, SAMPLED_VALUES // max(1, values.shape[1])))
    params = {**SETTINGS, "num_threads": n_jobs, SAMPLED_ROWS: n_sampled}
    with lightgbm_threads(n_jobs):
        data = lightgbm.Dataset(values, params=params, categorical_feature=categorical)
        return data.construct()


def load_dataset(path: Path, n_sampled: int) -> Any:
    """Return the Dataset that ``save_binary`` wrote; its bins were learned from so many rows."""
    import lightgbm

    # LightGBM refuses a file that was made with another number.
    params = {**SETTINGS, SAMPLED_ROWS: n_sampled}
    with lightgbm_threads(1):
        return lightgbm.Dataset(str(path), params=params).construct()


def rows_of(data: Any, rows: Array, n_jobs: int = 1) -> Any:
    """Return a Dataset of ascending rows; call it in a block of ``lightgbm_threads``."""
    part = data.subset([], params={**data.params, "num_threads": n_jobs})
    # ``subset`` itself would sort the rows as a list of Python numbers.
    part.used_indices = rows
    return part.construct()


class RawDataset:
    """Hold the bins of the raw features, to which each layer adds the vectors before it.

    LightGBM adds columns in place, so each layer has a copy of the bins (a byte per value). They
    are in memory, or in a file if they are large: then there is one copy in memory and not two.
    """

    def __init__(self, values: Array, categorical: list[int], n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.data = new_dataset(values, categorical, n_jobs)
        self.n_sampled = self.data.params[SAMPLED_ROWS]
        path = large_arrays.new_file(values.size)
        self.file = None if path is None else _saved(self.data, path)

    def plain(self) -> Any:
        """Return the Dataset of the raw features."""
        if self.data is None:
            self.data = self._read()
        return self.data

    def widened(self, vectors: Array) -> Any:
        """Return a Dataset with the columns of ``vectors`` after the raw ones."""
        added = new_dataset(vectors, [], self.n_jobs)
        if self.file is None:
            with lightgbm_threads(self.n_jobs):
                wide = rows_of(self.data, np.arange(self.data.num_data()), self.n_jobs)
        else:
            self.data = None
            wide = self._read()
        with lightgbm_threads(self.n_jobs), warnings.catch_warnings():
            # It warns that the raw numbers are gone from the Dataset; we have them ourselves.
            warnings.simplefilter("ignore")
            return wide.add_features_from(added)

    def _read(self) -> Any:
        assert self.file is not None
        return load_dataset(Path(f"/proc/self/fd/{self.file.fileno()}"), self.n_sampled)


def _saved(data: Any, path: Path) -> IO[bytes]:
    """Write a Dataset into a file that is removed when it is closed."""
    try:
        data.save_binary(str(path))
        return path.open("rb")
    finally:
        path.unlink(missing_ok=True)
