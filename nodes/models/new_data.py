"""Columns of new data made into what a model was trained on.

The model's encoder decides what a column is, not the look of its values: a number may come as an integer, a float, a
bool or a text in which it is written, and differently in each block of a file. What cannot be meant is refused, all
columns at once: a column that is not there, a time for a number, a number for a category with other names.

- ``InputChecker``    takes tables in, block by block
- ``Levels``     which level of a category a value means
- ``read_time``  one time as the encoder counts it
- ``ColumnMismatch``     why one column does not fit
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine.errors import BadInput
from engine.text import listed
from engine.values import kind_of
from nodes.data.column_types import BOOLS, EXAMPLES, NUMBER, infer_type, tidy_number
from nodes.data.formats import MISSING_TEXTS
from nodes.models.categories import as_text
from nodes.models.encoder import LevelColumn, NumberColumn, TableEncoder

if TYPE_CHECKING:
    import pyarrow as pa

TOLD = 20
"""Columns that a message names."""


class ColumnMismatch(Exception):
    """Why a column does not fit."""


@dataclass(frozen=True)
class InputChecker:
    """What a model expects of its columns, and the way there."""

    encoder: TableEncoder
    missing: Collection[str] = MISSING_TEXTS

    def lacking(self, names: Collection[str]) -> list[str]:
        """The columns the model needs that are not among ``names``."""
        return [name for name in self.encoder.names if name not in names]

    def table(self, data: pa.Table, first_row: int = 0) -> pa.Table:
        """The model's columns as its encoder takes them; ``BadInput`` names every column that does not fit.

        ``first_row`` is the number of rows before this block. Only the first block decides whether a column's values
        could be meant at all; later ones hold what they hold.
        """
        import pyarrow as pa

        columns, problems = {}, []
        lacking = self.lacking(data.column_names)
        for column in self.encoder.columns:
            if column.name not in lacking:
                try:
                    columns[column.name] = self._fitted(column, data.column(column.name), first_row)
                except ColumnMismatch as problem:
                    problems.append(str(problem))
        if lacking or problems:
            raise BadInput(describe(lacking, problems))
        return pa.table(columns)

    def _fitted(self, column: NumberColumn | LevelColumn, values: pa.ChunkedArray, first_row: int) -> pa.ChunkedArray:
        if isinstance(column, LevelColumn):
            return Levels.of(column).fitted(values, self.missing, check=first_row == 0)
        if column.kind == "time":
            return _times(column.name, values, self.missing, first_row)
        return _numbers(column.name, values, self.missing, first_row)


def describe(lacking: Sequence[str], problems: Sequence[str]) -> str:
    """All that keeps a table from fitting, in one sentence."""
    parts = [f"it lacks {listed(lacking, TOLD)}"] if lacking else []
    parts += problems[:TOLD]
    more = f"; and {len(problems) - TOLD:,} more columns" if len(problems) > TOLD else ""
    return f"the table does not fit the model: {'; '.join(parts)}{more}"


# Numbers and times


def _numbers(name: str, values: pa.ChunkedArray, missing: Collection[str], first_row: int) -> pa.ChunkedArray:
    import pyarrow.types as types

    if types.is_integer(values.type) or types.is_floating(values.type) or types.is_boolean(values.type):
        return values
    values = _plain(name, values)
    kind = kind_of(values.type)
    if kind == "time":
        raise ColumnMismatch(f"'{name}' is a time and was a number in training")
    if kind == "text":
        return _parsed(name, _tidy(values, missing), (_as_floats, _as_bools, _as_seconds), "number", first_row)
    return values


def _times(name: str, values: pa.ChunkedArray, missing: Collection[str], first_row: int) -> pa.ChunkedArray:
    import pyarrow as pa

    values = _plain(name, values)
    kind = kind_of(values.type)
    if pa.types.is_null(values.type) or values.null_count == len(values):
        return pa.chunked_array([pa.nulls(len(values), pa.timestamp("us"))])
    if kind == "text":
        return _parsed(name, _tidy(values, missing), (_as_times, _as_zoned_times), "time", first_row)
    if kind != "time":
        raise ColumnMismatch(f"'{name}' is a {kind} and was a time in training")
    return values


def _plain(name: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts written out, everything else in the type of its kind."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_string(values.type):
        return values
    try:
        # No text means a missing value here: that is for ``_tidy`` to say.
        settled = infer_type(values, name, ())
        return settled.cast(pa.string()) if pa.types.is_dictionary(settled.type) else settled
    except BadInput as problem:
        raise ColumnMismatch(problem.message.partition(";")[0]) from None


def _tidy(texts: pa.ChunkedArray, missing: Collection[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(texts)
    is_missing = pc.is_in(texts, pa.array(sorted(missing), pa.string()))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)


def _as_floats(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return texts.cast(pa.float64())


def _as_bools(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    position = pc.index_in(pc.utf8_lower(texts), pa.array(list(BOOLS)))
    if position.null_count > texts.null_count:
        raise pa.ArrowInvalid("not a bool")
    return pc.take(pa.array(list(BOOLS.values())), position)


def _as_seconds(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """A time of day is a number of seconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring(texts, ":")).as_py():
        raise pa.ArrowInvalid("not a time of day")
    return pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("s")).cast(pa.int64())


