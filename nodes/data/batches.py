"""Files read block by block, each block a table of so many rows, whatever the format.

- ``Writing``     how a file is written, as far as that is not seen from its name
- ``open_blocks`` opens a file for reading
- ``BlockFile``   its column names, how many rows it may have, and its blocks

Memory is bounded by the size of a block, not by that of the file. All values of a CSV file come as the texts they are
written as, also those that may mean a missing one: what they are is for the model to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from nodes.data import formats
from nodes.data.csv_reader import Dialect, csv_names, stream_csv
from nodes.data.libsvm import stream_libsvm
from nodes.models.new_data import MISSING_TEXTS

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COLUMNS = 100_000
SAMPLE = 1 << 20
"""Bytes by which the rows of a text file are guessed."""


@dataclass(frozen=True)
class Writing:
    """How a file is written; ``auto`` goes by the ending of its name."""

    format: str = "auto"
    dialect: Dialect = field(default_factory=lambda: Dialect(missing=MISSING_TEXTS))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, for another process."""
        return {"format": self.format, "dialect": {**asdict(self.dialect), "missing": sorted(self.dialect.missing)}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Writing:
        """Return what ``to_json`` was given."""
        return cls(data["format"], Dialect(**{**data["dialect"], "missing": frozenset(data["dialect"]["missing"])}))


@dataclass(frozen=True)
class BlockFile:
    """A file that is read block by block."""

    path: Path
    names: list[str] | None
    """Its columns; ``None`` for LibSVM, where any column may be left out."""
    total: int | None
    """About how many rows it has, if that can be told."""
    read: Callable[[Sequence[str], int], Iterator[pa.Table]]
    as_written: bool = False
    """Whether all values come as texts, none of them missing."""

    def blocks(self, wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Those columns of the file, ``rows`` rows at a time; the last block may have fewer."""
        return regrouped(self.read(wanted, rows), rows)


def open_blocks(path: Path, writing: Writing | None = None) -> BlockFile:
    """The file, ready to be read; ``BadInput`` if it cannot be or its columns have no sound names."""
    writing = writing or Writing()
    if not path.is_file():
        raise BadInput(f"there is no file '{path}'" if not path.exists() else f"'{path}' is no file")
    found = formats.format_of(path, writing.format)
    if found == "libsvm":
        return BlockFile(path, None, _guess(path), lambda wanted, rows: stream_libsvm(path, wanted, rows))
    if found in ("csv", "tsv"):
        opened = _open_csv(path, writing.dialect if found == "csv" else _tabbed(writing.dialect))
    else:
        opened = _open_parquet(path) if found == "parquet" else _open_arrow(path)
    formats.check_names(path, opened.names or [], MOST_COLUMNS)
    return opened


def regrouped(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in blocks of ``rows``; nothing is copied."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    count = 0
    for table in tables:
        while count + table.num_rows >= rows:
            taken = rows - count
            yield pa.concat_tables([*waiting, table.slice(0, taken)])
            waiting, count, table = [], 0, table.slice(taken)
        if table.num_rows:
            waiting.append(table)
            count += table.num_rows
    if waiting:
        yield pa.concat_tables(waiting)


def _tabbed(dialect: Dialect) -> Dialect:
    if dialect.delimiter != "auto":
        return dialect
    return replace(dialect, delimiter="tab")


def _open_csv(path: Path, dialect: Dialect) -> BlockFile:
    as_written = replace(dialect, missing=frozenset())

    def read(wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
        return stream_csv(path, as_written, wanted)

    return BlockFile(path, csv_names(path, dialect), _guess(path), read, as_written=True)


def _guess(path: Path) -> int | None:
    """The rows of a text file by those at its beginning; unknown if it is compressed."""
    if formats.is_compressed(path):
        return None
    with path.open("rb") as file:
        sample = file.read(SAMPLE)
    lines = sample.count(b"\n")
    return round(lines * path.stat().st_size / len(sample)) if lines else None


def _open_parquet(path: Path) -> BlockFile:
    file = formats.parquet_file(path, by_block=True)

    def read(wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
        batches = file.iter_batches(batch_size=rows, columns=list(wanted))
        yield from _checked(path, "Parquet", batches, wanted)

    return BlockFile(path, list(file.schema_arrow.names), file.metadata.num_rows, read)


def _open_arrow(path: Path) -> BlockFile:
    reader = formats.arrow_reader(path, mapped=True)

    def read(wanted: Sequence[str], rows: int) -> Iterator[pa.Table]:
        batches = (
            reader
            if not hasattr(reader, "num_record_batches")
            else map(reader.get_batch, range(reader.num_record_batches))
        )
        yield from _checked(path, "Arrow", iter(batches), wanted)

    return BlockFile(path, list(reader.schema.names), None, read)


def _checked(path: Path, title: str, batches: Iterator[Any], wanted: Sequence[str]) -> Iterator[pa.Table]:
    """Tables of the batches; whatever is wrong with the file becomes ``BadInput``."""
    import pyarrow as pa

    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            table = pa.Table.from_batches([batch]).select(list(wanted))
            table.validate(full=True)  # offsets that point nowhere would crash whoever reads the table
        except (pa.ArrowException, OSError) as error:
            raise formats.damaged(path, title, error) from None
        yield table
