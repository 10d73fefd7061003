"""Define the values that nodes pass along edges, and how each is stored in a folder.

- ``Table``        Arrow columns with a target and roles; read by memory map, without a copy
- ``Predictions``  class probabilities per row, with the true class where it is known
- ``ThresholdDecision``, ``Costs``  from when on a row is positive, and what decisions are worth
- ``Report``       plain JSON with a headline, so that every interface can show it
- ``Folder``       a model or a set of layers: files that only the nodes which use them can read

Each has ``save(folder)`` and ``load(folder)``. A node may return for a ``model`` or ``layers`` port
any object that has its own ``save(folder)``; the node that reads it gets a ``Folder``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from engine.errors import BadInput
from engine.node_types import Column, Columns, Kind, Role
from engine.scratch import blocks

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class Savable(Protocol):
    """A value that a node may return for a port."""

    def save(self, folder: Path) -> None:
        """Write the value into an empty folder."""


@dataclass(frozen=True)
class Table:
    """Hold rows and columns, the name of the target, and the roles of other special columns."""

    data: pa.Table
    target: str | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Roles by column; a column that is not here and not the target is a feature."""

    FILE: ClassVar = "table.arrow"

    def role(self, column: str) -> Role:
        """Return the role of a column."""
        if column == self.target:
            return "target"
        return self.roles.get(column, "feature")

    @property
    def features(self) -> list[str]:
        """The columns that a model is trained on, in order."""
        return [name for name in self.data.column_names if self.role(name) == "feature"]

    @property
    def columns(self) -> Columns:
        """Name, kind and role of every column."""
        fields = list(self.data.schema)
        return tuple(Column(each.name, kind_of(each.type), self.role(each.name)) for each in fields)

    def with_data(self, data: pa.Table) -> Table:
        """Return a table of other rows or columns, with the target and roles of this one."""
        names = set(data.column_names)
        roles = {name: role for name, role in self.roles.items() if name in names}
        # The target may be among the columns that were dropped.
        return Table(data, self.target if self.target in names else None, roles)

    def labels(self) -> pa.ChunkedArray:
        """Return the target column. Raise ``BadInput`` if the table has no target."""
        if self.target is None:
            raise BadInput("the table has no target; choose one where it is loaded")
        return self.data.column(self.target)

    def save(self, folder: Path) -> None:
        """Write one Arrow file."""
        metadata = {"target": self.target, "roles": dict(self.roles)}
        _write_arrow(self.data, folder / self.FILE, metadata)

    @classmethod
    def load(cls, folder: Path) -> Table:
        """Map the Arrow file into memory: rows are read from disk only when they are used."""
        data, metadata = _read_arrow(folder / cls.FILE)
        return cls(data, metadata["target"], metadata["roles"])


@dataclass(frozen=True)
class Costs:
    """Say what decisions are worth, in one unit of money.

    The money of a threshold is ``gain`` for each positive row found, plus its amount if there is a
    column of ``amounts``, minus ``false_alarm`` for each other row that is interrupted, minus
    ``missed`` for each positive row that is not found.
    """

    false_alarm: float = 0.0
    missed: float = 0.0
    gain: float = 0.0
    """Below 0 if an interruption costs something even where it is right."""
    amounts: str | None = None
    """The column whose values are saved when a positive row is found."""

    @property
    def is_cost(self) -> bool:
        """Return whether nothing can be gained, so that the money is shown as a cost."""
        return self.amounts is None and self.gain <= 0

    @property
    def name(self) -> str:
        """Return what the money is called in a report."""
        if self.amounts is not None:
            return "money_saved"
        return "cost" if self.is_cost else "net_gain"

    def shown(self, money: float) -> float:
        """Return the money under its name: a cost is a positive number."""
        # Without the 0, a cost of nothing would be written as -0.
        return 0.0 - money if self.is_cost else money


