"""Choose random rows, stratified by the classes if requested; the same seed, the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

    from engine.values import Table


def pick(
    table: Table, count: int, seed: int, *, stratified: bool, spare: int, field: str
) -> np.ndarray:
    """Return a mask of exactly ``count`` rows, chosen at random.

    If stratified, each class gives its share of them and keeps at least ``spare`` rows that are not
    chosen. A table without a target is never stratified. Raise ``BadInput`` if the classes do not
    have enough rows; ``field`` names the setting to change then.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    mask = np.zeros(table.data.num_rows, bool)
    if not stratified or table.target is None:
        mask[rng.permutation(len(mask))[:count]] = True
        return mask
    codes = _class_codes(table)
    sizes = np.bincount(codes)
    for code, rows in enumerate(_rows_per_class(sizes, count, spare, field)):
        mask[rng.permutation(np.flatnonzero(codes == code))[:rows]] = True
    return mask


def _class_codes(table: Table) -> np.ndarray:
    """Return the class of each row as a number; rows without a label are a class of their own."""
    import numpy as np

    labels = table.labels().combine_chunks().dictionary_encode().indices
    # Numbers without gaps, because bincount needs them.
    codes: np.ndarray = np.unique(
        labels.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True
    )[1]
    return codes


def _rows_per_class(sizes: np.ndarray, count: int, spare: int, field: str) -> np.ndarray:
    """Return how many rows each class gives: its share, rounded, and ``count`` in total.

    A class gives at least one row if ``count`` allows, and never its spare ones. Raise ``BadInput``
    if that is not possible.
    """
    import numpy as np

    most = np.maximum(sizes - spare, 0)
    if count > most.sum():
        raise BadInput(
            f"{count:,} of {sizes.sum():,} rows are too many: some of the {len(sizes):,} classes "
            f"would not keep a row; choose at most {most.sum():,} rows, or turn off Stratified",
            field=field,
        )
    least = np.minimum(most, 1)
    # There are more classes than rows to draw, so some classes get none.
    if least.sum() > count:
        least = np.zeros_like(most)
    exact = sizes * count / sizes.sum()
    rows: np.ndarray = np.clip(np.floor(exact).astype(int), least, most)
    # Rounding leaves a few rows over or under: the classes furthest from their exact share adjust.
    while rows.sum() < count:
        rows[np.argmax(np.where(rows < most, exact - rows, -np.inf))] += 1
    while rows.sum() > count:
        rows[np.argmax(np.where(rows > least, rows - exact, -np.inf))] -= 1
    return rows
