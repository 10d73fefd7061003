"""Plots of a deep forest: what they draw of hand-made layers, and that names in them stay text."""

from __future__ import annotations

import re

import pytest

from tests.ui.studio.inspect.lab import HOSTILE, RECORDS, margin_record, record, small
from tests.ui.studio.test_plots import drawn, texts
from ui.studio import plots
from ui.studio.plots.layers import HELD_OUT, TABLE, top_features

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
    assert list(traces[HELD_OUT].y) == pytest.approx(
        [layer["margins"]["mean"] for layer in RECORDS]
    )
    assert list(traces[HELD_OUT].error_y.array) == pytest.approx(
        [layer["margins"]["std"] for layer in RECORDS]
    )
    assert len(traces[TABLE].y) == 2
    assert TABLE not in named(plots.margin_growth(RECORDS))
    assert not plots.margin_growth([record(1, margins=None)]).data


def test_margin_ratio_and_score_have_an_axis_each():
    figure = plots.ratio_and_score(RECORDS, [0.9, 0.95, None], "Accuracy", HELD_OUT)
    traces = named(figure)
    assert traces["Margin ratio"].yaxis == "y2" and traces["Accuracy"].yaxis == "y"
    assert list(traces["Margin ratio"].y) == [layer["margins"]["ratio"] for layer in RECORDS]
    assert list(traces["Accuracy"].y) == [0.9, 0.95, None]


def test_a_distribution_of_margins_is_in_shares_and_a_cumulative_one_ends_at_all_rows():
    margins = margin_record([-0.5, 0.5, 0.5, 1.0])
    (trace,) = plots.margin_distribution([("Layer 1", margins)], "Margins").data
    assert sum(trace.y) == pytest.approx(1)
    assert {round(x, 3): y for x, y in zip(trace.x, trace.y, strict=True) if y} == {
        -0.475: 0.25,
        0.525: 0.5,
        0.975: 0.25,
    }
    (trace,) = plots.margin_distribution([("Layer 1", margins)], "Margins", cumulative=True).data
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
        plots.margin_distribution([(name, margin_record([0.1, 0.2]))], name),
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
