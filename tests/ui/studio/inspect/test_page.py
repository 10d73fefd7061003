"""The Inspect page in its states: nothing yet, growing, grown, inspected, failed, damaged."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from engine.store import Artifact
from engine.values import Folder, Report
from engine.workspace import Workspace
from tests.run_events import append_stored
from tests.ui.studio.inspect.lab import (
    HOSTILE,
    RECORDS,
    finished,
    inspect_page,
    inspected_run,
    large,
    part,
    pipeline,
    record,
    small,
    with_images,
    with_input,
)
from tests.ui.studio.runs.lab import ERROR, STARTED, labels, words, written
from ui.studio.inspect import page
from ui.studio.inspect.forest_source import growth_text
from ui.studio.inspect.maps import MapGroup, link_rows, marks, payload, positions_in, some
from ui.studio.inspect.tables import row_story
from ui.studio.runs import run_view as view
from ui.studio.session import Studio

TABS = ["Growth", "Margins", "t-SNE", "One row", "Learners", "Screening"]


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    for module in (page, view):
        monkeypatch.setattr(module, "studio", lambda: made)
    return made


def tab_labels(test) -> list[str]:
    return [tab.label for tab in test.tabs]


def button(test, label: str):
    return next(each for each in test.button if each.label == label)


def charts(test) -> int:
    return len(test.get("plotly_chart"))


def grown_run(studio: Studio, folder: Path) -> tuple[str, Artifact]:
    """A finished run of a forest that nobody inspected."""
    folder.mkdir()
    about = {"content": {"model": {"layers": RECORDS, "params": {"metric": "accuracy"}}}}
    (folder / "forest.json").write_text(json.dumps(about))
    output = studio.store.put("model", Folder(folder))
    events = [
        ("finished", "forest", finished(output, "model")),
        ("run-finished", None, {"state": "done"}),
    ]
    return written(studio, pipeline(inspected=False), events), output


# The list


def test_without_a_forest_the_page_says_what_to_do(studio: Studio):
    test = inspect_page()
    assert not test.exception and len(test.info) == 1 and not test.dataframe


def test_the_list_has_the_newest_forests_first_with_a_score(studio: Studio, tmp_path: Path):
    grown_run(studio, tmp_path / "model")
    inspected_run(studio, small())
    test = inspect_page()
    assert not test.exception
    table = test.dataframe[0].value
    assert list(table["Forest"]) == ["Deep forest", "Deep forest"]
    assert list(table["Shows"]) == ["all parts", "growth, margins, learners"]
    rows = "out-of-fold (as in the papers; too good from layer 2 on)"
    assert list(table["Score"]) == [f"Accuracy 92.0 %, {rows}", f"Accuracy 95.0 %, {rows}"]


@pytest.mark.parametrize("tab", TABS)
def test_all_forests_leads_back_to_the_list_from_every_tab(studio: Studio, tab: str):
    run, _ = inspected_run(studio, small())
    test = inspect_page(tab, run=run, node="inspect", **{"with": f"{run}/forest"})
    button(test, "All forests").click().run()
    assert not test.exception and "Click a forest" in words(test)
    assert not test.query_params


# An inspection


@pytest.mark.parametrize("tab", TABS)
def test_every_part_of_an_inspection_is_drawn_and_names_of_others_are_shown_as_text(
    studio: Studio, tab: str
):
    run, _ = inspected_run(studio, small((HOSTILE, "yes")), label=HOSTILE)
    test = inspect_page(tab, run=run, node="inspect")
    assert not test.exception and not test.warning and not test.error
    assert tab_labels(test) == TABS
    assert tab == "t-SNE" or charts(test) > 0
    shown = "\n".join(
        str(element.value) for element in [*test.markdown, *test.caption, *test.subheader]
    )
    assert "<img" not in shown.replace("\\<", "")


@pytest.mark.parametrize(
    ("tab", "opened", "field"),
    [("One row", "One row", "Row"), ("Learners", "Learners", "Metric"), ("No", "Growth", None)],
)
def test_the_address_names_the_tab_that_is_open(
    studio: Studio, tab: str, opened: str, field: str | None
):
    run, _ = inspected_run(studio, small())
    test = inspect_page(tab, run=run, node="inspect")
    assert not test.exception and test.session_state["tab"] == opened
    assert {box.label for box in test.selectbox} & {"Row", "Metric"} == (
        {field} if field else set()
    )


def test_growth_says_whether_depth_paid(studio: Studio, tmp_path: Path):
    run, _ = grown_run(studio, tmp_path / "model")
    shown = words(inspect_page("Growth", run=run, node="forest"))
    assert "Layer 2 gained 0.0100 accuracy, out-of-fold" in shown


@pytest.mark.parametrize("tab", TABS)
def test_every_plot_has_words_under_it(studio: Studio, tab: str):
    run, _ = inspected_run(studio, small())
    test = inspect_page(tab, run=run, node="inspect")
    words_of_page = 1
    assert len(test.caption) - words_of_page >= max(charts(test), 1)


def test_plots_of_growth_that_stand_side_by_side_are_of_one_height(studio: Studio):
    run, _ = inspected_run(studio, small())
    first, second = inspect_page("Growth", run=run, node="inspect").get("plotly_chart")[:2]
    assert (
        json.loads(first.proto.spec)["layout"]["height"]
        == json.loads(second.proto.spec)["layout"]["height"]
    )


@pytest.mark.parametrize("tab", ["Growth", "t-SNE", "One row", "Screening"])
def test_rows_without_a_class_leave_out_what_cannot_be_judged(studio: Studio, tab: str):
    run, _ = inspected_run(studio, small(truth=(-1, -1, -1, -1)))
    test = inspect_page(tab, run=run, node="inspect")
    assert not test.exception and not test.warning
    if tab == "t-SNE":
        assert test.segmented_control(key="inspect-colour-class").options == ["Class"]
        assert "no true classes" in words(test)


def test_a_row_is_chosen_by_its_number(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("One row", run=run, node="inspect")
    assert test.selectbox(key="inspect-row").value == 5, "the surest mistake is shown first"
    assert " ".join(row_story(small(), 2)) in words(test)
    test.selectbox(key="inspect-row").set_value(4).run()
    assert " ".join(row_story(small(), 1)) in words(test)


def test_rows_to_choose_from_say_their_class_and_whether_it_is_predicted(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("One row", run=run, node="inspect")
    assert test.selectbox(key="inspect-row").options == [
        "Row 2 · class no · right",
        "Row 4 · class yes · right",
        "Row 5 · class yes · wrong: no",
        "Row 9 · class no · right",
    ]
    run, _ = inspected_run(studio, small(truth=(-1, -1, -1, -1)))
    test = inspect_page("One row", run=run, node="inspect")
    assert test.selectbox(key="inspect-row").options[0] == "Row 2 · predicted no"


def test_rows_that_changed_their_class_are_listed(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("One row", run=run, node="inspect")
    test.segmented_control(key="inspect-row-list").set_value("Changed their class").run()
    assert test.dataframe[0].value["row"].tolist() == [4]


def test_the_slider_changes_what_would_leave(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("Screening", run=run, node="inspect")
    assert "With a = 0.10: " in words(test)
    test.slider(key="inspect-share").set_value(0.9).run()
    assert not test.exception and "With a = 0.90: " in words(test)


def test_a_sentence_says_that_no_row_leaves_early(studio: Studio):
    run, _ = inspected_run(studio, large(rows=40, depth=1))
    test = inspect_page("Screening", run=run, node="inspect")
    assert not test.exception and not charts(test)
    happened, would = (each.value for each in test.info)
    assert happened.startswith("No row leaves before the last layer.")
    assert would == "With a = 0.10: No row leaves before the last layer."


def test_colours_of_probabilities_are_described_for_both_themes(studio: Studio):
    run, _ = inspected_run(studio, small())
    shown = words(inspect_page("One row", run=run, node="inspect"))
    assert "The stronger the blue, the more probable." in shown and "dark" not in shown.lower()


@pytest.mark.parametrize("tab", ["t-SNE", "One row"])
def test_images_are_offered_only_where_columns_can_be_pixels(studio: Studio, tab: str):
    pixels = with_images(small())
    mixed = pixels.sample.set_column(0, "pixel_0_0", pa.array([1.0, 900.0, 4000.0, 8000.0]))
    for layers, is_offered in ((pixels, True), (replace(pixels, sample=mixed), False)):
        run, _ = inspected_run(studio, layers)
        test = inspect_page(tab, run=run, node="inspect")
        assert not test.exception
        shapes = [each for each in test.text_input if each.label == "Shape of the images"]
        assert bool(shapes) is is_offered


def test_marked_rows_are_listed_and_stay_marked_in_another_colour(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("t-SNE", run=run, node="inspect")
    assert not test.dataframe
    button(test, "Mark all mistakes").click().run()
    assert test.dataframe[0].value["row"].tolist() == [5] and "1 row marked" in words(test)
    test.segmented_control(key="inspect-colour").set_value("margin").run()
    assert test.dataframe[0].value["row"].tolist() == [5], "another colour keeps the marks"
    assert "Unmark" not in labels(test), "the maps have a button for it"


def test_the_node_picker_leads_to_the_forest(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page(run=run)
    picker = test.selectbox(key="inspect-node-inspect")
    assert picker.value == "inspect"
    picker.set_value("forest").run()
    assert test.query_params["node"] == "forest"


# The score of the forest that is open


def two_forests(studio: Studio) -> str:
    """A run of two forests, each with its own evaluation and inspection."""
    nodes, edges, events = {}, [], []
    for name, label, accuracy in (("a", "MART cascade", 0.75), ("b", "mdDF", 0.25)):
        predict, evaluate, inspect = f"predict-{name}", f"evaluate-{name}", f"inspect-{name}"
        nodes[name] = Node(type="deep-forest", label=label)
        nodes[predict], nodes[evaluate] = Node(type="predict"), Node(type="evaluate")
        nodes[inspect] = Node(type="inspect-layers")
        edges += [
            Edge.between(f"{name}.model", f"{predict}.model"),
            Edge.between(f"{predict}.predictions", f"{evaluate}.predictions"),
            Edge.between(f"{name}.model", f"{inspect}.model"),
        ]
        report = Report("evaluation", "Another name", {"accuracy": accuracy, "positive": None})
        layers = with_input(small() if name == "a" else small(("no", "yes"), truth=(0, 1, 1, 1)))
        events += [
            ("finished", name, {"key": name, "seconds": 1.0, "outputs": {}}),
            ("finished", evaluate, finished(studio.store.put("report", report), "report")),
            ("finished", inspect, finished(studio.store.put("layers", layers), "layers")),
        ]
    events.append(("run-finished", None, {"state": "done"}))
    return written(studio, Pipeline(name="Two", nodes=nodes, edges=tuple(edges)), events)


@pytest.mark.parametrize(
    ("node", "score"),
    [("inspect-a", "MART cascade: Accuracy 75.0 %"), ("inspect-b", "mdDF: Accuracy 25.0 %")],
)
def test_the_score_is_that_of_the_forest_that_is_open(studio: Studio, node: str, score: str):
    shown = words(inspect_page("Growth", run=two_forests(studio), node=node))
    assert f"{score} in Evaluate" in shown
    assert shown.count("Accuracy 75.0 %") + shown.count("Accuracy 25.0 %") == 1


def test_the_list_names_forests_by_their_labels_with_their_own_scores(studio: Studio):
    two_forests(studio)
    table = inspect_page().dataframe[0].value
    assert list(table["Forest"]) == ["MART cascade", "mdDF"]
    assert list(table["Score"]) == ["Accuracy 75.0 %", "Accuracy 25.0 %"]


def test_a_forest_that_is_not_evaluated_has_the_score_of_its_training(
    studio: Studio, tmp_path: Path
):
    run, _ = grown_run(studio, tmp_path / "model")
    shown = words(inspect_page(run=run, node="forest"))
    assert "Deep forest: Accuracy 95.0 %, out-of-fold" in shown and "in training" in shown


# Two forests


@pytest.mark.parametrize(("tab", "plots"), [("Growth", 4), ("Margins", 2), ("t-SNE", 0)])
def test_two_forests_are_shown_side_by_side(studio: Studio, tab: str, plots: int):
    run = two_forests(studio)
    test = inspect_page(tab, run=run, node="inspect-a", **{"with": f"{run}/inspect-b"})
    assert not test.exception and not test.warning
    assert charts(test) == plots
    shown = words(test)
    assert "MART cascade: Accuracy 75.0 %" in shown and "mdDF: Accuracy 25.0 %" in shown
    assert tab != "t-SNE" or "same rows: marks are linked" in shown


def test_growth_of_two_forests_is_compared_by_one_metric_on_one_axis(studio: Studio):
    run = two_forests(studio)
    test = inspect_page("Growth", run=run, node="inspect-a", **{"with": f"{run}/inspect-b"})
    box = next(box for box in test.selectbox if box.label == "Metric")
    assert box.value == "accuracy" and box.options == ["Accuracy", "Log loss"]
    box.set_value("log_loss").run()
    first, second = (json.loads(each.proto.spec)["layout"] for each in test.get("plotly_chart")[:2])
    assert not test.exception and first["title"]["text"].startswith("Log loss")
    assert first["yaxis"]["range"] == second["yaxis"]["range"]


def test_marked_rows_show_what_both_forests_predict(studio: Studio):
    run = two_forests(studio)
    test = inspect_page("t-SNE", run=run, node="inspect-a", **{"with": f"{run}/inspect-b"})
    button(test, "Mark all mistakes").click().run()
    table = test.dataframe[0].value
    assert table["row"].tolist() == [5] and table["predicted by mdDF"].tolist() == ["no"]


def test_a_part_for_one_forest_says_so(studio: Studio):
    run = two_forests(studio)
    test = inspect_page("Learners", run=run, node="inspect-a", **{"with": f"{run}/inspect-b"})
    assert not test.exception and "This part shows MART cascade only." in words(test)


def test_a_second_forest_is_chosen_and_removed(studio: Studio):
    run = two_forests(studio)
    test = inspect_page("Growth", run=run, node="inspect-a")
    next(box for box in test.selectbox if box.label == "Compare with").set_value(
        f"{run}/inspect-b"
    ).run()
    assert test.query_params["with"] == f"{run}/inspect-b" and charts(test) == 4
    next(box for box in test.selectbox if box.label == "Compare with").set_value("").run()
    assert "with" not in test.query_params and charts(test) == 3


def test_forests_of_the_same_name_are_told_apart(studio: Studio):
    first, _ = inspected_run(studio, small())
    second, _ = inspected_run(studio, large(40, 2))
    test = inspect_page("t-SNE", run=first, node="inspect", **{"with": f"{second}/inspect"})
    shown = words(test)
    assert (
        not test.exception
        and "Deep forest: " in shown
        and re.search(r"Deep forest · [\d: -]+ · Digits: ", shown)
    )
    assert "The two inspections share 1 row:" in shown


@pytest.mark.parametrize("address", ["nope", "nope/forest", "{run}/nope", "{run}/"])
def test_a_second_forest_that_does_not_exist_is_reported(studio: Studio, address: str):
    run, _ = inspected_run(studio, small())
    test = inspect_page(run=run, node="inspect", **{"with": address.format(run=run)})
    assert not test.exception and charts(test) == 3
    assert [warning.value for warning in test.warning] == [
        "The second forest does not exist any more. Choose another one."
    ]


def test_a_second_forest_without_maps_or_whose_result_is_gone_is_reported(
    studio: Studio, tmp_path: Path
):
    run, _ = inspected_run(studio, small())
    other, output = grown_run(studio, tmp_path / "model")
    test = inspect_page("t-SNE", run=run, node="inspect", **{"with": f"{other}/forest"})
    assert not test.exception and "The second forest was not inspected" in words(test)
    (studio.workspace.objects / output.digest / "forest.json").unlink()
    test = inspect_page("t-SNE", run=run, node="inspect", **{"with": f"{other}/forest"})
    assert not test.exception and "was deleted" in test.warning[0].value


# Nearest rows


def test_one_row_has_its_nearest_rows_and_they_are_shown_in_the_maps(studio: Studio):
    run, _ = inspected_run(studio, with_input(small()))
    test = inspect_page("One row", run=run, node="inspect")
    assert not test.exception and "Nearest rows" in words(test)
    button(test, "Show them in the maps").click().run()
    assert test.session_state["tab"] == "t-SNE"
    assert test.dataframe[0].value["row"].tolist() == [2, 4, 5, 9]


def test_an_inspection_of_an_earlier_version_says_how_to_add_the_input(studio: Studio):
    run, _ = inspected_run(studio, small())
    test = inspect_page("t-SNE", run=run, node="inspect")
    assert "Run the Inspect layers node again" in test.info[0].value


def test_a_single_layer_is_shown_without_a_claim_about_depth(studio: Studio):
    layers = [record(1, reason="Accuracy 0.9000 to start with; growth stopped: 1 layer is allowed")]
    events = [("started", "forest", STARTED), *(part("forest", each) for each in layers)]
    run = written(studio, pipeline(inspected=False), events)
    test = inspect_page("Growth", run=run, node="forest")
    assert not test.exception and "A single layer was grown" in words(test)


# A forest alone


def test_a_grown_forest_shows_its_growth_and_how_to_see_more(studio: Studio, tmp_path: Path):
    run, _ = grown_run(studio, tmp_path / "model")
    test = inspect_page(run=run, node="forest")
    assert not test.exception and charts(test) == 3
    assert tab_labels(test) == ["Growth", "Margins", "Learners"]
    assert "Inspect layers" in test.info[0].value
    assert growth_text(RECORDS, growing=False) in words(test)


def growing(studio: Studio, *records: dict, alive: bool = True) -> str:
    events = [
        ("started", "forest", STARTED),
        *(part("forest", each) for each in records),
        ("progress", "forest", {"fraction": 0.4, "text": "layer 3: <b>5</b> of 20 fits"}),
    ]
    return written(studio, pipeline(inspected=False), events, alive=alive)


def test_a_growing_forest_shows_the_layers_finished_so_far(studio: Studio):
    run = growing(studio, *RECORDS[:2])
    test = inspect_page("Learners", run=run, node="forest")
    assert not test.exception and not test.warning and charts(test) > 0
    assert growth_text(RECORDS[:2], growing=True) in words(test)
    assert "\\<b\\>5\\</b\\> of 20 fits" in test.get("progress")[0].proto.text


def test_a_layer_that_finishes_appears_at_the_next_look(studio: Studio):
    run = growing(studio, *RECORDS[:1])
    test = inspect_page(run=run, node="forest")
    assert growth_text(RECORDS[:1], growing=True) in words(test)
    with studio.runs.log() as log:
        append_stored(log, run, "part", "forest", part="layer-2", data=RECORDS[1])
    assert growth_text(RECORDS[:2], growing=True) in words(test.run())


def test_before_the_first_layer_the_page_says_to_wait(studio: Studio):
    test = inspect_page(run=growing(studio), node="forest")
    assert len(test.info) == 1 and not charts(test) and not test.exception


def test_layers_of_a_failed_forest_stay_and_the_cause_is_told(studio: Studio):
    events = [
        ("started", "forest", STARTED),
        part("forest", RECORDS[0]),
        ("failed", "forest", {"error": ERROR}),
    ]
    run = written(
        studio, pipeline(inspected=False), [*events, ("run-finished", None, {"state": "failed"})]
    )
    test = inspect_page(run=run, node="forest")
    assert "no \\<b\\>rows" in test.error[0].value and charts(test) == 3


def test_a_failed_inspection_is_named_and_shows_only_what_the_forest_has(studio: Studio):
    events = [
        ("started", "forest", STARTED),
        part("forest", RECORDS[0]),
        ("finished", "forest", {"key": "f", "seconds": 2.0, "outputs": {}}),
        ("failed", "inspect", {"error": ERROR}),
        ("run-finished", None, {"state": "failed"}),
    ]
    run = written(studio, pipeline(), events)
    test = inspect_page(run=run, node="inspect")
    assert test.error[0].value.startswith("Inspect layers failed: ValueError")
    assert tab_labels(test) == ["Growth", "Margins", "Learners"]
    assert test.selectbox(key="inspect-node-inspect").options == [
        "Deep forest (inspection failed)",
        "Deep forest (growth, margins, learners)",
    ]
    assert list(inspect_page().dataframe[0].value["Shows"]) == ["growth, margins, learners"]


def test_a_cut_off_forest_says_so(studio: Studio):
    test = inspect_page(run=growing(studio, *RECORDS[:2], alive=False), node="forest")
    assert not test.exception and "interrupted" in words(test) and charts(test) == 3


def test_a_screening_forest_shows_who_left(studio: Studio):
    layers = [
        record(1, rows_out=60, error_out=0.05),
        record(2, rows_in=40, reason="growth stopped: enough"),
    ]
    events = [("started", "forest", STARTED), *(part("forest", each) for each in layers)]
    test = inspect_page(
        "Screening",
        run=written(studio, pipeline(inspected=False), events, alive=True),
        node="forest",
    )
    assert not test.exception and "60%" in words(test)


# What is not there


@pytest.mark.parametrize(
    "damage",
    [lambda path: path.unlink(), lambda path: path.write_text("{}")],
    ids=["gone", "damaged"],
)
def test_a_damaged_inspection_is_told_plainly(studio: Studio, damage):
    run, output = inspected_run(studio, small())
    damage(studio.workspace.objects / output.digest / "layers.json")
    test = inspect_page(run=run, node="inspect")
    assert not test.exception and len(test.warning) == 1 and not charts(test)


def test_a_model_without_layers_is_told_plainly(studio: Studio, tmp_path: Path):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "model.json").write_text("{}")
    output = studio.store.put("model", Folder(tmp_path / "odd"))
    run = written(
        studio, pipeline(inspected=False), [("finished", "forest", finished(output, "model"))]
    )
    test = inspect_page(run=run, node="forest")
    assert not test.exception and len(test.warning) == 1 and not charts(test)


@pytest.mark.parametrize(
    ("address", "told"),
    [({"run": "nope"}, "nope"), ({"node": "<b>"}, "it has 'Deep forest (all parts)'")],
)
def test_an_address_that_leads_nowhere_says_so_and_leads_back(
    studio: Studio, address: dict, told: str
):
    run, _ = inspected_run(studio, small())
    test = inspect_page(**({"run": run} | address))
    assert not test.exception and told in test.error[0].value and "All forests" in labels(test)


def test_a_run_that_is_deleted_stays_while_its_page_is_open_and_is_then_reported(studio: Studio):
    run, _ = inspected_run(studio, small())
    other, _ = inspected_run(studio, large(40, 2))
    test = inspect_page(run=run, node="inspect")
    with studio.runs.log() as log:
        log.remove_runs([run])
    assert not test.run().exception
    again = inspect_page(run=run, node="inspect")
    assert not again.exception and run in again.error[0].value and "All forests" in labels(again)
    beside = inspect_page(run=other, node="inspect", **{"with": f"{run}/inspect"})
    assert not beside.exception and "does not exist any more" in beside.warning[0].value


# The maps


def test_the_browser_is_given_names_as_data_and_numbers_packed():
    groups = [MapGroup("mdDF", small((HOSTILE, "yes")), "d")]
    data = payload(groups, link_rows(groups), [2], "t-sne")
    assert data["classes"] == [HOSTILE, "yes"] and data["id"] == "d mdDF 2"
    (layer,) = data["groups"][0]["layers"]
    assert layer["number"] == 2 and layer["title"] == "Layer 2"
    assert layer["caption"].endswith("accuracy 66.7%")
    assert json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    ("told", "rows"),
    [([3, 1, 1], (1, 3)), ([0, 9, -1, "2", True, None], (0,)), ("x", ()), (None, ())],
)
def test_only_positions_that_exist_are_taken_from_a_browser(told: object, rows: tuple[int, ...]):
    assert positions_in(told, 4) == rows


def test_of_many_layers_some_are_shown_the_first_and_the_last_among_them():
    assert some([1, 2, 3], 8) == [1, 2, 3]
    assert some(list(range(1, 21)), 4) == [1, 7, 14, 20]


def test_marks_of_another_inspection_are_forgotten():
    held = marks("a")
    held.change([1, 2])
    assert marks("a").rows == (1, 2) and marks("b").rows == ()
