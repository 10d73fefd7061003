"""Results have the names that users gave, and a label computes nothing again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, Pipeline, Sweep
from engine.plan import RunOptions
from engine.result_names import named_report, result_names
from engine.runs import Runs
from engine.sweeps import expand
from engine.values import Report
from engine.workspace import Workspace
from tests.waiting import until

FEW = {"trees": 2}


def pipeline(**changes: dict[str, Any]) -> Pipeline:
    """Two models on one table, each with an evaluation; ``changes`` by node."""
    kinds = {"load": "load-data", "split": "split", "first": "mart", "second": "mart"}
    kinds |= {"predict_first": "predict", "predict_second": "predict"}
    kinds |= {"test_first": "evaluate", "test_second": "evaluate", "board": "compare"}
    settings: dict[str, dict[str, Any]] = {name: {"type": kind} for name, kind in kinds.items()}
    settings["load"]["params"] = {"source": "sample:wine"}
    settings["first"]["params"] = FEW
    settings["second"]["params"] = FEW
    nodes = {name: Node(**{**settings[name], **changes.get(name, {})}) for name in kinds}
    edges = [Edge.between("load.table", "split.table")]
    for model in ("first", "second"):
        edges += [
            Edge.between("split.train", f"{model}.table"),
            Edge.between("split.test", f"predict_{model}.table"),
            Edge.between(f"{model}.model", f"predict_{model}.model"),
            Edge.between(f"predict_{model}.predictions", f"test_{model}.predictions"),
            Edge.between(f"test_{model}.report", "board.reports"),
        ]
    return Pipeline(name="P", nodes=nodes, edges=tuple(edges))


def names(**changes: dict[str, Any]) -> dict[str, str]:
    written = pipeline(**changes)
    return result_names(written, expand(written, load_catalog()), load_catalog())


@pytest.mark.parametrize(
    ("changes", "first", "second"),
    [
        ({}, "MART 1", "MART 2"),
        ({"second": {"type": "random-forest"}}, "MART", "Random forest"),
        ({"first": {"label": "Mine"}}, "Mine", "MART"),
        ({"first": {"params": {"trees": 3}}}, "MART (trees 3)", "MART (trees 2)"),
        ({"first": {"params": {}}}, "MART (trees 100)", "MART (trees 2)"),
        (
            {"first": {"label": "Mine"}, "test_first": {"label": "On test"}},
            "On test",
            "MART",
        ),
        (
            {"test_first": {"label": "Label", "params": {"name": "Setting"}}},
            "Setting",
            "MART 2",
        ),
        (
            {"first": {"label": "A"}, "test_first": {"label": "T"}, "test_second": {"label": "T"}},
            "T (A)",
            "T (MART)",
        ),
        ({"first": {"label": "Same"}, "second": {"label": "Same"}}, "Same 1", "Same 2"),
        # A label that looks like the number of another node.
        ({"test_first": {"label": "MART 2"}}, "MART 2 (MART 1)", "MART 2 (MART 2)"),
    ],
)
def test_an_evaluation_is_named_by_its_label_or_its_model(
    changes: dict[str, Any], first: str, second: str
) -> None:
    known = names(**changes)
    assert (known["test_first"], known["test_second"]) == (first, second)
    assert not {"load", "split", "board"} & set(known)


def test_predictions_have_the_name_of_their_model() -> None:
    known = names(first={"label": "Mine"})
    assert (known["first"], known["predict_first"]) == ("Mine", "Mine")


def test_branches_of_a_sweep_have_the_label_and_their_values() -> None:
    swept = {"label": "Boosted", "params": {}, "sweep": Sweep(grid={"trees": [2, 3]})}
    known = names(first=swept)
    shown = [name for node, name in known.items() if node.startswith("test_first")]
    assert shown == ["Boosted trees=2", "Boosted trees=3"]
    assert known["test_second"] == "MART"


def comparison(**data: Any) -> Report:
    rows = [{"rank": 1, "name": "x", "auc": 0.9}, {"rank": 2, "name": "y", "auc": 0.8}]
    curves = [{"name": row["name"], "curves": []} for row in rows]
    best = {"best": "x", "metric": "auc", "value": 0.9}
    return Report("comparison", "Comparison", best, rows=rows, data={"curves": curves, **data})


def test_a_comparison_has_the_names_of_now() -> None:
    known = {"a": "Mine", "b": "Other"}
    shown = named_report(comparison(nodes=["b", "a"]), "board", known)
    assert shown.headline["best"] == "Other"
    assert [row["name"] for row in shown.rows] == ["Other", "Mine"]
    assert [curve["name"] for curve in shown.data["curves"]] == ["Other", "Mine"]
    assert [row["auc"] for row in shown.rows] == [0.9, 0.8]


@pytest.mark.parametrize("data", [{}, {"nodes": ["a"]}, {"nodes": ["a", "gone"]}, {"nodes": 7}])
def test_a_comparison_that_does_not_name_its_nodes_keeps_its_names(data: dict[str, Any]) -> None:
    report = comparison(**data)
    assert named_report(report, "board", {"a": "Mine", "b": "Other"}) == report


def test_only_an_evaluation_takes_the_name_of_its_node() -> None:
    report = Report("evaluation", "Deep forest", {"accuracy": 1.0})
    assert named_report(report, "test", {"test": "Mine"}).title == "Mine"
    assert named_report(report, "another", {"test": "Mine"}).title == "Deep forest"
    saved = Report("saved-model", "Saved 'x'", {})
    assert named_report(saved, "test", {"test": "Mine"}) == saved


def test_another_label_is_shown_and_computes_nothing_again(tmp_path: Path) -> None:
    runs = Runs(Workspace(tmp_path).create(), load_catalog())
    second = {"type": "random-forest", "sweep": Sweep(grid={"trees": [2, 3]}), "params": {}}

    def best_and_states(label: str) -> tuple[set[str], set[str], str]:
        """Run the pipeline with this label on both models; return names, states and headline."""
        changes = {"first": {"label": label}, "second": {**second, "label": f"{label} swept"}}
        run = runs.start(pipeline(**changes), RunOptions())
        until(lambda: not runs.state(run).live, what="the end of the run")
        [report] = runs.reports(run).values()
        states = {node.state for node in runs.state(run).nodes.values()}
        return {row["name"] for row in report.rows}, states, runs.headline(run)

    shown, states, _ = best_and_states("Mine")
    assert shown == {"Mine", "Mine swept trees=2", "Mine swept trees=3"} and states == {"done"}
    shown, states, headline = best_and_states("Yours")
    assert shown == {"Yours", "Yours swept trees=2", "Yours swept trees=3"}
    assert states == {"cached"}
    assert headline.startswith(("best Yours", "tie of 3, first Yours"))


@pytest.mark.parametrize(
    ("label", "name"), [("", "Mine"), ("With a threshold", "With a threshold")]
)
def test_a_model_that_only_gets_a_threshold_keeps_its_name(label: str, name: str):
    written = pipeline(first={"label": "Mine"})
    nodes = {**written.nodes, "decide": Node(type="choose-threshold", label=label)}
    edges = [edge for edge in written.edges if edge.names != ("first.model", "predict_first.model")]
    edges += [
        Edge.between("first.model", "decide.model"),
        Edge.between("split.validation", "decide.table"),
        Edge.between("decide.model", "predict_first.model"),
    ]
    written = Pipeline(name="P", nodes=nodes, edges=tuple(edges))
    found = result_names(written, expand(written, load_catalog()), load_catalog())
    assert {found[node] for node in ("decide", "predict_first", "test_first")} == {name}
    assert found["first"] == "Mine"
