"""Only what differs between pipelines is told, in the words of the form."""

from __future__ import annotations

from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, NodeSettings, Pipeline, Sweep
from engine.pipeline_diff import changes, settings_of
from tests.ui.studio.compare.lab import pipeline


def mart(**params: Any) -> Pipeline:
    return Pipeline(name="x", nodes={"m": Node(type="mart", params=params)})


def forest(**params: Any) -> Pipeline:
    return Pipeline(name="x", nodes={"m": Node(type="deep-forest", params=params)})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (mart(trees=5), mart(trees=5), []),
        (mart(trees=5), mart(trees=6), [("Trees", "5", "6")]),
        (mart(trees=5), mart(), [("Trees", "5", "100")]),
        (mart(trees=100), mart(), []),
        (
            mart(learning_rate=0.2),
            mart(leaves=7),
            [("Learning rate", "0.2", "0.1"), ("Leaves", "31", "7")],
        ),
        (
            forest(learners=[{"kind": "mart"}, {"kind": "mart", "trees": 5}]),
            forest(learners=[{"kind": "mart"}]),
            [
                ("Base learners 2: Kind", "MART", "–"),
                ("Base learners 2: Trees", "5", "–"),
            ],
        ),
        (mart(odd={"low": 1}), mart(odd={"low": 2}), [("odd.low", "1", "2")]),
        (mart(), Pipeline(name="y", nodes={}), [("Node", "present", "missing")]),
        (
            mart(trees=5),
            Pipeline(name="y", nodes={"m": Node(type="mlp")}),
            [("Type", "MART", "Neural network")],
        ),
        (
            Pipeline(name="x", nodes={"m": Node(type="mart", settings=NodeSettings(retries=3))}),
            mart(),
            [("Retries", "3", "–")],
        ),
        (
            Pipeline(name="x", nodes={"m": Node(type="mart", bypass=True)}),
            mart(),
            [("Bypass", "yes", "no")],
        ),
        (mart(learning_rate=0.1 + 0.2), mart(learning_rate=0.3), []),
        (
            mart(learning_rate=0.1 + 0.2),
            mart(learning_rate=0.25),
            [("Learning rate", "0.3", "0.25")],
        ),
        (
            forest(learners=[{"kind": "completely_random_forest", "trees": 7}]),
            forest(learners=[{"kind": "completely_random_forest"}]),
            [("Base learners 1: Trees", "7", "100")],
        ),
    ],
)
def test_settings_and_nodes_that_differ(
    one: Pipeline, other: Pipeline, expected: list[tuple[str, ...]]
) -> None:
    rows = changes({"A": one, "B": other}, load_catalog())
    told = [(row["Setting"], row["A"], row["B"]) for row in rows]
    assert told[: len(expected)] == expected
    assert len(told) == len(expected) or expected[0][0] == "Type"


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ({"grid": {"gamma": [0.5, 0.9]}}, "γ: 0.5, 0.9"),
        (
            {"grid": {"gamma": [0.5], "preset": ["mddf", "default"]}},
            "γ: 0.5; preset: mdDF (Lyu, Yang and Zhou), Best all-round choice",
        ),
        ({"grid": {"learners.0.min_rows": [1, 5]}}, "min rows per leaf: 1, 5"),
        ({"random": {"gamma": {"from": 0.1, "to": 0.9}}, "trials": 4}, "γ: 0.1 to 0.9; 4 drawn"),
    ],
)
def test_a_sweep_is_told_in_words(sweep: dict[str, Any], words: str) -> None:
    swept = Pipeline(
        name="x", nodes={"m": Node(type="deep-forest", sweep=Sweep.model_validate(sweep))}
    )
    rows = changes({"A": swept, "B": forest()}, load_catalog())
    assert rows == [{"Node": "Deep forest", "Setting": "Sweep", "A": words, "B": "–"}]


def test_a_node_is_named_by_its_label() -> None:
    labelled = Pipeline(
        name="x", nodes={"m": Node(type="mart", label="Boosted", params={"trees": 2})}
    )
    rows = changes({"A": labelled, "B": mart()}, load_catalog())
    assert rows == [{"Node": "Boosted", "Setting": "Trees", "A": "2", "B": "100"}]