def _as_times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return texts.cast(pa.timestamp("us"))


def _as_zoned_times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return texts.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))


def read_time(text: str) -> float:
    """Seconds since 1970 of one time, as the encoder counts them; ``ColumnMismatch`` if it is none."""
    import pyarrow as pa

    try:
        texts = pa.chunked_array([[text.strip()]], pa.string())
        moment = _parsed("", texts, (_as_times, _as_zoned_times), "time", 0)
    except (pa.ArrowException, UnicodeError):
        raise ColumnMismatch("it is no text") from None
    return float(moment.cast(pa.int64())[0].as_py() * 1e-6)


Parse = Callable[[Any], Any]


def _parsed(name: str, texts: pa.ChunkedArray, ways: Iterable[Parse], kind: str, first_row: int) -> pa.ChunkedArray:
    """The texts read in the first way that suits all of them."""
    found, furthest = None, -1
    for parse in ways:
        row = _first_bad(texts, parse)
        if row is None:
            return parse(texts)
        if row > furthest:
            furthest, found = row, texts[row].as_py()
    shown = found if len(found or "") <= 60 else f"{(found or '')[:60]}…"
    raise ColumnMismatch(
        f"'{name}' holds '{shown}' in data row {first_row + furthest + 1:,} where a {kind} is expected, "
        f"such as {EXAMPLES[kind]}"
    )


def _first_bad(texts: pa.ChunkedArray, parse: Parse) -> int | None:
    """The first row that cannot be read, found by halves; none if all can."""
    import pyarrow as pa

    low, high = 0, len(texts)
    bad = False
    while low < high:
        middle = high if not bad else (low + high) // 2
        try:
            parse(texts.slice(low, middle - low))
            if not bad:
                return None
            low = middle
        except pa.ArrowInvalid:
            bad, high = True, middle
        if high - low <= 1 and bad:
            return low
    return None


# Categories


@dataclass(frozen=True)
class Levels:
    """The names a category had in training, and which of them a value means."""

    name: str
    levels: tuple[str, ...]

    @classmethod
    def of(cls, column: LevelColumn) -> Levels:
        """Those of one column."""
        return cls(column.name, column.levels)

    @cached_property
    def known(self) -> dict[str, int]:
        """The number of each level."""
        return {level: number for number, level in enumerate(self.levels)}

    @cached_property
    def are_numbers(self) -> bool:
        """Whether each level is written as a number, so that a number can mean it."""
        return all(NUMBER.fullmatch(level) for level in self.levels)

    def meant(self, text: str | None) -> str | None:
        """The level a text means, if it means one: ``1.0`` is ``1`` where that is a level."""
        if text is None:
            return None
        text = text.strip()
        if text not in self.known and NUMBER.fullmatch(text):
            text = tidy_number(text)
        return text if text in self.known else None

    def fitted(self, values: pa.ChunkedArray, missing: Collection[str], *, check: bool) -> pa.ChunkedArray:
        """A column of known levels; a value that is none of them is missing, as a level never seen counts."""
        import pyarrow as pa

        if pa.types.is_null(values.type) or not len(values):
            return pa.chunked_array([pa.nulls(len(values), pa.string())])
        chunks = self._encoded(values).chunks
        entries = as_text(chunks[0].dictionary).to_pylist()
        meant = [self.meant(text) for text in entries]
        if check and not self.are_numbers and not any(text is not None for text in meant):
            present = {text.strip() for text in entries if text is not None} - {"", *missing}
            if present and all(NUMBER.fullmatch(text) for text in present):
                raise self._is("number")
        levels = pa.array(meant, pa.string())
        return pa.chunked_array([pa.DictionaryArray.from_arrays(chunk.indices, levels) for chunk in chunks])

    def _encoded(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values as numbers of one dictionary, the same in all chunks."""
        import pyarrow as pa

        if pa.types.is_dictionary(values.type):
            try:
                return values.unify_dictionaries()
            except pa.ArrowException:  # of dictionaries that hold missing values
                return values.cast(values.type.value_type).dictionary_encode()
        values = values if kind_of(values.type) in ("number", "bool") else _plain(self.name, values)
        kind = kind_of(values.type)
        if kind == "time" or (kind == "number" and not self.are_numbers):
            raise self._is(kind)
        return values.dictionary_encode()

    def _is(self, kind: str) -> ColumnMismatch:
        return ColumnMismatch(
            f"'{self.name}' is a {kind} and was a category in training, such as {listed(self.levels, 3)}"
        )
