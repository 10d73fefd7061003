"""Convert what estimators get as X, y and weights into matrices of numbers, and check it.

An array is taken as it is. A data frame (pandas, or anything with ``columns``, ``dtypes`` and
``iloc``) may have columns of categories, strings, booleans and missing values: such a column
becomes the number of its level, and counts as categorical.

- ``TabularEstimator``  base of every estimator here: reads X, y and weights
- ``TableReader``       learns the levels of a table's columns and converts tables to matrices
- ``fill_by_block``     computes an array by blocks of rows, in several threads
- ``keep_arguments``, ``check_whole``, ``checked_weights``  arguments: set, check, scale
- ``json_param``, ``read_params``, ``describe_classes``, ``read_classes``  parameters and classes
  as JSON, and back
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from ._renamed import LEARNER_NAMES, with_new_names

Array = npt.NDArray[Any]

BLOCK_ROWS = 16_384
# Missing values are allowed everywhere: bins and LightGBM handle them.
ARRAYS: dict[str, Any] = {
    "accept_sparse": ["csr", "csc"],
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",
}
"""What scikit-learn's ``validate_data`` lets through."""


@contextmanager
def _explaining_text() -> Iterator[None]:
    """Replace scikit-learn's error for an array of text by one that says how to pass text."""
    try:
        yield
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        raise ValueError(
            f"X is an array that holds text ({error}); give a data frame, where text is a category"
        ) from None


def _dense(values: Any) -> Array:
    """Return a dense array. Bins take one byte per value, so sparse storage would save nothing."""
    return np.asarray(values.toarray() if issparse(values) else values)


def is_table(data: Any) -> bool:
    """Return whether ``data`` is a data frame rather than an array."""
    return hasattr(data, "columns") and hasattr(data, "dtypes") and hasattr(data, "iloc")


class TableReader:
    """Convert tables with known columns; ``levels`` holds for each column its categories by code.

    A column of numbers has None in place of levels.
    """

    def __init__(self, names: list[str], levels: list[list[Any] | None]) -> None:
        self.names = names
        self.levels = levels

    @classmethod
    def learn(cls, table: Any) -> TableReader:
        """Return a reader with the column names and levels of ``table``."""
        columns = [table.iloc[:, j] for j in range(table.shape[1])]
        return cls([str(name) for name in table.columns], [_levels(column) for column in columns])

    @property
    def categorical(self) -> Array:
        """Which columns hold categories, as flags."""
        return np.array([levels is not None for levels in self.levels], bool)

    def read(self, table: Any) -> Array:
        """Return ``table`` as numbers: codes of levels, NaN where a value is missing or unknown.

        Raise ``ValueError`` if the columns are not those of the fit.
        """
        if table.shape[1] != len(self.levels):
            raise ValueError(
                f"the table has {table.shape[1]} columns, but {len(self.levels)} when fitted"
            )
        # In column order, as it is written and as the binner reads it.
        matrix = np.empty(table.shape, np.float64, order="F")
        for j, levels in enumerate(self.levels):
            column = table.iloc[:, j]
            if levels is None:
                matrix[:, j] = _numbers(column, self.names[j])
            elif levels and isinstance(levels[0], str) and _is_numeric(column):
                # Numbers would match no level and silently count as missing.
                raise ValueError(
                    f"column {self.names[j]!r} held text when fitted, now {column.dtype}"
                )
            else:
                matrix[:, j] = _codes(column, levels)
        return matrix


class TabularEstimator(BaseEstimator):  # type: ignore[misc]
    """Read arrays and data frames, with categories and missing values, for all estimators here.

    A subclass has the parameter ``categorical_features``: "from_dtype", None, or a list of columns
    or flags.
    """

    categorical_features: str | Sequence[Any] | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _categorical(self, n_features: int) -> Array:
        """Return which columns are categorical, by the parameter and by the types of a table."""
        requested = self.categorical_features
        by_type: Array = np.zeros(n_features, bool)
        if self.table_ is not None:
            by_type = self.table_.categorical
        if requested is None:
            return by_type
        if isinstance(requested, str):
            if requested != "from_dtype":
                raise ValueError(
                    f"categorical_features is {requested!r}; give 'from_dtype', None or a list"
                )
            return by_type
        flags = np.asarray(requested)
        if flags.dtype == bool:
            if len(flags) != n_features:
                raise ValueError(
                    f"categorical_features has {len(flags)} flags for {n_features} features"
                )
            by_type |= flags
            return by_type
        by_type[[self._column_number(column, n_features) for column in requested]] = True
        return by_type

    def _column_number(self, column: Any, n_features: int) -> int:
        """Return the position of a column that ``categorical_features`` names."""
        if isinstance(column, str):
            names = list(getattr(self, "feature_names_in_", []))
            if column not in names:
                raise ValueError(
                    f"categorical_features names {column!r}, which is not a column of X"
                )
            return names.index(column)
        if not 0 <= column < n_features:
            raise ValueError(f"categorical_features names column {column}; X has {n_features}")
        return int(column)

    def _read_fit(self, x: Any, y: Any) -> tuple[Array, Array]:
        """Return X as a matrix and y as a vector, and remember the columns for ``_read``."""
        self.table_: TableReader | None = None
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        y = y.to_numpy() if hasattr(y, "to_numpy") else y
        if is_table(x):
            validate_data(self, x, skip_check_array=True)
            self.table_ = TableReader.learn(x)
            values = check_array(self.table_.read(x), ensure_all_finite="allow-nan", estimator=self)
            y = check_array(y, ensure_2d=False, dtype=None)
            if len(y) != len(values):
                raise ValueError(f"X has {len(values)} rows and y has {len(y)}")
        else:
            with _explaining_text():
                values, y = validate_data(self, x, y, **ARRAYS)
        y = column_or_1d(y, warn=True)
        # Only NaN differs from itself.
        if y.dtype == object and any(label is None or label != label for label in y):
            raise ValueError("y has missing values; leave those rows out")
        return _dense(values), y

    def _read(self, x: Any) -> Array:
        """Return X as a matrix with the columns of the fit."""
        check_is_fitted(self, "n_features_in_")
        if is_table(x):
            validate_data(self, x, skip_check_array=True, reset=False)
            if self.table_ is not None:
                return np.asarray(
                    check_array(self.table_.read(x), ensure_all_finite="allow-nan", estimator=self)
                )
        with _explaining_text():
            return _dense(validate_data(self, x, reset=False, **ARRAYS))


