"""Load the rows of the papers' data sets: training, validation and test rows.

- ``Parts``       the rows of one job
- ``load_parts``  by the name of a split rule and of a data set
- ``missing``     why a data set cannot be loaded
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._forest_data import NoData, column_numbers, data_folder

Array = npt.NDArray[Any]

# RCF's table 1: the sizes are those of LIBSVM's training files, of usps that of its test file.
RCF_FILES = {"vowel": "train", "dna": "train", "pendigits": "train", "a2a": "train", "usps": "test"}
PAYMENTS = 1_400_000
PAYMENT_TRAINING_SHARE = 0.714  # 131.4 of 183.9 million rows in the paper
PAPER_FRAUD_SHARE = 171_784 / 131_407_704
VALIDATION_SHARE = 0.1
GENERATED = ("payments", "digits")


class Rows(NamedTuple):
    """Features, categories as codes, and classes as numbers."""

    x: Array
    y: Array


class Parts(NamedTuple):
    """Hold the rows of a job; ``validation`` is None if a method has to divide the training rows.

    ``categories`` are the columns that hold codes of categories, ``shape`` that of an image.
    """

    train: Rows
    validation: Rows | None
    test: Rows
    categories: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None


def missing(name: str) -> str | None:
    """Return why a data set cannot be loaded, or None if it can."""
    if name in GENERATED or any((data_folder() / name).glob("*.parquet")):
        return None
    return f"no {name} in {data_folder()} (set SYLVA_DATA)"


def load_parts(split: str, name: str, seed: int) -> Parts:
    """Return the rows of a data set, divided by the rule ``split``; raise ``NoData`` without it."""
    reason = missing(name)
    if reason is not None:
        raise NoData(reason)
    return SPLITS[split](name, seed)


def standard(name: str, seed: int) -> Parts:
    """Return the original split; without one, 70 % of each class are training rows."""
    from sklearn.model_selection import train_test_split

    if (data_folder() / name / "all.parquet").is_file():
        rows, categories = _read(name, ("all",))
        x, x_test, y, y_test = train_test_split(
            *rows, test_size=0.3, random_state=seed, stratify=rows.y
        )
        return Parts(Rows(x, y), None, Rows(x_test, y_test), categories)
    # Codes of categories and classes must be the same in both parts, so they are read together.
    rows, categories = _read(name, ("train", "test"))
    n = _n_rows(name, "train")
    return Parts(_some(rows, slice(n)), None, _some(rows, slice(n, None)), categories)


def at_random(name: str, seed: int) -> Parts:
    """Return 60, 20 and 20 % of the rows, drawn at random, as the paper of RCF divided them."""
    rows, categories = _read(name, (RCF_FILES.get(name, "all"),))
    return _divided(rows, random_parts(len(rows.y), seed), categories)


def random_parts(n_rows: int, seed: int) -> tuple[Array, Array, Array]:
    """Return the row numbers of 60, 20 and 20 % of the rows, drawn at random."""
    order = np.random.default_rng(seed).permutation(n_rows)
    first, second = round(0.6 * n_rows), round(0.8 * n_rows)
    return order[:first], order[first:second], order[second:]


def payments(name: str, seed: int) -> Parts:
    """Return generated payments in order of time: the test rows are the latest ones."""
    from nodes.data.samples import payments as generate

    table = generate(PAYMENTS, PAPER_FRAUD_SHARE, seed).drop_columns(["payment_id", "time"])
    rows, categories = _numeric(table, "fraud")
    # The last tenth of the training rows is for choices, so that these look at later rows too.
    n = round(PAYMENT_TRAINING_SHARE * PAYMENTS)
    n_fit = round((1 - VALIDATION_SHARE) * n)
    ranges = (slice(n_fit), slice(n_fit, n), slice(n, None))
    return _divided(rows, ranges, categories)


def distinct_rows(name: str, seed: int) -> Parts:
    """Return the distinct rows of the training file: 63, 7 and 30 %, equal features together."""
    import pyarrow.parquet as pq

    file = data_folder() / name / "train.parquet"
    table = pq.read_table(file)
    frame = table.to_pandas().drop_duplicates()
    table = table.take(frame.index.to_numpy())
    rows, categories = _numeric(table, "target")
    # A few connections are an attack once and normal another time: both go to the same part.
    group = np.unique(rows.x, axis=0, return_inverse=True)[1].ravel()
    draw = np.random.default_rng(seed).random(group.max() + 1)[group]
    n_fit = (1 - VALIDATION_SHARE) * 0.7
    masks = (draw < n_fit, (draw >= n_fit) & (draw < 0.7), draw >= 0.7)
    return _divided(rows, masks, categories)


def image(name: str, seed: int) -> Parts:
    """Return the standard split of a data set of square images, with their shape."""
    parts = digits(seed) if name == "digits" else standard(name, seed)
    side = round(parts.train.x.shape[1] ** 0.5)
    return parts._replace(shape=(side, side))


def digits(seed: int) -> Parts:
    """Return scikit-learn's digits; 70 % of each class, by ``seed``, are training rows."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x = x.astype(np.float32)
    x_train, x_test, y_train, y_test = train_test_split(
        x, y, test_size=0.3, random_state=seed, stratify=y
    )
    return Parts(Rows(x_train, y_train), None, Rows(x_test, y_test))


def faces(n_images: int) -> Callable[[str, int], Parts]:
    """Return a rule that draws ``n_images`` training images of each person at random."""

    def split(name: str, seed: int) -> Parts:
        rows, _ = _read(name, ("all",))
        rng = np.random.default_rng(seed)
        is_train = np.zeros(len(rows.y), bool)
        for person in np.unique(rows.y):
            images = np.flatnonzero(rows.y == person)
            is_train[rng.choice(images, n_images, replace=False)] = True
        return Parts(_some(rows, is_train), None, _some(rows, ~is_train), shape=(112, 92))

    return split


SPLITS: dict[str, Callable[[str, int], Parts]] = {
    "standard": standard,
    "at random": at_random,
    "payments": payments,
    "distinct rows": distinct_rows,
    "image": image,
    "5 faces": faces(5),
    "7 faces": faces(7),
    "9 faces": faces(9),
}


def _n_rows(name: str, part: str) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(data_folder() / name / f"{part}.parquet").num_rows)


def _read(name: str, parts: tuple[str, ...]) -> tuple[Rows, tuple[int, ...]]:
    """Return the rows of the files of a data set, one after the other, and its category columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = [data_folder() / name / f"{part}.parquet" for part in parts]
    return _numeric(pa.concat_tables([pq.read_table(file) for file in files]), "target")


def _numeric(table: Any, target: str) -> tuple[Rows, tuple[int, ...]]:
    """Return a table as numbers, and which columns are codes of categories."""
    import pyarrow as pa

    names = [name for name in table.column_names if name != target]
    x = np.empty((table.num_rows, len(names)), np.float32)
    for number, name in enumerate(names):
        x[:, number] = column_numbers(table.column(name))
    types = [table.schema.field(name).type for name in names]
    is_text = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in types]
    y = np.unique(column_numbers(table.column(target)), return_inverse=True)[1]
    return Rows(x, y), tuple(np.flatnonzero(is_text).tolist())


def _divided(rows: Rows, which: tuple[Any, Any, Any], categories: tuple[int, ...]) -> Parts:
    """Return training, validation and test rows."""
    train, validation, test = (_some(rows, part) for part in which)
    return Parts(train, validation, test, categories)


def _some(rows: Rows, which: Any) -> Rows:
    return Rows(rows.x[which], rows.y[which])
