"""Recognise the same rows in results of different models, without keeping the rows.

A result has a digest of the true classes and of some columns. Models may read different columns of
the same rows, so only columns that both have are compared.

- ``column_digests``  the digests of the first columns of a table that hold numbers
- ``row_digests``     what an evaluation stores about its rows
- ``same_rows``       whether two evaluations have the same rows
- ``parts_digest``    tells apart two ways to divide rows into parts
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_COLUMNS = 32
"""Enough to tell rows apart, and few enough for a report."""


def column_digests(data: pa.Table) -> dict[str, str]:
    """Return the digests of the first columns that hold numbers or times, by name."""
    digests: dict[str, str] = {}
    for name, column in zip(data.column_names, data.columns, strict=True):
        if len(digests) == MAX_COLUMNS:
            break
        values = column.to_numpy() if _is_plain(column.type) else None
        # A column with missing values may become one of Python objects.
        if values is not None and values.dtype.kind in "biufM":
            digests[name] = _digest(values.tobytes())
    return digests


def row_digests(
    truth: np.ndarray, classes: Sequence[str], columns: Mapping[str, str]
) -> dict[str, Any]:
    """Return what identifies evaluated rows: their classes in order, and digests of columns."""
    # Predicted numbers have no class numbers; their truth is the number itself.
    codes = truth.astype("<f8" if truth.dtype.kind == "f" else "<i4").tobytes()
    return {"classes": _digest("\0".join(classes).encode() + codes), "columns": dict(columns)}


def same_rows(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two results of ``row_digests`` are of the same rows in the same order.

    The classes must agree, and every column that both have.
    """
    columns, others = first["columns"], second["columns"]
    common = [name for name in columns if name in others]
    agree = all(columns[name] == others[name] for name in common)
    return agree and bool(first["classes"] == second["classes"])


def parts_digest(parts: Iterable[np.ndarray]) -> str:
    """Return a digest of parts of a table, each given by the numbers of its rows."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part.astype("<i8").tobytes())
    return digest.hexdigest()


def _is_plain(arrow_type: pa.DataType) -> bool:
    """Return whether a column has values of a fixed size, which are fast to read."""
    import pyarrow.types as types

    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_timestamp
    return any(test(arrow_type) for test in tests)


def _digest(content: bytes) -> str:
    """Return a short digest: few sets of rows have to be distinguished."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()
