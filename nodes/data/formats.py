"""Read tables from files: CSV, TSV, Parquet, Arrow and Feather, LibSVM, Excel; and write them.

- ``FileFormat``   how a file is written
- ``read``         the whole table
- ``read_start``   the whole table if it is small, or else its first rows
- ``open_blocks``  the file as blocks of rows; memory is bounded by the block, not by the file
- ``open_writer``  a new file to write, as CSV, Parquet or Arrow

Whatever is wrong with a file is raised as ``BadInput`` that says how to fix it.
"""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.scratch import IN_MEMORY, ScratchFolder, block_rows, row_bytes
from engine.text import listed
from nodes.data import excel, parquet_folders
from nodes.data.csv_reader import BLOCK, CsvFile, TextFile
from nodes.data.locations import RemoteFile, failure

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    **dict.fromkeys(excel.SUFFIXES, "excel"),
}
COMPRESSED = (".gz", ".bz2", ".zst")
TITLES = {"csv": "CSV", "parquet": "Parquet", "arrow": "Arrow"}
SourceFile = Path | RemoteFile
"""A file of this machine or of a storage; of Parquet, also a folder."""
MISSING_TEXTS = frozenset(["", "NA", "N/A", "NaN", "nan", "null", "NULL", "?"])
"""Texts that mean a missing value, unless the settings say otherwise."""
MAX_COLUMNS = 100_000
BATCH_ROWS = 1_000
MOST_ROWS = 1 << 17
"""Rows that are read at once of a whole file, fewer of a wide one."""
SAMPLE_BYTES = 1 << 20
"""Bytes by which the number of rows of a text file is estimated."""
VALUE_BYTES = 8
"""Bytes that a value is assumed to need at least."""
IMPORTS = ("numpy", "pyarrow", "nodes.data.column_types", "pyarrow.csv", "pyarrow.parquet")
"""Slow modules that reading a file needs."""

LIBSVM_COLUMN = re.compile(r"f([1-9][0-9]{0,8})", re.ASCII)
LIBSVM_TARGET = "target"
MAX_LIBSVM_VALUES = 1_000_000_000
"""A LibSVM file with more values than this (8 GB), those that are left out included, is refused."""


@dataclass(frozen=True)
class FileFormat:
    """Describe how a file is written; the fields are named like the settings of *Load data*."""

    format: str = "auto"
    """``auto`` goes by the ending of the file's name."""
    delimiter: str = "auto"
    """A key of ``csv_reader.DELIMITERS``, or ``auto``: the one that fits the first lines."""
    encoding: str = "utf-8"
    header: bool = True
    missing: frozenset[str] = MISSING_TEXTS
    sheet: str = ""
    """The sheet of an Excel file; empty: the first one."""
    query: str = ""
    """The query that reads a table from a database."""

    def for_file(self, path: SourceFile) -> FileFormat:
        """Return the format with ``auto`` replaced by what the ending of the file's name says.

        TSV becomes CSV with a tab; a folder is Parquet. Raise ``BadInput`` if the ending is
        unknown, or the file is empty.
        """
        if path.is_dir():
            return replace(self, format="parquet folder")
        if _size(path) == 0:
            raise BadInput(f"'{path.name}' is empty; choose another file", field="source")
        file_format = self.format
        if file_format == "auto":
            file_format = SUFFIXES.get(_suffix(path), "auto")
        if file_format == "auto":
            raise BadInput(
                f"the name '{path.name}' does not show the format of the file, because it does not "
                f"end in {', '.join(sorted(SUFFIXES))}; choose the format",
                field="format",
            )
        if file_format == "tsv" and self.delimiter == "auto":
            return replace(self, format="csv", delimiter="tab")
        return replace(self, format="csv" if file_format == "tsv" else file_format)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of *Load data* that differ from their defaults."""
        defaults = FileFormat().to_json()
        return {name: value for name, value in self.to_json().items() if value != defaults[name]}

    def to_json(self) -> dict[str, Any]:
        """Return the format as plain JSON, for another process."""
        return {**self.__dict__, "missing": sorted(self.missing)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> FileFormat:
        """Return the format that ``to_json`` wrote."""
        return cls(**{**data, "missing": frozenset(data["missing"])})


def _size(path: SourceFile) -> int:
    """Return the size of a file in bytes."""
    return path.stat().st_size if isinstance(path, Path) else path.size()


def is_compressed(path: SourceFile) -> bool:
    """Return whether the ending of a file's name says that it is compressed."""
    return Path(path.name).suffix.lower() in COMPRESSED


