"""Reading delimited text with Arrow, and finding out what is wrong with it when Arrow cannot.

``read_csv`` gives the table as Arrow inferred it, ``stream_csv`` some columns of it block by block, every value as the
text it is written as, ``csv_names`` the column names alone. The fast reader does not
say which row is bad, so a failure is explained by a second, slower look at the file.

Arrow only ever reads UTF-8 bytes by itself: its background threads may outlive a failed read, and would hang or abort
the program at its end if they called back into Python to decode another encoding.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
BLOCK = 4 << 20
"""Bytes that Arrow reads at once, the most a row may take; as many are looked at to tell text from other data, to
guess the delimiter and to find the names."""
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

    head = _head(path, dialect)
    parsing = _parsing(head, dialect)
    raw_names = _raw_names(path, dialect, parsing, head)
    names = _names(raw_names, dialect)
    converting = _converting(dialect, [raw for raw, name in zip(raw_names, names, strict=True) if name in as_text])
    with _as_utf8(path, dialect) as plain:
        try:
            data = pa_csv.read_csv(
                _stream(plain), read_options=_reading(dialect), parse_options=parsing, convert_options=converting
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise _explained(path, plain, dialect, parsing, error) from None
        _check_read(path, plain, dialect, parsing, data)
    return data.rename_columns(names)


def stream_csv(path: Path, dialect: Dialect, wanted: Collection[str]) -> Iterator[pa.Table]:
    """The ``wanted`` columns, some rows at a time, all of them texts."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    head = _head(path, dialect)
    parsing = _parsing(head, dialect)
    raw_names = _raw_names(path, dialect, parsing, head)
    places = [place for place, name in enumerate(_names(raw_names, dialect)) if name in wanted]
    read = sorted({*places, len(raw_names) - 1})  # a quote that is never closed shows in the last column
    converting = _converting(dialect, [raw_names[place] for place in read])
    converting.include_columns = [raw_names[place] for place in read]
    names = [_names(raw_names, dialect)[place] for place in read]
    table = None
    with _as_utf8(path, dialect) as plain:
        try:
            with pa_csv.open_csv(
                _stream(plain), read_options=_reading(dialect), parse_options=parsing, convert_options=converting
            ) as reader:
                for batch in reader:
                    table = pa.Table.from_batches([batch]).rename_columns(names)
                    yield table.select([name for name in names if name in wanted])
        except (pa.ArrowInvalid, OSError) as error:
            raise _explained(path, plain, dialect, parsing, error) from None
        if table is None or not table.num_rows:
            raise _no_rows(path)
        _check_read(path, plain, dialect, parsing, table)


def csv_names(path: Path, dialect: Dialect) -> list[str]:
    """The column names, from the first block of the file."""
    head = _head(path, dialect)
    return _names(_raw_names(path, dialect, _parsing(head, dialect), head), dialect)


