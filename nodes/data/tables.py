"""Load tables as the settings of *Load data* describe them.

- ``load``       the whole table
- ``preview``    the whole table if it is small, or else its first rows; remembered while the file
                 stays the same
- ``Preview``    what was read, before target and roles are applied
- ``count_classes``  how many rows each class of the target has

Both give every column its type in the same way, and both make a ``Table`` of the columns with
``make_table``. So a preview meets the problems that a run would meet.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import sandbox
from engine.atomic import FileVersion
from engine.errors import BadInput
from engine.node_types import Columns, Kind, Role
from engine.scratch import IN_MEMORY, ScratchFolder
from engine.text import listed
from engine.values import Table, kind_of
from engine.workspace import Files
from nodes.data import formats, postgresql
from nodes.data.columns import (
    Task,
    check_classes,
    check_numbers,
    check_roles,
    drop_missing_target,
    require_column,
    task_of,
)
from nodes.data.locations import Database, Location, explaining, locate, location, version_of
from nodes.data.samples import (
    payments,
    sample_columns,
    sample_name,
    sample_path,
    source_title,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from nodes.load_data import LoadDataParams

MAX_BYTES = 64 << 20
"""A preview holds all of a table that takes at most this many bytes."""
START_BYTES = 16 << 20
"""Bytes that a preview reads of a larger text."""
START_ROWS = 50_000
"""Rows that a preview holds of a larger table of another format."""
REMEMBERED_BYTES = 256 << 20
"""Bytes of previews that are remembered."""
NAMING_ROLES = ("id", "group")
"""Roles of columns that name a row or its group; their values are used exactly as written."""

Progress = Callable[[float, str], None]


def load(
    params: LoadDataParams,
    files: Files,
    progress: Progress = lambda fraction, text: None,
    scratch: ScratchFolder = IN_MEMORY,
) -> Table:
    """Return the table that the settings describe.

    ``progress`` gets the share done and a text; ``scratch`` holds a large table. Raise ``BadInput``
    that names the setting to change if the file cannot be read or its columns do not suit the
    settings.
    """
    progress(0.0, f"reading {source_title(params.source)}")
    if sample_name(params.source) == "fraud":
        data = payments(params.rows, params.fraud_share, params.seed)
    else:
        data = _read_all(location_of(params, files), params, scratch)
    progress(0.5, "finding the types of the columns")
    names = data.column_names
    data = _with_types(data, params, scratch)
    progress(0.9, "checking target and roles")
    return make_table(data, names, params, scratch)


def location_of(params: LoadDataParams, files: Files) -> Location:
    """Return where a source is: the file of a sample, or what the workspace allows to read."""
    sample = sample_name(params.source)
    if sample is not None:
        return sample_path(sample)
    return locate(params.source, files)


def _read_all(where: Location, params: LoadDataParams, scratch: ScratchFolder) -> pa.Table:
    """Return the whole table of a file, a folder or a query."""
    import pyarrow as pa

    if isinstance(where, Database):
        return pa.concat_tables(_query_result(where, params))
    with explaining(where):
        return formats.read(
            where, params.file_format, _as_text(params), params.max_columns, scratch
        )


def _query_result(where: Database, params: LoadDataParams) -> Iterator[pa.Table]:
    """Yield the rows of a query; raise ``BadInput`` if its columns cannot be used."""
    rows = 0
    for table in postgresql.tables(where, params.query):
        if not rows:
            _check_result(table.column_names, params.max_columns)
        rows += table.num_rows
        yield table
    if not rows:
        raise BadInput("the query returns no rows; change its conditions", field="query")


def _check_result(names: list[str], max_columns: int) -> None:
    """Raise ``BadInput`` if the columns of a query cannot be used."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if not names:
        raise BadInput("the query returns no columns; name some after SELECT", field="query")
    if repeated:
        raise BadInput(
            f"the query returns several columns named {listed(repeated)}; rename them with AS",
            field="query",
        )
    if len(names) > max_columns:
        raise formats.too_many_columns("the result of the query", len(names), max_columns)