@dataclass(frozen=True)
class ThresholdDecision:
    """Say from which probability on a row counts as positive, and how that was chosen."""

    positive: str
    threshold: float
    rule: str
    """In words, such as ``highest F1``."""
    rows: int
    """Validation rows that it was chosen on."""
    costs: Costs | None = None

    @property
    def text(self) -> str:
        """Return the decision as a sentence without its full stop."""
        return (
            f"{self.positive} is predicted from a probability of {self.threshold:.4g}: "
            f"{self.rule}, chosen on {self.rows:,} validation rows"
        )

    def codes(self, probabilities: np.ndarray, classes: list[str]) -> np.ndarray:
        """Return the number of the predicted class of each row, of two classes."""
        import numpy as np

        code = classes.index(self.positive)
        return np.where(probabilities[:, code] >= self.threshold, code, 1 - code)

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], classes: list[str]) -> ThresholdDecision:
        """Return a decision from plain data; raise ``ValueError`` if it does not suit the classes.

        The data may come from a file that anyone wrote.
        """
        costs = data["costs"]
        found = cls(**{**data, "costs": None if costs is None else Costs(**costs)})
        texts: list[object] = [found.positive, found.rule]
        numbers: list[Any] = [found.threshold, found.rows]
        if found.costs is not None:
            numbers += [found.costs.false_alarm, found.costs.missed, found.costs.gain]
            texts += [found.costs.amounts or ""]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text of the decision is not a text")
        if not all(type(number) in (int, float) and isfinite(number) for number in numbers):
            raise ValueError("a number of the decision is not a number")
        # Sums of shares may be above 1 by rounding.
        if not -1e-6 <= found.threshold <= 1 + 1e-6 or found.rows < 1:
            raise ValueError("the threshold is not a probability, or was chosen on no rows")
        if len(classes) != 2 or found.positive not in classes:
            raise ValueError("the decision is not about one of two classes")
        return found


@dataclass(frozen=True)
class Predictions:
    """Hold class probabilities (rows × classes), and the true classes where they are known.

    ``truth`` has one value per row, null where the class of the row is not known. Predictions of a
    number have no classes; ``values`` are the numbers, and ``truth`` holds numbers, too.
    """

    probabilities: np.ndarray
    """Of a number: one column, the number of each row."""
    classes: list[str]
    model: str
    """Title of the model for reports and leaderboards."""
    truth: pa.Array | None = None
    carried: pa.Table | None = None
    """Columns of the scored table that stand beside the predictions: ids, groups, times, chosen."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Digests of columns of the scored table, by name: by these, an evaluation knows its rows."""
    decision: ThresholdDecision | None = None
    """The threshold of the model; without one, the most probable class is predicted."""
    group: str | None = None
    """The carried column whose equal values belong together, such as the rows of a customer."""

    FILE: ClassVar = "predictions.arrow"
    TRUTH: ClassVar = "truth"
    VALUE: ClassVar = "predicted value"

    @property
    def values(self) -> np.ndarray | None:
        """Return the predicted number of each row; None if classes are predicted."""
        if self.classes:
            return None
        values: np.ndarray = self.probabilities[:, 0]
        return values

    @property
    def predicted(self) -> np.ndarray:
        """Return the number of the predicted class of each row."""
        return predicted_codes(self.probabilities, self.classes, self.decision)

    def to_arrow(self) -> pa.Table:
        """Return one table: carried columns, prediction, one probability per class, truth.

        A number has no probabilities. A carried column whose name is taken is renamed, so that all
        names differ.
        """
        import pyarrow as pa

        if self.values is not None:
            return self._beside_carried({self.VALUE: pa.array(self.values)})
        predicted = pa.array(self.predicted, pa.int32())
        classes = pa.array(self.classes, pa.string())
        columns = {"prediction": pa.DictionaryArray.from_arrays(predicted, classes)}
        for index, name in enumerate(self.classes):
            columns[f"p({name})"] = pa.array(self.probabilities[:, index])
        return self._beside_carried(columns)

    def _beside_carried(self, columns: dict[str, Any]) -> pa.Table:
        """Return the carried columns, the columns of predictions, and the truth if it is known."""
        import pyarrow as pa

        if self.truth is not None:
            columns[self.TRUTH] = self.truth
        if self.carried is None:
            return pa.table(columns)
        names = _unique_names(self.carried.column_names, columns)
        return pa.table([*self.carried.columns, *columns.values()], names=[*names, *columns])

    def save(self, folder: Path) -> None:
        """Write one Arrow file."""
        carried = self.carried.num_columns if self.carried is not None else 0
        metadata = {
            "classes": self.classes,
            "model": self.model,
            "carried": carried,
            "columns": dict(self.columns),
        }
        if self.decision is not None:
            metadata["decision"] = self.decision.to_json()
        if self.carried is not None and self.group is not None:
            # By its number, because a carried column may be renamed in the file.
            metadata["group"] = self.carried.column_names.index(self.group)
        _write_arrow(self.to_arrow(), folder / self.FILE, metadata)

    @classmethod
    def load(cls, folder: Path) -> Predictions:
        """Read the Arrow file; the columns of probabilities become one matrix."""
        import numpy as np

        data, metadata = _read_arrow(folder / cls.FILE)
        classes, carried = metadata["classes"], metadata["carried"]
        # The order of ``to_arrow``: carried columns, prediction, probabilities, perhaps truth.
        start = carried + 1
        end = start + len(classes)
        # A number has no probabilities; the prediction itself is the only column.
        outputs = range(start, end) if classes else [carried]
        probabilities = np.column_stack([data.column(at).to_numpy() for at in outputs])
        truth = data.column(end).combine_chunks() if data.num_columns > end else None
        carried_columns = data.select(range(carried)) if carried else None
        # Predictions of earlier versions have no digests.
        columns, number = metadata.get("columns", {}), metadata.get("group")
        group = None if number is None else data.column_names[number]
        decision = None
        if "decision" in metadata:
            decision = ThresholdDecision.from_json(metadata["decision"], classes)
        return cls(
            probabilities,
            classes,
            metadata["model"],
            truth,
            carried_columns,
            columns,
            decision,
            group,
        )


