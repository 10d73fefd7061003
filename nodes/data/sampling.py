"""Choosing rows at random: how many, and which, in proportion to the classes where that is asked for.

``pick`` gives a mask with exactly the number of rows asked for; the same seed picks the same rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

    from engine.values import Table


def pick(table: Table, count: int, seed: int, *, stratified: bool, spare: int, field: str) -> np.ndarray:
    """A mask of ``count`` rows. Stratified, each class gives its share of them and keeps at least ``spare`` rows."""
    import numpy as np

    rng = np.random.default_rng(seed)
    mask = np.zeros(table.data.num_rows, bool)
    if not stratified or table.target is None:
        mask[rng.permutation(len(mask))[:count]] = True
        return mask
    codes = _class_codes(table)
    sizes = np.bincount(codes)
    for code, wanted in enumerate(_shares(sizes, count, spare, field)):
        mask[rng.permutation(np.flatnonzero(codes == code))[:wanted]] = True
    return mask


def _class_codes(table: Table) -> np.ndarray:
    """The class of each row as a small number; rows without a label are a class of their own."""
    import numpy as np

    labels = table.labels().combine_chunks().dictionary_encode().indices
    codes: np.ndarray = np.unique(labels.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True)[1]
    return codes


def _shares(sizes: np.ndarray, count: int, spare: int, field: str) -> np.ndarray:
    """How many rows each class gives: in proportion, one at least if there is room, and never the spare ones."""
    import numpy as np

    most = np.maximum(sizes - spare, 0)
    if count > most.sum():
        raise BadInput(
            f"{count:,} of {sizes.sum():,} rows are wanted, but then not every one of the {len(sizes):,} classes keeps "
            f"a row; ask for at most {most.sum():,} rows, or turn off stratified",
            field=field,
        )
    least = np.minimum(most, 1) if np.minimum(most, 1).sum() <= count else np.zeros_like(most)
    exact = sizes * count / sizes.sum()
    shares: np.ndarray = np.clip(np.floor(exact).astype(int), least, most)
    while shares.sum() < count:
        shares[np.argmax(np.where(shares < most, exact - shares, -np.inf))] += 1
    while shares.sum() > count:
        shares[np.argmax(np.where(shares > least, shares - exact, -np.inf))] -= 1
    return shares