def _as_text(params: LoadDataParams) -> set[str]:
    """Return the columns of a CSV file that are read as written.

    As labels, "1" and "01" are different. Read as numbers, they would be the same.
    """
    target, _ = target_and_roles(params)
    return {*params.types, *_names(params), *([target] if target else [])}


def _names(params: LoadDataParams) -> list[str]:
    """Return the columns of a file that name a row or its group.

    Those of a sample are numbers where they look like numbers.
    """
    if sample_name(params.source) is not None:
        return []
    return [name for name, role in params.roles.items() if role in NAMING_ROLES]


def target_and_roles(params: LoadDataParams) -> tuple[str | None, dict[str, Role]]:
    """Return the target, and the roles of the columns that are not features.

    The roles of the settings take precedence over those of a sample.
    """
    sample = sample_name(params.source)
    own: Columns = () if sample is None else sample_columns(sample)
    target = params.target or next((column.name for column in own if column.role == "target"), None)
    roles: dict[str, Role] = {column.name: column.role for column in own if column.role != "target"}
    roles.update(params.roles)
    return target, {
        name: role for name, role in roles.items() if role != "feature" and name != target
    }


def chosen_types(params: LoadDataParams, target: str | None) -> dict[str, Kind]:
    """Return the types of the columns that are not inferred.

    The target is a category, or a number if it is predicted as a number.
    """
    types: dict[str, Kind] = dict(params.types)
    if target:
        types[target] = "number" if chosen_task(params) == "regression" else "category"
    return types


def chosen_task(params: LoadDataParams) -> Task:
    """Return whether the target is a class or a number: as set, or as a sample has it."""
    if params.task is not None:
        return params.task
    sample = sample_name(params.source)
    own = None if sample is None else sample_columns(sample)
    # Another column of a sample than its own target is a class, as in any file.
    if own is None or params.target not in (None, *_target_names(own)):
        return "classification"
    return task_of(own) or "classification"


def _target_names(columns: Columns) -> list[str]:
    """Return the name of the target, if there is one, in a list."""
    return [column.name for column in columns if column.role == "target"]


def _with_types(
    data: pa.Table, params: LoadDataParams, scratch: ScratchFolder = IN_MEMORY
) -> pa.Table:
    """Return the columns in their types, without those that hold no value.

    The target and ignored columns stay even if they are empty: other checks explain that better.
    """
    import pyarrow as pa

    from nodes.data.column_types import cast_column, infer_type

    target, roles = target_and_roles(params)
    # An id that was read as written stays text: as a category, 1.0 and +1 would become 1.
    written = [name for name in _names(params) if _kind(data, name) == "text"]
    types: dict[str, Kind] = dict.fromkeys(written, "text")
    types |= chosen_types(params, target)
    missing = frozenset(params.missing)
    columns = {}
    for name in data.column_names:
        plain = data.column(name)
        if name == target and types[name] == "number":
            column = _as_numbers(plain, name, missing)
        elif name in types:
            column = cast_column(plain, types[name], name, missing)
        else:
            column = infer_type(plain, name, missing)
        if column is not plain:
            column = scratch.column(column)
        is_empty = column.null_count == len(column)
        if not is_empty or name == target or roles.get(name) == "ignore":
            columns[name] = column
    typed = pa.table(columns)
    # In one chunk, columns are read without a copy; a large table is read by blocks.
    return typed if scratch.is_large(typed.nbytes) else typed.combine_chunks()


def _as_numbers(column: pa.ChunkedArray, name: str, missing: Collection[str]) -> pa.ChunkedArray:
    """Return the target as 64-bit floats; raise ``BadInput`` for a value that is not a number."""
    from nodes.data.column_types import cast_column

    if kind_of(column.type) not in ("number", "bool", "text", "category"):
        raise BadInput(
            f"the target '{name}' is a {kind_of(column.type)} and cannot be predicted as a number; "
            "choose another target, or set 'Predict the target as' to a class",
            field="task",
        )
    try:
        return cast_column(column, "number", name, missing).cast("float64", safe=False)
    except BadInput as problem:
        raise BadInput(
            f"{problem.message}, or set 'Predict the target as' to a class", field="task"
        ) from None