def predicted_codes(
    probabilities: np.ndarray, classes: list[str], decision: ThresholdDecision | None
) -> np.ndarray:
    """Return the number of the predicted class of each row: by the decision, or most probable."""
    if decision is None:
        most_probable: np.ndarray = probabilities.argmax(axis=1)
        return most_probable
    return decision.codes(probabilities, classes)


@dataclass(frozen=True)
class Report:
    """Hold a result for people: a few headline numbers, perhaps a table, and data for plots.

    All of it is plain JSON, so that the command line and the browser can show any report.
    """

    kind: str
    """``evaluation``, ``comparison`` …: says what ``data`` holds."""
    title: str
    headline: Mapping[str, float | int | str | None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    """A table to show below the headline; every row has the same keys."""
    data: Mapping[str, Any] = field(default_factory=dict)

    FILE: ClassVar = "report.json"

    def save(self, folder: Path) -> None:
        """Write strict JSON. Raise ``ValueError`` for a NaN: the node that made it has a bug."""
        data = {
            "kind": self.kind,
            "title": self.title,
            "headline": dict(self.headline),
            "rows": self.rows,
            "data": dict(self.data),
        }
        (folder / self.FILE).write_text(json.dumps(data, allow_nan=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Report:
        """Read the JSON file."""
        return cls(**json.loads((folder / cls.FILE).read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Folder:
    """Point to a model or to layers on disk; the engine does not know the format of the files."""

    path: Path

    def save(self, folder: Path) -> None:
        """Copy the files, for a node that passes its input on."""
        import shutil

        shutil.copytree(self.path, folder, dirs_exist_ok=True)

    @classmethod
    def load(cls, folder: Path) -> Folder:
        """Return the folder; no file is read."""
        return cls(folder)


VALUES: Mapping[str, type[Table | Predictions | Report | Folder]] = {
    "table": Table,
    "predictions": Predictions,
    "report": Report,
    "model": Folder,
    "layers": Folder,
}


def _unique_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return the names; one that is taken or occurs twice gets `` (input)`` at its end."""
    used, unique = {*taken}, []
    for name in names:
        while name in used:
            name += " (input)"
        used.add(name)
        unique.append(name)
    return unique


def kind_of(arrow_type: pa.DataType) -> Kind:
    """Return the kind of column for an Arrow type."""
    import pyarrow.types as types

    if types.is_boolean(arrow_type):
        return "bool"
    if types.is_dictionary(arrow_type):
        return "category"
    if types.is_temporal(arrow_type):
        return "time"
    is_number = types.is_integer, types.is_floating, types.is_decimal
    if any(test(arrow_type) for test in is_number):
        return "number"
    return "text"


def _write_arrow(data: pa.Table, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a table and our metadata, as JSON in the metadata of its schema, into one file."""
    import pyarrow as pa

    # Sorted keys: equal tables must have equal bytes, since the store names them by their hash.
    data = data.replace_schema_metadata({"sylva": json.dumps(metadata, sort_keys=True)})
    if any(column.num_chunks > 1 for column in data.columns):
        # A file has one dictionary for each column.
        data = data.unify_dictionaries()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
        for block in blocks(data):
            # In one chunk, so that the bytes do not depend on how the table was put together.
            writer.write_table(block.combine_chunks())


def _read_arrow(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Map a file that ``_write_arrow`` wrote; return the table and our metadata."""
    import pyarrow as pa

    data = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return data.replace_schema_metadata(None), json.loads(data.schema.metadata[b"sylva"])
