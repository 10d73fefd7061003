"""Files of the data folder: listed, named, taken in and refused; no browser."""

from __future__ import annotations

import errno
import io
import os
import random
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from engine.errors import BadInput
from engine.workspace import Files, Workspace
from nodes.data import files as data_files
from nodes.data.files import (
    MAX_NAME_BYTES,
    NameTaken,
    UploadRefused,
    add_file,
    clean_name,
    delete_file,
    free_name,
    list_files,
    name_problem,
)
from nodes.data.formats import FileFormat, read

CSV = b"age,job\n31,cook\n42,nurse\n"
TABLE = pa.table({"x": [1, 2, 3], "y": ["a", "b", "a"]})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws").create()


@pytest.fixture
def files(workspace: Workspace) -> Files:
    return Files(workspace.root)


def as_zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("a.csv", CSV)
    return held.getvalue()


def written(write: Any) -> bytes:
    held = io.BytesIO()
    write(TABLE, held)
    return held.getvalue()


def leftovers(workspace: Workspace) -> list[str]:
    return [
        path.name for folder in (workspace.data, workspace.temporary) for path in folder.rglob("*")
    ]


# What there is


def test_the_list_shows_files_of_subfolders_with_shape_and_size_the_last_changed_first(
    files: Files,
):
    (files.data / "old").mkdir()
    (files.data / "old" / "a.csv").write_bytes(CSV)
    pq.write_table(TABLE, files.data / "b.parquet")
    (files.data / "c.svm").write_text("1 1:2 3:4\n0 2:1\n")
    for moment, name in enumerate(["old/a.csv", "c.svm", "b.parquet"], start=1_000):
        os.utime(files.data / name, (moment, moment))
    found = [(file.name, file.rows, file.columns, file.modified) for file in list_files(files)]
    assert found == [
        ("b.parquet", 3, 2, 1002.0),
        ("c.svm", 2, 4, 1001.0),
        ("old/a.csv", 2, 2, 1000.0),
    ]
    assert [file.size for file in list_files(files)][2] == len(CSV)


def test_a_changed_file_is_looked_into_again(files: Files):
    (files.data / "a.csv").write_bytes(CSV)
    assert list_files(files)[0].rows == 2
    (files.data / "a.csv").write_bytes(CSV + b"50,clerk\n")
    assert list_files(files)[0].rows == 3


def test_what_cannot_be_read_is_listed_without_a_shape(files: Files):
    (files.data / "a.csv").write_bytes(as_zip())
    (files.data / "b.parquet").write_bytes(b"PAR1")
    (files.data / "c").write_bytes(CSV)
    assert {(file.name, file.rows, file.columns) for file in list_files(files)} == {
        ("a.csv", None, None),
        ("b.parquet", None, None),
        ("c", None, None),
    }


def test_hidden_files_pipes_names_that_are_no_text_and_links_that_lead_out_are_not_listed(
    files: Files, tmp_path: Path
):
    (tmp_path / "secret.csv").write_bytes(CSV)
    (files.data / "out.csv").symlink_to(tmp_path / "secret.csv")
    (files.data / "loop.csv").symlink_to(files.data / "loop.csv")
    (files.data / ".hidden.csv").write_bytes(CSV)
    (files.data / ".folder").mkdir()
    (files.data / ".folder" / "a.csv").write_bytes(CSV)
    os.mkfifo(files.data / "pipe.csv")
    Path(os.fsdecode(os.fsencode(files.data) + b"/\xff.csv")).write_bytes(CSV)
    assert list_files(files) == []


def test_a_large_text_shows_its_columns_only(files: Files, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data_files, "COUNTED_BYTES", 10)
    (files.data / "large.csv").write_bytes(CSV)
    assert [(file.rows, file.columns) for file in list_files(files)] == [(None, 2)]


def test_a_list_that_takes_long_goes_on_without_looking(
    files: Files, monkeypatch: pytest.MonkeyPatch
):
    (files.data / "a.csv").write_bytes(CSV)
    monkeypatch.setattr(data_files, "LIST_SECONDS", -1.0)
    assert [(file.name, file.rows) for file in list_files(files)] == [("a.csv", None)]


