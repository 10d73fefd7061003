"""Tags and a note that users give a run. They are in a file of the run, and are removed with it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import SylvaError
from engine.text import readable
from engine.workspace import Workspace

FILE = "remark.json"
MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_NOTE = 2_000


class Remark(NamedTuple):
    """What a user has written about a run."""

    tags: tuple[str, ...] = ()
    note: str = ""

    def has_text(self, text: str) -> bool:
        """Return whether a tag or the note contains a text, in upper or lower case."""
        return any(text.casefold() in each.casefold() for each in (*self.tags, self.note))


def read_remark(workspace: Workspace, run: str) -> Remark:
    """Return the remark of a run; an empty one if it has none or its file is damaged."""
    with suppress(OSError, ValueError):
        stored = json.loads(_path(workspace, run).read_text(encoding="utf-8"))
        if isinstance(stored, dict):
            return remark_of(stored.get("tags"), stored.get("note"))
    return Remark()


def remark_of(tags: Any, note: Any) -> Remark:
    """Return a remark of what was typed or stored: without empty tags, each once, not too long."""
    listed = tags if isinstance(tags, list) else []
    words = [readable(str(tag), LONGEST_TAG).strip() for tag in listed]
    kept = tuple(dict.fromkeys(word for word in words if word))[:MOST_TAGS]
    return Remark(kept, str(note or "").strip()[:LONGEST_NOTE])


def write_remark(workspace: Workspace, run: str, remark: Remark) -> None:
    """Save the remark of a run. Raise ``SylvaError`` if it cannot be written."""
    path = _path(workspace, run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A reader never sees half a file.
        written = path.with_suffix(".new")
        written.write_text(json.dumps(remark._asdict(), ensure_ascii=False), encoding="utf-8")
        written.replace(path)
    except OSError as error:
        raise SylvaError(f"The tags and the note could not be saved: {error.strerror}.") from error


def known_tags(workspace: Workspace, runs: list[str]) -> list[str]:
    """Return the tags of these runs, each once, in alphabetical order."""
    tags = {tag for run in runs for tag in read_remark(workspace, run).tags}
    return sorted(tags, key=str.casefold)


def _path(workspace: Workspace, run: str) -> Path:
    """Return the file of the remark."""
    return workspace.run_folder(run) / FILE
