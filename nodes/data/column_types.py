"""Every column becomes one of a few Arrow types, whatever the file held.

========  ==========================================================================================
kind      Arrow type
========  ==========================================================================================
number    integers of 32 bits where they fit and 64 where not; floats as wide as they came; NaN is missing
bool      bool
time      timestamp[us] in UTC; a time of day or a duration is a number of seconds instead
category  dictionary<int32, string>, values in natural order
text      string
========  ==========================================================================================

Strings are a category, unless there are more than ``MANY_TEXTS`` different ones and more than half of the
values differ from one another: then they are text.

- ``infer_type``      infers the kind of a column
- ``cast_column``     makes it the kind that was asked for, or says which value stands in the way
- ``to_category``  distinct values in natural order, as categories and class labels have them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.node_types import Kind
from engine.values import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

MANY_TEXTS = 100
WHOLE = re.compile(r"([+-]?)0*(\d+?)(\.0*)?", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
BOOLS = {"true": True, "yes": True, "t": True, "y": True, "1": True} | {
    "false": False,
    "no": False,
    "f": False,
    "n": False,
    "0": False,
}
EXAMPLES = {"number": "3 or 2.5", "bool": "true or false", "time": "2024-01-31 or 2024-01-31 12:30:00"}


def infer_type(column: pa.ChunkedArray, name: str, missing: Collection[str]) -> pa.ChunkedArray:
    """The column in the type of its kind, the kind inferred from what the file says it is."""
    import pyarrow as pa
    import pyarrow.types as types

    column = _unwrapped(column)
    kind = column.type
    if types.is_dictionary(kind):
        return pa.chunked_array([to_category(column, missing)])
    if _is_text(kind):
        return _category_or_text(_readable(column, name), missing)
    if types.is_null(kind):
        return column.cast(pa.string())
    if types.is_boolean(kind):
        return column
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number(column)
    if types.is_temporal(kind) and not types.is_interval(kind):
        return _time(column)
    raise BadInput(f"column '{name}' holds {kind}, not plain values; leave it out of the file", field="source")


def cast_column(column: pa.ChunkedArray, kind: Kind, name: str, missing: Collection[str]) -> pa.ChunkedArray:
    """The column as ``kind``; ``BadInput`` names the first value that cannot be one."""
    import pyarrow as pa

    # Texts are taken as they are written; what a file has as something else is brought into its own type first.
    plain = _readable(column, name) if _is_text(column.type) else infer_type(column, name, missing)
    if kind == "category":
        return pa.chunked_array([to_category(plain, missing)])
    if kind == "text":
        return _texts(plain, missing)
    if kind_of(plain.type) == kind:
        return plain
    if kind == "number" and pa.types.is_boolean(plain.type):
        return plain.cast(pa.int32())
    return _parsed(_texts(plain, missing), kind, name)


def to_category(column: pa.ChunkedArray, missing: Collection[str] = ()) -> pa.DictionaryArray:
    """Each value as a text, kept once, in natural order; whole numbers print without a decimal point."""
    import numpy as np
    import pyarrow as pa

    encoded = _encoded(column)
    texts = _tidy(encoded.dictionary.cast(pa.string()).to_pylist(), missing)
    values = natural_order({text for text in texts if text is not None})
    position = {text: index for index, text in enumerate(values)}
    code_of_text = np.array([-1 if text is None else position[text] for text in [*texts, None]], dtype=np.int32)
    codes = code_of_text[encoded.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy(zero_copy_only=False)]
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(values, pa.string()))


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Each value once, and its number in every row; what is already so is never written out."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        with suppress(pa.ArrowException):  # of dictionaries that hold missing values
            return column.unify_dictionaries().combine_chunks()
    return column.cast(pa.string()).dictionary_encode().combine_chunks()


def natural_order(texts: Iterable[str]) -> list[str]:
    """Sorted as a person would: numbers by value (2 before 10), also inside texts (``x2`` before ``x10``)."""
    texts = list(texts)
    if all(NUMBER.fullmatch(text) for text in texts):
        return sorted(texts, key=lambda text: (float(text), text))
    return sorted(texts, key=lambda text: (_words_and_numbers(text), text))


def _words_and_numbers(text: str) -> list[str | int]:
    parts = re.split(r"([0-9]{1,18})", text)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def _tidy(texts: list[str | None], missing: Collection[str]) -> list[str | None]:
    stripped = [None if text is None else text.strip() for text in texts]
    kept = [None if text is None or text in missing else text for text in stripped]
    if all(text is None or NUMBER.fullmatch(text) for text in kept):
        return [None if text is None else _whole(text) for text in kept]
    return kept


def _whole(number: str) -> str:
    """``1.0``, ``+1`` and ``1e0`` as ``1``; a code such as ``007`` stays as it is."""
    if number.isdigit():
        return number
    if written := WHOLE.fullmatch(number):  # digit by digit: as floats, large ones would become the same
        sign, digits = written[1], written[2]
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    value = float(number)
    return str(int(value)) if value.is_integer() else number


def _unwrapped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    tests: list[Callable[[Any], bool]] = [
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
    ]
    return any(test(kind) for test in tests)


def _readable(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column as strings; Parquet files of some writers hold texts as bytes."""
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise BadInput(
            f"column '{name}' holds bytes that are no text; leave it out of the file", field="source"
        ) from None


