"""Folders, storages and databases as sources: what is read, what is refused, and when again.

Storages are tested against a small S3 server, databases against a real PostgreSQL server; both are
started here, on the loopback address.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from engine import sandbox
from engine.storages import forget_file_systems
from engine.workspace import Files
from nodes.data import locations
from nodes.data.files import list_files
from nodes.data.locations import RemoteFile, address_problem, without_credentials
from nodes.data.tables import load, preview
from nodes.load_data import LoadDataParams, check, fingerprint, preview_params
from tests.expect import refused
from tests.nodes.data.object_store import SECRET, ObjectStore, object_store
from tests.nodes.data.postgres_server import PASSWORD, USER, postgres_server

CSV = b"age,buys\n30,yes\n41,no\n25,yes\n"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


@pytest.fixture(autouse=True)
def new_readers() -> Iterator[None]:
    """Start the process that reads files anew: it has the environment of its start."""
    stop_readers()
    yield
    stop_readers()


def stop_readers() -> None:
    sandbox._server._stop()
    locations._versions.clear()
    forget_file_systems()


def allow(files: Files, *addresses: str) -> None:
    (files.workspace / "settings.json").write_text(json.dumps({"remote_sources": addresses}))


def parquet(**columns: list[object]) -> bytes:
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target)
    return target.getvalue()


def refuse(files: Files, params: LoadDataParams, field: str, *naming: str) -> str:
    """Assert that check and run refuse the source with the same message; return it."""
    locations._versions.clear()
    with refused(field=field, naming=naming) as caught:
        load(params, files)
    [found] = check(params, files)
    assert (found.message, found.field) == (str(caught.value), field)
    return found.message


# Folders


def write_sales(files: Files) -> None:
    for year, rows in ((2024, [1, 2]), (2025, [3])):
        folder = files.data / "sales" / f"year={year}" / "country=DE"
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(parquet(x=rows, kind=["a"] * len(rows)))
    (files.data / "sales" / "_SUCCESS").write_bytes(b"")


def test_partitions_of_a_folder_become_columns(files: Files):
    write_sales(files)
    params = LoadDataParams(source="sales")
    assert list(check(params, files)) == []
    assert load(params, files).data.to_pydict() == {
        "x": [1, 2, 3],
        "kind": ["a", "a", "a"],
        "year": [2024, 2024, 2025],
        "country": ["DE", "DE", "DE"],
    }
    assert preview(params, files).rows == 3
    [listed] = list_files(files)
    assert (listed.name, listed.rows, listed.columns) == ("sales", 3, 4)


def test_a_folder_is_read_again_when_a_file_is_added_or_changed(files: Files):
    write_sales(files)
    params = LoadDataParams(source="sales")
    before = fingerprint(params, files)
    assert fingerprint(params, files) == before
    added = files.data / "sales" / "year=2026"
    added.mkdir()
    (added / "part-0.parquet").write_bytes(parquet(x=[4], kind=["b"]))
    after = fingerprint(params, files)
    assert after != before and preview(params, files).rows == 4
    (added / "part-0.parquet").write_bytes(parquet(x=[5], kind=["c"]))
    assert fingerprint(params, files) not in (before, after)


def test_files_of_a_folder_may_lack_columns_but_not_contradict(files: Files):
    folder = files.data / "parts"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(parquet(x=[1], y=["a"]))
    (folder / "b.parquet").write_bytes(parquet(x=[2.5]))
    params = LoadDataParams(source="parts")
    assert load(params, files).data.to_pydict() == {"x": [1.0, 2.5], "y": ["a", None]}
    (folder / "c.parquet").write_bytes(parquet(x=["text"]))
    refuse(files, params, "source", "'parts'", "do not fit together")


def test_folders_without_parquet_files_and_links_out_of_them_are_refused(files: Files):
    outside = files.workspace / "secret.parquet"
    outside.write_bytes(parquet(x=[1]))
    (files.data / "empty").mkdir()
    (files.data / "empty" / "link.parquet").symlink_to(outside)
    params = LoadDataParams(source="empty")
    refuse(files, params, "source", "'empty' has no Parquet files")
    with refused(field="source", naming="no Parquet files"):
        fingerprint(params, files)


def test_a_damaged_file_of_a_folder_is_refused(files: Files):
    write_sales(files)
    (files.data / "sales" / "year=2025" / "bad.parquet").write_bytes(b"PAR1 not really PAR1")
    refuse(files, LoadDataParams(source="sales"), "source", "'sales'", "damaged")


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://me:hunter2/x@host/db",
        "postgresql://host/db?password=hunter2",
        "s3://KEY:hunter2@bucket/a.csv",
        "s3://bucket/a.csv?secret=hunter2",
        "abfs://container:hunter2@account.dfs.core.windows.net/a.csv",
    ],
)
def test_credentials_in_an_address_are_refused_and_never_repeated(address: str):
    with pytest.raises(ValidationError) as caught:
        LoadDataParams(source=address)
    [error] = caught.value.errors()
    assert "environment" in error["msg"] and "hunter2" not in error["msg"]
    with refused(naming="environment") as refusal:
        preview_params(address, LoadDataParams().file_format)
    assert "hunter2" not in str(refusal.value)
    clean = without_credentials(address)
    assert "hunter2" not in clean and address_problem(clean) == ""


@pytest.mark.parametrize(
    ("address", "part"),
    [
        ("http://host/a.csv", "http:// cannot be read"),
        ("file:///etc/passwd", "file:// cannot be read"),
        ("s3://bucket", "not complete"),
        ("s3:///a.csv", "not complete"),
        ("s3://bucket/../other/a.csv", ".. as folders"),
        ("s3://bucket/a b.csv", "spaces"),
    ],
)
def test_addresses_that_cannot_be_read_are_refused(address: str, part: str):
    assert part in address_problem(address)


def test_an_azure_address_names_container_and_account():
    address = "abfs://lake@account.dfs.core.windows.net/sales/a.parquet"
    assert address_problem(address) == "" and without_credentials(address) == address
    assert RemoteFile(address).path == "lake/sales/a.parquet"


# What the workspace allows


def test_addresses_are_refused_unless_the_settings_allow_them(files: Files):
    params = LoadDataParams(source="s3://lake/a.csv")
    message = refuse(files, params, "source", "does not allow", "settings.json")
    assert '{"remote_sources": ["s3://lake/a.csv"]}' in message
    with refused(field="source"):
        fingerprint(params, files)


@pytest.mark.parametrize(
    ("allowed", "covered"),
    [
        ("s3://lake", True),
        ("s3://lake/", True),
        ("s3://", True),
        ("s3://lake/a.csv", True),
        ("s3://la", False),
        ("s3://lake/a", False),
        ("gs://lake", False),
        ("", False),
    ],
)
def test_an_entry_of_the_settings_covers_what_is_below_it(
    files: Files, allowed: str, covered: bool
):
    allow(files, allowed)
    if covered:
        files.require_remote("s3://lake/a.csv", field="source")
    else:
        with refused(field="source", naming="does not allow"):
            files.require_remote("s3://lake/a.csv", field="source")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"remote_sources": "s3://"}', '{"remote_sources": [1]}']
)
def test_settings_that_cannot_be_read_are_named(files: Files, text: str):
    (files.workspace / "settings.json").write_text(text)
    with refused(field="source", naming="settings.json must"):
        files.require_remote("s3://lake/a.csv", field="source")


# A storage


@pytest.fixture
def store(files: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        allow(files, "s3://")
        yield running


def test_files_of_a_storage_are_read_in_every_format(files: Files, store: ObjectStore):
    store.files["a.csv"] = CSV
    store.files["deep/b.csv.gz"] = gzip.compress(CSV)
    store.files["c.parquet"] = parquet(age=[30, 41, 25], buys=["yes", "no", "yes"])
    for name in store.files:
        params = LoadDataParams(source=f"s3://lake/{name}", target="buys")
        assert list(check(params, files)) == []
        assert load(params, files).data.to_pydict()["age"] == [30, 41, 25], name


def test_a_folder_of_a_storage_has_its_partitions_as_columns(files: Files, store: ObjectStore):
    store.files["sales/year=2024/p.parquet"] = parquet(x=[1, 2])
    store.files["sales/year=2025/p.parquet"] = parquet(x=[3])
    params = LoadDataParams(source="s3://lake/sales")
    assert list(check(params, files)) == []
    assert load(params, files).data.to_pydict() == {"x": [1, 2, 3], "year": [2024, 2024, 2025]}
    before = fingerprint(params, files)
    store.files["sales/year=2026/p.parquet"] = parquet(x=[4])
    assert fingerprint(params, files) != before


@pytest.mark.parametrize(
    "bucket", ["gs://lake", "abfs://lake", "abfs://lake@devaccount.dfs.core.windows.net"]
)
def test_google_and_azure_storages_are_read_too(files: Files, store: ObjectStore, bucket: str):
    # The preview reads in a child process. In this one, pyarrow would wait for the server's
    # thread, and keep it from running.
    allow(files, bucket)
    store.files["sales/a.csv"] = CSV
    store.files["sales/b.parquet"] = parquet(age=[30, 41, 25], buys=["yes", "no", "yes"])
    for name in store.files:
        params = LoadDataParams(source=f"{bucket}/{name}", target="buys")
        assert list(check(params, files)) == []
        assert preview(params, files).data.column("age").to_pylist() == [30, 41, 25], name
    params = LoadDataParams(source=f"{bucket}/sales/a.csv")
    before = fingerprint(params, files)
    store.files["sales/a.csv"] = CSV.replace(b"30", b"31")
    assert fingerprint(params, files) != before
    [missing] = check(LoadDataParams(source=f"{bucket}/none.csv"), files)
    assert "does not exist" in missing.message


def test_a_file_of_a_storage_is_read_again_when_only_its_bytes_change(
    files: Files, store: ObjectStore
):
    store.files["a.csv"] = CSV
    params = LoadDataParams(source="s3://lake/a.csv")
    before = fingerprint(params, files)
    assert fingerprint(params, files) == before
    # The same size and the same time: only the ETag differs.
    store.files["a.csv"] = CSV.replace(b"30", b"31")
    assert fingerprint(params, files) != before
    assert preview(params, files).data.column("age").to_pylist() == [31, 41, 25]


def test_a_preview_of_a_large_file_reads_only_its_start(
    files: Files, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("nodes.data.tables.MAX_BYTES", 1 << 20)
    monkeypatch.setattr("nodes.data.tables.START_BYTES", 1 << 18)
    store.files["a.csv"] = b"age,buys\n" + b"30,yes\n41,no\n" * 600_000
    seen = preview(LoadDataParams(source="s3://lake/a.csv"), files)
    assert not seen.complete and seen.data.num_rows < 100_000
    assert store.sent_bytes < len(store.files["a.csv"])


def test_what_a_storage_does_not_have_is_named(files: Files, store: ObjectStore):
    for address in ("s3://lake/none.csv", "s3://other/a.csv"):
        refuse(files, LoadDataParams(source=address), "source", address, "does not exist")


def test_wrong_credentials_are_never_repeated(
    files: Files, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
):
    store.files["a.csv"] = CSV
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWRONG")
    params = LoadDataParams(source="s3://lake/a.csv")
    message = refuse(files, params, "source", "credentials", "AWS_ACCESS_KEY_ID")
    assert "AKIAWRONG" not in message and SECRET not in message


def test_a_storage_that_cannot_be_reached_is_named(
    files: Files, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    params = LoadDataParams(source="s3://lake/a.csv")
    refuse(files, params, "source", "s3://lake/a.csv", "cannot be reached")


def test_a_damaged_file_of_a_storage_is_refused(files: Files, store: ObjectStore):
    store.files["a.parquet"] = parquet(x=[1, 2])[:-20]
    store.files["empty.csv"] = b""
    refuse(files, LoadDataParams(source="s3://lake/a.parquet"), "source", "'a.parquet'", "damaged")
    refuse(files, LoadDataParams(source="s3://lake/empty.csv"), "source", "'empty.csv' is empty")


# A database


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("adbc_driver_postgresql")
    with postgres_server() as address:
        yield address


@pytest.fixture
def database(files: Files, server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the address of a database with the table ``people``."""
    monkeypatch.setenv("PGUSER", USER)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    allow(files, server.rpartition("/")[0])
    execute(server, "DROP TABLE IF EXISTS people")
    execute(
        server,
        "CREATE TABLE people AS SELECT i AS id, (i * 1.5)::numeric(10, 2) AS amount, "
        "timestamp '2024-01-01' + i * interval '1 day' AS day, gen_random_uuid() AS code, "
        "CASE WHEN i % 3 = 0 THEN 'yes' ELSE 'no' END AS buys FROM generate_series(1, 90) i",
    )
    return server


