"""The pipeline that lies open in a browser tab, and its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.catalogue import load_catalog
from engine.edits import revise_params, set_description, set_label, set_name, set_params
from engine.errors import BadInput, SylvaError
from engine.events import EventLog, RunFinished, RunStarted
from engine.pipeline import Edge, Node, Pipeline, changed
from engine.pipeline_file import dumps
from engine.pipeline_library import Library
from engine.processes import identify
from engine.workspace import Workspace
from tests.run_events import append_stored
from ui.studio.builder.open_pipeline import DELETED, OpenPipeline
from ui.studio.canvas import Edited
from ui.studio.canvas.protocol import Revision, take

CATALOGUE = load_catalog()
DOCUMENT = Pipeline(name="Wine", nodes={"load": Node(type="load-data", params={"source": "sample:wine"})})


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Workspace(tmp_path / "workspace").create())


@pytest.fixture
def desk(library: Library) -> OpenPipeline:
    return OpenPipeline.with_pipeline(library, CATALOGUE, library.create(DOCUMENT))


def other_tab(desk: OpenPipeline) -> OpenPipeline:
    return OpenPipeline.with_pipeline(desk.library, desk.catalogue, desk.pipeline)


def in_file(desk: OpenPipeline) -> Pipeline:
    return desk.library.open(desk.pipeline).document


def with_node(document: Pipeline, name: str) -> Pipeline:
    return Pipeline(name=document.name, nodes={**document.nodes, name: Node(type="split")})


def named(name: str) -> Callable[[Pipeline], Pipeline]:
    return lambda document: set_name(document, name)


def described(text: str) -> Callable[[Pipeline], Pipeline]:
    return lambda document: set_description(document, text)


def with_split(document: Pipeline) -> Pipeline:
    nodes, layout = {**document.nodes, "split": Node(type="split")}, {**document.layout, "split": (0.0, 0.0)}
    return changed(document, nodes=nodes, layout=layout)


def connected(document: Pipeline) -> Pipeline:
    return changed(document, edges=[*document.edges, Edge.between("load.table", "split.table")])


def test_every_edit_is_in_the_file_at_once(desk: OpenPipeline):
    desk.edit(lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris"}), named("Iris"))
    assert in_file(desk) == desk.document
    assert (in_file(desk).name, in_file(desk).nodes["load"].params) == ("Iris", {"source": "sample:iris"})


def test_a_wrong_value_is_kept_and_named_and_costs_no_other_edit(desk: OpenPipeline):
    desk.edit(
        lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris", "max_columns": "many"})
    )
    desk.edit(named("Iris"))
    assert in_file(desk).nodes["load"].params == {"source": "sample:iris", "max_columns": "many"}
    assert [problem.field for problem in desk.problems()] == ["max_columns"]


def test_the_canvas_is_drawn_anew_only_for_what_it_owns(desk: OpenPipeline):
    first = desk.epoch
    desk.edit(lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris"}), described("Flowers"))
    assert desk.epoch == first
    desk.edit(with_split)
    assert desk.epoch == first + 1
    desk.edit(connected)
    assert desk.epoch == first + 2


def test_an_edit_that_a_browser_sends_again_to_a_new_desk_takes_nothing_back(desk: OpenPipeline):
    sent = {"instance": "tab", "pipeline": desk.pipeline, "revision": 1, "epoch": desk.epoch}
    sent["document"] = {"nodes": {"load": {"type": "load-data"}}, "edges": [], "layout": {"load": [9, 9]}, "notes": []}
    edited = take(desk.document, sent, pipeline=desk.pipeline, epoch=desk.epoch, taken=Revision())
    assert edited.document != desk.document and desk.take(edited)
    other_tab(desk).edit(with_split)
    after_restart = other_tab(desk)
    again = take(after_restart.document, sent, pipeline=desk.pipeline, epoch=after_restart.epoch, taken=Revision())
    assert again.document is after_restart.document
    assert set(again.document.nodes) == {"load", "split"}


def test_an_edit_in_another_tab_is_taken_in_and_its_form_drawn_anew(desk: OpenPipeline):
    other, key, first = other_tab(desk), desk.form_key("load"), desk.epoch
    other.edit(lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris"}))
    desk.refresh()
    assert desk.document == other.document
    assert desk.form_key("load") != key
    assert desk.epoch == first + 1
    assert "elsewhere" in desk.notice


def test_edits_of_two_tabs_are_both_kept(desk: OpenPipeline):
    other = other_tab(desk)
    other.edit(named("From the other tab"))
    desk.edit(lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris"}))
    assert in_file(desk).name == "From the other tab"
    assert in_file(desk).nodes["load"].params == {"source": "sample:iris"}


def test_two_tabs_may_set_different_fields_of_one_node(desk: OpenPipeline):
    other = other_tab(desk)
    other.edit(lambda document: revise_params(document, CATALOGUE, "load", lambda params: {**params, "max_columns": 7}))
    desk.edit(lambda document: revise_params(document, CATALOGUE, "load", lambda params: {**params, "header": False}))
    assert in_file(desk).nodes["load"].params == {"source": "sample:wine", "max_columns": 7, "header": False}


def test_an_edit_overtaken_between_looking_and_saving_is_made_again(
    desk: OpenPipeline, monkeypatch: pytest.MonkeyPatch
):
    other = other_tab(desk)
    refresh, overtaken = desk.refresh, []

    def refresh_and_be_overtaken() -> None:
        refresh()
        if not overtaken:
            overtaken.append(True)
            other.edit(named("Faster"))

    monkeypatch.setattr(desk, "refresh", refresh_and_be_overtaken)
    desk.edit(described("Slower"))
    assert (in_file(desk).name, in_file(desk).description) == ("Faster", "Slower")


def test_what_the_canvas_sends_is_saved_and_restored_forms_are_drawn_anew(desk: OpenPipeline):
    key, first = desk.form_key("load"), desk.epoch
    sent = with_node(desk.document, "split")
    assert desk.take(Edited(sent, Revision(), frozenset({"load"})))
    assert in_file(desk) == sent
    assert desk.form_key("load") != key
    assert desk.epoch == first


def test_an_edit_on_the_canvas_that_was_overtaken_is_left_to_the_canvas_to_make_again(desk: OpenPipeline):
    first = desk.epoch
    other_tab(desk).edit(named("Faster"))
    assert not desk.take(Edited(with_node(desk.document, "split"), Revision()))
    assert in_file(desk).name == desk.document.name == "Faster"
    assert "split" not in desk.document.nodes
    assert desk.epoch == first + 1


def forbid_saving(library: Library) -> Path:
    """Until the folder that is given back is removed."""
    lock = library.folder / ".lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    return lock


def test_an_edit_that_cannot_be_saved_stays_on_the_desk_and_is_saved_with_the_next(desk: OpenPipeline):
    lock = forbid_saving(desk.library)
    desk.edit(named("Unsaved"))
    assert str(desk.library.folder) in desk.not_saved
    assert (desk.document.name, in_file(desk).name) == ("Unsaved", "Wine")
    lock.rmdir()
    desk.edit(described("More"))
    assert desk.not_saved == ""
    assert (in_file(desk).name, in_file(desk).description) == ("Unsaved", "More")


def test_an_edit_that_could_not_be_saved_is_saved_by_the_next_drawing(desk: OpenPipeline):
    lock = forbid_saving(desk.library)
    desk.edit(named("Unsaved"))
    desk.refresh()
    assert desk.unsaved and str(desk.library.folder) in desk.not_saved
    lock.rmdir()
    desk.refresh()
    assert (in_file(desk).name, desk.not_saved, desk.unsaved) == ("Unsaved", "", False)
    assert "saved now" in desk.notice


def test_unsaved_edits_and_those_of_another_tab_are_both_kept(desk: OpenPipeline):
    other, origin = other_tab(desk), desk.pipeline
    lock = forbid_saving(desk.library)
    desk.edit(named("Mine"))
    lock.rmdir()
    other.edit(named("Theirs"))
    desk.refresh()
    assert desk.library.open(origin).document.name == "Theirs"
    assert desk.pipeline != origin and desk.moved_from == origin
    assert in_file(desk) == desk.document
    assert desk.document.name.startswith("Mine") and desk.document.name != "Mine"
    assert desk.document.name in desk.notice
    desk.edit(described("More"))
    assert (in_file(desk).description, desk.library.open(origin).document.description) == ("More", "")


def test_unsaved_edits_stay_while_not_even_a_copy_can_be_saved(desk: OpenPipeline):
    other, lock = other_tab(desk), forbid_saving(desk.library)
    desk.edit(named("Mine"))
    lock.rmdir()
    other.edit(named("Theirs"))
    lock = forbid_saving(desk.library)
    desk.refresh()
    assert (desk.document.name, in_file(desk).name) == ("Mine", "Theirs")
    assert str(desk.library.folder) in desk.not_saved


def test_edits_of_which_one_is_refused_change_nothing(desk: OpenPipeline):
    before = desk.document
    with pytest.raises(SylvaError):
        desk.edit(named("Half"), lambda document: set_label(document, "nowhere", "x"))
    assert desk.document == before == in_file(desk)


def file_of(desk: OpenPipeline) -> Path:
    return desk.library.folder / f"{desk.pipeline}.json"


def make_invalid(path: Path) -> None:
    path.write_text("{")


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"), [(make_invalid, "not JSON"), (make_a_folder, "not a file")], ids=["invalid", "folder"]
)
def test_a_file_that_cannot_be_read_any_more_costs_no_edit(desk: OpenPipeline, spoil: Callable[[Path], None], why: str):
    origin = desk.pipeline
    spoil(file_of(desk))
    desk.refresh()
    assert desk.document == DOCUMENT and desk.pipeline == origin
    assert why in desk.not_saved and desk.notice
    desk.edit(described("More"))
    assert desk.pipeline != origin
    assert in_file(desk) == desk.document
    assert desk.document.description == "More" and desk.document.nodes == DOCUMENT.nodes
    assert desk.not_saved == "" and desk.document.name in desk.notice


def test_a_file_that_can_be_read_again_is_taken_in(desk: OpenPipeline):
    good = file_of(desk).read_text()
    make_invalid(file_of(desk))
    desk.refresh()
    file_of(desk).write_text(good.replace("Wine", "Mended"))
    desk.refresh()
    assert (desk.document.name, desk.not_saved) == ("Mended", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_plainly(desk: OpenPipeline):
    desk.library.folder.chmod(0o500)
    try:
        desk.edit(named("Unsaved"))
    finally:
        desk.library.folder.chmod(0o700)
    assert str(desk.library.folder) in desk.not_saved


def test_a_pipeline_deleted_elsewhere_is_not_brought_back(desk: OpenPipeline):
    desk.library.delete(desk.pipeline)
    desk.refresh()
    assert desk.not_saved == desk.notice == DELETED
    desk.edit(named("Back"))
    assert "deleted" in desk.not_saved
    assert desk.library.entries() == []


def test_what_goes_wrong_is_told_and_problems_are_kept_for_that_document(desk: OpenPipeline):
    def refuse() -> None:
        raise BadInput("there is nothing to run")

    assert not desk.attempt(refuse)
    assert desk.notice == "there is nothing to run"
    assert desk.attempt(lambda: None)


def test_the_last_run_is_followed_and_a_changed_pipeline_is_run_anew(desk: OpenPipeline):
    with EventLog(desk.library.workspace) as log:
        run = log.create_run("Wine", dumps(desk.document), {"pipeline": desk.pipeline})
        log.append(run, RunStarted(supervisor=identify(), todo=("load",)))
        desk.follow(log)
        assert desk.running and desk.run is not None and desk.run.nodes["load"].state == "queued"
        append_stored(log, run, "failed", "load", error={"kind": "bad-input", "message": "no", "field": None})
        log.append(run, RunFinished(state="failed"))
        desk.follow(log)
    assert not desk.running
    assert desk.run is not None and desk.run.nodes["load"].state == "failed"
    assert desk.run_document is not None and desk._same_work(desk.run_document)
    desk.edit(lambda document: set_params(document, CATALOGUE, "load", {"source": "sample:iris"}))
    assert not desk._same_work(desk.run_document)


def test_a_run_whose_pipeline_cannot_be_read_is_followed_all_the_same(desk: OpenPipeline):
    with EventLog(desk.library.workspace) as log:
        run = log.create_run("Wine", "{", {"pipeline": desk.pipeline})
        log.append(run, RunFinished(state="failed"))
        desk.follow(log)
    assert desk.run is not None and desk.run.state == "failed"
    assert desk.run_document is None
