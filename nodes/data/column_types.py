"""Turn every column of a file into one of a few Arrow types.

========  ==========================================================================================
kind      Arrow type
========  ==========================================================================================
number    integers of 32 bits, or 64 if they do not fit; floats as wide as they came; NaN is missing
bool      bool
time      timestamp[us] in UTC; a time of day or a duration is a number of seconds instead
category  dictionary<int32, string>, values in natural order
text      string
========  ==========================================================================================

Strings are a category. They are text if there are more than ``MANY_TEXTS`` different ones and more
than half of the values differ from one another.

- ``infer_type``   the column in the type that it looks like
- ``cast_column``  the column in the type that was chosen
- ``to_category``  distinct values in natural order, as categories and class labels
- ``parse_texts``  texts as numbers, bools or times
- ``as_seconds``   times as numbers
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from engine.errors import BadInput
from engine.node_types import Kind
from engine.values import kind_of

MANY_TEXTS = 100
WHOLE = re.compile(r"([+-]?)0*(\d+?)(\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
BOOLS = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), True),
    **dict.fromkeys(("false", "no", "f", "n", "0"), False),
}
EXAMPLES = {
    "number": "3 or 2.5",
    "bool": "true or false",
    "time": "2024-01-31 or 2024-01-31 12:30:00",
}


def infer_type(column: pa.ChunkedArray, name: str, missing: Collection[str]) -> pa.ChunkedArray:
    """Return the column in the type of its kind, as its type in the file suggests.

    ``missing`` are the texts that mean a missing value; ``name`` is for messages. Raise
    ``BadInput`` if the column holds lists, structs or bytes that are not text.
    """
    column = _storage(column)
    kind = column.type
    if types.is_dictionary(kind):
        return pa.chunked_array([to_category(column, missing)])
    if _is_text(kind):
        return _category_or_text(_as_strings(column, name), missing)
    if types.is_null(kind):
        return column.cast(pa.string())
    if types.is_boolean(kind):
        return column
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _to_number(column)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _to_time(column)
    raise BadInput(
        f"column '{name}' holds values of type {kind}, which cannot be used; remove it from the "
        "file",
        field="source",
    )


def cast_column(
    column: pa.ChunkedArray, kind: Kind, name: str, missing: Collection[str]
) -> pa.ChunkedArray:
    """Return the column as ``kind``.

    Raise ``BadInput`` that names the first value which cannot be read as this kind.
    """
    # Texts are used as written; other values are first brought into the type of their kind.
    is_text = _is_text(column.type)
    plain = _as_strings(column, name) if is_text else infer_type(column, name, missing)
    if kind == "category":
        return pa.chunked_array([to_category(plain, missing)])
    if kind == "text":
        return clean_texts(plain, missing)
    if kind_of(plain.type) == kind:
        return plain
    if kind == "number" and pa.types.is_boolean(plain.type):
        return plain.cast(pa.int32())
    return _parse_or_refuse(clean_texts(plain, missing), kind, name)


def to_category(column: pa.ChunkedArray, missing: Collection[str] = ()) -> pa.DictionaryArray:
    """Return the values as categories in natural order.

    Whole numbers have no decimal point: ``1.0`` and ``1`` are the same category.
    """
    encoded = _as_dictionary(column)
    texts = _tidy(encoded.dictionary.cast(pa.string()).to_pylist(), missing)
    values = natural_order({text for text in texts if text is not None})
    position: dict[str | None, int] = {text: index for index, text in enumerate(values)}
    # The last entry is for rows without a value.
    code_of_text = np.array([position.get(text, -1) for text in [*texts, None]], dtype=np.int32)
    indices = encoded.indices.cast(pa.int64()).fill_null(len(texts))
    codes = code_of_text[indices.to_numpy(zero_copy_only=False)]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, mask=codes < 0), pa.array(values, pa.string())
    )


def _as_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the column as a dictionary array.

    A column that is a dictionary already is not expanded, because that may take gigabytes.
    """
    if pa.types.is_dictionary(column.type):
        # Arrow cannot unify dictionaries that hold missing values. These are expanded below.
        with suppress(pa.ArrowException):
            return column.unify_dictionaries().combine_chunks()
    return column.cast(pa.string()).dictionary_encode().combine_chunks()


def natural_order(texts: Iterable[str]) -> list[str]:
    """Return texts sorted with numbers by value: 2 before 10, and ``x2`` before ``x10``."""
    texts = list(texts)
    if all(NUMBER.fullmatch(text) for text in texts):
        return sorted(texts, key=lambda text: (float(text), text))
    return sorted(texts, key=lambda text: (_words_and_numbers(text), text))


def _words_and_numbers(text: str) -> list[str | int]:
    """Split a text into words and whole numbers in turn, to sort numbers by their value."""
    # At most 18 digits: Python is slow with very long integers.
    parts = re.split(r"([0-9]{1,18})", text)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def _tidy(texts: list[str | None], missing: Collection[str]) -> list[str | None]:
    """Return texts without space around them; None for missing ones, tidy if all are numbers."""
    stripped = [None if text is None else text.strip() for text in texts]
    present = [None if text in missing else text for text in stripped]
    if all(text is None or NUMBER.fullmatch(text) for text in present):
        return [None if text is None else tidy_number(text) for text in present]
    return present