def fill_by_block(
    out: Array,
    compute: Callable[[slice], Array],
    n_jobs: int | None,
    n_rows: int = BLOCK_ROWS,
) -> Array:
    """Fill ``out`` with what ``compute`` returns for each block of ``n_rows``, and return ``out``.

    Memory stays bounded by the block. ``n_jobs`` is joblib's number of threads. ``compute`` must be
    safe to call from several threads; the result does not depend on their number.
    """

    def fill(first: int) -> None:
        block = slice(first, first + n_rows)
        out[block] = compute(block)

    starts = range(0, len(out), n_rows)
    n_threads = min(effective_n_jobs(n_jobs), len(starts))
    if n_threads <= 1:
        for first in starts:
            fill(first)
    else:
        # Threads are enough: the kernels and NumPy release the lock of the interpreter.
        with ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(fill, starts))
    return out


def keep_arguments(estimator: BaseEstimator, arguments: dict[str, Any]) -> None:
    """Set the arguments of ``__init__``, its ``locals()``, as attributes for scikit-learn."""
    for name, value in arguments.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} is {value!r}; give a whole number from {least}")


def checked_weights(sample_weight: Any, values: Array) -> Array:
    """Return sample weights scaled to an average from 1 to 2.

    Only their ratios matter, but some learners fail for very large or small weights. They are
    scaled by a power of two, which is exact. Raise ``ValueError`` if one is negative or all are
    zero.
    """
    weights = np.asarray(_check_sample_weight(sample_weight, values, dtype=np.float64))
    if (weights < 0).any():
        raise ValueError("sample_weight holds a negative weight")
    if not (weights > 0).any():
        raise ValueError("every sample_weight is zero; give at least one row a positive weight")
    # By the largest one first: the sum of the largest floats would overflow in the mean.
    for typical in (np.max, lambda positive: positive.mean()):
        weights = np.ldexp(weights, 1 - np.frexp(typical(weights[weights > 0]))[1])
    return weights


def json_param(name: str, value: Any) -> Any:
    """Return a parameter as JSON; a random state object becomes None."""
    if name == "random_state" and not isinstance(value, int | np.integer):
        return None
    return as_json(value)


def as_json(value: Any) -> Any:
    """Return numbers and lists without NumPy; a mapping as pairs, since JSON keys are strings."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return [[as_json(key), as_json(entry)] for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    return value


def read_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that ``json_param`` wrote."""
    return {name: _read_param(name, value) for name, value in params.items()}


def _read_param(name: str, value: Any) -> Any:
    """Return one parameter; the pairs of ``class_weight`` become a mapping again.

    An earlier version may have saved settings of learners under other names.
    """
    if name == "class_weight" and isinstance(value, list):
        return dict(value)
    if name == "learners" and isinstance(value, list):
        return [with_new_names(learner, LEARNER_NAMES) for learner in value]
    return value


def describe_classes(classes: Array) -> dict[str, Any]:
    """Return classes as JSON, with their type."""
    return {"dtype": classes.dtype.str, "values": classes.tolist()}


def read_classes(description: Mapping[str, Any]) -> Array:
    """Return the classes that ``describe_classes`` described.

    Raise ``ValueError`` for a type that classes cannot have, or if they are not a list of
    different values.
    """
    dtype = np.dtype(description["dtype"])
    if dtype.kind not in "biufUO":
        raise ValueError(f"{description['dtype']} is not a type of classes")
    # The length in the type is not trusted: a wrong one would cut the texts.
    classes = np.array(description["values"], dtype=str if dtype.kind == "U" else dtype)
    if classes.ndim != 1 or len(np.unique(classes)) != len(classes):
        raise ValueError("the classes are not a list of different values")
    return classes


def _is_numeric(column: Any) -> bool:
    return getattr(column.dtype, "kind", "O") in "iuf"


def _levels(column: Any) -> list[Any] | None:
    """Return the different values of a column in the order of their codes, None for numbers."""
    if _is_numeric(column):
        return None
    present = {_plain(value) for value in column.dropna().unique()}
    # A column may mix numbers and texts, which Python cannot compare: numbers come first.
    return sorted(present, key=lambda value: (isinstance(value, str), value))


def _plain(value: Any) -> Any:
    """Return a level as a string, number or boolean, so that it can be written as JSON."""
    if hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, str | int | float | bool) else str(value)


def _codes(column: Any, levels: Sequence[Any]) -> Array:
    """Return the code of each value, NaN for a missing or unknown one."""
    number = {level: code for code, level in enumerate(levels)}
    known = {value: number.get(_plain(value), np.nan) for value in column.dropna().unique()}
    return np.asarray(column.map(known), np.float64)


def _numbers(column: Any, name: str) -> Array:
    """Return a column of numbers; raise ``ValueError`` if it holds something else."""
    try:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} held numbers when fitted, now {column.dtype}") from error
