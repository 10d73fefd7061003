"""A few node types that do nothing, and documents with them, for tests of the pipeline document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from engine.errors import BadInput
from engine.node_types import Column, NodeCatalog, NodeParams, NodeType, Port
from engine.pipeline import Edge, Node, Pipeline
from engine.workspace import Files


class ReadParams(NodeParams):
    source: str
    rows: int = Field(default=100, ge=1, le=1000)


class SplitParams(NodeParams):
    test_share: float = Field(default=0.25, gt=0, lt=1)
    shuffle: bool = True
    seed: int | None = None


class Grid(NodeParams):
    low: float
    high: float = 1.0

    @model_validator(mode="after")
    def in_order(self) -> Grid:
        if self.low > self.high:
            raise ValueError("low is above high; swap them")
        return self


class LearnParams(NodeParams):
    trees: int = Field(default=50, ge=1)
    depth: int | Literal["auto"] = "auto"
    loss: Literal["log", "hinge"] = "log"
    columns: tuple[str, ...] = ()
    grid: Grid | None = None


def _no_run(*_: Any) -> dict[str, Any]:
    raise AssertionError("these tests run no node")


def _check_source(params: ReadParams, files: Files) -> Iterator[BadInput]:
    if params.source == "broken":
        raise RuntimeError("the check itself fails")
    if params.source != "there":
        yield BadInput(f"there is no file '{params.source}'", field="source")


def _read_columns(inputs: Any, params: ReadParams) -> Any:
    return {"table": (Column("age", "number"), Column("income", "category", "target"))}


def _same_columns(inputs: Any, params: Any) -> Any:
    return {"train": inputs["table"], "test": inputs["table"]}


def _failing_columns(inputs: Any, params: Any) -> Any:
    return {"predictions": [inputs["nothing"]]}


READ = NodeType(
    "read", "Read", "Data", "Reads.", 1, ReadParams, _no_run,
    outputs=(Port("table", "table"),), check=_check_source, output_columns=_read_columns,
)  # fmt: skip
SPLIT = NodeType(
    "split", "Split", "Prepare", "Splits.", 1, SplitParams, _no_run,
    inputs=(Port("table", "table"),), outputs=(Port("train", "table"), Port("test", "table")),
    output_columns=_same_columns,
)  # fmt: skip
LEARN = NodeType(
    "learn", "Learn", "Train", "Learns.", 1, LearnParams, _no_run,
    inputs=(Port("table", "table"), Port("start", "model", required=False)),
    outputs=(Port("model", "model"),),
)  # fmt: skip
SCORE = NodeType(
    "score", "Score", "Predict", "Scores.", 1, NodeParams, _no_run,
    inputs=(Port("model", "model"), Port("table", "table")),
    outputs=(Port("predictions", "predictions"),),
    output_columns=_failing_columns,
)  # fmt: skip
COMPARE = NodeType(
    "compare", "Compare", "Evaluate", "Compares.", 1, NodeParams, _no_run,
    inputs=(Port("results", "predictions", many=True, accepts=("report",)),),
    outputs=(Port("report", "report"),),
)  # fmt: skip
CATALOG = NodeCatalog([READ, SPLIT, LEARN, SCORE, COMPARE])


def make(nodes: dict[str, str | Node], *edges: str, **more: Any) -> Pipeline:
    """``make({"a": "read", "b": "split"}, "a.table > b.table")``.

    A type alone gets the parameters that it must have.
    """
    return Pipeline(
        name=more.pop("name", "Test"),
        nodes={
            name: node if isinstance(node, Node) else node_of(node) for name, node in nodes.items()
        },
        edges=tuple(edge_of(edge) for edge in edges),
        **more,
    )


def node_of(node_type: str, **params: Any) -> Node:
    return Node(
        type=node_type, params={"source": "there"} | params if node_type == "read" else params
    )


def edge_of(text: str) -> Edge:
    return Edge.between(*text.split(" > "))


def whole() -> Pipeline:
    """A pipeline without a problem that uses every node type."""
    return make(
        {"load": "read", "split": "split", "forest": "learn", "apply": "score", "judge": "compare"},
        "load.table > split.table",
        "split.train > forest.table",
        "forest.model > apply.model",
        "split.test > apply.table",
        "apply.predictions > judge.results",
        layout={"load": (0, 0), "split": (260, 0)},
    )