def tidy_number(number: str) -> str:
    """Return ``1.0``, ``+1`` and ``1e0`` as ``1``; a code such as ``007`` stays as it is.

    The text must be a number, as ``NUMBER`` matches it.
    """
    # Leading zeros are kept: 007 is a code.
    if number.isdigit():
        return number
    whole = WHOLE.fullmatch(number)
    # Digit by digit: as floats, large numbers would become the same.
    if whole:
        sign, digits = whole[1], whole[2]
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    value = float(number)
    return str(int(value)) if value.is_integer() else number


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of an extension type as the plain type that stores them."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a type holds texts; bytes count as text until they are decoded."""
    tests: list[Callable[[Any], bool]] = [
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
    ]
    return any(test(kind) for test in tests)


def _as_strings(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return the column as strings; some programs write texts as bytes into Parquet files.

    Raise ``BadInput`` if the bytes are not UTF-8.
    """
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise BadInput(
            f"column '{name}' holds bytes that are not text; remove it from the file",
            field="source",
        ) from None


def _category_or_text(column: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    """Return texts as a category, or as they are if most of them differ."""
    texts = clean_texts(column, missing)
    different = pc.count_distinct(texts).as_py()
    # Few different texts are a category, even if the table has few rows.
    if different > MANY_TEXTS and different > (len(texts) - texts.null_count) / 2:
        return texts
    return pa.chunked_array([to_category(texts)])


def _to_number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return numbers in a type that numpy has, with NaN as a missing value."""
    if types.is_integer(column.type):
        return _narrow_integers(column) if column.type == pa.int64() else column
    if types.is_decimal(column.type):
        # A direct cast of a decimal is off in the last digit.
        return column.cast(pa.string()).cast(pa.float64())
    if types.is_float16(column.type):
        column = column.cast(pa.float32())
    is_nan = pc.is_nan(column)
    if not pc.any(is_nan).as_py():
        return column
    return pc.if_else(is_nan, pa.scalar(None, column.type), column)


def _narrow_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return 64-bit integers as 32-bit ones if all of them fit: the table takes half the memory."""
    extremes = pc.min_max(column).as_py()
    if extremes["min"] is None or (extremes["min"] >= -(2**31) and extremes["max"] < 2**31):
        return column.cast(pa.int32())
    return column


def _to_time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and timestamps in microseconds of UTC; durations as seconds."""
    if types.is_timestamp(column.type) or types.is_date(column.type):
        zone = getattr(column.type, "tz", None)
        return column.cast(pa.timestamp("us", zone), safe=False).cast(pa.timestamp("us"))
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    whole = column.cast(pa.int32() if types.is_time32(column.type) else pa.int64())
    return pa.compute.divide(whole.cast(pa.float64()), float(per_second))


def as_seconds(times: Any) -> Any:
    """Return an array of any temporal type as 64-bit floats: seconds, of dates since 1970."""
    kind = times.type
    if types.is_date32(kind):
        seconds = 86_400.0
    else:
        unit = "ms" if types.is_date64(kind) else kind.unit
        seconds = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    # Arrow casts times only to integers of the same width.
    whole = times.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    return pc.multiply(whole.cast(pa.float64(), safe=False), seconds)


# Text to values


def clean_texts(column: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    """Return a column as texts without space around them; those of ``missing`` become null."""
    texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
    is_missing = pc.is_in(texts, pa.array(list(missing), pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)


def parse_texts(texts: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    """Return clean texts as numbers, bools or times.

    Raise ``pa.ArrowInvalid`` if one of them is not. Either all times have a time zone or none has:
    what a mixture means cannot be known.
    """
    if kind == "bool":
        return _parse_bools(texts)
    if kind == "time":
        try:
            return texts.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            # With a time zone: converted to UTC, then the zone is dropped.
            return texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    try:
        return _narrow_integers(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return _to_number(texts.cast(pa.float64()))


def first_unparsed(
    texts: pa.ChunkedArray, parse: Callable[[pa.ChunkedArray], object]
) -> int | None:
    """Return the position of the first text that ``parse`` refuses; None if it accepts all.

    It searches by halves, because ``parse`` says only whether it accepts a whole column.
    """
    good, bad = 0, len(texts) + 1
    while bad - good > 1:
        # The first attempt takes all texts, the next ones halve what is left.
        middle = len(texts) if bad > len(texts) else (good + bad) // 2
        try:
            parse(texts.slice(0, middle))
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return None if bad > len(texts) else bad - 1


def _parse_or_refuse(texts: pa.ChunkedArray, kind: Kind, name: str) -> pa.ChunkedArray:
    """Return the texts as ``kind``; raise ``BadInput`` that names the first one that is not."""
    try:
        return parse_texts(texts, kind)
    except pa.ArrowInvalid:
        position = first_unparsed(texts, lambda some: parse_texts(some, kind))
        # All of the texts together were refused, so one of them is.
        assert position is not None
        raise BadInput(
            f"column '{name}' cannot be read as {kind}: data row {position + 1:,} holds "
            f"'{texts[position]}', but a value such as {EXAMPLES[kind]} is expected; correct it, "
            "add it to the missing texts, or choose another type",
            field="types",
        ) from None


def _parse_bools(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts such as ``yes`` and ``0`` as bools; raise ``pa.ArrowInvalid`` for others."""
    # A text that is not a bool becomes null, like a missing one.
    index = pc.index_in(pc.utf8_lower(texts), pa.array(list(BOOLS)))
    if index.null_count > texts.null_count:
        raise pa.ArrowInvalid("not a bool")
    return pc.take(pa.array(list(BOOLS.values())), index)
