"""Reading LibSVM text (``label index:value …``) into dense columns ``f1`` … ``fn`` and a ``target``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

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