def _stream(path: Path) -> Any:
    """The bytes of the file, decompressed if its name says so."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


@contextmanager
def _as_utf8(path: Path, dialect: Dialect) -> Iterator[Path]:
    """The file itself, or a temporary copy of it in UTF-8 if it is written in another encoding."""
    if codecs.lookup(dialect.encoding).name in ("utf-8", "utf-8-sig"):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="sylva-", suffix=".csv") as copy:
        decoder, at_end = codecs.getincrementaldecoder(dialect.encoding)(), False
        with _stream(path) as stream:
            while not at_end:
                block = _bytes(path, stream, BLOCK)
                at_end = not block
                try:
                    copy.write(decoder.decode(block, final=at_end).encode())
                except UnicodeError as error:
                    raise _bad_encoding(path, dialect, error) from None
        copy.flush()
        yield Path(copy.name)


def _bytes(path: Path, stream: Any, count: int) -> bytes:
    try:
        return bytes(stream.read(count))
    except OSError:
        raise BadInput(f"'{path.name}' cannot be decompressed; it is damaged or misnamed", field="source") from None


def _reading(dialect: Dialect, **options: Any) -> Any:
    import pyarrow.csv as pa_csv

    return pa_csv.ReadOptions(autogenerate_column_names=not dialect.header, **{"block_size": BLOCK, **options})


def _parsing(head: str, dialect: Dialect) -> Any:
    import pyarrow.csv as pa_csv

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


def _raw_names(path: Path, dialect: Dialect, parsing: Any, head: str) -> list[str]:
    """The names as Arrow will read them; rows that do not fit are not yet of interest."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    lenient = pa_csv.ParseOptions(
        delimiter=parsing.delimiter, newlines_in_values=True, invalid_row_handler=lambda row: "skip"
    )
    content = head.encode()
    reading = _reading(dialect, use_threads=False, block_size=len(content))
    try:
        data = pa_csv.read_csv(pa.BufferReader(content), read_options=reading, parse_options=lenient)
    except pa.ArrowInvalid as error:
        with _as_utf8(path, dialect) as plain:
            raise _explained(path, plain, dialect, parsing, error) from None
    if data.num_rows == 0 and len(content) >= BLOCK // 4:  # a character takes at most four bytes
        raise _long_row(path)
    return list(data.column_names)


def _names(raw: list[str], dialect: Dialect) -> list[str]:
    return [name.strip() for name in raw] if dialect.header else [f"f{i + 1}" for i in range(len(raw))]


def _head(path: Path, dialect: Dialect) -> str:
    """The first lines as text; ``BadInput`` if there are none or they are no text at all."""
    with _stream(path) as stream:
        head = _bytes(path, stream, BLOCK)
    has_bom = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = codecs.getincrementaldecoder(dialect.encoding)().decode(head)
        text.encode()
    except UnicodeError as error:
        if b"\0" in head and not has_bom:
            raise _not_text(path) from None
        raise _bad_encoding(path, dialect, error) from None
    if "\0" in text:
        raise _bad_encoding(path, dialect, UnicodeError("a NUL character")) if has_bom else _not_text(path)
    if not text.strip("\ufeff \r\n\t"):
        raise BadInput(f"'{path.name}' is empty", field="source")
    return text


def _guess_delimiter(head: str) -> str:
    """The one that cuts the first rows into the most columns, as many in each row."""
    return max(DELIMITERS.values(), key=lambda delimiter: _cut(head, delimiter))


def _cut(head: str, delimiter: str) -> tuple[bool, bool, int]:
    """How well a delimiter cuts: whether it does, into rows of even length, and into how many columns."""
    rows = csv.reader(io.StringIO(head.lstrip("\ufeff")), delimiter=delimiter)
    widths: list[int] = []
    with suppress(csv.Error):  # of a value that is very long, as after a quote that is never closed
        widths.extend(len(row) for row in islice(rows, SNIFFED_ROWS) if row)
    widths = widths or [0]
    # The last row may be cut off where the head ends.
    even = len(set(widths[:-1] or widths)) == 1
    # A space is often just part of a text: it counts only when nothing else cuts.
    return widths[0] > 1 and delimiter != " ", even, widths[0]


def _check_read(path: Path, plain: Path, dialect: Dialect, parsing: Any, data: pa.Table) -> None:
    import pyarrow.compute as pc
    import pyarrow.types as types

    if data.num_rows == 0:
        raise _no_rows(path)
    if any(types.is_binary(kind) for kind in data.schema.types):
        raise _bad_encoding(path, dialect)
    for column in data.columns:
        if types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise _not_text(path)
    last = data.column(-1)[-1].as_py()
    if isinstance(last, str) and re.search("[\r\n]", last) and (line := _unclosed(plain, parsing.delimiter)):
        raise _open_quote(path, line)


