"""Run SQL on tables that are in memory, with DuckDB. A query can do nothing else.

Two things keep it there. DuckDB itself is locked: no files, no network, no extensions, no settings.
And a query is checked before DuckDB runs it: one SELECT, on the connected tables only, with
functions that always give the same result, because results are cached.

- ``open_query``         a query that is checked: its columns, then its result as Arrow columns
- ``query_columns``      the columns of the result before a run
- ``run_expression``     one value for each row of a table
- ``expression_kind``    the kind of these values before a run
- ``converted``          a column of a result in the Arrow type of its kind
- ``locked_connection``  DuckDB with tables, for queries of our own
- ``errors_explained``   errors of DuckDB as messages at a field

What a query may be is checked on its syntax tree, as DuckDB writes it to JSON. A part of the tree
that is not known here is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from engine import sandbox
from engine.errors import BadInput
from engine.node_types import Column, Columns, Kind
from engine.processes import available_memory
from engine.text import listed, shortened, suggest

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

IMPORTS = ("duckdb", "pyarrow", "numpy")
MEMORY_SHARE = 0.8
"""Share of the memory of this process that DuckDB may use; the rest is for the result."""
CHECK_MEGABYTES = 1_000
CHECK_SECONDS = 10.0
MAX_QUERY = 20_000
"""Characters of a query."""
ROWS = "rows"
"""The name of the table that an expression reads."""

KIND_TYPES: Mapping[Kind, str] = {
    # DuckDB uses integers wherever it takes numbers, but not the other way round.
    "number": "INTEGER",
    "bool": "BOOLEAN",
    "time": "TIMESTAMP",
    # Both are texts for DuckDB. As enums of one value each, they stay different in the result.
    "category": "ENUM('category')",
    "text": "ENUM('text')",
}
"""The type that a column has while the columns of a result are found, by its kind."""
RESULT_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "hugeint"), "number"),
    **dict.fromkeys(("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"), "number"),
    **dict.fromkeys(("float", "double", "decimal", "time"), "number"),
    "boolean": "bool",
    **dict.fromkeys(("date", "timestamp", "timestamp with time zone"), "time"),
    **dict.fromkeys(("timestamp_s", "timestamp_ms", "timestamp_ns"), "time"),
    # A text that a query makes has few values: it names a group, a class or a range.
    "varchar": "category",
}
"""The kinds of the types that a table can hold."""
ADVICE = {
    "interval": "use date_diff('second', start, end) to get a number",
    "null": "give its missing values a type, such as NULL::DOUBLE",
    "list": "use unnest to get one row for each value",
    "uuid": "cast it to VARCHAR",
}
"""What to do about some of the types that a table cannot hold."""

EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "OPERATOR",
        "TYPE",
    }
)
"""The classes of nodes that compute one value from the values of a row."""
QUERY_EXPRESSIONS = EXPRESSIONS | {
    "COLLATE",
    "LAMBDA",
    "POSITIONAL_REFERENCE",
    "STAR",
    "SUBQUERY",
    "WINDOW",
}
QUERY_NODES = frozenset(
    {
        "ASCENDING",
        "BASE_TABLE",
        "CTE_NODE",
        "DESCENDING",
        "DISTINCT_MODIFIER",
        "EMPTY",
        "EXPRESSION_LIST",
        "JOIN",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_DEFAULT",
        "ORDER_MODIFIER",
        "PIVOT",
        "RECURSIVE_CTE_NODE",
        "SELECT_NODE",
        "SET_OPERATION_NODE",
        "SUBQUERY",
        "TABLE_FUNCTION",
    }
)
"""The types of nodes without a class: queries, what they read, and how rows are ordered."""
TABLE_FUNCTIONS = frozenset(("generate_series", "range", "unnest"))
CLOCKS = frozenset(
    ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")
)
"""Functions that may be written like columns, without brackets."""
ONLY_SELECT = "only one SELECT is allowed here: it reads the connected tables and changes nothing"


class UnknownTable(BadInput):
    """A query reads a table that is not connected, or whose columns are not known yet."""

    def __init__(self, message: str, *, table: str, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.table = table


# Queries


class OpenQuery:
    """A query that was checked and bound; ``columns`` are those of its result, without roles."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, query: str, columns: Columns, field: str
    ) -> None:
        self.columns = columns
        self._connection, self._query, self._field = connection, query, field

    def run(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Return the result on these tables, in the types of DuckDB.

        Raise ``BadInput`` if it takes too long, and ``MemoryError`` if it needs more memory than
        this process has.
        """
        with errors_explained(self._field):
            for name, data in tables.items():
                self._connection.register(name, data)
            return self._connection.sql(self._query).to_arrow_table()


@contextmanager
def open_query(
    query: str, tables: Mapping[str, Columns], *, seconds: float, field: str
) -> Iterator[OpenQuery]:
    """Check a query in this process, for a run that may take ``seconds``.

    ``tables`` has the columns of each table. Opening DuckDB costs as much as a small query, so it
    is opened once. Raise ``BadInput`` at ``field`` if the query is not allowed or wrong, or if a
    table cannot hold its result.
    """
    known = json.loads(_as_plain(tables))
    with locked_connection({}, seconds=seconds) as connection:
        found = _bound_columns(connection, "query", query, known, field)
        for name in tables:
            connection.execute(f"DROP TABLE {quoted(name)}").fetchall()
        yield OpenQuery(connection, query, _as_columns(found), field)


def query_columns(query: str, tables: Mapping[str, Columns], *, field: str) -> Columns:
    """Return the columns of the result, without roles; ``tables`` has those of each table.

    Raise ``BadInput`` if the query is not allowed or wrong, or if a table cannot hold its result.
    """
    return _as_columns(_found_columns("query", query, _as_plain(tables), field, running=False))


def _as_columns(found: Sequence[tuple[str, Kind]]) -> Columns:
    return tuple(Column(name, kind) for name, kind in found)


def run_expression(expression: str, data: pa.Table, *, field: str) -> pa.ChunkedArray:
    """Return the value of an expression for each row, in a type of DuckDB.

    Raise ``BadInput`` if the expression is not allowed or wrong.
    """
    with locked_connection({ROWS: data}) as connection, errors_explained(field):
        _check_expression(connection, expression, field)
        return connection.sql(_expression_query(expression)).to_arrow_table().column(0)


def expression_kind(
    expression: str, columns: Columns, *, field: str, running: bool = False
) -> Kind:
    """Return the kind of the values of an expression.

    With ``running``, it is bound in this process. Raise ``BadInput`` if the expression is not
    allowed or wrong, or if a column cannot hold its values.
    """
    [[_, kind]] = _found_columns(
        "expression", expression, _as_plain({ROWS: columns}), field, running
    )
    return kind


def _expression_query(expression: str) -> str:
    """Return the query that computes an expression; a comment in it ends with its line."""
    return f"SELECT (\n{expression}\n) AS value FROM {ROWS}"


# DuckDB


@contextmanager
def locked_connection(
    tables: Mapping[str, pa.Table], *, seconds: float = 0
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open DuckDB with these tables and lock it; 0 seconds stands for no limit."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        # With several threads, the order of groups and the last digits of sums would differ
        # from run to run.
        "threads": 1,
        "async_threads": 1,
        "memory_limit": f"{int(available_memory() * MEMORY_SHARE)}MB",
        "max_execution_time": int(seconds * 1000),
        "temp_directory": "",
        # A division by zero is a missing value, not infinity.
        "ieee_floating_point_ops": False,
        "error_on_division_by_zero": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        # Otherwise a query could read the variables of this program as tables.
        "python_enable_replacements": False,
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        # The zone is a setting of an extension, which is loaded by now.
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        for name, data in tables.items():
            connection.register(name, data)
        # Not among the settings above: it also locks some of them.
        connection.execute("SET enable_external_access = false").fetchall()
        connection.execute("SET lock_configuration = true").fetchall()
        yield connection


@contextmanager
def errors_explained(field: str) -> Iterator[None]:
    """Turn errors of DuckDB into ``BadInput`` at a field, or into ``MemoryError``."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise MemoryError(str(error)) from error
    except duckdb.InterruptException:
        raise BadInput(
            "it was stopped, because it took longer than its time limit; make it simpler, or "
            "raise the limit",
            field=field,
        ) from None
    except duckdb.Error as error:
        raise BadInput(_first_sentence(str(error)), field=field) from None


KIND_OF_ERROR = re.compile(r"^[\w ]+ Error: ")
LINES_OF_QUERY = re.compile(r"\n\s*\n|\nLINE \d+:")
CLEARER = {
    "SELECT list is empty": "the result has no columns; select at least one",
    "SELECT clause without selection list": "the result has no columns; select at least one",
    "expression depth": "it is nested too deeply; make it simpler",
}
"""What errors of DuckDB mean, by some of their words."""


WRONG_TYPES = re.compile(r"""argument types '(.+?)\((.*?)\)'\. You|call "(.+?)\((.*?)\)"\. In""")
OWN_TYPE = re.compile(r"ENUM\('(text|category)'\)")
LITERAL = re.compile(r"\b(STRING|INTEGER)_LITERAL\b")


def _first_sentence(message: str) -> str:
    """Return what an error of DuckDB says, without the kind of error and the lines of the query."""
    # These are types of this module, which stand for texts.
    message = LITERAL.sub(r"\1", OWN_TYPE.sub(r"\1", message))
    wrong = WRONG_TYPES.search(message)
    if wrong:
        name, types = wrong[1] or wrong[3], wrong[2] or wrong[4]
        return (
            f"'{name}' cannot be used with {types.lower()}; change the type of a value, as in "
            "amount::DOUBLE"
        )
    for words, clearer in CLEARER.items():
        if words in message:
            return clearer
    text = LINES_OF_QUERY.split(message)[0]
    text = KIND_OF_ERROR.sub("", " ".join(text.split()))
    return shortened(text.rstrip("!. "), 400)


def converted(column: pa.ChunkedArray, kind: Kind, levels: pa.Array | None) -> pa.ChunkedArray:
    """Return a column of a result in the Arrow type of its kind.

    ``levels`` are the categories to use if all values are among them: those of the column that the
    values come from, in their order.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from nodes.data.column_types import infer_type, to_category

    if kind == "text":
        return column
    if kind == "category":
        if levels is not None and pa.types.is_string(column.type):
            codes = pc.index_in(column, levels)
            if codes.null_count == column.null_count:
                return _with_levels(codes, levels)
        return pa.chunked_array([to_category(column)])
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        # Sums of integers: DuckDB counts with 128 bits.
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int64())
    return _with_empty_gaps(infer_type(column, "", ()))


def _with_empty_gaps(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column with zeros behind its missing values.

    DuckDB leaves there what the memory held before. The same result must have the same bytes.
    """
    import pyarrow as pa

    if not column.null_count:
        return column
    kind, chunks = column.type, []
    zero = pa.scalar(False) if pa.types.is_boolean(kind) else pa.scalar(0).cast(kind)
    for chunk in column.chunks:
        filled = chunk.fill_null(zero).to_numpy(zero_copy_only=False)
        chunks.append(pa.array(filled, kind, mask=chunk.is_null().to_numpy(zero_copy_only=False)))
    return pa.chunked_array(chunks, kind)


def _with_levels(codes: pa.ChunkedArray, levels: pa.Array) -> pa.ChunkedArray:
    """Return codes as categories."""
    import pyarrow as pa

    kind = pa.dictionary(pa.int32(), pa.string())
    chunks = [pa.DictionaryArray.from_arrays(chunk, levels) for chunk in codes.chunks]
    return pa.chunked_array(chunks, kind)


# What a query may be


def _syntax_tree(connection: duckdb.DuckDBPyConnection, query: str, field: str) -> Any:
    """Return the syntax tree of a query. Raise ``BadInput`` unless it is one SELECT."""
    written = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchall()[0][0]
    try:
        tree = json.loads(written)
    except RecursionError:
        raise BadInput("it is nested too deeply; make it simpler", field=field) from None
    if tree["error"]:
        is_other = tree["error_type"] == "not implemented"
        raise BadInput(
            ONLY_SELECT if is_other else _first_sentence(tree["error_message"]), field=field
        )
    if len(tree["statements"]) != 1:
        raise BadInput(ONLY_SELECT, field=field)
    return tree["statements"][0]["node"]


def _check_query(
    connection: duckdb.DuckDBPyConnection, query: str, tables: Mapping[str, Any], field: str
) -> None:
    """Raise ``BadInput`` if a query is not one SELECT on the tables, or uses what is not known."""
    parts = list(_parts(_syntax_tree(connection, query, field)))
    _check_parts(parts, QUERY_EXPRESSIONS, field)
    known = {name.lower() for name in tables}
    known |= {entry["key"].lower() for part in parts for entry in _with_clauses(part)}
    for part in parts:
        if part.get("sample"):
            raise BadInput(
                "a sample of rows is another one each time; use a Sample node", field=field
            )
        if part.get("type") == "BASE_TABLE":
            _check_table(part, known, list(tables), field)
        if part.get("type") == "TABLE_FUNCTION":
            name = part["function"]["function_name"]
            if name.lower() not in TABLE_FUNCTIONS:
                raise BadInput(
                    f"the function '{name}' cannot be used: a query reads only the connected "
                    "tables",
                    field=field,
                )
    _check_functions(parts, field)


def _check_expression(connection: duckdb.DuckDBPyConnection, expression: str, field: str) -> None:
    """Raise ``BadInput`` unless a text is one expression on the values of a single row."""
    tree = _syntax_tree(connection, f"SELECT (\n{expression}\n)", field)
    selected = tree.pop("select_list")
    parts = list(_parts(tree))
    if len(selected) != 1 or [part["type"] for part in parts if "type" in part] != [
        "SELECT_NODE",
        "EMPTY",
    ]:
        raise BadInput("write one expression, such as amount / items", field=field)
    parts = list(_parts(selected))
    _check_parts(parts, EXPRESSIONS, field)
    _check_functions(parts, field, of_one_row=True)


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a syntax tree; without recursion, because it may be deep."""
    waiting = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _with_clauses(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the named queries of a part of the tree: those after WITH."""
    clauses: list[dict[str, Any]] = (part.get("cte_map") or {}).get("map", [])
    return clauses


def _check_parts(parts: Sequence[Mapping[str, Any]], allowed: frozenset[str], field: str) -> None:
    """Raise ``BadInput`` for a part that is not among those allowed."""
    for part in parts:
        kind, node = part.get("class"), part.get("type")
        if kind is not None and kind not in allowed:
            word = str(kind).lower().replace("_", " ")
            raise BadInput(f"{_article(word)} cannot be used here", field=field)
        # The type of a node is a text; the type of a value is an object.
        if kind is None and isinstance(node, str) and node not in QUERY_NODES:
            raise BadInput(ONLY_SELECT, field=field)


def _article(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _check_table(
    part: Mapping[str, Any], known: set[str], tables: Sequence[str], field: str
) -> None:
    """Raise ``BadInput`` unless a table of a query is connected, or is named after WITH."""
    path = part["qualified_name"]["path"]
    if len(path) != 1 or path[0].lower() not in known:
        name = ".".join(path)
        nearest = suggest(name, tables, f"the connected tables are {listed(tables)}")
        message = f"the table '{shortened(name, 80)}' is not connected; {nearest}"
        raise UnknownTable(message, table=name, field=field)


def _check_functions(
    parts: Sequence[Mapping[str, Any]], field: str, *, of_one_row: bool = False
) -> None:
    """Raise ``BadInput`` for functions whose result changes, or that need several rows."""
    names = {part["function_name"].lower() for part in parts if part.get("class") == "FUNCTION"}
    for part in parts:
        if part.get("class") == "COLUMN_REF" and len(part["column_names"]) == 1:
            names |= CLOCKS & {part["column_names"][0].lower()}
    changing, of_rows = _special_functions()
    for name in sorted(names & changing):
        raise BadInput(
            f"the function '{name}' cannot be used: its result may be another one each time",
            field=field,
        )
    for name in sorted(names & of_rows if of_one_row else ()):
        raise BadInput(
            f"the function '{name}' needs several rows, and an expression sees one row; use an SQL "
            "node",
            field=field,
        )


@cache
def _special_functions() -> tuple[frozenset[str], frozenset[str]]:
    """Return the functions whose result may change, and those that need several rows."""
    with locked_connection({}) as connection:
        found = connection.execute(
            "SELECT function_name, stability, function_type FROM duckdb_functions()"
        ).fetchall()
    # This one is a macro, which has no stability of its own.
    changing, of_rows = {*CLOCKS, "pg_sleep"}, set()
    for name, stability, kind in found:
        if stability not in (None, "CONSISTENT"):
            changing.add(name)
        if kind in ("aggregate", "window"):
            of_rows.add(name)
    return frozenset(changing), frozenset(of_rows)


# Columns before a run


def _as_plain(tables: Mapping[str, Columns]) -> str:
    """Return names and kinds of columns as JSON: it is the key of a cache, and travels."""
    plain = {}
    for name, columns in tables.items():
        plain[name] = [[column.name, column.kind] for column in columns]
    return json.dumps(plain)


def _found_columns(
    what: str, text: str, tables: str, field: str, running: bool
) -> list[tuple[str, Kind]]:
    """Return names and kinds of the columns of a result; raise ``BadInput`` at ``field``."""
    find = columns_in_child if running else _columns_by_child
    found = find(what, text, tables)
    if found["table"]:
        raise UnknownTable(found["problem"], table=found["table"], field=field)
    if found["problem"]:
        raise BadInput(found["problem"], field=field)
    return [(name, kind) for name, kind in found["columns"]]


@lru_cache(maxsize=256)
def _columns_by_child(what: str, text: str, tables: str) -> dict[str, Any]:
    """Call ``columns_in_child`` in a child process: DuckDB crashes on a text nested very deeply."""
    call = sandbox.Call(
        "nodes.data.queries:columns_in_child",
        what,
        {"what": what, "text": text, "tables": tables},
        imports=IMPORTS,
        field=None,
        megabytes=CHECK_MEGABYTES,
        seconds=CHECK_SECONDS,
    )
    try:
        found: dict[str, Any] = sandbox.call(call)
    except BadInput:
        return _found(problem="it is too large or nested too deeply; make it simpler")
    return found


def columns_in_child(what: str, text: str, tables: str) -> dict[str, Any]:
    """Return the ``columns`` of a result, or the ``problem`` of a query or an expression.

    ``table`` is the table that does not exist, if that is the problem.
    """
    try:
        with locked_connection({}) as connection:
            columns = _bound_columns(connection, what, text, json.loads(tables), what)
        return _found(columns=columns)
    except UnknownTable as unknown:
        return _found(problem=unknown.message, table=unknown.table)
    except BadInput as problem:
        return _found(problem=problem.message)


def _found(
    *, columns: Sequence[tuple[str, Kind]] = (), problem: str = "", table: str = ""
) -> dict[str, Any]:
    """Return what was found as plain JSON."""
    return {"columns": list(columns), "problem": problem, "table": table}


def _bound_columns(
    connection: duckdb.DuckDBPyConnection,
    what: str,
    text: str,
    tables: Mapping[str, Sequence[tuple[str, Kind]]],
    field: str,
) -> list[tuple[str, Kind]]:
    """Return names and kinds of the columns of a result; nothing is computed for it.

    ``what`` is ``query`` or ``expression``. The connection then has an empty table for each of
    ``tables``.
    """
    with errors_explained(field):
        for name, columns in tables.items():
            _check_case([column for column, _ in columns], field)
            types = [f"{quoted(column)} {KIND_TYPES[kind]}" for column, kind in columns]
            connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(types)})").fetchall()
        if what == "query":
            _check_query(connection, text, tables, field)
        else:
            _check_expression(connection, text, field)
            text = _expression_query(text)
        result = connection.sql(text)
        _check_names(result.columns, field)
        return [
            (name, _kind_of_result(name, result_type, field))
            for name, result_type in zip(result.columns, result.types, strict=True)
        ]