def _kind(data: pa.Table, name: str) -> Kind | None:
    """Return the kind of a column; None if the table does not have it."""
    return kind_of(data.schema.field(name).type) if name in data.column_names else None


def check_columns(params: LoadDataParams, names: Iterable[str]) -> None:
    """Raise ``BadInput`` if the settings name an unknown column, or contradict each other.

    A target can have neither another role nor another type than that of its task.
    """
    known = dict.fromkeys(names)
    target, _ = target_and_roles(params)
    if target is not None:
        require_column(target, known, field="target")
    for column in params.roles:
        require_column(column, known, field="roles")
    for column in params.types:
        require_column(column, known, field="types")
    if target in params.roles:
        raise BadInput(
            f"'{target}' is the target and cannot have the role {params.roles[target]} as well; "
            "remove it from roles, or choose another target",
            field="roles",
        )
    of_target = chosen_types(params, target).get(target or "")
    if target in params.types and params.types[target] != of_target:
        raise BadInput(
            f"'{target}' is the target, which is read as a {of_target}; remove it from types, or "
            "change 'Predict the target as'",
            field="types",
        )


def make_table(
    data: pa.Table,
    names: Collection[str],
    params: LoadDataParams,
    scratch: ScratchFolder = IN_MEMORY,
) -> Table:
    """Return the table with its target and roles.

    ``data`` holds the columns in their types; ``names`` are all columns of the file, also those
    without a value. Raise ``BadInput`` if the columns do not suit the settings.
    """
    check_columns(params, names)
    target, roles = target_and_roles(params)
    empty = _without_values(data, names)
    if empty and params.empty_columns == "error":
        raise BadInput(
            f"there are columns without any value: {listed(empty)}; set 'Columns without values' "
            "to drop, or give them the role ignore",
            field="empty_columns",
        )
    if not data.num_columns:
        raise BadInput(
            f"no column of '{params.source}' holds a value; use another file", field="source"
        )
    if target is not None:
        data = drop_missing_target(data, target, params.missing_target, scratch)
        if chosen_task(params) == "regression":
            check_numbers(data.column(target), target)
        else:
            check_classes(data.column(target), target)
    roles = {name: role for name, role in roles.items() if name in data.column_names}
    check_roles(data, roles)
    return Table(data, target, roles)


def _without_values(data: pa.Table, names: Collection[str]) -> list[str]:
    """Return the columns of the file that hold no value, so that ``data`` does not have them."""
    present = set(data.column_names)
    return [name for name in names if name not in present]


def count_classes(table: Table) -> list[tuple[str, int]]:
    """Return the classes of the target and their rows, in the order of the classes."""
    import pyarrow.compute as pc

    labels = table.labels().combine_chunks()
    counted = pc.value_counts(labels.indices).to_pylist()
    counts = {each["values"]: each["counts"] for each in counted}
    return [(name, counts.get(code, 0)) for code, name in enumerate(labels.dictionary.to_pylist())]


# Previews


@dataclass(frozen=True)
class Preview:
    """Hold what was read of a source: columns in their types, without those that hold no value.

    Target and roles are not applied yet, so one preview serves every choice of them.
    """

    data: pa.Table
    names: tuple[str, ...]
    """All columns of the source."""
    complete: bool
    """Whether it is the whole table, or only its first rows."""
    rows: int | None
    """Rows of the whole table, where that is known."""
    sheets: tuple[str, ...] = ()
    """All sheets of an Excel file."""

    @property
    def empty(self) -> list[str]:
        """Return the columns that hold no value in the rows that were read."""
        return _without_values(self.data, self.names)

    def rows_without(self, target: str) -> int:
        """Return how many of the rows have no value in the target."""
        return int(self.data.column(target).null_count)

    def table(self, params: LoadDataParams) -> Table:
        """Return the table with its target and roles, like ``make_table``."""
        return make_table(self.data, self.names, params)


