"""Only what differs between pipelines is told, in the words of the form."""

from __future__ import annotations

from typing import Any

import pytest

from engine.node_types import load_catalog
from engine.pipeline import Edge, Node, NodeSettings, Pipeline, Sweep
from engine.pipeline_diff import changes
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
                ("Base learners · 2 · kind", "mart", "–"),
                ("Base learners · 2 · trees", "5", "–"),
            ],
        ),
        (mart(odd={"low": 1}), mart(odd={"low": 2}), [("odd.low", "1", "2")]),
        (mart(), Pipeline(name="y", nodes={}), [("Node", "present", "missing")]),
        (
            mart(trees=5),
            Pipeline(name="y", nodes={"m": Node(type="mlp")}),
            [("Type", "mart", "mlp")],
        ),
        (
            Pipeline(name="x", nodes={"m": Node(type="mart", settings=NodeSettings(retries=3))}),
            mart(),
            [("retries", "3", "–")],
        ),
        (
            Pipeline(name="x", nodes={"m": Node(type="mart", bypass=True)}),
            mart(),
            [("Bypass", "yes", "–")],
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
            "γ: 0.5; preset: mddf, default",
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
    assert rows == [{"Node": "Deep forest (m)", "Setting": "Sweep", "A": words, "B": "–"}]


def test_a_node_is_named_by_its_label_and_its_id() -> None:
    labelled = Pipeline(
        name="x", nodes={"m": Node(type="mart", label="Boosted", params={"trees": 2})}
    )
    rows = changes({"A": labelled, "B": mart()}, load_catalog())
    assert rows == [{"Node": "Boosted (m)", "Setting": "Trees", "A": "2", "B": "100"}]


def test_another_wire_is_a_difference() -> None:
    one = pipeline(m="mart")
    edges = [edge for edge in one.edges if str(edge.target) != "m.table"]
    other = one.model_copy(update={"edges": (*edges, Edge.between("load.table", "m.table"))})
    rows = changes({"A": one, "B": other}, load_catalog())
    assert rows == [
        {"Node": "MART (m)", "Setting": "Input table", "A": "split.train", "B": "load.table"}
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
    assert rows == [{"Node": "no-such (a)", "Setting": "b", "A": "1", "B": "2"}]
