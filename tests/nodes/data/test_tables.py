"""A look into a file: whole or its first rows, as Load data reads it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from engine import sandbox
from engine.errors import BadInput
from engine.node_types import load_catalog
from engine.values import Table
from engine.workspace import Files, Workspace
from nodes.data import tables
from nodes.data.files import add_file, list_files
from nodes.data.formats import FileFormat
from nodes.data.tables import Preview, count_classes
from nodes.load_data import LoadDataParams, check, file_columns, preview_params
from ui.studio.new_pipelines import pipeline_for, title_of

ROWS = 5_000


def preview(
    source: str, files: Files, file_format: FileFormat | None = None, target: str | None = None
) -> Preview:
    return tables.preview(preview_params(source, file_format or FileFormat(), target), files)


def load(source: str, files: Files, target: str) -> Table:
    params = preview_params(source, FileFormat(), target)
    return tables.preview(params, files).table(params)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


@pytest.fixture
def small_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_BYTES", 1_000)
    monkeypatch.setattr(tables, "START_BYTES", 2_000)
    monkeypatch.setattr(tables, "START_ROWS", 100)


def numbers() -> pa.Table:
    return pa.table({"x": list(range(ROWS)), "y": ["a", "b"] * (ROWS // 2)})


def test_a_small_file_is_read_as_a_whole(files: Files):
    (files.data / "a.csv").write_text("x,y,z\n1,a,\n2,b,\n3,,\n")
    seen = preview("a.csv", files)
    assert seen.complete and seen.rows == 3 and seen.empty == ["z"]
    assert [(column.name, column.kind) for column in Table(seen.data).columns] == [
        ("x", "number"),
        ("y", "category"),
    ]


def test_classes_of_the_target_are_counted_and_rows_without_one_left_out(files: Files):
    (files.data / "a.csv").write_text("x,y\n1,b\n2,a\n3,\n4,b\n")
    seen, table = preview("a.csv", files, target="y"), load("a.csv", files, "y")
    assert count_classes(table) == [("a", 1), ("b", 2)]
    assert (seen.rows, seen.rows_without("y"), table.data.num_rows) == (4, 1, 3)


def test_a_measurement_is_no_target(files: Files):
    (files.data / "a.csv").write_text("x,y\n" + "".join(f"{i},{i}.5\n" for i in range(50)))
    with pytest.raises(BadInput, match="50 different values"):
        load("a.csv", files, "y")


@pytest.mark.parametrize("source", ["sample:digits", "sample:wine", "sample:fraud"])
def test_a_sample_is_looked_at_like_a_file(files: Files, source: str):
    seen = preview(source, files)
    table = seen.table(preview_params(source, FileFormat()))
    assert seen.complete and seen.rows == table.data.num_rows > 100 and table.target is not None


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "libsvm"])
def test_of_a_large_file_the_first_rows_are_read(files: Files, small_starts: None, ending: str):
    path = files.data / f"large.{ending}"
    match ending:
        case "parquet":
            pq.write_table(numbers(), path)
        case "arrow":
            feather.write_feather(numbers(), path)
        case "libsvm":
            path.write_text("".join(f"{i % 2} 1:{i} 2:1\n" for i in range(ROWS)))
        case _:
            text = "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(ROWS))
            path.write_bytes(
                gzip.compress(text.encode()) if ending.endswith("gz") else text.encode()
            )
    seen = preview(path.name, files)
    rows = seen.data.num_rows
    assert not seen.complete and 50 < rows < 1_001
    assert seen.rows == (ROWS if ending == "parquet" else None)
    first = "f1" if ending == "libsvm" else "x"
    assert seen.data.column(first).to_pylist() == list(range(rows))


def test_the_first_rows_end_in_no_quotes(files: Files, small_starts: None):
    row = '1,"two\nlines, and ""more"" of it"\n'
    (files.data / "a.csv").write_text("x,y\n" + row * 500)
    seen = preview("a.csv", files)
    assert seen.data.num_rows > 10
    assert set(seen.data.column("y").to_pylist()) == {'two\nlines, and "more" of it'}


def test_a_large_file_in_utf_16_is_cut_between_characters(files: Files, small_starts: None):
    (files.data / "a.csv").write_bytes(("x,y\n" + "1,Ā\n" * 3_000).encode("utf-16"))
    seen = preview("a.csv", files, FileFormat(encoding="utf-16"))
    assert seen.data.num_rows > 50 and set(seen.data.column("y").to_pylist()) == {"Ā"}


@pytest.mark.parametrize(
    "source", ["../a.csv", "/etc/passwd", "sample:none", "none.csv", "", "x" * 5000]
)
def test_sources_that_are_none_are_refused(files: Files, source: str):
    with pytest.raises(BadInput):
        preview(source, files)


# One reading


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that read files in a child process, as they are called."""
    called: list[str] = []
    stream = sandbox.stream

    def note(request: sandbox.Call) -> Any:
        called.append(request.function)
        return stream(request)

    monkeypatch.setattr(sandbox, "stream", note)
    return called


