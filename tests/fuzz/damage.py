"""Small files of every format, and damaged copies of them: the same seed gives the same damage."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import openpyxl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

ROWS = 60


def table() -> pa.Table:
    """Return a table with a column of every kind that files hold."""
    start = datetime(2024, 1, 1)
    return pa.table(
        {
            "number": [None if n % 7 == 0 else n / 3 for n in range(ROWS)],
            "count": pa.array([n % 11 for n in range(ROWS)], pa.int32()),
            "flag": [n % 2 == 0 for n in range(ROWS)],
            "when": [start + timedelta(hours=n) for n in range(ROWS)],
            "word": pa.array([f"word {n % 5}" for n in range(ROWS)]).dictionary_encode(),
            "text": [f"text number {n}" for n in range(ROWS)],
            "label": [("yes", "no")[n % 3 == 0] for n in range(ROWS)],
        }
    )


def _parquet(**options: object) -> Callable[[], bytes]:
    def write() -> bytes:
        sink = io.BytesIO()
        pq.write_table(table(), sink, row_group_size=25, **options)
        return sink.getvalue()

    return write


def _foreign_parquet() -> bytes:
    """Write a file as other programs do, without Arrow's own schema.

    With some versions of Arrow, damage in its footer ends the process that reads it.
    """
    sink = io.BytesIO()
    data = {
        "number": [1.5, 2.5, None],
        "count": pa.array([1, 2, 3], pa.int32()),
        "label": ["a", "b", "a"],
    }
    pq.write_table(pa.table(data), sink, store_schema=False)
    return sink.getvalue()


def _arrow(
    new: Callable[..., pa.RecordBatchWriter], compression: str | None
) -> Callable[[], bytes]:
    def write() -> bytes:
        sink = io.BytesIO()
        with new(
            sink, table().schema, options=pa.ipc.IpcWriteOptions(compression=compression)
        ) as writer:
            writer.write_table(table(), max_chunksize=25)
        return sink.getvalue()

    return write


def _csv() -> bytes:
    sink = io.BytesIO()
    pa_csv.write_csv(table().set_column(4, "word", table().column("word").cast(pa.string())), sink)
    return sink.getvalue()


def _excel(compression: int) -> Callable[[], bytes]:
    """Return a writer of an Excel file; stored without compression, damage reaches its XML."""

    def write() -> bytes:
        book, packed, sink = openpyxl.Workbook(), io.BytesIO(), io.BytesIO()
        for row in [["number", "label"], *[[index / 2, "ab"[index % 2]] for index in range(60)]]:
            book.active.append(row)
        book.properties.created = book.properties.modified = datetime(2026, 1, 1)
        book.save(packed)
        with zipfile.ZipFile(packed) as source, zipfile.ZipFile(sink, "w", compression) as target:
            for name in source.namelist():
                part = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
                target.writestr(part, source.read(name), compression)
        return sink.getvalue()

    return write


WRITERS: dict[str, Callable[[], bytes]] = {
    "plain.parquet": _parquet(compression="none", use_dictionary=False),
    "dictionary.parquet": _parquet(compression="snappy"),
    "indexed.parquet": _parquet(compression="zstd", write_page_index=True, data_page_version="2.0"),
    "foreign.parquet": _foreign_parquet,
    "file.arrow": _arrow(pa.ipc.new_file, None),
    "packed.feather": _arrow(pa.ipc.new_file, "lz4"),
    "stream.arrow": _arrow(pa.ipc.new_stream, None),
    "plain.csv": _csv,
    "packed.csv.gz": lambda: gzip.compress(_csv(), mtime=0),
    "stored.xlsx": _excel(zipfile.ZIP_STORED),
    "packed.xlsx": _excel(zipfile.ZIP_DEFLATED),
}


@dataclass(frozen=True)
class Case:
    """A damaged file."""

    number: int
    name: str
    data: bytes
    damage: str
    """What was done to it, for whoever has to find out what went wrong."""


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield damaged files of all formats: mostly one flipped bit, half of them in the footer."""
    whole = {name: write() for name, write in WRITERS.items()}
    for number in range(count):
        name = list(whole)[number % len(whole)]
        data, damage = _damaged(whole[name], random.Random(f"{seed}-{number}"))
        yield Case(number, name, data, damage)


def _damaged(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    match rng.randrange(10):
        case 0:
            cut = rng.randrange(1, len(data))
            return data[:cut], f"cut after {cut} bytes"
        case 1:
            start, count = rng.randrange(len(data)), rng.randrange(1, 9)
            return data[:start] + rng.randbytes(count) + data[
                start + count :
            ], f"{count} random bytes at {start}"
        case _:
            return _with_flipped_bits(data, rng)


def _with_flipped_bits(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    changed = bytearray(data)
    footer = (
        len(data) * 2 // 3
    )  # of small Parquet and Arrow files, what describes the columns is at the end
    places = [rng.randrange(footer, len(data)) if rng.random() < 0.5 else rng.randrange(len(data))]
    if rng.random() < 0.2:
        places.append(rng.randrange(len(data)))
    for place in places:
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed), f"a bit of byte {' and '.join(map(str, places))} flipped"
