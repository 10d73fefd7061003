"""The Compare page, drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from engine.node_types import NodeContext
from engine.pipeline import Node
from engine.values import Predictions, Report
from engine.workspace import Files
from nodes import evaluate
from tests.ui.studio.compare.lab import judged_run, pipeline
from tests.ui.studio.runs.lab import DONE, labels, press, words, written
from ui.studio.compare import page as compare
from ui.studio.compare.leaderboard import Evaluations, groups_of, names_of
from ui.studio.compare.page import preset_values
from ui.studio.runs import run_view
from ui.studio.session import Studio

HOSTILE = "<img src=x onerror=alert(1)> *bold* [x](http://y)"


def _page() -> None:
    from ui.studio.compare.page import page

    page()


@pytest.fixture(autouse=True)
def shown(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compare, run_view):
        monkeypatch.setattr(module, "studio", lambda: studio)


def compare_page(tab: str = "Curves", **address: str) -> AppTest:
    test = AppTest.from_function(_page, default_timeout=30)
    test.session_state["compare-tabs"] = tab
    for name, value in address.items():
        test.query_params[name] = value
    return test.run()


def full(title: str, auc: float, *, rows: int = 20_000, label: str = "fraud") -> Report:
    """An evaluation as the node makes it, in miniature."""
    points = {
        "false_positive_rate": [0.0, 1.0],
        "true_positive_rate": [0.0, 1.0],
        "threshold": [None, 0.5],
    }
    curve = {"recall": [0.5, 1.0], "precision": [1.0, 0.5], "threshold": [0.9, 0.1]}
    return Report(
        "evaluation",
        title,
        {
            "auc": auc,
            "log_loss": 1 - auc,
            "positive": label,
            "rows": rows,
            "recall_at_1_in_100": auc,
        },
        [{"class": "fine", "rows": rows - 10}, {"class": label, "rows": 10}],
        {
            "classes": ["fine", label],
            "positive": label,
            "curves": [{"class": label, "share": 0.1, "roc": points, "precision_recall": curve}],
            "confusion": {
                "labels": ["fine", label],
                "counts": [[rows - 10, 0], [5, 5]],
                "threshold": None,
            },
        },
    )


def board(test: AppTest) -> list[dict[str, Any]]:
    return test.dataframe[0].value.to_dict("records")


def open_tab(test: AppTest, name: str) -> AppTest:
    test.session_state["compare-tabs"] = name
    return test.run()


def test_the_settings_of_a_preset_are_known() -> None:
    forest = Node(type="deep-forest", params={"preset": "mddf"})
    values = preset_values(forest)
    assert values["folds"] == 5 and values["learners"][0]["kind"] == "random_forest"
    # The default preset has other learners for many classes.
    assert isinstance(preset_values(Node(type="deep-forest"))["learners"], str)
    assert preset_values(Node(type="mart")) == {}
    odd = Node(type="deep-forest", params={"preset": ["mddf"]})
    assert preset_values(odd) == {}


def test_an_empty_workspace_says_how_to_get_there(studio: Studio) -> None:
    test = compare_page()
    assert not test.exception
    assert len(test.info) == 1 and "Evaluate" in test.info[0].value and not test.dataframe


def test_runs_without_an_evaluation_say_so(studio: Studio) -> None:
    judged_run(studio, pipeline(one="mart"))
    test = compare_page()
    assert len(test.info) == 1 and not test.dataframe


def test_the_board_is_ranked_by_the_chosen_measure(studio: Studio) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("Low", 0.6))
    judged_run(studio, pipeline(one="random-forest"), evaluate_one=full("High", 0.9))
    test = compare_page()
    assert not test.exception
    assert [(row["evaluation"], row["model"], row["auc"]) for row in board(test)] == [
        ("High", "Random forest", 0.9),
        ("Low", "MART", 0.6),
    ]
    test.selectbox(key="compare-measure").set_value("log_loss").run()
    assert [row["evaluation"] for row in board(test)] == ["High", "Low"]
    assert board(test)[0]["log_loss"] < board(test)[1]["log_loss"]


def test_the_address_names_the_runs_and_what_is_not_there_is_said(studio: Studio) -> None:
    runs = [
        judged_run(studio, pipeline(one="mart"), evaluate_one=full(f"E{n}", n / 10))
        for n in (5, 6, 7)
    ]
    test = compare_page(runs=f"{runs[0]},{runs[2]},{runs[0]},[x](http://y)")
    assert [row["evaluation"] for row in board(test)] == ["E7", "E5"]
    assert (
        len(test.warning) == 1
        and "http" in test.warning[0].value
        and "[x](" not in test.warning[0].value
    )
    press(test, "2 runs chosen")
    assert len(board(test)) == 3
    assert "runs" not in test.query_params


def test_results_on_other_test_rows_are_on_another_board_with_a_letter_that_stays(
    studio: Studio,
) -> None:
    first = judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    second = judged_run(studio, pipeline(one="mart"), evaluate_one=full("B", 0.8, rows=500))
    test = compare_page()
    choice = test.selectbox(key="compare-rows")
    assert [option.split(" test rows")[0] for option in choice.options] == ["A: 20,000", "B: 500"]
    assert choice.value == "B" and [row["evaluation"] for row in board(test)] == ["B"]
    choice.set_value("A").run()
    assert [row["evaluation"] for row in board(test)] == ["A"]
    test.selectbox(key="compare-latest").set_value(20).run()
    assert test.selectbox(key="compare-rows").value == "A"
    for run, letter in ((first, "A"), (second, "B")):
        alone = compare_page(runs=run)
        assert [row["evaluation"] for row in board(alone)] == [letter]
        data = Evaluations(studio.runs)
        with studio.runs.log() as log:
            groups = groups_of(data.lines(log.runs()))
        assert {group.lines[0].name: group.letter for group in groups}[letter] == letter


def test_repeats_of_a_result_are_one_line(studio: Studio) -> None:
    for _ in range(3):
        judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    test = compare_page("Runs")
    assert [row["runs"] for row in board(test)] == ["3 runs with the same result"]
    assert labels(test).count("Open run") == 3


def test_no_id_is_on_the_page(studio: Studio) -> None:
    run = judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    for tab in ("Curves", "Settings", "Runs"):
        test = compare_page(tab)
        shown = f"{board(test)} {words(test)}"
        assert run not in shown and "evaluate_one" not in shown


def scored(skill: float) -> Predictions:
    truth = np.random.default_rng(3).random(400) < 0.4
    noise = np.random.default_rng(int(1000 * skill)).random(400)
    score = np.clip(truth * skill + noise * (1 - skill), 0, 1)
    names = pa.array(np.where(truth, "yes", "no"))
    return Predictions(np.column_stack([1 - score, score]), ["no", "yes"], "M", names)


def evaluated_run(studio: Studio, folder: Path, **skills: float) -> str:
    """A run whose evaluations are of stored predictions."""
    document = pipeline(**dict.fromkeys(skills, "mart"))
    events = []
    for name, skill in skills.items():
        predictions = scored(skill)
        ctx = NodeContext(f"evaluate_{name}", "0" * 64, Files(folder), folder)
        params = evaluate.EvaluateParams(name=name)
        report = evaluate.run(ctx, {"predictions": predictions}, params)["report"]
        for node, port, value in (
            (f"predict_{name}", "predictions", predictions),
            (f"evaluate_{name}", "report", report),
        ):
            output = studio.store.put(port, value).to_dict()
            events.append(("finished", node, {**DONE, "outputs": {port: output}}))
    nodes = dict(document.nodes)
    for name in skills:
        label = {"label": name.capitalize()}
        nodes[f"evaluate_{name}"] = nodes[f"evaluate_{name}"].model_copy(update=label)
    document = document.model_copy(update={"nodes": nodes})
    return written(studio, document, [*events, ("run-finished", None, {"state": "done"})])


def test_a_difference_that_the_rows_do_not_show_is_a_tie(studio: Studio, tmp_path: Path) -> None:
    evaluated_run(studio, tmp_path, good=0.3, alike=0.298, bad=0.1)
    test = compare_page()
    assert not test.exception
    rows = board(test)
    assert [row["evaluation"] for row in rows] == ["Good", "Alike", "Bad"], "labels are names"
    assert [row["difference"].split()[-1] for row in rows] == ["best", "tie", "worse"]
    for row in rows:
        low, high = map(float, row["interval"].split("–"))
        assert low < row["auc"] < high <= 1
    assert "A tie with Good: Alike." in words(test)
    assert "more rows would decide a difference of this size" in words(test)
    assert not any(column.endswith(("_low", "_high")) for column in rows[0]), "only in the file"


@pytest.mark.parametrize(
    ("tab", "charts"), [("Curves", 2), ("Recall at rates", 1), ("Confusion", 2)]
)
def test_ticked_lines_are_drawn_side_by_side(studio: Studio, tab: str, charts: int) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full(HOSTILE, 0.6, label=HOSTILE))
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("Other", 0.9, label=HOSTILE))
    test = compare_page(tab)
    assert not test.exception
    drawn = test.get("plotly_chart")
    assert len(drawn) == charts
    assert "<img" not in "".join(str(chart.proto) for chart in drawn)
    assert "[x](" not in "".join(str(each.value) for each in [*test.markdown, *test.caption])


def test_settings_of_two_runs_that_differ_are_told(studio: Studio) -> None:
    one, other = pipeline(one="mart"), pipeline(one="mart", two="mlp")
    judged_run(studio, one, evaluate_one=full("A", 0.9))
    judged_run(studio, other, evaluate_one=full("A", 0.8))
    test = compare_page("Settings")
    rows = test.dataframe[1].value.to_dict("records")
    assert [(row["Node"], row["Setting"]) for row in rows] == [
        ("Neural network", "Node"),
        ("Predict 2", "Node"),
        ("Evaluate 2", "Node"),
    ]


def test_runs_are_told_apart_by_what_changed(studio: Studio) -> None:
    one = pipeline(one="mart")
    more = Node(type="mart", params={"trees": 500})
    other = one.model_copy(update={"nodes": {**one.nodes, "one": more}})
    judged_run(studio, one, evaluate_one=full("A", 0.8))
    judged_run(studio, other, evaluate_one=full("A", 0.9))
    test = compare_page("Curves")
    assert not test.exception
    assert list(test.dataframe[0].value["changed"]) == ["trees 100 → 500", ""]
    with studio.runs.log() as log:
        lines = Evaluations(studio.runs).lines(log.runs())
    run = max(lines, key=lambda line: line.started).run
    assert set(names_of(lines, {run: "trees 100 → 500"})) == {"A", "A · trees 100 → 500"}


def test_a_change_is_told_in_a_few_words() -> None:
    added = {"Node": "MART", "Setting": "Node", "a": "missing", "b": "present"}
    trees = {"Node": "MART", "Setting": "Trees", "a": "1", "b": "2"}
    assert compare.change_text([added, trees], "a", "b") == "MART added and 1 more"
    assert compare.change_text([added], "b", "a") == "MART removed"
    assert compare.change_text([], "a", "b") == ""


def test_a_damaged_evaluation_is_left_out_with_a_sentence(studio: Studio) -> None:
    odd = Report("evaluation", "Odd", {"rows": "many"})
    document = pipeline(one="mart", two="mart")
    judged_run(studio, document, evaluate_one=odd, evaluate_two=full("A", 0.9))
    test = compare_page()
    assert not test.exception and len(test.dataframe[0].value) == 1
    assert "cannot be read" in test.warning[0].value and "Pipe" in test.warning[0].value


def test_one_run_has_nothing_to_differ_from(studio: Studio) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    test = compare_page("Settings")
    assert not test.exception and len(test.dataframe) == 1, "the board alone"


def test_each_run_can_be_opened_and_a_deep_forest_inspected(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    test = compare_page("Runs")
    assert {"Open run", "Open this pipeline"} <= set(labels(test)) and "Inspect" not in labels(test)
    opened: list[str] = []
    monkeypatch.setattr(run_view, "open_pipeline", opened.append)
    press(test, "Open this pipeline")
    with studio.runs.log() as log:
        assert opened == [log.runs()[0].id]


def test_an_evaluation_that_is_no_longer_stored_is_named(studio: Studio, tmp_path: Path) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("B", 0.8))
    test = compare_page("Settings")
    for path in studio.workspace.objects.rglob("report.json"):
        if '"B"' in path.read_text():
            path.unlink()
    open_tab(test, "Confusion")
    assert len(test.warning) == 1 and re.search(r"\bB\b", test.warning[0].value)
    assert len(test.get("plotly_chart")) == 1


@pytest.mark.parametrize(
    "address", ["", ",,,", "a" * 5000, "' OR 1=1 --", ",".join(str(n) for n in range(3000))]
)
def test_any_address_draws_a_page(studio: Studio, address: str) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    assert not compare_page(runs=address).exception
