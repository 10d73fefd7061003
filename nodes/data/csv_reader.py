"""Read delimited text with Arrow, and explain what is wrong with it when Arrow cannot.

- ``TextFile``  a text on disk, or the beginning of one in memory
- ``CsvFile``   a delimited text whose header has been read: its columns, its rows

Arrow's fast reader does not say which row is bad. So a failure is explained by a second, slower
pass over the file.

Arrow only reads UTF-8 bytes here. Its background threads may outlive a failed read, and would hang
or abort the program at its end if they called back into Python to decode another encoding.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import counted
from nodes.data.locations import RemoteFile, failure

if TYPE_CHECKING:
    import pyarrow as pa

    from nodes.data.formats import FileFormat

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
BLOCK = 4 << 20
"""Bytes that Arrow reads at once, the most a row may take. As many are read to recognise text, to
guess the delimiter and to find the names of the columns."""
HEADER_CHARACTERS = 1 << 16
"""Characters that are parsed for the header, unless it is longer."""
SNIFFED_ROWS = 100


@dataclass(frozen=True)
class TextFile:
    """Open a text on disk, or the beginning of one in memory."""

    path: Path | RemoteFile
    content: bytes | None = None
    """The decompressed bytes, if they are in memory."""

    @property
    def name(self) -> str:
        """Return the file's name, as messages show it."""
        return self.path.name

    def open(self) -> Any:
        """Open the bytes for reading, decompressed if the ending of the name says so."""
        import pyarrow as pa

        if self.content is not None:
            return pa.BufferReader(self.content)
        if isinstance(self.path, RemoteFile):
            return self.path.open_stream()
        return pa.input_stream(str(self.path), compression="detect")

    def start(self, max_bytes: int) -> bytes:
        """Return the first bytes. Raise ``BadInput`` if they cannot be decompressed."""
        with self.open() as stream:
            return self._read(stream, max_bytes)

    def blocks(self) -> Iterator[bytes]:
        """Yield all bytes, a block at a time. Raise ``BadInput`` if they cannot be decompressed."""
        with self.open() as stream:
            while block := self._read(stream, BLOCK):
                yield block

    def _read(self, stream: Any, count: int) -> bytes:
        """Read some bytes; raise ``BadInput`` if they cannot be decompressed."""
        try:
            return bytes(stream.read(count))
        except OSError as error:
            raise self.cannot_read(error) from None

    def cannot_read(self, error: OSError) -> BadInput:
        """Return the message for a compressed text that is damaged, or is not compressed.

        Other errors can only come from a storage.
        """
        if isinstance(self.path, RemoteFile) and "decompress" not in str(error):
            return failure(self.path, error)
        return BadInput(
            f"'{self.name}' cannot be decompressed; it is damaged or has the wrong ending",
            field="source",
        )


