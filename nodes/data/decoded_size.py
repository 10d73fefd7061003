"""How much memory a file takes once it is read, found out without reading it: a small file may hold a huge table.

``is_within`` is asked by the check before a run, which has no limit of memory of its own. What it decodes to find out
is bounded by the size of the file or by the limit.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
CELL = 8
"""Bytes a value is taken to need at least."""


def is_within(path: Path, file_format: str, limit: int, max_columns: int) -> bool:
    """Whether the values of a file take at most ``limit`` bytes; not if they cannot be found.

    A file of more columns than ``max_columns`` is refused before its values are read.
    """
    import pyarrow as pa

    try:
        if file_format == "parquet":
            return _parquet_is_within(path, limit)
        if file_format == "arrow":
            return path.stat().st_size <= limit and _arrow_size(path) <= limit
    except (pa.ArrowException, OSError, struct.error):
        return False
    text = _text(path, limit)
    return text is not None and (file_format != "libsvm" or _libsvm_size(text, max_columns) <= limit)


def _text(path: Path, limit: int) -> bytes | None:
    """The decompressed bytes up to where they are damaged, if they are not more than ``limit``."""
    import pyarrow as pa

    blocks, left = [], limit
    with suppress(OSError), pa.input_stream(str(path), compression="detect") as stream:
        while left >= 0 and (block := bytes(stream.read(BLOCK))):
            blocks.append(block)
            left -= len(block)
    return b"".join(blocks) if left >= 0 else None


def _libsvm_size(text: bytes, max_columns: int) -> int:
    """A value for every row and column, also for those that are not written."""
    widest = max((int(index) for index in re.findall(rb"(\d{1,9}):", text)), default=0)
    return (text.count(b"\n") + 1) * widest * CELL if widest <= max_columns else 0


def _parquet_is_within(path: Path, limit: int) -> bool:
    import pyarrow.parquet as pq

    about = pq.read_metadata(path)
    groups = [about.row_group(index) for index in range(about.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    size: int = sum(max(CELL * chunk.num_values, chunk.total_uncompressed_size) for chunk in chunks)
    if size > limit:
        return False
    texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
    # Texts that share their beginnings: how long they are is not known before they are read.
    shared = [chunk for chunk in texts if "DELTA_BYTE_ARRAY" in chunk.encodings]
    size += sum(chunk.num_values * chunk.total_uncompressed_size for chunk in shared)
    names = {chunk.path_in_schema for chunk in texts if {"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & {*chunk.encodings}}
    for name in sorted(names) if size <= limit else ():
        size += _repeated_texts(path, name)
    return size <= limit


def _repeated_texts(path: Path, name: str) -> int:
    """Bytes of a column that keeps each text once; read as it is written, it takes no more than its file."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    column = pq.ParquetFile(path, read_dictionary=[name]).read([name]).column(0)
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    return sum(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks)


def _arrow_size(path: Path) -> int:
    """What the batches of a file or a stream say of themselves."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        if source.read(8)[:6] != b"ARROW1":
            source.seek(0)
        messages = pa.ipc.MessageReader.open_stream(source)
        return sum(_batch_size(message) for message in messages if message.type in ("record batch", "dictionary"))


def _batch_size(message: Any) -> int:
    """Read from the FlatBuffers tables of the Arrow format; a compressed buffer begins with its true size."""
    about, body = message.metadata.to_pybytes(), memoryview(message.body)
    batch = _follow(about, _field(about, _follow(about, 0), 2))
    if message.type == "dictionary":
        batch = _follow(about, _field(about, batch, 1))
    [rows] = struct.unpack_from("<q", about, _field(about, batch, 0))
    nodes, buffers = (_follow(about, _field(about, batch, index)) for index in (1, 2))
    is_compressed = _field(about, batch, 3) > 0
    [columns], [count] = (struct.unpack_from("<I", about, vector) for vector in (nodes, buffers))
    size = 0
    for offset, length in struct.iter_unpack("<qq", about[buffers + 4 : buffers + 4 + 16 * count]):
        [own] = struct.unpack_from("<q", body, offset) if is_compressed and length else (-1,)
        size += length if own < 0 else own
    return max(int(size), int(rows) * int(columns) * CELL)


def _follow(about: bytes, place: int) -> int:
    """The place that an offset leads to."""
    return place + int(struct.unpack_from("<I", about, place)[0])


def _field(about: bytes, table: int, index: int) -> int:
    """The place of a table's field, or 0 if it is left out."""
    places = table - struct.unpack_from("<i", about, table)[0]
    size = struct.unpack_from("<H", about, places)[0]
    offset = struct.unpack_from("<H", about, places + 4 + 2 * index)[0] if 4 + 2 * index < size else 0
    return table + int(offset) if offset else 0
