"""The part Windows of the Inspect page: which positions know the class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.workspace import Workspace
from nodes.inspection.layers import Layers, load_layers
from tests.expect import refused
from tests.ui.studio.inspect.lab import inspect_page, inspected_run, small
from ui.studio import plots
from ui.studio.inspect import page
from ui.studio.inspect.windows import window_cells, window_rows
from ui.studio.runs import run_view as view
from ui.studio.session import Studio

SCAN: dict[str, Any] = {
    "layer": 1,
    "shape": [4, 5],
    "class_rows": [30, 10],
    "grains": [
        {
            "size": [2, 3],
            "positions": [[0, 0], [0, 2], [2, 2]],
            "recalls": [[1.0, 0.0], [0.5, 0.5], [0.9, 0.1]],
        }
    ],
    "importances": [0.05] * 20,
}


def scanned() -> Layers:
    layers = small()
    grain = {**SCAN["grains"][0], "recalls": [[0.5] * len(layers.classes)] * 3}
    scan = {**SCAN, "grains": [grain], "class_rows": [4] * len(layers.classes)}
    return replace(layers, scans=[scan])


def test_windows_are_cells_at_their_centres() -> None:
    found = window_cells(SCAN, SCAN["grains"][0])
    assert found.rows == [0.5, 2.5] and found.columns == [1.0, 3.0]
    assert found.cells == [[pytest.approx(0.75), 0.5], [None, pytest.approx(0.7)]]
    of_class = window_cells(SCAN, SCAN["grains"][0], 1)
    assert of_class.cells == [[0.0, 0.5], [None, 0.1]]
    rows = window_rows(SCAN, ["no", "yes"])
    assert rows[2] == {
        "window": "2 × 3",
        "position": "2, 2",
        "accuracy": pytest.approx(0.7),
        "recall of no": 0.9,
        "recall of yes": 0.1,
    }


def test_windows_of_a_sequence_are_one_line_over_the_sequence() -> None:
    grain = {"size": [3], "positions": [[0], [4]], "recalls": [[0.5, 0.5], [1.0, 1.0]]}
    scan = {**SCAN, "shape": [9], "grains": [grain]}
    found = window_cells(scan, grain)
    assert (found.cells, found.rows, found.columns) == ([[0.5, 1.0]], [0.0], [1.0, 5.0])
    figure = plots.window_map(found.cells, found.rows, found.columns, [1, 9], "Windows")
    assert list(figure.layout.xaxis.range) == [-0.5, 8.5]


def test_windows_are_saved_with_the_layers_and_checked(tmp_path: Path) -> None:
    layers = scanned()
    (tmp_path / "layers").mkdir()
    layers.save(tmp_path / "layers")
    assert load_layers(tmp_path / "layers").scans == layers.scans
    wrong = replace(layers, scans=[{**layers.scans[0], "class_rows": [1]}])
    (tmp_path / "wrong").mkdir()
    wrong.save(tmp_path / "wrong")
    with refused(naming=["windows"]):
        load_layers(tmp_path / "wrong")


def test_the_page_draws_the_windows_of_a_forest_that_scans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Studio(Workspace(tmp_path).create(), load_catalog())
    for module in (page, view):
        monkeypatch.setattr(module, "studio", lambda: made)
    run, _ = inspected_run(made, scanned())
    test = inspect_page(run=run, node="inspect", tab="Windows")
    assert "Windows" in [tab.label for tab in test.tabs]
    assert len(test.get("plotly_chart")) == 2
    assert any("Best window: 50.0 %" in each.value for each in test.caption)
    other, _ = inspected_run(made, small())
    plain = inspect_page(run=other, node="inspect")
    assert "Windows" not in [tab.label for tab in plain.tabs]