def quoted(name: str) -> str:
    """Return a name as SQL writes it when it may hold any letter."""
    return '"' + name.replace('"', '""') + '"'


def _check_case(names: Sequence[str], field: str) -> None:
    """Raise ``BadInput`` if names differ only in upper and lower case: SQL ignores that."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise BadInput(
                f"the columns '{other}' and '{name}' differ only in upper and lower case, which "
                "SQL ignores; drop one of them with a Select columns node before",
                field=field,
            )


def _check_names(names: Sequence[str], field: str) -> None:
    """Raise ``BadInput`` if the result has no columns, or two of the same name."""
    for name in names:
        if not name.strip():
            raise BadInput("a column of the result has no name; name it with AS", field=field)
        if list(names).count(name) > 1:
            raise BadInput(
                f"the result has several columns named '{shortened(name, 80)}'; give each its own "
                "name with AS",
                field=field,
            )


def _kind_of_result(name: str, result_type: Any, field: str) -> Kind:
    """Return the kind of a column of a result; raise ``BadInput`` if a table cannot hold it."""
    type_id = str(result_type.id)
    if type_id == "enum":
        [(_, values)] = result_type.children
        return "text" if values == ["text"] else "category"
    if type_id not in RESULT_KINDS:
        advice = ADVICE.get(type_id, "cast it to another type, or leave it out")
        word = str(result_type).lower()
        raise BadInput(
            f"the column '{shortened(name, 80)}' has the type {shortened(word, 40)}, which a table "
            f"cannot hold; {advice}",
            field=field,
        )
    return RESULT_KINDS[type_id]
