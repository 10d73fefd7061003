"""Compiling the numeric kernels with numba, kept on disk so that the next process starts at once.

numba keeps compiled code beside the source, or in the user's cache folder when the package folder is read-only. Where
neither can be written the kernels are compiled in memory, for this process only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile ``function`` to machine code that runs without the interpreter lock."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder it may write to
        compiled = numba.njit(**options)(function)
    return cast(Function, compiled)


def inlined(function: Function) -> Function:
    """Compile ``function`` as a part of the kernels that call it, at no cost a call."""
    compiled = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return cast(Function, compiled)
