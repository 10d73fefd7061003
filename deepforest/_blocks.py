"""Compute an array block by block of rows, so that memory stays bounded and threads share the work.

- ``fill_by_block``  fills an array, as many blocks at once as there are jobs
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy.typing as npt
from joblib import effective_n_jobs  # type: ignore[import-untyped]

Array = npt.NDArray[Any]

BLOCK_ROWS = 16_384


def fill_by_block(out: Array, compute: Callable[[slice], Array], n_jobs: int | None) -> Array:
    """Fill ``out`` with what ``compute`` returns for the rows of each block, and return ``out``.

    ``n_jobs`` is joblib's number of threads. ``compute`` must be safe to call from several threads;
    the result does not depend on their number.
    """

    def fill(first: int) -> None:
        block = slice(first, first + BLOCK_ROWS)
        out[block] = compute(block)

    starts = range(0, len(out), BLOCK_ROWS)
    n_threads = min(effective_n_jobs(n_jobs), len(starts))
    if n_threads <= 1:
        for first in starts:
            fill(first)
    else:
        # Threads are enough: the kernels and NumPy release the lock of the interpreter.
        with ThreadPoolExecutor(n_threads) as threads:
            list(threads.map(fill, starts))
    return out
