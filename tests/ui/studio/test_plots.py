from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from engine.node_types import NodeContext
from engine.values import Predictions, Report
from engine.workspace import Files
from nodes import compare, evaluate
from nodes.data.column_statistics import Bars, bars_by_class, column_bars
from ui.studio import plots
from ui.studio.plots.style import COLOURS, legend_name
from ui.studio.previews.thresholds import money_span

HOSTILE = "<img src=x onerror=alert(1)>"


def context(tmp_path: Path) -> NodeContext:
    return NodeContext("judge", "0" * 64, Files(tmp_path), tmp_path)


def evaluation(
    tmp_path: Path,
    classes: list[str],
    *,
    present: int | None = None,
    rows: int = 200,
    seed: int = 0,
) -> Report:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, present or len(classes), rows)
    scores = rng.random((rows, len(classes))) + np.eye(len(classes))[truth]
    predictions = Predictions(
        scores / scores.sum(axis=1, keepdims=True),
        classes,
        "Model",
        pa.array([classes[code] for code in truth]),
    )
    return evaluate.run(context(tmp_path), {"predictions": predictions}, evaluate.EvaluateParams())[
        "report"
    ]


def comparison(tmp_path: Path, classes: list[str]) -> Report:
    reports = [evaluation(tmp_path, classes, seed=seed) for seed in (1, 2, 3)]
    return compare.run(context(tmp_path), {"reports": reports}, compare.CompareParams())["report"]


def drawn(figure) -> dict:
    """The figure as the browser gets it; strict JSON."""
    return json.loads(
        figure.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )


def texts(part) -> list[str]:
    """Every text of a figure, wherever it is."""
    if isinstance(part, dict):
        return [text for each in part.values() for text in texts(each)]
    if isinstance(part, list):
        return [text for each in part for text in texts(each)]
    return [part] if isinstance(part, str) else []


def all_plots(report: Report) -> dict:
    data = report.data
    return {
        "roc": plots.roc_curves(data["curves"]),
        "pr": plots.precision_recall_curves(data["curves"]),
        "confusion": plots.confusion_matrix(
            data["confusion"]["labels"], data["confusion"]["counts"]
        ),
        "scores": plots.class_scores(report.rows),
    }


CLASSES = {
    "two": ["no", "yes"],
    "thirty": [f"class number {index} with a rather long name" for index in range(30)],
    "hostile": [HOSTILE, "%{x} $a$ **b**", "<b>bold</b>"],
}


@pytest.mark.parametrize("names", CLASSES)
def test_every_plot_of_an_evaluation_has_a_title_sizes_and_axes(tmp_path, names):
    for figure in all_plots(evaluation(tmp_path, CLASSES[names])).values():
        about = drawn(figure)
        assert about["layout"]["title"]["text"] and about["layout"]["height"] >= 200
        assert (
            about["layout"]["paper_bgcolor"] == about["layout"]["plot_bgcolor"] == "rgba(0,0,0,0)"
        )
        assert about["data"]


def test_no_text_of_a_user_is_html(tmp_path):
    rows = [{"name": HOSTILE, "auc": 0.5}]
    layers = [
        {
            "number": 1,
            "score": 0.5,
            "kept": True,
            "reason": HOSTILE,
            "learners": [{"name": HOSTILE, "scores": {"auc": 0.4}}],
        }
    ]
    figures = [
        *all_plots(evaluation(tmp_path, CLASSES["hostile"])).values(),
        plots.leaderboard(rows, "auc", HOSTILE),
        plots.category_counts([HOSTILE], [1], HOSTILE, {HOSTILE: [1]}),
        plots.histogram(Bars("number", [1], [0.0, 1.0]), HOSTILE, {HOSTILE: [1]}),
        plots.probability_histogram([0.0, 1.0], {HOSTILE: [3]}),
        plots.importances([{"column": HOSTILE, "importance": 1.0, "kept": True}]),
        plots.growth(layers, "auc", HOSTILE),
        plots.overlaid_curves([{"name": HOSTILE, "curves": []}], "roc"),
    ]
    for figure in figures:
        tags = {tag for text in texts(drawn(figure)) for tag in re.findall(r"<[^>]*>", text)}
        assert tags <= {"<br>", "<extra>", "</extra>"}


def test_a_name_is_never_part_of_a_template(tmp_path):
    for figure in all_plots(evaluation(tmp_path, CLASSES["hostile"])).values():
        for trace in drawn(figure)["data"]:
            assert "$a$" not in trace.get("hovertemplate", "")


