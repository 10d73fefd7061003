from __future__ import annotations

import json
from typing import Any

import pytest

from engine.errors import Problem
from engine.node_types import load_catalog
from engine.pipeline import Edge, Group, Node, NodeSettings, Note, Pipeline, PortRef, Sweep
from engine.validation import connection_rules, find_problems
from ui.studio.canvas.protocol import (
    MAX_IMPORT,
    Reveal,
    Revision,
    RunRequest,
    apply_edit,
    import_in,
    payload,
    port_in,
    run_in,
    selection_in,
)

CATALOG = load_catalog()
DOCUMENT = Pipeline(
    name="Two nodes",
    nodes={
        "load": Node(
            type="load-data", params={"source": "sample:digits"}, settings=NodeSettings(retries=2)
        ),
        "split": Node(type="split", label="In two"),
    },
    edges=(Edge.between("load.table", "split.table"),),
    layout={"load": (0, 0), "split": (288, 0)},
    notes=(Note(text="why", x=1, y=2),),
)


def sent(**changes: Any) -> dict[str, Any]:
    """The edit a canvas sends that has changed nothing, but for these parts of its document."""
    document = {
        "nodes": {name: {"type": node.type} for name, node in DOCUMENT.nodes.items()},
        "edges": [{"from": "load.table", "to": "split.table"}],
        "layout": {"load": [0, 0], "split": [288, 0]},
        "notes": [{"text": "why", "x": 1, "y": 2, "width": 240, "height": 120}],
        "groups": [],
    }
    edit = {
        "instance": "tab",
        "pipeline": "p",
        "revision": 3,
        "epoch": 7,
        "document": {**document, **changes},
    }
    return json.loads(json.dumps(edit))


def taken_from(edit: object, pipeline: Pipeline = DOCUMENT, taken: Revision = Revision()):  # noqa: B008
    return apply_edit(pipeline, edit, pipeline_id="p", epoch=7, taken=taken)


def payload_of(pipeline: Pipeline = DOCUMENT, **changes: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "pipeline_id": "p",
        "epoch": 7,
        "taken": Revision(),
        "problems": [],
        "states": {},
        "reveal": None,
        "height": 600,
    }
    return payload(pipeline, CATALOG, **{**parts, **changes})


def test_payload_is_plain_json_with_the_engines_own_connection_rules():
    data = json.loads(json.dumps(payload_of()))
    assert data["rules"] == connection_rules(CATALOG)
    assert data["categories"] == ["Data", "Prepare", "Train", "Predict", "Evaluate", "Save"]
    assert data["types"]["split"]["title"] == CATALOG["split"].title
    assert data["document"]["edges"] == [{"from": "load.table", "to": "split.table"}]
    assert data["document"]["nodes"]["load"] == {
        "type": "load-data",
        "params": {"source": "sample:digits"},
        "settings": {"retries": 2},
    }


def test_problems_are_said_shortly_for_the_badge_of_their_node():
    pipeline = Pipeline(name="One", nodes={"predict": Node(type="predict")})
    found = payload_of(pipeline, problems=find_problems(pipeline, CATALOG))["problems"]
    assert [problem["node"] for problem in found] == ["predict", "predict"]
    # The badge is at its node already: the text begins with the title of the input.
    assert found[0]["text"].startswith("Model: ")
    assert "predict" not in found[0]["text"].lower()


def test_states_are_kept_within_what_the_canvas_can_show():
    states = {
        "load": {"state": "running", "progress": 1.7},
        "split": {"state": "odd"},
        "gone": {"state": "done"},
    }
    shown = payload_of(states=states)["states"]
    assert shown["load"] == {
        "state": "running",
        "progress": 1.0,
        "text": "",
        "seconds": None,
        "result": "",
        "headline": "",
    }
    assert shown["split"]["state"] == "idle"
    assert "gone" not in shown


def test_reveal_and_taken_travel_along():
    data = payload_of(reveal=Reveal("split", 4), taken=Revision("tab", 9))
    assert data["reveal"] == {"node": "split", "token": 4}
    assert data["taken"] == {"instance": "tab", "revision": 9}