def preview(params: LoadDataParams, files: Files) -> Preview:
    """Return what the settings read of a source; raise ``BadInput`` if it cannot be read.

    A file is read in a child process, because it may be damaged, and only once for each version and
    for the settings that change how it is read.
    """
    # Most settings do not change what is read, so their previews are shared.
    reading = _settings_of_reading(params)
    target = params.target
    if target is not None:
        # The file may have been read before, without a target. A category is the same in both.
        try:
            seen = _remembered(reading.model_copy(update={"target": None}), files)
        except BadInput:
            return _remembered(reading, files)
        if _kind(seen.data, target) == "category" and chosen_task(params) == "classification":
            return seen
    return _remembered(reading, files)


def source_version(params: LoadDataParams, files: Files) -> str:
    """Return a text that changes when the content of a source does; of a remote one, soon."""
    where = location_of(params, files)
    return f"{where}:{_version(where, params.query)}"


def move_preview(old: Path, new: Path) -> None:
    """Remember the previews of a file that was renamed under its new name."""
    _previews.move(old, new)


def _settings_of_reading(params: LoadDataParams) -> LoadDataParams:
    """Return the settings without those that ``make_table`` applies later."""
    roles = roles_of_reading(params)
    return params.model_copy(
        update={"roles": roles, "missing_target": "drop", "empty_columns": "drop"}
    )


def roles_of_reading(params: LoadDataParams) -> dict[str, Any]:
    """Return the roles that change what is read.

    Ids and groups are left as written, and an ignored column may be empty.
    """
    reading = (*NAMING_ROLES, "ignore")
    return {name: role for name, role in params.roles.items() if role in reading}


def _remembered(params: LoadDataParams, files: Files) -> Preview:
    """Return the preview of a file, read now or before; raise ``BadInput`` if it cannot be read.

    A failure is remembered like a preview: the same file would fail again.
    """
    where = location_of(params, files)
    if isinstance(where, Path):
        where = where.resolve()
    settings = params.model_dump_json(exclude={"source"})
    key = _PreviewKey(where, _version(where, params.query), settings)
    seen = _previews.get(key)
    if seen is None:
        try:
            seen = _read_preview(params, where)
        except BadInput as problem:
            # A new error: the first one holds on to everything that its traceback refers to.
            seen = BadInput(problem.message, field=problem.field)
        _previews.put(key, seen)
    if isinstance(seen, BadInput):
        raise BadInput(seen.message, field=seen.field)
    return seen


def _version(where: Location, query: str) -> FileVersion | str | None:
    """Return the version of a source, which is part of the key of its preview."""
    if isinstance(where, Path) and not where.is_dir():
        return FileVersion.of(where)
    return version_of(where, query, fresh=False)


def _read_preview(params: LoadDataParams, where: Location) -> Preview:
    """Read a preview: our own samples in this process, other sources in a child process."""
    arguments: dict[str, Any] = {
        "params_json": params.model_dump_json(),
        "path": str(where),
        "max_bytes": MAX_BYTES,
        "start_bytes": START_BYTES,
        "start_rows": START_ROWS,
    }
    if sample_name(params.source) is not None:
        # Our own file: it needs no protection.
        facts, data = read_in_child(**arguments)
    else:
        imports = formats.IMPORTS
        call = sandbox.Call("nodes.data.tables:read_in_child", params.source, arguments, imports)
        if isinstance(where, Database):
            call = replace(call, slow="it returns too slowly; select fewer rows", field="query")
        elif isinstance(where, Path):
            call = replace(call, imports=formats.imports_for(where, params.file_format))
        else:
            call = replace(call, slow="the storage answers too slowly")
        facts, data = sandbox.call(call)
    sheets = tuple(facts["sheets"])
    return Preview(data, tuple(facts["names"]), facts["complete"], facts["rows"], sheets)


