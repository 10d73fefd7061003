"""A look into a file, bounded whatever its size: small tables are read as they are, of large ones the first rows.

- ``Reading``  how a text file is written, where that is not the usual way
- ``Look``     the table that was read, and whether it is all there is
- ``look``     reads it, just as the node *Load data* would; ``BadInput`` says what stands in the way
- ``classes``  how many rows each class of the target has
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import sandbox
from engine.errors import BadInput
from engine.values import Table
from engine.workspace import Files
from nodes.data import formats
from nodes.data.csv_reader import Dialect
from nodes.data.decoded_size import is_within
from nodes.data.samples import sample_name
from nodes.load_data import IMPORTS, LoadDataParams, load

if TYPE_CHECKING:
    import pyarrow as pa

WHOLE_BYTES = 64 << 20
"""Tables up to this size, once decoded, are read as a whole."""
HEAD_BYTES = 16 << 20
HEAD_ROWS = 50_000
BATCH_ROWS = 1_000


@dataclass(frozen=True)
class Reading:
    """How a text file is written; the names are those of *Load data*."""

    encoding: str = "utf-8"
    delimiter: str = "auto"
    header: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Only what differs from the usual."""
        usual = asdict(Reading())
        return {name: value for name, value in asdict(self).items() if value != usual[name]}


@dataclass(frozen=True)
class Look:
    """What was read of a source."""

    table: Table
    whole: bool
    """Whether it is the whole table, or only its first rows."""
    rows: int | None
    """Rows of the whole table, where they are known."""
    empty: tuple[str, ...] = ()
    """Columns that hold no value in the rows that were read."""
    without_target: int = 0
    """Rows that have no value in the target; they are left out of ``table``."""


def look(source: str, files: Files, reading: Reading | None = None, target: str | None = None) -> Look:
    """Return the table of a file or a sample, with a target if one is chosen.

    A file is read in a child process: it may come from anyone, and be damaged.
    """
    params = params_for(source, reading or Reading(), target)
    if sample_name(source) is not None:
        table = load(params, files)
        return Look(table, True, table.data.num_rows)
    facts, data = sandbox.call(
        sandbox.Call(
            "nodes.data.tables:read_file",
            source,
            {
                "workspace": str(files.workspace),
                "params_json": params.model_dump_json(),
                "whole_bytes": WHOLE_BYTES,
                "head_bytes": HEAD_BYTES,
                "head_rows": HEAD_ROWS,
            },
            IMPORTS,
        )
    )
    table = Table(data, facts["target"], facts["roles"])
    return Look(table, facts["whole"], facts["rows"], tuple(facts["empty"]), facts["without_target"])


def read_file(
    workspace: str, params_json: str, whole_bytes: int, head_bytes: int, head_rows: int
) -> tuple[dict[str, Any], pa.Table]:
    """Read a file or its first rows, in a child process; what there is to know of them, and the rows."""
    params, files = LoadDataParams.model_validate_json(params_json), Files(Path(workspace))
    path = files.readable(params.source, field="source")
    kind = formats.format_of(path, "auto")
    if is_within(path, kind, whole_bytes, params.max_columns):
        found = _looked(params, files, path, kind, whole=True)
    else:
        with _head(path, kind, params.encoding, head_bytes, head_rows) as (beside, name, head_kind):
            head = params.model_copy(update={"source": name, "format": head_kind})
            found = _looked(head, beside, path, kind, whole=False)
    table = found.table
    facts = {
        "target": table.target, "roles": dict(table.roles), "whole": found.whole, "rows": found.rows,
        "empty": found.empty, "without_target": found.without_target,
    }  # fmt: skip
    return facts, table.data


def params_for(source: str, reading: Reading, target: str | None) -> LoadDataParams:
    """The settings of *Load data* under which a file is looked at: nothing that could be dropped stands in the way."""
    try:
        return LoadDataParams.model_validate(
            {"source": source, "target": target, "missing_target": "drop", "empty_columns": "drop", **reading.settings}
        )
    except ValueError:
        raise BadInput("the name cannot be that of a file", field="source") from None


