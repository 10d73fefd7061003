"""The rows nearest to a row, in the input and after each layer."""

from __future__ import annotations

import pytest
import streamlit as st

from tests.ui.studio.inspect.lab import HOSTILE, small, with_input
from ui.studio.inspect import neighbours
from ui.studio.inspect.neighbours import neighbour_rows, neighbourhoods, neighbours_html


def test_the_nearest_rows_come_first_in_the_input_and_after_each_layer():
    near = neighbourhoods(with_input(small()), 0, 2)
    assert [each.title for each in near] == ["Input", "Layer 1", "Layer 2"]
    # The inputs are 0, 1, 3 and 10; class vectors after layer 1 begin with 0.9, 0.6, 0.8 and 0.95.
    assert near[0].positions == [1, 2] and near[0].distances == [1.0, 3.0]
    assert near[1].positions == [3, 2]
    assert near[0].same_class == 0, "both are of the other class"
    assert near[1].same_class == 1


def test_a_row_that_left_keeps_the_vectors_of_its_last_layer():
    after_second = neighbourhoods(small(), 3, 1)[1]
    assert after_second.positions == [2], "0.9 is nearest to 0.95"


def test_a_copy_of_a_row_is_its_neighbour_but_the_row_itself_is_not():
    layers = with_input(small(), [5.0, 5.0, 5.0, 6.0])
    assert neighbourhoods(layers, 1, 3)[0].positions == [0, 2, 3]


def test_rows_without_a_class_have_neighbours_that_are_not_counted():
    layers = small(truth=(-1, -1, -1, -1))
    (first, _) = neighbourhoods(layers, 0)
    assert first.same_class is None and len(first.positions) == 3
    shown = neighbours_html(layers, 0, [first], None)
    assert "class unknown" in shown and "class='other'" not in shown and "3 nearest" in shown


@pytest.mark.parametrize(
    ("sent", "expected"), [(9, [9]), (3, []), (True, []), ("9", []), (None, []), ([9], [])]
)
def test_a_click_on_a_neighbour_opens_its_row(
    sent: object, expected: list[int], monkeypatch: pytest.MonkeyPatch
):
    layers = small()
    shown = neighbours_html(layers, 0, neighbourhoods(layers, 0), None)
    assert shown.count("<button") == 6 and "data-row='9'" in shown
    opened: list[int] = []
    monkeypatch.setattr(st, "session_state", {neighbours._KEY: {"opened": sent}})
    neighbours._take(layers, opened.append)
    assert opened == expected


def test_a_file_has_a_row_for_each_neighbour():
    layers = with_input(small())
    rows = neighbour_rows(layers, 0, neighbourhoods(layers, 0, 2))
    assert len(rows) == 6
    assert rows[0] == {
        "row": 2, "panel": "Input", "rank": 1, "neighbour": 4, "truth": "yes", "predicted": None,
        "distance": 1.0,
    }  # fmt: skip
    assert rows[2]["predicted"] == "no"


def test_names_of_classes_are_text_on_the_page_and_others_have_a_frame():
    layers = small((HOSTILE, "yes"))
    shown = neighbours_html(layers, 1, neighbourhoods(layers, 1), None)
    assert "<img" not in shown and "&lt;img" in shown
    assert shown.count("class='other'") == 4, "two of three neighbours in both layers"
