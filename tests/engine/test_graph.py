"""Which node reads from which."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.graph import PipelineGraph, model_behind, trained_model_behind
from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline


def graph(*edges: str) -> PipelineGraph:
    """A graph of edges such as ``ab``; its nodes are letters, in alphabetical order."""
    names = sorted(set("".join(edges)))
    return PipelineGraph(
        Pipeline(
            name="p",
            nodes={name: Node(type="any") for name in names},
            edges=tuple(Edge.between(f"{source}.out", f"{target}.in") for source, target in edges),
        )
    )


def test_every_node_comes_after_those_it_reads_from() -> None:
    assert graph("ca", "ab", "dc").order() == ["d", "c", "a", "b"]


def test_nodes_on_or_behind_a_cycle_are_not_in_the_order() -> None:
    assert graph("ab", "bc", "cb", "cd", "ae").order() == ["a", "e"]


@pytest.mark.parametrize(
    ("nodes", "above", "below"),
    [("c", "abc", "cde"), ("", "", ""), ("be", "abce", "bcde"), ("x", "", "")],
)
def test_what_a_node_depends_on_and_what_depends_on_it(nodes: str, above: str, below: str) -> None:
    chain = graph("ab", "bc", "cd", "ce")
    assert chain.upstream(nodes) == set(above)
    assert chain.downstream(nodes) == set(below)


def test_the_nodes_above_come_in_layers() -> None:
    assert list(graph("ad", "bd", "ca").layers_above("d")) == [["d"], ["a", "b"], ["c"]]


def test_each_group_of_nodes_in_a_cycle_is_named_once_from_its_first_node() -> None:
    assert graph("ef", "fe", "bc", "cd", "db", "ab").cycles() == [["b", "c", "d"], ["e", "f"]]
    assert graph("ab", "bc").cycles() == []


def test_a_path_is_the_shortest_one() -> None:
    assert graph("ab", "bc", "cd", "ad").path("a", "d") == ["a", "d"]
    assert graph("ab").path("b", "a") is None


def test_edges_that_make_no_sense_are_left_out() -> None:
    pipeline = Pipeline(
        name="p",
        nodes={"a": Node(type="any")},
        edges=(Edge.between("a.out", "a.in"), Edge.between("a.out", "gone.in")),
    )
    assert PipelineGraph(pipeline).order() == ["a"]


def test_the_model_of_an_evaluation_is_found_through_the_predictions() -> None:
    types = {"load": "load-data", "one": "mart", "two": "deep-forest"}
    types |= {f"predict_{model}": "predict" for model in ("one", "two")}
    types |= {f"evaluate_{model}": "evaluate" for model in ("one", "two")}
    edges = []
    for model in ("one", "two"):
        edges += [
            Edge.between("load.table", f"{model}.table"),
            Edge.between("load.table", f"predict_{model}.table"),
            Edge.between(f"{model}.model", f"predict_{model}.model"),
            Edge.between(f"predict_{model}.predictions", f"evaluate_{model}.predictions"),
        ]
    nodes = {name: Node(type=node_type) for name, node_type in types.items()}
    pipeline = Pipeline(name="p", nodes=nodes, edges=tuple(edges))
    catalog = load_catalog()
    assert model_behind(pipeline, catalog, "evaluate_two") == "two"
    assert model_behind(pipeline, catalog, "evaluate_one") == "one"
    assert model_behind(pipeline, catalog, "load") is None


def test_the_trained_model_is_found_behind_a_threshold() -> None:
    types = {"mart": "mart", "threshold": "choose-threshold", "predict": "predict"}
    edges = (
        Edge.between("mart.model", "threshold.model"),
        Edge.between("threshold.model", "predict.model"),
        Edge.between("predict.predictions", "evaluate.predictions"),
    )
    nodes = {name: Node(type=kind) for name, kind in (types | {"evaluate": "evaluate"}).items()}
    pipeline = Pipeline(name="p", nodes=nodes, edges=edges)
    catalog = load_catalog()
    assert model_behind(pipeline, catalog, "evaluate") == "threshold"
    assert trained_model_behind(pipeline, catalog, "evaluate") == "mart"
    assert trained_model_behind(pipeline, catalog, "mart") is None


def test_networkx_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys, engine.graph, engine.validation, engine.plan; "
        "sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
