"""Draw maps of the sampled rows: of the input and of each layer, linked in the browser.

Rows that are marked in one map are marked in all of them, also in those of a second forest that was
inspected on the same rows. A small component, ``assets/row_maps.js``, draws the maps: marks follow
the mouse at once, and Python gets them when the button is released.

- ``MapGroup``   the maps of one forest
- ``LinkedRows``, ``link_rows``  the rows of one or two forests, each counted once
- ``payload``    what the component gets: plain JSON, with arrays as base64
- ``row_maps``   draws the component; the marks that it sends go to ``Marks``
- ``Marks``      which rows are marked, saved for as long as the browser tab is open
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from nodes.inspection.layers import UNKNOWN, Layers
from ui.studio.plots.layers import dropped_numbers, layer_colour
from ui.studio.plots.style import COLOURS
from ui.studio.streamlit_compat import component

_POINTS = (*COLOURS[:-1], "#8B5CF6", "#8A6D3B", "#E11D74", "#7CB518")
"""More colours than lines have, since points have no dashes; after these come other shapes."""
# The largest number of 16 bits: a map on screen needs no more precision.
_FULL = 65535
MOST_PANELS = 8
_KEY = "inspect-maps"


# Marks


@dataclass
class Marks:
    """The marked rows of one inspection, as positions in its sample.

    ``epoch`` increases when Python changes the marks, so that the browser takes them over.
    """

    digest: str
    rows: tuple[int, ...] = ()
    epoch: int = 0
    second: str = ""
    """The inspection beside it, whose own rows are counted after those of this one."""

    def put_beside(self, second: str, count: int) -> None:
        """Drop the marks of rows that only an earlier second forest has."""
        if second != self.second:
            self.rows, self.second = tuple(at for at in self.rows if at < count), second

    def change(self, rows: Sequence[int]) -> None:
        """Mark exactly these rows, in the browser too."""
        self.rows, self.epoch = tuple(rows), self.epoch + 1


def marks(digest: str) -> Marks:
    """Return the marks of an inspection; those of another inspection are dropped."""
    marked: Marks | None = st.session_state.get("inspect-marks")
    if marked is None or marked.digest != digest:
        marked = st.session_state["inspect-marks"] = Marks(digest)
    return marked


def positions_in(sent: object, count: int) -> tuple[int, ...]:
    """Return the valid positions of a list that a browser sent.

    Anything may arrive from a browser: what is not the position of one of ``count`` rows is
    ignored.
    """
    if not isinstance(sent, list):
        return ()
    # Not isinstance: True is an int as well.
    return tuple(sorted({at for at in sent if type(at) is int and 0 <= at < count}))


# Rows of one or two forests


@dataclass(frozen=True, eq=False)
class MapGroup:
    """The maps of one forest: its title and its inspection."""

    title: str
    layers: Layers
    digest: str


@dataclass(frozen=True, eq=False)
class LinkedRows:
    """The rows of all groups, each counted once: those of the first group, then the others.

    ``index`` has for each group the number of each of its rows. ``shared`` is how many rows of the
    second group are in the first.
    """

    index: list[np.ndarray]
    count: int
    shared: int

    def positions(self, group: int, rows: Sequence[int]) -> list[int]:
        """Return where a group has these rows in its sample; rows that it does not have are left
        out."""
        place = {int(row): at for at, row in enumerate(self.index[group])}
        return [place[row] for row in rows if row in place]


def link_rows(groups: Sequence[MapGroup]) -> LinkedRows:
    """Return the rows of one or two groups; rows with the same content are the same row."""
    first = len(groups[0].layers.rows)
    index = [np.arange(first)]
    if len(groups) == 1:
        return LinkedRows(index, first, 0)
    same = same_rows(groups[0].layers, groups[1].layers)
    new = np.flatnonzero(same < 0)
    same[new] = first + np.arange(len(new))
    return LinkedRows([*index, same], first + len(new), len(same) - len(new))


def same_rows(one: Layers, other: Layers) -> np.ndarray:
    """Return for each row of ``other`` its position in ``one``, -1 where it is not there.

    Rows are compared by the columns that both samples have. Of equal rows the first belongs to the
    first, the second to the second, and so on.
    """
    import pandas as pd

    shared = [name for name in one.sample.column_names if name in other.sample.column_names]
    # Without a common feature rows would be equal by accident.
    if not set(shared) & set(one.features) & set(other.features):
        return np.full(len(other.rows), -1)
    keys = []
    for layers in (one, other):
        content = layers.sample.select(shared).to_pandas()
        # Whole numbers may be stored as floats in one of the tables, and texts as categories.
        numbers, others = (
            content.select_dtypes("number").columns,
            content.select_dtypes(exclude="number").columns,
        )
        content = content.astype(dict.fromkeys(numbers, np.float64) | dict.fromkeys(others, str))
        key = pd.util.hash_pandas_object(content, index=False)
        keys.append(list(zip(key, key.groupby(key).cumcount(), strict=True)))
    place = {key: at for at, key in enumerate(keys[0])}
    return np.array([place.get(key, -1) for key in keys[1]], np.int64)


# The component


def row_maps(
    groups: Sequence[MapGroup],
    linked: LinkedRows,
    numbers: Sequence[int],
    by: str,
    marked: Marks,
    file: str,
    images: Mapping[str, Any] | None = None,
) -> None:
    """Draw the maps of these panels.

    Parameters
    ----------
    groups, linked : one or two forests, and their rows
    numbers : the numbers of the panels; 0 is the input
    by : what gives the colour: ``class``, ``mistake`` or ``margin``
    marked : the rows that are marked; the component changes it
    file : the name of a picture that the user saves
    images : the sheet with the images of the first group's rows, if they are images
    """
    digests = tuple(group.digest for group in groups)
    titles = tuple(group.title for group in groups)
    data = {
        **_payload(groups, linked, tuple(numbers), digests, titles, file),
        "by": by,
        "marked": list(marked.rows),
        "epoch": marked.epoch,
        "images": images and {**images, "count": len(groups[0].layers.rows)},
    }
    draw = component(
        "sylva-row-maps",
        html='<div class="row-maps"></div>',
        js=_asset("row_maps.js"),
        css=_asset("row_maps.css"),
    )
    draw(
        key=_KEY,
        data=data,
        # Without it, Streamlit would not report that the user has removed all marks.
        default={"marked": list(marked.rows)},
        height="content",
        on_marked_change=partial(_take, marked, linked.count),
    )


@cache
def _asset(name: str) -> str:
    """Return the text of a file of the studio, read once."""
    return (Path(__file__).parents[1] / "assets" / name).read_text(encoding="utf-8")


def _take(marked: Marks, count: int) -> None:
    """Take over the marks that the component has sent."""
    sent = st.session_state.get(_KEY)
    marked.rows = positions_in(sent.get("marked") if sent is not None else None, count)


@st.cache_data(show_spinner=False, max_entries=8)
def _payload(
    _groups: Sequence[MapGroup],
    _linked: LinkedRows,
    numbers: tuple[int, ...],
    digests: tuple[str, ...],
    titles: tuple[str, ...],
    file: str,
) -> dict[str, Any]:
    """Return ``payload`` from the cache.

    It does not depend on colours and marks, which change with every click.
    """
    return payload(_groups, _linked, numbers, file)


def payload(
    groups: Sequence[MapGroup], linked: LinkedRows, numbers: Sequence[int], file: str
) -> dict[str, Any]:
    """Return everything that is needed to draw the maps of these panels.

    Colours and marks are not part of it: they change often, and these data are large.
    """
    # Classes of a second forest may be others, or in another order.
    classes = list(dict.fromkeys(name for group in groups for name in group.layers.classes))
    rows, truth = np.zeros(linked.count, np.int64), np.full(linked.count, UNKNOWN)
    # From the last group to the first: where both have a row, the first one counts.
    for group, index in reversed(list(zip(groups, linked.index, strict=True))):
        rows[index] = group.layers.rows
        truth[index] = _codes(group.layers.truth, group.layers.classes, classes)
    identity = " ".join(
        [*(f"{group.digest} {group.title}" for group in groups), *map(str, numbers)]
    )
    return {
        "id": identity,
        "file": file,
        "classes": classes,
        "colours": list(_POINTS),
        "rows": _text(rows, np.int32),
        "truth": _text(truth, np.int16),
        "groups": [
            {
                "title": group.title,
                "index": _text(index, np.int32),
                "layers": _panels(group.layers, numbers, classes),
            }
            for group, index in zip(groups, linked.index, strict=True)
        ],
    }


def _codes(codes: np.ndarray, names: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    """Return class numbers by another list of classes; ``UNKNOWN`` stays."""
    # UNKNOWN is -1: the last.
    place = np.array([*(classes.index(name) for name in names), UNKNOWN])
    return np.asarray(place[codes])


def _panels(layers: Layers, numbers: Sequence[int], classes: Sequence[str]) -> list[dict[str, Any]]:
    """Return the panels of one forest: the chosen ones that it has, then its dropped layers."""
    depth = len(layers.records)
    panels = []
    for number in numbers:
        if number not in layers.panels:
            continue
        # The input predicts nothing: its map shows where the final predictions are wrong.
        after = number or len(layers.stages)
        panel: dict[str, Any] = {
            "number": number,
            "title": f"Layer {number}" if number else "Input",
            "colour": layer_colour(number, depth),
            "caption": caption(layers.stages[number - 1] if number else layers.input),
            "xy": _text(_spread(layers.panel(number)), np.uint16),
            "predicted": _text(_codes(layers.predicted(after), layers.classes, classes), np.int16),
            "margin": _text(layers.margin(after), np.float32),
        }
        panels.append(panel)
    for number in dropped_numbers(layers.records):
        panel = {"number": number, "title": f"Layer {number}", "dropped": True}
        panels.append(panel | {"caption": "not part of the forest"})
    return panels


def caption(stage: Mapping[str, Any]) -> str:
    """Return the text under a map.

    It says how well the classes are separated, and how many rows are predicted right.
    """
    separation, accuracy = stage["separation"], (stage.get("scores") or {}).get("accuracy")
    parts = [] if separation is None else [f"S_A/S_E {separation:.3g}"]
    parts += [] if accuracy is None else [f"accuracy {accuracy:.1%}"]
    return " · ".join(parts) or "true classes unknown"


def some(numbers: Sequence[int], most: int = MOST_PANELS) -> list[int]:
    """Return at most ``most`` of the layers, evenly spread, with the first and the last."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[round(at * (len(numbers) - 1) / (most - 1))] for at in range(most)]


def _spread(points: np.ndarray) -> np.ndarray:
    """Return the points as whole numbers that fill a square.

    Both axes have the same scale, as t-SNE needs: only distances have a meaning.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    # All points may be equal: do not divide by zero.
    scale = float((high - low).max()) or 1.0
    middle = (low + high) / 2
    return np.asarray(np.round(np.clip((points - middle) / scale + 0.5, 0, 1) * _FULL))


def _text(values: np.ndarray, kind: type[np.generic]) -> str:
    """Return an array as base64 text of numbers of this type."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode("ascii")
