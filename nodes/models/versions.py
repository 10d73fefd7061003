"""Keep the versions of a model under one name.

``models/NAME`` holds the version in use, ``models/NAME@1``, ``models/NAME@2`` … hold all versions.
The files of the version in use exist once on the disk: they are hard links. So the folder of a
name is always a whole model, which other programs can copy. A folder ``NAME`` alone is a model with
one version.

The version in use is the one with the same ``model.json``. A model that is saved twice is one
version. The note of a version is on the card beside it.

- ``Versions``         adds, chooses, annotates and deletes the versions of one name
- ``split_reference``  the name and the version that ``NAME`` or ``NAME@2`` means
- ``card_data``        what the card beside a model says, as plain JSON
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from engine.atomic import OLD, swap_folder, write_lock
from engine.errors import BadInput
from engine.text import listed
from nodes.models.model import CARD, FILE, is_regular_file, model_files

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
"""Names of models: not a path, not hidden."""
REFERENCE = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(@[1-9][0-9]{0,5})?$"
"""A name, or one of its versions: ``fraud`` or ``fraud@2``."""
MAX_VERSION = 1_000_000
MAX_NOTE = 500
"""Characters of a note."""
MAX_CARD_BYTES = 1 << 20
"""A larger file is not a card."""


@dataclass(frozen=True)
class Versions:
    """The versions of one name; ``folder`` is that of the name, such as ``models/fraud``."""

    folder: Path

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of all versions, the newest last; empty without a model."""
        found = set(self._saved)
        if self.folder.is_dir():
            found.add(self.in_use)
        return sorted(found)

    @property
    def in_use(self) -> int:
        """Return the number of the version in use.

        A model that was put into the folder by other means has no number yet. It gets the next one
        as soon as another version is added.
        """
        return self._find(self.folder) or self._last + 1

    def folder_of(self, number: int) -> Path:
        """Return the folder of a version; raise ``BadInput`` if it does not exist."""
        if number in self._saved:
            return self._path(number)
        if self.folder.is_dir() and number == self.in_use:
            return self.folder
        known = listed([f"{self.folder.name}@{each}" for each in self.numbers])
        raise BadInput(
            f"the model '{self.folder.name}' has no version {number}; its versions are {known}",
            field="name",
        )

    def add(
        self,
        source: Path,
        card: Mapping[str, Any],
        *,
        use: bool = True,
        only_new_name: bool = False,
    ) -> int:
        """Copy a model's folder as a new version; return its number.

        A model that is saved already keeps its number; its note stays, unless the card has one. The
        first version of a name is always put in use. A reader sees the old model or the new one,
        never a part.

        Parameters
        ----------
        card : what the card beside the model says
        use : whether the new version is put in use
        only_new_name : whether to raise ``BadInput`` if there is a model of this name
        """
        # The lock also covers the check: two runs must not both find the name free.
        with write_lock(self.folder) as temporary:
            if only_new_name and self.folder.exists():
                raise BadInput(
                    f"there is already a model '{self.folder.name}'; choose another name, or set "
                    "'If it exists' to use the new version",
                    field="name",
                )
            if not self._saved and self._may_replace(source):
                known = card_data(self.folder) if self.folder.is_dir() else {}
                number = self.in_use
                _replace(self.folder, source, _with_note(card, known), temporary)
                return number
            self._number_the_model_in_use()
            number = self._find(source) or self._last + 1
            folder = self._path(number)
            with write_lock(folder) as inner:
                _replace(folder, source, _with_note(card, card_data(folder)), inner)
            if use or not self.folder.exists():
                self._put_in_use(number, temporary)
        return number

    def use(self, number: int) -> None:
        """Put a version in use; raise ``BadInput`` if it does not exist."""
        with write_lock(self.folder) as temporary:
            self.folder_of(number)
            self._number_the_model_in_use()
            self._put_in_use(number, temporary)

    def set_note(self, number: int, note: str) -> None:
        """Save the note of a version; an empty one removes it.

        Raise ``BadInput`` if the version does not exist or the note is too long.
        """
        if len(note) > MAX_NOTE:
            raise BadInput(f"the note has {len(note):,} characters; at most {MAX_NOTE} are allowed")
        with ExitStack() as locks:
            locks.enter_context(write_lock(self.folder))
            folder = self.folder_of(number)
            if folder != self.folder:
                locks.enter_context(write_lock(folder))
            save_card_data(folder, {**card_data(folder), "note": note.strip()})

    def delete(self, number: int) -> None:
        """Delete a version; raise ``BadInput`` if it does not exist or is in use."""
        with write_lock(self.folder):
            folder = self.folder_of(number)
            if number == self.in_use:
                raise BadInput(
                    f"version {number} of '{self.folder.name}' is in use; put another version in "
                    "use first, or delete the whole model",
                    field="name",
                )
            # A number never gets another meaning, also if the newest version is deleted.
            save_card_data(self.folder, {**card_data(self.folder), "last_version": self._last})
            _delete(folder)

    def delete_all(self) -> None:
        """Delete the model with all its versions; wait for those who read them."""
        with write_lock(self.folder):
            for number in self._saved:
                _delete(self._path(number))
        _delete(self.folder)

    def complete_card(self) -> None:
        """Copy the card of the version in use to the folder of the name.

        The card is found out later than the model is saved, and a user may copy that folder.
        """
        number = self.in_use
        if number in self._saved:
            known, present = card_data(self._path(number)), card_data(self.folder)
            if "card" in known and known["card"] != present.get("card"):
                # The card can be completed another time.
                with suppress(OSError):
                    save_card_data(self.folder, {**present, "card": known["card"]})

    @property
    def _saved(self) -> list[int]:
        """Return the numbers of the versions that have a folder of their own."""
        beginning = f"{self.folder.name}@"
        numbers = []
        with suppress(OSError):
            for path in self.folder.parent.iterdir():
                is_version = path.name.startswith(beginning) and re.match(REFERENCE, path.name)
                if is_version and path.is_dir():
                    numbers.append(int(path.name.removeprefix(beginning)))
        return sorted(numbers)

    @property
    def _last(self) -> int:
        """Return the highest number that a version has or had; 0 without any."""
        numbers = self._saved
        recorded = card_data(self.folder).get("last_version")
        if isinstance(recorded, int) and 0 < recorded < MAX_VERSION:
            numbers.append(int(recorded))
        return max(numbers, default=0)

    def _path(self, number: int) -> Path:
        """Return where a version is saved."""
        return self.folder.with_name(f"{self.folder.name}@{number}")

    def _find(self, source: Path) -> int | None:
        """Return the version that is the same model as a folder; None if it is not saved yet."""
        for number in reversed(self._saved):
            if _is_same_model(source, self._path(number)):
                return number
        return None

    def _may_replace(self, source: Path) -> bool:
        """Return whether nothing is lost if a model takes the place of the only version."""
        return _is_same_model(source, self.folder) or not _is_model(self.folder)

    def _number_the_model_in_use(self) -> None:
        """Give the model in use a folder of its own, if it does not have one yet."""
        if _is_model(self.folder) and self._find(self.folder) is None:
            folder = self._path(self._last + 1)
            with write_lock(folder) as temporary:
                _replace(folder, self.folder, card_data(self.folder), temporary, link=True)

    def _put_in_use(self, number: int, temporary: Path) -> None:
        """Replace the folder of the name by a version."""
        source = self._path(number)
        card = {**card_data(source), "last_version": self._last}
        card.pop("note", None)
        _replace(self.folder, source, card, temporary, link=True)