def test_no_edit_leaves_the_very_same_document():
    assert taken_from(None).pipeline is DOCUMENT
    assert taken_from(sent()).pipeline is DOCUMENT
    assert taken_from(sent()).taken == Revision("tab", 3)


def test_an_edit_sets_topology_and_keeps_what_python_owns():
    nodes = {
        "split": {"type": "split"},
        "load": {"type": "load-data"},
        "mart": {"type": "mart", "since": 3},
    }
    edges = [{"from": "split.train", "to": "mart.table"}]
    edited = taken_from(sent(nodes=nodes, edges=edges, layout={"mart": [16, 32]}, notes=[]))
    pipeline = edited.pipeline
    assert list(pipeline.nodes) == ["split", "load", "mart"]
    assert pipeline.nodes["load"] == DOCUMENT.nodes["load"]
    assert pipeline.nodes["split"].label == "In two"
    assert pipeline.edges == (Edge.between("split.train", "mart.table"),)
    assert pipeline.layout == {"mart": (16, 32)}
    assert pipeline.notes == ()
    assert edited.restored == {"mart"}
    assert pipeline.name == DOCUMENT.name


def test_groups_travel_both_ways_as_the_canvas_sets_them():
    groups = [{"title": "Data", "nodes": ["load", "split"], "collapsed": True}]
    first = taken_from(sent(groups=groups))
    assert first.pipeline.groups == (Group(title="Data", nodes=("load", "split"), collapsed=True),)
    assert payload_of(first.pipeline)["document"]["groups"] == groups
    assert taken_from(sent(groups=groups), first.pipeline, first.taken).pipeline is first.pipeline
    assert taken_from(sent(), first.pipeline, first.taken).pipeline.groups == ()


def test_bypass_is_content_of_a_node_and_is_set_once():
    nodes = {"load": {"type": "load-data"}, "split": {"type": "split", "bypass": True, "since": 3}}
    first = taken_from(sent(nodes=nodes))
    assert first.pipeline.nodes["split"].bypass
    assert first.restored == {"split"}
    assert payload_of(first.pipeline)["document"]["nodes"]["split"] == {
        "type": "split",
        "label": "In two",
        "bypass": True,
    }
    by_form = Pipeline(**{**dict(first.pipeline), "nodes": DOCUMENT.nodes})
    assert not taken_from(sent(nodes=nodes), by_form, first.taken).pipeline.nodes["split"].bypass


def test_only_the_contents_that_the_canvas_sends_are_set_and_empty_ones_are_defaults():
    sweep = Sweep(grid={"share": [0.1, 0.2]})
    split = Node(type="split", label="In two", params={"share": 0.37}, bypass=True, sweep=sweep)
    before = Pipeline(name="One", nodes={"split": split})

    def after(**contents: Any) -> Node:
        nodes = {"split": {"type": "split", "since": 3, **contents}}
        edit = sent(nodes=nodes, edges=[], layout={}, notes=[])
        return taken_from(edit, before).pipeline.nodes["split"]

    assert after(bypass=False) == split.model_copy(update={"bypass": False})
    assert after(label="") == split.model_copy(update={"label": ""})
    assert after(params={}) == split.model_copy(update={"params": {}})
    assert after(settings={}) == split.model_copy(update={"sweep": None})


def test_a_dropped_file_is_read_unless_it_is_too_large():
    assert import_in({"name": "a.json", "text": "{}"}) == ("a.json", "{}")
    assert import_in({"name": "a.json", "text": "x" * (MAX_IMPORT + 1)}) is None
    assert import_in({"name": "a.json"}) is None
    assert import_in(None) is None


def test_the_same_edit_taken_twice_changes_nothing_more():
    edit = sent(
        nodes={
            "load": {"type": "load-data"},
            "copy": {"type": "split", "since": 3, "label": "Copy"},
        }
    )
    first = taken_from(edit)
    second = taken_from(edit, first.pipeline, first.taken)
    assert second.pipeline is first.pipeline
    assert second.restored == frozenset()


