"""The pipeline that is open in a browser tab, its file and its last run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.edits import revise_params, set_description, set_label, set_name, set_params
from engine.errors import BadInput, SylvaError
from engine.events import EventLog, RunFinished, RunStarted
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.pipeline_file import dumps, with_values
from engine.pipeline_library import Library
from engine.plan import RunOptions, make_plan
from engine.processes import identify
from engine.runs import Runs
from engine.workspace import Workspace
from tests.run_events import append_stored
from ui.studio.builder import open_pipeline
from ui.studio.builder.open_pipeline import DELETED, OpenPipeline
from ui.studio.canvas import Edited
from ui.studio.canvas.protocol import Revision, apply_edit

CATALOG = load_catalog()
DOCUMENT = Pipeline(
    name="Wine", nodes={"load": Node(type="load-data", params={"source": "sample:wine"})}
)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(Workspace(tmp_path / "workspace").create())


@pytest.fixture
def opened(library: Library) -> OpenPipeline:
    return OpenPipeline.from_library(
        library, Runs(library.workspace, CATALOG), library.create(DOCUMENT)
    )


def other_tab(opened: OpenPipeline) -> OpenPipeline:
    return OpenPipeline.from_library(opened.library, opened.runs, opened.pipeline_id)


def in_file(opened: OpenPipeline) -> Pipeline:
    return opened.library.open(opened.pipeline_id).pipeline


def with_node(pipeline: Pipeline, name: str) -> Pipeline:
    return Pipeline(name=pipeline.name, nodes={**pipeline.nodes, name: Node(type="split")})


def named(name: str) -> Callable[[Pipeline], Pipeline]:
    return lambda pipeline: set_name(pipeline, name)


def described(text: str) -> Callable[[Pipeline], Pipeline]:
    return lambda pipeline: set_description(pipeline, text)


def with_split(pipeline: Pipeline) -> Pipeline:
    nodes, layout = (
        {**pipeline.nodes, "split": Node(type="split")},
        {**pipeline.layout, "split": (0.0, 0.0)},
    )
    return with_values(pipeline, nodes=nodes, layout=layout)


def connected(pipeline: Pipeline) -> Pipeline:
    return with_values(pipeline, edges=[*pipeline.edges, Edge.between("load.table", "split.table")])


def test_every_edit_is_in_the_file_at_once(opened: OpenPipeline):
    opened.edit(
        lambda pipeline: set_params(pipeline, CATALOG, "load", {"source": "sample:iris"}),
        named("Iris"),
    )
    assert in_file(opened) == opened.pipeline
    assert (in_file(opened).name, in_file(opened).nodes["load"].params) == (
        "Iris",
        {"source": "sample:iris"},
    )


def test_a_wrong_value_is_kept_and_named_and_costs_no_other_edit(opened: OpenPipeline):
    opened.edit(
        lambda pipeline: set_params(
            pipeline, CATALOG, "load", {"source": "sample:iris", "max_columns": "many"}
        )
    )
    opened.edit(named("Iris"))
    assert in_file(opened).nodes["load"].params == {"source": "sample:iris", "max_columns": "many"}
    assert [problem.field for problem in opened.problems()] == ["max_columns"]


def test_a_document_is_validated_once_until_it_changes_or_the_user_asks(
    opened: OpenPipeline, monkeypatch: pytest.MonkeyPatch
):
    checked: list[Pipeline] = []
    check = open_pipeline.find_problems
    monkeypatch.setattr(
        open_pipeline,
        "find_problems",
        lambda pipeline, types: checked.append(pipeline) or check(pipeline, types),
    )
    for _ in range(3):
        opened.problems()
    assert len(checked) == 1
    opened.edit(with_split)
    opened.problems()
    opened.forget_problems()
    opened.problems()
    assert len(checked) == 3


def test_the_canvas_is_drawn_anew_only_for_what_it_owns(opened: OpenPipeline):
    first = opened.canvas_version
    opened.edit(
        lambda pipeline: set_params(pipeline, CATALOG, "load", {"source": "sample:iris"}),
        described("Flowers"),
    )
    assert opened.canvas_version == first
    opened.edit(with_split)
    assert opened.canvas_version == first + 1
    opened.edit(connected)
    assert opened.canvas_version == first + 2


def test_an_edit_that_a_browser_sends_again_to_a_new_tab_takes_nothing_back(opened: OpenPipeline):
    sent = {
        "instance": "tab",
        "pipeline": opened.pipeline_id,
        "revision": 1,
        "epoch": opened.canvas_version,
    }
    sent["document"] = {
        "nodes": {"load": {"type": "load-data"}},
        "edges": [],
        "layout": {"load": [9, 9]},
        "notes": [],
        "groups": [],
    }
    edited = apply_edit(
        opened.pipeline,
        sent,
        pipeline_id=opened.pipeline_id,
        epoch=opened.canvas_version,
        taken=Revision(),
    )
    assert edited.pipeline != opened.pipeline and opened.apply_canvas_edit(edited)
    other_tab(opened).edit(with_split)
    after_restart = other_tab(opened)
    again = apply_edit(
        after_restart.pipeline,
        sent,
        pipeline_id=opened.pipeline_id,
        epoch=after_restart.canvas_version,
        taken=Revision(),
    )
    assert again.pipeline is after_restart.pipeline
    assert set(again.pipeline.nodes) == {"load", "split"}


def test_an_edit_in_another_tab_is_taken_in_and_its_form_drawn_anew(opened: OpenPipeline):
    other, key, first = other_tab(opened), opened.form_key("load"), opened.canvas_version
    other.edit(lambda pipeline: set_params(pipeline, CATALOG, "load", {"source": "sample:iris"}))
    opened.refresh()
    assert opened.pipeline == other.pipeline
    assert opened.form_key("load") != key
    assert opened.canvas_version == first + 1
    assert "in another tab" in opened.notice


def test_edits_of_two_tabs_are_both_kept(opened: OpenPipeline):
    other = other_tab(opened)
    other.edit(named("From the other tab"))
    opened.edit(lambda pipeline: set_params(pipeline, CATALOG, "load", {"source": "sample:iris"}))
    assert in_file(opened).name == "From the other tab"
    assert in_file(opened).nodes["load"].params == {"source": "sample:iris"}


def test_two_tabs_may_set_different_fields_of_one_node(opened: OpenPipeline):
    other = other_tab(opened)
    other.edit(
        lambda pipeline: revise_params(
            pipeline, CATALOG, "load", lambda params: {**params, "max_columns": 7}
        )
    )
    opened.edit(
        lambda pipeline: revise_params(
            pipeline, CATALOG, "load", lambda params: {**params, "header": False}
        )
    )
    assert in_file(opened).nodes["load"].params == {
        "source": "sample:wine",
        "max_columns": 7,
        "header": False,
    }


def test_an_edit_overtaken_between_looking_and_saving_is_made_again(
    opened: OpenPipeline, monkeypatch: pytest.MonkeyPatch
):
    other = other_tab(opened)
    refresh, overtaken = opened.refresh, []

    def refresh_and_be_overtaken() -> None:
        refresh()
        if not overtaken:
            overtaken.append(True)
            other.edit(named("Faster"))

    monkeypatch.setattr(opened, "refresh", refresh_and_be_overtaken)
    opened.edit(described("Slower"))
    assert (in_file(opened).name, in_file(opened).description) == ("Faster", "Slower")


def test_what_the_canvas_sends_is_saved_and_restored_forms_are_drawn_anew(opened: OpenPipeline):
    key, first = opened.form_key("load"), opened.canvas_version
    sent = with_node(opened.pipeline, "split")
    assert opened.apply_canvas_edit(Edited(sent, Revision(), frozenset({"load"})))
    assert in_file(opened) == sent
    assert opened.form_key("load") != key
    assert opened.canvas_version == first


def test_an_edit_on_the_canvas_that_was_overtaken_is_left_to_the_canvas_to_make_again(
    opened: OpenPipeline,
):
    first = opened.canvas_version
    other_tab(opened).edit(named("Faster"))
    assert not opened.apply_canvas_edit(Edited(with_node(opened.pipeline, "split"), Revision()))
    assert in_file(opened).name == opened.pipeline.name == "Faster"
    assert "split" not in opened.pipeline.nodes
    assert opened.canvas_version == first + 1


def forbid_saving(library: Library) -> Path:
    """Until the folder that is given back is removed."""
    lock = library.folder / ".lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    return lock


def test_an_edit_that_cannot_be_saved_stays_open_and_is_saved_with_the_next(opened: OpenPipeline):
    lock = forbid_saving(opened.library)
    opened.edit(named("Unsaved"))
    assert str(opened.library.folder) in opened.save_error
    assert (opened.pipeline.name, in_file(opened).name) == ("Unsaved", "Wine")
    lock.rmdir()
    opened.edit(described("More"))
    assert opened.save_error == ""
    assert (in_file(opened).name, in_file(opened).description) == ("Unsaved", "More")


def test_an_edit_that_could_not_be_saved_is_saved_by_the_next_drawing(opened: OpenPipeline):
    lock = forbid_saving(opened.library)
    opened.edit(named("Unsaved"))
    opened.refresh()
    assert opened.unsaved and str(opened.library.folder) in opened.save_error
    lock.rmdir()
    opened.refresh()
    assert (in_file(opened).name, opened.save_error, opened.unsaved) == ("Unsaved", "", False)
    assert "saved now" in opened.notice


def test_unsaved_edits_and_those_of_another_tab_are_both_kept(opened: OpenPipeline):
    other, origin = other_tab(opened), opened.pipeline_id
    lock = forbid_saving(opened.library)
    opened.edit(named("Mine"))
    lock.rmdir()
    other.edit(named("Theirs"))
    opened.refresh()
    assert opened.library.open(origin).pipeline.name == "Theirs"
    assert opened.pipeline_id != origin and opened.moved_from == origin
    assert in_file(opened) == opened.pipeline
    assert opened.pipeline.name.startswith("Mine") and opened.pipeline.name != "Mine"
    assert opened.pipeline.name in opened.notice
    opened.edit(described("More"))
    assert (in_file(opened).description, opened.library.open(origin).pipeline.description) == (
        "More",
        "",
    )


def test_unsaved_edits_stay_while_not_even_a_copy_can_be_saved(opened: OpenPipeline):
    other, lock = other_tab(opened), forbid_saving(opened.library)
    opened.edit(named("Mine"))
    lock.rmdir()
    other.edit(named("Theirs"))
    lock = forbid_saving(opened.library)
    opened.refresh()
    assert (opened.pipeline.name, in_file(opened).name) == ("Mine", "Theirs")
    assert str(opened.library.folder) in opened.save_error


def test_edits_of_which_one_is_refused_change_nothing(opened: OpenPipeline):
    before = opened.pipeline
    with pytest.raises(SylvaError):
        opened.edit(named("Half"), lambda pipeline: set_label(pipeline, "nowhere", "x"))
    assert opened.pipeline == before == in_file(opened)


def file_of(opened: OpenPipeline) -> Path:
    return opened.library.folder / f"{opened.pipeline_id}.json"


def make_invalid(path: Path) -> None:
    path.write_text("{")


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(make_invalid, "JSON"), (make_a_folder, "regular file")],
    ids=["invalid", "folder"],
)
def test_a_file_that_cannot_be_read_any_more_costs_no_edit(
    opened: OpenPipeline, spoil: Callable[[Path], None], why: str
):
    origin = opened.pipeline_id
    spoil(file_of(opened))
    opened.refresh()
    assert opened.pipeline == DOCUMENT and opened.pipeline_id == origin
    assert why in opened.save_error and opened.notice
    opened.edit(described("More"))
    assert opened.pipeline_id != origin
    assert in_file(opened) == opened.pipeline
    assert opened.pipeline.description == "More" and opened.pipeline.nodes == DOCUMENT.nodes
    assert opened.save_error == "" and opened.pipeline.name in opened.notice


def test_a_file_that_can_be_read_again_is_taken_in(opened: OpenPipeline):
    good = file_of(opened).read_text()
    make_invalid(file_of(opened))
    opened.refresh()
    file_of(opened).write_text(good.replace("Wine", "Fixed"))
    opened.refresh()
    assert (opened.pipeline.name, opened.save_error) == ("Fixed", "")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_said_plainly(opened: OpenPipeline):
    opened.library.folder.chmod(0o500)
    try:
        opened.edit(named("Unsaved"))
    finally:
        opened.library.folder.chmod(0o700)
    assert str(opened.library.folder) in opened.save_error


def test_a_pipeline_deleted_elsewhere_is_not_brought_back(opened: OpenPipeline):
    opened.library.delete(opened.pipeline_id)
    opened.refresh()
    assert opened.save_error == opened.notice == DELETED
    opened.edit(named("Back"))
    assert "deleted" in opened.save_error
    assert opened.library.entries() == []


def test_what_goes_wrong_is_told_and_problems_are_kept_for_that_document(opened: OpenPipeline):
    def refuse() -> None:
        raise BadInput("there is nothing to run")

    assert not opened.show_errors(refuse)
    assert opened.notice == "there is nothing to run"
    assert opened.show_errors(lambda: None)


def test_the_last_run_is_followed_and_a_changed_pipeline_is_run_anew(opened: OpenPipeline):
    with EventLog(opened.library.workspace) as log:
        run = log.create_run("Wine", dumps(opened.pipeline), {"pipeline": opened.pipeline_id})
        log.append(run, RunStarted(supervisor=identify(), todo=("load",)))
        opened.refresh_run()
        assert (
            opened.running and opened.run is not None and opened.run.nodes["load"].state == "queued"
        )
        append_stored(
            log, run, "failed", "load", error={"kind": "bad-input", "message": "no", "field": None}
        )
        log.append(run, RunFinished(state="failed"))
        opened.refresh_run()
    assert not opened.running
    assert opened.run is not None and opened.run.nodes["load"].state == "failed"
    assert opened.run_pipeline is not None and opened._has_same_nodes(opened.run_pipeline)
    opened.edit(lambda pipeline: set_params(pipeline, CATALOG, "load", {"source": "sample:iris"}))
    assert not opened._has_same_nodes(opened.run_pipeline)


def test_a_run_whose_pipeline_cannot_be_read_is_followed_all_the_same(opened: OpenPipeline):
    with EventLog(opened.library.workspace) as log:
        run = log.create_run("Wine", "{", {"pipeline": opened.pipeline_id})
        log.append(run, RunFinished(state="failed"))
        opened.refresh_run()
    assert opened.run is not None and opened.run.state == "failed"
    assert opened.run_pipeline is None


def test_all_nodes_run_again_but_for_those_that_are_bypassed(
    opened: OpenPipeline, monkeypatch: pytest.MonkeyPatch
):
    opened.edit(with_split)
    opened.edit(connected)
    nodes = opened.pipeline.nodes
    bypassed = {**nodes, "split": with_values(nodes["split"], bypass=True)}
    opened.edit(lambda pipeline: with_values(pipeline, nodes=bypassed))
    started: list[RunOptions] = []
    monkeypatch.setattr(Runs, "start", lambda self, pipeline, options: started.append(options))
    opened.start_again()
    assert [options.force_from for options in started] == [("load",)]
    make_plan(opened.pipeline, CATALOG, started[0])
