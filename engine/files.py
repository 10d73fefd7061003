"""The only way from a path in a document to a file on disk.

A relative path means a file in the workspace's ``data`` folder and may not leave it, neither by ``..`` nor
by a link. An absolute path is followed only when the user started the command line: a document opened in
the app can name no file outside the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.errors import BadInput


@dataclass(frozen=True)
class Files:
    """Files a pipeline may read (``data``) and the folders it may write (``exports``, ``models``)."""

    workspace: Path
    allow_absolute: bool = False

    @property
    def data(self) -> Path:
        """Where relative paths begin."""
        return self.workspace / "data"

    @property
    def exports(self) -> Path:
        """Where saved tables go."""
        return self.workspace / "exports"

    @property
    def models(self) -> Path:
        """Where saved models go."""
        return self.workspace / "models"

    def readable(self, path: str, *, field: str) -> Path:
        """The file that ``path`` means, or ``BadInput`` naming ``field`` and saying why it cannot be read."""
        if "\0" in path:
            raise BadInput("the path holds a NUL character", field=field)
        try:
            found = self._absolute(Path(path), field) if Path(path).is_absolute() else self._inside(path, field)
            if found.is_dir():
                raise BadInput(f"'{path}' is a folder; name a file", field=field)
            if found.is_file():
                return found
        except (OSError, RuntimeError) as error:  # a link to itself, a name too long, a folder that may not be read
            raise BadInput(f"'{path[:200]}' cannot be opened: {error.args[-1]}", field=field) from error
        raise BadInput(self._how_to_find(path), field=field)

    def _absolute(self, path: Path, field: str) -> Path:
        if not self.allow_absolute:
            raise BadInput(
                f"'{path}' is an absolute path, which only the command line may use; "
                f"copy the file into {self.data} and give its name",
                field=field,
            )
        return path

    def _inside(self, path: str, field: str) -> Path:
        found = (self.data / path).resolve()
        if not found.is_relative_to(self.data.resolve()):
            raise BadInput(f"'{path}' leads out of the workspace; use a file in {self.data}", field=field)
        return found

    def _how_to_find(self, path: str) -> str:
        if Path(path).is_absolute():
            return f"there is no file '{path}'"
        return f"there is no file '{path}' in {self.data}; copy it there, or give an absolute path on the command line"
