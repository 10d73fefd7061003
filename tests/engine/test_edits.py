from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.edits import (
    revise_params,
    set_description,
    set_label,
    set_name,
    set_params,
    set_settings,
    without_defaults,
)
from engine.errors import BadStructure, NotFinite, Problem, UnknownNode
from engine.pipeline import Group, Node, NodeSettings, Pipeline
from engine.pipeline_file import with_values
from tests.engine import fakes
from tests.engine.fakes import CATALOG, make, whole
from tests.expect import problems, refused


def test_an_edit_returns_a_new_pipeline_and_leaves_the_old_one():
    before = whole()
    after = set_label(
        set_description(set_name(before, "Other"), "What it is for"), "split", "Halve"
    )
    assert (after.name, after.description, after.nodes["split"].label) == (
        "Other",
        "What it is for",
        "Halve",
    )
    assert before == whole()
    assert (after.edges, after.layout, list(after.nodes)) == (
        before.edges,
        before.layout,
        list(before.nodes),
    )


def test_edits_keep_bypassed_nodes_and_groups():
    group = Group(title="Models", nodes=("forest",), collapsed=True)
    active = make({"forest": "learn"}, groups=(group,))
    forest = with_values(active.nodes["forest"], bypass=True)
    before = with_values(active, nodes={"forest": forest})
    after = set_params(set_label(before, "forest", "Best"), CATALOG, "forest", {"trees": 3})
    assert after.nodes["forest"].bypass
    assert after.groups == (group,)


def test_settings_of_a_node_are_replaced():
    after = set_settings(whole(), "split", NodeSettings(retries=3))
    assert after.nodes["split"].settings.retries == 3


@pytest.mark.parametrize(
    ("params", "stored"),
    [
        ({"test_share": 0.25, "shuffle": True, "seed": None}, {}),
        ({"seed": 3, "test_share": 0.5}, {"test_share": 0.5, "seed": 3}),
        ({"shuffle": 1}, {"shuffle": 1}),
        ({"unknown": 1, "test_share": 5}, {"test_share": 5, "unknown": 1}),
    ],
)
def test_parameters_equal_to_the_default_are_left_out_and_the_rest_ordered(params, stored):
    pipeline = set_params(whole(), CATALOG, "split", params)
    assert list(pipeline.nodes["split"].params.items()) == list(stored.items())


@pytest.mark.parametrize(
    ("params", "stored"),
    [
        ({"columns": []}, {}),
        ({"trees": 50.0}, {}),
        ({"grid": None}, {}),
        ({"columns": ["a"]}, {"columns": ["a"]}),
    ],
)
def test_defaults_are_compared_as_json(params, stored):
    assert without_defaults(fakes.LEARN, params) == stored


def test_parameters_of_an_unknown_type_are_stored_as_they_are():
    pipeline = set_params(make({"a": "zzz"}), CATALOG, "a", {"x": 1})
    assert pipeline.nodes["a"] == Node(type="zzz", params={"x": 1})


def test_present_parameters_are_revised():
    first = set_params(whole(), CATALOG, "split", {"seed": 3})
    second = revise_params(first, CATALOG, "split", lambda params: {**params, "test_share": 0.5})
    assert second.nodes["split"].params == {"seed": 3, "test_share": 0.5}


@pytest.mark.parametrize(
    ("edit", "expected", "naming"),
    [
        (lambda old: set_label(old, "laod", "x"), (UnknownNode, None, None), "'load'?"),
        (lambda old: set_label(old, "load", "x" * 201), (BadStructure, "load", "label"), "200"),
        (lambda old: set_params(old, CATALOG, "zzz", {}), (UnknownNode, None, None), "'zzz'"),
        (
            lambda old: set_params(old, CATALOG, "load", {"rows": float("inf")}),
            (NotFinite, "load", "rows"),
            "",
        ),
        (lambda old: set_settings(old, "zzz", NodeSettings()), (UnknownNode, None, None), "'zzz'"),
        (lambda old: set_name(old, ""), (BadStructure, None, "name"), "1"),
        (
            lambda old: set_description(old, "x" * 10_001),
            (BadStructure, None, "description"),
            "10000",
        ),
    ],
)
def test_an_edit_that_cannot_be_made_names_the_reason(
    edit: Callable[[Pipeline], Pipeline],
    expected: tuple[type[Problem], str | None, str | None],
    naming: str,
):
    with refused(Problem, naming=naming) as caught:
        edit(whole())
    problems([caught.value], expected)
