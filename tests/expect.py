"""Assertions on what was refused and where, not on how the message is worded.

A test that repeats a sentence of the product breaks whenever the sentence gets better. All
sentences are in ``tests/messages.txt``; a test names the class of the error, its node and field,
and which values (a column, a file, a number) the message must name.

- ``refused``   a block that must raise an error of a class, at a field, that names values
- ``problems``  the problems of a pipeline, compared by class, node and field
- ``assert_same_bits``  two arrays that must be equal to the last bit
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from engine.errors import BadInput, Problem

ANY = "any field"
"""The value of ``field`` that accepts every field, and an error that has none."""


@contextmanager
def refused(
    error: type[Exception] = BadInput, *, field: str | None = ANY, naming: Iterable[object] = ()
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Assert that the block raises ``error`` or a subclass of it.

    ``field`` is what the error's ``field`` must be; None stands for an error without a field.
    ``naming`` are the values that the message must hold. A text is one value: ``naming="x.csv"``.

    >>> with refused(field="source", naming=["sales.csv"]):
    ...     raise BadInput("the file 'sales.csv' is empty", field="source")
    """
    with pytest.raises(error) as caught:
        yield caught
    if field is not ANY:
        found = getattr(caught.value, "field", None)
        assert found == field, f"expected field {field!r}, found {found!r}: {caught.value}"
    values = [naming] if isinstance(naming, str) else list(naming)
    missing = [value for value in values if str(value) not in str(caught.value)]
    assert not missing, f"the message does not name {missing}: {caught.value}"


def problems(
    found: Iterable[Problem], *expected: tuple[type[Problem], str | None, str | None]
) -> None:
    """Assert that ``found`` are the problems ``expected``: (class, node, field), in order."""
    found = list(found)
    places = [(type(each), each.node, each.field) for each in found]
    assert places == list(expected), "\n".join(map(str, found))


def assert_same_bits(one: Any, other: Any, case: str = "") -> None:
    """Assert that two arrays have the same shape, type and bytes."""
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    assert (one.shape, one.dtype) == (other.shape, other.dtype), case
    assert one.tobytes() == other.tobytes(), f"{case}: up to {np.abs(one - other).max()} apart"
