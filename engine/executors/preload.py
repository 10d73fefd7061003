"""Load slow modules once, in the process from which others are forked."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterable


def preload(modules: Iterable[str]) -> None:
    """Load what is not loaded yet. What cannot be loaded fails the node that needs it, later, with its own message."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name} could not be loaded ahead of time: {error}", file=sys.stderr, flush=True)
    if not missing:
        return
    if "pyarrow" in sys.modules:
        # At its first conversion Arrow looks for pandas and loads it where it is installed; else every worker would.
        sys.modules["pyarrow"].scalar(0)
    # A collection in a worker would touch, and so copy, every page it shares with this process.
    gc.collect()
    gc.freeze()