def test_long_names_that_are_alike_when_cut_stay_apart_and_are_whole_under_the_mouse(tmp_path):
    report = evaluation(tmp_path, CLASSES["thirty"])
    figure = drawn(all_plots(report)["confusion"])
    axis = figure["layout"]["yaxis"]
    assert len(axis["tickvals"]) == len(set(axis["tickvals"])) == 30
    assert max(map(len, axis["ticktext"])) <= 18
    assert figure["data"][0]["customdata"][29][0][0] == CLASSES["thirty"][29]


def test_a_small_confusion_matrix_is_numbered_and_a_large_one_only_coloured(tmp_path):
    small = plots.confusion_matrix(["a", "b"], [[9, 1], [0, 0]])
    written = [text for trace in small.data[1:] for text in trace.text]
    assert sorted(written) == ["1", "9"]
    assert [list(row) for row in small.data[0].z] == [[0.9, 0.1], [0.0, 0.0]]
    assert len(all_plots(evaluation(tmp_path, CLASSES["thirty"]))["confusion"].data) == 1


def rgb(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def laid_on(page: list[float], clear: str) -> list[float]:
    """What is seen where a colour that lets the page shine through lies on it."""
    *inks, share = map(float, re.findall(r"[\d.]+", clear))
    return [ink * share + under * (1 - share) for ink, under in zip(inks, page, strict=True)]


def contrast(one: list[float], other: list[float]) -> float:
    """As the WCAG reckon it; 4.5 is enough for small text."""
    bright = []
    for colour in (one, other):
        parts = [part / 255 for part in colour]
        parts = [
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        bright.append(0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05)
    return max(bright) / min(bright)


@pytest.mark.parametrize(
    ("dark", "page"), [(False, "#ffffff"), (True, "#0e1117"), (True, "#262730")]
)
def test_counts_are_read_on_every_cell_in_either_theme(dark, page):
    figure = plots.confusion_matrix(["a", "b"], [[9, 1], [5, 5]])
    cells, counts = (plots.for_dark(figure) if dark else figure).data
    ink = "#ffffff" if counts.textfont.color == "white" else counts.textfont.color
    seen = [laid_on(rgb(page), colour) for _, colour in cells.colorscale]
    assert min(contrast(rgb(ink), ground) for ground in seen) >= 4.5
    assert contrast(*seen) >= 2.5  # weak and strong cells are told apart


def test_an_absent_class_has_no_curve_and_no_scores(tmp_path):
    report = evaluation(tmp_path, ["a", "b", "absent"], present=2)
    figures = all_plots(report)
    assert [trace.name for trace in figures["roc"].data] == ["a", "b"]
    assert figures["scores"].data[1].x[2] is None


def test_without_any_curve_the_plot_says_so(tmp_path):
    report = evaluation(tmp_path, ["no", "yes"], present=1)
    assert report.data["curves"][0]["roc"] is None
    assert "No curve" in all_plots(report)["roc"].layout.annotations[0].text


def test_curves_are_told_apart_by_colour_and_then_by_dash(tmp_path):
    report = evaluation(tmp_path, CLASSES["thirty"], rows=600)
    looks = [(trace.line.color, trace.line.dash) for trace in all_plots(report)["roc"].data]
    assert len(looks) == len(set(looks)) == 12 > len(COLOURS)


def test_a_comparison_overlays_one_class_of_all_models(tmp_path):
    report = comparison(tmp_path, ["a", "b", "c"])
    figure = plots.overlaid_curves(report.data["curves"], "precision_recall", "b")
    assert [trace.name for trace in figure.data] == [row["name"] for row in report.rows]
    curve = next(each for each in report.data["curves"][0]["curves"] if each["class"] == "b")
    assert list(figure.data[0].y) == curve["precision_recall"]["precision"]


def test_a_leaderboard_writes_each_value_and_says_which_way_is_better(tmp_path):
    figure = plots.leaderboard(
        [{"name": "a", "log_loss": 0.1}, {"name": "b", "log_loss": None}],
        "log_loss",
        "Log loss",
        greater_is_better=False,
    )
    assert list(figure.data[0].text) == ["0.1000", "no value"]
    assert "lower is better" in figure.layout.xaxis.title.text


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, math.inf],
        list(range(100)),
        ["a", "b", "b"],
        [True, False, True],
        pa.array([0, 10**15, 10**15], pa.timestamp("us")),
        pa.array([-(2**62), 0, 2**62], pa.timestamp("s")),
    ],
)
def test_any_column_can_be_drawn_whole_and_split(values):
    column = pa.chunked_array([values if isinstance(values, pa.Array) else pa.array(values)])
    bars = column_bars(column)
    whole = plots.histogram(bars, "x").data
    assert len(whole) == 1
    classes = pa.chunked_array([pa.array((["no", "yes"] * len(column))[: len(column)])])
    split = plots.histogram(*_named(bars_by_class(column, classes))).data
    assert [trace.name for trace in split] == ["no", "yes"]