def split_reference(reference: str) -> tuple[str, int | None]:
    """Return the name and the version that a text means; None for the version in use."""
    name, at, number = reference.partition("@")
    return name, int(number) if at and number.isdecimal() else None


def _with_note(card: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new card with the note of the card before, unless it has its own."""
    note = card.get("note") or known.get("note")
    return {**card, "note": note} if note else dict(card)


def _is_model(folder: Path) -> bool:
    """Return whether a folder has the files of a model; they may be damaged."""
    if not is_regular_file(folder / FILE):
        return False
    return all(map(is_regular_file, folder.iterdir()))


def _is_same_model(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same model.

    ``model.json`` has the hashes of all other files, so it is enough to compare this one.
    """
    files = (one / FILE, other / FILE)
    if not all(map(is_regular_file, files)):
        return False
    return files[0].samefile(files[1]) or files[0].read_bytes() == files[1].read_bytes()


def _replace(
    folder: Path, source: Path, card: Mapping[str, Any], temporary: Path, *, link: bool = False
) -> None:
    """Put a copy of a model in the place of ``folder``; ``link`` shares the files on the disk.

    The old folder is removed only when the new one is in its place, so a crash loses no model.
    """
    new = temporary / "new"
    new.mkdir()
    for file in model_files(source):
        if file.name == CARD or (link and _linked(file, new / file.name)):
            continue
        shutil.copy2(file, new)
    if card:
        (new / CARD).write_text(json.dumps(card) + "\n", encoding="utf-8")
    swap_folder(new, folder, temporary / OLD)


def _linked(file: Path, target: Path) -> bool:
    """Make a hard link; return whether the file system allows it."""
    try:
        os.link(file, target)
    except OSError:
        return False
    return True


def _delete(folder: Path) -> None:
    """Remove a folder; wait for those who read it."""
    with write_lock(folder) as temporary:
        if folder.exists():
            # A rename is atomic: readers see the whole model or none.
            folder.rename(temporary / "deleted")


# Cards


def card_data(folder: Path) -> dict[str, Any]:
    """Return what the card beside a model says; empty if it cannot be read.

    The file may have come with a model from elsewhere, so nothing in it is trusted.
    """
    path = folder / CARD
    with suppress(OSError, ValueError, RecursionError):
        if is_regular_file(path) and path.stat().st_size <= MAX_CARD_BYTES:
            data = json.loads(path.read_text(encoding="utf-8"))
            return data if isinstance(data, dict) else {}
    return {}


def save_card_data(folder: Path, data: Mapping[str, Any]) -> None:
    """Replace the card beside a model; raise ``OSError`` where that is not possible."""
    # Not inside the folder: a reader of the model would take an unknown file for damage.
    temporary = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}.unfinished")
    try:
        temporary.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(folder / CARD)
    finally:
        temporary.unlink(missing_ok=True)
