"""Check new data against a model and bring its columns into the types the encoder takes.

The model decides what a column is, not the look of its values: a number may come as an integer, a
float, a bool or text, and differently in each block of a file. Everything that does not fit is
reported at once: missing columns, a time for a number, a number for a category with other names.

- ``InputChecker``    checks tables block by block
- ``ColumnMismatch``  why one column does not fit
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from engine.errors import BadInput
from engine.text import lacking, listed
from engine.values import kind_of
from nodes.data.column_types import (
    EXAMPLES,
    NUMBER,
    clean_texts,
    first_unparsed,
    infer_type,
    parse_texts,
)
from nodes.data.formats import MISSING_TEXTS
from nodes.models.encoder import CategoryColumn, EncodedColumn, TableEncoder, as_text

MAX_NAMED = 20
"""Columns that a message names."""


class ColumnMismatch(Exception):
    """Say why a column does not fit; the text is part of a longer message."""


@dataclass(frozen=True)
class InputChecker:
    """Check tables against the columns of a model, and convert them for its encoder.

    ``missing`` are the texts that mean a missing value. ``present`` are the columns of a file whose
    tables have only some of them.
    """

    encoder: TableEncoder
    missing: Collection[str] = MISSING_TEXTS
    present: Collection[str] = ()

    def missing_columns(self, names: Collection[str]) -> list[str]:
        """Return the columns the model needs that are not among ``names``."""
        return [name for name in self.encoder.names if name not in names]

    def table(self, data: pa.Table, first_row: int = 0) -> pa.Table:
        """Return the model's columns in the types that its encoder takes.

        ``first_row`` is the number of rows before this block. Only the first block decides whether
        the values of a column can be meant at all. Raise ``BadInput`` that names every column which
        is missing or does not fit.
        """
        columns, problems = {}, []
        missing_columns = self.missing_columns(data.column_names)
        for column in self.encoder.columns:
            if column.name in missing_columns:
                continue
            try:
                columns[column.name] = self._converted(column, data.column(column.name), first_row)
            except ColumnMismatch as problem:
                problems.append(str(problem))
        if missing_columns or problems:
            present = self.present or data.column_names
            raise BadInput(describe(missing_columns, present, problems))
        return pa.table(columns)

    def _converted(
        self, column: EncodedColumn, values: pa.ChunkedArray, first_row: int
    ) -> pa.ChunkedArray:
        """Return a column in the type of its kind; raise ``ColumnMismatch`` if it does not fit."""
        if isinstance(column, CategoryColumn):
            return _to_categories(column, values, self.missing, check=first_row == 0)
        if column.kind == "time":
            return _to_times(column.name, values, self.missing, first_row)
        return _to_numbers(column.name, values, self.missing, first_row)


def describe(
    missing_columns: Sequence[str], present: Iterable[str], problems: Sequence[str] = ()
) -> str:
    """Return everything that keeps a table from fitting, in one sentence.

    ``present`` are the columns of the table. At most ``MAX_NAMED`` columns and problems are named.
    """
    parts = []
    if missing_columns:
        parts.append(f"it lacks {lacking(missing_columns, present, MAX_NAMED)}")
    parts += problems[:MAX_NAMED]
    if len(problems) > MAX_NAMED:
        parts.append(f"and {len(problems) - MAX_NAMED:,} more columns")
    return f"the table does not fit the model: {'; '.join(parts)}"


# Numbers and times


def _to_numbers(
    name: str, values: pa.ChunkedArray, missing: Collection[str], first_row: int
) -> pa.ChunkedArray:
    """Return numbers as they are, and texts as numbers, bools or times of day."""
    tests = (types.is_integer, types.is_floating, types.is_boolean)
    if any(test(values.type) for test in tests):
        return values
    values = _plain(name, values)
    kind = kind_of(values.type)
    if kind == "time":
        raise ColumnMismatch(f"'{name}' is a time, but was a number in training")
    if kind == "text":
        # In training, a number may have been read from any of these three.
        parse_float = partial(pc.cast, target_type=pa.float64())
        parsers = (parse_float, partial(parse_texts, kind="bool"), _parse_time_of_day)
        return _parsed(name, clean_texts(values, missing), parsers, "number", first_row)
    return values


def _to_times(
    name: str, values: pa.ChunkedArray, missing: Collection[str], first_row: int
) -> pa.ChunkedArray:
    """Return times as they are, and texts as times."""
    values = _plain(name, values)
    kind = kind_of(values.type)
    # A block without a value has no type of its own.
    if pa.types.is_null(values.type) or values.null_count == len(values):
        return pa.chunked_array([pa.nulls(len(values), pa.timestamp("us"))])
    if kind == "text":
        parsers = (partial(parse_texts, kind="time"),)
        return _parsed(name, clean_texts(values, missing), parsers, "time", first_row)
    if kind != "time":
        raise ColumnMismatch(f"'{name}' is a {kind}, but was a time in training")
    return values


def _plain(name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts without a dictionary, and everything else in the type of its kind."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_string(values.type):
        return values
    try:
        # No text counts as missing here: that is decided when the texts are parsed.
        inferred = infer_type(values, name, ())
    except BadInput as problem:
        raise ColumnMismatch(problem.message.partition(";")[0]) from None
    return inferred.cast(pa.string()) if pa.types.is_dictionary(inferred.type) else inferred


def _parse_time_of_day(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of day as seconds; raise ``pa.ArrowInvalid`` if one of them is not."""
    if not pc.all(pc.match_substring(texts, ":")).as_py():
        raise pa.ArrowInvalid("not a time of day")
    moments = pc.binary_join_element_wise("1970-01-01", texts, " ")
    return moments.cast(pa.timestamp("s")).cast(pa.int64())