def classes(table: Table) -> list[tuple[str, int]]:
    """The classes of the target and their rows, in the order that a model knows them."""
    import pyarrow.compute as pc

    labels = table.labels().combine_chunks()
    counted = {each["values"]: each["counts"] for each in pc.value_counts(labels.indices).to_pylist()}
    return [(name, counted.get(place, 0)) for place, name in enumerate(labels.dictionary.to_pylist())]


def _looked(params: LoadDataParams, files: Files, path: Path, kind: str, *, whole: bool) -> Look:
    table = load(params, files)
    names = formats.names(path, kind, params.dialect) or table.data.column_names
    empty = tuple(name for name in names if name not in table.data.column_names)
    if params.target is None:
        return Look(table, whole, table.data.num_rows if whole else _known_rows(path, kind), empty)
    plain = load(params.model_copy(update={"target": None}), files).data.num_rows
    rows = plain if whole else _known_rows(path, kind)
    return Look(table, whole, rows, empty, plain - table.data.num_rows)


def _known_rows(path: Path, kind: str) -> int | None:
    return int(formats.parquet_file(path).metadata.num_rows) if kind == "parquet" else None


# The beginning of a large file


@contextmanager
def _head(path: Path, kind: str, encoding: str, most_bytes: int, most_rows: int) -> Iterator[tuple[Files, str, str]]:
    """A small file with the first rows, in a folder laid out like a workspace; its name and format."""
    with tempfile.TemporaryDirectory(prefix="sylva-") as folder:
        files = Files(Path(folder))
        files.data.mkdir()
        name = path.name
        if kind in ("parquet", "arrow"):
            _write_head_of_batches(path, kind, files.data / name, most_bytes, most_rows)
            yield files, name, "arrow"
        else:
            name = path.stem if formats.is_compressed(path) else name
            (files.data / name).write_bytes(_first_lines(path, encoding, most_bytes))
            yield files, name, kind


def _first_lines(path: Path, encoding: str, most_bytes: int) -> bytes:
    """Whole rows from the beginning of a text: cut at the end of a line that lies in no quotes."""
    import pyarrow as pa

    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            head = bytes(stream.read(most_bytes))
    except OSError:
        raise BadInput(f"'{path.name}' cannot be decompressed; it is damaged or misnamed", field="source") from None
    if encoding not in ("utf-8", "latin-1", "cp1252"):  # where a newline may be part of another character
        return head.decode(encoding, "ignore").rpartition("\n")[0].encode(encoding)
    end = head.rfind(b"\n")
    while end > 0 and head.count(b'"', 0, end) % 2:
        end = head.rfind(b"\n", 0, end)
    return head[: end + 1] if end > 0 else head


def _write_head_of_batches(path: Path, kind: str, target: Path, most_bytes: int, most_rows: int) -> None:
    import pyarrow as pa

    try:
        batches = list(_first_batches(path, kind, most_bytes, most_rows))
    except (pa.ArrowException, OSError) as error:
        raise formats.damaged(path, kind.capitalize(), error) from None
    if not batches:
        raise BadInput(f"'{path.name}' has no rows", field="source")
    data = pa.Table.from_batches(batches).unify_dictionaries()
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, data.schema) as writer:
        writer.write_table(data)


def _first_batches(path: Path, kind: str, most_bytes: int, most_rows: int) -> Iterator[pa.RecordBatch]:
    rows = held = 0
    for batch in _batches(path, kind):
        yield batch.slice(0, most_rows - rows)
        rows, held = rows + batch.num_rows, held + batch.nbytes
        if rows >= most_rows or held >= most_bytes:
            return


def _batches(path: Path, kind: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    formats.check_names(path, formats.names(path, kind, Dialect()) or [], 8192)
    if kind == "parquet":
        # Texts that are repeated stay repeated: written out, a small file may be larger than any memory.
        texts = [field.name for field in pq.ParquetFile(path).schema_arrow if pa.types.is_string(field.type)]
        yield from pq.ParquetFile(path, read_dictionary=texts).iter_batches(BATCH_ROWS)
        return
    reader: Any = formats.arrow_reader(path)
    if hasattr(reader, "num_record_batches"):
        yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
    else:
        yield from reader
