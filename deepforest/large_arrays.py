"""Hold large arrays in files mapped into memory, so that a table may be larger than the memory.

Inside of ``large_arrays_in(folder)`` an array of many bytes is backed by a file of that folder: the
system writes it to disk when memory is short, and it does not count for the memory limit of the
process. Smaller arrays, and all arrays outside of such a block, are in memory. The values are the
same, and so is everything that is computed from them.

The files have no name: their space is free again when the array is, also if the process is killed.

- ``large_arrays_in``  says where large arrays go, and which are large
- ``empty``, ``zeros``, ``missing``, ``beside``, ``by_row``  make an array
- ``take``             copies some rows or columns of a matrix
- ``blocks``           divides rows into blocks
- ``new_file``         names a file for large data that are not an array
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Order = Literal["C", "F"]

HIDDEN = ".large-"
"""How a file is named for the moment that it has a name; hidden files are never copied."""
BLOCK_BYTES = 16 << 20
"""Bytes that are copied at a time."""


class _Place:
    """Hold the folder of the innermost block, and the bytes from which an array is large."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.least = inf


_place = _Place()


@contextmanager
def large_arrays_in(folder: str | Path, least: float) -> Iterator[None]:
    """Let arrays of at least so many bytes be files in ``folder``.

    This holds for all threads of the process, so that the threads of a fit see it. It should not be
    used by two fits at the same time that want different folders.
    """
    before = _place.folder, _place.least
    _place.folder, _place.least = Path(folder), least
    try:
        yield
    finally:
        _place.folder, _place.least = before


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike, order: Order = "C") -> Array:
    """Return an array whose values are not set.

    Raise ``OSError`` if its file does not fit on the disk.
    """
    lengths = (shape,) if isinstance(shape, int) else shape
    kind = np.dtype(dtype)
    size = int(np.prod(lengths, dtype=np.int64)) * kind.itemsize
    if _place.folder is None or size < _place.least or not size:
        return np.empty(lengths, kind, order)
    return np.ndarray(lengths, kind, _mapped(_place.folder, size), order=order)


def _mapped(folder: Path, size: int) -> mmap.mmap:
    """Return the memory of a new file without a name; it holds zeros."""
    _require_space(folder, size)
    with tempfile.TemporaryFile(dir=folder, prefix=HIDDEN, buffering=0) as file:
        # Reserved now: a disk that is full later would end the process with a signal.
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)


def _require_space(folder: Path, size: int) -> None:
    """Raise ``OSError`` unless the disk has so many bytes."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return an array of zeros."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def missing(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return an array of NaN."""
    array = empty(shape, dtype)
    array.fill(np.nan)
    return array


def new_file(size: int) -> Path | None:
    """Return the path of a new file for so many bytes; None if they should stay in memory.

    The caller removes the file. Raise ``OSError`` if it does not fit on the disk.
    """
    if _place.folder is None or size < _place.least:
        return None
    _require_space(_place.folder, size)
    return _place.folder / f"{HIDDEN}{uuid.uuid4().hex}"


def blocks(n_rows: int, row_bytes: int) -> Iterator[slice]:
    """Yield slices of rows that take about ``BLOCK_BYTES`` each."""
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def take(values: Array, rows: Array | None = None, columns: Array | None = None) -> Array:
    """Return a copy of some rows and some columns of a matrix; None means all of them."""
    n_rows = len(values) if rows is None else len(rows)
    width = values.shape[1] if columns is None else len(columns)
    part = empty((n_rows, width), values.dtype)
    for block in blocks(n_rows, values.shape[1] * values.itemsize):
        some = values[block if rows is None else rows[block]]
        part[block] = some if columns is None else some[:, columns]
    return part


def by_row(matrices: Sequence[Array]) -> Array:
    """Return matrices side by side, stored by row; a single one is copied only if necessary."""
    if len(matrices) == 1 and matrices[0].flags.c_contiguous:
        return matrices[0]
    return beside(matrices)


def beside(matrices: Sequence[Array]) -> Array:
    """Return matrices side by side, as ``numpy.hstack`` does."""
    width = sum(each.shape[1] for each in matrices)
    whole = empty((len(matrices[0]), width), np.result_type(*matrices))
    for block in blocks(len(whole), width * whole.itemsize):
        np.concatenate([each[block] for each in matrices], axis=1, out=whole[block])
    return whole
