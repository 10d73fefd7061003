"""Models as folders: arrays as ``.npy``, everything else as JSON, every file with its hash. Nothing is unpickled.

- ``write_model``, ``read_model``
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FORMAT = "sylva-forest"
VERSION = 1
MANIFEST = "model.json"


def write_model(folder: str | Path, description: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write ``description`` and ``arrays`` into ``folder``, which is made if need be."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    hashes = {}
    for name, array in arrays.items():
        path = target / f"{name}.npy"
        np.save(path, array, allow_pickle=False)
        hashes[name] = _hash(path)
    content = {"format": FORMAT, "version": VERSION, "sha256": hashes, "model": dict(description)}
    text = json.dumps(content, indent=1, allow_nan=True)
    (target / MANIFEST).write_text(json.dumps({"content": content, "sha256": _hash_text(text)}, indent=1), "utf-8")


def read_model(folder: str | Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what ``write_model`` wrote; a changed, missing or newer file is an error that names it."""
    source = Path(folder)
    manifest = source / MANIFEST
    if not manifest.is_file():
        raise FileNotFoundError(f"{source} holds no model: there is no {MANIFEST}")
    document = json.loads(manifest.read_text("utf-8"))
    content = document.get("content", {})
    if content.get("format") != FORMAT:
        raise ValueError(f"{manifest} does not describe a forest")
    if content["version"] > VERSION:
        raise ValueError(f"{manifest} has version {content['version']}; this program reads up to version {VERSION}")
    if _hash_text(json.dumps(content, indent=1, allow_nan=True)) != document["sha256"]:
        raise ValueError(f"{manifest} was changed after it was written")
    arrays = {}
    for name, digest in content["sha256"].items():
        path = source / f"{name}.npy"
        if not path.is_file():
            raise FileNotFoundError(f"{path} is missing")
        if _hash(path) != digest:
            raise ValueError(f"{path} was changed after it was written")
        arrays[name] = np.load(path, allow_pickle=False)
    return content["model"], arrays


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
