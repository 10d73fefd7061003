"""Load the data of the forest figures: the real sets, if they are there, and generated ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Split(NamedTuple):
    """Training rows and test rows; ``official`` says that the data set itself divides them."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array
    official: bool = True


class NoData(Exception):
    """The data set is not on this machine."""


def data_folder() -> Path:
    """Return the folder of the data sets: ``SYLVA_DATA``, or ``../shared/data``."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    return Path(os.environ.get("SYLVA_DATA", beside))


def load(name: str) -> Split:
    """Return a real data set with its original split, categories as codes."""
    if not (data_folder() / name / "train.parquet").is_file():
        raise NoData(f"no {name} in {data_folder()} (set SYLVA_DATA)")
    return load_split(name, 0)


def load_split(name: str, seed: int) -> Split:
    """Return a real data set with its original split.

    Without one, 70 % of each class, drawn by ``seed``, are training rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [data_folder() / name / f"{part}.parquet" for part in ("train", "test", "all")]
    parts = [pq.read_table(file) for file in files if file.is_file()]
    if not parts:
        raise NoData(f"no {name} in {data_folder()} (set SYLVA_DATA)")
    # Codes of categories and classes must be the same in both parts, so they are joined first.
    table = pa.concat_tables(parts)
    columns = [_numbers(table.column(name)) for name in table.column_names]
    x = np.column_stack(columns[:-1]).astype(np.float32)
    y = np.unique(columns[-1], return_inverse=True)[1]
    if len(parts) == 2:
        n_train = parts[0].num_rows
        return Split(x[:n_train], y[:n_train], x[n_train:], y[n_train:])
    from sklearn.model_selection import train_test_split

    x_train, x_test, y_train, y_test = train_test_split(
        x, y, test_size=0.3, random_state=seed, stratify=y
    )
    return Split(x_train, y_train, x_test, y_test, official=False)


def _numbers(column: Any) -> Array:
    import pyarrow as pa

    if (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_dictionary(column.type)
    ):
        texts = column.to_numpy(zero_copy_only=False).astype(str)
        return np.unique(texts, return_inverse=True)[1].astype(float)
    return np.asarray(column.to_numpy(zero_copy_only=False), float)


def continuous(n_rows: int, n_features: int, seed: int = 0) -> tuple[Array, Array]:
    """Return continuous features and two noisy classes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    score = x[:, :5].sum(axis=1) + x[:, 5] * x[:, 6] + rng.normal(size=n_rows)
    return x, (score > 0).astype(np.int64)


def with_class_vectors(split: Split, n_vectors: int = 4) -> tuple[Array, Array]:
    """Return the features of a second layer: raw ones and ``n_vectors`` out-of-bag vectors."""
    from deepforest.forest import HistForestClassifier

    vectors = []
    for seed in range(n_vectors):
        splitter = "best" if seed % 2 == 0 else "completely_random"
        model = HistForestClassifier(100, splitter=splitter, oob_score=True, random_state=seed)
        model.fit(split.x, split.y)
        vectors.append(np.nan_to_num(model.oob_decision_function_).astype(np.float32))
    return np.hstack([split.x, *vectors]), split.y