# Names


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ("table.csv", "table.csv"),
        ("../../etc/x.csv", "x.csv"),
        ("C:\\Users\\me\\x.csv", "x.csv"),
        ("a\x00b\n\x1b[31m.csv", "ab[31m.csv"),
        ("\u202egnp.csv", "gnp.csv"),
        (".hidden.csv", "hidden.csv"),
        ("...", "table"),
        ("", "table"),
        ("  spaced name .csv ", "spaced name.csv"),
        ("sample:digits", "digits"),
        ("half\ud800.csv", "half.csv"),
        ("Löhne 2024.csv.gz", "Löhne 2024.csv.gz"),
        ("<b>bold</b>.csv", "b>.csv"),
    ],
)
def test_a_name_from_elsewhere_is_made_fit(given: str, clean: str):
    assert clean_name(given) == clean
    assert not name_problem(clean)


@pytest.mark.parametrize("letter", ["x", "ü", "木"])
def test_a_long_name_is_cut_and_keeps_its_ending(letter: str):
    name = clean_name(letter * 500 + ".csv.gz")
    assert name.endswith(f"{letter}.csv.gz") and len(name.encode()) <= MAX_NAME_BYTES
    assert not name_problem(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".x",
        " x",
        "a/b",
        "a\\b",
        "a\nb",
        "a\x7fb",
        "sample:iris",
        "x" * 121,
        "..",
        "\u202ex",
    ],
)
def test_a_name_that_cannot_be_is_told_why(name: str):
    assert name_problem(name).endswith(".")


def test_a_free_name_is_like_the_one_that_is_taken(files: Files):
    assert free_name("a.csv.gz", files) == "a.csv.gz"
    for name in ("a.csv.gz", "a-2.csv.gz"):
        (files.data / name).write_bytes(CSV)
    assert free_name("a.csv.gz", files) == "a-3.csv.gz"
    assert not name_problem(free_name("x" * 116 + ".csv", files))


