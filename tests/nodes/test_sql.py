"""SQL: a query reads its tables and nothing else, and its result is a table like any other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from engine.node_types import Column, Columns
from engine.testing import check_node
from engine.values import Table
from nodes.data.queries import locked_connection
from nodes.sql import NODE, SqlParams
from tests.expect import refused


@pytest.fixture
def payments() -> Table:
    data = pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int32()),
            "customer": pa.array(["x", "y", "x", "y"]),
            "amount": pa.array([10.0, None, 30.5, 2.0]),
            "country": pa.array(["IT", "DE", None, "DE"]).dictionary_encode(),
            "when": pa.array([0, 10**6, 2 * 10**6, 86_400 * 10**6], pa.timestamp("us")),
            "weight": pa.array([1.0, 2.0, 1.0, 1.0]),
            "fraud": pa.DictionaryArray.from_arrays([1, 0, 0, 0], ["no", "yes"]),
        }
    )
    return Table(data, "fraud", {"id": "id", "when": "time", "weight": "weight"})


@pytest.fixture
def customers() -> Table:
    data = pa.table(
        {
            "customer": pa.array(["y", "x"]),
            "age": pa.array([40, 30], pa.int32()),
            "fraud": pa.DictionaryArray.from_arrays([0, 0], ["no"]),
        }
    )
    return Table(data, "fraud")


def run(ctx: Any, query: str, a: Table, b: Table | None = None, **params: Any) -> Table:
    inputs = {"a": a, "b": b, "c": None, "d": None}
    result = NODE.run(ctx, inputs, SqlParams(query=query, **params))["table"]
    assert isinstance(result, Table)
    return result


def known(query: str, a: Table, b: Table | None = None, **params: Any) -> Columns | None:
    assert NODE.output_columns is not None
    inputs: dict[str, Columns | None] = {"a": a.columns}
    if b:
        inputs["b"] = b.columns
    return NODE.output_columns(inputs, SqlParams(query=query, **params))["table"]


def rows(table: Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = table.data.to_pylist()
    return listed


QUERIES = [
    "SELECT * FROM a",
    "SELECT * FROM a WHERE amount > 5 AND country IN ('IT', 'FR') ORDER BY id DESC",
    "SELECT country, count(*) AS n, sum(id) AS total, avg(amount) AS mean FROM a "
    "GROUP BY country ORDER BY ALL",
    "SELECT *, CASE WHEN amount > 9 THEN 'large' ELSE 'small' END AS size FROM a",
    "SELECT id, customer AS name, upper(country) AS land, \"when\"::DATE AS day FROM a",
    "SELECT id % 2 AS odd, id & 1 AS bit, 1.5 * id AS more, id > 2 AS big, id / 2 AS half FROM a",
    "SELECT DISTINCT ON (country) * FROM a ORDER BY country, id",
    "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY \"when\") AS nth, "
    "sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two FROM a",
    "WITH big AS MATERIALIZED (SELECT * FROM a WHERE id > 1) SELECT max(id) AS m FROM big",
    "SELECT * EXCLUDE (id) REPLACE (coalesce(amount, 0) AS amount) FROM a QUALIFY "
    "row_number() OVER (ORDER BY id) < 3",
    "SELECT customer FROM a EXCEPT SELECT 'x'",
    "SELECT id FROM a WHERE id = (SELECT max(id) FROM a) OR EXISTS (SELECT 1 FROM a WHERE id > 9)",
    "SELECT country, sum(amount) FILTER (id > 1) AS s FROM a GROUP BY GROUPING SETS ((country), ())"
    " ORDER BY ALL",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT n FROM t",
    "SELECT n, unnest([1, 2]) AS u FROM (VALUES (1), (2)) v(n)",
    "SELECT list_sum(list_transform([1, 2], lambda x: x * id)) AS s FROM a, range(2)",
    "SELECT date_diff('day', DATE '1970-01-01', \"when\") AS days, "
    "\"when\" + INTERVAL 1 DAY AS next FROM a",
    "SELECT CAST(amount AS DECIMAL(10, 2)) AS money, TRY_CAST(customer AS INTEGER) AS n FROM a",
    "FROM a SELECT string_agg(customer, ',' ORDER BY id) AS names LIMIT 10",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_every_form_run_and_their_columns_are_known_before(query, payments, tmp_path):
    check_node(NODE, tmp_path, {"a": payments}, SqlParams(query=query))
    assert known(query, payments) is not None


def test_a_filter_keeps_kinds_roles_and_the_order_of_classes(ctx, payments):
    table = run(ctx, "SELECT * FROM a WHERE id <> 1", payments)
    assert table.columns == payments.columns
    assert (table.target, table.roles) == (payments.target, payments.roles)
    assert table.labels().combine_chunks().dictionary.to_pylist() == ["no", "yes"]
    assert [row["id"] for row in rows(table)] == [2, 3, 4]


def test_two_tables_are_joined_and_one_target_stays(ctx, payments, customers):
    query = "SELECT a.*, b.age, b.fraud AS other FROM a JOIN b USING (customer) ORDER BY a.id"
    table = run(ctx, query, payments, customers)
    assert table.columns == known(query, payments, customers)
    assert table.data.column("age").to_pylist() == [30, 40, 30, 40]
    assert (table.target, table.role("other")) == ("fraud", "feature")


def test_texts_that_a_query_makes_are_categories(ctx, payments):
    query = "SELECT customer, customer AS name, customer || '!' AS loud, country || '?' AS c FROM a"
    table = run(ctx, query, payments)
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds == {"customer": "text", "name": "text", "loud": "category", "c": "category"}


def test_numbers_are_as_small_as_those_of_a_file(ctx, payments):
    query = "SELECT count(*) AS n, sum(id) AS s, sum(id) * 1e10::BIGINT AS big, 0.1 AS d, " \
        "'nan'::DOUBLE AS nan FROM a"  # fmt: skip
    table = run(ctx, query, payments)
    types = [pa.int32(), pa.int32(), pa.int64(), pa.float64(), pa.float64()]
    assert table.data.schema.types == types
    expected = {"n": 4, "s": 10, "big": 10**11, "d": 0.1, "nan": None}
    assert rows(table) == [expected]


def test_a_column_of_the_result_can_be_the_target(ctx, payments):
    query = "SELECT *, amount > 9 AS large FROM a"
    table = run(ctx, query, payments, target="large")
    assert table.columns == known(query, payments, target="large")
    assert (table.target, table.role("fraud")) == ("large", "ignore")
    assert table.labels().to_pylist() == ["true", None, "true", "false"]
    with refused(field="target", naming=["'larger'", "'large'"]):
        known(query, payments, target="larger")


def test_the_columns_are_not_known_while_those_of_a_table_are_not(payments):
    assert NODE.output_columns is not None
    inputs = {"a": payments.columns, "b": None}
    both = SqlParams(query="SELECT * FROM a JOIN b USING (id)")
    assert NODE.output_columns(inputs, both) == {"table": None}
    one = SqlParams(query="SELECT id AS b FROM a AS c")
    assert NODE.output_columns(inputs, one) == {"table": (Column("b", "number"),)}
    assert NODE.output_columns({"a": None}, both) == {"table": None}


# What a query cannot do


FORBIDDEN = {
    "read a file": "SELECT * FROM '{file}'",
    "read a file by a function": "SELECT * FROM read_csv('{file}')",
    "read text": "SELECT content FROM read_text('{file}')",
    "list files": "SELECT * FROM glob('{folder}/*')",
    "read the network": "SELECT * FROM 'https://example.com/data.csv'",
    "read a subquery's file": "SELECT * FROM a WHERE id IN (SELECT id FROM '{file}')",
    "write": "COPY a TO '{folder}/out.csv'",
    "export": "EXPORT DATABASE '{folder}/out'",
    "attach": "ATTACH '{folder}/out.db'",
    "attach memory": "ATTACH ':memory:' AS other",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "change a setting": "SET threads = 8",
    "unlock": "SET enable_external_access = true",
    "reset": "RESET lock_configuration",
    "run a pragma": "PRAGMA enable_profiling",
    "call": "CALL pragma_version()",
    "make a secret": "CREATE SECRET s (TYPE s3)",
    "create": "CREATE TABLE t AS SELECT 1",
    "insert": "INSERT INTO a SELECT * FROM a",
    "insert inside": "WITH t AS (INSERT INTO a SELECT * FROM a RETURNING *) SELECT * FROM t",
    "delete inside": "WITH t AS (DELETE FROM a RETURNING *) SELECT * FROM t",
    "describe": "SELECT * FROM (DESCRIBE a)",
    "read settings": "SELECT * FROM duckdb_settings()",
    "read a setting": "SELECT current_setting('memory_limit')",
    "read the catalog": "SELECT * FROM information_schema.tables",
    "run a text": "SELECT * FROM query('SELECT 1')",
    "read memory": "SELECT * FROM arrow_scan(1, 2, 3)",
    "read a variable of Python": "SELECT * FROM inputs",
    "two statements": "SELECT 1 AS x; SELECT 2 AS x",
    "explain": "EXPLAIN SELECT 1",
    "time": "SELECT now() AS t",
    "date": "SELECT current_date AS t",
    "chance": "SELECT random() AS r FROM a",
    "sample": "SELECT * FROM a USING SAMPLE 2",
    "table sample": "SELECT * FROM a TABLESAMPLE 50%",
    "sleep": "SELECT pg_sleep(1)",
    "parameter": "SELECT ?",
}  # fmt: skip


@pytest.mark.parametrize("query", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_a_query_that_does_more_than_read_its_tables_is_refused(ctx, payments, query, tmp_path):
    file, folder = tmp_path / "secret.csv", tmp_path / "folder"
    file.write_text("id\n1\n")
    folder.mkdir()
    query = query.format(file=file, folder=folder)
    with refused(field="query"):
        known(query, payments)
    with refused(field="query"):
        run(ctx, query, payments)
    assert list(folder.iterdir()) == []


LOCKED = [
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM rows",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 8",
    "SET memory_limit = '1TB'",
    "SET temp_directory = '{folder}'",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "PRAGMA threads = 8",
]


@pytest.mark.parametrize("statement", LOCKED)
def test_duckdb_itself_is_locked(statement, tmp_path):
    """What the check of a query would let through, DuckDB refuses."""
    import duckdb

    file, folder = tmp_path / "secret.csv", tmp_path / "folder"
    file.write_text("id\n1\n")
    folder.mkdir()
    rows = pa.table({"x": [1]})
    with locked_connection({"a": rows}) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement.format(file=file, folder=folder)).fetchall()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "naming"),
    [
        ("SELEC 1", ["SELEC"]),
        ("  -- nothing", []),
        ("SELECT nothing FROM a", ["nothing"]),
        ("SELECT * FROM payments", ["'payments'", "'a'"]),
        ("SELECT * EXCLUDE (id) FROM (SELECT id FROM a)", ["no columns"]),
        ("SELECT id, id FROM a", ["'id'", "AS"]),
        ("SELECT a.*, a.id FROM a", ["'id'"]),
        ("SELECT id AS \"\" FROM a", []),
        ("SELECT [id] AS l FROM a", ["'l'", "unnest"]),
        ("SELECT {'x': id} AS s FROM a", ["'s'", "struct"]),
        ("SELECT \"when\" - \"when\" AS i FROM a", ["'i'", "date_diff"]),
        ("SELECT NULL AS n FROM a", ["'n'", "NULL::DOUBLE"]),
        ("SELECT 'x'::BLOB AS b FROM a", ["'b'", "blob"]),
        ("SELECT amount FROM a GROUP BY id", ["amount"]),
        ("SELECT id + country FROM a", []),
        ("SELECT nosuch(id) FROM a", ["nosuch"]),
        (f"SELECT {'(' * 3_000}1{')' * 3_000} AS x", ["nested"]),
        (f"SELECT x FROM {'(FROM ' * 2_400}range(1) t(x){')' * 2_400}", ["nested"]),
        ("SELECT * FROM b", ["'b'", "'a'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_query_is_named(ctx, payments, query, naming):
    with refused(field="query", naming=naming):
        run(ctx, query, payments)
    with refused(field="query", naming=naming):
        known(query, payments)


def test_columns_that_differ_in_case_only_are_refused(ctx):
    table = Table(pa.table({"Age": [1], "age": [2]}))
    with refused(field="query", naming=["'Age'", "'age'"]):
        run(ctx, "SELECT * FROM a", table)


def test_a_result_without_rows_is_refused(ctx, payments):
    with refused(field="query"):
        run(ctx, "SELECT * FROM a WHERE id > 99", payments)
    empty = payments.with_data(payments.data.slice(0, 0))
    with refused(field="query"):
        run(ctx, "SELECT * FROM a", empty)
    assert rows(run(ctx, "SELECT count(*) AS n FROM a", empty)) == [{"n": 0}]


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE t AS (SELECT 1 AS x UNION ALL SELECT (x + 1) % 10 FROM t) "
        "SELECT max(x) AS x FROM t",
        "SELECT count(*) AS n FROM range(1000000) p, range(1000000) q WHERE p.range < q.range",
    ],
)
def test_an_endless_query_is_stopped(ctx, payments, query):
    with refused(field="query", naming="time limit"):
        run(ctx, query, payments, max_seconds=0.3)


def test_a_query_that_needs_too_much_memory_is_stopped(ctx, payments, monkeypatch):
    monkeypatch.setattr("nodes.data.queries.available_memory", lambda: 100)
    query = "SELECT q.range AS x FROM a, range(1000000000) q ORDER BY hash(q.range)"
    with pytest.raises(MemoryError):
        run(ctx, query, payments)


@pytest.mark.parametrize("params", [{"query": ""}, {"query": "x" * 20_001}, {"max_seconds": 0.0}])
def test_settings_out_of_range_are_refused(params):
    with pytest.raises(ValidationError):
        SqlParams(**params)


def test_odd_names_of_columns_survive(ctx):
    table = Table(pa.table({'a "b"; DROP': [1], "größe, cm": [2], "select": [3], " x": [4]}))
    assert run(ctx, "SELECT * FROM a", table).data.column_names == table.data.column_names
    result = run(ctx, 'SELECT "größe, cm" + "select" AS "s u" FROM a', table)
    assert rows(result) == [{"s u": 5}]
