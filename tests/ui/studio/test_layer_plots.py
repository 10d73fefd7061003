"""Plots of a deep forest: what they draw of hand-made layers, and that names in them stay text."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.ui.studio.inspect.lab import HOSTILE, RECORDS, margin_record, record, small
from tests.ui.studio.test_plots import drawn, texts
from ui.studio import plots
from ui.studio.plots.layers import (
    FADED,
    HELD_OUT,
    LAYER_COLOURS,
    TABLE,
    MarginSeries,
    layer_colour,
    top_features,
)

LAYERS = small()
OUT_OF_FOLD = "Out-of-fold (as in the papers;<br>too good from layer 2 on)"


def named(figure):
    return {trace.name: trace for trace in figure.data}


def test_growth_shows_scores_of_held_out_rows_and_of_the_table_and_tells_kept_layers_from_dropped():
    traces = named(plots.growth(RECORDS, "accuracy", "Accuracy", LAYERS.stages))
    assert list(traces["Kept layer"].x) == [1, 2] and list(traces["Kept layer"].y) == [0.90, 0.95]
    assert list(traces["Dropped layer"].x) == [3]
    assert list(traces[TABLE].x) == [1, 2]
    assert list(traces[TABLE].y) == [0.5, pytest.approx(2 / 3)]
    assert TABLE not in named(plots.growth(RECORDS, "accuracy", "Accuracy"))


def honest(number: int, score: float, error: float, **more):
    """What training knows of a layer that was scored on blind rows."""
    fields = {"scored_on": "blind", "score_se": error, "blind": {"accuracy": score}}
    return record(number, score, **fields | more)


def test_growth_shows_blind_scores_with_errors_beside_out_of_fold_scores():
    better = {"scores": {"accuracy": 0.99}}
    layers = [honest(1, 0.90, 0.01, **better), honest(2, 0.91, 0.02, kept=False, **better)]
    figure = plots.growth(layers, "accuracy", "Accuracy")
    traces = named(figure)
    assert list(traces["Kept layer"].error_y.array) == [0.01]
    assert list(traces["Dropped layer"].error_y.array) == [0.02]
    assert traces["Kept layer"].marker.symbol != traces["Dropped layer"].marker.symbol
    assert list(traces["Out-of-fold"].y) == [0.99, 0.99]
    # The line goes on to the dropped layer, but looks different.
    lines = [trace for trace in figure.data if trace.name == "Rows that no layer has seen"]
    drawn_as = [(trace.line.dash, list(trace.x)) for trace in lines]
    assert drawn_as == [("solid", [1]), ("dot", [1, 2])]


def test_growth_shows_which_layer_was_dropped_after_a_probe():
    layers = [honest(1, 0.90, 0.01), honest(2, 0.89, 0.02, kept=False, probe=True)]
    traces = named(plots.growth(layers, "accuracy", "Accuracy"))
    assert list(traces["Dropped after a probe"].x) == [2]
    assert not traces["Dropped layer"].x


def test_growth_by_validation_rows_shows_the_blind_score_too():
    decided = {"scored_on": "validation", "validation": {"accuracy": 0.8}}
    layer = honest(1, 0.8, 0.01, **decided, blind={"accuracy": 0.9})
    traces = named(plots.growth([layer], "accuracy", "Accuracy"))
    assert list(traces["Validation rows"].y) == [0.8]
    assert list(traces["Rows that no layer has seen"].y) == [0.9]


def test_records_of_an_earlier_version_are_labelled_as_out_of_fold():
    traces = named(plots.growth(RECORDS, "accuracy", "Accuracy"))
    assert OUT_OF_FOLD in traces
    assert not traces["Kept layer"].error_y.visible
    validated = [record(1, 0.8, validation={"accuracy": 0.8})]
    assert "Validation rows" in named(plots.growth(validated, "accuracy", "Accuracy"))


def test_margins_by_layer_have_their_spread_as_error_bars():
    traces = named(plots.margin_growth(RECORDS, LAYERS.stages))
    means = [layer["margins"]["mean"] for layer in RECORDS]
    spreads = [layer["margins"]["std"] for layer in RECORDS]
    assert list(traces[HELD_OUT].y) == pytest.approx(means[:2])
    assert list(traces[HELD_OUT].error_y.array) == pytest.approx(spreads[:2])
    dropped = traces[f"{HELD_OUT}, dropped"]
    assert list(dropped.y) == pytest.approx(means[1:])
    assert list(dropped.error_y.array) == pytest.approx([0, spreads[2]])
    assert len(traces[TABLE].y) == 2
    assert TABLE not in named(plots.margin_growth(RECORDS))
    assert not plots.margin_growth([record(1, margins=None)]).data


def test_margin_ratio_and_score_have_an_axis_each():
    figure = plots.ratio_and_score(RECORDS, [0.9, 0.95, None], "Accuracy", HELD_OUT)
    traces = named(figure)
    assert traces["Margin ratio"].yaxis == "y2" and traces["Accuracy"].yaxis == "y"
    ratios = [layer["margins"]["ratio"] for layer in RECORDS]
    assert list(traces["Margin ratio"].y) == ratios[:2]
    assert list(traces["Margin ratio, dropped"].y) == ratios[1:]
    assert list(traces["Accuracy"].y) == [0.9, 0.95]
    assert list(traces["Accuracy, dropped"].y) == [0.95, None]


@pytest.mark.parametrize("scores", [[0.97], [0.97, 0.97], [0.5, 0.999]])
def test_the_axis_of_a_score_fits_its_values(scores):
    layers = [record(number) for number in range(1, len(scores) + 1)]
    low, high = plots.ratio_and_score(layers, scores, "AUC", HELD_OUT).layout.yaxis.range
    assert low < min(scores) and max(scores) < high < 1.06


def drawn_as_dropped(figure) -> bool:
    """Whether the axis says that layer 3 is dropped."""
    axes = [figure.layout.xaxis, figure.layout.yaxis]
    ticks = [text for axis in axes for text in axis.ticktext or ()]
    return any("3" in text and "dropped" in text for text in ticks)


def test_a_dropped_layer_is_drawn_as_dropped_everywhere():
    lines = [
        plots.margin_growth(RECORDS),
        plots.ratio_and_score(RECORDS, [0.9, 0.95, 0.94], "Accuracy", HELD_OUT),
        plots.learner_quality(["a"], [1, 2, 3], [[0.9], [0.8], [0.7]], "Accuracy", HELD_OUT, [3]),
    ]
    for figure in lines:
        assert drawn_as_dropped(figure)
        tail = [trace for trace in figure.data if 3 in [round(x) for x in trace.x]]
        assert tail and all((each.line.dash, each.opacity) == ("dot", FADED) for each in tail)
    stages = [{"number": 1, "importances": [{"feature": "x", "importance": 0.6}]}]
    vectors = [[[0.9, 0.1]]], [[0.9, 0.1]], ["a"], ["no", "yes"]
    for figure in (
        plots.growth(RECORDS, "accuracy", "Accuracy"),
        plots.importances_by_layer(stages, [3]),
        plots.class_vectors(*vectors, 0, [3]),
        plots.row_margin([0.1], ["no"], 1, [3]),
    ):
        assert drawn_as_dropped(figure)
    margins = margin_record([0.5])
    series = MarginSeries("Layer 3, dropped", margins, 3, 3, dropped=True)
    (trace,) = plots.margin_distribution([series], "Margins").data
    assert (trace.line.dash, trace.opacity) == ("dot", FADED)


def linear(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def brightness(colour: str) -> float:
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("depth", [1, 2, 4, 9])
def test_colours_of_layers_are_ordered_and_readable_on_both_grounds(depth: int):
    colours = [layer_colour(number, depth) for number in range(1, depth + 1)]
    assert colours[0] == LAYER_COLOURS[0] and len(set(colours)) == depth
    assert colours[-1] == LAYER_COLOURS[-1] or depth == 1
    bright = [brightness(colour) for colour in colours]
    assert bright == sorted(bright)
    assert min(contrast(colour, ground) for colour in colours for ground in GROUNDS) >= 3


GROUNDS = ("#FFFFFF", "#0E1117")
# Machado, Oliveira and Fernandes (2009): what people without green or red receptors see.
BLINDNESS = (
    (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ),
    (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.052),
    ),
)


@pytest.mark.parametrize("matrix", BLINDNESS)
def test_colour_blind_people_see_the_colours_of_layers_differ(matrix):
    seen = []
    for colour in LAYER_COLOURS:
        light = linear(colour)
        seen.append([sum(a * b for a, b in zip(line, light, strict=True)) for line in matrix])
    for one, other in pairwise(seen):
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 0.08


def test_figures_side_by_side_share_an_axis_that_holds_all_values_and_their_errors():
    figures = [plots.margin_growth(RECORDS[:1]), plots.margin_growth(RECORDS)]
    plots.share_axes(figures)
    first, second = (figure.layout.yaxis.range for figure in figures)
    assert first == second
    ends = [layer["margins"]["mean"] + layer["margins"]["std"] for layer in RECORDS]
    assert first[1] > max(ends)


def test_a_distribution_of_margins_is_in_shares_and_a_cumulative_one_ends_at_all_rows():
    margins = margin_record([-0.5, 0.5, 0.5, 1.0])
    (trace,) = plots.margin_distribution([MarginSeries("Layer 1", margins)], "Margins").data
    assert sum(trace.y) == pytest.approx(1)
    assert {round(x, 3): y for x, y in zip(trace.x, trace.y, strict=True) if y} == {
        -0.475: 0.25,
        0.525: 0.5,
        0.975: 0.25,
    }
    (trace,) = plots.margin_distribution(
        [MarginSeries("Layer 1", margins)], "Margins", cumulative=True
    ).data
    below = dict(zip((round(x, 3) for x in trace.x), trace.y, strict=True))
    assert below[-1.0] == 0 and below[0.0] == 0.25 and below[1.0] == 1


def test_each_learner_has_a_line_over_the_layers():
    figure = plots.learner_quality(
        ["a", "b"], [1, 2], [[0.9, 0.8], [0.95, None]], "Accuracy", HELD_OUT
    )
    assert [(trace.name, list(trace.y)) for trace in figure.data] == [
        ("a", [0.9, 0.95]),
        ("b", [0.8, None]),
    ]


def test_agreement_writes_the_share_into_each_cell():
    figure = plots.agreement(["a", "b"], [[1.0, 0.75], [0.75, 1.0]], 2)
    assert [list(row) for row in figure.data[0].z] == [[1.0, 0.75], [0.75, 1.0]]
    written = sorted(text for trace in figure.data[1:] for text in trace.text)
    assert written == ["100%", "100%", "75%", "75%"]
    assert "Layer 2" in figure.layout.title.text


def test_cells_look_as_in_a_confusion_matrix_in_either_theme():
    agreement, confusion = (
        plots.agreement(["a", "b"], [[1.0, 0.75], [0.75, 1.0]], 2),
        plots.confusion_matrix(["a"], [[1]]),
    )
    assert agreement.data[0].colorscale == confusion.data[0].colorscale
    assert agreement.data[1].textfont == confusion.data[1].textfont
    assert [plots.for_dark(figure).data[1].textfont.color for figure in (agreement, confusion)] == [
        "white",
        "white",
    ]


def test_many_cells_stay_without_numbers():
    names = [f"learner {at}" for at in range(15)]
    assert len(plots.agreement(names, [[0.5] * 15] * 15, 1).data) == 1


def test_features_are_ordered_by_greatest_importance_and_have_a_gap_where_a_layer_lacks_them():
    stages = [
        {
            "number": 1,
            "importances": [
                {"feature": "x", "importance": 0.6},
                {"feature": "y", "importance": 0.4},
            ],
        },
        {
            "number": 2,
            "importances": [
                {"feature": "v", "importance": 0.9},
                {"feature": "x", "importance": 0.1},
            ],
        },
    ]
    assert top_features(stages, 2) == ["v", "x"]
    figure = plots.importances_by_layer(stages)
    assert list(figure.layout.yaxis.ticktext) == ["v", "x", "y"]
    assert [list(row) for row in figure.data[0].z] == [[None, 0.9], [0.6, 0.1], [0.4, None]]


def test_one_rows_vectors_stand_layer_by_layer_with_the_cascade_below_its_learners():
    vectors = [[[0.9, 0.1], [0.5, 0.5]], [[0.2, 0.8], [0.3, 0.7]]]
    figure = plots.class_vectors(vectors, [[0.7, 0.3], [0.25, 0.75]], ["a", "b"], ["no", "yes"], 1)
    assert list(figure.layout.yaxis.ticktext) == [
        "1 · a",
        "1 · b",
        "1 · cascade",
        "2 · a",
        "2 · b",
        "2 · cascade",
    ]
    assert list(figure.data[0].z[2]) == [0.7, 0.3] and list(figure.data[0].z[3]) == [0.2, 0.8]
    frame = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert [(shape.x0, shape.x1) for shape in frame] == [(0.52, 1.48)]
    unknown = plots.class_vectors(
        vectors, [[0.7, 0.3], [0.25, 0.75]], ["a", "b"], ["no", "yes"], None
    )
    assert not [shape for shape in unknown.layout.shapes if shape.type == "rect"]


def test_a_rows_margin_ends_where_it_left():
    figure = plots.row_margin([-0.2, 0.4, 0.4], ["no", "yes", "yes"], 2)
    assert list(figure.data[0].x) == [1, 2] and list(figure.data[0].y) == [-0.2, 0.4]
    assert "layer 2" in figure.layout.annotations[0].text
    assert not plots.row_margin([0.1], ["no"], 1).layout.annotations


def flow(layer, rows_in, rows_out, error_out):
    return {"layer": layer, "rows_in": rows_in, "rows_out": rows_out, "error_out": error_out}


def test_screening_sends_rows_on_or_out_and_loses_none():
    figure = plots.screening([flow(1, 100, 60, 0.05), flow(2, 40, 40, 0.25)], "Flow")
    link, labels = figure.data[0].link, figure.data[0].node.customdata
    links = [
        (labels[source], labels[target], value)
        for source, target, value in zip(link.source, link.target, link.value, strict=True)
    ]
    assert links == [
        ("Layer 1", "Layer 2", 40),
        ("Layer 1", "gone, correct", 57),
        ("Layer 1", "gone, wrong", 3),
        ("Layer 2", "gone, correct", 30),
        ("Layer 2", "gone, wrong", 10),
    ]


def test_rows_of_unknown_class_leave_neither_right_nor_wrong():
    figure = plots.screening([flow(1, 10, 4, None), flow(2, 6, 6, None)], "Flow")
    labels = figure.data[0].node.customdata
    assert [labels[target] for target in figure.data[0].link.target] == ["Layer 2", "gone", "gone"]


def test_names_of_flows_stand_beside_them_and_colours_are_told_by_what_they_mean():
    figure = plots.screening(
        [flow(1, 100, 60, 0.05), flow(2, 40, 40, 0.25), flow(3, 0, 0, None)], "Flow"
    )
    *layers, legend = figure.layout.annotations
    assert [(note.text, note.x, note.y) for note in layers] == [
        ("Layer 1", 0, 1),
        ("Layer 2", 0.5, 1),
    ]
    assert legend.y == 0
    assert re.findall(r"</span> (\S+ \S+)", legend.text) == [
        "gone, correct",
        "gone, wrong",
        "next layer",
    ]
    assert not figure.data[0].node.label, "plotly would write it onto the flow"
    unknown = plots.screening(
        [flow(1, 10, 4, None), flow(2, 6, 6, None)], "Flow"
    ).layout.annotations[-1]
    assert "gone" in unknown.text and "correct" not in unknown.text


def all_plots(name: str) -> list:
    learners = [{"name": name, "scores": {"accuracy": 0.9}}] * 2
    records = [{**record(1, reason=name), "learners": learners}]
    stages = [{"number": 1, "importances": [{"feature": name, "importance": 0.6}]}]
    return [
        plots.growth(records, "accuracy", name),
        plots.margin_growth(records),
        plots.ratio_and_score(records, [0.9], name, HELD_OUT),
        plots.margin_distribution([MarginSeries(name, margin_record([0.1, 0.2]))], name),
        plots.learner_quality([name, name], [1], [[0.9, 0.8]], name, HELD_OUT),
        plots.agreement([name, name], [[1.0, 0.5], [0.5, 1.0]], 1),
        plots.importances_by_layer(stages),
        plots.class_vectors([[[0.9, 0.1]]], [[0.9, 0.1]], [name], [name, name], 0),
        plots.row_margin([0.5], [name], 1),
        plots.screening([flow(1, 4, 4, 0.5)], name),
    ]


@pytest.mark.parametrize("which", range(10))
def test_every_plot_is_strict_json_with_a_clear_ground_and_names_as_text(which):
    figure = all_plots(HOSTILE)[which]
    about = drawn(figure)
    assert about["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"
    assert about["layout"]["modebar"]["bgcolor"] == "rgba(0,0,0,0)", (
        "else plotly puts a dark box behind its tools"
    )
    assert about["layout"]["title"]["text"]
    assert not [text for text in texts(about) if "<img" in text]
