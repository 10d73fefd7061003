"""A look into a file: whole or its first rows, as Load data reads it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from engine.errors import BadInput
from engine.node_types import load_catalog
from engine.workspace import Files
from nodes.data import tables
from nodes.data.tables import Reading, classes, look
from nodes.load_data import LoadDataParams, check
from ui.studio.data.starter_pipeline import pipeline_for, title_of

ROWS = 5_000


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "data").mkdir()
    return Files(tmp_path)


@pytest.fixture
def small_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "WHOLE_BYTES", 1_000)
    monkeypatch.setattr(tables, "HEAD_BYTES", 2_000)
    monkeypatch.setattr(tables, "HEAD_ROWS", 100)


def numbers() -> pa.Table:
    return pa.table({"x": list(range(ROWS)), "y": ["a", "b"] * (ROWS // 2)})


def test_a_small_file_is_read_as_a_whole(files: Files):
    (files.data / "a.csv").write_text("x,y,z\n1,a,\n2,b,\n3,,\n")
    seen = look("a.csv", files)
    assert seen.whole and seen.rows == 3 and seen.empty == ("z",)
    assert [(column.name, column.kind) for column in seen.table.columns] == [("x", "number"), ("y", "category")]


def test_classes_of_the_target_are_counted_and_rows_without_one_left_out(files: Files):
    (files.data / "a.csv").write_text("x,y\n1,b\n2,a\n3,\n4,b\n")
    seen = look("a.csv", files, target="y")
    assert classes(seen.table) == [("a", 1), ("b", 2)]
    assert (seen.rows, seen.without_target, seen.table.data.num_rows) == (4, 1, 3)


def test_a_measurement_is_no_target(files: Files):
    (files.data / "a.csv").write_text("x,y\n" + "".join(f"{i},{i}.5\n" for i in range(50)))
    with pytest.raises(BadInput, match="50 different values"):
        look("a.csv", files, target="y")


@pytest.mark.parametrize("source", ["sample:digits", "sample:wine", "sample:fraud"])
def test_a_sample_is_looked_at_like_a_file(files: Files, source: str):
    seen = look(source, files)
    assert seen.whole and seen.rows == seen.table.data.num_rows > 100 and seen.table.target is not None


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow", "libsvm"])
def test_of_a_large_file_the_first_rows_are_read(files: Files, small_heads: None, ending: str):
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
            path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    seen = look(path.name, files)
    rows = seen.table.data.num_rows
    assert not seen.whole and 50 < rows < 1_001
    assert seen.rows == (ROWS if ending == "parquet" else None)
    first = "f1" if ending == "libsvm" else "x"
    assert seen.table.data.column(first).to_pylist() == list(range(rows))


def test_the_first_rows_end_in_no_quotes(files: Files, small_heads: None):
    row = '1,"two\nlines, and ""more"" of it"\n'
    (files.data / "a.csv").write_text("x,y\n" + row * 500)
    seen = look("a.csv", files)
    assert seen.table.data.num_rows > 10
    assert set(seen.table.data.column("y").to_pylist()) == {'two\nlines, and "more" of it'}


def test_a_large_file_in_utf_16_is_cut_between_characters(files: Files, small_heads: None):
    (files.data / "a.csv").write_bytes(("x,y\n" + "1,Ā\n" * 3_000).encode("utf-16"))
    seen = look("a.csv", files, Reading(encoding="utf-16"))
    assert seen.table.data.num_rows > 50 and set(seen.table.data.column("y").to_pylist()) == {"Ā"}


@pytest.mark.parametrize("source", ["../a.csv", "/etc/passwd", "sample:none", "none.csv", "", "x" * 5000])
def test_sources_that_are_none_are_refused(files: Files, source: str):
    with pytest.raises(BadInput):
        look(source, files)


# The pipeline that is made of it


def test_a_pipeline_is_ready_to_run(files: Files):
    from engine.validation import find_problems, find_source_problems

    (files.data / "a.csv").write_bytes("größe;klasse;leer\n1;a;\n2;b;\n3;;\n4;a;\n".encode("latin-1"))
    reading = Reading(encoding="latin-1")
    document = pipeline_for("a.csv", "klasse", reading, look("a.csv", files, reading, "klasse"))
    params = document.nodes["load"].params
    assert params == {
        "source": "a.csv", "target": "klasse", "encoding": "latin-1", "missing_target": "drop", "empty_columns": "drop"
    }  # fmt: skip
    assert not list(check(LoadDataParams.model_validate(params), files))
    catalogue = load_catalog()
    assert not find_problems(document, catalogue)
    assert not find_source_problems(document, catalogue, files)


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
