"""A pipeline that is ready to run, made of a table and its target."""

from __future__ import annotations

import re
from typing import Any

from engine.pipeline import Edge, Node, Pipeline
from nodes.data.tables import Look, Reading

EDGES = (
    ("load.table", "split.table"),
    ("split.train", "forest.table"),
    ("forest.model", "predict.model"),
    ("split.test", "predict.table"),
    ("predict.predictions", "evaluate.predictions"),
)
LAYOUT = {"load": (0.0, 120.0), "split": (288.0, 120.0), "forest": (576.0, 0.0), "predict": (864.0, 120.0)} | {
    "evaluate": (1152.0, 120.0)
}


def pipeline_for(source: str, target: str, reading: Reading, seen: Look) -> Pipeline:
    """Load the table, split it, train a deep forest on one part and judge it by the other."""
    params: dict[str, Any] = {"source": source, "target": target, **reading.settings}
    if seen.without_target:
        params["missing_target"] = "drop"
    if seen.empty:
        params["empty_columns"] = "drop"
    nodes = {
        "load": Node(type="load-data", params=params, label=title_of(source)),
        "split": Node(type="split"),
        "forest": Node(type="deep-forest"),
        "predict": Node(type="predict"),
        "evaluate": Node(type="evaluate"),
    }
    edges = tuple(Edge.between(start, end) for start, end in EDGES)
    return Pipeline(name=f"Learn {title_of(source)}", nodes=nodes, edges=edges, layout=LAYOUT)


def title_of(source: str) -> str:
    """A source as a title: the name of the file without folder and ending, or that of the sample."""
    name = source.removeprefix("sample:").rpartition("/")[2]
    name = re.sub(r"(\.\w{1,8})?\.(gz|bz2|zst)$|\.\w{1,8}$", "", name) or name
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", name)[:100]