def is_excel(name: str) -> bool:
    """Return whether a file of this name is an Excel or OpenDocument file, which has sheets."""
    return SUFFIXES.get(_suffix(Path(name))) == "excel"


def is_text_format(name: str) -> bool:
    """Return whether a file of this name is CSV or TSV, to which encoding and delimiter apply."""
    return SUFFIXES.get(_suffix(Path(name))) in ("csv", "tsv")


def is_encoding(name: str) -> bool:
    """Return whether Python knows this encoding and can read files with it."""
    try:
        "a".encode(name)
        # These two are for host names, and take endless time on a file.
        return codecs.lookup(name).name not in ("idna", "punycode")
    except (LookupError, ValueError):
        return False


def is_libsvm(path: SourceFile, file_format: FileFormat) -> bool:
    """Return whether a file is LibSVM text, by its name or because the format says so."""
    if file_format.format != "auto":
        return file_format.format == "libsvm"
    return SUFFIXES.get(_suffix(path)) == "libsvm"


def imports_for(path: SourceFile, file_format: FileFormat) -> tuple[str, ...]:
    """Return the slow modules that reading this file needs."""
    return (*IMPORTS, "sklearn.datasets") if is_libsvm(path, file_format) else IMPORTS


def _suffix(path: SourceFile) -> str:
    """Return the ending of a file's name in lower case, without that of a compression."""
    name = Path(path.name)
    if is_compressed(path):
        name = name.with_suffix("")
    return name.suffix.lower()


# A whole table


def read(
    path: SourceFile,
    file_format: FileFormat,
    as_text: Collection[str],
    max_columns: int,
    scratch: ScratchFolder = IN_MEMORY,
) -> pa.Table:
    """Return the whole table of a file.

    Columns of ``as_text`` are left as written in a CSV file. A large table of Parquet or Arrow is
    read by blocks into ``scratch``. Raise ``BadInput`` that says how to
    fix it if the file cannot be read, or has more than ``max_columns`` columns.
    """
    import pyarrow as pa

    file_format = file_format.for_file(path)
    if file_format.format == "libsvm":
        labels, matrix = _read_libsvm(TextFile(path), max_columns)
        return _dense_table(path.name, labels, matrix)
    if file_format.format == "csv":
        return _read_csv(TextFile(path), file_format, as_text, max_columns)
    if file_format.format == "excel":
        return _read_excel(path, file_format, as_text, max_columns).data
    # It checks the names of the columns before the file is read.
    file = open_blocks(path, file_format, max_columns)
    if file.size is not None and scratch.is_large(file.size):
        data = scratch.stored(_some_blocks(file))
    elif file_format.format == "parquet folder":
        data = pa.concat_tables(_some_blocks(file))
    else:
        data = _read_binary(path, file_format.format)
    if not data.num_rows:
        raise _no_rows(path.name)
    return data


@dataclass(frozen=True)
class Start:
    """Hold the beginning of a table, or all of it if ``complete``."""

    data: pa.Table
    complete: bool
    rows: int | None
    """Rows of the whole table, where that is known."""
    sheets: tuple[str, ...] = ()
    """All sheets of an Excel file."""


