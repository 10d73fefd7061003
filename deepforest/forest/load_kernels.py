"""Load the compiled kernels when this module is imported.

A process that is forked after that has them at once. Otherwise each process would load the compiler
when it first calls a kernel, which takes longer than a small fit. Kernels that are not compiled yet
are left to the process that needs them.
"""

from __future__ import annotations

from .compile_kernels import use_kernels
from .kernel_cache import PARTS, is_ready

for part in PARTS:
    if is_ready(part):
        use_kernels(part)
