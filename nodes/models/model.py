"""A trained model: encoder, learner and what is worth knowing about both, kept in a folder without any pickle.

``model.json`` says what the model is and holds its encoder; beside it lie the learner's arrays (``.npy``) and texts.
Loading a model can run no code: arrays of objects are refused, and every file must be a plain one with the hash that
``model.json`` gives. The same training gives the same bytes.

- ``FittedModel``  predicts for tables, saves itself
- ``load_model``   reads a folder back, or says what is wrong with it
- ``describe_model``  only what ``model.json`` says, quickly
- ``model_files``  the files of a folder, none of them a link, a pipe or a device
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import listed
from engine.values import Table
from nodes.models.encoder import TableEncoder
from nodes.models.learners import LEARNERS, Learner
from nodes.models.model_folder import reading_folder, sha256_of

if TYPE_CHECKING:
    import numpy as np

FORMAT, VERSION = "sylva-model", 1
FILE = "model.json"
BLAMED = ("model", "train it again")
CARD = "card.json"
"""Where a saved model keeps which run made it; no part of the model itself."""
FIELDS = (
    "kind",
    "title",
    "classes",
    "features",
    "train_rows",
    "class_weights",
    "params",
    "encoder",
    "learner",
    "files",
)
ROWS_AT_ONCE = 65_536
CELLS_AT_ONCE = 8_000_000
"""Rows that are predicted at once, and numbers of their matrix, at most."""


@dataclass(frozen=True)
class FittedModel:
    """A classifier for tables with the columns it was trained on."""

    title: str
    classes: list[str]
    encoder: TableEncoder
    learner: Learner
    params: Mapping[str, Any]
    """Parameters of the node that trained it."""
    train_rows: int
    class_weights: Mapping[str, float]
    """What a row of each class counted, before weights were scaled to 1 on average; empty if all counted the same."""

    @property
    def rows_at_once(self) -> int:
        """How many rows are predicted at once, so that memory stays bounded; results do not depend on it."""
        return max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // self.encoder.width))

    def predict_proba(
        self, table: Table, threads: int = 1, progress: Callable[[float, str], None] = lambda fraction, text: None
    ) -> np.ndarray:
        """Class probabilities, rows × classes; ``BadInput`` if the table's columns do not fit."""
        import numpy as np

        self.encoder.check(table.data)
        rows = table.data.num_rows
        step = self.rows_at_once
        probabilities = np.empty((rows, len(self.classes)))
        for start in range(0, rows, step):
            progress(start / rows, f"row {start:,} of {rows:,}")
            block = self.encoder.transform(table.data.slice(start, step), self.learner.precision)
            probabilities[start : start + step] = self.learner.predict_proba(block, threads)
        progress(1.0, f"{rows:,} rows")
        return probabilities

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        learned = self.learner.save(folder)
        about = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.learner.kind,
            "title": self.title,
            "classes": self.classes,
            "features": self.encoder.names,
            "train_rows": self.train_rows,
            "class_weights": dict(self.class_weights),
            "params": dict(self.params),
            "encoder": self.encoder.to_json(),
            "learner": learned,
            "files": {path.name: sha256_of(path) for path in sorted(folder.iterdir()) if path.name != FILE},
        }
        text = json.dumps(about, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8", newline="\n")


def load_model(folder: Path) -> FittedModel:
    """The model a folder holds; ``BadInput`` if it is damaged, foreign or from a newer version."""
    about, files = describe_model(folder), model_files(folder)
    with reading_folder(folder, *BLAMED):
        _check_files(files, about["files"])
        if about["kind"] not in LEARNERS:
            raise ValueError(f"there is no learner '{about['kind']}'")
        classes, encoder = about["classes"], TableEncoder.from_json(about["encoder"])
        if about["features"] != encoder.names or any(getattr(column, "levels", 1) == () for column in encoder.columns):
            raise ValueError("the encoder's columns are not those of the model, or one has no levels")
        learner = LEARNERS[about["kind"]].load(folder, about["learner"])
        if learner.shape != (encoder.width, len(classes)):
            raise ValueError(f"encoder, classes and learner do not fit each other {learner.shape}")
        return FittedModel(
            title=about["title"],
            classes=classes,
            encoder=encoder,
            learner=learner,
            params=about["params"],
            train_rows=about["train_rows"],
            class_weights=about["class_weights"],
        )


def _check_files(files: Iterable[Path], digests: Mapping[str, str]) -> None:
    """``ValueError`` unless the files are exactly those that were saved."""
    there = {path.name: path for path in files if path.name not in (FILE, CARD)}
    for name in sorted({*there} ^ {*digests}):
        raise ValueError(f"{name} is {'not a file that was saved' if name in there else 'lost'}")
    for name, path in there.items():
        if sha256_of(path) != digests[name]:
            raise ValueError(f"{name} is not the file that was saved")


def model_files(folder: Path) -> list[Path]:
    """All that lies in a model's folder, sorted; ``BadInput`` if not all of it are plain files.

    Reading a pipe might never end, and a link may lead anywhere.
    """
    files = sorted(folder.iterdir())
    if others := [path.name for path in files if not is_plain(path)]:
        raise BadInput(f"'{folder.name}' is no folder of a model: {listed(others)} is no plain file; remove it")
    return files


def is_plain(path: Path) -> bool:
    """Whether there is a file that can simply be read: no link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def describe_model(folder: Path) -> dict[str, Any]:
    """What ``model.json`` says; ``BadInput`` if there is none or it is not a model of this version."""
    path = folder / FILE
    if not is_plain(path):
        raise BadInput(f"'{folder.name}' holds no model: there is no {FILE} in it, or it is no plain file")
    with reading_folder(folder, *BLAMED):
        about = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise ValueError(f"{FILE} does not describe a model")
        if type(about["version"]) is not int or about["version"] < 1:
            raise ValueError(f"version {about['version']!r} is none")
        if about["version"] == VERSION and (lost := [name for name in FIELDS if name not in about]):
            raise ValueError(f"{FILE} does not give {listed(lost)}")
        if about["version"] == VERSION:
            _check_texts(about)
    if about["version"] > VERSION:
        raise BadInput(
            f"'{folder.name}' holds a model of version {about['version']}, this program reads up to version {VERSION}; "
            "update it, or train the model again"
        )
    return about


def _check_texts(about: Mapping[str, Any]) -> None:
    """``ValueError`` unless the title is a text, and classes and columns are lists of texts, none of them twice."""
    if not isinstance(about["title"], str):
        raise ValueError("the title is no text")
    for field in ("classes", "features"):
        names = about[field]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{field} are no texts")
        if len(set(names)) < len(names):
            raise ValueError(f"{field} name one twice")