Parse = Callable[[Any], Any]


def _parsed(
    name: str, texts: pa.ChunkedArray, parsers: Iterable[Parse], kind: str, first_row: int
) -> pa.ChunkedArray:
    """Return the texts as read by the first parser that accepts all of them.

    Raise ``ColumnMismatch`` with the text at which the best parser stopped.
    """
    furthest, refused = -1, ""
    for parse in parsers:
        row = first_unparsed(texts, parse)
        if row is None:
            return parse(texts)
        # The parser that came furthest was probably meant.
        if row > furthest:
            furthest, refused = row, texts[row].as_py() or ""
    shown = refused if len(refused) <= 60 else f"{refused[:60]}…"
    raise ColumnMismatch(
        f"'{name}' holds '{shown}' in data row {first_row + furthest + 1:,}, but a {kind} is "
        f"expected, such as {EXAMPLES[kind]}"
    )


# Categories


def _to_categories(
    column: CategoryColumn, values: pa.ChunkedArray, missing: Collection[str], *, check: bool
) -> pa.ChunkedArray:
    """Return a column of known categories; an unknown value becomes missing.

    If ``check`` is set, raise ``ColumnMismatch`` if all values are numbers and none is a category.
    """
    if pa.types.is_null(values.type) or not len(values):
        return pa.chunked_array([pa.nulls(len(values), pa.string())])
    chunks = _as_dictionary(column, values).chunks
    entries = as_text(chunks[0].dictionary).to_pylist()
    categories = [column.find(text) for text in entries]
    is_known = any(category is not None for category in categories)
    if check and not column.are_numbers and not is_known:
        # Unknown categories alone are accepted: new data may have new ones.
        present = {text.strip() for text in entries if text is not None} - {"", *missing}
        if present and all(NUMBER.fullmatch(text) for text in present):
            raise _was_category(column, "number")
    names = pa.array(categories, pa.string())
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(chunk.indices, names) for chunk in chunks]
    )


def _as_dictionary(column: CategoryColumn, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values as numbers of one dictionary, the same in all chunks."""
    if pa.types.is_dictionary(values.type):
        try:
            return values.unify_dictionaries()
        # Arrow cannot unify dictionaries that hold missing values.
        except pa.ArrowException:
            return values.cast(values.type.value_type).dictionary_encode()
    if kind_of(values.type) not in ("number", "bool"):
        values = _plain(column.name, values)
    kind = kind_of(values.type)
    # A number cannot be the name of a category that is a word.
    if kind == "time" or (kind == "number" and not column.are_numbers):
        raise _was_category(column, kind)
    return values.dictionary_encode()


def _was_category(column: CategoryColumn, kind: str) -> ColumnMismatch:
    """Return the mismatch of a column that was a category in training."""
    return ColumnMismatch(
        f"'{column.name}' is a {kind}, but was a category in training, such as "
        f"{listed(column.categories, 3)}"
    )
