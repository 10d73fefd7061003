"""From a file to an Arrow table: which format it is, who reads it, and whether its columns have usable names.

``read`` gives the whole table, ``names`` the columns as far as the beginning of the file tells. Whatever is wrong
with the file comes out as ``BadInput`` that says how to mend it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import listed
from nodes.data.csv_reader import Dialect, csv_names, read_csv
from nodes.data.libsvm import read_libsvm, too_many_columns

if TYPE_CHECKING:
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
}
COMPRESSED = (".gz", ".bz2", ".zst")


def is_compressed(path: Path) -> bool:
    """Whether the bytes on disk say little about the size of what they hold."""
    return path.suffix.lower() in COMPRESSED


def read(path: Path, file_format: str, dialect: Dialect, as_text: Collection[str], max_columns: int) -> pa.Table:
    """The table in the file, with names that are sound; ``as_text`` columns of a CSV are left as written."""
    found = format_of(path, file_format)
    if found == "libsvm":
        return read_libsvm(path, max_columns)
    check_names(path, names(path, found, dialect) or [], max_columns)
    if found in ("csv", "tsv"):
        return read_csv(path, _dialect_for(found, dialect), as_text)
    data = _read_binary(path, found)
    if data.num_rows == 0:
        raise BadInput(f"'{path.name}' has no rows", field="source")
    return data


def names(path: Path, file_format: str, dialect: Dialect) -> list[str] | None:
    """The column names, or ``None`` for a format that tells them only at its end."""
    found = format_of(path, file_format)
    if found == "libsvm":
        return None
    if found in ("csv", "tsv"):
        return csv_names(path, _dialect_for(found, dialect))
    try:
        return list(parquet_file(path).schema_arrow.names if found == "parquet" else arrow_reader(path).schema.names)
    except UnicodeDecodeError as error:
        raise damaged(path, found.capitalize(), error) from None


def format_of(path: Path, file_format: str) -> str:
    """The format chosen, or else the one the file's name tells; ``BadInput`` for an empty file."""
    if path.stat().st_size == 0:
        raise BadInput(f"'{path.name}' is empty", field="source")
    if file_format != "auto":
        return file_format
    suffix = path.with_suffix("").suffix if is_compressed(path) else path.suffix
    if suffix.lower() not in SUFFIXES:
        raise BadInput(
            f"'{path.name}' does not end in {', '.join(sorted(SUFFIXES))}; choose the format of the file",
            field="format",
        )
    return SUFFIXES[suffix.lower()]


def check_names(path: Path, found: list[str], max_columns: int) -> None:
    """Not too many, none empty, none twice."""
    if len(found) > max_columns:
        raise too_many_columns(path.name, len(found), max_columns)
    if "" in found:
        raise BadInput(f"column {found.index('') + 1:,} of '{path.name}' has no name; give it one", field="source")
    twice = [name for name, count in Counter(found).items() if count > 1]
    if twice:
        raise BadInput(
            f"'{path.name}' has several columns named {listed(twice)}; rename them, "
            "or say that the file has no header if its first row is data",
            field="source",
        )


def _dialect_for(file_format: str, dialect: Dialect) -> Dialect:
    if file_format == "tsv" and dialect.delimiter == "auto":
        return Dialect("tab", dialect.encoding, dialect.header, dialect.missing)
    return dialect


def parquet_file(path: Path, *, by_block: bool = False) -> Any:
    """The file, opened; ``BadInput`` if it is no Parquet file.

    ``by_block``: nothing is read ahead, which would be kept in memory until the end of the file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, pre_buffer=not by_block, buffer_size=1 << 20 if by_block else 0)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Parquet", error) from None


def arrow_reader(path: Path, *, mapped: bool = False) -> Any:
    """Reader of the file format, which Feather is too, or else of the stream format.

    ``mapped``: the file is not read but mapped into memory, so that a batch takes none until it is looked at.
    """
    import pyarrow as pa

    try:
        source = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        return pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, "Arrow", error) from None


def _read_binary(path: Path, file_format: str) -> pa.Table:
    import pyarrow as pa

    try:
        data = parquet_file(path).read() if file_format == "parquet" else arrow_reader(path).read_all()
        data.validate(full=True)  # offsets that point nowhere would crash whoever reads the table
        return data
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, file_format.capitalize(), error) from None


def damaged(path: Path, title: str, error: Exception) -> BadInput:
    """What to say of a file that its reader cannot make sense of."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadInput(f"'{path.name}' is no {title} file, or damaged ({reason}); choose its format", field="source")
