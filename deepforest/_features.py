"""Hold the features that a layer sees: the raw ones, and the vectors of the layer before.

Each kind of learner has its own view of them: the forests the bins, LightGBM its Dataset, anything
else the numbers. A view of the raw features is made once, when first asked for, and shared by all
folds, learners and layers; only the vectors that a layer adds are converted again for the next.

- ``Features``   of the rows of one fit, or of rows to be predicted
- ``digest_of``  names arrays by their content
- ``AUGMENT``    what the next layer sees: "concat" the raw features and the vectors, "stack" only
  the vectors, "none" only the raw features
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from . import large_arrays
from ._lightgbm import RawDataset, new_dataset
from .forest.binning import BinnedMatrix, Binner

Array = npt.NDArray[Any]

AUGMENT = ("concat", "stack", "none")


class Features:
    """Hold raw features (rows × columns) and, from the second layer on, the vectors before it.

    ``room`` is the largest number of columns that vectors will take; ``learning`` says whether
    learners will be fitted on the features, or rows only predicted; ``binner`` has the bins of the
    raw features if they are known already.
    """

    def __init__(
        self,
        values: Array,
        categorical: Array,
        *,
        augment: str = "concat",
        room: int = 0,
        binner: Binner | None = None,
        learning: bool = False,
        n_jobs: int = 1,
    ) -> None:
        self.values = values
        self.categorical = categorical
        self.augment = augment
        self.room = 0 if augment == "none" else room
        self.binner = binner
        self.learning = learning
        self.n_jobs = n_jobs
        self.vectors: Array | None = None
        self.vector_binner: Binner | None = None
        self._learned_from: Array | None = None
        self._dense: Array | None = None
        self._matrix: BinnedMatrix | None = None
        self._binned_vectors = True  # whether the vectors, if any, are in the matrix
        self._raw_dataset: RawDataset | None = None
        self._dataset: Any = None

    @classmethod
    def restore(
        cls,
        values: Array,
        categorical: Array,
        augment: str,
        vectors: Array | None,
        matrix: BinnedMatrix | None,
        dataset: Any,
    ) -> Features:
        """Return the features of a layer with the views of them that were made before."""
        features = cls(values, categorical, augment=augment, learning=True)
        features.vectors = vectors
        features._matrix, features._dataset = matrix, dataset
        return features

    @cached_property
    def digest(self) -> str:
        """The hash of the raw features."""
        return digest_of(self.values, self.categorical)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        """The number of columns that the layer sees."""
        return self.n_raw + (0 if self.vectors is None else self.vectors.shape[1])

    @property
    def n_raw(self) -> int:
        """The number of raw columns that the layer sees."""
        return 0 if self.augment == "stack" and self.vectors is not None else self.values.shape[1]

    def add(self, vectors: Array, binner: Binner | None = None, rows: Array | None = None) -> None:
        """Let the next layer see ``vectors`` in place of those of the layer before.

        ``binner`` has their bins if they are known; else these are learned from ``rows``, by
        default from all.
        """
        if self.augment == "none":
            return
        self.vectors = vectors
        self.vector_binner = binner
        self._learned_from = rows
        self._binned_vectors = False
        self._dense = None
        self._dataset = None

    def forget_vectors(self) -> None:
        """Let the next layer see the raw features only: it is the first one of another cascade."""
        if self.vectors is None:
            return
        if self.n_raw == 0:
            self._matrix = None  # the vectors have taken the columns of the raw bins
        self.vectors = self.vector_binner = self._dense = self._dataset = None
        self._binned_vectors = False
        if self._matrix is not None:
            self._matrix.truncate(self.n_raw)

    def take(self, rows: Array) -> Features:
        """Return the features of some of the rows, for prediction."""
        part = Features(
            large_arrays.take(self.values, rows),
            self.categorical,
            augment=self.augment,
            room=self.room,
            binner=self.binner,
        )
        if self._matrix is not None:
            part._matrix = self._matrix.take(rows)
        if self.vectors is not None:
            part.add(self.vectors[rows], self.vector_binner)
        return part

    # --- the views of the kinds of learners ---

    def dense(self, rows: Array | None = None) -> Array:
        """Return the numbers themselves, for estimators that know neither bins nor Datasets.

        Those of all rows are stored by row, and made once for all models of a layer.
        """
        if rows is not None:
            return self._numbers(rows)
        if self._dense is None:
            self._dense = large_arrays.by_row(self._parts)
        return self._dense

    def _numbers(self, rows: Array) -> Array:
        """Return some rows of raw features and vectors side by side."""
        return large_arrays.by_row([part[rows] for part in self._parts])

    @property
    def _parts(self) -> list[Array]:
        """The raw features and the vectors, as far as the layer sees them."""
        parts = [self.values] if self.n_raw else []
        return parts if self.vectors is None else [*parts, self.vectors]

    def binned(self) -> BinnedMatrix:
        """Return the bins. The first call for a layer is not safe beside another one."""
        if self._matrix is None:
            if self.binner is None:
                self.binner = Binner().fit(self.values, self.categorical, self.n_jobs)
            # Room for the vectors, so that the raw bins are never copied. Only growing trees reads
            # by column; prediction does without that half of the memory.
            capacity = self.values.shape[1] + self.room
            self._matrix = BinnedMatrix(len(self), capacity, by_column=self.learning)
            self._matrix.append(self.binner, self.values, self.n_jobs)
        if not self._binned_vectors and self.vectors is not None:
            if self.vector_binner is None:
                learned_from = self.vectors
                if self._learned_from is not None:
                    learned_from = large_arrays.take(learned_from, self._learned_from)
                self.vector_binner = Binner().fit(learned_from, n_jobs=self.n_jobs)
            # The vectors take the columns of those of the layer before; raw bins stay in place.
            self._matrix.truncate(self.n_raw).append(self.vector_binner, self.vectors, self.n_jobs)
            self._binned_vectors = True
        return self._matrix

    def dataset(self) -> Any:
        """Return LightGBM's Dataset of all rows. The first call is not safe beside another one."""
        if self._dataset is None:
            self._dataset = self._make_dataset()
        return self._dataset

    def _make_dataset(self) -> Any:
        """Return a Dataset of what the layer sees, made from that of the raw features."""
        if self.n_raw == 0:
            return new_dataset(self.vectors, [], self.n_jobs)
        if self._raw_dataset is None:
            categorical = np.flatnonzero(self.categorical).tolist()
            self._raw_dataset = RawDataset(self.values, categorical, self.n_jobs)
        if self.vectors is None:
            return self._raw_dataset.plain()
        return self._raw_dataset.widened(self.vectors)

    def __getstate__(self) -> dict[str, Any]:
        """Leave LightGBM's Datasets out, which cannot be sent to another process, and a copy."""
        return {**self.__dict__, "_raw_dataset": None, "_dataset": None, "_dense": None}


def digest_of(*arrays: Array | None) -> str:
    """Return a hash of the content, shapes and types of arrays; None counts as a value too."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(None if array is None else (array.shape, array.dtype.str)).encode())
        if array is None or not array.size:
            continue
        # By blocks: an array stored by column would be copied as a whole.
        rows = np.atleast_1d(array)
        for block in large_arrays.blocks(len(rows), array.nbytes // len(rows)):
            digest.update(np.ascontiguousarray(rows[block]).data.cast("B"))
    return digest.hexdigest()