def _category_or_text(column: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = _texts(column, missing)
    different = pc.count_distinct(texts).as_py()
    if different > MANY_TEXTS and different > (len(texts) - texts.null_count) / 2:
        return texts
    return pa.chunked_array([to_category(texts)])


def _texts(column: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
    is_missing = pc.is_in(texts, pa.array(list(missing), pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_integer(column.type):
        return _narrowed(column) if column.type == pa.int64() else column
    if types.is_decimal(column.type):
        return column.cast(pa.string()).cast(pa.float64())  # a direct cast is off in the last digit
    if types.is_float16(column.type):
        column = column.cast(pa.float32())
    is_nan = pc.is_nan(column)
    return pc.if_else(is_nan, pa.scalar(None, column.type), column) if pc.any(is_nan).as_py() else column


def _narrowed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    extremes = pc.min_max(column).as_py()
    if extremes["min"] is None or (extremes["min"] >= -(2**31) and extremes["max"] < 2**31):
        return column.cast(pa.int32())
    return column


def _time(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_timestamp(column.type) or types.is_date(column.type):
        return column.cast(pa.timestamp("us", getattr(column.type, "tz", None)), safe=False).cast(pa.timestamp("us"))
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    whole = column.cast(pa.int32() if types.is_time32(column.type) else pa.int64())
    return pa.compute.divide(whole.cast(pa.float64()), float(per_second))


def _parsed(texts: pa.ChunkedArray, kind: Kind, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        return _parse(texts, kind)
    except pa.ArrowInvalid:
        row, value = _first_bad(texts, kind)
        raise BadInput(
            f"column '{name}' cannot be read as {kind}: data row {row:,} holds '{value}', not {EXAMPLES[kind]}; "
            "correct it, add it to the missing texts or choose another type",
            field="types",
        ) from None


def _parse(texts: pa.ChunkedArray, kind: Kind) -> pa.ChunkedArray:
    import pyarrow as pa

    if kind == "bool":
        return _parse_bool(texts)
    if kind == "time":
        return _parse_time(texts)
    try:
        return _narrowed(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return _number(texts.cast(pa.float64()))


def _parse_time(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """All of them with a time zone or all without: what a mixture means cannot be known."""
    import pyarrow as pa

    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))


def _parse_bool(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.utf8_lower(texts)
    index = pc.index_in(lower, pa.array(list(BOOLS)))
    if index.null_count > texts.null_count:
        raise pa.ArrowInvalid("not a bool")
    return pc.take(pa.array(list(BOOLS.values())), index)


def _first_bad(texts: pa.ChunkedArray, kind: Kind) -> tuple[int, str]:
    """Tried together with the first value, since times with and without a zone are only bad beside each other."""
    import pyarrow as pa

    first = texts.drop_null()[0].as_py()
    good: set[str | None] = {None}
    for row, text in enumerate(texts.to_pylist(), start=1):
        if text in good:
            continue
        try:
            _parse(pa.chunked_array([[first, text]]), kind)
        except pa.ArrowInvalid:
            return row, text
        good.add(text)
    raise AssertionError("no value is bad by itself")
