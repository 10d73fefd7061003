"""Manage the models of a workspace: those that a save-model node has written, or were imported.

A reference names a model, ``fraud``, which means its version in use, or a version, ``fraud@2``.

- ``Registry``    lists, opens and deletes them
- ``ModelEntry``  what is known of one without loading it
- ``open_model``, ``prove_model``  load a model of a folder, here or only in a child process
- ``zip_model``   a model as one file for download
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine import sandbox
from engine.atomic import read_lock
from engine.errors import BadInput, SylvaError
from engine.processes import usable_memory
from engine.text import listed, size, suggest
from engine.workspace import Files, Workspace
from nodes.models.model import (
    FILE,
    FittedModel,
    decision_texts,
    describe_model,
    is_regular_file,
    load_model,
    model_files,
)
from nodes.models.model_card import Card, read_card, saved_at
from nodes.models.versions import NAME, REFERENCE, Versions, card_data, split_reference

OPENING_SECONDS = 600.0
MAX_ZIPPED = 300_000_000
"""Bytes of a model that is offered for download: the archive passes through memory."""


@dataclass(frozen=True)
class ModelEntry:
    """Describe one model of the workspace; with a ``problem``, little else is known."""

    name: str
    title: str = ""
    kind: str = ""
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    rows: int = 0
    """Rows it was trained on."""
    bytes: int = 0
    saved: float = 0.0
    """When, in seconds since 1970."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the node that trained it."""
    decision: tuple[str, ...] = ()
    """Sentences about its threshold and calibration; empty if it has none."""
    card: Card = field(default_factory=Card)
    problem: str | None = None
    """Why it cannot be used, if it cannot."""
    version: int = 1
    in_use: bool = True
    """Whether the name alone means this version."""
    note: str = ""

    @property
    def reference(self) -> str:
        """Return what names exactly this version."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class Registry:
    """Find, open and delete the models of one workspace."""

    workspace: Workspace

    @property
    def folder(self) -> Path:
        """Return the folder that holds the models, one folder for each."""
        return Files(self.workspace.root).models

    def names(self) -> list[str]:
        """Return all names, sorted; no file is read."""
        if not self.folder.is_dir():
            return []
        folders = (path.name for path in self.folder.iterdir() if path.is_dir())
        return sorted(name for name in folders if re.match(NAME, name))

    def entries(self) -> list[ModelEntry]:
        """Return all models, the newest first; a damaged one has a ``problem``."""
        entries = []
        for name in self.names():
            # The model may be deleted between the two calls.
            with suppress(BadInput):
                entries.append(self.entry(name))
        return sorted(entries, key=lambda entry: (-entry.saved, entry.name))

    def references(self) -> list[str]:
        """Return everything that names a model: all names, and all versions where there are more.

        No model is read.
        """
        references = []
        for name in self.names():
            numbers = Versions(self.folder / name).numbers
            references.append(name)
            if len(numbers) > 1:
                references += [f"{name}@{number}" for number in reversed(numbers)]
        return references

    def versions(self, name: str) -> list[ModelEntry]:
        """Describe all versions of a model, the newest first.

        Raise ``BadInput`` if the model does not exist.
        """
        numbers = Versions(self.folder_of(name)).numbers
        return [self.entry(f"{name}@{number}") for number in reversed(numbers)]

    def entry(self, reference: str) -> ModelEntry:
        """Describe one model without loading it; raise ``BadInput`` if it does not exist."""
        self.folder_of(reference)
        name, number = split_reference(reference)
        versions = Versions(self.folder / name)
        in_use = versions.in_use
        number = number or in_use
        folder = versions.folder_of(number)
        entry = self._describe(folder)
        if number == in_use:
            versions.complete_card()
        note = card_data(folder).get("note")
        return replace(
            entry,
            name=name,
            version=number,
            in_use=number == in_use,
            note=note if isinstance(note, str) else "",
        )

    def _describe(self, folder: Path) -> ModelEntry:
        """Describe the model of a folder, by the name of the folder."""
        name = folder.name
        with read_lock(folder):
            total, saved = 0, saved_at(folder)
            if folder.is_dir():
                files = filter(is_regular_file, folder.iterdir())
                total = sum(path.stat().st_size for path in files)
            try:
                description = describe_model(folder)
            except BadInput as problem:
                return ModelEntry(name, bytes=total, saved=saved, problem=problem.message)
            card = read_card(self.workspace, folder)
        # The folder may come from elsewhere: only its names were checked, not these two.
        rows, settings = description["train_rows"], description["params"]
        return ModelEntry(
            name=name,
            title=description["title"],
            kind=str(description["kind"]),
            classes=tuple(description["classes"]),
            features=tuple(map(str, description["features"])),
            rows=rows if isinstance(rows, int) else 0,
            bytes=total,
            saved=saved,
            settings=settings if isinstance(settings, dict) else {},
            decision=tuple(decision_texts(description)),
            card=card,
        )

    def open(self, name: str) -> FittedModel:
        """Load a model; raise ``BadInput`` if it does not exist or a file was changed."""
        return open_model(self.folder_of(name))

    def use(self, name: str, version: int) -> None:
        """Let a name mean one of its versions; raise ``BadInput`` if it does not exist."""
        Versions(self.folder_of(name)).use(version)

    def set_note(self, name: str, version: int, note: str) -> None:
        """Save the note of a version; raise ``BadInput`` if it does not exist."""
        Versions(self.folder_of(name)).set_note(version, note)

    def delete(self, reference: str) -> None:
        """Remove a version, or a model with all its versions; wait if one is being saved.

        Raise ``BadInput`` if it does not exist, or for the version in use.
        """
        self.folder_of(reference)
        name, number = split_reference(reference)
        versions = Versions(self.folder / name)
        if number is None:
            versions.delete_all()
        else:
            versions.delete(number)

    def folder_of(self, reference: str) -> Path:
        """Return the folder of a model or a version; raise ``BadInput`` if it does not exist."""
        name, number = split_reference(reference)
        if not re.match(REFERENCE, reference) or name not in self.names():
            raise BadInput(self.how_to_find(reference), field="name")
        folder = self.folder / name
        return folder if number is None else Versions(folder).folder_of(number)

    def find(self, text: str) -> Path:
        """Return the folder that a command line names: a model of the workspace, or a path.

        Raise ``BadInput`` if it is neither.
        """
        if split_reference(text)[0] in self.names():
            return self.folder_of(text)
        # A name of the workspace wins over a folder of the same name.
        if (Path(text) / FILE).is_file():
            return Path(text)
        raise BadInput(f"{self.how_to_find(text)} (The path of a model's folder is accepted too.)")

    def how_to_find(self, name: str) -> str:
        """Return the message for a name that no model has, with a suggestion."""
        names = self.names()
        if not names:
            return (
                f"the model '{name}' does not exist, because {self.folder} is empty; run a "
                "pipeline with a Save model node"
            )
        nearest = suggest(name, names, f"the models are {listed(names)}")
        return f"the model '{name}' does not exist; {nearest}"


def open_model(folder: Path) -> FittedModel:
    """Load a model while it cannot be replaced; raise ``BadInput`` if it is damaged."""
    with read_lock(folder):
        return load_model(folder)


def prove_model(folder: Path) -> None:
    """Raise ``BadInput`` or ``SylvaError`` if a child process fails to load a model.

    Do this before loading a model from elsewhere: a damaged one must not end this process.
    """
    call = sandbox.Call(
        "nodes.models.registry:open_in_child",
        folder.name,
        {"folder": str(folder.absolute())},
        imports=("numpy", "lightgbm"),
        field=None,
        megabytes=usable_memory(),
        seconds=OPENING_SECONDS,
    )
    sandbox.call(call)


def open_in_child(folder: str) -> None:
    """Load a model and discard it; the function that ``prove_model`` runs in a child process."""
    open_model(Path(folder))


def zip_model(folder: Path) -> bytes:
    """Return the model's files as a ZIP archive with one folder.

    The archive is made on disk. Raise ``SylvaError`` if the model is too large for a download.
    """
    with read_lock(folder), tempfile.TemporaryFile(prefix="sylva-") as file:
        paths = model_files(folder)
        total = sum(path.stat().st_size for path in paths)
        if total > MAX_ZIPPED:
            raise SylvaError(
                f"The model has {size(total)}, which is too large for a download. Copy the folder "
                f"{folder}."
            )
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
            for path in paths:
                archive.write(path, f"{split_reference(folder.name)[0]}/{path.name}")
        file.seek(0)
        return file.read()