def _unclosed(plain: Path, delimiter: str) -> int | None:
    """The line where the quote begins in which the file ends, if it does. A quote opens only what begins with it."""
    opening = re.compile(rb'(?:\A|[\r%b])"' % re.escape(delimiter.encode()))
    inside = re.compile(rb'(?:[^"]+|"")*+')
    opened = None
    with _stream(plain) as stream:
        for number, line in enumerate(io.BufferedReader(stream, BLOCK), start=1):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            place = 0 if b'"' in text else len(text)
            while place < len(text):
                if opened is None:
                    found = opening.search(text, place)
                    opened, place = (number, found.end()) if found else (None, len(text))
                else:
                    rest = inside.match(text, place)
                    end = rest.end() if rest else place
                    opened, place = (None if end < len(text) else opened), end + 1
    return opened


def _open_quote(path: Path, line: int) -> BadInput:
    return BadInput(
        f"line {line:,} of '{path.name}' has a quote that is never closed, "
        "so the rest of the file became one value; close or remove it",
        field="source",
    )


def _long_row(path: Path) -> BadInput:
    return BadInput(
        f"a row of '{path.name}' is longer than {BLOCK >> 20} MB; shorten its values, or choose another delimiter",
        field="source",
    )


def _not_text(path: Path) -> BadInput:
    return BadInput(
        f"'{path.name}' is not text, for it holds NUL bytes; save it as CSV, or choose its format", field="source"
    )


def _no_rows(path: Path) -> BadInput:
    return BadInput(f"'{path.name}' has a header but no rows; add rows, or say that it has no header", field="source")


def _explained(path: Path, plain: Path, dialect: Dialect, parsing: Any, error: Exception) -> BadInput:
    """What a failed read means for the person whose file it is."""
    text = str(error)
    with _stream(plain) as stream:
        while _bytes(path, stream, BLOCK):  # says so if it cannot be decompressed
            pass
    if plain == path and _first_undecodable(path, dialect.encoding):
        return _bad_encoding(path, dialect)
    if "Empty CSV" in text:
        return _no_rows(path)
    if line := _unclosed(plain, parsing.delimiter):
        return _open_quote(path, line)
    if "straddling" in text:
        return _long_row(path)
    return _ragged(path, plain, dialect, parsing) or BadInput(
        f"'{path.name}' cannot be read as CSV: {text}", field="source"
    )


def _ragged(path: Path, plain: Path, dialect: Dialect, parsing: Any) -> BadInput | None:
    """Rows are counted only by one thread; so the file is read once more, up to the first row that does not fit."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    bad_rows: list[Any] = []

    def note(row: Any) -> str:
        bad_rows.append(row)
        return "error"

    strict = pa_csv.ParseOptions(delimiter=parsing.delimiter, newlines_in_values=True, invalid_row_handler=note)
    with suppress(pa.ArrowInvalid):
        pa_csv.read_csv(_stream(plain), read_options=_reading(dialect, use_threads=False), parse_options=strict)
    if not bad_rows:
        return None
    row = bad_rows[0]
    counting = ", counting the header," if dialect.header else ""
    return BadInput(
        f"row {row.number:,} of '{path.name}'{counting} has {counted(row.actual_columns, 'value')} where "
        f"{row.expected_columns:,} are expected: {row.text[:60]!r}; "
        "correct the row, quote values that hold the delimiter, or choose another delimiter",
        field="source",
    )


def _bad_encoding(path: Path, dialect: Dialect, error: UnicodeError | None = None) -> BadInput:
    line, byte = _first_undecodable(path, dialect.encoding) or (1, str(error or "the end of the file"))
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
            block = _bytes(path, stream, BLOCK)
            at_end = not block
            try:
                line += decoder.decode(block, final=at_end).count("\n")
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(encoding, errors="ignore")
                return line + good.count("\n"), f"byte 0x{error.object[error.start]:02x}"
            except UnicodeError as error:  # as utf-16 says that a byte order mark is missing
                return line, f"'{error}'"
    return None