def read_start(
    path: SourceFile,
    file_format: FileFormat,
    as_text: Collection[str],
    max_columns: int,
    *,
    max_bytes: int,
    start_bytes: int,
    start_rows: int,
) -> Start:
    """Return the whole table if it takes at most ``max_bytes``, or else its first rows.

    These are as many as ``start_bytes`` of text hold, or ``start_rows`` of another format. The file
    is read only as far as necessary: a small file may hold a table larger than any memory.

    Raise ``BadInput`` like ``read``.
    """
    file_format = file_format.for_file(path)
    if file_format.format == "excel":
        sheet = _read_excel(path, file_format, as_text, max_columns)
        rows = sheet.data.num_rows
        if sheet.data.nbytes > max_bytes:
            return Start(sheet.data.slice(0, start_rows), False, rows, sheet.sheets)
        return Start(sheet.data, True, rows, sheet.sheets)
    if file_format.format not in ("csv", "libsvm"):
        return _start_of_blocks(open_blocks(path, file_format, max_columns), max_bytes, start_rows)
    text, complete = _start_of_text(path, file_format, max_bytes, start_bytes)
    if file_format.format == "csv":
        data = _read_csv(text, file_format, as_text, max_columns)
    else:
        labels, matrix = _read_libsvm(text, max_columns)
        # A sparse file may be much larger as a table with all its zeros.
        rows = min(len(labels), max_bytes // (VALUE_BYTES * matrix.shape[1]) + 1)
        complete = complete and rows == len(labels)
        data = _dense_table(path.name, labels[:rows], matrix[:rows])
    return Start(data, complete, data.num_rows if complete else None)


def _start_of_text(
    path: SourceFile, file_format: FileFormat, max_bytes: int, start_bytes: int
) -> tuple[TextFile, bool]:
    """Return the text or, if it is too large, its first whole rows; and whether it is complete."""
    content = TextFile(path).start(max_bytes + 1)
    if len(content) <= max_bytes:
        return TextFile(path, content), True
    start = content[:start_bytes]
    if file_format.encoding not in ("utf-8", "latin-1", "cp1252"):
        # In other encodings, a byte that looks like a newline may be part of another character.
        lines, newline, _ = start.decode(file_format.encoding, "ignore").rpartition("\n")
        return TextFile(path, (lines + newline).encode(file_format.encoding)), False
    end = start.rfind(b"\n")
    # A newline inside quotes is part of a value.
    while end > 0 and start.count(b'"', 0, end) % 2:
        end = start.rfind(b"\n", 0, end)
    return TextFile(path, start[: end + 1] if end > 0 else start), False


def _start_of_blocks(file: BlockFile, max_bytes: int, start_rows: int) -> Start:
    """Return the first blocks of a file, until they take ``max_bytes``."""
    blocks = file.read(file.names or [], BATCH_ROWS)
    return start_of_tables(blocks, file.path.name, file.total, max_bytes, start_rows)


def start_of_tables(
    blocks: Iterator[pa.Table], name: str, total: int | None, max_bytes: int, start_rows: int
) -> Start:
    """Return the first tables, until they take ``max_bytes``; raise ``BadInput`` without rows."""
    import pyarrow as pa

    tables: list[pa.Table] = []
    size = 0
    for table in blocks:
        tables.append(table)
        # Arrow stores nulls and bools in bits, but they take whole values when they are used.
        size += max(_own_bytes(table), table.num_rows * table.num_columns * VALUE_BYTES)
        if size >= max_bytes:
            return Start(pa.concat_tables(tables).slice(0, start_rows), False, total)
    if not any(table.num_rows for table in tables):
        raise _no_rows(name)
    data = pa.concat_tables(tables)
    return Start(data, True, data.num_rows)


def _own_bytes(table: pa.Table) -> int:
    """Return the size of a table without its dictionaries, which several tables of a file share."""
    import pyarrow.types as types

    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            total += (chunk.indices if types.is_dictionary(chunk.type) else chunk).nbytes
    return total


def _read_csv(
    text: TextFile, file_format: FileFormat, as_text: Collection[str], max_columns: int
) -> pa.Table:
    """Return the table of a CSV text; raise ``BadInput`` if its columns cannot be used."""
    file = CsvFile.open(text, file_format)
    _check_names(text.name, file.names, max_columns)
    return file.read(as_text)


def _read_excel(
    path: SourceFile, file_format: FileFormat, as_text: Collection[str], max_columns: int
) -> excel.Sheet:
    """Return a sheet; raise ``BadInput`` if its columns cannot be used."""
    sheet = excel.read_sheet(path, file_format.sheet, file_format.header, tuple(as_text))
    _check_names(path.name, sheet.data.column_names, max_columns)
    return sheet


def _some_blocks(file: BlockFile) -> Iterator[pa.Table]:
    """Yield all rows of a file, at least one block."""
    rows = 0
    for table in file.read(file.names or [], file.rows_at_once):
        rows += table.num_rows
        yield table
    if not rows:
        raise _no_rows(file.path.name)


def _read_binary(path: SourceFile, file_format: str) -> pa.Table:
    """Return the table of a Parquet or Arrow file; raise ``BadInput`` if the file is damaged."""
    import pyarrow as pa

    try:
        is_parquet = file_format == "parquet"
        data = _parquet_file(path).read() if is_parquet else _arrow_reader(path).read_all()
        # A wrong offset would crash the code that uses the table.
        data.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, TITLES[file_format], error) from None
    return data


