"""The builder page as Streamlit draws it, without a browser: the canvas itself is tested in one."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine import pipeline_file
from engine.errors import BadStructure, Problem, SylvaError
from engine.events import EventLog, RunFinished, RunStarted
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline, PortRef, Sweep
from engine.pipeline_file import dumps, with_values, write
from engine.pipeline_library import Library
from engine.plan import RunOptions
from engine.processes import identify
from engine.run_state import run_state
from engine.supervisor_starter import SupervisorStarter
from engine.workspace import Workspace
from tests.run_events import append_stored
from tests.ui.studio.runs.lab import STARTED
from tests.waiting import until
from ui.studio.builder import browser_tab, node_panel, node_results, outputs, page, pipeline_list
from ui.studio.builder.open_pipeline import OpenPipeline
from ui.studio.canvas import Edited
from ui.studio.canvas.protocol import Revision
from ui.studio.new_pipelines import EXAMPLE, pipeline_of_run, prepare_example, samples
from ui.studio.screen_text import plain
from ui.studio.session import Studio

WINE = Pipeline(
    name="Wine",
    nodes={
        "load": Node(type="load-data", params={"source": "sample:wine"}),
        "sample": Node(type="sample", params={"share": 0.5}),
    },
    edges=(Edge.between("load.table", "sample.table"),),
)


@pytest.fixture(scope="module")
def starter() -> Iterator[SupervisorStarter]:
    made = SupervisorStarter(preload=True)
    yield made
    made.close()


@pytest.fixture
def studio(tmp_path: Path, starter: SupervisorStarter, monkeypatch: pytest.MonkeyPatch) -> Studio:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    made.runs.starter = starter
    for module in (browser_tab, pipeline_list, node_panel, node_results, outputs):
        monkeypatch.setattr(module, "studio", lambda: made)
    return made


class Canvas:
    """Stands where the browser would: tells what is drawn, and does what a test has the user do."""

    def __init__(self) -> None:
        self.selection: tuple[str, ...] = ()
        self.edit: Callable[[Pipeline], Pipeline] = lambda pipeline: pipeline
        self.refused: Problem | None = None
        self.drawn: dict[str, Any] = {}

    def __call__(self, pipeline: Pipeline, **drawn: Any) -> tuple[str, ...]:
        after = self.edit(pipeline)
        drawn["on_edit"](Edited(after, Revision(), refused=self.refused))
        self.edit = lambda pipeline: pipeline
        self.drawn = {
            **drawn,
            "pipeline": pipeline,
            "problems": drawn["problems"](after),
            "states": drawn["states"](after),
        }
        return tuple(name for name in self.selection if name in after.nodes)


@pytest.fixture
def canvas(monkeypatch: pytest.MonkeyPatch) -> Canvas:
    made = Canvas()
    monkeypatch.setattr(page, "canvas", made)
    return made


def open_page(pipeline: str | None = None) -> AppTest:
    app = AppTest.from_function(build_page, default_timeout=30)
    if pipeline:
        app.query_params["pipeline"] = pipeline
    return app.run()


def build_page() -> None:
    from ui.studio.builder.page import page

    page()


def words(app: AppTest) -> str:
    parts = [*app.markdown, *app.caption, *app.error, *app.code, *app.subheader, *app.toast]
    return "\n".join(str(part.value) for part in parts).replace("\\", "").replace(":small[]", "")


def words_of(app: AppTest) -> list[str]:
    return [str(part.value).strip() for part in app.markdown]


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def shown_pipelines(app: AppTest) -> list[str]:
    """The names on the cards of the workspace's own pipelines."""
    own = [button for button in app.button if re.match("open-(?!sample)", button.key or "")]
    return [button.label.strip("*") for button in own]


def press(app: AppTest, label: str) -> AppTest:
    button = next(button for button in app.button if button.label == label)
    return button.click().run()


def is_disabled(app: AppTest, label: str) -> bool:
    return bool(next(button.disabled for button in app.button if button.label == label))


def library(studio: Studio) -> Library:
    return Library(studio.workspace)


