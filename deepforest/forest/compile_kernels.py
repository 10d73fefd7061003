"""Compile the forest kernels for this machine: ``python -m deepforest.forest.compile_kernels``.

Kernels that are saved already are not compiled again. The two parts are compiled at the same time
if the machine has two processors.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys

from .kernel_cache import COUNTS, PARTS, file_lock, is_ready, mark_ready, start_compiling

BACKGROUND_NICENESS = 10
PR_SET_PDEATHSIG = 1
ROWS = 600  # more than there are bins, so that quantiles are needed
CLASSES = 3


def main() -> None:
    """Compile the parts that are named on the command line, by default all."""
    parser = argparse.ArgumentParser(
        prog="compile_kernels", description="Compile the forest kernels."
    )
    parser.add_argument("parts", nargs="*", help=f"some of: {', '.join(PARTS)}; by default all")
    parser.add_argument("--background", action="store_true", help="let other processes go first")
    parser.add_argument(
        "--parent", type=int, metavar="PID", help="end when this process, which started it, ends"
    )
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; name some of {', '.join(PARTS)}")
    if chosen.parent:
        _end_with(chosen.parent)
    if chosen.background:
        os.nice(BACKGROUND_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    compile_parts([part for part in chosen.parts or PARTS if not is_ready(part)])


def _end_with(parent: int) -> None:
    """Let Linux end this process when its parent ends for any reason, so that none is left over."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the kernel knew
        sys.exit()


def compile_parts(parts: list[str]) -> None:
    """Compile the first part in this process and each other part in its own process.

    With a single processor all parts are compiled here, one after the other.
    """
    at_once = len(os.sched_getaffinity(0)) > 1
    others = [start_compiling(part, "--parent", str(os.getpid())) for part in parts[1:] if at_once]
    for part in parts[:1] if at_once else parts:
        compile_part(part)
    for other in others:
        other.wait()


def compile_part(part: str) -> None:
    """Compile and save the kernels of ``part``, unless another process has done so meanwhile.

    While another process compiles the same part, wait for it instead of doing the work twice.
    """

    def say_waiting() -> None:
        print("Another process is compiling them; waiting for it.", file=sys.stderr, flush=True)

    with file_lock(part, say_waiting):
        if not is_ready(part):
            use_kernels(part)
            mark_ready(part)


def use_kernels(part: str) -> None:
    """Grow and use small forests, so that every kernel is called with every type of array it gets.

    Numba compiles a kernel when it is first called with new types.
    """
    import numpy as np

    from ..arithmetic import class_probabilities, row_products
    from .binning import Binner
    from .forest import ForestSettings, grow_forest

    values = np.random.default_rng(0).normal(size=(ROWS, 4))
    settings = ForestSettings(n_trees=2, max_depth=2)
    for matrix in (values, values.astype(np.float32)):
        binned = Binner().fit(matrix).bin(matrix)
    labels = (values[:, 0] > 0) + (values[:, 1] > 0).astype(np.int64)
    ones = None if part == COUNTS else np.ones(ROWS)
    grown = grow_forest(
        binned, labels, settings, n_classes=CLASSES, out_of_bag=True, sample_weight=ones
    )
    forests = [grown.forest]
    if part != COUNTS:  # a number as the target is summed like a weight
        forests.append(grow_forest(binned, values[:, 0], settings, out_of_bag=True).forest)
    for forest in forests:
        forest.predict(binned.rows)
        forest.leaves(binned.rows)
        forest.contributions(binned.rows)
    if part == COUNTS:
        for dtype in (np.float32, np.float64):
            for n_outputs in (1, CLASSES):
                scores = row_products(
                    values.astype(dtype), np.ones((4, n_outputs), dtype), np.zeros(n_outputs, dtype)
                )
        class_probabilities(scores)


if __name__ == "__main__":
    main()
