"""Compiling the numeric kernels with numba, kept on disk so that the next process starts at once.

numba keeps compiled code beside the source, or in the user's cache folder when the package folder is read-only. Where
neither can be written the kernels are compiled in memory, for this process only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


# Kernels own no memory: all arrays are given to them. Without reference counting, reading an array out of a tuple costs
# nothing; with it, the counting took more time than the work.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: Function) -> Function:
    """Compile ``function`` to machine code that runs without the interpreter lock."""
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba found no folder it may write to
        compiled = numba.njit(**_OPTIONS)(function)
    return cast(Function, compiled)


# Parts of kernels are never called from Python: they need no way in from there, which would take long to compile.
_INNER: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def part(function: Function) -> Function:
    """Compile ``function`` as a part of kernels; it stays a function of its own if it calls ``stay_apart()``."""
    return cast(Function, numba.njit(forceinline=False, **_INNER)(function))


def inlined(function: Function) -> Function:
    """Compile ``function`` as a part of the kernels that call it, at no cost a call."""
    return cast(Function, numba.njit(forceinline=True, **_INNER)(function))


def inlined_sums(function: Function) -> Function:
    """The same, for sums that may be added up in any order: the compiler then adds several at a time."""
    flags = {"reassoc", "contract", "nsz"}
    return cast(Function, numba.njit(forceinline=True, fastmath=flags, **_INNER)(function))


def _stay_apart(context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return numba.types.none(), generate


# Called in a part, it keeps the compiler from merging the part into its caller. Hot loops want to be apart: in one
# large function the registers run out, and loops read from memory what they need at every step.
stay_apart: Any = intrinsic(_stay_apart)
