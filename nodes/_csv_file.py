"""Reading delimited text with Arrow, and finding out what is wrong with it when Arrow cannot.

``read_csv`` gives the table as Arrow inferred it, ``csv_names`` the column names alone. The fast reader does not
say which row is bad, so a failure is explained by a second, slower look at the file.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
HEAD = 1 << 20
"""Bytes looked at to tell text from other data, to guess the delimiter and to find the names: one block of Arrow's."""
SNIFFED_ROWS = 100


@dataclass(frozen=True)
class Dialect:
    """How a delimited text is written."""

    delimiter: str = "auto"
    """A key of ``DELIMITERS``, or ``auto``."""
    encoding: str = "utf-8"
    header: bool = True
    missing: frozenset[str] = field(default_factory=frozenset)


def read_csv(path: Path, dialect: Dialect, as_text: Collection[str]) -> pa.Table:
    """All rows; the columns in ``as_text`` as they are written, the others in the type they look like."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    parsing = _parsing(path, dialect)
    raw_names = _raw_names(path, dialect, parsing)
    names = _names(raw_names, dialect)
    converting = _converting(dialect, [raw for raw, name in zip(raw_names, names, strict=True) if name in as_text])
    try:
        data = pa_csv.read_csv(
            _stream(path), read_options=_reading(dialect), parse_options=parsing, convert_options=converting
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _explained(path, dialect, parsing, error) from None
    _check_read(path, dialect, data)
    return data.rename_columns(names)


def csv_names(path: Path, dialect: Dialect) -> list[str]:
    """The column names, from the first block of the file."""
    return _names(_raw_names(path, dialect, _parsing(path, dialect)), dialect)


def _stream(path: Path) -> Any:
    """The bytes of the file, decompressed if its name says so."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


def _reading(dialect: Dialect, **options: Any) -> Any:
    import pyarrow.csv as pa_csv

    return pa_csv.ReadOptions(encoding=dialect.encoding, autogenerate_column_names=not dialect.header, **options)


def _parsing(path: Path, dialect: Dialect) -> Any:
    import pyarrow.csv as pa_csv

    head = _head(path, dialect)
    delimiter = DELIMITERS.get(dialect.delimiter) or _guess_delimiter(head)
    return pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _converting(dialect: Dialect, as_text: Collection[str]) -> Any:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    return pa_csv.ConvertOptions(
        column_types={name: pa.string() for name in as_text},
        # Some files put a space after each delimiter: " ?" is as missing as "?".
        null_values=[*dialect.missing, *(f" {text}" for text in dialect.missing)],
        strings_can_be_null=True,
    )


def _raw_names(path: Path, dialect: Dialect, parsing: Any) -> list[str]:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    lenient = pa_csv.ParseOptions(
        delimiter=parsing.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
    )
    try:
        with pa_csv.open_csv(_stream(path), read_options=_reading(dialect), parse_options=lenient) as reader:
            return list(reader.schema.names)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _explained(path, dialect, parsing, error) from None


def _names(raw: list[str], dialect: Dialect) -> list[str]:
    return [name.strip() for name in raw] if dialect.header else [f"f{i + 1}" for i in range(len(raw))]


def _head(path: Path, dialect: Dialect) -> str:
    """The first lines as text; ``BadInput`` if there are none or they are no text at all."""
    try:
        with _stream(path) as stream:
            head = bytes(stream.read(HEAD))
    except OSError:
        raise BadInput(f"'{path.name}' cannot be decompressed; it is damaged or misnamed", field="source") from None
    text = head.decode(dialect.encoding, errors="replace")
    if "\0" in text and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadInput(f"'{path.name}' is not text; save it as CSV, or choose its format", field="source")
    if not text.strip("\ufeff \r\n\t"):
        raise BadInput(f"'{path.name}' is empty", field="source")
    try:
        return codecs.getincrementaldecoder(dialect.encoding)().decode(head)
    except UnicodeDecodeError:
        raise _bad_encoding(path, dialect) from None


