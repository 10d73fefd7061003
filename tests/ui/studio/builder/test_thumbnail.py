"""The small pictures in the list of pipelines."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline
from ui.studio.builder.thumbnail import (
    HEIGHT,
    MOST_NODES,
    OTHER_TINT,
    TINTS,
    WIDTH,
    thumbnail,
)
from ui.studio.new_pipelines import samples

CATALOG = load_catalog()
SVG = "{http://www.w3.org/2000/svg}"


def drawn(pipeline: Pipeline) -> tuple[list[dict[str, str]], int]:
    """The rectangles of the picture, and how many edges it has."""
    picture = ElementTree.fromstring(thumbnail(pipeline, CATALOG))
    boxes = [dict(box.attrib) for box in picture.iter(f"{SVG}rect")]
    for box in boxes:
        assert float(box["x"]) >= 0 and float(box["x"]) + float(box["width"]) <= WIDTH
        assert float(box["y"]) >= 0 and float(box["y"]) + float(box["height"]) <= HEIGHT
    return boxes, sum(1 for _ in picture.iter(f"{SVG}path"))


@pytest.mark.parametrize("name", samples())
def test_every_node_and_connection_of_a_sample_is_in_the_picture(name: str):
    sample = samples()[name]
    boxes, edges = drawn(sample)
    assert len(boxes) == len(sample.nodes)
    assert edges == len({(edge.source.node, edge.target.node) for edge in sample.edges})
    assert {box["fill"] for box in boxes} <= {*TINTS.values(), OTHER_TINT}
    # The load node is the leftmost one on the canvas.
    assert boxes[[*sample.nodes].index("load")]["x"] == min((b["x"] for b in boxes), key=float)


def test_nodes_without_position_or_type_or_in_a_cycle_are_drawn_beside_each_other():
    nodes = {"a": Node(type="split"), "b": Node(type="<b>"), "c": Node(type="mart", bypass=True)}
    edges = (
        Edge.between("a.train", "c.table"),
        Edge.between("c.model", "a.table"),
        Edge.between("c.model", "gone.table"),
    )
    pipeline = Pipeline(name="<svg>", nodes=nodes, edges=edges, layout={"a": (5000.0, -100.0)})
    boxes, count = drawn(pipeline)
    assert len({(box["x"], box["y"]) for box in boxes}) == 3 and count == 2
    assert boxes[0]["fill"] == TINTS["Prepare"]
    assert {box["fill"] for box in boxes} == {TINTS["Prepare"], OTHER_TINT, TINTS["Train"]}
    assert [box.get("fill-opacity") for box in boxes].count("0.3") == 1


def test_an_empty_and_a_huge_pipeline_have_a_picture_too():
    assert drawn(Pipeline(name="Empty", nodes={})) == ([], 0)
    nodes = {f"n{number}": Node(type="split") for number in range(1000)}
    layout = {name: (at % 40 * 272.0, at // 40 * 144.0) for at, name in enumerate(nodes)}
    boxes, _ = drawn(Pipeline(name="Huge", nodes=nodes, layout=layout))
    assert len(boxes) == MOST_NODES
