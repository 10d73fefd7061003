"""The pipelines of a workspace."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from engine.errors import InvalidPipeline, SylvaError, Unreadable
from engine.events import EventLog
from engine.pipeline import Node, Pipeline
from engine.pipeline_file import read, with_values, write
from engine.pipeline_library import Library, Outdated, UnknownPipeline
from engine.workspace import Workspace
from tests.expect import problems, refused


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Workspace(tmp_path / "workspace").create())


def document(name: str = "Digits") -> Pipeline:
    return Pipeline(name=name, nodes={"load": Node(type="load-data")})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Adult income", "adult_income"),
        ("Größe & Gewicht", "groe_gewicht"),
        ("../../etc/passwd", "etc_passwd"),
        ("森林", "pipeline"),
        ("x" * 200, "x" * 80),
        ("<script>alert(1)</script>", "script_alert_1_script"),
    ],
)
def test_the_id_of_a_new_pipeline_comes_from_its_name_and_can_leave_no_folder(
    library: Library, name: str, expected: str
):
    assert library.create(document(name)) == expected
    assert library.open(expected).pipeline.name == name
    assert [path.parent for path in library.folder.glob("**/*.json")] == [library.folder]


def test_two_pipelines_of_one_name_are_two(library: Library):
    assert [library.create(document()) for _ in range(3)] == ["digits", "digits_2", "digits_3"]


def test_a_saved_document_is_read_back_and_its_file_keeps_its_name(library: Library):
    pipeline = library.create(document())
    opened = library.open(pipeline)
    stamp = library.save(pipeline, with_values(opened.pipeline, name="Letters"), opened.version)
    assert library.open(pipeline) == (document("Letters"), stamp)
    assert [entry.title for entry in library.entries()] == ["Letters"]


def test_what_another_saved_meanwhile_is_not_overwritten(library: Library):
    pipeline = library.create(document())
    mine, theirs = library.open(pipeline), library.open(pipeline)
    library.save(pipeline, document("Theirs"), theirs.version)
    with pytest.raises(Outdated):
        library.save(pipeline, document("Mine"), mine.version)
    assert library.open(pipeline).pipeline.name == "Theirs"


def test_of_many_who_save_over_the_same_version_one_succeeds(library: Library):
    pipeline = library.create(document())
    stamp = library.open(pipeline).version
    saved = []

    def save(number: int) -> None:
        try:
            library.save(pipeline, document(f"Number {number}"), stamp)
            saved.append(number)
        except Outdated:
            pass

    threads = [threading.Thread(target=save, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [f"Number {number}" for number in saved] == [library.open(pipeline).pipeline.name]


def test_a_deleted_pipeline_cannot_be_opened_or_brought_back_by_a_save(library: Library):
    pipeline = library.create(document())
    opened = library.open(pipeline)
    library.delete(pipeline)
    with pytest.raises(Outdated):
        library.save(pipeline, opened.pipeline, opened.version)
    with refused(UnknownPipeline, naming=[f"'{pipeline}'"]):
        library.open(pipeline)
    assert library.entries() == []


@pytest.mark.parametrize(
    "hostile", ["", "..", "../secret", "a/b", "a\0b", "x" * 200, ".hidden", "a.json"]
)
def test_an_id_can_lead_nowhere_else(library: Library, hostile: str):
    (library.workspace.root / "secret.json").write_text("{}")
    with pytest.raises(UnknownPipeline):
        library.open(hostile)


def test_a_broken_file_is_listed_with_its_fault_and_hides_no_other(library: Library):
    library.create(document())
    (library.folder / "broken.json").write_text("{")
    (library.folder / "foreign.json").write_text(json.dumps({"format": "other"}))
    faults = {entry.id: bool(entry.problem) for entry in library.entries()}
    assert faults == {"digits": False, "broken": True, "foreign": True}


def test_the_last_changed_comes_first(library: Library):
    first, second = library.create(document("First")), library.create(document("Second"))
    library.save(first, document("First again"), library.open(first).version)
    assert [entry.id for entry in library.entries()] == [first, second]


def test_a_folder_that_cannot_be_written_is_named(library: Library):
    pipeline = library.create(document())
    opened = library.open(pipeline)
    (library.folder / ".lock").unlink()
    (library.folder / ".lock").mkdir()
    with refused(SylvaError, naming=[library.folder]):
        library.save(pipeline, document("Other"), opened.version)
    assert library.open(pipeline).pipeline.name == "Digits"


def test_only_files_are_pipelines_and_a_pipe_keeps_nobody_waiting(library: Library):
    library.create(document())
    os.mkfifo(library.folder / "pipe.json")
    (library.folder / "folder.json").mkdir()
    assert [entry.id for entry in library.entries()] == ["digits"]
    for name in ("pipe", "folder"):
        with refused(InvalidPipeline) as caught:
            library.open(name)
        problems(caught.value.problems, (Unreadable, None, None))


def test_a_save_does_not_follow_a_link_out_of_the_library(library: Library, tmp_path: Path):
    outside = tmp_path / "outside.json"
    write(outside, document("Outside"))
    before = outside.read_bytes()
    (library.folder / "linked.json").symlink_to(outside)
    stamp = library.open("linked").version
    with refused(SylvaError) as caught:
        library.save("linked", document("Inside"), stamp)
    assert not isinstance(caught.value, Outdated)
    assert outside.read_bytes() == before


def test_a_new_pipeline_does_not_follow_a_link_to_nowhere(library: Library, tmp_path: Path):
    (library.folder / "digits.json").symlink_to(tmp_path / "nowhere.json")
    assert library.create(document()) == "digits_2"
    assert not (tmp_path / "nowhere.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_be_read_again_is_listed_without_a_fault(library: Library):
    path = library.folder / f"{library.create(document())}.json"
    path.chmod(0)
    assert library.entries()[0].problem
    path.chmod(0o600)
    assert not library.entries()[0].problem


def test_an_entry_is_read_again_when_the_permissions_of_its_file_changed(
    library: Library, monkeypatch: pytest.MonkeyPatch
):
    path = library.folder / f"{library.create(document())}.json"
    read_files: list[Path] = []
    monkeypatch.setattr(
        "engine.pipeline_library.read", lambda path: read_files.append(path) or read(path)
    )
    library.entries()
    library.entries()
    assert read_files == [path]
    path.chmod(0o640)
    library.entries()
    assert read_files == [path, path]


def test_the_id_of_a_deleted_pipeline_that_has_runs_is_not_given_again(library: Library):
    pipeline = library.create(document())
    with EventLog(library.workspace) as log:
        log.create_run("Digits", "{}", {"pipeline": pipeline})
    library.delete(pipeline)
    assert library.create(document()) == "digits_2"
    library.workspace.database.write_bytes(b"no database" * 100)
    assert library.create(document()) == "digits"
