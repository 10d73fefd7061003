"""Compile the numeric kernels with numba and save them, so that the next process starts at once.

``kernel_cache`` defines the folder. If nothing can be saved, the kernels are compiled in memory
for this process only.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, cast

import numba
from numba.core import caching
from numba.extending import intrinsic

from .kernel_cache import file_lock, kernel_folder, release_lock, take_lock

Function = TypeVar("Function", bound=Callable[..., Any])
_numba: Any = caching  # numba has no types for mypy


# Kernels allocate no memory: all arrays are passed to them. Without reference counting, reading an
# array from a tuple costs nothing; with it, the counting took more time than the work.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: Function) -> Function:
    """Compile ``function`` to machine code that runs without the interpreter lock."""
    compiled = numba.njit(**_OPTIONS)(function)
    with contextlib.suppress(RuntimeError):  # there is no folder that may be used
        compiled._cache = _KernelCache(function)
    return cast(Function, compiled)


class _Locator(_numba.UserWideCacheLocator):  # type: ignore[misc]
    """Put the code of all kernels into the folder of the kernels."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(kernel_folder())

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        return super().from_function(function, file) if kernel_folder() else None


class _CacheImpl(_numba.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes: ClassVar = [_Locator]


class _KernelCache(_numba.FunctionCache):  # type: ignore[misc]
    """Save the code of one kernel.

    If several processes need the same code, one compiles it and the others wait.
    """

    _impl_class = _CacheImpl

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._lock: int | None = None

    # The compiler calls these two under a lock of its own: one thread at a time.

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Load the code; if there is none, hold the lock until it is saved."""
        release_lock(self._lock)  # still held if the last compilation failed
        self._lock = None
        code = self._read(signature, context)
        if code is not None:
            return code
        name = hashlib.sha256(f"{self._name_of_function} {signature}".encode()).hexdigest()[:16]
        self._lock = take_lock(name)
        # Another process may have saved the code while this one waited for the lock.
        return self._read(signature, context)

    def save_overload(self, signature: Any, code: Any) -> None:
        """Save the code. If that fails, for instance on a full disk, this process still has it."""
        with contextlib.suppress(OSError), file_lock("index"):
            super().save_overload(signature, code)
        release_lock(self._lock)
        self._lock = None

    @property
    def _name_of_function(self) -> str:
        return f"{self._py_func.__module__}.{self._py_func.__qualname__}"

    def _read(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except OSError:
            return None
        # Damaged, or saved by code that is not here: forget it and compile again.
        except (EOFError, ImportError, AttributeError, pickle.UnpicklingError):
            with contextlib.suppress(OSError), file_lock("index"):
                self.flush()
            return None


# Parts of kernels are never called from Python. Wrappers for such calls would take long to compile.
_INNER: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def part(function: Function) -> Function:
    """Compile ``function`` as a part of kernels; if it calls ``stay_apart()``, not inlined."""
    return cast(Function, numba.njit(forceinline=False, **_INNER)(function))


def inlined(function: Function) -> Function:
    """Compile ``function`` into the kernels that call it, so that a call costs nothing."""
    return cast(Function, numba.njit(forceinline=True, **_INNER)(function))


def inlined_sums(function: Function) -> Function:
    """Compile like ``inlined``, for sums that may be added up in any order.

    The compiler then adds several numbers at a time.
    """
    flags = {"reassoc", "contract", "nsz"}
    return cast(Function, numba.njit(forceinline=True, fastmath=flags, **_INNER)(function))


def _stay_apart(context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return numba.types.none(), generate


# A call of this in a part keeps the compiler from merging the part into its caller. Hot loops are
# faster in a function of their own: in one large function the registers run out, and the loops read
# from memory what they need at every step.
stay_apart: Any = intrinsic(_stay_apart)
