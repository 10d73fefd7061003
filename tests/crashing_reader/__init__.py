"""A table whose reader crashes: its process really ends by ``SIGABRT`` while it opens the file.

A damaged Parquet file once did the same, until pyarrow learned to refuse it. ``sitecustomize.py``
in this folder does not depend on such a bug. Python loads it in processes that have this folder on
``PYTHONPATH``, and it acts only in those that the sandbox starts to read files.
"""

from __future__ import annotations

import os
from pathlib import Path

NAME = "crash.csv"
"""A file of this name crashes its reader."""
CONTENT = "a,b\n1,2\n3,4\n"


def environment() -> dict[str, str]:
    """Return the variables of a process whose sandbox crashes at such a file."""
    folders = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