def test_upload_list_view_and_check_share_one_reading(tmp_path: Path, calls: list[str]):
    workspace = Workspace(tmp_path).create()
    files = Files(workspace.root)
    content = "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(1_000))
    add_file(io.BytesIO(content.encode()), "a.csv", workspace)
    assert [(file.rows, file.columns) for file in list_files(files)] == [(1_000, 2)]
    assert preview("a.csv", files).rows == 1_000
    assert count_classes(load("a.csv", files, "y")) == [("a", 500), ("b", 500)]
    assert not list(check(LoadDataParams(source="a.csv", target="y"), files))
    assert [
        column.name for column in file_columns(LoadDataParams(source="a.csv"), files) or ()
    ] == ["x", "y"]
    assert calls == ["nodes.data.tables:read_in_child"]


def test_a_new_version_or_another_format_is_read_again(files: Files, calls: list[str]):
    (files.data / "a.csv").write_text("x\n1\n")
    assert preview("a.csv", files).rows == 1
    assert preview("a.csv", files, FileFormat(header=False)).rows == 2
    (files.data / "a.csv").write_text("x\n1\n2\n")
    assert preview("a.csv", files).rows == 2
    assert len(calls) == 3


def test_a_target_of_numbers_is_read_again_as_it_is_written(files: Files, calls: list[str]):
    (files.data / "a.csv").write_text("x,y\n1,01\n2,1\n3,01\n")
    assert preview("a.csv", files).data.column("y").to_pylist() == [1, 1, 1]
    assert count_classes(load("a.csv", files, "y")) == [("01", 2), ("1", 1)]
    assert len(calls) == 2


def test_a_file_that_was_replaced_while_it_was_moved_is_read_again(files: Files, calls: list[str]):
    (files.data / "a.csv").write_text("x\n1\n")
    preview("a.csv", files)
    (files.data / "b.csv").write_text("x\n1\n2\n")
    tables.move_preview(files.data / "a.csv", files.data / "b.csv")
    assert preview("b.csv", files).rows == 2 and len(calls) == 2


@pytest.mark.parametrize("way", ["preview", "run"])
def test_the_rows_of_a_csv_are_parsed_once(files: Files, monkeypatch: pytest.MonkeyPatch, way: str):
    (files.data / "a.csv").write_text(
        "x,y\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(200_000))
    )
    params = preview_params("a.csv", FileFormat(), "y")
    parsed: list[int] = []
    read_csv = pyarrow.csv.read_csv

    def count(*arguments: Any, **options: Any) -> pa.Table:
        data = read_csv(*arguments, **options)
        parsed.append(data.num_rows)
        return data

    monkeypatch.setattr(pyarrow.csv, "read_csv", count)
    if way == "run":
        tables.load(params, files)
    else:
        path = str(files.data / "a.csv")
        tables.read_in_child(
            params.model_dump_json(), path, tables.MAX_BYTES, tables.START_BYTES, tables.START_ROWS
        )
    header, rows = parsed
    assert header < 10_000 and rows == 200_000


# The pipeline that is made of it


def test_a_pipeline_is_ready_to_run(files: Files):
    from engine.validation import find_problems, find_source_problems

    (files.data / "a.csv").write_bytes(
        "größe;klasse;leer\n1;a;\n2;b;\n3;;\n4;a;\n".encode("latin-1")
    )
    latin = FileFormat(encoding="latin-1")
    document = pipeline_for("a.csv", "klasse", latin, preview("a.csv", files, latin, "klasse"))
    params = document.nodes["load"].params
    assert params == {
        "source": "a.csv",
        "target": "klasse",
        "encoding": "latin-1",
        "missing_target": "drop",
        "empty_columns": "drop",
    }
    assert not list(check(LoadDataParams.model_validate(params), files))
    catalog = load_catalog()
    assert not find_problems(document, catalog)
    assert not find_source_problems(document, catalog, files)


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("sample:digits", "digits"),
        ("folder/a.csv", "a"),
        ("a.b.csv.gz", "a.b"),
        ("v1.2.parquet", "v1.2"),
        ("x" * 300, "x" * 100),
        ("a\x07b.csv", "a b"),
    ],
)
def test_a_title_is_made_of_the_source(source: str, title: str):
    assert title_of(source) == title