def _check_names(file: str, names: list[str], max_columns: int) -> None:
    """Raise ``BadInput`` if there are too many names, or if one is empty or used twice."""
    if len(names) > max_columns:
        raise too_many_columns(file, len(names), max_columns)
    if "" in names:
        raise BadInput(
            f"column {names.index('') + 1:,} of '{file}' has no name; give it one in the file",
            field="source",
        )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise BadInput(
            f"'{file}' has several columns named {listed(repeated)}; rename them, "
            "or turn off 'First row is the header' if the first row is data",
            field="source",
        )


def _no_rows(name: str) -> BadInput:
    """Return the message for a file without rows."""
    return BadInput(f"'{name}' has no rows; choose another file", field="source")


def too_many_columns(name: str, columns: int, max_columns: int) -> BadInput:
    """Return the message for a table with too many columns."""
    return BadInput(
        f"'{name}' has {columns:,} columns, and at most {max_columns:,} are allowed; "
        "raise max_columns, or use fewer columns",
        field="max_columns",
    )


def _damaged(path: SourceFile, title: str, error: Exception) -> Exception:
    """Return what to raise for a binary file that cannot be read; ``error`` is Arrow's."""
    if isinstance(error, MemoryError):  # the file may be fine
        return error
    if isinstance(path, RemoteFile) and isinstance(error, OSError):
        return failure(path, error)
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInput(
        f"'{path.name}' is not a {title} file, or it is damaged ({reason}); "
        "choose another format, or save the file again",
        field="source",
    )


# Blocks of rows


