"""The Compare page, drawn."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.values import Report
from tests.ui.studio.compare.lab import judged_run, pipeline
from tests.ui.studio.runs.lab import labels, press, words
from ui.studio.compare import page as compare
from ui.studio.compare.leaderboard import Evaluations, ranked
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
    assert [row["run"] for row in board(test)] == [runs[2], runs[0]]
    assert (
        len(test.warning) == 1
        and "http" in test.warning[0].value
        and "[x](" not in test.warning[0].value
    )
    press(test, "2 runs chosen")
    assert len(board(test)) == 3
    assert "runs" not in test.query_params


def test_different_data_is_warned_about_and_can_be_chosen(studio: Studio) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("A", 0.9))
    judged_run(studio, pipeline(one="mart"), evaluate_one=full("B", 0.8, rows=500))
    test = compare_page()
    assert len(test.selectbox(key="compare-data").options) == 2
    assert not test.warning, "at first only lines of the same data are ticked"
    with studio.runs.log() as log:
        order = ranked(Evaluations(studio.runs).lines(log.runs()), "auc")
    test.session_state[compare.table_key(order)] = {
        "selection": {"rows": [0, 1], "columns": [], "cells": []}
    }
    test.run()
    assert len(test.warning) == 1
    choice = test.selectbox(key="compare-data")
    choice.set_value(choice.options[0]).run()
    assert len(board(test)) == 1
    assert "different sets" not in words(test)


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
    judged_run(studio, other, evaluate_one=full("B", 0.8))
    test = compare_page("Settings")
    rows = test.dataframe[1].value.to_dict("records")
    assert [(row["Node"], row["Setting"]) for row in rows] == [
        ("Neural network", "Node"),
        ("Predict 2", "Node"),
        ("Evaluate 2", "Node"),
    ]


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
