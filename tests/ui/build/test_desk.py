"""The pipeline that lies open in a browser tab, and its file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.catalogue import Catalogue, load_catalogue
from engine.document import Document, Edge, Node
from engine.edits import AddNode, Connect, SetDescription, SetName, SetParams
from engine.errors import BadInput
from engine.events import EventLog
from engine.library import Library
from engine.pipeline_file import dumps
from engine.processes import identify
from engine.workspace import Workspace
from ui.canvas import CanvasResult
from ui.build.desk import Desk

DOCUMENT = Document(name="Wine", nodes={"load": Node(type="load-data", params={"source": "sample:wine"})})


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Workspace(tmp_path / "workspace").create())


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.fixture
def desk(library: Library, catalogue: Catalogue) -> Desk:
    return Desk.with_pipeline(library, catalogue, library.create(DOCUMENT))


def other_tab(desk: Desk) -> Desk:
    return Desk.with_pipeline(desk.library, desk.catalogue, desk.pipeline)


def in_file(desk: Desk) -> Document:
    return desk.library.open(desk.pipeline).document


def with_node(document: Document, name: str) -> Document:
    return Document(name=document.name, nodes={**document.nodes, name: Node(type="split")})


def test_every_edit_is_in_the_file_at_once(desk: Desk):
    desk.edit(SetParams("load", {"source": "sample:iris"}), SetName("Iris"))
    assert in_file(desk) == desk.document
    assert (in_file(desk).name, in_file(desk).nodes["load"].params) == ("Iris", {"source": "sample:iris"})


def test_a_wrong_value_is_kept_and_named_and_costs_no_other_edit(desk: Desk):
    desk.edit(SetParams("load", {"source": "sample:iris", "max_columns": "many"}))
    desk.edit(SetName("Iris"))
    assert in_file(desk).nodes["load"].params == {"source": "sample:iris", "max_columns": "many"}
    assert [problem.field for problem in desk.problems()] == ["max_columns"]


def test_the_canvas_is_drawn_anew_only_for_what_it_owns(desk: Desk):
    desk.edit(SetParams("load", {"source": "sample:iris"}), SetDescription("Flowers"))
    assert desk.epoch == 0
    desk.edit(AddNode("split", Node(type="split"), (0.0, 0.0)))
    assert desk.epoch == 1
    desk.edit(Connect(Edge.between("load.table", "split.table")))
    assert desk.epoch == 2


def test_an_edit_in_another_tab_is_taken_in_and_its_form_drawn_anew(desk: Desk):
    other, key = other_tab(desk), desk.form_key("load")
    other.edit(SetParams("load", {"source": "sample:iris"}))
    desk.refresh()
    assert desk.document == other.document
    assert desk.form_key("load") != key
    assert desk.epoch == 1
    assert "elsewhere" in desk.notice


def test_edits_of_two_tabs_are_both_kept(desk: Desk):
    other = other_tab(desk)
    other.edit(SetName("From the other tab"))
    desk.edit(SetParams("load", {"source": "sample:iris"}))
    assert in_file(desk).name == "From the other tab"
    assert in_file(desk).nodes["load"].params == {"source": "sample:iris"}


def test_an_edit_overtaken_between_looking_and_saving_is_made_again(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    other = other_tab(desk)
    refresh, overtaken = desk.refresh, []

    def refresh_and_be_overtaken() -> None:
        refresh()
        if not overtaken:
            overtaken.append(True)
            other.edit(SetName("Faster"))

    monkeypatch.setattr(desk, "refresh", refresh_and_be_overtaken)
    desk.edit(SetDescription("Slower"))
    assert (in_file(desk).name, in_file(desk).description) == ("Faster", "Slower")


def test_what_the_canvas_sends_is_saved_and_restored_forms_are_drawn_anew(desk: Desk):
    key = desk.form_key("load")
    sent = with_node(desk.document, "split")
    assert desk.take(CanvasResult(sent, restored=frozenset({"load"})))
    assert in_file(desk) == sent
    assert desk.form_key("load") != key
    assert desk.epoch == 0


def test_an_edit_on_the_canvas_that_was_overtaken_is_left_to_the_canvas_to_make_again(desk: Desk):
    other_tab(desk).edit(SetName("Faster"))
    assert not desk.take(CanvasResult(with_node(desk.document, "split")))
    assert in_file(desk).name == desk.document.name == "Faster"
    assert "split" not in desk.document.nodes
    assert desk.epoch == 1


def test_an_edit_that_cannot_be_saved_stays_on_the_desk_and_is_saved_with_the_next(desk: Desk):
    lock = desk.library.folder / ".lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    desk.edit(SetName("Unsaved"))
    assert "cannot be written" in desk.not_saved
    assert (desk.document.name, in_file(desk).name) == ("Unsaved", "Wine")
    lock.rmdir()
    desk.edit(SetDescription("More"))
    assert desk.not_saved == ""
    assert (in_file(desk).name, in_file(desk).description) == ("Unsaved", "More")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_plainly(desk: Desk):
    desk.library.folder.chmod(0o500)
    try:
        desk.edit(SetName("Unsaved"))
    finally:
        desk.library.folder.chmod(0o700)
    assert "cannot be written" in desk.not_saved


def test_a_pipeline_deleted_elsewhere_is_not_brought_back(desk: Desk):
    desk.library.delete(desk.pipeline)
    desk.edit(SetName("Back"))
    assert "deleted" in desk.not_saved
    assert desk.library.entries() == []


def test_what_goes_wrong_is_told_and_problems_are_kept_for_that_document(desk: Desk):
    def refuse() -> None:
        raise BadInput("there is nothing to run")

    assert not desk.attempt(refuse)
    assert desk.notice == "there is nothing to run"
    assert desk.attempt(lambda: None)


def test_the_last_run_is_followed_and_a_changed_pipeline_is_run_anew(desk: Desk):
    with EventLog(desk.library.workspace) as log:
        run = log.create_run("Wine", dumps(desk.document), {"pipeline": desk.pipeline})
        log.append(run, "run-started", supervisor=identify().to_dict(), todo=["load"])
        desk.follow(log)
        assert desk.running and desk.run is not None and desk.run.nodes["load"].state == "queued"
        log.append(run, "failed", "load", error={"kind": "bad-input", "message": "no", "field": None})
        log.append(run, "run-finished", state="failed")
        desk.follow(log)
    assert not desk.running
    assert desk.run is not None and desk.run.nodes["load"].state == "failed"
    assert desk.run_document is not None and desk._same_work(desk.run_document)
    desk.edit(SetParams("load", {"source": "sample:iris"}))
    assert not desk._same_work(desk.run_document)
