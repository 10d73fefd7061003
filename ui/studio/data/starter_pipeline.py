"""Make a pipeline from a table and its target that is ready to run."""

from __future__ import annotations

import re
from typing import Any

from engine.pipeline import Edge, Node, Pipeline
from nodes.data.formats import FileFormat
from nodes.data.tables import Preview

EDGES = (
    ("load.table", "split.table"),
    ("split.train", "forest.table"),
    ("forest.model", "predict.model"),
    ("split.test", "predict.table"),
    ("predict.predictions", "evaluate.predictions"),
)
LAYOUT = {
    "load": (0.0, 120.0),
    "split": (288.0, 120.0),
    "forest": (576.0, 0.0),
    "predict": (864.0, 120.0),
} | {"evaluate": (1152.0, 120.0)}


def pipeline_for(source: str, target: str, file_format: FileFormat, seen: Preview) -> Pipeline:
    """Return a pipeline that trains a deep forest on one part of a table and tests it on the other.

    ``seen`` is the preview of the table. Rows without a target and columns without values are
    dropped if it has any: the pipeline would fail otherwise.
    """
    params: dict[str, Any] = {"source": source, "target": target, **file_format.settings}
    if seen.rows_without(target):
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
    """Return the title of a source: the name of the sample, or of the file without its ending."""
    name = source.removeprefix("sample:").rpartition("/")[2]
    # Remove the ending, and a second one before ``.gz``.
    name = re.sub(r"(\.\w{1,8})?\.(gz|bz2|zst)$|\.\w{1,8}$", "", name) or name
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", name)[:100]