@dataclass(frozen=True)
class BlockFile:
    """Read a file block by block, without holding all of it in memory."""

    path: SourceFile
    names: list[str] | None
    """The columns; ``None`` for LibSVM, where any column may be left out."""
    total: int | None
    """The number of rows if it is known: exact for Parquet, an estimate for text."""
    read: Callable[[Sequence[str], int], Iterator[pa.Table]]
    as_written: bool = False
    """Whether all values come as text, and none of them is missing."""
    size: int | None = None
    """About how many bytes its table takes in memory, if that is known: of Parquet and Arrow."""
    rows_at_once: int = MOST_ROWS

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield these columns, ``rows`` rows at a time; the last block may have fewer."""
        return regroup(self.read(columns, rows), rows)


def open_blocks(
    path: SourceFile, file_format: FileFormat | None = None, max_columns: int = MAX_COLUMNS
) -> BlockFile:
    """Open a file to read it block by block.

    All values of a CSV file come as written, also those that may mean a missing one. Raise
    ``BadInput`` if the file does not exist, its format is unknown, or its columns cannot be used.
    """
    if isinstance(path, Path) and not path.exists():
        raise BadInput(f"the file '{path}' does not exist; check its name")
    if isinstance(path, Path) and not (path.is_file() or path.is_dir()):
        raise BadInput(f"'{path}' is not a regular file; copy it to one")
    file_format = (file_format or FileFormat()).for_file(path)
    match file_format.format:
        case "csv":
            file = _open_csv(path, file_format)
        case "libsvm":
            file = _open_libsvm(path)
        case "parquet":
            file = _open_parquet(path)
        case "parquet folder":
            file = _open_folder(path)
        case "excel":
            file = _open_excel(path, file_format)
        case _:
            file = _open_arrow(path)
    _check_names(path.name, file.names or [], max_columns)
    return file


def regroup(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of ``rows`` rows; no value is copied."""
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


def _open_csv(path: SourceFile, file_format: FileFormat) -> BlockFile:
    """Open a CSV or TSV file; its number of rows is an estimate."""
    # The model decides later which texts are missing values.
    file = CsvFile.open(TextFile(path), replace(file_format, missing=frozenset()))

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        return file.iter_tables(columns)

    return BlockFile(path, file.names, _estimate_rows(path), read, as_written=True)


def _estimate_rows(path: SourceFile) -> int | None:
    """Return the rows of a text file as its beginning suggests; None if it is compressed."""
    if is_compressed(path):
        return None
    sample = TextFile(path).start(SAMPLE_BYTES)
    lines = sample.count(b"\n")
    return round(lines * _size(path) / len(sample)) if lines else None


def _open_parquet(path: SourceFile) -> BlockFile:
    """Open a Parquet file; its metadata says how many rows it has."""
    file = _parquet_file(path, read_ahead=False)

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        batches = file.iter_batches(batch_size=rows, columns=list(columns))
        yield from _checked_tables(path, "Parquet", batches, columns)

    schema, rows = file.schema_arrow, file.metadata.num_rows
    names = _schema_names(path, "Parquet", schema)
    size = rows * row_bytes(schema)
    return BlockFile(path, names, rows, read, size=size, rows_at_once=_rows_at_once(schema))


def _open_folder(path: SourceFile) -> BlockFile:
    """Open a folder of Parquet files; their metadata says how many rows there are."""
    dataset = parquet_folders.open_folder(path)

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        batches = parquet_folders.batches(dataset, columns, rows)
        yield from _checked_tables(path, "Parquet", batches, columns)

    schema, rows = dataset.schema, dataset.count_rows()
    names = _schema_names(path, "Parquet", schema)
    size = rows * row_bytes(schema)
    return BlockFile(path, names, rows, read, size=size, rows_at_once=_rows_at_once(schema))


def _rows_at_once(schema: pa.Schema) -> int:
    """Return how many rows of a whole file are read at once."""
    return min(MOST_ROWS, block_rows(schema))


def _open_excel(path: SourceFile, file_format: FileFormat) -> BlockFile:
    """Open an Excel file: it can only be read as a whole."""
    data = _read_excel(path, file_format, (), MAX_COLUMNS).data

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        yield data.select(list(columns))

    return BlockFile(path, data.column_names, data.num_rows, read)


def _open_arrow(path: SourceFile) -> BlockFile:
    """Open an Arrow or Feather file; its number of rows is not known before it is read."""
    # A mapped batch takes no memory before its values are used.
    reader = _arrow_reader(path, mapped=True)

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        yield from _checked_tables(path, "Arrow", _arrow_batches(reader), columns)

    names = _schema_names(path, "Arrow", reader.schema)
    return BlockFile(path, names, None, read, size=_size(path))


