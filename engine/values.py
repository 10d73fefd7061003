"""The things that flow along edges, and how each is kept in a folder.

- ``Table``        Arrow columns with a target and roles; read back by memory map, nothing copied
- ``Predictions``  class probabilities per row, with the truth where it is known
- ``Report``       plain JSON with a headline, so that anything can show it
- ``Folder``       a model or a set of layers: files written by whoever made them, opened by whoever knows them

Each has ``save(folder)`` and ``load(folder)``. A node may return for a ``model`` or ``layers`` port any object
with a ``save(folder)`` of its own; the node that reads it is given the ``Folder``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from engine.errors import BadInput
from engine.node_types import Column, Columns, Kind, Role

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class Savable(Protocol):
    """What a node may return for a port."""

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""


@dataclass(frozen=True)
class Table:
    """Rows and columns, which of them is the target, and roles of the columns that are not plain features."""

    data: pa.Table
    target: str | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)

    FILE: ClassVar = "table.arrow"

    def role(self, column: str) -> Role:
        """What the column is for."""
        return "target" if column == self.target else self.roles.get(column, "feature")

    @property
    def features(self) -> list[str]:
        """The columns a model learns from, in order."""
        return [name for name in self.data.column_names if self.role(name) == "feature"]

    @property
    def columns(self) -> Columns:
        """Name, kind and role of every column."""
        return tuple(Column(f.name, kind_of(f.type), self.role(f.name)) for f in self.data.schema)

    def with_data(self, data: pa.Table) -> Table:
        """The same target and roles over other rows or columns."""
        kept = set(data.column_names)
        roles = {name: role for name, role in self.roles.items() if name in kept}
        return Table(data, self.target if self.target in kept else None, roles)

    def labels(self) -> pa.ChunkedArray:
        """The target column; ``BadInput`` if there is none."""
        if self.target is None:
            raise BadInput("the table has no target; choose one where it is loaded")
        return self.data.column(self.target)

    def save(self, folder: Path) -> None:
        """Write one Arrow file."""
        _write_arrow(self.data, folder / self.FILE, {"target": self.target, "roles": dict(self.roles)})

    @classmethod
    def load(cls, folder: Path) -> Table:
        """Map the Arrow file into memory."""
        data, about = _read_arrow(folder / cls.FILE)
        return cls(data, about["target"], about["roles"])


@dataclass(frozen=True)
class Predictions:
    """Class probabilities (rows × classes), the columns carried along for the reader, and the truth if known."""

    probabilities: np.ndarray
    classes: list[str]
    model: str
    """Title of the model, as a report and a leaderboard show it."""
    truth: pa.Array | None = None
    carried: pa.Table | None = None
    """Id and time columns of the scored table."""

    FILE: ClassVar = "predictions.arrow"
    TRUTH: ClassVar = "truth"

    def to_arrow(self) -> pa.Table:
        """The table a reader expects: carried columns, prediction, one probability a class, truth."""
        import pyarrow as pa

        best = pa.array(self.probabilities.argmax(axis=1), pa.int32())
        columns = {"prediction": pa.DictionaryArray.from_arrays(best, pa.array(self.classes, pa.string()))}
        columns |= {f"p({name})": pa.array(self.probabilities[:, i]) for i, name in enumerate(self.classes)}
        if self.truth is not None:
            columns[self.TRUTH] = self.truth
        carried = [] if self.carried is None else self.carried.columns
        names = [] if self.carried is None else _apart_from(columns, self.carried.column_names)
        return pa.table([*carried, *columns.values()], names=[*names, *columns])

    def save(self, folder: Path) -> None:
        """Write one Arrow file."""
        carried = self.carried.num_columns if self.carried is not None else 0
        about = {"classes": self.classes, "model": self.model, "carried": carried}
        _write_arrow(self.to_arrow(), folder / self.FILE, about)

    @classmethod
    def load(cls, folder: Path) -> Predictions:
        """Read the Arrow file back; the probabilities become one matrix."""
        import numpy as np

        data, about = _read_arrow(folder / cls.FILE)
        classes, carried = about["classes"], about["carried"]
        start = carried + 1
        probabilities = np.column_stack([data.column(start + i).to_numpy() for i in range(len(classes))])
        truth = data.column(start + len(classes)) if data.num_columns > start + len(classes) else None
        return cls(
            probabilities,
            classes,
            about["model"],
            truth.combine_chunks() if truth is not None else None,
            data.select(range(carried)) if carried else None,
        )


@dataclass(frozen=True)
class Report:
    """A result to be read: a few headline numbers, perhaps a table, and whatever plots need."""

    kind: str
    """``evaluation``, ``comparison`` …: tells a reader what ``data`` holds."""
    title: str
    headline: Mapping[str, float | int | str | None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """A table to show below the headline; every row has the same keys."""
    data: Mapping[str, Any] = field(default_factory=dict)

    FILE: ClassVar = "report.json"

    def save(self, folder: Path) -> None:
        """Write strict JSON: a NaN is a mistake of the node that made it."""
        about = {
            "kind": self.kind,
            "title": self.title,
            "headline": dict(self.headline),
            "rows": self.rows,
            "data": dict(self.data),
        }
        (folder / self.FILE).write_text(json.dumps(about, allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Report:
        """Read the JSON back."""
        return cls(**json.loads((folder / cls.FILE).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Folder:
    """A model or layers as they lie on disk."""

    path: Path

    def save(self, folder: Path) -> None:
        """Copy, for a node that passes on what it was given."""
        import shutil

        shutil.copytree(self.path, folder, dirs_exist_ok=True)

    @classmethod
    def load(cls, folder: Path) -> Folder:
        """Nothing is read until someone who knows the files does."""
        return cls(folder)


VALUES: Mapping[str, type[Table | Predictions | Report | Folder]] = {
    "table": Table,
    "predictions": Predictions,
    "report": Report,
    "model": Folder,
    "layers": Folder,
}


def _apart_from(taken: Iterable[str], names: Iterable[str]) -> list[str]:
    """The names, those that are taken with a mark that tells them apart."""
    used, apart = {*taken}, []
    for name in names:
        while name in used:
            name += " (input)"
        used.add(name)
        apart.append(name)
    return apart


def kind_of(arrow_type: pa.DataType) -> Kind:
    """The kind of column that people think in, for a type that Arrow thinks in."""
    import pyarrow.types as types

    if types.is_boolean(arrow_type):
        return "bool"
    if types.is_dictionary(arrow_type):
        return "category"
    if types.is_temporal(arrow_type):
        return "time"
    if types.is_integer(arrow_type) or types.is_floating(arrow_type) or types.is_decimal(arrow_type):
        return "number"
    return "text"


def _write_arrow(data: pa.Table, path: Path, about: Mapping[str, Any]) -> None:
    import pyarrow as pa

    data = data.replace_schema_metadata({"sylva": json.dumps(about, sort_keys=True)})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data)


def _read_arrow(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    import pyarrow as pa

    data = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return data.replace_schema_metadata(None), json.loads(data.schema.metadata[b"sylva"])
