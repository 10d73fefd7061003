"""Folders of files that outlive the program: models, layers. Whoever reads one trusts nothing in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path

from engine.errors import BadInput


@contextmanager
def reading_folder(folder: Path, what: str, mend: str) -> Iterator[None]:
    """Whatever goes wrong in reading is the folder's fault, and is told so."""
    try:
        yield
    except Exception as error:  # numpy, Arrow and LightGBM raise very different ones
        reason = f"'{error.args[0]}' is not given" if isinstance(error, KeyError) else str(error) or repr(error)
        raise BadInput(f"'{folder.name}' holds no {what} that can be read: {reason}; {mend}") from error


def sha256_of(path: Path) -> str:
    """Hash of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