def finished(studio: Studio, pipeline: str) -> str:
    def state() -> str | None:
        with EventLog(studio.workspace) as log:
            row = log.last_run_of(pipeline)
            found = run_state(log, row) if row else None
            return found.state if found and not found.live else None

    return str(until(state, 60, "the end of the run"))


# The list


def test_a_first_visitor_is_told_what_this_is_and_how_to_begin(studio: Studio):
    app = open_page()
    assert {pipeline_list.WHAT_SYLVA_IS, pipeline_list.FIVE_STEPS.strip()} <= {*words_of(app)}
    assert not [button for button in app.button if re.match("open-(?!sample)", button.key or "")]
    names = {button.label.strip("*") for button in app.button if "sample" in (button.key or "")}
    assert names == {sample.name for sample in samples().values()}
    assert [button.label for button in app.button].count("New pipeline") == 1


@pytest.mark.slow
def test_the_example_runs_once_in_a_new_workspace_also_after_a_kill_and_its_card_shows_the_result(
    studio: Studio, canvas: Canvas
):
    threads = [threading.Thread(target=prepare_example, args=(studio.runs,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [example] = library(studio).entries()
    [run] = studio.runs.list()
    app = open_page()
    assert pipeline_list.EXAMPLE_RUNS in words(app) and "Inspect" not in labels(app)
    supervisor = until(lambda: studio.runs.state(run.id).supervisor, 60, "the supervisor")
    os.kill(supervisor["pid"], signal.SIGKILL)
    assert finished(studio, example.id) == "interrupted"
    assert pipeline_list.EXAMPLE_STOPPED in words(open_page())
    prepare_example(studio.runs)  # as the next start of the studio does
    until(lambda: studio.runs.state(run.id).state == "done", 60, "the rest of the run")
    prepare_example(studio.runs)
    assert [run.id for run in studio.runs.list()] == [run.id]

    app = open_page()
    assert pipeline_list.EXAMPLE_READY in words(app) and "Accuracy" in words(app)
    assert "Inspect" in labels(app)
    app.button(key=f"open-{example.id}").click().run()
    assert {view["state"] for view in canvas.drawn["states"].values()} <= {"done", "cached"}
    assert set(canvas.drawn["states"]) == set(samples()[EXAMPLE].nodes)
    assert example.pipeline == samples()[EXAMPLE]


def test_a_workspace_with_pipelines_is_left_as_it_is(studio: Studio):
    library(studio).create(WINE)
    prepare_example(studio.runs)
    assert studio.runs.list() == [] and len(library(studio).entries()) == 1


def test_pipelines_are_listed_searched_duplicated_and_deleted(studio: Studio):
    library(studio).create(WINE)
    for number in range(30):
        library(studio).create(with_values(WINE, name=f"Other {number}"))
    app = open_page()
    assert len(shown_pipelines(app)) == pipeline_list.PAGE_LENGTH
    app.button(key="more-pipelines").click().run()
    assert len(shown_pipelines(app)) == 31
    app.text_input(key=pipeline_list.SEARCH).set_value("wIN").run()
    assert shown_pipelines(app) == ["Wine"]
    press(app, "Duplicate")
    assert sorted(shown_pipelines(app)) == ["Wine", "Wine copy"]
    app.button(key="delete-wine_copy").click().run()
    assert shown_pipelines(app) == ["Wine"] and len(library(studio).entries()) == 31
    app.text_input(key=pipeline_list.SEARCH).set_value("nothing").run()
    assert shown_pipelines(app) == [] and "No pipeline has this name" in words(app)


def test_a_card_shows_the_state_of_the_last_run_and_a_hostile_name_as_text(studio: Studio):
    hostile = "<img src=x onerror=alert(1)> :red[b] **c**"
    pipeline = library(studio).create(with_values(WINE, name=hostile))
    assert "Not run yet" in words(open_page())
    studio.runs.start(WINE, RunOptions(pipeline_id=pipeline))
    assert finished(studio, pipeline) == "done"
    app = open_page()
    # A run without a report has a state, and no figure.
    assert ":green-badge[✓ done]" in words_of(app) and "Not run yet" not in words(app)
    assert app.button(key=f"open-{pipeline}").label == f"**{plain(hostile)}**"
    assert not any(hostile in str(part.body) for part in app.get("html"))


def test_the_card_of_a_live_sweep_names_the_node_and_not_the_id_of_a_branch(studio: Studio):
    sweep = Sweep.model_validate({"grid": {"share": [0.5, 0.6]}})
    nodes = {"load": WINE.nodes["load"], "s": Node(type="sample", label="Less", sweep=sweep)}
    swept = with_values(WINE, nodes=nodes, edges=(Edge.between("load.table", "s.table"),))
    pipeline = library(studio).create(swept)
    run = studio.runs.create(swept, RunOptions(pipeline_id=pipeline))
    branch = studio.runs.planned_pipeline(studio.runs.find(run)).copies_of(["s"])[0]
    with studio.runs.log() as log:
        supervisor = identify().to_dict()
        append_stored(log, run, "run-started", supervisor=supervisor, todo=["load", branch])
        append_stored(log, run, "started", branch, **STARTED)
    [progress] = open_page().get("progress")
    assert "Less" in progress.proto.text and branch not in progress.proto.text


def test_a_broken_file_is_listed_with_its_fault_and_cannot_be_opened(studio: Studio):
    (library(studio).folder / "broken.json").write_text("{")
    app = open_page()
    assert "JSON" in words(app)
    assert app.button(key="open-broken").disabled


def test_an_unknown_pipeline_in_the_address_is_said_plainly(studio: Studio):
    for hostile in ("gone", "../../etc/passwd", "<script>"):
        app = open_page(hostile)
        assert len(app.error) == 1 and not app.exception
    assert "Pipelines" in words(press(app, "Show all pipelines"))


# The builder


def test_an_edit_on_the_canvas_is_saved(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    canvas.edit = lambda document: Pipeline(name="Wine", nodes={"only": Node(type="split")})
    app = open_page(pipeline)
    assert not app.exception
    assert list(library(studio).open(pipeline).pipeline.nodes) == ["only"]
    assert [problem.node for problem in canvas.drawn["problems"]] == ["only"]
    assert app.button(key="problem-0").label.count("Split") == 1


def test_the_chosen_nodes_form_changes_the_document(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    canvas.selection = ("sample",)
    app = open_page(pipeline)
    next(field for field in app.number_input if field.label == "Seed").set_value(7).run()
    assert library(studio).open(pipeline).pipeline.nodes["sample"].params == {
        "share": 0.5,
        "seed": 7,
    }
    next(field for field in app.text_input if field.label == "Label").set_value("A half").run()
    timeout = next(field for field in app.number_input if field.label.startswith("Timeout"))
    timeout.set_value(2.5).run()
    node = library(studio).open(pipeline).pipeline.nodes["sample"]
    assert (node.label, node.settings.timeout) == ("A half", 2.5)
    next(field for field in app.text_input if field.label == "Name").set_value("Red wine").run()
    assert library(studio).open(pipeline).pipeline.name == "Red wine"


def test_the_panel_of_a_bypassed_node_says_that_it_is(studio: Studio, canvas: Canvas):
    bypassed = with_values(WINE.nodes["sample"], bypass=True)
    pipeline = library(studio).create(with_values(WINE, nodes={**WINE.nodes, "sample": bypassed}))
    canvas.selection = ("sample",)
    assert [info.value.partition(":")[0] for info in open_page(pipeline).info] == ["Bypassed"]


def test_a_pipeline_is_run_and_its_states_are_shown_on_the_canvas(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    assert is_disabled(app, "Stop") and is_disabled(app, "Retry") and not is_disabled(app, "Run")
    press(app, "Run")
    assert finished(studio, pipeline) == "done"
    app.run()
    assert {name: view["state"] for name, view in canvas.drawn["states"].items()} == {
        "load": "done",
        "sample": "done",
    }
    assert not is_disabled(app, "Run")


def judged(**forest: Any) -> Pipeline:
    """A pipeline in which a forest is trained and judged by the rows it learned from."""
    return Pipeline(
        name="Judged",
        nodes={
            "load": Node(type="load-data", params={"source": "sample:wine"}),
            "forest": Node(**forest),
            "predict": Node(type="predict"),
            "evaluate": Node(type="evaluate"),
            "keep": Node(type="save-table", params={"name": "kept"}),
        },
        edges=(
            Edge.between("load.table", "forest.table"),
            Edge.between("load.table", "keep.table"),
            Edge.between("load.table", "predict.table"),
            Edge.between("forest.model", "predict.model"),
            Edge.between("predict.predictions", "evaluate.predictions"),
        ),
    )


def test_the_best_of_a_sweep_is_told_and_kept_at_once(studio: Studio, canvas: Canvas):
    sweep = Sweep.model_validate({"grid": {"max_depth": [1, 6], "seed": [1]}})
    pipeline = library(studio).create(
        judged(type="random-forest", params={"trees": 3}, sweep=sweep)
    )
    app = press(open_page(pipeline), "Run")
    assert finished(studio, pipeline) == "done"
    app.run()
    view = canvas.drawn["states"]["evaluate"]
    assert view["result"].startswith("2 ") and " depth=6" in view["result"]
    assert "Accuracy" in view["result"] or "AUC" in view["result"]
    assert float(view["headline"].strip("% ")) > 0
    canvas.drawn["on_port"](PortRef("evaluate", "report"))
    canvas.selection = ("evaluate",)
    opened = library(studio).open(pipeline)
    kept = {name: node for name, node in opened.pipeline.nodes.items() if name != "forest"}
    edges = tuple(
        edge
        for edge in opened.pipeline.edges
        if "forest" not in (edge.source.node, edge.target.node)
    )
    gone = Pipeline(name="Without", nodes=kept, edges=edges)
    stamp = library(studio).save(pipeline, gone, opened.version)
    app.run()
    assert not app.exception and not any("depth=6" in button.label for button in app.button)
    library(studio).save(pipeline, opened.pipeline, stamp)
    next(button for button in app.run().button if "depth=6 seed=1" in button.label).click().run()
    node = library(studio).open(pipeline).pipeline.nodes["forest"]
    assert (node.params, node.sweep) == ({"trees": 3, "max_depth": 6, "seed": 1}, None)
    assert "depth = 6, seed = 1" in app.toast[0].value


def test_a_sweep_ranked_on_test_rows_is_fixed_with_one_click(studio: Studio, canvas: Canvas):
    document = judged(
        type="random-forest", params={"trees": 3}, sweep=Sweep(grid={"max_depth": [1, 6]})
    )
    edges = {edge.names: edge for edge in document.edges}
    for target in ("forest.table", "predict.table"):
        del edges["load.table", target]
    more = ("load.table split.table", "split.train forest.table", "split.test predict.table")
    document = with_values(
        document,
        nodes={**document.nodes, "split": Node(type="split")},
        edges=[*edges.values(), *(Edge.between(*edge.split()) for edge in more)],
    )
    pipeline = library(studio).create(document)
    app = press(open_page(pipeline), "Run")
    assert finished(studio, pipeline) == "done"
    canvas.selection = ("forest",)
    press(app.run(), "Settings")
    assert "ranked on test rows" in words(app), "the form of the sweep says it"
    canvas.selection = ("evaluate",)
    app.run()
    assert "on test rows" in words(app), "the leaderboard says it"
    assert outputs.ON_TEST_ROWS in words(app), "the button that keeps the best says it"
    assert any(label.startswith("Hint: Random forest") for label in labels(app))
    before = library(studio).open(pipeline).pipeline
    saves: list[Pipeline] = []
    save = Library.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "save", lambda *args: (saves.append(args[2]), save(*args))[1])
        press(app, "Choose on validation rows")
    assert len(saves) == 1, "one edit, and so one undo"
    fixed = library(studio).open(pipeline).pipeline
    assert fixed != before and fixed.nodes["best"].type == "choose-best"
    assert not any(label.startswith("Hint: Random forest") for label in labels(app))
    assert "Choose on validation rows" not in labels(app)

    press(app, "Run")
    assert finished(studio, pipeline) == "done"
    canvas.selection = ("forest",)
    app.run()
    assert canvas.drawn["states"]["forest"]["headline"], "the figure of the best on validation rows"
    press(app, "Output")
    assert "chosen on 36 validation rows" in words(app)
    assert outputs.ON_TEST_ROWS not in words(app)
    canvas.selection = ("best",)
    assert "chosen on 36 validation rows" in words(app.run())
    canvas.selection = ("evaluate",)
    assert "evaluated on 53 rows" in words(app.run())
    canvas.selection = ("best",)
    app.run()
    next(button for button in app.button if "Keep the best" in button.label).click().run()
    assert "test rows" not in app.toast[0].value
    assert library(studio).open(pipeline).pipeline.nodes["forest"].sweep is None


def test_keeping_what_the_test_rows_chose_says_so(studio: Studio):
    opened = OpenPipeline.from_library(
        library(studio),
        studio.runs,
        library(studio).create(judged(type="mart", sweep=Sweep(grid={"trees": [3, 5]}))),
    )
    outputs._keep(opened, {"forest": {"trees": 5}}, outputs.TEST_ROWS)
    assert outputs.ON_TEST_ROWS in opened.notice
    assert opened.pipeline.nodes["forest"].sweep is None


def test_a_finished_evaluation_says_its_result_and_that_it_wrote_no_log(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(judged(type="random-forest", params={"trees": 2}))
    app = press(open_page(pipeline), "Run")
    assert finished(studio, pipeline) == "done"
    app.run()
    view = canvas.drawn["states"]["evaluate"]
    assert view["result"] in ("Accuracy", "AUC") and float(view["headline"].strip("% ")) > 0
    canvas.selection = ("evaluate",)
    press(app.run(), "Log")
    assert not app.exception and not app.code, "no log, no block of text"


def test_learners_of_a_preset_are_written_down_with_the_sweep_of_one(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(judged(type="deep-forest", params={"preset": "gcforest"}))
    canvas.selection = ("forest",)
    app = open_page(pipeline)
    saves: list[Pipeline] = []
    before = Library.save

    def save(self: Library, name: str, document: Pipeline, stamp: Any) -> Any:
        saves.append(document)
        return before(self, name, document, stamp)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "save", save)
        next(one for one in app.selectbox if one.label == "Setting to sweep").set_value(
            "Trees of Random forest"
        ).run()
    assert len(saves) == 1  # and so one undo
    node = saves[0].nodes["forest"]
    assert node.sweep is not None and node.sweep.grid == {"learners.0.trees": [500]}
    assert len(node.params["learners"]) == 2


def test_a_node_that_writes_a_file_has_no_sweep(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(judged(type="mart"))
    canvas.selection = ("keep",)
    app = open_page(pipeline)
    assert "Setting to sweep" not in [one.label for one in app.selectbox]
    canvas.selection = ("forest",)
    assert "Setting to sweep" in [one.label for one in app.run().selectbox]


def test_a_pipeline_with_problems_is_not_run_and_they_are_listed(studio: Studio, canvas: Canvas):
    nodes = {**WINE.nodes, "load": Node(type="load-data", params={"source": "missing.csv"})}
    pipeline = library(studio).create(Pipeline(name="Wine", nodes=nodes, edges=WINE.edges))
    app = press(open_page(pipeline), "Run")
    with EventLog(studio.workspace) as log:
        assert log.runs() == []
    assert [problem.node for problem in canvas.drawn["problems"]] == ["load"]
    leading = [button for button in app.button if "missing.csv" in button.label]
    assert len(leading) == 1
    leading[0].click().run()
    assert canvas.drawn["reveal"].node == "load"


def test_hints_are_listed_and_do_not_stop_a_run(studio: Studio, canvas: Canvas):
    rows = [f"{index},{'high' if index % 3 else 'low'}" for index in range(100)]
    (studio.workspace.data / "pay.csv").write_text("row_id,pay\n" + "\n".join(rows))
    params = {"source": "pay.csv", "target": "pay"}
    nodes = {"load": Node(type="load-data", params=params)}
    pipeline = library(studio).create(Pipeline(name="Pay", nodes=nodes))
    app = press(open_page(pipeline), "Validate")
    assert canvas.drawn["problems"] == []
    assert "ready to run. 1 hint" in app.toast[0].value
    hint = app.button(key="problem-0")
    assert hint.label.startswith("Hint: Load data, Roles: the column 'row_id'")
    press(app, "Run")
    with EventLog(studio.workspace) as log:
        assert len(log.runs()) == 1


def test_a_column_that_will_not_arrive_is_told_before_the_run(studio: Studio, canvas: Canvas):
    nodes = {**WINE.nodes, "pick": Node(type="select-columns", params={"columns": ["nonsense"]})}
    edges = (*WINE.edges, Edge.between("sample.table", "pick.table"))
    pipeline = library(studio).create(Pipeline(name="Wine", nodes=nodes, edges=edges))
    app = press(open_page(pipeline), "Run")
    assert [(problem.node, problem.field) for problem in canvas.drawn["problems"]] == [
        ("pick", "columns")
    ]
    assert "'nonsense'" in app.button(key="problem-0").label
    with EventLog(studio.workspace) as log:
        assert log.runs() == []


def test_a_failure_is_brought_into_view_mended_and_retried(studio: Studio, canvas: Canvas):
    best = Node(
        type="feature-selection", params={"trees": 5}
    )  # what it keeps is not known before the run
    nodes = {
        **WINE.nodes,
        "best": best,
        "pick": Node(type="select-columns", params={"columns": ["nonsense"]}),
    }
    edges = (
        *WINE.edges,
        Edge.between("sample.table", "best.table"),
        Edge.between("best.table", "pick.table"),
    )
    pipeline = library(studio).create(Pipeline(name="Wine", nodes=nodes, edges=edges))
    app = press(open_page(pipeline), "Run")
    assert finished(studio, pipeline) == "failed"
    app.run()
    assert canvas.drawn["reveal"].node == "pick"
    assert "nonsense" in canvas.drawn["states"]["pick"]["text"]
    canvas.selection = ("pick",)
    app.run()
    assert any("nonsense" in error.value for error in app.error)
    opened = library(studio).open(pipeline)
    mended = {**nodes, "pick": Node(type="select-columns", params={"columns": ["alcohol"]})}
    library(studio).save(pipeline, Pipeline(name="Wine", nodes=mended, edges=edges), opened.version)
    app.run()
    press(app, "Retry")
    assert finished(studio, pipeline) == "done"
    with EventLog(studio.workspace) as log:
        first, second = (run_state(log, row) for row in reversed(log.runs()))
    assert (first.state, second.state) == ("failed", "done")
    assert {name: node.state for name, node in second.nodes.items()} == {
        "load": "cached",
        "sample": "cached",
        "best": "cached",
        "pick": "done",
    }


def test_a_run_under_way_is_polled_stopped_and_gone_on_with(studio: Studio, canvas: Canvas):
    forest = {"learners": [{"kind": "random_forest", "trees": 2000, "count": 4}], "max_layers": 2}
    nodes = {"load": Node(type="load-data"), "forest": Node(type="deep-forest", params=forest)}
    pipeline = library(studio).create(
        Pipeline(name="Slow", nodes=nodes, edges=(Edge.between("load.table", "forest.table"),))
    )
    app = press(open_page(pipeline), "Run")
    until(
        lambda: app.run() and canvas.drawn["states"].get("forest", {}).get("state") == "running", 60
    )
    assert is_disabled(app, "Run") and not is_disabled(app, "Stop")
    press(app, "Stop")
    assert finished(studio, pipeline) == "cancelled"
    app.run()
    assert canvas.drawn["states"]["forest"]["state"] == "skipped"
    assert not is_disabled(app, "Retry")


def test_a_workspace_that_cannot_be_written_is_said_plainly_and_the_edit_is_kept(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    lock = library(studio).folder / ".lock"
    lock.unlink()
    lock.mkdir()
    canvas.edit = lambda document: Pipeline(
        name="Wine", nodes={**document.nodes, "new": Node(type="split")}
    )
    app.run()
    assert not app.exception
    assert "not saved" in words(app)
    assert "new" in app.session_state[browser_tab.OPEN].pipeline.nodes
    lock.rmdir()
    next(field for field in app.text_input if field.label == "Name").set_value("Saved again").run()
    assert "new" in library(studio).open(pipeline).pipeline.nodes
    assert "not saved" not in words(app)


def forbid_saving(studio: Studio) -> Path:
    """Until the folder that is given back is removed."""
    lock = library(studio).folder / ".lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    return lock


def rename(app: AppTest, name: str) -> AppTest:
    return next(field for field in app.text_input if field.label == "Name").set_value(name).run()


def test_unsaved_edits_are_kept_when_the_pipeline_is_left_and_found_again(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    lock = forbid_saving(studio)
    press(rename(app, "Mine"), "Pipelines")
    assert len(app.warning) == 1 and "“Mine”" in app.warning[0].value
    press(app, "Show the edits")
    assert canvas.drawn["pipeline"].name == "Mine"
    assert "not saved" in words(app) and app.toast
    press(app, "Pipelines")
    lock.rmdir()
    app.button(key=f"open-{pipeline}").click().run()
    assert library(studio).open(pipeline).pipeline.name == "Mine"
    assert "not saved" not in words(app)
    assert not press(app, "Pipelines").warning


def test_unsaved_edits_that_were_left_are_saved_once_that_is_possible(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    lock = forbid_saving(studio)
    press(rename(app, "Mine"), "Pipelines")
    lock.rmdir()
    app.run()
    assert library(studio).open(pipeline).pipeline.name == "Mine"
    assert "“Mine”" in app.toast[0].value and not app.warning


def test_a_pipeline_is_not_called_saved_while_an_edit_of_the_canvas_is_refused(
    studio: Studio, canvas: Canvas
):
    app = open_page(library(studio).create(WINE))
    canvas.refused = BadStructure("this must be one line", field="label")
    assert "not saved" in words(app.run())
    canvas.refused = None
    assert "not saved" not in words(app.run())


def test_a_copy_has_the_edits_that_are_not_saved(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    file = library(studio).folder / f"{pipeline}.json"
    file.unlink()
    press(rename(app.run(), "Mine"), "Duplicate")
    assert canvas.drawn["pipeline"].name == "Mine copy"
    assert [entry.title for entry in library(studio).entries()] == ["Mine copy"]


def test_a_pipeline_deleted_elsewhere_is_not_called_saved(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    library(studio).delete(pipeline)
    app.run()
    assert "not saved" in words(app) and "saved 1" not in words(app)
    assert not app.exception and not app.error


def test_an_edit_upon_a_file_that_became_unreadable_goes_into_a_copy_which_is_open_then(
    studio: Studio, canvas: Canvas
):
    pipeline = library(studio).create(WINE)
    app = open_page(pipeline)
    (library(studio).folder / f"{pipeline}.json").write_text("{")
    app.run()
    assert "JSON" in app.toast[0].value and not app.exception
    canvas.edit = lambda document: Pipeline(
        name="Wine", nodes={**document.nodes, "new": Node(type="split")}
    )
    app.run()
    assert not app.exception
    copy = canvas.drawn["pipeline_id"]
    assert copy != pipeline and app.query_params["pipeline"] == copy
    assert set(library(studio).open(copy).pipeline.nodes) == {"load", "sample", "new"}
    assert "Wine" in app.toast[0].value


def test_what_goes_wrong_while_drawing_is_said_plainly(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object, **__: object) -> None:
        raise SylvaError("The canvas is out.")

    monkeypatch.setattr(page, "canvas", refuse)
    app = open_page(library(studio).create(WINE))
    assert [error.value for error in app.error] == ["The canvas is out."]
    assert not app.exception


def test_a_run_that_another_tab_started_is_seen_before_a_second_one_is(
    studio: Studio, canvas: Canvas, monkeypatch: pytest.MonkeyPatch
):
    stopped: list[str] = []
    monkeypatch.setattr(studio.runs, "cancel", stopped.append)
    opened = OpenPipeline.from_library(library(studio), studio.runs, library(studio).create(WINE))
    with EventLog(studio.workspace) as log:
        opened.refresh_run()
        run = log.create_run(
            "Wine", dumps(WINE), RunOptions(pipeline_id=opened.pipeline_id).to_dict()
        )
        log.append(run, RunStarted(supervisor=identify(), todo=tuple(WINE.nodes)))
    for begin in (opened.start, opened.retry):
        with pytest.raises(SylvaError):
            begin()
    with EventLog(studio.workspace) as log:
        assert [row.id for row in log.runs()] == [run]
        log.append(run, RunFinished(state="failed"))
        newer = log.create_run(
            "Wine", dumps(WINE), RunOptions(pipeline_id=opened.pipeline_id).to_dict()
        )
    opened.stop()
    assert stopped == [newer]


def test_a_new_pipeline_does_not_take_the_runs_of_a_deleted_one_for_its_own(
    studio: Studio, canvas: Canvas
):
    gone = library(studio).create(WINE)
    with EventLog(studio.workspace) as log:
        log.create_run("Wine", dumps(WINE), RunOptions(pipeline_id=gone).to_dict())
    library(studio).delete(gone)
    app = open_page(library(studio).create(WINE))
    assert canvas.drawn["states"] == {}
    assert is_disabled(app, "Stop")


def test_a_run_log_that_cannot_be_opened_does_not_hide_the_pipeline(studio: Studio, canvas: Canvas):
    pipeline = library(studio).create(WINE)
    studio.workspace.database.write_bytes(b"this is no database at all" * 100)
    app = open_page(pipeline)
    assert not app.exception
    assert set(canvas.drawn["pipeline"].nodes) == {"load", "sample"}
    assert str(studio.workspace.database) in app.toast[0].value


def test_the_pipeline_of_a_run_is_opened_as_it_was(studio: Studio):
    pipeline = library(studio).create(WINE)
    with EventLog(studio.workspace) as log:
        same = log.create_run("Wine", dumps(WINE), RunOptions(pipeline_id=pipeline).to_dict())
        other = log.create_run(
            "Wine", dumps(Pipeline(name="Wine", nodes={"old": Node(type="split")})), {}
        )
    assert pipeline_of_run(library(studio), studio.runs, same) == pipeline
    copy = pipeline_of_run(library(studio), studio.runs, other)
    assert copy != pipeline
    assert list(library(studio).open(copy).pipeline.nodes) == ["old"]


# Import

UNKNOWN = {"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": {"a": {"type": "none"}}}


@pytest.mark.parametrize(
    ("content", "named", "readable"),
    [
        ("{", "JSON", False),
        ("[" * 100_000, "nested", False),
        (json.dumps({"pad": "x" * 1_100_000}), "1 MB", False),
        (json.dumps({"format": "other"}), "format", False),
        (json.dumps(UNKNOWN), "'none'", True),
    ],
    ids=["not JSON", "deep", "large", "another format", "unknown type"],
)
def test_an_import_with_problems_shows_them_and_changes_nothing(
    studio: Studio, content: str, named: str, readable: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline_file, "MAX_BYTES", 1024**2)
    app = open_page()
    app.file_uploader[0].set_value(("pipeline.json", content.encode(), "application/json")).run()
    assert not app.exception and len(app.error) == 1
    assert named in words(app)
    assert bool([button for button in app.button if button.key == "take-in"]) == readable
    assert library(studio).entries() == []


def test_a_good_import_is_opened(studio: Studio, canvas: Canvas, tmp_path: Path):
    write(tmp_path / "given.json", WINE)
    app = open_page()
    app.file_uploader[0].set_value(
        ("given.json", (tmp_path / "given.json").read_bytes(), "application/json")
    ).run()
    press(app, "Import")
    assert [library(studio).open(entry.id).pipeline for entry in library(studio).entries()] == [
        WINE
    ]
    assert canvas.drawn["pipeline"] == WINE