def test_parameters_set_by_the_canvas_are_taken_once_and_a_later_form_wins():
    nodes = {
        "load": {"type": "load-data", "since": 3, "params": {"source": "old.csv"}},
        "split": {"type": "split"},
    }
    first = taken_from(sent(nodes=nodes))
    assert first.pipeline.nodes["load"].params == {"source": "old.csv"}
    assert first.pipeline.nodes["load"].settings == NodeSettings(retries=2)
    assert first.restored == {"load"}
    by_form = Pipeline(**{**dict(first.pipeline), "nodes": DOCUMENT.nodes})
    second = taken_from(sent(nodes=nodes), by_form, first.taken)
    assert second.pipeline.nodes["load"].params == {"source": "sample:digits"}


def test_a_new_life_of_the_canvas_counts_from_the_start():
    nodes = {"load": {"type": "load-data", "since": 1, "params": {"source": "new.csv"}}}
    edit = {**sent(nodes=nodes, edges=[], layout={}), "instance": "another tab", "revision": 1}
    edited = taken_from(edit, taken=Revision("tab", 40))
    assert edited.pipeline.nodes["load"].params == {"source": "new.csv"}
    assert edited.taken == Revision("another tab", 1)


@pytest.mark.parametrize("change", [{"epoch": 6}, {"epoch": 8}, {"pipeline": "another"}])
def test_an_edit_of_another_epoch_or_pipeline_is_left_to_the_canvas(change: dict[str, Any]):
    edited = taken_from({**sent(nodes={}), **change}, taken=Revision("tab", 2))
    assert edited.pipeline is DOCUMENT
    assert edited.taken == Revision("tab", 2)


@pytest.mark.parametrize(
    "edit",
    [
        "text",
        {},
        {**sent(), "document": []},
        {**sent(), "revision": None},
        {**sent(), "revision": float("inf")},
        {**sent(), "revision": True},
        sent(nodes=None),
        sent(nodes={"load": "load-data"}),
        sent(nodes={"load": {}}),
        sent(nodes={"a.b": {"type": "split"}}),
        sent(nodes={"load": {"type": "load-data", "since": 3, "params": {"source": float("nan")}}}),
        sent(nodes={"load": {"type": "load-data", "since": 3, "label": "x" * 201}}),
        sent(nodes={f"n{at}": {"type": "split"} for at in range(5001)}),
        sent(edges=None),
        sent(edges=[{"from": "load"}]),
        sent(layout={"load": [0, "1"]}),
        sent(layout={"load": [0, float("inf")]}),
        sent(notes=[{"text": "x" * 10_001, "x": 0, "y": 0}]),
        sent(notes=[{"text": "x", "x": 0, "y": 0, "html": "<b>"}]),
        sent(groups=None),
        sent(groups=[{"title": "", "nodes": ["load"]}]),
        sent(groups=[{"title": "Empty", "nodes": []}]),
        sent(groups=[{"title": "A", "nodes": ["load"], "colour": "red"}]),
        sent(nodes={"load": {"type": "load-data", "since": 3, "bypass": "yes"}}),
    ],
)
def test_what_is_not_an_edit_is_refused_as_a_problem(edit: object):
    with pytest.raises(Problem):
        taken_from(edit)


def test_a_refused_name_is_explained_without_a_regular_expression():
    nodes = {"load": {"type": "load-data", "since": 3, "label": "Deep\tforest"}}
    with pytest.raises(Problem, match="one line without tabs") as refused:
        taken_from(sent(nodes=nodes))
    assert "x1f" not in str(refused.value)


def test_events_name_nodes_that_are_there_or_nothing():
    assert selection_in(DOCUMENT, ["split", "gone", 3]) == ("split",)
    assert selection_in(DOCUMENT, None) == ()
    assert port_in(DOCUMENT, {"node": "split", "port": "train"}) == PortRef("split", "train")
    assert port_in(DOCUMENT, {"node": "gone", "port": "train"}) is None
    assert port_in(DOCUMENT, "split.train") is None
    assert run_in(DOCUMENT, {"node": "split", "direction": "from"}) == RunRequest("split", "from")
    assert run_in(DOCUMENT, {"node": "", "direction": "all"}) == RunRequest("", "all")
    assert run_in(DOCUMENT, {"node": "split", "direction": "all"}) is None
    assert run_in(DOCUMENT, {"node": "", "direction": "to"}) is None
    assert run_in(DOCUMENT, {"node": "split", "direction": "sideways"}) is None
    assert run_in(DOCUMENT, None) is None
