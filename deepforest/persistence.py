"""Write models as folders: arrays as ``.npz``, LightGBM's trees as text, everything else as JSON.

Nothing is ever unpickled. A folder has a manifest, ``forest.json``, and the files of its packs. The
manifest holds the hash of every file and of itself, so that a changed file is found.

- ``Pack``                         one fitted part as plain data
- ``write_model``, ``read_model``  a description and its packs
- ``BrokenModel``                  raised for a folder that does not hold a complete model
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FORMAT = "sylva-forest"
VERSION = 1
MANIFEST = "forest.json"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
NO_ARRAYS = (
    ValueError,
    TypeError,
    EOFError,
    MemoryError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and zipfile raise for a file that does not hold arrays."""


class BrokenModel(ValueError):
    """Report a folder without a usable model: a file is missing, changed, or of a newer version."""


@dataclass(frozen=True)
class Pack:
    """Hold a fitted part as plain data: JSON, arrays, and perhaps LightGBM's text."""

    about: dict[str, Any] = field(default_factory=dict)
    """Small values that the manifest stores as JSON."""
    arrays: Mapping[str, Array] = field(default_factory=dict)
    text: str = ""


def write_model(
    folder: str | Path, description: Mapping[str, Any], packs: Mapping[str, Pack]
) -> None:
    """Write ``description`` and ``packs`` into ``folder``, which is created if necessary.

    Names of packs become file names and must match ``NAME``. Every file is synced to the disk.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    # The manifest goes first and comes last: a folder without one does not count as a model, so a
    # kill in between leaves nothing that could be read half.
    (target / MANIFEST).unlink(missing_ok=True)
    hashes = {}
    for name, pack in packs.items():
        for file in _write_pack(target, name, pack):
            hashes[file] = _hash(target / file)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "model": dict(description),
        "packs": {name: pack.about for name, pack in packs.items()},
        "sha256": hashes,
    }
    text = json.dumps({"content": content, "sha256": _hash_text(_canonical(content))}, indent=1)
    _write_synced(target / MANIFEST, text.encode())


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, Pack]]:
    """Return the description and the packs that ``write_model`` wrote.

    Raise ``BrokenModel`` with the name of the first file that is missing, changed or too new.
    """
    source = Path(folder)
    content = _read_manifest(source / MANIFEST)
    for file, digest in content["sha256"].items():
        # A manifest from elsewhere must not name files outside of its folder.
        if not NAME.fullmatch(Path(file).stem) or Path(file).name != file:
            raise BrokenModel(f"{source / MANIFEST} names {file!r}, which is not a file of a model")
        if not (source / file).is_file():
            raise BrokenModel(f"{source / file} is missing")
        if _hash(source / file) != digest:
            raise BrokenModel(f"{source / file} was changed after it was written")
    packs = {}
    for name, about in content["packs"].items():
        packs[name] = _read_pack(source, name, about, content["sha256"])
    return content["model"], packs


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a manifest; raise ``BrokenModel`` if it is damaged or too new."""
    if not path.is_file():
        raise BrokenModel(f"{path.parent} does not hold a model: {MANIFEST} is missing")
    try:
        document = json.loads(path.read_text("utf-8"))
        content = document["content"]
        known, version = content["format"] == FORMAT, int(content["version"])
        # Reported only after the version: a newer format may compute it in another way.
        intact = _hash_text(_canonical(content)) == document["sha256"]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenModel(f"{path} does not describe a model") from error
    if not known:
        raise BrokenModel(f"{path} does not describe a forest")
    if version > VERSION:
        raise BrokenModel(
            f"{path} has version {version}; this program reads up to version {VERSION}"
        )
    if not intact:
        raise BrokenModel(f"{path} was changed after it was written")
    if not all(isinstance(content.get(part), dict) for part in ("model", "packs", "sha256")):
        raise BrokenModel(f"{path} does not describe a model")
    return dict(content)


def _write_pack(folder: Path, name: str, pack: Pack) -> list[str]:
    """Write the files of a pack and return their names; without arrays and text it has no files."""
    files = []
    if pack.arrays:
        # ``np.savez`` does not compress: ``_check_stored`` relies on it.
        files.append(f"{name}.npz")
        with (folder / files[-1]).open("wb") as file:
            np.savez(file, allow_pickle=False, **pack.arrays)
            file.flush()
            os.fsync(file.fileno())
    if pack.text:
        files.append(f"{name}.txt")
        _write_synced(folder / files[-1], pack.text.encode())
    return files


def _read_pack(folder: Path, name: str, about: dict[str, Any], files: Mapping[str, str]) -> Pack:
    """Return a pack; raise ``BrokenModel`` if a file of it has the wrong format."""
    arrays: dict[str, Array] = {}
    if f"{name}.npz" in files:
        path = folder / f"{name}.npz"
        try:
            _check_stored(path)
            with np.load(path, allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
        except NO_ARRAYS as error:
            raise BrokenModel(f"{folder / name}.npz does not hold plain arrays") from error
    text = ""
    if f"{name}.txt" in files:
        try:
            text = (folder / f"{name}.txt").read_text("utf-8")
        except UnicodeDecodeError as error:
            raise BrokenModel(f"{folder / name}.txt is not UTF-8 text") from error
    return Pack(about, arrays, text)


def _check_stored(path: Path) -> None:
    """Raise ``ValueError`` if the arrays need more memory than the file has bytes.

    Our own files are not compressed; a small compressed file could fill the memory.
    """
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("it is compressed")
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise ValueError("it claims to hold more than it does")


def _write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _canonical(content: Any) -> str:
    """Return the JSON text whose hash the manifest holds; the order of keys does not matter."""
    return json.dumps(content, sort_keys=True)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
