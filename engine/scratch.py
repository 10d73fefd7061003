"""Hold large tables of a running node in files mapped into memory.

A node may be given a table that is larger than its memory limit. The table of an input is mapped
already. What the node makes of it goes into a file of its checkpoint folder, by blocks, if it is
large. Mapped files do not count for the limit: the system takes their memory back when it is short.

- ``ScratchFolder``     where large data go, and what is large; ``IN_MEMORY``: no data are
- ``block_rows``  how many rows of a table are in a block
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BLOCK_BYTES = 32 << 20
HIDDEN = ".large-"
"""How a file is named for the moment that it has a name; hidden files are never copied."""
TEXT_BYTES = 16
"""Bytes that a value of no fixed size counts as."""


def block_rows(schema: pa.Schema) -> int:
    """Return how many rows of such a table take about ``BLOCK_BYTES``."""
    thousands = BLOCK_BYTES // max(1, row_bytes(schema)) // 1_024
    # Whole bytes of the bits that Arrow has for flags and missing values.
    return max(1, thousands) * 1_024


def row_bytes(schema: pa.Schema) -> int:
    """Return about how many bytes a row takes."""
    bits = 0
    for field in schema:
        try:
            bits += field.type.bit_width
        except ValueError:  # a text, for instance
            bits += 8 * TEXT_BYTES
    return bits // 8


def blocks(data: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a table in blocks, at least one; no value is copied."""
    step = block_rows(data.schema)
    for start in range(0, max(1, data.num_rows), step):
        yield data.slice(start, step)


@dataclass(frozen=True)
class ScratchFolder:
    """Hold tables of at least ``least`` bytes in files of a folder, and others in memory.

    The files have no name: their space is free again when the table is, also if the process is
    killed.
    """

    folder: Path = Path()
    least: float = inf

    def is_large(self, size: float) -> bool:
        """Return whether data of so many bytes go into a file."""
        return size >= self.least

    def stored(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Write tables of the same columns one after the other, and return them as one, mapped.

        There must be at least one. Raise ``OSError`` if they do not fit on the disk.
        """
        import pyarrow as pa

        rest = iter(tables)
        first = next(rest)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=HIDDEN)
        os.close(handle)
        try:
            # Not the file format: in a stream, each batch may have its own dictionaries.
            with pa.OSFile(name, "wb") as sink, pa.ipc.new_stream(sink, first.schema) as writer:
                writer.write_table(first)
                del first
                for table in rest:
                    writer.write_table(table)
            return pa.ipc.open_stream(pa.memory_map(name)).read_all()
        finally:
            Path(name).unlink()

    def column(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column of computed values, mapped if it is large."""
        import pyarrow as pa

        if not self.is_large(values.nbytes):
            return values
        return self.stored([pa.table({"": values})]).column(0)

    def filter(self, data: pa.Table, mask: np.ndarray) -> pa.Table:
        """Return the rows that a mask selects."""
        import pyarrow as pa

        if not self.is_large(data.nbytes * (mask.mean() if len(mask) else 0.0)):
            return data.filter(pa.array(mask))
        step = block_rows(data.schema)
        parts = (
            part.filter(pa.array(mask[number * step : (number + 1) * step]))
            for number, part in enumerate(blocks(data))
        )
        return self.stored(parts)


IN_MEMORY = ScratchFolder()
"""Holds everything in memory."""