# Taking in


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.tsv", CSV.replace(b",", b"\t")),
        ("a.parquet", written(pq.write_table)),
        ("a.arrow", written(feather.write_feather)),
        ("a.libsvm", b"1 1:2 2:3\n0 2:1\n"),
    ],
)
def test_each_format_is_taken_in_byte_by_byte(workspace: Workspace, name: str, content: bytes):
    told: list[float] = []
    source = io.BytesIO(content)
    source.seek(3)
    assert (
        add_file(source, name, workspace, progress=lambda fraction, text: told.append(fraction))
        == name
    )
    assert (workspace.data / name).read_bytes() == content
    assert told[-1] == 1.0 and leftovers(workspace) == [name]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", as_zip(), "not text"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"a,b\n1,2,3\n", "row 2"),
        ("a.csv", b"a,a\n1,2\n", "several columns"),
        ("a.csv", "größe\n1\n".encode("latin-1"), "encoding"),
        ("a.parquet", b"PAR1 but no more", "Parquet"),
        ("a.parquet", CSV, "Parquet"),
        ("a.arrow", random.Random(0).randbytes(100), "Arrow"),
        ("a.libsvm", CSV, "LibSVM"),
        ("a.csv.gz", CSV, "decompressed"),
        ("a.exe", CSV, ".csv"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason_and_leaves_nothing(
    workspace: Workspace, name: str, content: bytes, said: str
):
    with pytest.raises(UploadRefused, match=said):
        add_file(io.BytesIO(content), name, workspace)
    assert leftovers(workspace) == []


def test_another_encoding_is_taken_in_once_it_is_named(workspace: Workspace):
    content = "größe;name\n1;Ä\n".encode("latin-1")
    with pytest.raises(UploadRefused) as refused:
        add_file(io.BytesIO(content), "a.csv", workspace)
    assert refused.value.field == "encoding"
    add_file(io.BytesIO(content), "a.csv", workspace, file_format=FileFormat(encoding="latin-1"))
    assert (workspace.data / "a.csv").read_bytes() == content


def test_a_name_in_use_is_refused_unless_it_is_to_be_replaced(workspace: Workspace):
    add_file(io.BytesIO(CSV), "a.csv", workspace)
    other = CSV + b"1,x\n"
    with pytest.raises(NameTaken):
        add_file(io.BytesIO(other), "a.csv", workspace)
    assert (workspace.data / "a.csv").read_bytes() == CSV
    add_file(io.BytesIO(other), "a.csv", workspace, replace=True)
    assert (workspace.data / "a.csv").read_bytes() == other


def test_a_bad_file_does_not_replace_a_good_one(workspace: Workspace):
    add_file(io.BytesIO(CSV), "a.csv", workspace)
    with pytest.raises(UploadRefused):
        add_file(io.BytesIO(as_zip()), "a.csv", workspace, replace=True)
    assert (workspace.data / "a.csv").read_bytes() == CSV


def test_a_link_is_replaced_and_what_it_leads_to_stays(workspace: Workspace, tmp_path: Path):
    (tmp_path / "other.csv").write_bytes(b"x\n1\n")
    (workspace.data / "a.csv").symlink_to(tmp_path / "other.csv")
    with pytest.raises(NameTaken):
        add_file(io.BytesIO(CSV), "a.csv", workspace)
    add_file(io.BytesIO(CSV), "a.csv", workspace, replace=True)
    assert (tmp_path / "other.csv").read_bytes() == b"x\n1\n"
    assert (workspace.data / "a.csv").read_bytes() == CSV and not (
        workspace.data / "a.csv"
    ).is_symlink()


def test_a_folder_is_never_replaced(workspace: Workspace):
    (workspace.data / "a.csv").mkdir()
    with pytest.raises(UploadRefused, match="folder"):
        add_file(io.BytesIO(CSV), "a.csv", workspace, replace=True)


@pytest.mark.parametrize("name", ["../x.csv", "a/b.csv", "/etc/x.csv", ".x.csv", "a\0.csv"])
def test_names_that_lead_elsewhere_are_refused(workspace: Workspace, name: str):
    with pytest.raises(UploadRefused, match="name"):
        add_file(io.BytesIO(CSV), name, workspace)
    assert leftovers(workspace) == [] and not (workspace.root / "x.csv").exists()


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "full"), (errno.EROFS, "not writable"), (errno.EIO, "Input/output")],
)
def test_what_the_disk_refuses_is_said_plainly(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int, said: str
):
    def refuse(path: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("engine.atomic.sync", refuse)
    with pytest.raises(UploadRefused, match=said):
        add_file(io.BytesIO(CSV), "a.csv", workspace)
    assert leftovers(workspace) == []


def test_a_file_for_which_there_is_no_room_is_refused_before_it_is_copied(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(data_files, "SPARE_BYTES", 1 << 60)
    with pytest.raises(UploadRefused, match="not enough space"):
        add_file(io.BytesIO(CSV), "a.csv", workspace)
    assert leftovers(workspace) == []


def test_a_file_above_the_cap_is_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data_files, "MAX_UPLOAD_MEGABYTES", 0)
    with pytest.raises(UploadRefused, match="at most"):
        add_file(io.BytesIO(CSV), "a.csv", workspace)


def test_an_upload_that_is_broken_off_leaves_nothing(workspace: Workspace):
    def stop(fraction: float, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add_file(io.BytesIO(CSV), "a.csv", workspace, progress=stop)
    assert leftovers(workspace) == []


def test_the_server_takes_no_more_than_the_page_offers():
    from ui.studio.__main__ import SETTINGS

    assert SETTINGS["server.maxUploadSize"] == data_files.MAX_UPLOAD_MEGABYTES


# Deleting


def test_a_file_is_deleted_and_nothing_outside(files: Files, tmp_path: Path):
    (files.data / "a.csv").write_bytes(CSV)
    (files.workspace / "outside.csv").write_bytes(CSV)
    delete_file("a.csv", files)
    assert not (files.data / "a.csv").exists()
    with pytest.raises(BadInput):
        delete_file("../outside.csv", files)
    assert (files.workspace / "outside.csv").exists()


def test_a_sound_file_that_needs_too_much_memory_is_not_called_damaged(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.data / "table.parquet"
    pq.write_table(TABLE, path)

    def no_memory(*arguments: Any, **options: Any) -> None:
        raise pa.ArrowMemoryError("malloc of size 524288 failed")

    monkeypatch.setattr(pq, "ParquetFile", no_memory)
    with pytest.raises(MemoryError):
        read(path, FileFormat(), (), 100)