@dataclass(frozen=True)
class CsvFile:
    """Read a delimited text whose header is known: all rows, or some at a time.

    Use ``CsvFile.open`` to make one.
    """

    text: TextFile
    file_format: FileFormat
    delimiter: str
    raw_names: list[str]
    """The columns as Arrow names them."""

    @classmethod
    def open(cls, text: TextFile, file_format: FileFormat) -> CsvFile:
        """Read the header and guess the delimiter if the format does not say it.

        Raise ``BadInput`` if the file is not text or does not begin with a row.
        """
        start = _decoded_start(text, file_format)
        delimiter = DELIMITERS.get(file_format.delimiter) or _guess_delimiter(start)
        file = cls(text, file_format, delimiter, [])
        return cls(text, file_format, delimiter, _raw_names(file, start))

    @property
    def names(self) -> list[str]:
        """Return the names of the columns: those of the header, or f1, f2 …"""
        if self.file_format.header:
            return [name.strip() for name in self.raw_names]
        return [f"f{number}" for number in range(1, len(self.raw_names) + 1)]

    def read(self, as_text: Collection[str] = ()) -> pa.Table:
        """Return all rows.

        Columns of ``as_text`` are left as written; the others have the type that their values look
        like. Raise ``BadInput`` that says what is wrong, and in which row, if the text cannot be
        read.
        """
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        columns = zip(self.raw_names, self.names, strict=True)
        options = self._convert_options([raw_name for raw_name, name in columns if name in as_text])
        with _as_utf8(self) as text:
            try:
                data = pa_csv.read_csv(
                    text.open(),
                    read_options=self.read_options(),
                    parse_options=self.parse_options(),
                    convert_options=options,
                )
            except (pa.ArrowInvalid, OSError) as error:
                raise _explain(self, text, error) from None
            _check_values(self, text, data)
        return data.rename_columns(self.names)

    def iter_tables(self, columns: Collection[str]) -> Iterator[pa.Table]:
        """Yield some rows at a time of these columns, all values as written.

        Raise ``BadInput`` like ``read``, but only at the block that is wrong.
        """
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        names = self.names
        chosen = [index for index, name in enumerate(names) if name in columns]
        # A quote that is never closed shows in the last column, so that one is always read.
        positions = sorted({*chosen, len(names) - 1})
        read_names = [names[position] for position in positions]
        raw_names = [self.raw_names[position] for position in positions]
        options = self._convert_options(raw_names)
        options.include_columns = raw_names
        table = None
        with _as_utf8(self) as text:
            try:
                with pa_csv.open_csv(
                    text.open(),
                    read_options=self.read_options(),
                    parse_options=self.parse_options(),
                    convert_options=options,
                ) as reader:
                    for batch in reader:
                        table = pa.Table.from_batches([batch]).rename_columns(read_names)
                        yield table.select([name for name in read_names if name in columns])
            except (pa.ArrowInvalid, OSError) as error:
                raise _explain(self, text, error) from None
            if table is None or not table.num_rows:
                raise _no_rows(self)
            _check_values(self, text, table)

    def read_options(self, **options: Any) -> Any:
        """Return Arrow's options for reading blocks and names; ``options`` replace single ones."""
        import pyarrow.csv as pa_csv

        return pa_csv.ReadOptions(
            autogenerate_column_names=not self.file_format.header,
            **{"block_size": BLOCK, **options},
        )

    def parse_options(self, **options: Any) -> Any:
        """Return Arrow's options for cutting rows into values; ``options`` are further ones."""
        import pyarrow.csv as pa_csv

        return pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, **options)

    def _convert_options(self, as_text: Collection[str]) -> Any:
        """Return Arrow's options for types and missing values."""
        import pyarrow as pa
        import pyarrow.csv as pa_csv

        missing = self.file_format.missing
        return pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in as_text},
            # Some files put a space after each delimiter: " ?" is as missing as "?".
            null_values=[*missing, *(f" {text}" for text in missing)],
            strings_can_be_null=True,
        )


@contextmanager
def _as_utf8(file: CsvFile) -> Iterator[TextFile]:
    """Yield the text itself, or a temporary copy in UTF-8 if it is written in another encoding.

    Raise ``BadInput`` if the text cannot be decoded.
    """
    encoding = file.file_format.encoding
    if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
        yield file.text
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    with tempfile.NamedTemporaryFile(prefix="sylva-", suffix=".csv") as copy:
        try:
            for block in chain(file.text.blocks(), [b""]):
                copy.write(decoder.decode(block, final=not block).encode())
        except UnicodeError as error:
            raise _bad_encoding(file.text, file.file_format, error) from None
        copy.flush()
        yield TextFile(Path(copy.name))


# The header


def _decoded_start(text: TextFile, file_format: FileFormat) -> str:
    """Return the first lines as text.

    Raise ``BadInput`` if the file is empty, is not text, or is written in another encoding.
    """
    start = text.start(BLOCK)
    is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        decoded = codecs.getincrementaldecoder(file_format.encoding)().decode(start)
        # Some encodings decode to characters that UTF-8 cannot hold.
        decoded.encode()
    except UnicodeError as error:
        if b"\0" in start and not is_utf16:
            raise _not_text(text) from None
        raise _bad_encoding(text, file_format, error) from None
    if "\0" in decoded and is_utf16:
        raise _bad_encoding(text, file_format, UnicodeError("a NUL character"))
    if "\0" in decoded:
        raise _not_text(text)
    if not decoded.strip("\ufeff \r\n\t"):
        raise BadInput(f"'{text.name}' is empty; choose another file", field="source")
    return decoded