def _named(parts):
    bars, by_class = parts
    return bars, "x", by_class


@pytest.mark.parametrize(
    "bars", [Bars("number", [3, 97], [0.0, 1.0, 2.0]), Bars("values", [3, 97], labels=["a", "b"])]
)
def test_with_shares_a_rare_class_is_seen_beside_a_frequent_one(bars):
    figure = plots.histogram(
        bars, "x", {"no": [1, 97], "yes": [2, 0], "never": [0, 0]}, shares=True
    )
    amounts = [list(trace.y if bars.scale == "number" else trace.x) for trace in figure.data]
    assert amounts == [[1 / 98, 97 / 98], [1.0, 0.0], [0.0, 0.0]]


def test_a_sample_is_named_as_one():
    assert (
        plots.histogram(Bars("number", [1], [0.0, 1.0], sampled=True), "x").layout.yaxis.title.text
        == "Rows in a sample"
    )


def test_kept_layers_are_full_marks_and_dropped_ones_hollow():
    layers = [
        {
            "number": n,
            "score": 0.9,
            "kept": n == 1,
            "reason": "",
            "learners": [{"name": "f", "scores": {"accuracy": None}}],
        }
        for n in (1, 2)
    ]
    marks = {trace.name: trace for trace in plots.growth(layers, "accuracy", "Accuracy").data}
    assert list(marks["Kept layer"].x) == [1] and marks["Kept layer"].marker.symbol == "circle"
    assert (
        list(marks["Dropped layer"].x) == [2]
        and marks["Dropped layer"].marker.symbol == "circle-open"
    )


def test_many_importances_are_cut_and_the_title_says_so():
    figure = plots.importances(
        [{"column": f"c{i}", "importance": 0.01, "kept": i < 5} for i in range(100)]
    )
    assert len(figure.data[0].x) == 40 and "first 40 of 100" in figure.layout.title.text
    assert len(set(figure.data[0].marker.color)) == 2


def test_pictures_can_be_saved_and_no_logo_is_shown():
    assert plots.CONFIG["displaylogo"] is False
    assert "toImage" not in plots.CONFIG["modeBarButtonsToRemove"]


def test_long_names_are_wrapped_in_a_legend_that_has_room_for_all_lines():
    points = {"recall": [0.0, 1.0], "precision": [1.0, 0.0]}
    curves = [{"class": "yes", "precision_recall": points}]
    name = "MART, balanced classes · learning rate 0.1 → 0.07 and 1 more"
    short, long, hostile = [legend_name(each) for each in ("MART", name, f"{HOSTILE} " * 20)]
    assert short == "MART"
    assert long.replace("<br>", " ") == name
    assert max(map(len, long.split("<br>"))) <= 44
    assert "<img" not in hostile
    assert "…" in hostile
    heights = {}
    for label in ("MART", name):
        models = [{"name": f"{label} {number}", "curves": curves} for number in range(12)]
        figure = plots.overlaid_curves(models, "precision_recall", "yes")
        assert {trace.customdata[0][0] for trace in figure.data} == {
            model["name"] for model in models
        }
        assert figure.layout.legend.maxheight == 1
        heights[label] = figure.layout.height
    assert heights[name] >= 400 + 12 * 2 * 20 > heights["MART"]


@pytest.mark.parametrize(
    ("amounts", "decimals"),
    [([], 3), ([0.0], 3), ([0.5, -0.2], 3), ([12.0], 3), ([0.0004, -0.00002], 5), ([1e-30], 9)],
)
def test_small_contributions_have_digits(amounts: list[float], decimals: int):
    assert plots.decimals_for(amounts) == decimals


def test_the_contributions_to_a_rare_class_are_not_all_zero():
    parts = [plots.Contribution("a", "1", -0.0004), plots.Contribution("b", "2", 0.00006)]
    bars = plots.contributions(parts, "yes").data[0]
    assert list(bars.text) == ["-0.00040", "+0.00006"]


def test_the_money_of_the_best_threshold_can_be_seen():
    # Nothing interrupted, the best threshold, all interrupted.
    low, high = money_span(np.array([0.0, 3_000.0, 2_000.0, -100_000.0]), 1)
    assert -4_000 < low < -3_000 and 3_000 < high < 4_000
    low, high = money_span(np.array([0.0, 3_000.0, 2_000.0, -100_000.0]), 3)
    assert low < -100_000, "the chosen one is always in view"
    assert money_span(np.array([0.0, -5.0]), 0) == (-5.0, 0.0)
