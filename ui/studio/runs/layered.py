"""Place the nodes of a graph in columns, from left to right, for a drawing without a layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import networkx as nx

WIDTH = 200.0
COLUMN_GAP = 42.0
LANE_HEIGHT = 2.0
ROW_GAP = 24.0
SWEEPS = 6


class Link(NamedTuple):
    """A connection of two nodes; ``kind`` is the type of what it carries."""

    source: str
    target: str
    kind: str = ""


class Lane(NamedTuple):
    """The part of a long connection in a column that it passes: no node lies there."""

    source: str
    kind: str
    column: int


Item = str | Lane


class Placed(NamedTuple):
    """The top left corner of each node and lane, and the connections between them."""

    positions: Mapping[Item, tuple[float, float]]
    links: Sequence[tuple[Item, Item, str]]


def layered(heights: Mapping[str, float], links: Iterable[Link]) -> Placed:
    """Return where to draw nodes of these heights, which have no cycle.

    A node is right of all that it reads. A connection that passes a column has a lane there, which
    all connections from the same source with the same kind share.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(heights)
    graph.add_edges_from((link.source, link.target) for link in links)
    columns: list[list[Item]] = [list(names) for names in nx.topological_generations(graph)]
    column_of = {name: number for number, names in enumerate(columns) for name in names}
    parts: dict[tuple[Item, Item, str], None] = {}
    for link in links:
        start, end = column_of[link.source], column_of[link.target]
        lanes = [Lane(link.source, link.kind, number) for number in range(start + 1, end)]
        for lane in lanes:
            if lane not in columns[lane.column]:
                columns[lane.column].append(lane)
        stops: list[Item] = [link.source, *lanes, link.target]
        for before, after in pairwise(stops):
            parts[before, after, link.kind] = None
    neighbours: nx.DiGraph[Item] = nx.DiGraph((before, after) for before, after, _ in parts)
    neighbours.add_nodes_from(heights)
    _sort(columns, neighbours)
    middles = _settle(columns, neighbours, heights)
    positions = {
        item: (number * (WIDTH + COLUMN_GAP), middles[item] - height_of(item, heights) / 2)
        for number, column in enumerate(columns)
        for item in column
    }
    return Placed(positions, list(parts))


def height_of(item: Item, heights: Mapping[str, float]) -> float:
    """Return the height of a node; a lane is a line."""
    return LANE_HEIGHT if isinstance(item, Lane) else heights[item]


def _sort(columns: list[list[Item]], neighbours: nx.DiGraph[Item]) -> None:
    """Sort each column by the mean place of its neighbours, so that few connections cross."""
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        near = neighbours.predecessors if forward else neighbours.successors
        pairs = list(pairwise(columns if forward else columns[::-1]))
        for before, column in pairs:
            place = {item: number / len(before) for number, item in enumerate(before)}
            own = {item: number / len(column) for number, item in enumerate(column)}
            middle = {}
            for item in column:
                places = [place[each] for each in near(item) if each in place]
                middle[item] = fmean(places) if places else own[item]
            column.sort(key=middle.__getitem__)


def _settle(
    columns: list[list[Item]], neighbours: nx.DiGraph[Item], heights: Mapping[str, float]
) -> dict[Item, float]:
    """Return the middle of each item: near those of its neighbours, and without overlaps."""
    middles: dict[Item, float] = {}
    for column in columns:
        _spread(column, dict.fromkeys(column, 0.0), heights, middles)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        near = neighbours.predecessors if forward else neighbours.successors
        for column in columns if forward else columns[::-1]:
            wished = {}
            for item in column:
                places = [middles[each] for each in near(item)]
                wished[item] = fmean(places) if places else middles[item]
            _spread(column, wished, heights, middles)
    return middles


def _spread(
    column: Sequence[Item],
    wished: Mapping[Item, float],
    heights: Mapping[str, float],
    middles: dict[Item, float],
) -> None:
    """Set the middles of a column to the wished ones, moved apart as far as its items need."""
    low = 0.0
    for number, item in enumerate(column):
        half = height_of(item, heights) / 2
        middles[item] = wished[item] if number == 0 else max(wished[item], low + half)
        low = middles[item] + half + ROW_GAP
    # Items were only moved down: move all up by the mean of that.
    shift = fmean(middles[item] - wished[item] for item in column)
    for item in column:
        middles[item] -= shift
