"""Nodes of a graph are placed in columns, and no connection runs through one."""

from __future__ import annotations

from itertools import pairwise

from ui.studio.runs.layered import COLUMN_GAP, LANE_HEIGHT, WIDTH, Lane, Link, height_of, layered

FIVE = [
    Link("load", "split", "table"),
    Link("split", "mart", "table"),
    Link("mart", "predict", "model"),
    Link("split", "predict", "table"),
    Link("predict", "evaluate", "predictions"),
]
HEIGHTS = dict.fromkeys(("load", "split", "mart", "predict", "evaluate"), 68.0)


def test_a_node_is_right_of_all_that_it_reads() -> None:
    placed = layered(HEIGHTS, FIVE)
    columns = [placed.positions[name][0] / (WIDTH + COLUMN_GAP) for name in HEIGHTS]
    assert columns == [0, 1, 2, 3, 4]


def test_a_long_connection_has_a_lane_that_no_node_covers() -> None:
    placed = layered(HEIGHTS, FIVE)
    lane = Lane("split", "table", 2)
    assert ("split", lane, "table") in placed.links and (lane, "predict", "table") in placed.links
    (_, y), (_, top) = placed.positions[lane], placed.positions["mart"]
    assert y + LANE_HEIGHT < top or y > top + HEIGHTS["mart"]


def test_connections_of_one_source_share_their_lanes() -> None:
    models = ["a", "b", "c"]
    links = [Link("split", name, "table") for name in models]
    links += [Link(name, f"predict {name}", "model") for name in models]
    links += [Link("split", f"predict {name}", "table") for name in models]
    names = ["split", *models, *(f"predict {name}" for name in models)]
    placed = layered(dict.fromkeys(names, 68.0), links)
    assert [item for item in placed.positions if isinstance(item, Lane)] == [
        Lane("split", "table", 1)
    ]


def test_nothing_in_a_column_overlaps() -> None:
    heights = {f"n{number}": 60.0 + 10 * number for number in range(9)}
    links = [Link("n0", name, "table") for name in list(heights)[1:8]]
    links += [Link(name, "n8", "model") for name in list(heights)[1:4]] + [Link("n0", "n8", "x")]
    placed = layered(heights, links)
    columns: dict[float, list[tuple[float, float]]] = {}
    for item, (x, y) in placed.positions.items():
        columns.setdefault(x, []).append((y, y + height_of(item, heights)))
    for spans in columns.values():
        for (_, bottom), (top, _) in pairwise(sorted(spans)):
            assert bottom < top
