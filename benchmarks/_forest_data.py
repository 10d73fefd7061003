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


class Noise(NamedTuple):
    """Rows whose labels have nothing to do with the columns."""

    x: Array
    y: Array
    groups: Array | None = None


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
    columns = [column_numbers(table.column(name)) for name in table.column_names]
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


def column_numbers(column: Any) -> Array:
    """Return the numbers of an Arrow column, or the codes of its texts in alphabetical order."""
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


def wide(n_rows: int, n_features: int, seed: int = 0) -> tuple[Array, Array]:
    """Return float32 features and two classes, without a copy that would count in the memory."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    score = x[:, :20].sum(axis=1) + 3 * rng.normal(size=n_rows)
    return x, (score > 0).astype(np.int64)


# Real tables with the most rows that are used of each, and generated ones.
NOISE_ROWS = {
    "mammography": 20_000,
    "bank_marketing": 4000,
    "adult": 4000,
    "german_numeric": 4000,
    "coarse": 2000,
    "repeated": 2000,
    "repeated, grouped": 2000,
    "repeated, not grouped": 2000,
    "1,000 columns": 1000,
}


def load_noise(name: str, seed: int, max_rows: int | None = None) -> Noise:
    """Return a table of ``NOISE_ROWS`` whose labels are permuted or drawn at random.

    "coarse" has few different values. In "repeated" each row occurs four times, each time with a
    label of its own: there is nothing to learn. In "repeated, grouped" and "repeated, not grouped"
    the four have the same label, as four records of one customer would.
    """
    rng = np.random.default_rng([seed, 12])
    n_rows = min(NOISE_ROWS[name], max_rows or NOISE_ROWS[name])
    if name == "coarse":
        return Noise(rng.integers(0, 3, (n_rows, 8)).astype(np.float32), rng.integers(0, 2, n_rows))
    if name == "1,000 columns":
        # Fewer columns too if fewer rows are asked for: most of the time is spent on selecting.
        x = rng.standard_normal((n_rows, n_rows), dtype=np.float32)
        return Noise(x, rng.integers(0, 2, n_rows))
    if name.startswith("repeated"):
        row = np.repeat(np.arange(n_rows // 4), 4)
        x = rng.standard_normal((n_rows // 4, 10), dtype=np.float32)[row]
        if name == "repeated":
            return Noise(x, rng.integers(0, 2, len(x)))
        y = rng.integers(0, 2, n_rows // 4)[row]
        return Noise(x, y, row if name == "repeated, grouped" else None)
    split = load_split(name, 0)
    x, y = np.vstack([split.x, split.x_test]), np.concatenate([split.y, split.y_test])
    rows = rng.permutation(len(y))[:n_rows]
    # Another permutation for the labels: they are those of other rows.
    return Noise(x[rows], y[rng.permutation(rows)])


def some_rows(split: Split, n_rows: int | None, seed: int = 0) -> Split:
    """Return at most ``n_rows`` training rows and as many test rows, drawn by ``seed``."""
    if n_rows is None:
        return split
    rng = np.random.default_rng(seed)
    train = rng.permutation(len(split.y))[:n_rows]
    test = rng.permutation(len(split.y_test))[:n_rows]
    return Split(
        split.x[train], split.y[train], split.x_test[test], split.y_test[test], split.official
    )


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