def execute(address: str, statement: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address) as connection:
        with connection.cursor() as cursor:
            cursor.execute(statement)
        connection.commit()


def query(address: str, text: str, **params: object) -> LoadDataParams:
    return LoadDataParams.model_validate({"source": address, "query": text, **params})


def test_a_query_is_read_with_its_types(files: Files, database: str):
    params = query(database, "SELECT * FROM people ORDER BY id;", target="buys")
    assert list(check(params, files)) == []
    table = load(params, files)
    kinds = {column.name: column.kind for column in table.columns}
    assert kinds["amount"] == "number" and kinds["day"] == "time" and kinds["buys"] == "category"
    assert table.data.num_rows == 90 and table.data.column("amount")[1].as_py() == 3.0
    assert preview(params, files).data.equals(table.data)


def test_a_query_is_run_again_after_a_write_to_the_server(files: Files, database: str):
    params = query(database, "SELECT * FROM people")
    before = fingerprint(params, files)
    assert fingerprint(params, files) == before
    execute(database, "UPDATE people SET amount = 0 WHERE id = 1")
    assert fingerprint(params, files) != before


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["needs a query"]),
        ("DROP TABLE people", ["only queries that read"]),
        ("SELECT 1; DROP TABLE people", ["multiple commands"]),
        ("WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone", ["would write"]),
        ("SELECT 1) TO PROGRAM 'true' --", ["syntax error"]),
        ("SELECT * FROM nothing", ['relation "nothing" does not exist']),
        ("SELECT 1 AS a, 2 AS a", ["several columns named 'a'"]),
        ("SELECT * FROM people WHERE false", ["no rows"]),
        ("SELECT FROM people", ["no columns"]),
        ("SELECT array[1] AS list", ["'list'", "_int4", "list::text"]),
    ],
)
def test_queries_that_cannot_be_used_are_refused(
    files: Files, database: str, text: str, parts: list[str]
):
    refuse(files, query(database, text), "query", *parts)
    assert load(query(database, "SELECT * FROM people"), files).data.num_rows == 90


def test_a_wrong_password_is_refused_and_not_repeated(
    files: Files, database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    params = query(database, "SELECT * FROM people")
    message = refuse(files, params, "source", "refuses the user or the password", "PGPASSWORD")
    assert "hunter2" not in message


def test_databases_that_do_not_exist_or_answer_are_named(files: Files, database: str):
    server = database.rpartition("/")[0]
    refuse(files, query(f"{server}/none", "SELECT 1 AS a"), "source", "does not exist")
    allow(files, "postgresql://")
    unreachable = query("postgresql://127.0.0.1:1/db", "SELECT 1 AS a")
    refuse(files, unreachable, "source", "cannot be reached")
