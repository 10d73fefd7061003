"""A model as one file to take along."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from engine.atomic import read_lock
from engine.errors import SylvaError
from engine.text import size
from nodes.models.model import model_files

MOST_ZIPPED = 300_000_000
"""Bytes of a model that is offered for download: the archive passes through memory."""


def zipped(folder: Path) -> bytes:
    """The model's files in a ZIP archive, in a folder of its name; put together on disk."""
    with read_lock(folder), tempfile.TemporaryFile(prefix="sylva-") as held:
        files = model_files(folder)
        total = sum(path.stat().st_size for path in files)
        if total > MOST_ZIPPED:
            raise SylvaError(f"The model has {size(total)}, too much for the browser; copy the folder {folder}.")
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
            for path in files:
                archive.write(path, f"{folder.name}/{path.name}")
        held.seek(0)
        return held.read()
