"""Reading LibSVM text (``label index:value …``) into dense columns ``f1`` … ``fn`` and a ``target``.

``read_libsvm`` gives all of it, ``stream_libsvm`` some columns block by block.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

COLUMN = re.compile(r"f([1-9][0-9]{0,8})", re.ASCII)
TARGET = "target"
LINE = re.compile(r"[^\s:]+(\s+\d+:[^\s:]+)*", re.ASCII)
MOST_CELLS = 1_000_000_000
"""Dense columns of more cells than this (8 GB) are refused."""


def read_libsvm(path: Path, max_columns: int) -> pa.Table:
    """All rows; an index that a row leaves out is zero."""
    import numpy as np
    import pyarrow as pa

    labels: list[str] = []
    indices: list[np.ndarray] = []
    values: list[np.ndarray] = []
    try:
        with pa.input_stream(str(path), compression="detect") as raw:
            for number, line in enumerate(raw.read().decode("utf-8").splitlines(), start=1):
                label, pairs = _parse(line, number, path.name)
                if label is not None:
                    labels.append(label)
                    indices.append(pairs[0::2].astype(np.int64))
                    values.append(pairs[1::2])
    except (UnicodeDecodeError, OSError):
        raise BadInput(f"'{path.name}' is not LibSVM text; choose its format", field="source") from None
    if not labels:
        raise BadInput(f"'{path.name}' has no rows", field="source")
    return _dense(path.name, labels, indices, values, max_columns)


def stream_libsvm(path: Path, wanted: Collection[str], rows: int) -> Iterator[pa.Table]:
    """The ``wanted`` columns, ``rows`` rows at a time; a column that no row has is zero."""
    import io

    import pyarrow as pa

    found = False
    try:
        with pa.input_stream(str(path), compression="detect") as raw:
            numbered = enumerate(io.TextIOWrapper(raw, encoding="utf-8"), start=1)
            parsed = (_parse(line, number, path.name) for number, line in numbered)
            lines = ((label, pairs) for label, pairs in parsed if label is not None)
            while block := list(islice(lines, rows)):
                found = True
                yield _some_columns(path.name, block, wanted)
    except (UnicodeDecodeError, OSError):
        raise BadInput(f"'{path.name}' is not LibSVM text; choose its format", field="source") from None
    if not found:
        raise BadInput(f"'{path.name}' has no rows", field="source")


def _some_columns(name: str, lines: list[tuple[str, np.ndarray]], wanted: Collection[str]) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    names = [each for each in wanted if COLUMN.fullmatch(each)]
    indices = np.array([int(each[1:]) for each in names], np.int64)
    order = np.argsort(indices)
    column = np.concatenate([pairs[0::2] for _, pairs in lines]).astype(np.int64)
    row = np.repeat(np.arange(len(lines)), [len(pairs) // 2 for _, pairs in lines])
    if column.min(initial=1) < 1:
        raise BadInput(f"'{name}' has indices below 1; LibSVM counts columns from 1", field="source")
    place = np.searchsorted(indices[order], column).clip(0, max(len(names) - 1, 0))
    known = indices[order][place] == column if names else np.zeros(len(column), bool)
    cells = np.zeros((len(names), len(lines)))
    cells[order[place[known]], row[known]] = np.concatenate([pairs[1::2] for _, pairs in lines])[known]
    data = {each: pa.array(cells[number]) for number, each in enumerate(names)}
    if TARGET in wanted:
        data[TARGET] = pa.array([label for label, _ in lines], pa.string())
    return pa.table(data)


def _parse(line: str, number: int, name: str) -> tuple[str | None, np.ndarray]:
    """Label, and index and value in turns; no label for a blank line."""
    import numpy as np

    line = line.split("#", 1)[0].strip()
    if not line:
        return None, np.empty(0)
    label, *rest = line.split(maxsplit=1)
    try:
        if LINE.fullmatch(line):
            return label, np.fromstring(rest[0].replace(":", " "), sep=" ") if rest else np.empty(0)
    except ValueError:
        pass
    raise BadInput(
        f"line {number:,} of '{name}' is not LibSVM text: {line[:60]!r}; a line is a label and then index:value pairs",
        field="source",
    )


def _dense(
    name: str, labels: list[str], indices: list[np.ndarray], values: list[np.ndarray], max_columns: int
) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    column = np.concatenate(indices)
    width = int(column.max(initial=0))
    if width > max_columns:
        raise too_many_columns(name, width, max_columns)
    if width == 0 or column.min() < 1:
        raise BadInput(f"'{name}' has indices below 1; LibSVM counts columns from 1", field="source")
    if width * len(labels) > MOST_CELLS:
        raise BadInput(
            f"'{name}' has {len(labels):,} rows of {width:,} columns, too many to keep without gaps; use fewer",
            field="source",
        )
    row = np.repeat(np.arange(len(labels)), [len(part) for part in indices])
    cells = np.zeros((width, len(labels)))
    cells[column - 1, row] = np.concatenate(values)
    data = {f"f{i + 1}": pa.array(cells[i]) for i in range(width)}
    return pa.table(data | {"target": pa.array(labels, pa.string())})


def too_many_columns(name: str, columns: int, max_columns: int) -> BadInput:
    """More columns than the limit allows."""
    return BadInput(
        f"'{name}' has {columns:,} columns, more than the {max_columns:,} allowed; raise max_columns or use fewer",
        field="max_columns",
    )
