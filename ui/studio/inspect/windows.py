"""Draw which windows of an image know its class: the part Windows of the Inspect page.

- ``draw_windows``   heat maps over the image, one for each window size
- ``window_cells``   the accuracy of each position on a grid
- ``window_rows``    the same as rows of a table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from engine.text import readable
from ui.studio import plots
from ui.studio.inspect.forest_source import ForestView
from ui.studio.screen_text import plain
from ui.studio.widgets import download_csv, picture

ALL_CLASSES = -1
MAPS_IN_A_LINE = 3
WORDS = (
    "Each cell is a window, drawn at its centre: the stronger its colour, the more held-out rows "
    "its forests alone predict correctly. Positions that were not drawn into the sample are empty."
)
IMPORTANCE_WORDS = (
    "The share of each value of a row in what the whole model learned, through all windows that "
    "hold it."
)


class WindowCells(NamedTuple):
    """The accuracy of each position, and where the centres of the windows are on both axes."""

    cells: list[list[float | None]]
    rows: list[float]
    columns: list[float]


def draw_windows(forest: ForestView) -> None:
    """Draw for each window size which positions predict the class, of all rows or of one class."""
    assert forest.layers is not None, "drawn only for an inspection"
    scans, classes = forest.layers.scans, forest.layers.classes
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        number = 0
        if len(scans) > 1:
            number = st.selectbox(
                "Scan of layer",
                range(len(scans)),
                format_func=lambda at: str(scans[at]["layer"]),
                width=160,
                key=f"inspect-windows-scan-{len(scans)}",
            )
        shown_class = st.selectbox(
            "Class",
            [ALL_CLASSES, *range(len(classes))],
            format_func=lambda at: "All classes" if at < 0 else plain(readable(classes[at])),
            width=240,
            key=f"inspect-windows-class-{len(classes)}",
            help="Accuracy over all rows, or the share of the rows of one class that are "
            "predicted correctly.",
        )
    scan = scans[number]
    figures = []
    for grain in scan["grains"]:
        found = window_cells(scan, grain, shown_class)
        title = f"Windows of {' × '.join(map(str, grain['size']))}"
        name = f"windows-{'x'.join(map(str, grain['size']))}"
        figure = plots.window_map(found.cells, found.rows, found.columns, _sides(scan), title)
        figures.append((figure, name, _best_words(scan, found.cells, shown_class)))
    for first in range(0, len(figures), MAPS_IN_A_LINE):
        columns = st.columns(MAPS_IN_A_LINE)
        some = figures[first : first + MAPS_IN_A_LINE]
        for column, (figure, name, words) in zip(columns, some, strict=False):
            with column:
                picture(figure, name, words)
    st.caption(WORDS)
    if scan["importances"]:
        with st.columns(MAPS_IN_A_LINE)[0]:
            picture(_importance_map(scan), "pixel-importances", IMPORTANCE_WORDS)
    download_csv("windows", window_rows(scan, classes))


def window_cells(
    scan: Mapping[str, Any], grain: Mapping[str, Any], of_class: int = ALL_CLASSES
) -> WindowCells:
    """Return the accuracy of each position, or the recall of one class, on a grid."""
    positions = np.array(grain["positions"])
    recalls = np.array(grain["recalls"])
    class_rows = np.array(scan["class_rows"])
    values = recalls @ class_rows / max(class_rows.sum(), 1)
    if of_class >= 0:
        values = recalls[:, of_class]
    if positions.shape[1] == 1:  # a sequence is an image of one line
        positions = np.column_stack([np.zeros(len(positions), int), positions[:, 0]])
    size = [1, *grain["size"]][-2:]
    axes = [_starts(positions[:, axis]) for axis in range(2)]
    cells: list[list[float | None]] = [[None] * len(axes[1]) for _ in axes[0]]
    for (row, column), value in zip(positions.tolist(), values.tolist(), strict=True):
        cells[axes[0].index(row)][axes[1].index(column)] = value
    rows, columns = (np.array(axis) + (side - 1) / 2 for axis, side in zip(axes, size, strict=True))
    return WindowCells(cells, rows.tolist(), columns.tolist())


def _starts(starts: np.ndarray) -> list[int]:
    """Return evenly spaced starts from the first to the last one; a sample leaves some out."""
    step = int(np.gcd.reduce(starts - starts.min())) or 1
    return list(range(int(starts.min()), int(starts.max()) + 1, step))


def _sides(scan: Mapping[str, Any]) -> list[int]:
    """Return height and width of the image; a sequence has one line."""
    return [1, *scan["shape"]] if len(scan["shape"]) == 1 else scan["shape"][:2]


def _best_words(scan: Mapping[str, Any], cells: list[list[float | None]], of_class: int) -> str:
    """Return how good the windows are, and what guessing the most frequent class would reach."""
    known = [value for row in cells for value in row if value is not None]
    words = f"Best window: {_percent(max(known))}, median {_percent(float(np.median(known)))}."
    if of_class >= 0:
        return words
    guess = max(scan["class_rows"]) / max(sum(scan["class_rows"]), 1)
    return f"{words} Always the most frequent class: {_percent(guess)}."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _importance_map(scan: Mapping[str, Any]) -> Any:
    """Return the heat map of the importances of the values of a row, summed over channels."""
    sides = _sides(scan)
    values = np.array(scan["importances"]).reshape(*sides, -1).sum(axis=2)
    rows, columns = (list(map(float, range(length))) for length in sides)
    return plots.window_map(values.tolist(), rows, columns, sides, "Importance of each value")


def window_rows(scan: Mapping[str, Any], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each window: its place, its accuracy and its recall of each class."""
    class_rows = np.array(scan["class_rows"])
    rows = []
    for grain in scan["grains"]:
        for position, recalls in zip(grain["positions"], grain["recalls"], strict=True):
            row: dict[str, Any] = {
                "window": " × ".join(map(str, grain["size"])),
                "position": ", ".join(map(str, position)),
                "accuracy": float(np.dot(recalls, class_rows) / max(class_rows.sum(), 1)),
            }
            row |= {f"recall of {name}": each for name, each in zip(classes, recalls, strict=True)}
            rows.append(row)
    return rows
