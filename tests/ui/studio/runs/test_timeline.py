"""Figures of a run show what is known of it, and nothing that a browser would obey."""

from __future__ import annotations

import re

import pytest

from engine.run_state import Subtask
from engine.runs import Span
from ui.studio.runs.timeline import (
    SUBTASK_STATES,
    gantt,
    grid_of,
    layer_lines,
    live_timeline,
    settled,
    subtask_colour,
    subtask_grid,
    three_parts,
)


def jobs(
    learners: int, folds: int, layers: int, state: str = "done"
) -> dict[tuple[str, ...], Subtask]:
    return {
        (f"Layer {layer}", f"Forest {learner}", f"Fold {fold}"): Subtask(state, 1.25)
        for layer in range(1, layers + 1)
        for learner in range(1, learners + 1)
        for fold in range(1, folds + 1)
    }


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("Layer 1", "Forest", "Fold 2"), ("Layer 1", "Forest", "Fold 2")),
        (("Layer 1", "Forest"), ("Layer 1", "Forest", "")),
        (("Layer 1",), ("Layer 1", "", "")),
        ((), ("", "", "")),
        (("Layer 1", "Window 3", "Forest", "Fold 2"), ("Layer 1", "Window 3 · Forest", "Fold 2")),
    ],
)
def test_a_place_has_a_layer_a_learner_and_a_fold(
    place: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    assert three_parts(place) == expected


def test_layers_and_folds_are_in_the_order_of_their_numbers_and_learners_as_they_came() -> None:
    found = {
        ("Layer 10", "Z", "Fold 10"): Subtask("done"),
        ("Layer 2", "A", "Fold 9"): Subtask("done"),
    }
    found |= {("Layer 2", "Z", f"Fold {fold}"): Subtask("done") for fold in (9, 10)}
    grid = grid_of(found)
    assert grid.layers == ("Layer 2", "Layer 10")
    assert list(grid.learners) == ["Z", "A"]
    assert grid.learners["Z"] == 2
    assert grid.fits["Layer 2", "Z"] == ("Fold 9", "Fold 10")


def test_fits_with_other_names_take_the_same_columns() -> None:
    layers = {"Layer 1": "Without folds", "Layer 2": "Cascade 1, fold", "Model, layer 1": "Fold"}
    found = {}
    for layer, fold in layers.items():
        found |= {(layer, "Forest", f"{fold} {number}"): Subtask("done") for number in (1, 2)}
    grid = grid_of(found)
    assert grid.layers == tuple(layers)
    assert grid.learners == {"Forest": 2}


def test_each_job_has_a_cell_in_the_colour_of_its_state() -> None:
    found = {
        ("Layer 1", "Forest", f"Fold {number}"): Subtask(state, 1.25, 2)
        for number, state in enumerate(SUBTASK_STATES, start=1)
    }
    cells = subtask_grid(found)
    assert [cells.count(f"<td class='{state}'") for state in SUBTASK_STATES] == [1] * len(
        SUBTASK_STATES
    )
    assert "title='Layer 1 · Forest · Fold 4: reused in 1.2 s, execution 2'>1.2</td>" in cells
    assert len({subtask_colour(state) for state in SUBTASK_STATES}) == len(SUBTASK_STATES)


@pytest.mark.parametrize(("size", "written"), [((4, 5, 10), True), ((20, 10, 30), False)])
def test_seconds_are_written_where_they_fit(size: tuple[int, int, int], written: bool) -> None:
    learners, folds, layers = size
    cells = subtask_grid(jobs(learners, folds, layers))
    assert (">1.2</td>" in cells) is written
    assert ("numbers: seconds" in cells) is written
    assert cells.count("<td class='done'") == learners * folds * layers
    assert cells.count("<tr>") == layers + 1


def test_a_layer_without_a_job_has_an_empty_cell_there() -> None:
    found = {("Layer 1", "A", ""): Subtask("done"), ("Layer 2", "B", ""): Subtask("done")}
    assert subtask_grid(found).count("<td></td>") == 2


def test_a_grid_of_nothing_is_empty() -> None:
    assert "<td" not in subtask_grid({})


def test_names_are_no_markup() -> None:
    bad = "<a href='javascript:x'>x</a>"
    drawn = subtask_grid({(bad, bad, bad): Subtask("done")}) + live_timeline(
        [Span(bad, 0, 1, "done", 1)], {bad: bad}
    )
    assert "<a" not in drawn and "href='" not in drawn
    figure = gantt([Span(bad, 0, 1, "done", 1)], {bad: bad})
    assert "<a" not in f"{figure.layout.yaxis.ticktext}{figure.data[0].customdata}"


def test_plotly_shows_quotes_as_they_are() -> None:
    figure = gantt([Span("a", 0, 1, "done", 1)], {"a": 'The "best" <b>'})
    assert figure.layout.yaxis.ticktext == ('The "best" &lt;b&gt;',)
    assert figure.data[0].customdata[0].startswith('The "best" &lt;b&gt;<br>')


def test_a_live_timeline_has_a_row_for_each_node_and_a_bar_for_each_span() -> None:
    drawn = live_timeline(
        [Span("a", 10, 20, "done", 1), Span("b", 20, 30, "running", 1)],
        {"a": "A", "b": "B", "c": "C"},
    )
    assert drawn.count("<tr>") == 4 and drawn.count("<i ") == 2
    assert "left: 50.00%; width: max(4px, 50.00%)" in drawn


def test_how_far_each_layer_is_in_words() -> None:
    found = jobs(2, 5, 1) | jobs(1, 1, 10, "waiting")
    found |= {("Layer 2", "Forest 1", f"Fold {fold}"): Subtask("reused") for fold in (1, 2)}
    found |= {
        ("Layer 2", "Forest 2", "Fold 1"): Subtask("running"),
        ("Layer 2", "Forest 2", "Fold 2"): Subtask("failed"),
    }
    lines = layer_lines(found)
    assert list(lines)[1] == "Layer 2" and list(lines)[-1] == "Layer 10"
    assert re.findall(r"\d+", lines["Layer 1"]) == ["9", "10"]
    assert re.findall(r"\d+", lines["Layer 2"]) == ["2", "4", "2", "1", "1"]


def test_the_timeline_has_a_row_for_each_node_a_bar_for_each_span_and_ready_marks() -> None:
    spans = [Span("a", 0, 0, "cached", 1), Span("b", 0, 2, "failed", 1), Span("b", 5, 6, "done", 2)]
    figure = gantt(spans, {"a": "Load", "b": "Forest", "c": "Judge"})
    cached, failed, done = figure.data
    assert (cached.mode, cached.y) == ("markers", (0,))
    assert (failed.y, failed.x) == ((1,), (2000,))
    assert done.customdata[0].startswith("Forest<br>done for 1.0 s, attempt 2")
    assert figure.layout.yaxis.ticktext == ("Load", "Forest", "Judge")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("running", ["done", "running", "waiting"]),
        ("cancelled", ["done", "interrupted", "waiting"]),
    ],
)
def test_what_was_under_way_when_a_node_ended_was_cut_off(node: str, expected: list[str]) -> None:
    found = {(state,): Subtask(state) for state in ("done", "running", "waiting")}
    assert [job.state for job in settled(found, node).values()] == expected