def test_another_wire_is_a_difference() -> None:
    one = pipeline(m="mart")
    edges = [edge for edge in one.edges if str(edge.target) != "m.table"]
    other = one.model_copy(update={"edges": (*edges, Edge.between("load.table", "m.table"))})
    rows = changes({"A": one, "B": other}, load_catalog())
    assert rows == [
        {
            "Node": "MART",
            "Setting": "Training rows",
            "A": "Split: Training rows",
            "B": "Load data: Table",
        }
    ]


def test_a_name_a_place_or_a_note_is_no_difference() -> None:
    one = mart(trees=5)
    assert (
        changes(
            {"A": one, "B": one.model_copy(update={"name": "z", "layout": {"m": (1, 2)}})},
            load_catalog(),
        )
        == []
    )


def test_a_type_that_is_not_installed_is_told_as_it_is_written() -> None:
    one, other = (
        Pipeline(name="x", nodes={"a": Node(type="no-such", params={"b": b})}) for b in (1, 2)
    )
    rows = changes({"A": one, "B": other}, load_catalog())
    assert rows == [{"Node": "no-such", "Setting": "b", "A": "1", "B": "2"}]


def renamed(document: Pipeline, **names: str) -> Pipeline:
    """The same pipeline with other ids."""
    edges = []
    for edge in document.edges:
        ends = [f"{names.get(end.node, end.node)}.{end.port}" for end in (edge.source, edge.target)]
        edges.append(Edge.between(*ends))
    nodes = {names.get(name, name): node for name, node in document.nodes.items()}
    return Pipeline(name=document.name, nodes=nodes, edges=tuple(edges))


def test_nodes_are_matched_by_label_and_place_and_not_by_id() -> None:
    one = pipeline(a="mart", b="random-forest")
    assert changes({"A": one, "B": renamed(one, a="b", b="a")}, load_catalog()) == []
    first, second = Node(type="mart", label="First"), Node(type="mart", label="Second")
    two = Pipeline(name="x", nodes={"a": first, "b": second})
    more = second.model_copy(update={"params": {"trees": 7}})
    swapped = Pipeline(name="x", nodes={"a": more, "b": first})
    assert changes({"A": two, "B": swapped}, load_catalog()) == [
        {"Node": "Second", "Setting": "Trees", "A": "100", "B": "7"}
    ]


def test_a_node_of_another_type_in_the_same_place_is_one_change() -> None:
    one, other = pipeline(m="mart"), pipeline(x="random-forest")
    rows = changes({"A": one, "B": other}, load_catalog())
    assert [(row["Setting"], row["A"], row["B"]) for row in rows] == [
        ("Type", "MART", "Random forest")
    ]


def test_settings_are_in_the_words_of_the_form() -> None:
    nodes = {
        "a": Node(type="load-data", params={"source": "sample:digits"}),
        "b": Node(type="deep-forest", params={"learners": [{"kind": "mart", "trees": 5}]}),
    }
    document = Pipeline(name="x", nodes=nodes)
    named = settings_of("a", document, load_catalog(), source_title=lambda name: "Digits")
    assert list(named.values()) == ["Digits"]
    assert settings_of("b", document, load_catalog()) == {
        "Base learners 1: Kind": "MART",
        "Base learners 1: Trees": "5",
    }


def test_a_setting_that_is_not_written_has_the_value_of_the_preset() -> None:
    presets = {"mddf": {"folds": 5, "patience": 2, "learners": [{"kind": "mart", "trees": 9}]}}

    def preset(node: Node) -> dict[str, Any]:
        return presets[str(node.params["preset"])]

    one = forest(preset="mddf", folds=3, learners=[{"kind": "mart"}])
    rows = changes({"A": one, "B": forest(preset="mddf")}, load_catalog(), preset=preset)
    assert [(row["Setting"], row["A"], row["B"]) for row in rows] == [
        ("Folds", "3", "5"),
        ("Base learners 1: Trees", "50", "9"),
    ]
    same = forest(preset="mddf", folds=5)
    assert not changes({"A": same, "B": forest(preset="mddf")}, load_catalog(), preset=preset)


def test_a_choice_is_shown_in_words() -> None:
    one, other = forest(resampling="nested"), forest(resampling="per_layer")
    [row] = changes({"A": one, "B": other}, load_catalog())
    assert not {row["A"], row["B"]} & {"nested", "per_layer", "per layer"}
