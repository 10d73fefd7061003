"""The features of rows on their way through a cascade: the raw ones, and what the layer before said about the rows.

Each kind of learner has a view of its own of them: the forests the bins, LightGBM its Dataset, anything else the
numbers. A view of the raw features is made once, when first asked for, and shared by all folds, learners and layers;
only what a layer adds is made anew for the next.

- ``Features``  of the rows of one fit, or of rows to be predicted
- ``digest_of`` names arrays by their content
- ``AUGMENT``   what the next layer sees: "concat" the raw features and the vectors, "stack" the vectors only, "none"
  the raw features only
"""

from __future__ import annotations

import hashlib
import warnings
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .forest.binning import BinnedMatrix, Binner

Array = npt.NDArray[Any]

AUGMENT = ("concat", "stack", "none")
DATASET = {"verbosity": -1, "num_threads": 1, "feature_pre_filter": False}


class Features:
    """Raw features (rows × columns), and from the second layer on the vectors of the layer before.

    ``room`` is how many columns of vectors there will be at most; ``learning`` whether learners will be fitted on
    them, or rows only be predicted; ``binner`` the bins of the raw features if they are known already.
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
        self._learned_from: Array | slice = slice(None)
        self._matrix: BinnedMatrix | None = None
        self._binned_vectors = True
        self._raw_dataset: Any = None
        self._dataset: Any = None

    @cached_property
    def digest(self) -> str:
        """Names the raw features."""
        return digest_of(self.values, self.categorical)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        """How many columns the layer sees."""
        return self._n_raw + (0 if self.vectors is None else self.vectors.shape[1])

    @property
    def _n_raw(self) -> int:
        return 0 if self.augment == "stack" and self.vectors is not None else self.values.shape[1]

    def add(self, vectors: Array, binner: Binner | None = None, rows: Array | None = None) -> None:
        """Let the next layer see ``vectors`` in place of those of the layer before.

        ``binner``: their bins, if they are known; else they are learned from ``rows`` (all).
        """
        if self.augment == "none":
            return
        self.vectors = vectors
        self.vector_binner = binner
        self._learned_from = slice(None) if rows is None else rows
        self._binned_vectors = False
        self._dataset = None

    def take(self, rows: Array) -> Features:
        """The features of some of the rows, for prediction."""
        part = Features(self.values[rows], self.categorical, augment=self.augment, room=self.room, binner=self.binner)
        if self._matrix is not None:
            part._matrix = self._matrix.take(rows)
        if self.vectors is not None:
            part.add(self.vectors[rows], self.vector_binner)
        return part

    # --- what the kinds of learners see ---

    def dense(self, rows: Array | slice = slice(None)) -> Array:
        """The numbers themselves."""
        if self.vectors is None:
            return self.values[rows]
        if self._n_raw == 0:
            return self.vectors[rows]
        return np.hstack([self.values[rows], self.vectors[rows]])

    def binned(self) -> BinnedMatrix:
        """The bins; the first call for a layer must not run beside another."""
        if self._matrix is None:
            if self.binner is None:
                self.binner = Binner().fit(self.values, self.categorical, self.n_jobs)
            capacity = self.values.shape[1] + self.room
            self._matrix = BinnedMatrix(len(self), capacity, by_column=self.learning)
            self._matrix.append(self.binner, self.values, self.n_jobs)
        if not self._binned_vectors and self.vectors is not None:
            if self.vector_binner is None:
                self.vector_binner = Binner().fit(self.vectors[self._learned_from], n_jobs=self.n_jobs)
            self._matrix.truncate(self._n_raw).append(self.vector_binner, self.vectors, self.n_jobs)
            self._binned_vectors = True
        return self._matrix

    def dataset(self) -> Any:
        """LightGBM's Dataset of all rows; the first call for a layer must not run beside another."""
        if self._dataset is None:
            self._dataset = self._make_dataset()
        return self._dataset

    def _make_dataset(self) -> Any:
        if self._n_raw == 0:
            return _new_dataset(self.vectors, [])
        if self._raw_dataset is None:
            self._raw_dataset = _new_dataset(self.values, np.flatnonzero(self.categorical).tolist())
        if self.vectors is None:
            return self._raw_dataset
        # features are added in place, so they are added to a copy
        wide = self._raw_dataset.subset(np.arange(len(self))).construct()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it keeps no numbers: we keep them ourselves
            return wide.add_features_from(_new_dataset(self.vectors, []))

    def __getstate__(self) -> dict[str, Any]:
        """LightGBM's Datasets stay in the process they were made in."""
        return {**self.__dict__, "_raw_dataset": None, "_dataset": None}


def digest_of(*arrays: Array | None) -> str:
    """A hash of the arrays' content, shapes and types."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(None if array is None else (array.shape, array.dtype.str)).encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


def _new_dataset(values: Any, categorical: list[int]) -> Any:
    import lightgbm

    return lightgbm.Dataset(values, params=DATASET, categorical_feature=categorical).construct()
