"""Draw the graph of a pipeline as a small picture, for the list of pipelines.

The colours fit both themes; each category of nodes has about the one that it has on the canvas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from engine.graph import PipelineGraph
from engine.node_types import NodeTypes
from engine.pipeline import Pipeline

WIDTH, HEIGHT, MARGIN = 240.0, 96.0, 8.0
NODE_WIDTH, NODE_HEIGHT = 200.0, 72.0
"""About the size of a node on the canvas, in the units of the layout."""
COLUMN, ROW = 288.0, 144.0
"""Distances of nodes for which the pipeline has no positions."""
MOST_NODES = 120
"""More would not be visible at this size, and would make the list slow."""
LARGEST_SCALE = 0.28
EDGE = "#8a8f98"
TINTS = {
    "Data": "#1c83e1",
    "Prepare": "#1e94a8",
    "Train": "#8b5cf6",
    "Predict": "#d9730d",
    "Evaluate": "#21a366",
}
OTHER_TINT = "#8a8f98"


class Box(NamedTuple):
    """A node in the picture."""

    x: float
    y: float
    width: float
    height: float


def thumbnail(pipeline: Pipeline, catalog: NodeTypes) -> str:
    """Return the graph as SVG. It has no text of the user in it."""
    boxes = _boxes(_positions(pipeline))
    edges = []
    for source, target in dict.fromkeys(_ends(pipeline)):
        if source in boxes and target in boxes:
            edges.append(f'<path d="{_curve(boxes[source], boxes[target])}"/>')
    nodes = []
    for name, box in boxes.items():
        node = pipeline.nodes[name]
        node_type = catalog.get(node.type)
        tint = TINTS.get(node_type.category, OTHER_TINT) if node_type else OTHER_TINT
        looks = f'fill="{tint}"' + (' fill-opacity="0.3"' if node.bypass else "")
        size = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}"'
        nodes.append(f'<rect {size} rx="2" {looks}/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}">'
        f'<g fill="none" stroke="{EDGE}" stroke-width="1.2">{"".join(edges)}</g>'
        f"{''.join(nodes)}</svg>"
    )


def _ends(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Yield the nodes that each edge connects."""
    for edge in pipeline.edges:
        yield edge.source.node, edge.target.node


def _positions(pipeline: Pipeline) -> dict[str, tuple[float, float]]:
    """Return where the first nodes are; those without a position are put in a row below."""
    positions: dict[str, tuple[float, float]] = {}
    names = list(islice(pipeline.nodes, MOST_NODES))
    missing = [name for name in names if name not in pipeline.layout]
    for name in names:
        if name in pipeline.layout:
            positions[name] = pipeline.layout[name]
    if missing:
        lowest = max((y for _, y in positions.values()), default=-ROW)
        # Nodes on a cycle have no order; they come last.
        order = [name for name in PipelineGraph(pipeline).order() if name in missing]
        rest = [name for name in missing if name not in order]
        for column, name in enumerate(order + rest):
            positions[name] = (column * COLUMN, lowest + ROW)
    return positions


def _boxes(positions: Mapping[str, tuple[float, float]]) -> dict[str, Box]:
    """Return the nodes at the scale of the picture, in its middle."""
    if not positions:
        return {}
    left, top = min(x for x, _ in positions.values()), min(y for _, y in positions.values())
    width = max(x for x, _ in positions.values()) - left + NODE_WIDTH
    height = max(y for _, y in positions.values()) - top + NODE_HEIGHT
    room_x, room_y = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    scale = min(room_x / width, room_y / height, LARGEST_SCALE)
    start_x, start_y = (WIDTH - width * scale) / 2, (HEIGHT - height * scale) / 2
    boxes = {}
    for name, (x, y) in positions.items():
        place = start_x + (x - left) * scale, start_y + (y - top) * scale
        # A node of a large graph is still visible.
        boxes[name] = Box(*place, max(NODE_WIDTH * scale, 3.0), max(NODE_HEIGHT * scale, 2.0))
    return boxes


def _curve(source: Box, target: Box) -> str:
    """Return the path of an edge, from the right side of a node to the left side of another."""
    x1, y1 = source.x + source.width, source.y + source.height / 2
    x2, y2 = target.x, target.y + target.height / 2
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