def _arrow_batches(reader: Any) -> Iterator[Any]:
    """Return the batches of Arrow's file format or stream format."""
    # Readers of the stream format do not know the number of batches.
    if not hasattr(reader, "num_record_batches"):
        return iter(reader)
    return map(reader.get_batch, range(reader.num_record_batches))


def _schema_names(path: SourceFile, title: str, schema: pa.Schema) -> list[str]:
    """Return the names of the columns; raise ``BadInput`` if they are not valid text."""
    try:
        return list(schema.names)
    except UnicodeDecodeError as error:
        raise _damaged(path, title, error) from None


def _checked_tables(
    path: SourceFile, title: str, batches: Iterator[Any], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield a table of these columns for each batch; raise ``BadInput`` if the file is damaged."""
    import pyarrow as pa

    while True:
        try:
            batch = next(batches, None)
            if batch is None:
                return
            table = pa.Table.from_batches([batch]).select(list(columns))
            # A wrong offset would crash the code that uses the table.
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, title, error) from None
        yield table


def _parquet_file(path: SourceFile, *, read_ahead: bool = True) -> Any:
    """Open a Parquet file; raise ``BadInput`` if it is damaged.

    Reading ahead is faster for a whole table, but what is read ahead stays in memory until the end.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = path if isinstance(path, Path) else path.open()
        buffer = 0 if read_ahead else 1 << 20
        return pq.ParquetFile(source, pre_buffer=read_ahead, buffer_size=buffer)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, "Parquet", error) from None


def _arrow_reader(path: SourceFile, *, mapped: bool = False) -> Any:
    """Open a file of Arrow's file format, which Feather is too, or of its stream format.

    ``mapped`` maps the file into memory instead of reading it.
    """
    import pyarrow as pa

    try:
        if isinstance(path, RemoteFile):
            source = path.open()
        elif mapped:
            source = pa.memory_map(str(path))
        else:
            source = pa.OSFile(str(path))
        is_file_format = source.read(6) == b"ARROW1"
        source.seek(0)
        return pa.ipc.open_file(source) if is_file_format else pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, "Arrow", error) from None


# LibSVM


class LibsvmLines(io.RawIOBase):
    """Feed the lines of a LibSVM text (``label index:value …``) to scikit-learn's reader.

    Labels may be texts, but scikit-learn reads only numbers there. So this class takes the labels
    out. It also knows at which line the reader stopped, for messages.
    """

    def __init__(self, text: TextFile) -> None:
        self._text = text
        self._lines = enumerate(io.BufferedReader(text.open(), BLOCK), start=1)
        self._number, self._line = 0, b""
        self._labels: list[str] = []
        self._rows = self._without_labels()
        self._max_rows: int | None = None

    def __iter__(self) -> Iterator[bytes]:
        """Return the next lines for scikit-learn, at most as many as ``read_rows`` asked for."""
        return islice(self._rows, self._max_rows)

    def read_rows(self, max_rows: int | None = None) -> tuple[list[str], Any]:
        """Return the labels and the sparse matrix of the next rows, or of all that are left.

        Raise ``BadInput`` that names the first line which is not LibSVM.
        """
        from sklearn.datasets import load_svmlight_file

        self._labels, self._max_rows = [], max_rows
        try:
            matrix, _ = load_svmlight_file(self, zero_based=False)
        except OSError as error:
            raise self._text.cannot_read(error) from None
        except (ValueError, OverflowError):
            line = self._line.decode("utf-8", "replace").strip()
            raise BadInput(
                f"line {self._number:,} of '{self._text.name}' is not LibSVM text: {line[:60]!r}; "
                "a line is a label and then index:value pairs, the indices ascending and counted "
                "from 1",
                field="source",
            ) from None
        return self._labels, matrix

    def _without_labels(self) -> Iterator[bytes]:
        """Yield each line with a zero as its label, and store the label; skip comments."""
        for number, line in self._lines:
            self._number, self._line = number, line
            label, *values = line.partition(b"#")[0].split(maxsplit=1) or [b""]
            if not label:
                continue
            if b":" in label:
                raise ValueError("the label is missing")
            self._labels.append(label.decode())
            # scikit-learn needs a number as label; the real one is stored above.
            yield b" ".join([b"0", *values])