def _raw_names(file: CsvFile, start: str) -> list[str]:
    """Return the names of the columns as Arrow will read them.

    Rows with too many or too few values are ignored here. Raise ``BadInput`` if no row is complete.
    """
    import pyarrow as pa

    if len(start) > HEADER_CHARACTERS:
        # A longer header is found below, with all of the start.
        with suppress(pa.ArrowInvalid):
            data = _parse_start(file, start[:HEADER_CHARACTERS])
            if data.num_rows:
                return list(data.column_names)
    try:
        data = _parse_start(file, start)
    except pa.ArrowInvalid as error:
        with _as_utf8(file) as text:
            raise _explain(file, text, error) from None
    # No row in a full block. A character takes at most four bytes.
    if data.num_rows == 0 and len(start.encode()) >= BLOCK // 4:
        raise _long_row(file)
    return list(data.column_names)


def _parse_start(file: CsvFile, start: str) -> pa.Table:
    """Read the first rows of a text; skip those that do not fit."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    content = start.encode()
    return pa_csv.read_csv(
        pa.BufferReader(content),
        read_options=file.read_options(use_threads=False, block_size=len(content)),
        parse_options=file.parse_options(invalid_row_handler=lambda row: "skip"),
    )


def _guess_delimiter(start: str) -> str:
    """Return the delimiter that cuts the first rows into the most columns, as many in each row."""
    return max(DELIMITERS.values(), key=lambda delimiter: _score_delimiter(start, delimiter))


def _score_delimiter(start: str, delimiter: str) -> tuple[bool, bool, int]:
    """Return whether a delimiter cuts, whether into rows of even length, and into how many columns.

    The delimiter with the largest tuple fits best.
    """
    rows = csv.reader(io.StringIO(start.lstrip("\ufeff")), delimiter=delimiter)
    widths: list[int] = []
    # Python's reader refuses very long values, as after a quote that is never closed.
    with suppress(csv.Error):
        widths.extend(len(row) for row in islice(rows, SNIFFED_ROWS) if row)
    widths = widths or [0]
    # The last row may be incomplete where the start ends.
    is_even = len(set(widths[:-1] or widths)) == 1
    # A space is often part of a text: it counts only if no other delimiter cuts.
    return widths[0] > 1 and delimiter != " ", is_even, widths[0]


# What is wrong with a file


def _check_values(file: CsvFile, text: TextFile, data: pa.Table) -> None:
    """Raise ``BadInput`` for problems that Arrow accepts; ``text`` is the file in UTF-8.

    These are bytes that are not text, NUL bytes, and a quote that is never closed.
    """
    import pyarrow.compute as pc
    import pyarrow.types as types

    if data.num_rows == 0:
        raise _no_rows(file)
    if any(types.is_binary(kind) for kind in data.schema.types):
        raise _bad_encoding(file.text, file.file_format)
    for column in data.columns:
        if types.is_string(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise _not_text(file.text)
    # An open quote takes in the rest of the file, so it is in the last value.
    last = data.column(-1)[-1].as_py()
    if isinstance(last, str) and re.search("[\r\n]", last):
        line = _unclosed_quote(text, file.delimiter)
        if line:
            raise _open_quote(file, line)


def _explain(file: CsvFile, text: TextFile, error: Exception) -> BadInput:
    """Return what a failed read means for the owner of the file; ``text`` is the file in UTF-8.

    The most likely causes are tried in turn. Each reads the file again, which only a failure costs.
    """
    # This raises if the file cannot be decompressed.
    for _ in text.blocks():
        pass
    if text is file.text and _first_undecodable(text, file.file_format.encoding):
        return _bad_encoding(text, file.file_format)
    if isinstance(text.path, RemoteFile) and isinstance(error, OSError):
        return failure(text.path, error)
    # Arrow has no error classes for its causes, only these texts.
    if "Empty CSV" in str(error):
        return _no_rows(file)
    line = _unclosed_quote(text, file.delimiter)
    if line:
        return _open_quote(file, line)
    # Arrow's word for a row that is longer than a block.
    if "straddling" in str(error):
        return _long_row(file)
    bad_row = _first_bad_row(file, text)
    if bad_row is None:
        return BadInput(
            f"'{file.text.name}' cannot be read as CSV: {error}; check the file and its delimiter",
            field="source",
        )
    return _wrong_length(file, bad_row)


def _unclosed_quote(text: TextFile, delimiter: str) -> int | None:
    """Return the line with the quote that is still open at the end of the file, if there is one.

    A quote opens a value only at the value's beginning.
    """
    opening = re.compile(rb'(?:\A|[\r%b])"' % re.escape(delimiter.encode()))
    inside = re.compile(rb'(?:[^"]+|"")*+')
    opened_at: int | None = None
    with text.open() as stream:
        for number, line in enumerate(io.BufferedReader(stream, BLOCK), start=1):
            rest = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            position = 0 if b'"' in rest else len(rest)
            while position < len(rest):
                if opened_at is None:
                    quote = opening.search(rest, position)
                    if quote is None:
                        break
                    opened_at, position = number, quote.end()
                else:
                    value = inside.match(rest, position)
                    end = value.end() if value else position
                    if end < len(rest):
                        opened_at = None
                    position = end + 1
    return opened_at


def _first_bad_row(file: CsvFile, text: TextFile) -> Any:
    """Return Arrow's description of the first row with too many or too few values, if there is one.

    Only one thread counts rows correctly. So the file is read once more, up to that row.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    bad_rows: list[Any] = []

    def stop_at(row: Any) -> str:
        """Remember the row and end the read."""
        bad_rows.append(row)
        return "error"

    with suppress(pa.ArrowInvalid):
        pa_csv.read_csv(
            text.open(),
            read_options=file.read_options(use_threads=False),
            parse_options=file.parse_options(invalid_row_handler=stop_at),
        )
    return bad_rows[0] if bad_rows else None