def _guess_delimiter(head: str) -> str:
    """The one that cuts the first rows into the most columns, as many in each row."""
    return max(DELIMITERS.values(), key=lambda delimiter: _cut(head, delimiter))


def _cut(head: str, delimiter: str) -> tuple[bool, bool, int]:
    """How well a delimiter cuts: whether it does, into rows of even length, and into how many columns."""
    try:
        rows = csv.reader(io.StringIO(head.lstrip("\ufeff")), delimiter=delimiter)
        widths = [len(row) for row in islice(rows, SNIFFED_ROWS) if row] or [0]
    except csv.Error:
        return False, False, 0
    # The last row may be cut off where the head ends.
    even = len(set(widths[:-1] or widths)) == 1
    # A space is often just part of a text: it counts only when nothing else cuts.
    return widths[0] > 1 and delimiter != " ", even, widths[0]


def _check_read(path: Path, dialect: Dialect, data: pa.Table) -> None:
    import pyarrow.types as types

    if data.num_rows == 0:
        raise _no_rows(path)
    if any(types.is_binary(kind) for kind in data.schema.types):
        raise _bad_encoding(path, dialect)
    last = data.column(-1)[-1].as_py()
    if isinstance(last, str) and last.endswith("\n"):
        raise BadInput(
            f"row {data.num_rows + dialect.header:,} of '{path.name}' has a quote that is never closed, "
            "so the rest of the file became one value; close or remove it",
            field="source",
        )


def _no_rows(path: Path) -> BadInput:
    return BadInput(f"'{path.name}' has a header but no rows; add rows, or say that it has no header", field="source")


def _explained(path: Path, dialect: Dialect, parsing: Any, error: Exception) -> BadInput:
    """What a failed read means for the person whose file it is."""
    text = str(error)
    if isinstance(error, UnicodeDecodeError) or _first_undecodable(path, dialect.encoding):
        return _bad_encoding(path, dialect)
    if "Empty CSV" in text:
        return _no_rows(path)
    return _ragged(path, dialect, parsing) or BadInput(f"'{path.name}' cannot be read as CSV: {text}", field="source")


def _ragged(path: Path, dialect: Dialect, parsing: Any) -> BadInput | None:
    """Rows are counted only by one thread; so the file is read once more, up to the first row that does not fit."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    bad_rows: list[Any] = []

    def note(row: Any) -> str:
        bad_rows.append(row)
        return "error"

    strict = pa_csv.ParseOptions(delimiter=parsing.delimiter, newlines_in_values=True, invalid_row_handler=note)
    with suppress(pa.ArrowInvalid, UnicodeDecodeError):
        pa_csv.read_csv(_stream(path), read_options=_reading(dialect, use_threads=False), parse_options=strict)
    if not bad_rows:
        return None
    row = bad_rows[0]
    counting = ", counting the header," if dialect.header else ""
    return BadInput(
        f"row {row.number:,} of '{path.name}'{counting} has {_values(row.actual_columns)} where "
        f"{row.expected_columns:,} are expected: {row.text[:60]!r}; "
        "correct the row, quote values that hold the delimiter, or choose another delimiter",
        field="source",
    )


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count:,} values"


def _bad_encoding(path: Path, dialect: Dialect) -> BadInput:
    line, byte = _first_undecodable(path, dialect.encoding) or (1, "the end of the file")
    with _stream(path) as stream:
        is_utf16 = bytes(stream.read(2)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return BadInput(
        f"'{path.name}' is not {dialect.encoding}: {byte} in line {line:,} cannot be decoded; "
        f"set the encoding, for example {'utf-16' if is_utf16 else 'latin-1'}",
        field="encoding",
    )


def _first_undecodable(path: Path, encoding: str) -> tuple[int, str] | None:
    """The line and the byte that the encoding does not know, if there is one."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, at_end = 1, False
    with _stream(path) as stream:
        while not at_end:
            block = bytes(stream.read(1 << 20))
            at_end = not block
            try:
                line += decoder.decode(block, final=at_end).count("\n")
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(encoding, errors="ignore")
                return line + good.count("\n"), f"byte 0x{error.object[error.start]:02x}"
    return None
