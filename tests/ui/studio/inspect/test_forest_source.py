"""Which deep forests a run holds, and what is known of them at each moment."""

from __future__ import annotations

import json

import pytest

from engine.node_types import load_catalog
from engine.pipeline_file import parse
from engine.run_state import NodeState, RunState
from engine.store import Artifact
from tests.ui.studio.inspect.lab import RECORDS, pipeline, record, small
from ui.studio.inspect.forest_source import (
    ForestChoice,
    choices,
    evaluations_of,
    forest_view,
    growth_text,
    listed,
    reported_layers,
    screened,
)

CATALOG = load_catalog()
MODEL = Artifact("model", "m" * 64, {}).to_dict()
LAYERS = Artifact("layers", "n" * 64, {}).to_dict()
TOLD = {"layer-10": record(10, metric=""), "layer-2": record(2, metric=""), "other": {}}


def run_of(**nodes: NodeState) -> RunState:
    return RunState("r", "Digits", 0.0, "running", nodes)


def look(node: str, state: RunState, **params: object):
    found = {choice.node: choice for choice in choices(pipeline(**params), state, CATALOG)}
    forest = {"layers": RECORDS, "metric": "accuracy"}
    return forest_view(found[node], state, lambda output: forest, lambda output: small())


def test_inspections_come_first_and_a_forest_that_is_inspected_is_not_listed_beside_them():
    state = run_of(load=NodeState("done"), forest=NodeState("done"), inspect=NodeState("running"))
    found = choices(pipeline(), state, CATALOG)
    assert [(choice.node, choice.label, choice.forest) for choice in found] == [
        ("inspect", "Deep forest", "forest"),
        ("forest", "Deep forest", "forest"),
    ]
    assert [choice.node for choice in listed(found)] == ["inspect"]
    assert [
        choice.node for choice in listed(choices(pipeline(inspected=False), state, CATALOG))
    ] == ["forest"]


def test_a_node_that_the_run_leaves_out_is_no_choice():
    assert choices(pipeline(), run_of(load=NodeState("done")), CATALOG) == []


def test_a_run_that_is_just_starting_has_its_forests_in_the_queue():
    assert [(choice.node, choice.state) for choice in choices(pipeline(), run_of(), CATALOG)] == [
        ("inspect", "queued"),
        ("forest", "queued"),
    ]
    assert look("forest", run_of()).unfinished is not None


def test_a_finished_inspection_has_everything():
    seen = look(
        "inspect",
        run_of(forest=NodeState("done"), inspect=NodeState("cached", outputs={"layers": LAYERS})),
    )
    assert seen.layers is not None and len(seen.stages) == 2 and seen.metric == "accuracy"
    assert seen.digest == "n" * 64 and seen.unfinished is None


def test_a_finished_forest_is_known_by_the_records_of_its_model():
    seen = look("forest", run_of(forest=NodeState("done", outputs={"model": MODEL})))
    assert (
        seen.layers is None
        and seen.records == RECORDS
        and [layer["number"] for layer in seen.kept] == [1, 2]
    )


def test_a_growing_forest_is_known_by_the_layers_it_told_of():
    node = NodeState("running", text="layer 11", fraction=0.4, partial_results=TOLD)
    seen = look("forest", run_of(forest=node), metric="log_loss")
    assert [layer["number"] for layer in seen.records] == [2, 10]
    assert seen.metric == "log_loss" and seen.unfinished is node


def test_an_unfinished_inspection_shows_the_forest_it_waits_for():
    done = NodeState("done", outputs={"model": MODEL})
    seen = look(
        "inspect", run_of(forest=done, inspect=NodeState("running", text="t-SNE of layer 1"))
    )
    assert seen.records == RECORDS and seen.unfinished is not None and seen.layers is None
    failed = NodeState("failed", error={"kind": "error", "message": "no room", "field": None})
    assert (
        look("inspect", run_of(forest=done, inspect=failed)).error
        == "Inspect layers failed: no room"
    )


def test_a_forest_that_has_told_nothing_has_no_records():
    assert look("forest", run_of(forest=NodeState("queued"))).records == []
    assert reported_layers({}) == []


def test_an_inspection_of_a_model_from_elsewhere_stands_alone():
    choice = ForestChoice(
        "inspect", "Inspect layers", "Inspect layers", "inspect-layers", "running", None
    )
    state = run_of(inspect=NodeState("running"))
    seen = forest_view(
        choice, state, lambda output: pytest.fail("no model"), lambda output: small()
    )
    assert not seen.records and seen.unfinished is not None


@pytest.mark.parametrize(
    ("records", "growing", "named"),
    [
        (RECORDS, False, ["2 of 3 layers", "brought no gain above 0"]),
        (RECORDS[:2], True, ["2 layers", "growing"]),
        (RECORDS[:1], True, ["1 layer ", "growing"]),
        (RECORDS[:2], False, ["2 layers"]),
        (
            [record(1, reason="x; growth stopped: no wish for more")],
            False,
            ["1 layer ", "no wish for more"],
        ),
    ],
)
def test_growth_is_told_with_the_number_of_layers_and_the_reason_of_the_end(
    records, growing, named
):
    said = growth_text(records, growing=growing)
    assert all(each in said for each in named), said
    assert said != growth_text(records, growing=not growing)
    assert "growing" in said or not growing


def test_a_forest_without_layers_has_words_too():
    assert growth_text([], growing=False).endswith(".")


def test_only_rows_that_leave_before_the_last_layer_are_screened():
    assert screened([record(1, rows_out=5), record(2)])
    assert not screened([record(1), record(2, rows_out=100)])


def test_only_evaluations_say_how_good_a_forest_is():
    nodes = {
        "forest": {"type": "deep-forest"},
        "decide": {"type": "choose-threshold"},
        "predict": {"type": "predict"},
        "evaluate": {"type": "evaluate", "label": "On test rows"},
    }
    edges = [
        {"from": "forest.model", "to": "decide.model"},
        {"from": "forest.model", "to": "predict.model"},
        {"from": "predict.predictions", "to": "evaluate.predictions"},
    ]
    document = {"format": "sylva-pipeline", "version": 1, "name": "Decide"}
    drawn = parse(json.dumps({**document, "nodes": nodes, "edges": edges}))
    report = Artifact("report", "r" * 64, {})
    outputs = {"report": report.to_dict(), "model": MODEL}
    state = run_of(**{name: NodeState("done", outputs=outputs) for name in nodes})
    choice = ForestChoice("forest", "Forest", "Forest", "deep-forest", "done", "forest", "forest")
    assert evaluations_of(drawn, state, CATALOG, choice) == [("On test rows", report)]
