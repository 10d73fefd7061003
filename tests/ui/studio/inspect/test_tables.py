"""What the Inspect page says in rows and words, of layers made by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from deepforest.inspection import screening_flow
from tests.ui.studio.inspect.lab import RECORDS, large, record, small
from ui.studio.inspect import tables
from ui.studio.plots.layers import HELD_OUT, TABLE, MarginSeries

LAYERS = small()  # rows 2, 4, 5, 9: right, turned right, wrong, left after the first layer


def test_growth_has_a_row_a_layer_with_the_table_beside_training():
    rows = tables.growth_rows(RECORDS, LAYERS.stages, "accuracy")
    assert [row["layer"] for row in rows] == [1, 2, 3]
    assert [row["table score"] for row in rows] == [0.5, pytest.approx(2 / 3), None]
    assert "table score" not in tables.growth_rows(RECORDS, (), "accuracy")[0]


def test_growth_has_standard_errors_and_the_out_of_fold_score_beside_an_honest_one():
    fields = {"scored_on": "blind", "score_se": 0.01, "gain_se": 0.02}
    [row] = tables.growth_rows(
        [record(2, 0.9, scores={"accuracy": 0.95}, **fields)], (), "accuracy"
    )
    assert (row["score"], row["± score"], row["± gain"]) == (0.9, 0.01, 0.02)
    assert row["out-of-fold"] == 0.95
    assert "γ" not in row
    margins = {"alphas": [0.0, 0.874], "settings": {"gamma": 0.8, "mu": 0.05, "depth_step": 8}}
    [row] = tables.growth_rows([{**RECORDS[0], **margins}], (), "accuracy")
    assert (row["α of layers"], row["γ"], row["μ"], row["depth step"]) == (
        "0.00, 0.87",
        0.8,
        0.05,
        8,
    )
    old = tables.growth_rows(RECORDS, (), "accuracy")[0]
    assert (old["± score"], "out-of-fold" in old) == (None, False)


@pytest.mark.parametrize(
    ("places", "numbers", "names"),
    [
        ([HELD_OUT], [1, 3], ["Layer 1", "Layer 3, dropped"]),
        ([TABLE], [1, 2, 3], ["Layer 1", "Layer 2"]),
        ([HELD_OUT, TABLE], [2], ["Layer 2, held-out training rows", "Layer 2, inspected table"]),
        ([], [1], []),
    ],
)
def test_margins_are_of_the_layers_and_rows_wanted(places, numbers, names):
    series = tables.margin_series(RECORDS, LAYERS.stages, places, numbers)
    assert [each.name for each in series] == names
    assert [each.dropped for each in series] == ["dropped" in name for name in names]
    assert {each.depth for each in series} <= {3}, "the colours count the layers that were grown"


def test_margin_rows_count_every_row_once():
    rows = tables.margin_rows([MarginSeries("Layer 1", RECORDS[0]["margins"])])
    assert sum(row["rows"] for row in rows) == 4 and sum(
        row["share"] for row in rows
    ) == pytest.approx(1)


def test_marked_rows_tell_truth_words_and_margins_after_each_layer_and_keep_their_own_columns():
    (turned, gone) = tables.marked_rows(LAYERS, [1, 3]).to_pylist()
    assert turned == {
        "row": 4, "truth": "yes", "predicted after layer 1": "no", "predicted after layer 2": "yes",
        "margin 1": pytest.approx(-0.2), "margin 2": pytest.approx(0.4), "left at layer": 2,
        "row (own)": "own 4", "size": 1.5,
    }  # fmt: skip
    assert gone["predicted after layer 2"] == "no" and gone["left at layer"] == 1


def test_rows_without_a_class_have_no_truth_and_no_margin():
    layers = small(truth=(0, -1, 1, 0))
    row = tables.marked_rows(layers, [1]).to_pylist()[0]
    assert row["truth"] is None and row["margin 1"] is None
    assert "margin 1" not in tables.marked_rows(small(truth=(-1, -1, -1, -1)), [0]).column_names


def test_rows_worth_a_look_are_found():
    assert tables.mistakes(LAYERS, 10) == [2]
    assert tables.changed(LAYERS, 10) == [1]
    assert tables.mistakes(small(truth=(1, 1, 1, 1)), 2) == [3, 2]  # margins -0.9, -0.8, -0.6
    assert tables.mistakes(small(truth=(-1, -1, -1, -1)), 2) == []


@pytest.mark.parametrize(
    ("at", "truth", "turned", "left", "end"),
    [(0, "no", False, False, "right"), (1, "yes", True, False, "right"),
     (2, "yes", False, False, "wrong"), (3, "no", False, True, "right")],
)  # fmt: skip
def test_one_rows_way_is_told_in_words(at, truth, turned, left, end):
    words = tables.row_story(LAYERS, at)
    assert truth in words[0] and end in words[-1]
    assert any("Layer 2" in each and "from no to yes" in each for each in words) == turned
    assert any("layer 1" in each for each in words) == left


def test_the_way_of_a_row_without_a_class_says_so():
    words = " ".join(tables.row_story(small(truth=(-1, -1, -1, -1)), 0))
    assert "right" not in words and "wrong" not in words


def test_vectors_of_a_row_end_where_it_left():
    rows = tables.vector_rows(LAYERS, 3)
    assert {row["layer"] for row in rows} == {1}
    assert [row["probability"] for row in rows if row["learner"] == "cascade"] == pytest.approx(
        [0.95, 0.05]
    )
    assert len(tables.vector_rows(LAYERS, 0)) == 2 * 3 * 2


def test_what_is_not_a_number_is_none():
    assert tables.known(np.array([[1.0, np.nan]])) == [[1.0, None]]


def test_learners_scores_are_found_in_records_and_in_stages():
    assert tables.quality(RECORDS[:1], "accuracy") == [[pytest.approx(0.88), pytest.approx(0.86)]]
    assert tables.quality(LAYERS.stages, "accuracy") == [[0.5, 0.5], [pytest.approx(2 / 3)] * 2]
    rows = tables.quality_rows(LAYERS.learners, LAYERS.stages, ["accuracy"], TABLE)
    assert [(row["layer"], row["learner"]) for row in rows] == [
        (1, "forest 1"), (1, "forest 2"), (2, "forest 1"), (2, "forest 2"),
    ]  # fmt: skip


def test_pairs_of_learners_and_features_have_a_row_each():
    assert tables.agreement_rows(LAYERS.learners, LAYERS.stages)[0] == {
        "layer": 1, "learner": "forest 1", "other": "forest 2", "agree": 1.0,
    }  # fmt: skip
    assert tables.importance_rows(LAYERS.learners, LAYERS.stages)[0] == {
        "layer": 1, "feature": "size", "importance": 0.75, "forest 1": 0.75, "forest 2": 0.75,
    }  # fmt: skip


def test_whoever_is_still_there_leaves_at_the_last_layer():
    layers = [record(1, rows_in=100, rows_out=60, error_out=0.05), record(2, rows_in=40)]
    flows = tables.flows_of(layers)
    assert [(flow["rows_in"], flow["rows_out"], flow["error_out"]) for flow in flows] == [
        (100, 60, 0.05),
        (40, 40, None),
    ]
    assert tables.flow_rows(flows, "x")[0] == {
        "flow": "x", "layer": 1, "rows in": 100, "rows out": 60, "error out": 0.05,
        "threshold": None,
    }  # fmt: skip


def flow(rows_in, rows_out, error_out):
    return {
        "layer": 1,
        "rows_in": rows_in,
        "rows_out": rows_out,
        "error_out": error_out,
        "threshold": None,
    }


@pytest.mark.parametrize(
    ("flows", "shares"),
    [
        ([flow(10, 10, 0.1)], []),
        ([flow(100, 60, 0.05), flow(40, 40, 0.25)], ["60%", "5.0%", "87.0%", "70%"]),
        ([flow(100, 50, 0.0), flow(50, 50, None)], ["50%", "0.0%", "75%"]),
    ],
)
def test_the_flow_is_told_in_shares(flows, shares):
    assert re.findall(r"[\d.]+%", tables.flow_words(flows)) == shares


def test_more_rows_leave_the_more_errors_are_allowed():
    layers = large(rows=400, depth=3, classes=3)
    early = [
        sum(flow.rows_out for flow in screening_flow(layers.outputs, layers.truth, share)[:-1])
        for share in (0.05, 0.9)
    ]
    assert early[0] < early[1]


# Another metric


def test_records_are_scored_by_another_metric_of_the_same_rows():
    blind = {"accuracy": 0.5, "log_loss": 0.7}
    records = [
        record(1, scored_on="blind", blind=blind, score_se=0.01),
        record(2, scored_on="blind", blind={}, probe=True, kept=False),
    ]
    assert tables.metrics_of(records, "accuracy") == ["accuracy", "log_loss"]
    assert tables.scored_by(records, "accuracy", "accuracy") is records
    first, probe = tables.scored_by(records, "accuracy", "log_loss")
    assert (first["score"], first["score_se"], probe["score"]) == (0.7, None, None)


def test_records_of_earlier_versions_have_out_of_fold_scores():
    assert tables.scored_by([record(1)], "accuracy", "log_loss")[0]["score"] == 0.25
    assert tables.metrics_of([record(1)], "auc") == ["auc", "accuracy", "log_loss"]
