"""Every built-in node type passes the shared suite, with real inputs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pydantic import Field

from engine.node_types import NodeContext, NodeParams, NodeType, Port, load_catalog
from engine.pipeline_file import parse
from engine.testing import check_node
from engine.validation import find_problems
from engine.values import Folder, Report, Table
from nodes import NODE_TYPES, deep_forest, evaluate, predict

from .conftest import MODELS

QUICK: dict[str, dict[str, Any]] = {
    **{name: params for name, (_, params) in MODELS.items()},
    "feature-selection": {"trees": 5},
    "derive-column": {"name": "sum", "expression": "pixel_2_3 + pixel_3_3"},
    "join": {"on": ["pixel_2_3", "pixel_3_3"], "several": "first"},
    "load-model": {"name": "kept"},
    "inspect-layers": {"rows": 50, "perplexity": 5.0},
    "save-model": {"name": "kept"},
}


@pytest.fixture
def examples(ctx: NodeContext, digits: Table, tmp_path: Path) -> dict[str, Any]:
    """One value for every type of port, each made by the node that would make it."""
    # Two of the ten digits: a threshold needs two classes.
    zeros_and_ones = pc.is_in(digits.labels().cast("string"), pa.array(["0", "1"]))
    table = digits.with_data(digits.data.filter(zeros_and_ones).slice(0, 300))
    folder = tmp_path / "model"
    folder.mkdir()
    params = deep_forest.NODE.params(**QUICK["deep-forest"])
    deep_forest.NODE.run(ctx, {"table": table}, params)["model"].save(folder)
    for place in ("first", "second"):  # where the suite runs a node: what a workspace has there
        shutil.copytree(folder, tmp_path / place / "models" / "kept")
    predictions = predict.NODE.run(
        ctx, {"model": Folder(folder), "table": table}, predict.NODE.params()
    )["predictions"]
    report = evaluate.NODE.run(ctx, {"predictions": predictions}, evaluate.NODE.params())["report"]
    return {"table": table, "model": Folder(folder), "predictions": predictions, "report": report}


@pytest.mark.parametrize("node_type", NODE_TYPES, ids=lambda node_type: node_type.name)
def test_every_node_type_keeps_the_contract(
    node_type: NodeType, examples: dict[str, Any], tmp_path: Path
) -> None:
    inputs = {
        port.name: [examples[port.type]] * 2 if port.many else examples[port.type]
        for port in node_type.inputs
    }
    if node_type.name == "linear-regression":
        # It learns numbers; each pixel is one.
        inputs = {name: replace(table, target="pixel_3_4") for name, table in inputs.items()}
    check_node(node_type, tmp_path, inputs, node_type.params(**QUICK.get(node_type.name, {})))


def test_the_catalog_finds_every_built_in_type() -> None:
    assert {node_type.name for node_type in NODE_TYPES} <= set(load_catalog())
    assert load_catalog().failures == []


class Untitled(NodeParams):
    size: int = Field(1, description="No title.")


def node(**changes: Any) -> NodeType:
    def run(ctx: NodeContext, inputs: dict[str, Any], params: Any) -> dict[str, Any]:
        return {"report": Report("x", "X", {})}

    good: dict[str, Any] = {
        "name": "good",
        "title": "Good",
        "category": "Data",
        "summary": "Does nothing.",
        "version": 1,
        "params": NodeParams,
        "run": run,
        "outputs": (Port("report", "report"),),
    }
    return NodeType(**good | changes)


def counting_run():
    count = iter(range(100))
    return lambda ctx, inputs, params: {"report": Report("x", "X", {"value": next(count)})}


def test_a_good_node_passes(tmp_path: Path) -> None:
    check_node(node(), tmp_path, {})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Not Good"}, "lower-case"),
        ({"summary": "no sentence"}, "sentence"),
        ({"version": 0}, "version"),
        ({"params": Untitled}, "'size' needs a title"),
        ({"outputs": (Port("report", "report"), Port("report", "table"))}, "same name"),
        ({"outputs": (Port("Re port", "report"),)}, "lower-case letters"),
        ({"outputs": (Port("report", "picture"),)}, "unknown type"),
        ({"imports": ("no_such_module_anywhere",)}, "not installed"),
        ({"run": lambda ctx, inputs, params: {}}, "promises"),
        ({"run": counting_run()}, "two runs"),
    ],
)
def test_what_is_wrong_with_a_node_is_named(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=words):
        check_node(node(**changes), tmp_path, {})


@pytest.mark.parametrize(
    ("learner", "naming"),
    [
        ({"kind": "oak"}, ["'kind'", "'oak'", "'random_forest'"]),
        ({"trees": 3}, ["'kind'"]),
        ({"kind": "mart", "max_features": "sqrt"}, ["max_features"]),
    ],
)
def test_a_learner_that_is_none_is_named_in_plain_words(
    learner: dict[str, Any], naming: list[str]
) -> None:
    nodes = {"forest": {"type": "deep-forest", "params": {"learners": [learner]}}}
    document = parse(
        json.dumps({"format": "sylva-pipeline", "version": 1, "name": "x", "nodes": nodes})
    )
    said = [str(problem) for problem in find_problems(document, load_catalog())]
    assert any(all(value in each for value in naming) for each in said), said