def read_in_child(
    params_json: str, path: str, max_bytes: int, start_bytes: int, start_rows: int
) -> tuple[dict[str, Any], pa.Table]:
    """Read a file for a preview: what is known of the table, and its columns in their types.

    The arguments are plain values, because they are sent to a child process.
    """
    # Imported here, because that module imports this one.
    from nodes.load_data import LoadDataParams

    params = LoadDataParams.model_validate_json(params_json)
    if sample_name(params.source) == "fraud":
        data = payments(params.rows, params.fraud_share, params.seed)
        start = formats.Start(data, True, data.num_rows)
    else:
        where = location(path)
        with explaining(where):
            start = _read_start(where, params, max_bytes, start_bytes, start_rows)
    facts = {
        "names": start.data.column_names,
        "complete": start.complete,
        "rows": start.rows,
        "sheets": start.sheets,
    }
    return facts, _with_types(start.data, params)


def _read_start(
    where: Location, params: LoadDataParams, max_bytes: int, start_bytes: int, start_rows: int
) -> formats.Start:
    """Return the whole table if it is small, or else its first rows."""
    if isinstance(where, Database):
        result = _query_result(where, params)
        return formats.start_of_tables(result, where.name, None, max_bytes, start_rows)
    return formats.read_start(
        where,
        params.file_format,
        _as_text(params),
        params.max_columns,
        max_bytes=max_bytes,
        start_bytes=start_bytes,
        start_rows=start_rows,
    )


@dataclass(frozen=True)
class _PreviewKey:
    """Identify a preview: the source, its version, and the settings that change how it is read."""

    path: Location
    version: FileVersion | str | None
    settings: str


class _Previews:
    """Remember the previews that were read last, and why files could not be read.

    The oldest ones are dropped when all of them take more than ``REMEMBERED_BYTES``. Several
    threads use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[_PreviewKey, Preview | BadInput] = OrderedDict()
        self._bytes = 0

    def get(self, key: _PreviewKey) -> Preview | BadInput | None:
        """Return what is remembered, and count it as just used; None if nothing is."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: _PreviewKey, seen: Preview | BadInput) -> None:
        """Remember a preview or a failure, and drop the oldest ones if they take too much."""
        with self._lock:
            self._remove(key)
            self._known[key] = seen
            self._bytes += self._cost(seen)
            # The newest entry always stays, even if it alone is too large.
            while self._bytes > REMEMBERED_BYTES and len(self._known) > 1:
                self._remove(next(iter(self._known)))

    def move(self, old: Path, new: Path) -> None:
        """Keep the previews of a renamed file under its new name, if its content is the same."""
        old, new = old.resolve(), new.resolve()
        # Read outside of the lock: the disk may be slow.
        version = FileVersion.of(new)
        if version is None:
            return
        with self._lock:
            moved = {key: seen for key, seen in self._known.items() if key.path == old}
            for key in moved:
                self._remove(key)
        for key, seen in moved.items():
            # The content may have been replaced in the meantime.
            before = key.version
            if isinstance(before, FileVersion) and before.content == version.content:
                self.put(_PreviewKey(new, version, key.settings), seen)

    def _remove(self, key: _PreviewKey) -> None:
        """Forget an entry, if there is one; the caller holds the lock."""
        seen = self._known.pop(key, None)
        if seen is not None:
            self._bytes -= self._cost(seen)

    @staticmethod
    def _cost(seen: Preview | BadInput) -> int:
        """Return the bytes that an entry counts as."""
        # At least a megabyte, so that the number of previews is limited too: each maps a file.
        least = 1 << 20
        if isinstance(seen, Preview):
            return max(least, int(seen.data.nbytes))
        return least


_previews = _Previews()
