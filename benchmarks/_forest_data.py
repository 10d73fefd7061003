"""Data for the forest figures: the real sets, if they are there, and made ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Split(NamedTuple):
    """Rows to learn from and rows to be judged by."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


class NoData(Exception):
    """The data set is not on this machine."""


def data_folder() -> Path:
    """Where the real data sets are: ``SYLVA_DATA``, or ``../shared/data`` beside the repository."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    return Path(os.environ.get("SYLVA_DATA", beside))


def load(name: str) -> Split:
    """A real data set with its original split; categories as codes."""
    folder = data_folder() / name
    if not (folder / "train.parquet").is_file():
        raise NoData(f"no {name} in {data_folder()} (set SYLVA_DATA)")
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [pq.read_table(folder / f"{part}.parquet") for part in ("train", "test")]
    n_train = parts[0].num_rows
    table = pa.concat_tables(parts)
    columns = [_numbers(table.column(name)) for name in table.column_names]
    x, y = np.column_stack(columns[:-1]).astype(np.float32), columns[-1].astype(np.int64)
    y = np.unique(y, return_inverse=True)[1]
    return Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])


def _numbers(column: Any) -> Array:
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_dictionary(column.type):
        return np.unique(column.to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1].astype(float)
    return np.asarray(column.to_numpy(zero_copy_only=False), float)


def continuous(n_rows: int, n_features: int, seed: int = 0) -> tuple[Array, Array]:
    """Continuous features and two noisy classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    score = x[:, :5].sum(axis=1) + x[:, 5] * x[:, 6] + rng.normal(size=n_rows)
    return x, (score > 0).astype(np.int64)


def with_class_vectors(split: Split, n_vectors: int = 4) -> tuple[Array, Array]:
    """The features of a second layer: the raw ones and ``n_vectors`` out-of-bag class vectors."""
    from deepforest.forest import HistForestClassifier

    vectors = []
    for seed in range(n_vectors):
        splitter = "best" if seed % 2 == 0 else "completely_random"
        model = HistForestClassifier(100, splitter=splitter, oob_score=True, random_state=seed).fit(split.x, split.y)
        vectors.append(np.nan_to_num(model.oob_decision_function_).astype(np.float32))
    return np.hstack([split.x, *vectors]), split.y
