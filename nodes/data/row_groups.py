"""Number the groups of rows that belong together, such as the rows of a customer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def group_codes(column: pa.ChunkedArray) -> np.ndarray:
    """Return the number of each row's group; a row without a group is a group of its own."""
    import numpy as np

    indices = column.combine_chunks().dictionary_encode().indices
    codes: np.ndarray = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = np.flatnonzero(codes == -1)
    codes[missing] = codes.max() + 1 + np.arange(len(missing))
    return codes
