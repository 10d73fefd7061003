"""Columns of a few different values, categories and class labels alike, and their numbers.

A value's name is its text: ``1``, ``1.0`` and ``"1"`` are one level. Dictionary columns are worked on through their
dictionary, so that a column of millions of rows is never turned into millions of texts.

- ``level_counts``  the different values and how often each occurs
- ``level_codes``   each row's position in a list of levels
- ``class_names``   the classes of a target column, in natural order
- ``class_codes``   each row's class; values that are no class are refused by name
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import listed
from engine.values import kind_of
from nodes.data.column_types import natural_order

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MISSING = -1
MOST_QUANTITIES = 100


def level_counts(column: pa.ChunkedArray) -> dict[str, int]:
    """How often each value occurs, by its name; missing values are not counted."""
    import pyarrow as pa

    counts: Counter[str] = Counter()
    for chunk in column.chunks:
        is_dictionary = pa.types.is_dictionary(chunk.type)
        counted = (chunk.indices if is_dictionary else chunk).value_counts()
        values = counted.field("values")
        names = as_text(chunk.dictionary).take(values) if is_dictionary else as_text(values)
        for name, count in zip(names.to_pylist(), counted.field("counts").to_pylist(), strict=True):
            if name is not None:
                counts[name] += count
    return dict(counts)


def level_codes(column: pa.ChunkedArray, levels: Sequence[str]) -> np.ndarray:
    """Each row's position in ``levels``; ``MISSING`` for a missing value and for one that is not among them."""
    import numpy as np
    import pyarrow as pa

    codes, start, known = np.empty(len(column), np.int32), 0, pa.array(levels, pa.string())
    for chunk in column.chunks:
        codes[start : start + len(chunk)] = _chunk_codes(chunk, known)
        start += len(chunk)
    return codes


def as_text(values: pa.Array) -> pa.Array:
    """Names of plain values: whole numbers without a decimal point, NaN missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values.cast(pa.string())


def class_names(target: pa.ChunkedArray, name: str) -> list[str]:
    """The classes that occur in a target column, in natural order."""
    kind = kind_of(target.type)
    if kind == "time":
        raise BadInput(f"the target '{name}' is a time; a classifier needs classes")
    names = natural_order(level_counts(target))
    if kind == "number" and len(names) > MOST_QUANTITIES and not all(map(_is_whole, names)):
        raise BadInput(
            f"the target '{name}' holds {len(names):,} different numbers, a quantity rather than classes; "
            "choose another target or group it into classes first"
        )
    return names


def class_codes(target: pa.ChunkedArray, classes: Sequence[str]) -> np.ndarray:
    """Each row's class number, ``MISSING`` where there is no value; ``BadInput`` names values that are no class."""
    unknown = level_counts(target).keys() - set(classes)
    if unknown:
        raise BadInput(
            f"the target holds {listed(natural_order(unknown))}, which the model has not learned; "
            f"it knows {listed(classes)}"
        )
    return level_codes(target, classes)


def _chunk_codes(chunk: pa.Array, known: pa.Array) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(chunk.type):
        return pc.index_in(as_text(chunk), known, skip_nulls=True).fill_null(MISSING).to_numpy(zero_copy_only=False)
    of_entry = pc.index_in(as_text(chunk.dictionary), known, skip_nulls=True)
    return of_entry.take(chunk.indices).fill_null(MISSING).to_numpy(zero_copy_only=False)


def _is_whole(number: str) -> bool:
    return float(number).is_integer()