def _read_libsvm(text: TextFile, max_columns: int) -> tuple[list[str], Any]:
    """Return the labels and the sparse matrix of all rows; raise ``BadInput`` if it has none."""
    labels, matrix = LibsvmLines(text).read_rows()
    if not labels:
        raise _no_rows(text.name)
    if not matrix.indices.size:
        raise BadInput(
            f"'{text.name}' is not LibSVM text, because no line has index:value pairs; choose its "
            "format",
            field="source",
        )
    if matrix.shape[1] > max_columns:
        raise too_many_columns(text.name, matrix.shape[1], max_columns)
    return labels, matrix


def _dense_table(name: str, labels: list[str], matrix: Any) -> pa.Table:
    """Return columns ``f1`` … ``fn`` and ``target``; an index that a row leaves out is zero.

    Raise ``BadInput`` if the table would be too large with all its zeros.
    """
    import pyarrow as pa

    rows, width = matrix.shape
    if rows * width > MAX_LIBSVM_VALUES:
        raise BadInput(
            f"'{name}' has {rows:,} rows and {width:,} columns, too many to store with their "
            "zeros; use fewer rows or columns",
            field="source",
        )
    values: np.ndarray = matrix.toarray(order="F")
    columns = {f"f{index + 1}": pa.array(values[:, index]) for index in range(width)}
    return pa.table(columns | {LIBSVM_TARGET: pa.array(labels, pa.string())})


def _open_libsvm(path: SourceFile) -> BlockFile:
    """Open a LibSVM file; which columns it has is not known before it is read."""

    def read(columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        lines = LibsvmLines(TextFile(path))
        labels, matrix = lines.read_rows(rows)
        if not labels:
            raise _no_rows(path.name)
        while labels:
            yield _some_columns(labels, matrix, columns)
            labels, matrix = lines.read_rows(rows)

    return BlockFile(path, None, _estimate_rows(path), read)


def _some_columns(labels: list[str], matrix: Any, columns: Collection[str]) -> pa.Table:
    """Return the named columns; one that no row has is zero."""
    import numpy as np
    import pyarrow as pa

    numbers = {name: int(name[1:]) for name in columns if LIBSVM_COLUMN.fullmatch(name)}
    known = [name for name, number in numbers.items() if number <= matrix.shape[1]]
    values: np.ndarray = matrix[:, [numbers[name] - 1 for name in known]].toarray(order="F")
    data = {name: pa.array(np.zeros(len(labels))) for name in numbers}
    data |= {name: pa.array(values[:, index]) for index, name in enumerate(known)}
    if LIBSVM_TARGET in columns:
        data[LIBSVM_TARGET] = pa.array(labels, pa.string())
    return pa.table(data)


# Writing


def open_writer(
    target: Any, file_format: str, schema: pa.Schema, *, floats_repeat: bool = True
) -> Any:
    """Open a file for ``write_table``; ``target`` is a path or a stream.

    Parquet stores values that repeat in a dictionary. Pass ``floats_repeat=False`` for numbers such
    as probabilities, where that would only cost time and space.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if file_format == "csv":
        return pa_csv.CSVWriter(target, schema)
    if file_format == "parquet":
        repeating: bool | list[str] = True
        if not floats_repeat:
            repeating = [field.name for field in schema if not pa.types.is_floating(field.type)]
        return pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=repeating)
    return pa.ipc.new_file(target, schema)
