"""Read the result of a query from PostgreSQL.

The server, port and database are in the address; user and password come from the environment
(``PGUSER``, ``PGPASSWORD``, ``~/.pgpass``), as for every program that uses libpq. The query runs in
a transaction that cannot write.

- ``tables``    the result of a query, some rows at a time
- ``snapshot``  a text that changes with each write to the server
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

from engine.errors import BadInput
from nodes.data.locations import DATABASE_CREDENTIALS, Database

if TYPE_CHECKING:
    import pyarrow as pa

CONNECT_SECONDS = 5
QUERY = re.compile(r"\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*(SELECT|WITH|VALUES|TABLE)\b", re.I | re.S)
SNAPSHOT = (
    "SELECT txid_current_snapshot()::text || ':' || pg_postmaster_start_time()::text "
    "|| ':' || (SELECT oid FROM pg_database WHERE datname = current_database())::text"
)
"""Any transaction that writes changes the snapshot; reading does not."""


def tables(where: Database, query: str) -> Iterator[pa.Table]:
    """Yield the rows of a query, some at a time; the first table may have none.

    Raise ``BadInput`` if the server cannot be reached, refuses the user or the query, or if the
    query is not one that only reads.
    """
    import pyarrow as pa

    check_query(query)
    with _cursor(where) as cursor, _explaining(where, "query"):
        cursor.execute(query.strip().rstrip(";"))
        reader = cursor.fetch_record_batch()
        yield _plain(reader.schema.empty_table())
        for batch in reader:
            yield _plain(pa.Table.from_batches([batch]))


def _plain(table: pa.Table) -> pa.Table:
    """Return the table in types that files have as well; raise ``BadInput`` for other types.

    Exact numbers (``numeric``) become floats, and UUIDs become texts.
    """
    import pyarrow as pa

    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
        if isinstance(field.type, pa.BaseExtensionType):
            storage = field.type.storage_type
            column = pa.chunked_array([chunk.storage for chunk in column.chunks], storage)
        if kind == "numeric":
            column = column.cast(pa.float64())
        elif kind == "uuid":
            texts = [None if value is None else str(UUID(bytes=value)) for value in _values(column)]
            column = pa.chunked_array([pa.array(texts, pa.string())])
        elif _is_unusable(column.type):
            raise BadInput(
                f"the column '{field.name}' has the type {kind} of PostgreSQL, which cannot be "
                f"used; leave it out of the query, or convert it, as in {field.name}::text",
                field="query",
            )
        columns.append(column)
    return pa.Table.from_arrays(columns, names=table.column_names)


def _values(column: Any) -> list[bytes | None]:
    values: list[bytes | None] = column.to_pylist()
    return values


def _is_unusable(kind: Any) -> bool:
    """Return whether values of an Arrow type are neither numbers, times nor texts."""
    from pyarrow import types

    return bool(types.is_nested(kind) or types.is_interval(kind) or types.is_binary(kind))


def snapshot(where: Database, query: str) -> str:
    """Return a text that changes with each write to the server; raise ``BadInput`` like ``tables``.

    What the query depends on besides, such as the time or another server, is not in it.
    """
    check_query(query)
    with _cursor(where) as cursor, _explaining(where, "source"):
        cursor.execute(SNAPSHOT)
        return str(cursor.fetchone()[0])


def check_query(query: str) -> None:
    """Raise ``BadInput`` unless the text may be a query that reads.

    The server has the last word: the transaction is read-only.
    """
    if not query.strip():
        raise BadInput(
            "a database needs a query; write one such as SELECT * FROM customers", field="query"
        )
    if not QUERY.match(query):
        raise BadInput(
            "only queries that read can be used; start with SELECT, WITH, VALUES or TABLE",
            field="query",
        )


@contextmanager
def _cursor(where: Database) -> Iterator[Any]:
    """Connect to the server; the transaction cannot write."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise BadInput(
            "the driver for PostgreSQL is not installed; install it with "
            "`pip install 'sylva-studio[postgres]'`",
            field="source",
        ) from None
    with _explaining(where, "source"):
        connection = dbapi.connect(_connection_text(where))
    with closing(connection), closing(connection.cursor()) as cursor:
        yield cursor


def _connection_text(where: Database) -> str:
    """Return the address for libpq, with its timeouts, read-only by default."""
    rest = where.address.partition("://")[2]
    options = quote("-c default_transaction_read_only=on", safe="")
    return f"postgresql://{rest}?connect_timeout={CONNECT_SECONDS}&options={options}"


@contextmanager
def _explaining(where: Database, field: str) -> Iterator[None]:
    """Turn an error of the driver into ``BadInput``; nothing of a failed login is repeated."""
    from adbc_driver_manager import Error

    try:
        yield
    except Error as error:
        raise _failure(where, error, field) from None


def _failure(where: Database, error: Any, field: str) -> BadInput:
    """Return what went wrong: with the connection, with the user, or with the query."""
    state, text = error.sqlstate or "", str(error)
    if state.startswith("28") or re.search(r"authentication|no password supplied|role \"", text):
        return BadInput(
            f"'{where}' refuses the user or the password; set {DATABASE_CREDENTIALS} in the "
            "environment of Sylva",
            field="source",
        )
    if state == "3D000" or re.search(r"database \".*\" does not exist", text):
        return BadInput(f"the database of '{where}' does not exist; check its name", field="source")
    if "[libpq] Failed to connect" in text or state.startswith("08"):
        return BadInput(
            f"'{where}' cannot be reached; check the address, the network and whether the server "
            "runs",
            field="source",
        )
    if state == "25006":
        return BadInput(
            "the query would write, but Sylva only reads; use a SELECT that changes nothing",
            field="query",
        )
    if state == "42501":
        return BadInput(
            "the user may not read what the query names; ask for the right to read it, or use "
            "another user (PGUSER)",
            field="query",
        )
    return BadInput(f"the query failed: {_server_message(text)}; correct it", field="query")


def _server_message(text: str) -> str:
    """Return the first line of what the server said about a query."""
    found = re.search(r"ERROR:\s*(.+)", text)
    line = (found[1] if found else text).splitlines()[0]
    return line.strip().rstrip(".")[:300]