def _wrong_length(file: CsvFile, row: Any) -> BadInput:
    """Return the message for a row with too many or too few values."""
    counting = ", counting the header," if file.file_format.header else ""
    return BadInput(
        f"row {row.number:,} of '{file.text.name}'{counting} has "
        f"{counted(row.actual_columns, 'value')} where {row.expected_columns:,} are expected: "
        f"{row.text[:60]!r}; correct the row, quote values that hold the delimiter, or choose "
        "another delimiter",
        field="source",
    )


def _open_quote(file: CsvFile, line: int) -> BadInput:
    """Return the message for a quote that is never closed."""
    return BadInput(
        f"line {line:,} of '{file.text.name}' has a quote that is never closed, "
        "so the rest of the file is read as one value; close or remove the quote",
        field="source",
    )


def _long_row(file: CsvFile) -> BadInput:
    """Return the message for a row that does not fit into one block."""
    return BadInput(
        f"a row of '{file.text.name}' is longer than {BLOCK >> 20} MB; shorten its values, or "
        "choose another delimiter",
        field="source",
    )


def _no_rows(file: CsvFile) -> BadInput:
    """Return the message for a file with a header only."""
    return BadInput(
        f"'{file.text.name}' has a header but no rows; add rows, or turn off 'First row is the "
        "header'",
        field="source",
    )


def _not_text(text: TextFile) -> BadInput:
    """Return the message for a file that holds NUL bytes."""
    return BadInput(
        f"'{text.name}' is not text, because it holds NUL bytes; save it as CSV, or choose its "
        "format",
        field="source",
    )


def _bad_encoding(
    text: TextFile, file_format: FileFormat, error: UnicodeError | None = None
) -> BadInput:
    """Return the message for bytes that the encoding does not have, with a suggestion."""
    undecodable = _first_undecodable(text, file_format.encoding)
    line, byte = undecodable or (1, str(error or "the end of the file"))
    is_utf16 = text.start(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return BadInput(
        f"'{text.name}' is not encoded in {file_format.encoding}: {byte} in line {line:,} cannot "
        f"be decoded; set the encoding, for example {'utf-16' if is_utf16 else 'latin-1'}",
        field="encoding",
    )


def _first_undecodable(text: TextFile, encoding: str) -> tuple[int, str] | None:
    """Return the line and the byte that cannot be decoded, if there is one."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    for block in chain(text.blocks(), [b""]):
        try:
            line += decoder.decode(block, final=not block).count("\n")
        except UnicodeDecodeError as error:
            good = error.object[: error.start].decode(encoding, errors="ignore")
            return line + good.count("\n"), f"byte 0x{error.object[error.start]:02x}"
        # The utf-16 decoder reports a missing byte order mark like this.
        except UnicodeError as error:
            return line, f"'{error}'"
    return None
